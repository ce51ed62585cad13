//! `histories`: clients race on few keys while threads lose their processor at the spots; then
//! the process dies, is opened again, and they race on.
//!
//! Goal G6. Source: linearizability (Herlihy and Wing); Knossos, porcupine.
//!
//! P1. Each part of a history, before and after the crash, is what the checker allows.
//! P2. Across the crash: what it left is what `velella_testkit::history::crash` allows.
//! P3. Threads are the system's: a seed repeats the options and what each client asks for, not
//!     the schedule. So a history that is refused is kept in a file.
//!
//! Threads: eight clients, and the engine's own.
//! Tests: below; `tests/histories.rs`, and those of what judges.

use crate::campaign::{Campaign, Tally};
use crate::history::checker::{self, Before};
use crate::history::clients::Stage;
use crate::history::crash::Crash;
use crate::history::event::Event;
use crate::history::export;
use crate::history::sums;
use std::fs::OpenOptions;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use velella::vfs::MemFs;
use velella::vfs::mem::CrashMode;
use velella::{Db, JournalMode, MemtableKind};
use velella_sync::{spot, thread};
use velella_testkit::Seed;

const CLIENTS: usize = 8;
/// As long as a history before its crash takes, about.
const LONGEST_LIFE_MS: u64 = 40;

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
        stage.upkeep = options.upkeep;
        let expires_at_ms = options.expires_in_ms.map(|ms| thread::wall_ms() + ms);
        stage.expires_at_ms = expires_at_ms;
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
        let judged = checker::check(&Before::new(), &events).and_then(|()| sums::check(0, &events));
        judged.map_err(|what| options.tell(number, what, &Before::new(), &events))?;
        drop(db);

        let db = options.open(&image.fs)?;
        let mut stage = Stage::new(&db, &clock).map_err(text)?;
        stage.first_number = 1 << 32;
        stage.upkeep = options.upkeep;
        stage.expires_at_ms = expires_at_ms;
        let before = stage.contents().map_err(text)?;
        let events = checker::placed(&events, &before);
        let whole = options.journal != JournalMode::Off && mode == CrashMode::KeepAll;
        let left = match whole {
            true => image.crash.check(&events, &before),
            false => image.crash.check_prefix(&events, &before, 0),
        };
        let sum = stage.sum().map_err(text)?;
        let left = left.and_then(|()| sums::check_left(image.crash, &events, sum, whole));
        left.map_err(|what| {
            let what = format!("left by the crash: {what}, after {mode:?}");
            options.tell(number, what, &before, &events)
        })?;
        let later = stage
            .run(CLIENTS, operations, &seed.fork(77))
            .map_err(text)?;
        let judged = checker::check(&before, &later).and_then(|()| sums::check(sum, &later));
        judged.map_err(|what| {
            let what = format!("after the crash: {what}");
            options.tell(number, what, &before, &later)
        })?;
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
#[derive(Debug)]
struct Options {
    memtable: MemtableKind,
    journal: JournalMode,
    /// Whether clients flush and compact.
    upkeep: bool,
    /// When values expire, from the beginning on; `None`: none does.
    expires_in_ms: Option<u64>,
}

impl Options {
    fn draw(seed: &mut Seed) -> Options {
        use MemtableKind::{AppendOnly, Jellyfish, S3};
        let (auto, write) = (JournalMode::Auto, JournalMode::Write);
        Options {
            memtable: *seed.pick(&[S3, S3, Jellyfish, AppendOnly]),
            journal: *seed.pick(&[auto, auto, auto, write, JournalMode::Off]),
            upkeep: !seed.one_in(3),
            expires_in_ms: (!seed.one_in(4)).then(|| seed.below(LONGEST_LIFE_MS)),
        }
    }

    /// What was refused, and where the history is that it was refused for (P3).
    fn tell(&self, number: u64, what: String, before: &Before, events: &[Event]) -> String {
        let path = std::env::temp_dir().join(format!("velella-history-{number}.txt"));
        let mut text = format!("{what}\n{self:?}\n{before:?}\n");
        for event in events {
            text += &format!("{event:?}\n");
        }
        match std::fs::write(&path, text) {
            Ok(()) => format!("{what}; {self:?}, the history is in {}", path.display()),
            Err(error) => format!("{what}; {self:?}, the history could not be kept: {error}"),
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

/// What a killed process or a power loss leaves, taken while the clients run.
struct Image {
    fs: MemFs,
    mode: CrashMode,
    crash: Crash,
}

impl Image {
    fn take(fs: &MemFs, clock: &AtomicU64, seed: u64, mode: CrashMode) -> Image {
        let begun = clock.fetch_add(1, Ordering::AcqRel);
        let fs = fs.image(seed, mode);
        let ended = clock.fetch_add(1, Ordering::AcqRel);
        let crash = Crash { begun, ended };
        Image { fs, mode, crash }
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

    /// P3.
    #[test]
    fn a_refused_history_is_in_the_file_that_is_named() {
        let options = Options {
            memtable: MemtableKind::S3,
            journal: JournalMode::Off,
            upkeep: true,
            expires_in_ms: None,
        };
        let read = Event {
            client: 5,
            begin: 1,
            end: 2,
            synced: false,
            what: What::Got {
                key: 3,
                value: Some(b"nobody wrote this".to_vec()),
                stamp: None,
            },
        };
        let number = u64::MAX - u64::from(std::process::id());
        let events = [read];
        let told = options.tell(number, "a wrong read".to_owned(), &Before::new(), &events);
        let (what, path) = told.rsplit_once(", the history is in ").expect(&told);
        let kept = std::fs::read_to_string(path).unwrap();
        std::fs::remove_file(path).unwrap();
        assert!(
            what.starts_with("a wrong read") && what.contains("journal: Off"),
            "{told}"
        );
        for line in [
            "a wrong read".to_owned(),
            format!("{options:?}"),
            format!("{:?}", events[0]),
        ] {
            assert!(kept.lines().any(|kept| kept == line), "{line} in {kept}");
        }
    }
}
