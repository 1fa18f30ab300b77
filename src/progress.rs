//! Rates while the agent runs. On a terminal, a block is redrawn in place every second; elsewhere,
//! a line is written every five seconds.

use millstream_commands::text::{cut, escaped, width};
use millstream_engine::{ComponentSnapshot, Snapshot};
use millstream_model::secrets::mask;
use parking_lot::Mutex;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Redraw interval of the block.
const TERMINAL_INTERVAL: Duration = Duration::from_secs(1);

/// Interval between plain lines.
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum wait for the block to be removed at the end.
const STOP_TIMEOUT: Duration = Duration::from_millis(200);

/// Maximum length of an error in bytes; it stays on one line and cannot move the cursor.
const ERROR_BYTES_MAX: usize = 200;

/// Maximum length of the bottleneck line in bytes.
const LINE_BYTES_MAX: usize = 400;

/// Maximum number of rate lines in the block; additional components share the last line.
const LINES_MAX: usize = 8;

/// Assumed width of a terminal that does not report it.
const COLUMNS: u16 = 80;

/// The block on standard error. It is empty until [`Progress`] draws it, and always without a
/// terminal.
static BLOCK: Mutex<Block> = Mutex::new(Block { lines: Vec::new() });

/// A writer to standard error above the block. A write removes the block and redraws it below.
pub struct AboveBlock;

impl Write for AboveBlock {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write_all(buffer)?;
        Ok(buffer.len())
    }

    fn write_all(&mut self, buffer: &[u8]) -> io::Result<()> {
        let block = BLOCK.lock();
        let text = [block.erased().as_bytes(), buffer, block.text().as_bytes()].concat();
        io::stderr().write_all(&text)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// The display of rates on standard error. Dropping it removes the block.
pub struct Progress {
    stop: Option<Sender<()>>,
    stopped: Receiver<()>,
}

impl Progress {
    /// Starts to show the rates of the snapshots that `observe` returns. The display runs on a
    /// separate thread, because a terminal that is stopped with Ctrl-S blocks the thread.
    /// `bottleneck` returns the last line.
    pub fn start(
        observe: impl Fn() -> Snapshot + Send + 'static,
        bottleneck: impl Fn() -> String + Send + 'static,
    ) -> io::Result<Progress> {
        let (stop, stops) = channel();
        let (done, stopped) = channel();
        std::thread::Builder::new().name("progress".to_owned()).spawn(move || {
            show(&observe, &bottleneck, &stops);
            // The agent may have exited without waiting.
            let _ = done.send(());
        })?;
        Ok(Progress { stop: Some(stop), stopped })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A blocked terminal must not delay the exit.
        let _ = self.stopped.recv_timeout(STOP_TIMEOUT);
    }
}

/// Shows rates until the other end of `stops` is dropped.
fn show(observe: &impl Fn() -> Snapshot, bottleneck: &impl Fn() -> String, stops: &Receiver<()>) {
    let is_terminal = io::stderr().is_terminal();
    let interval = if is_terminal { TERMINAL_INTERVAL } else { PLAIN_INTERVAL };
    let mut before = observe();
    while stops.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        let now = observe();
        let rates = rates(&before, &now);
        let last = escaped(bottleneck(), LINE_BYTES_MAX);
        if is_terminal {
            let mut lines = block_lines(&rates);
            lines.push(last);
            BLOCK.lock().draw(&lines);
        } else {
            // A closed standard error must not stop the command.
            let _ = writeln!(io::stderr(), "{} | {last}", rates.join(" | "));
        }
        before = now;
    }
    BLOCK.lock().draw(&[]);
}

/// The lines of the block as they are on the terminal. The cursor is at the beginning of the row
/// below, where the terminal shows typed keys such as `^C`.
struct Block {
    lines: Vec<String>,
}

impl Block {
    /// Replaces the lines. Each line occupies one row.
    fn draw(&mut self, lines: &[String]) {
        let erased = self.erased();
        let columns = usize::from(columns());
        self.lines = lines.iter().map(|line| cut(line, columns)).collect();
        // A closed standard error must not stop the command.
        let _ = io::stderr().write_all((erased + &self.text()).as_bytes());
    }

    fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Returns the codes that remove the lines. A terminal that became narrower has wrapped them.
    fn erased(&self) -> String {
        if self.lines.is_empty() {
            return String::new();
        }
        let columns = usize::from(columns());
        let rows = self.lines.iter().map(|line| width(line).div_ceil(columns).max(1));
        format!("\r\x1b[{}A\x1b[J", rows.sum::<usize>())
    }
}

/// Returns the width of the terminal.
fn columns() -> u16 {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    size.ok().map(|size| size.ws_col).filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}

/// Returns one line per component, at most [`LINES_MAX`].
fn block_lines(rates: &[String]) -> Vec<String> {
    if rates.len() <= LINES_MAX {
        return rates.to_vec();
    }
    let mut lines = rates[..LINES_MAX - 1].to_vec();
    lines.push(format!("and {} more components", rates.len() + 1 - LINES_MAX));
    lines
}

/// Returns the rates of every source and sink: `sink out: 1200 events/s, 0.40 MB/s, total 52000 events`.
fn rates(before: &Snapshot, now: &Snapshot) -> Vec<String> {
    let seconds = (now.uptime_seconds - before.uptime_seconds).max(1e-9);
    let ends = now.components.iter().filter(|c| c.kind != "transform");
    let pairs = ends.filter_map(|c| Some((c, before.components.iter().find(|b| b.id == c.id)?)));
    pairs.map(|(c, b)| rate(b, c, seconds)).collect()
}

fn rate(before: &ComponentSnapshot, now: &ComponentSnapshot, seconds: f64) -> String {
    let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    let events = rate(now.counters.sent_events, before.counters.sent_events);
    let mb = rate(now.counters.sent_bytes, before.counters.sent_bytes) / 1e6;
    let error = now
        .error
        .as_ref()
        .map_or(String::new(), |error| format!(" [{}]", escaped(mask(error), ERROR_BYTES_MAX)));
    let total = now.counters.sent_events;
    format!(
        "{} {}: {events:.0} events/s, {mb:.2} MB/s, total {total} events{error}",
        now.kind, now.id
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_a_line_per_component_and_sums_up_the_rest() {
        let rates: Vec<String> = (0..20).map(|n| format!("sink s{n}: 0 events/s")).collect();
        assert_eq!(block_lines(&rates[..LINES_MAX]), rates[..LINES_MAX]);
        let lines = block_lines(&rates);
        assert_eq!((lines.len(), &lines[..LINES_MAX - 1]), (LINES_MAX, &rates[..LINES_MAX - 1]));
        assert_eq!(lines[LINES_MAX - 1], "and 13 more components");
    }
}
