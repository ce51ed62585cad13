//! How a manifest ends: a sync that fails, the close, a later one in force; and how it does not, by
//! a full disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::{ErrorKind, Stamp};
use velella_tree::{Edit, KeyspaceRecord, Manifest};
use velella_vfs::fault::{Fault, Rule};
use velella_vfs::mem::CrashMode;
use velella_vfs::{FaultFs, MemFs, Operation, lacks_descriptors};

fn db() -> &'static Path {
    Path::new("/db")
}

fn keyspace(id: u32) -> Edit {
    Edit::CreateKeyspace(KeyspaceRecord {
        id,
        name: id.to_string(),
        layout: "leveled".into(),
        order: "velella.bytewise".into(),
        merge_operator: String::new(),
        prefix_extractor: String::new(),
        created: Stamp(1),
    })
}

fn manifests(fs: &MemFs) -> usize {
    let is_manifest = |path: &PathBuf| path.to_string_lossy().contains("MANIFEST");
    fs.files().iter().filter(|path| is_manifest(path)).count()
}

#[test]
fn a_failed_sync_of_a_rewriting_poisons_as_well() {
    let fs = MemFs::new();
    let faulty = FaultFs::over_mem(&fs);
    let (manifest, _) = Manifest::create(Arc::new(faulty.clone()), db()).unwrap();
    manifest.roll_early(1);
    // Names that somebody else made may be lost by it: what the next sync of the directory says is
    // durable is so no more.
    faulty.inject(Rule::every(Fault::Io).of(Operation::SyncDir).times(1));
    let mut acknowledged = 0;
    while faulty.fired() == 0 {
        acknowledged += 1;
        manifest.commit(&[keyspace(acknowledged)]).unwrap();
    }
    let later = manifest.commit(&[keyspace(999)]).unwrap_err();
    assert_eq!(later.kind(), ErrorKind::ReadOnly, "{later}");
    drop(manifest);
    let (manifest, state) = Manifest::open(Arc::new(fs), db()).unwrap();
    assert_eq!(state.keyspaces.len(), acknowledged as usize);
    manifest.commit(&[keyspace(999)]).unwrap();
}

#[test]
fn a_shut_manifest_takes_no_commit_and_removes_nothing() {
    let fs = MemFs::new();
    let (manifest, _) = Manifest::create(Arc::new(fs.clone()), db()).unwrap();
    manifest.commit(&[keyspace(1)]).unwrap();
    let mut removed = 0;
    manifest.unless_shut(|| removed += 1);
    manifest.shut();
    manifest.unless_shut(|| removed += 1);
    assert_eq!(removed, 1);
    assert!(manifest.is_shut());
    let refused = manifest.commit(&[keyspace(2)]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed, "{refused}");
    let (_, state) = Manifest::open(Arc::new(fs), db()).unwrap();
    assert_eq!(state.keyspaces.len(), 1);
}

#[test]
fn a_full_disk_refuses_a_commit_and_the_next_one_finds_room() {
    let fs = MemFs::new();
    // Not over_mem: a call that fails is not made, as if the power went just before it.
    let faulty = FaultFs::new(Arc::new(fs.clone()));
    let (manifest, _) = Manifest::create(Arc::new(faulty.clone()), db()).unwrap();
    let found = |fs: &MemFs, expected: &[usize]| {
        for mode in CrashMode::POWER_LOSSES {
            for seed in 0..40 {
                let image = fs.image(seed, mode);
                image.set_space_max(None);
                let (_, state) = Manifest::open(Arc::new(image), db()).unwrap();
                let count = state.keyspaces.len();
                assert!(expected.contains(&count), "{mode:?} {seed}: {count}");
            }
        }
    };
    let length = manifest.position().1;
    fs.set_space_max(Some(fs.space_used()));
    for _ in 0..2 {
        // More than what is left of the last block, so that a part of it is written.
        let many: Vec<Edit> = (1..=200).map(keyspace).collect();
        let error = manifest.commit(&many).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        assert!(Manifest::is_refusal(&error));
        found(&fs, &[0]);
    }
    assert_eq!(manifest.position().1, length);
    assert!(manifest.state().keyspaces.is_empty());
    fs.set_space_max(None);
    // Less than what was cut off.
    manifest.commit(&[keyspace(1)]).unwrap();
    found(&fs, &[1]);
    // And a part of one over a part of the other is nothing that an opening refuses.
    fs.set_space_max(Some(fs.space_used()));
    let many: Vec<Edit> = (2..=200).map(keyspace).collect();
    manifest.commit(&many).unwrap_err();
    fs.set_space_max(None);
    faulty.inject(Rule::every(Fault::Io).of(Operation::SyncData));
    let some: Vec<Edit> = (2..=60).map(keyspace).collect();
    let error = manifest.commit(&some).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    found(&fs, &[1, 60]);
}

