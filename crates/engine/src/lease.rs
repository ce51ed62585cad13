//! The lease of the clock: stamps are given out only up to a bound that is in the manifest, and the
//! next opening begins there, so that none comes back.
//!
//! What flushes, creations and drops draw may lie beyond it; the manifest has these stamps
//! themselves.
//!
//! K1. A stamp above the lease is in no record: its writer extends the lease first (`commit.rs`).
//! K2. What a run leases ahead is [`AHEAD_MIN`], or as much as it has drawn so far, up to
//!     [`AHEAD_MAX`]. So an opening costs the 2^56 stamps no more than twice what its run used, or
//!     2^24: they last for 2^32 openings, one every 20 ms for two years and eight months.
//! K3. No write has [`Stamp::MAX`], so that each has a stamp above it that can be written down: the
//!     leases end before it. Once they have, the database is there to be read.
//!
//! Threads: extending from any; renewing by `velella-sync`. Tests: below; `tests/lifecycle.rs`.

use crate::core::Engine;
use velella_base::{Error, ErrorKind, Result, Stamp, seeded};
use velella_tree::Edit;

/// Stamps leased ahead at least: 1.6 s of ten million writes a second, and the lease is renewed
/// several times a second.
const AHEAD_MIN: u64 = 1 << 24;
/// Stamps leased ahead at most.
const AHEAD_MAX: u64 = 1 << 32;
/// The highest stamp that a write can have (K3).
const LAST: Stamp = Stamp(Stamp::MAX.0 - 1);

/// Stamps that a clock which began at `opened` and stands at `now` has leased ahead (K2).
fn ahead(opened: Stamp, now: Stamp) -> u64 {
    now.0.saturating_sub(opened.0).clamp(AHEAD_MIN, AHEAD_MAX)
}

/// Up to where stamps may be drawn.
pub(crate) fn lease(opened: Stamp, now: Stamp) -> Stamp {
    let until = now.0.saturating_add(ahead(opened, now));
    Stamp(until).min(LAST)
}

/// A bound above all writes up to `stamp` (K3).
pub(crate) fn above(stamp: Stamp) -> Stamp {
    match stamp > LAST {
        true => Stamp::MAX,
        false => stamp.next(),
    }
}

/// A stamp above the leases of a run of which is known only that a round reached `frontier`: it
/// drew no [`AHEAD_MAX`] stamps until the next round, which is a second later, and leased no more
/// ahead.
pub(crate) fn above_unknown(frontier: Stamp) -> Stamp {
    if seeded("an-unknown-run-ended-with-its-last-round") {
        return frontier;
    }
    Stamp(frontier.0.saturating_add(2 * AHEAD_MAX)).min(LAST)
}

/// Fails if the stamps had ended before `stamp` was drawn.
pub(crate) fn check_left(stamp: Stamp) -> Result<()> {
    if stamp <= LAST {
        return Ok(());
    }
    let found = "all 2^56 stamps have been used";
    Err(Error::new(ErrorKind::Unsupported, "write", found)
        .remedy("export the data and import it into a new database"))
}

impl Engine {
    /// Allows `stamp` and well above it, durably. Of several that want it at once one writes it
    /// down for all.
    pub(crate) fn extend_lease(&self, stamp: Stamp) -> Result<()> {
        let _others_wait = self.leasing.lock();
        match stamp <= self.clock.lease() {
            true => Ok(()),
            false => self.lease_from(stamp),
        }
    }

    fn lease_from(&self, stamp: Stamp) -> Result<()> {
        let until = lease(self.opened_at, stamp);
        check_left(stamp)?;
        self.env.manifest.commit(&[Edit::ClockLease { until }])?;
        self.clock.extend(until);
        Ok(())
    }

