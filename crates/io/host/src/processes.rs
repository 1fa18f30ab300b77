//! How many processes there are, and what those of wanted names use.

use crate::filter::Filter;
use crate::reading::{Readings, Reason, labels};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

/// States as the kernel writes them, and their names. Every one is emitted, also if there is no
/// such process.
const STATES: [(&str, &str); 7] = [
    ("R", "running"),
    ("S", "sleeping"),
    ("D", "blocked"),
    ("I", "idle"),
    ("Z", "zombie"),
    ("T", "stopped"),
    ("", "other"),
];

/// Names of processes that are told apart: a name may be anything that a process gives itself. When
/// there are as many, those that no process has any more are forgotten.
const NAMES_MAX: usize = 1000;

/// Where things stand behind the name in `stat`.
const STATE: usize = 0;
const USER_TICKS: usize = 11;
const SYSTEM_TICKS: usize = 12;
const THREADS: usize = 17;
const STARTED: usize = 19;
const RESIDENT_PAGES: usize = 21;

/// What a process is, of its `stat`.
#[derive(Debug, PartialEq)]
struct Stat<'t> {
    name: &'t str,
    state: &'t str,
    ticks: u64,
    threads: u64,
    started: u64,
    resident_pages: u64,
}

/// What the processes of one name use.
#[derive(Default)]
struct Use {
    count: u64,
    threads: u64,
    resident_pages: u64,
    /// All that processes of the name have used since they were first seen, also those that have
    /// ended.
    ticks: u64,
}

/// What is kept between two collections: the CPU time of processes, so that the sum over those of a
/// name does not go back when one of them ends.
#[derive(Default)]
pub struct Seen {
    /// By id: start, and ticks at the last collection.
    processes: HashMap<u32, (u64, u64)>,
    names: BTreeMap<String, Use>,
}

/// Reads the `stat` of every process. One that ends meanwhile is left out.
pub fn read(proc: &Path, names: Option<&Filter>, seen: &mut Seen, out: &mut Readings) {
    let folder = match fs::read_dir(proc) {
        Ok(folder) => folder,
        Err(error) => return out.failed(proc, &error),
    };
    let (mut states, mut threads) = ([0u64; STATES.len()], 0);
    let before = std::mem::take(&mut seen.processes);
    seen.names.values_mut().for_each(|used| *used = Use { ticks: used.ticks, ..Use::default() });
    let ids = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    for id in ids {
        let path = proc.join(format!("{id}/stat"));
        let text = out.read_optional(&path).unwrap_or_default();
        // Empty: it has ended between opening and reading.
        let Some(stat) = parse(&text) else {
            // If it is still there, what it has used until now must not be added again.
            seen.processes.extend(before.get(&id).map(|last| (id, *last)));
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
            seen.add(id, &stat, &before);
        }
    }
    for ((_, state), count) in STATES.iter().zip(states) {
        out.gauge("host_processes", &labels([("state", state)]), count as f64);
    }
    out.gauge("host_threads", &labels([]), threads as f64);
    seen.give(proc, out);
}

impl Seen {
    /// Adds a process to those of its name, unless there are too many names.
    fn add(&mut self, id: u32, stat: &Stat<'_>, before: &HashMap<u32, (u64, u64)>) {
        if self.names.len() >= NAMES_MAX && !self.names.contains_key(stat.name) {
            return;
        }
        let used = self.names.entry(stat.name.to_owned()).or_default();
        let last = before.get(&id).filter(|(started, _)| *started == stat.started);
        let last = last.map_or(0, |(_, ticks)| *ticks);
        used.count += 1;
        used.threads += stat.threads;
        used.resident_pages += stat.resident_pages;
        used.ticks += stat.ticks.saturating_sub(last);
        self.processes.insert(id, (stat.started, stat.ticks.max(last)));
    }

    fn give(&mut self, proc: &Path, out: &mut Readings) {
        let second = rustix::param::clock_ticks_per_second() as f64;
        let page = rustix::param::page_size() as f64;
        for (name, used) in &self.names {
            let of = labels([("process", name)]);
            out.gauge("host_process_instances", &of, used.count as f64);
            out.gauge("host_process_threads", &of, used.threads as f64);
            out.gauge("host_process_resident_bytes", &of, used.resident_pages as f64 * page);
            out.counter("host_process_cpu_seconds_total", &of, used.ticks as f64 / second);
        }
        if self.names.len() >= NAMES_MAX {
            let text = format!("{NAMES_MAX} names of processes; more are not told apart");
            out.fault(Reason::Malformed, proc, text);
            self.names.retain(|_, used| used.count > 0);
        }
    }
}

/// Takes a `stat` apart. The name stands in parentheses and may have some itself.
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
        // The kernel writes it with a sign.
        resident_pages: words.get(RESIDENT_PAGES)?.parse::<i64>().ok()?.max(0) as u64,
    })
}
