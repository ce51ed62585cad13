//! Choices of what leaves since nobody needs it: tombstones, what has expired, what is shadowed.

use super::*;

#[test]
fn tombstones_go_down_when_nothing_is_due() {
    let mut heavy = table(1, 1, 9, 10);
    heavy.kinds[ValueKind::Delete as usize] = 11;
    let levels = [Vec::new(), vec![heavy], vec![table(10, 1, 9, 10)]];
    let choice = pick(&shape(&levels), &Busy::default(), &options(), &now(0)).unwrap();
    assert_eq!((choice.upper[0], choice.lower[0]), (1, 10));
}

/// Nobody writes any more, and what they delete may be much.
#[test]
fn level_0_goes_down_for_what_it_deletes_where_that_is_worth_what_it_meets() {
    let with = |deletes: u64, expired: u64, below: u64| {
        let mut upper = table(1, 1, 9, 300);
        upper.kinds[ValueKind::Delete as usize] = deletes;
        upper.kinds[ValueKind::PutExpiring as usize] = expired;
        (upper.min_expiry_ms, upper.max_expiry_ms) = (Some(2), Some(5));
        let mut lower = table(2, 1, 9, 900);
        lower.kinds[ValueKind::Put as usize] = below;
        let levels = [vec![upper], vec![lower]];
        let at = |wall_ms| {
            let choice = pick(&shape(&levels), &Busy::default(), &options(), &now(wall_ms));
            choice.map(|choice| (choice.upper, choice.lower))
        };
        (at(5), at(6))
    };
    let both = Some((vec![1], vec![2]));
    // Ten puts are in it.
    assert_eq!(with(10, 0, 40), (None, None));
    assert_eq!(with(11, 0, 44), (both.clone(), both.clone()));
    assert_eq!(with(11, 0, 48), (None, None), "it meets too much");
    assert_eq!(with(5, 6, 44), (None, both));
}

#[test]
fn level_0_does_not_go_down_for_deletes_that_somebody_reads_below_or_beside_much_that_stays() {
    let deletes = |file: u64, smallest: u8, largest: u8, puts: u64| {
        let mut upper = table(file, smallest, largest, 300);
        upper.kinds[ValueKind::Delete as usize] = 12;
        upper.kinds[ValueKind::Put as usize] = puts;
        upper.max_stamp = Stamp(8);
        upper
    };
    let choice = |upper: Vec<TableMeta>, read: Retention| {
        let levels = [upper, vec![table(9, 1, 9, 900)]];
        let choice = pick(&shape(&levels), &Busy::default(), &options(), &read);
        choice.map(|choice| choice.upper)
    };
    let read_at = |oldest| Retention::new(Stamp(99), Stamp(99), vec![Stamp(oldest)]);
    assert_eq!(
        choice(vec![deletes(1, 1, 9, 10)], read_at(8)),
        Some(vec![1])
    );
    assert_eq!(choice(vec![deletes(1, 1, 9, 10)], read_at(7)), None);
    // They overlap, so both would go.
    let both = vec![deletes(2, 1, 5, 0), table(1, 4, 9, 300)];
    assert_eq!(choice(both, now(0)), Some(vec![2, 1]));
    let mut live = table(1, 4, 9, 300);
    live.kinds[ValueKind::Put as usize] = 13;
    assert_eq!(choice(vec![deletes(2, 1, 5, 0), live], now(0)), None);
}

#[test]
fn tombstones_of_the_last_level_leave_once_nobody_reads_below_them() {
    let mut heavy = table(1, 1, 9, 10);
    heavy.kinds[ValueKind::Delete as usize] = 11;
    heavy.max_stamp = Stamp(7);
    let last = [Vec::new(), vec![heavy]];
    let at = |snapshot| {
        let read = Retention::new(Stamp(99), Stamp(99), vec![Stamp(snapshot)]);
        pick(&shape(&last), &Busy::default(), &options(), &read)
    };
    assert_eq!(at(6), None, "P4: some would stay");
    let choice = at(7).unwrap();
    assert_eq!((choice.level, choice.output.level), (1, 1));
    assert!(!choice.is_move);
}

