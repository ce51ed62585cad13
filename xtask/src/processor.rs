//! The processor time of what this process ran: unlike the clock's, a busy machine hardly adds to
//! it.
//!
//! Linux tells it in `/proc/self/stat`; elsewhere there is none.
//!
//! Tests: below.

use std::time::Duration;

/// Ticks of a second in `/proc`: the kernel tells programs this rate whatever its own is.
const TICKS: u64 = 100;

/// What children took that have ended and were waited for, with their own children.
pub(crate) fn of_children() -> Option<Duration> {
    parse(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// Fields 16 and 17 of a line of `stat`: in user mode, and in the kernel. Field 2 is a name in
/// brackets that may hold anything.
fn parse(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut ticks = fields.split(' ').skip(13);
    let mut next = || ticks.next()?.parse::<u64>().ok();
    Some(Duration::from_millis((next()? + next()?) * 1_000 / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_fields_are_found_behind_any_name() {
        let stat = "42 (a ) name) S 1 2 3 0 -1 4 5 6 7 8 9 10 250 50 20 0 1";
        assert_eq!(parse(stat), Some(Duration::from_secs(3)));
        assert_eq!(parse("42 (cut off) S 1 2"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_that_works_is_counted_once_it_has_ended() {
        let before = of_children().unwrap();
        let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let ended = Command::new("sh").args(["-c", busy]).status().unwrap();
        assert!(ended.success());
        assert!(of_children().unwrap() > before);
    }
}
