//! The operations of a file system, by name: what faults are aimed at and traces are made of.
//!
//! One list for both, so that a fault can be aimed at whatever a trace shows.

/// One kind of call to a file system or to an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// [`crate::Vfs::create`]
    Create,
    /// [`crate::Vfs::open_write`]
    OpenWrite,
    /// [`crate::Vfs::open_read`]
    OpenRead,
    /// [`crate::Vfs::map_append`]
    Map,
    /// [`crate::Vfs::create_dir_all`]
    CreateDir,
    /// [`crate::Vfs::read_dir`]
    ReadDir,
    /// [`crate::Vfs::remove`]
    Remove,
    /// [`crate::Vfs::rename`]
    Rename,
    /// [`crate::Vfs::hard_link`]
    HardLink,
    /// [`crate::Vfs::sync_dir`]
    SyncDir,
    /// [`crate::Vfs::exists`]
    Exists,
    /// [`crate::Vfs::len`]
    Len,
    /// [`crate::Vfs::lock`]
    Lock,
    /// [`crate::Vfs::identity`]
    Identity,
    /// [`crate::WriteFile::write_at`]
    Write,
    /// [`crate::WriteFile::append`]
    Append,
    /// [`crate::WriteFile::allocate`]
    Allocate,
    /// [`crate::WriteFile::set_len`]
    SetLen,
    /// [`crate::WriteFile::sync_data`]
    SyncData,
    /// [`crate::WriteFile::sync_all`]
    SyncAll,
    /// [`crate::MapFile::sync_data`]
    SyncMap,
    /// [`crate::ReadFile::read_exact_at`]
    Read,
}

impl Operation {
    /// Every operation, in the order of declaration.
    pub const ALL: [Operation; 22] = [
        Operation::Create,
        Operation::OpenWrite,
        Operation::OpenRead,
        Operation::Map,
        Operation::CreateDir,
        Operation::ReadDir,
        Operation::Remove,
        Operation::Rename,
        Operation::HardLink,
        Operation::SyncDir,
        Operation::Exists,
        Operation::Len,
        Operation::Lock,
        Operation::Identity,
        Operation::Write,
        Operation::Append,
        Operation::Allocate,
        Operation::SetLen,
        Operation::SyncData,
        Operation::SyncAll,
        Operation::SyncMap,
        Operation::Read,
    ];

    /// The operation as a trace spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "create",
            Operation::OpenWrite => "open_write",
            Operation::OpenRead => "open_read",
            Operation::Map => "map",
            Operation::CreateDir => "create_dir",
            Operation::ReadDir => "read_dir",
            Operation::Remove => "remove",
            Operation::Rename => "rename",
            Operation::HardLink => "hard_link",
            Operation::SyncDir => "sync_dir",
            Operation::Exists => "exists",
            Operation::Len => "len",
            Operation::Lock => "lock",
            Operation::Identity => "identity",
            Operation::Write => "write",
            Operation::Append => "append",
            Operation::Allocate => "allocate",
            Operation::SetLen => "set_len",
            Operation::SyncData => "sync_data",
            Operation::SyncAll => "sync_all",
            Operation::SyncMap => "sync_map",
            Operation::Read => "read",
        }
    }

    /// Whether it makes something durable.
    #[must_use]
    pub fn is_sync(self) -> bool {
        matches!(
            self,
            Operation::SyncDir | Operation::SyncData | Operation::SyncAll | Operation::SyncMap
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_operation_is_listed_once_where_its_number_says_and_named_alone() {
        for (index, operation) in Operation::ALL.iter().enumerate() {
            assert_eq!(*operation as usize, index);
        }
        let names: BTreeSet<_> = Operation::ALL.iter().map(|o| o.as_str()).collect();
        assert_eq!(names.len(), Operation::ALL.len());
    }
}
