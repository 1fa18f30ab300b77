//! Collectors: code that makes events, on threads of the JVM.
//!
//! Java passes chunks on by a number, the handle, which names where they go. It is looked up and
//! never followed, so a wrong one does no harm.

use crate::bridge::Bridge;
use crate::chunk::Chunk;
use crate::control::Control;
use crate::error::RegisterError;
use crate::jni::{Env, Thrown};
use crate::operator::{Answered, Fault, RuleSource, unreadable};
use jni_sys::{JNIEnv, jclass};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What `deliver` returns: the chunk was taken, or the collector is to stop.
const TAKEN: i32 = 0;
const STOPPING: i32 = 1;

/// Where the chunks of running collectors go, by handle.
static RECEIVERS: Mutex<Receivers> = Mutex::new(Receivers { last: 0, known: BTreeMap::new() });

/// Takes the chunks of a collector, on the thread that runs it.
pub trait Deliver: Send + Sync {
    /// Waits until there is room for a chunk of so many bytes; returns `false` if the collector is
    /// to stop.
    fn wait(&self, bytes: usize) -> bool;

    /// Takes a chunk; returns `false` if the collector is to stop, and the chunk was not taken.
    fn deliver(&self, chunk: Chunk) -> bool;

    /// Counts a chunk of so many events that was refused, and why.
    fn refused(&self, events: u64, reason: &str);
}

/// What the configuration of a source says about its collector.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CollectorSpec {
    /// Id of the source.
    pub component: String,
    /// `groovy` or `class`.
    pub language: String,
    /// The script; empty for `class`.
    pub rules: Vec<RuleSource>,
    /// The jar of `class`.
    pub jar: Option<PathBuf>,
    /// The class in that jar.
    pub class_name: Option<String>,
    /// Further jars that the code sees.
    pub jars: Vec<PathBuf>,
    /// Options for the code.
    pub options: serde_json::Map<String, serde_json::Value>,
    /// Further classes that a script may use, or packages.
    pub allow: Vec<String>,
    /// Names of methods whose calls are removed where their value is not used.
    pub removed_calls: Vec<String>,
    /// Time between two calls in milliseconds; 0 to call again as soon as a call has returned.
    pub interval_ms: u64,
    /// Longest time for a call in milliseconds; 0 for any.
    pub timeout_ms: u64,
    /// Most threads of all collectors.
    pub threads: usize,
}

/// What the collectors did.
#[derive(Clone, Debug, Deserialize)]
pub struct CollectorsStats {
    /// Most threads.
    pub threads_max: u64,
    /// Threads that there are.
    pub threads: u64,
    /// Every collector that is registered.
    pub collectors: Vec<CollectorStats>,
}

/// What a collector did since it was registered.
#[derive(Clone, Debug, Deserialize)]
pub struct CollectorStats {
    /// Its number: see [`Collector::id`].
    pub id: i32,
    /// Id of the source.
    pub component: String,
    /// Calls that have begun.
    pub calls: u64,
    /// Calls that threw an exception or exceeded their time.
    pub failures: u64,
    /// Events that it passed on.
    pub events: u64,
    /// Intervals without a call, because the one before took too long.
    pub missed: u64,
    /// For how long its call runs, in milliseconds; -1 without one.
    pub running_ms: i64,
    /// What it is doing.
    pub state: CollectorState,
    /// The last failure.
    pub last_failure: Option<String>,
}

/// What a collector is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectorState {
    /// It is not due.
    Waiting,
    /// It is due, and all threads are busy.
    Queued,
    /// A call runs.
    Running,
    /// A call runs that was interrupted and does not end.
    Hangs,
    /// A call waits until the agent takes more events.
    Blocked,
}

/// What registering it returns.
#[derive(Deserialize)]
struct Registered {
    id: i32,
}

/// A collector; it stops when this drops.
pub struct Collector {
    control: Control,
    id: i32,
    deliver: Arc<dyn Deliver>,
    is_started: AtomicBool,
}

