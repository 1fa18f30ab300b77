//! Collectors: code that creates events, on JVM threads.
//!
//! Java passes each chunk on with a number, the handle, which identifies the receiver. Rust uses
//! the handle only as a key and never dereferences it, so a wrong handle does no harm.

use crate::answered::{Answered, Fault, unreadable};
use crate::bridge::Bridge;
use crate::chunk::Chunk;
use crate::control::Control;
use crate::error::{ControlError, RegisterError};
use crate::jni::{Env, Thrown};
use crate::operator::RuleSource;
use crate::process::CollectorSlot;
use jni_sys::{JNIEnv, jclass};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;

/// Values that `deliver` returns: the chunk was taken, or the collector must stop.
const TAKEN: i32 = 0;
const STOPPING: i32 = 1;

/// Receivers for the chunks of running collectors, by handle.
static RECEIVERS: Mutex<Receivers> = Mutex::new(Receivers { last: 0, known: BTreeMap::new() });

/// Callback that receives `true` after a chunk was taken, or `false` if it was not taken because
/// the collector must stop. The collector waits for this call.
pub type Taken = Box<dyn FnOnce(bool) + Send>;

/// Takes a collector's chunks.
pub trait Deliver: Send + Sync {
    /// Takes a chunk immediately, or later when there is space, but never blocks. The next chunk
    /// arrives only after `taken` has been called.
    fn offer(&self, chunk: Chunk, taken: Taken);

    /// Counts a rejected chunk of `events` events, with the reason.
    fn refused(&self, events: u64, reason: &str);
}

/// Takes a collector's chunks from Java, on the thread that runs the collector.
pub(crate) trait Receive: Send + Sync {
    /// Takes the bytes of a chunk that contains `events` events, and waits until there is space.
    /// Returns `false` if the collector must stop.
    fn receive(&self, bytes: &[u8], events: i64) -> bool;
}

/// Receives the chunks of a collector in this process's JVM.
struct Inside(Arc<dyn Deliver>);

impl Receive for Inside {
    fn receive(&self, bytes: &[u8], events: i64) -> bool {
        match Chunk::new(bytes.to_vec(), events) {
            Ok(chunk) => {
                let (answer, taken) = sync_channel(1);
                self.0.offer(chunk, Box::new(move |is_taken| _ = answer.send(is_taken)));
                taken.recv().unwrap_or(false)
            }
            Err(reason) => {
                self.0.refused(events.max(0) as u64, &reason.to_string());
                true
            }
        }
    }
}

/// The configuration of the collector in a `jvm` source.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CollectorSpec {
    /// Id of the source.
    pub component: String,
    /// `groovy` or `class`.
    pub language: String,
    /// The script; empty for `class`.
    pub rules: Vec<RuleSource>,
    /// Path of the jar, for `class`.
    pub jar: Option<PathBuf>,
    /// Name of the class in the jar, for `class`.
    pub class_name: Option<String>,
    /// Additional jars whose classes the code can use.
    pub jars: Vec<PathBuf>,
    /// Options for the code.
    pub options: serde_json::Map<String, serde_json::Value>,
    /// Additional classes or packages that a script may use.
    pub allow: Vec<String>,
    /// Names of methods whose calls are removed if the result is not used.
    pub removed_calls: Vec<String>,
    /// Time between the starts of two calls in milliseconds; 0 to repeat the call as soon as it
    /// returns.
    pub interval_ms: u64,
    /// Maximum time of a call in milliseconds; 0 for no limit.
    pub timeout_ms: u64,
    /// Maximum number of threads for all collectors.
    pub threads: usize,
}

/// Statistics about the collectors.
#[derive(Clone, Debug, Deserialize)]
pub struct CollectorsStats {
    /// Maximum number of threads.
    pub threads_max: u64,
    /// Number of existing threads.
    pub threads: u64,
    /// All registered collectors.
    pub collectors: Vec<CollectorStats>,
}

