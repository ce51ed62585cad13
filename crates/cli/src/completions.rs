//! `velella completions`: a completion script for a shell.
//!
//! Source: `clap_complete`, from the same definitions that parse the command line.
//!
//! Tests: `tests/usage.rs`.

use crate::failure::Failure;
use crate::output::Output;
use clap::Args;
use clap_complete::Shell;
use std::io::Write;

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  velella completions bash > ~/.local/share/bash-completion/completions/velella
  velella completions zsh > ~/.zfunc/_velella")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, command: clap::Command, output: &mut Output) -> Result<(), Failure> {
        // Into memory first: the generator panics when its writer fails.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut shown(&command), "velella", &mut script);
        output.out.write_all(&script)?;
        Ok(output.out.flush()?)
    }
}

/// The commands that help lists; the generator takes hidden ones, too.
fn shown(command: &clap::Command) -> clap::Command {
    let commands = command.get_subcommands().filter(|of| !of.is_hide_set());
    clap::Command::new("velella")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .args(command.get_arguments())
        .subcommands(commands)
}
