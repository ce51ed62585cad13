//! CONFIG: the settings that exist, and those of them that may change while the server runs.
//!
//! Settings of Redis that are always one way here, such as `save`, are told and cannot be
//! changed; paths cannot be changed by a client.
//!
//! S1. CONFIG SET changes all settings it names, or none: nothing is changed before the last of
//!     them is known to be possible.
//!
//! Tests: `tests/limits.rs`, `tests/redis_py.py`.

use super::failure::{Failure, Outcome, SYNTAX, quoted};
use super::row::{ADMIN, Context, Row};
use super::subcommands::{help, needs_subcommand};
use crate::config::PASSWORD_BYTES_MAX;
use crate::glob;
use crate::number::parse_i64;
use crate::resp::request::Args;
use crate::shared::Shared;
use std::borrow::Cow;
use std::fmt::Display;
use std::ops::RangeInclusive;
use velella::limits;
use velella_sync::atomic::Ordering;

pub(crate) const ROWS: &[Row] = &[Row::new("config", -2, ADMIN, needs_subcommand)
    .doc("server", "2.0.0", "Look at settings, and change some.")
    .with(&[
        Row::new("config|get", -3, ADMIN, get).doc("server", "2.0.0", "Settings by pattern."),
        Row::new("config|set", -4, ADMIN, set).doc("server", "2.0.0", "Change settings."),
        Row::new("config|resetstat", 2, ADMIN, resetstat).doc(
            "server",
            "2.0.0",
            "Back to zero with what INFO counts.",
        ),
        Row::new("config|rewrite", 2, ADMIN, rewrite).doc(
            "server",
            "2.8.0",
            "There is no file to rewrite: always an error.",
        ),
        Row::new("config|help", 2, ADMIN, help).doc("server", "5.0.0", "List these."),
    ])];

/// Changes a setting, which cannot fail.
type Change = Box<dyn FnOnce(&Shared)>;
/// The change to a setting that a value asks for, or why there is none.
type Plan = fn(&Shared, &[u8]) -> Result<Change, Refusal>;
/// Why a value cannot be set, in Redis's words.
type Refusal = Cow<'static, str>;

/// One setting: its name, how it is told, and how it is changed.
struct Setting {
    name: &'static str,
    get: fn(&Shared) -> String,
    set: Option<Plan>,
}

const NOT_AN_INTEGER: &str = "argument couldn't be parsed into an integer";
const NO_MEMORY_VALUE: &str = "argument must be a memory value";
/// The longest `timeout`, in seconds, which Redis keeps in 32 bits with a sign.
const TIMEOUT_SECONDS_MAX: u64 = 0x7fff_ffff;

// All loads and stores below are Relaxed: see `Settings`.
const SETTINGS: &[Setting] = &[
    fixed("appendonly", |shared| {
        match shared.db.options().journal {
            velella::JournalMode::Off => "no",
            _ => "yes",
        }
        .into()
    }),
    fixed("appendfsync", |shared| {
        match shared.db.options().durability {
            velella::Durability::Buffered => "everysec",
            _ => "always",
        }
        .into()
    }),
    fixed("bind", |shared| shared.config.bind.to_string()),
    fixed("client-output-buffer-limit", |shared| {
        format!("normal {} 0 0", shared.config.max_output_bytes)
    }),
    fixed("databases", |_| crate::databases::DATABASES.to_string()),
    fixed("dir", |shared| shared.db.path().display().to_string()),
    fixed("io-threads", |shared| shared.config.threads.to_string()),
    Setting {
        name: "maxclients",
        get: |shared| {
            shared
                .settings
                .maxclients
                .load(Ordering::Relaxed)
                .to_string()
        },
        set: Some(|shared, value| {
            let most = integer(value, 1..=shared.config.maxclients)?;
            change(move |shared| shared.settings.maxclients.store(most, Ordering::Relaxed))
        }),
    },
    fixed("maxmemory", |shared| shared.db.options().memory.to_string()),
    fixed("maxmemory-policy", |_| "noeviction".into()),
    fixed("port", |shared| shared.address.port().to_string()),
    Setting {
        name: "proto-max-bulk-len",
        get: |shared| {
            shared
                .settings
                .max_bulk_bytes
                .load(Ordering::Relaxed)
                .to_string()
        },
        set: Some(|_, value| {
            let most = within(memory(value)?, 1 << 10..=limits::VALUE_BYTES_MAX)?;
            change(move |shared| {
                let setting = &shared.settings.max_bulk_bytes;
                setting.store(most, Ordering::Relaxed);
            })
        }),
    },
    Setting {
        name: "requirepass",
        get: |shared| {
            shared
                .settings
                .requirepass
                .lock()
                .clone()
                .unwrap_or_default()
        },
        set: Some(|shared, value| {
            let password = String::from_utf8(value.to_vec());
            let password = password.map_err(|_| "argument must be text")?;
            if password.len() > PASSWORD_BYTES_MAX {
                return Err(
                    format!("argument must have at most {PASSWORD_BYTES_MAX} bytes").into(),
                );
            }
            if password.is_empty() && !shared.config.bind.is_loopback() {
                return Err("other machines can reach this server: it needs a password".into());
            }
            let password = Some(password).filter(|text| !text.is_empty());
            change(move |shared| *shared.settings.requirepass.lock() = password)
        }),
    },
    fixed("save", |_| String::new()),
    Setting {
        name: "slowlog-log-slower-than",
        get: |shared| {
            let micros = shared.settings.slow_micros.load(Ordering::Relaxed);
            i64::try_from(micros).unwrap_or(-1).to_string()
        },
        set: Some(|_, value| {
            let micros = integer(value, -1..=i64::MAX)?;
            let micros = u64::try_from(micros).unwrap_or(u64::MAX);
            change(move |shared| shared.settings.slow_micros.store(micros, Ordering::Relaxed))
        }),
    },
    Setting {
        name: "slowlog-max-len",
        get: |shared| {
            shared
                .settings
                .slowlog_entries
                .load(Ordering::Relaxed)
                .to_string()
        },
        set: Some(|_, value| {
            let most = integer(value, 0..=10_000)?;
            change(move |shared| {
                let setting = &shared.settings.slowlog_entries;
                setting.store(most, Ordering::Relaxed);
            })
        }),
    },
    Setting {
        name: "timeout",
        get: |shared| {
            shared
                .settings
                .timeout_seconds
                .load(Ordering::Relaxed)
                .to_string()
        },
        set: Some(|_, value| {
            let seconds = integer(value, 0..=TIMEOUT_SECONDS_MAX)?;
            change(move |shared| {
                let setting = &shared.settings.timeout_seconds;
                setting.store(seconds, Ordering::Relaxed);
            })
        }),
    },
];

