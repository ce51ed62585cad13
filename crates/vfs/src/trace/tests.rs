//! A trace has a line and a count for every call, and the contract is kept under it.

use super::*;
use crate::contract;
use crate::fault::{Fault, FaultFs, Rule};
use crate::mem::MemFs;

#[test]
fn a_traced_file_system_keeps_the_contract() {
    let trace = TraceFs::counting(Arc::new(MemFs::new()));
    contract::run(&trace, Path::new("/"));
    for (operation, count) in Operation::ALL.map(|operation| (operation, trace.count(operation))) {
        assert!(count.calls > 0, "{operation:?} is not in the contract");
    }
    assert!(trace.take().is_empty(), "only counting was asked for");
}

#[test]
fn every_call_leaves_one_line() {
    let mem = MemFs::new();
    let root = Path::new("/db");
    let trace = TraceFs::new(Arc::new(mem), root);
    trace.create_dir_all(root).unwrap();
    let mut table = trace.create(&root.join("000042.sst")).unwrap();
    table.append(&[0; 4096]).unwrap();
    table.write_at(512, &[1; 100]).unwrap();
    table.allocate(8192).unwrap();
    table.set_len(4096).unwrap();
    table.sync_data().unwrap();
    table.sync_all().unwrap();
    trace.sync_dir(root).unwrap();
    let map = trace.map_append(&root.join("000042.sst"), 4096).unwrap();
    map.populate(0, 4096);
    Arc::clone(&map).window(0, 8).unwrap().write(0, b"unseen");
    map.sync_data().unwrap();
    trace
        .rename(&root.join("000042.sst"), Path::new("/elsewhere"))
        .unwrap();
    assert!(trace.remove(&root.join("000042.sst")).is_err());
    assert_eq!(
        trace.take(),
        [
            "create_dir .",
            "create 000042.sst",
            "append 000042.sst 4096",
            "write 000042.sst @512 100",
            "allocate 000042.sst @8192",
            "set_len 000042.sst @4096",
            "sync_data 000042.sst",
            "sync_all 000042.sst",
            "sync_dir .",
            "map 000042.sst @4096",
            "sync_map 000042.sst",
            "rename 000042.sst /elsewhere",
            "remove 000042.sst !",
        ]
    );
    assert!(trace.take().is_empty());
}

#[test]
fn calls_are_counted_failed_or_not_and_bytes_only_if_moved() {
    let faults = FaultFs::over_mem(&MemFs::new());
    let trace = TraceFs::counting(Arc::new(faults.clone()));
    let mut file = trace.create(Path::new("/file")).unwrap();
    file.append(b"four").unwrap();
    faults.inject(Rule::every(Fault::Io).of(Operation::Append));
    file.append(b"seven..").unwrap_err();
    let count = |calls, bytes| Count { calls, bytes };
    assert_eq!(
        trace.counts(),
        [
            (Operation::Create, count(1, 0)),
            (Operation::Append, count(2, 4)),
        ]
    );
}
