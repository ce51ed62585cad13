//! What the options of several commands have in common: times to live, numbers of databases.
//!
//! Z1. A time is an absolute number of milliseconds since 1970 as soon as it is parsed. What counts
//!     from now counts from the database's now, by which keys expire.
//!
//! Tests: `tests/expiry.rs`, `tests/redis_py.py`.

use super::failure::{Failure, NOT_AN_INTEGER};
use super::row::Context;
use crate::databases::DATABASES;
use crate::number::parse_i64;

/// The unit and origin of a time a client gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    /// Seconds from now.
    Seconds,
    /// Milliseconds from now.
    Millis,
    /// Seconds since 1970.
    UnixSeconds,
    /// Milliseconds since 1970.
    UnixMillis,
}

impl Time {
    /// The time that an option of SET and GETEX announces.
    pub(crate) fn option(name: &[u8]) -> Option<Time> {
        [
            (&b"ex"[..], Time::Seconds),
            (b"px", Time::Millis),
            (b"exat", Time::UnixSeconds),
            (b"pxat", Time::UnixMillis),
        ]
        .into_iter()
        .find_map(|(option, time)| name.eq_ignore_ascii_case(option).then_some(time))
    }

    /// The instant `value` stands for, which may lie in the past, even before 1970.
    pub(crate) fn instant(self, value: &[u8], ctx: &Context<'_>) -> Result<i64, Failure> {
        let value = parse_i64(value).ok_or(NOT_AN_INTEGER)?;
        let millis = match self {
            Time::Seconds | Time::UnixSeconds => value.checked_mul(1000),
            Time::Millis | Time::UnixMillis => Some(value),
        };
        let instant = match self {
            Time::Seconds | Time::Millis => millis.and_then(|ms| ms.checked_add(ctx.now_ms())),
            Time::UnixSeconds | Time::UnixMillis => millis,
        };
        instant.ok_or_else(|| Failure::expire_time(ctx.row.name))
    }

    /// As [`Time::instant`], for commands that refuse times that are not above zero.
    pub(crate) fn positive(self, value: &[u8], ctx: &Context<'_>) -> Result<u64, Failure> {
        let number = parse_i64(value).ok_or(NOT_AN_INTEGER)?;
        if number <= 0 {
            return Err(Failure::expire_time(ctx.row.name));
        }
        let instant = self.instant(value, ctx)?;
        u64::try_from(instant).map_err(|_| Failure::expire_time(ctx.row.name))
    }
}

/// The number of a database, as SELECT and COPY are given it.
pub(crate) fn database_number(text: &[u8]) -> Result<usize, Failure> {
    let number = parse_i64(text).ok_or(NOT_AN_INTEGER)?;
    if i32::try_from(number).is_err() {
        return Err(Failure::new(
            "ERR value is out of range, value must between -2147483648 and 2147483647",
        ));
    }
    let there = usize::try_from(number).ok();
    let there = there.filter(|&number| number < DATABASES);
    there.ok_or(Failure::new("ERR DB index is out of range"))
}

/// Whether `argument` is the option `name`, in any case.
pub(crate) fn is(argument: &[u8], name: &str) -> bool {
    argument.eq_ignore_ascii_case(name.as_bytes())
}
