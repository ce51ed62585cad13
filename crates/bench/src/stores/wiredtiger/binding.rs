//! WiredTiger's C interface, as much of it as is needed, behind types that are safe to use.
//!
//! Written after include/wiredtiger.h of 3.2.1, Debian's. Its handles are structures of function
//! pointers, whose places differ from version to version: another one than 3.2 is refused.
//!
//! B1. A handle is closed once, by the type that owns it: cursors with their session, sessions
//!     before their connection, which they hold.
//! B2. A connection may be used by any number of threads, a session and its cursors by one at a
//!     time ("Multithreading" in WiredTiger's manual): `Session` is not `Sync`.
//! B3. A cursor remembers where a key and a value are, not what they are. So each method below
//!     sets them, does one operation, and leaves the cursor without them: an insertion forgets
//!     both, every other operation is followed by `reset`.
//! B4. What `get_key` and `get_value` point to is there until the cursor is moved, and is only
//!     lent for so long.
//!
//! Threads: B2. Tests: `tests/stores.rs`.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::Arc;

/// What include/wiredtiger.h declares, in its order.
mod c {
    use std::ffi::{c_char, c_int, c_void};

    /// A function that is not called from here.
    type Other = *const c_void;

    #[repr(C)]
    pub(super) struct Item {
        pub(super) data: *const c_void,
        pub(super) size: usize,
        pub(super) mem: *mut c_void,
        pub(super) memsize: usize,
        pub(super) flags: u32,
    }

    #[repr(C)]
    pub(super) struct Connection {
        pub(super) async_flush_and_new_op: [Other; 2],
        pub(super) close: unsafe extern "C" fn(*mut Connection, *const c_char) -> c_int,
        pub(super) debug_info_to_is_new: [Other; 5],
        pub(super) open_session: unsafe extern "C" fn(
            *mut Connection,
            *mut c_void,
            *const c_char,
            *mut *mut Session,
        ) -> c_int,
    }

    #[repr(C)]
    pub(super) struct Session {
        pub(super) connection_and_app_private: [*mut c_void; 2],
        pub(super) close: unsafe extern "C" fn(*mut Session, *const c_char) -> c_int,
        pub(super) reconfigure_and_strerror: [Other; 2],
        pub(super) open_cursor: unsafe extern "C" fn(
            *mut Session,
            *const c_char,
            *mut Cursor,
            *const c_char,
            *mut *mut Cursor,
        ) -> c_int,
        pub(super) alter: Other,
        pub(super) create:
            unsafe extern "C" fn(*mut Session, *const c_char, *const c_char) -> c_int,
        pub(super) import_to_verify: [Other; 13],
        pub(super) begin_transaction: unsafe extern "C" fn(*mut Session, *const c_char) -> c_int,
        pub(super) commit_transaction: unsafe extern "C" fn(*mut Session, *const c_char) -> c_int,
        pub(super) prepare_transaction: Other,
        pub(super) rollback_transaction: unsafe extern "C" fn(*mut Session, *const c_char) -> c_int,
        pub(super) timestamp_transaction_and_query: [Other; 2],
        pub(super) checkpoint: unsafe extern "C" fn(*mut Session, *const c_char) -> c_int,
    }

    #[repr(C)]
    pub(super) struct Cursor {
        pub(super) session_to_value_format: [*const c_void; 4],
        pub(super) get_key: unsafe extern "C" fn(*mut Cursor, ...) -> c_int,
        pub(super) get_value: unsafe extern "C" fn(*mut Cursor, ...) -> c_int,
        pub(super) set_key: unsafe extern "C" fn(*mut Cursor, ...),
        pub(super) set_value: unsafe extern "C" fn(*mut Cursor, ...),
        pub(super) compare_and_equals: [Other; 2],
        pub(super) next: unsafe extern "C" fn(*mut Cursor) -> c_int,
        pub(super) prev: unsafe extern "C" fn(*mut Cursor) -> c_int,
        pub(super) reset: unsafe extern "C" fn(*mut Cursor) -> c_int,
        pub(super) search: unsafe extern "C" fn(*mut Cursor) -> c_int,
        pub(super) search_near: unsafe extern "C" fn(*mut Cursor, *mut c_int) -> c_int,
        pub(super) insert: unsafe extern "C" fn(*mut Cursor) -> c_int,
        pub(super) modify_and_update: [Other; 2],
        pub(super) remove: unsafe extern "C" fn(*mut Cursor) -> c_int,
    }

