//! CLIENT: who is connected, under which name, and how they want to be answered.
//!
//! Tests: `tests/clients.rs`, `tests/protocol.rs`.

use super::failure::{Failure, Outcome, SYNTAX, quoted};
use super::options::is;
use super::row::{ADMIN, Context, Row, Table};
use super::session::Replies;
use super::subcommands::{help, needs_subcommand};
use crate::clients::Client;
use crate::number::{parse_i64, parse_u64};
use crate::resp::request::Args;
use velella_sync::atomic::Ordering;

pub(crate) const ROWS: &[Row] = &[Row::new("client", -2, 0, needs_subcommand)
    .doc("connection", "2.4.0", "Look after connections.")
    .with(&[
        sub("client|id", 2, id, "The number of this connection."),
        sub(
            "client|info",
            2,
            info,
            "What is known about this connection.",
        ),
        sub(
            "client|list",
            -2,
            list,
            "What is known about all connections.",
        ),
        sub("client|kill", -3, kill, "Close connections."),
        sub("client|setname", 3, setname, "Name this connection."),
        sub("client|getname", 2, getname, "The name of this connection."),
        sub(
            "client|setinfo",
            4,
            setinfo,
            "Note the client library and its version.",
        ),
        sub(
            "client|reply",
            3,
            reply,
            "Choose which commands are answered.",
        ),
        sub(
            "client|no-evict",
            3,
            no_evict,
            "Accepted; clients are never evicted.",
        ),
        sub(
            "client|no-touch",
            3,
            no_evict,
            "Accepted; access times are not kept.",
        ),
        sub("client|help", 2, help, "List these."),
    ])];

const fn sub(name: &'static str, arity: i32, run: super::row::Run, summary: &'static str) -> Row {
    Row::new(name, arity, ADMIN, run).doc("connection", "2.4.0", summary)
}

/// A name without spaces, line breaks and other invisible bytes.
pub(crate) fn valid_name(name: &[u8]) -> Result<String, Failure> {
    valid_text(name).ok_or(Failure::new(
        "ERR Client names cannot contain spaces, newlines or special characters.",
    ))
}

fn valid_text(text: &[u8]) -> Option<String> {
    if text.len() > 1 << 10 || !text.iter().all(u8::is_ascii_graphic) {
        return None;
    }
    String::from_utf8(text.to_vec()).ok()
}

fn id(ctx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    ctx.reply.integer(i64::try_from(ctx.session.client.id)?);
    Ok(())
}

fn line(client: &Client, table: &Table) -> String {
    client.line(|number| table.name(number)) + "\n"
}

/// Notes where this client stands, which else happens after a group of commands.
fn note(ctx: &Context<'_>) {
    let number = ctx.table.find(b"client").map(|(number, _)| number);
    ctx.session
        .client
        .note(ctx.session.database, ctx.resp3(), number);
}

fn info(ctx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    note(ctx);
    let line = line(&ctx.session.client, ctx.table);
    ctx.reply.verbatim(&line);
    Ok(())
}

/// Whether a type of clients is the one that all of ours are of; of the others there are none.
fn is_normal(kind: &[u8]) -> Result<bool, Failure> {
    if is(kind, "normal") {
        return Ok(true);
    }
    let others = ["master", "replica", "slave", "pubsub"];
    if others.iter().any(|other| is(kind, other)) {
        return Ok(false);
    }
    let kind = quoted(kind);
    Err(Failure::new(format!("ERR Unknown client type '{kind}'")))
}

fn list(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    note(ctx);
    let clients = match args.get(2) {
        None => ctx.shared.clients.all(),
        Some(option) if is(option, "type") && args.len() == 4 => {
            if is_normal(args.at(3))? {
                ctx.shared.clients.all()
            } else {
                Vec::new()
            }
        }
        Some(option) if is(option, "id") && args.len() > 3 => {
            let mut clients = Vec::new();
            for id in args.from(3).iter() {
                let id = parse_i64(id).ok_or(Failure::new("ERR Invalid client ID"))?;
                clients.extend(
                    u64::try_from(id)
                        .ok()
                        .and_then(|id| ctx.shared.clients.of(id)),
                );
            }
            clients
        }
        Some(_) => return Err(SYNTAX),
    };
    let mut lines = String::new();
    for client in clients {
        lines += &line(&client, ctx.table);
        // The same one may be asked for again and again.
        ctx.check_reply(lines.len())?;
    }
    ctx.reply.verbatim(&lines);
    Ok(())
}

