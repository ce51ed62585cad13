//! What the tests of campaigns share: a small run, and a control.

use std::sync::Arc;
use std::time::Duration;
use velella_reliability::campaign::{self, Campaign, Outcome, Plan};
use velella_testkit::{Watchdog, scale};

fn run(campaign: &Arc<dyn Campaign>, first: u64, runs: u64) -> Outcome {
    let _watchdog = Watchdog::new(campaign.name(), 500);
    let plan = Plan {
        first,
        runs,
        limit: None,
        run_limit: Duration::from_secs(400),
        threads: 2,
    };
    campaign::run(campaign, &plan, &|_| {})
}

/// A campaign that holds for these seeds, and does count something.
pub(crate) fn holds(campaign: impl Campaign + 'static, first: u64, runs: u64) {
    let campaign: Arc<dyn Campaign> = Arc::new(campaign);
    let outcome = run(&campaign, first, scale(runs));
    println!("{}: {:?}", campaign.name(), outcome.tally);
    assert_eq!(outcome.failure, None);
    assert!(outcome.tally.of(campaign.unit()) > 0);
}

/// A control: within these seeds a failure is reported.
pub(crate) fn is_reported(campaign: impl Campaign + 'static, runs: u64) {
    let failure = run(&(Arc::new(campaign) as Arc<dyn Campaign>), 1, runs).failure;
    println!("{failure:?}");
    assert!(failure.is_some(), "the fault put in was not noticed");
}
