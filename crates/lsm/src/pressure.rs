//! How much work waits, and how hard writers are braked for it.
//!
//! The brake rises smoothly, so that writers settle where compaction keeps up, instead of running
//! free and then standing still.
//!
//! Pure. Tests: below.

use velella_tree::manifest::LEVELS_MAX;
use velella_tree::{Level, Pressure, TreeOptions};

/// Each level is this many times larger than the one above.
pub(crate) const FANOUT: u64 = 10;
/// Level 0 goes down once it holds this share of level 1: three quarters.
const LEVEL0_SHARE: (u64, u64) = (3, 4);
/// Debt in sizes of level 1 at which braking starts, and at which writers wait.
const DEBT_SLOW: u64 = 16;
const DEBT_STOP: u64 = 64;
/// Pressure is high with so many due tables of level 0, a third of those at which braking starts,
/// or so much due at once, in sizes of level 1.
const LEVEL0_HIGH: usize = 3;
const DUE_HIGH: u64 = 2;

/// Bytes that `level` (1 or deeper) should hold at most.
pub(crate) fn target(level: usize, options: &TreeOptions) -> u64 {
    let steps = u32::try_from(level.saturating_sub(1)).unwrap_or(u32::MAX);
    options
        .level_bytes
        .saturating_mul(FANOUT.saturating_pow(steps))
}

/// Whether so many tables of level 0, of so many bytes, should go down, with `below` in level 1.
///
/// Each time, level 1 is rewritten. So from `level0_start` tables on they wait until they are most
/// of that, or `level0_latest`: small write buffers would rewrite much for little. Whoever reads
/// meanwhile has them gathered (`gather.rs` of the engine). Due, they may have to wait for level 1
/// (`picker`, P6).
pub(crate) fn is_level0_due(tables: usize, bytes: u64, below: u64, options: &TreeOptions) -> bool {
    let (share, of) = LEVEL0_SHARE;
    let is_most = || bytes.saturating_mul(of) >= below.saturating_mul(share);
    tables >= options.level0_start.max(1) && (tables >= options.level0_latest || is_most())
}

/// The pressure of a tree whose levels have these sizes. It was opened with so much `inherited`
/// debt, which brakes nobody: a tree that was made with larger levels is out of shape all at once,
/// by no fault of those who write now.
pub(crate) fn of(levels: &[Level], options: &TreeOptions, inherited: u64) -> Pressure {
    let level0 = levels.first().copied().unwrap_or_default();
    let debt_bytes = debt(levels, options, true);
    let by_tables = fraction(
        level0.tables as u64,
        options.level0_slow as u64,
        options.level0_stop as u64,
    );
    let by_debt = fraction(
        debt_bytes.saturating_sub(inherited),
        options.level_bytes.saturating_mul(DEBT_SLOW),
        options.level_bytes.saturating_mul(DEBT_STOP),
    );
    Pressure {
        level0_tables: level0.tables,
        debt_bytes,
        is_high: is_high(levels, options),
        brake: by_tables.max(by_debt),
    }
}

/// Whether what is due now is much: less than all debt, which counts each byte again on its way
/// through the levels, so that a large tree in its ordinary state has some of it.
fn is_high(levels: &[Level], options: &TreeOptions) -> bool {
    let level0 = levels.first().copied().unwrap_or_default();
    let below = levels.get(1).map_or(0, |next| next.bytes);
    let many = level0.tables >= options.level0_slow / LEVEL0_HIGH
        && is_level0_due(level0.tables, level0.bytes, below, options);
    many || debt(levels, options, false) >= options.level_bytes.saturating_mul(DUE_HIGH)
}

/// How far `value` has come from `slow` (0) to `stop` (1).
#[expect(clippy::cast_precision_loss, reason = "a brake needs no 53 bits")]
fn fraction(value: u64, slow: u64, stop: u64) -> f64 {
    if value >= stop.max(1) {
        return 1.0;
    }
    let range = stop.saturating_sub(slow).max(1);
    value.saturating_sub(slow) as f64 / range as f64
}

/// What level 0 and the surplus of each deeper level cost to move down, with what they meet there
/// in proportion to sizes; with what then arrives in the next level, if that `is_passed_on`.
fn debt(levels: &[Level], options: &TreeOptions, is_passed_on: bool) -> u64 {
    let mut debt = 0u64;
    let mut arriving = 0u64;
    for level in 0..LEVELS_MAX as usize {
        let size = levels.get(level).copied().unwrap_or_default();
        let below = levels.get(level + 1).map_or(0, |next| next.bytes);
        let bytes = size.bytes.saturating_add(arriving);
        let surplus = if level == 0 {
            let due = is_level0_due(size.tables, bytes, below, options);
            if due { bytes } else { 0 }
        } else {
            bytes.saturating_sub(target(level, options))
        };
        if surplus > 0 {
            // Level 0 meets all of level 1; a deeper surplus, its share of the next level.
            let met = if level == 0 {
                below
            } else {
                let share = u128::from(below) * u128::from(surplus) / u128::from(bytes.max(1));
                u64::try_from(share).unwrap_or(u64::MAX)
            };
            debt = debt.saturating_add(surplus).saturating_add(met);
        }
        arriving = if is_passed_on { surplus } else { 0 };
    }
    debt
}

