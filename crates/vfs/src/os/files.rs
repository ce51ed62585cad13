//! Files of the real file system, read and written by `pread` and `pwrite`.
//!
//! The standard library repeats interrupted calls and continues short ones (O1).

use crate::file::{ReadFile, WriteFile, ends_early};
use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use velella_base::{Error, Result};

/// A file open for writing.
#[derive(Debug)]
pub(super) struct OsWriteFile {
    path: PathBuf,
    file: File,
    /// Where the next `append` goes.
    end: u64,
}

impl OsWriteFile {
    /// `len` is the file's length now.
    pub(super) fn new(path: &Path, file: File, len: u64) -> Self {
        OsWriteFile {
            path: path.to_path_buf(),
            file,
            end: len,
        }
    }
}

impl WriteFile for OsWriteFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all_at(bytes, offset)
            .map_err(|e| Error::io("write to", &self.path, e).at(offset))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all_at(bytes, self.end)
            .map_err(|e| Error::io("append to", &self.path, e).at(self.end))?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn allocate(&self, len: u64) -> Result<()> {
        let attempt = |e| Error::io("allocate space for", &self.path, e).at(len);
        let now = self.file.metadata().map_err(attempt)?.len();
        if len > 0 {
            reserve(&self.file, now, len).map_err(attempt)?;
        }
        if now > len {
            self.file.set_len(len).map_err(attempt)?;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file
            .set_len(len)
            .map_err(|e| Error::io("set the length of", &self.path, e).at(len))
    }

    fn sync_data(&self) -> Result<()> {
        self.file
            .sync_data()
            .map_err(|e| Error::io("sync", &self.path, e))
    }

    fn sync_all(&self) -> Result<()> {
        self.file
            .sync_all()
            .map_err(|e| Error::io("sync", &self.path, e))
    }

    fn write_back(&self, offset: u64, len: u64) {
        write_back(&self.file, offset, len);
    }
}

/// Has the kernel hand dirty pages to the device. Whether it can is not asked, and an error of the
/// device is left for the next sync to report: what is only begun here, the kernel keeps note of.
fn write_back(file: &File, offset: u64, len: u64) {
    #[cfg(target_os = "linux")]
    {
        const END: u64 = i64::MAX.cast_unsigned();
        let len = len.min(END.saturating_sub(offset));
        // Of no bytes, the system writes all that follow.
        if len > 0
            && let (Ok(offset), Ok(len)) = (offset.try_into(), len.try_into())
        {
            let only_begin = libc::SYNC_FILE_RANGE_WRITE;
            // SAFETY: a system call on a file that is open, with numbers only.
            let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, only_begin) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, offset, len);
}

/// Gives the first `len` bytes space, and the file at least that length (it has `now`).
fn reserve(file: &File, now: u64, len: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::{Errno, retry_on_intr};
        match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, len)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            done => return Ok(done?),
        }
    }
    write_zeros(file, now, len)
}

/// Reserves by writing, where the file system has no other way; holes below `from` stay.
fn write_zeros(file: &File, from: u64, to: u64) -> io::Result<()> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let mut at = from;
    while at < to {
        let len = usize::try_from(to - at).map_or(ZEROS.len(), |left| left.min(ZEROS.len()));
        file.write_all_at(&ZEROS[..len], at)?;
        at += len as u64;
    }
    Ok(())
}

/// A file open for reading.
#[derive(Debug)]
pub(super) struct OsReadFile {
    path: PathBuf,
    file: File,
    len: u64,
}

impl OsReadFile {
    /// `len` is the file's length now.
    pub(super) fn new(path: &Path, file: File, len: u64) -> Self {
        OsReadFile {
            path: path.to_path_buf(),
            file,
            len,
        }
    }
}

impl ReadFile for OsReadFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        match self.file.read_exact_at(buffer, offset) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(ends_early(&self.path, offset, buffer.len()))
            }
            Err(error) => Err(Error::io("read", &self.path, error).at(offset)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "real files")]
    fn space_is_reserved_by_zeros_where_nothing_else_serves() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"kept", 0).unwrap();
        write_zeros(&file, 4, 200_001).unwrap();
        let mut bytes = vec![1; 200_001];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 200_001);
        assert_eq!(&bytes[..4], b"kept");
        assert!(bytes[4..].iter().all(|&byte| byte == 0));
    }
}
