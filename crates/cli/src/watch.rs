//! What a running server tells whoever started it, on standard error: that it takes no more
//! writes, what its background work lacks, and that it has it again.
//!
//! V1. Each change that lasts for a second is told once; nothing is told while all is well.
//!
//! Threads: one of its own, which ends with the watch. Tests: below.

use crate::failure::say;
use serde_json::json;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use velella::{Db, Stats};

/// Time between two looks.
const PERIOD: Duration = Duration::from_secs(1);

/// A watch over a database; it ends when it is dropped.
pub(crate) struct Watch {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches `db`, and gives each change to `tell`.
    pub(crate) fn begin(db: Db, tell: impl Fn(&Change) + Send + 'static) -> io::Result<Watch> {
        let (over, is_over) = channel::<()>();
        let look = move || {
            let mut before = Told::default();
            while let Err(RecvTimeoutError::Timeout) = is_over.recv_timeout(PERIOD) {
                let now = Told::of(&db.stats());
                before.changes(&now).iter().for_each(&tell);
                before = now;
            }
        };
        let thread = Builder::new()
            .name("velella-watch".to_owned())
            .spawn(look)?;
        Ok(Watch {
            over: Some(over),
            thread: Some(thread),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            // It only looks and tells; if it panicked, there is nothing to do about it.
            let _ended = thread.join();
        }
    }
}

/// A change, to be told once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// No more writes are taken, for this reason.
    ReadOnly(String),
    /// Flushes or compactions lack something.
    Short(String),
    /// They lack nothing any more.
    Relieved,
}

impl Change {
    /// Tells it as a line for people, or as a JSON document.
    pub(crate) fn say(&self, as_json: bool) {
        say(&match as_json {
            true => self.document().to_string(),
            false => self.line(),
        });
    }

    fn line(&self) -> String {
        match self {
            Change::ReadOnly(reason) => format!(
                "velella: takes no more writes: {reason}; reads go on; mend it and start again"
            ),
            Change::Short(of) => format!(
                "velella: background work cannot go on, so that writes will wait or be refused: {of}"
            ),
            Change::Relieved => "velella: background work goes on".to_owned(),
        }
    }

    fn document(&self) -> serde_json::Value {
        match self {
            Change::ReadOnly(reason) => json!({ "read_only": reason }),
            Change::Short(of) => json!({ "shortage": of }),
            Change::Relieved => json!({ "shortage": null }),
        }
    }
}

/// What was told.
#[derive(Debug, Default)]
struct Told {
    read_only: Option<String>,
    shortage: Option<String>,
}

impl Told {
    fn of(stats: &Stats) -> Told {
        Told {
            read_only: stats.read_only.clone(),
            shortage: stats.shortage.clone(),
        }
    }

    /// What is to be told where it is like `now` (V1). A shortage that is worded anew is none that
    /// is new.
    fn changes(&self, now: &Told) -> Vec<Change> {
        let read_only = now.read_only.clone().filter(|_| self.read_only.is_none());
        let shortage = match (&self.shortage, &now.shortage) {
            (None, Some(of)) => Some(Change::Short(of.clone())),
            (Some(_), None) => Some(Change::Relieved),
            _ => None,
        };
        read_only
            .map(Change::ReadOnly)
            .into_iter()
            .chain(shortage)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use velella::vfs::fault::{Fault, Rule};
    use velella::vfs::{FaultFs, MemFs, Operation};

    #[test]
    fn each_change_is_told_once() {
        let told = |read_only: Option<&str>, shortage: Option<&str>| Told {
            read_only: read_only.map(str::to_owned),
            shortage: shortage.map(str::to_owned),
        };
        let well = told(None, None);
        let short = told(None, Some("no space"));
        let ended = told(Some("a sync failed"), None);
        assert_eq!(well.changes(&well), []);
        assert_eq!(well.changes(&short), [Change::Short("no space".into())]);
        assert_eq!(short.changes(&told(None, Some("no space for 9 B"))), []);
        assert_eq!(short.changes(&well), [Change::Relieved]);
        assert_eq!(
            well.changes(&ended),
            [Change::ReadOnly("a sync failed".into())]
        );
        assert_eq!(ended.changes(&ended), []);
        let both = short.changes(&ended);
        assert_eq!(
            both,
            [Change::ReadOnly("a sync failed".into()), Change::Relieved]
        );
        for change in both {
            assert!(change.line().starts_with("velella: ") && change.document().is_object());
        }
    }

    #[test]
    fn a_database_that_takes_no_more_writes_is_told_of() {
        let faults = FaultFs::over_mem(&MemFs::new());
        let vfs = Arc::new(faults.clone());
        let builder = Db::builder().memory(16 << 20).vfs(vfs);
        let db = builder.open("/db").unwrap();
        let (tell, told) = channel();
        let watch = Watch::begin(db.clone(), move |change| {
            tell.send(change.line()).unwrap();
        });
        faults.inject(Rule::every(Fault::Io).of(Operation::SyncData));
        db.put_with("k", "v", velella::WriteOptions::sync())
            .unwrap_err();
        let line = told.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(line.contains("takes no more writes"), "{line}");
        drop(watch);
        assert!(told.recv().is_err(), "once");
    }
}
