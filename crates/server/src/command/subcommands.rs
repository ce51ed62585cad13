//! What all commands with subcommands share: HELP, and the answer to an unknown one.
//!
//! Tests: `tests/redis_py.py`.

use super::failure::{Failure, Outcome, quoted};
use super::row::{Context, Row};
use crate::resp::request::Args;

/// Runs where no subcommand has the name given.
pub(crate) fn needs_subcommand(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let command = ctx.row.name;
    let given = args.get(1).map(quoted).unwrap_or_default();
    Err(Failure::new(format!(
        "ERR unknown subcommand '{given}'. Try {} HELP.",
        command.to_ascii_uppercase()
    )))
}

/// Lists the subcommands of the command whose HELP runs.
pub(crate) fn help(ctx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    let command = ctx.row.name.split('|').next().unwrap_or_default();
    let subcommands = ctx
        .table
        .find(command.as_bytes())
        .map_or(&[][..], |(_, row)| row.subcommands);
    ctx.reply.array(1 + 2 * subcommands.len());
    let command = command.to_ascii_uppercase();
    ctx.reply.simple(&format!(
        "{command} <subcommand> [<arg> ...]. Subcommands are:"
    ));
    for subcommand in subcommands {
        ctx.reply
            .simple(&subcommand.short_name().to_ascii_uppercase());
        ctx.reply.simple(&format!("    {}", subcommand.summary));
    }
    Ok(())
}

/// The subcommand of `row` called `name`.
pub(crate) fn find(row: &'static Row, name: &[u8]) -> Option<&'static Row> {
    let named = |row: &&Row| row.short_name().as_bytes().eq_ignore_ascii_case(name);
    row.subcommands.iter().find(named)
}
