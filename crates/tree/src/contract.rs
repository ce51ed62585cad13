//! What every layout must do, as a suite its own tests run (feature `contract`).
//!
//! A layout is opened over a file system in memory by the function given to [`run`]; each case
//! panics with what it expected. The cases are the L-rules of the crate and what the engine relies
//! on: reads at every stamp, cursors both ways, versions that snapshots keep, files that go away,
//! an expired value that hides an older one, a reopening that finds everything.

mod bench;
mod cases;
mod model;

pub use bench::{Bench, OpenTree, Run, VecCursor};
pub use model::Model;

/// Runs every case on trees opened by `open`.
///
/// # Panics
/// Where the layout breaks the contract.
pub fn run(open: OpenTree) {
    for (name, case) in cases::ALL {
        // The name tells a failing case apart in the output of the one test that runs them.
        println!("contract: {name}");
        case(open);
    }
}
