//! What the documents say of the code is compared with the code.

use velella::{MEMORY_MIN, Options};

#[test]
fn the_page_of_options_has_every_knob_with_its_default() {
    // No `..`: a new knob must find its way here, and into the page.
    let Options {
        memory,
        write_buffer,
        durability,
        background_threads,
        compression,
        block_bytes,
        bloom_bits,
        journal,
        recovery,
        create,
        memtable,
        open_files,
    } = Options::default();
    assert!((1..=4).contains(&background_threads));
    assert!((16..=1 << 16).contains(&open_files));
    let rows = [
        ("memory", bytes(memory)),
        ("write_buffer", bytes(write_buffer)),
        ("durability", format!("`{durability:?}`")),
        ("background_threads", "one a core, from 1 to 4".to_owned()),
        ("compression", format!("`{compression:?}`")),
        ("block_bytes", bytes(block_bytes as u64)),
        ("bloom_bits", bloom_bits.to_string()),
        ("journal", format!("`{journal:?}`")),
        ("recovery", format!("`{recovery:?}`")),
        ("create", if create { "yes" } else { "no" }.to_owned()),
        ("memtable", format!("`{memtable:?}`")),
        (
            "open_files",
            "half of what the process may open, at most 65,536".to_owned(),
        ),
    ];
    let page = include_str!("../../../docs/options.md");
    let found: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    assert_eq!(found.len(), rows.len());
    for ((knob, default), line) in rows.iter().zip(found) {
        let expected = format!("| `{knob}` | {default} | ");
        assert!(
            line.starts_with(&expected),
            "{line}\nshould begin with\n{expected}"
        );
    }
    assert!(page.contains(&format!("at least {}", bytes(MEMORY_MIN))));
}

/// What `stats` lists by names, which no type holds.
#[test]
fn the_page_of_statistics_has_every_counter_cause_and_histogram() {
    let dir = tempfile::tempdir().unwrap();
    let stats = velella::open(dir.path()).unwrap().stats();
    let mut names: Vec<String> = stats.counters.into_keys().collect();
    names.extend(stats.stalls.into_iter().map(|stall| stall.cause));
    names.extend(stats.histograms.into_iter().map(|one| one.name));
    assert!(names.len() > 40, "{names:?}");
    let page = include_str!("../../../docs/stats.md");
    names.retain(|name| !page.contains(&format!("`{name}`")));
    assert_eq!(names, Vec::<String>::new(), "docs/stats.md lacks them");
}

fn bytes(count: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.iter().find(|(shift, _)| count >= 1 << shift);
    let (shift, name) = unit.expect("at least a KiB");
    format!("{} {name}", count >> shift)
}
