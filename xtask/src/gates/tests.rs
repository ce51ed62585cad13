//! Gates asked of made-up ledgers, and whether the campaigns are as their sessions have it.

use super::*;
use crate::workspace::Workspace;
use std::path::PathBuf;

fn line(campaign: &str, runs: u64, checked: u64, seconds: u64, verdict: &str) -> String {
    from(5, campaign, runs, checked, seconds, verdict)
}

fn from(seed: u64, campaign: &str, runs: u64, checked: u64, seconds: u64, verdict: &str) -> String {
    format!("d\tc\tG\t{campaign}\t{seed}\t{runs}\tu\t{checked}\t0\t{verdict}\t{seconds}\tagain")
}

fn reached(campaign: &str, measure: Measure, asked: u64, lines: &[String]) -> Reached {
    let rows: Vec<Row> = lines.iter().map(|line| Row::of(line).unwrap()).collect();
    let gate = Gate {
        goal: "G",
        campaign: campaign.to_owned(),
        measure,
        unit: "u",
        asked,
        sources: storage(),
    };
    let of: Vec<&Row> = rows.iter().filter(|row| gate.is_of(row.campaign)).collect();
    gate.reached(&of)
}

#[test]
fn what_held_is_added_up_and_what_failed_is_told() {
    let lines = [
        line("kill -9, in memory", 10, 100, 59, "held"),
        line("kill -9, on disk", 5, 50, 61, "held"),
        line("kill -9, on disk", 7, 70, 60, "FAILED"),
        line("kill -9, on disk", 9, 90, 60, "unfinished"),
        line("power-loss-in-recovery", 1, 1, 1, "held"),
    ];
    let of = |measure, asked| reached("kill -9", measure, asked, &lines);
    assert_eq!(
        (of(Measure::Runs, 15).sum, of(Measure::Runs, 15).failed),
        (15, 1)
    );
    assert_eq!(of(Measure::Checked, 1).sum, 150);
    assert_eq!(of(Measure::Minutes, 1).sum, 2);
    assert!(!of(Measure::Runs, 15).holds(), "one failed");
    let none = reached("power-loss", Measure::Checked, 1, &lines);
    assert_eq!(
        (none.sum, none.holds()),
        (0, false),
        "another attack's name"
    );
    let text = table(&[of(Measure::Checked, 1_500_000)]);
    assert!(
        text.contains("1,500,000") && text.contains("1 FAILED"),
        "{text}"
    );
}

#[test]
fn a_gate_holds_when_it_is_reached() {
    let known: Vec<String> = check::recorded().take(2).collect();
    let lines = [
        line(&known[0], 1, 3, 1, "held"),
        line(&known[0], 1, 3, 1, "held"),
        line(&known[1], 1, 3, 1, "held"),
        line(
            "check of something that is checked otherwise now",
            1,
            0,
            1,
            "FAILED",
        ),
    ];
    let of = |asked| reached("check ", Measure::Campaigns, asked, &lines);
    assert_eq!(of(2).sum, 2);
    assert!(of(2).holds() && !of(3).holds());
}

#[test]
fn of_a_check_the_newest_commit_decides() {
    let known = check::recorded().next().unwrap();
    let at = |commit: &str, verdict: &str| {
        let line = line(&known, 1, 3, 1, verdict);
        line.replacen("\tc\t", &format!("\t{commit}\t"), 1)
    };
    let of = |lines: &[String]| {
        let reached = reached("check ", Measure::Campaigns, 1, lines);
        (reached.sum, reached.failed)
    };
    let (held, failed) = (at("a", "held"), at("a", "FAILED"));
    assert_eq!(of(&[failed.clone(), at("b", "held")]), (1, 0), "mended");
    assert_eq!(of(&[held.clone(), at("b", "FAILED")]), (0, 1));
    assert_eq!(of(&[failed, held]), (0, 1), "run again at the same commit");
}

#[test]
fn what_loom_met_is_mended_where_another_commit_goes_as_far() {
    let at = |campaign: &str, seconds: u64, commit: &str, verdict: &str| {
        let line = line(campaign, 1, 3, seconds, verdict);
        line.replacen("\tc\t", &format!("\t{commit}\t"), 1)
    };
    let failed = |gate: &str, lines: &[String]| reached(gate, Measure::Minutes, 0, lines).failed;
    let first = || at("loom", 60, "a", "FAILED");
    assert_eq!(failed("loom", &[first(), at("loom", 60, "b", "held")]), 0);
    for other in [
        at("loom", 60, "a", "held"),
        at("loom", 59, "b", "held"),
        at("loom", 60, "b", "unfinished"),
        at("loom, 2 preemptions more", 60, "b", "held"),
    ] {
        assert_eq!(failed("loom", &[first(), other.clone()]), 1, "{other}");
    }
    assert_eq!(failed("loom", &[at("loom", 60, "b", "held"), first()]), 1);
    let drawn = [at("tsan", 1, "a", "FAILED"), at("tsan", 1, "b", "held")];
    assert_eq!(failed("tsan", &drawn), 1, "the next draws others");
}

