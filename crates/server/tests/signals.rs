//! What signals do to a process that served, and serves no more: what they did before.
//!
//! The test starts itself as that process, which sends the signal to itself: whatever a handler
//! does has been done when that returns.

#![allow(clippy::unwrap_used, reason = "what helps a test fails as a test does")]

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::raise;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use velella::vfs::MemFs;
use velella_server::{Config, Server};

/// Those that stop a server.
const SIGNALS: [i32; 3] = [SIGTERM, SIGINT, SIGHUP];

/// The signal that a process is to send itself, and in what situation.
const SIGNAL: &str = "VELELLA_SIGNAL_TEST";
const SITUATION: &str = "VELELLA_SIGNAL_TEST_SITUATION";

/// It has served before.
const HAS_SERVED: &str = "has-served";
/// It catches the signal, and has served.
const CATCHES: &str = "catches";
/// It serves; another server of it has ended.
const SERVES: &str = "serves";

/// It serves, and whoever started it had it ignore the signal.
const IGNORES: &str = "ignores";

/// Exit code of a process that its signal did nothing to.
const LIVES_ON: i32 = 3;

/// Serves until it is stopped; `ready` is called meanwhile.
fn serve(ready: impl FnOnce(&Server)) {
    let builder = velella::Db::builder().memory(16 << 20);
    let db = builder.vfs(Arc::new(MemFs::new())).open("/db").unwrap();
    let config = Config {
        port: 0,
        threads: 1,
        ..Config::default()
    };
    velella_server::serve(config, db, ready).unwrap();
}

fn stop(server: &Server) {
    server.handle().stop();
}

/// The process: does what it was started for.
#[test]
fn child() {
    let Ok(signal) = std::env::var(SIGNAL) else {
        return;
    };
    let signal = signal.parse().unwrap();
    let situation = std::env::var(SITUATION).unwrap();
    if situation == SERVES {
        serve(|_| {
            serve(stop);
            raise(signal).unwrap();
            if signal == SIGHUP {
                // As where a terminal closes.
                raise(signal).unwrap();
            }
        });
        std::process::exit(LIVES_ON);
    }
    if situation == IGNORES {
        serve(|server| {
            assert!(is_ignored(signal));
            raise(signal).unwrap();
            stop(server);
        });
        std::process::exit(LIVES_ON);
    }
    let caught = Arc::new(AtomicBool::new(false));
    if situation == CATCHES {
        signal_hook::flag::register(signal, Arc::clone(&caught)).unwrap();
    }
    serve(stop);
    serve(stop);
    raise(signal).unwrap();
    // Relaxed: the handler ran on this thread.
    assert_eq!(caught.load(Ordering::Relaxed), situation == CATCHES);
    std::process::exit(LIVES_ON);
}

fn ended(signal: i32, situation: &str) -> ExitStatus {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "child", "--nocapture"])
        .env(SIGNAL, signal.to_string())
        .env(SITUATION, situation)
        .stdout(Stdio::null());
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
    for signal in SIGNALS {
        let ended = ended(signal, HAS_SERVED);
        match is_ignored(signal) {
            true => assert_eq!(ended.code(), Some(LIVES_ON)),
            false => assert_eq!(ended.signal(), Some(signal)),
        }
    }
}

#[test]
fn a_signal_that_the_process_caught_before_it_served_stays_its_own() {
    for signal in SIGNALS {
        assert_eq!(ended(signal, CATCHES).code(), Some(LIVES_ON));
    }
}

/// As `nohup` starts one.
#[test]
fn a_hangup_that_was_ignored_before_stays_ignored_while_it_serves() {
    let mut child = Command::new("sh");
    child
        .args(["-c", "trap '' HUP; exec \"$0\" --exact child --nocapture"])
        .arg(std::env::current_exe().unwrap())
        .env(SIGNAL, SIGHUP.to_string())
        .env(SITUATION, IGNORES)
        .stdout(Stdio::null());
    assert_eq!(child.status().unwrap().code(), Some(LIVES_ON));
}

#[test]
fn a_signal_stops_the_server_that_is_left() {
    // Nothing would stop it.
    for signal in SIGNALS.into_iter().filter(|signal| !is_ignored(*signal)) {
        assert_eq!(ended(signal, SERVES).code(), Some(LIVES_ON));
    }
}
