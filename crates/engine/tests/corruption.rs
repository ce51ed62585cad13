//! Damaged files: an error that names file and offset, or the right answer; never a wrong one.
//!
//! Claims: docs/consistency.md, "When something fails"; the "Bad input and faults".

use crate::common::{contents, on, tiny, try_on};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella::vfs::fault::{Fault, Rule};
use velella::vfs::mem::CrashMode;
use velella::vfs::{FaultFs, MemFs, Operation, Vfs};
use velella::{Db, Error, ErrorKind, Result, WriteOptions};
use velella_testkit::{Seed, Watchdog, seeds};

/// A database with two tables, a journal and an external value, as a kill left it.
fn victim() -> (MemFs, BTreeMap<Vec<u8>, Vec<u8>>) {
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    for number in 0..200u32 {
        db.put(number.to_be_bytes(), format!("value {number}").repeat(5))
            .unwrap();
    }
    db.compact().unwrap();
    for number in 100..150u32 {
        db.put(number.to_be_bytes(), "newer").unwrap();
    }
    db.put("external", vec![5; (1 << 20) + 1]).unwrap();
    db.flush().unwrap();
    for number in 140..160u32 {
        db.put_with(number.to_be_bytes(), "newest", WriteOptions::sync())
            .unwrap();
    }
    let expected = contents(&db);
    let tables = db.stats().keyspaces[0]
        .levels
        .iter()
        .map(|level| level.tables)
        .sum::<u64>();
    assert!((2..8).contains(&tables), "{tables} tables");
    (fs.crash(1, CrashMode::KeepAll), expected)
}

/// Reads everything every way; the first error ends it.
fn read_all(fs: &MemFs) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let db: Db = try_on(Arc::new(fs.clone()), tiny())?;
    let mut found = BTreeMap::new();
    for pair in db.iter()? {
        let (key, value) = pair?;
        assert_eq!(db.get(&key)?.as_deref(), Some(&*value));
        found.insert(key, value.to_vec());
    }
    db.verify()?;
    Ok(found)
}

fn assert_named(error: &Error, what: &str) {
    use ErrorKind::{Corruption, Io, NotFound, Unsupported};
    assert!(
        matches!(error.kind(), Corruption | Unsupported | NotFound | Io),
        "{what}: {error}"
    );
    assert!(error.file().is_some(), "{what}: no file in {error}");
}

/// Every file but the lock, which is empty.
fn files(fs: &MemFs) -> Vec<PathBuf> {
    let mut files = fs.files();
    files.retain(|path| !path.ends_with("LOCK"));
    files
}

fn is_journal(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "journal")
}

/// Damages a copy and judges what comes of it. A journal's torn end may count as a power loss of
/// its last round, which is reported; so there a prefix is right as well.
fn judge(fs: &MemFs, expected: &BTreeMap<Vec<u8>, Vec<u8>>, path: &Path, what: &str) {
    match read_all(fs) {
        Err(error) => assert_named(&error, what),
        Ok(found) if found == *expected => {}
        Ok(found) => {
            assert!(is_journal(path), "{what}: wrong answers");
            for (key, value) in &found {
                let known = expected.get(key);
                let older = &**value == b"newer" || value.starts_with(b"value ");
                assert!(known == Some(value) || older, "{what}: {key:?}");
            }
        }
    }
}

#[test]
fn the_victim_itself_is_sound() {
    let (fs, expected) = victim();
    assert_eq!(read_all(&fs).unwrap(), expected);
    let kinds: Vec<_> = files(&fs)
        .iter()
        .filter_map(|path| path.extension().map(|ext| ext.to_owned()))
        .collect();
    for kind in ["sst", "ext", "seg", "seal"] {
        assert!(
            kinds.iter().any(|found| found == kind),
            "{kind} in {kinds:?}"
        );
    }
}

#[test]
fn a_flipped_bit_is_an_error_with_its_file_or_harmless() {
    let _watchdog = Watchdog::new("a_flipped_bit", 400);
    let (fs, expected) = victim();
    for number in seeds(150) {
        let mut seed = Seed::new("a_flipped_bit", number);
        let files = files(&fs);
        let path = seed.pick(&files).clone();
        let len = fs.read_file(&path).unwrap().len() as u64;
        if len == 0 {
            continue;
        }
        // The beginning of a long file is where something is.
        let offset = if seed.one_in(2) {
            seed.below(len)
        } else {
            seed.below(len.min(4_096))
        };
        let image = fs.image(number, CrashMode::KeepAll);
        image.flip_byte(&path, offset, 1 << seed.below(8)).unwrap();
        judge(
            &image,
            &expected,
            &path,
            &format!("seed {number}: {} at {offset}", path.display()),
        );
    }
}

