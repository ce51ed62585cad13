//! Every input that ever taught something, once more.
//!
//! An input of `fuzz/corpus/<target>/` called `regression-…` is a finding that was mended; the
//! others reach code that the rest does not.

use std::panic::{AssertUnwindSafe, catch_unwind};
use velella_reliability::targets;

fn replay(name: &str) {
    let target = targets::of(name).unwrap();
    let inputs = targets::corpus(name).unwrap();
    assert!(!inputs.is_empty(), "{name} has no inputs");
    for (file, input) in inputs {
        let ran = catch_unwind(AssertUnwindSafe(|| (target.run)(&input)));
        assert!(ran.is_ok(), "fuzz/corpus/{name}/{file} breaks a property");
    }
}

macro_rules! replays {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                replay(stringify!($name));
            }
        )*

        #[test]
        fn every_target_is_replayed_and_every_corpus_has_a_target() {
            let replayed = [$(stringify!($name)),*];
            for target in targets::ALL {
                assert!(replayed.contains(&target.name), "{target:?}");
            }
            let corpora = targets::corpus_dir("journal").join("..");
            for entry in std::fs::read_dir(corpora).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                assert!(replayed.contains(&name.as_str()), "{name}");
            }
        }
    };
}

replays! {
    journal commit manifest small_files table block index footer filter properties compression
    requests commands globs numbers records text operations
}

#[test]
fn the_corpus_stays_small() {
    let mut bytes = 0;
    for target in targets::ALL {
        for (file, input) in targets::corpus(target.name).unwrap() {
            assert!(input.len() <= 32 << 10, "{}/{file}", target.name);
            bytes += input.len();
        }
    }
    assert!(bytes < 2 << 20, "{bytes} bytes");
}
