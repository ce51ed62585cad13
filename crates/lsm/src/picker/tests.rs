//! Choices over tables that exist only as metadata.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test")]

mod leaving;
mod neighbours;

use super::*;
use velella_base::Stamp;
use velella_sst::TableOptions;
use velella_sync::rng::Rng;

fn options() -> TreeOptions {
    TreeOptions {
        level_bytes: 1000,
        ..TreeOptions::new(1, TableOptions::default())
    }
}

fn table(file: u64, smallest: u8, largest: u8, bytes: u64) -> TableMeta {
    TableMeta {
        file,
        bytes,
        kinds: [0, 10, 0, 0, 0, 0, 0],
        smallest: vec![smallest],
        largest: vec![largest],
        ..TableMeta::default()
    }
}

/// Nobody reads but the newest, and it is `wall_ms`.
fn now(wall_ms: u64) -> Retention {
    Retention::newest_only().at_wall(wall_ms)
}

fn shape(levels: &[Vec<TableMeta>]) -> Vec<Vec<&TableMeta>> {
    levels.iter().map(|level| level.iter().collect()).collect()
}

fn busy(choice: &Choice) -> Busy {
    Busy {
        files: choice.files().collect(),
        outputs: vec![choice.output.clone()],
    }
}

#[test]
fn level_0_takes_all_that_overlap_and_what_they_meet() {
    // Newest first; 4 and 1 do not overlap, but 2 joins them.
    let levels = [
        vec![
            table(4, 30, 40, 9),
            table(3, 90, 99, 9),
            table(2, 20, 35, 9),
            table(1, 10, 25, 9),
        ],
        vec![
            table(10, 5, 12, 9),
            table(11, 41, 50, 9),
            table(12, 95, 96, 9),
        ],
    ];
    let choice = pick(&shape(&levels), &Busy::default(), &options(), &now(0)).unwrap();
    assert_eq!(choice.upper, [1, 2, 4]);
    assert_eq!(choice.lower, [10]);
    assert_eq!(
        (&*choice.output.smallest, &*choice.output.largest),
        (&[5][..], &[40][..])
    );
    assert!(!choice.is_move);
}

#[test]
fn nothing_due_is_nothing_to_do() {
    let levels = [vec![table(1, 1, 9, 9); 3], vec![table(10, 1, 9, 1000 - 1)]];
    assert_eq!(
        pick(&shape(&levels), &Busy::default(), &options(), &now(0)),
        None
    );
    assert_eq!(pick(&[], &Busy::default(), &options(), &now(0)), None);
}

#[test]
fn small_tables_of_level_0_wait_until_there_are_many() {
    let small = |count: u64| -> Vec<TableMeta> {
        (0..count).map(|file| table(100 - file, 1, 9, 9)).collect()
    };
    let upper = |count| {
        let levels = [small(count), vec![table(1, 1, 9, 999)]];
        pick(&shape(&levels), &Busy::default(), &options(), &now(0))
            .map(|choice| choice.upper.len())
    };
    assert_eq!((upper(4), upper(15), upper(16)), (None, None, Some(16)));
    let beside = |below: u64| {
        let levels = [small(4), vec![table(1, 1, 9, below)]];
        pick(&shape(&levels), &Busy::default(), &options(), &now(0))
            .map(|choice| choice.upper.len())
    };
    assert_eq!(beside(4 * 9 * 4 / 3), Some(4), "three quarters of level 1");
    assert_eq!(beside(4 * 9 * 4 / 3 + 1), None);
}

