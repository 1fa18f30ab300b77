//! The agent's own log, behind the `log` facade.
//!
//! A caller formats its line and puts it into a bounded queue; one thread writes. Nobody waits for
//! the log: a line that finds the queue full is dropped and counted. A message of one place in the
//! program is written a few times per window and then only counted.

mod line;
#[cfg(test)]
mod tests;

pub use line::{Rfc3339, date, escaped};
use line::{cut, format_line};
use log::{Level, LevelFilter, Log, Metadata, Record};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::fs::OpenOptions;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::PanicHookInfo;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Lines that may wait to be written.
const QUEUE_LINES_MAX: usize = 1024;
/// Bytes of a message; what goes beyond is cut off.
const MESSAGE_BYTES_MAX: usize = 4096;
/// Bytes of the writer's buffer that stay allocated.
const BUFFER_BYTES_KEPT: usize = 64 << 10;
/// Bytes of a message kept to name it when its repeats are counted.
const SAMPLE_BYTES_MAX: usize = 200;
/// Length of the window in which a call site's lines are counted.
const WINDOW: Duration = Duration::from_secs(10);
/// Lines of one call site that are written in a window.
const WINDOW_LINES_MAX: u32 = 5;
/// Call sites with an open window; those beyond share one.
const WINDOWS_MAX: usize = 1024;
/// Time a flush waits for a writer that may be stuck.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Where the log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Standard error.
    Stderr,
    /// A file, appended to and made with mode 0640 if missing.
    File(PathBuf),
}

/// The running log. Dropping it writes what is waiting, repeats included.
pub struct Handle {
    shared: Arc<Shared>,
}

/// Starts the log and makes it the process's logger, for messages of `level` and more severe ones.
///
/// # Errors
///
/// A file that cannot be opened, a thread that cannot be started, or a logger that is already
/// there.
pub fn init(level: LevelFilter, to: Target) -> io::Result<Handle> {
    // The level can change, and every message asks for it before it comes here.
    let handle = start(LevelFilter::Trace, open(to)?)?;
    // The process's logger lives as long as the process.
    let logger = Box::leak(Box::new(Logger { shared: handle.shared.clone() }));
    log::set_logger(logger).map_err(|error| io::Error::other(error.to_string()))?;
    log::set_max_level(level);
    Ok(handle)
}

/// Messages of `level` and more severe ones are logged from here on.
pub fn set_level(level: LevelFilter) {
    log::set_max_level(level);
}

/// Logs each of several messages from one place in the program: the rate is that of each text, so
/// that none of a long list is only counted.
pub fn each(level: Level, target: &str, messages: impl IntoIterator<Item = String>) {
    messages.into_iter().for_each(|message| log_as_itself(log::logger(), level, target, &message));
}

/// The record stands for its text, which has a window of its own.
fn log_as_itself(logger: &dyn Log, level: Level, target: &str, message: &str) {
    let mut record = Record::builder();
    record.level(level).target(target).file(Some(message));
    logger.log(&record.args(format_args!("{message}")).build());
}

/// Logs panics as errors, with their place and at the limited rate, instead of printing them. While
/// there is no logger they are printed as before.
pub fn install_panic_hook() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| match log::max_level() {
        LevelFilter::Off => before(panic),
        _ => log_panic(log::logger(), panic),
    }));
}

impl Handle {
    /// Writes all lines that are waiting. Gives up after two seconds if the other end does not take
    /// them; returns whether all were taken.
    pub fn flush(&self) -> bool {
        self.shared.flush()
    }

    /// Lines dropped since the start because the queue was full or writing failed.
    pub fn dropped_lines(&self) -> u64 {
        self.shared.lock().dropped
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        // The second one takes what the log had to say about the first and had no room for.
        let _ = self.shared.flush() && self.shared.flush();
    }
}

fn open(to: Target) -> io::Result<Box<dyn Write + Send>> {
    let Target::File(path) = to else { return Ok(Box::new(io::stderr())) };
    let opened = OpenOptions::new().append(true).create(true).mode(0o640).open(&path);
    let file = opened.map_err(|error| {
        io::Error::new(error.kind(), format!("log {}: {error}", path.display()))
    })?;
    Ok(Box::new(file))
}

fn start(level: LevelFilter, to: Box<dyn Write + Send>) -> io::Result<Handle> {
    let shared = Arc::new(Shared { level, state: Mutex::default(), changed: Condvar::new() });
    let of_writer = shared.clone();
    std::thread::Builder::new().name("log".to_owned()).spawn(move || of_writer.write_all(to))?;
    Ok(Handle { shared })
}

fn log_panic(logger: &dyn Log, panic: &PanicHookInfo) {
    let thread = std::thread::current();
    let text = panic.payload_as_str().unwrap_or("(no text)");
    let (file, line) =
        panic.location().map_or(("unknown", 0), |place| (place.file(), place.line()));
    // The record stands for the place of the panic, so that each place has a rate of its own.
    let mut record = Record::builder();
    record.level(Level::Error).target("panic").file(Some(file)).line(Some(line));
    let name = thread.name().unwrap_or("unnamed");
    logger
        .log(&record.args(format_args!("thread {name} panicked at {file}:{line}: {text}")).build());
}

struct Logger {
    shared: Arc<Shared>,
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata) -> bool {
        metadata.level() <= self.shared.level
    }

    fn log(&self, record: &Record) {
        if self.enabled(record.metadata()) {
            self.shared.log(record, Instant::now());
        }
    }

    fn flush(&self) {
        self.shared.flush();
    }
}

