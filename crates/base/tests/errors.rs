//! Errors: their kinds follow from causes, their texts from parts, and limits are named.
//!
//! Claims: `error.rs` E1, E2; `limits.rs`; `kind.rs` K1, K2; `stamp.rs`.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::io;
use std::path::Path;
use velella_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX, check_key, check_value};
use velella_base::{Error, ErrorKind, Stamp, ValueKind};

const KINDS: [ErrorKind; 12] = [
    ErrorKind::Io,
    ErrorKind::NoSpace,
    ErrorKind::Permission,
    ErrorKind::Corruption,
    ErrorKind::InvalidInput,
    ErrorKind::NotFound,
    ErrorKind::AlreadyExists,
    ErrorKind::Locked,
    ErrorKind::ReadOnly,
    ErrorKind::Unsupported,
    ErrorKind::OutcomeUnknown,
    ErrorKind::Closed,
];

#[test]
fn what_the_system_refused_becomes_a_kind_a_program_can_act_on() {
    use io::ErrorKind as Os;
    for (os, kind) in [
        (Os::NotFound, ErrorKind::NotFound),
        (Os::AlreadyExists, ErrorKind::AlreadyExists),
        (Os::PermissionDenied, ErrorKind::Permission),
        (Os::StorageFull, ErrorKind::NoSpace),
        (Os::QuotaExceeded, ErrorKind::NoSpace),
        (Os::Interrupted, ErrorKind::Io),
        (Os::UnexpectedEof, ErrorKind::Io),
        (Os::ReadOnlyFilesystem, ErrorKind::Io),
        (Os::Other, ErrorKind::Io),
    ] {
        let error = Error::io("sync", Path::new("/db/000001.sst"), io::Error::from(os));
        assert_eq!(error.kind(), kind, "{os:?}");
        assert_eq!(error.file(), Some(Path::new("/db/000001.sst")));
        assert_eq!(error.offset(), None);
        let cause = error
            .source()
            .and_then(|cause| cause.downcast_ref::<io::Error>());
        assert_eq!(cause.map(io::Error::kind), Some(os), "the cause is kept");
    }
}

