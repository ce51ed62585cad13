//! LevelDB, the system's library, through its C interface.
//!
//! A binding of what is needed here and no more. Settings as of RocksDB: block cache, filters,
//! memtable; compression is Snappy, LevelDB's only one.
//!
//! B1. Every pointer that LevelDB returns is owned by one of the types below and destroyed once.
//! B2. `Ldb` is closed after every iterator and snapshot of it is gone: they borrow it.
//! B3. LevelDB's database may be used by any number of threads; its iterators and batches stay on
//!     one (include/leveldb/db.h).
//!
//! Threads: any. Tests: `tests/stores.rs`.

use crate::failure::{Failure, Outcome};
use crate::store::{Change, Durability, Peer, Settings, Store, View, Visit};
use crate::stripes::Stripes;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// What include/leveldb/c.h declares.
mod c {
    use std::ffi::{c_char, c_int, c_void};

    /// Something of LevelDB's, seen only by its address.
    #[repr(C)]
    pub(super) struct Opaque([u8; 0]);

    #[link(name = "leveldb")]
    unsafe extern "C" {
        pub(super) fn leveldb_open(
            o: *const Opaque,
            n: *const c_char,
            e: *mut *mut c_char,
        ) -> *mut Opaque;
        pub(super) fn leveldb_close(db: *mut Opaque);
        pub(super) fn leveldb_put(
            db: *mut Opaque,
            options: *const Opaque,
            key: *const u8,
            key_bytes: usize,
            value: *const u8,
            value_bytes: usize,
            error: *mut *mut c_char,
        );
        pub(super) fn leveldb_delete(
            db: *mut Opaque,
            options: *const Opaque,
            key: *const u8,
            key_bytes: usize,
            error: *mut *mut c_char,
        );
        pub(super) fn leveldb_write(
            db: *mut Opaque,
            options: *const Opaque,
            batch: *mut Opaque,
            error: *mut *mut c_char,
        );
        pub(super) fn leveldb_get(
            db: *mut Opaque,
            options: *const Opaque,
            key: *const u8,
            key_bytes: usize,
            value_bytes: *mut usize,
            error: *mut *mut c_char,
        ) -> *mut u8;
        pub(super) fn leveldb_create_iterator(db: *mut Opaque, o: *const Opaque) -> *mut Opaque;
        pub(super) fn leveldb_iter_destroy(iter: *mut Opaque);
        pub(super) fn leveldb_iter_valid(iter: *const Opaque) -> u8;
        pub(super) fn leveldb_iter_seek(iter: *mut Opaque, key: *const u8, key_bytes: usize);
        pub(super) fn leveldb_iter_seek_to_last(iter: *mut Opaque);
        pub(super) fn leveldb_iter_next(iter: *mut Opaque);
        pub(super) fn leveldb_iter_prev(iter: *mut Opaque);
        pub(super) fn leveldb_iter_key(iter: *const Opaque, bytes: *mut usize) -> *const u8;
        pub(super) fn leveldb_iter_value(iter: *const Opaque, bytes: *mut usize) -> *const u8;
        pub(super) fn leveldb_iter_get_error(iter: *const Opaque, error: *mut *mut c_char);
        pub(super) fn leveldb_create_snapshot(db: *mut Opaque) -> *const Opaque;
        pub(super) fn leveldb_release_snapshot(db: *mut Opaque, snapshot: *const Opaque);
        pub(super) fn leveldb_writebatch_create() -> *mut Opaque;
        pub(super) fn leveldb_writebatch_destroy(batch: *mut Opaque);
        pub(super) fn leveldb_writebatch_put(
            batch: *mut Opaque,
            key: *const u8,
            key_bytes: usize,
            value: *const u8,
            value_bytes: usize,
        );
        pub(super) fn leveldb_writebatch_delete(b: *mut Opaque, key: *const u8, key_bytes: usize);
        pub(super) fn leveldb_options_create() -> *mut Opaque;
        pub(super) fn leveldb_options_destroy(options: *mut Opaque);
        pub(super) fn leveldb_options_set_create_if_missing(options: *mut Opaque, yes: u8);
        pub(super) fn leveldb_options_set_write_buffer_size(options: *mut Opaque, bytes: usize);
        pub(super) fn leveldb_options_set_cache(options: *mut Opaque, cache: *mut Opaque);
        pub(super) fn leveldb_options_set_filter_policy(options: *mut Opaque, filter: *mut Opaque);
        pub(super) fn leveldb_cache_create_lru(bytes: usize) -> *mut Opaque;
        pub(super) fn leveldb_cache_destroy(cache: *mut Opaque);
        pub(super) fn leveldb_filterpolicy_create_bloom(bits: c_int) -> *mut Opaque;
        pub(super) fn leveldb_filterpolicy_destroy(filter: *mut Opaque);
        pub(super) fn leveldb_readoptions_create() -> *mut Opaque;
        pub(super) fn leveldb_readoptions_destroy(options: *mut Opaque);
        pub(super) fn leveldb_readoptions_set_snapshot(o: *mut Opaque, snapshot: *const Opaque);
        pub(super) fn leveldb_writeoptions_create() -> *mut Opaque;
        pub(super) fn leveldb_writeoptions_destroy(options: *mut Opaque);
        pub(super) fn leveldb_writeoptions_set_sync(options: *mut Opaque, yes: u8);
        pub(super) fn leveldb_compact_range(
            db: *mut Opaque,
            from: *const u8,
            from_bytes: usize,
            to: *const u8,
            to_bytes: usize,
        );
        pub(super) fn leveldb_free(memory: *mut c_void);
    }
}

