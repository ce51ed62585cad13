//! What a connection begins and ends with: HELLO, AUTH, SELECT, PING, ECHO, RESET, QUIT.
//!
//! A1. Passwords are compared in a time that tells nothing of where they differ, and are repeated
//!     in no reply and no log.
//!
//! Tests: below, `tests/protocol.rs`, `tests/limits.rs`.

use super::failure::{Failure, Outcome, SYNTAX};
use super::options::{database_number, is};
use super::row::{Context, FAST, NO_AUTH, Row};
use super::session::Replies;
use crate::number::parse_i64;
use crate::resp::reply::Protocol;
use crate::resp::request::Args;

/// The version of Redis whose behaviour this server follows; clients choose features by it.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

pub(crate) const ROWS: &[Row] = &[
    Row::new("hello", -1, FAST | NO_AUTH, hello).doc(
        "connection",
        "6.0.0",
        "Choose the version of the protocol, and authenticate.",
    ),
    Row::new("auth", -2, FAST | NO_AUTH, auth).doc("connection", "1.0.0", "Authenticate."),
    Row::new("select", 2, FAST, select).doc("connection", "1.0.0", "Choose the database."),
    Row::new("ping", -1, FAST, ping).doc("connection", "1.0.0", "Ask whether anybody is there."),
    Row::new("echo", 2, FAST, echo).doc("connection", "1.0.0", "Get an argument back."),
    Row::new("reset", 1, FAST | NO_AUTH, reset).doc(
        "connection",
        "6.2.0",
        "Make the connection as good as new.",
    ),
    Row::new("quit", -1, FAST | NO_AUTH, quit).doc("connection", "1.0.0", "Close the connection."),
];

fn equal(a: &[u8], b: &[u8]) -> bool {
    let differing = a.iter().zip(b).fold(0, |bits, (a, b)| bits | (a ^ b));
    a.len() == b.len() && differing == 0
}

/// Checks a name and password (A1).
fn authenticate(ctx: &mut Context<'_>, user: &[u8], password: &[u8]) -> Outcome {
    let required = ctx.shared.settings.requirepass.lock();
    let right = required
        .as_ref()
        .is_none_or(|required| equal(required.as_bytes(), password));
    if user == b"default" && right {
        ctx.session.authenticated = true;
        ctx.session.known = true;
        return Ok(());
    }
    Err(Failure::new(
        "WRONGPASS invalid username-password pair or user is disabled.",
    ))
}

fn auth(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (user, password) = match (args.get(1), args.get(2), args.len()) {
        (Some(password), None, _) => {
            if ctx.shared.settings.requirepass.lock().is_none() {
                return Err(Failure::new(
                    "ERR AUTH <password> called without any password configured for the default \
                     user. Are you sure your configuration is correct?",
                ));
            }
            (&b"default"[..], password)
        }
        (Some(user), Some(password), 3) => (user, password),
        _ => return Err(SYNTAX),
    };
    authenticate(ctx, user, password)?;
    ctx.reply.ok();
    Ok(())
}

fn hello(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut protocol = ctx.reply.protocol;
    if let Some(version) = args.get(1) {
        let refused = "ERR Protocol version is not an integer or out of range";
        protocol = match parse_i64(version).ok_or(Failure::new(refused))? {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err(Failure::new("NOPROTO unsupported protocol version")),
        };
    }
    let mut name = None;
    let mut at = 2;
    while let Some(option) = args.get(at) {
        match (args.get(at + 1), args.get(at + 2)) {
            (Some(user), Some(password)) if is(option, "auth") => {
                authenticate(ctx, user, password)?;
                at += 3;
            }
            (Some(given), _) if is(option, "setname") => {
                name = Some(super::client::valid_name(given)?);
                at += 2;
            }
            _ => {
                let option = super::failure::quoted(option);
                return Err(Failure::new(format!(
                    "ERR Syntax error in HELLO option '{option}'"
                )));
            }
        }
    }
    if !ctx.session.is_admitted(ctx.shared) {
        return Err(Failure::new(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        ctx.session.client.names.lock().name = name;
    }
    ctx.reply.protocol = protocol;
    ctx.reply.map(7);
    // Clients tell servers apart by this pair; our own name is in INFO.
    for (field, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        ctx.reply.bulk(field.as_bytes());
        ctx.reply.bulk(value.as_bytes());
    }
    ctx.reply.bulk(b"proto");
    ctx.reply
        .integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
    ctx.reply.bulk(b"id");
    ctx.reply.integer(i64::try_from(ctx.session.client.id)?);
    for (field, value) in [("mode", "standalone"), ("role", "master")] {
        ctx.reply.bulk(field.as_bytes());
        ctx.reply.bulk(value.as_bytes());
    }
    ctx.reply.bulk(b"modules");
    ctx.reply.array(0);
    Ok(())
}

fn select(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.session.database = database_number(args.at(1))?;
    ctx.reply.ok();
    Ok(())
}

fn ping(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match (args.get(1), args.len()) {
        (None, _) => ctx.reply.simple("PONG"),
        (Some(text), 2) => ctx.reply.bulk(text),
        _ => return Err(Failure::arity("ping")),
    }
    Ok(())
}

fn echo(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.reply.bulk(args.at(1));
    Ok(())
}

fn reset(ctx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    ctx.session.database = 0;
    // Its own reply is skipped if that was asked for.
    if ctx.session.replies != Replies::SkipThis {
        ctx.session.replies = Replies::On;
    }
    ctx.session.durability = ctx.shared.db.options().durability;
    ctx.session.authenticated = ctx.shared.settings.requirepass.lock().is_none();
    ctx.session.client.names.lock().name.clear();
    ctx.reply.protocol = Protocol::Resp2;
    ctx.reply.simple("RESET");
    Ok(())
}

fn quit(ctx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    ctx.session.closing = true;
    ctx.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_equal_only_as_a_whole() {
        assert!(equal(b"secret", b"secret"));
        for wrong in ["", "secre", "secrets", "Secret", "secreT"] {
            assert!(!equal(b"secret", wrong.as_bytes()));
        }
    }
}
