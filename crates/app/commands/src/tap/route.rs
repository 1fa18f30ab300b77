//! Formats the path of an event as a line: the steps of its trace, each with its time.

use super::escape::{push_json, push_text};
use super::place::names;
use super::view::{Shown, View};
use millstream_config::Config;
use millstream_console::TapFormat;
use millstream_model::trace::{DeliveryStage, Progress, Rows, Stage, StageKind, Trace};
use millstream_model::{EventSample, Outcome, TIME_UNKNOWN};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Shorter waits are not shown, because every batch waits for a few microseconds.
const WAIT_SHOWN: Duration = Duration::from_micros(100);

/// Note on a component that did not receive an event together with this batch.
const SKIPPED: &str = "read for this component at another time because it has no capacity now or \
                       already has the event";

/// The connections between the components of a configuration, to explain what an event waits for.
pub struct Route {
    /// Ids of the inputs of each component.
    inputs: HashMap<String, Vec<String>>,
    /// Outputs of each component, in the order of their indexes.
    outputs: HashMap<String, Vec<RouteOutput>>,
}

/// An output of a component.
struct RouteOutput {
    name: String,
    readers: Vec<String>,
}

/// The information that a tap shows about a trace.
#[derive(Default)]
pub struct Followed {
    /// Number of examined events that passed the tap point.
    pub passed: u64,
    /// Line or lines of the first selected event.
    pub line: Option<Vec<u8>>,
    /// Reason why the condition has no result.
    pub warning: Option<String>,
}

/// A step of the path.
struct Step {
    component: String,
    what: &'static str,
    /// Time that the step took, or has taken so far.
    time: Duration,
    /// Note about the step.
    note: String,
}

impl Route {
    /// Reads a configuration.
    pub fn new(config: &Config) -> Route {
        let id_of = |input: &String| input.split('.').next().unwrap_or(input).to_owned();
        let components = &config.components;
        let output = |name: String| {
            let readers = components.iter().filter(|c| c.inputs.contains(&name));
            let readers = readers.map(|c| c.id.clone()).collect();
            RouteOutput { name, readers }
        };
        Route {
            inputs: components
                .iter()
                .map(|c| (c.id.clone(), c.inputs.iter().map(id_of).collect()))
                .collect(),
            outputs: components
                .iter()
                .map(|c| (c.id.clone(), names(c).into_iter().map(output).collect()))
                .collect(),
        }
    }

    /// Returns whether the path is complete for the traced events that were at the tap point. Other
    /// events of the batch may still be in progress.
    pub fn is_done(&self, trace: &Trace) -> bool {
        trace.read(|progress| {
            let sampled = progress.sampled();
            !sampled.is_empty()
                && sampled.and(self.open(&trace.source, &progress.stages)).is_empty()
        })
    }

    /// Returns the events that are in progress, as far as known.
    fn open(&self, source: &str, stages: &[Stage]) -> Rows {
        let mut open = self.owed(source, 0, Rows::ALL, stages);
        for stage in stages {
            match &stage.kind {
                StageKind::Transform => {
                    let owed = stage
                        .outputs
                        .iter()
                        .map(|(output, rows)| self.owed(&stage.component, *output, *rows, stages));
                    open = owed.fold(open, Rows::or);
                }
                StageKind::Delivery(delivery)
                    if delivery.settled.is_none() && !delivery.is_buffered =>
                {
                    open = open.or(stage.input);
                }
                StageKind::Delivery(_) | StageKind::Skipped | StageKind::NotSent => {}
            }
        }
        open
    }

    /// Returns the events that left through an output but have not reached all of its readers.
    fn owed(&self, component: &str, output: usize, left: Rows, stages: &[Stage]) -> Rows {
        let outputs = self.outputs.get(component);
        let readers = outputs.and_then(|outputs| outputs.get(output)).map(|found| &found.readers);
        let missing = readers.into_iter().flatten().map(|reader| {
            let entered = stages.iter().filter(|stage| *stage.component == **reader);
            entered.fold(left, |missing, stage| missing.without(stage.input))
        });
        missing.fold(Rows::default(), Rows::or)
    }

