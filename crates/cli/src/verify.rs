//! `velella verify`: reads every file, checks every checksum and every invariant.
//!
//! Tests: `tests/faults.rs`.

use crate::database::Place;
use crate::failure::Failure;
use crate::human;
use crate::output::Output;
use crate::progress;
use crate::text;
use clap::Args;
use serde::Serialize;
use std::time::Instant;
use velella::VerifyReport;

/// Arguments of `verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  velella verify
  velella verify --dir /var/lib/velella --json

Exit code 1 at the first damage, which is named with its file and offset.

Opens the database, which writes: it recovers what the last run left, and begins a new manifest and
a new journal. If you suspect damage, copy the directory first; inspect reads without writing.")]
pub(crate) struct Verify {
    #[command(flatten)]
    place: Place,
}

#[derive(Serialize)]
struct Verified<'a> {
    ok: bool,
    #[serde(flatten)]
    report: &'a VerifyReport,
    seconds: f64,
}

impl Verify {
    pub(crate) fn run(self, output: &mut Output) -> Result<(), Failure> {
        let db = self.place.open(output)?;
        let start = Instant::now();
        let bar = progress::bytes(0, "verifying");
        let report = db.verify_with(&mut |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        let report = report?;
        let time = start.elapsed();
        db.close()?;
        let verified = Verified {
            ok: true,
            report: &report,
            seconds: time.as_secs_f64(),
        };
        output.result(&verified, |out| {
            writeln!(
                out,
                "no damage: {} in {}, {}, {} read in {}",
                human::counted(report.entries, "entry"),
                human::counted(report.tables, "table"),
                human::counted(report.manifest_edits, "manifest edit"),
                human::bytes(report.bytes),
                human::duration(time),
            )?;
            for file in &report.foreign_files {
                // Anybody may have named it, for a terminal to obey.
                writeln!(
                    out,
                    "not a file of this database: {}",
                    text::escape(file.as_bytes())
                )?;
            }
            Ok(())
        })
    }
}
