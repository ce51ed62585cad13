//! One database, from its creation through some kills to a close in good order.
//!
//! Each opening is a child. It tells what is there; the parent judges it against what the child
//! before announced and acknowledged; then that child writes until it is killed, and so on. A kill
//! while opening changes nothing about what must be found by the next.
//!
//! Threads: one. Tests: `tests/crash_test.rs`.

use super::campaign::{Broken, CHILD_LIMIT, Campaign};
use super::history::Source;
use super::judge::{Case, Fault, Rule, Violation, judge};
use super::oracle::{Log, Oracle};
use super::plan::Plan;
use super::process::{Hold, Start, copy_dir};
use super::random::Random;
use super::settings::Settings;
use super::state::{State, now_ms};
use super::tally::phase;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What the load of one child left to be judged.
struct Left {
    incarnation: u32,
    start_ms: u64,
    log: Log,
    was_closed: bool,
}

/// One database.
struct Life<'a> {
    campaign: &'a Campaign,
    settings: Settings,
    random: Random,
    oracle: Oracle,
    start: Start,
    base: State,
    floor: u64,
    left: Option<Left>,
    /// What openings take, starting the child included.
    opening: Duration,
}

/// Lives the database of `seed`.
pub(super) fn live(campaign: &Campaign, seed: u64) -> Result<(), Box<Broken>> {
    let settings = Settings::of(seed);
    let dir = campaign.scratch.path().join(format!("seed-{seed}"));
    let broken = |violation, incarnation| {
        Box::new(Broken {
            violation,
            seed,
            incarnation,
            kills: settings.kills,
            dir: dir.clone(),
        })
    };
    let mut life = Life::new(campaign, settings.clone(), dir.clone())
        .map_err(|violation| broken(violation, 0))?;
    let done = life.run();
    let _ = std::fs::remove_file(&life.start.oracle);
    let incarnation = life.start.incarnation;
    done.map_err(|violation| broken(violation, incarnation))?;
    let _ = std::fs::remove_dir_all(&dir);
    campaign.tally().databases += 1;
    Ok(())
}

impl<'a> Life<'a> {
    fn new(campaign: &'a Campaign, settings: Settings, dir: PathBuf) -> Result<Self, Violation> {
        let seed = settings.seed;
        let oracle_path = campaign.scratch.oracles.join(format!("seed-{seed}"));
        let oracle = std::fs::create_dir_all(&dir)
            .and_then(|()| Oracle::create(&oracle_path))
            .map_err(|error| cannot("make a place for the test", &error))?;
        Ok(Life {
            campaign,
            random: Random::of(&[seed, 5]),
            settings,
            oracle,
            start: Start {
                stderr: dir.join("child.err"),
                dir: dir.join("db"),
                oracle: oracle_path,
                seed,
                incarnation: 0,
                start_ms: 0,
                plan: Plan::Never,
                verify: false,
                power_cut: false,
                sabotage: campaign.sabotage.clone(),
            },
            base: State::default(),
            floor: 0,
            left: None,
            opening: Duration::from_millis(10),
        })
    }

    fn run(&mut self) -> Result<(), Violation> {
        let mut kills = 0;
        while kills < self.settings.kills && !self.campaign.is_over() {
            let plan = self.plan();
            self.kill_one(&plan)?;
            kills += 1;
            self.campaign.show();
        }
        self.close()
    }

    fn plan(&mut self) -> Plan {
        let plan = Plan::draw(&mut self.random, self.opening);
        match plan {
            // Where every third write waits for the device, thousands take too long.
            Plan::Operations(most) if self.settings.sync_every > 0 => {
                Plan::Operations((most * self.settings.sync_every / 200).clamp(1, most))
            }
            plan => plan,
        }
    }

    /// Starts a child as planned, and kills it.
    ///
    /// # Errors
    /// What it found may not be, or it ended otherwise than the plan has it.
    fn kill_one(&mut self, plan: &Plan) -> Result<(), Violation> {
        self.start.verify = self.random.one_in(10);
        let mut hold = self.start_child(plan)?;
        if let Plan::Start(time) = plan {
            wait(*time);
            hold.kill_living()?;
            return self.killed(false);
        }
        let Some(()) = self.hear(&mut hold)? else {
            if !plan.kills_opening() {
                return Err(Violation::somebody_else());
            }
            return self.killed(false);
        };
        hold.say("go");
        match plan.load_time() {
            Some(time) if matches!(plan, Plan::Load(_)) => {
                wait(time);
                hold.kill_living()?;
            }
            Some(time) => {
                if !hold.killed_within(time)? {
                    hold.kill()?;
                }
            }
            None => self.let_it_work(&mut hold)?,
        }
        self.killed(true)
    }