#[test]
fn a_full_disk_poisons_if_what_was_written_cannot_be_cut_off() {
    for operation in [Operation::SetLen, Operation::SyncData] {
        let fs = MemFs::new();
        let faulty = FaultFs::over_mem(&fs);
        let (manifest, _) = Manifest::create(Arc::new(faulty.clone()), db()).unwrap();
        faulty.inject(Rule::every(Fault::Short).of(Operation::Write).times(1));
        faulty.inject(Rule::every(Fault::Io).of(operation).times(1));
        let error = manifest.commit(&[keyspace(1)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(!Manifest::is_refusal(&error));
        let error = manifest.commit(&[keyspace(2)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    }
}

#[test]
fn a_rewriting_waits_that_may_open_no_more_files_or_whose_name_finds_no_room() {
    let unopened = Rule::every(Fault::TooManyFiles).of(Operation::SyncDir);
    let full = Rule::every(Fault::NoSpace).of(Operation::Rename);
    for rule in [unopened, full] {
        let fs = MemFs::new();
        let faulty = FaultFs::over_mem(&fs);
        let (manifest, _) = Manifest::create(Arc::new(faulty.clone()), db()).unwrap();
        manifest.roll_early(1);
        faulty.inject(rule.times(1));
        let (old, mut committed) = (manifest.file(), 0);
        while faulty.fired() == 0 {
            committed += 1;
            manifest.commit(&[keyspace(committed)]).unwrap();
        }
        assert_eq!(
            (manifest.file(), manifests(&fs)),
            (old, 1),
            "{:?}",
            fs.files()
        );
        while manifest.file() == old {
            committed += 1;
            manifest.commit(&[keyspace(committed)]).unwrap();
        }
        assert_eq!(manifests(&fs), 1, "{:?}", fs.files());
        drop(manifest);
        let (_, state) = Manifest::open(Arc::new(fs), db()).unwrap();
        assert_eq!(state.keyspaces.len(), committed as usize);
    }
}

#[test]
fn nothing_is_committed_to_a_rewriting_before_its_name_is_durable() {
    let fs = MemFs::new();
    let faulty = FaultFs::over_mem(&fs);
    let (manifest, _) = Manifest::create(Arc::new(faulty.clone()), db()).unwrap();
    manifest.roll_early(1);
    // The first sync of the directory makes the new file's name durable, the second the swap.
    faulty.inject(
        Rule::every(Fault::TooManyFiles)
            .of(Operation::SyncDir)
            .from_nth(2),
    );
    let (mut noted, mut committed) = (manifest.position(), 0);
    while faulty.fired() == 0 {
        noted = manifest.position();
        committed += 1;
        manifest.commit(&[keyspace(committed)]).unwrap();
    }
    assert_eq!(manifests(&fs), 2);
    // Whoever takes note of its position takes note of what a loss of power leaves.
    let told = manifest.position();
    assert!(
        told.0 == noted.0 && told.1 > noted.1,
        "{told:?} after {noted:?}"
    );
    for _ in 0..2 {
        let refused = manifest.commit(&[keyspace(committed + 1)]).unwrap_err();
        assert!(lacks_descriptors(&refused), "{refused}");
        assert!(Manifest::is_refusal(&refused));
    }
    let count = |fs: &MemFs| {
        let (_, state) = Manifest::open(Arc::new(fs.clone()), db()).unwrap();
        state.keyspaces.len()
    };
    let found = |committed: u32| {
        for mode in CrashMode::POWER_LOSSES {
            for seed in 0..40 {
                let image = fs.image(seed, mode);
                assert_eq!(count(&image), committed as usize, "{mode:?} {seed}");
            }
        }
    };
    found(committed);
    faulty.reset();
    committed += 1;
    manifest.commit(&[keyspace(committed)]).unwrap();
    assert_eq!(manifests(&fs), 1);
    assert!(manifest.position().0 > told.0);
    found(committed);
}

#[test]
fn a_rewriting_poisons_that_is_in_force_or_not() {
    let fs = MemFs::new();
    let faulty = FaultFs::over_mem(&fs);
    let (manifest, _) = Manifest::create(Arc::new(faulty.clone()), db()).unwrap();
    manifest.roll_early(1);
    // There was no room, and nobody can say which file has the name.
    faulty.inject(Rule::every(Fault::NoSpace).of(Operation::Rename));
    faulty.inject(Rule::every(Fault::Io).of(Operation::OpenRead).on("CURRENT"));
    let mut committed = 0;
    while faulty.fired() < 2 {
        committed += 1;
        manifest.commit(&[keyspace(committed)]).unwrap();
    }
    let error = manifest.commit(&[keyspace(committed + 1)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    drop(manifest);
    let (_, state) = Manifest::open(Arc::new(fs), db()).unwrap();
    assert_eq!(state.keyspaces.len(), committed as usize);
}

#[test]
fn a_record_in_doubt_is_no_refusal_whatever_the_system_calls_it() {
    for operation in [Operation::Write, Operation::SyncData] {
        let fs = MemFs::new();
        let faulty = FaultFs::over_mem(&fs);
        let (manifest, _) = Manifest::create(Arc::new(faulty.clone()), db()).unwrap();
        faulty.inject(Rule::every(Fault::TooManyFiles).of(operation).times(1));
        let error = manifest.commit(&[keyspace(1)]).unwrap_err();
        assert!(!Manifest::is_refusal(&error), "{error}");
        let error = manifest.commit(&[keyspace(2)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    }
}

#[test]
fn a_full_disk_met_by_a_sync_poisons() {
    let fs = MemFs::new();
    let faulty = FaultFs::over_mem(&fs);
    let (manifest, _) = Manifest::create(Arc::new(faulty.clone()), db()).unwrap();
    faulty.inject(Rule::every(Fault::NoSpace).of(Operation::SyncData).nth(1));
    let error = manifest.commit(&[keyspace(1)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    faulty.reset();
    let error = manifest.commit(&[keyspace(2)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
}

/// A database whose `CURRENT` is what it was some time before.
struct PutBack {
    fs: MemFs,
    /// What it was last.
    line: String,
    /// The manifest that this names.
    later: PathBuf,
}

impl PutBack {
    /// A keyspace is created, then the database opened again and `more` committed; and then
    /// `CURRENT` and the manifest that it named are as before the opening.
    fn new(more: Option<Edit>) -> PutBack {
        let fs = MemFs::new();
        let (manifest, _) = Manifest::create(Arc::new(fs.clone()), db()).unwrap();
        manifest.commit(&[keyspace(1)]).unwrap();
        drop(manifest);
        let (line, path) = in_force(&fs);
        let content = fs.read_file(&path).unwrap();
        let (manifest, _) = Manifest::open(Arc::new(fs.clone()), db()).unwrap();
        if let Some(edit) = more {
            manifest.commit(&[edit]).unwrap();
        }
        drop(manifest);
        let (last, later) = in_force(&fs);
        fs.write_file(&path, &content).unwrap();
        fs.write_file(&db().join("CURRENT"), line.as_bytes())
            .unwrap();
        PutBack {
            fs,
            line: last,
            later,
        }
    }
}

/// The line of `CURRENT`, and the manifest that it names.
fn in_force(fs: &MemFs) -> (String, PathBuf) {
    let line = String::from_utf8(fs.read_file(&db().join("CURRENT")).unwrap()).unwrap();
    let path = db().join(line.split(' ').next().unwrap());
    (line, path)
}

#[test]
fn a_current_that_was_put_back_is_damage_and_the_error_says_what_it_was() {
    let PutBack { fs, line, .. } = PutBack::new(Some(keyspace(2)));
    let refused = Manifest::open(Arc::new(fs.clone()), db()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
    assert_eq!(refused.offset(), Some(0));
    for said in ["/db/CURRENT", line.trim_end()] {
        assert!(refused.to_string().contains(said), "{refused}");
    }
    let read = Manifest::read(&fs, db()).unwrap_err();
    assert_eq!(read.to_string(), refused.to_string());
    // What the error says to do is all that there is to do.
    fs.write_file(&db().join("CURRENT"), line.as_bytes())
        .unwrap();
    let (_, state) = Manifest::open(Arc::new(fs), db()).unwrap();
    assert_eq!(state.keyspaces.len(), 2);
}

#[test]
fn a_later_manifest_that_is_damaged_or_cannot_be_read_may_have_been_in_force() {
    let PutBack { fs, line, later } = PutBack::new(Some(keyspace(2)));
    let faulty = FaultFs::over_mem(&fs);
    let name = line.split(' ').next().unwrap();
    faulty.inject(Rule::every(Fault::Io).of(Operation::Read).on(name));
    let refused = Manifest::read(&faulty, db()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");
    assert!(refused.to_string().contains("was in force"), "{refused}");

    let last = fs.read_file(&later).unwrap().len() - 1;
    fs.flip_byte(&later, last as u64, 1).unwrap();
    let refused = Manifest::read(&fs, db()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
    assert!(refused.to_string().contains("is damaged"), "{refused}");
}

#[test]
fn a_later_manifest_of_another_database_is_no_damage() {
    let PutBack { fs, later, .. } = PutBack::new(Some(keyspace(2)));
    let foreign = PutBack::new(Some(keyspace(3)));
    let content = foreign.fs.read_file(&later).unwrap();
    fs.write_file(&later, &content).unwrap();
    let (_, state) = Manifest::open(Arc::new(fs), db()).unwrap();
    assert_eq!(state.keyspaces.len(), 1);
}

#[test]
fn a_later_manifest_that_was_never_committed_to_is_no_damage() {
    let PutBack { fs, later, .. } = PutBack::new(None);
    // Whole; torn in its first record; with the beginning of a record that was never acknowledged.
    let whole = fs.read_file(&later).unwrap();
    let longer = [&whole[..], &[0; 24]].concat();
    for content in [&whole[..], &whole[..whole.len() - 8], &whole[..20], &longer] {
        fs.write_file(&later, content).unwrap();
        let (_, state) = Manifest::read(&fs, db()).unwrap();
        assert_eq!(state.keyspaces.len(), 1);
    }
    drop(Manifest::open(Arc::new(fs.clone()), db()).unwrap());
    assert_eq!(manifests(&fs), 1);
}
