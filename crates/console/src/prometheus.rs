//! The agent's metrics in the Prometheus text format, version 0.0.4.

pub mod text;

use crate::TakeSnapshot;
use crate::collectors;
use crate::config::ConfigState;
use crate::diagnosis::{Cause, Diagnosis, DiagnosisState};
use crate::files;
use crate::process::ProcessStats;
use crate::snapshot::{AgentSnapshot, Sections};
use millstream_jvm::{JvmProcessSnapshot, JvmSnapshot};
use millstream_model::snapshot::{
    CheckpointSnapshot, ComponentSnapshot, DiskBufferSnapshot, MemorySnapshot, SinkProgress,
    Snapshot,
};
use millstream_model::{CountersSnapshot, InternalMetrics, Pressure};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use text::{Float, Number, Text, labels};

/// Number of configuration hash bits to export: as many as a double represents exactly.
const CONFIG_HASH_BITS: u32 = 48;

/// Name, help and accessor of a component metric.
type Of<T> = (&'static str, &'static str, fn(&CountersSnapshot) -> T);

/// Name, help and accessor of a component metric with one more label: values by label value.
type ByLabel<T> = (&'static str, &'static str, fn(&CountersSnapshot) -> &BTreeMap<&'static str, T>);

const EVENTS_AND_BYTES: [Of<u64>; 4] = [
    ("millstream_component_received_events_total", "Events received.", |c| c.received_events),
    ("millstream_component_received_bytes_total", "Bytes received.", |c| c.received_bytes),
    ("millstream_component_sent_events_total", "Events sent.", |c| c.sent_events),
    ("millstream_component_sent_bytes_total", "Bytes sent.", |c| c.sent_bytes),
];

const DROPPED: &str = "millstream_component_dropped_events_total";
const DROPPED_BYTES: &str = "millstream_component_dropped_bytes_total";
const ERRORS: &str = "millstream_component_errors_total";
const NOTED: &str = "millstream_component_noted_events_total";
const WAITED: &str = "millstream_component_wait_seconds_total";
const UTILIZATION: &str = "millstream_component_utilization_ratio";
const EMIT_DELAY: &str = "millstream_component_emit_delay_seconds";

/// Renders all metrics of the agent, one family after the other, each with HELP and TYPE.
///
/// Unknown process values are omitted, and so are values that are missing from the snapshot.
pub fn prometheus(
    snapshot: &AgentSnapshot,
    diagnosis: &Diagnosis,
    process: &ProcessStats,
    version: &str,
    config: &ConfigState,
) -> String {
    let mut text = String::with_capacity(4096 + 2048 * snapshot.engine.components.len());
    let mut out = Text::new(&mut text);
    write(&mut out, snapshot, process, version, config);
    diagnoses(&mut out, diagnosis);
    text
}

/// Returns a provider that reads the same metrics on each call.
pub fn internal_metrics(
    snapshot: Arc<TakeSnapshot>,
    diagnosis: DiagnosisState,
    version: &'static str,
    config: Arc<ConfigState>,
) -> InternalMetrics {
    InternalMetrics::new(move |each| {
        let mut out = Text::calls(each);
        write(&mut out, &snapshot(), &ProcessStats::read(), version, &config);
        diagnoses(&mut out, &diagnosis.diagnosis());
    })
}

fn write(
    text: &mut Text<'_>,
    snapshot: &AgentSnapshot,
    process: &ProcessStats,
    version: &str,
    config: &ConfigState,
) {
    let AgentSnapshot { engine, sections } = snapshot;
    flow(text, &engine.components);
    progress(text, &engine.components);
    disk_buffers(text, &engine.components);
    files::metrics(text, &engine.components);
    checkpoints(text, &engine.checkpoints);
    jvm(text, sections);
    jvm_processes(text, &sections.jvm_processes);
    sections.collectors.iter().for_each(|snapshot| collectors::metrics(text, snapshot));
    agent(text, engine, version, config);
    process_figures(text, process);
}

/// Appends the causes of each source. For a source without causes, the cause is its status:
/// `healthy` or `starting`.
fn diagnoses(text: &mut Text<'_>, diagnosis: &Diagnosis) {
    let name = "millstream_diagnosis";
    text.family(name, "gauge", "1 for each cause that the diagnosis reports for a source.");
    for source in &diagnosis.sources {
        // A cause that applies to several components is one series.
        let mut shown = BTreeSet::new();
        let all = [source].into_iter().chain(&source.also);
        for named in all.filter(|named| shown.insert(named.cause.map(Cause::id))) {
            let status = named.status.name();
            let cause = named.cause.map_or(status, Cause::id);
            let labels = [("source", &*source.source), ("cause", cause), ("status", status)];
            text.sample(name, &labels, 1);
        }
    }
}

/// Appends the throughput of each component.
fn flow(text: &mut Text<'_>, components: &[ComponentSnapshot]) {
    for (name, help, figure) in EVENTS_AND_BYTES {
        text.family(name, "counter", help);
        for component in components {
            text.sample(name, &labels(component), figure(&component.counters));
        }
    }
    let (help, label) = ("Events dropped, by reason.", "reason");
    by_label(text, components, (DROPPED, help, |c| &c.dropped_events), label);
    let help = "Bytes dropped, by reason, where known.";
    by_label(text, components, (DROPPED_BYTES, help, |c| &c.dropped_bytes), label);
    by_label(text, components, (ERRORS, "Errors, by type.", |c| &c.errors), "error_type");
    let help = "Events that passed with a change, by kind of change.";
    by_label(text, components, (NOTED, help, |c| &c.noted_events), "note");
    let help = "Time spent waiting, in seconds, by cause.";
    by_label(text, components, (WAITED, help, |c| &c.wait_seconds), "for");
    text.family(
        UTILIZATION,
        "gauge",
        "Share of the last sampling interval spent working; 2 is two busy threads.",
    );
    for component in components {
        text.sample(UTILIZATION, &labels(component), Float(component.counters.utilization_ratio));
    }
    capacity_waits(text, components);
    emit_delays(text, components);
}

/// Appends source wait times, and the rebalance counts of consumer groups.
fn capacity_waits(text: &mut Text<'_>, components: &[ComponentSnapshot]) {
    let name = "millstream_source_capacity_wait_seconds_total";
    let help = "Time that a source waited for capacity of a component, or continued without it, by \
                component.";
    text.family(name, "counter", help);
    for component in components {
        for (waited_for, seconds) in &component.capacity_wait_seconds {
            let [id, type_name, kind] = labels(component);
            text.sample(name, &[id, type_name, kind, ("for", waited_for)], Float(*seconds));
        }
    }
    let name = "millstream_source_rebalances_total";
    text.family(
        name,
        "counter",
        "Assignments and revocations of partitions by the consumer group.",
    );
    for component in components.iter().filter(|component| component.counters.rebalances > 0) {
        text.sample(name, &labels(component), component.counters.rebalances);
    }
}

/// Appends the histograms of transforms with windows.
fn emit_delays(text: &mut Text<'_>, components: &[ComponentSnapshot]) {
    let help = "Time from the end of a window until its last result is emitted, in seconds.";
    text.family(EMIT_DELAY, "histogram", help);
    for component in components {
        if let Some(histogram) = &component.counters.emit_delay {
            text.histogram(EMIT_DELAY, &labels(component), histogram);
        }
    }
}

/// Appends counters with one more label.
fn by_label<T: Number + Copy>(
    text: &mut Text<'_>,
    components: &[ComponentSnapshot],
    (name, help, figures): ByLabel<T>,
    label: &'static str,
) {
    text.family(name, "counter", help);
    for component in components {
        for (value, figure) in figures(&component.counters) {
            let [id, type_name, kind] = labels(component);
            text.sample(name, &[id, type_name, kind, (label, value)], figure.shown());
        }
    }
}

/// Appends lag and backlog.
fn progress(text: &mut Text<'_>, components: &[ComponentSnapshot]) {
    let help = "Bytes (or records) that the sink has not settled, read or not.";
    per_sink(text, components, "millstream_source_lag_bytes", help, |sink| sink.lag.to_string());
    let help = "Age in seconds of the oldest event that the sink has not settled; 0 if all events \
                are settled.";
    let name = "millstream_oldest_unsettled_seconds";
    per_sink(text, components, name, help, |sink| Float(sink.oldest_seconds).to_string());
    let help = "Delay of the sink in log time, in seconds: 0 if all events are settled, otherwise \
                the log delay of the unsettled events, or the age of the oldest of them if that is \
                more.";
    let name = "millstream_source_lag_seconds";
    per_sink(text, components, name, help, |sink| Float(sink.lag_seconds).to_string());
    let name = "millstream_buffer_bytes";
    text.family(name, "gauge", "Bytes queued at the sink for delivery.");
    for component in components {
        if let Some(bytes) = component.buffer_bytes {
            text.sample(name, &labels(component), bytes);
        }
    }
}

/// Appends the metrics of disk buffers.
fn disk_buffers(text: &mut Text<'_>, components: &[ComponentSnapshot]) {
    type Of = fn(&DiskBufferSnapshot) -> Option<f64>;
    let gauges: [(&str, &str, &str, Of); 7] = [
        ("bytes", "gauge", "Bytes of the sink's disk buffer.", |buffer| Some(buffer.bytes as f64)),
        ("bytes_max", "gauge", "Maximum bytes of the sink's disk buffer.", |buffer| {
            Some(buffer.bytes_max as f64)
        }),
        ("entries", "gauge", "Payloads in the disk buffer that have not been sent.", |buffer| {
            Some(buffer.entries as f64)
        }),
        ("events", "gauge", "Events in the disk buffer that have not been sent.", |buffer| {
            Some(buffer.events as f64)
        }),
        (
            "oldest_seconds",
            "gauge",
            "Age of the oldest unsent event in the disk buffer, in seconds; 0 if there is none.",
            |buffer| Some(buffer.oldest_seconds),
        ),
        (
            "full_in_seconds",
            "gauge",
            "Seconds until the disk buffer is full at the rate of the last minute; missing while \
             the buffer does not grow.",
            |buffer| buffer.full_in_seconds,
        ),
        (
            "damaged_entries_total",
            "counter",
            "Payloads in the disk buffer that could not be read.",
            |buffer| Some(buffer.damaged_entries as f64),
        ),
    ];
    for (name, kind, help, figure_of) in gauges {
        let name = format!("millstream_disk_buffer_{name}");
        text.family(&name, kind, help);
        for component in components {
            if let Some(figure) = component.disk_buffer.as_ref().and_then(figure_of) {
                text.sample(&name, &labels(component), Float(figure));
            }
        }
    }
}

/// Appends a gauge with one value per component and sink.
fn per_sink(
    text: &mut Text<'_>,
    components: &[ComponentSnapshot],
    name: &'static str,
    help: &'static str,
    figure: impl Fn(&SinkProgress) -> String,
) {
    text.family(name, "gauge", help);
    for component in components {
        for sink in &component.sinks {
            let [id, type_name, kind] = labels(component);
            text.sample(name, &[id, type_name, kind, ("sink", &sink.sink)], figure(sink));
        }
    }
}

/// Appends the metrics of checkpoints and ids.
fn checkpoints(text: &mut Text<'_>, checkpoints: &CheckpointSnapshot) {
    let help = "Age in seconds of the oldest uncommitted checkpoint; 0 if there is none.";
    text.single("millstream_checkpoint_age_seconds", "gauge", help, Float(checkpoints.age_seconds));
    let name = "millstream_checkpoint_errors_total";
    text.family(name, "counter", "Failures to read or write the checkpoint store, by operation.");
    for (operation, count) in &checkpoints.errors {
        text.sample(name, &[("operation", operation)], count);
    }
}

/// Appends the metrics of the JVM inside the process, and of JVMs in separate processes with a
/// label.
fn jvm(text: &mut Text<'_>, sections: &Sections) {
    let inside = sections.jvm.iter().map(|jvm| (None, jvm));
    let processes = sections.jvm_processes.iter();
    let others = processes
        .filter_map(|process| Some((Some(("process", &*process.name)), process.jvm.as_ref()?)));
    let jvms: Vec<_> = inside.chain(others).collect();
    if jvms.is_empty() {
        return;
    }
    let mut figure = |name: &str, kind: &str, help: &str, value: &dyn Fn(&JvmSnapshot) -> f64| {
        text.family(name, kind, help);
        for (label, jvm) in &jvms {
            text.sample(name, label.as_slice(), Float(value(jvm)));
        }
    };
    let mut gauge = |name: &str, help: &str, value: &dyn Fn(&JvmSnapshot) -> u64| {
        figure(&format!("millstream_jvm_{name}"), "gauge", help, &|jvm| value(jvm) as f64);
    };
    gauge("heap_used_bytes", "Bytes of Java objects.", &|jvm| jvm.heap_used_bytes);
    gauge("heap_committed_bytes", "Bytes of the Java heap.", &|jvm| jvm.heap_committed_bytes);
    gauge("heap_max_bytes", "Maximum Java heap in bytes.", &|jvm| jvm.heap_bytes_max);
    let help = "Bytes of Java classes and compiled code.";
    gauge("non_heap_used_bytes", help, &|jvm| jvm.non_heap_used_bytes);
    gauge("metaspace_used_bytes", "Bytes of Java classes.", &|jvm| jvm.metaspace_used_bytes);
    gauge("threads", "Threads of the JVM.", &|jvm| jvm.threads);
    gauge("classes", "Loaded Java classes.", &|jvm| jvm.classes);
    let (name, help) =
        ("millstream_jvm_collections_total", "Garbage collections of the Java heap.");
    figure(name, "counter", help, &|jvm| jvm.collections as f64);
    let name = "millstream_jvm_requested_collections_total";
    let help = "Garbage collections that the agent requested because memory was short.";
    figure(name, "counter", help, &|jvm| jvm.requested_collections as f64);
    let name = "millstream_jvm_ignored_collections_total";
    let help = "Requested garbage collections that returned no memory although memory could be \
                returned.";
    figure(name, "counter", help, &|jvm| jvm.ignored_collections as f64);
    let name = "millstream_jvm_collection_seconds_total";
    let help = "Time of garbage collections of the Java heap, in seconds.";
    figure(name, "counter", help, &|jvm| jvm.collection_seconds);
}

/// Appends the metrics of operator processes.
fn jvm_processes(text: &mut Text<'_>, processes: &[JvmProcessSnapshot]) {
    if processes.is_empty() {
        return;
    }
    let name = "millstream_jvm_process_up";
    text.family(name, "gauge", "1 if the operator process is running, 0 if it is starting.");
    for process in processes {
        text.sample(name, &[("process", &process.name)], u8::from(process.pid.is_some()));
    }
    let name = "millstream_jvm_process_restarts_total";
    text.family(name, "counter", "Restarts of the operator process.");
    for process in processes {
        text.sample(name, &[("process", &process.name)], process.restarts);
    }
}

/// Appends memory usage and limits.
fn memory(text: &mut Text<'_>, memory: &MemorySnapshot) {
    let gauges = [
        ("millstream_memory_limit_bytes", "limits.memory in bytes.", memory.limit_bytes),
        (
            "millstream_memory_resident_bytes",
            "Resident memory of the agent and its child processes in bytes.",
            memory.resident_bytes,
        ),
        (
            "millstream_memory_granted_bytes",
            "Bytes of the memory grant in use.",
            memory.granted_bytes,
        ),
        (
            "millstream_memory_grant_limit_bytes",
            "Bytes of the memory grant that can be used now.",
            memory.grant_limit_bytes,
        ),
    ];
    for (name, help, value) in gauges {
        text.single(name, "gauge", help, value);
    }
    let help = "1 for the level of memory pressure, 0 for the others.";
    text.family("millstream_memory_pressure", "gauge", help);
    for level in Pressure::ALL.map(Pressure::name) {
        let value = u8::from(level == memory.pressure);
        text.sample("millstream_memory_pressure", &[("level", level)], value);
    }
    let help = "Number of times that the memory pressure became high.";
    text.single("millstream_memory_high_total", "counter", help, memory.times_high);
    let (name, help) =
        ("millstream_memory_high_seconds_total", "Time with high memory pressure, in seconds.");
    text.single(name, "counter", help, Float(memory.high_seconds));
}

/// Appends the metrics of the agent as a whole.
fn agent(text: &mut Text<'_>, snapshot: &Snapshot, version: &str, config: &ConfigState) {
    memory(text, &snapshot.memory);
    text.family("millstream_build_info", "gauge", "Always 1; the version of the agent is a label.");
    text.sample("millstream_build_info", &[("version", version)], 1);
    let help = "A number that changes with the configuration.";
    text.single(
        "millstream_config_hash",
        "gauge",
        help,
        config.hash() >> (u64::BITS - CONFIG_HASH_BITS),
    );
    let help = "1 if the last reload succeeded, 0 if it was rejected.";
    text.single("millstream_config_reload_success", "gauge", help, u8::from(!config.is_refused()));
}

/// Appends the resource usage of the process.
fn process_figures(text: &mut Text<'_>, process: &ProcessStats) {
    if let Some(seconds) = process.cpu_seconds {
        let help = "CPU time of the process, user and system, in seconds.";
        text.single("millstream_process_cpu_seconds_total", "counter", help, Float(seconds));
    }
    if let Some(seconds) = process.start_time_seconds {
        let help = "Start of the process, in seconds since 1970.";
        text.single("millstream_process_start_time_seconds", "gauge", help, Float(seconds));
    }
    let counts = [
        (
            "resident_memory_bytes",
            "Resident memory of the process in bytes.",
            process.resident_memory_bytes,
        ),
        ("open_fds", "Open file descriptors.", process.open_fds),
        ("max_fds", "Maximum number of open file descriptors of the process.", process.max_fds),
        ("threads", "Threads of the process.", process.threads),
    ];
    for (name, help, count) in counts {
        if let Some(count) = count {
            text.single(&format!("millstream_process_{name}"), "gauge", help, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::InternalMetric;

    #[test]
    fn label_values_are_escaped() {
        let mut text = String::new();
        let labels = [("a", "x\"y\\z"), ("b", ""), ("c", "\n\r\u{1b}]\u{7}\u{9b}é")];
        Text::new(&mut text).sample("m", &labels, 1);
        let control = r"\\n\\r\\u{1b}]\\u{7}\\u{9b}é";
        assert_eq!(text, format!("m{{a=\"x\\\"y\\\\z\",b=\"\",c=\"{control}\"}} 1\n"));
    }

    #[test]
    fn floats_follow_the_exposition_format() {
        let cases = [
            (0.0, "0"),
            (0.25, "0.25"),
            (1e-9, "0.000000001"),
            (f64::INFINITY, "+Inf"),
            (f64::NAN, "NaN"),
        ];
        for (value, text) in cases {
            assert_eq!(Float(value).to_string(), text);
        }
    }

    #[test]
    fn single_metrics_equal_the_rendered_text() {
        let component =
            ComponentSnapshot { id: "in".into(), kind: "source", ..ComponentSnapshot::default() };
        let engine = Snapshot { components: vec![component], ..Snapshot::default() };
        let snapshot = AgentSnapshot::from(engine);
        let config = ConfigState::new(1);
        let text = prometheus(
            &snapshot,
            &Diagnosis::default(),
            &ProcessStats::default(),
            "1.2.3",
            &config,
        );
        let mut each = Vec::new();
        let mut put =
            |metric: &InternalMetric<'_>| each.push((metric.name.to_owned(), metric.labels.len()));
        write(&mut Text::calls(&mut put), &snapshot, &ProcessStats::default(), "1.2.3", &config);
        let shown = text.lines().filter(|line| !line.starts_with('#'));
        let shown: Vec<_> = shown
            .map(|line| {
                (line.split(['{', ' ']).next().unwrap().to_owned(), line.matches("=\"").count())
            })
            .collect();
        assert_eq!(each, shown);
        assert!(shown.len() > 5);
    }

    #[test]
    fn the_hash_is_shown_exactly() {
        let empty = Snapshot {
            worker_threads: 2,
            cpu_limit: None,
            uptime_seconds: 0.0,
            memory: MemorySnapshot::default(),
            components: Vec::new(),
            checkpoints: CheckpointSnapshot::default(),
        };
        let text = prometheus(
            &empty.into(),
            &Diagnosis::default(),
            &ProcessStats::default(),
            "1.2.3",
            &ConfigState::new(u64::MAX),
        );
        let line = text.lines().find(|line| line.starts_with("millstream_config_hash ")).unwrap();
        assert_eq!(line, "millstream_config_hash 281474976710655");
    }
}
