//! Resource usage and limits of control groups (cgroup v2).

use crate::files::{self, is_gone};
use crate::reading::{Labels, Readings, Reason, labels};
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of groups in a collection, because each group costs several reads.
const GROUPS_MAX: usize = 1000;

/// Maximum number of levels to collect below the root.
pub const DEPTH_MAX: u32 = 16;

/// The control groups to collect.
#[derive(Clone, Debug)]
pub struct Cgroups {
    /// Path of the root in the hierarchy, such as `/system.slice`; `None` for the agent's own
    /// group.
    pub root: Option<String>,
    /// Number of levels to collect below the root; at most [`DEPTH_MAX`].
    pub depth: u32,
}

/// Keys in `cpu.stat`, with the metric name and the factor that converts the value to the metric's
/// unit.
const CPU: [(&str, &str, f64); 3] = [
    ("nr_periods", "host_cgroup_cpu_periods_total", 1.0),
    ("nr_throttled", "host_cgroup_cpu_throttled_periods_total", 1.0),
    ("throttled_usec", "host_cgroup_cpu_throttled_seconds_total", 1e-6),
];

/// Files that contain a single number, with the metric name. The text `max` means no limit.
const STATES: [(&str, &str); 6] = [
    ("memory.current", "host_cgroup_memory_used_bytes"),
    ("memory.max", "host_cgroup_memory_limit_bytes"),
    ("memory.swap.current", "host_cgroup_memory_swap_used_bytes"),
    ("memory.swap.max", "host_cgroup_memory_swap_limit_bytes"),
    ("pids.current", "host_cgroup_threads"),
    ("pids.max", "host_cgroup_threads_limit"),
];

/// Keys in `memory.stat`, with the metric name.
const MEMORY: [(&str, &str); 2] =
    [("anon", "host_cgroup_memory_anonymous_bytes"), ("file", "host_cgroup_memory_cached_bytes")];

/// Keys in `io.stat`, with the metric name.
const IO: [(&str, &str); 4] = [
    ("rbytes", "host_cgroup_io_read_bytes_total"),
    ("wbytes", "host_cgroup_io_written_bytes_total"),
    ("rios", "host_cgroup_io_reads_completed_total"),
    ("wios", "host_cgroup_io_writes_completed_total"),
];

/// Reads the configured groups.
pub fn read(proc: &Path, sys: &Path, cgroups: &Cgroups, out: &mut Readings) {
    let Some(base) = hierarchy(sys) else {
        let path = sys.join("fs/cgroup/cgroup.controllers");
        return out.fault(Reason::Missing, &path, "cgroup v2 is not mounted");
    };
    let Some(name) = cgroups.root.clone().or_else(|| own(proc, out)) else { return };
    let mut walk = Walk { base, remaining: GROUPS_MAX, out };
    let name = format!("/{}", name.trim_matches('/'));
    let path = walk.path(&name);
    if let Err(error) = path.metadata() {
        return walk.out.failed(&path, &error);
    }
    walk.group(&name, cgroups.depth);
}

/// Returns the root of the cgroup v2 hierarchy. On a host with both versions, it is the folder
/// `unified`.
fn hierarchy(sys: &Path) -> Option<PathBuf> {
    let folders = [sys.join("fs/cgroup"), sys.join("fs/cgroup/unified")];
    folders.into_iter().find(|folder| folder.join("cgroup.controllers").exists())
}

/// Returns the path of the agent's control group in the hierarchy.
fn own(proc: &Path, out: &mut Readings) -> Option<String> {
    let path = proc.join("self/cgroup");
    let text = out.read(&path)?;
    let own = text.lines().find_map(|line| line.strip_prefix("0::"));
    match own {
        // The group is outside the agent's cgroup namespace, so the root of the namespace is used
        // instead.
        Some(own) if own.split('/').any(|part| part == "..") => Some("/".to_owned()),
        Some(own) => Some(own.to_owned()),
        None => {
            out.malformed(&path);
            None
        }
    }
}

