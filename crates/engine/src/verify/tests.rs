//! Verification beside a database that goes on.

use crate::fixture::{open, tiny};
use std::sync::Arc;
use velella_sync::lock::Mutex;
use velella_tree::{Edit, Manifest};
use velella_vfs::intercept::{Call, Intercepted, Interceptor, Verdict};
use velella_vfs::{MemFs, Operation};

/// Has a manifest rewritten right before somebody looks whether it is there.
#[derive(Debug, Default)]
struct Rewriter(Mutex<Option<Arc<Manifest>>>);

impl Interceptor for Rewriter {
    fn before(&self, call: &Call<'_>) -> Verdict {
        let is_manifest = call.path.to_string_lossy().contains("MANIFEST");
        let wanted = is_manifest && call.operation == Operation::Exists;
        if let Some(manifest) = wanted.then(|| self.0.lock().take()).flatten() {
            let file = manifest.file();
            while manifest.file() == file {
                manifest.commit(&[Edit::WallClock { ms: 1 }]).unwrap();
            }
        }
        Verdict::Pass
    }

    fn after(&self, _call: &Call<'_>, _failed: bool) {}
}

#[test]
fn a_manifest_that_is_rewritten_meanwhile_is_no_damage() {
    let rewriter = Arc::new(Rewriter::default());
    let fs = Intercepted::standing(Arc::clone(&rewriter), Arc::new(MemFs::new()));
    let (db, engine) = open(Arc::new(fs), tiny());
    engine.env.manifest.roll_early(1);
    *rewriter.0.lock() = Some(Arc::clone(&engine.env.manifest));
    db.verify().unwrap();
    assert!(rewriter.0.lock().is_none(), "nobody looked");
}
