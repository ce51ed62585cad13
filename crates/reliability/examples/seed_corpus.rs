//! Writes the inputs each fuzz target begins with to `fuzz/corpus/<target>/seed-*`.
//!
//! They are made by the code that writes the formats. Run it after a format changed:
//! `cargo run -p velella-reliability --example seed_corpus`.

use std::path::Path;
use std::sync::Arc;
use velella::vfs::{MemFs, Vfs};
use velella::{Compression, Db};
use velella_base::checksum::Context;
use velella_base::{Entry, Order, Stamp, ValueKind};
use velella_reliability::targets;
use velella_sst::{TableBuilder, TableOptions};
use velella_testkit::Seed;
use velella_tree::{ExternalStore, Manifest, OpenFiles};

type Inputs = Vec<(&'static str, Vec<u8>)>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut inputs = texts();
    inputs.extend(tables()?);
    inputs.extend(manifests()?);
    inputs.extend(recipes());
    inputs.extend(small_files()?);
    for (number, (target, bytes)) in inputs.iter().enumerate() {
        let dir = targets::corpus_dir(target);
        std::fs::create_dir_all(&dir)?;
        std::fs::write(dir.join(format!("seed-{number:03}")), bytes)?;
    }
    println!("{} inputs", inputs.len());
    Ok(())
}

fn texts() -> Inputs {
    let mut inputs: Inputs = Vec::new();
    let requests: [&[u8]; 6] = [
        b"*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n",
        b"set k \"a \\x41\\n\" 'it\\'s'\r\n\r\n*0\r\n*-1\r\nget k\n",
        b"*2\r\n$0\r\n\r\n$1\r\nx\r\n",
        b"*1048577\r\n",
        b"*1\r\n$536870913\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\n\r\n",
    ];
    for (number, request) in (0u8..).zip(requests) {
        for mode in [0, 1, 2] {
            inputs.push(("requests", [&[mode, number], request].concat()));
        }
    }
    for glob in [
        "h[ae]?lo*\0hello world",
        "*a*b*c\0xxaxxbxxc",
        "[^a-\\]]\\*\0b*",
        "[a\0a",
    ] {
        inputs.push(("globs", glob.as_bytes().to_vec()));
    }
    for number in [
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "00",
    ] {
        inputs.push(("numbers", number.as_bytes().to_vec()));
    }
    let files: [(u8, &[u8]); 8] = [
        (0, b"key\tvalue\nk\\t1\t\\x00\xc3\xa9\n\nalone\n"),
        (0, b"\xef\xbb\xbfa\tb\r\nc\td\te\r\n"),
        (1, b"a,b\n\"quoted, \"\"twice\"\"\",\"two\r\nlines\"\n,\n"),
        (1, b"a;b\nc,\"unclosed"),
        (
            2,
            b"{\"key\":\"a\",\"value\":{\"base64\":\"AP8=\"},\"expires_at_ms\":7}\n",
        ),
        (
            2,
            b"{\"value\":\"\\u00e9\\ud83d\\ude00\",\"key\":\"\\u0000\"}\n[]\n",
        ),
        (
            3,
            b"VELPAIR1\x01\0\0\0\x02\0\0\0\x07\0\0\0\0\0\0\0kvv\xff\xff\xff\xff\x01\0\0\0\0\0\0\0",
        ),
        (3, b"VELPAIR1\xff\xff\xff\xff\0\0\0\0\0\0\0\0"),
    ];
    for (format, file) in files {
        for flags in [0, 2] {
            inputs.push(("records", [&[format, flags, b',', 0], file].concat()));
        }
    }
    for text in [
        "a\\tb\\x00\\\\",
        "64MiB",
        "1.5h",
        "\u{feff}\u{9b}x",
        "500ms",
        "1e19",
    ] {
        inputs.push(("text", text.as_bytes().to_vec()));
    }
    inputs
}

