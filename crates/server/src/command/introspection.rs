//! COMMAND: the table of commands, for clients that read it.
//!
//! Tests: `tests/protocol.rs`, `tests/redis_py.py`.

use super::failure::{Failure, Outcome, SYNTAX};
use super::options::is;
use super::row::{ADMIN, Context, DANGEROUS, FAST, MEMORY, NO_AUTH, READ, Row, Table, WRITE};
use super::subcommands::{self, help, needs_subcommand};
use crate::glob;
use crate::resp::reply::Reply;
use crate::resp::request::Args;

pub(crate) const ROWS: &[Row] = &[Row::new("command", -1, 0, command)
    .doc("server", "2.8.13", "All commands.")
    .with(&[
        Row::new("command|count", 2, 0, count).doc("server", "2.8.13", "How many there are."),
        Row::new("command|info", -2, 0, info).doc("server", "2.8.13", "Some, as a table."),
        Row::new("command|docs", -2, 0, docs).doc("server", "7.0.0", "Some, for people."),
        Row::new("command|list", -2, 0, list).doc("server", "7.0.0", "Their names."),
        Row::new("command|getkeys", -4, 0, getkeys).doc(
            "server",
            "2.8.13",
            "The keys among the arguments of a command.",
        ),
        Row::new("command|help", 2, 0, help).doc("server", "5.0.0", "List these."),
    ])];

fn command(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() > 1 {
        return needs_subcommand(ctx, args);
    }
    ctx.reply.array(ctx.table.len());
    ctx.table
        .rows()
        .iter()
        .for_each(|row| describe(ctx.reply, row));
    Ok(())
}

fn count(ctx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    ctx.reply.count(ctx.table.len());
    Ok(())
}

/// The row called `name`, which may be `command|subcommand`.
fn find(table: &Table, name: &[u8]) -> Option<&'static Row> {
    let bar = name.iter().position(|&byte| byte == b'|');
    let (_, row) = table.find(&name[..bar.unwrap_or(name.len())])?;
    match bar {
        None => Some(row),
        Some(bar) => subcommands::find(row, &name[bar + 1..]),
    }
}

fn info(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() == 2 {
        ctx.reply.array(ctx.table.len());
        ctx.table
            .rows()
            .iter()
            .for_each(|row| describe(ctx.reply, row));
        return Ok(());
    }
    ctx.reply.array(args.len() - 2);
    for (place, name) in args.from(2).iter().enumerate() {
        match find(ctx.table, name) {
            Some(row) => describe(ctx.reply, row),
            None => ctx.reply.null(),
        }
        ctx.check_output(place + 1)?;
    }
    Ok(())
}

fn describe(reply: &mut Reply, row: &Row) {
    let flags: Vec<&str> = [
        (WRITE, "write"),
        (READ, "readonly"),
        (MEMORY, "denyoom"),
        (ADMIN, "admin"),
        (FAST, "fast"),
        (NO_AUTH, "no_auth"),
    ]
    .into_iter()
    .filter_map(|(flag, name)| row.is(flag).then_some(name))
    .collect();
    let (first, last, step) = row.keys;
    reply.array(10);
    reply.bulk(row.name.as_bytes());
    reply.integer(i64::from(row.arity));
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    [first, last, step]
        .iter()
        .for_each(|&number| reply.integer(i64::from(number)));
    let categories = categories(row);
    reply.set(categories.len());
    categories
        .iter()
        .for_each(|category| reply.simple(category));
    reply.array(0);
    reply.array(0);
    reply.array(row.subcommands.len());
    row.subcommands
        .iter()
        .for_each(|subcommand| describe(reply, subcommand));
}

