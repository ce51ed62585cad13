//! The grammar of file names: a file has one name, and a name one file.
//!
//! Claims: `file_name.rs` N2.

use crate::draws::Draws;
use std::collections::BTreeSet;
use std::path::Path;
use velella_base::file_name::{FileName, JOURNAL_DIR};

type Numbered = fn(u64) -> FileName;

/// Each kind of numbered file, how it is spelled, and whether it is the journal's.
const NUMBERED: [(Numbered, &str, &str, bool); 6] = [
    (FileName::Manifest, "MANIFEST-", "", false),
    (FileName::Table, "", ".sst", false),
    (FileName::External, "", ".ext", false),
    (FileName::Segment, "", ".seg", true),
    (FileName::LargeSegment, "", ".large", true),
    (FileName::Seal, "", ".seal", true),
];

#[test]
fn every_number_has_one_name_in_its_directory_and_is_read_back() {
    let db = Path::new("/db");
    let mut numbers = vec![0, 1, 99_999, 100_000, 999_999, 1_000_000, 1 << 62, u64::MAX];
    let mut draws = Draws(1);
    numbers.extend((0..200).map(|_| draws.number()));
    for number in numbers {
        for (of, start, end, in_journal) in NUMBERED {
            let (file, name) = (of(number), format!("{start}{number:06}{end}"));
            let dir = match in_journal {
                true => db.join(JOURNAL_DIR),
                false => db.to_path_buf(),
            };
            assert_eq!(file.path(db), dir.join(&name));
            assert_eq!(FileName::parse(&name), Some(file), "{name}");
            assert_eq!(file.number(), Some(number));
        }
    }
    for (file, name) in [(FileName::Lock, "LOCK"), (FileName::Current, "CURRENT")] {
        assert_eq!(file.path(db), db.join(name));
        assert_eq!((FileName::parse(name), file.number()), (Some(file), None));
    }
}

#[test]
fn a_name_that_is_not_exactly_what_we_write_is_not_ours() {
    for digits in ["000007", "123456", "18446744073709551615"] {
        for (_, start, end, _) in NUMBERED {
            let name = format!("{start}{digits}{end}");
            assert!(FileName::parse(&name).is_some(), "{name}");
            for other in [
                format!("{start}{digits}{end}~"),
                format!("{start}{digits}{end}.tmp"),
                format!("{start}{digits}.{end}"),
                format!(" {start}{digits}{end}"),
                format!("{start}{digits} {end}"),
                format!("{start}+{digits}{end}"),
                format!("{start}-{digits}{end}"),
                format!("{start}x{digits}{end}"),
                format!("{start}/{digits}{end}"),
                format!("{start}0{digits}{end}"),
                format!("{start}00{digits}{end}"),
                format!("{start}{}{end}", &digits[..5]),
                format!("{start}{digits}٣{end}"),
            ] {
                // A leading nought makes another name of the same number: of no file of ours.
                assert_eq!(FileName::parse(&other), None, "{other}");
            }
        }
    }
    for name in [
        "",
        ".",
        "..",
        ".sst",
        "LOCK ",
        "lock",
        "CURRENT.tmp",
        "MANIFEST",
        "journal",
    ] {
        assert_eq!(FileName::parse(name), None, "{name}");
    }
    // One above the largest number.
    assert_eq!(FileName::parse("18446744073709551616.sst"), None);
    assert_eq!(FileName::parse("000001.SST"), None);
}

#[test]
fn whatever_parses_is_spelled_as_it_was_read() {
    let mut parsed = BTreeSet::new();
    for seed in 0..50_000 {
        let mut draws = Draws(seed);
        let digits: String = (0..4 + draws.below(5))
            .map(|_| char::from(b"0123456789a"[draws.below(11)]))
            .collect();
        let (_, start, end, _) = NUMBERED[draws.below(6)];
        let name = format!("{start}{digits}{end}");
        if let Some(file) = FileName::parse(&name) {
            let path = file.path(Path::new("/db"));
            assert_eq!(
                path.file_name().unwrap().to_str(),
                Some(&name[..]),
                "seed {seed}"
            );
            parsed.insert(file);
        }
    }
    assert!(parsed.len() > 5_000, "{} names", parsed.len());
}
