//! The parts of the model of the cut: files, recovery, and what must hold.

pub(crate) mod disk;
pub(crate) mod recovery;
pub(crate) mod judge;

pub(crate) use super::Rule;
