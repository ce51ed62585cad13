//! A sign of life while a database opens: after a kill its journal is read first, and becomes
//! tables, seconds for each GiB.
//!
//! O1. One line on standard error, once the opening has taken a while; nothing where it is quick.
//!
//! Threads: one more while it opens, to tell. Tests: below.

use crate::failure::say;
use serde_json::json;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::Duration;

/// How long an opening takes before anybody is told.
const PATIENCE: Duration = Duration::from_secs(2);

/// Opens by `open`, and tells on standard error if that takes a while (O1).
pub(crate) fn patiently<T>(dir: &Path, as_json: bool, open: impl FnOnce() -> T) -> T {
    let line = match as_json {
        true => json!({ "opening": dir.display().to_string() }).to_string(),
        false => format!(
            "velella: still opening {}: after a kill or a power loss its journal is read first",
            dir.display()
        ),
    };
    told_after(PATIENCE, move || say(&line), open)
}

fn told_after<T>(
    patience: Duration,
    tell: impl FnOnce() + Send + 'static,
    open: impl FnOnce() -> T,
) -> T {
    let (over, is_over) = channel::<()>();
    let wait = move || {
        if is_over.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            tell();
        }
    };
    let waiting = Builder::new().name("velella-opening".to_owned());
    // Where no thread can be started, nobody is told: opening it is what was asked for.
    let waiting = waiting.spawn(wait).ok();
    let opened = open();
    drop(over);
    if let Some(thread) = waiting {
        // It only waits and tells; if it panicked, there is nothing to do about it.
        let _ended = thread.join();
    }
    opened
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_long_is_told_once_and_nobody_else() {
        let (tell, told) = channel();
        let opened = told_after(
            Duration::ZERO,
            move || tell.send("still").unwrap(),
            || told.recv_timeout(Duration::from_secs(60)),
        );
        assert_eq!(opened, Ok("still"), "while it opens");
        let (tell, told) = channel();
        let hour = Duration::from_secs(3600);
        assert_eq!(told_after(hour, move || tell.send(()).unwrap(), || 7), 7);
        assert!(told.recv().is_err(), "it was quick");
    }
}
