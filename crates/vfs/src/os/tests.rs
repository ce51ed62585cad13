//! The real file system: the contract on disk and on tmpfs, modes, locks, links, pages.

use super::*;
use crate::contract;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_real_file_system_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    contract::run(&OsFs::new(), dir.path());
}

#[test]
fn so_does_tmpfs() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    contract::run(&OsFs::new(), dir.path());
}

#[test]
fn so_does_a_directory_that_is_held_wherever_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (here, there) = (dir.path().join("here"), dir.path().join("there"));
    fs::create_dir(&here).unwrap();
    let held = OsFs::new().hold(&here).unwrap().unwrap();
    contract::run(&*held, &here);
    fs::remove_dir_all(&here).unwrap();
    fs::create_dir(&here).unwrap();
    let held = OsFs::new().hold(&here).unwrap().unwrap();
    fs::rename(&here, &there).unwrap();
    fs::create_dir(&here).unwrap();
    contract::run(&*held, &here);
    assert!(fs::read_dir(&there).unwrap().count() > 0);
    assert_eq!(fs::read_dir(&here).unwrap().count(), 0);
}

#[test]
fn what_is_not_below_the_directory_that_is_held_is_where_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let (here, beside) = (dir.path().join("db"), dir.path().join("db2"));
    fs::create_dir(&here).unwrap();
    fs::create_dir(&beside).unwrap();
    let held = OsFs::new().hold(&here).unwrap().unwrap();
    drop(held.create(&here.join("file")).unwrap());
    held.hard_link(&here.join("file"), &beside.join("link"))
        .unwrap();
    fs::rename(&here, dir.path().join("moved")).unwrap();
    assert!(held.exists(&here).unwrap());
    assert_eq!(held.read_dir(&here).unwrap(), [Path::new("file")]);
    assert_eq!(held.read_dir(&beside).unwrap(), [Path::new("link")]);
    held.rename(&beside.join("link"), &here.join("back"))
        .unwrap();
    assert!(dir.path().join("moved/back").exists());
    assert_eq!(fs::read_dir(&beside).unwrap().count(), 0);
    let missing = OsFs::new().hold(&here).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
}

#[test]
fn files_and_directories_are_their_owners_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (file, lock) = (dir.path().join("file"), dir.path().join("LOCK"));
    let deep = dir.path().join("a").join("b");
    drop(OsFs::new().create(&file).unwrap());
    drop(OsFs::new().lock(&lock).unwrap());
    OsFs::new().create_dir_all(&deep).unwrap();
    assert_eq!([mode(&file), mode(&lock)], [0o600; 2]);
    assert_eq!([mode(&deep), mode(deep.parent().unwrap())], [0o700; 2]);
}

#[test]
fn a_symbolic_link_is_not_followed_for_writing() {
    let dir = tempfile::tempdir().unwrap();
    let (target, link) = (dir.path().join("target"), dir.path().join("link"));
    fs::write(&target, [0; 4096]).unwrap();
    symlink(&target, &link).unwrap();
    assert!(OsFs::new().create(&link).is_err());
    assert!(OsFs::new().open_write(&link).is_err());
    assert!(OsFs::new().lock(&link).is_err());
    assert!(OsFs::new().map_append(&link, 4096).is_err());
    assert!(OsFs::new().exists(&link).unwrap());
}

#[test]
fn a_lock_on_a_file_that_was_replaced_is_not_taken_for_ours() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    fs::write(&path, b"").unwrap();
    let file = File::open(&path).unwrap();
    assert!(is_still(&Place::of(None, &path), &file).unwrap());
    fs::remove_file(&path).unwrap();
    assert!(!is_still(&Place::of(None, &path), &file).unwrap());
    fs::write(&path, b"").unwrap();
    assert!(!is_still(&Place::of(None, &path), &file).unwrap());
}

#[test]
fn a_locked_database_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let _held = OsFs::new().lock(&path).unwrap();
    let error = OsFs::new().lock(&path).unwrap_err().to_string();
    assert!(error.contains("another process"), "{error}");
    assert!(error.contains("close the database there"), "{error}");
}

/// No test may mount a file system to be refused by, so this begins with the refusal.
#[test]
fn a_database_on_a_read_only_file_system_says_what_to_do() {
    let path = Path::new("/mnt/db/LOCK");
    let refused = |errno: rustix::io::Errno| cannot_open_lock(path, errno.into()).to_string();
    let error = refused(rustix::io::Errno::ROFS);
    assert!(
        error.starts_with("cannot open lock file /mnt/db/LOCK: "),
        "{error}"
    );
    assert!(
        error.contains("copy the directory to where that is possible"),
        "{error}"
    );
    assert!(error.contains("`velella inspect`"), "{error}");
    assert!(!refused(rustix::io::Errno::ISDIR).contains("copy"));
}

