//! A worker: runs the whole chain on a ticket's batch while it is in cache.

mod refusals;

use crate::core::{Core, Node, Op, SinkSlot, fan_out};
use crate::offload::OffloadQueue;
use crate::scheduler::Job;
use crate::ticket::{Arrival, Bound, ChainOutput, Step};
use millstream_model::trace::{Entered, Trace};
use millstream_model::{
    Batch, ComponentError, EncodeCx, Encoder, Map, Outputs, Payload, Permit, Segment,
};
use millstream_recorder::recorder;
use millstream_recorder::schema::EventKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval at which transforms are let go.
const LET_GO_POLL: Duration = Duration::from_millis(50);

/// A worker's own instances of transforms and encoders.
pub(crate) struct Worker {
    instances: Vec<Instance>,
    /// Current node, for the report of a panic.
    at: usize,
    /// Follows the current batch.
    trace: Option<Arc<Trace>>,
}

enum Instance {
    None,
    Map(Box<dyn Map>),
    Encoder(Box<dyn Encoder>),
}

impl Worker {
    /// Creates a worker for `core`, without instances.
    pub fn new(core: &Core) -> Worker {
        let instances = core.nodes.iter().map(|_| Instance::None).collect();
        Worker { instances, at: 0, trace: None }
    }

    /// Runs a job: polls a source and runs the batch that it returns, or runs a step.
    pub fn work(&mut self, core: &Core, job: Job) {
        let step = match job {
            Job::Poll(source) => core.poll(source),
            Job::Resume(step) => Some(step),
        };
        if let Some(step) = step {
            self.run(core, step);
        }
    }

    /// Runs a step up to the next cuts, and enters these.
    pub fn run(&mut self, core: &Core, step: Step) {
        let mut made = ChainOutput::default();
        let mut permit = step.ticket.permit.lock();
        self.trace.clone_from(&step.ticket.trace);
        for (node, batch) in step.inputs {
            self.guarded(core, node, batch, &mut permit, &mut made);
        }
        self.trace = None;
        drop(permit);
        for arrival in core.advance(&step.ticket, step.cut, made) {
            enter(core, arrival);
        }
    }

    /// Runs a node and everything downstream. On a panic the batch is halved until the one event
    /// that causes it is found; that event is rejected and counted, the others are delivered.
    fn guarded(
        &mut self,
        core: &Core,
        node: usize,
        batch: Batch,
        permit: &mut Permit,
        made: &mut ChainOutput,
    ) {
        let mut halves = vec![batch];
        while let Some(batch) = halves.pop() {
            let (payloads, cuts) = (made.payloads.len(), made.at_cuts.len());
            let run = || self.node(core, node, batch.clone(), permit, made);
            if catch_unwind(AssertUnwindSafe(run)).is_ok() {
                continue;
            }
            made.payloads.truncate(payloads);
            made.at_cuts.truncate(cuts);
            self.instances[self.at] = Instance::None;
            if batch.events() > 1 {
                let (first, second) = halve(&batch);
                halves.extend([second, first]);
            } else {
                poisoned(&core.nodes[self.at], &batch);
            }
        }
    }

    fn node(
        &mut self,
        core: &Core,
        index: usize,
        batch: Batch,
        permit: &mut Permit,
        made: &mut ChainOutput,
    ) {
        let node = &core.nodes[index];
        if batch.events() == 0 {
            return;
        }
        if (batch.sinks & node.downstream).is_empty() {
            return self.trace.iter().for_each(|trace| trace.skip(&node.id, &batch));
        }
        match &node.op {
            Op::Serial(_) | Op::Offload(_) => made.at_cuts.push((index, batch)),
            Op::Sink(slot) => self.encode(core, index, slot, batch, permit, made),
            Op::Map(make) => {
                if matches!(self.instances[index], Instance::None) {
                    self.instances[index] = Instance::Map(make());
                }
                let Instance::Map(map) = &mut self.instances[index] else { return };
                self.at = index;
                let trace = self.trace.as_ref();
                let next = applied(node, batch, trace, |batch, out| map.apply(batch, out));
                for (reader, batch) in next {
                    self.node(core, reader, batch, permit, made);
                }
            }
        }
    }

    fn encode(
        &mut self,
        core: &Core,
        index: usize,
        slot: &SinkSlot,
        batch: Batch,
        permit: &mut Permit,
        made: &mut ChainOutput,
    ) {
        if slot.lanes.len() == 1 {
            return self.encode_lane(core, index, slot, (0, batch), permit, made);
        }
        for (lane, batch) in by_lane(batch, slot.lanes.len()) {
            self.encode_lane(core, index, slot, (lane, batch), permit, made);
        }
    }