    #[link(name = "wiredtiger")]
    unsafe extern "C" {
        pub(super) fn wiredtiger_open(
            home: *const c_char,
            events: *mut c_void,
            config: *const c_char,
            connection: *mut *mut Connection,
        ) -> c_int;
        pub(super) fn wiredtiger_version(
            major: *mut c_int,
            minor: *mut c_int,
            patch: *mut c_int,
        ) -> *const c_char;
    }
}

/// What WiredTiger returned that was not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Code(c_int);

impl Code {
    /// Another transaction wrote the same: begin again.
    pub(super) const ROLLBACK: Code = Code(-31800);
    const DUPLICATE_KEY: Code = Code(-31801);
    const NOT_FOUND: Code = Code(-31803);

    /// `Ok` where WiredTiger returned 0.
    fn check(returned: c_int) -> Result<(), Code> {
        match returned {
            0 => Ok(()),
            other => Err(Code(other)),
        }
    }

    /// Whether what was looked for is there: it is no failure that it is not.
    fn found(returned: c_int) -> Result<bool, Code> {
        match Code(returned) {
            Code::NOT_FOUND => Ok(false),
            _ => Code::check(returned).map(|()| true),
        }
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Code::ROLLBACK => f.write_str("a conflict with another transaction"),
            Code(errno) if errno > 0 => std::io::Error::from_raw_os_error(errno).fmt(f),
            Code(other) => write!(f, "WiredTiger's error {other}"),
        }
    }
}

/// The library's version: major, minor.
pub(super) fn version() -> (i32, i32) {
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: three places for numbers.
    unsafe { c::wiredtiger_version(&raw mut major, &raw mut minor, &raw mut patch) };
    (major, minor)
}

/// The version whose header this file follows.
pub(super) const VERSION: (i32, i32) = (3, 2);

/// An open database.
#[derive(Debug)]
pub(super) struct Connection(*mut c::Connection);

// SAFETY: B2.
unsafe impl Send for Connection {}
// SAFETY: B2.
unsafe impl Sync for Connection {}

impl Connection {
    /// Opens the database in `home`, which is a directory.
    pub(super) fn open(home: &CStr, config: &CStr) -> Result<Arc<Connection>, Code> {
        let mut opened = ptr::null_mut();
        let (home, config, events) = (home.as_ptr(), config.as_ptr(), ptr::null_mut());
        // SAFETY: two strings, no event handler, and a place for the connection.
        let code = unsafe { c::wiredtiger_open(home, events, config, &raw mut opened) };
        Code::check(code)?;
        Ok(Arc::new(Connection(opened)))
    }

    /// Opens a session whose cursors stand on the table `uri`.
    pub(super) fn session(self: &Arc<Self>, uri: &CStr) -> Result<Session, Code> {
        let mut opened = ptr::null_mut();
        // SAFETY: live until it is dropped (B1).
        let open = unsafe { (*self.0).open_session };
        let (events, config) = (ptr::null_mut(), c"isolation=snapshot".as_ptr());
        // SAFETY: a live connection, no event handler, a string, a place for the session.
        Code::check(unsafe { open(self.0, events, config, &raw mut opened) })?;
        let mut session = Session {
            session: opened,
            over: Cursor(ptr::null_mut()),
            fresh: Cursor(ptr::null_mut()),
            _connection: Arc::clone(self),
        };
        session.create(uri)?;
        session.over = session.cursor(uri, c"overwrite=true")?;
        session.fresh = session.cursor(uri, c"overwrite=false")?;
        Ok(session)
    }

    /// Closes it, where nobody else holds it.
    pub(super) fn close(self) -> Result<(), Code> {
        let pointer = self.0;
        std::mem::forget(self);
        Code::check(close(pointer))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Nobody is left who could do anything about it.
        let _ = close(self.0);
    }
}

/// Closes a connection that nobody uses any more.
fn close(connection: *mut c::Connection) -> c_int {
    // SAFETY: live: it comes from its owner, who is about to go (B1).
    let close = unsafe { (*connection).close };
    // SAFETY: as above; no configuration.
    unsafe { close(connection, ptr::null()) }
}

