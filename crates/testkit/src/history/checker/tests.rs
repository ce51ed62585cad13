//! Each rule refuses a history that was made up to break it, and allows those beside it.

use super::*;

fn event(begin: u64, end: u64, what: What) -> Event {
    let client = 0;
    Event {
        client,
        begin,
        end,
        synced: false,
        what,
    }
}

fn put(begin: u64, end: u64, stamp: u64, key: usize, value: &str) -> Event {
    let changes = BTreeMap::from([(key, Some(value.as_bytes().to_vec()))]);
    let stamp = Stamp(stamp);
    event(begin, end, What::Wrote { stamp, changes })
}

fn got(begin: u64, end: u64, key: usize, told: Option<(u64, &str)>) -> Event {
    let value = told.map(|(_, value)| value.as_bytes().to_vec());
    let stamp = told.map(|(stamp, _)| Stamp(stamp));
    event(begin, end, What::Got { key, value, stamp })
}

fn strict(begin: u64, end: u64, told: &[(usize, Option<&str>)]) -> Event {
    let pair =
        |(key, value): &(usize, Option<&str>)| (*key, value.map(|value| value.as_bytes().to_vec()));
    let values = told.iter().map(pair).collect();
    event(begin, end, What::Strict { values })
}

fn saw(begin: u64, end: u64, at: u64, told: &[(usize, &str)]) -> Event {
    let pair = |(key, value): &(usize, &str)| (*key, value.as_bytes().to_vec());
    let (at, state) = (Stamp(at), told.iter().map(pair).collect());
    event(begin, end, What::Saw { at, state })
}

fn verdict(events: &[Event]) -> String {
    check(&Before::new(), events)
        .err()
        .unwrap_or_else(|| "fine".to_owned())
}

/// Between two writes of other keys: at the first it had not begun, at the second it is seen
/// together with that.
#[test]
fn a_swap_whose_stamp_nobody_was_told_may_be_seen_before_the_next_write() {
    let told = |key| strict(4, 12, &[(0, None), (1, key)]);
    let swap = What::Swapped {
        key: 1,
        base: Some((Stamp(10), b"a".to_vec())),
        value: b"b".to_vec(),
    };
    let events = [
        put(1, 2, 10, 1, "a"),
        saw(2, 5, 15, &[(1, "a")]),
        event(6, 40, swap),
        put(3, 41, 20, 0, "c"),
    ];
    let with = |strict| verdict(&[&events[..], &[strict]].concat());
    assert_eq!(with(told(Some("b"))), "fine");
    assert_eq!(with(told(Some("a"))), "fine");
    assert!(with(told(None)).starts_with("H2"));
}

/// As the first write of all, stamp 0 contradicts nothing else.
#[test]
fn a_write_without_a_stamp_is_refused() {
    assert!(verdict(&[put(1, 2, 0, 0, "a")]).contains("stamp 0"));
}

#[test]
fn a_history_in_order_is_fine() {
    let events = [
        got(1, 2, 0, None),
        put(3, 4, 10, 0, "a"),
        put(5, 9, 12, 1, "b"),
        got(6, 7, 0, Some((10, "a"))),
        saw(10, 11, 12, &[(0, "a"), (1, "b")]),
        strict(5, 8, &[(0, Some("a")), (1, None)]),
    ];
    assert_eq!(verdict(&events), "fine");
}

#[test]
fn a_get_that_misses_what_was_acknowledged_is_refused() {
    let put_first = put(1, 2, 10, 0, "a");
    assert!(verdict(&[put_first.clone(), got(3, 4, 0, None)]).starts_with("H1"));
    let newer = put(3, 4, 11, 0, "b");
    let stale = got(5, 6, 0, Some((10, "a")));
    assert!(verdict(&[put_first.clone(), newer, stale]).starts_with("H1"));
    // Not even where only another reader was told of the newer one.
    let slow = put(3, 20, 11, 0, "b");
    let events = [
        put_first,
        slow,
        got(5, 6, 0, Some((11, "b"))),
        got(7, 8, 0, Some((10, "a"))),
    ];
    assert!(verdict(&events).starts_with("H1"));
}

