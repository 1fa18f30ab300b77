//! Calls to offload transforms.

use super::Flow;
use crate::core::node::Received;
use crate::offload::OffloadQueue;
use crate::ticket::{Arrival, Step};
use millstream_model::{Batch, Outputs};
use millstream_recorder::recorder;
use millstream_recorder::schema::EventKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// A completed call to an offload transform.
pub(crate) struct FinishedCall {
    pub queue: Arc<OffloadQueue>,
    /// The tickets whose batches were passed to the call.
    pub arrivals: Vec<Arrival>,
    /// Time at which the call began.
    pub begun: Instant,
    /// One item per batch.
    pub outputs: Vec<Outputs>,
}

impl Flow {
    /// Calls an offload transform; returns the output for each batch.
    pub fn call(&self, queue: &Arc<OffloadQueue>, batches: Vec<Batch>) -> Vec<Outputs> {
        // A transform with tickets is always in the topology.
        let Some(node) = self.nodes.of_offload(queue) else { return Vec::new() };
        let _entered = node.counters.enter();
        let begun = Instant::now();
        let timer = recorder::start(EventKind::BatchStage);
        let mut outputs = Vec::with_capacity(batches.len());
        let mut events = 0;
        let mut bytes = 0;
        for batch in &batches {
            let received: Received = node.receive(batch);
            outputs.push(received.out);
            events += received.events;
            bytes += received.bytes;
        }
        let copies = batches.clone();
        let apply = || queue.transform.apply(self.resources.now(), copies, &mut outputs);
        match catch_unwind(AssertUnwindSafe(apply)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => node.refuse(events, &error),
            Err(_) => {
                for (batch, out) in batches.iter().zip(&mut outputs) {
                    node.reject_panicking(batch);
                    out.batches.clear();
                }
            }
        }
        node.counters.busy(begun.elapsed());
        node.counters.record_stage(timer, events, bytes);
        outputs
    }

    /// Passes on the output of a finished call, and resumes its tickets.
    pub fn resume(&self, call: FinishedCall) {
        let FinishedCall { queue, arrivals, begun, outputs } = call;
        let Some(node) = self.nodes.of_offload(&queue) else { return };
        let mut outputs = outputs.into_iter();
        for arrival in arrivals {
            let trace = arrival.ticket.trace.as_ref();
            let mut inputs = Vec::new();
            for (batch, out) in arrival.batches.iter().zip(&mut outputs) {
                inputs.extend(node.send(out, trace.map(|trace| trace.enter(batch, begun))));
            }
            self.leave_cut(&arrival);
            let ticket = arrival.ticket;
            let cut = Some(arrival.cut);
            self.resources.scheduler.resume(Step { ticket, cut, inputs });
        }
    }

    /// Ends the calls that have exceeded their deadline. Their batches continue with the output
    /// that the transform produces for expired calls.
    pub fn expire_calls(&self) {
        for (queue, arrival) in self.resources.offload.expire(self.resources.engine_time()) {
            let Some(node) = self.nodes.of_offload(&queue) else { continue };
            node.counters.error("deadline");
            if let Some(hanging) = self.resources.offload.hanging(&queue) {
                log::error!("{} {}: {hanging}", node.kind, node.id);
            }
            let expire = |batch: &Batch| {
                let mut out = Outputs { counters: node.counters.clone(), ..Outputs::default() };
                queue.transform.expired(batch.clone(), &mut out);
                out
            };
            let outputs = arrival.batches.iter().map(expire).collect();
            let begun = Instant::now();
            self.resume(FinishedCall { queue, arrivals: vec![arrival], begun, outputs });
        }
    }

    /// Ends the calls to offload transforms at shutdown, when no further result can be delivered.
    /// Sources that can reread the data do so after a restart.
    pub fn end_calls(&self) {
        self.resources.offload.stop();
        self.nodes.let_go(|_| true);
    }
}
