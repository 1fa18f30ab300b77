//! The threads that write, and the orders they take.

use super::lines::Lines;
use super::logfile::{Log, Written};
use super::rotation::Rotation;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a writer writes: what is due by then is one append.
const TICK: Duration = Duration::from_millis(10);

/// Lines that are written just before a file is deleted, so that some are not read yet.
const LAST_LINES: u64 = 100;

/// What a writer is told to do.
enum Order {
    Pause,
    Resume,
    Rotate(Rotation),
}

/// A thread that writes one log. It ends when it is dropped or asked for what it has written.
pub struct Writer {
    orders: Sender<Order>,
    done: Receiver<io::Result<()>>,
    lines: Arc<AtomicU64>,
    thread: JoinHandle<io::Result<Written>>,
}

impl Writer {
    /// Starts to write log `index` at `rate` lines per second.
    pub fn start(
        folder: &Path,
        index: usize,
        rate: f64,
        lines: Arc<Lines>,
        seed: u64,
    ) -> io::Result<Writer> {
        let log = Log::create(folder, index, lines, seed)?;
        let ((orders, taken), (answers, done)) = (channel(), channel());
        let count = Arc::new(AtomicU64::new(0));
        let shown = count.clone();
        let builder = std::thread::Builder::new().name(format!("writer-{index}"));
        let thread = builder.spawn(move || work(log, rate, &taken, &answers, &shown))?;
        Ok(Writer { orders, done, lines: count, thread })
    }

    /// Lines written so far.
    pub fn lines(&self) -> u64 {
        self.lines.load(Ordering::Relaxed)
    }

    /// Stops between two lines until [`Writer::resume`].
    pub fn pause(&self) -> io::Result<()> {
        self.order(Order::Pause)
    }

    /// Goes on.
    pub fn resume(&self) -> io::Result<()> {
        self.order(Order::Resume)
    }

    /// Rotates the log between two lines.
    pub fn rotate(&self, rotation: Rotation) -> io::Result<()> {
        self.order(Order::Rotate(rotation))
    }

    fn order(&self, order: Order) -> io::Result<()> {
        let ended = || io::Error::other("the writer has ended");
        self.orders.send(order).map_err(|_| ended())?;
        self.done.recv().map_err(|_| ended())?
    }

    /// Ends after a whole line; what was written.
    pub fn end(self) -> io::Result<Written> {
        drop(self.orders);
        self.thread.join().map_err(|_| io::Error::other("the writer has panicked"))?
    }
}

fn work(
    mut log: Log,
    rate: f64,
    orders: &Receiver<Order>,
    answers: &Sender<io::Result<()>>,
    shown: &AtomicU64,
) -> io::Result<Written> {
    let (mut due, mut last) = (0.0, Instant::now());
    loop {
        match orders.try_recv() {
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {}
            Ok(order) => {
                let is_pause = matches!(order, Order::Pause);
                // Whoever asked may be gone; the end is noticed above.
                let _ = answers.send(obey(&mut log, order));
                if is_pause {
                    rest(&mut log, orders, answers);
                    // Time that was not used for writing is not made up for.
                    last = Instant::now();
                }
            }
        }
        due += rate * last.elapsed().as_secs_f64();
        last = Instant::now();
        log.write(due as u64)?;
        due = due.max(log.written.lines as f64);
        shown.store(log.written.lines, Ordering::Relaxed);
        std::thread::sleep(TICK);
    }
    Ok(log.written)
}

/// Takes orders, but writes nothing of its own accord until it is told to go on.
fn rest(log: &mut Log, orders: &Receiver<Order>, answers: &Sender<io::Result<()>>) {
    while let Ok(order) = orders.recv() {
        let is_over = matches!(order, Order::Resume);
        let _ = answers.send(obey(log, order));
        if is_over {
            return;
        }
    }
}

fn obey(log: &mut Log, order: Order) -> io::Result<()> {
    match order {
        Order::Pause => log.settle_down(),
        Order::Resume => Ok(()),
        Order::Rotate(Rotation::Delete) => {
            log.write(log.written.lines + LAST_LINES)?;
            log.rotate(Rotation::Delete)
        }
        Order::Rotate(rotation) => log.rotate(rotation),
    }
}