    /// Returns the line, or lines, of the first event in a trace that the view selects.
    ///
    /// # Errors
    ///
    /// Returns an error if the event cannot be redacted or encoded.
    pub fn line(
        &self,
        trace: &Arc<Trace>,
        view: &mut View,
        format: TapFormat,
    ) -> Result<Followed, String> {
        let is_over = Arc::strong_count(trace) == 1;
        let Progress { stages, sample, .. } = trace.end();
        // No event reached the point.
        let Some((sample, events)) = sample else { return Ok(Followed::default()) };
        let (passed, times) = (sample.batch.events() as u64, event_times(&sample));
        let (row, Shown { lines, warning, .. }) = view.first(sample)?;
        let Some(row) = row else { return Ok(Followed { passed, line: None, warning }) };
        let event = events[row];
        let is_complete = is_over || !self.open(&trace.source, &stages).contains(event);
        let of_event: Vec<&Stage> = stages.iter().filter(|s| s.input.contains(event)).collect();
        let steps = self.steps(trace, &of_event, event, times[row]);
        let total = total(trace, &of_event, is_complete);
        let line = match format {
            TapFormat::Json => json_line(trace, &lines, &steps, total, is_complete),
            TapFormat::Text => text_lines(&lines, &steps, total, is_complete),
        };
        Ok(Followed { passed, line: Some(line), warning })
    }

    /// Returns the steps of an event.
    fn steps(
        &self,
        trace: &Trace,
        of_event: &[&Stage],
        event: usize,
        time: Option<i64>,
    ) -> Vec<Step> {
        let mut steps = source_steps(trace, time);
        for (index, stage) in of_event.iter().enumerate() {
            let before = self.before(stage, &of_event[..index], event);
            let wait = stage.times.0.saturating_sub(before);
            if wait >= WAIT_SHOWN && !matches!(stage.kind, StageKind::Skipped) {
                steps.push(step(&stage.component, "wait", wait, String::new()));
            }
            let time = stage.times.1.saturating_sub(stage.times.0);
            let step = |what, note| step(&stage.component, what, time, note);
            match &stage.kind {
                StageKind::Transform => steps.push(step("run", self.left(stage, event))),
                StageKind::Skipped => steps.push(step("skip", SKIPPED.to_owned())),
                StageKind::NotSent => steps.push(step("encode", "nothing to send".to_owned())),
                StageKind::Delivery(delivery) => {
                    steps.push(step("encode", String::new()));
                    steps.extend(delivery_steps(trace, stage, delivery));
                }
            }
        }
        steps
    }

    /// Returns the time when the event left the component before a stage; the start of the trace if
    /// that is the source.
    fn before(&self, stage: &Stage, earlier: &[&Stage], event: usize) -> Duration {
        let inputs = self.inputs.get(&*stage.component);
        let is_input = |before: &&&Stage| {
            inputs.is_some_and(|inputs| inputs.iter().any(|id| *id == *before.component))
                && before.outputs.iter().any(|(_, rows)| rows.contains(event))
        };
        earlier.iter().rev().find(is_input).map_or(Duration::ZERO, |before| before.times.1)
    }

    /// Describes the outputs through which an event left a transform, unless it left through the
    /// main output to a reader.
    fn left(&self, stage: &Stage, event: usize) -> String {
        let by = stage.outputs.iter().filter(|(_, rows)| rows.contains(event));
        let mut notes = Vec::new();
        let mut is_left = false;
        for (output, _) in by {
            is_left = true;
            let outputs = self.outputs.get(&*stage.component);
            match outputs.and_then(|outputs| outputs.get(*output)) {
                Some(RouteOutput { name, readers }) if readers.is_empty() => {
                    notes.push(format!("to {name}, which no component reads"));
                }
                Some(RouteOutput { name, .. }) if *output > 0 => notes.push(format!("to {name}")),
                _ => {}
            }
        }
        if is_left { notes.join(", ") } else { "ends here".to_owned() }
    }
}

fn step(component: &str, what: &'static str, time: Duration, note: String) -> Step {
    Step { component: component.to_owned(), what, time, note }
}

/// Returns the event times in a sample, in nanoseconds since 1970, where they are known.
fn event_times(sample: &EventSample) -> Vec<Option<i64>> {
    let time = |row: usize| {
        let time = sample.batch.time.as_ref().map(|time| time[row]);
        time.filter(|time| *time != TIME_UNKNOWN)
    };
    (0..sample.batch.rows()).map(time).collect()
}

/// Returns the steps before the first transform.
fn source_steps(trace: &Trace, time: Option<i64>) -> Vec<Step> {
    let between = |from: i64, to: i64| Duration::from_nanos(to.saturating_sub(from).max(0) as u64);
    let lag = time.map(|time| between(time, trace.read_ns));
    let lag = lag.map(|lag| step(&trace.source, "lag", lag, "since the event's time".to_owned()));
    let read = between(trace.read_ns, trace.begun_ns);
    let note = format!("in a batch of {}", trace.events);
    lag.into_iter().chain([step(&trace.source, "read", read, note)]).collect()
}

