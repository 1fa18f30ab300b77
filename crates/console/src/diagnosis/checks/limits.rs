//! Causes between the source and its sinks: limits, transforms, operators.

use super::Finding;
use super::delivery::with_lag;
use crate::diagnosis::cause::{Cause, Status};
use crate::diagnosis::view::{Pair, View};
use millstream_model::snapshot::WAITS_FOR_MEMORY;

/// Share of the window that a source is held back by a limit.
const HELD_BACK: f64 = 0.2;

/// The same if the source is late for another reason.
const MAINLY: f64 = 0.5;

/// Share of the last half minute, and length of a pause in seconds, from which a low limit delays
/// events, although a source that pauses does not see what is written meanwhile, and has no lag.
const LONG_PAUSES: (f64, f64) = (0.4, 5.0);

/// Share of the window in which a source waits for a slow component.
const WAITS: f64 = 0.5;

/// Share of the time of all workers from which they count as busy.
const BUSY: f64 = 0.75;

/// Share of the busy time that the most expensive transform has.
const MOST: f64 = 0.4;

/// Seconds without capacity and without progress after which a transform is stuck.
const STUCK_SECONDS: f64 = 8.0;

/// Notes and errors of calls that took too long.
const OVERDUE: &[&str] = &["deadline", "timeout"];

/// Returns the events and calls that took too long.
fn overdue(at: &Pair<'_>) -> u64 {
    at.noted(OVERDUE) + at.dropped(OVERDUE) + at.errors(OVERDUE)
}

/// Operators whose calls do not return.
pub fn operators(view: &View<'_>, found: &mut Vec<Finding>) {
    for at in view.transforms() {
        let hanging = at.now.hanging_calls.unwrap_or(0);
        let waiting = at.now.waiting_batches.unwrap_or(0);
        let full = at.now.full_seconds.unwrap_or(0.0);
        let is_still = waiting > 0 && full >= STUCK_SECONDS && at.sent() == 0;
        let overdue = overdue(at);
        if hanging == 0 && !is_still && overdue == 0 {
            continue;
        }
        let finding = Finding::new(Cause::OperatorStuck, Status::Late, &at.now.id);
        let finding = finding.with("hanging_calls", hanging).with("waiting_batches", waiting);
        found.push(with_lag(view, finding.with("overdue_events", overdue)).aged(full));
    }
}

/// Memory that is short.
pub fn memory(view: &View<'_>, found: &mut Vec<Finding>) {
    let memory = &view.window.now.memory;
    let share = view.share_waited_for(WAITS_FOR_MEMORY);
    if memory.pressure != "high" && (share < WAITS || !view.is_late()) {
        return;
    }
    let finding = Finding::new(Cause::MemoryLimit, Status::Late, &view.source.now.id);
    let finding = finding.with("resident_bytes", memory.resident_bytes);
    let finding = finding.with("limit_bytes", memory.limit_bytes);
    found.push(with_lag(view, finding.with_rounded("source_waits_share", share)));
}

/// The CPU limit.
pub fn cpu(view: &View<'_>, found: &mut Vec<Finding>) {
    let share = view.source.waited("cpu") / view.window.seconds();
    if share < HELD_BACK || !view.is_late() {
        return;
    }
    let finding = Finding::new(Cause::CpuLimit, Status::Late, &view.source.now.id);
    let finding = finding.with("cores", view.window.now.cpu_limit.unwrap_or_default());
    found.push(with_lag(view, finding.with_rounded("held_back_share", share)));
}

/// Rate limits of the source, and of a `throttle` transform behind it. While it catches up what a slow
/// or failing sink has delayed, that is the cause.
pub fn rates(view: &View<'_>, found: &mut Vec<Finding>) {
    let is_delayed = found.iter().any(|of| of.status == Status::Late);
    let least = if is_delayed { MAINLY } else { HELD_BACK };
    let throttle = view.transforms().find(|at| at.now.type_name == "throttle");
    let throttle = throttle.map_or("", |at| at.now.id.as_str());
    for (wait, component) in [("rate_limit", view.source.now.id.as_str()), ("throttle", throttle)] {
        let share = view.held_back(wait);
        if share < least {
            continue;
        }
        let pause = view.longest_pause(wait);
        let has_long = share >= LONG_PAUSES.0 && pause >= LONG_PAUSES.1;
        let present = view.source.now.held_back.as_ref();
        let is_paused = present.is_some_and(|of| of.limit == wait && of.seconds > 1.0);
        let gets_nothing = is_paused && view.source.received() == 0;
        if !(view.is_late() || gets_nothing || has_long) {
            continue;
        }
        let finding = Finding::new(Cause::RateLimit, Status::Late, component);
        let finding = finding.with_rounded("longest_pause_seconds", pause);
        let finding = finding.with_rounded("held_back_share", share);
        // It has not looked at its files since the pause began.
        found.push(if is_paused { finding } else { with_lag(view, finding) });
    }
}

/// Transforms that take most of the time.
pub fn transforms(view: &View<'_>, found: &mut Vec<Finding>) {
    if !view.is_late() {
        return;
    }
    let window = view.window;
    let busy_share = window.workers_busy_share();
    for at in view.transforms() {
        let waited = view.share_waited_for(&at.now.id);
        let share = window.share_of_busy_time(at);
        let is_most = busy_share >= BUSY && share >= MOST && view.has_backlog();
        let is_stuck = at.now.hanging_calls.unwrap_or(0) > 0 || overdue(at) > 0;
        if waited < WAITS && !is_most || is_stuck {
            continue;
        }
        let finding = Finding::new(Cause::TransformSlow, Status::Late, &at.now.id);
        let finding = finding.with_rounded("workers_busy_share", busy_share);
        let finding = finding.with_rounded("source_waits_share", waited);
        found.push(with_lag(view, finding.with_rounded("share_of_busy_time", share)));
    }
}

/// Workers that are busy, or the one that reads the source, for no other reason than how much there
/// is to read and encode.
pub fn workers(view: &View<'_>, found: &mut Vec<Finding>) {
    let is_explained = found.iter().any(|of| of.status == Status::Late);
    if is_explained || !view.has_backlog() {
        return;
    }
    let window = view.window;
    let busy_share = window.workers_busy_share();
    let reading_share = view.source.worker_seconds() / window.seconds();
    let busiest = match reading_share >= BUSY {
        true => Some(view.source),
        false => window.busiest().filter(|_| busy_share >= BUSY),
    };
    let Some(busiest) = busiest else { return };
    let finding = Finding::new(Cause::WorkersBusy, Status::Late, &busiest.now.id);
    let finding = finding.with("worker_threads", window.now.worker_threads);
    let finding = finding.with_rounded("workers_busy_share", busy_share);
    let finding = finding.with_rounded("reading_share", reading_share.min(1.0));
    let share = window.share_of_busy_time(&busiest);
    found.push(with_lag(view, finding.with_rounded("share_of_busy_time", share)));
}
