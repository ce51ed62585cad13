//! The campaign `fuzz`, small; and that it notices a decoder that breaks.

use std::sync::Arc;
use velella_reliability::campaign::{self, Campaign, Plan};
use velella_reliability::fuzz::Fuzz;
use velella_reliability::targets::{ALL, Target};

fn fuzz(campaign: Fuzz) -> Arc<dyn Campaign> {
    Arc::new(campaign)
}

fn plan(first: u64, runs: u64) -> Plan {
    Plan {
        first,
        runs,
        limit: None,
        run_limit: std::time::Duration::from_secs(400),
        threads: 2,
    }
}

/// Trusts a length.
fn careless(bytes: &[u8]) {
    if let Some((&[a, b], rest)) = bytes.split_first_chunk::<2>() {
        let len = usize::from(u16::from_le_bytes([a, b]));
        assert!(
            len < 0x7ffe || rest.len() < 2 || rest[..2] != *b"ok",
            "a length was believed"
        );
    }
}

const CARELESS: &[Target] = &[Target {
    name: "careless",
    about: "control",
    run: careless,
    share: 20_000,
    words: &[b"ok"],
}];

#[test]
fn a_run_on_each_target_holds() {
    let runs = ALL.len() as u64;
    let outcome = campaign::run(&fuzz(Fuzz::default()), &plan(1, runs), &|_| {});
    assert_eq!(outcome.failure, None);
    for target in ALL {
        assert!(
            outcome.tally.of(target.name) > 0,
            "{target:?} was not executed"
        );
    }
}

#[test]
fn a_decoder_that_breaks_is_noticed_with_a_short_input() {
    let outcome = campaign::run(&fuzz(Fuzz::of(CARELESS)), &plan(1, 200), &|_| {});
    let failure = outcome.failure.unwrap();
    assert!(
        failure.what.contains("a length was believed"),
        "{failure:?}"
    );
    let input = failure.what.rsplit(' ').next().unwrap();
    assert_eq!(input.len(), 8, "four bytes are enough: {failure:?}");
}
