//! What a client that asks for nothing costs. Alone in its program: it measures all memory.

#![cfg(target_os = "linux")]

mod common;

use common::{Answer, Fixture, encode, most_memory};

#[test]
fn idle_connections_hold_no_memory() {
    let fixture = Fixture::start();
    let words = |count: usize| [&b"PING"[..], &b" x".repeat(count), b"\r\n"].concat();
    let arguments = [&[b"PING".as_slice()][..], &[b"".as_slice(); 9_000]].concat();
    let text = vec![b'v'; 4 << 20];
    // An inline command and an array of many arguments; and a long argument, with the beginning of
    // the next command behind it.
    let many = [words(30_000), encode(&arguments)];
    let long = [encode(&[b"ECHO", &text]), b"*1\r\n".to_vec()].concat();
    let before = most_memory();
    let mut clients = Vec::new();
    for _ in 0..100 {
        for request in &many {
            let mut client = fixture.client();
            client.send(request);
            let refused = "ERR wrong number of arguments for 'ping' command";
            assert_eq!(client.answer(), common::error(refused));
            clients.push(client.stream);
        }
    }
    let grown = most_memory() - before;
    assert!(grown < 20 << 20, "{grown} bytes by many arguments");
    for _ in 0..20 {
        let mut client = fixture.client();
        client.send(&long);
        assert_eq!(client.answer(), Answer::Bulk(text.clone()));
        clients.push(client.stream);
    }
    let grown = most_memory() - before;
    assert!(grown < 60 << 20, "{grown} bytes by long arguments");
    fixture.stop();
}