/// Returns the steps of an encoded event.
fn delivery_steps(trace: &Trace, stage: &Stage, delivery: &DeliveryStage) -> Vec<Step> {
    let now = trace.age();
    let encoded = stage.times.1;
    let settled = delivery.settled.map(|(at, _)| at);
    let queued_until = delivery.sent.or(settled).unwrap_or(now);
    let mut steps = Vec::new();
    let queued = queued_until.saturating_sub(encoded);
    let mut last = match delivery.sent {
        None => step(&stage.component, "queue", queued, String::new()),
        Some(sent) => {
            steps.push(step(&stage.component, "queue", queued, String::new()));
            let time = settled.unwrap_or(now).saturating_sub(sent);
            step(&stage.component, "send", time, String::new())
        }
    };
    last.note = delivery_note(delivery);
    steps.push(last);
    steps
}

fn delivery_note(delivery: &DeliveryStage) -> String {
    let mut note = match delivery.settled {
        _ if delivery.is_buffered => "in the disk buffer",
        Some((_, Outcome::Delivered)) => "delivered",
        Some((_, Outcome::Rejected)) => "rejected",
        Some((_, Outcome::Returned)) => "returned, will be reread",
        Some((_, Outcome::Abandoned)) => "abandoned, will be reread",
        None => "not settled yet",
    }
    .to_owned();
    match delivery.refused {
        0 => {}
        1 => note += "; the endpoint rejected an event in the batch",
        events => note += &format!("; the endpoint rejected {events} events in the batch"),
    }
    match delivery.failures {
        0 => {}
        1 => note += "; a failed attempt",
        attempts => note += &format!("; {attempts} failed attempts"),
    }
    delivery.error.iter().for_each(|error| note += &format!("; last error: {error}"));
    note
}

/// Returns the time from the read to the last settlement, or to now.
fn total(trace: &Trace, of_event: &[&Stage], is_complete: bool) -> Duration {
    let read = (trace.begun_ns - trace.read_ns).max(0) as u64;
    let end = |stage: &&Stage| match &stage.kind {
        StageKind::Delivery(DeliveryStage { settled: Some((at, _)), .. }) => *at,
        _ => stage.times.1,
    };
    let ended = of_event.iter().map(end).max().unwrap_or_default();
    Duration::from_nanos(read) + if is_complete { ended } else { trace.age() }
}

/// Returns a time in seconds, to the microsecond.
fn seconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e6
}

fn json_line(
    trace: &Trace,
    event: &[u8],
    steps: &[Step],
    total: Duration,
    is_complete: bool,
) -> Vec<u8> {
    let step = |step: &Step| {
        let Step { component, what, time, note } = step;
        let mut json = json!({ "component": component, "step": what, "seconds": seconds(*time) });
        if !note.is_empty() {
            json["note"] = Value::from(note.as_str());
        }
        json
    };
    let steps: Vec<Value> = steps.iter().map(step).collect();
    let (source, total) = (&*trace.source, seconds(total));
    let head = json!({
        "source": source, "total_seconds": total, "complete": is_complete, "steps": steps
    });
    let mut text = head.to_string().into_bytes();
    text.pop();
    text.extend_from_slice(b",\"event\":");
    text.extend_from_slice(event.strip_suffix(b"\n").unwrap_or(event));
    text.push(b'}');
    let mut line = Vec::with_capacity(text.len() + 1);
    push_json(&text, &mut line);
    line.push(b'\n');
    line
}

fn text_lines(event: &[u8], steps: &[Step], total: Duration, is_complete: bool) -> Vec<u8> {
    let mut lines = event.to_vec();
    let width = steps.iter().map(|step| step.component.len()).max().unwrap_or(0).max(5);
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    for Step { component, what, time, note } in steps {
        let time = milliseconds(*time);
        let line = format!("  {component:width$}  {what:6} {time:12.3} ms  {note}");
        push_text(line.trim_end().as_bytes(), 0, &mut lines);
        lines.push(b'\n');
    }
    let total = milliseconds(total);
    let until_now = if is_complete { "" } else { "  so far" };
    let line = format!("  {:width$}  {:6} {total:12.3} ms{until_now}\n", "total", "");
    lines.extend_from_slice(line.as_bytes());
    lines
}

#[cfg(test)]
mod tests;
