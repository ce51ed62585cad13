//! What a run and the processes of its stores say to each other.
//!
//! The task goes to a process's standard input; what it did comes from its standard output, a line
//! of JSON each.
//!
//! Threads: plain data. Tests: `tests/run.rs`.

use crate::failure::{Failure, Outcome};
use crate::result::Measurement;
use crate::spec::Spec;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use velella_cli::scratch;

/// What to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// The store's name.
    pub store: String,
    /// Threads.
    pub threads: u64,
    /// Which round.
    pub round: u64,
    /// Where the store is to be.
    pub dir: PathBuf,
    /// The benchmarks, in order.
    pub specs: Vec<Spec>,
}

/// What is told of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// A benchmark, or what it needs before, has begun.
    Begun(String),
    /// So many operations of so many are done, and all numbers below the last one were inserted.
    Progress(u64, u64, u64),
    /// A benchmark was measured.
    Measured(Box<Measurement>),
    /// What cannot be measured here.
    Remarks(Vec<String>),
    /// The end: it went wrong.
    Failed(Failure),
}

/// Starts a process that performs `task`, with what `command` makes of this program.
pub(crate) fn spawn(task: &Task, command: impl FnOnce(&Path) -> Command) -> Outcome<Child> {
    let failed = |error: std::io::Error| Failure::system("start a process for the store", error);
    let program = std::env::current_exe().map_err(failed)?;
    let mut child = command(&program)
        .arg("child")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        let task = serde_json::to_vec(task).map_err(|error| failed(error.into()))?;
        stdin.write_all(&task).map_err(failed)?;
    }
    Ok(child)
}

/// Removes `dir` with all that is in it, if it is there.
pub(crate) fn remove(dir: &Path) -> Outcome<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::file("remove", dir, error))
        }
        _ => Ok(()),
    }
}

/// A directory of our own, removed at the end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// One below `parent`, named by this process.
    pub(crate) fn new(parent: &Path) -> Outcome<Self> {
        std::fs::create_dir_all(parent).map_err(|error| Failure::file("create", parent, error))?;
        let dir = scratch::create(parent, "velella-bench");
        let dir = dir.map_err(|error| Failure::file("create a directory in", parent, error))?;
        Ok(Scratch(dir))
    }

    /// Where it is.
    pub(crate) fn dir(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // After an error, too: gigabytes left behind help nobody, and the error is told already.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
