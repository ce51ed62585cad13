//! A history for a checker that knows nothing of stamps: one JSON object a line.
//!
//! Each line is one operation on one key of one history: `{"history", "key", "client", "call",
//! "return", "kind", "input", "output"}`. Values are written shortened to what tells them apart;
//! an absent one is the empty text. A batch counts as a write of each of its keys, a snapshot as
//! a read of each, and so does a scan; a swap that was refused reads that a key holds something
//! `other`: what an operation on several keys promises beyond that is not in here.
//!
//! E1. A snapshot that is read again is left out: it says nothing of the present. So is the one
//!     counter, which is no key that others write.
//! E2. What expires has a name that begins with `e`; that its time has come is an `expire` of each
//!     key. A batch judges that by a snapshot before it: what it found of such a value is left out.
//! E3. So is what a snapshot, a scan or a read of several keys finds alive that expires, where the
//!     time may have come meanwhile: it stands at its stamp, with the time of then. A put whose
//!     stamp is below that may be published only afterwards. Then it is seen alive by who waited
//!     for it, and by a plain get, which passes over it until then, never: both as promised, but
//!     no order of one register with one moment at which the time comes.
//!
//! Tests: `tests/histories.rs`; `.ci/porcupine.sh` reads it.

use super::event::{Event, KEYS, Value, What};
use super::expiry::expires;
use std::io::{self, Write};

/// Writes the operations of history `number` to `out`.
///
/// # Errors
/// Those of `out`.
pub fn write(number: u64, events: &[Event], out: &mut dyn Write) -> io::Result<()> {
    let (comes, came) = events
        .iter()
        .find(|event| matches!(event.what, What::Expired))
        .map_or((u64::MAX, u64::MAX), |event| (event.begin, event.end));
    for event in events {
        let is_sure = event.end <= comes || event.begin >= came;
        for (key, kind, input, output) in operations(&event.what, is_sure) {
            let line = serde_json::json!({
                "history": number, "key": key, "client": event.client,
                "call": event.begin, "return": event.end,
                "kind": kind, "input": input, "output": output,
            });
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

type Operation = (usize, &'static str, String, String);

/// What `what` says of each key; `is_sure`: the time at which values expire did not come meanwhile.
fn operations(what: &What, is_sure: bool) -> Vec<Operation> {
    let nothing = String::new;
    let read = |key: usize, value: &Value| (key, "read", nothing(), name(value.as_ref()));
    let at_a_stamp = |key: usize, value: Option<&Vec<u8>>| {
        let is_told = is_sure || !value.is_some_and(|value| expires(value));
        is_told.then(|| (key, "read", nothing(), name(value)))
    };
    match what {
        What::Wrote { changes, .. } => changes
            .iter()
            .map(|(key, value)| (*key, "write", name(value.as_ref()), nothing()))
            .collect(),
        What::Based {
            changes,
            bases,
            read_at,
            ..
        } => changes
            .iter()
            .map(|(key, value)| {
                let base = bases.get(key).and_then(Option::as_ref);
                let base = base.map(|(_, base)| base);
                let kind = match base {
                    Some(base) if read_at.is_some() && expires(base) => "write",
                    _ => "swap",
                };
                (*key, kind, name(value.as_ref()), name(base))
            })
            .collect(),
        What::Swapped { key, base, value } => {
            let base = base.as_ref().map(|(_, base)| base);
            vec![(*key, "swap", name(Some(value)), name(base))]
        }
        What::Refused { key, expected } => {
            vec![(*key, "other", nothing(), name(expected.as_ref()))]
        }
        What::Scanned { asked, pairs } => {
            let shown = |key: &usize| pairs.iter().find(|(shown, _)| shown == key);
            let value = |key| shown(key).map(|(_, value)| value);
            let read = asked.iter().map(|key| at_a_stamp(*key, value(key)));
            read.flatten().collect()
        }
        What::Got { key, value, .. } => vec![read(*key, value)],
        // One key is looked up as it is when it is found.
        What::Strict { values } if values.len() == 1 => values
            .iter()
            .map(|(key, value)| read(*key, value))
            .collect(),
        What::Strict { values } => values
            .iter()
            .filter_map(|(key, value)| at_a_stamp(*key, value.as_ref()))
            .collect(),
        What::Saw { state, .. } => (0..KEYS)
            .filter_map(|key| at_a_stamp(key, state.get(&key)))
            .collect(),
        What::SawAgain { .. } | What::Counted { .. } => Vec::new(),
        What::Expired => (0..KEYS)
            .map(|key| (key, "expire", nothing(), nothing()))
            .collect(),
    }
}

/// A value without its filling.
fn name(value: Option<&Vec<u8>>) -> String {
    let text = value.map(|value| String::from_utf8_lossy(value).into_owned());
    text.unwrap_or_default().trim_end_matches('x').to_owned()
}