#[test]
fn a_truncated_file_is_an_error_with_its_file_or_harmless() {
    let _watchdog = Watchdog::new("a_truncated_file", 400);
    let (fs, expected) = victim();
    for path in files(&fs) {
        let bytes = fs.read_file(&path).unwrap();
        for keep in [0, 1, 20, bytes.len() / 2, bytes.len().saturating_sub(1)] {
            let image = fs.image(1, CrashMode::KeepAll);
            image
                .write_file(&path, &bytes[..keep.min(bytes.len())])
                .unwrap();
            let is_log = path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("MANIFEST"));
            if is_log && let Ok(found) = read_all(&image) {
                // Whole edits missing at its end look like edits that were never acknowledged.
                assert!(found.len() <= expected.len());
                continue;
            }
            judge(
                &image,
                &expected,
                &path,
                &format!("{} cut to {keep}", path.display()),
            );
        }
    }
}

#[test]
fn a_missing_file_is_an_error_that_names_it_or_harmless() {
    let (fs, expected) = victim();
    for path in files(&fs) {
        let image = fs.image(1, CrashMode::KeepAll);
        image.remove(&path).unwrap();
        if path.ends_with("CURRENT") {
            // Nothing says that this is a database, but it does not become an empty one.
            assert!(read_all(&image).map_or(true, |found| found.is_empty()));
            continue;
        }
        judge(
            &image,
            &expected,
            &path,
            &format!("{} removed", path.display()),
        );
    }
}

#[test]
fn exchanged_files_of_one_kind_are_noticed() {
    let _watchdog = Watchdog::new("exchanged_files", 200);
    let (fs, expected) = victim();
    let (other, _) = victim();
    for path in files(&fs) {
        for (stranger, source) in files(&fs)
            .iter()
            .map(|path| (path, &fs))
            .chain(files(&other).iter().map(|path| (path, &other)))
        {
            let is_same = *stranger == path && std::ptr::eq(source, &fs);
            if is_same || stranger.extension() != path.extension() || path.ends_with("CURRENT") {
                continue;
            }
            let image = fs.image(1, CrashMode::KeepAll);
            image
                .write_file(&path, &source.read_file(stranger).unwrap())
                .unwrap();
            let what = format!("{} in place of {}", stranger.display(), path.display());
            judge(&image, &expected, &path, &what);
        }
    }
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let (fs, _) = victim();
    for path in files(&fs) {
        let mut bytes = fs.read_file(&path).unwrap();
        if bytes.len() < 12 {
            continue;
        }
        // Whatever stands where a version may stand: it is never read as if it were known.
        bytes[8] = 0xee;
        let image = fs.image(1, CrashMode::KeepAll);
        image.write_file(&path, &bytes).unwrap();
        if let Err(error) = read_all(&image) {
            assert_named(&error, &path.display().to_string());
        }
    }
}

