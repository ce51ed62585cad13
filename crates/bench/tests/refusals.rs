//! What a run refuses: unequal durability, names nobody has, stores that were not built in.

use std::path::PathBuf;
use std::process::{Command, Output};
use velella_bench::catalogue::{self, Benchmark, Changes};
use velella_bench::failure::Failure;
use velella_bench::result::Measurement;
use velella_bench::session::{Session, Watch};
use velella_bench::store::Durability;
use velella_bench::stores;

struct Silent;

impl Watch for Silent {
    fn begun(&self, _: (u64, u64), _: u64, _: &str, _: &str) {
        panic!("nothing may begin");
    }
    fn progress(&self, _: u64, _: u64) {}
    fn measured(&self, _: &Measurement) {}
    fn failed(&self, _: &Failure) {}
}

fn session(names: &[&str], peers: &[&str], durability: Option<Durability>) -> Session {
    Session {
        benchmarks: names
            .iter()
            .flat_map(|name| catalogue::named(name).unwrap())
            .collect(),
        peers: Some(peers.iter().map(|peer| (*peer).to_owned()).collect()),
        threads: vec![1],
        rounds: 1,
        dir: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
        changes: Changes {
            durability,
            ..Changes::default()
        },
        instructions: false,
        command: String::new(),
    }
}

#[test]
fn unequal_durability_is_refused_before_anything_runs() {
    let refused = session(&["get"], &["memtable:jellyfish"], None)
        .run(&Silent)
        .unwrap_err();
    assert_eq!(
        refused,
        Failure::UnequalDurability {
            store: "memtable:jellyfish".to_owned(),
            asked: Durability::Process,
            offers: vec![Durability::None],
        }
    );
    let text = refused.to_string();
    assert!(
        text.contains("`process`") && text.contains("leave it out"),
        "{text}"
    );
    let device = session(&["get"], &["inplace"], Some(Durability::Device));
    assert!(matches!(
        device.run(&Silent),
        Err(Failure::UnequalDurability { .. })
    ));
}

#[test]
fn a_closed_loop_keeps_no_given_rate() {
    let at_a_rate = |names: &[&str]| {
        let mut session = session(names, &[], None);
        session.changes.rate = Some(1000);
        session.run(&Silent).unwrap_err()
    };
    let refused = Failure::ClosedLoop {
        benchmark: "get".to_owned(),
    };
    assert_eq!(at_a_rate(&["get"]), refused);
    assert_eq!(at_a_rate(&["tail", "get"]), refused);
    let output = bench(&["run", "get", "--alone", "--rate", "1000"]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("--rate") && told.contains("tail"), "{told}");
}

#[test]
fn what_does_a_number_of_operations_is_not_run_for_a_time() {
    let for_seconds = |names: &[&str]| {
        let mut session = session(names, &[], None);
        session.changes.seconds = Some(1.0);
        session.run(&Silent).unwrap_err()
    };
    let refused = Failure::Counted {
        benchmark: "get".to_owned(),
    };
    assert_eq!(for_seconds(&["get"]), refused);
    assert_eq!(for_seconds(&["tail", "open-after-kill", "get"]), refused);
    let output = bench(&["run", "get", "--alone", "--seconds", "1"]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.contains("--seconds") && told.contains("--operations"),
        "{told}"
    );
}

#[test]
fn a_benchmark_of_one_thread_is_refused_with_several() {
    let with = |names: &[&str], threads: &[u64]| {
        let mut session = session(names, &[], None);
        session.threads = threads.to_vec();
        session.run(&Silent).unwrap_err()
    };
    let refused = Failure::OneThread {
        benchmark: "versions.scan".to_owned(),
    };
    assert_eq!(with(&["versions.scan"], &[2]), refused);
    assert_eq!(with(&["get", "versions.scan"], &[1, 2]), refused);
    let output = bench(&["run", "versions.scan", "--alone", "--threads", "2"]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.contains("versions.scan") && told.contains("--threads"),
        "{told}"
    );
}

#[test]
fn baselines_that_nobody_named_are_refused_too() {
    let with_memory = Benchmark {
        baselines: &["inplace"],
        peers: false,
        ..*catalogue::named("get").unwrap()[0]
    };
    let mut asked = session(&[], &[], None);
    asked.benchmarks = vec![Box::leak(Box::new(with_memory))];
    asked.peers = None;
    let refused = asked.run(&Silent).unwrap_err();
    assert!(
        matches!(refused, Failure::UnequalDurability { .. }),
        "{refused}"
    );
}

#[test]
fn a_store_that_was_not_built_in_says_how_to_build_it() {
    let built = |name: &str| stores::built().iter().any(|peer| peer.name() == name);
    for name in ["rocksdb", "lmdb", "leveldb"] {
        if !built(name) {
            let refused = session(&["get"], &[name], None).run(&Silent).unwrap_err();
            assert!(
                refused.to_string().contains(&format!("--features {name}")),
                "{refused}"
            );
        }
    }
    let refused = session(&["get"], &["oracle"], None)
        .run(&Silent)
        .unwrap_err();
    assert!(matches!(refused, Failure::Unknown { .. }), "{refused}");
}

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_velella-bench"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn a_refused_run_ends_with_1_and_prints_no_figures() {
    let output = bench(&["run", "get", "--peers", "inplace"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("durability"));
    let output = bench(&["run", "got"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no benchmark"));
    assert_eq!(
        bench(&["run", "get", "--rounds", "0"]).status.code(),
        Some(2)
    );
}

#[test]
fn the_list_explains_every_benchmark_with_its_source() {
    let output = bench(&["list"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for one in catalogue::all() {
        for part in [one.name, one.about, one.source] {
            assert!(text.contains(part), "{part}");
        }
    }
}
