//! The way of an event as a line: the steps of its trace, each with its time.

use super::escape::{push_json, push_text};
use super::place::names;
use super::view::{Shown, View};
use crate::config::Config;
use millstream_console::TapFormat;
use millstream_model::trace::{DeliveryStage, Stage, Trace};
use millstream_model::{EventSample, Outcome, TIME_UNKNOWN};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Shorter waits are not shown: every batch waits for some microseconds.
const WAIT_SHOWN: Duration = Duration::from_micros(100);

/// The components of a configuration, as far as they say what an event waits for.
pub struct Route {
    /// The ids of what each component reads.
    inputs: HashMap<String, Vec<String>>,
    /// The names of the outputs of each component, and whether a component reads them.
    outputs: HashMap<String, Vec<(String, bool)>>,
}

/// A part of the way.
struct Step {
    component: String,
    what: &'static str,
    /// How long it took, or takes.
    time: Duration,
    /// What is to be said about it.
    note: String,
}

impl Route {
    /// Reads a configuration.
    pub fn new(config: &Config) -> Route {
        let read: HashSet<&str> =
            config.components.iter().flat_map(|c| &c.inputs).map(String::as_str).collect();
        let with_read = |name: String| {
            let is_read = read.contains(&*name);
            (name, is_read)
        };
        let id_of = |input: &String| input.split('.').next().unwrap_or(input).to_owned();
        let components = &config.components;
        Route {
            inputs: components
                .iter()
                .map(|c| (c.id.clone(), c.inputs.iter().map(id_of).collect()))
                .collect(),
            outputs: components
                .iter()
                .map(|c| (c.id.clone(), names(c).into_iter().map(with_read).collect()))
                .collect(),
        }
    }

    /// Returns the line, or lines, of the first event of a trace that the view selects.
    ///
    /// # Errors
    ///
    /// The event cannot be redacted or encoded.
    pub fn line(
        &self,
        trace: &Arc<Trace>,
        view: &mut View,
        format: TapFormat,
    ) -> Result<(Option<Vec<u8>>, Option<String>), String> {
        // None of the events came to the point.
        let Some((sample, events)) = trace.take_sample() else { return Ok((None, None)) };
        let times = event_times(&sample);
        let (row, Shown { lines, warning, .. }) = view.first(sample)?;
        let Some(row) = row else { return Ok((None, warning)) };
        let is_complete = Arc::strong_count(trace) == 1;
        let steps = self.steps((trace, is_complete), events[row], times[row]);
        let total = total(trace, is_complete);
        let line = match format {
            TapFormat::Json => json_line(trace, &lines, &steps, (total, is_complete)),
            TapFormat::Text => text_lines(&lines, &steps, (total, is_complete)),
        };
        Ok((Some(line), warning))
    }

    /// Returns the steps of an event.
    fn steps(
        &self,
        (trace, is_complete): (&Trace, bool),
        event: usize,
        time: Option<i64>,
    ) -> Vec<Step> {
        let stages = trace.stages();
        let of_event: Vec<&Stage> = stages.iter().filter(|s| s.input.contains(event)).collect();
        let mut steps = source_steps(trace, time);
        for (index, stage) in of_event.iter().enumerate() {
            let before = self.before(stage, &of_event[..index], event);
            let wait = stage.times.0.saturating_sub(before);
            if wait >= WAIT_SHOWN {
                steps.push(step(&stage.component, "wait", wait, String::new()));
            }
            let time = stage.times.1.saturating_sub(stage.times.0);
            match &stage.delivery {
                None => steps.push(step(&stage.component, "run", time, self.left(stage, event))),
                // The encoder made nothing of it: there is nothing to settle.
                Some(delivery) if is_complete && delivery.settled.is_none() => {
                    let note = "nothing to send".to_owned();
                    steps.push(step(&stage.component, "encode", time, note));
                }
                Some(delivery) => {
                    steps.push(step(&stage.component, "encode", time, String::new()));
                    steps.extend(delivery_steps(trace, stage, delivery));
                }
            }
        }
        steps
    }

    /// Returns when the event left the component before a stage; the beginning if that is the source.
    fn before(&self, stage: &Stage, earlier: &[&Stage], event: usize) -> Duration {
        let inputs = self.inputs.get(&*stage.component);
        let is_input = |before: &&&Stage| {
            inputs.is_some_and(|inputs| inputs.iter().any(|id| *id == *before.component))
                && before.outputs.iter().any(|(_, rows)| rows.contains(event))
        };
        earlier.iter().rev().find(is_input).map_or(Duration::ZERO, |before| before.times.1)
    }

    /// Says by which outputs an event left a transform, unless by the main one, to a reader.
    fn left(&self, stage: &Stage, event: usize) -> String {
        let by = stage.outputs.iter().filter(|(_, rows)| rows.contains(event));
        let mut notes = Vec::new();
        let mut is_left = false;
        for (output, _) in by {
            is_left = true;
            let outputs = self.outputs.get(&*stage.component);
            match outputs.and_then(|outputs| outputs.get(*output)) {
                Some((name, false)) => notes.push(format!("to {name}, which no component reads")),
                Some((name, true)) if *output > 0 => notes.push(format!("to {name}")),
                _ => {}
            }
        }
        if is_left { notes.join(", ") } else { "ends here".to_owned() }
    }
}

fn step(component: &str, what: &'static str, time: Duration, note: String) -> Step {
    Step { component: component.to_owned(), what, time, note }
}

/// Returns the times of the events of a sample, in nanoseconds since 1970, where they are known.
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
    let lag = lag.map(|lag| step(&trace.source, "lag", lag, "from its own time".to_owned()));
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
        Some((_, Outcome::Returned)) => "returned, to be read again",
        Some((_, Outcome::Abandoned)) => "abandoned, to be read again",
        None => "not settled yet",
    }
    .to_owned();
    if delivery.refused > 0 {
        note += &format!("; the endpoint refused {} events of the batch", delivery.refused);
    }
    if delivery.failures > 0 {
        note += &format!("; {} failed attempts", delivery.failures);
    }
    delivery.error.iter().for_each(|error| note += &format!("; the last error: {error}"));
    note
}

/// Returns the time from the reading to the last settlement, or to now.
fn total(trace: &Trace, is_complete: bool) -> Duration {
    let read = (trace.begun_ns - trace.read_ns).max(0) as u64;
    let end = |stage: &Stage| {
        let settled = stage.delivery.as_ref().and_then(|delivery| delivery.settled);
        settled.map_or(stage.times.1, |(at, _)| at)
    };
    let ended = trace.stages().iter().map(end).max().unwrap_or_default();
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
    (total, is_complete): (Duration, bool),
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

fn text_lines(event: &[u8], steps: &[Step], (total, is_complete): (Duration, bool)) -> Vec<u8> {
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
