//! The taps of a running agent. Each tap is a task that receives samples and sends lines to its
//! client.

use super::follow::{self, Follower};
use super::place::{self, Point};
use super::view::{NOTE, Shown, View};
use hyper::body::Bytes;
use millstream_components::util::condition::Condition;
use millstream_config::Config;
use millstream_console::{OpenTap, TapFormat, TapRefusal, TapRequest};
use millstream_model::EventSample;
use millstream_model::tap::{Listener, Listening, Taps};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// Maximum number of samples that wait for their lines to be made.
const SAMPLES_MAX: usize = 256;

/// Maximum number of samples whose lines are made at once.
const SAMPLES_AT_ONCE: usize = 64;

/// Maximum bytes of samples that wait; the last one may exceed it.
const QUEUE_BYTES_MAX: usize = 2 << 20;

/// Maximum number of chunks of lines that wait for the client.
const CHUNKS_MAX: usize = 1;

/// Interval at which a tap reports the number of passed events.
const NOTE_INTERVAL: Duration = Duration::from_secs(10);

/// Prefix of a note in text format. No event contains it, because control characters are escaped.
pub const TEXT_NOTE: char = '\x1E';

/// The topology as seen by taps.
#[derive(Clone)]
pub enum Topology {
    /// No events flow yet.
    Starting,
    /// The topology of this configuration is running.
    Running(Arc<Config>),
    /// The topology is being replaced. Events that arrive meanwhile are not shown, because they may
    /// belong to either topology.
    Changing,
    /// No more events flow.
    Ended,
}

impl Topology {
    /// Returns the running configuration, or the reason why none runs.
    fn config(&self) -> Result<Arc<Config>, TapRefusal> {
        let why = match self {
            Topology::Running(config) => return Ok(config.clone()),
            Topology::Starting => "the agent is starting; try again",
            Topology::Changing => "the configuration is being reloaded; try again",
            Topology::Ended => "the agent stops",
        };
        Err(TapRefusal::Unavailable(why.to_owned()))
    }
}

/// The taps of an agent.
pub struct TapService {
    taps: Taps,
    topology: watch::Sender<Topology>,
}

impl TapService {
    /// Creates the service of an agent that has not started.
    pub fn new() -> Arc<TapService> {
        Arc::new(TapService {
            taps: Taps::default(),
            topology: watch::Sender::new(Topology::Starting),
        })
    }

    /// Returns the function that opens taps.
    pub fn opener(self: &Arc<TapService>) -> Arc<OpenTap> {
        let service = self.clone();
        Arc::new(move |request| service.open(request))
    }

    /// Returns the points for the engine.
    pub fn taps(&self) -> Taps {
        self.taps.clone()
    }

    /// Stops showing events while the topology may be replaced.
    pub fn pause(&self) {
        self.topology.send_replace(Topology::Changing);
    }

    /// Continues with the topology of this configuration.
    pub fn resume(&self, config: &Config) {
        self.topology.send_replace(Topology::Running(Arc::new(config.clone())));
    }

    /// Ends all taps.
    pub fn end(&self) {
        self.topology.send_replace(Topology::Ended);
    }

    /// Opens a tap, and returns its lines in chunks.
    ///
    /// # Errors
    ///
    /// The id or the condition is invalid, or the agent starts, stops or reloads.
    fn open(&self, request: TapRequest) -> Result<mpsc::Receiver<Bytes>, TapRefusal> {
        let mut topology = self.topology.subscribe();
        let config = topology.borrow_and_update().config()?;
        let (lines, chunks) = mpsc::channel(CHUNKS_MAX);
        let client = Client::new(&request, lines);
        if request.follow {
            let plan = follow::Plan::new(&config, &request)?;
            log_raw(&request);
            Follower::start((request, plan), self.taps.clone(), topology, client);
            return Ok(chunks);
        }
        let (point, view) = plan(&config, &request)?;
        log_raw(&request);
        let (sender, samples) = mpsc::channel(SAMPLES_MAX);
        let queue = Queue { sender, bytes: Arc::default() };
        let listening = queue.listen(&self.taps, &point);
        let (taps, view, is_paused) = (self.taps.clone(), Some(view), false);
        let session = Session {
            request,
            taps,
            point,
            queue,
            listening,
            view,
            samples,
            topology,
            is_paused,
            client,
        };
        tokio::spawn(session.run());
        Ok(chunks)
    }
}

