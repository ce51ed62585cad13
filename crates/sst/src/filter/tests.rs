//! Filters: what they admit, what they deny, and bytes that are none.

use super::*;

fn hashes(range: std::ops::Range<u64>) -> Vec<u64> {
    range.map(|n| key_hash(&n.to_be_bytes())).collect()
}

fn built(hashes: &[u64], bits: u32) -> Filter {
    Filter::build(&hashes.iter().copied().collect(), bits)
}

#[test]
fn no_added_key_is_denied_and_one_in_a_hundred_strangers_is_let_in() {
    let added = hashes(0..100_000);
    let filter = built(&added, 10);
    assert!(added.iter().all(|&hash| filter.may_contain(hash)));
    let strangers = hashes(1_000_000..1_100_000);
    let let_in = strangers.iter().filter(|&&h| filter.may_contain(h)).count();
    assert!((500..1_300).contains(&let_in), "{let_in} of 100,000");
}

#[test]
fn filters_round_trip_and_other_bytes_are_refused() {
    let added = hashes(0..1000);
    let filter = built(&added, 12);
    let mut bytes = Vec::new();
    filter.encode(&mut bytes);
    let read = Filter::decode(&bytes).unwrap();
    assert!(added.iter().all(|&hash| read.may_contain(hash)));
    assert_eq!(read.bytes(), filter.bytes());
    for bad in [&bytes[1..], &[1][..], &[][..], &[0; 65], &[200; 65]] {
        assert!(Filter::decode(bad).is_none());
    }
}

#[test]
fn an_empty_filter_denies_everything() {
    assert!(!built(&[], 10).may_contain(key_hash(b"x")));
}

#[test]
fn more_bits_let_fewer_strangers_in_and_never_deny_a_key() {
    let (added, strangers) = (hashes(0..20_000), hashes(1_000_000..1_020_000));
    let mut before = strangers.len();
    for bits in [1, 2, 4, 6, 8, 10, 14, 20, 30, 200] {
        let filter = built(&added, bits);
        assert!(
            added.iter().all(|&hash| filter.may_contain(hash)),
            "B1: {bits}"
        );
        let let_in = strangers.iter().filter(|&&h| filter.may_contain(h)).count();
        assert!(
            let_in <= before + 20,
            "{let_in} with {bits} bits, {before} with fewer"
        );
        // Ten percent more than asked for, and the rest of a page.
        let most = u64::from(bits) * 20_000 / 8 * 11 / 10 + 4096;
        assert!(filter.bytes() <= most, "{bits}: {} bytes", filter.bytes());
        before = let_in;
    }
    assert_eq!(before, 0, "with 200 bits a key nobody gets in");
}

#[test]
fn a_filter_of_any_size_answers_alike_from_its_bytes() {
    for keys in [0, 1, 2, 51, 52, 500] {
        let filter = built(&hashes(0..keys), 10);
        let mut bytes = Vec::new();
        filter.encode(&mut bytes);
        assert_eq!(bytes.len() as u64, filter.bytes() + 1);
        let read = Filter::decode(&bytes).unwrap();
        for hash in hashes(0..3_000) {
            assert_eq!(read.may_contain(hash), filter.may_contain(hash));
        }
        // Whole lines and a sensible number of probes, or none.
        let last = bytes.len() - 1;
        for probes in 0..=u8::MAX {
            bytes[last] = probes;
            assert_eq!(Filter::decode(&bytes).is_some(), (1..=16).contains(&probes));
        }
    }
}

#[test]
fn the_hash_of_a_key_stands_in_files() {
    // XXH3, 64 bits, seed 0: https://github.com/Cyan4973/xxHash
    assert_eq!(key_hash(b""), 0x2d06_8005_38d3_94c2);
    assert_ne!(key_hash(b"a"), key_hash(b"a\0"));
}
