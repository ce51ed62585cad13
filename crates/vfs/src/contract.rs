//! What every file system must do, whoever implements it.
//!
//! Everything here holds while the machine runs; what survives a power loss (V1 to V4) only a
//! file system that can lose power can show, and `mem/tests.rs` does.
//!
//! Threads: as the claims need.

#![allow(clippy::unwrap_used, reason = "a claim that fails must panic")]

use crate::file::{MapFile, ReadFile};
use crate::vfs::Vfs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::{ErrorKind, Result};

type Claim = fn(&dyn Vfs, &Path);

const CLAIMS: &[(&str, Claim)] = &[
    ("create", a_file_is_created_once),
    ("append", appending_continues_at_the_end_of_what_was_there),
    ("write_at", writing_anywhere_changes_only_what_is_written),
    ("read", reading_past_the_end_is_corruption),
    ("open", open_files_outlive_their_names),
    ("length", cutting_and_extending_leaves_zeros),
    ("allocate", allocated_space_reads_as_zeros),
    ("names", names_are_listed_sorted_and_alone),
    ("dirs", directories_come_with_their_parents),
    ("rename", a_rename_replaces_what_stands_there),
    ("link", a_second_name_keeps_the_content),
    ("missing", what_is_missing_is_not_found_by_name),
    ("lock", a_lock_is_held_by_one_until_dropped),
    ("identity", a_file_is_told_from_every_other),
    ("map", windows_write_into_the_file),
    (
        "map_limits",
        only_allocated_bytes_are_mapped_and_given_out_once,
    ),
    ("unfit", an_unfit_file_system_refuses_to_map),
    ("threads", threads_share_open_files),
];

/// Checks every claim in `dir`, an existing empty directory.
///
/// # Panics
/// If a claim does not hold.
pub fn run(vfs: &dyn Vfs, dir: &Path) {
    for (name, claim) in CLAIMS {
        let dir = dir.join(name);
        vfs.create_dir_all(&dir).unwrap();
        claim(vfs, &dir);
        vfs.sync_dir(&dir).unwrap();
    }
}

fn put(vfs: &dyn Vfs, path: &Path, bytes: &[u8]) {
    let mut file = vfs.create(path).unwrap();
    file.append(bytes).unwrap();
    file.sync_all().unwrap();
}

fn get(vfs: &dyn Vfs, path: &Path) -> Vec<u8> {
    let file = vfs.open_read(path).unwrap();
    read(&*file, 0, usize::try_from(file.len()).unwrap())
}

fn read(file: &dyn ReadFile, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xaa; len];
    file.read_exact_at(&mut bytes, offset).unwrap();
    bytes
}

/// The call failed for this reason, and says on which file.
fn refused<T>(result: Result<T>, kind: ErrorKind, path: &Path) {
    let error = result.err().expect("the call should have failed");
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(error.file(), Some(path), "{error}");
}

fn a_file_is_created_once(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("new");
    assert!(!vfs.exists(&path).unwrap());
    let file = vfs.create(&path).unwrap();
    assert_eq!(file.path(), path);
    assert!(vfs.exists(&path).unwrap());
    assert_eq!(vfs.len(&path).unwrap(), 0);
    assert!(vfs.open_read(&path).unwrap().is_empty());
    refused(vfs.create(&path), ErrorKind::AlreadyExists, &path);
    refused(vfs.create(dir), ErrorKind::AlreadyExists, dir);
}

fn appending_continues_at_the_end_of_what_was_there(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("log");
    let mut file = vfs.create(&path).unwrap();
    file.append(b"one ").unwrap();
    file.append(b"").unwrap();
    file.append(b"two ").unwrap();
    // Bytes are there for every reader before any sync (V1).
    assert_eq!(get(vfs, &path), b"one two ");
    file.sync_data().unwrap();
    drop(file);
    let mut file = vfs.open_write(&path).unwrap();
    file.append(b"three ").unwrap();
    // What `write_at` adds does not move the end of what was appended.
    file.write_at(20, b"far").unwrap();
    file.append(b"four").unwrap();
    assert_eq!(get(vfs, &path), b"one two three four\0\0far");
}

