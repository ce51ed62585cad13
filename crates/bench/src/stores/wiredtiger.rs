//! WiredTiger, the B+ tree below MongoDB: the system's library.
//!
//! Set up as MongoDB does: Snappy, a checkpoint every minute, a log. A commit reaches the page
//! cache with `transaction_sync=(method=none)` and the device with `method=fsync`. Its cache is
//! all the memory, changed pages included: it has no memtables on top. Sessions and cursors are
//! kept, as its manual advises; each scan is a transaction of its own, so it sees one state.
//!
//! W1. A session is used with its lock held, so by one thread at a time.
//!
//! Threads: any; each finds a session that is free. Tests: `tests/stores.rs`.

#[expect(unsafe_code, reason = "it is a binding of a C interface")]
mod binding;

use crate::failure::{Failure, Outcome};
use crate::store::{Change, Durability, Peer, Settings, Store, View, Visit};
use binding::{Code, Connection, Session};
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, TryLockError};

const NAME: &str = "wiredtiger";
const TABLE: &CStr = c"table:bench";
/// More than threads that can be asked for: whoever looks for a free session finds one.
const SESSIONS: usize = 512;
/// WiredTiger refuses less.
const CACHE_BYTES_MIN: u64 = 1 << 20;

/// WiredTiger.
#[derive(Debug)]
pub struct WiredTiger;

impl Peer for WiredTiger {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "WiredTiger (C, B+ tree of MongoDB), the system's library"
    }

    fn offers(&self) -> &'static [Durability] {
        &[Durability::None, Durability::Process, Durability::Device]
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
        let version = binding::version();
        if version != binding::VERSION {
            let found = format!("the library is {version:?}, not {:?}", binding::VERSION);
            return Err(Failure::store(NAME, "open", found));
        }
        let create = std::fs::create_dir_all(dir);
        create.map_err(|error| Failure::file("create", dir, error))?;
        let home = CString::new(dir.as_os_str().as_bytes())
            .map_err(|error| Failure::file("open", dir, error))?;
        let config =
            CString::new(config(settings)).map_err(|error| Failure::store(NAME, "open", error))?;
        let connection = Connection::open(&home, &config).map_err(failed("open"))?;
        let open = Open {
            sessions: std::iter::repeat_with(Place::default)
                .take(SESSIONS)
                .collect(),
            connection,
        };
        // The table exists from here on.
        open.with("open", |_| Ok(()))?;
        Ok(Box::new(open))
    }
}

fn config(settings: &Settings) -> String {
    let mut config = format!(
        "create,config_base=false,use_environment=false,session_max={},cache_size={},\
         extensions=[libwiredtiger_snappy.so]",
        SESSIONS + 64,
        settings.memory.max(CACHE_BYTES_MIN),
    );
    config += match settings.durability {
        Durability::None => ",checkpoint=(wait=60)",
        Durability::Process | Durability::Device => {
            ",checkpoint=(wait=60,log_size=2GB),log=(enabled=true)"
        }
    };
    config += match settings.durability {
        Durability::None => "",
        Durability::Process => ",transaction_sync=(enabled=true,method=none)",
        Durability::Device => ",transaction_sync=(enabled=true,method=fsync)",
    };
    config
}

fn failed(attempt: &'static str) -> impl FnOnce(Code) -> Failure {
    move |code| Failure::store(NAME, attempt, code)
}

/// A session's place, in cache lines of its own: each operation locks one.
#[derive(Default)]
#[repr(align(128))]
struct Place(Mutex<Option<Session>>);

struct Open {
    sessions: Vec<Place>,
    connection: Arc<Connection>,
}

impl Open {
    /// Does `work` with a session that nobody else has (W1).
    fn with<R>(
        &self,
        attempt: &'static str,
        work: impl FnOnce(&mut Session) -> Result<R, Code>,
    ) -> Outcome<R> {
        thread_local! {
            /// Where this thread found a free session.
            static PLACE: Cell<usize> = const { Cell::new(0) };
        }
        let mut place = PLACE.get();
        let mut held = loop {
            match self.sessions[place].0.try_lock() {
                Ok(held) => break held,
                Err(TryLockError::Poisoned(held)) => break held.into_inner(),
                Err(TryLockError::WouldBlock) => place = (place + 1) % SESSIONS,
            }
        };
        PLACE.set(place);
        let session = match &mut *held {
            Some(session) => session,
            none => none.insert(self.connection.session(TABLE).map_err(failed(attempt))?),
        };
        work(session).map_err(failed(attempt))
    }

    /// As `with`, again for as long as another transaction is in the way.
    fn change<R>(
        &self,
        attempt: &'static str,
        change: impl Fn(&mut Session) -> Result<R, Code>,
    ) -> Outcome<R> {
        self.with(attempt, |session| {
            loop {
                match change(session) {
                    Err(Code::ROLLBACK) => std::thread::yield_now(),
                    other => return other,
                }
            }
        })
    }
}

/// Does `work` in a transaction, which is over afterwards.
fn in_transaction<R>(
    session: &mut Session,
    work: impl FnOnce(&mut Session) -> Result<R, Code>,
) -> Result<R, Code> {
    session.begin()?;
    match work(session) {
        Ok(result) => session.commit().map(|()| result),
        Err(code) => {
            session.roll_back()?;
            Err(code)
        }
    }
}

impl Store for Open {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.change("put", |session| session.put(key, value))
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        self.change("delete", |session| session.delete(key))
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        self.with("get", |session| session.get(key, see))
    }

    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        self.with("scan", |session| {
            in_transaction(session, |session| session.walk(Some(from), count, visit))
        })
    }

    fn scan_back(&self, count: usize, visit: Visit<'_>) -> Outcome<usize> {
        self.with("scan backwards", |session| {
            in_transaction(session, |session| session.walk(None, count, visit))
        })
    }

    fn write(&self, batch: &[Change<'_>]) -> Outcome<()> {
        self.change("write a batch", |session| {
            in_transaction(session, |session| {
                batch.iter().try_for_each(|change| match change.value {
                    Some(value) => session.put(change.key, value),
                    None => session.delete(change.key),
                })
            })
        })
    }

    fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        self.change("put if absent", |session| session.put_if_absent(key, value))
    }

    fn view(&self) -> Outcome<Box<dyn View + '_>> {
        let failed = || failed("take a view");
        let mut session = self.connection.session(TABLE).map_err(failed())?;
        session.begin().map_err(failed())?;
        Ok(Box::new(At(RefCell::new(session))))
    }

    fn settle(&self) -> Outcome<()> {
        self.with("checkpoint", Session::checkpoint)
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        drop(self.sessions);
        match Arc::into_inner(self.connection) {
            Some(connection) => connection.close().map_err(failed("close")),
            None => Ok(()),
        }
    }
}

/// A session in a transaction, which reads the state of when it began.
struct At(RefCell<Session>);

impl View for At {
    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        let seen = self.0.borrow_mut().walk(Some(from), count, visit);
        seen.map_err(failed("scan a view"))
    }
}
