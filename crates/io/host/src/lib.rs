//! What the kernel says of the host: processors, memory, disks, file systems, networks, load,
//! processes, control groups and pressure.
//!
//! A separate crate because it cuts a dependency: the program reads its own limits with it,
//! before any component exists.
//!
//! It is read from `/proc` and `/sys`, or from where those of the host are mounted in a container.
//! What is missing, refused or not understood leaves out that piece, with a [`Fault`]; the rest is
//! given. Nothing here waits: file systems, which may not answer, are asked on another thread.

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

pub use allowance::memory_allowance;
pub use cgroups::{Cgroups, DEPTH_MAX};
pub use disk::Disks;
pub use filter::Filter;
pub use mounts::Filesystems;
pub use probe::{Ask, Space, Wake, space};
pub use reading::{Fault, Labels, Reading, Readings, Reason};

use probe::Probe;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// A group of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Times of the processors, interrupts, context switches, forks, boot time.
    Cpu,
    /// Memory and swap.
    Memory,
    /// What was read from and written to disks.
    Disk,
    /// How full file systems are.
    Filesystems,
    /// What network interfaces have received and sent.
    Network,
    /// Load averages.
    Load,
    /// How many processes there are.
    Processes,
    /// What control groups use (version 2).
    Cgroups,
    /// How long work stood still for want of a resource (PSI).
    Pressure,
}

impl Group {
    /// Every group, in the order in which they are read.
    pub const ALL: [Group; 9] = [
        Group::Cpu,
        Group::Memory,
        Group::Disk,
        Group::Filesystems,
        Group::Network,
        Group::Load,
        Group::Processes,
        Group::Cgroups,
        Group::Pressure,
    ];
}

/// What is to be read, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which groups.
    pub groups: Vec<Group>,
    /// Times of each processor instead of their sums.
    pub per_cpu: bool,
    /// Which disks.
    pub disks: Disks,
    /// Which file systems.
    pub filesystems: Filesystems,
    /// Which network interfaces, by name.
    pub interfaces: Filter,
    /// Of which processes to say what they use, by name; `None`: of none.
    pub processes: Option<Filter>,
    /// Which control groups.
    pub cgroups: Cgroups,
    /// Where the host's `/proc` is.
    pub proc: PathBuf,
    /// Where the host's `/sys` is.
    pub sys: PathBuf,
    /// Where the host's `/` is: file systems are asked below it.
    pub root: PathBuf,
}

/// Reads the host, once per period.
pub struct Host {
    options: Options,
    held: cpu::Held,
    seen: processes::Seen,
    probe: Probe,
    readings: Readings,
}

impl Host {
    /// Reads what the options say. `ask` says how full a file system is ([`space`] asks the
    /// kernel); `wake` is called from another thread when [`Host::finish`] has more to say.
    pub fn new(options: Options, ask: Ask, wake: Wake) -> Host {
        let probe = Probe::new(ask, wake, options.filesystems.timeout);
        let (held, seen, readings) = Default::default();
        Host { options, held, seen, probe, readings }
    }

    /// Begins a collection: reads everything now but how full file systems are. `now` is monotonic
    /// time.
    pub fn begin(&mut self, now: Duration) {
        self.readings = Readings::default();
        for group in Group::ALL {
            if self.options.groups.contains(&group) {
                self.read(group, now);
            }
        }
    }

    fn read(&mut self, group: Group, now: Duration) {
        let Host { options, held, seen, probe, readings: out } = self;
        let (proc, sys) = (&options.proc, &options.sys);
        match group {
            Group::Cpu => cpu::read(proc, options.per_cpu, held, out),
            Group::Memory => memory::read(proc, out),
            Group::Disk => disk::read(proc, sys, &options.disks, out),
            Group::Filesystems => {
                let mounts = mounts::read(proc, &options.filesystems, out);
                let place = |mount: mounts::Mount| {
                    let path = mount.below(&options.root);
                    (mount, path)
                };
                probe.begin(mounts.into_iter().map(place).collect(), now, out);
            }
            Group::Network => network::read(proc, &options.interfaces, out),
            Group::Load => load::read(proc, out),
            Group::Processes => processes::read(proc, options.processes.as_ref(), seen, out),
            Group::Cgroups => cgroups::read(proc, sys, &options.cgroups, out),
            Group::Pressure => pressure::read(proc, out),
        }
    }

    /// What the collection came to, once file systems have answered or were given up.
    ///
    /// # Errors
    /// Some have not answered: ask again after this long, or when woken.
    pub fn finish(&mut self, now: Duration) -> Result<Readings, Duration> {
        match self.probe.poll(now, &mut self.readings) {
            Some(left) => Err(left),
            None => Ok(std::mem::take(&mut self.readings)),
        }
    }
}
