//! What the journal refuses, what fails around it, and what it still does afterwards; counters, and
//! what it tells the log that names it.
//!
//! Claims: `lane.rs` A1, `inventory.rs` I1 to I3, `large.rs` L1 to L3, `poison.rs` P1 and P2,
//! `evidence.rs` K1, `recovery/report.rs` P1.

use crate::common::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use velella_base::{Error, ErrorKind, Stamp};
use velella_journal::{Access, Config, Evidence, Journal, Last, Rule, evidence};
use velella_sync::atomic::{AtomicU64, Ordering};
use velella_testkit::patience;
use velella_vfs::fault::{Fault, Rule as FaultRule};
use velella_vfs::intercept::{Call, Intercepted, Interceptor, Verdict};
use velella_vfs::mem::CrashMode;
use velella_vfs::{FaultFs, MemFs, Operation, Vfs};

const ERRORS: [Fault; 3] = [Fault::Io, Fault::TooManyFiles, Fault::Permission];
const ACCESSES: [Access; 2] = [Access::Mapped, Access::Write];

fn config_of(fs: &MemFs, access: Access, lanes: usize) -> Config {
    let mut config = config(Arc::new(fs.clone()), 1, lanes);
    config.access = access;
    config
}

#[test]
fn a_payload_over_the_limit_is_refused_and_the_lane_goes_on() {
    for access in ACCESSES {
        let fs = MemFs::new();
        let mut bench = Bench::start(config_of(&fs, access, 1)).unwrap();
        bench.write(0, b"before").unwrap();
        let piece = vec![7; 16 << 20];
        let parts = [&piece[..], &piece, &piece, &piece, b"one too many"];
        let error = bench.lanes[0].reserve(&parts).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let told = error.to_string();
        for part in ["67108876 bytes", "67108864", "smaller batches"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert_eq!(
            files(&fs, "large"),
            Vec::<PathBuf>::new(),
            "nothing was made for it"
        );
        bench.write(0, b"after").unwrap();
        let recovered = recover(&fs, &bench.last()).unwrap();
        assert_eq!(recovered.stamps(), [1, 2]);
    }
}

/// Journals that cannot start, and what they say.
#[test]
fn a_configuration_that_cannot_be_is_refused_before_anything_is_made() {
    type Change = fn(&mut Config);
    let cases: [(Change, &str); 6] = [
        (|config| config.lanes = 0, "0 lanes"),
        (|config| config.lanes = 4097, "4097 lanes are not 1 to 4096"),
        (
            |config| config.extent_bytes = 4096,
            "an extent of 4096 bytes",
        ),
        (|config| config.extent_bytes = 2 << 20, "8 KiB to 1 MiB"),
        (|config| config.segment_bytes += 1, "some extents of 65536"),
        (|config| config.segment_bytes = 2 << 30, "up to 1 GiB"),
    ];
    for (change, said) in cases {
        let fs = MemFs::new();
        let mut config = config_of(&fs, Access::Mapped, 1);
        change(&mut config);
        let error = Journal::create(config, Stamp::ZERO).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(said), "{said}: {error}");
        assert!(fs.files().is_empty());
    }
}

#[test]
fn a_counter_of_files_that_went_backwards_is_named_and_not_asked_for_ever() {
    let fs = MemFs::new();
    let mut config = config_of(&fs, Access::Write, 1);
    let asked = Arc::new(AtomicU64::new(0));
    let counting = Arc::clone(&asked);
    config.next_file = Arc::new(move || {
        counting.fetch_add(1, Ordering::Relaxed);
        Ok(42)
    });
    for name in ["000042.seal", "000042.seg", "000042.large"] {
        fs.create_dir_all(&dir().join("journal")).unwrap();
        fs.write_file(&dir().join("journal").join(name), b"of an earlier run")
            .unwrap();
    }
    let error = Journal::create(config, Stamp::ZERO).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert!(
        error.to_string().contains("restore its manifest"),
        "{error}"
    );
    assert_eq!(asked.load(Ordering::Relaxed), 1 << 16);
    let left = fs.read_file(&dir().join("journal/000042.seal")).unwrap();
    assert_eq!(left, b"of an earlier run");
}