#[test]
fn tables_of_level_0_that_meet_little_do_not_wait_for_the_others() {
    let pick =
        |levels: &[Vec<TableMeta>]| pick(&shape(levels), &Busy::default(), &options(), &now(0));
    let small = [
        table(14, 92, 93, 9),
        table(13, 50, 51, 9),
        table(12, 5, 6, 9),
        table(11, 1, 2, 9),
    ];
    let lower = vec![table(1, 1, 9, 400), table(2, 90, 99, 400)];
    let choice = pick(&[small.to_vec(), lower.clone()]).unwrap();
    assert_eq!(
        (choice.upper, choice.is_move),
        (vec![13], true),
        "it meets nothing"
    );
    let mut larger = small.to_vec();
    larger[1] = table(13, 7, 8, 9);
    assert_eq!(pick(&[larger.clone(), lower.clone()]), None);
    larger[0].bytes = 299;
    assert_eq!(pick(&[larger.clone(), lower.clone()]), None);
    larger[0].bytes = 300;
    let choice = pick(&[larger.clone(), lower.clone()]).unwrap();
    assert_eq!(
        (choice.upper, choice.lower),
        (vec![14], vec![2]),
        "three quarters of what it meets"
    );
    larger.pop();
    assert_eq!(pick(&[larger, lower]), None, "three may wait");
}

#[test]
fn what_is_very_little_goes_down_at_once_with_what_it_meets() {
    let options = TreeOptions {
        level_bytes: 1 << 20,
        ..options()
    };
    let pick = |above: u64, below: u64| {
        let levels = [
            vec![table(3, 1, 9, above)],
            vec![table(10, 5, 9, below), table(11, 20, 30, 9_000)],
        ];
        pick(&shape(&levels), &Busy::default(), &options, &now(0))
    };
    let choice = pick(500, 524).expect("a 1024th of the level");
    assert_eq!((choice.upper, choice.lower), (vec![3], vec![10]));
    assert_eq!(pick(500, 525), None);
    assert_eq!(pick(1025, 0), None);
}

#[test]
fn the_table_with_the_least_overlap_goes_first() {
    let levels = [
        Vec::new(),
        vec![table(1, 1, 10, 600), table(2, 20, 30, 600)],
        vec![
            table(10, 2, 5, 900),
            table(11, 6, 9, 900),
            table(12, 25, 26, 900),
        ],
    ];
    let choice = pick(&shape(&levels), &Busy::default(), &options(), &now(0)).unwrap();
    assert_eq!(
        (choice.level, &*choice.upper, &*choice.lower),
        (1, &[2][..], &[12][..])
    );
}

#[test]
fn a_table_that_meets_nothing_moves_unless_it_has_to_be_recompressed() {
    let mut options = options();
    options.upper_compression = options.table.compression;
    let levels = [
        Vec::new(),
        vec![table(1, 1, 10, 2000)],
        vec![table(10, 20, 30, 9)],
    ];
    assert!(
        pick(&shape(&levels), &Busy::default(), &options, &now(0))
            .unwrap()
            .is_move
    );
    options.upper_compression = velella_sst::Compression::None;
    assert!(
        !pick(&shape(&levels), &Busy::default(), &options, &now(0))
            .unwrap()
            .is_move
    );
}

#[test]
fn while_level_0_waits_for_level_1_nothing_else_takes_level_1() {
    let upper = |tables: u64| (100..100 + tables).map(|file| table(file, 1, 99, 600));
    // So many that level 1 does not go first (P6).
    let many = 20;
    let levels = [
        upper(many).collect(),
        vec![table(10, 1, 9, 1600), table(11, 20, 30, 1600)],
        Vec::new(),
    ];
    let running = Busy {
        files: HashSet::from([10]),
        outputs: vec![span_of(&levels[1][0], 2)],
    };
    assert_eq!(
        pick(&shape(&levels), &running, &options(), &now(0)),
        None,
        "P3"
    );
    for (tables, why) in [(1, "level 0 is not due"), (many - 1, "P6")] {
        let calm = [upper(tables).collect(), levels[1].clone(), Vec::new()];
        let picked = pick(&shape(&calm), &running, &options(), &now(0));
        assert_eq!(picked.unwrap().upper, [11], "{why}");
    }
}

