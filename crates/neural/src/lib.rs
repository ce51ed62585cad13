//! The guards that a network chooses: S3's (VLDB '19) 5.2, to be measured beside the other choices.
//!
//! A small sequence-to-sequence LSTM reads how keys and accesses spread over equal ranges of the
//! key space and says which share of the guards each range gets. It is trained here, on drawn
//! distributions, towards the shares that cost the fewest comparisons. Nothing in the product
//! depends on this crate; `docs/decisions/0011-neural-guards.md` says what came of it.
//!
//! N1. A seed and a build determine every parameter: one thread, no clock, no hash order.
//! N2. All arithmetic of the network is in `f32`; of the optimum it is trained towards, in `f64`.
//!
//! What the paper leaves open, and what is done here: the sizes of its layers (`Shape`); the loss
//! (divergence from the optimum's shares); the optimiser (Adam); how the truth to learn is found,
//! which it calls an approximation of an NP-complete problem (`optimum`); where in a range its
//! guards stand if it has several (ranges are split again, `selector`); what an encoder reads (the
//! same tuples, from the last to the first).
//!
//! Threads: a trained network is shared. Tests: beside each module; `examples/neural_guards.rs`
//! trains and compares.

#![forbid(unsafe_code)]

pub mod dense;
pub mod lstm;
pub mod attention;
pub mod adam;
pub mod question;
pub mod optimum;
pub mod network;
pub mod workload;
pub mod train;
pub mod selector;

pub use network::{Network, Shape};
pub use optimum::Optimum;
pub use question::{Answer, Question};
pub use selector::SplitGuards;
pub use train::{Plan, Report, train};
