//! The cache on its own: bounds, tallies, replacement.

#![allow(clippy::cast_possible_truncation, reason = "sizes in tests are small")]

use super::*;
use velella_sync::rng::Rng;

const BLOCK_BYTES: usize = 4000;

fn is_cached(table: &TableBlocks, number: usize) -> bool {
    table.with(number, |_| ()).is_some()
}

fn fill(table: &Arc<TableBlocks>, numbers: std::ops::Range<usize>) {
    for number in numbers {
        if !is_cached(table, number) {
            table.insert(number, &vec![0; BLOCK_BYTES].into());
        }
    }
}

/// Entries in the queues.
fn queued(cache: &BlockCache) -> usize {
    let entries = |queues: &Queues| queues.small.len() + queues.main.len();
    cache
        .shards
        .iter()
        .map(|shard| entries(&shard.queues.lock()))
        .sum()
}

#[test]
fn the_cache_stays_within_its_bytes_and_counts() {
    for capacity in [0, 10_000, 1 << 20, 100 << 20] {
        let cache = BlockCache::new(capacity);
        let table = TableBlocks::new(Arc::clone(&cache), 1, 2000);
        for number in 0..2000 {
            table.insert(number, &vec![0; BLOCK_BYTES].into());
            assert!(cache.bytes() <= capacity);
        }
        let found = (0..2000).filter(|&n| is_cached(&table, n)).count();
        assert_eq!(
            (cache.hits(), cache.misses()),
            (found as u64, 2000 - found as u64)
        );
        assert_eq!(
            cache.bytes(),
            found as u64 * (BLOCK_BYTES as u64 + OVERHEAD_BYTES)
        );
        assert_eq!(queued(&cache), found, "C1");
        let enough = capacity.min(2000 * 4064) / 4064;
        assert!(
            found as u64 >= enough.saturating_sub(1),
            "{found} of {enough}"
        );
    }
}

#[test]
fn what_is_used_survives_a_scan() {
    let cache = BlockCache::new(400 * 4064);
    let hot = TableBlocks::new(Arc::clone(&cache), 1, 200);
    let scanned = TableBlocks::new(Arc::clone(&cache), 2, 20_000);
    for _ in 0..3 {
        fill(&hot, 0..200);
    }
    fill(&scanned, 0..20_000);
    let left = (0..200).filter(|&number| is_cached(&hot, number)).count();
    assert_eq!(left, 200);
}

#[test]
fn what_comes_back_soon_enters_the_main_queue() {
    let cache = BlockCache::new(100 * 4064);
    let table = TableBlocks::new(Arc::clone(&cache), 1, 1000);
    fill(&table, 0..60);
    // Used, so the main queue has something to compare with.
    fill(&table, 0..60);
    fill(&table, 60..130);
    let gone = (60..130)
        .find(|&number| !is_cached(&table, number))
        .unwrap();
    fill(&table, gone..gone + 1);
    fill(&table, 200..400);
    assert!(is_cached(&table, gone));
}

#[test]
fn a_closed_table_gives_its_bytes_back_and_its_entries_are_swept() {
    let cache = BlockCache::new(1 << 30);
    for file in 0..100 {
        let table = TableBlocks::new(Arc::clone(&cache), file, 500);
        fill(&table, 0..500);
        assert!(cache.bytes() > 0);
        drop(table);
        assert_eq!(cache.bytes(), 0);
        assert!(queued(&cache) < 100 * SWEEP_MIN / 4);
    }
}

#[test]
fn a_locked_slot_counts_as_empty_and_is_not_evicted() {
    let cache = BlockCache::new(3 * 4064);
    let table = TableBlocks::new(Arc::clone(&cache), 1, 10);
    fill(&table, 0..3);
    {
        let _writing = table.slots[0].block.write();
        assert!(!is_cached(&table, 0));
    }
    let reading = table.slots[0].block.read();
    fill(&table, 3..9);
    drop(reading);
    assert!(is_cached(&table, 0));
    assert!(cache.bytes() <= 3 * 4064);
}

