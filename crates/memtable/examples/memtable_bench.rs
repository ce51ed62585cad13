//! What the operations of each kind of memtable cost, alone and with two threads.
//!
//! `memtable_bench [keys] [threads...] [ratio]`: 16-byte random keys, 100-byte values. Prints
//! nanoseconds, nanoseconds of processor time, comparisons and compare-and-swap operations per
//! operation, and bytes per key; with `ratio`, only what an insertion and a step cost.
//! Every write keeps the whole protocol: install, announce, draw, publish, idle.
//! Last, on one thread: steps forward and back in turn, a thousand at a time, and their ratio.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use velella_base::{Order, Stamp, ValueKind};
use velella_memtable::{
    Counters, CursorMode, GuardOptions, Install, Intent, Memtable, MemtableKind, MemtableOptions,
    OnPending, Owner, ReadAt,
};
use velella_mvcc::{Clock, Retention, Slots};
use velella_sync::epoch;
use velella_sync::rng::Rng;

const NEWEST: ReadAt = ReadAt {
    stamp: Stamp::MAX,
    pending: OnPending::Skip,
};

struct Bench {
    table: Arc<dyn Memtable>,
    slots: Arc<Slots>,
    clock: Clock,
    counters: Arc<Counters>,
    keys: u64,
    threads: usize,
}

fn key(number: u64) -> [u8; 16] {
    let first = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let second = Rng::new(number).next_u64();
    let mut key = [0; 16];
    key[..8].copy_from_slice(&first.to_be_bytes());
    key[8..].copy_from_slice(&second.to_be_bytes());
    key
}

/// Nanoseconds that this thread has had a processor for: on a busy machine the fairer figure.
fn processor_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|first| first.parse().ok()).unwrap_or(0)
}

impl Bench {
    fn new(kind: MemtableKind, keys: u64, threads: usize) -> Self {
        let slots = Arc::new(Slots::new(threads));
        let counters = Arc::new(Counters::default());
        let table = velella_memtable::new(&MemtableOptions {
            kind,
            order: Order::Bytewise,
            slots: Arc::clone(&slots),
            counters: Arc::clone(&counters),
            guards: GuardOptions::default(),
            keys: 0,
            spare: Arc::default(),
        });
        Bench {
            table,
            slots,
            clock: Clock::new(Stamp::ZERO, Stamp::MAX),
            counters,
            keys,
            threads,
        }
    }

    fn put(&self, slot: usize, key: &[u8], value: &[u8]) {
        let guard = epoch::pin();
        let intent = Intent {
            key,
            kind: ValueKind::Put,
            payload: [value, b""],
        };
        loop {
            match self.table.install(&intent, Owner::Slot(slot), None, &guard) {
                Install::Installed(pending) => {
                    self.slots.announce(slot, self.clock.lower_bound());
                    let stamp = self.clock.draw();
                    let is_long = pending.publish(stamp);
                    self.slots.idle(slot);
                    if is_long {
                        self.table.prune(key, &Retention::newest_only(), &guard);
                    }
                    return;
                }
                Install::Busy(_) | Install::Moved => std::hint::spin_loop(),
            }
        }
    }

