//! Ends a test that hangs.
//!
//! A deadlock must fail with the name of what hung, not stop the whole run, and say where every
//! thread stands: it may not come again for days. The limit is far above any healthy duration, so
//! it never decides about speed; where everything takes many times as long, as under a sanitizer,
//! [`patience`] is asked for more.
//!
//! Threads: one for each test that is watched. Tests: below.

use std::io::Write;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// `limit`, after which something hangs, times what `VELELLA_PATIENCE` says (default 1).
///
/// # Panics
/// It says no number: who asked for more would get less.
#[must_use]
pub fn patience(limit: Duration) -> Duration {
    limit * times(std::env::var("VELELLA_PATIENCE").ok().as_deref())
}

fn times(told: Option<&str>) -> u32 {
    told.map_or(1, |text| {
        text.parse().expect("VELELLA_PATIENCE is a number")
    })
}

/// Ends the process, naming the test, unless it is dropped in time. No test measures by it.
#[derive(Debug)]
pub struct Watchdog {
    over: Arc<AtomicBool>,
}

impl Watchdog {
    /// Watches `test` for so many seconds, or its [`patience`].
    #[must_use]
    pub fn new(test: &'static str, seconds: u64) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let watch = move || {
            let limit = patience(Duration::from_secs(seconds));
            let begun = Instant::now();
            while begun.elapsed() < limit {
                thread::sleep(Duration::from_millis(50));
                // Acquire, partner: `drop`.
                if seen.load(Ordering::Acquire) {
                    return;
                }
            }
            // Not by `eprintln!`: what that prints in a test is kept for its report, which an abort
            // never prints.
            let mut out = std::io::stderr();
            let _ = writeln!(out, "{test} hangs: no end after {limit:?}\n{}", threads());
            let _ = out.write_all(&stacks());
            std::process::abort();
        };
        drop(thread::spawn(watch));
        Watchdog { over }
    }
}

/// The threads of this process: what each is called, whether it runs (R) or waits (S, D), its clock
/// ticks as the user and in the kernel, and what it waits for there. Empty where the system does
/// not tell.
fn threads() -> String {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return String::new();
    };
    let line = |task: std::path::PathBuf| {
        let read = |name| std::fs::read_to_string(task.join(name)).unwrap_or_default();
        let stat = read("stat");
        // A name may hold anything, so fields are counted behind its end.
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        let (name, waits) = (read("comm"), read("wchan"));
        let [state, user, kernel] = [0, 11, 12].map(|field| fields.get(field).copied());
        let (name, state) = (name.trim_end(), state?);
        Some(format!(
            "  {name:<16} {state} {:>8} {:>8}  {waits}",
            user?, kernel?
        ))
    };
    let lines: Vec<String> = tasks
        .flatten()
        .filter_map(|task| line(task.path()))
        .collect();
    lines.join("\n")
}

/// Where each thread stands, if there is a debugger that can tell.
fn stacks() -> Vec<u8> {
    let process = std::process::id().to_string();
    let tell = ["-batch", "-ex", "thread apply all backtrace 24"];
    // Not for ever: the process is to end.
    let gdb = Command::new("timeout")
        .args(["60", "gdb", "-p", &process])
        .args(tell)
        .output();
    gdb.map_or_else(|_| Vec::new(), |told| told.stdout)
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Release, partner: the watching thread.
        self.over.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn patience_is_one_unless_told() {
        assert_eq!((times(None), times(Some("10"))), (1, 10));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_runs_and_one_that_waits_are_told_apart() {
        let _watchdog = Watchdog::new("threads_told_apart", 60);
        let (held, runs) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(true)));
        let (hold, run) = (Arc::clone(&held), Arc::clone(&runs));
        let guard = held.lock();
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        let waiter = named("the one) waits")
            .spawn(move || drop(hold.lock()))
            .unwrap();
        let runner = named("another runs")
            .spawn(move || while run.load(Ordering::Relaxed) {})
            .unwrap();
        let state = |name: &str| {
            let told = threads();
            let line = told
                .lines()
                .find(|line| line.contains(name))
                .unwrap_or_default()
                .to_owned();
            line.split(name)
                .nth(1)
                .and_then(|rest| rest.trim_start().chars().next())
        };
        while state("the one) waits") != Some('S') || state("another runs") != Some('R') {
            thread::yield_now();
        }
        runs.store(false, Ordering::Relaxed);
        drop(guard);
        runner.join().unwrap();
        waiter.join().unwrap();
    }

    #[test]
    #[should_panic(expected = "VELELLA_PATIENCE is a number")]
    fn patience_that_is_no_number_is_refused() {
        let _ = times(Some("long"));
    }
}