impl Collector {
    /// Compiles a collector, whose chunks go to `deliver`.
    pub(crate) fn register(
        control: &Control,
        spec: &CollectorSpec,
        deliver: Arc<dyn Deliver>,
    ) -> Result<Collector, RegisterError> {
        let text = serde_json::to_vec(spec).map_err(unreadable)?;
        let register = move |bridge: &Bridge, env| bridge.collector_register(env, &text);
        let answer = control.ask(register, |bridge, env, late| {
            if let Ok(Answered::<Registered>::Done(late)) = serde_json::from_slice(&late) {
                stop(bridge, env, late.id);
            }
        })?;
        let (control, is_started) = (control.clone(), AtomicBool::new(false));
        match serde_json::from_slice(&answer).map_err(unreadable)? {
            Answered::Fault { error: Fault { message, rule, line, column } } => {
                Err(RegisterError::Fault { message, rule, line, column })
            }
            Answered::<Registered>::Done(Registered { id }) => {
                Ok(Collector { control, id, deliver, is_started })
            }
        }
    }

    /// Returns its number in [`CollectorsStats`].
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Begins to call it; does nothing if it is called already.
    pub fn start(&self) {
        if self.is_started.swap(true, Ordering::Relaxed) {
            return;
        }
        let (id, deliver) = (self.id, Arc::clone(&self.deliver));
        self.control.send(move |bridge, env| {
            let handle = RECEIVERS.lock().add(deliver);
            if let Err(Thrown(reason)) = bridge.collector_start(env, id, handle) {
                log::error!("a collector was not started: {reason}");
                RECEIVERS.lock().known.remove(&handle);
            }
        });
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let id = self.id;
        self.control.send(move |bridge, env| stop(bridge, env, id));
    }
}

fn stop(bridge: &Bridge, env: Env, id: i32) {
    if let Err(Thrown(reason)) = bridge.collector_stop(env, id) {
        log::warn!("a collector did not stop well: {reason}");
    }
}

/// Where chunks go.
struct Receivers {
    /// The last handle.
    last: i64,
    known: BTreeMap<i64, Arc<dyn Deliver>>,
}

impl Receivers {
    /// Adds a receiver under a new handle.
    fn add(&mut self, deliver: Arc<dyn Deliver>) -> i64 {
        self.last += 1;
        self.known.insert(self.last, deliver);
        self.last
    }
}

/// Runs a function that Java called: a panic must not reach Java.
fn contained<T>(run: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(run));
    if result.is_err() {
        log::error!("a panic while a collector delivers");
    }
    result.ok()
}

/// `Bridge.deliver`: takes the chunk of so many events at an address; waits until there is room.
/// Called on the thread of the collector.
pub extern "system" fn deliver(
    _env: *mut JNIEnv,
    _class: jclass,
    handle: i64,
    address: i64,
    bytes: i64,
    events: i32,
) -> i32 {
    let taken = contained(|| take(handle, address, bytes, events));
    if taken == Some(true) { TAKEN } else { STOPPING }
}

fn take(handle: i64, address: i64, bytes: i64, events: i32) -> bool {
    let receiver = RECEIVERS.lock().known.get(&handle).cloned();
    let Some(receiver) = receiver else { return false };
    let (Ok(bytes), Ok(events)) = (usize::try_from(bytes), usize::try_from(events)) else {
        receiver.refused(0, "it has a negative length");
        return true;
    };
    if !receiver.wait(bytes) {
        return false;
    }
    match Chunk::new(copied(address, bytes), events) {
        Ok(chunk) => receiver.deliver(chunk),
        Err(reason) => {
            receiver.refused(events as u64, &reason.to_string());
            true
        }
    }
}

/// Copies the bytes at an address.
fn copied(address: i64, bytes: usize) -> Vec<u8> {
    if address == 0 || bytes == 0 {
        return Vec::new();
    }
    let start = ptr::with_exposed_provenance::<u8>(address as usize);
    // SAFETY: only `Bridge` can call the native method, with memory that it has allocated, of this
    // size, and does not change before the method returns.
    unsafe { std::slice::from_raw_parts(start, bytes) }.to_vec()
}

/// `Bridge.stopped`: the collector makes no more calls with the handle.
pub extern "system" fn stopped(_env: *mut JNIEnv, _class: jclass, handle: i64) {
    contained(|| {
        let receiver = RECEIVERS.lock().known.remove(&handle);
        drop(receiver);
    });
}

#[cfg(test)]
mod tests;