    fn encode_lane(
        &mut self,
        core: &Core,
        index: usize,
        slot: &SinkSlot,
        (lane, batch): (usize, Batch),
        permit: &mut Permit,
        made: &mut ChainOutput,
    ) {
        let node = &core.nodes[index];
        if matches!(self.instances[index], Instance::None) {
            self.instances[index] = Instance::Encoder(slot.sink.encoder());
        }
        let Instance::Encoder(encoder) = &mut self.instances[index] else { return };
        self.at = index;
        node.tap.offer(0, &batch);
        let _entered = node.counters.enter();
        let (begun, timer) = (Instant::now(), recorder::start(EventKind::BatchStage));
        let traced = self.trace.as_ref().map(|trace| trace.enter(&batch, begun));
        let (events, bytes) = (batch.events() as u64, batch.text_bytes());
        let mut payload = Payload::new(events);
        let mut refused_rows = slot.feed.keeps_refused().then(Vec::new);
        let (pool, counters, refused_to) = (&core.pool, &node.counters, refused_rows.as_mut());
        let mut cx = EncodeCx { pool, permit, counters, refused: refused_to };
        let result = encoder.encode(&batch, &mut payload, &mut cx);
        if let (Some(rows), Ok(())) = (refused_rows, &result) {
            refusals::note(&batch, &rows, &mut payload, permit);
        }
        node.counters.worked(begun.elapsed());
        node.counters.record_stage(timer, events, bytes);
        node.counters.received(events, bytes);
        let is_sent = result.is_ok() && !payload.is_empty();
        let traced = traced.and_then(|traced| traced.encoded(&node.id, &batch, is_sent));
        match result {
            Ok(()) if payload.is_empty() => {}
            Ok(()) => {
                let acks = batch.segments.iter().map(|s| s.ack.clone()).collect();
                let (node, sink, completes) = (index, slot.index, true);
                made.payloads.push(Bound { node, sink, lane, payload, acks, completes, traced });
            }
            Err(error) => refused(node, events, &error),
        }
    }
}

/// Applies a transform to a batch: counts, measures, and finds the readers of its outputs.
fn applied(
    node: &Node,
    batch: Batch,
    trace: Option<&Arc<Trace>>,
    apply: impl FnOnce(Batch, &mut Outputs) -> Result<(), ComponentError>,
) -> Vec<(usize, Batch)> {
    let _entered = node.counters.enter();
    let (begun, timer) = (Instant::now(), recorder::start(EventKind::BatchStage));
    let traced = trace.map(|trace| trace.enter(&batch, begun));
    let (mut out, events, bytes) = received(node, &batch);
    if let Err(error) = apply(batch, &mut out) {
        refused(node, events, &error);
    }
    let next = sent(node, out, traced);
    node.counters.worked(begun.elapsed());
    node.counters.record_stage(timer, events, bytes);
    next
}

/// Counts a batch that a transform receives; returns where its output goes, its events and its bytes.
fn received(node: &Node, batch: &Batch) -> (Outputs, u64, u64) {
    let (events, bytes) = (batch.events() as u64, batch.text_bytes());
    node.counters.received(events, bytes);
    (Outputs { counters: node.counters.clone(), ..Outputs::default() }, events, bytes)
}

/// Counts what a transform sends, and finds its readers.
fn sent(node: &Node, mut out: Outputs, mut traced: Option<Entered>) -> Vec<(usize, Batch)> {
    if let Some(warning) = out.warning.take() {
        log::warn!("{} {}: {warning}", node.kind, node.id);
        node.counters.set_last_error(&warning);
    }
    let mut next = Vec::new();
    for (output, batch) in out.batches {
        node.counters.sent(batch.events() as u64, batch.text_bytes());
        node.tap.offer(output, &batch);
        traced.iter_mut().for_each(|traced| traced.output(&node.id, output, &batch));
        match node.outputs.get(output) {
            Some(readers) if !readers.is_empty() => fan_out(readers, batch, &mut next),
            // An output without a reader is normal; a rejected event without one is not.
            _ => {
                let reason = if out.rejected == Some(output) { "rejected" } else { "unread" };
                node.counters.dropped(reason, batch.events() as u64);
            }
        }
    }
    if let Some(traced) = traced {
        traced.leave(&node.id);
    }
    next
}

