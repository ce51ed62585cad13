//! Every fault that can be put in, and the tests that must see it.
//!
//! A fault's name says what the code does wrong. What catches it is the layer that ought to: the
//! narrowest test that attacks the promise which the fault breaks.
//!
//! Tests: `seeded.rs`.

use std::fmt;

/// One fault.
#[derive(Debug)]
pub(super) struct Fault {
    /// Its name in the code: `seeded("name")`; it says what goes wrong.
    pub(super) name: &'static str,
    /// The tests named for it.
    pub(super) caught_by: Test,
}

/// Some tests of one binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Test {
    /// The directory of the crate.
    pub(super) in_crate: &'static str,
    /// The file in `tests/`, or `lib` for the tests beside the code; `shuttle` is a model's.
    pub(super) target: &'static str,
    /// Only those whose names hold this; all of them if it is empty.
    pub(super) filter: &'static str,
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} {}", self.in_crate, self.target, self.filter)
    }
}

const fn fault(
    name: &'static str,
    in_crate: &'static str,
    target: &'static str,
    filter: &'static str,
) -> Fault {
    Fault {
        name,
        caught_by: Test {
            in_crate,
            target,
            filter,
        },
    }
}

/// All of them, bottom-up.
#[rustfmt::skip]
pub(super) const FAULTS: &[Fault] = &[
    // mvcc
    fault("a-stamp-is-drawn-twice", "reliability", "histories", "histories_are"),
    fault("a-snapshot-looks-back", "reliability", "histories", "histories_are"),
    fault("the-frontier-passes-open-windows", "mvcc", "lib", "the_frontier"),
    fault("a-switch-does-not-wait-for-announced-slots", "engine", "shuttle", "a_switch_loses"),
    fault("a-snapshot-believes-an-old-clock", "mvcc", "lib", "the_wall_clock_and_the_stamp"),
    fault("collectors-forget-snapshots", "engine", "suite", "snapshots::"),
    fault("a-reader-at-a-stamp-does-not-see-it", "lsm", "suite", "contract::"),
    // memtable
    fault("a-snapshot-passes-open-windows", "reliability", "histories", "histories_are"),
    fault("pruning-drops-what-is-read", "memtable", "lib", ""),
    // tables
    fault("a-block's-checksum-is-ignored", "sst", "suite", "damage::"),
    fault("a-filter-misses-its-last-key", "sst", "suite", "model::a_get_finds"),
    fault("a-table-is-not-synced", "lsm", "suite", "crash::after_a_power_cut"),
    fault("a-separator-is-the-next-key", "sst", "suite", "model::a_get_finds"),
    // layouts
    fault("no-tombstone-ever-leaves", "lsm", "suite", "contract::"),
    fault("a-tombstone-leaves-too-early", "lsm", "suite", "levels::a_tombstone_stays"),
    fault("an-expired-value-leaves-alone", "lsm", "suite", "levels::a6_"),
    fault("current-is-not-synced", "tree", "suite", "manifest::after_a_power_cut"),
    fault("the-name-of-current-is-not-synced", "tree", "suite", "manifest::after_a_power_cut"),
    fault("the-manifest-is-not-synced", "tree", "suite", "manifest::after_a_power_cut"),
    fault("the-manifest's-checksum-is-ignored", "tree", "suite", "manifest::a_flipped_bit"),
    fault("the-names-of-tables-are-not-synced", "lsm", "suite", "crash::after_a_power_cut"),
    fault("level-0-answers-once", "lsm", "suite", "contract::"),
    fault("a-compaction-misses-a-touching-table", "lsm", "suite", "contract::"),
    fault("an-output-is-split-within-a-key", "lsm", "suite", "contract::"),
    fault("inputs-go-before-the-edit-that-drops-them", "lsm", "suite", "crash::"),
    // journal
    fault("a-round-does-not-sync-segments", "journal", "suite", "crashes::"),
    fault("a-round-does-not-sync-its-seal", "journal", "suite", "crashes::"),
    fault("the-durable-stamp-is-ahead-of-the-sync", "journal", "suite", "crashes::"),
    fault("a-seal-is-written-before-its-external-values", "engine", "suite", "externals::a_round_torn"),
    fault("a-failed-sync-is-forgotten", "journal", "suite", "rounds::a_failed_sync"),
    fault("recovery-reads-beyond-the-cut", "journal", "suite", "rounds::"),
    fault("any-page-cache-is-taken-for-ours", "journal", "suite", "damage::"),
    fault("a-record-header's-checksum-is-ignored", "journal", "suite", "damage::"),
    fault("what-is-left-of-a-done-marker-tells-nothing", "journal", "suite", "lost_pages::what_is_left"),
    fault("done-markers-share-the-pages-of-their-seals", "journal", "suite", "lost_pages::no_page_of_the_seal_file"),
    fault("what-tables-hold-is-no-evidence", "engine", "suite", "seals_lost::"),
    // engine
    fault("a-write-does-not-look-at-the-view-again", "reliability", "histories", "histories_are"),
    fault("a-write-does-not-look-below-a-switch", "engine", "shuttle", "a_switch_loses"),
    fault("a-switch-draws-before-it-publishes", "engine", "shuttle", "a_switch_loses"),
    fault("a-switch-passes-over-empty-keyspaces", "engine", "shuttle", "without_a_journal_a_flush"),
    fault("a-version-is-published-before-its-record", "engine", "suite", "crash::what_was_read"),
    fault("a-window-is-not-announced", "reliability", "histories", "histories_are"),
    fault("every-16th-record-stays-incomplete", "engine", "suite", "crash::"),
    fault("a-sync-write-does-not-wait", "engine", "suite", "crash::"),
    fault("external-values-are-not-synced", "reliability", "suite", "power_loss::"),
    fault("what-is-found-expired-is-believed", "engine", "lib", "a_key_renewed_in_time"),
    fault("a-get-ignores-expiry", "engine", "suite", "expiry::an_expired_value_hides"),
    fault("stamps-go-on-from-the-highest-seen", "engine", "suite", "regressions::cl14"),
    fault("a-flush-does-not-wait-for-the-journal", "engine", "suite", "regressions::x2"),
    fault("an-update-forgets-what-it-was-based-on", "reliability", "histories", "histories_are"),
    fault("a-change-of-keyspaces-has-no-window", "reliability", "suite", "every_crash_point::"),
    fault("a-memtable-leaves-before-its-table-is-there", "engine", "shuttle", "a_get_meets"),
    fault("an-iterator-takes-the-tree-first", "engine", "shuttle", "an_iterator_goes_on"),
    fault("a-batch-takes-its-keys-as-they-come", "engine", "shuttle", "batches_that_cross"),
    fault("the-only-writer-leaves-a-pair-out", "engine", "shuttle", "transactions_that_meet"),
    fault("tables-are-taken-for-overtaken", "engine", "suite", "overtaken::a_key_that_was_not"),
    fault("overtaken-by-the-last-key", "engine", "suite", "overtaken::a_reader_between"),
    fault("an-iterator-goes-on-after-an-error", "engine", "suite", "iterator_errors::"),
    fault("cursors-rest-beyond-their-version", "engine", "lib", "nothing_rests_beyond"),
    fault("cursors-come-to-rest-late", "engine", "lib", "nothing_rests_beyond"),
    fault("a-drop-does-not-wait-for-what-is-below-it", "reliability", "suite", "every_crash_point::"),
    fault("recovered-values-are-not-synced", "engine", "suite", "externals::what_a_kill_left"),
    fault("the-old-journal-goes-before-the-new-is-named", "reliability", "suite", "power_loss::"),
    fault("a-shorter-manifest-is-believed", "engine", "suite", "manifest_cut::"),
    fault("an-accepted-manifest-is-believed-from-then-on", "engine", "suite", "manifest_cut::"),
    fault("an-unknown-run-ended-with-its-last-round", "engine", "suite", "manifest_cut::stamps_of_a_run"),
    fault("a-run-given-up-leaves-its-tables", "engine", "suite", "full_disk::an_opening_that_fails"),
    fault("the-directory-is-looked-up-each-time", "engine", "moved", ""),
];