#[cfg(test)]
mod tests {
    use super::*;
    use velella_base::Order;
    use velella_sst::{Compression, TableOptions};

    fn options() -> TreeOptions {
        let table = TableOptions {
            block_bytes: 4096,
            compression: Compression::None,
            bloom_bits: 10,
            order: Order::Bytewise,
        };
        TreeOptions::new(1, table)
    }

    fn level(tables: usize, bytes: u64) -> Level {
        Level {
            tables,
            bytes,
            entries: 0,
        }
    }

    #[test]
    fn an_empty_tree_does_not_brake() {
        assert_eq!(of(&[], &options(), 0), Pressure::default());
    }

    #[test]
    fn the_brake_rises_with_level_0_from_slow_to_stop() {
        let options = options();
        let brake = |tables| of(&[level(tables, 0)], &options, 0).brake;
        assert_eq!(brake(options.level0_slow), 0.0);
        let steps: Vec<f64> = (options.level0_slow..=options.level0_stop)
            .map(brake)
            .collect();
        assert!(steps.windows(2).all(|pair| pair[0] < pair[1]), "{steps:?}");
        assert_eq!(brake(options.level0_stop), 1.0);
        assert_eq!(brake(options.level0_stop + 9), 1.0);
    }

    #[test]
    fn pressure_is_high_long_before_the_brake_but_not_in_an_ordinary_state() {
        let options = options();
        let l1 = options.level_bytes;
        let high = |levels: &[Level]| {
            let pressure = of(levels, &options, 0);
            assert!(pressure.brake < 0.1, "{pressure:?}");
            pressure.is_high
        };
        assert!(!high(&[level(7, 1)]) && high(&[level(8, 1)]));
        // Not due, so there is nothing to do about them.
        assert!(!high(&[level(15, 1), level(4, l1)]) && high(&[level(16, 1), level(4, l1)]));
        let surplus = |bytes| [level(0, 0), level(4, l1 + bytes), level(1, 0)];
        assert!(!high(&surplus(2 * l1 - 1)) && high(&surplus(2 * l1)));
        // Level 0 goes down every now and then, however large the tree.
        let full = [level(4, l1 / 4 * 3), level(4, l1), level(40, 10 * l1)];
        assert!(!high(&full));
    }

    #[test]
    fn level_0_waits_until_it_is_worth_rewriting_level_1() {
        let options = options();
        let due = |tables, bytes, below| is_level0_due(tables, bytes, below, &options);
        let (start, latest) = (options.level0_start, options.level0_latest);
        assert!(due(start, 75, 100) && due(start, 1, 0));
        assert!(!due(start - 1, 75, 100));
        assert!(!due(start, 74, 100) && !due(latest - 1, 74, 100));
        assert!(due(latest, 1, 100));
        // What is not due is no debt either.
        let debt = |bytes| of(&[level(start, bytes), level(4, 100)], &options, 0).debt_bytes;
        assert_eq!((debt(74), debt(75)), (0, 175));
    }

    #[test]
    fn debt_counts_what_has_to_be_rewritten() {
        let options = options();
        let l1 = options.level_bytes;
        let calm = of(
            &[level(1, 10), level(4, l1), level(40, 10 * l1)],
            &options,
            0,
        );
        assert_eq!(calm.debt_bytes, 0);
        let waiting = of(&[level(16, 100), level(4, l1)], &options, 0);
        assert_eq!(waiting.debt_bytes, 100 + l1 + 100);
        let heavy = of(&[level(0, 0), level(90, 100 * l1)], &options, 0);
        assert_eq!(heavy.debt_bytes, 99 * l1 + 89 * l1);
        assert_eq!(heavy.brake, 1.0);
        // It had all but so much when it was opened.
        let brake = |own: u64| {
            let levels = [level(0, 0), level(90, 100 * l1)];
            of(&levels, &options, heavy.debt_bytes - own * l1).brake
        };
        assert_eq!(
            (brake(0), brake(DEBT_SLOW), brake(DEBT_STOP)),
            (0.0, 0.0, 1.0)
        );
        assert!(brake(DEBT_SLOW + 1) > 0.0);
    }
}
