//! What the child announced and acknowledged, in a mapped file that outlives it.
//!
//! ```text
//! 0     per thread, 64 bytes each: announced u32 | acknowledged u32
//! 2048  phase words, u32 each: state, then what is under way (see `phase.rs`)
//! 4096  per thread, ACKS_MAX acknowledgements of 16 bytes: stamp u64 | detail u64
//! ```
//!
//! A1. A thread announces an operation before it starts it, and acknowledges it after it
//!     returned: whatever moment the child dies at, the file tells what may and what must be.
//! A2. The file lies outside the database's directory; in memory where there is `/dev/shm`.
//! A3. The parent reads only while the child is dead, or (power cuts) takes what it sees as
//!     early: an acknowledgement counts only up to the number read before it.
//!
//! Threads: each thread of the load has its own `Notes`. Tests: below, and `tests/crash_test.rs`.

use super::settings::THREADS_MAX;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use velella::vfs::{MapFile, OsFs, Vfs, Window};

/// Most operations of a thread between two kills.
pub(super) const ACKS_MAX: u32 = 1 << 16;
const ACK_LEN: usize = 16;
const ACK_BYTES: u64 = ACK_LEN as u64;
const THREAD_BYTES: u64 = 64;
const PHASE_AT: u64 = 2048;
const PHASE_BYTES: u64 = 64;
const HEAD_LEN: usize = 4096;
const ACKS_AT: u64 = HEAD_LEN as u64;

/// How an operation ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ack {
    /// The write's stamp; 0: it wrote nothing, or the call does not tell.
    pub(super) stamp: u64,
    /// Of an `rmw` the stamp it read; of `Toggle` 1 created, 2 dropped; of `Persist` the stamp
    /// up to which all is durable.
    pub(super) detail: u64,
}

/// What the child left behind.
#[derive(Debug, Clone, Default)]
pub(super) struct Log {
    pub(super) threads: Vec<ThreadLog>,
    pub(super) phase: [u32; 16],
}

/// What one thread left behind.
#[derive(Debug, Clone, Default)]
pub(super) struct ThreadLog {
    /// The highest operation that was begun; the first is 1.
    pub(super) announced: u32,
    /// Acknowledgements of operations 1, 2, …
    pub(super) acks: Vec<Ack>,
}

/// The parent's side.
#[derive(Debug)]
pub(super) struct Oracle {
    file: File,
}

impl Oracle {
    /// A new file at `path`, all zeros.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        let zeros = vec![0; 1 << 20];
        let mut at = 0;
        while at < file_bytes() {
            let part = zeros
                .len()
                .min(usize::try_from(file_bytes() - at).unwrap_or(0));
            file.write_all_at(&zeros[..part], at)?;
            at += part as u64;
        }
        Ok(Oracle { file })
    }

    /// Forgets everything: before a child is started.
    pub(super) fn clear(&self) -> io::Result<()> {
        self.file.write_all_at(&[0; HEAD_LEN], 0)
    }

    /// Reads what is there (A3).
    pub(super) fn read(&self) -> io::Result<Log> {
        let mut head = [0; HEAD_LEN];
        self.file.read_exact_at(&mut head, 0)?;
        let word = |at: u64| {
            let at = usize::try_from(at).unwrap_or(0);
            u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
        };
        let mut log = Log::default();
        for thread in 0..THREADS_MAX {
            let at = u64::from(thread) * THREAD_BYTES;
            let acknowledged = word(at + 4).min(ACKS_MAX);
            let mut bytes = vec![0; acknowledged as usize * ACK_LEN];
            self.file.read_exact_at(&mut bytes, acks_at(thread))?;
            let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
            let ack = |bytes: &[u8; 16]| Ack {
                stamp: number(&bytes[..8]),
                detail: number(&bytes[8..]),
            };
            log.threads.push(ThreadLog {
                // Read after the acknowledgements were written, so never below them.
                announced: word(at).max(acknowledged).min(ACKS_MAX),
                acks: bytes.as_chunks::<16>().0.iter().map(ack).collect(),
            });
        }
        for (place, index) in log.phase.iter_mut().zip(0..) {
            *place = word(PHASE_AT + index * 4);
        }
        Ok(log)
    }
}

/// The child's side.
#[derive(Debug)]
pub(super) struct Notebook {
    map: Arc<dyn MapFile>,
}

impl Notebook {
    /// Maps the parent's file.
    pub(super) fn open(path: &Path) -> velella::Result<Self> {
        let map = OsFs::new().map_append(path, file_bytes())?;
        Ok(Notebook { map })
    }

    /// The part of one thread; once for each.
    pub(super) fn notes(&self, thread: u8) -> velella::Result<Notes> {
        let head = u64::from(thread) * THREAD_BYTES;
        let len = u64::from(ACKS_MAX) * ACK_BYTES;
        Ok(Notes {
            head: Arc::clone(&self.map).window(head, THREAD_BYTES)?,
            acks: Arc::clone(&self.map).window(acks_at(thread), len)?,
        })
    }

    /// The phase words; once.
    pub(super) fn phase(&self) -> velella::Result<Window> {
        Arc::clone(&self.map).window(PHASE_AT, PHASE_BYTES)
    }
}

/// Where one thread announces and acknowledges.
#[derive(Debug)]
pub(super) struct Notes {
    head: Window,
    acks: Window,
}

impl Notes {
    /// Says that operation `number` begins.
    pub(super) fn announce(&mut self, number: u32) {
        self.head.publish_u32(0, number);
    }

    /// Says how operation `number` ended.
    pub(super) fn acknowledge(&mut self, number: u32, ack: Ack) {
        let mut bytes = [0; ACK_LEN];
        bytes[..8].copy_from_slice(&ack.stamp.to_le_bytes());
        bytes[8..].copy_from_slice(&ack.detail.to_le_bytes());
        self.acks
            .write(u64::from(number.saturating_sub(1)) * ACK_BYTES, &bytes);
        self.head.publish_u32(4, number);
    }
}

fn acks_at(thread: u8) -> u64 {
    ACKS_AT + u64::from(thread) * u64::from(ACKS_MAX) * ACK_BYTES
}

fn file_bytes() -> u64 {
    acks_at(THREADS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_note_is_read_by_another_handle_and_forgotten_on_demand() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("oracle");
        let oracle = Oracle::create(&path).unwrap();
        let notebook = Notebook::open(&path).unwrap();
        let mut notes = [notebook.notes(0).unwrap(), notebook.notes(3).unwrap()];
        let ack = |stamp| Ack {
            stamp,
            detail: !stamp,
        };
        for number in 1..=5 {
            notes[1].announce(number);
            if number < 5 {
                notes[1].acknowledge(number, ack(u64::from(number)));
            }
        }
        notes[0].announce(1);
        notebook.phase().unwrap().publish_u32(8, 7);
        let log = oracle.read().unwrap();
        assert_eq!(
            (log.threads[0].announced, log.threads[0].acks.len()),
            (1, 0)
        );
        assert_eq!(log.threads[3].announced, 5);
        assert_eq!(log.threads[3].acks, [1, 2, 3, 4].map(ack));
        assert_eq!(log.phase[2], 7);
        oracle.clear().unwrap();
        let log = oracle.read().unwrap();
        assert!(log.threads.iter().all(|thread| thread.announced == 0));
    }
}