#[test]
fn accepting_loss_opens_what_normal_recovery_refuses() {
    let (fs, expected) = victim();
    let mut refused = 0;
    for path in files(&fs).iter().filter(|path| is_journal(path)) {
        for offset in [100u64, 300, 4_200] {
            let image = fs.image(1, CrashMode::Strict);
            if image.flip_byte(path, offset, 0xff).is_err() || read_all(&image).is_ok() {
                continue;
            }
            let Err(error) = try_on(Arc::new(image.clone()), tiny()) else {
                continue;
            };
            refused += 1;
            let lossy = tiny().recovery(velella::RecoveryMode::AcceptLoss);
            match try_on(Arc::new(image), lossy) {
                Ok(db) => assert!(contents(&db).len() <= expected.len()),
                Err(still) => panic!("{}: {error}, and with AcceptLoss: {still}", path.display()),
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn accepting_loss_opens_what_cannot_be_read() {
    let (fs, expected) = victim();
    // A segment that was just being made has no name there, and nobody misses it.
    let fs = fs.image(1, CrashMode::Strict);
    let mut refused = 0;
    for path in files(&fs).iter().filter(|path| is_journal(path)) {
        let name = path.to_str().unwrap();
        let faulty = FaultFs::new(Arc::new(fs.image(1, CrashMode::Strict)));
        let unreadable = Rule::every(Fault::Io).of(Operation::Read).on(name);
        faulty.inject(unreadable.clone());
        let error = try_on(Arc::new(faulty.clone()), tiny()).err();
        let error = error.expect("nothing but an error is known of what cannot be read");
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert_eq!(error.file(), Some(&**path), "{error}");
        refused += 1;
        let lossy = tiny().recovery(velella::RecoveryMode::AcceptLoss);
        let db = try_on(Arc::new(faulty.clone()), lossy).unwrap();
        assert!(contents(&db).keys().all(|key| expected.contains_key(key)));
        let notes = db.recovery().notes.join("; ");
        assert!(
            notes.contains("unreadable") && notes.contains(name),
            "{notes}"
        );
        db.put("after", "1").unwrap();
        db.close().unwrap();
        // What was lost is lost: the next opening has no need of it.
        faulty.reset();
        let db = try_on(Arc::new(faulty), tiny()).unwrap();
        assert!(db.contains("after").unwrap());
    }
    assert!(refused > 1);
}

/// What was given up lies below what is there: that is said.
#[test]
fn accepting_loss_keeps_what_tables_hold_and_says_so() {
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    let (flushed, lost) = (
        db.keyspace_or_create("flushed").unwrap(),
        db.keyspace_or_create("lost").unwrap(),
    );
    lost.put_with("key", "needle", WriteOptions::sync())
        .unwrap();
    flushed.put_with("key", "1", WriteOptions::sync()).unwrap();
    flushed.flush().unwrap();
    let fs = fs.crash(1, CrashMode::Strict);
    let (path, at) = files(&fs)
        .into_iter()
        .filter(|path| is_journal(path))
        .find_map(|path| {
            let bytes = fs.read_file(&path).unwrap();
            let at = bytes.windows(6).position(|bytes| bytes == b"needle")?;
            Some((path, at as u64))
        })
        .unwrap();
    fs.flip_byte(&path, at, 1).unwrap();
    let lossy = tiny().recovery(velella::RecoveryMode::AcceptLoss);
    let db = try_on(Arc::new(fs), lossy).unwrap();
    let has = |name: &str| db.keyspace(name).unwrap().contains("key").unwrap();
    assert!(has("flushed") && !has("lost"));
    let notes = db.recovery().notes.join("; ");
    assert!(notes.contains("tables hold writes up to stamp"), "{notes}");
}

/// The manifest vouches for its tables: without one it is no missing database but a damaged one.
#[test]
fn a_table_that_is_gone_is_damage_and_named() {
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let is_table = |path: &PathBuf| path.extension().is_some_and(|end| end == "sst");
    let table = fs.files().into_iter().find(is_table).unwrap();
    fs.remove(&table).unwrap();
    let error = try_on(Arc::new(fs), tiny()).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(error.file(), Some(table.as_path()));
}

fn tables(fs: &MemFs) -> Vec<PathBuf> {
    let mut tables = files(fs);
    tables.retain(|path| path.extension().is_some_and(|kind| kind == "sst"));
    tables
}

/// The victim with a bit flipped in the first block of its largest table, and that table.
fn damaged_below() -> (MemFs, BTreeMap<Vec<u8>, Vec<u8>>, PathBuf) {
    let (fs, expected) = victim();
    // Opening moves the journal to a table of its own.
    drop(try_on(Arc::new(fs.clone()), tiny()).unwrap());
    let size = |path: &PathBuf| fs.read_file(path).unwrap().len();
    let path = tables(&fs).into_iter().max_by_key(size).unwrap();
    fs.flip_byte(&path, 100, 1).unwrap();
    (fs, expected, path)
}

/// What is sound is read as ever, the rest is an error that names the table.
fn assert_sound_is_read(db: &Db, expected: &BTreeMap<Vec<u8>, Vec<u8>>, table: &Path) {
    let mut answers = 0;
    for (key, value) in expected {
        match db.get(key) {
            Ok(found) => {
                assert_eq!(found.as_deref(), Some(&**value));
                answers += 1;
            }
            Err(error) => assert_eq!(error.file(), Some(table), "{error}"),
        }
    }
    assert!((1..expected.len()).contains(&answers), "{answers}");
}

/// A compaction reads what no reader asks for. What it cannot check it does not write on: the
/// tables stay as they are, and so does writing, since the caller has been told.
#[test]
fn damage_that_a_caller_s_compaction_meets_is_told_and_not_written_on() {
    let (fs, expected, path) = damaged_below();
    let db = try_on(Arc::new(fs.clone()), tiny()).unwrap();
    let before = tables(&fs);
    let error = db.compact().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(error.file(), Some(path.as_path()), "{error}");
    assert!(error.offset().is_some(), "{error}");
    assert!(before.iter().all(|table| tables(&fs).contains(table)));
    db.put("later", "1").unwrap();
    assert_sound_is_read(&db, &expected, &path);
    drop(db);
    let again = try_on(Arc::new(fs.clone()), tiny()).unwrap();
    assert_eq!(again.get("later").unwrap().as_deref(), Some(&b"1"[..]));
    assert_sound_is_read(&again, &expected, &path);
}

/// In the background nobody is there to be told: writing ends, and says why.
#[test]
fn damage_that_background_work_meets_ends_writing_with_the_reason() {
    let name = "damage_that_background_work_meets_ends_writing_with_the_reason";
    let _watchdog = Watchdog::new(name, 200);
    let (fs, mut expected, path) = damaged_below();
    let db = try_on(Arc::new(fs.clone()), tiny()).unwrap();
    let write = |round: u32| {
        // Not those of the damaged block: they would be overwritten.
        let key = (100 + round % 100).to_be_bytes();
        let value = format!("round {round}").repeat(20);
        db.put(key, &value)?;
        if round % 20 == 19 {
            db.flush()?;
        }
        Ok((key.to_vec(), value.into_bytes()))
    };
    let mut round = 0;
    let refused: Error = loop {
        match write(round) {
            Ok((key, value)) => drop(expected.insert(key, value)),
            Err(error) => break error,
        }
        round += 1;
        assert!(round < 100_000, "no compaction met the damage");
    };
    assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{refused}");
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(refused.to_string().contains(name), "{refused}");
    assert!(refused.to_string().contains("checksum"), "{refused}");
    assert!(tables(&fs).contains(&path));
    // Of the write that was refused nobody knows more than that.
    expected.remove(&(100 + round % 100).to_be_bytes()[..]);
    assert_sound_is_read(&db, &expected, &path);
}
