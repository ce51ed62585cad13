//! Iterators: bounds, directions, positions, and views that change under them.
//!
//! Claims: `iterator.rs` I1-I3; against a map, under random settings: `iterator_walks.rs`.

use crate::common::{INLINE_BYTES, KINDS, alone, counter, fresh, on, tiny};
use std::ops::Bound;
use velella::vfs::{MemFs, Vfs};
use velella::{Builder, Db, ErrorKind, Iter, IterOptions, KeyspaceOptions, MemtableKind, Order};

fn keys(iter: Iter) -> Vec<String> {
    iter.map(|pair| String::from_utf8(pair.unwrap().0).unwrap())
        .collect()
}

fn reversed(iter: Iter) -> Vec<String> {
    iter.rev()
        .map(|pair| String::from_utf8(pair.unwrap().0).unwrap())
        .collect()
}

/// a to f; b and e in level 1, c and d flushed, the others in memory; `dx` deleted.
fn layered() -> Db {
    let db = fresh();
    for key in ["b", "e", "dx"] {
        db.put(key, key).unwrap();
    }
    db.compact().unwrap();
    for key in ["c", "d"] {
        db.put(key, key).unwrap();
    }
    db.delete("dx").unwrap();
    db.flush().unwrap();
    for key in ["a", "f"] {
        db.put(key, key).unwrap();
    }
    db
}

#[test]
fn bounds_of_every_sort_hold_both_ways() {
    let db = layered();
    let all = ["a", "b", "c", "d", "e", "f"];
    assert_eq!(keys(db.iter().unwrap()), all);
    let bounds = |key: &str| {
        [
            Bound::Unbounded,
            Bound::Included(key.as_bytes().to_vec()),
            Bound::Excluded(key.as_bytes().to_vec()),
        ]
    };
    for low in ["", "a", "b", "bb", "f", "g"] {
        for high in ["", "a", "c", "cc", "dx", "f", "g"] {
            for (lower, upper) in bounds(low)
                .iter()
                .flat_map(|l| bounds(high).map(|u| (l.clone(), u)))
            {
                let inside = |key: &&&str| {
                    let key = key.as_bytes().to_vec();
                    let above = match &lower {
                        Bound::Unbounded => true,
                        Bound::Included(bound) => key >= *bound,
                        Bound::Excluded(bound) => key > *bound,
                    };
                    above
                        && match &upper {
                            Bound::Unbounded => true,
                            Bound::Included(bound) => key <= *bound,
                            Bound::Excluded(bound) => key < *bound,
                        }
                };
                let mut expected: Vec<&str> = all.iter().filter(inside).copied().collect();
                let open = || {
                    let (lower, upper) = (lower.clone(), upper.clone());
                    db.iter_with(IterOptions {
                        lower,
                        upper,
                        ..Default::default()
                    })
                    .unwrap()
                };
                assert_eq!(keys(open()), expected, "{lower:?} {upper:?}");
                expected.reverse();
                assert_eq!(reversed(open()), expected, "{lower:?} {upper:?}");
            }
        }
    }
}

#[test]
fn a_prefix_covers_exactly_the_keys_that_begin_with_it() {
    let db = fresh();
    for key in [
        &b""[..],
        b"a",
        b"ab",
        b"ab\x00",
        b"ab\xff",
        b"ac",
        b"\xff",
        b"\xff\xff",
        b"\xff\xffz",
    ] {
        db.put(key, "v").unwrap();
        db.flush().unwrap();
    }
    let count = |prefix: &[u8]| db.prefix(prefix).unwrap().count();
    let backwards = |prefix: &[u8]| db.prefix(prefix).unwrap().rev().count();
    for (prefix, expected) in [
        (&b""[..], 9),
        (b"a", 5),
        (b"ab", 3),
        (b"ab\xff", 1),
        (b"\xff", 3),
        (b"\xff\xff", 2),
        (b"b", 0),
    ] {
        assert_eq!(
            (count(prefix), backwards(prefix)),
            (expected, expected),
            "{prefix:?}"
        );
    }
    let narrowed = IterOptions {
        prefix: b"ab".to_vec(),
        ..IterOptions::within(&("ab\u{0}"..))
    };
    assert_eq!(db.iter_with(narrowed).unwrap().count(), 2);
    let narrowed = IterOptions {
        prefix: b"ab".to_vec(),
        ..IterOptions::within(&("a"..="ab"))
    };
    assert_eq!(db.iter_with(narrowed).unwrap().count(), 1);
}

