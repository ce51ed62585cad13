//! Values in files of their own: written, read, damaged, discarded.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test")]

use super::*;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use velella_vfs::intercept::{Call, Intercepted, Interceptor, Verdict};
use velella_vfs::{MemFs, Operation};

fn db() -> &'static Path {
    Path::new("/db")
}

fn store(fs: &MemFs) -> ExternalStore {
    store_on(Arc::new(fs.clone()))
}

fn store_on(vfs: Arc<dyn Vfs>) -> ExternalStore {
    let (manifest, _) = Manifest::create(Arc::clone(&vfs), db()).unwrap();
    let database = manifest.database();
    let tables = OpenFiles::new(vfs, 1);
    ExternalStore::new(tables, db().to_path_buf(), database, Arc::new(manifest))
}

#[test]
fn a_value_is_read_back_and_any_flipped_bit_is_found() {
    let fs = MemFs::new();
    let store = store(&fs);
    let value: Vec<u8> = (0..300u32).map(|n| n as u8).collect();
    let (reference, file) = store.write(&value, 7).unwrap();
    assert_eq!(reference.expires_at_ms, 7);
    assert_eq!(store.read(&reference).unwrap(), value);
    let path = file.path().to_path_buf();
    for offset in 0..364 {
        fs.flip_byte(&path, offset, 4).unwrap();
        let error = store.read(&reference).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{offset}: {error}");
        assert_eq!(error.file(), Some(&*path));
        fs.flip_byte(&path, offset, 4).unwrap();
    }
    file.set_len(363).unwrap();
    assert_eq!(
        store.read(&reference).unwrap_err().kind(),
        ErrorKind::Corruption
    );
    let huge = ExternalRef {
        length: u64::MAX,
        ..reference
    };
    assert_eq!(store.read(&huge).unwrap_err().kind(), ErrorKind::Corruption);
}

/// Has the manifest shut while a value's file is being made.
#[derive(Debug, Default)]
struct Shutter {
    manifest: Mutex<Option<Arc<Manifest>>>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
    is_shut: Arc<AtomicBool>,
}