#[test]
fn numbers_that_leftover_files_have_are_passed_over() {
    let fs = MemFs::new();
    fs.create_dir_all(&dir().join("journal")).unwrap();
    let leftovers = [
        "010000.seal",
        "010001.seg",
        "010002.seg",
        "010003.seg",
        "010004.large",
    ];
    for name in leftovers {
        fs.write_file(&dir().join("journal").join(name), &[0xaa; 70_000])
            .unwrap();
    }
    let mut bench = Bench::start(config_of(&fs, Access::Mapped, 1)).unwrap();
    for turn in 0..40u64 {
        bench
            .write(0, &payload(turn, if turn == 20 { 30_000 } else { 9_000 }))
            .unwrap();
    }
    bench.round().unwrap();
    let recovered = recover(&fs.image(1, CrashMode::Strict), &bench.last()).unwrap();
    assert_eq!(recovered.stamps(), (1..=40).collect::<Vec<_>>());
    for name in leftovers {
        let bytes = fs.read_file(&dir().join("journal").join(name)).unwrap();
        assert!(
            bytes.iter().all(|byte| *byte == 0xaa),
            "{name} was written to"
        );
    }
}

#[test]
fn a_preparation_that_fails_anywhere_is_made_good_by_the_next_and_loses_nothing() {
    for operation in Operation::ALL {
        let mut left = Vec::new();
        for nth in 1.. {
            let mem = MemFs::new();
            let faulty = FaultFs::over_mem(&mem);
            let mut bench = Bench::start(config(Arc::new(faulty.clone()), 1, 2)).unwrap();
            for turn in 0..120u64 {
                bench
                    .write(usize::from(turn % 2 == 0), &[3; 9_000])
                    .unwrap();
            }
            bench.round().unwrap();
            bench.journal.release(Stamp(100)).unwrap();
            bench.round().unwrap();
            // Now there is something to reuse, to make and to delete.
            faulty.reset();
            faulty.inject(FaultRule::every(Fault::Io).of(operation).nth(nth));
            let outcome = bench.journal.prepare(|| false);
            let fired = faulty.fired() > 0;
            faulty.heal();
            let what = format!("{operation:?} {nth}");
            if let Err(error) = &outcome {
                assert!(fired && error.file().is_some(), "{what}: {error}");
            }
            if operation == Operation::SyncDir && fired {
                // Names may be lost: it ends writing, and takes nothing away.
                assert!(outcome.is_err(), "{what}");
                let refused = bench.write(0, b"after").unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{what}: {refused}");
                let image = mem.image(nth, CrashMode::Strict);
                let stamps = recover(&image, &bench.last()).unwrap().stamps();
                assert!(stamps.ends_with(&(100..=120).collect::<Vec<_>>()), "{what}");
                continue;
            }
            bench
                .journal
                .prepare(|| false)
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            for turn in 0..60u64 {
                bench
                    .write(usize::from(turn % 2 == 0), &[4; 9_000])
                    .unwrap();
            }
            bench.round().unwrap();
            let recovered = recover(&mem.image(nth, CrashMode::Strict), &bench.last()).unwrap();
            let stamps = recovered.stamps();
            let needed: Vec<u64> = (100..=180).collect();
            assert!(stamps.ends_with(&needed), "{what}: {stamps:?}");
            left.push(files(&mem, "seg").len());
            if !fired {
                break;
            }
        }
        // The last run met no fault. What there was of the segment went in the others, and the one
        // to be reused with it.
        let whole = left.pop().unwrap();
        let goes = operation != Operation::Remove;
        assert!(
            !goes || left.iter().all(|count| *count < whole),
            "{operation:?}: {left:?}"
        );
    }
}

