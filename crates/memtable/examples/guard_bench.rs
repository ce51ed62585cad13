//! What the guard directory saves, and how the kinds of memtable compare, as ratios of memtables
//! that are worked on in turn.
//!
//! `guard_bench [keys] [kinds]`: 16-byte keys, 100-byte values, one thread. Two memtables, with a
//! guard directory and without, or with `kinds` one of each kind, get the same operations, ten
//! thousand at a time in turn; printed are the medians of the ratios of the processor times of
//! such turns to the first memtable's, and the counts of each.

use std::sync::Arc;
use velella_base::{Order, Stamp, ValueKind};
use velella_memtable::{
    Counters, CursorMode, GUARD_BYTES, Install, Intent, Memtable, MemtableKind, MemtableOptions,
    OnPending, Owner, ReadAt,
};
use velella_mvcc::{Clock, Slots};
use velella_sync::epoch;
use velella_sync::rng::Rng;

const NEWEST: ReadAt = ReadAt {
    stamp: Stamp::MAX,
    pending: OnPending::Skip,
};
const TURN: u64 = 10_000;

struct Subject {
    table: Arc<dyn Memtable>,
    clock: Clock,
    counters: Arc<Counters>,
}

impl Subject {
    fn new(kind: MemtableKind, guard_bytes: usize) -> Self {
        let counters = Arc::new(Counters::default());
        let table = velella_memtable::new(&MemtableOptions {
            kind,
            order: Order::Bytewise,
            slots: Arc::new(Slots::new(1)),
            counters: Arc::clone(&counters),
            guards: guard_bytes.into(),
            keys: 0,
            spare: Arc::default(),
        });
        Subject {
            table,
            clock: Clock::new(Stamp::ZERO, Stamp::MAX),
            counters,
        }
    }

    fn put(&self, key: &[u8]) {
        let guard = epoch::pin();
        let intent = Intent {
            key,
            kind: ValueKind::Put,
            payload: [&[7; 100], b""],
        };
        match self.table.install(&intent, Owner::Slot(0), None, &guard) {
            Install::Installed(pending) => pending.publish(self.clock.draw()),
            other => unreachable!("nobody else writes: {other:?}"),
        };
    }

    fn get(&self, key: &[u8]) {
        let guard = epoch::pin();
        assert!(
            self.table.get(key, NEWEST, &guard).is_some(),
            "a key is lost"
        );
    }

    fn seek(&self, key: &[u8], steps: usize) {
        let mut cursor = Arc::clone(&self.table).cursor(CursorMode::Visible {
            at: NEWEST,
            keys_only: false,
        });
        cursor.seek(key, Stamp::MAX).expect("memory");
        for _ in 0..steps {
            if cursor.entry().is_some() {
                cursor.next().expect("memory");
            }
        }
    }

    fn counts(&self) -> [u64; 3] {
        [
            self.counters.comparisons.sum(),
            self.counters.directory_fallbacks.sum(),
            self.counters.directories.sum(),
        ]
    }
}

/// How keys follow each other.
#[derive(Debug, Clone, Copy)]
enum Keys {
    Random,
    Monotonic,
    SharedPrefix,
}

impl Keys {
    fn key(self, number: u64) -> [u8; 16] {
        let random = Rng::new(number).next_u64();
        let (first, second) = match self {
            Keys::Random => (random, number),
            Keys::Monotonic => (number << 16, number),
            Keys::SharedPrefix => (u64::from_be_bytes(*b"aprefix:"), random),
        };
        let mut key = [0; 16];
        key[..8].copy_from_slice(&first.to_be_bytes());
        key[8..].copy_from_slice(&second.to_be_bytes());
        key
    }
}

