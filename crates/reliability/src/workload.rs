//! Sequences of operations from bytes, carried out on a database and on a map, answer by answer.
//!
//! W1. The same bytes give the same operations; every answer follows from them alone, whatever the
//!     database's settings, its layout or what runs in the background.
//! W2. The map knows nothing of the engine.
//!
//! Threads: one; the database has its own. Tests: `tests/same_answers.rs`, `tests/corpus.rs`.

pub mod operation;
pub mod model;
pub mod settings;
pub mod world;

pub use model::Model;
pub use operation::{Operation, operations};
pub use settings::Settings;
pub use world::World;

use std::sync::Arc;

/// A value: shared, since snapshots of a map copy it.
pub type Bytes = Arc<[u8]>;

/// A pair as reads show it.
pub type Pair = (Vec<u8>, Bytes, Option<u64>);

/// What an operation is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nothing to say.
    Done,
    /// It makes no sense for the value found.
    Refused,
    /// Whether it was done, or is so.
    Is(bool),
    /// A number.
    Number(i64),
    /// A value and its expiry.
    Value(Option<(Bytes, Option<u64>)>),
    /// Values.
    Values(Vec<Option<Bytes>>),
    /// Where a walk came; `None`: nowhere.
    Walk(Vec<Option<Pair>>),
}

/// Carries `operations` out on a database with `settings` and on a map.
///
/// # Errors
/// The first answer in which they differ.
pub fn against_model(settings: &Settings, operations: &[Operation]) -> Result<u64, String> {
    let (mut world, mut model) = (World::new(settings)?, Model::default());
    for (at, operation) in operations.iter().enumerate() {
        let found = world.answer(operation);
        let found = found.map_err(|error| format!("operation {at}, {operation:?}: {error}"))?;
        let expected = model.answer(operation);
        if found != expected {
            return Err(format!(
                "operation {at}, {operation:?}: {found:?} instead of {expected:?}, under \
                 {settings:?}"
            ));
        }
    }
    world.end()?;
    Ok(operations.len() as u64)
}

/// All answers of a database with `settings`.
///
/// # Errors
/// The first operation that failed.
pub fn answers(settings: &Settings, operations: &[Operation]) -> Result<Vec<Answer>, String> {
    let mut world = World::new(settings)?;
    let mut answers = Vec::with_capacity(operations.len());
    for (at, operation) in operations.iter().enumerate() {
        let answer = world.answer(operation);
        answers.push(answer.map_err(|error| {
            format!("operation {at}, {operation:?}: {error}, under {settings:?}")
        })?);
    }
    world.end()?;
    Ok(answers)
}
