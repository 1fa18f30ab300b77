//! Statistics of collectors, read once a second while collectors are open.

use super::report::Report;
use crate::util::jvm::Java;
use millstream_jvm::{
    CollectorNumber, CollectorSnapshot, CollectorState, CollectorStats, CollectorsSnapshot,
    CollectorsStats, JvmProcess,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long a collector may wait for a thread before the wait is logged.
const QUEUED_MAX: Duration = Duration::from_secs(5);

/// Minimum time between two log messages about the failures of one collector.
const SILENCE: Duration = Duration::from_secs(60);

/// The collectors of open sources.
static OPEN: Mutex<Vec<Weak<Figures>>> = Mutex::new(Vec::new());

/// By JVM: the number of collector threads and the maximum number, when the statistics were last
/// read. A separate process is identified by its name.
static THREADS: Mutex<BTreeMap<Option<String>, (u64, u64)>> = Mutex::new(BTreeMap::new());

/// The latest statistics of a collector.
pub struct Figures {
    component: String,
    /// Name of the separate process, if the collector runs in one.
    process: Option<String>,
    number: CollectorNumber,
    seen: Mutex<Observations>,
}

#[derive(Default)]
struct Observations {
    /// Statistics since the collector was opened, including processes that have exited.
    stats: Option<CollectorStats>,
    /// The last seen start of the process, and the total counts of its previous starts.
    start: Option<(u32, Counts)>,
    /// Time at which the next call was first seen waiting for a thread.
    queued: Option<Instant>,
    /// The last logged failure, and when it was logged.
    logged: Option<(String, Instant)>,
}

/// Counters of a collector.
#[derive(Clone, Copy, Default)]
struct Counts {
    calls: u64,
    failures: u64,
    events: u64,
    missed: u64,
}

impl Counts {
    fn of(stats: &CollectorStats) -> Counts {
        let CollectorStats { calls, failures, events, missed, .. } = *stats;
        Counts { calls, failures, events, missed }
    }

    fn add_to(self, stats: CollectorStats) -> CollectorStats {
        CollectorStats {
            calls: stats.calls + self.calls,
            failures: stats.failures + self.failures,
            events: stats.events + self.events,
            missed: stats.missed + self.missed,
            ..stats
        }
    }
}

impl Figures {
    /// Creates the statistics of a collector with this number in a JVM; a separate process is
    /// identified by its name.
    pub fn new(component: String, process: Option<String>, number: CollectorNumber) -> Figures {
        Figures { component, process, number, seen: Mutex::default() }
    }

    /// Returns whether a call has ended and no call is running.
    pub fn has_collected(&self) -> bool {
        let seen = self.seen.lock();
        let has =
            |stats: &CollectorStats| stats.calls > 0 && stats.state == CollectorState::Waiting;
        seen.stats.as_ref().is_some_and(has)
    }

    /// Returns which start of the process the collector's number belongs to, or `None` if the
    /// collector has another number.
    fn start_of(&self, id: i32) -> Option<u32> {
        self.number.get().filter(|number| number.id == id).map(|number| number.start)
    }

    /// Adds statistics from a start of the process. Logs a failure directly, and adds all other
    /// changes to `report`.
    fn take(&self, start: u32, stats: CollectorStats, report: &mut Report) {
        let mut seen = self.seen.lock();
        let stats = seen.since_open(start, stats);
        let state = stats.state;
        let did_hang =
            seen.stats.as_ref().is_some_and(|previous| previous.state == CollectorState::Hangs);
        let hangs = state == CollectorState::Hangs;
        let name = || self.component.clone();
        match (did_hang, hangs) {
            (false, true) => report.hanging.push(name()),
            (true, false) => report.returned.push(name()),
            _ => {}
        }
        match state {
            CollectorState::Waiting => {}
            CollectorState::Queued => report.queued.push(name()),
            _ => report.busy.push(name()),
        }
        report.is_crowded |= seen.note_queued(&stats);
        if !hangs {
            seen.log_failure(&self.component, &stats);
        }
        seen.stats = Some(stats);
    }

    /// Returns the state of the collector, or `None` before its statistics are first read.
    /// `running` contains the names of the running processes.
    fn snapshot(&self, running: &BTreeSet<String>) -> Option<CollectorSnapshot> {
        let has_ended = |process: &String| !running.contains(process);
        let is_down = self.number.get().is_none() || self.process.as_ref().is_some_and(has_ended);
        let seen = self.seen.lock();
        let stats = seen.stats.as_ref()?;
        let running = u64::try_from(stats.running_ms).ok().filter(|_| !is_down);
        Some(CollectorSnapshot {
            component: self.component.clone(),
            state: if is_down { "down" } else { name(stats.state) },
            calls: stats.calls,
            failures: stats.failures,
            missed: stats.missed,
            events: stats.events,
            running_seconds: running.map(|ms| ms as f64 / 1e3),
            last_failure: stats.last_failure.clone(),
        })
    }
}

impl Observations {
    /// Adds the counts of earlier starts of the process to `stats`.
    fn since_open(&mut self, start: u32, stats: CollectorStats) -> CollectorStats {
        let before = match self.start {
            Some((last, before)) if last == start => before,
            _ => self.stats.as_ref().map(Counts::of).unwrap_or_default(),
        };
        self.start = Some((start, before));
        before.add_to(stats)
    }

    /// Records since when the next call has been waiting for a thread. Returns whether the wait has
    /// reached [`QUEUED_MAX`].
    fn note_queued(&mut self, stats: &CollectorStats) -> bool {
        let calls = self.stats.as_ref().map_or(stats.calls, |previous| previous.calls);
        if stats.state != CollectorState::Queued || stats.calls != calls {
            self.queued = None;
            return false;
        }
        self.queued.get_or_insert_with(Instant::now).elapsed() >= QUEUED_MAX
    }

    /// Logs a new failure, unless it has the same text as the last logged failure or follows it
    /// within [`SILENCE`].
    fn log_failure(&mut self, component: &str, stats: &CollectorStats) {
        let failures = self.stats.as_ref().map_or(0, |previous| previous.failures);
        let Some(failure) = stats.last_failure.as_ref().filter(|_| stats.failures > failures)
        else {
            return;
        };
        let is_silent = |(text, at): &(String, Instant)| text == failure || at.elapsed() < SILENCE;
        if !self.logged.as_ref().is_some_and(is_silent) {
            log::warn!("source {component}: the collector failed: {failure}");
            self.logged = Some((failure.clone(), Instant::now()));
        }
    }
}

fn has_thread(state: CollectorState) -> bool {
    !matches!(state, CollectorState::Waiting | CollectorState::Queued)
}

fn name(state: CollectorState) -> &'static str {
    match state {
        CollectorState::Waiting => "waiting",
        CollectorState::Queued => "queued",
        CollectorState::Running => "running",
        CollectorState::Hangs => "hangs",
        CollectorState::Blocked => "blocked",
    }
}