/// After a kill, with acknowledged writes that no round covered: one error of the system while the
/// journal is read again takes none of them away.
#[test]
fn an_error_while_reading_is_no_evidence_of_a_power_loss() {
    let mem = MemFs::new();
    let mut bench = Bench::start(config_of(&mem, Access::Mapped, 2)).unwrap();
    bench.write(0, b"durable").unwrap();
    bench.round().unwrap();
    for turn in 0..20 {
        let len = if turn == 5 { 20_000 } else { 9_000 };
        bench.write(turn % 2, &vec![1; len]).unwrap();
    }
    let whole = |recovered: &Recovered, what: &str| {
        assert_eq!(recovered.report.rule, Rule::PageCache, "{what}");
        assert_eq!(recovered.records.len(), 21, "{what}");
    };
    let mut failed = 0;
    let calls = Operation::ALL.into_iter().filter(|call| !call.is_sync());
    for (call, fault) in calls.flat_map(|call| ERRORS.map(|fault| (call, fault))) {
        for nth in 1.. {
            let faulty = FaultFs::new(Arc::new(mem.clone()));
            faulty.inject(FaultRule::every(fault).of(call).nth(nth));
            let what = format!("{call:?} {fault:?} {nth}");
            match recover(&faulty, &bench.last()) {
                Ok(recovered) => {
                    assert_eq!(faulty.fired(), 0, "{what}: {:?}", recovered.report);
                    whole(&recovered, &what);
                    break;
                }
                Err(error) => {
                    assert!(error.file().is_some(), "{what}: {error}");
                    assert_ne!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
                    failed += 1;
                }
            }
            whole(&recover(&mem, &bench.last()).unwrap(), &what);
        }
    }
    assert!(failed > 60, "{failed}");
}

/// A system without a boot id.
#[derive(Debug)]
struct Untold;

impl Interceptor for Untold {
    fn before(&self, call: &Call<'_>) -> Verdict {
        match call.operation {
            Operation::Identity => Verdict::Fail(
                Error::new(ErrorKind::Unsupported, "identify", "there is no boot id").on(call.path),
            ),
            _ => Verdict::Pass,
        }
    }

    fn after(&self, _: &Call<'_>, _: bool) {}
}

#[test]
fn where_the_system_does_not_tell_its_boot_every_reopening_is_after_a_power_loss() {
    let fs = MemFs::new();
    let untold = Intercepted::standing(Arc::new(Untold), Arc::new(fs.clone()));
    let mut bench = Bench::start(config(Arc::new(untold.clone()), 1, 1)).unwrap();
    bench.write(0, b"durable").unwrap();
    bench.round().unwrap();
    bench.write(0, b"in the page cache").unwrap();
    // Nor is the page cache believed once the system tells.
    for vfs in [Arc::new(untold) as Arc<dyn Vfs>, Arc::new(fs)] {
        let recovered = recover_dyn(vfs, &bench.last()).unwrap();
        assert_eq!(recovered.report.rule, Rule::Cut, "{:?}", recovered.report);
        assert_eq!(recovered.stamps(), [1]);
    }
}

#[test]
fn a_cancelled_preparation_leaves_no_file() {
    let fs = MemFs::new();
    let bench = Bench::start(config_of(&fs, Access::Mapped, 1)).unwrap();
    let before = files(&fs, "seg");
    let looked = AtomicU64::new(0);
    bench
        .journal
        .prepare(|| looked.fetch_add(1, Ordering::Relaxed) > 2)
        .unwrap();
    assert_eq!(files(&fs, "seg"), before);
    assert!(looked.into_inner() >= 3, "it looked while it wrote");
    bench.journal.prepare(|| false).unwrap();
    assert_eq!(files(&fs, "seg").len(), 2, "enough are ready");
    bench.journal.prepare(|| false).unwrap();
    assert_eq!(files(&fs, "seg").len(), 2, "and no more are made");
}

#[test]
fn after_the_first_failure_and_after_the_close_every_call_says_so() {
    let calls = |bench: &mut Bench| -> Vec<(&'static str, Result<(), Error>)> {
        let journal = Arc::clone(&bench.journal);
        vec![
            ("reserve", bench.lanes[0].reserve(&[b"x"])),
            ("a large one", bench.lanes[0].reserve(&[&[1; 40_000]])),
            ("round", bench.round().map(drop)),
            (
                "round_for",
                journal.round_for(Stamp(99), || Stamp(99)).map(drop),
            ),
            (
                "wait_durable",
                journal.wait_durable(Stamp(99), None).map(drop),
            ),
            ("sync_done", journal.sync_done()),
            ("release", journal.release(Stamp(1))),
            ("prepare", journal.prepare(|| false)),
            ("close_idle", journal.close_idle(&mut bench.lanes[1])),
            ("close", journal.close(|| Stamp(bench.clock))),
        ]
    };
    for is_closed in [false, true] {
        let fs = MemFs::new();
        let mut bench = Bench::start(config_of(&fs, Access::Mapped, 2)).unwrap();
        let stamp = bench.write(0, b"x").unwrap();
        bench.round().unwrap();
        bench.write(1, b"y").unwrap();
        let kind = if is_closed {
            bench.journal.close(|| Stamp(2)).unwrap();
            ErrorKind::Closed
        } else {
            bench
                .journal
                .poison(Error::invalid("sync", "the first cause"));
            bench.journal.poison(Error::invalid("sync", "a later one"));
            ErrorKind::ReadOnly
        };
        for (what, outcome) in calls(&mut bench) {
            let error = outcome.expect_err(what);
            assert_eq!(error.kind(), kind, "{what}: {error}");
            assert_eq!(
                is_closed,
                !error.to_string().contains("the first cause"),
                "{what}: {error}"
            );
        }
        assert_eq!(bench.journal.poisoned().is_some(), !is_closed);
        // What is durable is durable; and nobody waits for ever.
        assert!(bench.journal.wait_durable(stamp, None).unwrap());
        let durable = bench.journal.durable();
        assert_eq!(durable, Stamp(if is_closed { 2 } else { 1 }));
        let recovered = recover(&fs.image(1, CrashMode::Strict), &bench.last()).unwrap();
        assert_eq!(recovered.stamps(), (1..=durable.0).collect::<Vec<_>>());
        let rule = if is_closed {
            Rule::CleanClose
        } else {
            Rule::Cut
        };
        assert_eq!(recovered.report.rule, rule, "{:?}", recovered.report);
    }
}

#[test]
fn who_waits_for_what_a_round_covered_runs_none() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config_of(&fs, Access::Mapped, 1)).unwrap();
    let stamp = bench.write(0, b"x").unwrap();
    let journal = Arc::clone(&bench.journal);
    assert!(
        !journal.wait_durable(stamp, Some(Duration::ZERO)).unwrap(),
        "nobody syncs for it"
    );
    assert_eq!(journal.round_for(stamp, || stamp).unwrap(), stamp);
    let rounds = journal.stats().rounds;
    let never = || -> Stamp { panic!("it is durable already") };
    assert_eq!(journal.round_for(stamp, never).unwrap(), stamp);
    assert_eq!(journal.round_for(Stamp::ZERO, never).unwrap(), stamp);
    assert_eq!(journal.stats().rounds, rounds);
}

