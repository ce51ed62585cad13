//! Why a benchmark did not run, or may not be believed.
//!
//! F1. A number is published only if there was no failure: whoever gets one exits with 1.
//!
//! Threads: plain data. Tests: `tests/refusals.rs`.

use crate::durability::Durability;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// `std::result::Result` with a [`Failure`].
pub type Outcome<T, E = Failure> = Result<T, E>;

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// Stores that do not promise the same cannot be compared.
    UnequalDurability {
        /// Which store.
        store: String,
        /// What the run asks of all.
        asked: Durability,
        /// What it can promise.
        offers: Vec<Durability>,
    },
    /// A store returned what was never written, or lost what was.
    WrongAnswer {
        /// Which store.
        store: String,
        /// What it said, and what it should have said.
        found: String,
    },
    /// The program was built without it.
    NotBuilt {
        /// Which store.
        store: String,
        /// What to build it with.
        feature: String,
    },
    /// A name nobody has.
    Unknown {
        /// What was looked for: a benchmark, a store.
        what: String,
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// The store lacks what the benchmark is about.
    Unfit {
        /// Which store.
        store: String,
        /// What it lacks.
        lacks: String,
    },
    /// More than one thread was asked for, and the benchmark has one.
    OneThread {
        /// Which benchmark.
        benchmark: String,
    },
    /// A rate was asked for, and the benchmark has none to keep.
    ClosedLoop {
        /// Which benchmark.
        benchmark: String,
    },
    /// A time was asked for, and the benchmark does a number of operations.
    Counted {
        /// Which benchmark.
        benchmark: String,
    },
    /// A store failed.
    Store {
        /// Which store.
        store: String,
        /// What it was asked.
        attempt: String,
        /// What it said.
        found: String,
    },
    /// The system failed.
    System {
        /// What was attempted, on what.
        attempt: String,
        /// What was said.
        found: String,
    },
}

impl Failure {
    /// `store` failed at `attempt`.
    pub fn store(store: &str, attempt: &str, error: impl fmt::Display) -> Self {
        Failure::Store {
            store: store.to_owned(),
            attempt: attempt.to_owned(),
            found: error.to_string(),
        }
    }

    /// The system failed at `attempt`, which names no file.
    pub fn system(attempt: &str, error: impl fmt::Display) -> Self {
        Failure::System {
            attempt: attempt.to_owned(),
            found: error.to_string(),
        }
    }

    /// The system failed at `attempt` on `file`.
    pub fn file(attempt: &str, file: &Path, error: impl fmt::Display) -> Self {
        Self::system(&format!("{attempt} {}", file.display()), error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::UnequalDurability {
                store,
                asked,
                offers,
            } => {
                let offers: Vec<&str> = offers.iter().map(|offer| offer.name()).collect();
                write!(
                    f,
                    "cannot compare {store}: the run asks for durability `{}`, which it does not \
                     offer (it offers {}); leave it out, or choose another --durability",
                    asked.name(),
                    offers.join(", ")
                )
            }
            Failure::WrongAnswer { store, found } => write!(
                f,
                "{store} answered wrongly: {found}; none of its figures count"
            ),
            Failure::NotBuilt { store, feature } => write!(
                f,
                "cannot measure {store}: it was not built in; build with `--features {feature}`"
            ),
            Failure::Unknown { what, name, known } => write!(
                f,
                "there is no {what} `{name}`; there are {}",
                known.join(", ")
            ),
            Failure::Unfit { store, lacks } => {
                write!(f, "cannot measure {store}: it has no {lacks}; leave it out")
            }
            Failure::OneThread { benchmark } => write!(
                f,
                "cannot run {benchmark} with more than one thread: it has one that scans; leave \
                 out --threads, or run it by itself"
            ),
            Failure::ClosedLoop { benchmark } => write!(
                f,
                "cannot run {benchmark} at a given rate: each of its operations begins when the \
                 one before has ended; leave out --rate, or run an open loop, such as `tail`"
            ),
            Failure::Counted { benchmark } => write!(
                f,
                "cannot run {benchmark} for a given time: it does a number of operations; leave \
                 out --seconds, and give --operations"
            ),
            Failure::Store {
                store,
                attempt,
                found,
            } => write!(f, "{store} cannot {attempt}: {found}"),
            Failure::System { attempt, found } => write!(f, "cannot {attempt}: {found}"),
        }
    }
}

impl std::error::Error for Failure {}
