//! A tap that follows events: each line is one event with its path through the topology.

use super::place::{self, Point};
use super::route::{Followed, Route};
use super::tap_client::{Client, End};
use super::topology::{Topology, plan};
use super::view::View;
use millstream_config::Config;
use millstream_console::{TapRefusal, TapRequest};
use millstream_model::tap::{Taps, Tracing};
use millstream_model::trace::{Progress, SamplePoint, Trace, TraceListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// Maximum number of traces at a time.
const TRACES_MAX: usize = 256;

/// Maximum total size of traced events in bytes; the last one may exceed it.
const BYTES_MAX: usize = 2 << 20;

/// Interval at which traces are checked for completeness.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Time after which an event is shown with the path that it has taken so far.
const SHOWN_AFTER: Duration = Duration::from_secs(10);

/// The properties of a configuration that a follower needs.
pub struct Plan {
    /// Sources whose batches are traced.
    sources: Vec<String>,
    at: SamplePoint,
    view: View,
    route: Route,
}

impl Plan {
    /// Creates the plan for a request.
    ///
    /// # Errors
    ///
    /// Returns an error if the id or the condition is invalid, or if a redaction cannot be built.
    pub fn new(config: &Config, request: &TapRequest) -> Result<Plan, TapRefusal> {
        let (point, view) = plan(config, request)?;
        let (side, id, output): Point = point;
        let sources = place::upstream(config, &request.id);
        let at = SamplePoint { side, id: id.into(), output };
        Ok(Plan { sources, at, view, route: Route::new(config) })
    }
}

/// Collects new traces.
struct Queue {
    sender: mpsc::Sender<Arc<Trace>>,
    /// Total bytes of the events, which are limited. Each trace holds a clone of the counter.
    bytes: Arc<AtomicUsize>,
}

impl TraceListener for Queue {
    fn room(&self) -> Option<Arc<AtomicUsize>> {
        let has_room = Arc::strong_count(&self.bytes) <= TRACES_MAX
            && self.bytes.load(Ordering::Relaxed) < BYTES_MAX;
        has_room.then(|| self.bytes.clone())
    }

    fn begin(&self, trace: &Arc<Trace>) {
        // A trace that finds the queue full is not shown.
        let _ = self.sender.try_send(trace.clone());
    }
}

/// One follower.
pub struct Follower {
    request: TapRequest,
    taps: Taps,
    queue: Arc<dyn TraceListener>,
    /// The tracing; `None` while traces could belong to a different topology.
    tracing: Option<Tracing>,
    /// The plan; `None` while it is in use.
    plan: Option<Plan>,
    traces: mpsc::Receiver<Arc<Trace>>,
    /// Traces that are not complete.
    open: Vec<Arc<Trace>>,
    topology: watch::Receiver<Topology>,
    client: Client,
    next_look: Instant,
}

impl Follower {
    /// Starts a follower.
    pub fn start(
        request: TapRequest,
        plan: Plan,
        taps: Taps,
        topology: watch::Receiver<Topology>,
        client: Client,
    ) {
        let (sender, traces) = mpsc::channel(TRACES_MAX);
        let queue: Arc<dyn TraceListener> = Arc::new(Queue { sender, bytes: Arc::default() });
        let tracing = Some(taps.trace(&plan.sources, &plan.at, &queue));
        let (open, next_look) = (Vec::new(), Instant::now());
        let plan = Some(plan);
        let follower = Follower {
            request,
            taps,
            queue,
            tracing,
            plan,
            traces,
            open,
            topology,
            client,
            next_look,
        };
        tokio::spawn(follower.run());
    }

    async fn run(mut self) {
        let end = loop {
            if let Err(end) = self.step().await {
                break end;
            }
        };
        self.tracing = None;
        self.give_up();
        self.client.end(end).await;
    }

    async fn step(&mut self) -> Result<(), End> {
        let next_note = self.client.next_note();
        tokio::select! {
            biased;
            () = self.client.closed() => Err(None),
            changed = self.topology.changed() => match changed {
                Ok(()) => self.replan().await,
                Err(_) => Err(Some("the agent is stopping".to_owned())),
            },
            () = sleep_until(self.next_look), if !self.open.is_empty() => self.look().await,
            Some(trace) = self.traces.recv() => {
                self.open.push(trace);
                Ok(())
            }
            () = sleep_until(next_note) => {
                let is_at_point = |trace: &&Arc<Trace>| !trace.read(Progress::sampled).is_empty();
                let pending = self.open.iter().filter(is_at_point).count() as u64;
                self.client.tell(pending).await
            }
        }
    }

    /// Adapts to a changed topology.
    async fn replan(&mut self) -> Result<(), End> {
        let state = self.topology.borrow_and_update().clone();
        // Traces in progress may belong to either topology.
        self.tracing = None;
        self.give_up();
        let config = match state {
            Topology::Running(config) => config,
            Topology::Starting | Topology::Changing => return Ok(()),
            Topology::Ended => return Err(Some("the agent is stopping".to_owned())),
        };
        let request = self.request.clone();
        let planned = tokio::task::spawn_blocking(move || Plan::new(&config, &request)).await;
        let planned = planned.map_err(|error| Some(error.to_string()))?;
        let plan = planned.map_err(|refusal| {
            Some(format!("the configuration was reloaded: {}", refusal.text()))
        })?;
        self.tracing = Some(self.taps.trace(&plan.sources, &plan.at, &self.queue));
        self.plan = Some(plan);
        Ok(())
    }

    /// Ends all traces. Otherwise, payloads that wait at a sink would keep the traces and their
    /// events in memory.
    fn give_up(&mut self) {
        let begun = std::iter::from_fn(|| self.traces.try_recv().ok());
        for trace in self.open.drain(..).chain(begun) {
            trace.end();
        }
    }

    /// Shows the events whose path has ended or takes a long time.
    async fn look(&mut self) -> Result<(), End> {
        self.next_look = Instant::now() + LOOK_INTERVAL;
        let Some(mut plan) = self.plan.take() else { return Err(Some("no plan".to_owned())) };
        let is_due = |trace: &mut Arc<Trace>| {
            let is_over = Arc::strong_count(trace) == 1 || trace.age() >= SHOWN_AFTER;
            is_over || plan.route.is_done(trace)
        };
        let due: Vec<Arc<Trace>> = self.open.extract_if(.., is_due).collect();
        if due.is_empty() {
            self.plan = Some(plan);
            return Ok(());
        }
        let format = self.request.format;
        // Do not block the network thread, which delivers payloads, because a condition may be
        // costly.
        let show = move || {
            let lines: Vec<_> =
                due.iter().map(|trace| plan.route.line(trace, &mut plan.view, format)).collect();
            (lines, plan)
        };
        let shown = tokio::task::spawn_blocking(show).await;
        let (lines, plan) = shown.map_err(|error| Some(error.to_string()))?;
        self.plan = Some(plan);
        for followed in lines {
            let Followed { passed, line, warning } = followed.map_err(Some)?;
            self.client.pass(passed);
            self.client.warn(warning).await?;
            if let Some(line) = line {
                self.client.show(line.into(), 1).await?;
            }
        }
        Ok(())
    }
}
