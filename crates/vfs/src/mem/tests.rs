//! What a crash may leave and what it may not; space, locks and dead handles.

use super::*;
use crate::contract;
use std::collections::BTreeSet;
use velella_sync::rng::Rng;

mod legality;

fn root() -> &'static Path {
    Path::new("/")
}

fn path(name: &str) -> PathBuf {
    root().join(name)
}

/// A durable file with this content.
fn with(name: &str, bytes: &[u8]) -> MemFs {
    let fs = MemFs::new();
    fs.write_file(&path(name), bytes).unwrap();
    fs
}

fn put(fs: &MemFs, name: &str, bytes: &[u8]) {
    fs.create(&path(name)).unwrap().append(bytes).unwrap();
}

/// The content after a crash, `None` if the file is gone.
fn after(fs: &MemFs, seed: u64, mode: CrashMode, name: &str) -> Option<Vec<u8>> {
    fs.image(seed, mode).read_file(&path(name)).ok()
}

/// Every content that some crash of `mode` leaves.
fn outcomes(fs: &MemFs, mode: CrashMode, name: &str) -> BTreeSet<Option<Vec<u8>>> {
    (0..400).map(|seed| after(fs, seed, mode, name)).collect()
}

fn some(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(bytes.to_vec())
}

#[test]
fn the_model_keeps_the_contract() {
    let fs = MemFs::new();
    contract::run(&fs, root());
    let unfit = MemFs::new();
    unfit.set_maps_well(false);
    unfit.create_dir_all(Path::new("db")).unwrap();
    contract::run(&unfit, Path::new("db"));
    assert!(unfit.exists(Path::new("/db/map")).unwrap());
}

#[test]
fn what_was_synced_survives_every_crash() {
    let fs = MemFs::new();
    let mut file = fs.create(&path("file")).unwrap();
    file.append(&[1; 3000]).unwrap();
    file.sync_data().unwrap();
    fs.sync_dir(root()).unwrap();
    for mode in [CrashMode::KeepAll]
        .into_iter()
        .chain(CrashMode::POWER_LOSSES)
    {
        assert_eq!(outcomes(&fs, mode, "file"), [some(&[1; 3000])].into());
    }
}

#[test]
fn what_was_not_synced_may_vanish_or_stay() {
    let fs = with("file", b"old");
    let file = fs.open_write(&path("file")).unwrap();
    file.write_at(0, b"new").unwrap();
    assert_eq!(fs.read_file(&path("file")).unwrap(), b"new");
    assert_eq!(
        outcomes(&fs, CrashMode::Strict, "file"),
        [some(b"old")].into()
    );
    let either: BTreeSet<_> = [some(b"old"), some(b"new")].into();
    assert_eq!(outcomes(&fs, CrashMode::Prefix, "file"), either);
    assert_eq!(outcomes(&fs, CrashMode::Random, "file"), either);
    assert_eq!(
        outcomes(&fs, CrashMode::KeepAll, "file"),
        [some(b"new")].into()
    );
}

#[test]
fn syncing_a_file_does_not_bring_its_name() {
    let fs = MemFs::new();
    let mut file = fs.create(&path("file")).unwrap();
    file.append(b"data").unwrap();
    file.sync_all().unwrap();
    let either = [None, some(b"data")].into();
    assert_eq!(outcomes(&fs, CrashMode::Random, "file"), either);
    assert_eq!(outcomes(&fs, CrashMode::Strict, "file"), [None].into());
}

#[test]
fn syncing_a_name_does_not_bring_the_content() {
    let fs = MemFs::new();
    put(&fs, "file", b"data");
    fs.sync_dir(root()).unwrap();
    assert_eq!(outcomes(&fs, CrashMode::Strict, "file"), [some(b"")].into());
    let seen = outcomes(&fs, CrashMode::Random, "file");
    // Length and data survive apart: zeros may stand where data was written.
    for expected in [&b""[..], b"\0\0\0\0", b"data"] {
        assert!(
            seen.contains(&some(expected)),
            "{expected:?} not in {seen:?}"
        );
    }
}

