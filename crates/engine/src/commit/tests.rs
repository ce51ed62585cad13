//! What a write holds, and when.

use crate::fixture::{fresh, until};
use velella_base::limits::INLINE_VALUE_BYTES_MAX;
use velella_sync::epoch;
use velella_testkit::Watchdog;

#[test]
fn an_external_value_is_held_before_its_version_is_installed() {
    let _watchdog = Watchdog::new("held_before_installed", 60);
    let (db, engine) = fresh();
    let view = db.core.view.load_full(&epoch::pin());
    let externals = view.cur.externals.lock();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| db.put("large", vec![7; INLINE_VALUE_BYTES_MAX + 1]));
        // The writer has the file's hold, and now needs the lock that we have.
        until(|| format!("{:?}", engine.env.externals).contains("holds: 1"));
        let installed = {
            let guard = epoch::pin();
            view.cur.table.undecided(b"large", &guard).is_some()
        };
        drop(externals);
        writer.join().unwrap().unwrap();
        assert!(
            !installed,
            "it waits for a lock while its key is undecided"
        );
    });
    assert_eq!(view.cur.externals.lock().len(), 1, "held once");
}