fn log_raw(request: &TapRequest) {
    if request.raw {
        log::info!("a raw tap of {} was opened: it shows events without redaction", request.id);
    }
}

/// Returns the point of a tap, and its view.
///
/// # Errors
///
/// The id or the condition is invalid, or a redaction cannot be built.
pub fn plan(config: &Config, request: &TapRequest) -> Result<(Point, View), TapRefusal> {
    let point = place::point(config, &request.id)?;
    let condition = request.condition.as_deref().map(Condition::new).transpose();
    let condition = condition.map_err(|error| TapRefusal::Invalid(format!("where: {error}")))?;
    let redactions = match request.raw {
        true => Vec::new(),
        false => place::redactions(config, &request.id).map_err(TapRefusal::Unavailable)?,
    };
    Ok((point, View::new(redactions, condition, request.format)))
}

/// Samples on their way to a tap.
#[derive(Clone)]
struct Queue {
    sender: mpsc::Sender<EventSample>,
    bytes: Arc<AtomicUsize>,
}

impl Queue {
    fn listen(&self, taps: &Taps, (side, id, output): &Point) -> Listening {
        taps.listen((*side, id, *output), Box::new(self.clone()))
    }
}

impl Listener for Queue {
    fn offer(&self, copy: &mut dyn FnMut() -> EventSample) -> Option<usize> {
        if self.bytes.load(Ordering::Relaxed) >= QUEUE_BYTES_MAX {
            return None;
        }
        let place = self.sender.try_reserve().ok()?;
        let sample = copy();
        let bytes = sample.bytes;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        place.send(sample);
        Some(bytes)
    }
}

/// The client of a tap, and what was sent to it.
pub struct Client {
    lines: mpsc::Sender<Bytes>,
    format: TapFormat,
    /// Number of events still to show.
    left: u64,
    /// Number of events shown.
    shown: u64,
    /// Number of events that passed, or are traced.
    passed: u64,
    has_warned: bool,
    next_note: Instant,
}

/// Reason for the end of a tap; `None` if its client is gone.
pub type End = Option<String>;

impl Client {
    fn new(request: &TapRequest, lines: mpsc::Sender<Bytes>) -> Client {
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

    /// Counts events that passed.
    pub fn pass(&mut self, events: u64) {
        self.passed += events;
    }

    /// Sends the lines of events.
    ///
    /// # Errors
    ///
    /// The tap ends: the limit is reached, or the client is gone.
    pub async fn show(&mut self, lines: Bytes, events: u64) -> Result<(), End> {
        self.send(lines).await?;
        (self.left, self.shown) = (self.left - events, self.shown + events);
        if self.left == 0 { Err(Some("limit".to_owned())) } else { Ok(()) }
    }

    /// Sends the first warning.
    ///
    /// # Errors
    ///
    /// The client is gone.
    pub async fn warn(&mut self, warning: Option<String>) -> Result<(), End> {
        let Some(warning) = warning.filter(|_| !self.has_warned) else { return Ok(()) };
        self.has_warned = true;
        self.send(self.note(&json!({ "warning": warning }))).await
    }

    /// Sends a note with the number of passed events, and with the number of batches in progress
    /// whose events may be shown later. Also detects whether the client is still connected.
    ///
    /// # Errors
    ///
    /// The client is gone.
    pub async fn tell(&mut self, pending: u64) -> Result<(), End> {
        self.next_note = Instant::now() + NOTE_INTERVAL;
        let note = json!({ "passed": self.passed, "shown": self.shown, "pending": pending });
        self.send(self.note(&note)).await
    }

    /// Sends the reason for the end of the tap.
    pub async fn end(self, end: End) {
        let Some(why) = end else { return };
        let note = json!({ "ended": why, "passed": self.passed, "shown": self.shown });
        let _ = self.send(self.note(&note)).await;
    }

    async fn send(&self, lines: Bytes) -> Result<(), End> {
        self.lines.send(lines).await.map_err(|_| None)
    }

    /// Returns a line about the tap.
    fn note(&self, what: &serde_json::Value) -> Bytes {
        let mark = if self.format == TapFormat::Text { "\x1E" } else { "" };
        format!("{mark}{NOTE}{what}}}\n").into()
    }
}

/// A tap that shows samples.
struct Session {
    request: TapRequest,
    taps: Taps,
    point: Point,
    queue: Queue,
    listening: Listening,
    /// `None` while it is in use.
    view: Option<View>,
    samples: mpsc::Receiver<EventSample>,
    topology: watch::Receiver<Topology>,
    is_paused: bool,
    client: Client,
}

impl Session {
    async fn run(mut self) {
        let end = self.serve().await;
        self.count();
        self.client.end(end).await;
    }

