//! What a brake asks of writers.

use super::*;

/// Nanoseconds that a writer owes per KiB under `brake`, and whether it must stop.
fn judged(brake: f64) -> (u64, bool) {
    let pace = Pace::default();
    pace.set(brake);
    // Relaxed: one thread.
    let nanos = pace.nanos_per_kib.load(Ordering::Relaxed);
    (nanos, pace.must_stop())
}

#[test]
fn the_harder_the_brake_the_more_is_owed_up_to_fifty_times_the_least() {
    assert_eq!(judged(0.0), (0, false));
    assert_eq!(judged(-1.0), (0, false));
    let rising = [0.001, 0.1, 0.5, 0.9, 0.97].map(judged);
    assert!(rising.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert!(rising.iter().all(|(_, stops)| !stops));
    // A KiB at 64 MB a second, as good as, and at a fiftieth of that.
    assert_eq!(rising[0].0, 16_016);
    let most = judged(1.0).0;
    assert!((799_990..=800_010).contains(&most), "{most}");
    assert!(rising[4].0 < most);
    assert_eq!(judged(0.999), (most, false));
    assert_eq!(judged(1.0), (most, true));
    assert_eq!(judged(7.0), (most, true));
}

#[test]
fn a_brake_that_is_let_go_stops_nobody() {
    let pace = Pace::default();
    pace.set(1.0);
    pace.set(0.0);
    assert!(!pace.must_stop());
    assert_eq!(pace.nanos_per_kib.load(Ordering::Relaxed), 0);
}