/// A cursor of a session, which owns it.
#[derive(Debug, Clone, Copy)]
struct Cursor(*mut c::Cursor);

/// Bytes for WiredTiger to look at.
fn item(bytes: &[u8]) -> c::Item {
    c::Item {
        data: bytes.as_ptr().cast(),
        size: bytes.len(),
        mem: ptr::null_mut(),
        memsize: 0,
        flags: 0,
    }
}

impl Cursor {
    fn methods(&self) -> &c::Cursor {
        // SAFETY: live as long as its session (B1), which is borrowed by whoever is here.
        unsafe { &*self.0 }
    }

    /// Until it is reset or has inserted, `key` must stay where it is (B3).
    fn set_key(&self, key: &[u8]) {
        let item = item(key);
        // SAFETY: a live cursor whose keys are of format `u`: it takes an item.
        unsafe { (self.methods().set_key)(self.0, &raw const item) };
    }

    /// As `set_key`.
    fn set_value(&self, value: &[u8]) {
        let item = item(value);
        // SAFETY: a live cursor whose values are of format `u`: it takes an item.
        unsafe { (self.methods().set_value)(self.0, &raw const item) };
    }

    fn key(&self, see: impl FnOnce(&[u8])) -> Result<(), Code> {
        let mut item = item(&[]);
        // SAFETY: a live cursor whose keys are of format `u`: it fills an item.
        Code::check(unsafe { (self.methods().get_key)(self.0, &raw mut item) })?;
        see(lent(&item));
        Ok(())
    }

    fn value(&self, see: impl FnOnce(&[u8])) -> Result<(), Code> {
        let mut item = item(&[]);
        // SAFETY: a live cursor whose values are of format `u`: it fills an item.
        Code::check(unsafe { (self.methods().get_value)(self.0, &raw mut item) })?;
        see(lent(&item));
        Ok(())
    }

    /// Puts the pair in, and forgets both.
    fn insert(&self, key: &[u8], value: &[u8]) -> Result<(), Code> {
        self.set_key(key);
        self.set_value(value);
        // SAFETY: a live cursor.
        let inserted = Code::check(unsafe { (self.methods().insert)(self.0) });
        if inserted.is_err() {
            self.reset();
        }
        inserted
    }

    fn remove(&self, key: &[u8]) -> Result<(), Code> {
        self.set_key(key);
        // SAFETY: a live cursor.
        let removed = Code::found(unsafe { (self.methods().remove)(self.0) });
        self.reset();
        removed.map(|_| ())
    }

    fn get(&self, key: &[u8], see: impl FnOnce(&[u8])) -> Result<bool, Code> {
        self.set_key(key);
        // SAFETY: a live cursor.
        let mut found = Code::found(unsafe { (self.methods().search)(self.0) });
        if found == Ok(true) {
            found = self.value(see).map(|()| true);
        }
        self.reset();
        found
    }

    /// Moves to the first key, or the next one; whether there is one.
    fn step(&self) -> Result<bool, Code> {
        // SAFETY: a live cursor.
        Code::found(unsafe { (self.methods().next)(self.0) })
    }

    /// Moves to the last key, or the one before; whether there is one.
    fn step_back(&self) -> Result<bool, Code> {
        // SAFETY: a live cursor.
        Code::found(unsafe { (self.methods().prev)(self.0) })
    }

    /// Moves to the first key at or above `key`; whether there is one.
    fn seek(&self, key: &[u8]) -> Result<bool, Code> {
        if key.is_empty() {
            return self.step();
        }
        self.set_key(key);
        let mut side = 0;
        // SAFETY: a live cursor, and a place for a number.
        let near = unsafe { (self.methods().search_near)(self.0, &raw mut side) };
        match Code::found(near)? {
            true if side < 0 => self.step(),
            found => Ok(found),
        }
    }

    fn reset(&self) {
        // SAFETY: a live cursor. What it returns was returned by the operation before.
        unsafe { (self.methods().reset)(self.0) };
    }
}