fn tables() -> Result<Inputs, velella::Error> {
    let mut inputs: Inputs = Vec::new();
    let context = Context {
        database: 0x7e11_e11a,
        file: 42,
    };
    for (compression, entries, bloom_bits) in [
        (Compression::None, 3, 0),
        (Compression::Lz4, 60, 10),
        (Compression::Zstd, 60, 10),
        (Compression::None, 40, 1),
    ] {
        let fs = MemFs::new();
        let path = Path::new("/000042.sst");
        let options = TableOptions {
            block_bytes: 300,
            compression,
            bloom_bits,
            order: Order::Bytewise,
        };
        let mut builder = TableBuilder::new(fs.create(path)?, context, options);
        for number in 0..entries {
            let key = format!("key/{:04}", number / 3);
            let kind = match number % 7 {
                5 => ValueKind::Delete,
                6 => ValueKind::PutExpiring,
                _ => ValueKind::Put,
            };
            let mut value = vec![b'v'; 10 + number % 30];
            if kind == ValueKind::Delete {
                value.clear();
            }
            builder.add(Entry {
                key: key.as_bytes(),
                stamp: Stamp(1000 - number as u64),
                kind,
                value: &value,
            })?;
        }
        builder.finish()?;
        let file = fs.read_file(path)?;
        let part = |at: usize| {
            let at = file.len() - 112 + at;
            let offset: [u8; 8] = file[at..at + 8].try_into().unwrap_or_default();
            usize::try_from(u64::from_le_bytes(offset)).unwrap_or(0)
        };
        let (filter, index, properties) = (part(32), part(40), part(48));
        if index > filter {
            inputs.push(("filter", file[filter..index - 6].to_vec()));
        }
        inputs.push(("index", file[index..properties - 6].to_vec()));
        inputs.push(("properties", file[properties..file.len() - 118].to_vec()));
        inputs.push(("footer", [&[0], &file[file.len() - 112..]].concat()));
        if compression == Compression::None {
            inputs.push(("block", [&[0], &file[8..filter.min(400)]].concat()));
        }
        inputs.push(("compression", [&[compression.id()], &file[8..300]].concat()));
        inputs.push(("table", [&[0], &file[..]].concat()));
    }
    inputs.push((
        "block",
        (0..200).map(|n: u8| n.wrapping_mul(29) | 1).collect(),
    ));
    inputs.push(("commit", b"\x01\x00\x01\x02kvv\x02\x07\x01\x00k".to_vec()));
    Ok(inputs)
}

fn manifests() -> Result<Inputs, velella::Error> {
    let mut inputs: Inputs = Vec::new();
    let fs = MemFs::new();
    let db = Db::builder()
        .memory(16 << 20)
        .vfs(Arc::new(fs.clone()))
        .open("/db")?;
    for round in 0..3 {
        let other = db.keyspace_or_create(&format!("other-{round}"))?;
        other.put("a", "b")?;
        db.put(format!("{round}"), "c")?;
        db.flush()?;
    }
    db.compact()?;
    db.drop_keyspace("other-1")?;
    db.close()?;
    for path in fs.files() {
        if path.to_string_lossy().contains("MANIFEST") {
            let input = targets::manifest::describe(&fs.read_file(&path)?);
            inputs.push(("manifest", input));
        }
    }
    inputs.push(("manifest", vec![0; 4]));
    Ok(inputs)
}

/// Random recipes: any bytes are one.
fn recipes() -> Inputs {
    let mut inputs: Inputs = Vec::new();
    let mut seed = Seed::silent(7);
    let mut bytes = |len: u64, flags: u8| -> Vec<u8> {
        let rest = (0..len).map(|_| u8::try_from(seed.below(256)).unwrap_or(0));
        std::iter::once(flags).chain(rest).collect()
    };
    for flags in [0, 1, 2, 4, 5, 6, 8, 13] {
        inputs.push(("journal", bytes(60, flags)));
        inputs.push(("journal", bytes(700, flags)));
        // Records only, with rounds and changes of extents, so that nothing is odd.
        let recipe: Vec<u8> = bytes(600, flags & !1)
            .chunks(3)
            .flat_map(|three| [three[0], three[1 % three.len()] % 7, 20])
            .collect();
        inputs.push(("journal", recipe));
    }
    for number in 0..10 {
        inputs.push(("operations", bytes(100 + 120 * number, 1)));
    }
    inputs
}

/// Right ones: a CURRENT, names, an external value with its reference.
fn small_files() -> Result<Inputs, velella::Error> {
    let (fs, dir) = (MemFs::new(), Path::new("/db"));
    let vfs: Arc<dyn Vfs> = Arc::new(fs.clone());
    let state = velella_tree::manifest::State {
        next_keyspace: 1,
        ..Default::default()
    };
    let database = targets::small_files::DATABASE;
    let (manifest, _) = Manifest::create_with(Arc::clone(&vfs), dir, database, state)?;
    let current = fs.read_file(&dir.join("CURRENT"))?;
    let mut inputs = vec![("small_files", [&[0][..], &current].concat())];
    for name in [
        "LOCK",
        "CURRENT",
        "MANIFEST-000012",
        "000003.sst",
        "1234567.large",
    ] {
        inputs.push(("small_files", [&[1][..], name.as_bytes()].concat()));
    }
    while manifest.next_file()? + 1 < targets::small_files::FILE {}
    let tables = OpenFiles::new(vfs, 1);
    let store = ExternalStore::new(tables, dir.into(), database, Arc::new(manifest));
    let (reference, _) = store.write(b"a large value", 0)?;
    let file = fs.read_file(&dir.join("000007.ext"))?;
    let input = [&[2][..], &reference.encode(), &file].concat();
    inputs.push(("small_files", input));
    Ok(inputs)
}
