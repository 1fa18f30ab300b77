//! The samples of a profile, with addresses instead of symbols.

use crate::runtime::RuntimeMethod;
use crate::settings::Event;
use serde::{Deserialize, Serialize};

/// The samples of a profile, with addresses instead of symbols.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawProfile {
    /// The process id.
    pub pid: u32,
    /// The event that was sampled.
    pub event: Event,
    /// CPU time or wall time that each sample represents, in nanoseconds. 0 for allocations.
    pub interval_ns: u64,
    /// Time from start to stop, in nanoseconds.
    pub duration_ns: u64,
    /// CPU time that the process used during the profile, in nanoseconds.
    pub cpu_ns: u64,
    /// All threads that were found, with their most recent names.
    pub threads: Vec<ThreadName>,
    /// The component ids, indexed by component number. The first one is empty and means no
    /// component.
    pub components: Vec<String>,
    /// The executable mappings of files, and the kernel's mapping `[vdso]`.
    pub modules: Vec<Module>,
    /// The methods of a runtime, such as a JVM, that occur in stacks in place of addresses.
    #[serde(default)]
    pub methods: Vec<RuntimeMethod>,
    /// The samples. Samples with the same stack, thread and component are combined.
    pub stacks: Vec<Stack>,
    /// Number of samples that were lost because the buffer had no space.
    pub lost: u64,
    /// Number of threads whose CPU time is checked only at kernel ticks, because the process may
    /// not use `perf_event_open` with kernel time. On a busy host, the shares of such threads are
    /// inexact.
    pub threads_sampled_at_ticks: u64,
    /// Number of threads that were not sampled because the system had no free timer (see
    /// `RLIMIT_SIGPENDING`).
    pub threads_without_timer: u64,
    /// Number of threads that were not sampled because they block the signal.
    pub threads_with_blocked_signal: u64,
}

/// A thread and its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ThreadName {
    /// The system id of the thread.
    pub tid: u32,
    /// The name. The kernel truncates it to 15 bytes.
    pub name: String,
}

/// An executable mapping.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Module {
    /// The path of the file, or `[vdso]`. If the file was replaced, the path ends with
    /// ` (deleted)`.
    pub path: String,
    /// The GNU build id in hexadecimal.
    pub build_id: Option<String>,
    /// The first address.
    pub start: u64,
    /// The address after the last one.
    pub end: u64,
    /// The file offset that is mapped at the first address.
    pub file_offset: u64,
}

/// Samples with the same stack, thread and component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// The thread, as an index into the list of threads.
    pub thread: u32,
    /// The component, as an index into the list of components.
    pub component: u32,
    /// Number of samples. A delayed sample counts once for each interval that has passed.
    pub count: u64,
    /// Addresses, leaf first. All addresses except the leaf are return addresses minus 1, so that
    /// they are inside the calling instruction.
    pub addresses: Vec<u64>,
    /// Whether callers are missing.
    pub is_truncated: bool,
}