#[test]
fn what_tables_pin_is_taken_off_the_capacity_and_given_back() {
    let cache = BlockCache::new(1 << 20);
    let table = TableBlocks::new(Arc::clone(&cache), 1, 1000);
    table.pin(512 << 10);
    table.pin(512 << 10);
    assert_eq!(cache.pinned_bytes(), 512 << 10, "a table pins once");
    for number in 0..1000 {
        table.insert(number, &vec![0; 4096].into());
    }
    assert!(cache.bytes() <= 512 << 10, "{}", cache.bytes());
    let huge = TableBlocks::new(Arc::clone(&cache), 2, 10);
    huge.pin(1 << 30);
    huge.insert(0, &vec![0; 4096].into());
    assert!(cache.bytes() <= (1 << 20) / 16, "{}", cache.bytes());
    drop((table, huge));
    assert_eq!((cache.pinned_bytes(), cache.bytes()), (0, 0));
}

#[test]
fn what_tables_take_while_nothing_is_inserted_is_trimmed_off() {
    const WHOLE: u64 = 64 << 20;
    let cache = BlockCache::new(WHOLE);
    let read = TableBlocks::new(Arc::clone(&cache), 1, 20_000);
    fill(&read, 0..20_000);
    let loaded = TableBlocks::new(Arc::clone(&cache), 2, 10);
    loaded.pin(WHOLE / 10 * 9);
    cache.trim();
    assert!(cache.bytes() + cache.pinned_bytes() <= WHOLE);
    let found = (0..20_000).filter(|&n| is_cached(&read, n)).count();
    assert_eq!(queued(&cache), found, "C1");
    assert!(found > 1_000, "no more than there is to: {found}");
    // Nothing to do is nothing done.
    let held = cache.bytes();
    cache.trim();
    assert_eq!(cache.bytes(), held);
}

#[test]
fn blocks_that_made_room_for_tables_take_holes_and_others_did_not() {
    const WHOLE: u64 = 100 << 20;
    let cache = BlockCache::new(WHOLE);
    let table = TableBlocks::new(Arc::clone(&cache), 1, 25_000);
    fill(&table, 0..25_000);
    let held = cache.bytes();
    assert!(held > WHOLE / 10 * 9 && !cache.take_holes());
    // Blocks of the next table take the place of these.
    drop(table);
    assert!(!cache.take_holes(), "nothing else may use it");
    cache.keep(WHOLE / 2, 0);
    assert!(!cache.take_holes(), "what is kept for it are blocks");
    cache.keep(0, WHOLE / 2);
    // A table does not.
    let table = TableBlocks::new(Arc::clone(&cache), 2, 25_000);
    table.pin(WHOLE / 20);
    assert!(!cache.take_holes(), "few");
    let larger = TableBlocks::new(Arc::clone(&cache), 3, 25_000);
    larger.pin(WHOLE / 2);
    assert!(cache.take_holes() && !cache.take_holes(), "once");
    fill(&larger, 0..25_000);
    assert!(!cache.take_holes());
    // Blocks that still stand are no holes.
    cache.pin(WHOLE / 4, 0);
    assert!(!cache.take_holes());
    fill(&table, 0..25_000);
    assert!(cache.take_holes(), "{} bytes", cache.bytes());
    cache.pin(0, WHOLE / 4);
}

/// The blocks in a table's slots: number and bytes.
fn occupied(table: &TableBlocks) -> Vec<(usize, u64)> {
    let of = |(number, slot): (usize, &Slot)| Some((number, weight(slot.block.read().as_ref()?)));
    table.slots.iter().enumerate().filter_map(of).collect()
}

/// Queue entries of tables that are open: file and block.
fn queue_entries(cache: &BlockCache) -> Vec<(u64, usize)> {
    let mut entries = Vec::new();
    for shard in &cache.shards {
        let queues = shard.queues.lock();
        for entry in queues.small.iter().chain(&queues.main) {
            if let Some(table) = entry.table.upgrade() {
                entries.push((table.file, entry.number as usize));
            }
        }
        let small: u64 = queues
            .small
            .iter()
            .map(|entry| u64::from(entry.weight))
            .sum();
        assert_eq!(queues.small_bytes, small);
    }
    entries.sort_unstable();
    entries
}

