//! What every kind of memtable must do, as tests to run on it.
//!
//! [`run`] takes a way to make an empty memtable and tries the whole of the trait's contract
//! (M1-M5 and the cursor's U1-U4) under three orders: bytewise, reversed, and one that takes
//! upper and lower case for the same.
//!
//! Threads: the racing tests start their own.
#![allow(
    clippy::unwrap_used,
    reason = "tests that other crates can run: a failed unwrap is a failed test"
)]

pub mod world;
#[cfg(not(any(loom, shuttle)))]
mod writes;
#[cfg(not(any(loom, shuttle)))]
mod cursors;
#[cfg(not(any(loom, shuttle)))]
mod model;
#[cfg(not(any(loom, shuttle)))]
mod walks;
#[cfg(not(any(loom, shuttle)))]
mod races;
#[cfg(not(loom))]
mod panics;

pub use world::World;

use crate::Memtable;
use std::sync::Arc;
use velella_base::Order;
use velella_mvcc::Slots;

/// Makes an empty memtable with the given order, resolving through the given slots.
pub type Make<'a> = &'a dyn Fn(Order, Arc<Slots>) -> Arc<dyn Memtable>;

/// The orders that every kind is tried under. An interpreter gets one of the custom ones: the one
/// that is harder to keep.
#[must_use]
pub fn orders() -> Vec<Order> {
    // It is called millions of times, so that it allocates nothing.
    let fold_case = |a: &[u8], b: &[u8]| {
        let (a, b) = (a.iter(), b.iter());
        a.map(u8::to_ascii_lowercase)
            .cmp(b.map(u8::to_ascii_lowercase))
    };
    let mut orders = vec![Order::Bytewise, Order::custom("fold-case", fold_case)];
    if !cfg!(miri) {
        orders.push(Order::custom("reversed", |a, b| b.cmp(a)));
    }
    orders
}

/// Runs the suite.
///
/// # Panics
/// If the memtable does not keep the contract.
#[cfg(not(any(loom, shuttle)))]
pub fn run(make: Make<'_>) {
    for order in orders() {
        let world = || World::new(make, &order);
        writes::run(&world);
        cursors::run(&world);
        model::run(&world);
        walks::run(&world);
        races::run(&world);
    }
    panics::run(make);
}