/// Statistics about a collector since it was registered.
#[derive(Clone, Debug, Deserialize)]
pub struct CollectorStats {
    /// Id of the collector in this process; see [`CollectorId::id`].
    pub id: i32,
    /// Id of the source.
    pub component: String,
    /// Number of calls that have started.
    pub calls: u64,
    /// Number of calls that threw an exception or exceeded their time limit.
    pub failures: u64,
    /// Number of events that the collector passed on.
    pub events: u64,
    /// Number of intervals without a call, because the previous call took too long.
    pub missed: u64,
    /// How long the current call has been running, in milliseconds; -1 if no call is running.
    pub running_ms: i64,
    /// Current state.
    pub state: CollectorState,
    /// Message of the last failure.
    pub last_failure: Option<String>,
}

/// The state of a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectorState {
    /// The next call is not due yet.
    Waiting,
    /// The next call is due, and all threads are busy.
    Queued,
    /// A call is running.
    Running,
    /// A call was interrupted but does not return.
    Hangs,
    /// A call is waiting until the agent accepts more events.
    Blocked,
}

/// The response to a registration.
#[derive(Deserialize)]
struct Registered {
    id: i32,
}

/// The id of a collector in [`CollectorsStats`]. The id changes when the collector's process
/// restarts. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct CollectorNumber(Arc<AtomicU64>);

/// The id of a collector in the statistics of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectorId {
    /// Which start of the process the id is valid for, counted from 1.
    pub start: u32,
    /// Id of the collector in this process.
    pub id: i32,
}

impl CollectorNumber {
    /// Creates the number of a collector with this id.
    pub fn new(id: CollectorId) -> CollectorNumber {
        let number = CollectorNumber::default();
        number.set(Some(id));
        number
    }

    /// Returns the current id; `None` if the collector is not registered.
    pub fn get(&self) -> Option<CollectorId> {
        let number = self.0.load(Ordering::Relaxed);
        let (start, id) = ((number >> 32) as u32, number as u32 as i32);
        (start > 0).then_some(CollectorId { start, id })
    }

    /// Changes the id.
    pub(crate) fn set(&self, id: Option<CollectorId>) {
        let number = id.map_or(0, |id| u64::from(id.start) << 32 | u64::from(id.id as u32));
        self.0.store(number, Ordering::Relaxed);
    }
}

/// A collector. The collector stops when this handle is dropped.
pub struct Collector(Place);

/// Where a collector runs.
enum Place {
    /// In this process's JVM.
    Inside(Local),
    /// In a JVM in a separate process.
    Process(Arc<CollectorSlot>),
}

/// A collector in this process's JVM.
struct Local {
    control: Control,
    id: i32,
    number: CollectorNumber,
    deliver: Arc<dyn Deliver>,
    is_started: AtomicBool,
}

impl Collector {
    /// Compiles a collector that sends its chunks to `deliver`.
    pub(crate) fn register(
        control: &Control,
        spec: &CollectorSpec,
        deliver: Arc<dyn Deliver>,
    ) -> Result<Collector, RegisterError> {
        let text = serde_json::to_vec(spec).map_err(unreadable)?;
        let id = registered(&ask_register(control, text)?)?;
        let (control, is_started) = (control.clone(), AtomicBool::new(false));
        let number = CollectorNumber::new(CollectorId { start: 1, id });
        Ok(Collector(Place::Inside(Local { control, id, number, deliver, is_started })))
    }

    /// Creates the handle for a collector that is registered in another process.
    pub(crate) fn in_process(slot: Arc<CollectorSlot>) -> Collector {
        Collector(Place::Process(slot))
    }

    /// Returns the collector's id in [`CollectorsStats`].
    pub fn number(&self) -> &CollectorNumber {
        match &self.0 {
            Place::Inside(local) => &local.number,
            Place::Process(slot) => slot.number(),
        }
    }

