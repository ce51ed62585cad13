//! The README's example: open, write, read, scan, change in one step, look back.
//!
//! `cargo xtask readme` copies what follows into README.md; `cargo xtask ci` runs it.

use velella::{Decision, WriteBatch, WriteOptions};

fn main() -> velella::Result<()> {
    let dir = std::env::temp_dir().join(format!("velella-readme-{}", std::process::id()));
    let db = velella::open(&dir)?;

    // A database is its keyspace `default`, and as many others as you create.
    db.put("fruit:apple", "3")?;
    assert_eq!(db.get("fruit:apple")?.as_deref(), Some(&b"3"[..]));

    // A snapshot is a fixed view of everything.
    let before = db.snapshot();

    // Read, decide and write as one step, whatever other threads do.
    db.rmw("fruit:apple", |old| match old {
        Some(count) => Decision::put([count, b"0"].concat()),
        None => Decision::Keep,
    })?;
    assert_eq!(before.get(&db, "fruit:apple")?.as_deref(), Some(&b"3"[..]));

    // A batch takes effect at one moment, over any keyspaces; this one survives a power loss.
    let orders = db.keyspace_or_create("orders")?;
    let mut batch = WriteBatch::new();
    batch.put(&db, "fruit:pear", "7").put(&orders, "1", "pear");
    db.write_with(&batch, WriteOptions::sync())?;

    let mut found = Vec::new();
    for pair in db.prefix("fruit:")? {
        let (key, value) = pair?;
        found.push((key, value.to_vec()));
    }
    assert_eq!(found[0], (b"fruit:apple".to_vec(), b"30".to_vec()));
    assert_eq!(found[1], (b"fruit:pear".to_vec(), b"7".to_vec()));

    db.close()?;
    std::fs::remove_dir_all(&dir).expect("nobody else has it");
    Ok(())
}
