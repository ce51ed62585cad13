//! Concurrent histories: what clients asked, when, and what they were told.
//!
//! Beginnings and ends are numbers of one counter, so that of two operations of which one ended
//! before the other began, everybody agrees on which came first.

pub mod event;
pub mod clients;
mod times;
pub mod checker;
pub mod export;