    /// Starts calling the collector. Does nothing if the calls have already started.
    pub fn start(&self) {
        match &self.0 {
            Place::Inside(local) => local.start(),
            Place::Process(slot) => slot.start(),
        }
    }
}

impl Local {
    fn start(&self) {
        if !self.is_started.swap(true, Ordering::Relaxed) {
            start_later(&self.control, self.id, Arc::new(Inside(Arc::clone(&self.deliver))));
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        stop_later(&self.control, self.id);
    }
}

/// Compiles a collector in this process's JVM; returns Java's response.
pub(crate) fn ask_register(control: &Control, spec: Vec<u8>) -> Result<Vec<u8>, ControlError> {
    let register = move |bridge: &Bridge, env| bridge.collector_register(env, &spec);
    control.ask(register, |bridge, env, late| {
        if let Ok(Answered::<Registered>::Done(late)) = serde_json::from_slice(&late) {
            stop(bridge, env, late.id);
        }
    })
}

/// Parses Java's response to a registration; returns the collector's id.
pub(crate) fn registered(answer: &[u8]) -> Result<i32, RegisterError> {
    match serde_json::from_slice(answer).map_err(unreadable)? {
        Answered::Fault { error: Fault { message, rule, line, column } } => {
            Err(RegisterError::Fault { message, rule, line, column })
        }
        Answered::Done(Registered { id }) => Ok(id),
    }
}

/// Asks the control thread to start calling a collector in this process's JVM. Does not wait.
pub(crate) fn start_later(control: &Control, id: i32, receiver: Arc<dyn Receive>) {
    control.send(move |bridge, env| {
        let handle = RECEIVERS.lock().add(receiver);
        if let Err(Thrown(reason)) = bridge.collector_start(env, id, handle) {
            log::error!("a collector was not started: {reason}");
            let receiver = RECEIVERS.lock().known.remove(&handle);
            drop(receiver);
        }
    });
}

/// Asks the control thread to remove a collector from this process's JVM. Does not wait.
pub(crate) fn stop_later(control: &Control, id: i32) {
    control.send(move |bridge, env| stop(bridge, env, id));
}

fn stop(bridge: &Bridge, env: Env, id: i32) {
    if let Err(Thrown(reason)) = bridge.collector_stop(env, id) {
        log::warn!("a collector did not stop cleanly: {reason}");
    }
}

/// The receivers of chunks.
struct Receivers {
    /// The last handle that was assigned.
    last: i64,
    known: BTreeMap<i64, Arc<dyn Receive>>,
}

impl Receivers {
    /// Adds a receiver with a new handle.
    fn add(&mut self, receiver: Arc<dyn Receive>) -> i64 {
        self.last += 1;
        self.known.insert(self.last, receiver);
        self.last
    }
}

/// Runs a function on behalf of Java. Catches panics, because a panic must not reach Java; returns
/// `None` after a panic.
fn contained<T>(run: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(run));
    if result.is_err() {
        log::error!("a panic while a collector delivers");
    }
    result.ok()
}

/// The native method `Bridge.deliver`: takes a chunk with `events` events from an address, and
/// waits until there is space. Java calls this method on the collector's thread.
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
    let start = ptr::with_exposed_provenance::<u8>(address as usize);
    let memory = match usize::try_from(bytes) {
        // SAFETY: only `Bridge` can call the native method, and it passes memory of this size that
        // it has allocated and does not change before the method returns.
        Ok(bytes) if !start.is_null() => unsafe { std::slice::from_raw_parts(start, bytes) },
        // An empty chunk does not contain the announced number of events, so it is rejected.
        _ => &[],
    };
    receiver.receive(memory, events.into())
}

/// The native method `Bridge.stopped`: the collector will not use the handle again.
pub extern "system" fn stopped(_env: *mut JNIEnv, _class: jclass, handle: i64) {
    contained(|| {
        let receiver = RECEIVERS.lock().known.remove(&handle);
        drop(receiver);
    });
}

#[cfg(test)]
mod tests;
