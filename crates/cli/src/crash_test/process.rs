//! The parent's hold on a child: starting it, hearing it out, killing it.
//!
//! R1. Whatever the child does, the parent gets on: every wait has a limit.
//! R2. No child outlives its parent's interest: dropped means killed and waited for.
//! R3. A `SIGKILL` by somebody else is told from a planned one where no plan can be meant: before
//!     a child had opened, unless it kills itself there, and where only the parent kills.
//!
//! Threads: one per child reads what it says. Tests: `tests/crash_test.rs`.

use super::judge::{Fault, Violation};
use super::plan::Plan;
use super::state::State;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The number of the signal no process survives.
const SIGKILL: i32 = 9;

/// How a child is started.
#[derive(Debug, Clone)]
pub(super) struct Start {
    pub(super) dir: PathBuf,
    pub(super) oracle: PathBuf,
    pub(super) stderr: PathBuf,
    pub(super) seed: u64,
    pub(super) incarnation: u32,
    pub(super) start_ms: u64,
    pub(super) plan: Plan,
    pub(super) verify: bool,
    pub(super) power_cut: bool,
    pub(super) sabotage: Option<String>,
}

/// What a child said when it was ready.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) state: State,
    pub(super) opening: Duration,
    /// How recovery judged the journal.
    pub(super) rule: String,
}

/// A running child.
#[derive(Debug)]
pub(super) struct Hold {
    child: Child,
    heard: Receiver<Result<Ready, String>>,
    stderr: PathBuf,
}

impl Hold {
    /// Starts the child.
    pub(super) fn start(start: &Start) -> Result<Self, Violation> {
        let cannot = |what: &str, error: std::io::Error| {
            Violation::new(Fault::Child, format!("cannot {what}: {error}"))
        };
        let program = std::env::current_exe().map_err(|e| cannot("find this program", e))?;
        let stderr = File::create(&start.stderr).map_err(|e| cannot("create a log", e))?;
        let mut command = Command::new(program);
        command
            .arg("crash-test-child")
            .args(["--seed", &start.seed.to_string()])
            .args(["--incarnation", &start.incarnation.to_string()])
            .args(["--start-ms", &start.start_ms.to_string()])
            .args(["--plan", &start.plan.to_string()])
            .arg("--dir")
            .arg(&start.dir)
            .arg("--oracle")
            .arg(&start.oracle);
        if start.verify {
            command.arg("--verify");
        }
        if start.power_cut {
            command.arg("--power-cut");
        }
        if let Some(sabotage) = &start.sabotage {
            command.args(["--sabotage", sabotage]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .map_err(|e| cannot("start a child", e))?;
        let (tell, heard) = channel();
        let out = child.stdout.take();
        std::thread::spawn(move || {
            if let Some(out) = out {
                let _ = tell.send(listen(BufReader::new(out)));
            }
        });
        Ok(Hold {
            child,
            heard,
            stderr: start.stderr.clone(),
        })
    }

    /// Waits until the child is ready; `None`: it was killed before.
    ///
    /// # Errors
    /// It failed, or was not ready within `limit`.
    pub(super) fn ready(&mut self, limit: Duration) -> Result<Option<Ready>, Violation> {
        match self.heard.recv_timeout(limit) {
            Ok(Ok(ready)) => Ok(Some(ready)),
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                let status = self.wait(limit)?;
                self.was_killed(status).map(|()| None)
            }
            Err(RecvTimeoutError::Timeout) => Err(Violation::new(
                Fault::Child,
                format!(
                    "the database was not open and read within {} s",
                    limit.as_secs()
                ),
            )),
        }
    }

    /// Says a word to the child; if it is gone already, its end will tell why.
    pub(super) fn say(&mut self, word: &str) {
        if let Some(stdin) = &mut self.child.stdin {
            let _ = writeln!(stdin, "{word}").and_then(|()| stdin.flush());
        }
    }

    /// `SIGKILL`, now, of a child whose plan has it kill itself at no time.
    ///
    /// # Errors
    /// It had ended already, be it by another's `SIGKILL` (R3).
    pub(super) fn kill_living(&mut self) -> Result<(), Violation> {
        if let Ok(Some(status)) = self.child.try_wait() {
            self.was_killed(status)?;
            return Err(Violation::somebody_else());
        }
        self.kill()
    }

    /// `SIGKILL`, now.
    ///
    /// # Errors
    /// The child had ended by itself.
    pub(super) fn kill(&mut self) -> Result<(), Violation> {
        let _ = self.child.kill();
        let status = self.wait(Duration::from_secs(60))?;
        self.was_killed(status)
    }

    /// Waits until the child has killed itself, at most `limit`; whether it has.
    ///
    /// # Errors
    /// The child ended in another way.
    pub(super) fn killed_within(&mut self, limit: Duration) -> Result<bool, Violation> {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            match self.child.try_wait() {
                Ok(Some(status)) => return self.was_killed(status).map(|()| true),
                _ => std::thread::sleep(Duration::from_micros(300)),
            }
        }
        Ok(false)
    }

    /// Waits until the child has closed the database and ended.
    ///
    /// # Errors
    /// It did not, or not within `limit`.
    pub(super) fn closed(&mut self, limit: Duration) -> Result<(), Violation> {
        self.say("stop");
        let status = self.wait(limit)?;
        if status.success() {
            return Ok(());
        }
        Err(self.ended(status))
    }

    fn wait(&mut self, limit: Duration) -> Result<ExitStatus, Violation> {
        let end = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if Instant::now() < end => {
                    std::thread::sleep(Duration::from_micros(100));
                }
                Ok(None) => {
                    let text = format!("the child did not end within {} s", limit.as_secs());
                    return Err(Violation::new(Fault::Child, text));
                }
                Err(error) => {
                    let text = format!("cannot wait for the child: {error}");
                    return Err(Violation::new(Fault::Child, text));
                }
            }
        }
    }

    fn was_killed(&self, status: ExitStatus) -> Result<(), Violation> {
        match status.signal() {
            Some(SIGKILL) => Ok(()),
            _ => Err(self.ended(status)),
        }
    }

    /// What a child that ended by itself had to say.
    fn ended(&self, status: ExitStatus) -> Violation {
        let said = std::fs::read_to_string(&self.stderr).unwrap_or_default();
        let said = said.trim();
        let fault = match said.strip_prefix("wrong: ") {
            Some(_) => Fault::Wrong,
            None => Fault::Child,
        };
        Violation::new(fault, format!("the child ended with {status}: {said}"))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Hears a child out until it is ready.
fn listen(out: impl BufRead) -> Result<Ready, String> {
    let mut state = State::default();
    let mut is_whole = false;
    for line in out.lines() {
        let line = line.map_err(|error| error.to_string())?;
        if let Some(rest) = line.strip_prefix("ready\t").filter(|_| is_whole) {
            let (micros, rule) = rest.split_once('\t').unwrap_or((rest, ""));
            return Ok(Ready {
                state,
                opening: Duration::from_micros(micros.parse().unwrap_or(0)),
                rule: rule.to_owned(),
            });
        }
        is_whole = state
            .parse(&line)
            .ok_or_else(|| format!("no line of a state: {line}"))?;
    }
    Err("it ended".to_owned())
}

/// Copies a directory and what is below it.
pub(super) fn copy_dir(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_dir(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