    async fn serve(&mut self) -> End {
        let mut samples = Vec::new();
        loop {
            let next_note = self.client.next_note();
            let step = tokio::select! {
                biased;
                () = self.client.closed() => Err(None),
                changed = self.topology.changed() => match changed {
                    Ok(()) => self.replan().await,
                    Err(_) => Err(Some("the agent stops".to_owned())),
                },
                _ = self.samples.recv_many(&mut samples, SAMPLES_AT_ONCE) => {
                    self.show(std::mem::take(&mut samples)).await
                }
                () = sleep_until(next_note) => {
                    self.count();
                    self.client.tell(0).await
                }
            };
            if let Err(end) = step {
                return end;
            }
        }
    }

    fn count(&mut self) {
        self.client.passed = self.listening.passed();
    }

    /// Continues with a topology that has changed.
    async fn replan(&mut self) -> Result<(), End> {
        let config = match &*self.topology.borrow_and_update() {
            Topology::Running(config) => config.clone(),
            Topology::Starting | Topology::Changing => {
                self.is_paused = true;
                return Ok(());
            }
            Topology::Ended => return Err(Some("the agent stops".to_owned())),
        };
        let request = self.request.clone();
        let planned = tokio::task::spawn_blocking(move || plan(&config, &request)).await;
        let planned = planned.map_err(|error| Some(error.to_string()))?;
        let (point, view) = planned.map_err(|refusal| {
            Some(format!("the configuration was reloaded: {}", refusal.text()))
        })?;
        if point != self.point {
            self.listening = self.queue.listen(&self.taps, &point);
            self.point = point;
        }
        // These samples may belong to the previous topology, to which this view does not apply.
        while let Ok(sample) = self.samples.try_recv() {
            self.queue.bytes.fetch_sub(sample.bytes, Ordering::Relaxed);
        }
        (self.view, self.is_paused) = (Some(view), false);
        Ok(())
    }

    /// Shows samples, unless the topology may differ from the topology of the view.
    async fn show(&mut self, samples: Vec<EventSample>) -> Result<(), End> {
        let bytes = samples.iter().map(|sample| sample.bytes).sum();
        self.queue.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if self.is_paused || self.topology.has_changed().unwrap_or(true) {
            return Ok(());
        }
        let Some(mut view) = self.view.take() else { return Err(Some("no view".to_owned())) };
        let left = self.client.left;
        // Do not block the network thread, which delivers payloads: a condition may be costly.
        let show = move || (view.show_all(samples, left), view);
        let shown = tokio::task::spawn_blocking(show).await;
        let (shown, view) = shown.map_err(|error| Some(error.to_string()))?;
        self.view = Some(view);
        let Shown { lines, events, warning } = shown.map_err(Some)?;
        self.client.warn(warning).await?;
        match events {
            0 => Ok(()),
            events => self.client.show(lines.into(), events).await,
        }
    }
}
