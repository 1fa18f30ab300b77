//! Log files that are rotated and deleted while the sink is behind.
//!
//! Three separate sources read the files, one for each way in which the agent can hold a deleted
//! file, and deliver to a slow HTTP endpoint. No file is deleted before the agent had time to link
//! or open it, so every line can be kept, except for the files in [`Deleted::is_at_risk`].

use super::agent::Agent;
use super::endpoint::Endpoint;
use super::keep::Keep;
use super::lines::Lines;
use super::logfile::{Log, Written};
use super::rotation::Rotation;
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Lines per file, about 130 kB.
const LINES_PER_FILE: u64 = 1000;

/// Files written per round.
const FILES_PER_ROUND: usize = 5;

/// Rotated files that are not deleted.
const FILES_KEPT: usize = 1;

/// Timeout for the agent to link, open or deliver a file. After the timeout, the file is deleted
/// anyway, because an agent that needs longer is faulty.
const SEEN_MAX: Duration = Duration::from_secs(20);

/// Interval between these checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// How the agent exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By SIGKILL.
    Kill,
    /// By SIGTERM.
    Stop,
}

/// A deleted file.
#[derive(Clone, Debug)]
pub struct Deleted {
    /// Index of the writer.
    pub writer: usize,
    /// Numbers of the lines in the file.
    pub lines: Range<u64>,
    /// How the source holds the file.
    pub keep: Keep,
    /// Whether the file system supports hard links.
    pub can_link: bool,
    /// Whether the file had a hard link when it was deleted.
    pub is_linked: bool,
    /// How the agent that ran during the deletion exited; `None` if it was still running when the
    /// writing ended.
    pub end: Option<End>,
}

impl Deleted {
    /// Returns whether no agent could keep the file's undelivered data.
    pub fn is_at_risk(&self) -> bool {
        match (self.keep, self.end) {
            (Keep::Link, Some(End::Kill)) => !self.can_link,
            (_, None) | (Keep::Link | Keep::Copy, Some(End::Stop)) => false,
            (Keep::Copy, Some(End::Kill)) | (Keep::Count, Some(_)) => true,
        }
    }
}

/// Files written and deleted, and losses that the agent reported.
#[derive(Debug, Default)]
pub struct Expired {
    /// Content of each log, in the order of [`Keep::ALL`]; empty if nothing expires.
    pub written: Vec<Written>,
    /// Deleted files.
    pub deleted: Vec<Deleted>,
    /// For each source, the events that the agent counted as lost with deleted files.
    pub counted: Vec<(Keep, u64)>,
}

/// The three logs.
pub struct Expiry<'a> {
    logs: Vec<Aging>,
    deleted: Vec<Deleted>,
    endpoint: &'a Endpoint,
    interrupts: &'a AtomicUsize,
}

/// A log of which only the newest files are kept.
struct Aging {
    writer: usize,
    keep: Keep,
    can_link: bool,
    log: Log,
    /// Existing rotated files, oldest first, with their lines.
    rotated: VecDeque<(PathBuf, Range<u64>)>,
}

impl<'a> Expiry<'a> {
    /// Creates the logs in `scratch`; their writers have indices that start at `first`.
    pub fn create(
        scratch: &Path,
        first: usize,
        lines: &Arc<Lines>,
        seed: u64,
        endpoint: &'a Endpoint,
        interrupts: &'a AtomicUsize,
    ) -> io::Result<Expiry<'a>> {
        let can_link = can_link(scratch);
        let create = |(index, keep): (usize, Keep)| {
            let (folder, writer) = (keep.folder(scratch), first + index);
            fs::create_dir_all(folder.join("in"))?;
            let log = Log::create(&folder, writer, lines.clone(), seed)?;
            Ok(Aging { writer, keep, can_link, log, rotated: VecDeque::new() })
        };
        let logs = Keep::ALL.into_iter().enumerate().map(create).collect::<io::Result<_>>()?;
        Ok(Expiry { logs, deleted: Vec::new(), endpoint, interrupts })
    }

    /// Writes and rotates each log several times before a slow endpoint, and deletes all but the
    /// newest files; returns the number of rotations per log.
    pub fn run_round(&mut self, agent: &mut Agent) -> Result<usize, String> {
        self.endpoint.slow_down();
        let rotations = self.expire_files(agent);
        self.endpoint.speed_up();
        rotations
    }

    fn expire_files(&mut self, agent: &mut Agent) -> Result<usize, String> {
        for log in &mut self.logs {
            // The sweep handles files of the previous round, because they may be delivered and are
            // not linked.
            log.rotated.clear();
        }
        for _ in 0..FILES_PER_ROUND {
            for log in &mut self.logs {
                log.rotate().map_err(writing)?;
                if log.rotated.len() > FILES_KEPT && await_seen(log, agent, self.interrupts)? {
                    self.deleted.extend(log.delete_oldest().map_err(writing)?);
                }
            }
        }
        Ok(FILES_PER_ROUND * self.logs.len())
    }

    /// Records how the agent exited that was running when files were last deleted.
    pub fn ended(&mut self, end: End) {
        for deleted in self.deleted.iter_mut().rev().take_while(|deleted| deleted.end.is_none()) {
            deleted.end = Some(end);
        }
    }

    /// Stops writing; `agent_log` is the agent's log so far.
    pub fn end(self, agent_log: &str) -> Expired {
        let counted = Keep::ALL.map(|keep| (keep, counted_at_stops(agent_log, keep.source())));
        Expired {
            written: self.logs.into_iter().map(|log| log.log.written).collect(),
            deleted: self.deleted,
            counted: counted.into(),
        }
    }
}

