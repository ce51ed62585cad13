//! The manifest as a file: every byte flipped, power cut at every call, failing calls, foreign
//! directories.

#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test")]

use crate::common::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use velella_base::{ErrorKind, Stamp};
use velella_tree::{Edit, Manifest, State, unreferenced};
use velella_vfs::fault::{Fault, Rule};
use velella_vfs::mem::CrashMode;
use velella_vfs::{FaultFs, MemFs, Operation, Vfs};

#[test]
fn a_flipped_bit_anywhere_is_found_and_named() {
    let (fs, manifest) = sample();
    drop(manifest);
    for (name, length) in [("MANIFEST-000001", GOLDEN.len()), ("CURRENT", 25)] {
        for offset in 0..length {
            for mask in [1, 0x80] {
                let damaged = fs.image(0, CrashMode::KeepAll);
                damaged
                    .flip_byte(&db().join(name), offset as u64, mask)
                    .unwrap();
                let error = Manifest::open(arc(&damaged), db()).unwrap_err();
                let text = error.to_string();
                assert_eq!(
                    error.kind(),
                    ErrorKind::Corruption,
                    "{name} {offset}: {text}"
                );
                assert!(text.contains(name) && error.offset().is_some(), "{text}");
                assert!(error.offset().unwrap() <= offset as u64, "{offset}: {text}");
            }
        }
    }
}

#[test]
fn a_tail_cut_anywhere_in_the_last_record_is_torn_and_one_before_it_is_not() {
    let (fs, manifest) = sample();
    drop(manifest);
    let path = db().join("MANIFEST-000001");
    let whole = Manifest::replay(&fs, db()).unwrap();
    let last = usize::try_from(whole.records.last().unwrap().offset).unwrap();
    for length in last..GOLDEN.len() {
        fs.write_file(&path, &GOLDEN[..length]).unwrap();
        let replay = Manifest::replay(&fs, db()).unwrap();
        assert_eq!(replay.records.len(), whole.records.len() - 1);
        assert_eq!(replay.torn.is_some(), length > last, "{length}");
    }
    // Lost words anywhere in the last record; lost words before it are damage.
    for word in (64..GOLDEN.len()).step_by(8) {
        let mut bytes = GOLDEN.to_vec();
        bytes[word..word + 8].fill(0);
        fs.write_file(&path, &bytes).unwrap();
        let outcome = Manifest::replay(&fs, db());
        assert_eq!(outcome.is_ok(), word >= last, "{word}: {outcome:?}");
    }
    // A torn tail is gone after opening.
    fs.write_file(&path, &GOLDEN[..GOLDEN.len() - 3]).unwrap();
    let (manifest, _) = Manifest::open(arc(&fs), db()).unwrap();
    manifest.commit(&[remove(4)]).unwrap();
    let replay = Manifest::replay(&fs, db()).unwrap();
    assert_eq!(replay.torn, None);
    assert_eq!(
        replay
            .state
            .tables()
            .map(|table| table.file)
            .collect::<Vec<_>>(),
        [5]
    );
}

