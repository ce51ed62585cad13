//! Upkeep as data: what a layout offers to do, and what was done.
//!
//! The engine's threads run jobs without knowing of levels or chunks; a layout marks a job's inputs
//! busy until the job is run or dropped.

use velella_base::Result;
use velella_mvcc::Retention;

/// One unit of upkeep, with its inputs marked busy until it is dropped.
pub trait Job: Send {
    /// What it does, for the log: `compact 4 tables of level 0 into level 1 (203 MiB)`.
    fn describe(&self) -> String;

    /// Does it: reads, writes, commits its edit, applies it. `retention` is asked when the job
    /// starts reading; `goes_on` again and again, every thousand entries: it may do what is
    /// more urgent meanwhile, and says whether the job shall go on.
    ///
    /// # Errors
    /// `Corruption`, `NoSpace`, `Io`, what `goes_on` returned; `Closed`: it said no. What was not
    /// committed is removed then, after the close by the next opening; parts that were handed over
    /// before stay in force.
    fn run(
        self: Box<Self>,
        retention: &dyn Fn() -> Retention,
        goes_on: &dyn Fn() -> Result<bool>,
    ) -> Result<JobReport>;
}

/// What a job did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobReport {
    /// Bytes read from tables.
    pub bytes_read: u64,
    /// Bytes written to tables.
    pub bytes_written: u64,
    /// Entries read.
    pub entries_in: u64,
    /// Entries written.
    pub entries_out: u64,
}
