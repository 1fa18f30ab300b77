//! The log of the agent, behind the `log` facade.
//!
//! A caller formats its line and puts it into a bounded queue; one thread writes. Logging never
//! blocks: if the queue is full, a line is dropped and counted. Messages from one call site are
//! written a few times per window, and additional ones are only counted.

mod line;
#[cfg(test)]
mod tests;

use crate::text::escaped;
use line::{cut, format_line};
use log::{Level, LevelFilter, Log, Metadata, Record};
use millstream_config::LogLevel;
use millstream_model::secrets::mask;
use millstream_model::{InternalLogs, LogRecord};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::fs::OpenOptions;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::PanicHookInfo;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Maximum number of queued lines.
const QUEUE_LINES_MAX: usize = 1024;
/// Maximum length of a message in bytes; a longer message is truncated.
const MESSAGE_BYTES_MAX: usize = 4096;
/// Maximum message length in bytes before secrets are masked.
const RAW_BYTES_MAX: usize = 4 * MESSAGE_BYTES_MAX;
/// Size of the writer's buffer that stays allocated, in bytes.
const BUFFER_BYTES_KEPT: usize = 64 << 10;
/// Maximum number of bytes to keep from the last message, to show which message was repeated.
const SAMPLE_BYTES_MAX: usize = 200;
/// Length of the window in which a call site's lines are counted.
const WINDOW: Duration = Duration::from_secs(10);
/// Number of lines written per call site and window.
const WINDOW_LINES_MAX: u32 = 5;
/// Maximum number of call sites with an open window; all other call sites share one window.
const WINDOWS_MAX: usize = 1024;
/// Maximum time that a flush waits for a writer, which may be stuck.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The target of messages about logging itself, by which operators may select them.
const TARGET: &str = "millstream::logging";

/// Destination of the log.
pub enum Target {
    /// Standard error, through a writer that keeps other output there intact.
    Stderr(Box<dyn Write + Send>),
    /// A file, appended to, and created with mode 0640 if missing.
    File(PathBuf),
}

/// The running log. Dropping it writes all queued lines, including counts of repeats.
pub struct Handle {
    shared: Arc<Shared>,
}

/// Starts the log as the process's logger, for messages of `level` and above.
///
/// # Errors
///
/// Returns an error if a file cannot be opened, a thread cannot be started, or a logger already
/// exists.
pub fn init(level: LevelFilter, to: Target) -> io::Result<Handle> {
    // The level can change, and every message checks it first.
    let handle = start(LevelFilter::Trace, open(to)?)?;
    _ = SHARED.set(handle.shared.clone());
    handle.shared.lock().records = RECORDS.get_or_init(InternalLogs::keeping).clone();
    // The process's logger lives as long as the process.
    let logger = Box::leak(Box::new(Logger { shared: handle.shared.clone() }));
    log::set_logger(logger).map_err(|error| io::Error::other(error.to_string()))?;
    log::set_max_level(level);
    Ok(handle)
}

/// State of the process's logger.
static SHARED: OnceLock<Arc<Shared>> = OnceLock::new();

/// Logs the number of repeated messages now, so that the next message may be the last line.
pub fn report_repeats() {
    if let Some(shared) = SHARED.get() {
        shared.lock().close_all_windows();
    }
}

/// The records of the process's logger.
static RECORDS: OnceLock<InternalLogs> = OnceLock::new();

/// Returns the records of the process's logger as they are written; empty if there is no logger.
pub fn internal_logs() -> InternalLogs {
    RECORDS.get().cloned().unwrap_or_default()
}

/// Returns the level of messages that a configuration requests.
pub fn level(level: LogLevel) -> log::LevelFilter {
    match level {
        LogLevel::Error => log::LevelFilter::Error,
        LogLevel::Warn => log::LevelFilter::Warn,
        LogLevel::Info => log::LevelFilter::Info,
        LogLevel::Debug => log::LevelFilter::Debug,
        LogLevel::Trace => log::LevelFilter::Trace,
    }
}

/// Sets the level of messages to log.
pub fn set_level(level: LevelFilter) {
    log::set_max_level(level);
}

/// Logs several messages from one call site. The rate limit applies per text, so that no message of
/// a long list is only counted.
pub fn each(level: Level, target: &str, messages: impl IntoIterator<Item = String>) {
    messages.into_iter().for_each(|message| log_as_itself(log::logger(), level, target, &message));
}

/// Logs a message with its text as the call site, so that each distinct message has a separate
/// window.
fn log_as_itself(logger: &dyn Log, level: Level, target: &str, message: &str) {
    let mut record = Record::builder();
    record.level(level).target(target).file(Some(message));
    logger.log(&record.args(format_args!("{message}")).build());
}

/// Logs panics as rate-limited errors with their location instead of printing them. Without a
/// logger, they are printed as before.
pub fn install_panic_hook() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| match log::max_level() {
        LevelFilter::Off => before(panic),
        _ => log_panic(log::logger(), panic),
    }));
}

impl Handle {
    /// Writes all queued lines. Gives up after two seconds if the destination blocks; returns
    /// whether all were written.
    pub fn flush(&self) -> bool {
        self.shared.flush()
    }

    /// Returns the number of lines that were dropped since the start because the queue was full or
    /// writing failed.
    pub fn dropped_lines(&self) -> u64 {
        self.shared.lock().dropped
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        // The second flush writes the log's own messages about the first.
        let _ = self.shared.flush() && self.shared.flush();
    }
}

