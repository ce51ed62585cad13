//! What the databases of a campaign lie in, as the kernel tells it of their directory.
//!
//! M1. The directory decides, not the option: where temporary files are may be memory.
//! M2. What is not told is not claimed: an overlay says nothing of what lies below it. An image
//!     that lies in memory and is mounted is a disk to the kernel.
//!
//! Tests: below; `tests/crash_test.rs`.

use std::path::Path;

/// What a directory lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Medium {
    Memory,
    Disk,
    Untold,
}

impl Medium {
    pub(super) fn of(dir: &Path) -> Self {
        kind(dir).map_or(Medium::Untold, Medium::of_kind)
    }

    fn of_kind(kind: u64) -> Self {
        const TMPFS: u64 = 0x0102_1994;
        const RAMFS: u64 = 0x8584_58f6;
        const OVERLAY: u64 = 0x794c_7630;
        match kind {
            TMPFS | RAMFS => Medium::Memory,
            OVERLAY => Medium::Untold,
            _ => Medium::Disk,
        }
    }

    /// How the ledger has it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Medium::Memory => "in memory",
            Medium::Disk => "on disk",
            Medium::Untold => "on a medium untold",
        }
    }
}

/// The number of the file system's kind.
#[cfg(target_os = "linux")]
fn kind(dir: &Path) -> Option<u64> {
    use rustix::fs::statfs;
    let facts = rustix::io::retry_on_intr(|| statfs(dir)).ok()?;
    u64::try_from(facts.f_type).ok()
}

#[cfg(not(target_os = "linux"))]
fn kind(_dir: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_told_is_claimed() {
        let of = |kind| Medium::of_kind(kind).as_str();
        assert_eq!(of(0x0102_1994), "in memory");
        assert_eq!(of(0x8584_58f6), "in memory");
        assert_eq!(of(0xef53), "on disk");
        assert_eq!(of(0x794c_7630), "on a medium untold");
        let nowhere = Path::new("/nowhere/at/all");
        assert_eq!(Medium::of(nowhere), Medium::Untold);
    }
}