#[test]
fn what_is_asked_whole_is_not_reached_by_half_of_it_twice() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for name in ["every-crash-point", "faults", "corruption-of-every-bit"] {
        let gate = || {
            let gates = gates(root).unwrap().into_iter();
            gates
                .into_iter()
                .find(|gate| gate.campaign == name)
                .unwrap()
        };
        let asked = gate().asked;
        let half = asked.div_ceil(2);
        let of = |seeds: &[u64], verdict: &str| {
            let line = |seed: &u64| from(*seed, name, half, 1, 1, verdict);
            let lines: Vec<String> = seeds.iter().map(line).collect();
            let rows: Vec<Row> = lines.iter().map(|line| Row::of(line).unwrap()).collect();
            gate().reached(&rows.iter().collect::<Vec<_>>()).sum
        };
        assert_eq!(of(&[1, 1], "held"), half, "{name}");
        assert_eq!(of(&[1, half + 1], "held"), asked, "{name}");
        assert_eq!(of(&[1, half + 1], "FAILED"), 0, "{name}");
    }
}

/// The modules of its own crate that a file names.
fn uses(text: &str) -> Vec<&str> {
    let named = text.split("crate::").skip(1);
    let module = |rest: &str| rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    named
        .filter_map(|rest| Some(&rest[..module(rest)?]))
        .collect()
}

#[test]
fn what_targets_reach_of_a_crate_is_all_that_it_uses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (target, sources) in REACHED {
        // Not whole crates of storage.
        for source in sources.iter().filter(|source| !source.ends_with("/src")) {
            let (own, _) = source.split_once("/src/").unwrap();
            let (own, path) = (format!("{own}/src"), root.join(source));
            let mut files = vec![path.clone()];
            if path.is_dir() {
                let found = std::fs::read_dir(&path).unwrap();
                files = found.map(|entry| entry.unwrap().path()).collect();
            }
            let is_code = |file: &&PathBuf| file.is_file() && !file.ends_with("tests.rs");
            for file in files.iter().filter(is_code) {
                let text = std::fs::read_to_string(file).unwrap();
                for module in uses(&text) {
                    let module = format!("{own}/{module}");
                    let is_listed = |source: &&str| source.trim_end_matches(".rs") == module;
                    assert!(sources.iter().any(is_listed), "{target} reaches {module}");
                }
            }
        }
    }
    let beside = |target: &str| reached_by(target).contains(&"crates/server/src".to_owned());
    assert!(beside("commands") && !beside("operations"));
    assert_eq!(reached_by("operations"), storage());
}

#[test]
fn sessions_are_those_of_the_campaigns() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let campaigns = root.join("crates/reliability/src/campaigns");
    for (file, told) in [
        (
            "every_crash_point.rs",
            "assert_eq!((SHORT, all.len() as u64), (3_775, SHORT))",
        ),
        ("every_crash_point.rs", "const LONG: u64 = 20;"),
        ("every_crash_point.rs", "number / ALL % 3"),
        ("faults.rs", "const WORKLOADS: u64 = 20;"),
        ("faults.rs", "const STRIDE: u64 = 1_000;"),
        ("faults.rs", "(workload, number / WORKLOADS % STRIDE)"),
        ("corruption.rs", "const STRIDE: usize = 3_000;"),
        ("corruption.rs", "const VICTIM: u64 = 8 * PASS;"),
        ("corruption.rs", "self.victim(from_zero / VICTIM)"),
    ] {
        let text = std::fs::read_to_string(campaigns.join(file)).unwrap();
        assert!(text.contains(told), "{file} has no `{told}` any more");
    }
}