/// Which clients CLIENT KILL closes.
#[derive(Default)]
struct Filter {
    id: Option<u64>,
    address: Option<String>,
    local: Option<String>,
    others: bool,
    nobody: bool,
}

impl Filter {
    fn parse(args: Args<'_>) -> Result<Filter, Failure> {
        let mut filter = Filter {
            others: true,
            ..Filter::default()
        };
        if args.len().is_multiple_of(2) {
            for at in (2..args.len()).step_by(2) {
                filter.add(args.at(at), args.at(at + 1))?;
            }
            return Ok(filter);
        }
        Err(SYNTAX)
    }

    fn add(&mut self, option: &[u8], value: &[u8]) -> Outcome {
        if is(option, "id") {
            let id = parse_u64(value).filter(|&id| id > 0);
            let id = id.ok_or(Failure::new("ERR client-id should be greater than 0"))?;
            self.id = Some(id);
        } else if is(option, "addr") {
            self.address = Some(quoted(value).into_owned());
        } else if is(option, "laddr") {
            self.local = Some(quoted(value).into_owned());
        } else if is(option, "skipme") && (is(value, "yes") || is(value, "no")) {
            self.others = is(value, "yes");
        } else if is(option, "type") {
            self.nobody |= !is_normal(value)?;
        } else if is(option, "user") {
            if value != b"default" {
                let user = quoted(value);
                return Err(Failure::new(format!("ERR No such user '{user}'")));
            }
        } else {
            return Err(SYNTAX);
        }
        Ok(())
    }

    fn picks(&self, client: &Client, own: u64) -> bool {
        !self.nobody
            && self.id.is_none_or(|id| id == client.id)
            && self
                .address
                .as_ref()
                .is_none_or(|address| *address == client.address.to_string())
            && self
                .local
                .as_ref()
                .is_none_or(|local| *local == client.local.to_string())
            && !(self.others && client.id == own)
    }
}

fn kill(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let by_address = args.len() == 3;
    let filter = if by_address {
        Filter {
            address: Some(quoted(args.at(2)).into_owned()),
            ..Filter::default()
        }
    } else {
        Filter::parse(args)?
    };
    let own = ctx.session.client.id;
    let mut killed = 0;
    for client in ctx.shared.clients.all() {
        if filter.picks(&client, own) {
            killed += 1;
            if client.id == own {
                ctx.session.closing = true;
            } else {
                client.kill();
                // Release: pairs with the Acquire in `Network::look_for_killed`.
                ctx.shared.kills.fetch_add(1, Ordering::Release);
                ctx.shared.wake(client.thread);
            }
        }
    }
    match (by_address, killed) {
        (true, 0) => return Err(Failure::new("ERR No such client")),
        (true, _) => ctx.reply.ok(),
        (false, _) => ctx.reply.integer(killed),
    }
    Ok(())
}

fn setname(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.session.client.names.lock().name = valid_name(args.at(2))?;
    ctx.reply.ok();
    Ok(())
}

fn getname(ctx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    let name = ctx.session.client.names.lock().name.clone();
    ctx.reply
        .bulk_or_null(Some(name.as_bytes()).filter(|name| !name.is_empty()));
    Ok(())
}

fn setinfo(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (attribute, value) = (args.at(2), valid_text(args.at(3)));
    let refused = |attribute: &str| {
        Failure::new(format!(
            "ERR {attribute} cannot contain spaces, newlines or special characters."
        ))
    };
    let mut names = ctx.session.client.names.lock();
    if is(attribute, "lib-name") {
        names.library = value.ok_or_else(|| refused("lib-name"))?;
    } else if is(attribute, "lib-ver") {
        names.library_version = value.ok_or_else(|| refused("lib-ver"))?;
    } else {
        let attribute = quoted(attribute);
        return Err(Failure::new(format!(
            "ERR Unrecognized option '{attribute}'"
        )));
    }
    ctx.reply.ok();
    Ok(())
}

fn reply(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match args.at(2) {
        mode if is(mode, "on") => {
            ctx.session.replies = Replies::On;
            ctx.reply.ok();
        }
        mode if is(mode, "off") => ctx.session.replies = Replies::Off,
        mode if is(mode, "skip") => {
            if ctx.session.replies != Replies::Off {
                ctx.session.replies = Replies::SkipNext;
            }
        }
        _ => return Err(SYNTAX),
    }
    Ok(())
}

fn no_evict(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if !is(args.at(2), "on") && !is(args.at(2), "off") {
        return Err(SYNTAX);
    }
    ctx.reply.ok();
    Ok(())
}