#[test]
fn a_directory_that_is_lost_takes_its_files_along() {
    let fs = MemFs::new();
    fs.create_dir_all(&path("db/journal")).unwrap();
    put(&fs, "db/journal/1", b"");
    fs.sync_dir(&path("db/journal")).unwrap();
    fs.sync_dir(&path("db")).unwrap();
    assert_eq!(
        outcomes(&fs, CrashMode::Strict, "db/journal/1"),
        [None].into()
    );
    fs.sync_dir(root()).unwrap();
    assert_eq!(
        outcomes(&fs, CrashMode::Strict, "db/journal/1"),
        [some(b"")].into()
    );
}

#[test]
fn sectors_survive_one_by_one_in_any_order() {
    let fs = with("file", &[0; 1024]);
    let file = fs.open_write(&path("file")).unwrap();
    file.write_at(0, &[1; 512]).unwrap();
    file.write_at(512, &[2; 512]).unwrap();
    let seen: BTreeSet<_> = outcomes(&fs, CrashMode::Random, "file")
        .into_iter()
        .map(|bytes| bytes.unwrap())
        .map(|bytes| (bytes[0], bytes[512]))
        .collect();
    for both in [(0, 0), (1, 0), (0, 2), (1, 2)] {
        assert!(seen.contains(&both), "{both:?}");
    }
    // In order, the second never comes without the first.
    let seen = outcomes(&fs, CrashMode::Prefix, "file");
    assert!(
        !seen
            .iter()
            .flatten()
            .any(|bytes| bytes[0] == 0 && bytes[512] == 2)
    );
    assert_eq!(seen.len(), 3);
}

#[test]
fn a_sector_may_hold_any_value_since_the_sync_or_a_mixture_of_neighbours() {
    let fs = with("file", &[0; 512]);
    let file = fs.open_write(&path("file")).unwrap();
    for value in 1..=3 {
        file.write_at(0, &[value; 512]).unwrap();
    }
    let (mut whole, mut torn) = (BTreeSet::new(), 0);
    for bytes in outcomes(&fs, CrashMode::Random, "file")
        .into_iter()
        .flatten()
    {
        let values: BTreeSet<u8> = bytes.iter().copied().collect();
        let (least, most) = (*values.first().unwrap(), *values.last().unwrap());
        assert!(most - least <= 1, "a mixture of {values:?}");
        for word in bytes.chunks(8) {
            assert!(word.iter().all(|byte| byte == &word[0]), "a torn word");
        }
        if most == least {
            whole.insert(most);
        } else {
            torn += 1;
        }
    }
    assert_eq!(whole, [0, 1, 2, 3].into());
    assert!(torn > 10, "{torn}");
}

#[test]
fn a_window_writes_as_volatile_as_a_write_does() {
    let fs = with("seg", &[0; 4096]);
    let map = fs.map_append(&path("seg"), 4096).unwrap();
    let mut window = Arc::clone(&map).window(0, 4096).unwrap();
    window.write(1024, &[7; 512]);
    window.publish_u32(0, 1);
    let seen: BTreeSet<_> = outcomes(&fs, CrashMode::Random, "seg")
        .into_iter()
        .flatten()
        .map(|bytes| (bytes[0], bytes[1024]))
        .collect();
    // The published word promises nothing about a power loss (W3, V3).
    assert_eq!(seen, [(0, 0), (1, 0), (0, 7), (1, 7)].into());
    map.sync_data().unwrap();
    window.publish_u32(4, 1);
    let bytes = after(&fs, 0, CrashMode::Strict, "seg").unwrap();
    assert_eq!((bytes[0], bytes[4], bytes[1024]), (1, 0, 7));
}

#[test]
fn a_removed_file_may_come_back_with_its_content() {
    let fs = with("file", b"data");
    fs.remove(&path("file")).unwrap();
    let either = [None, some(b"data")].into();
    assert_eq!(outcomes(&fs, CrashMode::Random, "file"), either);
    assert_eq!(
        outcomes(&fs, CrashMode::Strict, "file"),
        [some(b"data")].into()
    );
    fs.sync_dir(root()).unwrap();
    assert_eq!(outcomes(&fs, CrashMode::Random, "file"), [None].into());
}