/// Passes batches to the cut that they have reached.
fn enter(core: &Core, mut arrival: Arrival) {
    let cut = &core.sources[arrival.ticket.source].cuts[arrival.cut];
    let node = &core.nodes[cut.node];
    if cut.sheds && cut.is_overfull(arrival.ticket.claim) && !arrival.batches.is_empty() {
        let events = arrival.batches.drain(..).map(|batch| batch.events() as u64).sum();
        node.counters.dropped("buffer_full", events);
        let step =
            Step { ticket: arrival.ticket.clone(), cut: Some(arrival.cut), inputs: Vec::new() };
        core.pass_cut(&arrival.ticket, arrival.cut);
        core.scheduler.resume(step);
    }
    let is_waiting = !arrival.batches.is_empty();
    if is_waiting {
        cut.enter();
    }
    match &node.op {
        Op::Serial(stage) => stage.enter(arrival, |serial, arrival| {
            let now = core.now();
            core.scheduler
                .resume(at_cut(core, arrival, |batch, out| serial.apply(now, batch, out)));
        }),
        Op::Offload(queue) if is_waiting => {
            core.offload.push(queue, arrival, core.now().since_start);
        }
        _ => {}
    }
}

/// Runs batches at their cut; returns the step behind it.
fn at_cut(
    core: &Core,
    mut arrival: Arrival,
    mut apply: impl FnMut(Batch, &mut Outputs) -> Result<(), ComponentError>,
) -> Step {
    let source = &core.sources[arrival.ticket.source];
    let node = &core.nodes[source.cuts[arrival.cut].node];
    let mut apply = |batch, out: &mut Outputs| {
        let applied = apply(batch, out);
        out.pause.iter().for_each(|pause| source.pause(core.now().since_start, *pause));
        applied
    };
    let mut inputs = Vec::new();
    for batch in std::mem::take(&mut arrival.batches) {
        let run = || applied(node, batch.clone(), arrival.ticket.trace.as_ref(), &mut apply);
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(next) => inputs.extend(next),
            // Half of the batch may have changed the state: halving it would count twice.
            Err(_) => poisoned(node, &batch),
        }
    }
    core.leave_cut(&arrival);
    Step { ticket: arrival.ticket, cut: Some(arrival.cut), inputs }
}

impl Core {
    /// Calls an offload transform; returns the output for each batch.
    pub fn call(&self, queue: &Arc<OffloadQueue>, batches: Vec<Batch>) -> Vec<Outputs> {
        // A transform with tickets is in the topology.
        let Some(node) = self.offload_node(queue) else { return Vec::new() };
        let _entered = node.counters.enter();
        let (begun, timer) = (Instant::now(), recorder::start(EventKind::BatchStage));
        let (mut outputs, mut events, mut bytes) = (Vec::with_capacity(batches.len()), 0, 0);
        for batch in &batches {
            let (output, batch_events, batch_bytes) = received(node, batch);
            outputs.push(output);
            events += batch_events;
            bytes += batch_bytes;
        }
        let copies = batches.clone();
        let apply = || queue.transform.apply(self.now(), copies, &mut outputs);
        match catch_unwind(AssertUnwindSafe(apply)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => refused(node, events, &error),
            Err(_) => {
                batches.iter().for_each(|batch| poisoned(node, batch));
                outputs.iter_mut().for_each(|out| out.batches.clear());
            }
        }
        node.counters.busy(begun.elapsed());
        node.counters.record_stage(timer, events, bytes);
        outputs
    }

    /// Continues with the tickets that a call was made for at `begun`. `outputs` has one item per batch.
    pub fn resume_all(
        &self,
        queue: &Arc<OffloadQueue>,
        (arrivals, begun): (Vec<Arrival>, Instant),
        outputs: Vec<Outputs>,
    ) {
        let Some(node) = self.offload_node(queue) else { return };
        let mut outputs = outputs.into_iter();
        for arrival in arrivals {
            let trace = arrival.ticket.trace.as_ref();
            let of_ticket = arrival.batches.iter().zip(&mut outputs);
            let sent = |(batch, out): (&Batch, Outputs)| {
                sent(node, out, trace.map(|trace| trace.enter(batch, begun)))
            };
            let inputs = of_ticket.flat_map(sent).collect();
            self.leave_cut(&arrival);
            let (ticket, cut) = (arrival.ticket, Some(arrival.cut));
            self.scheduler.resume(Step { ticket, cut, inputs });
        }
    }

