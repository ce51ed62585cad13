//! The numbered databases of the protocol on the named keyspaces of the engine.
//!
//! B1. Database 0 is the keyspace `default`; database n is `db<n>`, created by the first write to
//!     it. A read of a keyspace that does not exist finds nothing and creates nothing.
//! B2. Each network thread has its own handles: finding one takes no lock.
//! B3. A keyspace may be dropped by the program around the server. A thread that meets one forgets
//!     its handles and looks again: the database is then as if it had never been written to.
//!
//! Tests: `tests/databases.rs`.

use velella::{Db, Error, ErrorKind, Keyspace, Result};

/// How many databases there are.
pub(crate) const DATABASES: usize = 16;

/// One thread's handles of the databases.
#[derive(Debug)]
pub(crate) struct Databases {
    db: Db,
    handles: [Option<Keyspace>; DATABASES],
}

impl Databases {
    /// The databases of `db`.
    pub(crate) fn new(db: Db) -> Self {
        let mut handles = [const { None }; DATABASES];
        handles[0] = Some(Keyspace::clone(&db));
        Databases { db, handles }
    }

    /// The keyspace of database `number`, if it was ever written.
    #[inline]
    pub(crate) fn existing(&mut self, number: usize) -> Result<Option<&Keyspace>> {
        if self.handles[number].is_none() {
            match self.db.keyspace(&format!("db{number}")) {
                Ok(keyspace) => self.handles[number] = Some(keyspace),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(self.handles[number].as_ref())
    }

    /// The keyspace of database `number`, created if need be.
    #[inline]
    pub(crate) fn writable(&mut self, number: usize) -> Result<&Keyspace> {
        let handle = &mut self.handles[number];
        Ok(match handle {
            Some(keyspace) => keyspace,
            None => {
                let created = self.db.keyspace_or_create(&format!("db{number}"));
                handle.insert(created.map_err(not_written)?)
            }
        })
    }

    /// Forgets the handles, but for that of database 0, which cannot be dropped (B3).
    #[cold]
    pub(crate) fn forget(&mut self) {
        self.handles
            .iter_mut()
            .skip(1)
            .for_each(|handle| *handle = None);
    }
}

/// Only the keyspace is in doubt where its creation is: no write was tried.
fn not_written(error: Error) -> Error {
    match error.kind() {
        ErrorKind::OutcomeUnknown => error.with_kind(ErrorKind::Io),
        _ => error,
    }
}
