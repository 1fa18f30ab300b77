//! The options for a JVM in a separate process, and the settings that its child receives.

use crate::memory::JvmMemory;
use crate::options::JvmOptions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Default name of a process.
pub const DEFAULT_PROCESS: &str = "default";

/// Path of the running program. This path works even if the program's file has been replaced,
/// because both ends must come from the same build.
const PROGRAM: &str = "/proc/self/exe";

/// Subcommand of the program that runs a child.
pub const SUBCOMMAND: &str = "jvm-process";

/// The options for a JVM in a separate process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessOptions {
    /// The JVM options.
    pub jvm: JvmOptions,
    /// User to run the process as; `None` for the agent's user.
    pub user: Option<String>,
    /// Maximum number of open files; `None` for the agent's limit.
    pub open_files: Option<u64>,
    /// Control group in which the process runs; `None` for the agent's group.
    pub cgroup: Option<PathBuf>,
    /// Program that calls [`crate::serve_process`], and its arguments.
    pub command: (PathBuf, Vec<String>),
}

impl ProcessOptions {
    /// Creates options that run this program with these JVM options.
    pub fn new(jvm: JvmOptions) -> ProcessOptions {
        let command = (PROGRAM.into(), vec![SUBCOMMAND.to_owned()]);
        ProcessOptions { jvm, user: None, open_files: None, cgroup: None, command }
    }

    /// Returns the maximum memory of the process, including its connections.
    pub fn memory(&self) -> JvmMemory {
        let memory = JvmMemory::of(&self.jvm);
        // Each answer exists twice: in the shared memory, and in a buffer of the agent.
        JvmMemory { buffer_bytes: memory.buffer_bytes.saturating_mul(2), ..memory }
    }
}

/// The processes in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JvmProcesses {
    /// Options for processes without an entry in `named`.
    pub usual: ProcessOptions,
    /// Options by name.
    pub named: BTreeMap<String, ProcessOptions>,
}

impl JvmProcesses {
    /// Returns the options of the process with this name.
    pub fn options(&self, name: &str) -> &ProcessOptions {
        self.named.get(name).unwrap_or(&self.usual)
    }
}

/// The payload of the first frame sent to the child.
#[derive(Debug, Serialize, Deserialize)]
pub struct Start {
    pub name: String,
    pub jvm: JvmOptions,
    pub identity: Option<Identity>,
    pub open_files: Option<u64>,
}

/// A user's user id and group ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub user: u32,
    pub group: u32,
    pub groups: Vec<u32>,
    pub home: String,
}

impl Identity {
    /// Finds a user by name or number.
    ///
    /// # Errors
    /// Returns an error if the user does not exist.
    pub fn find(user: &str) -> Result<Identity, String> {
        let read = |path: &str| std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"));
        Identity::in_files(user, &read("/etc/passwd")?, &read("/etc/group").unwrap_or_default())
            .ok_or_else(|| format!("`user`: there is no user {user} in /etc/passwd"))
    }

    fn in_files(user: &str, users: &str, groups: &str) -> Option<Identity> {
        let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<String>>();
        let is_user =
            |entry: &Vec<String>| entry.len() >= 6 && (entry[0] == user || entry[2] == user);
        let found = users.lines().map(fields).find(is_user)?;
        let group = found[3].parse().ok()?;
        let mut all = vec![group];
        for entry in groups.lines().map(fields).filter(|entry| entry.len() >= 4) {
            let is_member = entry[3].split(',').any(|member| member == found[0]);
            all.extend(entry[2].parse::<u32>().ok().filter(|id| is_member && !all.contains(id)));
        }
        let (user, home) = (found[2].parse().ok()?, found[5].clone());
        Some(Identity { user, group, groups: all, home })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_with_their_groups() {
        let users = "root:x:0:0:root:/root:/bin/sh\nteam:x:1001:1002:Team:/home/team:/bin/sh\n";
        let groups = "root:x:0:\nlogs:x:4:other,team\nteam:x:1002:team\n";
        let team = Identity::in_files("team", users, groups).unwrap();
        assert_eq!((team.user, team.group, &team.groups[..]), (1001, 1002, &[1002, 4][..]));
        assert_eq!(Identity::in_files("1001", users, groups), Some(team));
        assert_eq!(Identity::in_files("none", users, groups), None);
    }

    #[test]
    fn processes_without_their_own_options_have_the_usual_ones() {
        let usual = ProcessOptions::new(JvmOptions::default());
        let own = ProcessOptions { open_files: Some(64), ..usual.clone() };
        let named = BTreeMap::from([("a".to_owned(), own.clone())]);
        let processes = JvmProcesses { usual: usual.clone(), named };
        assert_eq!((processes.options("a"), processes.options("b")), (&own, &usual));
        assert!(usual.memory().total_bytes() > JvmMemory::of(&usual.jvm).total_bytes());
    }
}