#[test]
fn newer_formats_features_and_other_files_are_refused_by_name() {
    let refused = |edit: &dyn Fn(&mut Vec<u8>)| {
        let fs = MemFs::new();
        create(&fs);
        let path = db().join("MANIFEST-000001");
        let mut bytes = fs.read_file(&path).unwrap();
        edit(&mut bytes);
        // The header's checksum, as the one who wrote it would have.
        let mut seed = velella_base::checksum::crc32c(&bytes[36..52]);
        seed = velella_base::checksum::crc32c_append(seed, &bytes[52..60]);
        let crc = velella_base::checksum::at(seed, 0, &bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        fs.write_file(&path, &bytes).unwrap();
        let reading = Manifest::read(&fs, db()).err().map(|error| error.kind());
        let opening = Manifest::open(arc(&fs), db()).unwrap_err();
        (reading, opening.kind(), opening.to_string())
    };
    let (reading, opening, text) = refused(&|bytes| bytes[8] = 2);
    assert_eq!(
        (reading, opening),
        (Some(ErrorKind::Unsupported), ErrorKind::Unsupported)
    );
    assert!(
        text.contains("format version 2") && text.contains("version 1"),
        "{text}"
    );
    let (reading, opening, text) = refused(&|bytes| bytes[12] = 4);
    assert_eq!(
        (reading, opening),
        (Some(ErrorKind::Unsupported), ErrorKind::Unsupported)
    );
    assert!(text.contains("0x4"), "{text}");
    let (reading, opening, _) = refused(&|bytes| bytes[20] = 1);
    assert_eq!(
        (reading, opening),
        (None, ErrorKind::Unsupported),
        "readable, not writable"
    );
    let (_, opening, text) = refused(&|bytes| bytes[52] = 9);
    assert_eq!(opening, ErrorKind::Corruption);
    assert!(text.contains("file 9 under another name"), "{text}");
    let (_, opening, text) = refused(&|bytes| bytes[..8].copy_from_slice(b"RocksDB!"));
    assert_eq!(opening, ErrorKind::Corruption);
    assert!(text.contains("RocksDB!"), "{text}");
}

#[test]
fn current_missing_pointing_nowhere_or_garbled_is_told_apart() {
    let fs = MemFs::new();
    let missing = Manifest::open(arc(&fs), db()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    create(&fs);
    let current = db().join("CURRENT");
    for (content, word) in [
        (&b"MANIFEST-000009 8f4e2ad1\n"[..], "checksum"),
        (b"", "does not name"),
        (b"\xff\xfe", "does not name"),
        (&[b'x'; 200], "200 bytes"),
    ] {
        fs.write_file(&current, content).unwrap();
        let error = Manifest::open(arc(&fs), db()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
    fs.write_file(&current, b"MANIFEST-000001 7ed3298a\n")
        .unwrap();
    fs.remove(&db().join("MANIFEST-000001")).unwrap();
    let nowhere = Manifest::open(arc(&fs), db()).unwrap_err();
    assert_eq!(nowhere.kind(), ErrorKind::Corruption);
    assert!(nowhere.to_string().contains("does not exist"), "{nowhere}");
}

#[test]
fn a_foreign_directory_is_left_alone() {
    let attempt = |names: &[&str]| {
        let fs = MemFs::new();
        for below in ["journal", "lost+found"] {
            fs.create_dir_all(&db().join(below)).unwrap();
        }
        for name in names {
            fs.write_file(&db().join(name), b"mine").unwrap();
        }
        let outcome = Manifest::create(arc(&fs), db()).map(|_| ());
        (outcome, fs.files().len())
    };
    let mounted = ["lost+found/#17"];
    for harmless in [&[][..], &["LOCK"], &["LOCK", "CURRENT.tmp"], &mounted] {
        attempt(harmless).0.unwrap();
    }
    use ErrorKind::{AlreadyExists, Corruption};
    for (foreign, kind, said) in [
        ("notes.txt", AlreadyExists, "it holds notes.txt"),
        ("notes.tmp", AlreadyExists, "it holds notes.tmp"),
        ("journal/notes", AlreadyExists, "it holds journal/notes"),
        ("CURRENT", AlreadyExists, "there is one"),
        ("000007.sst", Corruption, "000007.sst is there"),
        ("000007.ext", Corruption, "000007.ext is there"),
        (
            "journal/000003.seg",
            Corruption,
            "journal/000003.seg is there",
        ),
    ] {
        let (outcome, files) = attempt(&[foreign, "LOCK"]);
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!(files, 2, "something was written beside {foreign}");
    }
    // Whatever else is there, and comes first.
    for ours in ["000007.sst", "journal/000003.seg"] {
        let error = attempt(&["000000.txt", "journal/0", ours]).0.unwrap_err();
        assert_eq!(error.kind(), Corruption, "{error}");
        assert!(error.to_string().contains(ours), "{error}");
    }
    let (fs, manifest) = sample();
    drop(manifest);
    // Who asks beside somebody who creates it goes on to the lock.
    Manifest::check_room(&fs, db()).unwrap();
    fs.remove(&db().join("CURRENT")).unwrap();
    Manifest::check_room(&fs, db()).unwrap_err();
    let error = Manifest::create(arc(&fs), db()).unwrap_err();
    assert!(error.to_string().contains("damaged database"), "{error}");
    assert_eq!(error.file(), Some(&*db().join("CURRENT")));
}

/// Commits after which the state is one of a known sequence.
fn script() -> Vec<Vec<Edit>> {
    let mut script = vec![vec![keyspace(1, "default")], vec![add(400)]];
    for file in 401..408 {
        script.push(vec![add(file), remove(file - 1)]);
    }
    script
}

fn tables(state: &State) -> Vec<u64> {
    state.tables().map(|table| table.file).collect()
}

/// Creates, commits, reopens and commits until a call fails; says how many commits were
/// acknowledged and whether the last one failed.
fn drive(vfs: &Arc<dyn Vfs>) -> (usize, bool) {
    let Ok((mut manifest, _)) = Manifest::create(Arc::clone(vfs), db()) else {
        return (0, true);
    };
    for (done, edits) in script().iter().enumerate() {
        if done == 4 {
            drop(manifest);
            match Manifest::open(Arc::clone(vfs), db()) {
                Ok((again, _)) => manifest = again,
                Err(_) => return (done, true),
            }
        }
        if manifest.commit(edits).is_err() {
            return (done, true);
        }
    }
    (script().len(), false)
}

#[test]
fn after_a_power_cut_at_any_call_every_acknowledged_commit_is_there_and_no_half_one() {
    let expected: Vec<Vec<u64>> = std::iter::once(Vec::new())
        .chain(std::iter::once(Vec::new()))
        .chain((400..408).map(|file| vec![file]))
        .collect();
    for call in 1.. {
        let mut finished = false;
        for seed in 0..40 {
            let fs = MemFs::new();
            let faulty = FaultFs::new(arc(&fs));
            faulty.inject(Rule::every(Fault::Io).from_nth(call));
            let (acknowledged, failed) = drive(&(Arc::new(faulty) as Arc<dyn Vfs>));
            finished = !failed;
            let mode = CrashMode::POWER_LOSSES[seed as usize % 3];
            let after = fs.crash(seed, mode);
            match Manifest::open(arc(&after), db()) {
                Ok((manifest, state)) => {
                    let at = &tables(&state);
                    let possible = &expected[acknowledged..=(acknowledged + 1).min(9)];
                    let fits = possible.contains(at);
                    assert!(
                        fits,
                        "call {call} seed {seed}: {at:?}, acknowledged {acknowledged}"
                    );
                    let living = usize::from(!state.keyspaces.is_empty());
                    assert!(living >= acknowledged.min(1));
                    manifest.commit(&[]).unwrap();
                }
                Err(error) => {
                    assert_eq!(acknowledged, 0, "call {call} seed {seed}: {error}");
                    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                    Manifest::create(arc(&after), db()).unwrap();
                }
            }
        }
        if finished {
            assert!(call > 40, "the sweep ended too early: {call}");
            break;
        }
    }
}

#[test]
fn a_failed_sync_poisons_and_what_it_left_is_not_built_upon() {
    let fs = MemFs::new();
    let faulty = FaultFs::over_mem(&fs);
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let (manifest, _) = Manifest::create(Arc::clone(&vfs), db()).unwrap();
    manifest.commit(&[keyspace(1, "default")]).unwrap();
    faulty.inject(Rule::every(Fault::Io).of(Operation::SyncData).times(1));
    manifest.commit(&[add(300)]).unwrap_err();
    let later = manifest.commit(&[add(301)]).unwrap_err();
    assert_eq!(later.kind(), ErrorKind::ReadOnly);
    assert!(later.to_string().contains("earlier failure"), "{later}");
    drop(manifest);
    // The next process may see the record in the page cache; then it is in its new manifest,
    // synced, and a power loss does not take it back.
    let (_, state) = Manifest::open(arc(&fs), db()).unwrap();
    for seed in 0..20 {
        let after = fs.image(seed, CrashMode::Random);
        let (_, again) = Manifest::read(&after, db()).unwrap();
        assert_eq!(tables(&again), tables(&state));
    }
}

#[test]
fn file_numbers_never_come_back() {
    let fs = MemFs::new();
    let mut given = BTreeSet::new();
    let mut manifest = create(&fs);
    for round in 0..6 {
        for _ in 0..100 * round {
            assert!(
                given.insert(manifest.next_file().unwrap()),
                "a number came back"
            );
        }
        // A file of an interrupted opening lies beyond the lease.
        let stray = given.last().copied().unwrap_or(0) + 1000;
        fs.write_file(&db().join(format!("MANIFEST-{stray:06}")), b"")
            .unwrap();
        drop(manifest);
        manifest = Manifest::open(arc(&fs.image(round, CrashMode::Strict)), db())
            .unwrap()
            .0;
        manifest = {
            drop(manifest);
            Manifest::open(arc(&fs), db()).unwrap().0
        };
        assert!(
            given.insert(manifest.file()),
            "a manifest took a used number"
        );
        assert!(manifest.file() > stray);
    }
}

#[test]
fn a_long_manifest_is_rewritten_and_stays_in_force() {
    let fs = MemFs::new();
    let manifest = create(&fs);
    manifest
        .commit(&[keyspace(1, "default"), add(1000)])
        .unwrap();
    let first = manifest.file();
    let mut file = 1000;
    while manifest.file() == first {
        let edits: Vec<Edit> = (0..200)
            .flat_map(|_| {
                file += 1;
                [add(file), remove(file - 1)]
            })
            .collect();
        manifest.commit(&edits).unwrap();
    }
    manifest.commit(&[add(file + 1)]).unwrap();
    assert!(!fs.exists(&db().join("MANIFEST-000001")).unwrap());
    let (_, state) = Manifest::read(&fs.image(1, CrashMode::Strict), db()).unwrap();
    assert_eq!(tables(&state), [file, file + 1]);
    assert_eq!(state, manifest.state());
}

#[test]
fn commits_for_a_missing_keyspace_are_refused_and_harm_nothing() {
    let (_fs, manifest) = sample();
    let edit = Edit::Flushed {
        keyspace: 7,
        below: Stamp(1),
    };
    assert_eq!(
        manifest.commit(&[edit]).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    manifest.commit(&[add(9)]).unwrap();
}

#[test]
fn files_nobody_names_are_listed() {
    let (fs, manifest) = sample();
    for name in [
        "000004.sst",
        "000005.sst",
        "000003.ext",
        "000008.ext",
        "000009.ext",
        "x.sst",
    ] {
        fs.write_file(&db().join(name), b"").unwrap();
    }
    let also = BTreeSet::from([9]);
    let orphans = unreferenced(&fs, db(), &manifest.state(), &also).unwrap();
    let names: Vec<_> = orphans.iter().map(|name| name.path(db())).collect();
    assert_eq!(names, [db().join("000004.sst"), db().join("000008.ext")]);
}

#[test]
fn a_checkpoint_has_its_own_id_and_remembers_whose_tables_it_holds() {
    let (fs, manifest) = sample();
    let dir = Path::new("/copy");
    let state = manifest.state();
    let id = Manifest::checkpoint(arc(&fs), dir, &state, manifest.database()).unwrap();
    assert_ne!(id, DATABASE);
    let (copy, copied) = Manifest::open(arc(&fs), dir).unwrap();
    assert_eq!(tables(&copied), tables(&state));
    assert_eq!(copied.incarnation, 0);
    assert_eq!(copy.origin(5), DATABASE);
    assert_eq!(copy.origin(copy.next_file().unwrap()), id);
    assert_eq!(copied.origin(5, id), DATABASE);
}

#[test]
fn reading_writes_nothing() {
    let (fs, manifest) = sample();
    let vfs = FaultFs::new(arc(&fs));
    for operation in [
        Operation::Write,
        Operation::Create,
        Operation::Rename,
        Operation::Remove,
    ] {
        vfs.inject(Rule::every(Fault::Permission).of(operation));
    }
    let replay = Manifest::replay(&vfs, db()).unwrap();
    assert_eq!(replay.state, manifest.state());
    assert_eq!(replay.file, manifest.file());
    assert_eq!(vfs.fired(), 0);
}
