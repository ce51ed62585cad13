//! What the kernel tells of a file and of the file system it is on.
//!
//! Linux only; elsewhere nothing is known, and nothing is claimed.

#[cfg(target_os = "linux")]
pub(super) use linux::{file_maps_well, identity, maps_well};
#[cfg(not(target_os = "linux"))]
pub(super) use unknown::{file_maps_well, identity, maps_well};

#[cfg(target_os = "linux")]
mod linux {
    use crate::os::place::Place;
    use crate::vfs::Identity;
    use rustix::fs::{
        AtFlags, OFlags, StatxFlags, StatxTimestamp, fstatfs, fstatvfs, makedev, statx,
    };
    use rustix::io::retry_on_intr;
    use std::fs::{self, File};
    use std::io;
    use std::io::ErrorKind::{NotFound, PermissionDenied};
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;
    use velella_base::{Error, ErrorKind, Result};

    /// File systems whose mapped pages are written like any other, in place, and which take stores
    /// into them also once the device has failed: ext2, ext3 and ext4 (one number), tmpfs. An
    /// overlay is left out, for what lies below it is not told; so is XFS, which kills who stores
    /// after it has shut down, or into a page shared with a copy where the disk is full.
    const MAPPING_WELL: [u64; 2] = [0xef53, 0x0102_1994];

    const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
    const MOUNT_NAMESPACE: &str = "/proc/self/ns/mnt";

    /// Whether the file system of a directory is one of them.
    pub(in crate::os) fn maps_well(dir: &Place<'_>) -> bool {
        // Not opened for reading, which may be forbidden.
        let dir = dir.open(OFlags::PATH);
        dir.is_ok_and(|dir| file_maps_well(&dir))
    }

    /// Whether the file system of an open file is one of them.
    pub(in crate::os) fn file_maps_well(opened: &File) -> bool {
        let facts = retry_on_intr(|| fstatfs(opened));
        let kind = facts
            .ok()
            .and_then(|facts| u64::try_from(facts.f_type).ok());
        kind.is_some_and(|kind| MAPPING_WELL.contains(&kind))
    }

    /// Of what stands at `place`, to which `path` led.
    pub(in crate::os) fn identity(place: &Place<'_>, path: &Path) -> Result<Identity> {
        let attempt = |e: io::Error| Error::io("identify", path, e);
        let unique = StatxFlags::from_bits_retain(libc::STATX_MNT_ID_UNIQUE);
        let either = unique | StatxFlags::MNT_ID;
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME | either;
        // Not opened for reading, which may be forbidden.
        let opened = place.open(OFlags::PATH).map_err(attempt)?;
        let file = || statx(&opened, "", AtFlags::EMPTY_PATH, wanted);
        let file = retry_on_intr(file).map_err(|e| attempt(e.into()))?;
        let system = retry_on_intr(|| fstatvfs(&opened)).map_err(|e| attempt(e.into()))?;
        let known = StatxFlags::from_bits_retain(file.stx_mask);
        Ok(Identity {
            boot: boot_id(BOOT_ID.as_ref(), path)?,
            device: makedev(file.stx_dev_major, file.stx_dev_minor),
            file_system: system.f_fsid,
            inode: file.stx_ino,
            born_ns: if known.contains(StatxFlags::BTIME) {
                nanoseconds(&file.stx_btime)
            } else {
                0
            },
            mount_namespace: fs::metadata(MOUNT_NAMESPACE).map_or(0, |ns| ns.ino()),
            mount: if known.intersects(either) {
                file.stx_mnt_id
            } else {
                0
            },
        })
    }

    fn nanoseconds(time: &StatxTimestamp) -> u64 {
        u64::try_from(time.tv_sec)
            .unwrap_or(0)
            .saturating_mul(1_000_000_000)
            .saturating_add(u64::from(time.tv_nsec))
    }

    /// Without a boot id, two boots could not be told apart, and a token would lie. Where the file
    /// `told_by` is missing or forbidden, or says something else, the system does not tell; any
    /// other error says nothing of the system.
    fn boot_id(told_by: &Path, path: &Path) -> Result<[u8; 16]> {
        let untold = |why: &str| {
            let found = format!("{} {why}", told_by.display());
            Error::new(ErrorKind::Unsupported, "identify", found).on(path)
        };
        match fs::read_to_string(told_by) {
            Ok(text) => parse_boot_id(&text).ok_or_else(|| untold("holds no boot id")),
            Err(error) => match error.kind() {
                NotFound | PermissionDenied => Err(untold("is missing or forbidden")),
                _ => Err(Error::io("identify", told_by, error)),
            },
        }
    }

    /// A UUID in the usual notation; hyphens may stand anywhere.
    fn parse_boot_id(text: &str) -> Option<[u8; 16]> {
        let digits: String = text.trim().chars().filter(|&c| c != '-').collect();
        let id = (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok())??;
        (id != 0).then_some(id.to_be_bytes())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn only_a_system_that_does_not_tell_its_boot_is_unsupported() {
            let error = |told_by: &str| boot_id(told_by.as_ref(), Path::new("/x")).unwrap_err();
            let missing = error("/proc/sys/kernel/random/there-is-no-such-file");
            assert_eq!(missing.kind(), ErrorKind::Unsupported, "{missing}");
            let other = error("/dev/null");
            assert_eq!(other.kind(), ErrorKind::Unsupported, "{other}");
            // As any error that says nothing of the system: a directory cannot be read.
            let failed = error("/proc");
            assert_eq!(failed.kind(), ErrorKind::Io, "{failed}");
            assert_eq!(failed.file(), Some(Path::new("/proc")), "{failed}");
        }

        #[test]
        fn a_boot_id_is_all_of_a_uuid_or_nothing() {
            let text = "01234567-89ab-cdef-0123-456789abcdef\n";
            let id = parse_boot_id(text).unwrap();
            assert_eq!((id[0], id[7], id[15]), (0x01, 0xef, 0xef));
            for bad in [
                "",
                "0123",
                "zz234567-89ab-cdef-0123-456789abcdef",
                &"0".repeat(32),
            ] {
                assert_eq!(parse_boot_id(bad), None, "{bad:?}");
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod unknown {
    use crate::os::place::Place;
    use crate::vfs::Identity;
    use std::fs::File;
    use std::path::Path;
    use velella_base::{Error, ErrorKind, Result};

    pub(in crate::os) fn maps_well(_dir: &Place<'_>) -> bool {
        false
    }

    pub(in crate::os) fn file_maps_well(_opened: &File) -> bool {
        false
    }

    pub(in crate::os) fn identity(_place: &Place<'_>, path: &Path) -> Result<Identity> {
        let found = "this system has no boot id";
        Err(Error::new(ErrorKind::Unsupported, "identify", found).on(path))
    }
}
