//! How much one call of SCAN does at most, and that many together miss nothing.

#![allow(clippy::unwrap_used, reason = "what helps a test fails as a test does")]

use crate::common::{Answer, Client, Fixture, ok};
use std::collections::BTreeSet;

/// What each call of a whole scan with `options` returned.
fn scan(client: &mut Client, options: &[&[u8]]) -> Vec<Vec<Vec<u8>>> {
    let (mut cursor, mut calls) = (b"0".to_vec(), Vec::new());
    loop {
        let request = [&[&b"SCAN"[..], &cursor], options].concat();
        let Answer::Array(mut answer) = client.call(&request) else {
            panic!("a cursor and keys")
        };
        let (Some(Answer::Array(keys)), Some(Answer::Bulk(next))) = (answer.pop(), answer.pop())
        else {
            panic!("a cursor and keys")
        };
        let keys = keys.into_iter().map(|key| match key {
            Answer::Bulk(key) => key,
            other => panic!("{other:?}"),
        });
        calls.push(keys.collect());
        cursor = next;
        if cursor == b"0" {
            return calls;
        }
    }
}

#[test]
fn a_scan_of_long_keys_stops_before_its_reply_exceeds_the_limit() {
    let fixture = Fixture::with(|config| config.max_output_bytes = 1 << 20);
    let mut client = fixture.client();
    let mut key = vec![b'k'; 64 << 10];
    for number in 0..50 {
        key[0] = number;
        assert_eq!(client.call(&[b"SET", &key, b"v"]), ok());
    }
    let calls = scan(&mut client, &[b"COUNT", b"1000"]);
    for keys in &calls {
        assert!(keys.len() < 16, "{} keys of 64 KiB", keys.len());
    }
    let seen: BTreeSet<_> = calls.into_iter().flatten().collect();
    assert_eq!(seen.len(), 50);
    fixture.stop();
}

/// Each key costs as much as a key can.
#[test]
fn a_scan_whose_pattern_costs_much_stops_early_and_finds_all() {
    let fixture = Fixture::start();
    let mut client = fixture.client();
    let mut matching = BTreeSet::new();
    for number in 0..6 {
        let mut key = vec![b'a'; 64 << 10];
        key[0] = number;
        if number % 2 == 1 {
            key[(64 << 10) - 1] = b'b';
            matching.insert(key.clone());
        }
        assert_eq!(client.call(&[b"SET", &key, b"v"]), ok());
    }
    let pattern = [&b"*"[..], &[b'a'; 1022], b"b"].concat();
    let calls = scan(&mut client, &[b"MATCH", &pattern, b"COUNT", b"1000"]);
    assert!(calls.len() >= 6, "{} calls", calls.len());
    let seen: BTreeSet<_> = calls.into_iter().flatten().collect();
    assert!(seen == matching, "{} keys", seen.len());
    fixture.stop();
}
