//! Instructions of what is measured, counted by valgrind's callgrind: most machines count none.
//!
//! Valgrind takes a program's instructions one by one: their number is exact, whatever else the
//! machine does, and all takes some fifty times as long. It collects while a client works a
//! schedule off and at no other time, and writes a part when that ends.
//!
//! I1. Only a client's own instructions count, with the store's code that it calls: not those of
//!     the store's threads, nor of what loads, warms up, settles or audits.
//! I2. The newest part is of what was measured, if one client did it and it is read right then.
//! I3. What cannot be counted here is said, never zero: where there is no valgrind, and of a
//!     program that is not optimised, whose instructions are others.
//!
//! Threads: plain data. Tests: below; all of it is run by `cargo xtask bench-check` alone, since
//! tests are not optimised (I3).

use crate::failure::{Failure, Outcome};
use crate::message::remove;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = "valgrind";
/// Collects while a client does this.
const COLLECTED: &str = "velella_bench::client::Client::work_off*";
/// Writes a part before a client does this, the last thing it does then. After the whole it could
/// not: of a call that was made while nothing was collected callgrind keeps no record.
const ENDED: &str = "velella_bench::client::Client::end*";
/// What parts are called, with a number behind.
const PART: &str = "part.";

/// A process of which callgrind counts the instructions.
#[derive(Debug)]
pub(crate) struct Callgrind {
    /// Where it writes parts.
    dir: PathBuf,
}

/// Why instructions cannot be counted here, for people, if so (I3).
#[must_use]
pub fn missing() -> Option<String> {
    if cfg!(debug_assertions) {
        return Some("instructions: this program is not optimised".to_owned());
    }
    let found = match Command::new(PROGRAM).arg("--version").output() {
        Ok(output) if output.status.success() => return None,
        Ok(output) => format!("it ended with {}", output.status),
        Err(error) => error.to_string(),
    };
    Some(format!(
        "instructions: cannot run {PROGRAM} ({found}); it is in the package of that name"
    ))
}

impl Callgrind {
    /// Gets ready to count in `dir`, which is emptied.
    pub(crate) fn new(dir: PathBuf) -> Outcome<Self> {
        remove(&dir)?;
        std::fs::create_dir(&dir).map_err(|error| Failure::file("create", &dir, error))?;
        Ok(Callgrind { dir })
    }

    /// What starts `program` so.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut out = OsString::from("--callgrind-out-file=");
        out.push(self.dir.join(PART.trim_end_matches('.')));
        let mut command = Command::new(PROGRAM);
        command
            .args(["--tool=callgrind", "--quiet"])
            .arg(format!("--toggle-collect={COLLECTED}"))
            .arg(format!("--dump-before={ENDED}"))
            .arg(out)
            .arg(program);
        command
    }

    /// Instructions in the newest part (I2).
    ///
    /// # Errors
    /// `System`, where there is none or it does not say.
    pub(crate) fn newest(&self) -> Outcome<u64> {
        let failed = |error: std::io::Error| Failure::file("read parts in", &self.dir, error);
        let entries = std::fs::read_dir(&self.dir).map_err(failed)?;
        let number = |name: OsString| name.to_str()?.strip_prefix(PART)?.parse::<u64>().ok();
        let newest = entries
            .flatten()
            .filter_map(|entry| number(entry.file_name()));
        let nothing = || Failure::file("find a part in", &self.dir, "callgrind wrote none");
        let newest = newest.max().ok_or_else(nothing)?;
        let file = self.dir.join(format!("{PART}{newest}"));
        let text = std::fs::read_to_string(&file);
        let text = text.map_err(|error| Failure::file("read", &file, error))?;
        let silent = || Failure::file("find the sum in", &file, "there is none");
        counted(&text).ok_or_else(silent)
    }
}

/// The sum of instructions that a part tells.
fn counted(part: &str) -> Option<u64> {
    let sum = part
        .lines()
        .find_map(|line| line.strip_prefix("summary:"))?;
    sum.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_part_is_the_one_with_the_greatest_number() {
        let dir = tempfile::tempdir().unwrap();
        let callgrind = Callgrind::new(dir.path().join("parts")).unwrap();
        assert!(callgrind.newest().is_err(), "nothing was written yet");
        for (name, sum) in [("part.9", 9), ("part.10", 10), ("part", 11), ("part.x", 12)] {
            let text = format!("version: 1\nevents: Ir\nsummary: {sum}\n");
            std::fs::write(callgrind.dir.join(name), text).unwrap();
        }
        assert_eq!(callgrind.newest().unwrap(), 10);
        std::fs::write(callgrind.dir.join("part.11"), "version: 1\n").unwrap();
        let error = callgrind.newest().unwrap_err().to_string();
        assert!(error.contains("part.11"), "{error}");
    }
}