fn writing_anywhere_changes_only_what_is_written(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("pages");
    let file = vfs.create(&path).unwrap();
    file.write_at(5000, &[7; 3000]).unwrap();
    file.write_at(4998, &[8; 4]).unwrap();
    file.write_at(9000, &[]).unwrap();
    let mut expected = vec![0; 8000];
    expected[5000..].fill(7);
    expected[4998..5002].fill(8);
    // Where there is nothing to be written back, too.
    for (offset, len) in [(0, 8000), (5000, 0), (4096, u64::MAX), (u64::MAX, 1)] {
        file.write_back(offset, len);
    }
    assert_eq!(get(vfs, &path), expected);
    assert!(file.write_at(u64::MAX - 1, &[1; 4]).is_err());
}

fn reading_past_the_end_is_corruption(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("short");
    put(vfs, &path, b"0123456789");
    let file = vfs.open_read(&path).unwrap();
    assert_eq!((file.len(), file.path()), (10, path.as_path()));
    assert_eq!(read(&*file, 0, 10), b"0123456789");
    assert_eq!(read(&*file, 9, 1), b"9");
    assert_eq!(read(&*file, 10, 0), b"");
    for (offset, len) in [(9, 2), (10, 1), (1 << 40, 1)] {
        let result = file.read_exact_at(&mut vec![0; len], offset);
        let error = result.expect_err("there is nothing to read");
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert_eq!(error.offset(), Some(offset));
        assert_eq!(error.file(), Some(path.as_path()));
    }
}

fn open_files_outlive_their_names(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("gone");
    put(vfs, &path, b"still here");
    let reader = vfs.open_read(&path).unwrap();
    let writer = vfs.open_write(&path).unwrap();
    vfs.remove(&path).unwrap();
    assert!(!vfs.exists(&path).unwrap());
    writer.write_at(0, b"STILL").unwrap();
    assert_eq!(read(&*reader, 0, 10), b"STILL here");
    put(vfs, &path, b"another");
    assert_eq!(read(&*reader, 0, 10), b"STILL here");
    assert_eq!(get(vfs, &path), b"another");
}

fn cutting_and_extending_leaves_zeros(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("cut");
    put(vfs, &path, &[9; 1000]);
    let file = vfs.open_write(&path).unwrap();
    file.set_len(100).unwrap();
    assert_eq!(vfs.len(&path).unwrap(), 100);
    file.set_len(2000).unwrap();
    let mut expected = vec![0; 2000];
    expected[..100].fill(9);
    assert_eq!(get(vfs, &path), expected);
    file.set_len(0).unwrap();
    assert_eq!(get(vfs, &path), b"");
}

fn allocated_space_reads_as_zeros(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("segment");
    let mut file = vfs.create(&path).unwrap();
    file.append(b"head").unwrap();
    file.allocate(10_000).unwrap();
    assert_eq!(vfs.len(&path).unwrap(), 10_000);
    file.append(b"er").unwrap();
    let bytes = get(vfs, &path);
    assert_eq!(&bytes[..6], b"header");
    assert!(bytes[6..].iter().all(|&byte| byte == 0));
    file.allocate(3).unwrap();
    assert_eq!(get(vfs, &path), b"hea");
    file.allocate(0).unwrap();
    assert_eq!(get(vfs, &path), b"");
}

fn names_are_listed_sorted_and_alone(vfs: &dyn Vfs, dir: &Path) {
    for name in ["b", "a", "c.tmp", "B"] {
        put(vfs, &dir.join(name), b"");
    }
    vfs.create_dir_all(&dir.join("d")).unwrap();
    put(vfs, &dir.join("d").join("below"), b"");
    vfs.remove(&dir.join("c.tmp")).unwrap();
    let expected = ["B", "a", "b", "d"].map(PathBuf::from);
    assert_eq!(vfs.read_dir(dir).unwrap(), expected);
    assert_eq!(
        vfs.read_dir(&dir.join("d")).unwrap(),
        [PathBuf::from("below")]
    );
}

fn directories_come_with_their_parents(vfs: &dyn Vfs, dir: &Path) {
    let deep = dir.join("x").join("y").join("z");
    vfs.create_dir_all(&deep).unwrap();
    vfs.create_dir_all(&deep).unwrap();
    assert!(vfs.exists(&deep).unwrap());
    assert!(vfs.read_dir(&deep).unwrap().is_empty());
    vfs.sync_dir(&deep).unwrap();
    let file = dir.join("file");
    put(vfs, &file, b"");
    assert!(vfs.create_dir_all(&file.join("below")).is_err());
    assert!(!vfs.exists(&file.join("below")).unwrap());
    assert!(vfs.open_read(&deep).is_err());
    assert!(vfs.remove(&deep).is_err());
}

