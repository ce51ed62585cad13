//! Results for people and programs.
//!
//! Tests: beside the modules; `tests/run.rs`.

pub mod text;
mod svg;
pub mod html;