impl Aging {
    fn rotate(&mut self) -> io::Result<()> {
        let first = self.log.written.lines;
        self.log.write(first + LINES_PER_FILE)?;
        self.log.rotate(Rotation::Expire)?;
        self.rotated.push_back((self.log.newest_rotated(), first..self.log.written.lines));
        Ok(())
    }

    fn delete_oldest(&mut self) -> io::Result<Option<Deleted>> {
        let Some((path, lines)) = self.rotated.pop_front() else { return Ok(None) };
        let is_linked = fs::metadata(&path)?.nlink() > 1;
        fs::remove_file(&path)?;
        let Aging { writer, keep, can_link, .. } = *self;
        Ok(Some(Deleted { writer, lines, keep, can_link, is_linked, end: None }))
    }

    /// Returns whether the agent has prepared the oldest file for its deletion.
    fn is_seen(&self, agent: &Agent) -> bool {
        let Some((path, _)) = self.rotated.front() else { return true };
        let Ok(stat) = fs::metadata(path) else { return true };
        let is_held = match self.keep {
            Keep::Link if self.can_link => stat.nlink() > 1,
            Keep::Link | Keep::Copy | Keep::Count => agent.has_open(&stat),
        };
        is_held || agent.has_delivered(self.keep.source(), path, stat.len())
    }
}

/// Returns whether the file system of a folder supports hard links.
fn can_link(folder: &Path) -> bool {
    let (file, link) = (folder.join("link-probe"), folder.join("link-probe.1"));
    let linked = fs::write(&file, "").and_then(|()| fs::hard_link(&file, &link));
    // The files are removed with the folder.
    let _ = [file, link].map(fs::remove_file);
    linked.is_ok()
}

/// Waits until the oldest file of `log` may be deleted; `false` after Ctrl-C.
fn await_seen(log: &Aging, agent: &mut Agent, interrupts: &AtomicUsize) -> Result<bool, String> {
    let begun = Instant::now();
    while begun.elapsed() < SEEN_MAX && interrupts.load(Ordering::Relaxed) == 0 {
        agent.look()?;
        if log.is_seen(agent) {
            return Ok(true);
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
    Ok(interrupts.load(Ordering::Relaxed) == 0)
}

fn writing(error: io::Error) -> String {
    format!("cannot write the log files: {error}")
}

/// Returns the events of `source` that the shutdowns in `agent_log` counted as lost with deleted
/// files.
fn counted_at_stops(agent_log: &str, source: &str) -> u64 {
    let stops = agent_log.lines().filter(|line| line.contains("stopped; "));
    let counted_in = |line: &str| -> u64 {
        let reasons = ["deleted_undelivered", "held_max"];
        reasons.iter().map(|reason| counted(line, &format!(" {reason} (source {source})"))).sum()
    };
    stops.map(counted_in).sum()
}

/// Returns the number before `what`; 0 if the line does not contain it.
fn counted(line: &str, what: &str) -> u64 {
    let Some((before, _)) = line.split_once(what) else { return 0 };
    let digits = before.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |index| index + 1);
    before[digits..].parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_counted_at_a_stop_are_parsed_by_source() {
        let log = "WARN stopped; delivered: 9 events; lost: 7 events (3 deleted_undelivered \
                   (source copied), 4 held_max (source counted), 2 deleted_undelivered (source \
                   counted)), 70 bytes from files\n\
                   WARN source counted: 50 deleted_undelivered (source counted)\n\
                   INFO stopped; delivered: 1 events; lost: nothing\n\
                   WARN stopped; lost: 5 events (5 deleted_undelivered (source counted))\n";
        let counted = Keep::ALL.map(|keep| counted_at_stops(log, keep.source()));
        assert_eq!(counted, [0, 3, 11]);
    }

    #[test]
    fn only_data_held_by_a_descriptor_alone_is_at_risk() {
        let deleted = |keep, can_link, end| Deleted {
            writer: 0,
            lines: 0..1,
            keep,
            can_link,
            is_linked: false,
            end,
        };
        let is_at_risk = |keep, end| deleted(keep, true, end).is_at_risk();
        for end in [None, Some(End::Kill), Some(End::Stop)] {
            assert!(!is_at_risk(Keep::Link, end));
        }
        assert!(
            is_at_risk(Keep::Copy, Some(End::Kill)) && !is_at_risk(Keep::Copy, Some(End::Stop))
        );
        assert!(
            is_at_risk(Keep::Count, Some(End::Kill)) && is_at_risk(Keep::Count, Some(End::Stop))
        );
        // If links are impossible, the source copies instead.
        assert!(deleted(Keep::Link, false, Some(End::Kill)).is_at_risk());
        assert!(!deleted(Keep::Link, false, Some(End::Stop)).is_at_risk());
        assert!(!is_at_risk(Keep::Copy, None) && !is_at_risk(Keep::Count, None));
    }
}
