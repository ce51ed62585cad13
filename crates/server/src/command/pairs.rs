//! Several pairs as one batch: MSET and MSETNX.
//!
//! M1. What a batch may not hold is refused in the engine's words before a database is created for
//!     it (C2 of `context.rs`), and before it is copied into a batch.
//!
//! Tests: below, `tests/commands.rs`, `tests/databases.rs`, `tests/redis_py.py`.

use super::failure::{Failure, Outcome};
use super::row::{Context, MEMORY, Row, WRITE};
use super::session::BUFFERED;
use crate::resp::request::Args;
use std::collections::BTreeMap;
use velella::{Error, Keyspace, WriteBatch, limits};

const PAIRS: (i32, i32, i32) = (1, -1, 2);
/// What a batch counts for a value in a file of its own.
const EXTERNAL_BYTES: usize = 28;

pub(crate) const ROWS: &[Row] = &[
    Row::new("mset", -3, WRITE | MEMORY, mset).keys(PAIRS).doc(
        "string",
        "1.0.1",
        "Set several values at one instant.",
    ),
    Row::new("msetnx", -3, WRITE | MEMORY, msetnx)
        .keys(PAIRS)
        .doc(
            "string",
            "1.0.1",
            "Set several values at one instant, if all keys are absent.",
        ),
];

/// The pairs of MSET and MSETNX.
fn pairs<'a>(args: Args<'a>) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone {
    let keys = (1..args.len()).step_by(2);
    keys.map(move |key| (args.at(key), args.at(key + 1)))
}

/// Refuses what the engine would (M1).
fn check<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone) -> Outcome {
    let refused = |found: String| {
        let error = Error::invalid("write a batch", found).remedy("split it");
        Err(Failure::from(error))
    };
    let count = pairs.clone().count();
    let most = limits::BATCH_OPERATIONS_MAX;
    if count > most {
        return refused(format!("{count} operations, at most {most}"));
    }
    let mut bytes = 0;
    for (key, value) in pairs.clone() {
        limits::check_key(key)?;
        limits::check_value(value)?;
        bytes += key.len() + counted(value);
    }
    let most = limits::BATCH_BYTES_MAX;
    if bytes > most {
        // Of several values for a key the last is written.
        let last: BTreeMap<_, _> = pairs.map(|(key, value)| (key, counted(value))).collect();
        bytes = last.into_iter().map(|(key, value)| key.len() + value).sum();
    }
    if bytes > most {
        return refused(format!("{bytes} bytes of keys and values, at most {most}"));
    }
    Ok(())
}

/// The bytes of `value` that a batch counts.
fn counted(value: &[u8]) -> usize {
    match value.len() {
        len if len > limits::INLINE_VALUE_BYTES_MAX => EXTERNAL_BYTES,
        len => len,
    }
}

fn put_pairs(batch: &mut WriteBatch, keyspace: &Keyspace, args: Args<'_>) {
    for (key, value) in pairs(args) {
        batch.put(keyspace, key, value);
    }
}

fn mset(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(Failure::arity("mset"));
    }
    check(pairs(args))?;
    let mut batch = WriteBatch::new();
    put_pairs(&mut batch, ctx.writable()?, args);
    let stamp = ctx.shared.db.write_with(&batch, BUFFERED)?;
    ctx.session.wrote(stamp);
    ctx.reply.ok();
    Ok(())
}

fn msetnx(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(Failure::arity("msetnx"));
    }
    if ctx.existing()?.is_none() {
        check(pairs(args))?;
    }
    let keyspace = ctx.writable()?.clone();
    let set = ctx.atomically(|snapshot, batch| {
        for key in args.from(1).iter().step_by(2) {
            if snapshot.contains(&keyspace, key)? {
                return Ok(false);
            }
        }
        // Only now: what writes nothing is not refused for its length.
        check(pairs(args))?;
        put_pairs(batch, &keyspace, args);
        Ok(true)
    })?;
    ctx.reply.integer(i64::from(set));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_first_is_what_the_engine_refuses() {
        let directory = tempfile::tempdir().unwrap();
        let db = velella::open(directory.path()).unwrap();
        // What is checked first, and what the engine says where nothing is.
        let outcomes = |given: &[(&[u8], &[u8])]| -> (Outcome, Outcome) {
            let mut batch = WriteBatch::new();
            for (key, value) in given {
                batch.put(&db, key, value);
            }
            let written = db.write(&batch).map(|_| ()).map_err(Failure::from);
            (check(given.iter().copied()), written)
        };
        let (inline, external) = (vec![b'v'; 1 << 20], vec![b'v'; (1 << 20) + 1]);
        let keys: Vec<Vec<u8>> = (0..17).map(|number| vec![number]).collect();
        let mut given: Vec<(&[u8], &[u8])> = Vec::new();
        given.extend(keys[..16].iter().map(|key| (&key[..], &inline[..])));
        given.push((&keys[16], &external));
        // Sixteen full values, but for what the keys and the one in a file take.
        let room = inline.len() - keys.len() - EXTERNAL_BYTES;
        given[15].1 = &inline[..room];
        assert_eq!(outcomes(&given), (Ok(()), Ok(())));
        given[15].1 = &inline[..=room];
        let (checked, written) = outcomes(&given);
        assert!(
            checked.is_err() && checked == written,
            "{checked:?}, {written:?}"
        );

        let again = [(&b"k"[..], &inline[..]); 20];
        assert_eq!(outcomes(&again), (Ok(()), Ok(())));
        let many = vec![(&b"k"[..], &b"v"[..]); limits::BATCH_OPERATIONS_MAX + 1];
        let (checked, written) = outcomes(&many);
        assert!(
            checked.is_err() && checked == written,
            "{checked:?}, {written:?}"
        );
        assert_eq!(outcomes(&many[1..]), (Ok(()), Ok(())));
    }
}
