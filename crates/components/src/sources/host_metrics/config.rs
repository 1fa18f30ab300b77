//! Configuration of the `host_metrics` source.

use super::HostMetrics;
use crate::component::{Component, SourceComponent};
use crate::sources::points::config::check_period;
use crate::sources::points::numbers::Numbers;
use crate::util::glob::Glob;
use millstream_host::{Cgroups, DEPTH_MAX, Disks, Filesystems, Filter, Group, Host, Options};
use millstream_model::{BuildError, Interval, OptionError, Source, SourceOpen};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Disks excluded by default: RAM disks, loop devices and removable media.
const DISKS_EXCLUDED: &[&str] = &["fd*", "loop*", "ram*", "sr*", "zram*"];

/// File system types excluded by default: types without storage, and network types whose server may
/// be unreachable.
const TYPES_EXCLUDED: &[&str] = &[
    "9p",
    "afs",
    "autofs",
    "beegfs",
    "binfmt_misc",
    "bpf",
    "ceph",
    "cgroup",
    "cgroup2",
    "cifs",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fuse",
    "fuse.*",
    "fusectl",
    "gpfs",
    "hugetlbfs",
    "lustre",
    "mqueue",
    "ncpfs",
    "nfs",
    "nfs4",
    "nfsd",
    "nsfs",
    "proc",
    "pstore",
    "ramfs",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "smb3",
    "smbfs",
    "squashfs",
    "sysfs",
    "tracefs",
];

/// Mount points excluded by default: kernel, container and package mounts.
const MOUNTPOINTS_EXCLUDED: &[&str] = &[
    "/dev",
    "/dev/**",
    "/proc/**",
    "/run/**",
    "/snap/**",
    "/sys/**",
    "/var/lib/containerd/**",
    "/var/lib/containers/**",
    "/var/lib/docker/**",
    "/var/lib/kubelet/**",
    "/var/snap/**",
];

/// Interfaces excluded by default: container interfaces.
const INTERFACES_EXCLUDED: &[&str] = &["cali*", "lxc*", "veth*"];

/// Options for the `host_metrics` source.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostMetricsConfig {
    /// Collection interval: whole seconds, 1s to 1d, aligned to the clock.
    pub period: Interval,
    /// Metric groups to collect. The default is all groups.
    #[schemars(length(min = 1))]
    pub collect: Vec<Group>,
    /// Whether to report CPU times per processor, with the `cpu` tag, instead of their sums. This
    /// creates one series per processor and metric.
    pub per_cpu: bool,
    /// Which disks to report.
    pub disks: DisksConfig,
    /// Which file systems to report.
    pub filesystems: FilesystemsConfig,
    /// Which network interfaces to report.
    pub interfaces: InterfacesConfig,
    /// Which processes to report separately.
    pub processes: ProcessesConfig,
    /// Which control groups to report.
    pub cgroups: CgroupsConfig,
    /// Path of the host's `/proc`. Change it if the agent runs in a container.
    pub proc: PathBuf,
    /// Path of the host's `/sys`. Change it if the agent runs in a container.
    pub sys: PathBuf,
    /// Path of the host's `/`, below which file systems are measured. Change it if the agent runs
    /// in a container.
    pub root: PathBuf,
}

/// Which disks to report.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DisksConfig {
    /// Patterns that match the names of disks to include. The default is all disks.
    pub include: Vec<Glob>,
    /// Patterns that match the names of disks to exclude; they take precedence over `include`.
    pub exclude: Vec<Glob>,
    /// Whether to report partitions in addition to whole disks.
    pub partitions: bool,
}

/// Which file systems to report.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FilesystemsConfig {
    /// Patterns that match the file system types to include, such as `ext4`. The default is all
    /// types.
    pub include_types: Vec<Glob>,
    /// Patterns that match the file system types to exclude; they take precedence over
    /// `include_types`.
    pub exclude_types: Vec<Glob>,
    /// Patterns that match the mount points to include. The default is all mount points.
    pub include_mountpoints: Vec<Glob>,
    /// Patterns that match the mount points to exclude; they take precedence over
    /// `include_mountpoints`.
    pub exclude_mountpoints: Vec<Glob>,
    /// Maximum time to query a file system, 100ms to 1m. Raise it for a slow network file system.
    pub timeout: Interval,
}

/// Which network interfaces to report.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct InterfacesConfig {
    /// Patterns that match the names of interfaces to include. The default is all interfaces.
    pub include: Vec<Glob>,
    /// Patterns that match the names of interfaces to exclude; they take precedence over `include`.
    pub exclude: Vec<Glob>,
}

/// Which processes to report separately.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessesConfig {
    /// Patterns that match the names of processes to report, as shown by `ps -o comm`. The default
    /// is none. Each match adds several metric series.
    pub include: Vec<Glob>,
}

/// Which control groups to report.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CgroupsConfig {
    /// Root of the control groups to report, such as `/system.slice`. The default is the agent's
    /// group.
    pub root: Option<String>,
    /// Number of levels below `root` to include, at most 16. Each control group adds several metric
    /// series.
    #[schemars(range(max = 16))]
    pub depth: u32,
}

fn globs(patterns: &[&str]) -> Vec<Glob> {
    patterns.iter().map(|pattern| Glob((*pattern).to_owned())).collect()
}

