//! Checks of sinks, their disk buffers and the checkpoint store.

use super::Finding;
use crate::diagnosis::cause::{Cause, Status};
use crate::diagnosis::view::{Pair, View};

/// Minimum time between the first and the last failed attempt for an endpoint to be considered
/// failing, in seconds. After a shorter outage, a sink may only be waiting for its next attempt. A
/// pause is at most as long as the outage so far, so a lasting outage is detected after twice this
/// time. Two attempts that end after the default `connect_timeout` of 10 s are sufficient.
const FAILING_SECONDS: f64 = 10.0;

/// Minimum share of the window in which a source waits for a slow component.
const WAITS: f64 = 0.5;

/// Minimum share of the window in which a quota delays requests.
const DELAYED: f64 = 0.2;

/// Reasons and error types of events that an endpoint rejects.
pub const REFUSED: &[&str] = &["refused", "too_large"];

/// Error type of a sink that cannot listen.
pub const LISTEN: &str = "listen";

/// Causes, with the error types that indicate them.
const CAUSES: &[(Cause, &[&str])] = &[
    (
        Cause::LoginOrCertificate,
        &["authentication", "authorization", "proxy_authentication", "tls"],
    ),
    (Cause::TopicOrIndexMissing, &["unknown_topic", "not_found"]),
    (Cause::EndpointUnreachable, &["unreachable", "resolve", "broken", "address"]),
    (Cause::CannotListen, &[LISTEN]),
    (Cause::CannotWrite, &["disk_full", "permission", "write"]),
    (Cause::BrokerThrottles, &["throttled"]),
    (Cause::EndpointSlow, &["timeout"]),
    (Cause::EndpointRefuses, &["status", "redirect", "server", "broker"]),
];

/// Returns the cause that an error type indicates.
pub fn cause_of(kind: &str) -> Cause {
    let known = CAUSES.iter().find(|(_, kinds)| kinds.contains(&kind));
    known.map_or(Cause::EndpointRefuses, |(cause, _)| *cause)
}

/// Finds endpoints that fail.
pub fn failures(view: &View<'_>, found: &mut Vec<Finding>) {
    for sink in view.sinks().filter(|sink| view.waits_for_delivery(&sink.now.id)) {
        let failure = sink.now.failure.as_ref();
        if let Some(failure) = failure.filter(|failure| failure.span_seconds >= FAILING_SECONDS) {
            let finding = Finding::new(cause_of(failure.kind), Status::Late, &sink.now.id);
            let finding = finding.with("error", failure.message.clone());
            let finding = match failure.code {
                0 => finding,
                code => finding.with("code", code),
            };
            let finding = finding.with("attempts", failure.attempts);
            found.push(with_lag(view, finding).aged(failure.seconds));
            continue;
        }
        // A request that succeeds on the second attempt delays little.
        if sink.accepted() > 0 && !view.is_late() {
            continue;
        }
        for (cause, kinds) in CAUSES.iter().filter(|(_, kinds)| sink.has_lasting_errors(kinds)) {
            let finding = Finding::new(*cause, Status::Late, &sink.now.id);
            let finding = finding.with("errors", sink.errors(kinds));
            found.push(with_lag(view, finding));
        }
    }
}

/// Adds the lag of the source to a finding.
pub fn with_lag(view: &View<'_>, finding: Finding) -> Finding {
    let (lag, change) = view.lag();
    // The lag of a topic is in records. The lag of a file source, the most common kind, is in
    // bytes.
    let unit = if view.source.now.type_name == "kafka" { "records" } else { "bytes" };
    let finding = finding.with("lag", lag).with("lag_unit", unit);
    let finding = finding.with_rounded("lag_change_per_second", change);
    finding.with_rounded("oldest_seconds", view.oldest_seconds())
}

/// Finds endpoints that reject events. The source is late if the endpoint accepts no other events,
/// and degraded otherwise.
pub fn refusals(view: &View<'_>, found: &mut Vec<Finding>) {
    for sink in view.sinks().filter(|sink| sink.now.failure.is_none()) {
        let refused = sink.dropped(REFUSED).max(sink.errors(REFUSED));
        if refused > 0 {
            let status = if sink.accepted() > 0 { Status::Degraded } else { Status::Late };
            let finding = Finding::new(Cause::EndpointRefuses, status, &sink.now.id);
            let finding = finding.with_last_error(sink.now);
            let finding = finding.with("refused", refused);
            found.push(finding.with("delivered_events", sink.accepted()));
        }
    }
}

/// Finds brokers that delay requests to enforce a quota.
pub fn quotas(view: &View<'_>, found: &mut Vec<Finding>) {
    for at in view.sinks().chain([&view.source]) {
        let share = at.waited("broker_quota") / view.window.seconds();
        if share >= DELAYED {
            let finding = Finding::new(Cause::BrokerThrottles, Status::Late, &at.now.id);
            found.push(with_lag(view, finding.with_rounded("delayed_share", share)));
        }
    }
}

