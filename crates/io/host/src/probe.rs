//! How full file systems are, asked on a thread of its own: a network file system whose server is
//! away, or a broken disk, answers late or never, and then only that thread waits.

use crate::mounts::Mount;
use crate::reading::{Readings, Reason, labels};
use rustix::fs::StatVfsMountFlags;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Threads at most that wait for an answer that may never come. While there are as many, nothing
/// more is asked.
const STUCK_MAX: usize = 8;

/// How full a file system is, in bytes and files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Space {
    /// Bytes in all.
    pub size: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Bytes that are free for others than root.
    pub available: u64,
    /// Files in all; 0 where a file system has no such limit.
    pub files: u64,
    /// Files that are free.
    pub files_free: u64,
    /// Whether it can only be read.
    pub is_read_only: bool,
}

/// Asks the system how full the file system at a path is.
pub type Ask = Arc<dyn Fn(&Path) -> io::Result<Space> + Send + Sync>;

/// Called when there are answers, from another thread.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Asks, and gives up in time.
pub struct Probe {
    ask: Ask,
    wake: Wake,
    timeout: Duration,
    round: Option<Round>,
    /// Who did not answer, and the thread that still waits for it.
    stuck: Vec<(PathBuf, JoinHandle<()>)>,
}

/// Questions of one thread.
struct Round {
    /// Those without an answer, in the order of the thread, with where they are reached.
    open: VecDeque<(Mount, PathBuf)>,
    answers: Receiver<io::Result<Space>>,
    thread: JoinHandle<()>,
    deadline: Duration,
}

/// Asks the kernel.
pub fn space(path: &Path) -> io::Result<Space> {
    let vfs = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(vfs.f_frsize);
    Ok(Space {
        size: bytes(vfs.f_blocks),
        free: bytes(vfs.f_bfree),
        available: bytes(vfs.f_bavail),
        files: vfs.f_files,
        files_free: vfs.f_ffree,
        is_read_only: vfs.f_flag.contains(StatVfsMountFlags::RDONLY),
    })
}

impl Probe {
    /// Asks with `ask`, each time for at least `timeout` and at most twice as long.
    pub fn new(ask: Ask, wake: Wake, timeout: Duration) -> Probe {
        Probe { ask, wake, timeout, round: None, stuck: Vec::new() }
    }

    /// Begins to ask about these, which are reached at these paths. One that has not answered
    /// before is not asked again until it does.
    pub fn begin(&mut self, mounts: Vec<(Mount, PathBuf)>, now: Duration, out: &mut Readings) {
        self.stuck.retain(|(_, thread)| !thread.is_finished());
        let is_stuck = |path: &PathBuf| self.stuck.iter().any(|(stuck, _)| stuck == path);
        let (stuck, open): (Vec<_>, Vec<_>) =
            mounts.into_iter().partition(|(_, path)| is_stuck(path));
        stuck.iter().for_each(|(_, path)| no_answer(path, out));
        self.ask(open.into(), now, out);
    }

    fn ask(&mut self, open: VecDeque<(Mount, PathBuf)>, now: Duration, out: &mut Readings) {
        if open.is_empty() {
            return;
        }
        if self.stuck.len() >= STUCK_MAX {
            return open.iter().for_each(|(_, path)| no_answer(path, out));
        }
        let (sender, answers) = channel();
        let paths: Vec<PathBuf> = open.iter().map(|(_, path)| path.clone()).collect();
        let (ask, wake) = (self.ask.clone(), self.wake.clone());
        let started = Builder::new().name("statvfs".into()).spawn(move || {
            // Nobody listens any more if it was given up.
            let told = paths.iter().all(|path| sender.send(ask(path)).is_ok());
            drop(sender);
            if told {
                wake();
            }
        });
        match started {
            Ok(thread) => {
                self.round = Some(Round { open, answers, thread, deadline: now + self.timeout })
            }
            Err(error) => open.iter().for_each(|(_, path)| out.failed(path, &error)),
        }
    }

    /// Takes the answers that are there. `None`: all are; else how long to wait for more.
    pub fn poll(&mut self, now: Duration, out: &mut Readings) -> Option<Duration> {
        loop {
            let mut round = self.round.take()?;
            let (before, has_ended) = (round.open.len(), round.take(out));
            if has_ended {
                return None;
            }
            if round.open.len() < before {
                round.deadline = now + self.timeout;
            }
            if now < round.deadline {
                let left = round.deadline - now;
                self.round = Some(round);
                return Some(left);
            }
            self.give_up(round, now, out);
        }
    }

    /// Leaves the thread to wait, and asks about the others on a new one.
    fn give_up(&mut self, mut round: Round, now: Duration, out: &mut Readings) {
        if let Some((_, path)) = round.open.pop_front() {
            no_answer(&path, out);
            self.stuck.push((path, round.thread));
        }
        self.ask(round.open, now, out);
    }
}

fn no_answer(path: &Path, out: &mut Readings) {
    out.fault(Reason::Timeout, path, "the file system does not respond");
}

impl Round {
    /// Takes the answers that are there; whether no more will come.
    fn take(&mut self, out: &mut Readings) -> bool {
        while !self.open.is_empty() {
            let answer = match self.answers.try_recv() {
                Ok(answer) => answer,
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => Err(io::Error::other("its thread has ended")),
            };
            let Some((mount, path)) = self.open.pop_front() else { return true };
            match answer {
                Ok(space) => numbers(&mount, &space, out),
                Err(error) => out.failed(&path, &error),
            }
        }
        true
    }
}

fn numbers(mount: &Mount, space: &Space, out: &mut Readings) {
    // One without blocks is no store.
    if space.size == 0 {
        return;
    }
    let point = mount.point.to_string_lossy();
    let of = labels([("device", &mount.device), ("fstype", &mount.kind), ("mountpoint", &point)]);
    let mut gauge = |name, value: u64| out.gauge(name, &of, value as f64);
    gauge("host_filesystem_total_bytes", space.size);
    gauge("host_filesystem_free_bytes", space.free);
    gauge("host_filesystem_available_bytes", space.available);
    gauge("host_filesystem_used_bytes", space.size.saturating_sub(space.free));
    if space.files > 0 {
        gauge("host_filesystem_files", space.files);
        gauge("host_filesystem_files_free", space.files_free);
    }
    gauge("host_filesystem_readonly", u64::from(space.is_read_only));
}
