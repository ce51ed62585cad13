//! Progress on standard error: a bar where a terminal is, a line for each benchmark elsewhere.
//!
//! Tests: by eye; what it shows is no result.

use indicatif::{ProgressBar, ProgressStyle};
use std::cell::RefCell;
use velella_bench::failure::Failure;
use velella_bench::result::Measurement;
use velella_bench::session::Watch;
use velella_cli::human;

/// The bar.
pub(crate) struct Bar {
    bar: ProgressBar,
    now: RefCell<String>,
}

impl Bar {
    pub(crate) fn new() -> Self {
        let style = "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta} left";
        let style =
            ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
        Bar {
            bar: ProgressBar::new(0).with_style(style),
            now: RefCell::default(),
        }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Watch for Bar {
    fn begun(&self, round: (u64, u64), threads: u64, store: &str, benchmark: &str) {
        let text = format!(
            "round {}/{}, {}, {store}: {benchmark}",
            round.0,
            round.1,
            human::counted(threads, "thread")
        );
        self.bar.reset();
        self.bar.set_message(text.clone());
        *self.now.borrow_mut() = text;
    }

    fn progress(&self, done: u64, of: u64) {
        self.bar.set_length(of);
        self.bar.set_position(done);
    }

    fn measured(&self, measurement: &Measurement) {
        if self.bar.is_hidden() {
            let rate = human::rate_of(measurement.rate());
            eprintln!("{}: {rate}/s", self.now.borrow());
        }
    }

    fn failed(&self, failure: &Failure) {
        self.bar.suspend(|| eprintln!("{failure}"));
    }
}
