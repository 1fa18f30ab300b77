//! The reasons why a child has exited.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// Folder where the control groups are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";

/// The signal that the kernel sends when memory is exhausted.
const SIGKILL: i32 = 9;

/// The signal that asks a process to exit.
const SIGTERM: i32 = 15;

/// Names of the signals that can kill the child.
const SIGNALS: [(i32, &str); 8] = [
    (4, "SIGILL"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (SIGKILL, "SIGKILL"),
    (11, "SIGSEGV"),
    (SIGTERM, "SIGTERM"),
    (31, "SIGSYS"),
];

/// The reason why the agent killed a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Killed {
    /// A call exceeded its deadline.
    Deadline,
    /// The child did not respond in time.
    Silent,
    /// The child violates the protocol.
    Garbage(&'static str),
}

/// Counts how many processes in the child's control group the kernel has killed to free memory.
pub struct MemoryKills {
    file: Option<PathBuf>,
    before: u64,
}

impl MemoryKills {
    /// Starts counting for a process that was just started.
    pub fn begin(folder: Option<&Path>, pid: u32) -> MemoryKills {
        let of_process = || fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let folders =
            folder.map_or_else(|| folders(&of_process()), |folder| vec![folder.to_owned()]);
        let files = folders.iter().flat_map(|folder| {
            ["memory.events", "memory.oom_control"].map(|name| folder.join(name))
        });
        let file = files.into_iter().find(|file| kills(file).is_some());
        let before = file.as_deref().and_then(kills).unwrap_or_default();
        MemoryKills { file, before }
    }

    /// Returns whether the kernel has killed a process since then.
    fn has_more(&self) -> bool {
        self.file.as_deref().and_then(kills).is_some_and(|now| now > self.before)
    }
}

/// Returns the folders of those control groups in `/proc/PID/cgroup` that can limit memory.
fn folders(text: &str) -> Vec<PathBuf> {
    let folder = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let path = path.trim_start_matches('/');
        match controllers {
            "" => Some(Path::new(CGROUPS).join(path)),
            "memory" => Some(Path::new(CGROUPS).join("memory").join(path)),
            _ => None,
        }
    };
    text.lines().filter_map(folder).collect()
}

fn kills(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// How a child exited, or the reason why it did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Description of the exit.
    reason: String,
    /// Whether a signal from outside killed the child. The next child may then run longer.
    pub is_by_kill: bool,
}

impl Ended {
    /// Describes an exit that was not caused by a signal from outside.
    pub fn for_reason(reason: impl Into<String>) -> Ended {
        Ended { reason: reason.into(), is_by_kill: false }
    }

    /// Returns the same exit with a different description.
    pub fn told(self, reason: String) -> Ended {
        Ended { reason, ..self }
    }
}

impl Display for Ended {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// Describes how a child exited.
pub fn ended(status: ExitStatus, killed: Option<Killed>, kills: &MemoryKills) -> Ended {
    match killed {
        Some(Killed::Deadline) => {
            return Ended::for_reason("the agent killed it because a call exceeded its deadline");
        }
        Some(Killed::Silent) => {
            return Ended::for_reason("the agent killed it because it did not respond");
        }
        Some(Killed::Garbage(what)) => {
            return Ended::for_reason(format!("the agent killed it because it sent {what}"));
        }
        None => {}
    }
    match (status.code(), status.signal()) {
        (_, Some(SIGKILL)) if kills.has_more() => {
            Ended { reason: "killed by the kernel for lack of memory".to_owned(), is_by_kill: true }
        }
        (_, Some(signal)) => by_signal(signal),
        (Some(code), None) => Ended::for_reason(format!("exit code {code}")),
        (None, None) => Ended::for_reason("unknown"),
    }
}

fn by_signal(signal: i32) -> Ended {
    let name = SIGNALS.iter().find(|(number, _)| *number == signal);
    let reason =
        name.map_or(format!("signal {signal}"), |(_, name)| format!("signal {signal} ({name})"));
    Ended { reason, is_by_kill: matches!(signal, SIGKILL | SIGTERM) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_in_words() {
        let dir = tempfile::tempdir().unwrap();
        let events = dir.path().join("memory.events");
        fs::write(&events, "oom 1\noom_kill 1\n").unwrap();
        let kills = MemoryKills::begin(Some(dir.path()), 0);
        let text = |raw, killed| ended(ExitStatus::from_raw(raw), killed, &kills).to_string();
        assert_eq!(text(3 << 8, None), "exit code 3");
        assert_eq!(text(11, None), "signal 11 (SIGSEGV)");
        assert_eq!(text(9, None), "signal 9 (SIGKILL)");
        assert_eq!(text(34, None), "signal 34");
        assert!(text(9, Some(Killed::Deadline)).contains("exceeded its deadline"));
        fs::write(&events, "oom 2\noom_kill 2\n").unwrap();
        assert_eq!(text(9, None), "killed by the kernel for lack of memory");
    }

    #[test]
    fn the_next_child_may_live_after_a_kill_from_outside() {
        let kills = MemoryKills { file: None, before: 0 };
        let is_by_kill = |raw, killed| ended(ExitStatus::from_raw(raw), killed, &kills).is_by_kill;
        assert!(is_by_kill(9, None) && is_by_kill(15, None));
        assert!(![3 << 8, 6, 11].into_iter().any(|raw| is_by_kill(raw, None)));
        assert!(!is_by_kill(9, Some(Killed::Silent)));
    }

    #[test]
    fn control_groups_of_both_versions_are_found() {
        let found = folders("3:memory:/team/a\n1:name=systemd:/x\n0::/unit\n");
        let expected = ["/sys/fs/cgroup/memory/team/a", "/sys/fs/cgroup/unit"].map(PathBuf::from);
        assert_eq!(found, expected);
    }
}
