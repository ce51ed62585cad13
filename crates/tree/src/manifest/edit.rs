//! The durable changes of a database's structure, and their encoding.
//!
//! ```text
//! edit := kind:u8 length:varint body
//! ```
//! Integers in bodies are varints unless docs/format/manifest.md says otherwise.
//! I1. The numbers are part of the format: never change one, never reuse one.
//! I2. An unknown kind is refused by its number; a body must be used up to its last byte.
//!
//! Tests: `manifest/tests.rs`; golden file in `tests/`.

use super::fault::Fault;
use super::settings::KeyspaceSettings;
use velella_base::codec::{Reader, put_slice, put_varint};
use velella_base::{DatabaseId, KeyspaceId, Stamp};
use velella_sst::TableMeta;
use velella_vfs::Identity;

/// Levels a keyspace can have at most: a bound on what is believed of a manifest.
pub const LEVELS_MAX: u32 = 32;
/// No counter of file numbers gets there: what says so was made by hand.
pub(super) const NUMBERS_END: u64 = 1 << 62;

/// A durable change of the database's structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// A keyspace came to be at its record's stamp.
    CreateKeyspace(KeyspaceRecord),
    /// A keyspace was dropped; its id is never used again.
    DropKeyspace {
        /// Its id.
        id: KeyspaceId,
        /// The drop's stamp.
        stamp: Stamp,
    },
    /// Tables joined a level.
    AddTables {
        /// Of this keyspace.
        keyspace: KeyspaceId,
        /// To this level.
        level: u32,
        /// These.
        tables: Vec<TableMeta>,
    },
    /// Tables left.
    RemoveTables {
        /// Of this keyspace.
        keyspace: KeyspaceId,
        /// By file number.
        files: Vec<u64>,
    },
    /// Every stamp of this keyspace below `below` is in its tables.
    Flushed {
        /// Of this keyspace.
        keyspace: KeyspaceId,
        /// W.
        below: Stamp,
    },
    /// A new run of the database began: it replaces the journal of the one before.
    Incarnation {
        /// Its number.
        number: u64,
        /// Seal file of its journal.
        seal_file: u64,
        /// Page-cache token.
        token: Identity,
    },
    /// Stamps up to this may be used.
    ClockLease {
        /// The highest.
        until: Stamp,
    },
    /// The wall clock was at least here (expiry never goes back).
    WallClock {
        /// Milliseconds since 1970.
        ms: u64,
    },
    /// File numbers below this may be used.
    FileLease {
        /// The first that may not.
        until: u64,
    },
    /// Files numbered below this (and not below an earlier such edit) were written by another
    /// database, of which this one is a checkpoint.
    Origin {
        /// The first number that is ours again.
        below: u64,
        /// Whose checksums the files carry.
        database: DatabaseId,
    },
    /// Every keyspace id below this was used.
    KeyspaceIds {
        /// The first that was not.
        next: KeyspaceId,
    },
    /// A keyspace's settings are these now, instead of what they were.
    KeyspaceSettings {
        /// Its id.
        keyspace: KeyspaceId,
        /// All of them.
        settings: KeyspaceSettings,
    },
    /// Every stamp below `below` was durable: what a drop told, in a manifest written anew.
    Durable {
        /// The drop's stamp.
        below: Stamp,
    },
}

/// What the manifest knows of a keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyspaceRecord {
    /// Never reused.
    pub id: KeyspaceId,
    /// Unique among the living.
    pub name: String,
    /// `leveled`.
    pub layout: String,
    /// Name of its order.
    pub order: String,
    /// Name of its merge operator; empty for none.
    pub merge_operator: String,
    /// Name of its prefix extractor; empty for none.
    pub prefix_extractor: String,
    /// When it was created.
    pub created: Stamp,
}

