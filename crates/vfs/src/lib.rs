//! Everything Velella asks of a file system.
//!
//! Layer 0 (knows only `base` for its errors and `sync`). Files reach the disk through this door
//! and no other, so that a test can stand on the other side: in memory with a page cache that can
//! crash, failing on demand, or writing down every call.
//!
//! The durability contract, which the real file system keeps and the in-memory one enforces:
//! V1. Written bytes are visible to every reader at once; they survive the process, and survive a
//!     power loss only after `sync_data` or `sync_all` of that file has returned `Ok`.
//! V2. A name (create, rename, remove, hard link, directory) survives a power loss only after
//!     `sync_dir` of its directory has returned `Ok`; syncing the file does not bring its name.
//! V3. Until synced, any subset of the written 512-byte sectors may survive, in any order, each
//!     with any value it held since; of a value being replaced, any aligned 8-byte words.
//! V4. After a failed sync nothing is known; a later sync that succeeds proves nothing.
//! V5. Space obtained by `allocate` can be written without running out of space.
//!
//! Every error names the operation and the path.
//!
//! Threads: everything here may be used by any thread.
//!
//! Tests: `contract`, run on every file system here; `mem` adds the legality of crashes.

mod window;
mod file;
mod vfs;
mod names;
mod operation;
pub mod intercept;

pub mod os;
pub mod mem;
pub mod fault;
pub mod trace;

#[cfg(any(test, feature = "contract"))]
pub mod contract;

pub use fault::FaultFs;
pub use file::{FileLock, MapFile, ReadFile, WriteFile};
pub use mem::MemFs;
pub use names::Names;
pub use operation::Operation;
pub use os::OsFs;
pub use trace::TraceFs;
pub use vfs::{Identity, Vfs, is_of_the_device, is_unreadable, lacks_descriptors};
pub use window::Window;
