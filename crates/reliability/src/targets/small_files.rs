//! What stands in files of a few bytes, and in names.
//!
//! ```text
//! input := 0 current                       the content of CURRENT
//!        | 1 name                          the name of a file
//!        | 2 reference[28] file            a reference to an external value, and the file it names
//! ```
//! N1. Any CURRENT but the one that was written is damage, with the file's name and an offset; but
//!     the bare name of a manifest that is not there is what LevelDB and RocksDB write.
//! N2. A name that is understood is the one that its meaning is written as.
//! N3. An external value is the bytes that its reference promises, or an error that names its file.
//!
//! Source: docs/data_files.md, docs/format/external.md. Threads: any. Tests: `tests/corpus.rs`.

use std::path::Path;
use std::sync::Arc;
use velella_base::ErrorKind;
use velella_base::checksum::crc32c;
use velella_base::external::{EXTERNAL_REF_BYTES, ExternalRef};
use velella_base::file_name::FileName;
use velella_tree::manifest::State;
use velella_tree::{ExternalStore, Manifest, OpenFiles};
use velella_vfs::{MemFs, Vfs};

/// The id of the database whose files these are.
pub const DATABASE: u128 = 0x7e11_e11a;
const DIR: &str = "/db";
/// The number of the external value's file, whatever its reference says.
pub const FILE: u64 = 7;

/// Files of a few bytes, and names.
pub fn small_files(input: &[u8]) {
    match input.split_first() {
        Some((0, content)) => current(content),
        Some((1, name)) => named(&String::from_utf8_lossy(name)),
        Some((2, rest)) => external(rest),
        _ => {}
    }
}

/// An empty database.
fn database() -> (MemFs, Arc<Manifest>) {
    let fs = MemFs::new();
    let state = State {
        next_keyspace: 1,
        ..State::default()
    };
    let vfs: Arc<dyn Vfs> = Arc::new(fs.clone());
    match Manifest::create_with(vfs, Path::new(DIR), DATABASE, state) {
        Ok((manifest, _)) => (fs, Arc::new(manifest)),
        Err(error) => panic!("memory refuses a database: {error}"),
    }
}

fn write(fs: &MemFs, path: &Path, bytes: &[u8]) {
    if let Err(error) = fs.write_file(path, bytes) {
        panic!("memory refuses a file: {error}");
    }
}

/// N1.
fn current(content: &[u8]) {
    let (fs, _) = database();
    let path = FileName::Current.path(Path::new(DIR));
    let right = fs.read_file(&path).unwrap_or_default();
    write(&fs, &path, content);
    match Manifest::read(&fs, Path::new(DIR)) {
        Ok(_) => assert_eq!(content, right, "N1: taken"),
        Err(error) => {
            assert_ne!(content, right, "N1: {error:?}");
            if is_of_another(content, &right) {
                assert_eq!(error.kind(), ErrorKind::AlreadyExists, "N1: {error:?}");
                return;
            }
            assert_eq!(error.kind(), ErrorKind::Corruption, "N1: {error:?}");
            assert!(
                error.file().is_some() && error.offset().is_some(),
                "N1: {error:?}"
            );
        }
    }
}

/// Whether `content` is the bare name of a manifest, and not of the one that `right` names.
fn is_of_another(content: &[u8], right: &[u8]) -> bool {
    let text = std::str::from_utf8(content).unwrap_or_default();
    let Some(name) = text.strip_suffix('\n') else {
        return false;
    };
    let is_manifest = matches!(FileName::parse(name), Some(FileName::Manifest(_)));
    is_manifest && !right.starts_with(name.as_bytes())
}

/// N2.
fn named(name: &str) {
    if let Some(meaning) = FileName::parse(name) {
        let path = meaning.path(Path::new(DIR));
        let written = path.file_name().map(|name| name.to_string_lossy());
        assert_eq!(written.as_deref(), Some(name), "N2: {meaning:?}");
    }
}

/// N3.
fn external(input: &[u8]) {
    let Some((reference, content)) = input.split_at_checked(EXTERNAL_REF_BYTES) else {
        return;
    };
    let Some(reference) = ExternalRef::decode(reference) else {
        panic!("N3: a reference of the right length is none");
    };
    assert_eq!(
        ExternalRef::decode(&reference.encode()),
        Some(reference),
        "N3"
    );
    let reference = ExternalRef {
        file: FILE,
        ..reference
    };
    let (fs, manifest) = database();
    let path = FileName::External(FILE).path(Path::new(DIR));
    write(&fs, &path, content);
    let vfs: Arc<dyn Vfs> = Arc::new(fs);
    let store = ExternalStore::new(OpenFiles::new(vfs, 1), DIR.into(), DATABASE, manifest);
    let (read, verified) = (store.read(&reference), store.verify(&reference));
    assert_eq!(read.is_ok(), verified.is_ok(), "N3: {read:?} {verified:?}");
    match read {
        Ok(value) => {
            let is_promised =
                value.len() as u64 == reference.length && crc32c(&value) == reference.crc;
            assert!(is_promised && content.ends_with(&value), "N3");
        }
        Err(error) => assert_eq!(error.file(), Some(&*path), "N3: {error:?}"),
    }
}
