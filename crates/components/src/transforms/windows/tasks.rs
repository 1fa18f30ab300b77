//! The open windows of all tasks.

use super::definition::{Definition, window_ns};
use super::delay::{Delay, Ending};
use super::snapshot::{Frame, Saved, tables};
use super::stats::Stats;
use crate::util::period::Periods;
use millstream_groups::{Accumulator, Groups, Layout};
use millstream_model::{Counters, EngineTime, MemoryPressure, Now};
use millstream_rules::{
    FrequentKeys, KeyGroups, MergeBuffers, MergeTarget, PartialReader, Plan, TaskPartial,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Time without events after which an origin no longer delays the windows of other origins.
const ORIGIN_IDLE: Duration = Duration::from_secs(10);

/// Time without events after which an origin is removed.
const ORIGIN_FORGOTTEN: Duration = Duration::from_secs(3600);

/// Minimum time without events before an event-time window may end.
const QUIET_MIN: Duration = Duration::from_secs(1);

/// Pause between two checks whether event-time windows must end.
const LOGGED_LOOK: Duration = Duration::from_millis(100);

/// Number of groups that are merged between two memory checks.
const GROUPS_PER_LOOK: usize = 128;

/// Memory percentage above which only the highest-priority tasks may create new groups.
const MEMORY_HIGH_PERCENT: usize = 80;

/// The windows of all tasks.
pub struct Tasks {
    /// Tasks, in the order of the plan.
    list: Vec<Task>,
    /// Periods of arrival-time windows, by length in seconds.
    periods: BTreeMap<u64, Periods>,
    origins: HashMap<u64, Origin>,
    /// Ended windows whose results are not all produced, the most urgent first.
    ended: VecDeque<EndedWindow>,
    /// Numbers of the saved windows whose results were all produced since the last snapshot.
    gone: Vec<u64>,
    next_window: u64,
    next_definition: u32,
    memory: Memory,
    layouts: HashMap<Vec<Accumulator>, Arc<Layout>>,
    /// Assigns numbers to frequent keys.
    frequent: FrequentKeys,
    /// Bytes of `frequent` that are included in `memory`.
    frequent_bytes: usize,
    buffers: MergeBuffers,
}

/// A task and its open windows.
struct Task {
    definition: Arc<Definition>,
    /// Length of the windows from the definition, copied because every batch needs it.
    window_s: u64,
    priority: i32,
    layout: Arc<Layout>,
    /// Definition number in snapshots.
    number: u32,
    is_saved: bool,
    /// Open windows by end.
    windows: BTreeMap<i64, Window>,
    /// Latest end of an event-time window that has ended.
    ended_ns: i64,
}

/// A window and its groups.
pub struct Window {
    /// Window number in snapshots.
    number: u64,
    pub end_ns: i64,
    pub groups: Groups,
    pub overflow: Groups,
    of_keys: KeyGroups,
    is_saved: bool,
    /// Whether the window changed since the last snapshot.
    is_changed: bool,
    /// Time when the last event arrived.
    updated: EngineTime,
    /// Whether the window began before its end by the clock, so that its results can be due.
    is_live: bool,
    memory_bytes: usize,
}

/// A window that has ended.
pub struct EndedWindow {
    pub definition: Arc<Definition>,
    /// Definition number in snapshots.
    task: u32,
    pub window: Window,
    /// Number of groups whose results were produced. The overflow group comes last.
    pub emitted: u64,
    pub completeness: f64,
    pub delay: Delay,
}

struct Origin {
    latest_ns: i64,
    seen: EngineTime,
}

/// The progress of the origins, by event time.
struct Latest {
    /// Time that all origins with recent events have passed; `None` if no origin has recent events.
    passed_ns: Option<i64>,
    /// The latest time of each origin, ascending.
    all_ns: Vec<i64>,
}

impl Latest {
    /// Returns the share of the origins that have passed a time.
    fn share(&self, end_ns: i64) -> f64 {
        let before = self.all_ns.partition_point(|latest_ns| *latest_ns < end_ns);
        let passed = self.all_ns.len() - before;
        if self.all_ns.is_empty() { 1.0 } else { passed as f64 / self.all_ns.len() as f64 }
    }
}

/// The memory of all windows, and its limit.
struct Memory {
    used: usize,
    max: usize,
    priority_max: i32,
    pressure: Arc<MemoryPressure>,
}

impl Memory {
    /// Returns whether a task of this priority may create new groups.
    fn has_place(&self, priority: i32) -> bool {
        let percent = if priority < self.priority_max { MEMORY_HIGH_PERCENT } else { 100 };
        self.used < self.max / 100 * percent && !self.pressure.is_high()
    }
}

impl Window {
    fn new(number: u64, end_ns: i64, groups: Groups, overflow: Groups, now: Now) -> Window {
        Window {
            number,
            end_ns,
            groups,
            overflow,
            of_keys: KeyGroups::default(),
            is_saved: false,
            is_changed: true,
            updated: now.since_start,
            is_live: now.unix_ns < end_ns,
            memory_bytes: 0,
        }
    }

    /// Appends the window if the snapshot lacks it, and the changes in it.
    fn write(&mut self, definition: u32, is_whole: bool, frame: &mut Frame) {
        let is_whole = is_whole || !self.is_saved;
        if is_whole {
            frame.window(self.number, definition, self.end_ns);
        }
        if is_whole || self.is_changed {
            for (letter, groups) in [(b'G', &mut self.groups), (b'O', &mut self.overflow)] {
                frame.groups(letter, self.number, |out| match is_whole {
                    true => groups.write_all(out),
                    false => groups.write_changes(out),
                });
            }
        }
        self.is_saved = true;
        self.is_changed = false;
    }

    /// Returns the properties that determine the delay of the results.
    fn ending(&self) -> Ending {
        Ending { end_ns: self.end_ns, is_live: self.is_live, updated: self.updated }
    }

    /// Measures the memory, and returns it.
    fn update_memory(&mut self) -> usize {
        self.memory_bytes = size_of::<Window>()
            + self.groups.memory_bytes()
            + self.overflow.memory_bytes()
            + self.of_keys.memory_bytes();
        self.memory_bytes
    }
}

impl EndedWindow {
    /// Returns the number of groups, including the overflow group.
    pub fn len(&self) -> u64 {
        (self.window.groups.len() + self.window.overflow.len()) as u64
    }

    /// Returns the order of results: earliest due time first, then priority, then the order of the
    /// tasks.
    fn urgency(&self) -> (i64, Reverse<i32>, u32, u64) {
        let due_ns = self.definition.due_ns.unwrap_or(self.definition.window_ns());
        let due = self.window.end_ns.saturating_add(due_ns);
        (due, Reverse(self.definition.priority), self.task, self.window.number)
    }
}

impl Tasks {
    /// Opens the windows of tasks with the state in a snapshot. Windows whose definition is no
    /// longer used end immediately, because they receive no more events.
    pub fn open(
        definitions: &[Arc<Definition>],
        frequent: FrequentKeys,
        memory_bytes_max: usize,
        pressure: Arc<MemoryPressure>,
        saved: &mut Saved,
        now: Now,
    ) -> Tasks {
        let priorities = definitions.iter().map(|definition| definition.priority);
        let mut tasks = Tasks {
            list: Vec::new(),
            periods: BTreeMap::new(),
            origins: HashMap::new(),
            ended: VecDeque::new(),
            gone: Vec::new(),
            next_window: saved.windows.last_key_value().map_or(0, |(last, _)| last + 1),
            next_definition: saved.definitions.last_key_value().map_or(0, |(last, _)| last + 1),
            memory: Memory {
                used: 0,
                max: memory_bytes_max,
                priority_max: priorities.max().unwrap_or(0),
                pressure,
            },
            layouts: HashMap::new(),
            frequent,
            frequent_bytes: 0,
            buffers: MergeBuffers::default(),
        };
        let mut by_name: HashMap<&str, Vec<(u32, &Arc<Definition>)>> = HashMap::new();
        for (number, definition) in &saved.definitions {
            by_name.entry(&definition.name).or_default().push((*number, definition));
        }
        let mut numbers: HashMap<u32, usize> = HashMap::new();
        for definition in definitions {
            let named = by_name.get(definition.name.as_str()).into_iter().flatten();
            let known = named.into_iter().find(|(_, other)| *other == definition);
            let known = known.map(|(number, _)| *number);
            known.into_iter().for_each(|number| _ = numbers.insert(number, tasks.list.len()));
            tasks.add_task(definition, known, now);
        }
        tasks.take_up(saved, &numbers, now);
        tasks
    }

    fn add_task(&mut self, definition: &Arc<Definition>, number: Option<u32>, now: Now) {
        let next = self.next_definition;
        self.next_definition += u32::from(number.is_none());
        let layout = definition.layout();
        let accumulators = layout.accumulators().to_vec();
        let layout = self.layouts.entry(accumulators).or_insert(layout).clone();
        self.list.push(Task {
            definition: definition.clone(),
            window_s: definition.window_s,
            priority: definition.priority,
            layout,
            number: number.unwrap_or(next),
            is_saved: number.is_some(),
            windows: BTreeMap::new(),
            ended_ns: i64::MIN,
        });
        if definition.lateness_ns.is_none() {
            let periods = self.periods.entry(definition.window_s);
            periods.or_insert_with(|| Periods::new(definition.window(), now));
        }
    }

    /// Takes over the windows in a snapshot. A window has ended if its definition is no longer used
    /// or some of its results were already produced.
    fn take_up(&mut self, saved: &mut Saved, numbers: &HashMap<u32, usize>, now: Now) {
        for (number, saved_window) in std::mem::take(&mut saved.windows) {
            let Some(definition) = saved.definitions.get(&saved_window.definition) else {
                continue;
            };
            let is_former = !numbers.contains_key(&saved_window.definition);
            let end_ns =
                if is_former { saved_window.end_ns.min(now.unix_ns) } else { saved_window.end_ns };
            let mut window =
                Window::new(number, end_ns, saved_window.groups, saved_window.overflow, now);
            window.is_saved = true;
            window.is_changed = false;
            self.memory.used += window.update_memory();
            let open = numbers.get(&saved_window.definition).filter(|_| saved_window.emitted == 0);
            let ended = match open {
                // If two windows have the same end, the earlier one had already ended, and late
                // events created the other one.
                Some(task) => self.list[*task].windows.insert(saved_window.end_ns, window),
                None => Some(window),
            };
            let Some(window) = ended else { continue };
            let task = numbers.get(&saved_window.definition).copied();
            self.push_ended(EndedWindow {
                delay: Delay::begin(task, definition, &window.ending(), now),
                definition: definition.clone(),
                task: saved_window.definition,
                window,
                emitted: saved_window.emitted,
                completeness: 1.0,
            });
        }
    }

    /// Records the latest time of an origin's events.
    pub fn note_origin(&mut self, origin: u64, latest_ns: i64, now: Now) {
        let fresh = Origin { latest_ns, seen: now.since_start };
        let origin = self.origins.entry(origin).or_insert(fresh);
        origin.latest_ns = origin.latest_ns.max(latest_ns);
        origin.seen = now.since_start;
    }

    /// Merges the partial results of a batch.
    pub fn merge(
        &mut self,
        plan: &Plan,
        mut reader: PartialReader<'_>,
        counters: &Counters,
        now: Now,
    ) {
        reader.number_keys(&mut self.frequent);
        let bytes = self.frequent.memory_bytes();
        self.memory.used = self.memory.used - self.frequent_bytes + bytes;
        self.frequent_bytes = bytes;
        while let Some(section) = reader.next(plan) {
            self.merge_section(&section, &reader, counters, now);
        }
    }

    /// Merges a partial result into the window of its task.
    fn merge_section(
        &mut self,
        partial: &TaskPartial<'_>,
        reader: &PartialReader<'_>,
        counters: &Counters,
        now: Now,
    ) {
        let Some(task) = self.list.get(partial.task) else { return };
        let window_s = task.window_s;
        let priority = task.priority;
        let end_ns = match partial.window {
            Some(start_ns) => start_ns.saturating_add(window_ns(window_s)),
            None => self.periods.get(&window_s).map_or(0, Periods::boundary_ns),
        };
        if partial.window.is_some() && end_ns <= task.ended_ns {
            counters.noted("late_event", partial.events());
        }
        if !self.memory.has_place(priority) {
            self.make_place(partial.task, end_ns, counters, now);
        }
        let Task { windows, definition, layout, .. } = &mut self.list[partial.task];
        let next = &mut self.next_window;
        let window = windows.entry(end_ns).or_insert_with(|| {
            let (groups, overflow) = tables(definition, layout);
            *next += 1;
            Window::new(*next - 1, end_ns, groups, overflow, now)
        });
        window.updated = now.since_start;
        window.is_changed = true;
        for part in partial.parts(GROUPS_PER_LOOK) {
            let target = MergeTarget {
                groups: &mut window.groups,
                overflow: &mut window.overflow,
                of_keys: &mut window.of_keys,
                may_add: self.memory.has_place(priority),
            };
            let merged = part.merge(reader, target, &mut self.buffers);
            counters.noted("overflow", merged.overflows);
            if merged.may_have_grown {
                self.memory.used = self.memory.used - window.memory_bytes + window.update_memory();
            }
        }
    }

    /// Ends the earliest window of a task that needs another window but has no memory for it,
    /// because events may arrive with any number of different times. Events that arrive later for
    /// the ended window produce a separate result.
    fn make_place(&mut self, task: usize, end_ns: i64, counters: &Counters, now: Now) {
        let windows = &self.list[task].windows;
        let is_there = windows.contains_key(&end_ns);
        let Some(earliest) = windows.keys().next().copied().filter(|_| !is_there) else { return };
        counters.noted("early_window", 1);
        let completeness = self.latest(now).share(earliest);
        self.end_window_of(task, earliest, completeness, now);
    }

    /// Returns whether a window is open.
    pub fn has_open(&self) -> bool {
        self.list.iter().any(|task| !task.windows.is_empty())
    }

    /// Ends the open window with the most memory, if it has at least `bytes_min`, because the
    /// process has little memory left. Events that arrive later for the ended window produce a
    /// separate result.
    pub fn end_largest(&mut self, bytes_min: usize, counters: &Counters, now: Now) {
        let windows = self.list.iter().enumerate().flat_map(|(task, entry)| {
            entry.windows.iter().map(move |(end_ns, window)| (window.memory_bytes, task, *end_ns))
        });
        let Some((_, task, end_ns)) = windows.filter(|(bytes, ..)| *bytes >= bytes_min).max()
        else {
            return;
        };
        counters.noted("early_window", 1);
        if self.list[task].definition.lateness_ns.is_some() {
            let completeness = self.latest(now).share(end_ns);
            return self.end_window_of(task, end_ns, completeness, now);
        }
        if let Some(mut window) = self.list[task].windows.remove(&end_ns) {
            window.end_ns = end_ns.min(now.unix_ns);
            self.end(task, window, 1.0, now);
        }
    }

    /// Ends the windows that are due. At the end of the input, ends all windows.
    pub fn end_due(&mut self, now: Now, has_input_ended: bool) {
        let mut ends = BTreeMap::new();
        for (window_s, periods) in &mut self.periods {
            if has_input_ended || periods.left(now).is_zero() {
                let boundary_ns = periods.boundary_ns();
                let end_ns = periods.end(now).end_ns.min(boundary_ns);
                ends.insert(*window_s, (boundary_ns, end_ns));
            }
        }
        let latest = self.latest(now);
        for task in 0..self.list.len() {
            if self.list[task].windows.is_empty() {
                continue;
            }
            match self.list[task].definition.lateness_ns {
                None => self.end_arrived(task, &ends, now, has_input_ended),
                Some(lateness_ns) => {
                    self.end_logged(task, lateness_ns, &latest, now, has_input_ended);
                }
            }
        }
        self.origins.retain(|_, origin| now.since_start - origin.seen < ORIGIN_FORGOTTEN);
    }

    /// Ends arrival-time windows: the window whose period ends now, windows that ended while the
    /// agent was down, and windows beyond the current period, which exist if the clock was set
    /// back.
    fn end_arrived(
        &mut self,
        task: usize,
        ends: &BTreeMap<u64, (i64, i64)>,
        now: Now,
        has_input_ended: bool,
    ) {
        let window_s = self.list[task].definition.window_s;
        let current_ns = self.periods.get(&window_s).map_or(i64::MAX, Periods::boundary_ns);
        let is_over = |end_ns: i64| has_input_ended || end_ns <= now.unix_ns || end_ns > current_ns;
        let ended = ends.get(&window_s);
        let over: Vec<i64> = self.list[task].windows.keys().copied().collect();
        for boundary_ns in over {
            let now_ends = ended.filter(|(end_ns, _)| *end_ns == boundary_ns);
            if now_ends.is_none() && !is_over(boundary_ns) {
                continue;
            }
            let end_ns = now_ends.map_or(boundary_ns, |(_, end_ns)| *end_ns);
            if let Some(mut window) = self.list[task].windows.remove(&boundary_ns) {
                window.end_ns = end_ns;
                self.end(task, window, 1.0, now);
            }
        }
    }

    /// Ends event-time windows: when all origins have passed the end and the lateness, when no
    /// events have arrived for this long, or when the results are due.
    fn end_logged(
        &mut self,
        task: usize,
        lateness_ns: i64,
        latest: &Latest,
        now: Now,
        has_input_ended: bool,
    ) {
        let due_ns = self.list[task].definition.due_ns;
        let quiet = Duration::from_nanos(lateness_ns.max(0) as u64).max(QUIET_MIN);
        let is_over = |window: &Window| {
            let late_ns = window.end_ns.saturating_add(lateness_ns);
            let is_quiet = now.since_start - window.updated >= quiet && now.unix_ns >= late_ns;
            let is_due = due_ns.is_some_and(|due_ns| {
                window.is_live && now.unix_ns >= window.end_ns.saturating_add(due_ns)
            });
            has_input_ended
                || is_quiet
                || is_due
                || latest.passed_ns.is_some_and(|passed_ns| passed_ns >= late_ns)
        };
        let of_task = &self.list[task].windows;
        let over: Vec<i64> =
            of_task.iter().filter(|(_, window)| is_over(window)).map(|(end, _)| *end).collect();
        for end_ns in over {
            let completeness = if has_input_ended { 1.0 } else { latest.share(end_ns) };
            self.end_window_of(task, end_ns, completeness, now);
        }
    }

    /// Ends an event-time window.
    fn end_window_of(&mut self, task: usize, end_ns: i64, completeness: f64, now: Now) {
        self.list[task].ended_ns = self.list[task].ended_ns.max(end_ns);
        if let Some(window) = self.list[task].windows.remove(&end_ns) {
            self.end(task, window, completeness, now);
        }
    }

    /// Returns the progress of the origins.
    fn latest(&self, now: Now) -> Latest {
        let recent =
            self.origins.values().filter(|origin| now.since_start - origin.seen < ORIGIN_IDLE);
        let passed_ns = recent.map(|origin| origin.latest_ns).min();
        let mut all_ns: Vec<i64> = self.origins.values().map(|origin| origin.latest_ns).collect();
        all_ns.sort_unstable();
        Latest { passed_ns, all_ns }
    }

    fn end(&mut self, task: usize, window: Window, completeness: f64, now: Now) {
        let Task { definition, number, .. } = &self.list[task];
        let delay = Delay::begin(Some(task), definition, &window.ending(), now);
        let (definition, task, emitted) = (definition.clone(), *number, 0);
        self.push_ended(EndedWindow { definition, task, window, emitted, completeness, delay });
    }

    fn push_ended(&mut self, ended: EndedWindow) {
        let urgency = ended.urgency();
        let at = self.ended.partition_point(|other| other.urgency() <= urgency);
        self.ended.insert(at, ended);
    }

    /// Returns the most urgent ended window. [`Tasks::drop_ended`] drops it.
    pub fn first_ended(&mut self) -> Option<&mut EndedWindow> {
        self.ended.front_mut()
    }

    /// Returns whether there is an ended window whose results are not all produced.
    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Drops the most urgent ended window after all its results were produced.
    pub fn drop_ended(&mut self) {
        let Some(ended) = self.ended.pop_front() else { return };
        self.memory.used -= ended.window.memory_bytes;
        if ended.window.is_saved {
            self.gone.push(ended.window.number);
        }
    }

    /// Updates the number and memory use of each task's groups.
    pub fn note_groups(&self, stats: &Stats) {
        for (at, task) in self.list.iter().enumerate() {
            let groups = task.windows.values().map(|window| window.groups.len()).sum();
            let memory_bytes = task.windows.values().map(|window| window.memory_bytes).sum();
            stats.note_groups(at, groups, memory_bytes);
        }
    }

    /// Returns the time until the next check for windows to end; `None` if no window ends because
    /// of time, which means that no task has arrival-time windows and no window is open.
    pub fn left(&self, now: Now) -> Option<Duration> {
        let has_logged = self
            .list
            .iter()
            .any(|task| task.definition.lateness_ns.is_some() && !task.windows.is_empty());
        let logged = has_logged.then_some(LOGGED_LOOK);
        self.periods.values().map(|periods| periods.left(now)).chain(logged).min()
    }

    /// Returns whether a period of arrival-time windows has ended.
    pub fn has_period_ended(&self, now: Now) -> bool {
        self.periods.values().any(|periods| periods.left(now).is_zero())
    }

    /// Appends the changes since the last snapshot, or the whole state.
    pub fn write(&mut self, is_whole: bool, frame: &mut Frame) {
        for number in self.gone.drain(..).filter(|_| !is_whole) {
            frame.ended(number);
        }
        for task in self.list.iter_mut().filter(|task| is_whole || !task.is_saved) {
            frame.definition(task.number, &task.definition);
            task.is_saved = true;
        }
        for task in &mut self.list {
            task.windows.values_mut().for_each(|window| window.write(task.number, is_whole, frame));
        }
        if is_whole {
            self.write_former(frame);
        }
        for ended in &mut self.ended {
            ended.window.write(ended.task, is_whole, frame);
            if ended.emitted > 0 {
                frame.emitted(ended.window.number, ended.emitted);
            }
        }
    }

    /// Appends the definitions of ended windows that no task uses anymore.
    fn write_former(&self, frame: &mut Frame) {
        let current: HashSet<u32> = self.list.iter().map(|task| task.number).collect();
        let former = self.ended.iter().filter(|ended| !current.contains(&ended.task));
        let former: BTreeMap<u32, &Definition> =
            former.map(|ended| (ended.task, &*ended.definition)).collect();
        former.iter().for_each(|(number, definition)| frame.definition(*number, definition));
    }
}