#[test]
fn a_level_1_that_is_due_goes_before_level_0_until_writers_would_soon_be_braked() {
    let picked = |upper: u64, lower: u64, others: u64, busy: &Busy| {
        let levels = [
            (100..100 + upper)
                .map(|file| table(file, 1, 99, 600))
                .collect(),
            vec![table(10, 1, 9, lower), table(11, 20, 30, 500)],
            vec![table(20, 1, 35, 900), table(21, 40, 50, others)],
            vec![table(30, 1, 35, 900)],
        ];
        pick(&shape(&levels), busy, &options(), &now(0)).map(|choice| choice.level)
    };
    let free = Busy::default();
    for (upper, lower) in [(4, 499), (19, 499), (20, 499), (20, 500)] {
        assert_eq!(picked(upper, lower, 900, &free), Some(0), "{upper} {lower}");
    }
    assert_eq!(picked(4, 500, 900, &free), Some(1));
    assert_eq!(picked(19, 500, 900, &free), Some(1));
    // What level 1 would meet is on its way to level 3.
    let below = Busy {
        files: HashSet::from([20, 30]),
        outputs: Vec::new(),
    };
    assert_eq!(picked(4, 500, 900, &below), Some(0));
    // Level 2 is due as well, but less than level 0.
    assert_eq!(picked(8, 500, 11_000, &below), Some(0));
}

/// A tree that was made with larger levels, opened with small ones.
#[test]
fn level_0_goes_before_levels_that_are_far_too_large_once_writers_are_braked_for_it() {
    let options = options();
    let first = |tables: usize, level1_bytes: u64| {
        let upper = (0..tables as u64).map(|file| table(100 + file, 1, 9, 1));
        let levels = [
            upper.rev().collect(),
            vec![table(1, 1, 9, level1_bytes)],
            vec![table(2, 1, 9, 9_000_000)],
            vec![table(3, 1, 9, 1)],
        ];
        let choice = pick(&shape(&levels), &Busy::default(), &options, &now(0));
        choice.map(|choice| choice.level)
    };
    assert_eq!(first(options.level0_slow - 1, 1000), Some(2));
    assert_eq!(first(options.level0_slow, 1000), Some(0));
    // Not before level 1, which each of its merges rewrites.
    assert_eq!(first(options.level0_slow, 90_000), Some(1));
}

#[test]
fn a_job_never_writes_where_another_does() {
    // The gap of level 1 between 10 and 20 was filled after the running job chose.
    let levels = [Vec::new(), vec![table(1, 12, 15, 5000)], Vec::new()];
    let running = Busy {
        files: HashSet::new(),
        outputs: vec![Span {
            level: 2,
            smallest: vec![10],
            largest: vec![20],
        }],
    };
    assert_eq!(pick(&shape(&levels), &running, &options(), &now(0)), None);
}

#[test]
fn a_full_compaction_goes_level_by_level_and_ends_with_the_last() {
    let levels = [
        vec![table(2, 1, 99, 9), table(1, 1, 99, 9)],
        vec![table(10, 1, 9, 9)],
        vec![table(20, 1, 9, 9), table(21, 50, 60, 9)],
    ];
    let shape = shape(&levels);
    let step = |pending: &[u64]| {
        let pending = pending.iter().copied().collect();
        pick_full(&shape, &Busy::default(), &pending, &options())
    };
    assert_eq!(step(&[1, 2, 10, 20, 21]).unwrap().upper, [1, 2]);
    assert_eq!(step(&[10, 20, 21]).unwrap().lower, [20]);
    let last = step(&[21]).unwrap();
    assert_eq!((last.level, last.output.level), (2, 2));
    assert_eq!(step(&[]), None);
}

#[test]
fn gathering_takes_level_0_though_it_is_not_due_and_nothing_else() {
    let gathered = |levels: &[Vec<TableMeta>], busy: &Busy| {
        assert_eq!(
            pick(&shape(levels), &Busy::default(), &options(), &now(0)),
            None
        );
        pick_gathering(&shape(levels), busy, &options())
    };
    let free = Busy::default();
    let level1 = vec![table(10, 1, 9, 9), table(11, 20, 30, 9)];
    let levels = [vec![table(2, 5, 6, 9), table(1, 1, 2, 9)], level1.clone()];
    // The oldest first, with what it meets.
    let choice = gathered(&levels, &free).unwrap();
    assert_eq!((&*choice.upper, &*choice.lower), (&[1][..], &[10][..]));
    let choice = gathered(&levels, &busy(&choice));
    assert_eq!(choice, None, "the other one meets the same table");
    let apart = [vec![table(2, 15, 16, 9)], level1.clone()];
    let choice = gathered(&apart, &free).unwrap();
    assert!(
        choice.is_move && choice.lower.is_empty(),
        "between two tables"
    );
    assert_eq!(gathered(&[Vec::new(), level1], &free), None);
    assert_eq!(gathered(&[], &free), None);
}