#[test]
fn a_rename_is_done_or_not_even_between_directories() {
    let fs = MemFs::new();
    fs.create_dir_all(&path("a")).unwrap();
    fs.create_dir_all(&path("b")).unwrap();
    put(&fs, "a/x", b"");
    for dir in ["a", "b", ""] {
        fs.sync_dir(&path(dir)).unwrap();
    }
    fs.rename(&path("a/x"), &path("b/y")).unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..50 {
        let files = fs.image(seed, CrashMode::Random).files();
        assert_eq!(files.len(), 1, "{files:?}");
        seen.insert(files[0].clone());
    }
    assert_eq!(seen, [path("a/x"), path("b/y")].into());
    fs.sync_dir(&path("b")).unwrap();
    assert_eq!(fs.image(0, CrashMode::Strict).files(), [path("b/y")]);
}

#[test]
fn changes_of_one_name_survive_in_their_order() {
    let fs = with("CURRENT", b"0");
    for number in ["1", "2"] {
        fs.create(&path("tmp"))
            .unwrap()
            .append(number.as_bytes())
            .unwrap();
        let file = fs.open_write(&path("tmp")).unwrap();
        file.sync_all().unwrap();
        fs.rename(&path("tmp"), &path("CURRENT")).unwrap();
    }
    for mode in [CrashMode::Random, CrashMode::Prefix] {
        let seen = outcomes(&fs, mode, "CURRENT");
        assert_eq!(seen, [some(b"0"), some(b"1"), some(b"2")].into());
    }
}

#[test]
fn syncing_a_directory_brings_what_its_names_rest_on() {
    let fs = MemFs::new();
    fs.create_dir_all(&path("a")).unwrap();
    fs.create_dir_all(&path("b")).unwrap();
    fs.sync_dir(root()).unwrap();
    put(&fs, "a/new", b"");
    put(&fs, "a/other", b"");
    fs.rename(&path("a/new"), &path("b/new")).unwrap();
    fs.sync_dir(&path("b")).unwrap();
    // Nor does the name it had before come back.
    for seed in 0..20 {
        let files = fs.image(seed, CrashMode::Random).files();
        assert!(files.contains(&path("b/new")) && !files.contains(&path("a/new")));
    }
}

#[test]
fn a_file_renamed_away_is_not_lost_to_the_one_that_takes_its_name() {
    let fs = with("log", b"old");
    fs.rename(&path("log"), &path("log.1")).unwrap();
    put(&fs, "log", b"");
    let mut seen = BTreeSet::new();
    for seed in 0..50 {
        let image = fs.image(seed, CrashMode::Random);
        let kept = |name| {
            image
                .read_file(&path(name))
                .is_ok_and(|bytes| bytes == b"old")
        };
        assert!(kept("log") || kept("log.1"));
        seen.insert(image.files());
    }
    assert_eq!(seen.len(), 3);
}

#[test]
fn a_hard_link_is_one_file_with_two_names_after_a_crash_too() {
    let fs = with("one", b"data");
    fs.hard_link(&path("one"), &path("two")).unwrap();
    fs.sync_dir(root()).unwrap();
    let fs = fs.crash(0, CrashMode::Strict);
    fs.open_write(&path("one"))
        .unwrap()
        .write_at(0, b"D")
        .unwrap();
    assert_eq!(fs.read_file(&path("two")).unwrap(), b"Data");
}

