//! What an acknowledgement is worth: WAIT, WAITAOF, SAVE, and the durability of a connection.
//!
//! J1. A write is in the journal, and survives the death of the process, before it is answered.
//!     What `KV.DURABILITY sync` and WAITAOF add is the device: the reply is withheld until the
//!     write is durable, and one wait serves every connection of the thread that has one pending.
//!
//! Tests: `tests/commands.rs`.

use super::failure::{Failure, NOT_AN_INTEGER, Outcome, SYNTAX};
use super::options::is;
use super::row::{ADMIN, Context, Row};
use crate::config::GROUP_WAIT_MAX;
use crate::number::parse_i64;
use crate::resp::request::Args;
use std::time::Duration;
use velella::Durability;
use velella_sync::atomic::Ordering;
use velella_sync::thread::wall_ms;

pub(crate) const ROWS: &[Row] = &[
    Row::new("wait", 3, 0, wait).doc(
        "generic",
        "3.0.0",
        "Count the replicas that have the writes: none, there are no replicas.",
    ),
    Row::new("waitaof", 4, 0, waitaof).doc(
        "generic",
        "7.2.0",
        "Wait until the writes of this connection survive a power loss.",
    ),
    Row::new("save", 1, ADMIN, save).doc("server", "1.0.0", "Make everything durable."),
    Row::new("bgsave", -1, ADMIN, bgsave).doc(
        "server",
        "1.0.0",
        "Make everything durable; done when it is answered.",
    ),
    Row::new("lastsave", 1, ADMIN, lastsave).doc(
        "server",
        "1.0.0",
        "When SAVE or BGSAVE last made everything durable.",
    ),
    Row::new("kv.durability", -1, 0, durability).doc(
        "velella",
        "7.0.0",
        "KV.DURABILITY [buffered | sync | group ms]: what writes of this connection must survive \
         before they are answered.",
    ),
];

fn wait(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    parse_i64(args.at(1)).ok_or(NOT_AN_INTEGER)?;
    timeout(args.at(2))?;
    ctx.reply.integer(0);
    Ok(())
}

fn timeout(text: &[u8]) -> Outcome {
    match parse_i64(text) {
        None => Err(Failure::new(
            "ERR timeout is not an integer or out of range",
        )),
        Some(..0) => Err(Failure::new("ERR timeout is negative")),
        Some(_) => Ok(()),
    }
}

fn waitaof(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let local = parse_i64(args.at(1)).filter(|local| matches!(local, 0 | 1));
    let local = local.ok_or(Failure::new(
        "ERR value is out of range, must be between 0 and 1",
    ))?;
    let replicas = parse_i64(args.at(2)).filter(|&replicas| replicas >= 0);
    replicas.ok_or(Failure::new("ERR value is out of range, must be positive"))?;
    timeout(args.at(3))?;
    let durable = ctx.shared.db.durable() >= ctx.session.last_stamp;
    if local == 1 && !durable {
        ctx.session.withhold = Some(Duration::ZERO);
    }
    ctx.reply.array(2);
    ctx.reply.integer(i64::from(durable || local == 1));
    ctx.reply.integer(0);
    Ok(())
}

fn persist(ctx: &mut Context<'_>) -> Outcome {
    ctx.shared.db.persist()?;
    // Relaxed: a number for people.
    ctx.shared.last_save_ms.store(wall_ms(), Ordering::Relaxed);
    Ok(())
}

fn save(ctx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    persist(ctx)?;
    ctx.reply.ok();
    Ok(())
}

fn bgsave(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() > 2 || args.get(1).is_some_and(|option| !is(option, "schedule")) {
        return Err(SYNTAX);
    }
    persist(ctx)?;
    ctx.reply.simple("Background saving started");
    Ok(())
}

fn lastsave(ctx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    // Relaxed: see `persist`.
    let seconds = ctx.shared.last_save_ms.load(Ordering::Relaxed) / 1000;
    ctx.reply.integer(i64::try_from(seconds)?);
    Ok(())
}

fn durability(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let chosen = match (args.get(1), args.get(2), args.len()) {
        (None, ..) => {
            let text = match ctx.session.durability {
                Durability::Buffered => "buffered".to_owned(),
                Durability::Sync => "sync".to_owned(),
                Durability::Group(patience) => format!("group {}", patience.as_millis()),
            };
            ctx.reply.bulk(text.as_bytes());
            return Ok(());
        }
        (Some(class), None, _) if is(class, "buffered") => Durability::Buffered,
        (Some(class), None, _) if is(class, "sync") => Durability::Sync,
        (Some(class), Some(ms), 3) if is(class, "group") => {
            let ms = parse_i64(ms).and_then(|ms| u64::try_from(ms).ok());
            let wait = ms.map(Duration::from_millis);
            let refused = || {
                let most = GROUP_WAIT_MAX.as_millis();
                Failure::new(format!("ERR group takes from 0 to {most} milliseconds"))
            };
            let wait = wait.filter(|wait| *wait <= GROUP_WAIT_MAX);
            Durability::Group(wait.ok_or_else(refused)?)
        }
        _ => return Err(SYNTAX),
    };
    ctx.session.durability = chosen;
    ctx.reply.ok();
    Ok(())
}
