//! Running a command that may hang: it gets a time limit, and goes with all it started.
//!
//! V1. At the limit the whole process group is killed; nothing of it is left behind.
//! V2. What it prints goes on to our own output, and lines can be looked at on the way.
//!
//! Tests: below.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Passed,
    Failed,
    /// It was still running at its limit.
    Hung,
}

/// Waits for `command` up to `limit`, then ends it with all it started.
///
/// # Errors
/// It cannot be started.
pub(crate) fn supervise(command: &mut Command, limit: Duration) -> Result<Ended, String> {
    let child = command.process_group(0).spawn().map_err(failed)?;
    wait(child, limit)
}

/// As `supervise`, and shows each line of its output to `look`, and prints it behind `before`.
///
/// # Errors
/// It cannot be started.
pub(crate) fn supervise_lines(
    command: &mut Command,
    limit: Duration,
    before: &str,
    look: &mut (dyn FnMut(&str) + Send),
) -> Result<Ended, String> {
    command.process_group(0).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let output = child.stdout.take();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for line in output
                .into_iter()
                .flat_map(|out| BufReader::new(out).lines())
            {
                let Ok(line) = line else { break };
                look(&line);
                println!("{before}{line}");
            }
        });
        wait(child, limit)
    })
}

fn wait(mut child: Child, limit: Duration) -> Result<Ended, String> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(match status.success() {
                true => Ended::Passed,
                false => Ended::Failed,
            });
        }
        if start.elapsed() > limit {
            let group = format!("-{}", child.id());
            let killed = Command::new("kill").args(["-KILL", "--", &group]).status();
            killed.map_err(failed)?;
            child.wait().map_err(failed)?;
            return Ok(Ended::Hung);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn failed(error: std::io::Error) -> String {
    format!("cannot run a command: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_passes_fails_or_hangs() {
        let minute = Duration::from_secs(60);
        let run = |name: &str| supervise(&mut Command::new(name), minute);
        assert_eq!(run("true"), Ok(Ended::Passed));
        assert_eq!(run("false"), Ok(Ended::Failed));
        let mut sleep = Command::new("sleep");
        let ended = supervise(sleep.arg("600"), Duration::from_millis(50));
        assert_eq!(ended, Ok(Ended::Hung));
        assert!(run("no-such-program-anywhere").is_err());
    }

    #[test]
    fn every_line_is_looked_at_also_of_what_is_killed() {
        let mut lines = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two; sleep 600"]);
        let look = &mut |line: &str| lines.push(line.to_owned());
        // Long enough for a busy machine to begin it.
        let ended = supervise_lines(&mut command, Duration::from_secs(3), "", look);
        assert_eq!(ended, Ok(Ended::Hung));
        assert_eq!(lines, ["one", "two"]);
    }
}