#[test]
fn a_lock_is_given_up_although_a_process_being_started_has_the_file_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let file = File::create(&path).unwrap();
    file.try_lock().unwrap();
    // As between fork and exec.
    let duplicate = file.try_clone().unwrap();
    drop(OsLock::of(file));
    drop(OsFs::new().lock(&path).unwrap());
    drop(duplicate);
}

#[test]
fn a_copy_stands_in_for_a_link_and_never_over_something() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::write(&from, b"content").unwrap();
    copy(&Place::of(None, &from), &Place::of(None, &to)).unwrap();
    assert_eq!(fs::read(&to).unwrap(), b"content");
    assert_eq!(mode(&to), 0o600);
    assert!(copy(&Place::of(None, &from), &Place::of(None, &to)).is_err());
    assert!(cannot_link(&io::Error::from_raw_os_error(libc::EXDEV)));
    assert!(!cannot_link(&io::Error::from_raw_os_error(libc::EEXIST)));
}

#[cfg(target_os = "linux")]
#[test]
fn a_link_to_another_file_system_is_a_copy() {
    let (here, there) = (
        tempfile::tempdir().unwrap(),
        tempfile::tempdir_in("/dev/shm"),
    );
    let Ok(there) = there else { return };
    let (from, to) = (here.path().join("from"), there.path().join("to"));
    fs::write(&from, b"content").unwrap();
    OsFs::new().hard_link(&from, &to).unwrap();
    assert_eq!(fs::read(&to).unwrap(), b"content");
    let error = OsFs::new().hard_link(&from, &to).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
}

#[cfg(target_os = "linux")]
#[test]
fn an_identity_names_boot_file_system_and_mount() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    drop(OsFs::new().create(&path).unwrap());
    let identity = OsFs::new().identity(&path).unwrap();
    assert_eq!(identity.inode, fs::metadata(&path).unwrap().ino());
    assert_ne!(identity.device, 0);
    assert_ne!(identity.mount_namespace, 0);
    // The same name and perhaps the same inode, yet another file.
    fs::remove_file(&path).unwrap();
    drop(OsFs::new().create(&path).unwrap());
    assert_ne!(OsFs::new().identity(&path).unwrap(), identity);
}

#[cfg(target_os = "linux")]
#[test]
fn proc_is_not_known_to_map_well() {
    assert!(!OsFs::new().maps_well(Path::new("/proc")));
    assert!(!OsFs::new().maps_well(Path::new("/no such directory")));
}

