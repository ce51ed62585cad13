//! The grammar of every name in a database directory.
//!
//! ```text
//! LOCK                    held while a process has the database open; empty
//! CURRENT                 name of the manifest in force, one line
//! MANIFEST-000001         log of edits: keyspaces, tables, incarnations
//! 000042.sst              table
//! 000043.ext              one external value
//! journal/000044.seg      journal segment        journal/000045.large   large-record segment
//! journal/000046.seal     seals of one incarnation
//! *.tmp                   being written; deleted at open
//! ```
//! N1. Numbers come from one counter per database and are never reused.
//! N2. A name that does not parse is not ours: it is left alone and named in the recovery report.

use std::path::{Path, PathBuf};

/// Directory of the journal's files, below the database directory.
pub const JOURNAL_DIR: &str = "journal";
/// What a file system itself keeps at the top of a volume; a database may lie beside it.
pub const LOST_AND_FOUND: &str = "lost+found";
/// Name of the lock file.
pub const LOCK: &str = "LOCK";
/// Name of the file that names the manifest.
pub const CURRENT: &str = "CURRENT";

/// What a file in the database directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileName {
    /// `LOCK`
    Lock,
    /// `CURRENT`
    Current,
    /// `MANIFEST-n`
    Manifest(u64),
    /// `n.sst`
    Table(u64),
    /// `n.ext`
    External(u64),
    /// `journal/n.seg`
    Segment(u64),
    /// `journal/n.large`
    LargeSegment(u64),
    /// `journal/n.seal`
    Seal(u64),
}

impl FileName {
    /// Path of the file in the database directory `dir`.
    #[must_use]
    pub fn path(self, dir: &Path) -> PathBuf {
        match self {
            FileName::Lock => dir.join(LOCK),
            FileName::Current => dir.join(CURRENT),
            FileName::Manifest(n) => dir.join(format!("MANIFEST-{n:06}")),
            FileName::Table(n) => dir.join(format!("{n:06}.sst")),
            FileName::External(n) => dir.join(format!("{n:06}.ext")),
            FileName::Segment(n) => dir.join(JOURNAL_DIR).join(format!("{n:06}.seg")),
            FileName::LargeSegment(n) => dir.join(JOURNAL_DIR).join(format!("{n:06}.large")),
            FileName::Seal(n) => dir.join(JOURNAL_DIR).join(format!("{n:06}.seal")),
        }
    }

    /// Parses a bare name (no directory); `None` if it is not ours (N2).
    #[must_use]
    pub fn parse(name: &str) -> Option<FileName> {
        match name {
            LOCK => return Some(FileName::Lock),
            CURRENT => return Some(FileName::Current),
            _ => {}
        }
        if let Some(digits) = name.strip_prefix("MANIFEST-") {
            return number(digits).map(FileName::Manifest);
        }
        let (digits, extension) = name.split_once('.')?;
        let n = number(digits)?;
        match extension {
            "sst" => Some(FileName::Table(n)),
            "ext" => Some(FileName::External(n)),
            "seg" => Some(FileName::Segment(n)),
            "large" => Some(FileName::LargeSegment(n)),
            "seal" => Some(FileName::Seal(n)),
            _ => None,
        }
    }

    /// The file of ours that lies at `path`, seen from the database directory, if that is where it
    /// belongs: a table among segments is nobody's.
    #[must_use]
    pub fn at(path: &Path) -> Option<FileName> {
        let name = FileName::parse(path.file_name()?.to_str()?)?;
        (name.path(Path::new("")) == path).then_some(name)
    }

    /// The file's number, if its kind has one.
    #[must_use]
    pub fn number(self) -> Option<u64> {
        match self {
            FileName::Lock | FileName::Current => None,
            FileName::Manifest(n)
            | FileName::Table(n)
            | FileName::External(n)
            | FileName::Segment(n)
            | FileName::LargeSegment(n)
            | FileName::Seal(n) => Some(n),
        }
    }
}

/// The number that [`FileName::path`] writes so: with another nought in front it is another name.
fn number(digits: &str) -> Option<u64> {
    let is_padded = digits.len() == 6 || (digits.len() > 6 && !digits.starts_with('0'));
    let plain = is_padded && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_foreign_names_are_not_ours() {
        for name in [
            FileName::Lock,
            FileName::Current,
            FileName::Manifest(1),
            FileName::Table(42),
            FileName::External(1_234_567),
            FileName::Segment(3),
            FileName::LargeSegment(4),
            FileName::Seal(5),
        ] {
            let path = name.path(Path::new("/db"));
            let bare = path.file_name().unwrap().to_str().unwrap();
            assert_eq!(FileName::parse(bare), Some(name));
            let (home, elsewhere) = (name.path(Path::new("")), Path::new("old").join(bare));
            assert_eq!(FileName::at(&home), Some(name));
            assert_eq!(FileName::at(&elsewhere), None, "{elsewhere:?}");
        }
        assert_eq!(FileName::at(Path::new("journal/000042.sst")), None);
        assert_eq!(FileName::at(Path::new("000042.seg")), None);
        for foreign in [
            "notes.txt",
            "42.sst",
            "000042.ldb",
            "MANIFEST-",
            "00+042.sst",
            "x.tmp",
        ] {
            assert_eq!(FileName::parse(foreign), None, "{foreign}");
        }
    }
}
