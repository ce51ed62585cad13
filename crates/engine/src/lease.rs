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
//!
//! Threads: extending from any; renewing by `velella-sync`. Tests: below; `tests/lifecycle.rs`.

use crate::core::Engine;
use velella_base::{Error, ErrorKind, Result, Stamp};
use velella_tree::Edit;

/// Stamps leased ahead at least: 1.6 s of ten million writes a second, and the lease is renewed
/// several times a second.
const AHEAD_MIN: u64 = 1 << 24;
/// Stamps leased ahead at most.
const AHEAD_MAX: u64 = 1 << 32;

/// Stamps that a clock which began at `opened` and stands at `now` has leased ahead (K2).
fn ahead(opened: Stamp, now: Stamp) -> u64 {
    now.0.saturating_sub(opened.0).clamp(AHEAD_MIN, AHEAD_MAX)
}

/// Up to where stamps may be drawn.
pub(crate) fn lease(opened: Stamp, now: Stamp) -> Stamp {
    let until = now.0.saturating_add(ahead(opened, now));
    Stamp(until.min(Stamp::MAX.0))
}

impl Engine {
    /// Allows stamps well above `stamp`, durably.
    pub(crate) fn extend_lease(&self, stamp: Stamp) -> Result<()> {
        let until = lease(self.opened_at, stamp);
        if stamp >= Stamp::MAX {
            let found = "all 2^56 stamps have been used";
            return Err(Error::new(ErrorKind::Unsupported, "write", found)
                .remedy("export the data and import it into a new database"));
        }
        self.env.manifest.commit(&[Edit::ClockLease { until }])?;
        self.clock.extend(until);
        Ok(())
    }

    /// Extends the lease before a writer has to wait for it.
    pub(crate) fn renew_lease(&self) -> Result<()> {
        let now = self.clock.now();
        if self.clock.lease().0.saturating_sub(now.0) < ahead(self.opened_at, now) / 2 {
            self.extend_lease(now)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{open, tiny};
    use crate::sizes::Sizes;
    use crate::write_batch::WriteBatch;
    use std::sync::Arc;
    use velella_vfs::MemFs;
    use velella_vfs::mem::CrashMode;

    /// Without threads of its own: none renews the lease ahead of its end.
    fn alone(fs: MemFs) -> (crate::db::Db, Arc<Engine>) {
        let sizes = Sizes {
            lanes: 4,
            segment_bytes: 1 << 20,
            extent_bytes: 64 << 10,
            inline_value_bytes: 4_000,
            manifest_bytes: None,
        };
        open(Arc::new(fs), tiny().simulated(sizes))
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
        assert_eq!(lease(opened, Stamp(Stamp::MAX.0 - 1)), Stamp::MAX);
    }
}
