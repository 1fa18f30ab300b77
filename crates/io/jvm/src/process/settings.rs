//! What a child is started with.

use crate::memory::JvmMemory;
use crate::options::JvmOptions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The name of a process unless another one is configured.
pub const DEFAULT_PROCESS: &str = "default";

/// The program itself, also if its file was replaced meanwhile: both ends must be of one build.
const PROGRAM: &str = "/proc/self/exe";

/// The subcommand of the program that serves.
pub const SUBCOMMAND: &str = "jvm-process";

/// How the JVM in a separate process is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessOptions {
    /// The options of the JVM.
    pub jvm: JvmOptions,
    /// The user as whom it runs; the agent's if `None`.
    pub user: Option<String>,
    /// How many files it may open; as many as the agent if `None`.
    pub open_files: Option<u64>,
    /// The control group in which it runs; the agent's if `None`.
    pub cgroup: Option<PathBuf>,
    /// The program that calls [`crate::serve_process`], and its arguments.
    pub command: (PathBuf, Vec<String>),
}

impl ProcessOptions {
    /// Runs the program itself, with these options of the JVM.
    pub fn new(jvm: JvmOptions) -> ProcessOptions {
        let command = (PROGRAM.into(), vec![SUBCOMMAND.to_owned()]);
        ProcessOptions { jvm, user: None, open_files: None, cgroup: None, command }
    }

    /// Returns the memory that the process and the connections to it may take.
    pub fn memory(&self) -> JvmMemory {
        let memory = JvmMemory::of(&self.jvm);
        // An answer is copied: it is in the memory that both sides share, and in a buffer.
        JvmMemory { buffer_bytes: memory.buffer_bytes.saturating_mul(2), ..memory }
    }
}

/// The processes that a configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JvmProcesses {
    /// For each name without its own.
    pub usual: ProcessOptions,
    /// By name.
    pub named: BTreeMap<String, ProcessOptions>,
}

impl JvmProcesses {
    /// Returns the options of a process.
    pub fn options(&self, name: &str) -> &ProcessOptions {
        self.named.get(name).unwrap_or(&self.usual)
    }
}

/// What the first frame tells the child.
#[derive(Debug, Serialize, Deserialize)]
pub struct Start {
    pub name: String,
    pub jvm: JvmOptions,
    pub identity: Option<Identity>,
    pub open_files: Option<u64>,
}

/// Numbers of a user.
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
    /// There is none.
    pub fn find(user: &str) -> Result<Identity, String> {
        let read = |path: &str| std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"));
        Identity::in_files(user, &read("/etc/passwd")?, &read("/etc/group").unwrap_or_default())
            .ok_or_else(|| format!("`user`: there is no user {user} in /etc/passwd"))
    }

    fn in_files(user: &str, users: &str, groups: &str) -> Option<Identity> {
        let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<String>>();
        let is_user = |of: &Vec<String>| of.len() >= 6 && (of[0] == user || of[2] == user);
        let found = users.lines().map(fields).find(is_user)?;
        let group = found[3].parse().ok()?;
        let mut all = vec![group];
        for of in groups.lines().map(fields).filter(|of| of.len() >= 4) {
            let is_member = of[3].split(',').any(|member| member == found[0]);
            all.extend(of[2].parse::<u32>().ok().filter(|id| is_member && !all.contains(id)));
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
