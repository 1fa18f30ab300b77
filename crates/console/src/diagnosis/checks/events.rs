//! Checks of transforms that receive events they cannot process.

use super::Finding;
use crate::diagnosis::cause::{Cause, Status};
use crate::diagnosis::view::{Pair, View};

/// Minimum share and minimum number of failed events at which an operator is reported. An operator
/// may fail for a few odd events.
const FAILED: (f64, u64) = (0.2, 5);

/// Failure reasons of operators, except those of calls that take too long.
const FAILURES: &[&str] = &[
    "call_failed",
    "exception",
    "out_of_memory",
    "output_full",
    "process_ended",
    "stack_overflow",
    "wrong_type",
];

/// Notes for events on which a condition has no result. An event carries one of these notes.
const NO_RESULT: &[&str] = &["arithmetic_error", "missing_field", "step_limit", "type_error"];

/// Note of a route for events on which no condition has a result.
const NO_ROUTE: &[&str] = &["no_result"];

/// Minimum number of events, all without a result, before a condition is judged. In a mixed log,
/// only a few events may have the field.
const UNANSWERED: u64 = 100;

/// Finds operators that fail for many events.
pub fn operators(view: &View<'_>, found: &mut Vec<Finding>) {
    for at in view.transforms().filter(|at| at.now.type_name == "jvm") {
        let failed = |reason: &str| at.noted(&[reason]) + at.dropped(&[reason]);
        let all = at.received();
        let sum: u64 = FAILURES.iter().map(|reason| failed(reason)).sum();
        let share = sum as f64 / all.max(1) as f64;
        if sum < FAILED.1 || share < FAILED.0 {
            continue;
        }
        let most = FAILURES.iter().max_by_key(|reason| failed(reason)).copied();
        let finding = Finding::new(Cause::OperatorFails, Status::Degraded, &at.now.id);
        let finding = finding.with_last_error(at.now).with("reason", most).with("failed", sum);
        found.push(
            finding.with("received_events", all).with_rounded("failed_share", share.min(1.0)),
        );
    }
}

/// Finds conditions that have no result for any event, such as a condition with a misspelled field.
pub fn conditions(view: &View<'_>, found: &mut Vec<Finding>) {
    for at in view.transforms() {
        let notes = match at.now.type_name {
            "filter" | "jvm" => NO_RESULT,
            "route" => NO_ROUTE,
            _ => continue,
        };
        let (without, all) = (at.noted(notes), at.received());
        if all == 0 || without < all || !is_judged(at, notes) {
            continue;
        }
        let finding = Finding::new(Cause::ConditionHasNoResult, Status::Degraded, &at.now.id);
        let most = NO_RESULT.iter().max_by_key(|note| at.noted(&[note])).copied();
        let finding = finding.with("reason", most).with("events", without);
        found.push(finding.with("received_events", all));
    }
}

/// Returns whether enough events were received to judge a condition without results: in the window,
/// or since the start if none has ever had a result.
fn is_judged(at: &Pair<'_>, notes: &[&str]) -> bool {
    let counters = &at.now.counters;
    let noted = notes.iter().filter_map(|note| counters.noted_events.get(note)).sum::<u64>();
    let is_never = noted >= counters.received_events && noted >= UNANSWERED;
    is_never || at.received() >= UNANSWERED
}