const NAME: &str = "leveldb";

/// LevelDB.
#[derive(Debug)]
pub struct LevelDb;

impl Peer for LevelDb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "LevelDB (C++, leveled LSM tree), the system's library"
    }

    fn offers(&self) -> &'static [Durability] {
        &[Durability::Process, Durability::Device]
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
        Ok(Box::new(Ldb::open(dir, settings)?))
    }
}

/// Something of LevelDB's, destroyed by its own function.
struct Owned {
    pointer: *mut c::Opaque,
    destroy: unsafe extern "C" fn(*mut c::Opaque),
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: made by the function that belongs to `destroy`, owned here alone (B1), and what
        // uses it was dropped before: fields are dropped in the order of declaration.
        unsafe { (self.destroy)(self.pointer) };
    }
}

/// An open database, and what it was opened with, in the order in which they must go.
struct Ldb {
    db: Owned,
    write: Owned,
    read: Owned,
    _options: Owned,
    _cache: Owned,
    _filter: Owned,
    stripes: Stripes,
}

// SAFETY: B3: LevelDB synchronizes its database, and the options are only read.
unsafe impl Send for Ldb {}
// SAFETY: as for `Send`.
unsafe impl Sync for Ldb {}

/// Where LevelDB puts its errors.
struct Fault(*mut c_char);

impl Fault {
    fn none() -> Self {
        Fault(ptr::null_mut())
    }

    fn check(self, attempt: &str) -> Outcome<()> {
        if self.0.is_null() {
            return Ok(());
        }
        // SAFETY: not null, so a string that ends with a zero, by convention (3) of c.h.
        let text = unsafe { CStr::from_ptr(self.0) };
        let failure = Failure::store(NAME, attempt, text.to_string_lossy());
        // SAFETY: allocated by LevelDB, and not used any more.
        unsafe { c::leveldb_free(self.0.cast::<c_void>()) };
        Err(failure)
    }
}

