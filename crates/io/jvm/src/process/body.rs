//! A child's operating system process.

use super::ending::{Ended, Killed, MemoryKills, ended};
use super::frame::Channel;
use super::settings::ProcessOptions;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Environment variables that Java and its libraries use. Variables that begin with `LC_` are also
/// passed on.
const VARIABLES: [&str; 9] = [
    "PATH",
    "HOME",
    "LANG",
    "TZ",
    "JAVA_HOME",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "TMPDIR",
];

/// A child's operating system process.
pub struct Body {
    pid: Pid,
    /// The child; `None` once the process has been reaped, because another process may then have
    /// its id.
    child: Mutex<Option<Child>>,
    killed: Mutex<Option<Killed>>,
    memory_kills: MemoryKills,
    is_over: AtomicBool,
    /// A descriptor that becomes readable when the process exits; `None` before Linux 5.3.
    ended: Option<OwnedFd>,
}

impl Body {
    /// Starts a child, and stores the agent's end of its control socket in `control`.
    ///
    /// # Errors
    /// Returns an error if the child cannot be started.
    pub fn spawn(options: &ProcessOptions, control: &mut Option<Channel>) -> Result<Body, String> {
        let (own, other) = Channel::pair().map_err(|error| error.to_string())?;
        let mut command = Command::new(&options.command.0);
        command.args(&options.command.1).arg0("millstream").env_clear().envs(variables());
        command.stdin(Stdio::from(other)).process_group(0);
        if let Ok(errors) = io::stderr().as_fd().try_clone_to_owned() {
            command.stdout(Stdio::from(errors));
        }
        let child = command.spawn().map_err(|error| format!("cannot be started: {error}"))?;
        let memory_kills = MemoryKills::begin(options.cgroup.as_deref(), child.id());
        *control = Some(own);
        Ok(Body::new(child, memory_kills))
    }

    fn new(child: Child, memory_kills: MemoryKills) -> Body {
        let pid = Pid::from_child(&child);
        let (killed, is_over) = (Mutex::new(None), AtomicBool::new(false));
        let ended = pidfd_open(pid, PidfdFlags::empty()).ok();
        Body { pid, child: Mutex::new(Some(child)), killed, memory_kills, is_over, ended }
    }

    /// Returns the process id.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns the reason why the agent killed the process; `None` if the agent did not kill it.
    pub fn killed(&self) -> Option<Killed> {
        *self.killed.lock()
    }

    /// Kills the process, and records the reason.
    pub fn kill(&self, why: Killed) {
        self.kill_for(Some(why));
    }

    /// Kills the process, and records the reason if there is one.
    pub fn kill_for(&self, why: Option<Killed>) {
        let mut child = self.child.lock();
        let Some(child) = &mut *child else { return };
        let mut killed = self.killed.lock();
        *killed = killed.or(why);
        _ = child.kill();
    }

    /// Returns whether the process has exited.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Handles a child that failed to start: kills it if necessary. `reason` is empty if the child
    /// exited on its own. Returns how the child ended.
    pub fn not_started(&self, reason: String) -> Ended {
        if !reason.is_empty() {
            self.kill_for(None);
            self.wait();
            return Ended::for_reason(reason);
        }
        let ended = self.wait();
        let reason =
            format!("it exited during startup ({ended}); see its output on standard error");
        ended.told(reason)
    }

    /// Waits up to `time` for the process to exit; returns whether it has exited. Does not reap the
    /// process. Before Linux 5.3, returns `true` immediately.
    pub fn ends_within(&self, time: Duration) -> bool {
        let Some(ended) = &self.ended else { return true };
        let (seconds, nanoseconds) = (time.as_secs() as i64, i64::from(time.subsec_nanos()));
        let timeout = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
        let mut polled = [PollFd::new(ended, PollFlags::IN)];
        !matches!(poll(&mut polled, Some(&timeout)), Ok(0) | Err(Errno::INTR))
    }

    /// Waits for the process to exit, and returns how it exited.
    pub fn wait(&self) -> Ended {
        // Reap the process under the lock, so that `kill` never hits another process.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(self.pid), options), Err(Errno::INTR)) {}
        let mut child = self.child.lock();
        // Also kill the processes that operators have started.
        _ = kill_process_group(self.pid, Signal::KILL);
        let status = child.take().map(|mut child| child.wait());
        self.is_over.store(true, Ordering::Release);
        match status {
            Some(Ok(status)) => ended(status, *self.killed.lock(), &self.memory_kills),
            Some(Err(error)) => Ended::for_reason(error.to_string()),
            None => Ended::for_reason("unknown"),
        }
    }
}

#[cfg(test)]
impl Body {
    /// Starts a child that does nothing.
    pub fn of_test() -> Body {
        let child = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let memory_kills = MemoryKills::begin(None, child.id());
        Body::new(child, memory_kills)
    }

    /// Returns whether the agent has killed the process.
    pub fn has_killed(&self) -> bool {
        self.killed.lock().is_some()
    }
}

/// Returns the environment variables for a child.
fn variables() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| {
        let name = name.to_str().unwrap_or_default();
        VARIABLES.contains(&name) || name.starts_with("LC_")
    })
}
