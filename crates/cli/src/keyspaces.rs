//! `velella keyspaces`: lists, creates, changes and drops keyspaces.
//!
//! Tests: below, and `tests/maintenance.rs`.

use crate::database::{Place, check_keyspace_name};
use crate::failure::Failure;
use crate::human;
use crate::output::Output;
use crate::table::Table;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use velella::{Compression, Error, ErrorKind, KeyspaceOptions, KeyspaceStats, MemtableKind};

/// Arguments of `keyspaces`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  velella keyspaces list
  velella keyspaces create words --compression zstd
  velella keyspaces change words --bloom-bits 14
  velella keyspaces drop words --yes")]
pub(crate) struct Keyspaces {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the keyspaces and their sizes
    List {
        #[command(flatten)]
        place: Place,
    },
    /// Create a keyspace
    Create(Create),
    /// Change how a keyspace's next memtable and tables are made; what exists stays as it is
    Change(Change),
    /// Drop a keyspace and its data for good
    Drop {
        /// Its name
        name: String,
        #[command(flatten)]
        place: Place,
        /// Confirm that its data may go
        #[arg(long, required = true)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
struct Create {
    /// Its name
    name: String,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Args)]
struct Change {
    /// Its name
    name: String,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    settings: Settings,
}

/// What a keyspace may have of its own. What is not given is the database's at creation, and stays
/// what it is at a change.
#[derive(Debug, Args)]
struct Settings {
    /// Compression of its tables
    #[arg(long, value_enum, value_name = "NAME")]
    compression: Option<CompressionName>,
    /// Bits per key of its filters
    #[arg(long, value_name = "N")]
    bloom_bits: Option<u32>,
    /// Structure of its memtables
    #[arg(long, value_enum, value_name = "NAME")]
    memtable: Option<MemtableName>,
}

/// Most bits per key of a filter; the engine's limit, and its words.
const BLOOM_BITS_MAX: u32 = 32;

impl Settings {
    /// Refuses what no keyspace can have.
    fn check(&self, name: &str) -> velella::Result<()> {
        match self.bloom_bits {
            Some(bits) if bits > BLOOM_BITS_MAX => Err(Error::invalid(
                format!("create keyspace `{name}` with `bloom_bits`"),
                format!("{bits}, at most {BLOOM_BITS_MAX}"),
            )),
            _ => Ok(()),
        }
    }
}

impl From<Settings> for KeyspaceOptions {
    fn from(settings: Settings) -> Self {
        KeyspaceOptions {
            compression: settings.compression.map(Into::into),
            bloom_bits: settings.bloom_bits,
            memtable: settings.memtable.map(Into::into),
            ..KeyspaceOptions::default()
        }
    }
}

/// The words of `--compression`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum CompressionName {
    /// Not at all
    None,
    /// Fast
    Lz4,
    /// Dense
    Zstd,
}

impl From<CompressionName> for Compression {
    fn from(name: CompressionName) -> Self {
        match name {
            CompressionName::None => Compression::None,
            CompressionName::Lz4 => Compression::Lz4,
            CompressionName::Zstd => Compression::Zstd,
        }
    }
}

/// The words of `--memtable`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum MemtableName {
    /// A skip list of distinct keys, each with its versions
    Jellyfish,
    /// One tower per version: the baseline
    AppendOnly,
    /// Distinct keys in unsorted entries of eight, each key with its versions
    S3,
}

impl From<MemtableName> for MemtableKind {
    fn from(name: MemtableName) -> Self {
        match name {
            MemtableName::Jellyfish => MemtableKind::Jellyfish,
            MemtableName::AppendOnly => MemtableKind::AppendOnly,
            MemtableName::S3 => MemtableKind::S3,
        }
    }
}