/// C1 and C2, and that open tables and nothing else are pinned.
fn check_tallies(cache: &BlockCache, tables: &[Arc<TableBlocks>], capacity: u64, what: &str) {
    let mut slots = Vec::new();
    let mut bytes = 0;
    for table in tables {
        for (number, weight) in occupied(table) {
            slots.push((table.file, number));
            bytes += weight;
        }
    }
    slots.sort_unstable();
    assert_eq!(queue_entries(cache), slots, "C1: {what}");
    assert_eq!(cache.bytes(), bytes, "C2: {what}");
    assert!(bytes <= capacity, "C2: {what}: {bytes} of {capacity}");
    let pinned = tables.iter().filter_map(|table| table.pinned.get()).sum();
    assert_eq!(cache.pinned_bytes(), pinned, "C5: {what}");
}

/// What block `number` of table `file` consists of.
fn content(file: u64, number: usize) -> Arc<[u8]> {
    let len = [1, 100, 4_000, 9_000, 200_000][(number + file as usize) % 5];
    vec![(number as u64 * 7 + file) as u8; len].into()
}

#[test]
fn slots_queues_and_tallies_agree_whatever_is_done() {
    for seed in 0..20u64 {
        let mut rng = Rng::new(seed);
        // None, a few blocks, many; and more than one shard.
        let capacity = [0, 5_000, 60_000, 1 << 20, 20 << 20][seed as usize % 5];
        let cache = BlockCache::new(capacity);
        let mut tables = Vec::new();
        let (mut files, mut found) = (0, 0);
        for step in 0..600 {
            if tables.is_empty() || rng.below(60) == 0 {
                files += 1;
                let table = TableBlocks::new(Arc::clone(&cache), files, 40);
                table.pin(rng.below(capacity / 4 + 1));
                tables.push(table);
            }
            let at = rng.below(tables.len() as u64) as usize;
            let (table, number) = (&tables[at], rng.below(40) as usize);
            match rng.below(60) {
                0 => drop(tables.swap_remove(at)),
                1..25 => table.insert(number, &content(table.file, number)),
                _ => {
                    let is_right =
                        table.with(number, |block| *block == content(table.file, number));
                    assert_ne!(is_right, Some(false), "seed {seed}: another block's bytes");
                    found += u64::from(is_right.is_some());
                }
            }
            check_tallies(
                &cache,
                &tables,
                capacity,
                &format!("seed {seed}, step {step}"),
            );
        }
        assert_eq!(cache.hits(), found, "seed {seed}");
        assert!(
            capacity < 60_000 || found > 0,
            "seed {seed}: nothing is ever found"
        );
        tables.clear();
        assert_eq!((cache.bytes(), cache.pinned_bytes()), (0, 0), "seed {seed}");
    }
}

#[test]
fn tallies_are_right_after_many_threads_have_used_a_small_cache() {
    let capacity = 100_000;
    let cache = BlockCache::new(capacity);
    let kept: Vec<_> = (0..2)
        .map(|file| TableBlocks::new(Arc::clone(&cache), file, 60))
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (cache, kept) = (&cache, &kept);
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                for round in 0..60 {
                    // A table of its own, closed while the others go on.
                    let own = TableBlocks::new(Arc::clone(cache), 10 + thread * 100 + round, 20);
                    own.pin(100);
                    for _ in 0..150 {
                        let table = [&kept[0], &kept[1], &own][rng.below(3) as usize];
                        let number = rng.below(table.slots.len() as u64) as usize;
                        let expected = content(table.file, number);
                        match table.with(number, |block| *block == expected) {
                            Some(is_right) => assert!(is_right, "another block's bytes"),
                            None => table.insert(number, &expected),
                        }
                        assert!(cache.bytes() <= capacity, "C2");
                    }
                }
            });
        }
    });
    check_tallies(&cache, &kept, capacity, "after all threads");
    assert!(cache.hits() > 0 && cache.misses() > 0);
}
