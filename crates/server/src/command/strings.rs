//! Strings as wholes: GET, MGET, and SET in all its forms; several are set in `pairs.rs`.
//!
//! A plain SET is one put; what depends on the old value is one read-modify-write.
//!
//! Tests: `tests/commands.rs`, `tests/redis_py.py`.

use super::failure::{Failure, NOT_AN_INTEGER, Outcome, SYNTAX};
use super::options::{Time, is};
use super::row::{ALL_KEYS, Context, FAST, MEMORY, ONE_KEY, READ, Row, WRITE};
use super::session::BUFFERED;
use crate::resp::request::Args;
use velella::{Decision, Entry, EntryInfo, RmwOutcome, Storable, limits};

const WRITE_MEMORY: u16 = WRITE | MEMORY;

pub(crate) const ROWS: &[Row] = &[
    Row::new("get", 2, READ | FAST, get)
        .keys(ONE_KEY)
        .doc("string", "1.0.0", "Get a value."),
    Row::new("set", -3, WRITE_MEMORY, set).keys(ONE_KEY).doc(
        "string",
        "1.0.0",
        "Set a value, on condition and with a time to live if asked; return the old one if asked.",
    ),
    Row::new("setnx", 3, WRITE_MEMORY | FAST, setnx)
        .keys(ONE_KEY)
        .doc("string", "1.0.0", "Set a value if the key is absent."),
    Row::new("setex", 4, WRITE_MEMORY, setex).keys(ONE_KEY).doc(
        "string",
        "2.0.0",
        "Set a value with a time to live in seconds.",
    ),
    Row::new("psetex", 4, WRITE_MEMORY, psetex)
        .keys(ONE_KEY)
        .doc(
            "string",
            "2.6.0",
            "Set a value with a time to live in milliseconds.",
        ),
    Row::new("getset", 3, WRITE_MEMORY | FAST, getset)
        .keys(ONE_KEY)
        .doc("string", "1.0.0", "Set a value and return the old one."),
    Row::new("getdel", 2, WRITE | FAST, getdel)
        .keys(ONE_KEY)
        .doc("string", "6.2.0", "Return a value and delete the key."),
    Row::new("getex", -2, WRITE | FAST, getex)
        .keys(ONE_KEY)
        .doc(
            "string",
            "6.2.0",
            "Return a value and change its time to live.",
        ),
    Row::new("mget", -2, READ | FAST, mget).keys(ALL_KEYS).doc(
        "string",
        "1.0.0",
        "Get several values of one instant.",
    ),
];

/// What to store: a value, with an expiry or without.
pub(crate) fn stored<'v>(value: impl Storable<'v>, expires_at_ms: Option<u64>) -> Decision<'v> {
    match expires_at_ms {
        Some(at) => Decision::put_expiring(value, at),
        None => Decision::put(value),
    }
}

/// The expiry of what was found, if anything was.
pub(crate) fn expiry_of(entry: Option<&Entry>) -> Option<u64> {
    entry.and_then(|entry| entry.expires_at_ms)
}