impl Edit {
    /// The edit's name, as listings and errors print it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Edit::CreateKeyspace(_) => "create-keyspace",
            Edit::DropKeyspace { .. } => "drop-keyspace",
            Edit::AddTables { .. } => "add-tables",
            Edit::RemoveTables { .. } => "remove-tables",
            Edit::Flushed { .. } => "flushed",
            Edit::Incarnation { .. } => "incarnation",
            Edit::ClockLease { .. } => "clock-lease",
            Edit::WallClock { .. } => "wall-clock",
            Edit::FileLease { .. } => "file-lease",
            Edit::Origin { .. } => "origin",
            Edit::KeyspaceIds { .. } => "keyspace-ids",
            Edit::KeyspaceSettings { .. } => "keyspace-settings",
            Edit::Durable { .. } => "durable",
        }
    }

    fn number(&self) -> u8 {
        match self {
            Edit::CreateKeyspace(_) => 1,
            Edit::DropKeyspace { .. } => 2,
            Edit::AddTables { .. } => 3,
            Edit::RemoveTables { .. } => 4,
            Edit::Flushed { .. } => 5,
            Edit::Incarnation { .. } => 6,
            Edit::ClockLease { .. } => 7,
            Edit::WallClock { .. } => 8,
            Edit::FileLease { .. } => 9,
            Edit::Origin { .. } => 10,
            Edit::KeyspaceIds { .. } => 11,
            Edit::KeyspaceSettings { .. } => 12,
            Edit::Durable { .. } => 13,
        }
    }

    /// Appends the edit to a record's payload.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        self.encode_body(&mut body);
        out.push(self.number());
        put_slice(out, &body);
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Edit::CreateKeyspace(record) => encode_record(record, out),
            Edit::DropKeyspace { id, stamp } => {
                put_varint(out, u64::from(*id));
                put_varint(out, stamp.0);
            }
            Edit::AddTables {
                keyspace,
                level,
                tables,
            } => {
                put_varint(out, u64::from(*keyspace));
                put_varint(out, u64::from(*level));
                put_varint(out, tables.len() as u64);
                for table in tables {
                    table.encode(out);
                }
            }
            Edit::RemoveTables { keyspace, files } => {
                put_varint(out, u64::from(*keyspace));
                put_numbers(out, files.iter().copied());
            }
            Edit::Flushed { keyspace, below } => {
                put_varint(out, u64::from(*keyspace));
                put_varint(out, below.0);
            }
            Edit::Incarnation {
                number,
                seal_file,
                token,
            } => {
                put_varint(out, *number);
                put_varint(out, *seal_file);
                encode_identity(token, out);
            }
            Edit::ClockLease { until } => put_varint(out, until.0),
            Edit::WallClock { ms } => put_varint(out, *ms),
            Edit::FileLease { until } => put_varint(out, *until),
            Edit::Origin { below, database } => {
                put_varint(out, *below);
                out.extend_from_slice(&database.to_le_bytes());
            }
            Edit::KeyspaceIds { next } => {
                put_varint(out, u64::from(*next));
                put_numbers(out, std::iter::empty());
            }
            Edit::KeyspaceSettings { keyspace, settings } => {
                put_varint(out, u64::from(*keyspace));
                settings.encode(out);
            }
            Edit::Durable { below } => put_varint(out, below.0),
        }
    }

    /// Takes one edit off the front of a record's payload (I2).
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Edit, Fault> {
        let cut = || Fault::Damaged("an edit is cut off".into());
        let number = reader.u8().ok_or_else(cut)?;
        let mut body = Reader::new(reader.slice().ok_or_else(cut)?);
        let edit = decode_body(number, &mut body)?.ok_or_else(|| {
            Fault::Damaged(format!("the body of edit kind {number} is malformed"))
        })?;
        if !body.is_empty() {
            let name = edit.name();
            return Err(Fault::Damaged(format!("edit {name} has bytes left over")));
        }
        Ok(edit)
    }
}

fn decode_body(number: u8, body: &mut Reader<'_>) -> Result<Option<Edit>, Fault> {
    Ok(match number {
        1 => decode_record(body).map(Edit::CreateKeyspace),
        2 => id(body)
            .zip(stamp(body))
            .map(|(id, stamp)| Edit::DropKeyspace { id, stamp }),
        3 => decode_add(body),
        4 => id(body)
            .zip(numbers(body))
            .map(|(keyspace, files)| Edit::RemoveTables { keyspace, files }),
        5 => id(body)
            .zip(stamp(body))
            .map(|(keyspace, below)| Edit::Flushed { keyspace, below }),
        6 => decode_incarnation(body),
        7 => stamp(body).map(|until| Edit::ClockLease { until }),
        8 => body.varint().map(|ms| Edit::WallClock { ms }),
        9 => {
            let until = body.varint().filter(|until| *until < NUMBERS_END);
            until.map(|until| Edit::FileLease { until })
        }
        10 => body
            .varint()
            .zip(body.u128())
            .map(|(below, database)| Edit::Origin { below, database }),
        11 => decode_ids(body),
        12 => decode_settings(body)?,
        13 => stamp(body).map(|below| Edit::Durable { below }),
        unknown => {
            return Err(Fault::Unknown(format!(
                "edit kind {unknown} is unknown to this build"
            )));
        }
    })
}