#[test]
fn figures_are_those_of_what_was_done() {
    for access in ACCESSES {
        let fs = MemFs::new();
        let mut bench = Bench::start(config_of(&fs, access, 2)).unwrap();
        let stats = bench.journal.stats();
        assert_eq!(
            stats.access,
            if access == Access::Write {
                "write"
            } else {
                "mapped"
            }
        );
        assert_eq!((stats.records, stats.bytes, stats.rounds), (0, 0, 0));
        let mut payloads = 0;
        for turn in 0..50usize {
            let len = if turn == 7 { 50_000 } else { 100 + turn };
            payloads += if turn == 7 { 0 } else { len };
            bench.write(turn % 2, &vec![1; len]).unwrap();
        }
        let stats = bench.journal.stats();
        assert_eq!(stats.records, 50);
        let framed = usize::try_from(stats.bytes).unwrap();
        assert!(
            framed > payloads && framed < payloads + 50 * 64,
            "{framed} of {payloads}"
        );
        // The extents, not the strip of seals behind them.
        let mapped: u64 = files(&fs, "seg")
            .iter()
            .map(|path| fs.len(path).unwrap() / EXTENT_BYTES * EXTENT_BYTES)
            .sum();
        let expected = if access == Access::Write { 0 } else { mapped };
        assert_eq!(stats.mapped_bytes, expected, "{access:?}");
        assert!(stats.unflushed_bytes > 50_000, "{stats:?}");
        // The file of the large one goes first.
        assert_eq!(stats.oldest_pinned, Some(Stamp(8)), "{stats:?}");
        for round in 1..4 {
            bench.write(0, b"x").unwrap();
            let syncs = bench.journal.stats().syncs;
            bench.round().unwrap();
            let stats = bench.journal.stats();
            assert_eq!(stats.rounds, round);
            match round {
                1 => assert!(stats.syncs >= syncs + 2, "segments and the anchor"),
                // The lane may go on in another segment than the newest: then that becomes home.
                2 => assert!(stats.syncs > syncs),
                _ => assert_eq!(stats.syncs, syncs + 1, "the segment, which has the seal"),
            }
        }
        let recovered = recover(&fs.image(1, CrashMode::Strict), &bench.last()).unwrap();
        let bytes: usize = recovered
            .records
            .iter()
            .map(|(_, payload)| payload.len())
            .sum();
        assert_eq!(recovered.report.bytes, bytes as u64);
        assert_eq!(
            (recovered.report.records, recovered.report.discarded_records),
            (53, 0)
        );
    }
}

