//! The client of a tap, which receives lines of events, and notes about the tap itself.

use super::view::NOTE;
use hyper::body::Bytes;
use millstream_console::{TapFormat, TapRequest};
use serde_json::json;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Interval at which a tap reports the number of events that passed.
const NOTE_INTERVAL: Duration = Duration::from_secs(10);

/// Character before a note in text. No event contains it, because control characters are escaped.
pub const TEXT_NOTE: char = '\x1E';

/// The client of a tap, and the number of events that it has received.
pub struct Client {
    lines: mpsc::Sender<Bytes>,
    format: TapFormat,
    /// Remaining number of events to show.
    left: u64,
    /// Number of events shown.
    shown: u64,
    /// Number of events that passed, or are traced.
    passed: u64,
    has_warned: bool,
    next_note: Instant,
}

/// Reason why a tap ends; `None` if its client is gone.
pub type End = Option<String>;

impl Client {
    /// Creates the client of a request. The client receives its lines through `lines`.
    pub fn new(request: &TapRequest, lines: mpsc::Sender<Bytes>) -> Client {
        Client {
            lines,
            format: request.format,
            left: request.limit.unwrap_or(u64::MAX),
            shown: 0,
            passed: 0,
            has_warned: false,
            next_note: Instant::now() + NOTE_INTERVAL,
        }
    }

    /// Waits until the client is gone.
    pub async fn closed(&self) {
        self.lines.closed().await;
    }

    /// Returns the time when [`Client::tell`] is due.
    pub fn next_note(&self) -> Instant {
        self.next_note
    }

    /// Returns the number of events that are still to be shown.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Sets the number of events that have passed.
    pub fn set_passed(&mut self, events: u64) {
        self.passed = events;
    }

    /// Counts events that passed.
    pub fn pass(&mut self, events: u64) {
        self.passed += events;
    }

    /// Sends the lines of events.
    ///
    /// # Errors
    ///
    /// Returns an error if the tap ends because the limit is reached or the client is gone.
    pub async fn show(&mut self, lines: Bytes, events: u64) -> Result<(), End> {
        self.send(lines).await?;
        (self.left, self.shown) = (self.left - events, self.shown + events);
        if self.left == 0 { Err(Some("limit".to_owned())) } else { Ok(()) }
    }

    /// Sends the first warning.
    ///
    /// # Errors
    ///
    /// Returns an error if the client is gone.
    pub async fn warn(&mut self, warning: Option<String>) -> Result<(), End> {
        let Some(warning) = warning.filter(|_| !self.has_warned) else { return Ok(()) };
        self.has_warned = true;
        self.send(self.note(&json!({ "warning": warning }))).await
    }

    /// Reports the number of events that passed, and the number of `pending` batches whose events
    /// may be shown later. Also detects whether the client is gone.
    ///
    /// # Errors
    ///
    /// Returns an error if the client is gone.
    pub async fn tell(&mut self, pending: u64) -> Result<(), End> {
        self.next_note = Instant::now() + NOTE_INTERVAL;
        let note = json!({ "passed": self.passed, "shown": self.shown, "pending": pending });
        self.send(self.note(&note)).await
    }

    /// Reports why the tap ends.
    pub async fn end(self, end: End) {
        let Some(why) = end else { return };
        let note = json!({ "ended": why, "passed": self.passed, "shown": self.shown });
        let _ = self.send(self.note(&note)).await;
    }

    async fn send(&self, lines: Bytes) -> Result<(), End> {
        self.lines.send(lines).await.map_err(|_| None)
    }

    /// Returns a line about the tap itself.
    fn note(&self, what: &serde_json::Value) -> Bytes {
        let mark = if self.format == TapFormat::Text { "\x1E" } else { "" };
        format!("{mark}{NOTE}{what}}}\n").into()
    }
}
