//! The structure of a database: what all edits of a manifest add up to.
//!
//! J1. Applying the edits of [`State::edits`] to an empty state gives the state again.
//! J2. An edit that does not fit (a table removed that is not there, an id used twice) is an error,
//!     never ignored: the manifest and the directory would drift apart.
//! J3. Ids of keyspaces are used in turn, so no list is kept of those that were dropped: a database
//!     that makes keyspaces and drops them does not grow.
//!
//! Pure. Tests: `manifest/tests.rs`.

use super::edit::{Edit, KeyspaceRecord};
use super::settings::KeyspaceSettings;
use std::collections::BTreeSet;
use velella_base::{DatabaseId, KeyspaceId, Stamp};
use velella_sst::TableMeta;
use velella_vfs::Identity;

/// The structure of a database, as the manifest has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// The living keyspaces by id, with their tables per level and their floor W.
    pub keyspaces: Vec<KeyspaceState>,
    /// The next keyspace id: those below it were used.
    pub next_keyspace: KeyspaceId,
    /// Every number below this may have been used for a file.
    pub next_file: u64,
    /// The last incarnation, its seal file and token; 0 before the first.
    pub incarnation: u64,
    /// See `incarnation`.
    pub seal_file: u64,
    /// See `incarnation`.
    pub token: Identity,
    /// Stamps up to this may have been used.
    pub clock_lease: Stamp,
    /// Every stamp below this was durable: flushes, creations and drops are named only then.
    pub durable_below: Stamp,
    /// The wall clock was at least here.
    pub wall_ms: u64,
    /// Databases this one is a checkpoint of, each with the first file number that is no longer
    /// theirs, ascending.
    pub origins: Vec<(u64, DatabaseId)>,
}

/// One keyspace in the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyspaceState {
    /// What it is.
    pub record: KeyspaceRecord,
    /// How its later files and memtables are made, as far as it has its own way.
    pub settings: KeyspaceSettings,
    /// Every stamp below this is in tables.
    pub flushed_below: Stamp,
    /// Tables by level.
    pub levels: Vec<Vec<TableMeta>>,
}

impl State {
    /// A living keyspace.
    #[must_use]
    pub fn keyspace(&self, id: KeyspaceId) -> Option<&KeyspaceState> {
        self.keyspaces.iter().find(|state| state.record.id == id)
    }

    /// Whether a keyspace had this id and was dropped: ids are given in turn, and no record names
    /// a keyspace before the manifest does.
    #[must_use]
    pub fn is_dropped(&self, id: KeyspaceId) -> bool {
        id < self.next_keyspace && self.keyspace(id).is_none()
    }

    /// The database under whose id file number `file` was written: `own`, unless it came with a
    /// checkpoint.
    #[must_use]
    pub fn origin(&self, file: u64, own: DatabaseId) -> DatabaseId {
        self.origins
            .iter()
            .find(|(below, _)| file < *below)
            .map_or(own, |(_, database)| *database)
    }

    /// Every table of every keyspace.
    pub fn tables(&self) -> impl Iterator<Item = &TableMeta> {
        self.keyspaces
            .iter()
            .flat_map(|keyspace| keyspace.levels.iter().flatten())
    }

    /// The first keyspace that `edits` name without it being alive or created by them.
    pub(crate) fn missing_keyspace(&self, edits: &[Edit]) -> Option<KeyspaceId> {
        let is_created = |id| {
            let creates = |edit: &Edit| matches!(edit, Edit::CreateKeyspace(r) if r.id == id);
            edits.iter().any(creates)
        };
        edits
            .iter()
            .filter_map(|edit| match edit {
                Edit::DropKeyspace { id, .. } => Some(*id),
                Edit::AddTables { keyspace, .. }
                | Edit::RemoveTables { keyspace, .. }
                | Edit::Flushed { keyspace, .. }
                | Edit::KeyspaceSettings { keyspace, .. } => Some(*keyspace),
                _ => None,
            })
            .find(|id| self.keyspace(*id).is_none() && !is_created(*id))
    }

    /// Applies one edit; the error says why it does not fit (J2).
    pub(crate) fn apply(&mut self, edit: &Edit) -> Result<(), String> {
        match edit {
            Edit::CreateKeyspace(record) => {
                self.create(record)?;
                self.raise_durable(record.created);
            }
            Edit::DropKeyspace { id, stamp } => {
                self.living(*id)?;
                self.raise_durable(*stamp);
                self.keyspaces.retain(|state| state.record.id != *id);
            }
            Edit::AddTables {
                keyspace,
                level,
                tables,
            } => self.add_tables(*keyspace, *level as usize, tables)?,
            Edit::RemoveTables { keyspace, files } => self.remove_tables(*keyspace, files)?,
            Edit::Flushed { keyspace, below } => {
                let state = self.living(*keyspace)?;
                state.flushed_below = state.flushed_below.max(*below);
                self.raise_durable(*below);
            }
            Edit::Durable { below } => self.raise_durable(*below),
            Edit::Incarnation {
                number,
                seal_file,
                token,
            } => {
                if *number < self.incarnation {
                    let last = self.incarnation;
                    return Err(format!("incarnation {number} comes after {last}"));
                }
                self.incarnation = *number;
                self.seal_file = *seal_file;
                self.token = token.clone();
            }
            Edit::ClockLease { until } => self.clock_lease = self.clock_lease.max(*until),
            Edit::WallClock { ms } => self.wall_ms = self.wall_ms.max(*ms),
            Edit::FileLease { until } => self.next_file = self.next_file.max(*until),
            Edit::Origin { below, database } => {
                if self.origins.last().is_some_and(|(last, _)| below <= last) {
                    return Err(format!("origin below {below} is out of order"));
                }
                self.origins.push((*below, *database));
            }
            Edit::KeyspaceIds { next } => self.next_keyspace = self.next_keyspace.max(*next),
            Edit::KeyspaceSettings { keyspace, settings } => {
                self.living(*keyspace)?.settings = settings.clone();
            }
        }
        Ok(())
    }