impl Keyspaces {
    pub(crate) fn run(self, output: &mut Output) -> Result<(), Failure> {
        match self.action {
            Action::List { place } => list(&place, output),
            Action::Create(create) => create.run(output),
            Action::Change(change) => change.run(output),
            Action::Drop { name, place, .. } => {
                let db = place.open(output)?;
                db.drop_keyspace(&name)
                    .map_err(|error| missing(error, "drop", &name))?;
                db.close()?;
                output.result(&json!({"dropped": name}), |out| {
                    writeln!(out, "dropped keyspace {name}")
                })
            }
        }
    }
}

/// That there is no such keyspace, told as what was attempted: the engine speaks of opening it.
fn missing(error: Error, attempt: &str, name: &str) -> Error {
    if error.kind() != ErrorKind::NotFound {
        return error;
    }
    let attempt = format!("{attempt} keyspace `{name}`");
    Error::new(error.kind(), attempt, "there is none of that name")
        .remedy("`keyspaces list` names all there are")
}

fn list(place: &Place, output: &mut Output) -> Result<(), Failure> {
    let db = place.open(output)?;
    let stats = db.stats();
    db.close()?;
    output.result(&stats.keyspaces, |out| table(&stats.keyspaces).print(out))
}

/// A row for each keyspace.
pub(crate) fn table(keyspaces: &[KeyspaceStats]) -> Table {
    let names = [
        "keyspace",
        ">tables",
        ">entries",
        ">on disk",
        ">memtable",
        ">immutable",
        "memtables",
        "compression",
        ">bloom bits",
    ];
    let mut table = Table::new(&names);
    for keyspace in keyspaces {
        let sum = |field: fn(&velella::LevelStats) -> u64| keyspace.levels.iter().map(field).sum();
        table.row([
            keyspace.name.clone(),
            human::count(sum(|level| level.tables)),
            human::count(sum(|level| level.entries)),
            human::bytes(sum(|level| level.bytes)),
            human::bytes(keyspace.memtable_bytes),
            human::count(keyspace.immutable_memtables),
            keyspace.memtable.to_owned(),
            keyspace.compression.to_owned(),
            keyspace.bloom_bits.to_string(),
        ]);
    }
    table
}

impl Create {
    fn run(self, output: &mut Output) -> Result<(), Failure> {
        // First of all: what is refused leaves no directory behind.
        check_keyspace_name(&self.name)?;
        self.settings.check(&self.name)?;
        let db = self.place.open_or_create(output)?;
        db.create_keyspace(&self.name, self.settings.into())
            .map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => error.remedy("`keyspaces change` changes its settings"),
                _ => error,
            })?;
        db.close()?;
        output.result(&json!({"created": self.name}), |out| {
            writeln!(out, "created keyspace {}", self.name)
        })
    }
}

impl Change {
    fn run(self, output: &mut Output) -> Result<(), Failure> {
        let db = self.place.open(output)?;
        db.open_keyspace(&self.name, self.settings.into())
            .map_err(|error| missing(error, "change", &self.name))?;
        let stats = db.stats();
        db.close()?;
        let changed = stats
            .keyspaces
            .into_iter()
            .filter(|keyspace| keyspace.name == self.name)
            .collect::<Vec<_>>();
        output.result(&changed, |out| table(&changed).print(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As strict as the engine, and no stricter.
    #[test]
    fn settings_are_refused_as_by_the_engine() {
        let directory = tempfile::tempdir().unwrap();
        let db = velella::open(directory.path()).unwrap();
        let of = |bits| Settings {
            compression: None,
            bloom_bits: Some(bits),
            memtable: None,
        };
        of(BLOOM_BITS_MAX).check("x").unwrap();
        db.create_keyspace("x", of(BLOOM_BITS_MAX).into()).unwrap();
        let engine = db.create_keyspace("y", of(BLOOM_BITS_MAX + 1).into());
        let told = of(BLOOM_BITS_MAX + 1).check("y").unwrap_err();
        assert_eq!(told.to_string(), engine.err().unwrap().to_string());
    }
}