#[test]
fn a_prefix_needs_the_bytewise_order() {
    let db = fresh();
    let order = Order::custom("reversed", |a, b| b.cmp(a));
    let own = KeyspaceOptions {
        order: Some(order),
        ..Default::default()
    };
    let keyspace = db.create_keyspace("reversed", own).unwrap();
    assert_eq!(
        keyspace.prefix("a").unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

#[test]
fn seeks_land_beside_what_is_there() {
    let db = layered();
    let mut iter = db.range("b".."f").unwrap();
    let mut at = |target: &str, before: bool| {
        let found = if before {
            iter.seek_before(target)
        } else {
            iter.seek(target)
        }
        .unwrap();
        assert_eq!(found, iter.key().is_some());
        iter.key()
            .map(|key| String::from_utf8(key.to_vec()).unwrap())
    };
    for (target, seek, before) in [
        ("", Some("b"), None),
        ("b", Some("b"), None),
        ("bb", Some("c"), Some("b")),
        ("dx", Some("e"), Some("d")),
        ("e", Some("e"), Some("d")),
        ("ee", None, Some("e")),
        ("zz", None, Some("e")),
    ] {
        assert_eq!(at(target, false).as_deref(), seek, "seek {target}");
        assert_eq!(at(target, true).as_deref(), before, "seek_before {target}");
    }
}

#[test]
fn going_back_a_deleted_key_leaves_nothing_to_the_one_before_it() {
    let db = fresh();
    for key in ["a", "b", "c"] {
        db.put(key, format!("of {key}")).unwrap();
    }
    // Keeps both versions of `c`, the put and the delete, in the table.
    let _before = db.snapshot();
    db.delete("c").unwrap();
    db.compact().unwrap();
    let mut iter = db.iter().unwrap();
    assert!(iter.seek_last().unwrap());
    assert_eq!(iter.key(), Some(&b"b"[..]));
    assert_eq!(iter.value().unwrap(), b"of b");
    assert!(iter.step_back().unwrap());
    assert_eq!(iter.value().unwrap(), b"of a");
    assert!(!iter.step_back().unwrap());
}

#[test]
fn going_back_two_spellings_of_a_key_are_one() {
    let db = fresh();
    let folded = |key: &[u8]| key.to_ascii_lowercase();
    let order = Order::custom("folded", move |a, b| folded(a).cmp(&folded(b)));
    let options = KeyspaceOptions {
        order: Some(order),
        ..KeyspaceOptions::default()
    };
    let names = db.create_keyspace("names", options).unwrap();
    for key in ["Anna", "Bert"] {
        names.put(key, "old").unwrap();
    }
    // Each memtable keeps the spelling it saw first.
    db.flush().unwrap();
    let _before = db.snapshot();
    names.put("BERT", "new").unwrap();
    db.compact().unwrap();
    assert_eq!(reversed(names.iter().unwrap()).len(), 2);
}

#[test]
fn the_direction_may_change_at_every_step() {
    let db = layered();
    let mut iter = db.iter().unwrap();
    let mut walk = String::new();
    assert!(iter.seek("c").unwrap());
    for forward in [true, false, false, true, true, true, false, true, true] {
        let there = if forward {
            iter.step()
        } else {
            iter.step_back()
        }
        .unwrap();
        assert!(there);
        walk.push_str(std::str::from_utf8(iter.key().unwrap()).unwrap());
        assert_eq!(iter.value().unwrap().to_vec(), iter.key().unwrap());
    }
    assert_eq!(walk, "dcbcdedef");
    assert!(!iter.step().unwrap());
    assert_eq!(iter.key(), None);
    assert_eq!(iter.value().unwrap(), b"");
}

#[test]
fn keys_only_reads_no_values() {
    let db = layered();
    db.put_expiring("c", "expired", 1, Default::default())
        .unwrap();
    let options = || IterOptions {
        keys_only: true,
        ..Default::default()
    };
    let mut iter = db.iter_with(options()).unwrap();
    while iter.step().unwrap() {
        assert_eq!(iter.value().unwrap(), b"");
    }
    assert_eq!(
        keys(db.iter_with(options()).unwrap()),
        ["a", "b", "d", "e", "f"]
    );
}

#[test]
fn a_pair_is_what_key_and_value_say() {
    let db = layered();
    db.put("g", vec![b'g'; 200_000]).unwrap();
    for keys_only in [false, true] {
        let options = IterOptions {
            keys_only,
            ..Default::default()
        };
        let mut iter = db.iter_with(options).unwrap();
        assert_eq!(iter.pair().unwrap(), None);
        for step in [Iter::step, Iter::step_back] {
            while step(&mut iter).unwrap() {
                let key = iter.key().unwrap().to_vec();
                let value = iter.value().unwrap().to_vec();
                assert_eq!(value.is_empty(), keys_only);
                assert_eq!(iter.pair().unwrap(), Some((&key[..], &value[..])));
            }
            assert_eq!(iter.pair().unwrap(), None);
        }
    }
}

#[test]
fn an_iterator_lives_through_flushes_and_compaction() {
    for kind in KINDS {
        let db = on(&MemFs::new(), tiny().memtable(kind));
        let write = |value: &str| {
            for number in 0..300u32 {
                db.put(number.to_be_bytes(), format!("{value}{number}"))
                    .unwrap();
            }
        };
        write("first");
        let mut forward = db.iter().unwrap();
        let mut backward = db.iter().unwrap();
        backward.seek_last().unwrap();
        for number in 0..300u32 {
            assert!(forward.step().unwrap());
            assert_eq!(forward.key().unwrap(), number.to_be_bytes());
            assert_eq!(
                forward.value().unwrap(),
                format!("first{number}").as_bytes()
            );
            let other = 299 - number;
            assert_eq!(backward.key().unwrap(), other.to_be_bytes());
            assert_eq!(
                backward.value().unwrap(),
                format!("first{other}").as_bytes()
            );
            backward.step_back().unwrap();
            match number {
                50 | 100 | 150 => {
                    write("later");
                    db.flush().unwrap();
                }
                200 => db.compact().unwrap(),
                _ => {}
            }
        }
        assert!(!forward.step().unwrap() && backward.key().is_none());
    }
}

#[test]
fn refresh_keeps_the_view_and_refresh_to_now_moves_it() {
    let db = layered();
    let mut iter = db.iter().unwrap();
    iter.seek("c").unwrap();
    db.put("c", "changed").unwrap();
    db.delete("d").unwrap();
    db.compact().unwrap();
    iter.refresh().unwrap();
    assert_eq!(iter.key().unwrap(), b"c");
    assert_eq!(iter.value().unwrap(), b"c");
    iter.refresh_to_now().unwrap();
    assert_eq!(iter.value().unwrap(), b"changed");
    assert!(iter.step().unwrap());
    assert_eq!(iter.key().unwrap(), b"e", "d is deleted now");
    db.delete("e").unwrap();
    iter.refresh_to_now().unwrap();
    assert_eq!(iter.key().unwrap(), b"f", "its key is gone: the next");
}

/// With a flush or none between the refresh and the step, which has it find its place again.
#[test]
fn a_step_passes_over_no_pair_that_a_refresh_moved_to() {
    for flushes in [false, true] {
        let db = layered();
        let settle = || {
            if flushes {
                db.flush().unwrap();
                db.put("z", "later").unwrap();
                db.flush().unwrap();
            }
        };
        let moved_to = |iter: &mut Iter, key: &str| {
            settle();
            iter.refresh_to_now().unwrap();
            assert_eq!(iter.key().unwrap(), key.as_bytes());
            settle();
        };
        let mut iter = db.iter().unwrap();
        assert!(iter.seek("b").unwrap());
        db.delete("b").unwrap();
        moved_to(&mut iter, "c");
        assert!(iter.step().unwrap());
        assert_eq!(iter.pair().unwrap().unwrap(), (&b"c"[..], &b"c"[..]));
        assert!(iter.step().unwrap());
        assert_eq!(iter.key().unwrap(), b"d", "once");
        // Another refresh finds its key, and forgets nothing; and so does one that moves again.
        db.delete("d").unwrap();
        moved_to(&mut iter, "e");
        moved_to(&mut iter, "e");
        db.delete("e").unwrap();
        moved_to(&mut iter, "f");
        assert!(iter.step_back().unwrap());
        assert_eq!(iter.key().unwrap(), b"c", "the one before either way");
        db.delete("c").unwrap();
        moved_to(&mut iter, "f");
        let rest: Vec<_> = iter.by_ref().map(|pair| pair.unwrap().0).collect();
        assert_eq!(rest[0], b"f");
        assert!(!iter.step().unwrap(), "past the last");
        // What comes behind it is not met by going on.
        db.put("zz", "zz").unwrap();
        iter.refresh_to_now().unwrap();
        assert!(iter.key().is_none() && !iter.step().unwrap());
        assert!(iter.step_back().unwrap());
        assert_eq!(iter.key().unwrap(), b"zz");
        // A key that is gone with nothing behind it.
        db.delete("zz").unwrap();
        if flushes {
            db.delete("z").unwrap();
        }
        iter.refresh_to_now().unwrap();
        assert!(iter.key().is_none() && !iter.step().unwrap());
        // A seek has it forgotten.
        assert!(iter.seek("a").unwrap());
        db.delete("a").unwrap();
        iter.refresh_to_now().unwrap();
        assert!(iter.seek("f").unwrap());
        assert!(!iter.step().unwrap());
    }
}

#[test]
fn pairs_go_on_from_where_the_iterator_was_put() {
    let db = fresh();
    for key in ["a", "b", "c", "d", "e"] {
        db.put(key, "v").unwrap();
    }
    fn rest(iter: &mut velella::Iter) -> String {
        let keys = iter.map(|pair| String::from_utf8(pair.unwrap().0).unwrap());
        keys.collect()
    }
    let mut iter = db.iter().unwrap();
    assert_eq!(rest(&mut iter), "abcde");
    assert_eq!(rest(&mut iter), "", "it is over");
    assert!(iter.seek("c").unwrap());
    assert_eq!(rest(&mut iter), "cde", "what was sought comes first");
    assert!(iter.seek_before("c").unwrap());
    assert_eq!(rest(&mut iter), "bcde");
    assert!(iter.seek_first().unwrap() && iter.step().unwrap());
    assert_eq!(rest(&mut iter), "cde", "what was stepped to was seen");
    assert!(!iter.seek("x").unwrap());
    assert_eq!(rest(&mut iter), "");
    assert!(iter.step_back().unwrap() && iter.step_back().unwrap());
    assert_eq!(rest(&mut iter), "e");
    iter.seek("b").unwrap();
    assert_eq!(iter.next().unwrap().unwrap().0, b"b");
    iter.refresh().unwrap();
    assert_eq!(iter.next().unwrap().unwrap().0, b"c", "b was seen");
    db.delete("c").unwrap();
    iter.refresh_to_now().unwrap();
    assert_eq!(
        rest(&mut iter),
        "de",
        "d took the place of c and was not seen"
    );
    let back: Vec<_> = iter.rev().map(|pair| pair.unwrap().0).collect();
    assert_eq!(
        back,
        [b"e", b"d", b"b", b"a"],
        "an iterator at its end turns"
    );
}

#[test]
fn a_step_costs_no_search() {
    let db = fresh();
    for number in 0..2_000u32 {
        db.put(number.to_be_bytes(), "v").unwrap();
    }
    let mut iter = db.iter().unwrap();
    iter.seek_first().unwrap();
    let before = counter(&db, "memtable_comparisons");
    while iter.step().unwrap() {}
    let memory = counter(&db, "memtable_comparisons") - before;
    assert!(
        memory < 4_000,
        "{memory} comparisons for 2,000 steps in memory"
    );
    db.compact().unwrap();
    let mut iter = db.iter().unwrap();
    iter.seek_first().unwrap();
    let before = counter(&db, "table_comparisons");
    while iter.step().unwrap() {}
    let tables = counter(&db, "table_comparisons") - before;
    assert!(
        tables < 4_000,
        "{tables} comparisons for 2,000 steps in a table"
    );
}

#[test]
fn an_old_view_passes_no_versions_in_memtables_that_came_after_it() {
    let db = fresh();
    let put_all = |value: &str| {
        for key in 0..100u8 {
            db.put([key], value).unwrap();
        }
    };
    put_all("old");
    let view = db.snapshot();
    put_all("new");
    db.flush().unwrap();
    put_all("newer");
    let seen = |key: u8, value: &str| {
        let mut iter = view.iter(&db.default_keyspace()).unwrap();
        assert!(iter.seek([key]).unwrap());
        assert_eq!(iter.value().unwrap(), value.as_bytes());
        let mut pairs = 1;
        while iter.step().unwrap() {
            assert_eq!(iter.value().unwrap(), value.as_bytes());
            pairs += 1;
        }
        pairs
    };
    let skipped = counter(&db, "memtable_versions_skipped");
    assert_eq!(seen(0, "old"), 100);
    assert_eq!(seen(40, "old"), 60);
    assert_eq!(counter(&db, "memtable_versions_skipped"), skipped);
}

/// What 1,000 steps from the middle count: comparisons in memory and in tables, blocks fetched.
fn counted(db: &Db, back: bool) -> [u64; 3] {
    let mut iter = db.iter().unwrap();
    iter.seek(5_000u32.to_be_bytes()).unwrap();
    // The first step may turn round, which is a search.
    let step = |iter: &mut Iter| match back {
        false => assert!(iter.step().unwrap()),
        true => assert!(iter.step_back().unwrap()),
    };
    step(&mut iter);
    let now = || {
        let blocks = db.stats().cache;
        [
            counter(db, "memtable_comparisons"),
            counter(db, "table_comparisons"),
            blocks.hits + blocks.misses,
        ]
    };
    let before = now();
    (0..1_000).for_each(|_| step(&mut iter));
    std::array::from_fn(|i| now()[i] - before[i])
}

/// 10,000 keys, still in memory.
fn ascending(builder: Builder) -> Db {
    let db = on(&MemFs::new(), builder);
    for number in 0..10_000u32 {
        db.put(number.to_be_bytes(), "a value").unwrap();
    }
    db
}

#[test]
fn a_step_back_counts_little_more_than_a_step_forward() {
    // In memory a run of keys is gathered by one search, and handed out from its end: as long a run
    // as one likes, or an entry of eight.
    for (kind, most) in [(MemtableKind::Jellyfish, 300), (MemtableKind::S3, 1_600)] {
        let builder = tiny().write_buffer(8 << 20).memtable(kind);
        let [comparisons, ..] = counted(&ascending(builder), true);
        assert!(
            comparisons <= most,
            "{comparisons} in {kind:?}, 1,000 steps"
        );
    }
    let db = ascending(tiny().write_buffer(8 << 20));
    db.compact().unwrap();
    let (forward, back) = (counted(&db, false), counted(&db, true));
    let [_, comparisons, blocks] = back;
    assert_eq!(comparisons, 0, "steps within tables search nothing");
    assert!(blocks <= forward[2] * 13 / 10, "{back:?} {forward:?}");
    // Two levels: each step moves one source.
    for number in (0..10_000u32).step_by(2) {
        db.put(number.to_be_bytes(), "another").unwrap();
    }
    db.flush().unwrap();
    let (forward, back) = (counted(&db, false), counted(&db, true));
    assert!(back[1] <= 20, "{back:?} {forward:?}");
    assert!(back[2] <= forward[2] * 13 / 10 + 2, "{back:?} {forward:?}");
}

#[test]
fn first_last_and_is_empty_are_the_ends_of_what_an_iterator_shows() {
    let db = layered();
    let layers = db.snapshot();
    let named = |pair: Option<(Vec<u8>, velella::Value)>| {
        pair.map(|(key, value)| {
            assert_eq!(value, key);
            String::from_utf8(key).unwrap()
        })
    };
    let ends = || [named(db.first().unwrap()), named(db.last().unwrap())];
    let some = |key: &str| Some(key.to_owned());
    assert_eq!(ends(), [some("a"), some("f")]);
    db.delete("a").unwrap();
    db.delete("f").unwrap();
    db.put_expiring("g", "over", 1, Default::default()).unwrap();
    assert_eq!(ends(), [some("b"), some("e")]);
    assert!(!db.is_empty().unwrap());
    for key in ["b", "c", "d", "e"] {
        db.delete(key).unwrap();
    }
    assert_eq!(ends(), [None, None]);
    assert!(db.is_empty().unwrap());
    assert!(!layers.is_empty(&db).unwrap());
    assert_eq!(named(layers.first(&db).unwrap()), some("a"));
    assert_eq!(named(layers.last(&db).unwrap()), some("f"));
    let other = db.create_keyspace("other", Default::default()).unwrap();
    assert!(other.is_empty().unwrap() && layers.is_empty(&other).unwrap());
    other.put("k", "k").unwrap();
    assert!(!other.is_empty().unwrap() && layers.is_empty(&other).unwrap());
    db.drop_keyspace("other").unwrap();
    let error = other.is_empty().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    db.close().unwrap();
    for closed in [db.first().unwrap_err(), layers.last(&db).unwrap_err()] {
        assert_eq!(closed.kind(), ErrorKind::Closed);
    }
}

/// The value between is in a file that is gone: who reads it fails.
#[test]
fn the_last_pair_is_had_without_those_before_it() {
    let fs = MemFs::new();
    let db = on(&fs, alone());
    for key in ["a", "c", "d", "e"] {
        db.put(key, key).unwrap();
    }
    db.put("b", vec![7; INLINE_BYTES + 1]).unwrap();
    db.put("d", vec![7; INLINE_BYTES + 1]).unwrap();
    for path in fs.files() {
        if path.extension().is_some_and(|end| end == "ext") {
            fs.remove(&path).unwrap();
        }
    }
    let key = |pair: Option<velella::Result<(Vec<u8>, velella::Value)>>| {
        pair.map(|pair| String::from_utf8(pair.unwrap().0).unwrap())
    };
    let some = |key: &str| Some(key.to_owned());
    assert_eq!(key(db.iter().unwrap().last()), some("e"));
    assert_eq!(key(db.range("a".."c").unwrap().rev().last()), some("a"));
    let mut iter = db.iter().unwrap();
    assert!(iter.seek("e").unwrap());
    assert_eq!(key(iter.last()), some("e"), "what was sought comes yet");
    let mut iter = db.iter().unwrap();
    assert!(iter.seek_last().unwrap());
    assert_eq!(key(iter.next()), some("e"));
    assert_eq!(key(iter.last()), None, "and then no more");
    let mut ended = db.range("x"..).unwrap();
    assert!(ended.next().is_none() && ended.last().is_none());
    let mut back = db.range("c".."d").unwrap().rev();
    assert_eq!(key(back.next()), some("c"));
    assert_eq!(key(back.last()), None);
    assert!(db.range("d"..="d").unwrap().last().unwrap().is_err());
}