#[test]
fn neither_tombstones_nor_expired_tables_go_before_level_0() {
    let mut heavy = table(11, 50, 60, 10);
    heavy.kinds[ValueKind::PutExpiring as usize] = 30;
    heavy.max_expiry_ms = Some(1_000);
    let mut due = vec![table(10, 1, 9, 10), heavy.clone()];
    let busy = |levels: &[Vec<TableMeta>]| Busy {
        files: HashSet::from([10]),
        outputs: vec![span_of(&levels[1][0], levels.len() - 1)],
    };
    for deeper in [true, false] {
        for kind in [ValueKind::PutExpiring, ValueKind::Delete] {
            due[1].kinds = [0; 7];
            due[1].kinds[kind as usize] = 30;
            let upper = (1..=4).map(|file| table(file, 1, 99, 600)).collect();
            let mut levels = vec![upper, due.clone()];
            levels.extend(deeper.then(Vec::new));
            let picked = pick(&shape(&levels), &busy(&levels), &options(), &now(2_000));
            assert_eq!(picked, None, "P3");
            levels[0].truncate(1);
            let picked = pick(&shape(&levels), &busy(&levels), &options(), &now(2_000));
            assert_eq!(picked.unwrap().upper, [11], "level 0 is not due");
        }
    }
}

#[test]
fn expired_tables_go_down_or_are_rewritten_in_the_last_level() {
    let mut old = table(1, 1, 9, 10);
    old.kinds[ValueKind::PutExpiring as usize] = 11;
    old.max_expiry_ms = Some(1_000);
    let at = |levels: &[Vec<TableMeta>], wall_ms| {
        pick(&shape(levels), &Busy::default(), &options(), &now(wall_ms))
    };
    let last = [Vec::new(), vec![old.clone()]];
    assert_eq!(at(&last, 1_000), None);
    assert_eq!(at(&last, 1_001).unwrap().output.level, 1);
    let middle = [Vec::new(), vec![old], vec![table(10, 1, 9, 10)]];
    assert_eq!(at(&middle, 1_001).unwrap().output.level, 2);
}

#[test]
fn mostly_means_more_than_half() {
    let with = |kind: ValueKind, count: u64| {
        let mut half = table(1, 1, 9, 10);
        half.kinds[kind as usize] = count;
        half.max_expiry_ms = Some(5);
        let levels = [Vec::new(), vec![half], vec![table(10, 1, 9, 10)]];
        let choice = pick(&shape(&levels), &Busy::default(), &options(), &now(6));
        choice.map(|choice| (choice.upper[0], choice.lower[0]))
    };
    // Ten others are in it.
    for kind in [
        ValueKind::Delete,
        ValueKind::PutExpiring,
        ValueKind::External,
    ] {
        assert_eq!(with(kind, 10), None, "{kind:?}");
        assert_eq!(with(kind, 11), Some((1, 10)), "{kind:?}");
    }
    assert_eq!(with(ValueKind::Put, 50), None);
}

/// What a snapshot saw is beside them; what an operand builds on would stay, and be chosen again.
#[test]
fn fewer_deletes_are_enough_in_the_last_level_where_all_of_them_leave() {
    let with = |deletes: u64, merges: u64| {
        let mut last = table(1, 1, 9, 10);
        last.kinds[ValueKind::Delete as usize] = deletes;
        last.kinds[ValueKind::Merge as usize] = merges;
        let levels = [Vec::new(), vec![last]];
        let choice = pick(&shape(&levels), &Busy::default(), &options(), &now(6));
        choice.map(|choice| choice.upper)
    };
    // Ten others are in it.
    assert_eq!(with(2, 0), None);
    assert_eq!(with(3, 0), Some(vec![1]));
    assert_eq!(with(10, 1), None);
    assert_eq!(with(12, 1), Some(vec![1]));
}

/// Beside what nobody sees beneath newer versions; where somebody may, it waits.
#[test]
fn what_is_shadowed_leaves_the_last_level_once_everybody_reads_above_it() {
    let with = |deletes: u64, shadowed: u64, oldest: u64| {
        let mut last = table(1, 1, 9, 10);
        last.max_stamp = Stamp(8);
        last.kinds[ValueKind::Delete as usize] = deletes;
        last.shadowed = Some(velella_sst::Shadowed {
            entries: shadowed,
            by: Stamp(5),
        });
        let levels = [Vec::new(), vec![last]];
        let seen = Retention::new(Stamp(99), Stamp(99), vec![Stamp(oldest)]);
        let choice = pick(&shape(&levels), &Busy::default(), &options(), &seen);
        choice.map(|choice| choice.upper)
    };
    // Ten others are in it.
    assert_eq!(with(0, 2, 5), None);
    assert_eq!(with(0, 3, 5), Some(vec![1]));
    assert_eq!(with(0, 3, 4), None, "a snapshot may see what is beneath");
    assert_eq!(with(2, 1, 8), Some(vec![1]));
    assert_eq!(with(2, 1, 7), None, "the deletes are not past");
}