#[test]
fn a_commit_counts_while_its_sources_are_those_of_the_tree() {
    let root = std::env::temp_dir().join(format!("velella-gates-{}", std::process::id()));
    std::fs::create_dir_all(&root).unwrap();
    let git = |arguments: &[&str]| {
        let known = ["-c", "user.name=a", "-c", "user.email=a@b"];
        let mut git = Command::new("git");
        // Whatever the machine's settings ask of a commit, a signature for instance.
        git.envs([
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
        ]);
        let output = git.current_dir(&root).args(known).args(arguments).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let write = |file: &str, text: &str| std::fs::write(root.join(file), text).unwrap();
    std::fs::create_dir_all(root.join("crates/a/src/part")).unwrap();
    std::fs::create_dir_all(root.join("crates/a/src/contract")).unwrap();
    let (attacked, tests) = ("crates/a/src/part.rs", "crates/a/src/part/tests.rs");
    let suite = "crates/a/src/contract/part.rs";
    write(attacked, "1");
    write(tests, "1");
    write(suite, "1");
    write("other", "1");
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "one"]);
    let head = git(&["rev-parse", "--short=12", "HEAD"]);
    // Whatever git might take that name for.
    git(&["branch", &format!("{head}{DIRTY}")]);
    let is_same = |commit: &str| is_same(&root, commit, &["crates/a/src".to_owned()]);
    write("other", "2");
    write(tests, "2");
    write(suite, "2");
    assert!(is_same(&head));
    assert!(!is_same(&format!("{head}{DIRTY}")) && !is_same("0123456789ab"));
    write(attacked, "2");
    assert!(!is_same(&head));
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn files_of_tests_are_in_no_product() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let workspace = Workspace::load(root).unwrap();
    let paths = workspace.sources().map(|source| source.path.as_str());
    let modules: Vec<&str> = paths
        .filter_map(|path| path.strip_suffix("/tests.rs"))
        .collect();
    assert!(modules.len() > 20, "{modules:?}");
    for module in modules {
        let parents = [".rs", "/mod.rs", "/lib.rs"].map(|end| root.join(format!("{module}{end}")));
        let parent = parents.iter().find(|parent| parent.is_file()).unwrap();
        let text = std::fs::read_to_string(parent).unwrap();
        let (before, _) = text.split_once("\nmod tests;").unwrap();
        let mut attributes = before
            .lines()
            .rev()
            .take_while(|line| line.starts_with("#["));
        let is_test = |line: &str| line == "#[cfg(test)]" || line.starts_with("#[cfg(all(test,");
        assert!(attributes.any(is_test), "{module}");
    }
}

/// That no product asks for the feature is looked at by `tidy` (its rule `layers`).
#[test]
fn suites_of_contracts_are_behind_a_feature() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let workspace = Workspace::load(root).unwrap();
    let mut suites = 0;
    for library in workspace
        .crates
        .iter()
        .filter_map(|found| found.source("src/lib.rs"))
    {
        let Some((before, _)) = library.text.split_once("mod contract;") else {
            continue;
        };
        let condition = before.lines().rev().nth(1).unwrap();
        let asked = [
            "#[cfg(feature = \"contract\"",
            "#[cfg(any(test, feature = \"contract\"",
        ];
        let is_asked = asked.iter().any(|begin| condition.starts_with(begin));
        assert!(is_asked, "{}", library.path);
        suites += 1;
    }
    assert!(suites > 2, "{suites}");
}

#[test]
fn what_is_attacked_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let targets = soak::targets(root).unwrap();
    for (target, sources) in REACHED {
        assert!(targets.iter().any(|name| name == target), "{target}");
        assert!(
            sources.iter().all(|source| root.join(source).exists()),
            "{target}"
        );
    }
    assert!(storage().iter().all(|source| root.join(source).exists()));
}

#[test]
fn a_fault_that_was_not_caught_is_no_catch() {
    let line = |verdict| format!("d\tc\ta-fault\t{verdict}\t0.1\tby");
    assert_eq!(verdict(&line("caught (hung)")), Some(("c", true)));
    assert_eq!(verdict(&line("NOT CAUGHT")), Some(("c", false)));
}

#[test]
fn the_ledger_of_this_repository_can_be_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = ledger::read(&root.join(LEDGER)).unwrap();
    let lines = text.lines().skip(1);
    assert!(lines.clone().all(|line| Row::of(line).is_some()));
    let known = gates(root).unwrap();
    let of = |name: &str| {
        lines.clone().filter_map(Row::of).any(|row| {
            let gate = known.iter().find(|gate| gate.campaign == name).unwrap();
            gate.is_of(row.campaign)
        })
    };
    for name in [
        "kill -9",
        "power-loss",
        "faults",
        "histories",
        "same-answers",
    ] {
        assert!(of(name), "{name}");
    }
}
