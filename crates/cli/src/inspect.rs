//! `velella inspect`: what stands in a file or directory of a database.
//!
//! Reads only, and takes no lock: it also shows what cannot be opened, and of a damaged file what
//! stands before the damage.
//!
//! N1. Damage to what it reads fails, after what could be read was printed, with `--json` as
//!     without.
//!
//! Tests: `tests/maintenance.rs`.

use crate::database::DEFAULT_DIR;
use crate::failure::Failure;
use crate::output::Output;
use clap::Args;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Arguments of `inspect`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  velella inspect
  velella inspect --dir /var/lib/velella
  velella inspect velella-data/MANIFEST-*
  velella inspect velella-data/000012.sst --entries | less

Recognises journal segments, seals, tables, manifests and external values. Takes no lock: a
directory that a server is writing to may be caught between two files.")]
pub(crate) struct Inspect {
    /// A file of a database, or its directory; without it that of --dir
    #[arg(conflicts_with = "dir")]
    path: Option<PathBuf>,
    /// Directory of the database
    #[arg(long, short = 'd', default_value = DEFAULT_DIR, value_name = "DIR")]
    dir: PathBuf,
    /// List every entry, not only what sums them up
    #[arg(long)]
    entries: bool,
}

impl Inspect {
    pub(crate) fn run(self, output: &mut Output) -> Result<(), Failure> {
        if !output.json {
            self.list(&mut output.out)?;
            return Ok(output.out.flush()?);
        }
        if self.path().is_dir() {
            let (listing, damage) = velella::inspect::listing(self.path())?;
            output.result(&listing, |_| Ok(()))?;
            // N1.
            return Ok(damage.map_or(Ok(()), Err)?);
        }
        let mut listing = Vec::new();
        let listed = self.list(&mut listing);
        // Of a damaged file, what could be read before the damage.
        if listed.is_ok() || !listing.is_empty() {
            let text = String::from_utf8_lossy(&listing);
            let lines: Vec<&str> = text.lines().collect();
            let path = self.path().display().to_string();
            let document = serde_json::json!({"path": path, "lines": lines});
            output.result(&document, |_| Ok(()))?;
        }
        listed
    }

    /// What is to be looked at.
    fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(&self.dir)
    }

    fn list(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let mut out = Keeping { out, error: None };
        let path = self.path();
        let listed = match path.is_dir() {
            true => velella::inspect::directory(path, &mut out),
            false => velella::inspect::file(path, self.entries, &mut out),
        };
        match out.error {
            Some(error) => Err(error.into()),
            None => Ok(listed?),
        }
    }
}

/// A writer that keeps its error: a listing would tell it as one of the file that is listed.
struct Keeping<'a> {
    out: &'a mut dyn Write,
    error: Option<io::Error>,
}

impl Write for Keeping<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.out.write_all(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                let kind = error.kind();
                self.error = Some(error);
                Err(kind.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