    /// Waits for a child that will kill itself after some operations; when that takes long, for
    /// the disk is slow, kills it, provided that it got on meanwhile.
    fn let_it_work(&self, hold: &mut Hold) -> Result<(), Violation> {
        let mut done = 0;
        for _ in 0..2 {
            if hold.killed_within(CHILD_LIMIT / 2)? {
                return Ok(());
            }
            let log = self.read_oracle()?;
            let now: usize = log.threads.iter().map(|thread| thread.acks.len()).sum();
            if now == done {
                let seconds = CHILD_LIMIT.as_secs() / 2;
                let text = format!("no operation was acknowledged within {seconds} s");
                return Err(Violation::new(Fault::Child, text));
            }
            done = now;
        }
        hold.kill()
    }

    fn start_child(&mut self, plan: &Plan) -> Result<Hold, Violation> {
        self.oracle
            .clear()
            .map_err(|error| cannot("clear the oracle", &error))?;
        if self.campaign.keep && self.start.dir.is_dir() {
            let before = self.start.dir.with_file_name("db-before");
            let _ = std::fs::remove_dir_all(&before);
            copy_dir(&self.start.dir, &before)
                .map_err(|error| cannot("copy the database", &error))?;
        }
        self.start.incarnation += 1;
        self.start.start_ms = now_ms();
        self.start.plan = plan.clone();
        Hold::start(&self.start)
    }

    /// Hears what a child finds, and judges it; `None`: it was killed before it had told.
    fn hear(&mut self, hold: &mut Hold) -> Result<Option<()>, Violation> {
        let started = Instant::now();
        let Some(ready) = hold.ready(CHILD_LIMIT)? else {
            return Ok(None);
        };
        self.opening = (self.opening * 3 + started.elapsed()) / 4;
        self.campaign.opened(ready.opening, self.start.verify)?;
        self.judge(ready.state)?;
        Ok(Some(()))
    }

    fn judge(&mut self, found: State) -> Result<(), Violation> {
        let nothing = Left {
            incarnation: 0,
            start_ms: 0,
            log: Log::default(),
            was_closed: true,
        };
        let left = self.left.take().unwrap_or(nothing);
        let source = Source {
            settings: &self.settings,
            incarnation: left.incarnation,
            start_ms: left.start_ms,
            log: &left.log,
        };
        let rule = match self.settings.with_journal || left.was_closed {
            true => Rule::Kept,
            false => Rule::Prefix(source.promised()),
        };
        let verdict = judge(&Case {
            source,
            base: &self.base,
            floor: self.floor,
            found: &found,
            rule,
        })?;
        self.floor = verdict.floor;
        self.campaign.tally().judged(&verdict);
        self.base = found;
        Ok(())
    }

    /// After a kill: keeps what the child noted, if it was under load.
    fn killed(&mut self, under_load: bool) -> Result<(), Violation> {
        let log = self.read_oracle()?;
        self.campaign
            .tally()
            .killed(phase(&log, self.start.incarnation));
        if under_load {
            self.leave(log, false);
        }
        Ok(())
    }

    fn read_oracle(&self) -> Result<Log, Violation> {
        self.oracle
            .read()
            .map_err(|error| cannot("read the oracle", &error))
    }

    fn leave(&mut self, log: Log, was_closed: bool) {
        self.left = Some(Left {
            incarnation: self.start.incarnation,
            start_ms: self.start.start_ms,
            log,
            was_closed,
        });
    }

    /// The end: a child that closes in good order, and one that finds it so.
    fn close(&mut self) -> Result<(), Violation> {
        for is_last in [false, true] {
            self.start.verify = is_last;
            let mut hold = self.start_child(&Plan::Never)?;
            if self.hear(&mut hold)?.is_none() {
                return Err(Violation::somebody_else());
            }
            if is_last {
                return Ok(());
            }
            hold.say("go");
            hold.closed(CHILD_LIMIT)?;
            self.campaign.tally().closed();
            let log = self.read_oracle()?;
            self.leave(log, true);
        }
        Ok(())
    }
}

pub(super) fn cannot(what: &str, error: &std::io::Error) -> Violation {
    Violation::new(Fault::Child, format!("cannot {what}: {error}"))
}

/// Waits for a time, to the microsecond where it is short.
pub(super) fn wait(time: Duration) {
    let end = Instant::now() + time;
    if let Some(most) = time.checked_sub(Duration::from_micros(150)) {
        std::thread::sleep(most);
    }
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}
