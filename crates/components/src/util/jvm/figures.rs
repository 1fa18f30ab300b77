//! What the JVM uses, read once a second while code runs in it.
//!
//! A separate thread reads it: a call into the JVM may wait for a collection, and a request for the
//! figures must not.

use super::heap;
use millstream_jvm::{Jvm, JvmStats};
use millstream_model::snapshot::JvmSnapshot;
use parking_lot::Mutex;
use std::sync::Once;
use std::time::Duration;

/// How old the figures may be.
const INTERVAL: Duration = Duration::from_secs(1);

/// The JVM, as of the last look.
static JVM: Mutex<Option<JvmSnapshot>> = Mutex::new(None);

/// What is looked at once per interval.
static LOOKS: Mutex<Vec<Look>> = Mutex::new(Vec::new());

/// Reads figures of code in the JVM; returns whether it has run since the last look.
pub type Look = fn(&Jvm) -> bool;

/// Returns what the JVM uses; `None` if none runs.
pub fn jvm_snapshot() -> Option<JvmSnapshot> {
    let (requested_collections, ignored_collections) = heap::collections();
    let known = *JVM.lock();
    known.map(|jvm| JvmSnapshot { requested_collections, ignored_collections, ..jvm })
}

/// Begins to look at something once per interval; does nothing if it is looked at already.
pub fn watch(jvm: &Jvm, look: Look) {
    static BEGUN: Once = Once::new();
    let mut looks = LOOKS.lock();
    if !looks.iter().any(|of| std::ptr::fn_addr_eq(*of, look)) {
        looks.push(look);
    }
    drop(looks);
    let jvm = jvm.clone();
    BEGUN.call_once(|| {
        heap::follow_pressure(&jvm);
        let thread = std::thread::Builder::new().name("jvm-figures".to_owned());
        if let Err(error) = thread.spawn(move || look_forever(&jvm)) {
            log::warn!("the figures of the JVM are not read: {error}");
        }
    });
}

fn look_forever(jvm: &Jvm) -> ! {
    let mut is_due = true;
    loop {
        if is_due {
            look_at(jvm);
        }
        std::thread::sleep(INTERVAL);
        let looks = LOOKS.lock().clone();
        is_due = looks.into_iter().fold(false, |any, look| any | look(jvm));
    }
}

/// Reads what the JVM uses. Without memory for the answer, the figures stay those of the last look.
fn look_at(jvm: &Jvm) {
    if let Ok(stats) = jvm.stats() {
        *JVM.lock() = Some(snapshot(stats));
    }
}

fn snapshot(stats: JvmStats) -> JvmSnapshot {
    JvmSnapshot {
        heap_used_bytes: stats.heap_used,
        heap_committed_bytes: stats.heap_committed,
        heap_bytes_max: stats.heap_max,
        non_heap_used_bytes: stats.non_heap_used,
        metaspace_used_bytes: stats.metaspace_used,
        collections: stats.collections,
        requested_collections: 0,
        ignored_collections: 0,
        collection_seconds: stats.collection_ms as f64 / 1000.0,
        threads: stats.threads,
        classes: stats.classes,
    }
}
