//! Reading everything back: every checksum, every invariant, every file.
//!
//! V1. Verification holds nothing that writers need; it reads what is on disk now.
//! V2. The first damage ends it, with file and offset.
//! V3. Of the journal it reads what recovery would take after a power loss. Rounds and recycling go
//!     on meanwhile, so damage counts only if the journal stood still while it was read.
//!
//! Threads: any. Tests: `tests/verify.rs`.

use crate::agreement;
use crate::core::Engine;
use crate::keyspace_core::Core;
use crate::options::RecoveryMode;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::external::ExternalRef;
use velella_base::file_name::{FileName, JOURNAL_DIR, LOST_AND_FOUND};
use velella_base::{Error, ErrorKind, Result, Stamp, ValueKind};
use velella_journal::Recovery;
use velella_tree::Manifest;
use velella_tree::manifest::Replay;

/// How often the journal is read anew because it moved under the reader (V3).
const JOURNAL_ATTEMPTS: usize = 8;

/// What `verify` read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Tables read whole.
    pub tables: u64,
    /// Their entries.
    pub entries: u64,
    /// External values that tables refer to, each read whole.
    pub externals: u64,
    /// Bytes of tables and external values.
    pub bytes: u64,
    /// Edits of the manifest.
    pub manifest_edits: u64,
    /// Records of the journal that a power loss would leave, each read whole; `None` if there is
    /// no journal, or if it kept moving on faster than it could be read.
    pub journal_records: Option<u64>,
    /// Names in the directory, and in that of its journal, that are not the database's.
    pub foreign_files: Vec<String>,
}

impl Engine {
    /// Reads every file; `progress` is told bytes read and bytes in all, of tables and external
    /// values.
    pub(crate) fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
        let cores = self.cores();
        let mut report = VerifyReport::default();
        let mut total = self.env.externals.bytes();
        for level in cores.iter().flat_map(|core| core.tree.levels()) {
            report.tables += level.tables as u64;
            report.entries += level.entries;
            total += level.bytes;
        }
        let replay = self.replay_manifest()?;
        let edits = replay
            .records
            .iter()
            .map(|record| record.edits.len() as u64);
        report.manifest_edits = edits.sum();
        for core in &cores {
            let before = report.bytes;
            core.tree.verify(&mut |bytes| {
                report.bytes = before + bytes;
                progress(report.bytes, total.max(report.bytes));
            })?;
        }
        for core in &cores {
            self.verify_externals(core, &mut report, &mut |bytes| {
                progress(bytes, total.max(bytes))
            })?;
        }
        report.journal_records = self.verify_journal()?;
        report.foreign_files = self.foreign_files()?;
        Ok(report)
    }

    /// Reads the manifest in force, again if it was rewritten meanwhile.
    fn replay_manifest(&self) -> Result<Replay> {
        loop {
            let file = self.env.manifest.file();
            let replayed = Manifest::replay(&*self.env.vfs, &self.dir);
            if replayed.is_ok() || self.env.manifest.file() == file {
                return replayed;
            }
        }
    }

    /// Reads the external values that the tables of `core` refer to. The cursor holds the tables,
    /// and the tables hold the files.
    fn verify_externals(
        &self,
        core: &Core,
        report: &mut VerifyReport,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let mut cursor = core.tree.cursor(false);
        let state = self.env.manifest.state();
        let has_some = |id| {
            let tables = state.keyspace(id)?.levels.iter().flatten();
            Some(tables.into_iter().any(|table| !table.externals.is_empty()))
        };
        if !has_some(core.id).unwrap_or(false) {
            return Ok(());
        }
        let mut seen = BTreeSet::new();
        cursor.seek_first()?;
        while let Some(entry) = cursor.entry() {
            if entry.kind == ValueKind::External {
                let reference = ExternalRef::decode(entry.value)
                    .ok_or_else(|| malformed(core, entry.key, entry.stamp))?;
                if seen.insert(reference.file) {
                    report.bytes += self.env.externals.verify(&reference)?;
                    report.externals += 1;
                    progress(report.bytes);
                }
            }
            cursor.next()?;
        }
        Ok(())
    }

    /// Reads the journal of this run as recovery would; how many records there are (V3).
    fn verify_journal(&self) -> Result<Option<u64>> {
        if self.journal.is_none() {
            return Ok(None);
        }
        for _ in 0..JOURNAL_ATTEMPTS {
            let before = self.journal_stand()?;
            match self.read_journal(before.0) {
                Ok(records) => return Ok(Some(records)),
                Err(error) if self.journal_stand()? == before => return Err(error),
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// What changes when a round completes, or a segment comes or goes.
    fn journal_stand(&self) -> Result<(Stamp, u64, Vec<PathBuf>)> {
        let rounds = self.journal.as_ref().map(|journal| journal.stats().rounds);
        Ok((
            self.durable(),
            rounds.unwrap_or(0),
            self.env.vfs.read_dir(&self.dir.join(JOURNAL_DIR))?,
        ))
    }

    fn read_journal(&self, durable: Stamp) -> Result<u64> {
        let state = self.env.manifest.state();
        let last = agreement::last(&state, RecoveryMode::AssumePowerLoss);
        let vfs = Arc::clone(&self.env.vfs);
        let mut journal = Recovery::open(vfs, &self.dir, self.env.database, &last)?;
        while journal.next_record()?.is_some() {}
        let report = journal.report();
        if report.cut < durable {
            // Recovery would take the last round for one that was in flight; this run knows better.
            let found = format!(
                "a power loss would leave what is up to stamp {}, although stamp {durable} was \
                 made durable: {}",
                report.cut,
                report.notes.join("; ")
            );
            let seals = FileName::Seal(state.seal_file).path(&self.dir);
            return Err(
                Error::new(ErrorKind::Corruption, "verify the journal", found)
                    .on(&seals)
                    .remedy("flush, so that nothing depends on the journal, and check the device"),
            );
        }
        Ok(report.records)
    }

    fn foreign_files(&self) -> Result<Vec<String>> {
        let journal = Path::new(JOURNAL_DIR);
        let mut paths = self.env.vfs.read_dir(&self.dir)?;
        if paths.iter().any(|path| path == journal) {
            let within = self.env.vfs.read_dir(&self.dir.join(journal))?;
            paths.extend(within.iter().map(|name| journal.join(name)));
        }
        let is_ours = |path: &Path| {
            FileName::at(path).is_some() || path == journal || path == Path::new(LOST_AND_FOUND)
        };
        let foreign = paths.iter().filter(|path| !is_ours(path));
        Ok(foreign
            .map(|path| path.to_string_lossy().into_owned())
            .collect())
    }
}

fn malformed(core: &Core, key: &[u8], stamp: Stamp) -> Error {
    let attempt = format!("verify keyspace `{}`", core.name);
    let found = format!(
        "the version of \"{}\" at stamp {stamp} is no reference to an external value",
        key.escape_ascii()
    );
    Error::new(ErrorKind::Corruption, attempt, found).remedy("restore the database from a backup")
}

#[cfg(test)]
mod tests;
