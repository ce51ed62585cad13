//! What signals do to a process that served, and serves no more: what they did before.
//!
//! The test starts itself as that process, which sends the signal to itself: whatever a handler
//! does has been done when that returns.

#![allow(clippy::unwrap_used, reason = "what helps a test fails as a test does")]

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::raise;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use velella::vfs::MemFs;
use velella_server::Config;

/// The signal that a process is to send itself, and whether it catches it.
const SIGNAL: &str = "VELELLA_SIGNAL_TEST";
const CATCHES: &str = "VELELLA_SIGNAL_TEST_CATCHES";

/// Exit code of a process that its signal did nothing to.
const LIVES_ON: i32 = 3;

/// Serves, and stops.
fn serve() {
    let builder = velella::Db::builder().memory(16 << 20);
    let db = builder.vfs(Arc::new(MemFs::new())).open("/db").unwrap();
    let config = Config {
        port: 0,
        threads: 1,
        ..Config::default()
    };
    velella_server::serve(config, db, |server| server.handle().stop()).unwrap();
}

/// The process: serves twice, then does what it was started for.
#[test]
fn child() {
    let Ok(signal) = std::env::var(SIGNAL) else {
        return;
    };
    let signal = signal.parse().unwrap();
    let caught = Arc::new(AtomicBool::new(false));
    let catches = std::env::var_os(CATCHES).is_some();
    if catches {
        signal_hook::flag::register(signal, Arc::clone(&caught)).unwrap();
    }
    serve();
    serve();
    raise(signal).unwrap();
    // Relaxed: the handler ran on this thread.
    assert_eq!(caught.load(Ordering::Relaxed), catches);
    std::process::exit(LIVES_ON);
}

fn ended(signal: i32, catches: bool) -> ExitStatus {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "child", "--nocapture"])
        .env(SIGNAL, signal.to_string())
        .stdout(Stdio::null());
    if catches {
        child.env(CATCHES, "");
    }
    child.status().unwrap()
}

/// Whether this process ignores `signal`, and so those that it starts: a shell may have programs in
/// the background ignore SIGINT.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap();
    (ignored >> (signal - 1)) & 1 == 1
}

#[test]
fn a_process_that_has_served_is_ended_by_a_signal_again() {
    for signal in [SIGTERM, SIGINT] {
        let ended = ended(signal, false);
        match is_ignored(signal) {
            true => assert_eq!(ended.code(), Some(LIVES_ON)),
            false => assert_eq!(ended.signal(), Some(signal)),
        }
    }
}

#[test]
fn a_signal_that_the_process_caught_before_it_served_stays_its_own() {
    for signal in [SIGTERM, SIGINT] {
        assert_eq!(ended(signal, true).code(), Some(LIVES_ON));
    }
}