fn a_rename_replaces_what_stands_there(vfs: &dyn Vfs, dir: &Path) {
    let (from, to) = (dir.join("CURRENT.tmp"), dir.join("CURRENT"));
    put(vfs, &from, b"new");
    vfs.rename(&from, &to).unwrap();
    assert!(!vfs.exists(&from).unwrap());
    put(vfs, &from, b"newer");
    let before = vfs.open_read(&to).unwrap();
    vfs.rename(&from, &to).unwrap();
    assert_eq!(get(vfs, &to), b"newer");
    assert_eq!(read(&*before, 0, 3), b"new");
    assert_eq!(vfs.read_dir(dir).unwrap(), [PathBuf::from("CURRENT")]);
    vfs.rename(&to, &to).unwrap();
    assert_eq!(get(vfs, &to), b"newer");
    refused(vfs.rename(&from, &to), ErrorKind::NotFound, &from);
    let below = dir.join("below");
    vfs.create_dir_all(&below).unwrap();
    vfs.rename(&to, &below.join("CURRENT")).unwrap();
    assert_eq!(get(vfs, &below.join("CURRENT")), b"newer");
    vfs.sync_dir(&below).unwrap();
}

fn a_second_name_keeps_the_content(vfs: &dyn Vfs, dir: &Path) {
    let (first, second) = (dir.join("first"), dir.join("second"));
    put(vfs, &first, b"shared");
    vfs.hard_link(&first, &second).unwrap();
    refused(
        vfs.hard_link(&first, &second),
        ErrorKind::AlreadyExists,
        &first,
    );
    assert_eq!(get(vfs, &second), b"shared");
    vfs.remove(&first).unwrap();
    assert_eq!(get(vfs, &second), b"shared");
}

fn what_is_missing_is_not_found_by_name(vfs: &dyn Vfs, dir: &Path) {
    let no = dir.join("no");
    refused(vfs.open_read(&no), ErrorKind::NotFound, &no);
    refused(vfs.open_write(&no), ErrorKind::NotFound, &no);
    refused(vfs.remove(&no), ErrorKind::NotFound, &no);
    refused(vfs.len(&no), ErrorKind::NotFound, &no);
    refused(vfs.read_dir(&no), ErrorKind::NotFound, &no);
    refused(vfs.sync_dir(&no), ErrorKind::NotFound, &no);
    refused(
        vfs.hard_link(&no, &dir.join("to")),
        ErrorKind::NotFound,
        &no,
    );
    let below = no.join("below");
    refused(vfs.create(&below), ErrorKind::NotFound, &below);
    refused(vfs.lock(&below), ErrorKind::NotFound, &below);
    assert!(!vfs.exists(&below).unwrap());
    if vfs.maps_well(dir) {
        refused(vfs.identity(&no), ErrorKind::NotFound, &no);
        refused(vfs.map_append(&no, 1), ErrorKind::NotFound, &no);
    }
}

fn a_lock_is_held_by_one_until_dropped(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("LOCK");
    let lock = vfs.lock(&path).unwrap();
    refused(vfs.lock(&path), ErrorKind::Locked, &path);
    let other = vfs.lock(&dir.join("OTHER")).unwrap();
    drop(lock);
    let lock = vfs.lock(&path).unwrap();
    assert!(vfs.exists(&path).unwrap());
    drop((lock, other));
    put(vfs, &dir.join("DATA"), b"kept");
    drop(vfs.lock(&dir.join("DATA")).unwrap());
    assert_eq!(get(vfs, &dir.join("DATA")), b"kept");
}

fn a_file_is_told_from_every_other(vfs: &dyn Vfs, dir: &Path) {
    let (one, two) = (dir.join("one"), dir.join("two"));
    put(vfs, &one, b"1");
    put(vfs, &two, b"2");
    let identity = match vfs.identity(&one) {
        Err(error) if error.kind() == ErrorKind::Unsupported => return,
        identity => identity.unwrap(),
    };
    assert_ne!(identity.boot, [0; 16]);
    assert_ne!(identity, vfs.identity(&two).unwrap());
    vfs.open_write(&one)
        .unwrap()
        .write_at(0, b"changed")
        .unwrap();
    assert_eq!(identity, vfs.identity(&one).unwrap());
    vfs.rename(&one, &two).unwrap();
    assert_eq!(identity, vfs.identity(&two).unwrap());
}