/// Finds sinks that accept less than the source reads, or accept it late.
pub fn slow_sinks(view: &View<'_>, found: &mut Vec<Finding>) {
    // A request that times out is also treated as slow.
    let is_other = |kind| cause_of(kind) != Cause::EndpointSlow;
    let is_named = |sink: &Pair<'_>| {
        let mut named = found.iter().filter(|finding| finding.component == sink.now.id);
        named.any(|finding| finding.cause == Cause::EndpointSlow)
    };
    let has_failed = |sink: &Pair<'_>| {
        sink.now.failure.as_ref().is_some_and(|failure| is_other(failure.kind))
            || sink.waited("broker_quota") > 0.0
            || sink.errors(&["throttled"]) > 0
    };
    let sinks: Vec<_> = view.sinks().filter(|sink| !has_failed(sink) && !is_named(sink)).collect();
    for sink in sinks {
        let share = view.share_waited_for(&sink.now.id);
        let is_full = share >= WAITS && view.is_late();
        if !is_full && !is_overdue(view, sink) {
            continue;
        }
        let finding = Finding::new(Cause::EndpointSlow, Status::Late, &sink.now.id);
        let endpoint = in_flight_share(view, sink);
        let rate = sink.accepted() as f64 / view.window.seconds();
        let finding = finding.with_rounded("source_waits_share", share);
        let finding = finding.with_rounded("in_flight_share", endpoint.min(1.0));
        found.push(with_lag(view, finding.with_rounded("delivered_events_per_second", rate)));
    }
}

/// Returns whether events have been waiting for a long time at an endpoint that is always busy with
/// requests, and are not being delayed by an upstream component.
fn is_overdue(view: &View<'_>, sink: &Pair<'_>) -> bool {
    let owes = sink.now.buffer_bytes.unwrap_or(0) > 0;
    let oldest = view.oldest_seconds_at(&sink.now.id);
    if !owes || oldest <= OVERDUE_SECONDS || in_flight_share(view, sink) < BUSY {
        return false;
    }
    // An endpoint that rejects events does respond.
    let has_answered = sink.accepted() > 0 || sink.dropped(REFUSED) > 0 || sink.errors(REFUSED) > 0;
    let waits_before = |at: &Pair<'_>| at.now.waiting_batches.unwrap_or(0) > 0;
    !has_answered || view.is_late() && !view.transforms().any(waits_before)
}

/// Returns the share of the window during which requests were unanswered.
fn in_flight_share(view: &View<'_>, sink: &Pair<'_>) -> f64 {
    sink.waited("endpoint") / view.window.seconds()
}

/// Minimum age of the oldest event, in seconds, at which a busy endpoint is treated as slow.
const OVERDUE_SECONDS: f64 = 10.0;

/// Minimum share of the window in which an always busy endpoint has requests in flight. It is below
/// 1, because there may be a moment between two requests.
const BUSY: f64 = 0.8;

/// Minimum age of a disk buffer's oldest entry, in seconds, at which the buffer is considered in
/// prolonged use.
const BUFFERED_SECONDS: f64 = 8.0;

/// A disk buffer that will be full within this time, in seconds, deserves a warning: a day.
const FULL_IN_SECONDS: f64 = 86_400.0;

/// Minimum share of a limit that is treated as near the limit.
const NEAR: f64 = 0.7;

/// Finds disk buffers that fill up.
pub fn disk_buffers(view: &View<'_>, found: &mut Vec<Finding>) {
    for sink in view.sinks() {
        let Some(buffer) = &sink.now.disk_buffer else { continue };
        let is_filling = buffer.full_in_seconds.is_some_and(|seconds| seconds < FULL_IN_SECONDS);
        let share = buffer.bytes as f64 / buffer.bytes_max.max(1) as f64;
        let is_in_use = buffer.oldest_seconds >= BUFFERED_SECONDS;
        if !is_in_use || !is_filling && share < NEAR {
            continue;
        }
        let finding = Finding::new(Cause::DiskBufferFilling, Status::Degraded, &sink.now.id);
        let finding = finding.with("bytes", buffer.bytes).with("bytes_max", buffer.bytes_max);
        let finding = finding.with("events", buffer.events).with_rounded("used_share", share);
        found.push(match buffer.full_in_seconds {
            Some(seconds) => finding.with_rounded("full_in_seconds", seconds),
            None => finding,
        });
    }
}

/// Minimum age of an unsaved checkpoint that shows that the store cannot keep up, in seconds.
const UNSAVED_SECONDS: f64 = 10.0;

/// Finds a checkpoint store that cannot write or that falls behind.
pub fn checkpoints(view: &View<'_>, found: &mut Vec<Finding>) {
    let store = &view.window.now.checkpoints;
    if store.error.is_none() && store.age_seconds < UNSAVED_SECONDS {
        return;
    }
    let finding = Finding::new(Cause::CheckpointStore, Status::Degraded, &view.source.now.id);
    let finding = finding.with_rounded("unsaved_seconds", store.age_seconds);
    found.push(match &store.error {
        Some(error) => finding.with("error", error.clone()),
        None => finding,
    });
}
