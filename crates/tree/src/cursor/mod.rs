//! Cursors over several tables: merged (levels, level 0) and end to end (within a level).
//!
//! All obey U1-U4 of `velella_base::Cursor`. Tests: beside each.

mod concat;
mod source;
mod merge;

pub use concat::ConcatCursor;
pub use merge::MergeCursor;
pub use source::Source;
