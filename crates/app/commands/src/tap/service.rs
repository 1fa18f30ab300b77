//! The taps of a running agent. Each tap is a task that receives samples and sends lines to its
//! client.

use super::follow::{self, Follower};
use super::place::Point;
use super::tap_client::{Client, End};
use super::topology::{Topology, plan};
use super::view::{Shown, View};
use hyper::body::Bytes;
use millstream_config::Config;
use millstream_console::{OpenTap, TapRefusal, TapRequest};
use millstream_model::EventSample;
use millstream_model::tap::{Listener, Listening, Taps};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;

/// The target of log lines about taps, by which operators may select them.
const TARGET: &str = "millstream::tap::service";

/// Maximum number of samples that wait to be rendered as lines.
const SAMPLES_MAX: usize = 256;

/// Maximum number of samples that are rendered at once.
const SAMPLES_AT_ONCE: usize = 64;

/// Maximum total size of waiting samples in bytes; the last one may exceed it.
const QUEUE_BYTES_MAX: usize = 2 << 20;

/// Maximum number of line chunks that wait for the client.
const CHUNKS_MAX: usize = 1;

/// The taps of an agent.
pub struct TapService {
    taps: Taps,
    topology: watch::Sender<Topology>,
}

impl TapService {
    /// Creates the service for an agent that has not started.
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
    /// Returns an error if the id or the condition is invalid, or if the agent is starting,
    /// stopping or reloading.
    fn open(&self, request: TapRequest) -> Result<mpsc::Receiver<Bytes>, TapRefusal> {
        let mut topology = self.topology.subscribe();
        let config = topology.borrow_and_update().config()?;
        let (lines, chunks) = mpsc::channel(CHUNKS_MAX);
        let client = Client::new(&request, lines);
        if request.follow {
            let plan = follow::Plan::new(&config, &request)?;
            log_raw(&request);
            Follower::start(request, plan, self.taps.clone(), topology, client);
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
        log::info!(target: TARGET, "a raw tap of {} was opened: it shows events without redaction", request.id);
    }
}

/// Samples on their way to a tap.
#[derive(Clone)]
struct Queue {
    sender: mpsc::Sender<EventSample>,
    bytes: Arc<AtomicUsize>,
}

impl Queue {
    fn listen(&self, taps: &Taps, (side, id, output): &Point) -> Listening {
        taps.listen(*side, id, *output, Box::new(self.clone()))
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

/// A tap that shows samples.
struct Session {
    request: TapRequest,
    taps: Taps,
    point: Point,
    queue: Queue,
    listening: Listening,
    /// The view; `None` while it is in use.
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
                    Err(_) => Err(Some("the agent is stopping".to_owned())),
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
        self.client.set_passed(self.listening.passed());
    }

    /// Adapts to a changed topology.
    async fn replan(&mut self) -> Result<(), End> {
        let config = match &*self.topology.borrow_and_update() {
            Topology::Running(config) => config.clone(),
            Topology::Starting | Topology::Changing => {
                self.is_paused = true;
                return Ok(());
            }
            Topology::Ended => return Err(Some("the agent is stopping".to_owned())),
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
        let left = self.client.left();
        // Do not block the network thread, which delivers payloads, because a condition may be
        // costly.
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