#[test]
fn a_killed_process_loses_nothing_and_makes_nothing_durable() {
    let fs = with("file", b"old");
    let before = fs.identity(&path("file")).unwrap();
    fs.open_write(&path("file"))
        .unwrap()
        .write_at(0, b"new")
        .unwrap();
    put(&fs, "name", b"");
    let fs = fs.crash(1, CrashMode::KeepAll);
    assert_eq!(fs.read_file(&path("file")).unwrap(), b"new");
    assert_eq!(fs.identity(&path("file")).unwrap(), before);
    let fs = fs.crash(1, CrashMode::Strict);
    assert_eq!(fs.read_file(&path("file")).unwrap(), b"old");
    assert_eq!(fs.files(), [path("file")]);
    assert_ne!(fs.identity(&path("file")).unwrap().boot, before.boot);
}

#[test]
fn after_a_crash_every_old_handle_is_dead_and_every_lock_free() {
    let fs = with("file", &[0; 4096]);
    let lock = fs.lock(&path("LOCK")).unwrap();
    let mut writer = fs.open_write(&path("file")).unwrap();
    let reader = fs.open_read(&path("file")).unwrap();
    let map = fs.map_append(&path("file"), 4096).unwrap();
    let mut window = Arc::clone(&map).window(0, 8).unwrap();
    let next = fs.crash(0, CrashMode::KeepAll);
    let _lock = next.lock(&path("LOCK")).unwrap();
    let errors = [
        writer.append(b"x").unwrap_err(),
        writer.write_at(0, b"x").unwrap_err(),
        writer.sync_data().unwrap_err(),
        writer.allocate(1).unwrap_err(),
        reader.read_exact_at(&mut [0], 0).unwrap_err(),
        map.sync_data().unwrap_err(),
        fs.create(&path("x")).unwrap_err(),
        fs.exists(&path("x")).unwrap_err(),
        fs.sync_dir(root()).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(
            error.to_string().contains("the process was killed"),
            "{error}"
        );
    }
    window.write(0, b"nowhere!");
    drop(lock);
    assert_eq!(next.read_file(&path("file")).unwrap(), [0; 4096]);
    assert!(
        next.lock(&path("LOCK")).is_err(),
        "the old lock's end freed the new one"
    );
    let frozen = fs
        .crash(0, CrashMode::KeepAll)
        .read_file(&path("file"))
        .unwrap();
    assert_eq!(frozen, [0; 4096]);
}

#[test]
fn the_same_seed_gives_the_same_crash() {
    let run = |seed| {
        let fs = with("file", &[0; 20_000]);
        let file = fs.open_write(&path("file")).unwrap();
        for at in 0..40 {
            file.write_at(at * 500, &[1; 700]).unwrap();
        }
        after(&fs, seed, CrashMode::Random, "file")
    };
    assert_eq!(run(5), run(5));
    assert!((0..10).map(run).collect::<BTreeSet<_>>().len() > 5);
}

#[test]
fn after_a_failed_sync_nothing_is_known_and_a_later_one_proves_nothing() {
    let mut seen = BTreeSet::new();
    for seed in 0..40 {
        let fs = with("file", b"old");
        let file = fs.open_write(&path("file")).unwrap();
        file.write_at(0, b"new").unwrap();
        fs.fail_sync(&path("file"), seed).unwrap();
        let read = fs.read_file(&path("file")).unwrap();
        file.sync_all().unwrap();
        seen.insert((read, after(&fs, 0, CrashMode::Strict, "file").unwrap()));
        // Only what is written again is what a sync makes durable again.
        file.write_at(0, b"NEW").unwrap();
        file.sync_all().unwrap();
        assert_eq!(after(&fs, 0, CrashMode::Strict, "file"), some(b"NEW"));
    }
    let pair = |read: &[u8], durable: &[u8]| (read.to_vec(), durable.to_vec());
    let written = pair(b"new", b"new");
    let lost = pair(b"old", b"old");
    let kept_until_power_goes = pair(b"new", b"old");
    assert_eq!(seen, [written, lost, kept_until_power_goes].into());
}

