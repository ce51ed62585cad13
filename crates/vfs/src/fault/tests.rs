//! Faults come where, when and as often as asked, and leave what they should.

use super::*;
use crate::contract;
use crate::mem::CrashMode;
use std::path::PathBuf;
use velella_base::{ErrorKind, Result};

fn file() -> PathBuf {
    PathBuf::from("/file")
}

fn write_and_read(vfs: &dyn Vfs) -> Result<Vec<u8>> {
    let mut file_at = vfs.create(&file())?;
    file_at.append(b"0123456789")?;
    file_at.sync_data()?;
    vfs.sync_dir(Path::new("/"))?;
    let mut bytes = vec![0; 10];
    vfs.open_read(&file())?.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

#[test]
fn without_a_rule_the_contract_is_kept() {
    let faults = FaultFs::over_mem(&MemFs::new());
    contract::run(&faults, Path::new("/"));
    assert!(faults.calls() > 100);
    assert_eq!(faults.fired(), 0);
}

#[test]
fn a_sweep_fails_each_call_once_and_ends() {
    let mut k = 0;
    loop {
        k += 1;
        let faults = FaultFs::over_mem(&MemFs::new());
        faults.fail_call(k, Fault::Io);
        let done = write_and_read(&faults);
        if faults.fired() == 0 {
            assert_eq!(done.unwrap(), b"0123456789");
            break;
        }
        let error = done.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert_eq!(faults.calls(), k);
    }
    assert_eq!(k, 7, "six calls were made");
}

#[test]
fn each_fault_is_the_error_it_is_named_for() {
    for (fault, kind) in [
        (Fault::Io, ErrorKind::Io),
        (Fault::NoSpace, ErrorKind::NoSpace),
        (Fault::Permission, ErrorKind::Permission),
        (Fault::Interrupted, ErrorKind::Io),
        (Fault::TooManyFiles, ErrorKind::Io),
        (Fault::Short, ErrorKind::Io),
    ] {
        let faults = FaultFs::over_mem(&MemFs::new());
        faults.inject(Rule::every(fault).of(Operation::Create));
        let error = faults.create(&file()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(error.file(), Some(file().as_path()));
        assert!(!faults.exists(&file()).unwrap());
    }
}

#[test]
fn a_rule_meets_the_calls_it_describes_and_no_others() {
    let faults = FaultFs::over_mem(&MemFs::new());
    let rule = Rule::every(Fault::Io).of(Operation::Append).on(".seg");
    faults.inject(rule.from_nth(2).times(2));
    let mut segment = faults.create(Path::new("/1.seg")).unwrap();
    let mut table = faults.create(Path::new("/1.sst")).unwrap();
    let mut failed = Vec::new();
    for _ in 0..5 {
        table.append(b"t").unwrap();
        segment.write_at(9, b"w").unwrap();
        failed.push(segment.append(b"s").is_err());
    }
    assert_eq!(failed, [false, true, true, false, false]);
    assert_eq!(faults.fired(), 2);
}

#[test]
fn a_rename_is_met_by_either_of_its_names() {
    let faults = FaultFs::over_mem(&MemFs::new());
    drop(faults.create(Path::new("/CURRENT.tmp")).unwrap());
    faults.inject(Rule::every(Fault::Io).on("CURRENT").of(Operation::Rename));
    let rename = || faults.rename(Path::new("/CURRENT.tmp"), Path::new("/other"));
    assert!(rename().is_err());
    faults.heal();
    rename().unwrap();
    faults.inject(Rule::every(Fault::Io).on("CURRENT").of(Operation::Rename));
    let back = faults.rename(Path::new("/other"), Path::new("/CURRENT"));
    assert!(back.is_err());
}

#[test]
fn a_short_transfer_moves_half_and_fails() {
    let faults = FaultFs::over_mem(&MemFs::new());
    let mut file_at = faults.create(&file()).unwrap();
    faults.inject(Rule::every(Fault::Short).times(2));
    let error = file_at.append(b"0123456789").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert_eq!(faults.inner.len(&file()).unwrap(), 5);
    assert!(file_at.write_at(8, b"ab").is_err());
    assert_eq!(faults.inner.len(&file()).unwrap(), 9);
    let reader = faults.open_read(&file()).unwrap();
    faults.inject(Rule::every(Fault::Short));
    let mut bytes = *b"....";
    let error = reader.read_exact_at(&mut bytes, 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(&bytes, b"01..");
}

#[test]
fn after_a_failed_sync_one_that_succeeds_makes_nothing_durable() {
    let mut lost = 0;
    for first_call in 0..20 {
        let mem = MemFs::new();
        mem.write_file(&file(), b"old").unwrap();
        let faults = FaultFs::over_mem(&mem);
        for _ in 0..first_call {
            assert!(faults.exists(&file()).unwrap());
        }
        let file_at = faults.open_write(&file()).unwrap();
        file_at.write_at(0, b"new").unwrap();
        faults.inject(Rule::every(Fault::Io).of(Operation::SyncData).nth(1));
        file_at.sync_data().unwrap_err();
        file_at.sync_data().unwrap();
        let after = mem.crash(0, CrashMode::Strict);
        lost += u32::from(after.read_file(&file()).unwrap() == b"old");
    }
    assert!((5..20).contains(&lost), "lost {lost} of 20");
}

#[test]
fn a_delay_only_delays() {
    let faults = FaultFs::over_mem(&MemFs::new());
    faults.inject(Rule::every(Fault::Delay(Duration::from_nanos(1))));
    assert_eq!(write_and_read(&faults).unwrap(), b"0123456789");
    assert_eq!(faults.fired(), faults.calls());
    faults.reset();
    assert_eq!((faults.fired(), faults.calls()), (0, 0));
}

#[test]
fn a_flip_brings_one_wrong_bit_to_a_read_and_none_to_the_file() {
    let mem = MemFs::new();
    let sound: Vec<u8> = (0..=255).cycle().take(5_000).collect();
    mem.write_file(&file(), &sound).unwrap();
    let faults = FaultFs::over_mem(&mem);
    let reader = faults.open_read(&file()).unwrap();
    faults.inject(Rule::every(Fault::Flip));
    let mut places = std::collections::BTreeSet::new();
    for round in 0..300usize {
        let (offset, len) = (round * 7, 1 + round * 3);
        let mut bytes = vec![0; len];
        reader.read_exact_at(&mut bytes, offset as u64).unwrap();
        let read = bytes.iter().zip(&sound[offset..]);
        let wrong: u32 = read.map(|(read, was)| (read ^ was).count_ones()).sum();
        assert_eq!(wrong, 1, "round {round}");
        let place = bytes
            .iter()
            .zip(&sound[offset..])
            .position(|(read, was)| read != was);
        places.insert(place);
        assert_eq!(mem.read_file(&file()).unwrap(), sound, "round {round}");
    }
    assert!(
        places.len() > 50,
        "always at the same few places: {}",
        places.len()
    );
    // Whatever else is called passes, and so does everything where there is no memory to flip.
    assert!(faults.exists(&file()).unwrap());
    reader.read_exact_at(&mut [], 0).unwrap();
    let elsewhere = FaultFs::new(Arc::new(mem.clone()));
    elsewhere.inject(Rule::every(Fault::Flip));
    let mut bytes = vec![0; 5_000];
    elsewhere
        .open_read(&file())
        .unwrap()
        .read_exact_at(&mut bytes, 0)
        .unwrap();
    assert_eq!((bytes, elsewhere.fired()), (sound, 2));
}

#[test]
fn only_a_sync_that_fails_over_memory_loses_pages() {
    let mem = MemFs::new();
    mem.write_file(&file(), b"old").unwrap();
    let faults = FaultFs::over_mem(&mem);
    let writer = faults.open_write(&file()).unwrap();
    faults.inject(Rule::every(Fault::Io).times(1));
    writer.write_at(0, b"new").unwrap_err();
    assert!(!faults.lost_pages());
    faults.inject(Rule::every(Fault::Io).times(1));
    writer.sync_all().unwrap_err();
    assert!(faults.lost_pages());
    faults.heal();
    assert!(faults.lost_pages(), "healing brings nothing back");
    faults.reset();
    assert!(!faults.lost_pages());
}

/// What is left of a file whose third call, a sync, fails on the device of this seed.
fn left_of(seed: u64) -> Vec<u8> {
    let mem = MemFs::new();
    mem.write_file(&file(), &[1; 40 * 512]).unwrap();
    let faults = FaultFs::over_device(&mem, seed);
    faults.fail_call(3, Fault::Io);
    let writer = faults.open_write(&file()).unwrap();
    writer.write_at(0, &[2; 40 * 512]).unwrap();
    writer.sync_all().unwrap_err();
    mem.read_file(&file()).unwrap()
}

#[test]
fn what_the_same_failed_sync_takes_follows_from_the_seed_of_the_device() {
    let all: std::collections::BTreeSet<_> = (0..20).map(left_of).collect();
    assert_eq!(all.len(), 20, "each seed takes other pages");
    assert!((0..20).all(|seed| left_of(seed) == left_of(seed)));
}

#[test]
fn every_operation_can_be_aimed_at_and_no_other_is_met() {
    for operation in Operation::ALL {
        let faults = FaultFs::over_mem(&MemFs::new());
        faults.inject(Rule::every(Fault::Io).of(operation));
        let failed = |outcome: Result<()>| u64::from(outcome.is_err());
        let mut failures = 0;
        let path = file();
        failures += failed(faults.create_dir_all(Path::new("/dir")));
        match faults.create(&path) {
            Ok(mut new) => {
                failures += failed(new.append(b"0123456789"));
                failures += failed(new.write_at(0, b"01"));
                failures += failed(new.allocate(4096));
                failures += failed(new.set_len(4096));
                failures += failed(new.sync_data());
                failures += failed(new.sync_all());
            }
            Err(_) => {
                failures += 1;
                faults.inner.create(&path).unwrap().allocate(4096).unwrap();
            }
        }
        // Where a fault kept it from having its space.
        faults
            .inner
            .open_write(&path)
            .unwrap()
            .allocate(4096)
            .unwrap();
        failures += failed(faults.open_write(&path).map(drop));
        match faults.open_read(&path) {
            Ok(reader) => failures += failed(reader.read_exact_at(&mut [0; 4], 0)),
            Err(_) => failures += 1,
        }
        match faults.map_append(&path, 4096) {
            Ok(map) => failures += failed(map.sync_data()),
            Err(_) => failures += 1,
        }
        failures += failed(faults.read_dir(Path::new("/")).map(drop));
        failures += failed(faults.exists(&path).map(drop));
        failures += failed(faults.len(&path).map(drop));
        failures += failed(faults.lock(Path::new("/LOCK")).map(drop));
        failures += failed(faults.identity(&path).map(drop));
        failures += failed(faults.hard_link(&path, Path::new("/second")));
        failures += failed(faults.sync_dir(Path::new("/")));
        failures += failed(faults.rename(&path, Path::new("/third")));
        let left = if operation == Operation::Rename {
            &path
        } else {
            Path::new("/third")
        };
        failures += failed(faults.remove(left));
        assert_eq!((failures, faults.fired()), (1, 1), "{operation:?}");
    }
}