fn open(to: Target) -> io::Result<Box<dyn Write + Send>> {
    let path = match to {
        Target::Stderr(writer) => return Ok(writer),
        Target::File(path) => path,
    };
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
    // The panic's location is the call site, so that each location has a separate rate limit.
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

/// State shared by callers and the writer.
struct Shared {
    level: LevelFilter,
    state: Mutex<State>,
    /// Notified of every change that the writer or a flush may wait for.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<String>,
    /// Number of lines that were ever queued.
    queued: u64,
    /// Number of queued lines that the writer has finished, including failed ones.
    written: u64,
    dropped: u64,
    /// Dropped lines that the log has reported.
    dropped_reported: u64,
    /// Whether the last write failed, in which case reporting it would also fail.
    failing: bool,
    windows: HashMap<u64, Window>,
    /// Passes log records to sources.
    records: InternalLogs,
    /// Whether the agent is exiting, so that repeats are reported before the end of their windows.
    closing: bool,
}

/// The lines of one call site in a window.
struct Window {
    opened: Instant,
    lines: u32,
    more: u64,
    level: Level,
    target: String,
    /// Start of the last message written.
    sample: String,
}

impl Shared {
    /// A panic of another thread leaves the state consistent.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Logs a record. Formats it outside of the lock, and only if it will be written.
    fn log(&self, record: &Record, now: Instant) {
        let Some(site) = self.lock().admit(record, now) else { return };
        // A truncated secret would not be recognized, so mask secrets first.
        let message = escaped(record.args(), RAW_BYTES_MAX);
        let message = escaped(mask(&message), MESSAGE_BYTES_MAX);
        let now = SystemTime::now();
        let line = format_line(now, record.level(), record.target(), &message);
        let mut state = self.lock();
        if let Some(window) = state.windows.get_mut(&site) {
            window.sample = cut(&message, SAMPLE_BYTES_MAX).to_owned();
        }
        state.push(line);
        state.records.publish(|| self::record(now, record.level(), record.target(), &message));
        drop(state);
        self.changed.notify_all();
    }

    /// Runs the writer thread, which lives as long as the process, because lines may arrive until
    /// the very end.
    fn write_all(&self, mut to: Box<dyn Write + Send>) {
        let mut buffer = String::new();
        loop {
            let lines = self.next(&mut buffer);
            // One write for all lines, so that lines of other processes do not interleave.
            let failed = to.write_all(buffer.as_bytes()).and_then(|()| to.flush()).is_err();
            let mut state = self.lock();
            state.written += lines;
            state.failing = failed;
            state.dropped += if failed { lines } else { 0 };
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Waits for lines and moves all of them to `buffer`; returns their number.
    fn next(&self, buffer: &mut String) -> u64 {
        buffer.clear();
        // Free memory that a burst of messages needed.
        buffer.shrink_to(BUFFER_BYTES_KEPT);
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            state.queue_own_messages(now);
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
        state.queue_own_messages(Instant::now());
        let until = state.queued;
        self.changed.notify_all();
        self.changed.wait_while_for(&mut state, |state| state.written < until, FLUSH_TIMEOUT);
        state.written >= until
    }
}

impl State {
    /// Returns the window of a record, if the record is to be written; otherwise counts the record
    /// in the window.
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

    fn push_own(&mut self, level: Level, target: &str, message: &str) {
        let now = SystemTime::now();
        self.push(format_line(now, level, target, message));
        self.records.publish(|| record(now, level, target, message));
    }

    /// Queues the log's messages about itself as far as they are due and fit.
    fn queue_own_messages(&mut self, now: Instant) {
        self.close_windows(now);
        let unreported = self.dropped - self.dropped_reported;
        if unreported > 0 && !self.failing && self.lines.len() < QUEUE_LINES_MAX {
            let message = format!(
                "{unreported} log lines were dropped because the log destination failed or is too \
                 slow"
            );
            self.push_own(Level::Warn, TARGET, &message);
            self.dropped_reported += unreported;
        }
    }

    fn close_windows(&mut self, now: Instant) {
        let over = self.windows.iter().filter(|(_, window)| self.closing || window.is_over(now));
        let over: Vec<u64> = over.map(|(site, _)| *site).collect();
        over.into_iter().for_each(|site| self.close_window(site));
    }

    fn close_all_windows(&mut self) {
        let sites: Vec<u64> = self.windows.keys().copied().collect();
        sites.into_iter().for_each(|site| self.close_window(site));
    }

    fn close_window(&mut self, site: u64) {
        if let Some(window) = self.windows.remove(&site).filter(|window| window.more > 0) {
            let message = format!("{} more like this: {}", window.more, window.sample);
            self.push_own(window.level, &window.target, &message);
        }
    }

    /// Returns the time when the next full window closes. Such a window may contain repeats, which
    /// do not wake the writer.
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

/// Returns a log record in the form in which sources receive it.
fn record(time: SystemTime, level: Level, target: &str, message: &str) -> LogRecord {
    let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let level = match level {
        Level::Error => "error",
        Level::Warn => "warn",
        Level::Info => "info",
        Level::Debug => "debug",
        Level::Trace => "trace",
    };
    let (target, message) = (target.to_owned(), message.to_owned());
    LogRecord { unix_ns: since_1970.as_nanos() as i64, level, target, message }
}

/// Returns a hash that identifies a call site.
fn call_site(record: &Record) -> u64 {
    let mut hasher = DefaultHasher::new();
    (record.file(), record.line(), record.target()).hash(&mut hasher);
    hasher.finish()
}