/// What a cursor filled, for as long as the cursor is not moved (B4).
fn lent(item: &c::Item) -> &[u8] {
    if item.size == 0 {
        return &[];
    }
    // SAFETY: not empty, so so many bytes are there; callers let nobody move the cursor (B4).
    unsafe { std::slice::from_raw_parts(item.data.cast(), item.size) }
}

/// A thread's way into the database.
#[derive(Debug)]
pub(super) struct Session {
    session: *mut c::Session,
    /// Inserts over what is there.
    over: Cursor,
    /// Inserts where there is nothing.
    fresh: Cursor,
    _connection: Arc<Connection>,
}

// SAFETY: B2: whoever owns it uses it alone.
unsafe impl Send for Session {}

impl Session {
    fn methods(&self) -> &c::Session {
        // SAFETY: live until it is dropped (B1).
        unsafe { &*self.session }
    }

    /// Creates the table, if there is none.
    fn create(&mut self, uri: &CStr) -> Result<(), Code> {
        let config = c"key_format=u,value_format=u,block_compressor=snappy".as_ptr();
        // SAFETY: a live session and two strings.
        Code::check(unsafe { (self.methods().create)(self.session, uri.as_ptr(), config) })
    }

    fn cursor(&mut self, uri: &CStr, config: &CStr) -> Result<Cursor, Code> {
        let mut opened = ptr::null_mut();
        let (of, uri, config) = (ptr::null_mut(), uri.as_ptr(), config.as_ptr());
        let open = self.methods().open_cursor;
        // SAFETY: a live session, two strings, no cursor to copy, a place for the new one.
        Code::check(unsafe { open(self.session, uri, of, config, &raw mut opened) })?;
        Ok(Cursor(opened))
    }

    /// Stores `value` under `key`.
    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Code> {
        self.over.insert(key, value)
    }

    /// Stores `value` under `key` if there is none; whether it did.
    pub(super) fn put_if_absent(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Code> {
        match self.fresh.insert(key, value) {
            Err(Code::DUPLICATE_KEY) => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Makes `key` absent.
    pub(super) fn delete(&mut self, key: &[u8]) -> Result<(), Code> {
        self.over.remove(key)
    }

    /// Shows the value of `key` to `see`, if it has one; says whether.
    pub(super) fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool, Code> {
        self.over.get(key, see)
    }

    /// Shows up to `count` pairs from `from` on, or from the end backwards, to `visit`; how many
    /// there were. In a transaction, of one state.
    pub(super) fn walk(
        &mut self,
        from: Option<&[u8]>,
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, Code> {
        let cursor = &self.over;
        let mut walk = || {
            let mut there =
                count > 0 && from.map_or_else(|| cursor.step_back(), |from| cursor.seek(from))?;
            let mut seen = 0;
            while there {
                let mut valued = Ok(());
                cursor.key(|key| valued = cursor.value(|value| visit(key, value)))?;
                valued?;
                seen += 1;
                there = seen < count
                    && match from {
                        Some(_) => cursor.step()?,
                        None => cursor.step_back()?,
                    };
            }
            Ok(seen)
        };
        let seen = walk();
        cursor.reset();
        seen
    }

    /// Begins a transaction, which reads the state of now.
    pub(super) fn begin(&mut self) -> Result<(), Code> {
        // SAFETY: a live session; no configuration.
        Code::check(unsafe { (self.methods().begin_transaction)(self.session, ptr::null()) })
    }

    /// Ends it; its writes are there.
    pub(super) fn commit(&mut self) -> Result<(), Code> {
        // SAFETY: a live session; no configuration.
        Code::check(unsafe { (self.methods().commit_transaction)(self.session, ptr::null()) })
    }

    /// Ends it; its writes never were.
    pub(super) fn roll_back(&mut self) -> Result<(), Code> {
        // SAFETY: a live session; no configuration.
        Code::check(unsafe { (self.methods().rollback_transaction)(self.session, ptr::null()) })
    }

    /// Writes everything out.
    pub(super) fn checkpoint(&mut self) -> Result<(), Code> {
        // SAFETY: a live session; no configuration.
        Code::check(unsafe { (self.methods().checkpoint)(self.session, ptr::null()) })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let close = self.methods().close;
        // SAFETY: a live session, whose cursors and transaction end with it (B1).
        unsafe { close(self.session, ptr::null()) };
    }
}
