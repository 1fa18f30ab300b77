//! Process and thread counts, and the resource usage of processes by name.

use crate::filter::Filter;
use crate::reading::{Readings, Reason, labels};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

/// Letters of process states in the kernel's files, and their names. Each state is emitted, even if
/// its count is zero.
const STATES: [(&str, &str); 7] = [
    ("R", "running"),
    ("S", "sleeping"),
    ("D", "blocked"),
    ("I", "idle"),
    ("Z", "zombie"),
    ("T", "stopped"),
    ("", "other"),
];

/// Maximum number of process names. It is needed because a process can set its name to anything.
/// Once it is reached, names that no process uses are removed.
const NAMES_MAX: usize = 1000;

/// Indexes of fields in a `stat` file, counted from the first field after the name.
const STATE: usize = 0;
const USER_TICKS: usize = 11;
const SYSTEM_TICKS: usize = 12;
const THREADS: usize = 17;
const STARTED: usize = 19;
const RESIDENT_PAGES: usize = 21;

/// A process's parsed `stat` file.
#[derive(Debug, PartialEq)]
struct Stat<'t> {
    name: &'t str,
    state: &'t str,
    ticks: u64,
    threads: u64,
    started: u64,
    resident_pages: u64,
}

/// Resource usage of all processes with the same name.
#[derive(Default)]
struct Usage {
    count: u64,
    threads: u64,
    resident_pages: u64,
    /// CPU ticks used by all processes with this name that any collection has seen, including those
    /// that have exited.
    ticks: u64,
}

/// The CPU times of processes, kept between collections, so that the sum over a name does not
/// decrease when one of its processes exits.
#[derive(Default)]
pub struct History {
    /// Start time of each process, and its CPU ticks at the last collection, by process id.
    processes: HashMap<u32, (u64, u64)>,
    names: BTreeMap<String, Usage>,
}

/// Reads the `stat` file of every process. Skips processes that exit meanwhile.
pub fn read(proc: &Path, names: Option<&Filter>, history: &mut History, out: &mut Readings) {
    let entries = match fs::read_dir(proc) {
        Ok(entries) => entries,
        Err(error) => return out.failed(proc, &error),
    };
    let (mut states, mut threads) = ([0u64; STATES.len()], 0);
    let before = std::mem::take(&mut history.processes);
    history
        .names
        .values_mut()
        .for_each(|usage| *usage = Usage { ticks: usage.ticks, ..Usage::default() });
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    for id in ids {
        let path = proc.join(format!("{id}/stat"));
        let text = out.read_optional(&path).unwrap_or_default();
        // The text is empty if the process exited after it was listed.
        let Some(stat) = parse(&text) else {
            // If the process still exists, the CPU time counted before must not be added again.
            history.processes.extend(before.get(&id).map(|last| (id, *last)));
            if !text.is_empty() {
                out.malformed(&path);
            }
            continue;
        };
        let other = STATES.len() - 1;
        let state = stat.state.to_ascii_uppercase();
        states[STATES.iter().position(|(key, _)| *key == state).unwrap_or(other)] += 1;
        threads += stat.threads;
        if names.is_some_and(|names| names.allows(stat.name)) {
            history.add(id, &stat, &before);
        }
    }
    for ((_, state), count) in STATES.iter().zip(states) {
        out.gauge("host_processes", &labels([("state", state)]), count as f64);
    }
    out.gauge("host_threads", &labels([]), threads as f64);
    history.emit(proc, out);
}

impl History {
    /// Adds a process to the usage of its name. Omits it if the name is new and there are too many
    /// names.
    fn add(&mut self, id: u32, stat: &Stat<'_>, before: &HashMap<u32, (u64, u64)>) {
        if self.names.len() >= NAMES_MAX && !self.names.contains_key(stat.name) {
            return;
        }
        let usage = self.names.entry(stat.name.to_owned()).or_default();
        let last = before.get(&id).filter(|(started, _)| *started == stat.started);
        let last = last.map_or(0, |(_, ticks)| *ticks);
        usage.count += 1;
        usage.threads += stat.threads;
        usage.resident_pages += stat.resident_pages;
        usage.ticks += stat.ticks.saturating_sub(last);
        self.processes.insert(id, (stat.started, stat.ticks.max(last)));
    }

    fn emit(&mut self, proc: &Path, out: &mut Readings) {
        let second = rustix::param::clock_ticks_per_second() as f64;
        let page = rustix::param::page_size() as f64;
        for (name, usage) in &self.names {
            let labels = labels([("process", name)]);
            out.gauge("host_process_instances", &labels, usage.count as f64);
            out.gauge("host_process_threads", &labels, usage.threads as f64);
            out.gauge("host_process_resident_bytes", &labels, usage.resident_pages as f64 * page);
            out.counter("host_process_cpu_seconds_total", &labels, usage.ticks as f64 / second);
        }
        if self.names.len() >= NAMES_MAX {
            let message =
                format!("limit of {NAMES_MAX} process names reached; additional names are omitted");
            out.fault(Reason::Malformed, proc, message);
            self.names.retain(|_, usage| usage.count > 0);
        }
    }
}

/// Parses a `stat` file. The name is in parentheses, and may contain parentheses itself.
fn parse(text: &str) -> Option<Stat<'_>> {
    let (_, rest) = text.split_once('(')?;
    let (name, rest) = rest.rsplit_once(')')?;
    let words: Vec<&str> = rest.split_ascii_whitespace().take(RESIDENT_PAGES + 1).collect();
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    Some(Stat {
        name,
        state: words.get(STATE)?,
        ticks: number(USER_TICKS)?.saturating_add(number(SYSTEM_TICKS)?),
        threads: number(THREADS)?,
        started: number(STARTED)?,
        // The kernel formats this number as signed.
        resident_pages: words.get(RESIDENT_PAGES)?.parse::<i64>().ok()?.max(0) as u64,
    })
}
