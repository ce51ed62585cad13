//! Watching and stopping the server: SLOWLOG, LATENCY, TIME, SHUTDOWN, DEBUG, FUNCTION FLUSH.
//!
//! Tests: `tests/limits.rs`, `tests/redis_py.py`.

use super::failure::{Failure, Outcome, SYNTAX};
use super::options::is;
use super::row::{ADMIN, Context, DANGEROUS, FAST, Row};
use super::subcommands::{help, needs_subcommand};
use crate::number::{Decimal, parse_i64};
use crate::resp::request::Args;

pub(crate) const ROWS: &[Row] = &[
    Row::new("slowlog", -2, ADMIN, needs_subcommand)
        .doc("server", "2.2.12", "The commands that took longest.")
        .with(&[
            Row::new("slowlog|get", -2, ADMIN, slowlog_get).doc("server", "2.2.12", "The entries."),
            Row::new("slowlog|len", 2, ADMIN, slowlog_len).doc("server", "2.2.12", "How many."),
            Row::new("slowlog|reset", 2, ADMIN, slowlog_reset).doc(
                "server",
                "2.2.12",
                "Forget them.",
            ),
            Row::new("slowlog|help", 2, ADMIN, help).doc("server", "6.2.0", "List these."),
        ]),
    Row::new("latency", -2, ADMIN, needs_subcommand)
        .doc(
            "server",
            "2.8.13",
            "Latency events: none are recorded; see SLOWLOG and KV.STATS.",
        )
        .with(&[
            Row::new("latency|latest", 2, ADMIN, no_events).doc("server", "2.8.13", "No events."),
            Row::new("latency|history", 3, ADMIN, no_events).doc("server", "2.8.13", "No events."),
            Row::new("latency|reset", -2, ADMIN, |ctx, _| {
                ctx.reply.integer(0);
                Ok(())
            })
            .doc("server", "2.8.13", "Nothing to forget."),
            Row::new("latency|help", 2, ADMIN, help).doc("server", "2.8.13", "List these."),
        ]),
    Row::new("time", 1, FAST, time).doc("server", "2.6.0", "The clock: seconds, microseconds."),
    Row::new("shutdown", -1, ADMIN | DANGEROUS, shutdown).doc(
        "server",
        "1.0.0",
        "Flush replies, make everything durable, and end.",
    ),
    Row::new("debug", -2, ADMIN | DANGEROUS, needs_subcommand)
        .doc(
            "server",
            "1.0.0",
            "For tests, where the server was started with it.",
        )
        .with(&[
            Row::new("debug|panic", 2, ADMIN | DANGEROUS, panic).doc(
                "server",
                "7.0.0",
                "Panic in this command.",
            ),
            Row::new("debug|help", 2, ADMIN, help).doc("server", "7.0.0", "List these."),
        ]),
    Row::new("function", -2, 0, needs_subcommand)
        .doc("scripting", "7.0.0", "There are no functions.")
        .with(&[
            Row::new("function|flush", -2, 0, |ctx, _| {
                ctx.reply.ok();
                Ok(())
            })
            .doc("scripting", "7.0.0", "There are no functions to delete."),
            Row::new("function|help", 2, 0, help).doc("scripting", "7.0.0", "List these."),
        ]),
];

fn slowlog_get(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let most = match (args.get(2), args.len()) {
        (None, _) => 10,
        (Some(most), 3) => parse_i64(most)
            .filter(|&most| most >= -1)
            .ok_or(Failure::new(
                "ERR count should be greater than or equal to -1",
            ))?,
        _ => return Err(SYNTAX),
    };
    let log = ctx.shared.slowlog.lock();
    let most = usize::try_from(most)
        .unwrap_or(usize::MAX)
        .min(log.entries().len());
    ctx.reply.array(most);
    for entry in log.entries().take(most) {
        ctx.reply.array(6);
        ctx.reply.integer(i64::try_from(entry.id)?);
        ctx.reply.integer(i64::try_from(entry.at_ms / 1000)?);
        ctx.reply.integer(i64::try_from(entry.took.as_micros())?);
        ctx.reply.array(entry.arguments.len());
        entry
            .arguments
            .iter()
            .for_each(|argument| ctx.reply.bulk(argument));
        ctx.reply.bulk(entry.address.as_bytes());
        ctx.reply.bulk(entry.client.as_bytes());
    }
    Ok(())
}

fn slowlog_len(ctx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    let len = ctx.shared.slowlog.lock().entries().len();
    ctx.reply.count(len);
    Ok(())
}

fn slowlog_reset(ctx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    ctx.shared.slowlog.lock().clear();
    ctx.reply.ok();
    Ok(())
}

fn no_events(ctx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    ctx.reply.array(0);
    Ok(())
}

fn time(ctx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let since = since.unwrap_or_default();
    ctx.reply.array(2);
    ctx.reply.bulk(Decimal::of_u64(since.as_secs()).as_bytes());
    ctx.reply
        .bulk(Decimal::of_u64(u64::from(since.subsec_micros())).as_bytes());
    Ok(())
}

fn shutdown(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    // What is acknowledged is journaled: there is nothing that NOSAVE could leave out.
    let known = ["nosave", "save", "now", "force"];
    let sound = |option: &[u8]| known.iter().any(|name| is(option, name));
    if args.len() == 2 && is(args.at(1), "abort") {
        return Err(Failure::new("ERR No shutdown in progress."));
    }
    let has = |name| args.from(1).iter().any(|option| is(option, name));
    if !args.from(1).iter().all(sound) || has("save") && has("nosave") {
        return Err(SYNTAX);
    }
    ctx.session.closing = true;
    ctx.shared.stop();
    Ok(())
}

fn panic(ctx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    if !ctx.shared.config.debug_commands {
        return Err(Failure::new(
            "ERR DEBUG command not allowed. Start the server with debug_commands to allow it.",
        ));
    }
    panic!("DEBUG PANIC was asked for");
}
