//! The samples of a profile, as addresses.

use crate::runtime::RuntimeMethod;
use crate::settings::Event;
use serde::{Deserialize, Serialize};

/// The samples of a profile, without symbols.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawProfile {
    /// The id of the process.
    pub pid: u32,
    /// The sampled event.
    pub event: Event,
    /// CPU time or wall time that a sample represents, in nanoseconds; 0 for allocations.
    pub interval_ns: u64,
    /// Time from start to stop, in nanoseconds.
    pub duration_ns: u64,
    /// CPU time that the process used during the profile, in nanoseconds.
    pub cpu_ns: u64,
    /// All threads found, with their last known names.
    pub threads: Vec<ThreadName>,
    /// The ids of components by number. The first one is empty and means no component.
    pub components: Vec<String>,
    /// The executable mappings of files, and of the kernel (`[vdso]`).
    pub modules: Vec<Module>,
    /// The methods of a runtime, such as a JVM, that stacks contain in place of addresses.
    #[serde(default)]
    pub methods: Vec<RuntimeMethod>,
    /// The samples. Samples with equal stack, thread and component are one entry.
    pub stacks: Vec<Stack>,
    /// Samples for which the buffer had no space.
    pub lost: u64,
    /// Threads whose CPU time is known only at the ticks of the kernel, because the process may not
    /// use `perf_event_open` with time in the kernel. On a busy host, the shares of such threads
    /// are inexact.
    pub threads_sampled_at_ticks: u64,
    /// Threads that were not sampled because the system had no free timer: see `RLIMIT_SIGPENDING`.
    pub threads_without_timer: u64,
    /// Threads that were not sampled because they block signals.
    pub threads_with_blocked_signal: u64,
}

/// A thread and its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ThreadName {
    /// The number of the thread in the system.
    pub tid: u32,
    /// The name, truncated by the system to 15 bytes.
    pub name: String,
}

/// An executable mapping.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Module {
    /// The path of the file, with the suffix ` (deleted)` if the file was replaced, or `[vdso]`.
    pub path: String,
    /// The GNU build id in hexadecimal digits.
    pub build_id: Option<String>,
    /// First address.
    pub start: u64,
    /// Address after the last one.
    pub end: u64,
    /// The file position that is mapped at the first address.
    pub file_offset: u64,
}

/// Equal samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// The thread, by position in the list of threads.
    pub thread: u32,
    /// The component, by position in the list of components.
    pub component: u32,
    /// Number of samples. A delayed sample counts for each interval that had passed.
    pub count: u64,
    /// Addresses, leaf first. All addresses but the leaf are return addresses minus 1, which are
    /// within the calling instruction.
    pub addresses: Vec<u64>,
    /// Whether callers are missing.
    pub is_truncated: bool,
}
