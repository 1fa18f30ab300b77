//! Why a child has ended.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// Where control groups are.
const CGROUPS: &str = "/sys/fs/cgroup";

/// The signal that the kernel sends for memory.
const SIGKILL: i32 = 9;

/// Names of the signals that end a process with a fault.
const SIGNALS: [(i32, &str); 8] = [
    (4, "SIGILL"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (SIGKILL, "SIGKILL"),
    (11, "SIGSEGV"),
    (15, "SIGTERM"),
    (31, "SIGSYS"),
];

/// Why the agent has ended a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Killed {
    /// A call exceeded its deadline.
    Deadline,
    /// It does not answer.
    Silent,
    /// It does not keep to the protocol.
    Garbage(&'static str),
}

/// Counts the processes of the child's control group that the kernel has killed for memory.
pub struct MemoryKills {
    file: Option<PathBuf>,
    before: u64,
}

impl MemoryKills {
    /// Begins to count, for a process that was just started.
    pub fn begin(folder: Option<&Path>, pid: u32) -> MemoryKills {
        let of_process = || fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let folders = folder.map_or_else(|| folders(&of_process()), |of| vec![of.to_owned()]);
        let files = folders.iter().flat_map(|folder| {
            ["memory.events", "memory.oom_control"].map(|name| folder.join(name))
        });
        let file = files.into_iter().find(|file| kills(file).is_some());
        let before = file.as_deref().and_then(kills).unwrap_or_default();
        MemoryKills { file, before }
    }

    /// Returns whether there was another one.
    fn has_more(&self) -> bool {
        self.file.as_deref().and_then(kills).is_some_and(|now| now > self.before)
    }
}

/// Returns the folders of the control groups in `/proc/PID/cgroup` that may limit memory.
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

/// Says why a child has ended.
pub fn reason(status: ExitStatus, killed: Option<Killed>, kills: &MemoryKills) -> String {
    match killed {
        Some(Killed::Deadline) => {
            return "the agent has ended it: a call exceeded its deadline".to_owned();
        }
        Some(Killed::Silent) => return "the agent has ended it: it does not answer".to_owned(),
        Some(Killed::Garbage(what)) => {
            return format!("the agent has ended it: it has sent {what}");
        }
        None => {}
    }
    match (status.code(), status.signal()) {
        (_, Some(SIGKILL)) if kills.has_more() => "killed by the kernel for memory".to_owned(),
        (_, Some(signal)) => {
            let name = SIGNALS.iter().find(|(number, _)| *number == signal);
            name.map_or(format!("signal {signal}"), |(_, name)| format!("signal {signal} ({name})"))
        }
        (Some(code), None) => format!("exit code {code}"),
        (None, None) => "unknown".to_owned(),
    }
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
        let of = |raw, killed| reason(ExitStatus::from_raw(raw), killed, &kills);
        assert_eq!(of(3 << 8, None), "exit code 3");
        assert_eq!(of(11, None), "signal 11 (SIGSEGV)");
        assert_eq!(of(9, None), "signal 9 (SIGKILL)");
        assert_eq!(of(34, None), "signal 34");
        assert!(of(9, Some(Killed::Deadline)).contains("exceeded its deadline"));
        fs::write(&events, "oom 2\noom_kill 2\n").unwrap();
        assert_eq!(of(9, None), "killed by the kernel for memory");
    }

    #[test]
    fn control_groups_of_both_versions_are_found() {
        let found = folders("3:memory:/team/a\n1:name=systemd:/x\n0::/unit\n");
        let expected = ["/sys/fs/cgroup/memory/team/a", "/sys/fs/cgroup/unit"].map(PathBuf::from);
        assert_eq!(found, expected);
    }
}