impl Ldb {
    fn open(dir: &Path, settings: &Settings) -> Outcome<Ldb> {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let bits = c_int::try_from(settings.bloom_bits).unwrap_or(10);
        let owned = |pointer, destroy| Owned { pointer, destroy };
        // SAFETY: it has no conditions.
        let options = unsafe { c::leveldb_options_create() };
        let options = owned(options, c::leveldb_options_destroy);
        // SAFETY: it has no conditions.
        let cache = unsafe { c::leveldb_cache_create_lru(size(settings.memory)) };
        let cache = owned(cache, c::leveldb_cache_destroy);
        // SAFETY: it has no conditions.
        let filter = unsafe { c::leveldb_filterpolicy_create_bloom(bits) };
        let filter = owned(filter, c::leveldb_filterpolicy_destroy);
        // SAFETY: it has no conditions.
        let write = unsafe { c::leveldb_writeoptions_create() };
        let write = owned(write, c::leveldb_writeoptions_destroy);
        // SAFETY: it has no conditions.
        let read = unsafe { c::leveldb_readoptions_create() };
        let read = owned(read, c::leveldb_readoptions_destroy);
        // SAFETY: live options of ours.
        unsafe { c::leveldb_options_set_create_if_missing(options.pointer, 1) };
        let buffer = size(settings.write_buffer);
        // SAFETY: live options of ours.
        unsafe { c::leveldb_options_set_write_buffer_size(options.pointer, buffer) };
        // SAFETY: live options and a live cache, which outlives the database.
        unsafe { c::leveldb_options_set_cache(options.pointer, cache.pointer) };
        // SAFETY: live options and a live filter policy, which outlives the database.
        unsafe { c::leveldb_options_set_filter_policy(options.pointer, filter.pointer) };
        let sync = u8::from(settings.durability == Durability::Device);
        // SAFETY: live options of ours.
        unsafe { c::leveldb_writeoptions_set_sync(write.pointer, sync) };
        let name = CString::new(dir.as_os_str().as_bytes())
            .map_err(|error| Failure::file("open", dir, error))?;
        let mut fault = Fault::none();
        // SAFETY: live options, a string with its zero, and a place for an error that is null.
        let db = unsafe { c::leveldb_open(options.pointer, name.as_ptr(), &raw mut fault.0) };
        fault.check("open")?;
        Ok(Ldb {
            db: owned(db, c::leveldb_close),
            write,
            read,
            _options: options,
            _cache: cache,
            _filter: filter,
            stripes: Stripes::default(),
        })
    }
}

/// An iterator on one thread.
struct Iter<'a> {
    owned: Owned,
    life: PhantomData<(&'a Ldb, *const ())>,
}

impl<'a> Iter<'a> {
    fn new(db: &'a Ldb, options: &Owned) -> Self {
        // SAFETY: a live database and live options; the lifetime keeps the database open (B2).
        let pointer = unsafe { c::leveldb_create_iterator(db.db.pointer, options.pointer) };
        Iter {
            owned: Owned {
                pointer,
                destroy: c::leveldb_iter_destroy,
            },
            life: PhantomData,
        }
    }

    /// Moves to the first pair at or above `from`, or to the last one of all.
    fn seek(&mut self, from: Option<&[u8]>) {
        let iter = self.owned.pointer;
        match from {
            // SAFETY: a live iterator, and as many bytes as are told.
            Some(key) => unsafe { c::leveldb_iter_seek(iter, key.as_ptr(), key.len()) },
            // SAFETY: a live iterator.
            None => unsafe { c::leveldb_iter_seek_to_last(iter) },
        }
    }

    /// Moves on, or back.
    fn step(&mut self, onwards: bool) {
        let step = match onwards {
            true => c::leveldb_iter_next,
            false => c::leveldb_iter_prev,
        };
        // SAFETY: a live iterator that stands on a pair: `pair` said so before.
        unsafe { step(self.owned.pointer) };
    }

    /// The pair it stands on, until it is moved.
    fn pair(&self) -> Option<(&[u8], &[u8])> {
        // SAFETY: a live iterator.
        if unsafe { c::leveldb_iter_valid(self.owned.pointer) } == 0 {
            return None;
        }
        let mut bytes = 0;
        // SAFETY: a live iterator that stands on a pair.
        let key = unsafe { c::leveldb_iter_key(self.owned.pointer, &raw mut bytes) };
        // SAFETY: so many bytes are there until the iterator moves, for which it is borrowed.
        let key = unsafe { std::slice::from_raw_parts(key, bytes) };
        // SAFETY: a live iterator that stands on a pair.
        let value = unsafe { c::leveldb_iter_value(self.owned.pointer, &raw mut bytes) };
        // SAFETY: so many bytes are there until the iterator moves, for which it is borrowed.
        let value = unsafe { std::slice::from_raw_parts(value, bytes) };
        Some((key, value))
    }

    /// Shows pairs from `from` on, or from the end backwards.
    fn walk(mut self, from: Option<&[u8]>, count: usize, visit: Visit<'_>) -> Outcome<usize> {
        self.seek(from);
        let mut seen = 0;
        while seen < count
            && let Some((key, value)) = self.pair()
        {
            visit(key, value);
            seen += 1;
            if seen < count {
                self.step(from.is_some());
            }
        }
        let mut fault = Fault::none();
        // SAFETY: a live iterator, and a place for an error that is null.
        unsafe { c::leveldb_iter_get_error(self.owned.pointer, &raw mut fault.0) };
        fault.check("scan")?;
        Ok(seen)
    }
}

