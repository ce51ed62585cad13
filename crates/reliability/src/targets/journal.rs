//! Recovery and listing of a journal made of any bytes.
//!
//! J1. What an undamaged journal promises is recovered, no more and no less.
//! J2. Otherwise: an error that names its file, or records in ascending order, each no larger than
//!     the files together.
//! J3. Recovery repeats: it gives the same again.
//! J4. A listing comes to its end.
//!
//! Threads: any. Tests: `tests/corpus.rs`.

use super::forge::{self, Forged, forge};
use std::path::Path;
use std::sync::Arc;
use velella_base::file_name::FileName;
use velella_base::{ErrorKind, Result};
use velella_journal::inspect::{self, Detail};
use velella_journal::{Last, Recovery, Start, batch};
use velella_vfs::Vfs;

const DIR: &str = "/db";

/// A recipe for a journal.
pub(super) fn journal(recipe: &[u8]) {
    let forged = forge(recipe);
    let recovered = recover(&forged);
    if let Some(expected) = &forged.expected {
        let recovered = recovered.as_ref().map_err(ToString::to_string);
        assert_eq!(recovered, Ok(expected), "J1");
    }
    match &recovered {
        Ok(records) => {
            assert!(records.windows(2).all(|two| two[0].0 < two[1].0), "J2");
            assert!(
                records
                    .iter()
                    .all(|(_, payload)| payload.len() <= forged.bytes),
                "J2"
            );
        }
        Err(error) => {
            assert!(error.file().is_some(), "J2: {error}");
            let kinds = [ErrorKind::Corruption, ErrorKind::Unsupported];
            assert!(kinds.contains(&error.kind()), "J2: {error:?}");
        }
    }
    let again = recover(&forged);
    assert_eq!(again.map_err(text), recovered.map_err(text), "J3");
    let mut listing = String::new();
    let listed = inspect::journal(&forged.fs, DIR.as_ref(), Detail::Operations, &mut listing);
    assert_eq!(listed.map_err(text), Ok(()), "J4");
}

fn text(error: velella_base::Error) -> String {
    error.to_string()
}

fn recover(forged: &Forged) -> Result<Vec<(u64, Vec<u8>)>> {
    let dir = Path::new(DIR);
    let last = Last {
        incarnation: forge::INCARNATION,
        start: Start {
            seal_file: forge::SEAL,
            token: forged.fs.identity(&FileName::Seal(forge::SEAL).path(dir))?,
        },
        durable: velella_base::Stamp::ZERO,
        assume_power_loss: forged.power_loss,
        accept_loss: forged.accept_loss,
    };
    let fs = Arc::new(forged.fs.clone());
    let mut recovery = Recovery::open(fs, dir, forge::DATABASE, &last)?;
    let mut records = Vec::new();
    while let Some(record) = recovery.next_record()? {
        records.push((record.stamp.0, record.payload.to_vec()));
    }
    Ok(records)
}

/// The operations of a commit.
pub(super) fn commit(payload: &[u8]) {
    let (mut again, mut covered) = (Vec::new(), 0);
    for operation in batch::decode(payload) {
        let Ok(operation) = operation else {
            return;
        };
        covered += operation.key.len() + operation.value.len();
        assert!(covered <= payload.len(), "operations do not overlap");
        batch::encode_into(&mut again, &operation);
    }
    assert!(
        again.len() <= payload.len(),
        "encoded anew it is not longer"
    );
    let (first, second) = (batch::decode(payload), batch::decode(&again));
    let of = |operations: batch::Operations<'_>| -> Vec<_> {
        let operations = operations.map_while(Result::ok);
        operations
            .map(|one| (one.keyspace, one.kind, one.key.to_vec(), one.value.to_vec()))
            .collect()
    };
    assert_eq!(of(first), of(second), "decoded, encoded, decoded");
}