fn categories(row: &Row) -> Vec<&'static str> {
    let group = match row.group {
        "string" => "@string",
        "generic" => "@keyspace",
        "bitmap" => "@bitmap",
        "connection" => "@connection",
        "scripting" => "@scripting",
        _ => "@admin",
    };
    let speed = if row.is(FAST) { "@fast" } else { "@slow" };
    let mut categories = vec![group, speed];
    let by_flag = [
        (READ, "@read"),
        (WRITE, "@write"),
        (DANGEROUS, "@dangerous"),
    ];
    categories.extend(
        by_flag
            .into_iter()
            .filter_map(|(flag, name)| row.is(flag).then_some(name)),
    );
    categories
}

fn docs(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let rows: Vec<&Row> = match args.len() {
        2 => ctx.table.rows().to_vec(),
        _ => args
            .from(2)
            .iter()
            .filter_map(|name| find(ctx.table, name))
            .collect(),
    };
    ctx.reply.map(rows.len());
    for (place, row) in rows.into_iter().enumerate() {
        document(ctx.reply, row);
        // The same name may come again and again.
        ctx.check_output(place + 1)?;
    }
    Ok(())
}

fn document(reply: &mut Reply, row: &Row) {
    reply.bulk(row.name.as_bytes());
    reply.map(3 + usize::from(!row.subcommands.is_empty()));
    for (field, text) in [
        ("summary", row.summary),
        ("since", row.since),
        ("group", row.group),
    ] {
        reply.bulk(field.as_bytes());
        reply.bulk(text.as_bytes());
    }
    if !row.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(row.subcommands.len());
        row.subcommands
            .iter()
            .for_each(|subcommand| document(reply, subcommand));
    }
}

fn list(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let keep: Box<dyn Fn(&Row) -> bool> = match (args.get(2), args.get(3), args.get(4)) {
        (None, ..) => Box::new(|_| true),
        (Some(filter), Some(by), Some(value)) if is(filter, "filterby") && args.len() == 5 => {
            match by {
                by if is(by, "module") => Box::new(|_| false),
                by if is(by, "pattern") && value.len() <= glob::PATTERN_BYTES_MAX => {
                    Box::new(|row| glob::matches_ignoring_case(value, row.name.as_bytes()))
                }
                by if is(by, "aclcat") => Box::new(|row| {
                    let named = |category: &&str| is(value, &category[1..]);
                    categories(row).iter().any(named)
                }),
                _ => return Err(SYNTAX),
            }
        }
        _ => return Err(SYNTAX),
    };
    let all = ctx
        .table
        .rows()
        .iter()
        .flat_map(|row| std::iter::once(*row).chain(row.subcommands));
    let names: Vec<&str> = all.filter(|row| keep(row)).map(|row| row.name).collect();
    ctx.reply.array(names.len());
    names
        .iter()
        .for_each(|name| ctx.reply.bulk(name.as_bytes()));
    Ok(())
}

fn getkeys(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let asked = args.from(2);
    let (_, row) = ctx
        .table
        .find(asked.at(0))
        .ok_or(Failure::new("ERR Invalid command specified"))?;
    let subcommand = asked.get(1).and_then(|name| subcommands::find(row, name));
    let row = subcommand.unwrap_or(row);
    if row.keys.0 == 0 {
        return Err(Failure::new("ERR The command has no key arguments"));
    }
    if !row.accepts(asked.len()) {
        return Err(Failure::new(
            "ERR Invalid number of arguments specified for command",
        ));
    }
    let keys: Vec<&[u8]> = positions(row, asked.len()).map(|at| asked.at(at)).collect();
    ctx.reply.array(keys.len());
    for (place, key) in keys.iter().enumerate() {
        ctx.reply.bulk(key);
        ctx.check_output(place + 1)?;
    }
    Ok(())
}

/// Which of `given` arguments are keys.
fn positions(row: &Row, given: usize) -> impl Iterator<Item = usize> + use<> {
    let (first, last, step) = row.keys;
    let given = i32::try_from(given).unwrap_or(i32::MAX);
    let last = if last < 0 {
        given + last
    } else {
        last.min(given - 1)
    };
    let step = usize::try_from(step).unwrap_or(1);
    (first..=last)
        .step_by(step.max(1))
        .filter_map(|at| usize::try_from(at).ok())
}
