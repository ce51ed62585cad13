//! `velella compact`: merges every level down, so that dead versions leave the disk.
//!
//! Tests: `tests/maintenance.rs`.

use crate::database::Place;
use crate::failure::Failure;
use crate::human;
use crate::output::Output;
use crate::progress;
use clap::Args;
use serde::Serialize;
use std::time::Instant;
use velella::{Db, Keyspace, Stats};

/// Arguments of `compact`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  velella compact
  velella compact --keyspace words")]
pub(crate) struct Compact {
    #[command(flatten)]
    place: Place,
    /// Only this keyspace
    #[arg(long, short = 'k', value_name = "NAME")]
    keyspace: Option<String>,
}

/// What the tables of what is compacted hold.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Size {
    tables: u64,
    entries: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Compacted {
    before: Size,
    after: Size,
    seconds: f64,
}

impl Compact {
    pub(crate) fn run(self, output: &mut Output) -> Result<(), Failure> {
        let db = self.place.open(output)?;
        let keyspace = self.keyspace.map(|name| db.keyspace(&name)).transpose()?;
        let start = Instant::now();
        let bar = progress::busy("compacting");
        // Flushed first, so that the two sizes speak of the same pairs.
        let done = db.flush().and_then(|()| {
            let before = size(&db, keyspace.as_ref());
            match &keyspace {
                Some(keyspace) => keyspace.compact()?,
                None => db.compact()?,
            }
            Ok((before, size(&db, keyspace.as_ref())))
        });
        bar.finish_and_clear();
        let (before, after) = done?;
        let time = start.elapsed();
        db.close()?;
        let seconds = time.as_secs_f64();
        output.result(
            &Compacted {
                before,
                after,
                seconds,
            },
            |out| {
                let told = |size: Size| {
                    format!(
                        "{} in {}, {}",
                        human::counted(size.entries, "entry"),
                        human::counted(size.tables, "table"),
                        human::bytes(size.bytes)
                    )
                };
                writeln!(out, "before  {}", told(before))?;
                writeln!(out, "after   {}", told(after))?;
                writeln!(out, "in {}", human::duration(time))
            },
        )
    }
}

/// What the tables of `keyspace` hold, or those of all.
fn size(db: &Db, keyspace: Option<&Keyspace>) -> Size {
    let Stats { keyspaces, .. } = db.stats();
    let compacted = keyspaces
        .iter()
        .filter(|of| keyspace.is_none_or(|only| only.name() == of.name));
    let levels = compacted.flat_map(|keyspace| &keyspace.levels);
    levels.fold(Size::default(), |sum, level| Size {
        tables: sum.tables + level.tables,
        entries: sum.entries + level.entries,
        bytes: sum.bytes + level.bytes,
    })
}
