//! The bottleneck: the component or limit that keeps the agent from reading faster.

use super::FEW_EVENTS;
use super::advice::{advice, all_refused};
use super::cause::Cause;
use super::checks::delivery::{REFUSED, cause_of};
use super::view::{Pair, Window};
use millstream_model::snapshot::ComponentSnapshot;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Minimum share of a source's time, or of the workers' time, that a component or limit must take
/// to be considered the bottleneck.
const LIMITS: f64 = 0.2;

/// Minimum busy share of the workers' time at which the workers are considered busy.
const BUSY: f64 = 0.75;

/// Length of a window in seconds that gives full confidence.
const SURE_SECONDS: f64 = 10.0;

/// Minimum share of the workers' busy time that a component must use to be named.
const MOST: f64 = 0.3;

/// The bottleneck of the agent.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Bottleneck {
    /// Id of the component; `None` if all input is read and delivered immediately.
    pub component: Option<String>,
    /// `source`, `transform` or `sink`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Cow<'static, str>>,
    /// `endpoint`, `disk_buffer`, `transform`, `source`, `encoding`, `cpu_limit`, `rate_limit`,
    /// `memory_limit`, `input`, or the id of a cause.
    pub reason: Cow<'static, str>,
    /// Confidence from 0 to 1: the share of the time with this bottleneck, reduced in the first
    /// seconds.
    pub confidence: f64,
    /// Measured numbers.
    pub numbers: Map<String, Value>,
    /// Advice for the operator.
    pub advice: String,
}

impl Bottleneck {
    /// Returns one line that describes the bottleneck.
    pub fn line(&self) -> String {
        let percent = (self.confidence * 100.0).round();
        match &self.component {
            Some(id) => {
                let kind = self.kind.as_deref().unwrap_or("component");
                format!("bottleneck: {kind} {id} ({}, {percent}%); {}", self.reason, self.advice)
            }
            None => "bottleneck: none, the input is delivered as it arrives".to_owned(),
        }
    }
}

/// Returns the bottleneck in a window.
pub fn bottleneck(window: &Window<'_>) -> Bottleneck {
    let others = [waited_for(window), held_back(window), busiest(window)];
    let most = others.into_iter().flatten().max_by(|a, b| a.share.total_cmp(&b.share));
    // A failing sink also makes its sources wait, and after the outage they read at full speed up
    // to their limits. So the failing sink is named unless another component takes a relevant
    // share.
    let explains = |failing: &Candidate<'_>| {
        most.as_ref().is_none_or(|most| {
            let is_it = most.component.id == failing.component.id;
            most.share < LIMITS || is_it || most.reason == "rate_limit"
        })
    };
    let likely = failing(window).or_else(|| refusing(window)).filter(explains).or(most);
    let Some(likely) = likely.filter(|likely| likely.share >= LIMITS) else {
        let (reason, confidence) = ("input".into(), certainty(window, 1.0));
        return Bottleneck { reason, confidence, ..Bottleneck::default() };
    };
    let Candidate { component, share, reason, numbers, advice } = likely;
    let confidence = certainty(window, share.min(1.0));
    let (id, kind) = (component.id.clone(), Some(component.kind.into()));
    let reason = reason.into();
    Bottleneck { component: Some(id), kind, reason, confidence, numbers, advice }
}

struct Candidate<'a> {
    component: &'a ComponentSnapshot,
    share: f64,
    reason: &'static str,
    numbers: Map<String, Value>,
    advice: String,
}

fn certainty(window: &Window<'_>, share: f64) -> f64 {
    (share * (window.seconds() / SURE_SECONDS).min(1.0) * 100.0).round() / 100.0
}

fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn numbers(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// Returns the sink that has been failing for the longest time, if events wait for it.
fn failing<'a>(window: &Window<'a>) -> Option<Candidate<'a>> {
    let has_failed = |at: &&'a ComponentSnapshot| {
        let waits = at.buffer_bytes.unwrap_or(0) > 0;
        waits && at.failure.as_ref().is_some_and(|failure| failure.attempts > 1)
    };
    let seconds =
        |at: &ComponentSnapshot| at.failure.as_ref().map_or(0.0, |failure| failure.seconds);
    let sinks = window.now.components.iter().filter(has_failed);
    let component = sinks.max_by(|a, b| seconds(a).total_cmp(&seconds(b)))?;
    failing_at(component, seconds(component) / window.seconds())
}

/// Returns a failing sink as a candidate that limited the rate for this share of the window.
fn failing_at(component: &ComponentSnapshot, share: f64) -> Option<Candidate<'_>> {
    let failure = component.failure.as_ref().filter(|failure| failure.attempts > 1)?;
    let share = share.min(1.0);
    let cause = cause_of(failure.kind);
    let numbers = numbers(json!({
        "error": failure.message,
        "attempts": failure.attempts,
        "failing_seconds": rounded(failure.seconds),
    }));
    let advice = advice(cause, &component.id, Some(component));
    Some(Candidate { component, share, reason: cause.id(), numbers, advice })
}