const fn fixed(name: &'static str, get: fn(&Shared) -> String) -> Setting {
    Setting {
        name,
        get,
        set: None,
    }
}

fn change(apply: impl FnOnce(&Shared) + 'static) -> Result<Change, Refusal> {
    Ok(Box::new(apply))
}

fn integer<N: TryFrom<i64> + PartialOrd + Display>(
    value: &[u8],
    limits: RangeInclusive<N>,
) -> Result<N, Refusal> {
    within(parse_i64(value).ok_or(NOT_AN_INTEGER)?, limits)
}

fn within<N: TryFrom<i64> + PartialOrd + Display>(
    value: i64,
    limits: RangeInclusive<N>,
) -> Result<N, Refusal> {
    let fitting = N::try_from(value)
        .ok()
        .filter(|value| limits.contains(value));
    fitting.ok_or_else(|| {
        let (least, most) = limits.into_inner();
        format!("argument must be between {least} and {most} inclusive").into()
    })
}

/// Bytes, with a unit or without: `k` is 1,000 of them, `kb` 1,024, and so on.
fn memory(value: &[u8]) -> Result<i64, &'static str> {
    let digits = value
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (number, unit) = value.split_at(digits);
    let unit = match &unit.to_ascii_lowercase()[..] {
        b"" | b"b" => 1,
        b"k" => 1_000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return Err(NO_MEMORY_VALUE),
    };
    let bytes = parse_i64(number).and_then(|number| number.checked_mul(unit));
    bytes.ok_or(NO_MEMORY_VALUE)
}

fn get(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let asked = |setting: &&Setting| {
        args.from(2).iter().any(|pattern| {
            pattern.len() <= glob::PATTERN_BYTES_MAX
                && glob::matches_ignoring_case(pattern, setting.name.as_bytes())
        })
    };
    let settings: Vec<&Setting> = SETTINGS.iter().filter(asked).collect();
    ctx.reply.map(settings.len());
    for setting in settings {
        // As it was asked for: that is what the client looks for in the answer.
        let name = setting.name.as_bytes();
        let mut given = args.from(2).iter();
        let given = given.find(|given| given.eq_ignore_ascii_case(name));
        ctx.reply.bulk(given.unwrap_or(name));
        ctx.reply.bulk((setting.get)(ctx.shared).as_bytes());
    }
    Ok(())
}

fn set(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if !args.len().is_multiple_of(2) {
        return Err(SYNTAX);
    }
    let mut plans: Vec<(&str, Plan, &[u8])> = Vec::new();
    for at in (2..args.len()).step_by(2) {
        let named = |setting: &&Setting| args.at(at).eq_ignore_ascii_case(setting.name.as_bytes());
        let setting = SETTINGS.iter().find(named).ok_or_else(|| {
            let name = quoted(args.at(at));
            Failure::new(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
            ))
        })?;
        let plan = setting
            .set
            .ok_or_else(|| refused(setting.name, "can't set immutable config"))?;
        if plans.iter().any(|(name, ..)| *name == setting.name) {
            return Err(refused(setting.name, "duplicate parameter"));
        }
        plans.push((setting.name, plan, args.at(at + 1)));
    }
    let changes: Result<Vec<Change>, Failure> = plans
        .into_iter()
        .map(|(name, plan, value)| plan(ctx.shared, value).map_err(|why| refused(name, why)))
        .collect();
    changes?.into_iter().for_each(|change| change(ctx.shared));
    ctx.reply.ok();
    Ok(())
}

fn refused(name: &str, why: impl Display) -> Failure {
    Failure::new(format!(
        "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
    ))
}

fn resetstat(ctx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    ctx.shared
        .counters
        .iter()
        .for_each(|counters| counters.reset());
    // Relaxed: a number for people.
    ctx.shared.refused.store(0, Ordering::Relaxed);
    ctx.reply.ok();
    Ok(())
}

fn rewrite(_: &mut Context<'_>, _: Args<'_>) -> Outcome {
    Err(Failure::new(
        "ERR The server is running without a config file",
    ))
}
