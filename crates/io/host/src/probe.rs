//! Queries file system usage on a separate thread. A network file system whose server is down, or a
//! broken disk, responds late or never, and blocks only that thread.

use crate::mounts::Mount;
use crate::reading::{Readings, Reason, labels};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Maximum number of threads that a file system blocks. While this many are blocked, no further
/// file systems are queried.
const STUCK_MAX: usize = 8;

/// Capacity and usage of a file system, in bytes and files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Space {
    /// Total bytes.
    pub size: u64,
    /// Free bytes.
    pub free: u64,
    /// Bytes available to unprivileged users.
    pub available: u64,
    /// Total inodes; 0 if the file system has no such limit.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
}

/// Function that returns the usage of the file system at a path.
pub type Query = Arc<dyn Fn(&Path) -> io::Result<Space> + Send + Sync>;

/// Function that a query thread calls after its last response.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Queries file systems with a timeout.
pub struct Probe {
    query: Query,
    wake: Wake,
    timeout: Duration,
    round: Option<Round>,
    /// File systems that timed out, and the threads that they still block.
    stuck: Vec<(PathBuf, JoinHandle<()>)>,
}

/// The queries of one thread.
struct Round {
    /// Mounts that have not responded, with their paths, in the order of the thread's queries.
    pending: VecDeque<(Mount, PathBuf)>,
    responses: Receiver<io::Result<Space>>,
    thread: JoinHandle<()>,
    deadline: Duration,
}

/// Returns the usage of the file system at a path, from the kernel.
pub fn space(path: &Path) -> io::Result<Space> {
    let vfs = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(vfs.f_frsize);
    Ok(Space {
        size: bytes(vfs.f_blocks),
        free: bytes(vfs.f_bfree),
        available: bytes(vfs.f_bavail),
        files: vfs.f_files,
        files_free: vfs.f_ffree,
    })
}

impl Probe {
    /// Creates a probe that waits for each response for at least `timeout`, and for at most twice
    /// as long.
    pub fn new(query: Query, wake: Wake, timeout: Duration) -> Probe {
        Probe { query, wake, timeout, round: None, stuck: Vec::new() }
    }

    /// Starts to query the mounts at these paths. A mount that has timed out is not queried again
    /// while its thread is blocked.
    pub fn begin(&mut self, mounts: Vec<(Mount, PathBuf)>, now: Duration, out: &mut Readings) {
        self.stuck.retain(|(_, thread)| !thread.is_finished());
        let is_stuck = |path: &PathBuf| self.stuck.iter().any(|(stuck, _)| stuck == path);
        let (stuck, pending): (Vec<_>, Vec<_>) =
            mounts.into_iter().partition(|(_, path)| is_stuck(path));
        stuck.iter().for_each(|(_, path)| time_out(path, out));
        self.query(pending.into(), now, out);
    }

    fn query(&mut self, pending: VecDeque<(Mount, PathBuf)>, now: Duration, out: &mut Readings) {
        if pending.is_empty() {
            return;
        }
        if self.stuck.len() >= STUCK_MAX {
            return pending.iter().for_each(|(_, path)| time_out(path, out));
        }
        let (sender, responses) = channel();
        let paths: Vec<PathBuf> = pending.iter().map(|(_, path)| path.clone()).collect();
        let (query, wake) = (self.query.clone(), self.wake.clone());
        let started = Builder::new().name("statvfs".into()).spawn(move || {
            // After a timeout of the round, the receiver no longer exists.
            let is_complete = paths.iter().all(|path| sender.send(query(path)).is_ok());
            drop(sender);
            if is_complete {
                wake();
            }
        });
        match started {
            Ok(thread) => {
                self.round =
                    Some(Round { pending, responses, thread, deadline: now + self.timeout })
            }
            Err(error) => pending.iter().for_each(|(_, path)| out.failed(path, &error)),
        }
    }

    /// Takes the responses received so far, and gives up on a query that has timed out. Returns how
    /// long to wait for more responses; `None` if none are pending.
    pub fn poll(&mut self, now: Duration, out: &mut Readings) -> Option<Duration> {
        loop {
            let mut round = self.round.take()?;
            let (before, is_done) = (round.pending.len(), round.take(out));
            if is_done {
                return None;
            }
            if round.pending.len() < before {
                round.deadline = now + self.timeout;
            }
            if now < round.deadline {
                let left = round.deadline - now;
                self.round = Some(round);
                return Some(left);
            }
            self.abandon(round, now, out);
        }
    }

    /// Reports the first pending mount as timed out, leaves its thread blocked, and queries the
    /// remaining mounts on a new thread.
    fn abandon(&mut self, mut round: Round, now: Duration, out: &mut Readings) {
        if let Some((_, path)) = round.pending.pop_front() {
            time_out(&path, out);
            self.stuck.push((path, round.thread));
        }
        self.query(round.pending, now, out);
    }
}

fn time_out(path: &Path, out: &mut Readings) {
    out.fault(Reason::Timeout, path, "the file system did not respond");
}

impl Round {
    /// Takes the responses received so far. Returns whether all have arrived.
    fn take(&mut self, out: &mut Readings) -> bool {
        while !self.pending.is_empty() {
            let response = match self.responses.try_recv() {
                Ok(response) => response,
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => {
                    Err(io::Error::other("the query thread panicked"))
                }
            };
            let Some((mount, path)) = self.pending.pop_front() else { return true };
            match response {
                Ok(space) => emit(&mount, &space, out),
                Err(error) => out.failed(&path, &error),
            }
        }
        true
    }
}

fn emit(mount: &Mount, space: &Space, out: &mut Readings) {
    // A pseudo file system has no blocks.
    if space.size == 0 {
        return;
    }
    let point = mount.point.to_string_lossy();
    let labels =
        labels([("device", &mount.device), ("fstype", &mount.kind), ("mountpoint", &point)]);
    let mut gauge = |name, value: u64| out.gauge(name, &labels, value as f64);
    gauge("host_filesystem_total_bytes", space.size);
    gauge("host_filesystem_free_bytes", space.free);
    gauge("host_filesystem_available_bytes", space.available);
    gauge("host_filesystem_used_bytes", space.size.saturating_sub(space.free));
    if space.files > 0 {
        gauge("host_filesystem_files", space.files);
        gauge("host_filesystem_files_free", space.files_free);
    }
    // Not the flag of statvfs(3): the agent's own mounts may be read-only, in a container or a sandbox.
    gauge("host_filesystem_readonly", u64::from(mount.is_read_only));
}
