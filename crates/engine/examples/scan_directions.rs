//! What a step back costs beside a step forward, in memory, in one table, and in several levels.
//!
//! `cargo run --release -p velella --example scan_directions [pairs] [rounds]`: seeks a random key
//! and steps 1,000 times, forward and back in turn; prints the median of the rounds' ratios. On
//! the real file system, in a temporary directory.

use std::time::{Duration, Instant};
use velella::{Db, Result};

const STEPS: u32 = 1_000;
const SEEKS: u32 = 100;

fn argument(number: usize, default: u32) -> u32 {
    let text = std::env::args().nth(number);
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A permutation of the numbers below `pairs`, if that is no multiple of 7,919.
fn shuffled(number: u32, pairs: u32) -> u32 {
    let mixed = u64::from(number) * 7_919 % u64::from(pairs);
    u32::try_from(mixed).unwrap_or(0)
}

fn fill(db: &Db, pairs: u32, step: usize) -> Result<()> {
    for number in (0..pairs).step_by(step) {
        let key = format!("key{:013}", shuffled(number, pairs));
        db.put(key, [7; 100])?;
    }
    Ok(())
}

fn walk(db: &Db, pairs: u32, back: bool) -> Result<Duration> {
    let mut spent = Duration::ZERO;
    let mut copy = Vec::new();
    let mut iter = db.iter()?;
    for seek in 0..SEEKS {
        iter.seek(format!("key{:013}", shuffled(seek * 131, pairs)))?;
        let start = Instant::now();
        for _ in 0..STEPS {
            let there = if back {
                iter.step_back()?
            } else {
                iter.step()?
            };
            if !there {
                break;
            }
            copy.clear();
            copy.extend_from_slice(iter.value()?);
        }
        spent += start.elapsed();
    }
    std::hint::black_box(copy);
    Ok(spent)
}

fn report(what: &str, db: &Db, pairs: u32, rounds: u32) -> Result<()> {
    walk(db, pairs, false)?;
    let mut ratios = Vec::new();
    let mut fastest = [Duration::MAX; 2];
    for _ in 0..rounds {
        let (forward, back) = (walk(db, pairs, false)?, walk(db, pairs, true)?);
        ratios.push(back.as_secs_f64() / forward.as_secs_f64());
        fastest = [fastest[0].min(forward), fastest[1].min(back)];
    }
    ratios.sort_by(f64::total_cmp);
    let [forward, back] = fastest.map(|spent| (spent / (SEEKS * STEPS)).as_nanos());
    let median = ratios[ratios.len() / 2];
    println!("{what:10} forward {forward:4} ns, back {back:4} ns a step, ratio {median:.2}");
    Ok(())
}

fn main() -> Result<()> {
    let (pairs, rounds) = (argument(1, 300_000), argument(2, 15).max(1));
    let dir = std::env::temp_dir().join(format!("velella-scan-{}", std::process::id()));
    let db = Db::builder().memory(1 << 30).open(&dir)?;
    fill(&db, pairs, 1)?;
    report("in memory", &db, pairs, rounds)?;
    db.compact()?;
    report("one level", &db, pairs, rounds)?;
    for step in [2, 3] {
        fill(&db, pairs, step)?;
        db.flush()?;
    }
    report("in levels", &db, pairs, rounds)?;
    db.close()?;
    drop(std::fs::remove_dir_all(&dir));
    Ok(())
}
