//! The campaign `histories`, small; and that its checkers can say no.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use velella::vfs::MemFs;
use velella::{Db, Stamp};
use velella_reliability::campaign::{Plan, run};
use velella_reliability::history::checker::{self, Before};
use velella_reliability::history::clients::Stage;
use velella_reliability::history::event::{Event, Version, What};
use velella_reliability::history::expiry::expires;
use velella_reliability::history::export;
use velella_sync::{spot, thread};
use velella_testkit::{Seed, Watchdog, patience, scale};

#[test]
fn histories_are_what_their_stamps_say_across_crashes_too() {
    let _watchdog = Watchdog::new("histories", 500);
    let all = velella_reliability::all();
    let campaign = all.iter().find(|one| one.name() == "histories").unwrap();
    let never = || -> Vec<_> {
        let places = spot::PLACES.iter();
        places
            .filter(|(place, _)| spot::hits(*place) == 0)
            .collect()
    };
    // Wherever a thread may lose its processor, some shall: in a few dozen histories most often.
    for part in 0..8 {
        let plan = Plan {
            first: 1 + part * scale(40),
            runs: scale(40),
            limit: None,
            run_limit: patience(Duration::from_secs(400)),
            threads: 1,
        };
        let outcome = run(campaign, &plan, &|_| {});
        assert_eq!(outcome.failure, None);
        assert!(outcome.tally.of("operations") > 20_000, "{outcome:?}");
        if never().is_empty() {
            return;
        }
    }
    panic!("nobody came by {:?}", never());
}

fn history() -> Vec<Event> {
    let db = Db::builder()
        .vfs(std::sync::Arc::new(MemFs::new()))
        .open("/db")
        .unwrap();
    let clock = AtomicU64::new(1);
    let mut stage = Stage::new(&db, &clock).unwrap();
    stage.expires_at_ms = Some(thread::wall_ms() + 3);
    stage.run(4, 300, &Seed::silent(5)).unwrap()
}

/// Control: what a faulty store would have said is refused, whatever is falsified.
#[test]
fn a_falsified_history_is_refused() {
    let events = history();
    assert_eq!(checker::check(&Before::new(), &events), Ok(()));
    let mut refused = BTreeMap::new();
    for place in 0..events.len() {
        let mut falsified = events.clone();
        let kind = match &mut falsified[place].what {
            What::Got { value, .. } if value.is_some() => {
                *value = Some(b"never written".to_vec());
                "get"
            }
            What::Strict { values } => {
                values.insert(0, Some(b"never written".to_vec()));
                "strict"
            }
            What::Based { bases, .. } => {
                let base = bases.values_mut().next().unwrap();
                *base = Some((Stamp(0), b"never written".to_vec()));
                "base"
            }
            What::Swapped { base, .. } => {
                *base = Some((Stamp(0), b"never written".to_vec()));
                "swap"
            }
            What::Scanned { asked, pairs } => {
                pairs.retain(|(key, _)| *key != asked[0]);
                pairs.insert(0, (asked[0], b"never written".to_vec()));
                "scan"
            }
            What::Saw { state, .. } | What::SawAgain { state, .. } => {
                state.insert(1, b"never written".to_vec());
                "snapshot"
            }
            What::Wrote { stamp, .. } => {
                stamp.0 = 0;
                "stamp"
            }
            // The checker's own tests have these.
            What::Got { .. } | What::Refused { .. } | What::Counted { .. } | What::Expired => {
                continue;
            }
        };
        let verdict = checker::check(&Before::new(), &falsified);
        assert!(verdict.is_err(), "{kind}: {:?}", falsified[place]);
        *refused.entry(kind).or_insert(0) += 1;
    }
    assert_eq!(refused.len(), 7, "{refused:?}");
}

#[test]
fn an_exported_history_has_a_line_for_each_key_of_each_operation() {
    let events = history();
    let mut lines = Vec::new();
    export::write(7, &events, &mut lines).unwrap();
    let text = String::from_utf8(lines).unwrap();
    let mut swaps = 0;
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["history"], 7);
        assert!(line["call"].as_u64() < line["return"].as_u64());
        swaps += u64::from(line["kind"] == "swap");
    }
    let based = |event: &Event| match &event.what {
        What::Based { bases, read_at, .. } => {
            // What a batch found that expires is left out (E2).
            let is_told = |base: &&Version| match base {
                Some((_, base)) => read_at.is_none() || !expires(base),
                None => true,
            };
            bases.values().filter(is_told).count() as u64
        }
        What::Swapped { .. } => 1,
        _ => 0,
    };
    assert_eq!(swaps, events.iter().map(based).sum::<u64>());
}

/// Porcupine refused this once: a put whose stamp is of before the time came is published after it.
#[test]
fn what_was_alive_at_a_stamp_is_exported_only_of_before_the_time_came() {
    let value = |text: &str| Some(text.as_bytes().to_vec());
    let event = |begin, end, what| Event {
        client: 0,
        begin,
        end,
        synced: false,
        what,
    };
    let strict = |values: &[(usize, Option<Vec<u8>>)]| What::Strict {
        values: values.iter().cloned().collect(),
    };
    let got = |text: &str| What::Got {
        key: 0,
        value: value(text),
        stamp: Some(Stamp(10)),
    };
    let wrote = |stamp, text: &str| What::Wrote {
        stamp: Stamp(stamp),
        changes: BTreeMap::from([(0, value(text))]),
    };
    let saw = || What::Saw {
        at: Stamp(30),
        state: BTreeMap::from([(0, b"e2".to_vec())]),
    };
    let events = [
        event(1, 2, wrote(10, "old")),
        event(3, 16, wrote(20, "e2")),
        // They wait for that put.
        event(4, 17, saw()),
        event(4, 18, strict(&[(0, value("e2")), (2, None)])),
        event(
            4,
            19,
            What::Scanned {
                asked: vec![0],
                pairs: vec![(0, b"e2".to_vec())],
            },
        ),
        event(10, 11, What::Expired),
        event(12, 13, got("old")),
    ];
    assert_eq!(checker::check(&Before::new(), &events), Ok(()));
    let exported = |events: &[Event]| {
        let mut lines = Vec::new();
        export::write(7, events, &mut lines).unwrap();
        let text = String::from_utf8(lines).unwrap();
        let lines = text.lines().map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            (line["kind"] == "read").then(|| (line["key"].clone(), line["output"].clone()))
        });
        let reads: Vec<_> = lines.flatten().collect();
        let of_key_0 = reads.iter().filter(|(key, _)| *key == 0);
        (
            of_key_0.map(|(_, told)| told.clone()).collect(),
            reads.len(),
        )
    };
    let told: (Vec<serde_json::Value>, usize) = exported(&events);
    assert_eq!(told, (vec!["old".into()], 6));
    // Who ended before, began after, or asked for one key as it is, is asked what he saw.
    for told in [
        event(4, 9, saw()),
        event(4, 9, strict(&[(0, value("e2")), (2, None)])),
        event(4, 17, strict(&[(0, value("e2"))])),
        // Nobody may see it so late.
        event(12, 17, saw()),
    ] {
        let (told, _) = exported(&[event(10, 11, What::Expired), told]);
        assert_eq!(told, ["e2"]);
    }
}