/// Nanoseconds that this thread has had a processor for: on a busy machine the fairer figure.
fn processor_time() -> i64 {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Works on all subjects in turn; prints how each compares with the first.
fn compare(name: &str, subjects: &[(&str, Subject)], count: u64, work: impl Fn(&Subject, u64)) {
    let before: Vec<_> = subjects
        .iter()
        .map(|(_, subject)| subject.counts())
        .collect();
    let mut times: Vec<Vec<f64>> = subjects.iter().map(|_| Vec::new()).collect();
    for turn in 0..count / TURN {
        for place in 0..subjects.len() {
            // Whoever comes first finds the caches as the other has left them: each in turn.
            let place = (place + usize::try_from(turn).expect("few")) % subjects.len();
            let start = processor_time();
            for number in turn * TURN..(turn + 1) * TURN {
                work(&subjects[place].1, number);
            }
            times[place].push((processor_time() - start) as f64 / TURN as f64);
        }
    }
    // The second half of an insertion is where the list is large.
    let half = times[0].len() / 2;
    for (place, (who, subject)) in subjects.iter().enumerate() {
        let ratios = times[place]
            .iter()
            .zip(&times[0])
            .map(|(own, first)| own / first);
        let ratios: Vec<f64> = ratios.collect();
        let counts = subject.counts();
        let per = |which: usize| (counts[which] - before[place][which]) as f64 / count as f64;
        println!(
            "  {name:<16} {who:<22} time {:>5.2} (last half {:>5.2}) comparisons {:>6.2} \
             fallbacks {:>7.5} directories {:>3}",
            median(ratios.clone()),
            median(ratios[half..].to_vec()),
            per(0),
            per(1),
            counts[2] - before[place][2],
        );
    }
}

impl Subject {
    /// Steps through up to so many keys.
    fn scan(&self, key: &[u8], steps: u64) {
        self.seek(key, usize::try_from(steps).expect("few"));
    }
}

fn run(keys: Keys, count: u64, subjects: &[(&str, Subject)]) {
    println!("{keys:?}, {count} keys");
    let any = |number: u64| keys.key(Rng::new(number ^ 0xabcd).below(count));
    compare("insert", subjects, count, |subject, number| {
        subject.put(&keys.key(number));
    });
    let absent = |number: u64| {
        let mut key = any(number);
        key[15] ^= 1;
        key[14] ^= 0x80;
        key
    };
    for (who, subject) in subjects {
        let bytes = subject.table.bytes() as f64 / count as f64;
        println!("  {:<16} {who:<22} {bytes:>5.1} bytes a key", "memory");
    }
    compare("get", subjects, count, |subject, number| {
        subject.get(&any(number));
    });
    compare("seek", subjects, count / 2, |subject, number| {
        subject.seek(&any(number), 0);
    });
    compare("seek between", subjects, count / 2, |subject, number| {
        subject.seek(&absent(number), 0);
    });
    compare("seek + 10 next", subjects, count / 4, |subject, number| {
        subject.seek(&absent(number), 10);
    });
    compare("scan, a key", subjects, count, |subject, number| {
        if number % TURN == 0 {
            subject.scan(&absent(number), TURN);
        }
    });
    compare("overwrite", subjects, count / 2, |subject, number| {
        subject.put(&any(number));
    });
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|n| n.parse().ok());
    let count: u64 = arguments.next().unwrap_or(1_000_000);
    let is_of_kinds = std::env::args().any(|word| word == "kinds");
    for keys in [Keys::Random, Keys::Monotonic, Keys::SharedPrefix] {
        let subject = Subject::new;
        let guarded = (
            "jellyfish+directory",
            subject(MemtableKind::Jellyfish, GUARD_BYTES),
        );
        if is_of_kinds {
            let s3 = ("s3", subject(MemtableKind::S3, GUARD_BYTES));
            let append_only = ("append-only", subject(MemtableKind::AppendOnly, 0));
            run(keys, count, &[guarded, s3, append_only]);
        } else {
            run(
                keys,
                count,
                &[("jellyfish", subject(MemtableKind::Jellyfish, 0)), guarded],
            );
        }
    }
}