#[test]
fn a_get_from_the_future_is_refused() {
    let events = [got(1, 2, 0, Some((10, "a"))), put(3, 4, 10, 0, "a")];
    assert!(verdict(&events).starts_with("H1"));
}

#[test]
fn a_value_that_is_not_its_stamps_is_refused() {
    let events = [put(1, 2, 10, 0, "a"), got(3, 4, 0, Some((10, "b")))];
    assert!(verdict(&events).starts_with("H1: version"));
}

#[test]
fn stamps_against_real_time_are_refused() {
    let events = [put(1, 2, 11, 0, "a"), put(3, 4, 10, 1, "b")];
    assert!(verdict(&events).starts_with("H2"));
    let events = [put(1, 2, 11, 0, "a"), saw(3, 4, 10, &[])];
    assert!(verdict(&events).starts_with("H2"));
}

#[test]
fn half_a_batch_is_refused() {
    let changes = BTreeMap::from([(0, Some(b"a".to_vec())), (1, Some(b"b".to_vec()))]);
    let batch = event(
        1,
        9,
        What::Wrote {
            stamp: Stamp(10),
            changes,
        },
    );
    let half = strict(2, 3, &[(0, Some("a")), (1, None)]);
    assert!(verdict(&[batch.clone(), half]).starts_with("H2"));
    let half = saw(2, 3, 10, &[(0, "a")]);
    assert!(verdict(&[batch, half]).starts_with("H3"));
}

#[test]
fn a_lost_update_is_refused() {
    let based = |begin, stamp, value: &str| {
        let changes = BTreeMap::from([(0, Some(value.as_bytes().to_vec()))]);
        let (stamp, bases) = (Stamp(stamp), BTreeMap::from([(0, None)]));
        event(
            begin,
            20,
            What::Based {
                stamp,
                changes,
                bases,
                read_at: None,
            },
        )
    };
    assert!(verdict(&[based(1, 10, "a"), based(2, 11, "b")]).starts_with("H4: base"));
    let twice = [put(1, 2, 10, 0, "a"), put(1, 2, 10, 0, "b")];
    assert!(verdict(&twice).starts_with("H4: two writes"));
}

fn swapped(begin: u64, end: u64, base: Option<(u64, &str)>, value: &str) -> Event {
    let base = base.map(|(stamp, value)| (Stamp(stamp), value.as_bytes().to_vec()));
    let (key, value) = (0, value.as_bytes().to_vec());
    event(begin, end, What::Swapped { key, base, value })
}

fn refused(begin: u64, end: u64, expected: Option<&str>) -> Event {
    let expected = expected.map(|value| value.as_bytes().to_vec());
    event(begin, end, What::Refused { key: 0, expected })
}

fn scanned(begin: u64, end: u64, asked: &[usize], told: &[(usize, &str)]) -> Event {
    let pair = |(key, value): &(usize, &str)| (*key, value.as_bytes().to_vec());
    let (asked, pairs) = (asked.to_vec(), told.iter().map(pair).collect());
    event(begin, end, What::Scanned { asked, pairs })
}

