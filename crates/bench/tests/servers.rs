//! The comparison of servers runs whole, with real programs; where Redis is not installed it says
//! so.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use velella_bench::failure::Failure;
use velella_bench::servers::{Servers, Test, table};

/// `velella`, built beside the program under test.
fn velella() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_velella-bench")).with_file_name("velella")
}

fn servers(dir: &Path) -> Servers {
    Servers {
        velella: velella(),
        redis: PathBuf::from("redis-server"),
        client: PathBuf::from("redis-benchmark"),
        rounds: 2,
        tests: vec![Test::Get, Test::Mset],
        pipelines: vec![1, 8],
        connections: 5,
        requests: 500,
        keys: 1_000,
        value_bytes: 20,
        dir: dir.to_owned(),
    }
}

fn is_installed(program: &str) -> bool {
    let asked = std::process::Command::new(program)
        .arg("--version")
        .output();
    asked.is_ok_and(|output| output.status.success())
}

/// Whether all programs are there; says which are not.
fn is_there() -> bool {
    let programs = ["redis-server", "redis-benchmark"];
    let missing = programs
        .into_iter()
        .filter(|program| !is_installed(program));
    let mut missing: Vec<&str> = missing.collect();
    if !velella().exists() {
        missing.push("velella");
    }
    if !missing.is_empty() {
        eprintln!("SKIPPED: {} cannot be run here", missing.join(", "));
    }
    missing.is_empty()
}

#[test]
fn both_servers_are_measured_in_turns_and_lose_nothing() {
    if !is_there() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let begun = RefCell::new(Vec::new());
    let rows = servers(dir.path())
        .run(&|what| begun.borrow_mut().push(what.to_owned()))
        .unwrap();
    assert_eq!(rows.len(), 16, "two of each");
    assert!(rows.iter().all(|row| row.measured.rate > 0.0));
    let told = rows.iter().all(|row| row.cpu_us.is_some());
    assert_eq!(told, cfg!(target_os = "linux"));
    let first: Vec<&str> = rows.iter().step_by(4).map(|row| row.server).collect();
    assert_eq!(first, ["velella", "redis", "redis", "velella"]);
    assert_eq!(begun.borrow().len(), rows.len() + 4, "four loads");
    let mut text = Vec::new();
    table(&rows).print(&mut text).unwrap();
    assert_eq!(String::from_utf8(text).unwrap().lines().count(), 5);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "removed");
}

/// A program that starts Redis with an option more.
fn redis_with(dir: &Path, option: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let program = dir.join("redis");
    let text = format!("#!/bin/sh\nexec redis-server \"$@\" {option}\n");
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

#[test]
fn a_server_that_loses_keys_or_answers_with_errors_has_no_figures() {
    if !is_there() {
        return;
    }
    let programs = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut servers = servers(dir.path());
    servers.redis = redis_with(programs.path(), "--appendonly no");
    let failure = servers.run(&|_| {}).unwrap_err();
    assert!(
        matches!(failure, Failure::WrongAnswer { .. }),
        "{failure:?}"
    );
    assert!(
        failure.to_string().contains("and 0 afterwards"),
        "{failure}"
    );
    servers.redis = redis_with(programs.path(), "--maxmemory 1");
    let failure = servers.run(&|_| {}).unwrap_err();
    assert!(matches!(failure, Failure::Store { .. }), "{failure:?}");
    assert!(failure.to_string().contains("OOM"), "{failure}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "removed");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut servers = servers(dir.path());
    servers.velella = dir.path().join("no-such-program");
    let failure = servers.run(&|_| {}).unwrap_err();
    assert!(matches!(failure, Failure::System { .. }), "{failure:?}");
    let text = failure.to_string();
    assert!(
        text.contains("no-such-program") && text.contains("--velella"),
        "{text}"
    );
}
