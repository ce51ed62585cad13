//! Counting keys at a bounded price, for INFO.
//!
//! Tests: through INFO in `tests/expiry.rs` and `tests/redis_py.py`.

use super::failure::Failure;
use super::row::Context;
use super::scan::keys_only;
use crate::census::Count;
use std::ops::Bound;
use velella_sync::thread::now;

/// Most keys one count looks at; beyond, the figure is the sum of what the tables hold.
const KEYS_MAX: u64 = 1 << 20;
/// Nor does it begin where the tables hold so much more: it may be deleted, and is passed over one
/// by one all the same.
const ENTRIES_MAX: u64 = 4 * KEYS_MAX;

/// The keys of a database, counted now or not long ago; `None`: it was never written.
pub(crate) fn keys_of(ctx: &mut Context<'_>, database: usize) -> Result<Option<Count>, Failure> {
    let begun = now();
    if let Some(count) = ctx.shared.census.recent(database, begun) {
        return Ok(Some(count));
    }
    let Some(count) = count(ctx, database)? else {
        return Ok(None);
    };
    ctx.shared.census.note(database, count, begun, now());
    Ok(Some(count))
}

fn count(ctx: &mut Context<'_>, database: usize) -> Result<Option<Count>, Failure> {
    // By the clock of the database, which may be ahead of the machine's.
    let (now_ms, mut ttl_sum) = (ctx.shared.db.now_ms(), 0u64);
    let Some(keyspace) = ctx.databases.existing(database)?.cloned() else {
        return Ok(None);
    };
    let mut count = Count::default();
    let entries = in_tables(ctx, database);
    if entries > ENTRIES_MAX {
        count.keys = entries;
        return Ok(Some(count));
    }
    let mut iter = keys_only(&keyspace, Bound::Unbounded, b"")?;
    while iter.step()? {
        count.keys += 1;
        if let Some(at) = iter.expires_at_ms() {
            count.expiring += 1;
            ttl_sum = ttl_sum.saturating_add(at.saturating_sub(now_ms));
        }
        if count.keys == KEYS_MAX {
            count.keys = entries.max(KEYS_MAX);
            break;
        }
    }
    count.mean_ttl_ms = ttl_sum.checked_div(count.expiring).unwrap_or(0);
    Ok(Some(count))
}

/// Entries in the tables of a database: superseded versions and deletions count too.
fn in_tables(ctx: &Context<'_>, database: usize) -> u64 {
    let name = if database == 0 {
        "default".to_owned()
    } else {
        format!("db{database}")
    };
    let stats = ctx.shared.db.stats();
    let keyspace = stats
        .keyspaces
        .into_iter()
        .find(|keyspace| keyspace.name == name);
    keyspace.map_or(0, |found| {
        found.levels.iter().map(|level| level.entries).sum()
    })
}
