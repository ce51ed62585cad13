//! Times to live: EXPIRE and its kin set them, TTL and its kin tell them, PERSIST ends them.
//!
//! The engine keeps an expiry with the value; changing it writes the value anew. So it is looked at
//! first, without the value, whether there is anything to change.
//!
//! Tests: below, `tests/expiry.rs`, `tests/redis_py.py`.

use super::failure::{Failure, Outcome};
use super::options::{Time, is};
use super::row::{Context, FAST, ONE_KEY, READ, Row, WRITE};
use super::strings::stored;
use crate::resp::request::Args;
use velella::{Decision, EntryInfo};

const WRITE_FAST: u16 = WRITE | FAST;
const READ_FAST: u16 = READ | FAST;

pub(crate) const ROWS: &[Row] = &[
    Row::new("expire", -3, WRITE_FAST, |ctx, args| {
        expire(ctx, args, Time::Seconds)
    })
    .keys(ONE_KEY)
    .doc("generic", "1.0.0", "Set a time to live in seconds."),
    Row::new("pexpire", -3, WRITE_FAST, |ctx, args| {
        expire(ctx, args, Time::Millis)
    })
    .keys(ONE_KEY)
    .doc("generic", "2.6.0", "Set a time to live in milliseconds."),
    Row::new("expireat", -3, WRITE_FAST, |ctx, args| {
        expire(ctx, args, Time::UnixSeconds)
    })
    .keys(ONE_KEY)
    .doc(
        "generic",
        "1.2.0",
        "Set the second since 1970 at which a key expires.",
    ),
    Row::new("pexpireat", -3, WRITE_FAST, |ctx, args| {
        expire(ctx, args, Time::UnixMillis)
    })
    .keys(ONE_KEY)
    .doc(
        "generic",
        "2.6.0",
        "Set the millisecond since 1970 at which a key expires.",
    ),
    Row::new("ttl", 2, READ_FAST, |ctx, args| {
        tell(ctx, args, Time::Seconds)
    })
    .keys(ONE_KEY)
    .doc("generic", "1.0.0", "Get the time to live in seconds."),
    Row::new("pttl", 2, READ_FAST, |ctx, args| {
        tell(ctx, args, Time::Millis)
    })
    .keys(ONE_KEY)
    .doc("generic", "2.6.0", "Get the time to live in milliseconds."),
    Row::new("expiretime", 2, READ_FAST, |ctx, args| {
        tell(ctx, args, Time::UnixSeconds)
    })
    .keys(ONE_KEY)
    .doc(
        "generic",
        "7.0.0",
        "Get the second since 1970 at which a key expires.",
    ),
    Row::new("pexpiretime", 2, READ_FAST, |ctx, args| {
        tell(ctx, args, Time::UnixMillis)
    })
    .keys(ONE_KEY)
    .doc(
        "generic",
        "7.0.0",
        "Get the millisecond since 1970 at which a key expires.",
    ),
    Row::new("persist", 2, WRITE_FAST, persist)
        .keys(ONE_KEY)
        .doc("generic", "2.2.0", "Remove the time to live."),
];

/// When an expiry may be changed.
#[derive(Default)]
struct Conditions {
    if_none: bool,
    if_some: bool,
    if_later: bool,
    if_sooner: bool,
}

impl Conditions {
    fn parse(args: Args<'_>) -> Result<Conditions, Failure> {
        let mut all = Conditions::default();
        for option in args.from(3).iter() {
            match option {
                _ if is(option, "nx") => all.if_none = true,
                _ if is(option, "xx") => all.if_some = true,
                _ if is(option, "gt") => all.if_later = true,
                _ if is(option, "lt") => all.if_sooner = true,
                _ => {
                    let option = super::failure::quoted(option);
                    return Err(Failure::new(format!("ERR Unsupported option {option}")));
                }
            }
        }
        if all.if_none && (all.if_some || all.if_later || all.if_sooner) {
            return Err(Failure::new(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if all.if_later && all.if_sooner {
            return Err(Failure::new(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(all)
    }

    /// Whether an expiry may become `new`; a key without one lives for ever.
    fn allow(&self, current: Option<u64>, new: i64) -> bool {
        let current = current.map(|at| i64::try_from(at).unwrap_or(i64::MAX));
        !(self.if_none && current.is_some()
            || self.if_some && current.is_none()
            || self.if_later && current.is_none_or(|at| new <= at)
            || self.if_sooner && current.is_some_and(|at| new >= at))
    }
}

fn expire(ctx: &mut Context<'_>, args: Args<'_>, time: Time) -> Outcome {
    let conditions = Conditions::parse(args)?;
    let at = time.instant(args.at(2), ctx)?;
    let allows = |info: &EntryInfo| conditions.allow(info.expires_at_ms, at);
    let is_set = match u64::try_from(at) {
        _ if !ctx.peek(args.at(1))?.as_ref().is_some_and(allows) => false,
        Ok(instant) if at > ctx.now_ms() => {
            let outcome = ctx.modify(args.at(1), |old| {
                Ok(match old {
                    Some(entry) if conditions.allow(entry.expires_at_ms, at) => {
                        Decision::put_expiring(entry.value.to_vec(), instant)
                    }
                    _ => Decision::Keep,
                })
            })?;
            outcome.stamp.is_some()
        }
        _ => ctx.modify_unread(args.at(1), |old| match old {
            Some(info) if allows(&info) => Decision::Delete,
            _ => Decision::Keep,
        })?,
    };
    ctx.reply.integer(i64::from(is_set));
    Ok(())
}

fn tell(ctx: &mut Context<'_>, args: Args<'_>, time: Time) -> Outcome {
    let expiry = ctx.entry_info(args.at(1))?.map(|info| info.expires_at_ms);
    let told = match expiry {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => {
            let at = i64::try_from(at).unwrap_or(i64::MAX);
            let left = at.saturating_sub(ctx.now_ms()).max(0);
            match time {
                Time::Seconds => left.saturating_add(500) / 1000,
                Time::Millis => left,
                Time::UnixSeconds => at.saturating_add(500) / 1000,
                Time::UnixMillis => at,
            }
        }
    };
    ctx.reply.integer(told);
    Ok(())
}

fn persist(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let known = ctx.peek(args.at(1))?;
    if known.and_then(|info| info.expires_at_ms).is_none() {
        ctx.reply.integer(0);
        return Ok(());
    }
    let outcome = ctx.modify(args.at(1), |old| {
        Ok(match old {
            Some(entry) if entry.expires_at_ms.is_some() => stored(entry.value.to_vec(), None),
            _ => Decision::Keep,
        })
    })?;
    ctx.reply.integer(i64::from(outcome.stamp.is_some()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_without_expiry_lives_longer_than_any_other() {
        let only = |name: &str| Conditions {
            if_none: name == "nx",
            if_some: name == "xx",
            if_later: name == "gt",
            if_sooner: name == "lt",
        };
        for (condition, current, new, expected) in [
            ("", None, 5, true),
            ("nx", None, 5, true),
            ("nx", Some(5), 6, false),
            ("xx", None, 5, false),
            ("xx", Some(5), 6, true),
            ("gt", None, 5, false),
            ("gt", Some(5), 5, false),
            ("gt", Some(5), 6, true),
            ("lt", None, 5, true),
            ("lt", Some(5), 5, false),
            ("lt", Some(5), 4, true),
        ] {
            assert_eq!(
                only(condition).allow(current, new),
                expected,
                "{condition} {current:?}"
            );
        }
    }
}
