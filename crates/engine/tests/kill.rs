//! Real processes, killed: every acknowledgement that got out is there afterwards.
//!
//! The test binary starts itself as a child, which writes and acknowledges over a pipe.
//! Claims: docs/consistency.md, "Durability", for `kill -9`.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use velella::{Db, Durability, WriteBatch, WriteOptions};
use velella_testkit::{Seed, Watchdog, scale, seeds};

const DIR: &str = "VELELLA_KILL_DIR";
const SYNC: &str = "VELELLA_KILL_SYNC";
const ROUND: &str = "VELELLA_KILL_ROUND";
const THREADS: u32 = 2;

fn open(dir: &Path) -> Db {
    Db::builder()
        .memory(16 << 20)
        .write_buffer(192 << 10)
        .open(dir)
        .unwrap()
}

fn key(round: u32, thread: u32, number: u32) -> Vec<u8> {
    [
        round.to_be_bytes(),
        thread.to_be_bytes(),
        number.to_be_bytes(),
    ]
    .concat()
}

/// The child: no test of its own. Without its variables it returns at once.
#[test]
fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let round: u32 = std::env::var(ROUND).unwrap().parse().unwrap();
    let sync = std::env::var(SYNC).unwrap() == "1";
    let durability = if sync {
        Durability::Sync
    } else {
        Durability::Buffered
    };
    let options = WriteOptions {
        durability: Some(durability),
    };
    let db = open(dir.as_ref());
    let write = |thread: u32| {
        for number in 0..u32::MAX {
            let key = key(round, thread, number);
            match number % 5 {
                0 => {
                    let mut batch = WriteBatch::new();
                    batch
                        .put(&db, &key, [1; 100])
                        .put(&db, [&key[..], b"twin"].concat(), [1; 100]);
                    db.write_with(&batch, options).unwrap();
                }
                1 if number % 500 == 1 => drop(
                    db.put_with(&key, vec![2; (1 << 20) + 1], options)
                        .unwrap()
                        .0,
                ),
                _ => drop(db.put_with(&key, [3; 100], options).unwrap().0),
            }
            let line = format!("{thread} {number}\n");
            std::io::stdout().write_all(line.as_bytes()).unwrap();
        }
    };
    std::thread::scope(|scope| {
        (0..THREADS).for_each(|thread| drop(scope.spawn(move || write(thread))))
    });
}

fn start(dir: &Path, round: u32, sync: bool) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["child", "--exact", "--nocapture", "--test-threads=1"]);
    command
        .env(DIR, dir)
        .env(ROUND, round.to_string())
        .env(SYNC, u8::from(sync).to_string());
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Runs a child until it has acknowledged `enough`, kills it, and returns its last
/// acknowledgement per thread.
fn run_and_kill(dir: &Path, round: u32, sync: bool, enough: u64) -> Vec<Option<u32>> {
    let mut child = start(dir, round, sync);
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut last = vec![None; THREADS as usize];
    let mut note = |line: &str| {
        let Some((thread, number)) = line.trim().split_once(' ') else {
            return false;
        };
        let (Ok(thread), Ok(number)) = (thread.parse::<usize>(), number.parse()) else {
            return false;
        };
        last[thread] = Some(number);
        true
    };
    let mut line = String::new();
    let mut seen = 0;
    while seen < enough {
        line.clear();
        assert!(
            output.read_line(&mut line).unwrap() > 0,
            "the child ended by itself"
        );
        seen += u64::from(note(&line));
    }
    child.kill().unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    // The last line may be cut.
    let whole = rest.rfind('\n').map_or("", |end| &rest[..end]);
    whole.lines().for_each(|line| {
        note(line);
    });
    child.wait().unwrap();
    last
}

fn assert_there(db: &Db, round: u32, last: &[Option<u32>]) {
    for (thread, last) in (0u32..).zip(last) {
        let Some(last) = last else { continue };
        for number in 0..=*last {
            let key = key(round, thread, number);
            let value = db
                .get(&key)
                .unwrap()
                .unwrap_or_else(|| panic!("{number} of {last} is gone"));
            if number % 5 == 0 {
                let twin = db.get([&key[..], b"twin"].concat()).unwrap();
                assert_eq!(twin, Some(value), "half a batch");
            }
        }
    }
}

fn kill_again_and_again(test: &'static str, sync: bool, kills: u64, most: u64) {
    let _watchdog = Watchdog::new(test, 400);
    let dir = tempfile::tempdir().unwrap();
    let number = seeds(1)[0];
    let mut seed = Seed::new(test, number);
    let mut before = Vec::new();
    for round in 0..u32::try_from(scale(kills)).unwrap() {
        let last = run_and_kill(dir.path(), round, sync, 1 + seed.below(most));
        let db = open(dir.path());
        before.push(last);
        for (round, last) in (0u32..).zip(&before) {
            assert_there(&db, round, last);
        }
        if seed.one_in(3) {
            db.verify().unwrap();
        }
        db.close().unwrap();
    }
}

#[test]
fn buffered_acknowledgements_survive_kills() {
    kill_again_and_again("buffered_acknowledgements", false, 20, 3_000);
}

#[test]
fn sync_acknowledgements_survive_kills() {
    kill_again_and_again("sync_acknowledgements", true, 10, 60);
}

#[test]
fn acknowledgements_survive_a_kill_and_an_opening_in_another_mount_namespace() {
    let _watchdog = Watchdog::new("another_mount_namespace", 200);
    let unshare = |program: &Path| {
        let mut command = Command::new("unshare");
        command.arg("-m").arg(program);
        command
    };
    if !unshare("/bin/true".as_ref())
        .status()
        .is_ok_and(|status| status.success())
    {
        eprintln!("SKIPPED: `unshare -m` is not permitted here");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let last = run_and_kill(dir.path(), 0, false, 2_000);
    // A second child opens it in a namespace of its own, writes a little and is killed as well.
    let mut command = unshare(&std::env::current_exe().unwrap());
    command.args(["child", "--exact", "--nocapture"]);
    command.env(DIR, dir.path()).env(ROUND, "1").env(SYNC, "0");
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while line.trim() != "0 100" {
        line.clear();
        assert!(
            output.read_line(&mut line).unwrap() > 0,
            "the child ended by itself"
        );
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let db = open(dir.path());
    assert_there(&db, 0, &last);
    assert_there(&db, 1, &[Some(100)]);
}