impl Store for Ldb {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let mut fault = Fault::none();
        // SAFETY: a live database and options, as many bytes as are told, a null error.
        unsafe {
            c::leveldb_put(
                self.db.pointer,
                self.write.pointer,
                key.as_ptr(),
                key.len(),
                value.as_ptr(),
                value.len(),
                &raw mut fault.0,
            );
        }
        fault.check("put")
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        let mut fault = Fault::none();
        // SAFETY: a live database and options, as many bytes as are told, a null error.
        unsafe {
            c::leveldb_delete(
                self.db.pointer,
                self.write.pointer,
                key.as_ptr(),
                key.len(),
                &raw mut fault.0,
            );
        }
        fault.check("delete")
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let mut fault = Fault::none();
        let mut bytes = 0;
        // SAFETY: a live database and options, as many bytes as are told, a null error.
        let value = unsafe {
            c::leveldb_get(
                self.db.pointer,
                self.read.pointer,
                key.as_ptr(),
                key.len(),
                &raw mut bytes,
                &raw mut fault.0,
            )
        };
        fault.check("get")?;
        if value.is_null() {
            return Ok(false);
        }
        // SAFETY: not null, so as many bytes as were told, ours until they are freed below.
        see(unsafe { std::slice::from_raw_parts(value, bytes) });
        // SAFETY: allocated by LevelDB, and not used any more.
        unsafe { c::leveldb_free(value.cast::<c_void>()) };
        Ok(true)
    }

    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        Iter::new(self, &self.read).walk(Some(from), count, visit)
    }

    fn scan_back(&self, count: usize, visit: Visit<'_>) -> Outcome<usize> {
        Iter::new(self, &self.read).walk(None, count, visit)
    }

    fn write(&self, batch: &[Change<'_>]) -> Outcome<()> {
        // SAFETY: it has no conditions.
        let pointer = unsafe { c::leveldb_writebatch_create() };
        let all = Owned {
            pointer,
            destroy: c::leveldb_writebatch_destroy,
        };
        for change in batch {
            let (key, bytes) = (change.key.as_ptr(), change.key.len());
            if let Some(value) = change.value {
                let (value, length) = (value.as_ptr(), value.len());
                // SAFETY: a live batch, and as many bytes as are told, which it copies.
                unsafe { c::leveldb_writebatch_put(all.pointer, key, bytes, value, length) };
            } else {
                // SAFETY: a live batch, and as many bytes as are told, which it copies.
                unsafe { c::leveldb_writebatch_delete(all.pointer, key, bytes) };
            }
        }
        let mut fault = Fault::none();
        let (db, options) = (self.db.pointer, self.write.pointer);
        // SAFETY: a live database, options and batch, and a null error.
        unsafe { c::leveldb_write(db, options, all.pointer, &raw mut fault.0) };
        fault.check("write a batch")
    }

    fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        self.stripes.put_if_absent(self, key, value)
    }

    fn view(&self) -> Outcome<Box<dyn View + '_>> {
        // SAFETY: it has no conditions.
        let pointer = unsafe { c::leveldb_readoptions_create() };
        let options = Owned {
            pointer,
            destroy: c::leveldb_readoptions_destroy,
        };
        // SAFETY: a live database; released in `At::drop`, before it closes (B2).
        let snapshot = unsafe { c::leveldb_create_snapshot(self.db.pointer) };
        // SAFETY: live options, and a snapshot that outlives them: both are in `At`.
        unsafe { c::leveldb_readoptions_set_snapshot(options.pointer, snapshot) };
        Ok(Box::new(At {
            db: self,
            options,
            snapshot,
        }))
    }

    fn settle(&self) -> Outcome<()> {
        // SAFETY: a live database; two null ends stand for all keys (include/leveldb/c.h).
        unsafe { c::leveldb_compact_range(self.db.pointer, ptr::null(), 0, ptr::null(), 0) };
        Ok(())
    }
}

/// A snapshot, and options that read at it.
struct At<'a> {
    db: &'a Ldb,
    options: Owned,
    snapshot: *const c::Opaque,
}

impl Drop for At<'_> {
    fn drop(&mut self) {
        // SAFETY: a snapshot of this database, which is still open (B2), released once.
        unsafe { c::leveldb_release_snapshot(self.db.db.pointer, self.snapshot) };
    }
}

impl View for At<'_> {
    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        Iter::new(self.db, &self.options).walk(Some(from), count, visit)
    }
}
