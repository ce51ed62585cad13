//! The campaign `same-answers`, small; and that it notices an operation that was left out.

use std::sync::Arc;
use velella_reliability::campaign::{self, Campaign, Plan};
use velella_reliability::same_answers::{SameAnswers, compare, sequence, settings};
use velella_reliability::workload::{Operation, World, answers};
use velella_testkit::Seed;

#[test]
fn the_same_operations_give_the_same_answers_under_all_settings() {
    let plan = Plan {
        first: 1,
        runs: 4,
        limit: None,
        run_limit: std::time::Duration::from_secs(400),
        threads: 2,
    };
    let campaign: Arc<dyn Campaign> = Arc::new(SameAnswers::default());
    let outcome = campaign::run(&campaign, &plan, &|_| {});
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome.tally.of("pairs"), 16);
}

#[test]
fn an_operation_left_out_under_one_setting_is_noticed() {
    let mut noticed = 0;
    for number in 1..=4 {
        let mut seed = Seed::new("left_out", number);
        let operations = sequence(&mut seed);
        let (one, other) = (settings(&mut seed), settings(&mut seed));
        let expected = answers(&one, &operations).unwrap();
        // A write in the first half that the rest can notice.
        let write = operations
            .iter()
            .position(|one| matches!(one, Operation::Batch(..)));
        let mut world = World::new(&other).unwrap();
        world.sabotage = write.map(|at| u32::try_from(at + 1).unwrap());
        let found: Vec<_> = operations
            .iter()
            .map(|one| world.answer(one).unwrap())
            .collect();
        noticed += u32::from(compare(&operations, &found, &expected, &other, "it").is_err());
    }
    assert_eq!(noticed, 4);
}
