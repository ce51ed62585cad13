//! The small databases of the models: memory, journal and manifest so small that a few writes
//! reach every bound, and background work that is somebody's role (`velella::simulation`).

use velella::simulation::Sizes;
use velella::{Builder, Db};

/// A builder of such a database with `lanes` of the journal; file system and journal are for the
/// model to say.
pub(crate) fn builder(lanes: usize) -> Builder {
    Db::builder()
        .memory(velella::MEMORY_MIN)
        .write_buffer(64 << 10)
        .background_threads(1)
        .simulated(Sizes {
            lanes,
            segment_bytes: 24 << 10,
            extent_bytes: 8 << 10,
            inline_value_bytes: 3_000,
            manifest_bytes: None,
        })
}