fn id(body: &mut Reader<'_>) -> Option<KeyspaceId> {
    KeyspaceId::try_from(body.varint()?).ok()
}

fn stamp(body: &mut Reader<'_>) -> Option<Stamp> {
    Stamp::of(body.varint()?)
}

fn text(body: &mut Reader<'_>) -> Option<String> {
    String::from_utf8(body.slice()?.to_vec()).ok()
}

fn put_numbers(out: &mut Vec<u8>, numbers: impl ExactSizeIterator<Item = u64>) {
    put_varint(out, numbers.len() as u64);
    for number in numbers {
        put_varint(out, number);
    }
}

/// A counted list; the count is bounded by what is left, so it allocates no more than that.
fn numbers(body: &mut Reader<'_>) -> Option<Vec<u64>> {
    let count = usize::try_from(body.varint()?).ok()?;
    if count > body.rest().len() {
        return None;
    }
    (0..count).map(|_| body.varint()).collect()
}

fn encode_record(record: &KeyspaceRecord, out: &mut Vec<u8>) {
    put_varint(out, u64::from(record.id));
    for text in [
        &record.name,
        &record.layout,
        &record.order,
        &record.merge_operator,
        &record.prefix_extractor,
    ] {
        put_slice(out, text.as_bytes());
    }
    put_varint(out, record.created.0);
}

fn decode_record(body: &mut Reader<'_>) -> Option<KeyspaceRecord> {
    Some(KeyspaceRecord {
        id: id(body)?,
        name: text(body)?,
        layout: text(body)?,
        order: text(body)?,
        merge_operator: text(body)?,
        prefix_extractor: text(body)?,
        created: stamp(body)?,
    })
}

/// A table, with stamps that can be (the tables' crate has the encoding).
fn decode_table(body: &mut Reader<'_>) -> Option<TableMeta> {
    TableMeta::decode(body).filter(|table| table.max_stamp <= Stamp::MAX)
}

fn decode_add(body: &mut Reader<'_>) -> Option<Edit> {
    let keyspace = id(body)?;
    let level = u32::try_from(body.varint()?)
        .ok()
        .filter(|level| *level < LEVELS_MAX)?;
    let count = usize::try_from(body.varint()?).ok()?;
    if count > body.rest().len() {
        return None;
    }
    let tables = (0..count)
        .map(|_| decode_table(body))
        .collect::<Option<_>>()?;
    Some(Edit::AddTables {
        keyspace,
        level,
        tables,
    })
}

fn encode_identity(token: &Identity, out: &mut Vec<u8>) {
    out.extend_from_slice(&token.boot);
    for number in [
        token.device,
        token.file_system,
        token.inode,
        token.born_ns,
        token.mount_namespace,
        token.mount,
    ] {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

fn decode_incarnation(body: &mut Reader<'_>) -> Option<Edit> {
    Some(Edit::Incarnation {
        number: body.varint()?,
        seal_file: body.varint()?,
        token: Identity {
            boot: body.bytes(16)?.try_into().ok()?,
            device: body.u64()?,
            file_system: body.u64()?,
            inode: body.u64()?,
            born_ns: body.u64()?,
            mount_namespace: body.u64()?,
            mount: body.u64()?,
        },
    })
}

fn decode_settings(body: &mut Reader<'_>) -> Result<Option<Edit>, Fault> {
    let Some(keyspace) = id(body) else {
        return Ok(None);
    };
    let settings = KeyspaceSettings::decode(body)?;
    Ok(settings.map(|settings| Edit::KeyspaceSettings { keyspace, settings }))
}

fn decode_ids(body: &mut Reader<'_>) -> Option<Edit> {
    let next = id(body)?;
    // Earlier builds listed the dropped ones; all of them are below `next`.
    numbers(body)?;
    Some(Edit::KeyspaceIds { next })
}