    /// Runs `operation(thread, number)` for `count` numbers spread over the threads.
    fn measure(&self, name: &str, count: u64, operation: impl Fn(usize, u64) + Sync) {
        let before = (
            self.counters.comparisons.sum(),
            self.counters.cas_attempts.sum(),
        );
        let start = Instant::now();
        let busy = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..self.threads {
                let (operation, busy) = (&operation, &busy);
                scope.spawn(move || {
                    let before = processor_time();
                    let share = count / self.threads as u64;
                    let first = thread as u64 * share;
                    for number in first..first + share {
                        operation(thread, number);
                    }
                    busy.fetch_add(processor_time() - before, Ordering::Relaxed);
                });
            }
        });
        let time = start.elapsed().as_nanos() as f64 / count as f64;
        let per = |now: u64, then: u64| (now - then) as f64 / count as f64;
        println!(
            "  {name:<22} {time:>6.0} ns/op {:>6.0} cpu ns {:>7.2} comparisons {:>6.2} cas",
            busy.into_inner() as f64 / count as f64,
            per(self.counters.comparisons.sum(), before.0),
            per(self.counters.cas_attempts.sum(), before.1),
        );
    }

    fn random(&self, number: u64) -> u64 {
        let mut rng = Rng::new(number ^ 0xabcd);
        rng.below(self.keys)
    }

    fn cursor(&self) -> Box<dyn velella_base::Cursor> {
        Arc::clone(&self.table).cursor(CursorMode::Visible {
            at: NEWEST,
            keys_only: false,
        })
    }

    fn run(&self, is_short: bool) {
        let value = [7u8; 100];
        let keys = self.keys;
        self.measure("insert", keys, |slot, number| {
            self.put(slot, &key(number), &value)
        });
        let bytes = self.table.bytes();
        println!(
            "  {:<22} {:>8.1} bytes/key",
            "memory",
            bytes as f64 / keys as f64
        );
        if is_short {
            return self.ratio();
        }
        let get = |_, number| {
            let guard = epoch::pin();
            let key = key(self.random(number));
            assert!(self.table.get(&key, NEWEST, &guard).is_some());
        };
        self.measure("get", keys, get);
        self.measure("get absent", keys, |_, number| {
            let guard = epoch::pin();
            let key = key(number + keys);
            assert!(self.table.get(&key, NEWEST, &guard).is_none());
        });
        self.measure("seek + 10 next", keys / 5, |_, number| {
            let mut cursor = self.cursor();
            cursor
                .seek(&key(self.random(number)), Stamp::MAX)
                .expect("memory");
            for _ in 0..10 {
                if cursor.entry().is_some() {
                    cursor.next().expect("memory");
                }
            }
        });
        self.scans("");
        self.ratio();
        self.measure("overwrite", keys, |slot, number| {
            self.put(slot, &key(self.random(number)), &value);
        });
        self.measure("get, overwritten", keys, get);
        self.scans(", overwritten");
        self.measure("overwrite 1,000 keys", keys, |slot, number| {
            self.put(slot, &key(self.random(number) % 1000), &value);
        });
        let bytes = self.table.bytes();
        println!(
            "  {:<22} {:>8.1} bytes/key",
            "memory",
            bytes as f64 / keys as f64
        );
    }

    /// A thousand steps forward, then a thousand back elsewhere, again and again, and the median
    /// of either: whatever else the machine does in the meantime concerns both, or one round.
    fn ratio(&self) {
        const STEPS: u64 = 1000;
        let mut times = [Vec::new(), Vec::new()];
        let mut cursor = self.cursor();
        for round in 0..self.keys / STEPS * 4 {
            let is_back = round % 2 == 1;
            let key = key(self.random(round.wrapping_mul(7919)));
            match is_back {
                false => cursor.seek(&key, Stamp::MAX).expect("memory"),
                true => cursor.seek_before(&key).expect("memory"),
            }
            let start = Instant::now();
            let mut steps = 0;
            while steps < STEPS
                && let Some(entry) = cursor.entry()
            {
                std::hint::black_box((entry.key, entry.value));
                steps += 1;
                match is_back {
                    false => cursor.next().expect("memory"),
                    true => cursor.prev().expect("memory"),
                }
            }
            if steps == STEPS {
                times[usize::from(is_back)].push(start.elapsed().as_nanos());
            }
        }
        let [forward, back] = times.map(|mut times| {
            times.sort_unstable();
            times[times.len() / 2] as f64 / STEPS as f64
        });
        println!(
            "  a step of 1,000        {forward:>6.1} ns forward {back:>6.1} back, ratio {:.2}",
            back / forward
        );
    }

    fn scans(&self, when: &str) {
        let every = self.threads as u64;
        self.measure(&format!("forward{when}"), self.keys * every, |_, number| {
            if number % self.keys == 0 {
                let mut cursor = self.cursor();
                cursor.seek_first().expect("memory");
                while cursor.entry().is_some() {
                    cursor.next().expect("memory");
                }
            }
        });
        self.measure(
            &format!("backward{when}"),
            self.keys * every,
            |_, number| {
                if number % self.keys == 0 {
                    let mut cursor = self.cursor();
                    cursor.seek_last().expect("memory");
                    while cursor.entry().is_some() {
                        cursor.prev().expect("memory");
                    }
                }
            },
        );
    }
}

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter_map(|n| n.parse::<u64>().ok());
    let keys = arguments.next().unwrap_or(1_000_000);
    let threads: Vec<u64> = arguments.collect();
    let threads = if threads.is_empty() {
        vec![1, 2]
    } else {
        threads
    };
    let is_short = std::env::args().any(|word| word == "ratio");
    for threads in threads {
        for kind in MemtableKind::ALL {
            println!("{kind:?}, {threads} threads, {keys} keys");
            Bench::new(kind, keys, usize::try_from(threads).expect("few")).run(is_short);
        }
    }
}