    fn raise_durable(&mut self, below: Stamp) {
        self.durable_below = self.durable_below.max(below);
    }

    /// The edits that make this state out of an empty one (J1).
    #[must_use]
    pub fn edits(&self) -> Vec<Edit> {
        let mut edits = vec![Edit::FileLease {
            until: self.next_file,
        }];
        for (below, database) in &self.origins {
            edits.push(Edit::Origin {
                below: *below,
                database: *database,
            });
        }
        for state in &self.keyspaces {
            edits.push(Edit::CreateKeyspace(state.record.clone()));
            let keyspace = state.record.id;
            if !state.settings.is_empty() {
                edits.push(Edit::KeyspaceSettings {
                    keyspace,
                    settings: state.settings.clone(),
                });
            }
            for (level, tables) in (0u32..).zip(&state.levels) {
                if !tables.is_empty() {
                    edits.push(Edit::AddTables {
                        keyspace,
                        level,
                        tables: tables.clone(),
                    });
                }
            }
            edits.push(Edit::Flushed {
                keyspace,
                below: state.flushed_below,
            });
        }
        edits.push(Edit::KeyspaceIds {
            next: self.next_keyspace,
        });
        edits.push(Edit::Incarnation {
            number: self.incarnation,
            seal_file: self.seal_file,
            token: self.token.clone(),
        });
        edits.push(Edit::ClockLease {
            until: self.clock_lease,
        });
        edits.push(Edit::WallClock { ms: self.wall_ms });
        let keyspaces = self.keyspaces.iter();
        let told = keyspaces.map(|state| state.flushed_below.max(state.record.created));
        if told.max().unwrap_or(Stamp::ZERO) < self.durable_below {
            edits.push(Edit::Durable {
                below: self.durable_below,
            });
        }
        edits
    }

    fn create(&mut self, record: &KeyspaceRecord) -> Result<(), String> {
        let id = record.id;
        // Manifests of earlier builds begin with the next id 1, and then create keyspace 0.
        let is_first = id == 0 && self.next_keyspace == 1 && self.keyspaces.is_empty();
        if id < self.next_keyspace && !is_first {
            return Err(format!("keyspace id {id} was used before"));
        }
        let name = &record.name;
        if self
            .keyspaces
            .iter()
            .any(|state| state.record.name == *name)
        {
            return Err(format!("keyspace \"{name}\" exists already"));
        }
        let next = id.checked_add(1).ok_or("keyspace ids are used up")?;
        self.next_keyspace = self.next_keyspace.max(next);
        let place = self.keyspaces.partition_point(|state| state.record.id < id);
        let state = KeyspaceState {
            record: record.clone(),
            settings: KeyspaceSettings::default(),
            flushed_below: Stamp::ZERO,
            levels: Vec::new(),
        };
        self.keyspaces.insert(place, state);
        Ok(())
    }

    fn living(&mut self, id: KeyspaceId) -> Result<&mut KeyspaceState, String> {
        self.keyspaces
            .iter_mut()
            .find(|state| state.record.id == id)
            .ok_or_else(|| format!("keyspace {id} does not exist"))
    }

    fn add_tables(
        &mut self,
        keyspace: KeyspaceId,
        level: usize,
        tables: &[TableMeta],
    ) -> Result<(), String> {
        let state = self.living(keyspace)?;
        let new: BTreeSet<u64> = tables.iter().map(|table| table.file).collect();
        let double = state
            .levels
            .iter()
            .flatten()
            .find(|table| new.contains(&table.file));
        if let Some(double) = double {
            let file = double.file;
            return Err(format!("table {file} is in keyspace {keyspace} already"));
        }
        if new.len() != tables.len() {
            return Err(format!("a table is added twice to keyspace {keyspace}"));
        }
        if state.levels.len() <= level {
            state.levels.resize_with(level + 1, Vec::new);
        }
        state.levels[level].extend_from_slice(tables);
        Ok(())
    }

    fn remove_tables(&mut self, keyspace: KeyspaceId, files: &[u64]) -> Result<(), String> {
        let state = self.living(keyspace)?;
        let mut gone: BTreeSet<u64> = files.iter().copied().collect();
        for level in &mut state.levels {
            level.retain(|table| !gone.remove(&table.file));
        }
        while state.levels.last().is_some_and(Vec::is_empty) {
            state.levels.pop();
        }
        match gone.first() {
            Some(file) => Err(format!("table {file} is not in keyspace {keyspace}")),
            None => Ok(()),
        }
    }
}
