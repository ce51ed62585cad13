//! A boxed cursor is the cursor in the box: every call arrives, as it was made, and its answer
//! comes back.

use std::cell::RefCell;
use velella_base::{Cursor, Entry, Error, ErrorKind, Result, Stamp, ValueKind};

/// Notes what it is asked, and refuses to move where it is told to.
#[derive(Default)]
struct Noting {
    calls: RefCell<Vec<String>>,
    refuses: bool,
    newest: bool,
}

impl Noting {
    fn note(&self, call: String) -> Result<()> {
        self.calls.borrow_mut().push(call);
        match self.refuses {
            true => Err(Error::new(ErrorKind::Io, "move", "it was told not to")),
            false => Ok(()),
        }
    }
}

impl Cursor for Noting {
    fn seek_first(&mut self) -> Result<()> {
        self.note("first".into())
    }
    fn seek_last(&mut self) -> Result<()> {
        self.note("last".into())
    }
    fn seek(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        self.note(format!("seek {key:?} {stamp}"))
    }
    fn aim(&mut self, key: &[u8], stamp: Stamp) {
        let _ = self.note(format!("aim {key:?} {stamp}"));
    }
    fn approach(&mut self) {
        let _ = self.note("approach".into());
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.note(format!("before {key:?}"))
    }
    fn next(&mut self) -> Result<()> {
        self.note("next".into())
    }
    fn prev(&mut self) -> Result<()> {
        self.note("prev".into())
    }
    fn pass(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        self.note(format!("pass {key:?} {stamp}"))
    }
    fn is_newest(&self) -> bool {
        self.newest
    }
    fn key(&self) -> Option<&[u8]> {
        Some(b"asked for alone")
    }
    fn entry(&self) -> Option<Entry<'_>> {
        (!self.refuses).then_some(Entry {
            key: b"k",
            stamp: Stamp(7),
            kind: ValueKind::Merge,
            value: b"v",
        })
    }
}

type Movement = fn(&mut dyn Cursor) -> Result<()>;

const MOVEMENTS: [(Movement, &str); 7] = [
    (|cursor| cursor.seek_first(), "first"),
    (|cursor| cursor.seek_last(), "last"),
    (|cursor| cursor.seek(b"a", Stamp(3)), "seek [97] 3"),
    (|cursor| cursor.seek_before(b"b"), "before [98]"),
    (|cursor| cursor.next(), "next"),
    (|cursor| cursor.prev(), "prev"),
    (|cursor| cursor.pass(b"p", Stamp(6)), "pass [112] 6"),
];

#[test]
fn a_boxed_cursor_passes_every_call_and_answer_on() {
    for refuses in [false, true] {
        let newest = !refuses;
        let inner = Noting {
            refuses,
            newest,
            ..Noting::default()
        };
        // Boxed twice: through `Box<T>` and `Box<dyn Cursor>`.
        let mut boxed: Box<Box<Noting>> = Box::new(Box::new(inner));
        for (movement, _) in MOVEMENTS {
            let moved = movement(&mut boxed);
            assert_eq!(
                moved.err().map(|error| error.kind()),
                refuses.then_some(ErrorKind::Io)
            );
        }
        boxed.aim(b"c", Stamp(4));
        boxed.approach();
        assert_eq!(boxed.is_newest(), newest);
        assert_eq!(boxed.key(), Some(&b"asked for alone"[..]));
        assert_eq!(
            boxed.entry().map(|entry| entry.value.to_vec()),
            newest.then(|| b"v".to_vec())
        );
        let mut expected: Vec<_> = MOVEMENTS.iter().map(|(_, call)| *call).collect();
        expected.extend(["aim [99] 4", "approach"]);
        assert_eq!(*boxed.calls.borrow(), expected);
    }
}

/// Implements only what a cursor must.
struct Least;

impl Cursor for Least {
    fn seek_first(&mut self) -> Result<()> {
        Ok(())
    }
    fn seek_last(&mut self) -> Result<()> {
        Ok(())
    }
    fn seek(&mut self, _key: &[u8], _stamp: Stamp) -> Result<()> {
        Ok(())
    }
    fn seek_before(&mut self, _key: &[u8]) -> Result<()> {
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        Ok(())
    }
    fn entry(&self) -> Option<Entry<'_>> {
        None
    }
}

#[test]
fn hints_need_not_be_taken_and_nothing_is_claimed_to_be_newest() {
    let mut cursor: Box<dyn Cursor> = Box::new(Least);
    cursor.aim(b"a", Stamp::MAX);
    cursor.approach();
    cursor.seek(b"a", Stamp::MAX).unwrap();
    assert!(cursor.entry().is_none());
    // U6: "I do not know" is always an answer.
    assert!(!cursor.is_newest());
}