#[test]
fn a_message_has_the_parts_that_are_known_in_one_order() {
    let bare = || Error::new(ErrorKind::Closed, "read", "it was closed");
    let path = Path::new("a.sst");
    for (error, text) in [
        (bare(), "cannot read: it was closed"),
        (bare().at(7), "cannot read at offset 7: it was closed"),
        (bare().on(path), "cannot read a.sst: it was closed"),
        (
            bare().remedy("open it"),
            "cannot read: it was closed; open it",
        ),
        (
            bare().remedy("open it").at(0).on(path),
            "cannot read a.sst at offset 0: it was closed; open it",
        ),
        (
            Error::corruption("read", path, 512, "zeros"),
            "cannot read a.sst at offset 512: zeros",
        ),
        (
            Error::invalid("put", "it is too long"),
            "cannot put: it is too long",
        ),
    ] {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn a_clone_tells_everything_its_original_does() {
    let cause = io::Error::from_raw_os_error(5);
    let error = Error::io("append to", Path::new("x.seg"), cause)
        .at(99)
        .remedy("replace the device");
    let clone = error.clone().clone();
    assert_eq!(clone.to_string(), error.to_string());
    assert_eq!((clone.kind(), clone.offset()), (ErrorKind::Io, Some(99)));
    assert_eq!(clone.file(), error.file());
    // E2: the very same cause, not a copy of its text.
    let code = |error: &Error| {
        let cause = error.source()?.downcast_ref::<io::Error>()?;
        cause.raw_os_error()
    };
    assert_eq!((code(&clone), code(&error)), (Some(5), Some(5)));
    assert!(Error::invalid("put", "x").source().is_none());
}

#[test]
fn a_kind_can_be_corrected_and_shows_in_debug_only() {
    for kind in KINDS {
        let error = Error::invalid("write", "it may be there").with_kind(kind);
        assert_eq!(error.kind(), kind);
        assert_eq!(error.to_string(), "cannot write: it may be there");
        let debug = format!("{error:?}");
        assert_eq!(debug, format!("{kind:?}: {error}"));
    }
    let words: BTreeSet<_> = KINDS.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(words.len(), KINDS.len(), "each kind has words of its own");
    assert!(
        words
            .iter()
            .all(|words| words.chars().all(|c| !c.is_uppercase()))
    );
}

#[test]
fn keys_and_values_are_refused_just_above_their_limits_with_both_numbers() {
    check_key(b"").unwrap();
    check_key(&vec![0; KEY_BYTES_MAX]).unwrap();
    let error = check_key(&vec![0; KEY_BYTES_MAX + 1]).unwrap_err();
    let said = error.to_string();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(said.contains("65537") && said.contains("65536"), "{said}");
    // Zeroed memory that nobody touches costs nothing.
    check_value(b"").unwrap();
    check_value(&vec![0; VALUE_BYTES_MAX]).unwrap();
    let error = check_value(&vec![0; VALUE_BYTES_MAX + 1]).unwrap_err();
    let said = error.to_string();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(
        said.contains("536870913") && said.contains("536870912"),
        "{said}"
    );
}

#[test]
fn every_number_is_one_kind_or_none() {
    let mut known = 0;
    for number in 0..=u8::MAX {
        match ValueKind::from_u8(number) {
            Ok(kind) => {
                assert_eq!(kind as u8, number);
                assert_eq!(ValueKind::ALL[usize::from(number) - 1], kind);
                known += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                assert!(
                    error.to_string().contains(&format!("kind {number} ")),
                    "{error}"
                );
            }
        }
    }
    assert_eq!(known, ValueKind::ALL.len());
    // K1: numbers and names stand in files.
    let named = ValueKind::ALL.map(|kind| (kind as u8, kind.name()));
    assert_eq!(
        named,
        [
            (1, "put"),
            (2, "delete"),
            (3, "put-expiring"),
            (4, "range-delete"),
            (5, "merge"),
            (6, "external"),
        ]
    );
}

#[test]
fn stamps_count_up_to_56_bits() {
    assert_eq!(Stamp::ZERO.next(), Stamp(1));
    assert_eq!(Stamp(Stamp::MAX.0 - 1).next(), Stamp::MAX);
    assert_eq!(Stamp::MAX.0, 0x00ff_ffff_ffff_ffff, "S1");
    assert_eq!(
        Stamp::MAX.0 << 8 >> 8,
        Stamp::MAX.0,
        "S1: a kind fits beside it"
    );
    assert_eq!(
        format!("{:>6}", Stamp(42)),
        "    42",
        "padded like a number"
    );
}

#[test]
#[should_panic(expected = "the clock is exhausted")]
#[cfg(debug_assertions)]
fn nothing_comes_after_the_last_stamp() {
    let _ = Stamp::MAX.next();
}

/// What a function that returns `std::io::Result` makes of it by `?`.
#[test]
fn an_error_goes_on_as_one_of_the_standard_library_and_stays_what_it_is() {
    use io::ErrorKind as Os;
    fn fails(error: Error) -> io::Result<()> {
        Err(error)?;
        Ok(())
    }
    for (kind, os) in [
        (ErrorKind::Io, Os::Other),
        (ErrorKind::NoSpace, Os::StorageFull),
        (ErrorKind::Permission, Os::PermissionDenied),
        (ErrorKind::Corruption, Os::InvalidData),
        (ErrorKind::InvalidInput, Os::InvalidInput),
        (ErrorKind::NotFound, Os::NotFound),
        (ErrorKind::AlreadyExists, Os::AlreadyExists),
        (ErrorKind::Locked, Os::ResourceBusy),
        (ErrorKind::ReadOnly, Os::ReadOnlyFilesystem),
        (ErrorKind::Unsupported, Os::Unsupported),
        (ErrorKind::OutcomeUnknown, Os::Other),
        (ErrorKind::Closed, Os::Other),
    ] {
        let error = Error::new(kind, "read", "the reason");
        let told = fails(error.clone()).unwrap_err();
        assert_eq!(told.kind(), os, "{kind}");
        assert_eq!(told.to_string(), error.to_string());
        let kept = told.get_ref().and_then(|error| error.downcast_ref());
        assert_eq!(kept.map(Error::kind), Some(kind));
    }
    // What the system said is more than what we made of it.
    for os in [Os::TimedOut, Os::QuotaExceeded] {
        let error = Error::io("read", Path::new("x"), os.into());
        assert_eq!(fails(error).unwrap_err().kind(), os);
    }
    // But for what would have it tried again for ever.
    let again = Error::io("read", Path::new("x"), Os::Interrupted.into());
    assert_eq!(fails(again).unwrap_err().kind(), Os::Other);
    let unknown =
        Error::io("sync", Path::new("x"), Os::TimedOut.into()).with_kind(ErrorKind::OutcomeUnknown);
    assert_eq!(fails(unknown).unwrap_err().kind(), Os::Other);
}

#[test]
fn a_kind_prints_as_words() {
    assert_eq!(format!("{}", ErrorKind::ReadOnly), "read-only");
    assert_eq!(format!("{:>8}", ErrorKind::Locked), "  locked");
}
