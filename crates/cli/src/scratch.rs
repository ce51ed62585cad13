//! Directories of this process's own, for as long as it runs.
//!
//! R1. A directory that is there already is another's, perhaps an earlier process's that was killed
//!     and had the same number: it is neither used nor removed.
//!
//! Tests: below.

use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};

/// How many names are tried.
const NAMES_MAX: u32 = 1_000;

/// Makes a directory in `parent`, called `name` and the number of this process (R1).
///
/// # Errors
/// It cannot be made, as in a parent that is not there.
pub fn create(parent: &Path, name: &str) -> Result<PathBuf> {
    let own = format!("{name}-{}", std::process::id());
    let mut dir = parent.join(&own);
    for other in 2..=NAMES_MAX {
        match std::fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        dir = parent.join(format!("{own}-{other}"));
    }
    std::fs::create_dir(&dir)?;
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_process_left_stays_as_it_is() {
        let parent = create(&std::env::temp_dir(), "velella-scratch").unwrap();
        let first = create(&parent, "one").unwrap();
        std::fs::write(first.join("kept"), "evidence").unwrap();
        let others: Vec<PathBuf> = (0..3).map(|_| create(&parent, "one").unwrap()).collect();
        assert!(others.iter().all(|other| *other != first && other.is_dir()));
        assert_eq!(std::fs::read(first.join("kept")).unwrap(), b"evidence");
        let refused = create(&parent.join("missing"), "one").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound);
        std::fs::remove_dir_all(parent).unwrap();
    }
}