/// Returns the sink with the most rejected events, if its endpoint accepted none. A few rejected
/// events are not a bottleneck.
fn refusing<'a>(window: &Window<'a>) -> Option<Candidate<'a>> {
    let refused = |at: &Pair<'a>| at.dropped(REFUSED).max(at.errors(REFUSED));
    let sinks = window.pairs().filter(|at| at.now.kind == "sink" && at.accepted() == 0);
    let at = sinks.filter(|at| refused(at) >= FEW_EVENTS).max_by_key(refused)?;
    let numbers = numbers(json!({ "refused": refused(&at), "error": at.now.counters.last_error }));
    let (component, reason) = (at.now, Cause::EndpointRefuses.id());
    // The endpoint accepts no events, however fast it responds, so the sink limits the whole
    // window.
    let share = 1.0;
    Some(Candidate { component, share, reason, numbers, advice: all_refused(&component.id) })
}

/// Returns the sink or transform whose capacity a source waited for the longest. If the source
/// waited for memory instead, returns the source with the reason `memory_limit`.
fn waited_for<'a>(window: &Window<'a>) -> Option<Candidate<'a>> {
    let seconds = window.seconds();
    let waits = window.pairs().flat_map(|source| {
        let ids = source.now.capacity_wait_seconds.keys();
        ids.map(move |id| (source, id.as_str(), source.waited_for(id) / seconds))
    });
    let (source, id, share) = waits.max_by(|a, b| a.2.total_cmp(&b.2))?;
    let Some(at) = window.pair(id) else {
        let memory = &window.now.memory;
        let numbers = numbers(json!({
            "source_waits_share": rounded(share),
            "granted_bytes": memory.granted_bytes,
            "grant_limit_bytes": memory.grant_limit_bytes,
        }));
        let advice = "raise `limits.memory`".to_owned();
        let (component, reason) = (source.now, "memory_limit");
        return Some(Candidate { component, share, reason, numbers, advice });
    };
    if let Some(failing) = failing_at(at.now, share) {
        return Some(failing);
    }
    let (reason, advice) = match (at.now.kind, &at.now.disk_buffer) {
        ("sink", Some(_)) => ("disk_buffer", "a faster disk, or a larger disk buffer"),
        ("sink", None) => {
            ("endpoint", "a faster endpoint, larger batches, or more requests in flight")
        }
        _ => ("transform", "`millstream profile` shows its expensive parts"),
    };
    let numbers = numbers(json!({
        "source": source.now.id,
        "source_waits_share": rounded(share),
        "in_flight_share": rounded((at.waited("endpoint") / seconds).min(1.0)),
        "buffer_bytes": at.now.buffer_bytes,
        "events_per_second": rounded(at.received() as f64 / seconds),
    }));
    Some(Candidate { component: at.now, share, reason, numbers, advice: advice.to_owned() })
}

/// Returns the source that a configured limit delayed for the longest time.
fn held_back<'a>(window: &Window<'a>) -> Option<Candidate<'a>> {
    const LIMITS: [(&str, &str, &str); 3] = [
        ("cpu", "cpu_limit", "raise `limits.cpu`"),
        ("rate_limit", "rate_limit", "raise the `rate_limit` of the source"),
        ("throttle", "rate_limit", "raise `events` of the `throttle` transform"),
    ];
    let seconds = window.seconds();
    let waits = window.pairs().flat_map(|source| {
        LIMITS.map(|(wait, reason, advice)| (source, source.waited(wait) / seconds, reason, advice))
    });
    let (source, share, reason, advice) = waits.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let numbers = numbers(json!({ "held_back_share": rounded(share) }));
    Some(Candidate { component: source.now, share, reason, numbers, advice: advice.to_owned() })
}

/// Returns the component that used the most worker time, if that limits the rate: the workers are
/// busy and it used a large share of their time, or it is a source whose single worker is busy
/// most of the time.
fn busiest<'a>(window: &Window<'a>) -> Option<Candidate<'a>> {
    let workers_busy = window.workers_busy_share();
    let most = window.busiest()?;
    let share_of_busy = window.share_of_busy_time(&most);
    // A source is read by one worker at a time.
    let reading = match most.now.kind {
        "source" => (most.worker_seconds() / window.seconds()).min(1.0),
        _ => 0.0,
    };
    let is_serial = reading >= BUSY;
    if (workers_busy < BUSY || share_of_busy < MOST) && !is_serial {
        return None;
    }
    let numbers = numbers(json!({
        "workers_busy_share": rounded(workers_busy),
        "share_of_busy_time": rounded(share_of_busy),
        "events_per_second": rounded(most.received() as f64 / window.seconds()),
    }));
    let (reason, share) = match most.now.kind {
        "source" if is_serial => ("source", reading),
        "source" => ("source", workers_busy * share_of_busy),
        "sink" => ("encoding", workers_busy * share_of_busy),
        _ => ("transform", workers_busy * share_of_busy),
    };
    let advice = match is_serial && workers_busy < BUSY {
        true => "one thread reads a source, so divide its files among several sources",
        false => {
            "`millstream profile` shows its expensive parts; `limits.threads` gives it more cores"
        }
    };
    Some(Candidate { component: most.now, share, reason, numbers, advice: advice.to_owned() })
}
