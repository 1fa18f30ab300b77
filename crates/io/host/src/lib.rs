//! Reads the host's metrics from the kernel: CPUs, memory, disks, file systems, networks, load,
//! processes, control groups and pressure.
//!
//! A separate crate because it cuts a dependency: the program uses this crate to read the limits of
//! its control groups, before any component exists.
//!
//! The crate reads `/proc` and `/sys`, or, in a container, the folders where the host's trees are
//! mounted. If a file is missing, unreadable or malformed, only its metrics are omitted, and a
//! [`Fault`] is added. No function blocks: another thread queries file systems, which may not
//! respond.

#![forbid(unsafe_code)]

mod allowance;
mod cgroups;
mod cpu;
mod disk;
mod files;
mod filter;
mod load;
mod memory;
mod mounts;
mod network;
mod pressure;
mod probe;
mod processes;
mod reading;
mod resident;

pub use allowance::memory_allowance;
pub use cgroups::{Cgroups, DEPTH_MAX};
pub use disk::Disks;
pub use filter::Filter;
pub use mounts::Filesystems;
pub use probe::{Query, Space, Wake, space};
pub use reading::{Fault, Labels, Reading, Readings, Reason};
pub use resident::{ResidentMemory, resident_bytes};

use probe::Probe;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// A group of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, strum::VariantArray)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// CPU times, interrupts, context switches, forks, boot time.
    Cpu,
    /// Memory and swap usage.
    Memory,
    /// Disk I/O.
    Disk,
    /// File system usage.
    Filesystems,
    /// Network interface traffic.
    Network,
    /// Load averages.
    Load,
    /// Processes and threads.
    Processes,
    /// Resource usage of control groups (cgroup v2).
    Cgroups,
    /// Pressure stall information (PSI).
    Pressure,
}

impl Group {
    /// All groups, in the order of collection.
    pub const ALL: &[Group] = <Group as strum::VariantArray>::VARIANTS;
}

/// A collector's options: the groups to collect, and the paths to read.
#[derive(Clone, Debug)]
pub struct Options {
    /// The groups to collect.
    pub groups: Vec<Group>,
    /// Whether to emit times per CPU instead of sums over all CPUs.
    pub per_cpu: bool,
    /// The disks to collect.
    pub disks: Disks,
    /// The file systems to collect.
    pub filesystems: Filesystems,
    /// The network interfaces to collect, by name.
    pub interfaces: Filter,
    /// Filter by name for the processes whose resource usage is collected; `None` collects no
    /// process.
    pub processes: Option<Filter>,
    /// The control groups to collect.
    pub cgroups: Cgroups,
    /// The host's `/proc`.
    pub proc: PathBuf,
    /// The host's `/sys`.
    pub sys: PathBuf,
    /// The host's `/`, below which the mount points are queried.
    pub root: PathBuf,
}

/// Collects the host's metrics once per period.
pub struct Host {
    options: Options,
    cpu_times: cpu::LastTimes,
    processes: processes::History,
    probe: Probe,
    readings: Readings,
}

impl Host {
    /// Creates a collector. `query` returns the usage of a file system ([`space`] asks the kernel).
    /// Another thread calls `wake` when [`Host::finish`] can make progress.
    pub fn new(options: Options, query: Query, wake: Wake) -> Host {
        let probe = Probe::new(query, wake, options.filesystems.timeout);
        let (cpu_times, processes, readings) = Default::default();
        Host { options, cpu_times, processes, probe, readings }
    }

    /// Starts a collection: reads everything except file system usage, and queries the file
    /// systems. `now` is monotonic time.
    pub fn begin(&mut self, now: Duration) {
        self.readings = Readings::default();
        for &group in Group::ALL {
            if self.options.groups.contains(&group) {
                self.read(group, now);
            }
        }
    }

    fn read(&mut self, group: Group, now: Duration) {
        let Host { options, cpu_times, processes, probe, readings: out } = self;
        let (proc, sys) = (&options.proc, &options.sys);
        match group {
            Group::Cpu => cpu::read(proc, options.per_cpu, cpu_times, out),
            Group::Memory => memory::read(proc, out),
            Group::Disk => disk::read(proc, sys, &options.disks, out),
            Group::Filesystems => {
                let mounts = mounts::read(proc, &options.filesystems, out);
                let with_path = |mount: mounts::Mount| {
                    let path = mount.below(&options.root);
                    (mount, path)
                };
                probe.begin(mounts.into_iter().map(with_path).collect(), now, out);
            }
            Group::Network => network::read(proc, &options.interfaces, out),
            Group::Load => load::read(proc, out),
            Group::Processes => processes::read(proc, options.processes.as_ref(), processes, out),
            Group::Cgroups => cgroups::read(proc, sys, &options.cgroups, out),
            Group::Pressure => pressure::read(proc, out),
        }
    }

    /// Returns the collection's readings after every file system has responded or timed out.
    ///
    /// # Errors
    /// Returns the time to wait if a response is still pending. Call this function again after that
    /// time, or as soon as `wake` is called.
    pub fn finish(&mut self, now: Duration) -> Result<Readings, Duration> {
        match self.probe.poll(now, &mut self.readings) {
            Some(left) => Err(left),
            None => Ok(std::mem::take(&mut self.readings)),
        }
    }
}