impl Context<'_> {
    /// Reads, decides and writes one key of the database selected.
    pub(crate) fn modify<'v>(
        &mut self,
        key: &[u8],
        mut decide: impl FnMut(Option<&Entry>) -> Result<Decision<'v>, Failure>,
    ) -> Result<RmwOutcome<'v>, Failure> {
        if let Some(decision) = self.decided_before(key, || decide(None))? {
            return Ok(RmwOutcome {
                old: None,
                decision,
                stamp: None,
            });
        }
        let outcome = self.writable()?.rmw_entry(key, BUFFERED, decide)?;
        if let Some(stamp) = outcome.stamp {
            self.session.wrote(stamp);
        }
        Ok(outcome)
    }

    /// As `modify`, for who needs not the value but what is known of it: it is not read. Whether
    /// something was written.
    pub(crate) fn modify_unread<'v>(
        &mut self,
        key: &[u8],
        mut decide: impl FnMut(Option<EntryInfo>) -> Decision<'v>,
    ) -> Result<bool, Failure> {
        if self.decided_before(key, || Ok(decide(None)))?.is_some() {
            return Ok(false);
        }
        let keyspace = self.writable()?;
        let stamp = keyspace.update_unread(key, BUFFERED, |old| Ok::<_, Failure>(decide(old)))?;
        if let Some(stamp) = stamp {
            self.session.wrote(stamp);
        }
        Ok(stamp.is_some())
    }

    /// What is decided of a key that cannot be there, if that is to write nothing: where nothing
    /// was ever written that creates no database, and no key is longer than the engine takes.
    fn decided_before<'v>(
        &mut self,
        key: &[u8],
        decide_absent: impl FnOnce() -> Result<Decision<'v>, Failure>,
    ) -> Result<Option<Decision<'v>>, Failure> {
        if limits::check_key(key).is_ok() && self.existing()?.is_some() {
            return Ok(None);
        }
        match decide_absent()? {
            decision @ (Decision::Keep | Decision::Delete) => Ok(Some(decision)),
            Decision::Put(value) | Decision::PutExpiring(value, _) => {
                self.check_first(key, &value)?;
                Ok(None)
            }
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8], expires_at_ms: Option<u64>) -> Outcome {
        self.check_first(key, value)?;
        let keyspace = self.writable()?;
        let stamp = match expires_at_ms {
            None => keyspace.put_with(key, value, BUFFERED)?,
            Some(at) => keyspace.put_expiring(key, value, at, BUFFERED)?,
        };
        self.session.wrote(stamp);
        Ok(())
    }

    fn reply_value(&mut self, entry: Option<&Entry>) {
        self.reply.bulk_or_null(entry.map(|entry| &*entry.value));
    }
}

