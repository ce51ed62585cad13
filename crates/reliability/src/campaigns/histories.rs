//! `histories`: clients race on few keys while threads lose their processor at the spots; then
//! the process dies, is opened again, and they race on.
//!
//! Goal G6. Source: linearizability (Herlihy and Wing); Knossos, porcupine.
//!
//! P1. Each part of a history, before and after the crash, is what the checker allows.
//! P2. Across the crash: what was acknowledged before the image began is there; what began after
//!     the image ended is not; what lies in between is there or not, whole.
//! P3. After a power loss, and without a journal, what is there is a prefix by the order of stamps
//!     that holds every write which was to be durable and had returned before the image began.
//! P4. Threads are the system's: a seed repeats the options and what each client asks for, not
//!     the schedule.
//!
//! Threads: eight clients, and the engine's own.
//! Tests: below; `tests/histories.rs`.

use crate::campaign::{Campaign, Tally};
use crate::history::checker::{self, Before};
use crate::history::clients::Stage;
use crate::history::event::{Event, KEYS, Value};
use crate::history::export;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use velella::vfs::MemFs;
use velella::vfs::mem::CrashMode;
use velella::{Db, JournalMode, MemtableKind};
use velella_sync::spot;
use velella_testkit::{Model, Seed};

const CLIENTS: usize = 8;

/// The campaign. With `VELELLA_EXPORT=file` each history is also added to that file for another
/// checker.
#[derive(Debug)]
pub(crate) struct Histories;

impl Campaign for Histories {
    fn name(&self) -> &'static str {
        "histories"
    }

    fn goal(&self) -> &'static str {
        "G6"
    }

    fn about(&self) -> &'static str {
        "eight clients race on five keys, the process dies, they race on; a checker decides"
    }

    fn unit(&self) -> &'static str {
        "histories"
    }

    fn usual_runs(&self) -> u64 {
        1_000
    }

    fn run(&self, number: u64) -> Result<Tally, String> {
        let mut seed = Seed::silent(number);
        let clock = AtomicU64::new(1);
        let fs = MemFs::new();
        let options = Options::draw(&mut seed);
        let armed = spot::arm(number, *seed.pick(&[0, 3, 10, 50]));
        let operations = 100 + seed.below(100);
        let crash_at = seed.below(CLIENTS as u64 * operations * 2);
        let modes = [CrashMode::KeepAll, CrashMode::KeepAll, CrashMode::Random];
        let mode = *seed.pick(&modes);

        let db = options.open(&fs)?;
        let mut stage = Stage::new(&db, &clock).map_err(text)?;
        stage.alarm = Some((crash_at, std::thread::current()));
        let (events, image) = std::thread::scope(|scope| {
            let clients = scope.spawn(|| stage.run(CLIENTS, operations, &seed));
            // Woken by the alarm; by time where the clients end, or panic, before it.
            while clock.load(Ordering::Acquire) <= crash_at && !clients.is_finished() {
                std::thread::park_timeout(Duration::from_millis(1));
            }
            let image = Image::take(&fs, &clock, number, mode);
            let events = clients.join().map_err(|_| "a client panicked".to_owned());
            (events.and_then(|events| events.map_err(text)), image)
        });
        let events = events?;
        checker::check(&Before::new(), &events)?;
        drop(db);

        let db = options.open(&image.fs)?;
        let mut stage = Stage::new(&db, &clock).map_err(text)?;
        stage.first_number = 1 << 32;
        let before = stage.contents().map_err(text)?;
        let events = checker::placed(&events, &before);
        if options.journal != JournalMode::Off && mode == CrashMode::KeepAll {
            image.check(&events, &before)?;
        } else {
            image.check_prefix(&events, &before)?;
        }
        let later = stage
            .run(CLIENTS, operations, &seed.fork(77))
            .map_err(text)?;
        checker::check(&before, &later).map_err(|what| format!("after the crash: {what}"))?;
        drop(armed);

        keep(number, &events)?;
        let mut tally = Tally::new();
        tally.add("histories", 2);
        tally.add("crashes", 1);
        tally.add("power losses", u64::from(image.mode != CrashMode::KeepAll));
        tally.add("operations", (events.len() + later.len()) as u64);
        Ok(tally)
    }
}