#[test]
fn what_is_given_up_is_counted_and_what_is_not_ours_is_passed_over() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config_of(&fs, Access::Mapped, 3)).unwrap();
    for turn in 0..90usize {
        bench.write(turn % 3, &[5; 100]).unwrap();
        if turn == 59 {
            bench.round().unwrap();
        }
    }
    // A journal of another database, one of an earlier run, and strangers, in the same folder.
    let mut other = config(Arc::new(fs.clone()), 7, 2);
    other.database = DATABASE + 1;
    let mut other = Bench::start(other).unwrap();
    other.write(0, b"not ours").unwrap();
    other.round().unwrap();
    for name in ["notes.txt", "1.seg", "0010000.seg", "010000.seg.bak"] {
        fs.write_file(&dir().join("journal").join(name), b"a stranger")
            .unwrap();
    }
    let mut last = bench.last();
    let all = recover(&fs.image(1, CrashMode::KeepAll), &last).unwrap();
    assert_eq!((all.report.rule, all.records.len()), (Rule::PageCache, 90));
    last.assume_power_loss = true;
    let cut = recover(&fs.image(1, CrashMode::KeepAll), &last).unwrap();
    assert_eq!((cut.report.rule, cut.report.cut), (Rule::Cut, Stamp(60)));
    assert_eq!((cut.report.records, cut.report.bytes), (60, 6_000));
    assert_eq!(
        (cut.report.discarded_records, cut.report.discarded_bytes),
        (30, 3_000)
    );
    let notes = cut.report.notes.join("\n");
    assert!(notes.contains("the caller asked for it"), "{notes}");
}

#[test]
fn the_journal_knows_how_far_the_log_that_names_it_was_written() {
    let fs = MemFs::new();
    let noted = Arc::new(AtomicU64::new(0));
    let start = |incarnation: u64| {
        let mut config = config(Arc::new(fs.clone()), incarnation, 1);
        let noted = Arc::clone(&noted);
        config.note = Some(Arc::new(move || noted.load(Ordering::Relaxed)));
        Bench::start(config).unwrap()
    };
    let asked = |last: &Last| -> Evidence { evidence(&fs, &dir(), DATABASE, last).unwrap() };
    let mut first = start(1);
    assert_eq!(
        asked(&first.last()),
        Evidence::default(),
        "no round, no note"
    );
    for note in [5, 1 << 40, 77] {
        noted.store(note, Ordering::Relaxed);
        first.write(0, b"x").unwrap();
        first.round().unwrap();
        assert_eq!(asked(&first.last()).note, note, "the newest seal's");
    }
    // A later journal that took no write says nothing: its creation may have been interrupted.
    let mut second = start(2);
    assert_eq!(asked(&first.last()).later, None);
    second.write(0, b"y").unwrap();
    let later = asked(&first.last()).later.expect("it took a write");
    assert!(files(&fs, "seg").contains(&later), "{}", later.display());
    assert_eq!(
        asked(&second.last()).later,
        None,
        "it is not later than itself"
    );
    let mut unknown = first.last();
    unknown.start.seal_file = 0;
    let known = evidence(&fs, &dir(), DATABASE + 1, &unknown).unwrap();
    assert_eq!(known, Evidence::default(), "of another database");
    // Damage is recovery's business.
    let seal = files(&fs, "seal").remove(0);
    fs.flip_byte(&seal, 9, 0x40).unwrap();
    assert_eq!(asked(&first.last()).note, 0);
}