fn get(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let found = match ctx.databases.existing(ctx.session.database)? {
        Some(keyspace) => keyspace
            .get_with(args.at(1), |value| ctx.reply.bulk(value))?
            .is_some(),
        None => false,
    };
    ctx.counters.looked_up(found);
    if !found {
        ctx.reply.null();
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    IfAbsent,
    IfPresent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiry {
    Never,
    Keep,
    At(u64),
}

struct SetOptions {
    condition: Condition,
    expiry: Expiry,
    get: bool,
}

impl SetOptions {
    fn parse(ctx: &Context<'_>, args: Args<'_>) -> Result<SetOptions, Failure> {
        let (mut condition, mut keep, mut get) = (Condition::Always, false, false);
        let mut time = None;
        let mut options = args.from(3).iter();
        while let Some(option) = options.next() {
            if is(option, "nx") && condition != Condition::IfPresent {
                condition = Condition::IfAbsent;
            } else if is(option, "xx") && condition != Condition::IfAbsent {
                condition = Condition::IfPresent;
            } else if is(option, "get") {
                get = true;
            } else if is(option, "keepttl") && time.is_none() {
                keep = true;
            } else if keep {
                return Err(SYNTAX);
            } else {
                time = Some(timed(option, options.next(), time)?);
            }
        }
        let expiry = match time {
            // Read only now: a syntax error anywhere comes before a wrong time.
            Some((time, value)) => Expiry::At(time.positive(value, ctx)?),
            None if keep => Expiry::Keep,
            None => Expiry::Never,
        };
        Ok(SetOptions {
            condition,
            expiry,
            get,
        })
    }
}

/// The time that `option` announces, with its value. As in Redis it may be given again, and the
/// last counts; two units contradict each other.
fn timed<'a>(
    option: &[u8],
    value: Option<&'a [u8]>,
    before: Option<(Time, &[u8])>,
) -> Result<(Time, &'a [u8]), Failure> {
    let agrees = |time: &Time| before.is_none_or(|(before, _)| before == *time);
    let time = Time::option(option).filter(agrees);
    time.zip(value).ok_or(SYNTAX)
}

fn set(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (key, value) = (args.at(1), args.at(2));
    let options = SetOptions::parse(ctx, args)?;
    if options.condition == Condition::Always && !options.get {
        match options.expiry {
            Expiry::Never => ctx.put(key, value, None)?,
            Expiry::At(at) => ctx.put(key, value, Some(at))?,
            Expiry::Keep => {
                ctx.modify_unread(key, |old| {
                    stored(value, old.and_then(|old| old.expires_at_ms))
                })?;
            }
        }
        ctx.reply.ok();
        return Ok(());
    }
    let decide = |is_there: bool, expires_at_ms: Option<u64>| {
        let refused = match options.condition {
            Condition::Always => false,
            Condition::IfAbsent => is_there,
            Condition::IfPresent => !is_there,
        };
        match options.expiry {
            _ if refused => Decision::Keep,
            Expiry::Never => Decision::put(value),
            Expiry::Keep => stored(value, expires_at_ms),
            Expiry::At(at) => Decision::put_expiring(value, at),
        }
    };
    if options.get {
        let outcome = ctx.modify(key, |old| Ok(decide(old.is_some(), expiry_of(old))))?;
        ctx.reply_value(outcome.old.as_ref());
        return Ok(());
    }
    let expiry_of = |old: Option<EntryInfo>| old.and_then(|old| old.expires_at_ms);
    match ctx.modify_unread(key, |old| decide(old.is_some(), expiry_of(old)))? {
        true => ctx.reply.ok(),
        false => ctx.reply.null(),
    }
    Ok(())
}

fn setnx(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let is_set = ctx.modify_unread(args.at(1), |old| match old {
        None => Decision::put(args.at(2)),
        Some(_) => Decision::Keep,
    })?;
    ctx.reply.integer(i64::from(is_set));
    Ok(())
}

fn setex(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_for(ctx, args, Time::Seconds)
}

fn psetex(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_for(ctx, args, Time::Millis)
}

fn set_for(ctx: &mut Context<'_>, args: Args<'_>, time: Time) -> Outcome {
    let at = time.positive(args.at(2), ctx)?;
    ctx.put(args.at(1), args.at(3), Some(at))?;
    ctx.reply.ok();
    Ok(())
}

fn getset(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let outcome = ctx.modify(args.at(1), |_| Ok(Decision::put(args.at(2))))?;
    ctx.reply_value(outcome.old.as_ref());
    Ok(())
}

fn getdel(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let outcome = match ctx.existing()? {
        None => None,
        Some(_) => {
            let delete = |old: Option<&Entry>| match old {
                Some(_) => Decision::Delete,
                None => Decision::Keep,
            };
            ctx.modify(args.at(1), |old| Ok(delete(old)))?.old
        }
    };
    ctx.counters.looked_up(outcome.is_some());
    ctx.reply_value(outcome.as_ref());
    Ok(())
}

fn getex(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() == 2 {
        return get(ctx, args);
    }
    let (mut persists, mut time) = (false, None);
    let mut options = args.from(2).iter();
    while let Some(option) = options.next() {
        if is(option, "persist") && time.is_none() {
            persists = true;
        } else if persists {
            return Err(SYNTAX);
        } else {
            time = Some(timed(option, options.next(), time)?);
        }
    }
    // An absent key is no occasion to look at the time given.
    if !ctx.contains(args.at(1))? {
        ctx.reply.null();
        return Ok(());
    }
    let expiry = match time {
        Some((time, value)) => Some(time.positive(value, ctx)?),
        None => None,
    };
    let outcome = ctx.modify(args.at(1), |old| {
        Ok(match old {
            Some(entry) if entry.expires_at_ms != expiry => stored(entry.value.to_vec(), expiry),
            _ => Decision::Keep,
        })
    })?;
    ctx.reply_value(outcome.old.as_ref());
    Ok(())
}

fn mget(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.reply.array(args.len() - 1);
    let mut values = 0;
    ctx.read_together(args.from(1).iter(), |ctx, value| {
        values += usize::from(value.is_some());
        ctx.check_next(values, value.as_deref())?;
        ctx.reply.bulk_or_null(value.as_deref());
        Ok(())
    })
}

impl From<std::num::TryFromIntError> for Failure {
    fn from(_: std::num::TryFromIntError) -> Self {
        NOT_AN_INTEGER
    }
}
