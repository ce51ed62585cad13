//! Rule `doors`: the outside world is reached through the crate that owns the door to it.
//!
//! Files through `vfs`, so that tests can fail, delay and lose them; atomics, locks, threads and
//! time through `sync`, so that loom sees them. Who owns a door, or need not use it, is in
//! `crate::layers`. Tests, benches and examples may go around; `Arc` is free everywhere. A line is
//! named once per door.
//!
//! Tests: below, each with a planted violation.

use crate::layers::{self, Door};
use crate::paths;
use crate::report::Report;
use crate::source::Source;
use crate::workspace::Workspace;

const RULE: &str = "doors";

/// Parts of `std::thread` that neither start nor stop anything.
const FREE: &[&str] = &["available_parallelism", "panicking", "JoinHandle", "Result"];

/// Prefixes of paths behind a door, and what to use instead.
const BEHIND: &[(&[&str], Door, &str)] = &[
    (&["std", "fs"], Door::Files, "use a `velella_vfs::Vfs`"),
    (
        &["std", "thread"],
        Door::Threads,
        "use `velella_sync::thread`",
    ),
    (
        &["std", "sync", "atomic"],
        Door::Threads,
        "use `velella_sync::atomic` (`atomic::machine` for a static or mapped memory)",
    ),
    (
        &["core", "sync", "atomic"],
        Door::Threads,
        "use `velella_sync::atomic`",
    ),
    (
        &["std", "sync", "Mutex"],
        Door::Threads,
        "use `velella_sync::lock`",
    ),
    (
        &["std", "sync", "RwLock"],
        Door::Threads,
        "use `velella_sync::lock`",
    ),
    (
        &["std", "sync", "Condvar"],
        Door::Threads,
        "use `velella_sync::parker`",
    ),
];

/// Ends of paths behind a door, and what to use instead.
const CALLS: &[(&[&str], Door, &str)] = &[
    (
        &["Instant", "now"],
        Door::Threads,
        "use `velella_sync::thread::now`",
    ),
    (
        &["SystemTime", "now"],
        Door::Threads,
        "use `velella_sync::thread::wall_ms`",
    ),
];

/// Checks every product file.
pub(crate) fn check(workspace: &Workspace, report: &mut Report) {
    for source in workspace.sources() {
        let open = layers::of(&source.crate_name).map_or(&[][..], |layer| layer.doors);
        check_source(source, open, report);
    }
}

fn check_source(source: &Source, open: &[Door], report: &mut Report) {
    let mut last_found = (0, Door::Files);
    for mention in paths::mentions(source.product_lines()) {
        let behind = BEHIND
            .iter()
            .find(|(prefix, ..)| starts(&mention.segments, prefix));
        let call = CALLS
            .iter()
            .find(|(suffix, ..)| ends(&mention.segments, suffix));
        let Some((_, door, remedy)) = behind.or(call) else {
            continue;
        };
        let last = mention.segments.last().map_or("", String::as_str);
        let told = last_found == (mention.line, *door);
        if open.contains(door) || FREE.contains(&last) || told {
            continue;
        }
        last_found = (mention.line, *door);
        report.find(
            RULE,
            (&source.path, mention.line),
            format!("`{}` goes around the door", mention.segments.join("::")),
            format!("{remedy}, or add what is missing there"),
        );
    }
}

fn starts(segments: &[String], prefix: &[&str]) -> bool {
    segments.len() >= prefix.len() && segments.iter().zip(prefix).all(|(a, b)| a == b)
}

fn ends(segments: &[String], suffix: &[&str]) -> bool {
    let tail = segments.len().checked_sub(suffix.len());
    tail.is_some_and(|tail| segments[tail..].iter().zip(suffix).all(|(a, b)| a == b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::planted;

    fn lines_found(crate_name: &str, inner: &str, text: &str) -> Vec<usize> {
        let manifest = format!("crates/{crate_name}/Cargo.toml");
        let path = format!("crates/{crate_name}/{inner}");
        let mut report = Report::default();
        check(&planted(&[(&manifest, ""), (&path, text)]), &mut report);
        report.findings.iter().map(|found| found.line).collect()
    }

    const AROUND: &str = "use std::{fs::File, sync::{Arc, atomic::AtomicU64}};\n\
                          use std::collections::BTreeMap;\n\
                          let t = Instant::now();\nstd::thread::sleep(d);\n";

    #[test]
    fn going_around_a_door_is_found() {
        assert_eq!(lines_found("lsm", "src/a.rs", AROUND), [1, 1, 3, 4]);
    }

    #[test]
    fn a_line_is_named_once_per_door() {
        let text = "use std::sync::atomic::{AtomicU32, Ordering};\n";
        assert_eq!(lines_found("lsm", "src/a.rs", text), [1]);
    }

    #[test]
    fn asking_about_threads_is_free() {
        let text = "std::thread::available_parallelism();\nuse std::thread::JoinHandle;\n";
        assert!(lines_found("lsm", "src/a.rs", text).is_empty());
    }

    #[test]
    fn the_owner_of_a_door_and_tests_may() {
        assert_eq!(lines_found("sync", "src/a.rs", AROUND), [1]);
        assert_eq!(lines_found("vfs", "src/a.rs", AROUND), [1, 3, 4]);
        assert!(lines_found("server", "src/a.rs", AROUND).is_empty());
        assert!(lines_found("lsm", "tests/a.rs", AROUND).is_empty());
        let inline = format!("#[cfg(test)]\nmod tests {{\n{AROUND}}}\n");
        assert!(lines_found("lsm", "src/a.rs", &inline).is_empty());
    }
}