#[test]
fn writing_near_a_page_that_was_wrongly_marked_clean_writes_it_too() {
    let fs = with("file", b"old....");
    let file = fs.open_write(&path("file")).unwrap();
    file.write_at(0, b"new").unwrap();
    let kept_until_power_goes = |seed: &u64| {
        let fs = fs.image(0, CrashMode::KeepAll);
        fs.fail_sync(&path("file"), *seed).unwrap();
        fs.read_file(&path("file")).unwrap() == b"new...."
            && after(&fs, 0, CrashMode::Strict, "file") == some(b"old....")
    };
    let seed = (0..).find(kept_until_power_goes).unwrap();
    fs.fail_sync(&path("file"), seed).unwrap();
    file.write_at(6, b"!").unwrap();
    let either = [some(b"old...."), some(b"new...!")].into();
    assert_eq!(outcomes(&fs, CrashMode::Random, "file"), either);
}

#[test]
fn after_a_failed_sync_of_a_directory_names_may_never_become_durable() {
    let mut seen = BTreeSet::new();
    for seed in 0..20 {
        let fs = MemFs::new();
        put(&fs, "file", b"");
        fs.fail_sync(root(), seed).unwrap();
        assert!(fs.exists(&path("file")).unwrap());
        fs.sync_dir(root()).unwrap();
        seen.insert(fs.image(0, CrashMode::Strict).files().len());
    }
    assert_eq!(seen, [0, 1].into());
}

#[test]
fn a_full_device_takes_what_fits_and_says_so() {
    let fs = MemFs::new();
    fs.set_space_max(Some(3 * 4096));
    let mut file = fs.create(&path("file")).unwrap();
    let error = file.append(&[1; 20_000]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert_eq!(error.offset(), Some(12_288));
    assert_eq!(fs.read_file(&path("file")).unwrap(), [1; 12_288]);
    assert_eq!(fs.space_used(), 12_288);
    // Space comes back once the file has neither a name nor a handle.
    put(&fs, "empty", b"");
    fs.remove(&path("file")).unwrap();
    assert!(fs.open_write(&path("empty")).unwrap().append(b"x").is_err());
    drop(file);
    fs.open_write(&path("empty")).unwrap().append(b"x").unwrap();
    assert_eq!(fs.space_used(), 4096);
    fs.open_write(&path("empty")).unwrap().set_len(0).unwrap();
    assert_eq!(fs.space_used(), 0);
}

#[test]
fn allocated_space_is_there_when_the_device_is_full() {
    let fs = MemFs::new();
    fs.set_space_max(Some(5 * 4096));
    let segment = fs.create(&path("seg")).unwrap();
    assert_eq!(
        segment.allocate(6 * 4096).unwrap_err().kind(),
        ErrorKind::NoSpace
    );
    segment.allocate(2 * 4096).unwrap();
    let mut other = fs.create(&path("other")).unwrap();
    assert!(other.append(&[1; 4 * 4096]).is_err());
    segment.write_at(0, &[1; 2 * 4096]).unwrap();
    let map = fs.map_append(&path("seg"), 2 * 4096).unwrap();
    map.window(4096, 4096).unwrap().write(0, &[2; 4096]);
    assert_eq!(fs.read_file(&path("seg")).unwrap()[4096..], [2; 4096]);
}

#[test]
fn a_flipped_bit_is_on_the_device() {
    let fs = with("file", b"abc");
    fs.open_write(&path("file"))
        .unwrap()
        .write_at(2, b"C")
        .unwrap();
    fs.flip_byte(&path("file"), 1, 1).unwrap();
    assert_eq!(fs.read_file(&path("file")).unwrap(), b"acC");
    assert_eq!(after(&fs, 0, CrashMode::Strict, "file"), some(b"acc"));
    let error = fs.flip_byte(&path("file"), 3, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn absurd_offsets_are_refused_before_memory_is_asked_for() {
    let fs = MemFs::new();
    let file = fs.create(&path("file")).unwrap();
    for offset in [u64::MAX, u64::MAX - 4096, 1 << 63] {
        assert!(file.write_at(offset, b"x").is_err());
        assert!(file.set_len(offset).is_err());
        assert!(file.allocate(offset).is_err());
    }
    assert_eq!(fs.len(&path("file")).unwrap(), 0);
}
