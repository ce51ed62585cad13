//! Power cuts under load: images of the disk while a child writes, opened and judged.
//!
//! What was acknowledged as durable before the image must be in it; what was announced after it
//! cannot be; and the whole must be a prefix (J2). One cut in four hits the recovery of an image
//! that was cut before.
//!
//! Threads: one. Tests: `tests/crash_test.rs`, where they can run.

use super::campaign::{Broken, CHILD_LIMIT, Campaign};
use super::history::Source;
use super::judge::{Case, Fault, Rule, Verdict, Violation, judge};
use super::life::{cannot, wait};
use super::oracle::{Log, Oracle};
use super::plan::Plan;
use super::process::{Hold, Ready, Start};
use super::random::Random;
use super::rig::{Mount, Rig};
use super::settings::Settings;
use super::state::{State, now_ms};
use std::path::PathBuf;
use std::time::Duration;

/// Cuts of one database, at most.
const CUTS_MOST: u64 = 12;

/// One database whose power is cut.
struct Victim<'a> {
    campaign: &'a Campaign,
    rig: &'a mut Rig,
    settings: Settings,
    random: Random,
    oracle: Oracle,
    start: Start,
    /// The oracle of the children that look at images.
    second: (PathBuf, Oracle),
}

/// Cuts the power of the database of `seed` some times.
pub(super) fn cut(campaign: &Campaign, rig: &mut Rig, seed: u64) -> Result<(), Box<Broken>> {
    let settings = Settings::of(seed).for_power_cuts(true);
    let dir = rig.live().join(format!("seed-{seed}"));
    let broken = |violation| {
        Box::new(Broken {
            violation,
            seed,
            incarnation: 1,
            kills: CUTS_MOST,
            dir: dir.clone(),
        })
    };
    let mut victim = Victim::new(campaign, rig, settings, seed).map_err(broken)?;
    victim.run().map_err(broken)?;
    let _ = std::fs::remove_file(&victim.start.oracle);
    let _ = std::fs::remove_file(&victim.second.0);
    let _ = std::fs::remove_dir_all(&dir);
    campaign.tally().databases += 1;
    Ok(())
}

impl<'a> Victim<'a> {
    fn new(
        campaign: &'a Campaign,
        rig: &'a mut Rig,
        settings: Settings,
        seed: u64,
    ) -> Result<Self, Violation> {
        let dir = rig.live().join(format!("seed-{seed}"));
        let oracles = &campaign.scratch.oracles;
        let paths = [
            oracles.join(format!("live-{seed}")),
            oracles.join(format!("cut-{seed}")),
        ];
        let make = || {
            std::fs::create_dir_all(&dir)?;
            Ok((Oracle::create(&paths[0])?, Oracle::create(&paths[1])?))
        };
        let (oracle, second) =
            make().map_err(|error| cannot("make a place for the test", &error))?;
        let [first_path, second_path] = paths;
        Ok(Victim {
            campaign,
            rig,
            random: Random::of(&[seed, 6]),
            settings,
            oracle,
            start: Start {
                dir: dir.join("db"),
                oracle: first_path,
                stderr: campaign.scratch.path().join("live.err"),
                seed,
                incarnation: 1,
                start_ms: now_ms(),
                plan: Plan::Never,
                verify: false,
                power_cut: true,
                sabotage: None,
            },
            second: (second_path, second),
        })
    }

    fn run(&mut self) -> Result<(), Violation> {
        let mut live = Hold::start(&self.start)?;
        if live.ready(CHILD_LIMIT)?.is_none() {
            return Err(Violation::somebody_else());
        }
        live.say("go");
        for _ in 0..CUTS_MOST {
            if self.campaign.is_over() {
                break;
            }
            wait(Duration::from_micros(self.random.spread(1_000, 300_000)));
            self.cut_once()?;
            self.campaign.show();
        }
        live.closed(CHILD_LIMIT)
    }

    /// One image of the running database, or of the recovery of one.
    fn cut_once(&mut self) -> Result<(), Violation> {
        let before = self.read()?;
        let mut image = self.rig.cut().map_err(rig_failed)?;
        let after = self.read()?;
        let mut mount = self.rig.mount(&image).map_err(rig_failed)?;
        let mut in_recovery = false;
        while self.random.one_in(4) {
            in_recovery = true;
            let next = self.cut_recovery(&mount, &image)?;
            drop(mount);
            let _ = std::fs::remove_file(&image);
            image = next;
            mount = self.rig.mount(&image).map_err(rig_failed)?;
        }
        let (mut hold, verified) = self.open_image(&mount)?;
        let ready = hold
            .ready(CHILD_LIMIT)?
            .ok_or_else(Violation::somebody_else)?;
        let verdict = self.judge(&before, &after, &ready)?;
        hold.say("go");
        hold.closed(CHILD_LIMIT)?;
        drop(hold);
        drop(mount);
        let _ = std::fs::remove_file(&image);
        self.campaign.opened(ready.opening, verified)?;
        let mut tally = self.campaign.tally();
        tally.closed();
        tally.cut(in_recovery);
        tally.judged(&verdict);
        Ok(())
    }

    /// An image of an image, while a child recovers it.
    fn cut_recovery(
        &mut self,
        mount: &Mount,
        image: &std::path::Path,
    ) -> Result<PathBuf, Violation> {
        let (mut hold, _) = self.open_image(mount)?;
        wait(Duration::from_micros(self.random.spread(500, 60_000)));
        let next = self.rig.cut_again(image).map_err(rig_failed)?;
        hold.kill_living()?;
        Ok(next)
    }

    /// A child on an image, and whether it verifies the database.
    fn open_image(&mut self, mount: &Mount) -> Result<(Hold, bool), Violation> {
        let (path, oracle) = &self.second;
        oracle
            .clear()
            .map_err(|error| cannot("clear the oracle", &error))?;
        let seed = self.start.seed;
        let verify = self.random.one_in(3);
        let hold = Hold::start(&Start {
            dir: mount.path().join(format!("seed-{seed}")).join("db"),
            oracle: path.clone(),
            stderr: self.campaign.scratch.path().join("cut.err"),
            incarnation: 2,
            verify,
            ..self.start.clone()
        })?;
        Ok((hold, verify))
    }

    fn judge(&self, before: &Log, after: &Log, ready: &Ready) -> Result<Verdict, Violation> {
        if ready.rule == "PageCache" {
            let text = "after a power cut the page cache was believed to have survived";
            return Err(Violation::new(Fault::Wrong, text));
        }
        let source = |log| Source {
            settings: &self.settings,
            incarnation: self.start.incarnation,
            start_ms: self.start.start_ms,
            log,
        };
        let rule = match &self.campaign.sabotage {
            // The control: nothing but a device that kept everything could pass this.
            Some(_) => Rule::Kept,
            None => Rule::Prefix(source(before).promised()),
        };
        judge(&Case {
            source: source(after),
            base: &State::default(),
            floor: 0,
            found: &ready.state,
            rule,
        })
    }

    fn read(&self) -> Result<Log, Violation> {
        self.oracle
            .read()
            .map_err(|error| cannot("read the oracle", &error))
    }
}

fn rig_failed(why: String) -> Violation {
    Violation::new(Fault::Child, format!("the rig failed: {why}"))
}