/// A mapping of `len` allocated bytes; `None` where files are not mapped.
fn map(vfs: &dyn Vfs, path: &Path, len: u64) -> Option<Arc<dyn MapFile>> {
    if !vfs.maps_well(path.parent().unwrap()) {
        return None;
    }
    let file = vfs.create(path).unwrap();
    file.allocate(len).unwrap();
    file.sync_all().unwrap();
    Some(vfs.map_append(path, len).unwrap())
}

fn windows_write_into_the_file(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("000001.seg");
    let Some(mapped) = map(vfs, &path, 20_000) else {
        return;
    };
    assert_eq!((mapped.len(), mapped.path()), (20_000, path.as_path()));
    // What is not mapped is no part of the ranges.
    for (offset, len) in [
        (0, 20_000),
        (4096, 1 << 20),
        (1 << 20, 4096),
        (4096, u64::MAX),
    ] {
        mapped.populate(offset, len);
        mapped.fetch(offset, len);
    }
    let reader = vfs.open_read(&path).unwrap();
    let mut first = Arc::clone(&mapped).window(0, 4096).unwrap();
    let mut second = Arc::clone(&mapped).window(4100, 8000).unwrap();
    assert_eq!((second.offset(), second.len()), (4100, 8000));
    first.write(4090, b"tail");
    second.write(1, b"xbody");
    second.fill_zero(1, 1);
    second.publish_u32(7996, 0x0102_0304);
    mapped.sync_data().unwrap();
    assert_eq!(second.read(0, 6), b"\0\0body");
    drop((first, mapped));
    // A window keeps the mapping.
    second.write(8, b"late");
    assert_eq!(read(&*reader, 4090, 6), b"tail\0\0");
    assert_eq!(read(&*reader, 4100, 12), b"\0\0body\0\0late");
    assert_eq!(read(&*reader, 12_096, 4), [4, 3, 2, 1]);
}

fn only_allocated_bytes_are_mapped_and_given_out_once(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("000002.seg");
    let Some(mapped) = map(vfs, &path, 8192) else {
        return;
    };
    let window = |offset, len| Arc::clone(&mapped).window(offset, len);
    drop(window(100, 100).unwrap());
    for (offset, len) in [
        (100, 100),
        (150, 1),
        (0, 101),
        (8192, 1),
        (8000, 193),
        (u64::MAX, 1),
    ] {
        refused(window(offset, len), ErrorKind::InvalidInput, &path);
    }
    refused(window(50, 0), ErrorKind::InvalidInput, &path);
    drop((window(0, 100).unwrap(), window(200, 7992).unwrap()));
    refused(vfs.map_append(&path, 8193), ErrorKind::InvalidInput, &path);
    refused(vfs.map_append(&path, 0), ErrorKind::InvalidInput, &path);
    let sparse = dir.join("sparse");
    vfs.create(&sparse).unwrap().set_len(1 << 20).unwrap();
    refused(
        vfs.map_append(&sparse, 1 << 20),
        ErrorKind::InvalidInput,
        &sparse,
    );
}

fn an_unfit_file_system_refuses_to_map(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("000003.seg");
    if !vfs.maps_well(dir) {
        put(vfs, &path, &[0; 4096]);
        refused(vfs.map_append(&path, 4096), ErrorKind::Unsupported, &path);
    }
}

fn threads_share_open_files(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("shared");
    put(vfs, &path, &[0; 4000]);
    let writer = vfs.open_write(&path).unwrap();
    let reader = vfs.open_read(&path).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let (writer, reader) = (&writer, &reader);
            scope.spawn(move || {
                let begin = u64::from(thread) * 1000;
                for round in 0..20u8 {
                    let bytes = [thread * 20 + round; 1000];
                    writer.write_at(begin, &bytes).unwrap();
                    assert_eq!(read(&**reader, begin, 1000), bytes);
                }
                writer.sync_data().unwrap();
            });
        }
    });
    let bytes = get(vfs, &path);
    for (thread, part) in bytes.chunks(1000).enumerate() {
        assert!(
            part.iter()
                .all(|&byte| usize::from(byte) == thread * 20 + 19)
        );
    }
}