    /// Hands back the batches of calls that have exceeded their deadline.
    pub fn expire_calls(&self) {
        for (queue, arrival) in self.offload.expire(self.now().since_start) {
            let Some(node) = self.offload_node(&queue) else { continue };
            node.counters.error("deadline");
            if let Some(hanging) = self.offload.hanging(&queue) {
                log::error!("{} {}: {hanging}", node.kind, node.id);
            }
            let counters = node.counters.clone();
            let expire = |batch: &Batch| {
                let mut out = Outputs { counters: counters.clone(), ..Outputs::default() };
                queue.transform.expired(batch.clone(), &mut out);
                out
            };
            let outputs = arrival.batches.iter().map(expire).collect();
            self.resume_all(&queue, (vec![arrival], Instant::now()), outputs);
        }
    }

    /// Lets go of the offload transforms that `goes` selects by id, again and again after some time:
    /// batches that wait for a call follow. While others keep the reload from being carried out, it
    /// may be rejected, and none is let go. Never returns.
    pub async fn let_go_later(
        &self,
        time: Duration,
        goes: impl Fn(&str) -> bool,
    ) -> std::convert::Infallible {
        tokio::time::sleep(time).await;
        loop {
            if self.waits_only_at(&goes) {
                self.let_go(&goes);
            }
            tokio::time::sleep(LET_GO_POLL).await;
        }
    }

    /// Ends the calls of offload transforms once nothing takes what they return: a source that can
    /// read again does so after the next start.
    pub fn end_calls(&self) {
        self.offload.stop();
        self.let_go(|_| true);
    }

    /// Lets go of the offload transforms that `goes` selects by id.
    pub fn let_go(&self, goes: impl Fn(&str) -> bool) {
        for node in self.nodes.iter().filter(|node| goes(&node.id)) {
            if let Op::Offload(queue) = &node.op {
                queue.transform.let_go();
            }
        }
    }

    fn offload_node(&self, queue: &Arc<OffloadQueue>) -> Option<&Node> {
        let is_it = |node: &&Node| matches!(&node.op, Op::Offload(of) if Arc::ptr_eq(of, queue));
        self.nodes.iter().find(is_it)
    }
}

fn refused(node: &Node, events: u64, error: &ComponentError) {
    node.counters.error(error.kind);
    node.counters.dropped(error.kind, events);
    log::error!("{} {}: {events} events rejected: {error}", node.kind, node.id);
}

/// Counts events whose processing panics, and logs the first one.
fn poisoned(node: &Node, batch: &Batch) {
    node.counters.error("panic");
    node.counters.dropped("panic", batch.events() as u64);
    let row = (0..batch.rows()).find(|row| batch.is_selected(*row)).unwrap_or(0);
    let segment =
        batch.segments.iter().find(|s| (s.first_row..s.first_row + s.rows).contains(&row));
    let place = segment
        .map_or(String::new(), |s| format!("{} offset {}", s.origin.name, batch.offset(s, row)));
    let text =
        String::from_utf8_lossy(&batch.text(row)[..batch.text_len(row).min(200)]).into_owned();
    let (kind, id) = (node.kind, &node.id);
    match batch.events() {
        1 => log::error!("{kind} {id}: panic, event rejected ({place}): {text:?}"),
        events => log::error!(
            "{kind} {id}: panic, {events} events rejected, the first of them ({place}): {text:?}"
        ),
    }
}

/// Splits the selected rows in two.
fn halve(batch: &Batch) -> (Batch, Batch) {
    let selected: Vec<usize> = (0..batch.rows()).filter(|row| batch.is_selected(*row)).collect();
    let middle = selected[selected.len() / 2];
    let (mut first, mut second) = (batch.clone(), batch.clone());
    first.select_range(0, middle);
    second.select_range(middle, batch.rows());
    (first, second)
}

/// Splits a batch by lane: an origin always uses the same lane.
fn by_lane(batch: Batch, lanes: usize) -> Vec<(usize, Batch)> {
    let lane_of = |segment: &Segment| (segment.origin.id.0 % lanes as u64) as usize;
    let of_lane = |lane: usize| -> Option<(usize, Batch)> {
        let segments: Arc<[Segment]> =
            batch.segments.iter().filter(|s| lane_of(s) == lane).cloned().collect();
        if segments.is_empty() {
            return None;
        }
        let mut part = batch.clone();
        if segments.len() < batch.segments.len() {
            part.select(rows_of(&segments, batch.rows()));
        }
        part.segments = segments;
        Some((lane, part))
    };
    (0..lanes).filter_map(of_lane).collect()
}

fn rows_of(segments: &[Segment], rows: usize) -> millstream_model::Selection {
    let inside =
        |row: usize| segments.iter().any(|s| (s.first_row..s.first_row + s.rows).contains(&row));
    millstream_model::Selection::collect_bool(rows, inside)
}