#[test]
fn the_level_that_is_most_over_its_target_goes_first() {
    // Targets are 1000 and 10,000; level 0 is due with 4 tables.
    let four = || {
        (1..5)
            .map(|file| table(file, 200, 210, 600))
            .collect::<Vec<_>>()
    };
    let cases = [
        ((1_500, 30_000), 2),
        ((4_500, 30_000), 1),
        ((1_500, 14_000), 1),
        ((900, 9_000), 0),
        ((999, 9_000), 0),
        // P6.
        ((1_000, 9_000), 1),
    ];
    for ((level1, level2), expected) in cases {
        let mut levels = [
            four(),
            vec![table(10, 1, 9, level1)],
            vec![table(20, 1, 9, level2)],
            Vec::new(),
        ];
        let picked = |levels: &[Vec<TableMeta>]| {
            pick(&shape(levels), &Busy::default(), &options(), &now(0)).map(|choice| choice.level)
        };
        assert_eq!(picked(&levels), Some(expected), "{level1} {level2}");
        levels[0].clear();
        let without = (level1 >= 1_000 || level2 >= 10_000).then_some(expected.max(1));
        assert_eq!(picked(&levels), without, "{level1} {level2}");
    }
}

#[test]
fn what_is_busy_counts_neither_as_due_nor_as_free() {
    let levels = [
        (1..8)
            .map(|file| table(file, 1, 9, 150))
            .collect::<Vec<_>>(),
        vec![table(10, 1, 9, 600), table(11, 20, 30, 600)],
        Vec::new(),
    ];
    let with = |files: &[u64]| {
        let busy = Busy {
            files: files.iter().copied().collect(),
            outputs: Vec::new(),
        };
        // So few of level 0 may be there that it never lets level 1 go first (P6).
        let options = TreeOptions {
            level0_latest: 7,
            level0_slow: 7,
            ..options()
        };
        pick(&shape(&levels), &busy, &options, &now(0))
    };
    assert_eq!(with(&[]).unwrap().level, 0);
    assert_eq!(
        with(&[1]),
        None,
        "all of level 0 meets the busy one, and level 1 has to wait"
    );
    // Three are not due any more; level 1 is, with 1200 bytes, until one of them is busy too.
    assert_eq!(with(&[1, 2, 3, 4]).unwrap().upper, [10]);
    assert_eq!(with(&[1, 2, 3, 4, 10]), None);
}

#[test]
fn a_full_compaction_waits_for_what_is_busy_and_takes_only_what_it_began_with() {
    let levels = [
        vec![table(2, 1, 99, 9)],
        vec![table(10, 1, 9, 9), table(11, 20, 30, 9)],
        vec![table(20, 1, 9, 9)],
    ];
    let shape = shape(&levels);
    let step = |pending: &[u64], taken: &[u64]| {
        let busy = Busy {
            files: taken.iter().copied().collect(),
            outputs: Vec::new(),
        };
        let pending = pending.iter().copied().collect();
        pick_full(&shape, &busy, &pending, &options()).map(|choice| choice.upper)
    };
    assert_eq!(step(&[2, 10, 11, 20], &[]), Some(vec![2]));
    assert_eq!(
        step(&[2, 10, 11, 20], &[11]),
        None,
        "level 0 meets a busy table"
    );
    assert_eq!(
        step(&[10, 11, 20], &[10]),
        Some(vec![11]),
        "the one that is free"
    );
    assert_eq!(
        step(&[11, 20], &[]),
        Some(vec![11]),
        "table 2 came after it began"
    );
    assert_eq!(step(&[20], &[20]), None);
    assert_eq!(step(&[77], &[]), None, "gone meanwhile");
}

