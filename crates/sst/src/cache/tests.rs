//! The cache on its own: bounds, tallies, replacement.

use super::*;

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
