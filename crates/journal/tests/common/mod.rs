//! A journal on a file system in memory, driven like the engine drives it.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![allow(unreachable_pub, reason = "a module of tests")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::{Result, Stamp};
use velella_journal::{Access, Config, Journal, Lane, Last, Recovery, Report, Start};
use velella_sync::atomic::{AtomicU64, Ordering};
use velella_vfs::mem::CrashMode;
use velella_vfs::{MemFs, Vfs};

pub const DATABASE: u128 = 0x7e11_e11a;

/// Bytes of an extent of [`config`].
pub const EXTENT_BYTES: u64 = 64 << 10;

pub fn dir() -> PathBuf {
    PathBuf::from("/db")
}

/// A configuration with small segments.
pub fn config(vfs: Arc<dyn Vfs>, incarnation: u64, lanes: usize) -> Config {
    // Numbers never repeat in one database; leftovers of crashed runs are passed over.
    let next = AtomicU64::new(incarnation * 10_000);
    // The database directory and its name are the engine's.
    vfs.create_dir_all(&dir()).unwrap();
    vfs.sync_dir(Path::new("/")).unwrap();
    Config {
        vfs,
        dir: dir(),
        database: DATABASE,
        incarnation,
        lanes,
        segment_bytes: 256 << 10,
        extent_bytes: EXTENT_BYTES,
        access: Access::Mapped,
        ack_after_done: false,
        next_file: Arc::new(move || Ok(next.fetch_add(1, Ordering::Relaxed))),
        note: None,
        make_room: None,
    }
}

/// A running journal with its lanes, and a clock without concurrency: no window is ever open
/// between calls, so the frontier is the clock.
pub struct Bench {
    pub journal: Arc<Journal>,
    pub lanes: Vec<Lane>,
    pub start: Start,
    pub incarnation: u64,
    pub clock: u64,
}

impl Bench {
    pub fn start(config: Config) -> Result<Bench> {
        Self::start_at(config, Stamp::ZERO)
    }

    pub fn start_at(config: Config, durable: Stamp) -> Result<Bench> {
        let incarnation = config.incarnation;
        let (journal, lanes, start) = Journal::create(config, durable)?;
        Ok(Bench {
            journal,
            lanes,
            start,
            incarnation,
            clock: durable.0,
        })
    }

    pub fn write(&mut self, lane: usize, payload: &[u8]) -> Result<Stamp> {
        self.lanes[lane].reserve(&[payload])?;
        self.clock += 1;
        let stamp = Stamp(self.clock);
        self.lanes[lane].commit(stamp)?;
        Ok(stamp)
    }

    pub fn round(&self) -> Result<Stamp> {
        self.journal.round(|| Stamp(self.clock))
    }

    pub fn last(&self) -> Last {
        Last {
            incarnation: self.incarnation,
            start: self.start.clone(),
            durable: Stamp::ZERO,
            assume_power_loss: false,
            accept_loss: false,
        }
    }
}

/// Everything a recovery hands out.
pub struct Recovered {
    pub records: Vec<(u64, Vec<u8>)>,
    pub report: Report,
}

impl Recovered {
    pub fn stamps(&self) -> Vec<u64> {
        self.records.iter().map(|(stamp, _)| *stamp).collect()
    }
}

pub fn recover(vfs: &(impl Vfs + Clone + 'static), last: &Last) -> Result<Recovered> {
    recover_dyn(Arc::new(vfs.clone()), last)
}

pub fn recover_dyn(vfs: Arc<dyn Vfs>, last: &Last) -> Result<Recovered> {
    let mut recovery = Recovery::open(vfs, &dir(), DATABASE, last)?;
    let mut records = Vec::new();
    while let Some(record) = recovery.next_record()? {
        records.push((record.stamp.0, record.payload.to_vec()));
    }
    Ok(Recovered {
        records,
        report: recovery.report().clone(),
    })
}

/// The journal's files whose names end so.
pub fn files(vfs: &dyn Vfs, extension: &str) -> Vec<PathBuf> {
    let journal = dir().join("journal");
    vfs.read_dir(&journal)
        .unwrap()
        .into_iter()
        .map(|name| journal.join(name))
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .collect()
}

/// A payload that depends on its stamp and length.
pub fn payload(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = velella_sync::rng::Rng::new(seed);
    (0..len).map(|_| rng.next_u64().to_le_bytes()[0]).collect()
}

pub fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}
/// A copy of the machine with one byte of one file changed.
pub fn flipped(fs: &MemFs, path: &Path, offset: u64, mask: u8) -> MemFs {
    let copy = fs.image(0, CrashMode::KeepAll);
    copy.flip_byte(path, offset, mask).unwrap();
    copy
}
