//! What a process published through a window is in the file after `kill -9` (V1, W3).
//!
//! The test starts itself as the victim, which stores a body and publishes its number, again and
//! again; it is killed in the middle of that, and then the file is read.

#![cfg(target_os = "linux")]
#![cfg(not(miri))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must panic")]

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use velella_vfs::{OsFs, ReadFile, Vfs};

const VICTIM: &str = "VELELLA_KILL_TEST_FILE";
const TEST: &str = "what_was_published_is_there_after_kill_9";
const BODY: usize = 120;
const RECORD: usize = BODY + 8;
const RECORDS: usize = 200_000;
const FILE_BYTES: u64 = (RECORDS * RECORD) as u64;

fn body(number: u32) -> [u8; BODY] {
    let mut body = [0; BODY];
    for (place, byte) in (1u32..).zip(&mut body) {
        *byte = number.wrapping_mul(31).wrapping_add(place).to_le_bytes()[0] | 1;
    }
    body
}

/// Stores records until it is killed: body first, then the number at its front.
fn store(path: &Path) {
    let map = OsFs::new().map_append(path, FILE_BYTES).unwrap();
    let mut window = map.window(0, FILE_BYTES).unwrap();
    for number in 1u32.. {
        let at = u64::from(number - 1) * RECORD as u64;
        if at == FILE_BYTES {
            break;
        }
        window.write(at + 8, &body(number));
        window.publish_u32(at, number);
    }
    // Everything is stored; the parent has been slow.
    loop {
        std::thread::park();
    }
}

fn published(file: &dyn ReadFile, index: usize) -> u32 {
    let mut word = [0; 4];
    file.read_exact_at(&mut word, (index * RECORD) as u64)
        .unwrap();
    u32::from_le_bytes(word)
}

#[test]
fn what_was_published_is_there_after_kill_9() {
    if let Some(path) = env::var_os(VICTIM) {
        store(&PathBuf::from(path));
    }
    let dir = tempfile::tempdir().unwrap();
    if !OsFs::new().maps_well(dir.path()) {
        return;
    }
    for round in 0..5 {
        let path = dir.path().join(format!("{round}.seg"));
        OsFs::new()
            .create(&path)
            .unwrap()
            .allocate(FILE_BYTES)
            .unwrap();
        let file: Arc<dyn ReadFile> = OsFs::new().open_read(&path).unwrap();
        let mut victim = Command::new(env::current_exe().unwrap())
            .args(["--exact", TEST])
            .env(VICTIM, &path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while published(&*file, 1 + round * 500) == 0 {
            std::thread::yield_now();
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        let mut count = 0;
        for (index, number) in (0..RECORDS).zip(1u32..) {
            let found = published(&*file, index);
            if found == 0 {
                break;
            }
            assert_eq!(found, number);
            let mut bytes = [0; BODY];
            let at = (index * RECORD + 8) as u64;
            file.read_exact_at(&mut bytes, at).unwrap();
            assert_eq!(
                bytes,
                body(number),
                "record {number} is published but not whole"
            );
            count += 1;
        }
        assert!(count > 1 + round * 500);
        std::fs::remove_file(&path).unwrap();
    }
}