impl Default for HostMetricsConfig {
    fn default() -> Self {
        HostMetricsConfig {
            period: Interval(Duration::from_secs(10)),
            collect: Group::ALL.to_vec(),
            per_cpu: false,
            disks: DisksConfig::default(),
            filesystems: FilesystemsConfig::default(),
            interfaces: InterfacesConfig::default(),
            processes: ProcessesConfig::default(),
            cgroups: CgroupsConfig::default(),
            proc: "/proc".into(),
            sys: "/sys".into(),
            root: "/".into(),
        }
    }
}

impl Default for DisksConfig {
    fn default() -> Self {
        DisksConfig { include: Vec::new(), exclude: globs(DISKS_EXCLUDED), partitions: false }
    }
}

impl Default for FilesystemsConfig {
    fn default() -> Self {
        FilesystemsConfig {
            include_types: Vec::new(),
            exclude_types: globs(TYPES_EXCLUDED),
            include_mountpoints: Vec::new(),
            exclude_mountpoints: globs(MOUNTPOINTS_EXCLUDED),
            timeout: Interval(Duration::from_secs(1)),
        }
    }
}

impl Default for InterfacesConfig {
    fn default() -> Self {
        InterfacesConfig { include: Vec::new(), exclude: globs(INTERFACES_EXCLUDED) }
    }
}

/// Compiles patterns into a filter; each list comes with its JSON pointer, for errors.
fn filter(include: (&str, &[Glob]), exclude: (&str, &[Glob])) -> Result<Filter, OptionError> {
    let texts = |globs: &[Glob]| globs.iter().map(|glob| glob.0.clone()).collect::<Vec<_>>();
    for (pointer, globs) in [include, exclude] {
        for (at, glob) in globs.iter().enumerate() {
            let invalid = |error| {
                OptionError::new(format!("{pointer}/{at}"), format!("invalid pattern: {error}"))
            };
            Filter::new(std::slice::from_ref(&glob.0), &[]).map_err(invalid)?;
        }
    }
    Filter::new(&texts(include.1), &texts(exclude.1))
        .map_err(|error| OptionError::new(include.0, error))
}

impl HostMetricsConfig {
    /// Compiles the options for the collector.
    ///
    /// # Errors
    /// Returns a JSON pointer, and a message that says what to use instead.
    pub(super) fn options(&self) -> Result<Options, OptionError> {
        let HostMetricsConfig { disks, filesystems, interfaces, processes, cgroups, .. } = self;
        let names = filter(("/disks/include", &disks.include), ("/disks/exclude", &disks.exclude))?;
        let processes_filter = filter(("/processes/include", &processes.include), ("", &[]))?;
        Ok(Options {
            groups: self.collect.clone(),
            per_cpu: self.per_cpu,
            disks: Disks { names, partitions: disks.partitions },
            filesystems: Filesystems {
                types: filter(
                    ("/filesystems/include_types", &filesystems.include_types),
                    ("/filesystems/exclude_types", &filesystems.exclude_types),
                )?,
                mountpoints: filter(
                    ("/filesystems/include_mountpoints", &filesystems.include_mountpoints),
                    ("/filesystems/exclude_mountpoints", &filesystems.exclude_mountpoints),
                )?,
                timeout: filesystems.timeout.0,
            },
            interfaces: filter(
                ("/interfaces/include", &interfaces.include),
                ("/interfaces/exclude", &interfaces.exclude),
            )?,
            processes: (!processes.include.is_empty()).then_some(processes_filter),
            cgroups: Cgroups { root: cgroups.root.clone(), depth: cgroups.depth },
            proc: self.proc.clone(),
            sys: self.sys.clone(),
            root: self.root.clone(),
        })
    }
}

impl Component for HostMetricsConfig {
    fn makes_metrics(&self) -> bool {
        true
    }

    fn check(&self) -> Vec<OptionError> {
        let mut errors: Vec<OptionError> = check_period(self.period.0).into_iter().collect();
        errors.extend(self.options().err());
        let mut error = |key: &str, text: &str| errors.push(OptionError::new(key, text));
        let timeout = self.filesystems.timeout.0;
        if !(Duration::from_millis(100)..=Duration::from_secs(60)).contains(&timeout) {
            error("/filesystems/timeout", "out of range; use 100ms to 1m");
        }
        if self.cgroups.depth > DEPTH_MAX {
            error("/cgroups/depth", "too many levels; use 0 to 16");
        }
        if self.cgroups.root.iter().any(|root| root.split('/').any(|part| part == "..")) {
            error("/cgroups/root", "is outside the control groups; remove `..`");
        }
        for (key, path) in [("/proc", &self.proc), ("/sys", &self.sys), ("/root", &self.root)] {
            if !path.is_absolute() {
                error(key, "not an absolute path; begin it with /");
            }
        }
        errors
    }
}

impl SourceComponent for HostMetricsConfig {
    fn open(&self, open: SourceOpen) -> Result<Box<dyn Source>, BuildError> {
        let options = self.options()?;
        let numbers = Numbers::new(&open, self.period.0)?;
        let host = Host::new(options, Arc::new(millstream_host::space), open.wake);
        Ok(Box::new(HostMetrics::new(host, numbers)))
    }
}
