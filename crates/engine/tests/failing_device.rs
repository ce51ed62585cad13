//! A file system that shuts itself down under an open database, as XFS does once its device fails.
//!
//! Claims: the `vfs` contract of `maps_well`; docs/consistency.md, "When something fails". Needs
//! root, loop devices and xfsprogs; skipped, and said, where one is missing.

#![cfg(target_os = "linux")]
#![cfg(not(miri))]

mod common;

use common::alone;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use velella::{Db, ErrorKind, WriteOptions};
use velella_testkit::Watchdog;

/// XFS takes no smaller device.
const DEVICE_BYTES: u64 = 320 << 20;

/// A file system in a file, mounted until dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn xfs(dir: &Path) -> Result<Mounted, String> {
        let (image, at) = (dir.join("image"), dir.join("mounted"));
        let device = File::create(&image).map_err(|error| error.to_string())?;
        device
            .set_len(DEVICE_BYTES)
            .map_err(|error| error.to_string())?;
        std::fs::create_dir(&at).map_err(|error| error.to_string())?;
        run(Command::new("mkfs.xfs").arg("-q").arg(&image))?;
        // `shutdown` is a command of this one; it must not be found missing half-way.
        run(Command::new("xfs_io").arg("-V"))?;
        run(Command::new("mount")
            .args(["-o", "loop"])
            .arg(&image)
            .arg(&at))?;
        Ok(Mounted(at))
    }

    /// As when the device fails: nothing is written or read any more.
    fn shut_down(&self) {
        run(Command::new("xfs_io")
            .args(["-x", "-c", "shutdown"])
            .arg(&self.0))
        .unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let what = match command.output() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    Err(format!("{command:?}: {what}"))
}

#[test]
fn a_file_system_that_shuts_down_ends_writing_and_not_the_process() {
    let _watchdog = Watchdog::new("a_file_system_that_shuts_down", 120);
    let dir = tempfile::tempdir().unwrap();
    let mounted = match Mounted::xfs(dir.path()) {
        Ok(mounted) => mounted,
        Err(why) => {
            println!("SKIPPED: no XFS can be made here ({why})");
            return;
        }
    };
    // Alone: no background thread meets the failure before a writer does.
    let db: Db = alone().open(mounted.0.join("db")).unwrap();
    for _ in 0..4 {
        db.put("kept", "1").unwrap();
        db.put_with("kept", "1", WriteOptions::sync()).unwrap();
    }
    mounted.shut_down();
    // A store into a mapped page, clean since the sync, would be SIGBUS.
    let refused = (0..1_000).find_map(|number: u32| db.put(number.to_be_bytes(), "2").err());
    let refused = refused.or_else(|| db.put_with("more", "2", WriteOptions::sync()).err());
    let error = refused.expect("nothing can be written any more");
    let unwritten = [
        ErrorKind::Io,
        ErrorKind::ReadOnly,
        ErrorKind::OutcomeUnknown,
    ];
    assert!(unwritten.contains(&error.kind()), "{error}");
    assert_eq!(db.get("kept").unwrap().unwrap(), "1");
    let again = db.put("later", "3").unwrap_err();
    assert_eq!(again.kind(), ErrorKind::ReadOnly, "{again}");
    let _ = db.close();
}