/// Starts to read the statistics of a collector. Reading ends when `figures` is dropped.
pub fn add(figures: &Arc<Figures>) {
    OPEN.lock().push(Arc::downgrade(figures));
}

fn open() -> Vec<Arc<Figures>> {
    let mut open = OPEN.lock();
    open.retain(|figures| figures.strong_count() > 0);
    open.iter().filter_map(Weak::upgrade).collect()
}

/// Reads the statistics of a JVM's collectors. Returns `false` if no open source has a collector in
/// this JVM.
pub fn look(java: &Java) -> bool {
    let process = java.process();
    let mut open = open();
    open.retain(|figures| figures.process.as_deref() == process);
    if open.is_empty() {
        return false;
    }
    if let Ok(stats) = java.collector_stats() {
        let threads = (stats.threads, stats.threads_max);
        THREADS.lock().insert(process.map(str::to_owned), threads);
        take(&open, stats, process);
    }
    true
}

/// Processes the statistics of a JVM's collectors, and logs the changes.
fn take<'a>(open: &'a [Arc<Figures>], stats: CollectorsStats, process: Option<&str>) {
    let mut report = Report::default();
    for collector in stats.collectors {
        let find = |figures: &'a Arc<Figures>| Some((figures.start_of(collector.id)?, figures));
        match open.iter().find_map(find) {
            Some((start, figures)) => figures.take(start, collector, &mut report),
            // The collector was stopped, but its call has not ended.
            None if has_thread(collector.state) => report.busy.push(collector.component),
            None => {}
        }
    }
    report.log(process, stats.threads_max);
}