#[test]
fn choices_obey_the_order_of_keys() {
    let mut options = options();
    options.table.order = Order::custom("downwards", |a, b| b.cmp(a));
    // Downwards a table's smallest key has the larger bytes.
    let levels = [
        Vec::new(),
        vec![table(1, 50, 40, 1_500), table(2, 30, 20, 600)],
        vec![
            table(10, 60, 45, 9),
            table(11, 39, 31, 9),
            table(12, 25, 5, 99_000),
        ],
    ];
    let choice = pick(&shape(&levels), &Busy::default(), &options, &now(0)).unwrap();
    assert_eq!(
        (&*choice.upper, &*choice.lower),
        (&[10][..], &[][..]),
        "level 2 is over its target, and none of it meets anything"
    );
    let calm = [
        levels[0].clone(),
        levels[1].clone(),
        vec![levels[2][0].clone(), levels[2][1].clone()],
    ];
    let choice = pick(&shape(&calm), &Busy::default(), &options, &now(0)).unwrap();
    assert_eq!(
        (&*choice.upper, &*choice.lower),
        (&[2][..], &[][..]),
        "between 31 and 5"
    );
    let busy = busy(&choice);
    let choice = pick(&shape(&calm), &busy, &options, &now(0)).unwrap();
    assert_eq!((&*choice.upper, &*choice.lower), (&[1][..], &[10][..]));
    assert_eq!(
        (&*choice.output.smallest, &*choice.output.largest),
        (&[60][..], &[40][..])
    );
}

/// Random trees, with jobs taken until none is offered: the invariants of every choice.
#[test]
fn running_choices_share_nothing_and_miss_nothing() {
    let mut rng = Rng::new(11);
    for _ in 0..500 {
        let mut file = 0;
        let mut next = |smallest: u8, largest: u8, bytes: u64| {
            file += 1;
            table(file, smallest, largest, bytes)
        };
        let mut levels = vec![Vec::new(); 4];
        for _ in 0..rng.below(8) {
            let low = rng.below(200) as u8;
            levels[0].push(next(low, low + rng.below(50) as u8, 100));
        }
        for level in &mut levels[1..] {
            let mut low = rng.below(30) as u8;
            while low < 200 {
                let high = low + rng.below(20) as u8;
                level.push(next(low, high, 10 + rng.below(3000)));
                low = high + 1 + rng.below(30) as u8;
            }
        }
        let shape = shape(&levels);
        let mut taken = Busy::default();
        // Level 1 goes before level 0, or not (P6).
        let options = TreeOptions {
            level0_latest: 4,
            level0_slow: 4 + rng.below(8) as usize,
            ..options()
        };
        while let Some(choice) = pick(&shape, &taken, &options, &now(0)) {
            check_choice(&levels, &taken, &choice);
            let new = busy(&choice);
            taken.files.extend(new.files);
            taken.outputs.extend(new.outputs);
        }
    }
}

fn check_choice(levels: &[Vec<TableMeta>], taken: &Busy, choice: &Choice) {
    let files: HashSet<u64> = choice.files().collect();
    assert!(files.is_disjoint(&taken.files), "P2");
    let meets = |table: &TableMeta, span: &Span| {
        table.smallest <= span.largest && span.smallest <= table.largest
    };
    let inputs: Vec<&TableMeta> = levels
        .iter()
        .flatten()
        .filter(|table| files.contains(&table.file))
        .collect();
    assert_eq!(inputs.len(), files.len());
    for table in &levels[choice.output.level] {
        let inside = files.contains(&table.file);
        assert_eq!(inside, meets(table, &choice.output), "P2: {choice:?}");
    }
    for table in levels[0].iter().filter(|_| choice.level == 0) {
        let of_choice = |other: &&TableMeta| choice.upper.contains(&other.file);
        let touches = inputs
            .iter()
            .filter(|other| of_choice(other))
            .any(|other| table.smallest <= other.largest && other.smallest <= table.largest);
        assert!(!touches || files.contains(&table.file), "P1: {choice:?}");
    }
    for other in taken
        .outputs
        .iter()
        .filter(|span| span.level == choice.output.level)
    {
        let apart =
            other.largest < choice.output.smallest || choice.output.largest < other.smallest;
        assert!(apart, "P2: two jobs write the same keys");
    }
}