/// What callers and the writer share.
struct Shared {
    level: LevelFilter,
    state: Mutex<State>,
    /// Told of every change that the writer or a flush may wait for.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<String>,
    /// Lines ever put into the queue, and lines the writer is done with.
    queued: u64,
    written: u64,
    dropped: u64,
    /// Dropped lines that the log has told of.
    dropped_told: u64,
    /// Writing failed the last time; telling of it would fail too.
    failing: bool,
    windows: HashMap<u64, Window>,
    /// The agent ends: repeats are told of without waiting for their windows to close.
    closing: bool,
}

/// The lines of one call site in a stretch of time.
struct Window {
    opened: Instant,
    lines: u32,
    more: u64,
    level: Level,
    target: String,
    /// How the last message written began.
    sample: String,
}

impl Shared {
    /// A panic of another thread leaves the state whole: nothing in here is done by halves.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Formats outside the lock, and not at all what would not be written.
    fn log(&self, record: &Record, now: Instant) {
        let Some(site) = self.lock().admit(record, now) else { return };
        let message = escaped(record.args(), MESSAGE_BYTES_MAX);
        let line = format_line(SystemTime::now(), record.level(), record.target(), &message);
        let mut state = self.lock();
        if let Some(window) = state.windows.get_mut(&site) {
            window.sample = cut(&message, SAMPLE_BYTES_MAX).to_owned();
        }
        state.push(line);
        drop(state);
        self.changed.notify_all();
    }

    /// The writer thread. It lives as long as the process: lines may come until the very end.
    fn write_all(&self, mut to: Box<dyn Write + Send>) {
        let mut buffer = String::new();
        loop {
            let lines = self.next(&mut buffer);
            // One write for all lines, so that lines of other processes do not get between halves.
            let failed = to.write_all(buffer.as_bytes()).and_then(|()| to.flush()).is_err();
            let mut state = self.lock();
            state.written += lines;
            state.failing = failed;
            state.dropped += if failed { lines } else { 0 };
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Waits for lines and puts all of them into `buffer`; returns how many.
    fn next(&self, buffer: &mut String) -> u64 {
        buffer.clear();
        // A burst does not keep its memory.
        buffer.shrink_to(BUFFER_BYTES_KEPT);
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            state.tell(now);
            if !state.lines.is_empty() {
                let lines = state.lines.len() as u64;
                buffer.extend(state.lines.drain(..));
                return lines;
            }
            let pause =
                state.next_close().map_or(WINDOW, |close| close.saturating_duration_since(now));
            self.changed.wait_for(&mut state, pause);
        }
    }

    fn flush(&self) -> bool {
        let mut state = self.lock();
        state.tell(Instant::now());
        let until = state.queued;
        self.changed.notify_all();
        self.changed.wait_while_for(&mut state, |state| state.written < until, FLUSH_TIMEOUT);
        state.written >= until
    }
}

impl State {
    /// The window that a record falls into, if it is to be written; else it is counted there.
    fn admit(&mut self, record: &Record, now: Instant) -> Option<u64> {
        let mut site = call_site(record);
        if !self.windows.contains_key(&site) && self.windows.len() >= WINDOWS_MAX {
            self.close_windows(now);
            site = if self.windows.len() < WINDOWS_MAX { site } else { 0 };
        }
        if self.windows.get(&site).is_some_and(|window| window.is_over(now)) {
            self.close_window(site);
        }
        let window = self.windows.entry(site).or_insert_with(|| Window::new(record, now));
        if window.lines < WINDOW_LINES_MAX {
            window.lines += 1;
            return Some(site);
        }
        window.more += 1;
        None
    }

    fn push(&mut self, line: String) {
        if self.lines.len() >= QUEUE_LINES_MAX {
            self.dropped += 1;
            return;
        }
        self.lines.push_back(line);
        self.queued += 1;
    }

    /// Puts into the queue what the log says about itself, as far as it is due and has room.
    fn tell(&mut self, now: Instant) {
        self.close_windows(now);
        let untold = self.dropped - self.dropped_told;
        if untold > 0 && !self.failing && self.lines.len() < QUEUE_LINES_MAX {
            let message = format!(
                "{untold} lines of this log were dropped: it could not be written, or not fast enough"
            );
            self.push(format_line(SystemTime::now(), Level::Warn, module_path!(), &message));
            self.dropped_told += untold;
        }
    }

    fn close_windows(&mut self, now: Instant) {
        let over = self.windows.iter().filter(|(_, window)| self.closing || window.is_over(now));
        let over: Vec<u64> = over.map(|(site, _)| *site).collect();
        over.into_iter().for_each(|site| self.close_window(site));
    }

    fn close_window(&mut self, site: u64) {
        if let Some(window) = self.windows.remove(&site).filter(|window| window.more > 0) {
            let message = format!("{} more like this: {}", window.more, window.sample);
            self.push(format_line(SystemTime::now(), window.level, &window.target, &message));
        }
    }

    /// When the next window closes that may have something to tell: one that is full, since the
    /// messages it counts from then on wake nobody.
    fn next_close(&self) -> Option<Instant> {
        let full = self.windows.values().filter(|window| window.lines >= WINDOW_LINES_MAX);
        full.map(|window| window.opened + WINDOW).min()
    }
}

impl Window {
    fn new(record: &Record, now: Instant) -> Window {
        let (level, target) = (record.level(), record.target().to_owned());
        Window { opened: now, lines: 0, more: 0, level, target, sample: String::new() }
    }

    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.opened) >= WINDOW
    }
}

/// What tells messages of one place from those of another.
fn call_site(record: &Record) -> u64 {
    let mut hasher = DefaultHasher::new();
    (record.file(), record.line(), record.target()).hash(&mut hasher);
    hasher.finish()
}
