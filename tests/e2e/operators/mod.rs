//! Tests operators on the JVM with the real binary, on every JDK of this host: inside the agent,
//! and in a separate process.

mod faults;
mod isolation;
mod languages;
mod memory;
mod processes;
mod recorded;
mod reloads;
mod starts;

use crate::support::Agent;
use crate::support::java::{FAST_START, built, homes, test_operators};
use millstream_testkit_random::TestSize;
use serde_json::Value;
use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Timeout for events that should happen soon, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(120);

/// A JDK, and the place where the JVM runs. Dereferences to the home of the JDK.
#[derive(Clone, Copy)]
struct Java<'a> {
    home: &'a Path,
    runs_in_child: bool,
}

impl Deref for Java<'_> {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.home
    }
}

impl Java<'_> {
    /// Returns a configuration whose operators run in this place.
    fn adapt(self, config: String) -> String {
        match self.runs_in_child {
            true => config
                .replace("type: jvm\n", "type: jvm\n    mode: process\n")
                .replace("type: jvm,", "type: jvm, mode: process,"),
            false => config,
        }
    }

    /// Returns a metric of the JVM, such as `classes`.
    fn figure(self, agent: &Agent, name: &str) -> Option<f64> {
        let label = if self.runs_in_child { "{process=\"default\"}" } else { "" };
        agent.metric(&format!("millstream_jvm_{name}{label} "))
    }
}

/// Returns the settings of an agent with the JDK in `home`.
fn settings(home: &Path) -> String {
    format!(
        "limits: {{ memory: 640MiB, threads: 2 }}\n\
         jvm: {{ home: {}, heap: 64MiB, options: ['{FAST_START}'] }}\n",
        home.display()
    )
}

/// 1 if a test runs with every JDK at both places.
const EVERYWHERE: TestSize = TestSize { gate: 0, long: 1 };

/// Calls a test with the oldest JDK of this host in the agent's process, and with the newest one in
/// a separate process. In the soak, calls it with every JDK at both places, as the tests of
/// `crates/io/jvm` always do.
fn each_jdk(test: impl Fn(Java<'_>)) {
    each_jdk_inside(&test);
    let all = homes();
    let homes = if EVERYWHERE.per_case() == 1 { &all[..] } else { &all[all.len() - 1..] };
    for home in homes {
        eprintln!("with {} in a separate process", home.display());
        test(Java { home, runs_in_child: true });
    }
}

/// Calls a test with the oldest JDK of this host in the agent's process; in the soak, with every
/// JDK.
fn each_jdk_inside(test: impl Fn(Java<'_>)) {
    built();
    let all = homes();
    let homes = if EVERYWHERE.per_case() == 1 { &all[..] } else { &all[..1] };
    for home in homes {
        eprintln!("with {}", home.display());
        test(Java { home, runs_in_child: false });
    }
}

/// Returns the `Faulty` transform with additional options.
fn faulty(fault: &str, more: &str) -> String {
    let jar = test_operators().display();
    format!(
        "{{ type: jvm, inputs: [app], language: class, jar: {jar}, class: Faulty, options: {{ fault: {fault} }}, {more} }}"
    )
}

/// Returns the name of the metric that counts events of the `op` transform with a note.
fn noted(note: &str) -> String {
    format!(
        "millstream_component_noted_events_total{{component_id=\"op\",component_type=\"jvm\",component_kind=\"transform\",note=\"{note}\"}}"
    )
}

/// Sets a flag on drop, even if the test fails, because a writer would otherwise never end.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the JSON documents in a file; an empty list if the file does not exist.
fn documents(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}
