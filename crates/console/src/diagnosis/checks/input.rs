//! Checks of the source and of its input.

use super::Finding;
use super::delivery::cause_of;
use crate::diagnosis::cause::{Cause, Status};
use crate::diagnosis::tracks::FileTrack;
use crate::diagnosis::view::{Pair, View};

/// Time after which unread bytes are treated as an unfinished line, in seconds.
const UNFINISHED_SECONDS: f64 = 5.0;

/// Maximum time between the last write to a file and the read of all its complete lines, in
/// seconds.
const JUST_WRITTEN_SECONDS: f64 = 3.0;

/// Maximum length of an unfinished line in bytes. More unread bytes are lines that were not read
/// for another reason.
const UNFINISHED_BYTES_MAX: u64 = 1 << 20;

/// Wait causes of a source that come from configured limits.
const LIMITS: [&str; 3] = ["cpu", "rate_limit", "throttle"];

/// Time without an event after which a source is idle, in seconds.
const SILENT_SECONDS: f64 = 8.0;

/// Minimum number of assignments and revocations within half a minute that are treated as a loop. A
/// member that joins or leaves causes two, so the restart of a member causes four.
const REBALANCES: u64 = 6;

/// Minimum share of the limit at which held files are near the limit.
const NEAR: f64 = 0.7;

/// Delay of the newest timestamp in a growing file, in seconds, above which the timestamps are
/// reported.
const LATE_SECONDS: f64 = 60.0;

/// Time that the newest timestamp of a file may be in the future, in seconds, without being
/// reported.
const AHEAD_SECONDS: f64 = 5.0;

/// Time zone offsets are multiples of this number of seconds.
const ZONE_SECONDS: f64 = 1800.0;

/// Maximum difference, in seconds, between a delay and a multiple of [`ZONE_SECONDS`] at which a
/// wrong time zone is assumed.
const ZONE_TOLERANCE: f64 = 20.0;

/// Minimum number and minimum share of affected events at which they are reported.
const EVENTS: (u64, f64) = (5, 0.02);

/// Minimum number of lines over the limit at which they are reported.
const LONG_LINES: u64 = 3;

/// Finds paths that are missing or cannot be read.
pub fn unreadable(view: &View<'_>, found: &mut Vec<Finding>) {
    let source = view.source.now;
    if source.unreadable_error.is_some() {
        return;
    }
    for (path, reason) in &source.unreadable {
        let is_missing = reason.starts_with("no file");
        let has_wildcard = path.contains(['*', '?', '[', '{']);
        let cause = match (is_missing, has_wildcard) {
            (true, true) => Cause::PatternMatchesNothing,
            (true, false) => Cause::PathMissing,
            (false, _) if reason.to_lowercase().contains("permission denied") => {
                Cause::NoPermission
            }
            (false, _) => Cause::Unreadable,
        };
        let count = source.unreadable.len();
        let finding = Finding::new(cause, Status::Late, &source.id).with("path", path.clone());
        found.push(finding.with("reason", reason.clone()).with("unreadable_paths", count));
    }
}

/// Finds errors from a source that reads from a server.
pub fn source_errors(view: &View<'_>, found: &mut Vec<Finding>) {
    let source = view.source.now;
    let Some(kind) = source.unreadable_error else { return };
    let Some((name, reason)) = source.unreadable.iter().next() else { return };
    let finding = Finding::new(cause_of(kind), Status::Late, &source.id);
    found.push(finding.with("group", name.clone()).with("error", reason.clone()));
}

/// Finds a last line without a line ending.
pub fn unfinished_lines(view: &View<'_>, found: &mut Vec<Finding>) {
    let now = view.window.now.uptime_seconds;
    let is_held_back = LIMITS.iter().any(|limit| view.held_back(limit) > 0.05);
    if view.share_waited() > 0.05 || is_held_back {
        return;
    }
    let still = |file: &&&FileTrack| {
        // The unread rest of a rotated file may end in the middle of a line.
        let is_open = file.status == "active" && !file.is_moved;
        let is_line = (1..=UNFINISHED_BYTES_MAX).contains(&file.unread());
        // A file whose writer exited long ago is not reported.
        let is_written = file.grown.is_some_and(|at| file.still_since - at < JUST_WRITTEN_SECONDS);
        is_open && is_line && is_written && now - file.still_since >= UNFINISHED_SECONDS
    };
    let files: Vec<_> = view.files.iter().filter(still).collect();
    let Some(file) = files.iter().max_by_key(|file| file.unread()) else { return };
    let finding = Finding::new(Cause::UnfinishedLine, Status::Late, &view.source.now.id);
    let finding = finding.with("path", file.path.clone()).with("unfinished_bytes", file.unread());
    found.push(finding.with("files", files.len()).aged(now - file.still_since));
}

/// Finds a source that receives nothing.
pub fn silence(view: &View<'_>, found: &mut Vec<Finding>) {
    let is_silent = view.source.received() == 0 && view.window.seconds() >= SILENT_SECONDS;
    let (lag, _) = view.lag();
    let is_held_back = LIMITS.iter().any(|limit| view.held_back(limit) > 0.05);
    if !is_silent || lag > 0 || is_held_back || !view.source.now.unreadable.is_empty() {
        return;
    }
    let finding = Finding::new(Cause::NothingWritten, Status::Idle, &view.source.now.id);
    found.push(finding.with("files", view.files.len()).aged(view.window.seconds()));
}

/// Finds partitions that are assigned repeatedly.
pub fn rebalances(view: &View<'_>, found: &mut Vec<Finding>) {
    let rebalances = view.source.rebalances_lately();
    if rebalances >= REBALANCES {
        let finding = Finding::new(Cause::RebalanceLoop, Status::Late, &view.source.now.id);
        let seconds = view.window.history_seconds();
        found.push(finding.with("rebalances", rebalances).with_rounded("in_seconds", seconds));
    }
}

