//! A file system whose power can be cut: an image inside a file system that copies by reference.
//!
//! ```text
//! DIR/outer.img   XFS or btrfs, mounted at DIR/outer
//! outer/disk.img  ext4 or XFS, mounted at DIR/live: where the database lies
//! outer/cut-n.img a copy by reference: the blocks of disk.img at one moment, as a power cut
//!                 leaves them; mounted at DIR/cut, where the file system recovers its journal
//! ```
//!
//! G1. What the inner file system has not written to its device is not in the copy.
//! G2. What is mounted is unmounted when dropped, whatever happened.
//!
//! Needs root, loop devices and the tools; says what is missing. Tests: `tests/crash_test.rs`,
//! where they can run.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

const OUTER_BYTES: u64 = 4 << 30;
const DISK_BYTES: u64 = 768 << 20;

/// The file system that the database lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum FileSystem {
    Ext4,
    Xfs,
}

/// The mounted images.
#[derive(Debug)]
pub(super) struct Rig {
    dir: PathBuf,
    file_system: FileSystem,
    live: Mount,
    /// After `live`: dropped after it.
    outer: Mount,
    cuts: u64,
}

/// Something mounted.
#[derive(Debug)]
pub(super) struct Mount(PathBuf);

impl Rig {
    /// Makes the images below `dir` and mounts them.
    ///
    /// # Errors
    /// What this machine lacks.
    pub(super) fn new(dir: &Path, file_system: FileSystem) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("mounting needs root".to_owned());
        }
        if !Path::new("/dev/loop-control").exists() {
            return Err("there are no loop devices (/dev/loop-control)".to_owned());
        }
        let image = dir.join("outer.img");
        sparse(&image, OUTER_BYTES)?;
        let by_reference = run("mkfs.xfs", &["-q", "-m", "reflink=1"], &[&image])
            .or_else(|_| run("mkfs.btrfs", &["-q"], &[&image]));
        by_reference.map_err(|_| {
            "neither mkfs.xfs nor mkfs.btrfs works; install xfsprogs or btrfs-progs".to_owned()
        })?;
        let outer = Mount::new(&image, dir.join("outer"), "loop")?;
        let disk = outer.0.join("disk.img");
        sparse(&disk, DISK_BYTES)?;
        match file_system {
            FileSystem::Ext4 => run("mkfs.ext4", &["-q", "-F"], &[&disk])?,
            FileSystem::Xfs => run("mkfs.xfs", &["-q"], &[&disk])?,
        }
        let live = Mount::new(&disk, dir.join("live"), "loop")?;
        let rig = Rig {
            dir: dir.to_path_buf(),
            file_system,
            live,
            outer,
            cuts: 0,
        };
        let probe = rig.outer.0.join("probe.img");
        copy_by_reference(&disk, &probe)?;
        std::fs::remove_file(&probe).map_err(|error| error.to_string())?;
        Ok(rig)
    }

    /// Where the database is written.
    pub(super) fn live(&self) -> &Path {
        &self.live.0
    }

    /// Cuts the power: an image of this moment.
    pub(super) fn cut(&mut self) -> Result<PathBuf, String> {
        self.image_of("disk.img")
    }

    /// Cuts the power of what runs on an earlier image.
    pub(super) fn cut_again(&mut self, image: &Path) -> Result<PathBuf, String> {
        let name = image.file_name().unwrap_or_default().to_string_lossy();
        self.image_of(&name)
    }

    fn image_of(&mut self, name: &str) -> Result<PathBuf, String> {
        self.cuts += 1;
        let image = self.outer.0.join(format!("cut-{}.img", self.cuts));
        copy_by_reference(&self.outer.0.join(name), &image)?;
        Ok(image)
    }

    /// Turns the power on again: the file system of an image, mounted.
    pub(super) fn mount(&self, image: &Path) -> Result<Mount, String> {
        let options = match self.file_system {
            FileSystem::Ext4 => "loop",
            // Two file systems with one id are mounted at the same time.
            FileSystem::Xfs => "loop,nouuid",
        };
        Mount::new(image, self.dir.join("cut"), options)
    }
}

impl Mount {
    fn new(image: &Path, at: PathBuf, options: &str) -> Result<Self, String> {
        std::fs::create_dir_all(&at).map_err(|error| error.to_string())?;
        run("mount", &["-o", options], &[image, &at])?;
        Ok(Mount(at))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if run("umount", &[], &[&self.0]).is_err() {
            let _ = run("umount", &["-l"], &[&self.0]);
        }
    }
}

fn copy_by_reference(from: &Path, to: &Path) -> Result<(), String> {
    run("cp", &["--reflink=always"], &[from, to])
}

fn sparse(path: &Path, bytes: u64) -> Result<(), String> {
    let made = File::create(path).and_then(|file| file.set_len(bytes));
    made.map_err(|error| format!("cannot make {}: {error}", path.display()))
}

/// Runs a program of the system; an error is what it said.
fn run(program: &str, arguments: &[&str], paths: &[&Path]) -> Result<(), String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let done = Command::new(program)
        .args(arguments)
        .args(paths)
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .output()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(format!(
        "{program} failed ({}): {}",
        done.status,
        said.trim()
    ))
}