fn text(error: velella::Error) -> String {
    error.to_string()
}

/// The options of one history.
struct Options {
    memtable: MemtableKind,
    journal: JournalMode,
}

impl Options {
    fn draw(seed: &mut Seed) -> Options {
        use MemtableKind::{AppendOnly, Jellyfish, S3};
        let (auto, write) = (JournalMode::Auto, JournalMode::Write);
        Options {
            memtable: *seed.pick(&[S3, S3, Jellyfish, AppendOnly]),
            journal: *seed.pick(&[auto, auto, auto, write, JournalMode::Off]),
        }
    }

    fn open(&self, fs: &MemFs) -> Result<Db, String> {
        Db::builder()
            .memory(16 << 20)
            .write_buffer(320 << 10)
            .block_bytes(512)
            .background_threads(1)
            .memtable(self.memtable)
            .journal(self.journal)
            .vfs(Arc::new(fs.clone()))
            .open("/db")
            .map_err(text)
    }
}

/// Writes by key and stamp: whose they are and what they wrote.
type ByPlace<'a> = BTreeMap<(usize, u64), (&'a Event, &'a Value)>;

/// What a killed process or a power loss leaves, taken while the clients run.
struct Image {
    fs: MemFs,
    mode: CrashMode,
    begun: u64,
    ended: u64,
}

impl Image {
    fn take(fs: &MemFs, clock: &AtomicU64, seed: u64, mode: CrashMode) -> Image {
        let begun = clock.fetch_add(1, Ordering::AcqRel);
        let fs = fs.image(seed, mode);
        let ended = clock.fetch_add(1, Ordering::AcqRel);
        Image {
            fs,
            mode,
            begun,
            ended,
        }
    }

    /// P2.
    fn check(&self, events: &[Event], found: &Before) -> Result<(), String> {
        let writes = || {
            events
                .iter()
                .filter_map(|event| Some((event, event.what.written()?)))
        };
        let mut by_place = ByPlace::new();
        for (event, (stamp, changes)) in writes() {
            for (key, value) in changes {
                by_place.insert((*key, stamp.0), (event, value));
            }
        }
        let stamp_of = |key: &usize| found.get(key).map_or(0, |(stamp, _)| *stamp);
        for (key, (stamp, value)) in found {
            match by_place.get(&(*key, *stamp)) {
                Some((event, Some(written))) if event.begin < self.ended && written == value => {}
                other => return Err(format!("P2: key {key} holds {stamp}, which is {other:?}")),
            }
        }
        for (event, (stamp, changes)) in writes() {
            let there =
                |(key, value): (&usize, &Value)| stamp_of(key) == stamp.0 && value.is_some();
            let survived = event.end < self.begun || changes.iter().any(there);
            // Where it survived, every key shows it or something newer. A newer deletion shows
            // as nothing, so only what cannot have been deleted since is demanded.
            let lost = |key: &&usize| {
                stamp_of(key) < stamp.0 && !self.deleted_since(key, stamp.0, changes, &by_place)
            };
            if let Some(key) = changes.keys().find(lost).filter(|_| survived) {
                return Err(format!(
                    "P2: the write at {stamp} is not at key {key}: {event:?}"
                ));
            }
        }
        Ok(())
    }