/// Finds messages that the kernel dropped.
pub fn kernel_drops(view: &View<'_>, found: &mut Vec<Finding>) {
    let dropped = view.source.dropped(&["kernel"]);
    if dropped > 0 {
        let finding = Finding::new(Cause::KernelDrops, Status::Degraded, &view.source.now.id);
        let finding = finding.with("dropped", dropped);
        found.push(finding.with("received_events", view.source.received()));
    }
}

/// Finds deleted files whose size is near the limit.
pub fn held_files(view: &View<'_>, found: &mut Vec<Finding>) {
    let Some(held) = view.source.now.counters.held else { return };
    let share = held.bytes as f64 / held.bytes_max.max(1) as f64;
    if held.files > 0 && share >= NEAR {
        let finding =
            Finding::new(Cause::HeldFilesNearLimit, Status::Degraded, &view.source.now.id);
        let finding = finding.with("files", held.files).with("bytes", held.bytes);
        found.push(finding.with("bytes_max", held.bytes_max).with_rounded("used_share", share));
    }
}

/// Finds timestamps in lines that are far from the time when the lines were written.
pub fn log_times(view: &View<'_>, found: &mut Vec<Finding>) {
    let now = view.window.now.uptime_seconds;
    // Lines that were written before the agent started to read have old timestamps.
    let is_fresh = |file: &&&FileTrack| {
        let grown = file.grown.is_some_and(|at| now - at < SILENT_SECONDS);
        grown && file.read_since.is_some_and(|at| now - at >= SILENT_SECONDS)
    };
    let delays = view.files.iter().filter(is_fresh);
    let delays: Vec<_> = delays.filter_map(|file| Some((file.log_delay_seconds?, file))).collect();
    let by_delay = |a: &&(f64, _), b: &&(f64, _)| a.0.total_cmp(&b.0);
    let finding = |cause, (delay, file): &(f64, &&FileTrack)| {
        let finding = Finding::new(cause, Status::Degraded, &view.source.now.id);
        finding.with("path", file.path.clone()).with_rounded("log_delay_seconds", *delay)
    };
    if let Some(ahead) = delays.iter().min_by(by_delay).filter(|(delay, _)| *delay < -AHEAD_SECONDS)
    {
        found.push(finding(Cause::ClockOff, ahead));
    }
    if let Some(late) = delays.iter().max_by(by_delay).filter(|(delay, _)| *delay > LATE_SECONDS) {
        let zones = (late.0 / ZONE_SECONDS).round();
        let is_zone = zones >= 1.0 && (late.0 - zones * ZONE_SECONDS).abs() < ZONE_TOLERANCE;
        found.push(match is_zone {
            true => finding(Cause::ClockOff, late).with("zone_offset_hours", zones / 2.0),
            false => finding(Cause::ApplicationWritesLate, late),
        });
    }
}

/// Notes of `parse` that are not failures.
const NO_FAILURES: &[&str] = &["duplicate_key"];

/// Returns whether the number and share of events are high enough to report.
fn is_much(events: u64, all: u64) -> bool {
    events >= EVENTS.0 && events as f64 >= EVENTS.1 * all as f64
}

/// Finds lines that `parse` cannot parse.
pub fn parsers(view: &View<'_>, found: &mut Vec<Finding>) {
    for parse in view.transforms().filter(|at| at.now.type_name == "parse") {
        let (failed, all) = (parse.noted_or_dropped_except(NO_FAILURES), parse.received());
        if is_much(failed, all) {
            let finding = Finding::new(Cause::ParseFailures, Status::Degraded, &parse.now.id);
            let finding = finding.with_last_error(parse.now);
            found.push(finding.with("failed", failed).with("received_events", all));
        }
    }
}

/// Finds bytes that are invalid in the encoding of the source. Sinks that write JSON keep a single
/// count across all their upstream sources.
pub fn encodings(view: &View<'_>, found: &mut Vec<Finding>) {
    let invalid = |sink: &&Pair<'_>| sink.noted(&["invalid_utf8"]);
    let is_wrong = |sink: &&Pair<'_>| is_much(invalid(sink), sink.received());
    let Some(sink) = view.sinks().filter(is_wrong).max_by_key(invalid) else { return };
    let is_shared = view.window.sources_before(&sink.now.id) > 1;
    let at = if is_shared { sink.now } else { view.source.now };
    let finding = Finding::new(Cause::WrongEncoding, Status::Degraded, &at.id);
    let finding = finding.with("events", invalid(&sink));
    found.push(finding.with("received_events", sink.received()));
}

/// Finds lines that are too long or out of order, or that cannot be the beginning of an event.
pub fn lines(view: &View<'_>, found: &mut Vec<Finding>) {
    let (source, all) = (&view.source, view.source.received());
    let mut push = |cause, events: u64| {
        let finding = Finding::new(cause, Status::Degraded, &source.now.id);
        found.push(finding.with("events", events).with("received_events", all));
    };
    let (now, before) = (source.now.totals.unwrap_or_default(), source.before.totals);
    let before = before.unwrap_or_default();
    let misfits = now.misfits.saturating_sub(before.misfits);
    if is_much(misfits, all) {
        push(Cause::MultilineMismatch, misfits);
    }
    let disorder = now.disorder.saturating_sub(before.disorder);
    if is_much(disorder, all) {
        push(Cause::TimesOutOfOrder, disorder);
    }
    let long = now.long_lines.saturating_sub(before.long_lines);
    if long >= LONG_LINES {
        push(Cause::LinesTooLong, long);
    }
}
