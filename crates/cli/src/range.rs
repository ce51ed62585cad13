//! Which pairs of a keyspace: bounds, prefix, direction, number; for `scan` and `export`.
//!
//! G1. Walks one view: pairs written meanwhile are neither missed nor met twice.
//!
//! Tests: `tests/pairs.rs`.

use crate::database::Escaped;
use crate::failure::Failure;
use clap::Args;
use std::ffi::OsString;
use std::ops::Bound;
use velella::{Iter, IterOptions, Keyspace};

/// Arguments that choose pairs.
#[derive(Debug, Clone, Args)]
pub(crate) struct Range {
    /// Begin at this key
    #[arg(long, value_name = "KEY", conflicts_with = "after")]
    from: Option<OsString>,
    /// Begin behind this key
    #[arg(long, value_name = "KEY")]
    after: Option<OsString>,
    /// End before this key
    #[arg(long, value_name = "KEY", conflicts_with = "through")]
    to: Option<OsString>,
    /// End with this key
    #[arg(long, value_name = "KEY")]
    through: Option<OsString>,
    /// Only keys that begin with this
    #[arg(long, short = 'p', value_name = "PREFIX")]
    prefix: Option<OsString>,
    /// Descending, from the last key to the first
    #[arg(long, short = 'r')]
    reverse: bool,
    /// At most so many pairs
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    escaped: Escaped,
}

impl Range {
    /// Reads the bounds, before a database is opened for them.
    pub(crate) fn chosen(self) -> Result<Chosen, Failure> {
        let escaped = self.escaped;
        let key = |key: Option<OsString>| key.map(|key| escaped.bytes(key)).transpose();
        let bound = |including, excluding| -> Result<_, Failure> {
            Ok(match (key(including)?, key(excluding)?) {
                (Some(key), _) => Bound::Included(key),
                (None, Some(key)) => Bound::Excluded(key),
                (None, None) => Bound::Unbounded,
            })
        };
        Ok(Chosen {
            options: IterOptions {
                lower: bound(self.from, self.after)?,
                upper: bound(self.through, self.to)?,
                prefix: key(self.prefix)?.unwrap_or_default(),
                fill_cache: false,
                ..IterOptions::default()
            },
            reverse: self.reverse,
            limit: self.limit,
        })
    }
}

/// Which pairs were chosen.
pub(crate) struct Chosen {
    options: IterOptions,
    reverse: bool,
    limit: Option<u64>,
}

impl Chosen {
    /// A walk over them.
    pub(crate) fn walk(self, keyspace: &Keyspace, keys_only: bool) -> Result<Walk, Failure> {
        let options = IterOptions {
            keys_only,
            ..self.options
        };
        Ok(Walk {
            iter: keyspace.iter_with(options)?,
            reverse: self.reverse,
            left: self.limit.unwrap_or(u64::MAX),
        })
    }
}

/// A walk over the pairs that were chosen.
pub(crate) struct Walk {
    iter: Iter,
    reverse: bool,
    left: u64,
}

/// A pair on the way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) expires_at_ms: Option<u64>,
}

impl Walk {
    /// The next pair.
    pub(crate) fn next(&mut self) -> Result<Option<Pair<'_>>, Failure> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        if self.reverse {
            self.iter.step_back()?;
        } else {
            self.iter.step()?;
        }
        let expires_at_ms = self.iter.expires_at_ms();
        Ok(self.iter.pair()?.map(|(key, value)| Pair {
            key,
            value,
            expires_at_ms,
        }))
    }
}