    /// Extends the lease before a writer has to wait for it.
    pub(crate) fn renew_lease(&self) -> Result<()> {
        let is_near = || {
            let (now, leased) = (self.clock.now(), self.clock.lease());
            leased < LAST && leased.0.saturating_sub(now.0) < ahead(self.opened_at, now) / 2
        };
        // Who writes one down may take long, and most of the time nothing is due.
        if is_near() {
            let _others_wait = self.leasing.lock();
            if is_near() {
                self.lease_from(self.clock.now())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Db;
    use crate::entry::Decision;
    use crate::fixture::{open, tiny, until};
    use crate::options::JournalMode;
    use crate::sizes::Sizes;
    use crate::write_batch::WriteBatch;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, OnceLock, Weak};
    use velella_sync::epoch;
    use velella_testkit::Watchdog;
    use velella_vfs::intercept::{Call, Intercepted, Interceptor, Verdict};
    use velella_vfs::mem::CrashMode;
    use velella_vfs::{MemFs, Operation};

    fn sizes() -> Sizes {
        Sizes {
            lanes: 4,
            segment_bytes: 1 << 20,
            extent_bytes: 64 << 10,
            inline_value_bytes: 4_000,
            manifest_bytes: None,
        }
    }

    /// Without threads of its own: none renews the lease ahead of its end.
    fn alone(fs: MemFs) -> (crate::db::Db, Arc<Engine>) {
        open(Arc::new(fs), tiny().simulated(sizes()))
    }

    /// Draws until so many stamps are left.
    fn draw_until(engine: &Engine, left: u64) {
        while engine.clock.now().0 + left < engine.clock.lease().0 {
            engine.clock.draw();
        }
    }

    #[test]
    fn writers_that_meet_the_end_of_the_lease_extend_it_first() {
        let fs = MemFs::new();
        let (db, engine) = alone(fs.clone());
        let leased = |stamp| {
            assert!(stamp <= engine.clock.lease(), "{stamp} was not leased");
            stamp
        };
        let first = engine.clock.lease();
        draw_until(&engine, 2);
        let write = |writer: u8| [(); 3].map(|()| leased(db.put([writer], "v").unwrap()));
        let mut stamps: Vec<_> = std::thread::scope(|scope| {
            let writers = [0, 1, 2].map(|writer| scope.spawn(move || write(writer)));
            let join = |writer: std::thread::ScopedJoinHandle<'_, _>| writer.join().unwrap();
            writers.into_iter().flat_map(join).collect()
        });
        stamps.sort_unstable();
        assert!(
            stamps.windows(2).all(|pair| pair[0] < pair[1]),
            "T1: {stamps:?}"
        );
        assert!(stamps[1] <= first && first < stamps[2], "{stamps:?}");
        draw_until(&engine, 0);
        let mut batch = WriteBatch::new();
        batch.put(&db, "a", "b").put(&db, "b", "b");
        let last = leased(db.write(&batch).unwrap());
        assert!(engine.counters.switch_aborts.sum() >= 2);
        // The lease was durable before a record had a stamp above the one before.
        let (again, _) = alone(fs.image(1, CrashMode::KeepAll));
        assert_eq!(again.get([2]).unwrap().unwrap(), "v");
        assert_eq!(again.get_entry("b").unwrap().unwrap().stamp, last);
        assert!(again.put("k", "v").unwrap() > engine.clock.lease());
    }

    #[test]
    fn a_lease_is_renewed_once_half_of_it_is_used_and_not_again() {
        let (_db, engine) = alone(MemFs::new());
        let (first, edits) = (engine.clock.lease(), || engine.env.manifest.position());
        let mut before = edits();
        engine.renew_lease().unwrap();
        assert_eq!(edits(), before, "all of it is left");
        draw_until(&engine, AHEAD_MIN / 2 - 1);
        engine.renew_lease().unwrap();
        let renewed = engine.clock.lease();
        assert!(renewed > first);
        assert_eq!(engine.env.manifest.state().clock_lease, renewed);
        assert!(edits() > before);
        before = edits();
        engine.renew_lease().unwrap();
        assert_eq!((edits(), engine.clock.lease()), (before, renewed));
    }

    fn syncs_manifest(call: &Call<'_>) -> bool {
        let name = call.path.file_name().unwrap_or_default().to_string_lossy();
        let syncs = matches!(call.operation, Operation::SyncData | Operation::SyncAll);
        syncs && name.starts_with("MANIFEST")
    }

    /// In front of a manifest: sees that memory can be reclaimed while it is synced.
    #[derive(Debug, Default)]
    struct Reclaims {
        asked: AtomicUsize,
    }

    impl Interceptor for Reclaims {
        fn before(&self, call: &Call<'_>) -> Verdict {
            if syncs_manifest(call) {
                // Relaxed: the test's thread asks and looks.
                self.asked.fetch_add(1, Ordering::Relaxed);
                let kept = Arc::new(());
                let held = Arc::clone(&kept);
                // Another thread, so that it is this one's pin that would be in the way.
                let reclaim = || {
                    epoch::pin().defer(move || drop(held));
                    until(|| {
                        epoch::flush();
                        Arc::strong_count(&kept) == 1
                    });
                };
                std::thread::scope(|scope| scope.spawn(reclaim).join().unwrap());
            }
            Verdict::Pass
        }

        fn after(&self, _: &Call<'_>, _: bool) {}
    }

    #[test]
    fn no_writer_is_pinned_while_its_lease_is_written_down() {
        let _watchdog = Watchdog::new("no_writer_is_pinned", 60);
        type Write<'w> = &'w dyn Fn(&Db) -> Option<Stamp>;
        let writes: [Write<'_>; 4] = [
            &|db| db.put("k", "v").ok(),
            &|db| db.rmw("k", |_| Decision::put(b"w")).unwrap().stamp,
            &|db| db.update("k", |_| Decision::put(b"x")).unwrap(),
            &|db| {
                let mut batch = WriteBatch::new();
                batch.put(db, "k", "y").put(db, "l", "y");
                db.write(&batch).ok()
            },
        ];
        // A first lease each: the next ones would be longer and longer.
        for write in writes {
            let manifest = Arc::new(Reclaims::default());
            let fs = Intercepted::standing(Arc::clone(&manifest), Arc::new(MemFs::new()));
            let (db, engine) = open(Arc::new(fs), tiny().simulated(sizes()));
            draw_until(&engine, 0);
            let before = manifest.asked.load(Ordering::Relaxed);
            assert!(write(&db).is_some());
            assert!(manifest.asked.load(Ordering::Relaxed) > before);
        }
    }

    /// In front of a manifest: the first sync of a lease lasts until all writers want one.
    #[derive(Debug, Default)]
    struct Crowd {
        engine: OnceLock<Weak<Engine>>,
        syncs: AtomicUsize,
    }

    impl Interceptor for Crowd {
        fn before(&self, call: &Call<'_>) -> Verdict {
            if let Some(engine) = self.engine.get().and_then(Weak::upgrade)
                && syncs_manifest(call)
            {
                // Relaxed: looked at once the writers are joined.
                self.syncs.fetch_add(1, Ordering::Relaxed);
                until(|| engine.counters.switch_aborts.sum() >= 3);
            }
            Verdict::Pass
        }

        fn after(&self, _: &Call<'_>, _: bool) {}
    }

    #[test]
    fn writers_that_meet_the_end_of_the_lease_together_write_one_down() {
        let _watchdog = Watchdog::new("writers_that_meet_the_end", 60);
        let crowd = Arc::new(Crowd::default());
        let fs = Intercepted::standing(Arc::clone(&crowd), Arc::new(MemFs::new()));
        let (db, engine) = open(Arc::new(fs), tiny().simulated(sizes()));
        draw_until(&engine, 0);
        crowd.engine.set(Arc::downgrade(&engine)).unwrap();
        std::thread::scope(|scope| {
            for writer in 0..3u8 {
                let db = &db;
                scope.spawn(move || db.put([writer], "v").unwrap());
            }
        });
        assert_eq!(crowd.syncs.load(Ordering::Relaxed), 1);
        assert_eq!(db.iter().unwrap().count(), 3);
    }

    /// Its stamp is beyond the lease, and so may be above all that the manifest tells of stamps.
    #[test]
    fn who_opens_next_begins_at_what_a_creation_or_drop_drew() {
        for drops in [false, true] {
            let fs = MemFs::new();
            let (db, engine) = alone(fs.clone());
            db.create_keyspace("first", Default::default()).unwrap();
            draw_until(&engine, 0);
            engine.clock.draw();
            match drops {
                true => db.drop_keyspace("first").unwrap(),
                false => drop(db.create_keyspace("second", Default::default()).unwrap()),
            }
            let drawn = engine.clock.now();
            let mut fs = fs.crash(1, CrashMode::Strict);
            for _ in 0..3 {
                let (again, engine) = alone(fs.clone());
                assert!(engine.opened_at >= drawn, "drops: {drops}");
                again.put("k", "v").unwrap();
                fs = fs.crash(1, CrashMode::Strict);
            }
        }
    }

    /// What its error tells to do can be done, as often as it takes.
    #[test]
    fn when_the_stamps_have_ended_a_database_still_opens() {
        let fs = MemFs::new();
        let (db, engine) = alone(fs.clone());
        db.create_keyspace("there", Default::default()).unwrap();
        db.put("k", "v").unwrap();
        let until = Stamp::MAX;
        let lease = Edit::ClockLease { until };
        engine.env.manifest.commit(&[lease]).unwrap();
        db.close().unwrap();
        for _ in 0..3 {
            let (db, engine) = alone(fs.clone());
            let refused = [
                db.put("k", "w").unwrap_err(),
                db.create_keyspace("new", Default::default()).unwrap_err(),
                db.drop_keyspace("there").unwrap_err(),
            ];
            for error in refused {
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                assert!(error.to_string().contains("export the data"), "{error}");
            }
            assert_eq!(db.keyspace("there").unwrap().get("k").unwrap(), None);
            assert_eq!(db.snapshot().get(&db, "k").unwrap().unwrap(), "v");
            db.persist().unwrap();
            db.compact().unwrap();
            let edits = engine.env.manifest.position();
            engine.renew_lease().unwrap();
            assert_eq!(engine.env.manifest.position(), edits, "no lease is left");
            assert_eq!(db.iter().unwrap().count(), 1);
            db.close().unwrap();
        }
    }

    #[test]
    fn what_the_last_stamps_were_given_to_is_flushed_and_found() {
        for journal in [JournalMode::Auto, JournalMode::Off] {
            let fs = MemFs::new();
            let open_with = |fs: &MemFs| open(Arc::new(fs.clone()), tiny().journal(journal));
            let (db, engine) = open_with(&fs);
            let until = Stamp(Stamp::MAX.0 - 4);
            let lease = Edit::ClockLease { until };
            engine.env.manifest.commit(&[lease]).unwrap();
            db.close().unwrap();
            let (db, engine) = open_with(&fs);
            let puts = [(); 8].map(|()| db.put("k", "v"));
            let last = puts.iter().flatten().max().unwrap();
            assert!(*last < Stamp::MAX, "K3");
            assert!(puts[7].is_err());
            db.flush().unwrap();
            let state = engine.env.manifest.state();
            let below = state.keyspaces[0].flushed_below;
            assert!(*last < below && below <= Stamp::MAX, "{below}");
            let (db, _) = open_with(&fs.crash(1, CrashMode::Strict));
            assert_eq!(db.get_entry("k").unwrap().unwrap().stamp, *last);
        }
    }

    #[test]
    fn the_stamps_last_for_four_billion_openings() {
        let mut per_opening = lease(Stamp::ZERO, Stamp::ZERO).0;
        assert_eq!(per_opening, AHEAD_MIN);
        assert!(Stamp::MAX.0 / per_opening >= u64::from(u32::MAX));
        // Each that writes a million pairs leaves more than 10^9 of them.
        per_opening = lease(Stamp::ZERO, Stamp(1_000_000)).0;
        assert!(Stamp::MAX.0 / per_opening > 1_000_000_000);
    }

    #[test]
    fn a_run_leases_at_most_as_much_ahead_as_it_used() {
        let opened = Stamp(77);
        for shift in 0..55 {
            let used = 1 << shift;
            let now = Stamp(opened.0 + used);
            let ahead = lease(opened, now).0 - now.0;
            assert!((AHEAD_MIN..=AHEAD_MAX).contains(&ahead));
            assert!(ahead <= used.max(AHEAD_MIN), "{ahead} after {used}");
        }
        assert_eq!(lease(opened, LAST), LAST);
    }
}