#[test]
fn a_scan_of_no_moment_or_out_of_order_is_refused() {
    let with = |scan: Event| {
        verdict(&[
            put(1, 2, 10, 0, "a"),
            put(3, 4, 12, 2, "b"),
            put(5, 20, 14, 0, "c"),
            scan,
        ])
    };
    let asked = [0, 2];
    assert_eq!(with(scanned(6, 7, &asked, &[(0, "a"), (2, "b")])), "fine");
    assert_eq!(with(scanned(6, 7, &asked, &[(0, "c"), (2, "b")])), "fine");
    assert_eq!(with(scanned(6, 7, &[2, 0], &[(2, "b"), (0, "a")])), "fine");
    assert_eq!(with(scanned(6, 7, &[2, 4], &[(2, "b")])), "fine");
    assert!(with(scanned(6, 7, &asked, &[(0, "a")])).starts_with("H2"));
    assert!(with(scanned(6, 7, &asked, &[(2, "b")])).starts_with("H2"));
    assert!(with(scanned(22, 23, &asked, &[(0, "a"), (2, "b")])).starts_with("H2"));
    assert!(with(scanned(6, 7, &asked, &[(2, "b"), (0, "a")])).starts_with("H6"));
    let twice = [(0, "a"), (0, "c"), (2, "b")];
    assert!(with(scanned(6, 7, &asked, &twice)).starts_with("H6"));
    assert!(with(scanned(6, 7, &[2, 4], &[(0, "a"), (2, "b")])).starts_with("H6"));
}

#[test]
fn a_swap_of_what_was_not_there_is_refused() {
    let first = put(1, 2, 10, 0, "a");
    let read = got(7, 8, 0, Some((12, "b")));
    let good = swapped(5, 6, Some((10, "a")), "b");
    assert_eq!(
        verdict(&[first.clone(), good.clone(), read.clone()]),
        "fine"
    );
    // Another write lay between.
    let between = put(3, 4, 11, 0, "z");
    let lost = [first.clone(), between.clone(), good.clone(), read.clone()];
    assert!(verdict(&lost).starts_with("H4: base"), "{}", verdict(&lost));
    // The key was not absent, or held something else.
    let absent = [first.clone(), swapped(5, 6, None, "b"), read.clone()];
    assert!(verdict(&absent).starts_with("H4: base"));
    let other = swapped(5, 6, Some((0, "nobody wrote this")), "b");
    assert!(verdict(&[first.clone(), other.clone(), read]).starts_with("H4: base"));
    // And so it is where nobody was told the stamp.
    let over = put(7, 8, 13, 0, "c");
    assert_eq!(verdict(&[first.clone(), good, over.clone()]), "fine");
    assert!(verdict(&[first, other, over]).starts_with("H7: base"));
}

#[test]
fn a_swap_whose_stamp_nobody_was_told_is_seen_after_it_began_only() {
    let first = put(1, 2, 10, 0, "a");
    let swap = swapped(5, 6, Some((10, "a")), "b");
    let over = put(9, 10, 13, 0, "c");
    let with = |read: Event| verdict(&[first.clone(), swap.clone(), over.clone(), read]);
    assert_eq!(with(strict(7, 8, &[(0, Some("b"))])), "fine");
    assert_eq!(with(saw(7, 8, 12, &[(0, "b")])), "fine");
    assert!(with(strict(3, 4, &[(0, Some("b"))])).starts_with("H2"));
    assert!(with(saw(3, 4, 10, &[(0, "b")])).starts_with("H3"));
    assert!(with(saw(7, 8, 12, &[])).starts_with("H3"));
}

#[test]
fn a_swap_refused_for_what_was_there_all_the_time_is_refused() {
    let first = put(1, 2, 10, 0, "a");
    assert!(verdict(&[first.clone(), refused(3, 4, Some("a"))]).starts_with("H7"));
    assert_eq!(verdict(&[first.clone(), refused(3, 4, Some("b"))]), "fine");
    assert_eq!(verdict(&[first.clone(), refused(3, 4, None)]), "fine");
    assert!(verdict(&[put(5, 6, 10, 0, "a"), refused(3, 4, None)]).starts_with("H7"));
    // While another write is under way it may have held that.
    let slow = put(3, 9, 11, 0, "b");
    assert_eq!(
        verdict(&[first.clone(), slow, refused(4, 5, Some("a"))]),
        "fine"
    );
    let unread = swapped(3, 9, Some((10, "a")), "b");
    assert_eq!(verdict(&[first, unread, refused(4, 5, Some("a"))]), "fine");
}