/// Bytes that this process had the devices read.
#[cfg(target_os = "linux")]
fn bytes_read() -> u64 {
    let all = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = all
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes: "));
    line.map_or(0, |bytes| bytes.parse().unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn pages_that_the_system_gave_up_are_read_again_when_they_are_fetched() {
    use rustix::fs::{Advice, fadvise};
    // More than is read ahead in one go.
    const LENGTH: u64 = 24 << 20;
    let dir = tempfile::tempdir().unwrap();
    let read_by = |name: &str, read: &dyn Fn(&Path)| {
        let path = dir.path().join(name);
        fs::write(&path, vec![1; 24 << 20]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let before = bytes_read();
        read(&path);
        bytes_read() - before
    };
    if !OsFs::new().maps_well(dir.path()) {
        println!("skipped: {} is not mapped", dir.path().display());
        return;
    }
    let whole = read_by("read", &|path| drop(fs::read(path).unwrap()));
    if whole < LENGTH / 2 {
        println!(
            "skipped: nobody says what is read in {}",
            dir.path().display()
        );
        return;
    }
    let fetched = read_by("fetched", &|path| {
        OsFs::new()
            .map_append(path, LENGTH)
            .unwrap()
            .fetch(0, LENGTH);
    });
    assert!(fetched > whole / 10 * 8, "{fetched} of {whole} bytes");
}

/// Pages of `file` in `[offset, offset + len)` that the system has yet to hand to the device, if it
/// tells (Linux 6.5).
#[cfg(target_os = "linux")]
fn dirty(file: &File, offset: u64, len: u64) -> Option<u64> {
    use std::os::fd::AsRawFd;
    /// Of all architectures that Rust's standard library is shipped for.
    const CACHESTAT: libc::c_long = 451;
    let (range, mut seen) = ([offset, len], [0_u64; 5]);
    // SAFETY: the call reads two numbers and writes five, as there are.
    let done = unsafe {
        libc::syscall(
            CACHESTAT,
            file.as_raw_fd(),
            range.as_ptr(),
            seen.as_mut_ptr(),
            0,
        )
    };
    (done == 0).then_some(seen[1])
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_to_be_written_back_goes_to_the_device_at_once() {
    const HALF: u64 = 4 << 20;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, vec![1; 8 << 20]).unwrap();
    let reader = File::open(&path).unwrap();
    reader.sync_all().unwrap();
    let file = OsFs::new().open_write(&path).unwrap();
    file.write_at(0, &vec![2; 8 << 20]).unwrap();
    let all = 2 * HALF / rustix::param::page_size() as u64;
    // Others may compress first, or write at a better time.
    if !OsFs::new().maps_well(dir.path()) || dirty(&reader, 0, 2 * HALF) != Some(all) {
        println!("skipped: nobody says what is dirty in {}", path.display());
        return;
    }
    file.write_back(0, 0);
    // Here and below: the system may have begun with some by itself.
    assert!(
        dirty(&reader, 0, 2 * HALF) > Some(0),
        "no bytes are not all"
    );
    file.write_back(0, HALF);
    assert_eq!(dirty(&reader, 0, HALF), Some(0));
    assert!(dirty(&reader, HALF, HALF) > Some(0), "nor is a half");
}

/// Bytes of the mapped file that are in this process, if the system says.
#[cfg(target_os = "linux")]
fn resident(path: &Path) -> Option<u64> {
    let maps = fs::read_to_string("/proc/self/smaps").ok()?;
    let path = path.canonicalize().unwrap();
    let mut lines = maps
        .lines()
        .skip_while(|line| !line.ends_with(path.to_str().unwrap()));
    let rss = lines.find_map(|line| line.strip_prefix("Rss:"))?;
    let kib = rss.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
    Some(kib << 10)
}

/// A new file of zeros, mapped; `None` where files are not mapped.
fn mapped(dir: &Path, len: u64) -> Option<(PathBuf, Arc<dyn MapFile>)> {
    if !OsFs::new().maps_well(dir) {
        println!("skipped: {} is not mapped", dir.display());
        return None;
    }
    let path = dir.join("mapped");
    fs::write(&path, vec![0; usize::try_from(len).unwrap()]).unwrap();
    let mapped = OsFs::new().map_append(&path, len).unwrap();
    Some((path, mapped))
}

#[cfg(target_os = "linux")]
#[test]
fn the_pages_of_a_mapped_file_leave_the_process_before_it_is_synced() {
    const LENGTH: usize = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let Some((path, mapped)) = mapped(dir.path(), LENGTH as u64) else {
        return;
    };
    let mut window = Arc::clone(&mapped).window(0, LENGTH as u64).unwrap();
    window.write(0, &vec![1; LENGTH]);
    let Some(before) = resident(&path) else {
        println!("skipped: nobody says what is in this process");
        return;
    };
    // Of the rest the system may have taken some back.
    assert!(before > LENGTH as u64 / 2, "{before}");
    mapped.sync_data().unwrap();
    assert_eq!(resident(&path), Some(0));
    window.write(5_000, b"again");
    let bytes = fs::read(&path).unwrap();
    assert_eq!(&bytes[4_998..5_007], b"\x01\x01again\x01\x01");
}

#[test]
fn what_is_stored_while_a_mapped_file_is_synced_is_kept() {
    const LENGTH: usize = 1 << 20;
    const STEP: usize = 32;
    let dir = tempfile::tempdir().unwrap();
    let Some((path, mapped)) = mapped(dir.path(), LENGTH as u64) else {
        return;
    };
    let mut window = Arc::clone(&mapped).window(0, LENGTH as u64).unwrap();
    let record = |at: usize, pass: u64| {
        let mut record = [0; STEP];
        record[..8].copy_from_slice(&(at as u64).to_le_bytes());
        record[STEP - 8..].copy_from_slice(&pass.to_le_bytes());
        record
    };
    let done = AtomicBool::new(false);
    let passes = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            (1..).find(|pass| {
                for at in (0..LENGTH).step_by(STEP) {
                    window.write(at as u64, &record(at, *pass));
                }
                // Relaxed: only to end.
                done.load(Ordering::Relaxed)
            })
        });
        (0..50).for_each(|_| mapped.sync_data().unwrap());
        done.store(true, Ordering::Relaxed);
        writer.join().unwrap().unwrap()
    });
    let bytes = fs::read(&path).unwrap();
    for at in (0..LENGTH).step_by(STEP) {
        assert_eq!(bytes[at..at + STEP], record(at, passes), "at {at}");
    }
}
