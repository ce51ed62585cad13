//! State words: every state has its own bits, and only the decided say so.
//!
//! Claims: the drawing in `word.rs`.

use std::collections::BTreeMap;
use velella_base::{Stamp, ValueKind};
use velella_mvcc::Word;
use velella_mvcc::word::ABORTED;

fn words() -> Vec<Word> {
    let mut words = vec![Word::Aborted];
    let stamps = (0..56).flat_map(|bit| [Stamp(1 << bit), Stamp((1 << bit) - 1)]);
    for stamp in stamps.chain([Stamp::MAX]) {
        words.push(Word::Committed(stamp, None));
        let of = |kind| Word::Committed(stamp, Some(kind));
        words.extend(ValueKind::ALL.map(of));
    }
    words.extend([0, 1, 255, 256, 65_535, 1 << 40].map(Word::Pending));
    // Cells are heap allocations of eight bytes.
    words.extend((3..47).map(|bit| Word::Cell(1 << bit)));
    words.extend([8, 0x7fff_ffff_fff8].map(Word::Cell));
    words
}

#[test]
fn no_two_states_share_a_word_and_each_is_read_back() {
    let mut known = BTreeMap::new();
    for word in words() {
        let bits = word.encode();
        assert_eq!(Word::decode(bits), word);
        if let Some(other) = known.insert(bits, word) {
            assert_eq!(other, word, "{bits:#x}");
        }
    }
    assert!(known.len() > 400, "{}", known.len());
}

#[test]
fn who_is_pending_or_in_a_batch_is_undecided_and_nobody_else() {
    for word in words() {
        let is_open = matches!(word, Word::Pending(_) | Word::Cell(_));
        assert_eq!(Word::is_undecided(word.encode()), is_open, "{word:?}");
    }
    assert_eq!(Word::Aborted.encode(), ABORTED);
}

#[test]
fn committed_words_order_as_their_stamps_do() {
    let word = |stamp, kind| Word::Committed(Stamp(stamp), kind).encode();
    for stamp in [0, 1, 254, 255, 256, Stamp::MAX.0 - 1] {
        for kind in ValueKind::ALL {
            assert!(
                word(stamp, Some(kind)) < word(stamp + 1, None),
                "{stamp} {kind:?}"
            );
        }
    }
}

#[test]
fn a_kind_nobody_knows_is_read_as_none() {
    let last = ValueKind::ALL.len() as u64;
    for number in last + 1..64 {
        assert_eq!(
            Word::decode(5 << 8 | number << 2),
            Word::Committed(Stamp(5), None)
        );
    }
}

#[test]
#[should_panic(expected = "cells are aligned")]
#[cfg(debug_assertions)]
fn a_cell_at_an_odd_address_is_a_mistake_of_ours() {
    let _ = Word::Cell(9).encode();
}
