//! Progress on standard error: how far, how fast, how long still; nothing where nobody watches.
//!
//! Source: `indicatif`, which hides itself where standard error is no terminal.
//!
//! Tests: by eye; what it shows is no result.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// Redraws in a second: enough to see it move, too few to cost anything.
const TICK: Duration = Duration::from_millis(100);

/// A bar over a known number of bytes.
pub(crate) fn bytes(all: u64, what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{msg} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} left",
    )
    .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(all).with_style(style).with_message(what)
}

/// A count that grows towards an unknown end.
pub(crate) fn pairs(what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg} {human_pos} pairs, {per_sec}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    let bar = ProgressBar::new_spinner()
        .with_style(style)
        .with_message(what);
    bar.enable_steady_tick(TICK);
    bar
}

/// A bar over a known number of runs.
pub(crate) fn runs(all: u64, what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta} left",
    )
    .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(all).with_style(style).with_message(what)
}

/// A bar over a known time.
pub(crate) fn seconds(all: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {elapsed} {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(all).with_style(style)
}

/// A sign of life for work that does not tell how far it is.
pub(crate) fn busy(what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    let bar = ProgressBar::new_spinner()
        .with_style(style)
        .with_message(what);
    bar.enable_steady_tick(TICK);
    bar
}