struct Walk<'a> {
    base: PathBuf,
    remaining: usize,
    out: &'a mut Readings,
}

impl Walk<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.base.join(name.trim_start_matches('/'))
    }

    /// Reads a group and its descendants, sorted by name.
    fn group(&mut self, name: &str, depth: u32) {
        let path = self.path(name);
        if self.remaining == 0 {
            return self.out.fault(
                Reason::Malformed,
                &path,
                format!("more than {GROUPS_MAX} groups"),
            );
        }
        self.remaining -= 1;
        metrics(&path, &labels([("cgroup", name)]), self.out);
        if depth == 0 {
            return;
        }
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if is_gone(&error) => return,
            Err(error) => return self.out.failed(&path, &error),
        };
        let folders =
            entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut children: Vec<String> =
            folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        children.sort();
        for child in children {
            if self.remaining == 0 {
                return self.out.fault(
                    Reason::Malformed,
                    &path,
                    format!("more than {GROUPS_MAX} groups"),
                );
            }
            self.group(&format!("{}/{child}", name.trim_end_matches('/')), depth - 1);
        }
    }
}

/// Reads a group's metrics. Files that do not exist are skipped, because the group's controller may
/// be disabled.
fn metrics(path: &Path, labels: &Labels, out: &mut Readings) {
    cpu(&path.join("cpu.stat"), labels, out);
    for (file, name) in STATES {
        let path = path.join(file);
        match out.read_optional(&path).as_deref().map(str::trim_ascii) {
            None | Some("max") => {}
            Some(text) => match text.parse::<u64>() {
                Ok(value) => out.gauge(name, labels, value as f64),
                Err(_) => out.malformed(&path),
            },
        }
    }
    if let Some(text) = table(&path.join("memory.stat"), out) {
        let found = MEMORY.iter().filter_map(|(key, name)| Some((name, files::value(&text, key)?)));
        found.for_each(|(name, value)| out.gauge(name, labels, value));
    }
    if let Some(text) = table(&path.join("memory.events"), out) {
        let kills = files::value(&text, "oom_kill");
        kills
            .iter()
            .for_each(|kills| out.counter("host_cgroup_memory_oom_kills_total", labels, *kills));
    }
    io(&path.join("io.stat"), labels, out);
}

fn table(path: &Path, out: &mut Readings) -> Option<String> {
    let text = out.read_optional(path)?;
    if !files::is_table(&text) {
        out.malformed(path);
    }
    Some(text)
}

fn cpu(path: &Path, group: &Labels, out: &mut Readings) {
    let Some(text) = table(path, out) else { return };
    for mode in ["user", "system"] {
        if let Some(micros) = files::value(&text, &format!("{mode}_usec")) {
            let labels = labels([("cgroup", &group[0].1), ("mode", mode)]);
            out.counter("host_cgroup_cpu_seconds_total", &labels, micros / 1e6);
        }
    }
    for (key, name, factor) in CPU {
        if let Some(value) = files::value(&text, key) {
            out.counter(name, group, value * factor);
        }
    }
}

/// Reads the I/O of a group, summed over all devices. Each device has a line of the form
/// `major:minor key=value …`.
fn io(path: &Path, labels: &Labels, out: &mut Readings) {
    let Some(text) = out.read_optional(path) else { return };
    let mut sums = [0u64; IO.len()];
    let mut is_valid = true;
    for (key, value) in text.split_ascii_whitespace().filter_map(|word| word.split_once('=')) {
        if let Some(at) = IO.iter().position(|(known, _)| *known == key) {
            let value = value.parse::<u64>();
            is_valid &= value.is_ok();
            sums[at] = sums[at].saturating_add(value.unwrap_or_default());
        }
    }
    if !is_valid {
        return out.malformed(path);
    }
    IO.iter().zip(sums).for_each(|((_, name), sum)| out.counter(name, labels, sum as f64));
}
