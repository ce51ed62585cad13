//! The fuzz targets: everything that decodes, as functions of bytes that assert properties.
//!
//! T1. A target returns for every input that breaks no property, and panics otherwise. It follows
//!     from its input alone, but for threads of the database under `operations`.
//! T2. Its inputs to begin with are `fuzz/corpus/<name>/`, one file each; `fuzz/` has a thin
//!     binary of the same name for libFuzzer.
//!
//! Threads: any. Tests: `tests/corpus.rs` replays every input.

mod commands;
mod forge;
mod journal;
mod operations;
pub mod manifest;
pub mod small_files;

use std::path::{Path, PathBuf};

/// A function of bytes that asserts properties.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, for files and counts.
    pub name: &'static str,
    /// What it asserts, in a line.
    pub about: &'static str,
    /// The function.
    pub run: fn(&[u8]),
    /// How many executions cost as much as one of the dearest target, roughly.
    pub share: u32,
    /// What mutations insert.
    pub words: &'static [&'static [u8]],
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Target({})", self.name)
    }
}

const NO_WORDS: &[&[u8]] = &[];
const RESP: &[&[u8]] = &[
    b"\r\n",
    b"*",
    b"$",
    b"*-1\r\n",
    b"*0\r\n",
    b"$-1\r\n",
    b"*2\r\n",
    b"$0\r\n\r\n",
    b"\"",
    b"\\x",
    b"'",
    b"\\'",
    b"$3\r\nGET\r\n",
    b"*1048577\r\n",
    b"$536870913\r\n",
    b"-0",
    b"\n",
];
const COMMANDS: &[&[u8]] = &[
    b"\n",
    b" ",
    b" k ",
    b" l ",
    b" 0 ",
    b" -1 ",
    b" 9223372036854775807 ",
    b" -9223372036854775808 ",
    b" 1.5e300 ",
    b"append k ",
    b"bitcount k ",
    b"bitfield k ",
    b"bitop xor k k l\n",
    b"client reply ",
    b"client kill ",
    b"config set ",
    b"copy k l ",
    b"flushall\n",
    b"get k\n",
    b"getex k ",
    b"hello 3\n",
    b"incrby k ",
    b"incrbyfloat k ",
    b"lcs k l ",
    b"mset k 1 l 2\n",
    b"object ",
    b"pexpire k ",
    b"rename k l\n",
    b"reset\n",
    b"scan 0 ",
    b"select 1\n",
    b"set k ",
    b"setbit k ",
    b"setrange k ",
    b" px ",
    b" get ",
    b" count ",
    b" match ",
    b" type ",
    b" keepttl ",
];
const FILES: &[&[u8]] = &[
    b"\"",
    b"\"\"",
    b",",
    b"\t",
    b"\n",
    b"\r\n",
    b"\\t",
    b"\\x00",
    b"\\",
    b"\xef\xbb\xbf",
    b"VELPAIR1",
    b"\xff\xff\xff\xff",
    b"{\"key\":\"",
    b"\",\"value\":\"",
    b"\"}\n",
    b"\\u0000",
    b"{\"base64\":\"",
    b",\"expires_at_ms\":",
    b"\\ud83d\\ude00",
    b"[",
    b"1e400",
];
const GLOB: &[&[u8]] = &[
    b"*", b"?", b"[", b"]", b"^", b"-", b"\\", b"\0", b"[^", b"*a*",
];
const NAMES: &[&[u8]] = &[
    b"MANIFEST-",
    b"000001",
    b".sst",
    b".ext",
    b".seal",
    b".large",
    b" ",
    b"\n",
    b"0",
    b"18446744073709551615",
];
const TABLE: &[&[u8]] = &[
    b"velella.bytewise",
    b"VELLTABL",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
];

/// Every target.
pub const ALL: &[Target] = &[
    target(
        "journal",
        "recovery of any journal",
        journal::journal,
        200,
        NO_WORDS,
    ),
    target(
        "commit",
        "operations in a record",
        journal::commit,
        20_000,
        NO_WORDS,
    ),
    target(
        "manifest",
        "manifests of any edits",
        manifest::manifest,
        200,
        TABLE,
    ),
    target(
        "small_files",
        "CURRENT, names, external values",
        small_files::small_files,
        2_000,
        NAMES,
    ),
    target(
        "table",
        "whole table files",
        velella_sst::fuzz::table,
        100,
        TABLE,
    ),
    target(
        "block",
        "data blocks",
        velella_sst::fuzz::block,
        2_000,
        NO_WORDS,
    ),
    target(
        "index",
        "indexes of tables",
        velella_sst::fuzz::index,
        4_000,
        NO_WORDS,
    ),
    target(
        "footer",
        "footers of tables",
        velella_sst::fuzz::footer,
        20_000,
        TABLE,
    ),
    target(
        "filter",
        "Bloom filters",
        velella_sst::fuzz::filter,
        4_000,
        NO_WORDS,
    ),
    target(
        "properties",
        "properties of tables",
        velella_sst::fuzz::properties,
        10_000,
        TABLE,
    ),
    target(
        "compression",
        "compressed payloads",
        velella_sst::fuzz::compression,
        1_000,
        NO_WORDS,
    ),
    target(
        "requests",
        "requests of clients",
        velella_server::fuzz::requests,
        2_000,
        RESP,
    ),
    target(
        "commands",
        "any commands on a database",
        commands::commands,
        40,
        COMMANDS,
    ),
    target(
        "globs",
        "patterns of KEYS and SCAN",
        velella_server::fuzz::globs,
        8_000,
        GLOB,
    ),
    target(
        "numbers",
        "numbers of clients",
        velella_server::fuzz::numbers,
        20_000,
        NO_WORDS,
    ),
    target(
        "records",
        "files to import",
        velella_cli::fuzz::records,
        2_000,
        FILES,
    ),
    target(
        "text",
        "escapes, sizes, times",
        velella_cli::fuzz::text,
        8_000,
        FILES,
    ),
    target(
        "operations",
        "a database against a map",
        operations::run,
        1,
        NO_WORDS,
    ),
];

const fn target(
    name: &'static str,
    about: &'static str,
    run: fn(&[u8]),
    share: u32,
    words: &'static [&'static [u8]],
) -> Target {
    Target {
        name,
        about,
        run,
        share,
        words,
    }
}

/// The target called `name`.
#[must_use]
pub fn of(name: &str) -> Option<&'static Target> {
    ALL.iter().find(|target| target.name == name)
}

/// Runs the target called `name` on `input`.
///
/// # Panics
/// A property is broken; or there is no such target.
pub fn run(name: &str, input: &[u8]) {
    let target = of(name).unwrap_or_else(|| panic!("there is no target called {name}"));
    (target.run)(input);
}

/// Where the inputs of a target lie.
#[must_use]
pub fn corpus_dir(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(name)
}

/// The inputs of a target, by name of their files.
///
/// # Errors
/// The directory cannot be read.
pub fn corpus(name: &str) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut inputs = Vec::new();
    for entry in std::fs::read_dir(corpus_dir(name))? {
        let path = entry?.path();
        let file = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        inputs.push((file, std::fs::read(&path)?));
    }
    inputs.sort();
    Ok(inputs)
}
