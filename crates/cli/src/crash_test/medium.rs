//! What the databases of a campaign lie in, as the kernel tells it of their directory.
//!
//! M1. The directory decides, not the option: where temporary files are may be memory.
//! M2. What is not told is not claimed: an overlay, or a file system of the network, says nothing
//!     of what lies below it. An image that lies in memory and is mounted is a disk to the kernel.
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
        const EXT: u64 = 0xef53;
        const XFS: u64 = 0x5846_5342;
        const BTRFS: u64 = 0x9123_683e;
        const F2FS: u64 = 0xf2f5_2010;
        const ZFS: u64 = 0x2fc1_2fc1;
        match kind {
            TMPFS | RAMFS => Medium::Memory,
            EXT | XFS | BTRFS | F2FS | ZFS => Medium::Disk,
            _ => Medium::Untold,
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
        assert_eq!(of(0x5846_5342), "on disk");
        for (kind, name) in [
            (0x794c_7630, "overlay"),
            (0x6969, "NFS"),
            (0x0102_1997, "9p"),
        ] {
            assert_eq!(of(kind), "on a medium untold", "{name}");
        }
        let nowhere = Path::new("/nowhere/at/all");
        assert_eq!(Medium::of(nowhere), Medium::Untold);
    }
}