impl Interceptor for Shutter {
    fn before(&self, call: &Call<'_>) -> Verdict {
        if call.operation != Operation::Create {
            return Verdict::Pass;
        }
        if let Some(manifest) = self.manifest.lock().take() {
            let is_shut = Arc::clone(&self.is_shut);
            let (begins, begun) = std::sync::mpsc::channel();
            *self.thread.lock() = Some(std::thread::spawn(move || {
                begins.send(()).unwrap();
                manifest.shut();
                // Release, partner: the Acquire in `after`.
                is_shut.store(true, Ordering::Release);
            }));
            begun.recv().unwrap();
            // Long enough, as a rule, to be shut where nothing keeps it from that.
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Verdict::Pass
    }

    fn after(&self, call: &Call<'_>, _: bool) {
        let is_value = call.path.extension().is_some_and(|end| end == "ext");
        if is_value && call.operation == Operation::Write {
            // Acquire, partner: the thread that shuts.
            assert!(!self.is_shut.load(Ordering::Acquire), "X3");
        }
    }
}

#[test]
fn no_file_is_made_once_the_database_was_closed_and_closing_waits_for_one() {
    let (fs, shutter) = (MemFs::new(), Arc::new(Shutter::default()));
    let intercepted = Intercepted::standing(Arc::clone(&shutter), Arc::new(fs.clone()));
    let store = store_on(Arc::new(intercepted));
    *shutter.manifest.lock() = Some(Arc::clone(&store.manifest));
    let (first, _) = store.write(b"before", 0).unwrap();
    let closing = shutter.thread.lock().take().unwrap();
    closing.join().unwrap();
    assert_eq!(
        store.write(b"after", 0).unwrap_err().kind(),
        ErrorKind::Closed
    );
    let files = fs.files().into_iter();
    let values = files.filter(|path| path.extension().is_some_and(|end| end == "ext"));
    let expected = FileName::External(first.file).path(db());
    assert!(values.eq([expected]));
}

#[test]
fn files_exchanged_with_each_other_or_another_database_are_found() {
    let (fs, other_fs) = (MemFs::new(), MemFs::new());
    let (ours, theirs) = (store(&fs), store(&other_fs));
    let (one, first) = ours.write(b"same", 0).unwrap();
    let (two, second) = ours.write(b"same", 0).unwrap();
    let (_, foreign) = theirs.write(b"same", 0).unwrap();
    let foreign = other_fs.read_file(foreign.path()).unwrap();
    fs.write_file(first.path(), &foreign).unwrap();
    assert_eq!(ours.read(&one).unwrap_err().kind(), ErrorKind::Corruption);
    let bytes = fs.read_file(second.path()).unwrap();
    fs.write_file(first.path(), &bytes).unwrap();
    assert_eq!(ours.read(&one).unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(ours.read(&two).unwrap(), b"same");
}

#[test]
fn a_missing_file_is_damage_unless_the_database_was_closed() {
    let fs = MemFs::new();
    let store = store(&fs);
    let (reference, file) = store.write(b"value", 0).unwrap();
    fs.remove(file.path()).unwrap();
    let error = store.read(&reference).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(error.file(), Some(file.path()));
    store.verify(&reference).unwrap_err();
    // Then its next owner may have removed it.
    store.tables.shut();
    let error = store.read(&reference).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}

#[test]
fn a_discarded_file_goes_when_its_last_hold_has_dropped() {
    let fs = MemFs::new();
    let store = store(&fs);
    let (reference, file) = store.write(&[1; 100], 0).unwrap();
    let path = file.path().to_path_buf();
    let holds = [store.hold(reference.file), store.hold(reference.file)];
    store.discard(&[reference.file]);
    let [first, second] = holds;
    drop(first);
    store.reap();
    assert!(fs.exists(&path).unwrap());
    drop(second);
    assert!(
        fs.exists(&path).unwrap(),
        "dropping a hold does no input or output"
    );
    assert_eq!(store.bytes(), 100);
    store.reap();
    assert!(!fs.exists(&path).unwrap());
    assert_eq!(store.bytes(), 0);
}

/// By then the directory may be its next owner's (N5 of the manifest).
#[test]
fn what_is_let_go_once_the_manifest_is_shut_is_not_removed() {
    let fs = MemFs::new();
    let store = store(&fs);
    let [(held, first), (free, second)] = [(); 2].map(|()| store.write(&[1; 100], 0).unwrap());
    let hold = store.hold(held.file);
    store.discard(&[held.file]);
    store.manifest.shut();
    drop(hold);
    store.reap();
    store.discard(&[free.file]);
    assert!(fs.exists(first.path()).unwrap() && fs.exists(second.path()).unwrap());
}

#[test]
fn a_held_file_that_is_not_discarded_stays_and_its_size_is_known_after_a_restart() {
    let fs = MemFs::new();
    let first = store(&fs);
    let (reference, _file) = first.write(&[1; 100], 0).unwrap();
    drop(first.hold(reference.file));
    first.reap();
    assert_eq!(first.read(&reference).unwrap(), [1; 100]);
    let again = ExternalStore::new(
        Arc::clone(&first.tables),
        db().to_path_buf(),
        first.database,
        Arc::clone(&first.manifest),
    );
    let _hold = again.hold(reference.file);
    assert_eq!(again.bytes(), 100);
}

#[test]
fn a_value_that_cannot_be_written_leaves_no_file() {
    let fs = MemFs::new();
    let store = store(&fs);
    fs.set_space_max(Some(fs.space_used() + 8192));
    let error = store.write(&[1; 100_000], 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(
        fs.files().iter().all(|path| path.extension().is_none()),
        "{:?}",
        fs.files()
    );
}