    /// P3.
    fn check_prefix(&self, events: &[Event], found: &Before) -> Result<(), String> {
        let mut model = Model::new();
        let (mut least, mut most) = (0, u64::MAX);
        for event in events {
            let Some((stamp, changes)) = event.what.written() else {
                continue;
            };
            for (key, value) in changes {
                model.write(*key, stamp.0, value.clone());
            }
            if event.synced && event.end < self.begun {
                least = least.max(stamp.0);
            }
            if event.begin > self.ended {
                most = most.min(stamp.0 - 1);
            }
        }
        let holds = |at: &u64| {
            let is_found = |key: usize| {
                let there = model.version(&key, *at);
                let there = there.and_then(|(stamp, value)| Some((stamp, value.clone()?)));
                there.as_ref() == found.get(&key)
            };
            (0..KEYS).all(is_found)
        };
        let mut stamps = model.stamps();
        stamps.retain(|at| (least..=most).contains(at));
        stamps.push(least);
        if stamps.iter().any(holds) {
            return Ok(());
        }
        let mode = self.mode;
        Err(format!(
            "P3: after {mode:?} no stamp of [{least}, {most}] has just this: {found:?}"
        ))
    }

    fn deleted_since(
        &self,
        key: &usize,
        stamp: u64,
        changes: &BTreeMap<usize, Value>,
        by_place: &ByPlace<'_>,
    ) -> bool {
        let is_deletion = changes.get(key).is_some_and(Option::is_none);
        let deletes =
            |(event, value): &(&Event, &Value)| value.is_none() && event.begin < self.ended;
        is_deletion
            || by_place
                .range((*key, stamp + 1)..(*key, u64::MAX))
                .any(|(_, at)| deletes(at))
    }
}

/// Adds the history to the file for another checker, if one was asked for.
fn keep(number: u64, events: &[Event]) -> Result<(), String> {
    let Some(path) = std::env::var_os("VELELLA_EXPORT") else {
        return Ok(());
    };
    let failed = |error: std::io::Error| format!("cannot export to {}: {error}", path.display());
    let mut lines = Vec::new();
    export::write(number, events, &mut lines).map_err(failed)?;
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(failed)?;
    std::io::Write::write_all(&mut file, &lines).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::event::What;
    use velella::Stamp;

    fn put(begin: u64, stamp: u64, key: usize, synced: bool) -> Event {
        let changes = BTreeMap::from([(key, Some(key.to_le_bytes().to_vec()))]);
        let stamp = Stamp(stamp);
        Event {
            client: 0,
            begin,
            end: begin + 1,
            synced,
            what: What::Wrote { stamp, changes },
        }
    }

    fn verdict(events: &[Event], found: &[(usize, u64)]) -> Result<(), String> {
        let image = Image {
            fs: MemFs::new(),
            mode: CrashMode::Random,
            begun: 20,
            ended: 21,
        };
        let found = found.iter();
        let found = found.map(|(key, stamp)| (*key, (*stamp, key.to_le_bytes().to_vec())));
        image.check_prefix(events, &found.collect())
    }

    #[test]
    fn a_power_loss_leaves_a_prefix_with_all_that_was_synced() {
        let events = [
            put(1, 5, 0, false),
            put(3, 6, 1, true),
            put(5, 7, 2, false),
            put(7, 8, 3, false),
            put(30, 9, 4, true),
        ];
        assert_eq!(verdict(&events, &[(0, 5), (1, 6)]), Ok(()));
        assert_eq!(verdict(&events, &[(0, 5), (1, 6), (2, 7)]), Ok(()));
        let lost = verdict(&events, &[(0, 5)]);
        assert!(lost.is_err(), "what was synced is not there");
        let hole = verdict(&events, &[(0, 5), (1, 6), (3, 8)]);
        assert!(
            hole.is_err(),
            "a later write is there, an earlier one is not"
        );
        let future = verdict(&events, &[(0, 5), (1, 6), (2, 7), (3, 8), (4, 9)]);
        assert!(future.is_err(), "it began after the image was taken");
        let foreign = verdict(&events, &[(0, 6), (1, 6)]);
        assert!(foreign.is_err(), "no write to this key has this stamp");
    }
}