/// Returns the state of the collectors for open sources; `None` if there are none.
pub fn collectors_snapshot() -> Option<CollectorsSnapshot> {
    let open = open();
    let processes: BTreeSet<&Option<String>> =
        open.iter().map(|figures| &figures.process).collect();
    let known = THREADS.lock().clone();
    let threads: Vec<(u64, u64)> =
        processes.into_iter().filter_map(|process| known.get(process)).copied().collect();
    let states = JvmProcess::all().into_iter().map(|process| process.state());
    let running = states.filter(|state| state.pid.is_some()).map(|state| state.name).collect();
    let collectors = open.iter().filter_map(|figures| figures.snapshot(&running)).collect();
    let snapshot = CollectorsSnapshot {
        threads: threads.iter().map(|(threads, _)| threads).sum(),
        threads_max: threads.iter().map(|(_, most)| most).sum(),
        collectors,
    };
    (!open.is_empty()).then_some(snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_jvm::CollectorId;

    fn stats(state: CollectorState, failures: u64) -> CollectorStats {
        CollectorStats {
            id: 3,
            component: "a".to_owned(),
            calls: 7,
            failures,
            events: 5,
            missed: 1,
            running_ms: if state == CollectorState::Waiting { -1 } else { 1500 },
            state,
            last_failure: (failures > 0).then(|| format!("failure {failures}")),
        }
    }

    fn figures() -> Figures {
        let number = CollectorNumber::new(CollectorId { start: 1, id: 3 });
        Figures::new("a".to_owned(), None, number)
    }

    /// Processes statistics from the first start of the process, and returns the report.
    fn taken(figures: &Figures, stats: CollectorStats) -> Report {
        taken_in(1, figures, stats)
    }

    /// Processes statistics from a start of the process, and returns the report.
    fn taken_in(start: u32, figures: &Figures, stats: CollectorStats) -> Report {
        let mut report = Report::default();
        figures.take(start, stats, &mut report);
        report
    }

    #[test]
    fn a_snapshot_is_that_of_the_last_look() {
        let figures = figures();
        assert!(figures.snapshot(&BTreeSet::new()).is_none() && !figures.has_collected());
        taken(&figures, stats(CollectorState::Hangs, 1));
        let snapshot = figures.snapshot(&BTreeSet::new()).unwrap();
        assert_eq!((snapshot.state, snapshot.running_seconds), ("hangs", Some(1.5)));
        assert!(!figures.has_collected());
        taken(&figures, stats(CollectorState::Waiting, 2));
        let snapshot = figures.snapshot(&BTreeSet::new()).unwrap();
        assert_eq!((snapshot.calls, snapshot.missed, snapshot.events), (7, 1, 5));
        assert_eq!(snapshot.running_seconds, None);
        assert_eq!(snapshot.last_failure.as_deref(), Some("failure 2"));
        assert!(figures.has_collected());
    }

    #[test]
    fn a_collector_is_down_while_its_process_is() {
        let number = CollectorNumber::new(CollectorId { start: 1, id: 3 });
        let figures = Figures::new("a".to_owned(), Some("team".to_owned()), number);
        taken(&figures, stats(CollectorState::Running, 0));
        let state = |running: &[&str]| {
            let running = running.iter().map(|name| (*name).to_owned()).collect();
            let snapshot = figures.snapshot(&running).unwrap();
            (snapshot.state, snapshot.running_seconds.is_some())
        };
        assert_eq!(state(&["other", "team"]), ("running", true));
        assert_eq!(state(&["other"]), ("down", false));
        let unregistered = Figures::new("a".to_owned(), None, CollectorNumber::default());
        taken(&unregistered, stats(CollectorState::Running, 0));
        assert_eq!(unregistered.snapshot(&BTreeSet::new()).unwrap().state, "down");
    }

    #[test]
    fn new_failures_are_logged_once_a_minute() {
        let figures = figures();
        taken(&figures, stats(CollectorState::Waiting, 1));
        let first = figures.seen.lock().logged.clone().unwrap();
        taken(&figures, stats(CollectorState::Waiting, 2));
        assert_eq!(figures.seen.lock().logged, Some(first.clone()));
        let before = Instant::now().checked_sub(SILENCE).unwrap();
        figures.seen.lock().logged = Some((first.0, before));
        taken(&figures, stats(CollectorState::Waiting, 3));
        assert_eq!(figures.seen.lock().logged.as_ref().unwrap().0, "failure 3");
    }

    #[test]
    fn the_begin_and_the_end_of_a_hang_are_reported_once() {
        let figures = figures();
        let reported = |state| {
            let report = taken(&figures, stats(state, 1));
            (report.hanging.len(), report.returned.len(), report.busy.len())
        };
        assert_eq!(reported(CollectorState::Running), (0, 0, 1));
        assert_eq!(reported(CollectorState::Hangs), (1, 0, 1));
        assert_eq!(reported(CollectorState::Hangs), (0, 0, 1));
        assert_eq!(reported(CollectorState::Waiting), (0, 1, 0));
        assert_eq!(reported(CollectorState::Waiting), (0, 0, 0));
    }

    #[test]
    fn a_collector_starves_that_waits_long_for_one_call() {
        let figures = figures();
        let is_starving = |stats| taken(&figures, stats).is_crowded;
        let wait = || {
            let before = Instant::now().checked_sub(QUEUED_MAX).unwrap();
            figures.seen.lock().queued = Some(before);
        };
        assert!(!is_starving(stats(CollectorState::Queued, 0)));
        wait();
        assert!(is_starving(stats(CollectorState::Queued, 0)));
        let called = CollectorStats { calls: 8, ..stats(CollectorState::Queued, 0) };
        assert!(!is_starving(called.clone()), "it waits for another call");
        wait();
        assert!(!is_starving(CollectorStats { state: CollectorState::Running, ..called }));
        assert!(figures.seen.lock().queued.is_none());
    }

    #[test]
    fn what_was_counted_before_a_restart_of_the_process_stays() {
        let figures = figures();
        let calls = || {
            figures
                .snapshot(&BTreeSet::new())
                .map(|stats| (stats.calls, stats.failures, stats.events, stats.missed))
        };
        taken(&figures, stats(CollectorState::Waiting, 2));
        assert_eq!(calls(), Some((7, 2, 5, 1)));
        let next = |start, calls, failures| {
            let stats = stats(CollectorState::Waiting, failures);
            let stats = CollectorStats { calls, events: 0, missed: 0, ..stats };
            taken_in(start, &figures, stats);
        };
        next(2, 2, 1);
        assert_eq!(calls(), Some((9, 3, 5, 1)));
        next(2, 4, 1);
        assert_eq!(calls(), Some((11, 3, 5, 1)));
        next(3, 1, 0);
        assert_eq!(calls(), Some((12, 3, 5, 1)));
    }
}
