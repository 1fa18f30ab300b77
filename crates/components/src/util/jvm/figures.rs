//! Statistics of JVMs, read once a second while code runs in them.
//!
//! A separate thread reads the statistics of each JVM, because a call into a JVM may wait for a
//! garbage collection, and a request for the statistics must not.

use super::heap::{self, Collections};
use super::java::Java;
use millstream_jvm::{Jvm, JvmProcess, JvmProcessSnapshot, JvmSnapshot, JvmStats, ProcessState};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Interval between two reads of the statistics.
const INTERVAL: Duration = Duration::from_secs(1);

/// The latest statistics of each JVM. `None` is the JVM inside the agent; a separate process is
/// identified by its name.
static JVMS: Mutex<BTreeMap<Option<String>, JvmSnapshot>> = Mutex::new(BTreeMap::new());

/// The JVMs whose statistics are read, each by a separate thread.
static WATCHED: Mutex<BTreeSet<Option<String>>> = Mutex::new(BTreeSet::new());

/// Additional functions that are called once per interval.
static LOOKS: Mutex<Vec<Look>> = Mutex::new(Vec::new());

/// Reads statistics of code in a JVM. Returns whether the code has run since the last call.
pub type Look = fn(&Java) -> bool;

/// Returns the statistics of the JVM inside the agent; `None` if it is not running.
pub fn jvm_snapshot() -> Option<JvmSnapshot> {
    known(&None)
}

/// Returns the latest statistics of a JVM.
fn known(process: &Option<String>) -> Option<JvmSnapshot> {
    let Collections { requested, ignored } = heap::collections(process);
    let known = JVMS.lock().get(process).copied()?;
    Some(JvmSnapshot { requested_collections: requested, ignored_collections: ignored, ..known })
}

/// Returns the number of bytes by which the heaps of all JVMs may still grow.
pub fn promised_bytes() -> u64 {
    let jvms = JVMS.lock();
    jvms.values().map(|jvm| jvm.heap_bytes_max.saturating_sub(jvm.heap_committed_bytes)).sum()
}

/// Records the statistics of a JVM.
fn note(process: &Option<String>, stats: JvmStats) {
    JVMS.lock().insert(process.clone(), snapshot(stats));
}

/// Returns the state of the separate processes.
pub fn jvm_process_snapshots() -> Vec<JvmProcessSnapshot> {
    let processes = JvmProcess::all();
    let snapshot = |process: JvmProcess| {
        let ProcessState { name, pid, restarts, error } = process.state();
        let jvm = known(&Some(name.clone())).filter(|_| pid.is_some());
        JvmProcessSnapshot { name, pid, restarts, error, jvm }
    };
    let mut snapshots: Vec<_> = processes.into_iter().map(snapshot).collect();
    snapshots.sort_by(|one, other| one.name.cmp(&other.name));
    snapshots
}

/// Starts a thread that reads the statistics of a JVM, unless one exists. From now on, the threads
/// of all JVMs also call `look` once per interval.
pub fn watch(java: &Java, look: Look) {
    let mut looks = LOOKS.lock();
    if !looks.iter().any(|known| std::ptr::fn_addr_eq(*known, look)) {
        looks.push(look);
    }
    drop(looks);
    let process = java.process().map(str::to_owned);
    if !WATCHED.lock().insert(process.clone()) {
        return;
    }
    let inside = match java {
        Java::Inside(jvm) => Some(jvm.clone()),
        Java::Process(_) => None,
    };
    let (followed, inside_too) = (process.clone(), inside.clone());
    let find_followed = move || find(&followed, &inside_too);
    heap::follow_pressure(process.clone(), find_followed, note);
    let name = process.as_deref().map_or(String::new(), |name| format!("-{name}"));
    let thread = std::thread::Builder::new().name(format!("jvm-figures{name}"));
    if let Err(error) = thread.spawn(move || look_while_used(process, inside)) {
        log::warn!("cannot start reading JVM statistics: {error}");
    }
}

/// Returns the JVM inside the agent, or the JVM of a separate process while the process is used.
fn find(process: &Option<String>, inside: &Option<Jvm>) -> Option<Java> {
    let Some(name) = process else { return inside.clone().map(Java::Inside) };
    JvmProcess::all().into_iter().find(|process| process.name() == name).map(Java::Process)
}

/// Reads the statistics of a JVM until it is no longer used.
fn look_while_used(process: Option<String>, inside: Option<Jvm>) {
    let find = || find(&process, &inside);
    // Whether code had run at the previous look. The statistics are then read even if no code has
    // run since, because a collection may have ended.
    let mut has_changed = true;
    loop {
        let Some(java) = find() else {
            let mut watched = WATCHED.lock();
            // Another process with this name may have been started in the meantime.
            if find().is_none() {
                JVMS.lock().remove(&process);
                watched.remove(&process);
                return;
            }
            continue;
        };
        let looks = LOOKS.lock().clone();
        let has_run = looks.into_iter().fold(false, |any, look| any | look(&java));
        if has_run || has_changed {
            look_at(&java, &process);
        }
        has_changed = has_run;
        // Drop the handle, so that it does not keep the process running during the pause.
        drop(java);
        std::thread::sleep(INTERVAL);
    }
}

/// Reads the statistics of the JVM, which also records its collections. If there is no memory for
/// the response, the previous statistics stay.
fn look_at(java: &Java, process: &Option<String>) {
    if let Ok(stats) = java.stats() {
        note(process, stats);
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
