//! Threads that write log files and are controlled by commands.

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

/// Interval between writes. All lines that are due are written with one append.
const TICK: Duration = Duration::from_millis(10);

/// Lines written just before a file is deleted, so that some are still unread.
const LAST_LINES: u64 = 100;

/// A command to a writer.
enum Command {
    Pause,
    Resume,
    Rotate(Rotation),
}

/// A thread that writes one log until it is dropped or [`Writer::end`] is called.
pub struct Writer {
    commands: Sender<Command>,
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
        let ((commands, received), (replies, done)) = (channel(), channel());
        let count = Arc::new(AtomicU64::new(0));
        let written = count.clone();
        let builder = std::thread::Builder::new().name(format!("writer-{index}"));
        let thread = builder.spawn(move || work(log, rate, &received, &replies, &written))?;
        Ok(Writer { commands, done, lines: count, thread })
    }

    /// Returns the number of lines written so far.
    pub fn lines(&self) -> u64 {
        self.lines.load(Ordering::Relaxed)
    }

    /// Stops between two lines until [`Writer::resume`].
    pub fn pause(&self) -> io::Result<()> {
        self.send(Command::Pause)
    }

    /// Continues after [`Writer::pause`].
    pub fn resume(&self) -> io::Result<()> {
        self.send(Command::Resume)
    }

    /// Rotates the log between two lines.
    pub fn rotate(&self, rotation: Rotation) -> io::Result<()> {
        self.send(Command::Rotate(rotation))
    }

    fn send(&self, command: Command) -> io::Result<()> {
        let ended = || io::Error::other("the writer has stopped");
        self.commands.send(command).map_err(|_| ended())?;
        self.done.recv().map_err(|_| ended())?
    }

    /// Stops after a complete line. Returns a summary of the writes.
    pub fn end(self) -> io::Result<Written> {
        drop(self.commands);
        self.thread.join().map_err(|_| io::Error::other("the writer has panicked"))?
    }
}

fn work(
    mut log: Log,
    rate: f64,
    commands: &Receiver<Command>,
    replies: &Sender<io::Result<()>>,
    written: &AtomicU64,
) -> io::Result<Written> {
    let (mut due, mut last) = (0.0, Instant::now());
    loop {
        match commands.try_recv() {
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {}
            Ok(command) => {
                let is_pause = matches!(command, Command::Pause);
                // The caller may be gone; the next `try_recv` reports this.
                let _ = replies.send(execute(&mut log, command));
                if is_pause {
                    wait_for_resume(&mut log, commands, replies);
                    // Lines due during the pause are skipped.
                    last = Instant::now();
                }
            }
        }
        due += rate * last.elapsed().as_secs_f64();
        last = Instant::now();
        log.write(due as u64)?;
        due = due.max(log.written.lines as f64);
        written.store(log.written.lines, Ordering::Relaxed);
        std::thread::sleep(TICK);
    }
    Ok(log.written)
}

/// Executes commands, but writes no due lines until [`Command::Resume`].
fn wait_for_resume(log: &mut Log, commands: &Receiver<Command>, replies: &Sender<io::Result<()>>) {
    while let Ok(command) = commands.recv() {
        let is_resume = matches!(command, Command::Resume);
        let _ = replies.send(execute(log, command));
        if is_resume {
            return;
        }
    }
}

fn execute(log: &mut Log, command: Command) -> io::Result<()> {
    match command {
        Command::Pause => log.settle_down(),
        Command::Resume => Ok(()),
        Command::Rotate(Rotation::Delete) => {
            log.write(log.written.lines + LAST_LINES)?;
            log.rotate(Rotation::Delete)
        }
        Command::Rotate(rotation) => log.rotate(rotation),
    }
}
