//! What the system and the machine count of this process.
//!
//! Bytes and calls from `/proc/self/io`, resident memory from `/proc/self/status`, processor time
//! from `/proc/self/stat` and each thread's `schedstat`, instructions and cache misses by
//! `perf_event_open`, with the threads that were started after `Meters::new`.
//!
//! M1. What cannot be counted here is missing from the map, never zero, and `remarks` says so.
//!
//! Threads: the one that owns it. Tests: below.

use crate::result::float;
use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Counts that grow.
pub type Reading = BTreeMap<&'static str, u64>;

/// The open counters.
#[derive(Debug)]
pub struct Meters {
    hardware: Vec<(&'static str, Counter)>,
    remarks: Vec<String>,
}

const HARDWARE: [(&str, Hardware); 4] = [
    ("instructions", Hardware::INSTRUCTIONS),
    ("cycles", Hardware::CPU_CYCLES),
    ("cache_references", Hardware::CACHE_REFERENCES),
    ("cache_misses", Hardware::CACHE_MISSES),
];

/// Fields of `/proc/self/io` and what they are called here.
const IO: [(&str, &str); 5] = [
    ("wchar", "bytes_written_by_calls"),
    ("write_bytes", "bytes_to_device"),
    ("read_bytes", "bytes_from_device"),
    ("syscr", "read_calls"),
    ("syscw", "write_calls"),
];

impl Default for Meters {
    fn default() -> Self {
        Self::new()
    }
}

impl Meters {
    /// Opens what can be opened here. Threads that exist already are not counted.
    #[must_use]
    pub fn new() -> Self {
        let mut hardware = Vec::new();
        let mut missing = Vec::new();
        for (name, event) in HARDWARE {
            match open(event) {
                Ok(counter) => hardware.push((name, counter)),
                Err(error) => missing.push((name, error)),
            }
        }
        let mut remarks = Vec::new();
        if let Some((_, error)) = missing.first() {
            let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
            let names = names.join(", ");
            remarks.push(format!("this machine does not count {names}: {error}"));
        }
        if io().is_empty() {
            remarks.push("bytes and calls are not counted here: no /proc/self/io".to_owned());
        }
        if own_processor_time().is_none() {
            remarks.push("processor time is not counted here: no /proc/self/schedstat".to_owned());
        }
        Meters { hardware, remarks }
    }

    /// What is not counted, and why.
    #[must_use]
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// What was counted until now.
    pub fn read(&mut self) -> Reading {
        let mut reading = io();
        for (name, counter) in &mut self.hardware {
            if let Ok(count) = counter.read() {
                reading.insert(name, count);
            }
        }
        reading
    }
}

fn open(event: Hardware) -> std::io::Result<Counter> {
    let mut builder = Builder::new().kind(Event::Hardware(event));
    builder.inherit(true).exclude_kernel(true);
    let mut counter = builder.build()?;
    counter.enable()?;
    Ok(counter)
}

fn io() -> Reading {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    fields(&text, ':')
        .filter_map(|(name, count)| {
            let known = IO.iter().find(|(field, _)| *field == name)?;
            Some((known.1, count))
        })
        .collect()
}

fn fields(text: &str, separator: char) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(move |line| {
        let (name, rest) = line.split_once(separator)?;
        let number = rest.split_whitespace().next()?.parse().ok()?;
        Some((name.trim(), number))
    })
}

/// How much each count grew.
#[must_use]
pub fn grown(before: &Reading, after: &Reading) -> BTreeMap<String, f64> {
    after
        .iter()
        .map(|(name, after)| {
            let before = before.get(name).copied().unwrap_or(0);
            ((*name).to_owned(), float(after.saturating_sub(before)))
        })
        .collect()
}

/// The processor time that a process has taken with all its threads, in ticks of 10 ms; `None`
/// where `/proc` does not tell. `process` is its number, or `self`.
pub(crate) fn processor_time(process: &str) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The fields behind the name, which may itself hold spaces: utime is the 12th, then stime.
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks()? + ticks()?) * 10))
}

/// The processor time that the calling thread has taken; `None` where `/proc` does not tell.
pub(crate) fn own_processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let ns: u64 = stat.split_whitespace().next()?.parse().ok()?;
    // A kernel that was told not to count says 0.
    (ns > 0).then(|| Duration::from_nanos(ns))
}

/// Bytes of resident memory: now, and at most.
#[must_use]
pub fn resident() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |wanted: &str| {
        let mut fields = fields(&text, ':');
        fields
            .find(|(name, _)| *name == wanted)
            .map_or(0, |(_, kib)| kib * 1024)
    };
    (of("VmRSS"), of("VmHWM"))
}

/// Bytes that files below `dir` take on disk, holes not counted.
#[must_use]
pub fn space(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => space(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn writing_is_counted_where_the_system_counts() {
        let mut meters = Meters::new();
        let before = meters.read();
        let file = tempfile::tempdir().unwrap();
        std::fs::write(file.path().join("a"), vec![7; 100_000]).unwrap();
        let grown = grown(&before, &meters.read());
        if let Some(written) = grown.get("bytes_written_by_calls") {
            assert!(*written >= 100_000.0, "{written}");
        }
        assert!(space(file.path()) >= 100_000);
        assert!(resident().0 > 0 && resident().0 <= resident().1);
    }

    #[test]
    fn a_thread_that_computes_takes_processor_time_and_the_process_has_it() {
        let (Some(whole), Some(own)) = (processor_time("self"), own_processor_time()) else {
            return;
        };
        let taken = || own_processor_time().unwrap() - own;
        let begun = Instant::now();
        // Three ticks, of which the process may miss one at either end.
        while taken() < Duration::from_millis(30) {
            assert!(begun.elapsed() < Duration::from_secs(60), "it stands still");
            std::hint::black_box(fields("a: 1", ':').count());
        }
        assert!(processor_time("self").unwrap() - whole >= Duration::from_millis(10));
        let slept = std::thread::spawn(|| {
            let before = own_processor_time().unwrap_or_default();
            std::thread::sleep(Duration::from_millis(20));
            own_processor_time().unwrap_or_default() - before
        });
        assert!(slept.join().unwrap() < Duration::from_millis(10));
        assert_eq!(processor_time("no number"), None);
    }
}
