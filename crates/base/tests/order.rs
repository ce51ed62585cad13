//! Orders, separators, prefix words and the ends of prefixes, for keys that look alike.
//!
//! Claims: `order.rs` O1, O2.

use crate::draws::Draws;
use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering as Atomic};
use velella_base::Order;
use velella_base::order::{BYTEWISE_NAME, prefix_end, word};

fn reversed() -> Order {
    Order::custom("reversed", |a, b| b.cmp(a))
}

#[test]
fn a_separator_of_any_two_keys_lies_between_and_is_no_longer_than_the_lower() {
    let mut shortened = 0;
    for seed in 0..20_000 {
        let mut draws = Draws(seed);
        let prefix = draws.key(10);
        let mut pair = [(); 2].map(|()| [&prefix[..], &draws.key(4)].concat());
        for order in [Order::Bytewise, reversed()] {
            pair.sort_by(|a, b| order.compare(a, b));
            let [low, high] = &pair;
            if low == high {
                continue;
            }
            let between = order.separator(low, high);
            assert!(
                order.compare(low, &between).is_le(),
                "O2: {low:?} {between:?}"
            );
            assert!(
                order.compare(&between, high).is_lt(),
                "O2: {between:?} {high:?}"
            );
            assert!(between.len() <= low.len(), "{low:?} {between:?}");
            shortened += u32::from(between.len() < low.len());
        }
    }
    assert!(shortened > 2_000, "only {shortened} were shortened");
}

#[test]
fn a_users_order_is_never_given_a_key_that_nobody_wrote() {
    // Its separator is the lower key, whatever bytewise would say.
    let order = Order::custom("length", |a, b| a.len().cmp(&b.len()));
    assert_eq!(order.separator(b"abcdef", b"zzzzzzzz"), b"abcdef");
    assert_eq!(reversed().separator(b"b", b"a"), b"b");
}

#[test]
fn words_that_differ_order_keys_as_their_bytes_do() {
    let mut ties = 0;
    for seed in 0..20_000 {
        let mut draws = Draws(seed);
        let prefix = draws.key(7);
        let [a, b] = [(); 2].map(|()| [&prefix[..], &draws.key(6)].concat());
        match word(&a).cmp(&word(&b)) {
            Ordering::Equal => ties += 1,
            differing => assert_eq!(differing, a.cmp(&b), "{a:?} {b:?}"),
        }
    }
    assert!((1_000..15_000).contains(&ties), "{ties} ties");
    assert_eq!(word(b""), 0);
    assert_eq!(word(b"\x01"), 1 << 56);
    assert_eq!(word(b"12345678"), word(b"123456789"));
    assert_eq!(word(&[0xff; 20]), u64::MAX);
}

#[test]
fn the_end_of_a_prefix_divides_all_keys() {
    for seed in 0..20_000 {
        let mut draws = Draws(seed);
        let (prefix, tail) = (draws.key(3), draws.key(3));
        for key in [draws.key(5), [&prefix[..], &tail].concat()] {
            let starts = key.starts_with(&prefix);
            match prefix_end(&prefix) {
                Some(end) => assert_eq!(starts, key >= prefix && key < end, "{prefix:?} {key:?}"),
                // No key is above all of them.
                None => assert_eq!(starts, key >= prefix, "{prefix:?} {key:?}"),
            }
        }
    }
}

#[test]
fn an_order_is_known_by_its_name_and_shared_by_its_clones() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let order = Order::custom("counting", move |a, b| {
        count.fetch_add(1, Atomic::Relaxed);
        a.cmp(b)
    });
    assert_eq!(order.clone().compare(b"a", b"b"), Ordering::Less);
    assert_eq!(order.compare(b"b", b"b"), Ordering::Equal);
    assert_eq!(asked.load(Atomic::Relaxed), 2);
    assert_eq!((order.name(), order.is_bytewise()), ("counting", false));
    assert_eq!(format!("{order:?}"), "Order(counting)");
    let default = Order::default();
    assert_eq!(
        (default.name(), default.is_bytewise()),
        (BYTEWISE_NAME, true)
    );
    assert_eq!(
        default.compare(b"a", b"a\0"),
        Ordering::Less,
        "shorter first"
    );
    assert_eq!(
        default.compare(b"\xff", b"a"),
        Ordering::Greater,
        "unsigned"
    );
}
