//! Diagnoses: why the events of a source are late, lost or wrong, and what limits the rate.
//!
//! About once a second, a task takes a snapshot and compares it with the previous ones. A condition
//! that persists for a few seconds is reported as a cause, with the measured numbers.

mod advice;
mod bottleneck;
mod cause;
mod checks;
mod observe;
#[cfg(test)]
mod tests;
mod tracks;
mod view;

pub use bottleneck::Bottleneck;
pub use cause::{Cause, Status};
pub use checks::delivery::LISTEN;
pub use observe::DiagnosisState;

use checks::Finding;
use millstream_model::snapshot::Snapshot;
use millstream_timestamps::push_rfc3339;
use serde::Serialize;
use serde_json::{Map, Value};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use tracks::Tracks;
use view::{Pair, View, Window};

/// Length of the window for rates, in seconds.
const WINDOW_SECONDS: f64 = 10.0;

/// Length of the longest window, in seconds.
const HISTORY_SECONDS: f64 = 30.0;

/// Maximum time that a condition may be absent before it is treated as over, in seconds.
const GAP_SECONDS: f64 = 3.0;

/// How long findings about the lines of a source are kept while nothing is read from the source, in
/// seconds.
const KEPT_SECONDS: f64 = 60.0;

/// How long a source without a cause is treated as starting, in seconds: the window, and the
/// longest time that a condition must hold.
const STARTING_SECONDS: f64 = 24.0;

/// Minimum number of events in a window to judge the lines.
const FEW_EVENTS: u64 = 10;

/// The diagnosis of a source: its status and the causes.
#[derive(Clone, Debug, Serialize)]
pub struct SourceDiagnosis {
    /// Id of the source.
    pub source: String,
    /// Status of the worst cause.
    pub status: Status,
    /// First cause; `None` for a source that is healthy or starting.
    pub cause: Option<Cause>,
    /// Id of the component with the cause.
    pub component: Option<String>,
    /// Time since which the cause has held, as RFC 3339.
    pub since: Option<String>,
    /// Measured numbers.
    pub numbers: Map<String, Value>,
    /// Advice for the operator.
    pub advice: Option<String>,
    /// Ids of the sinks downstream of the source.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sinks: Vec<String>,
    /// Additional causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<SourceDiagnosis>,
}

impl SourceDiagnosis {
    /// Returns all causes, starting with `cause`.
    pub fn causes(&self) -> impl Iterator<Item = Cause> {
        self.cause.into_iter().chain(self.also.iter().filter_map(|also| also.cause))
    }
}

/// The diagnoses of all sources.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Diagnosis {
    /// Whether a source is late or degraded.
    pub late: bool,
    /// How long snapshots have been compared, in seconds, at most half a minute.
    pub observed_seconds: f64,
    /// Diagnoses of the sources, in the order of the configuration.
    pub sources: Vec<SourceDiagnosis>,
}

impl Diagnosis {
    /// Removes all sources except one.
    pub fn keep_source(&mut self, id: &str) {
        self.sources.retain(|source| source.source == id);
        self.late = self.sources.iter().any(|source| source.status >= Status::Degraded);
    }
}

/// A condition over time. Times are the agent's uptime in seconds.
struct Condition {
    since: f64,
    seen: f64,
    finding: Finding,
}

/// Compares snapshots over time.
#[derive(Default)]
pub struct Diagnoser {
    /// Snapshots of the last half minute, without files and tasks, because there may be thousands
    /// of them.
    history: VecDeque<Snapshot>,
    tracks: Tracks,
    /// When each source was first seen, by id.
    first_seen: HashMap<String, f64>,
    /// Conditions by source, cause and component.
    conditions: HashMap<(String, Cause, String), Condition>,
    diagnosis: Diagnosis,
    bottleneck: Bottleneck,
}

impl Diagnoser {
    /// Adds the next snapshot. `unix_ns` is the current time, in nanoseconds since 1970.
    pub fn observe(&mut self, mut snapshot: Snapshot, unix_ns: i64) {
        let now = snapshot.uptime_seconds;
        self.tracks.observe(&snapshot);
        self.see(&snapshot);
        for component in &mut snapshot.components {
            (component.files, component.tasks) = (Vec::new(), Vec::new());
        }
        self.history.push_back(snapshot);
        while self.history.len() > 2 && now - self.history[0].uptime_seconds > HISTORY_SECONDS {
            self.history.pop_front();
        }
        let (conditions, bottleneck) = self.compare();
        self.bottleneck = bottleneck;
        self.note(conditions, now);
        self.diagnosis = self.report(now, unix_ns);
    }

    /// Records new sources, and removes sources that no longer exist.
    fn see(&mut self, snapshot: &Snapshot) {
        let mut before = std::mem::take(&mut self.first_seen);
        let sources = snapshot.components.iter().filter(|component| component.kind == "source");
        let mut seen = |id: &String| before.remove(id).unwrap_or(snapshot.uptime_seconds);
        self.first_seen = sources.map(|source| (source.id.clone(), seen(&source.id))).collect();
    }

    /// Returns the status of a source without a cause.
    fn status_without_cause(&self, source: &str, now: f64) -> Status {
        let first_seen = self.first_seen.get(source).copied().unwrap_or(now);
        match now - first_seen < STARTING_SECONDS {
            true => Status::Starting,
            false => Status::Healthy,
        }
    }

    /// Returns the diagnoses of all sources.
    pub fn diagnosis(&self) -> &Diagnosis {
        &self.diagnosis
    }

    /// Returns the bottleneck.
    pub fn bottleneck(&self) -> &Bottleneck {
        &self.bottleneck
    }

