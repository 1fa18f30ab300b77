//! Copies deleted files to `data_dir` on a thread, so that a slow disk does not delay the source.

use crate::held::copy::{CopySource, DiskUse, HeldCopy, Progress};
use crate::held::{HeldFile, HeldFolder};
use millstream_model::{OriginId, OriginStore};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

/// The thread that copies one source's deleted files, one after another. It ends when this is
/// dropped and the current copy is stopped or complete.
pub struct Copier {
    orders: Sender<Order>,
    reports: Receiver<Report>,
    /// Number of orders without a final report.
    open_orders: usize,
}

/// A request to copy a file up to its current end.
pub struct Order {
    pub work: Work,
    /// Whether a last line without a line ending belongs to the copy.
    pub unfinished: bool,
    /// Makes the thread stop copying this file.
    pub stop: Arc<AtomicBool>,
}

/// What to copy.
pub enum Work {
    /// A file without a copy.
    Begin(NewCopy),
    /// The rest of a file.
    Continue(HeldCopy),
}

/// A copy to begin. It starts at the lowest committed checkpoint, because a crash reverts the later
/// ones.
pub struct NewCopy {
    pub source: CopySource,
    /// Ids of the sinks.
    pub sinks: Vec<String>,
    /// Offset at which sinks without a checkpoint start.
    pub start: u64,
}

/// Reports progress.
pub struct Report {
    pub id: OriginId,
    /// The valid part of the copy, which is synced; `None` if there is none yet.
    pub held: Option<HeldFile>,
    /// The result of the order; `None` while the thread is still copying.
    pub outcome: Option<Outcome>,
}

/// The result of an order.
pub struct Outcome {
    /// The copy, which can be continued; `None` if it could not be begun.
    pub copy: Option<HeldCopy>,
    pub result: io::Result<()>,
}

impl Work {
    fn id(&self) -> OriginId {
        match self {
            Work::Begin(new) => new.source.id,
            Work::Continue(copy) => copy.id(),
        }
    }
}

impl Copier {
    /// Starts the thread. Copies are made in the folder at `path`.
    ///
    /// # Errors
    /// Returns an error if the system cannot start a thread.
    pub fn start(path: PathBuf, store: Arc<dyn OriginStore>) -> io::Result<Copier> {
        let (orders, next_order) = channel();
        let (report, reports) = channel();
        let thread = CopyThread { folder: HeldFolder::new(path), store, report };
        let builder = std::thread::Builder::new().name("held-copies".to_owned());
        builder.spawn(move || thread.run(next_order))?;
        Ok(Copier { orders, reports, open_orders: 0 })
    }

    /// Queues an order; returns `false` if the thread has ended.
    pub fn order(&mut self, order: Order) -> bool {
        let is_queued = self.orders.send(order).is_ok();
        self.open_orders += usize::from(is_queued);
        is_queued
    }

    /// Returns the next report, if there is one.
    pub fn next_report(&mut self) -> Option<Report> {
        let report = self.reports.try_recv().ok()?;
        Some(self.note(report))
    }

    /// Waits until `deadline` for the next report. Returns `None` if there is none, or if no file is
    /// being copied.
    pub fn wait_for_report(&mut self, deadline: Instant) -> Option<Report> {
        if self.open_orders == 0 {
            return None;
        }
        let wait = deadline.saturating_duration_since(Instant::now());
        let report = self.reports.recv_timeout(wait).ok()?;
        Some(self.note(report))
    }

    fn note(&mut self, report: Report) -> Report {
        self.open_orders -= usize::from(report.outcome.is_some());
        report
    }
}

/// The state of the thread.
struct CopyThread {
    folder: HeldFolder,
    store: Arc<dyn OriginStore>,
    report: Sender<Report>,
}

impl CopyThread {
    fn run(mut self, orders: Receiver<Order>) {
        for order in orders {
            if !self.carry_out(order) {
                return;
            }
        }
    }

    /// Carries out an order; returns `false` if the source no longer exists.
    fn carry_out(&mut self, order: Order) -> bool {
        let id = order.work.id();
        let mut copy = match order.work {
            Work::Continue(copy) => copy,
            Work::Begin(new) => match self.begin(new) {
                Ok(copy) => copy,
                Err(error) => {
                    let outcome = Some(Outcome { copy: None, result: Err(error) });
                    return self.report.send(Report { id, held: None, outcome }).is_ok();
                }
            },
        };
        let is_stopped = || order.stop.load(Relaxed);
        let result = loop {
            match copy.advance(DiskUse::LeaveFree, &is_stopped) {
                Ok(Progress::More) => {
                    let held = copy.held(false);
                    if self.report.send(Report { id, held, outcome: None }).is_err() {
                        return false;
                    }
                }
                Ok(Progress::End | Progress::Stopped) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let held = copy.held(order.unfinished);
        let outcome = Some(Outcome { copy: Some(copy), result });
        self.report.send(Report { id, held, outcome }).is_ok()
    }

    fn begin(&mut self, new: NewCopy) -> io::Result<HeldCopy> {
        let committed = self.store.committed(new.source.id)?;
        let checkpoint = |sink: &String| {
            let checkpoint = committed.iter().find(|(id, _)| id == sink);
            checkpoint.map_or(new.start, |(_, offset)| *offset)
        };
        let from = new.sinks.iter().map(checkpoint).min().unwrap_or(new.start);
        self.folder.begin_copy(new.source, from)
    }
}
