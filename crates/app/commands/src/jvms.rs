//! The JVMs of a configuration: their start options, and their maximum memory.

use millstream_components::util::jvm::{JvmRuntime, processes_of, runs_inside};
use millstream_config::{Config, Fault};
use millstream_jvm::{JvmMemory, JvmOptions, JvmProcesses};
use std::collections::BTreeSet;

/// Returns the number of worker threads, which does not exceed the number that the host allows.
pub fn threads(config: &Config) -> usize {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    config.globals.limits.threads.min(available)
}

/// Returns the start options for the agent's JVM.
pub fn jvm_options(config: &Config) -> JvmOptions {
    config.globals.jvm_options(threads(config))
}

/// Returns the JVMs that components may use.
pub fn runtime(config: &Config) -> JvmRuntime {
    JvmRuntime { options: jvm_options(config), processes: jvm_processes(config) }
}

/// Returns the start options for the JVMs in separate processes.
fn jvm_processes(config: &Config) -> JvmProcesses {
    config.globals.jvm_processes(threads(config))
}

/// Returns the maximum memory of the JVMs, in bytes. The JVM inside the agent counts if a component
/// runs in it, or if the configuration contains the key `jvm` and no component runs in a separate
/// process. The JVMs of the processes that components use also count.
pub fn jvm_bytes(config: &Config) -> u64 {
    reserved_jvms(config).bytes()
}

/// Returns the JVMs for which memory is reserved at the start.
fn reserved_jvms(config: &Config) -> Jvms {
    match needed_jvms(config) {
        needed if needed.0.is_empty() && config.globals.jvm.is_some() => {
            Jvms(vec![inside_jvm(config)])
        }
        needed => needed,
    }
}

/// JVMs with the maximum memory of each in bytes.
struct Jvms(Vec<(String, u64)>);

impl Jvms {
    fn bytes(&self) -> u64 {
        self.0.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add)
    }

    /// Describes the sum and its parts.
    fn describe(&self) -> String {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let parts: Vec<String> =
            self.0.iter().map(|(name, bytes)| format!("{name} {}MiB", mib(*bytes))).collect();
        match parts.len() {
            0 | 1 => format!("the JVM may use {}MiB", mib(self.bytes())),
            _ => format!("the JVMs may use {}MiB ({})", mib(self.bytes()), parts.join(", ")),
        }
    }
}

fn inside_jvm(config: &Config) -> (String, u64) {
    ("the JVM inside the agent".to_owned(), JvmMemory::of(&jvm_options(config)).total_bytes())
}

/// Returns the JVMs that components use, with their maximum memory.
fn needed_jvms(config: &Config) -> Jvms {
    let inside = needs_jvm(config).then(|| inside_jvm(config));
    let processes = jvm_processes(config);
    let names = processes_in_use(config).into_iter();
    let others = names.map(|name| {
        (format!("the JVM of process {name}"), processes.options(&name).memory().total_bytes())
    });
    Jvms(inside.into_iter().chain(others).collect())
}

/// Returns the names of the processes with JVMs in which components run.
fn processes_in_use(config: &Config) -> BTreeSet<String> {
    config.components.iter().flat_map(|component| processes_of(&*component.decoded)).collect()
}

/// Returns whether a component runs in the JVM inside the agent.
pub fn needs_jvm(config: &Config) -> bool {
    config.components.iter().any(|component| runs_inside(&*component.decoded))
}

/// Returns the reason why a configuration cannot run in an agent that reserved this much memory for
/// the JVM at startup.
pub fn unreserved(config: &Config, reserved_bytes: u64) -> Option<Fault> {
    let needed = needed_jvms(config);
    let (what, advice) = match reserved_bytes {
        0 => (
            "a component needs a JVM, but the agent reserved no memory for a JVM when it started"
                .to_owned(),
            "restart the agent; with `jvm: {}` it always reserves memory",
        ),
        _ => (
            format!(
                "{}, but the agent reserved {}MiB when it started",
                needed.describe(),
                reserved_bytes >> 20
            ),
            "restart the agent",
        ),
    };
    (needed.bytes() > reserved_bytes).then(|| Fault::anywhere(what, advice))
}

/// Returns the reason why the memory limit has no room for the JVM, as far as this is certain
/// before the JVM starts.
pub fn oversized_jvm(config: &Config) -> Option<String> {
    let limit = config.globals.limits.memory.0;
    (jvm_bytes(config) >= limit).then(|| {
        format!(
            "{}, but limits.memory is {}MiB; raise limits.memory, or lower jvm.heap or the heap of \
             a process in jvm.processes",
            reserved_jvms(config).describe(),
            limit >> 20
        )
    })
}
