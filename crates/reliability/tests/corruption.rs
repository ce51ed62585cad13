//! The campaign `corruption`, small: a share of its first pass.

mod common;

use velella::Db;
use velella_reliability::campaigns::corruption::Corruption;
use velella_sync::allocations::{Counting, peak_bytes};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn no_damage_gives_a_wrong_answer() {
    common::holds(Corruption::default(), 1, 12);
}

#[test]
fn accepting_losses_is_noticed() {
    common::is_reported(Corruption::accepting_loss(), 400);
}

/// A file system that was repaired may have made a file longer, by zeros that take no room.
#[test]
fn a_manifest_that_grew_is_not_read_into_memory() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Db::builder().memory(velella::MEMORY_MIN).open(dir.path());
    let db = open().unwrap();
    db.put("k", "v").unwrap();
    db.close().unwrap();
    let manifest = || {
        let names = std::fs::read_dir(dir.path()).unwrap();
        let mut paths = names.map(|name| name.unwrap().path());
        paths.find(|path| path.to_string_lossy().contains("MANIFEST"))
    };
    let grow = |bytes: u64| {
        let file = std::fs::File::options()
            .write(true)
            .open(manifest().unwrap());
        let file = file.unwrap();
        file.set_len(file.metadata().unwrap().len() + bytes)
            .unwrap();
    };
    // As an append that was torn, whose words are all missing.
    grow(128 << 20);
    let (opened, peak) = peak_bytes(|| open().unwrap());
    assert!(peak < 64 << 20, "{peak} bytes");
    assert_eq!(opened.get("k").unwrap().unwrap(), "v");
    opened.close().unwrap();
    // More than any append is.
    grow(1 << 40);
    let (error, peak) = peak_bytes(|| open().unwrap_err());
    assert!(peak < 64 << 20, "{peak} bytes");
    assert_eq!(error.kind(), velella::ErrorKind::Corruption, "{error}");
    assert_eq!(error.file(), manifest().as_deref(), "{error}");
}

/// Control: what an opening that believed a length would take is counted.
#[test]
fn memory_is_counted_while_it_is_held() {
    let (len, bytes) = peak_bytes(|| {
        drop(vec![0u8; 30 << 20]);
        vec![0u8; 40 << 20].len()
    });
    assert_eq!(len, 40 << 20);
    assert!((40 << 20..41 << 20).contains(&bytes), "{bytes}");
}
