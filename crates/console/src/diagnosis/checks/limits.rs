//! Checks of limits and transforms between the source and its sinks.

use super::Finding;
use super::delivery::with_lag;
use crate::diagnosis::cause::{Cause, Status};
use crate::diagnosis::view::{Pair, View};
use millstream_model::snapshot::WAITS_FOR_MEMORY;

/// Minimum share of the window in which a limit delays a source.
const HELD_BACK: f64 = 0.2;

/// Minimum share of the window in which a limit delays a source that is also late for another
/// reason.
const MAINLY: f64 = 0.5;

/// Minimum share of the last half minute, and minimum length of a pause in seconds, at which pauses
/// are reported although the source is not late. A paused source does not see data that is written
/// during the pause, so it has no lag.
const LONG_PAUSES: (f64, f64) = (0.4, 5.0);

/// Minimum share of the window in which a source waits for a slow component.
const WAITS: f64 = 0.5;

/// Minimum busy share of the workers' time at which the workers are considered busy.
const BUSY: f64 = 0.75;

/// Minimum share of the workers' busy time at which a transform is reported.
const MOST: f64 = 0.4;

/// Time, in seconds, after which a transform that is full and makes no progress is treated as
/// stuck.
const STUCK_SECONDS: f64 = 8.0;

/// Notes and error types of calls that took too long.
const OVERDUE: &[&str] = &["deadline", "timeout"];

/// Returns the number of events and calls that took too long.
fn overdue(at: &Pair<'_>) -> u64 {
    at.noted(OVERDUE) + at.dropped(OVERDUE) + at.errors(OVERDUE)
}

/// Finds operators whose calls do not return or take too long.
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

/// Finds a shortage of memory.
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

/// Finds the CPU limit as a cause.
pub fn cpu(view: &View<'_>, found: &mut Vec<Finding>) {
    let share = view.source.waited("cpu") / view.window.seconds();
    if share < HELD_BACK || !view.is_late() {
        return;
    }
    let finding = Finding::new(Cause::CpuLimit, Status::Late, &view.source.now.id);
    let finding = finding.with("cores", view.window.now.cpu_limit.unwrap_or_default());
    found.push(with_lag(view, finding.with_rounded("held_back_share", share)));
}

/// Finds rate limits in the source and in a downstream `throttle` transform. While the source
/// catches up after a slow or failing sink, the sink is the cause.
pub fn rates(view: &View<'_>, found: &mut Vec<Finding>) {
    let is_delayed = found.iter().any(|finding| finding.status == Status::Late);
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
        let is_paused =
            present.is_some_and(|wait_now| wait_now.limit == wait && wait_now.seconds > 1.0);
        let gets_nothing = is_paused && view.source.received() == 0;
        if !(view.is_late() || gets_nothing || has_long) {
            continue;
        }
        let finding = Finding::new(Cause::RateLimit, Status::Late, component);
        let finding = finding.with_rounded("longest_pause_seconds", pause);
        let finding = finding.with_rounded("held_back_share", share);
        // A paused source has not looked at its files since the pause began, so its lag is unknown.
        found.push(if is_paused { finding } else { with_lag(view, finding) });
    }
}

/// Finds transforms whose capacity the source is waiting for, and transforms that take most of the
/// time of busy workers.
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

/// Finds workers, or the one worker that reads the source, that are busy only because there is much
/// to read and encode.
pub fn workers(view: &View<'_>, found: &mut Vec<Finding>) {
    let is_explained = found.iter().any(|finding| finding.status == Status::Late);
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