/// Who makes a file himself, because nobody prepared one, may have lost others' names by it.
/// Whatever file it makes, it has room made where none may be opened; and gives up what it made
/// ahead where that is asked of it.
#[test]
fn where_too_many_files_are_open_room_is_made_for_its_own() {
    let made = |operation: Operation, access: Access, len: usize| {
        let faulty = FaultFs::over_mem(&MemFs::new());
        let mut config = config(Arc::new(faulty.clone()), 1, 1);
        config.access = access;
        let (asked, within) = (Arc::new(AtomicU64::new(0)), faulty.clone());
        let count = Arc::clone(&asked);
        config.make_room = Some(Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
            within.heal();
            true
        }));
        let mut bench = Bench::start(config).unwrap();
        faulty.inject(FaultRule::every(Fault::TooManyFiles).of(operation));
        for _ in 0..40 {
            bench.write(0, &vec![7; len]).unwrap();
        }
        asked.load(Ordering::Relaxed)
    };
    for access in ACCESSES {
        for operation in [Operation::Create, Operation::SyncDir] {
            assert_eq!(made(operation, access, 15_000), 1, "{operation:?}");
            assert_eq!(made(operation, access, 90_000), 1, "{operation:?}, large");
        }
    }
    assert_eq!(made(Operation::Map, Access::Mapped, 15_000), 1);
}

#[test]
fn segments_made_ahead_are_given_up_and_made_again() {
    for access in ACCESSES {
        let fs = MemFs::new();
        let mut bench = Bench::start(config_of(&fs, access, 1)).unwrap();
        bench.write(0, b"before").unwrap();
        bench.journal.prepare(|| false).unwrap();
        let ahead = files(&fs, "seg").len();
        bench.journal.forgo().unwrap();
        assert_eq!(files(&fs, "seg").len(), ahead - 2);
        for _ in 0..40 {
            bench.write(0, &[7; 15_000]).unwrap();
        }
        bench.round().unwrap();
        let recovered = recover(&fs, &bench.last()).unwrap();
        assert_eq!(recovered.stamps().len(), 41);
    }
}

#[test]
fn a_failed_sync_of_a_new_files_name_ends_writing_and_waiting() {
    for len in [15_000, 90_000] {
        let mem = MemFs::new();
        let faulty = FaultFs::over_mem(&mem);
        let config = config(Arc::new(faulty.clone()), 1, 1);
        let mut bench = Bench::start(config).unwrap();
        bench.write(0, b"before").unwrap();
        bench.round().unwrap();
        let waiting = Arc::clone(&bench.journal);
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || tell.send(waiting.wait_durable(Stamp(1_000), None)));
        // It sleeps by then, as a rule; if not it is told at once.
        std::thread::sleep(Duration::from_millis(20));
        let once = FaultRule::every(Fault::Io).of(Operation::SyncDir);
        faulty.inject(once.times(1));
        let (payload, mut written) = (vec![7; len], vec![1]);
        let error = loop {
            match bench.write(0, &payload) {
                Ok(stamp) => written.push(stamp.0),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::Io, "{len}");
        let refused = bench.write(0, b"after").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{len}: {refused}");
        let waited = told
            .recv_timeout(patience(Duration::from_secs(60)))
            .expect("it was woken");
        let waited = waited.unwrap_err();
        assert_eq!(waited.kind(), ErrorKind::ReadOnly, "{len}: {waited}");
        assert_eq!(recover(&mem, &bench.last()).unwrap().stamps(), written);
    }
}

#[test]
fn a_journal_that_cannot_be_made_leaves_nothing_behind() {
    for operation in Operation::ALL {
        for nth in 1.. {
            let mem = MemFs::new();
            let faulty = FaultFs::over_mem(&mem);
            let config = config(Arc::new(faulty.clone()), 1, 2);
            faulty.inject(FaultRule::every(Fault::NoSpace).of(operation).nth(nth));
            if Journal::create(config, Stamp::ZERO).is_ok() {
                break;
            }
            let left = mem.files();
            assert!(left.is_empty(), "{operation:?} {nth}: {left:?}");
        }
    }
}