    /// Returns the newest snapshot that is at least `seconds` old, or the oldest snapshot if all
    /// are newer.
    fn at(&self, seconds: f64) -> Option<&Snapshot> {
        let now = self.history.back()?.uptime_seconds;
        let is_old = |snapshot: &&Snapshot| now - snapshot.uptime_seconds >= seconds;
        self.history.iter().rev().find(is_old).or(self.history.front())
    }

    fn window(&self) -> Option<Window<'_>> {
        let (now, before) = (self.history.back()?, self.at(WINDOW_SECONDS)?);
        let middle = self.at((now.uptime_seconds - before.uptime_seconds) / 2.0)?;
        Window::of(&self.history, before, middle)
    }

    /// Returns the conditions that hold now, by source, and the bottleneck.
    fn compare(&self) -> (Vec<(String, Finding)>, Bottleneck) {
        let Some(window) = self.window() else { return Default::default() };
        let of_source = |source: Pair<'_>| {
            let view = View::of(&window, source, self.tracks.of(&source.now.id));
            let id = source.now.id.clone();
            checks::findings(&view).into_iter().map(move |finding| (id.clone(), finding))
        };
        let sources = window.pairs().filter(|pair| pair.now.kind == "source");
        let conditions = sources.flat_map(of_source).collect();
        (conditions, bottleneck::bottleneck(&window))
    }

    /// Records the conditions that hold now, and removes conditions that are over.
    fn note(&mut self, found: Vec<(String, Finding)>, now: f64) {
        for (source, finding) in found {
            let since = now - finding.age_seconds;
            let key = (source, finding.cause, finding.component.clone());
            let before = self.conditions.remove(&key).map_or(since, |before| before.since);
            self.conditions.insert(key, Condition { since: before.min(since), seen: now, finding });
        }
        let quiet = self.quiet_sources();
        self.conditions.retain(|(source, cause, _), condition| {
            let is_kept = cause.is_about_content() && quiet.contains(source);
            now - condition.seen <= if is_kept { KEPT_SECONDS } else { GAP_SECONDS }
        });
    }

    /// Returns the components that have received too few events in the window to judge their lines.
    fn quiet_sources(&self) -> HashSet<String> {
        let Some(window) = self.window() else { return HashSet::new() };
        let quiet = window.pairs().filter(|pair| pair.received() < FEW_EVENTS);
        quiet.map(|pair| pair.now.id.clone()).collect()
    }

    fn report(&self, now: f64, unix_ns: i64) -> Diagnosis {
        let Some(snapshot) = self.history.back() else { return Diagnosis::default() };
        let mut by_source: BTreeMap<&str, Vec<&Condition>> = BTreeMap::new();
        for ((source, cause, _), condition) in &self.conditions {
            if condition.seen - condition.since >= cause.hold_seconds() {
                by_source.entry(source).or_default().push(condition);
            }
        }
        let sources = snapshot.components.iter().filter(|component| component.kind == "source");
        let of_source = |id: &str| {
            let mut conditions = by_source.remove(id).unwrap_or_default();
            let rank = |condition: &&Condition| {
                (Reverse(condition.finding.status), condition.finding.cause)
            };
            conditions.sort_by(|a, b| {
                let components = || a.finding.component.cmp(&b.finding.component);
                rank(a).cmp(&rank(b)).then_with(components)
            });
            let otherwise = self.status_without_cause(id, now);
            let since = |since| rfc3339_at(unix_ns, now - since);
            let sinks = view::sinks_behind(snapshot, id);
            let advice = |finding: &Finding| {
                let component = view::find(snapshot, &finding.component);
                match finding.has_all_refused() {
                    true => advice::all_refused(&finding.component),
                    false => advice::advice(finding.cause, &finding.component, component),
                }
            };
            SourceDiagnosis { sinks, ..diagnosis_of(id, &conditions, otherwise, since, advice) }
        };
        let sources: Vec<_> = sources.map(|source| source.id.as_str()).map(of_source).collect();
        let late = sources.iter().any(|source| source.status >= Status::Degraded);
        let first = self.history.front().map_or(now, |first| first.uptime_seconds);
        Diagnosis { late, observed_seconds: now - first, sources }
    }
}

/// Returns the diagnosis of a source from its conditions. Without conditions, the diagnosis
/// contains only a status.
fn diagnosis_of(
    source: &str,
    conditions: &[&Condition],
    otherwise: Status,
    since: impl Fn(f64) -> String,
    advice: impl Fn(&Finding) -> String,
) -> SourceDiagnosis {
    let mut each = conditions.iter().map(|condition| {
        let finding = &condition.finding;
        SourceDiagnosis {
            source: source.to_owned(),
            status: finding.status,
            cause: Some(finding.cause),
            component: Some(finding.component.clone()),
            since: Some(since(condition.since)),
            numbers: finding.numbers.clone(),
            advice: Some(advice(finding)),
            sinks: Vec::new(),
            also: Vec::new(),
        }
    });
    let Some(mut first) = each.next() else {
        let (source, numbers) = (source.to_owned(), Map::new());
        let (cause, component, since, advice) = (None, None, None, None);
        let (status, sinks, also) = (otherwise, Vec::new(), Vec::new());
        return SourceDiagnosis {
            source,
            status,
            cause,
            component,
            since,
            numbers,
            advice,
            sinks,
            also,
        };
    };
    first.also = each.collect();
    first
}

/// Returns the time `seconds_ago` seconds before `unix_ns`.
fn rfc3339_at(unix_ns: i64, seconds_ago: f64) -> String {
    let mut text = Vec::new();
    push_rfc3339(&mut text, unix_ns.saturating_sub((seconds_ago * 1e9) as i64));
    String::from_utf8_lossy(&text).into_owned()
}
