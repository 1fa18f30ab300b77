//! Load that processes and acknowledges small batches: the cost of a one-line batch apart from its
//! line.

use crate::load::Load;
use millstream_model::{
    Ack, Batch, BatchBuilder, BlockPool, EngineTime, Grant, Ledger, Origin, OriginId, Outcome,
    Payload, SinkIndex, SinkSet, SourceInfo,
};
use std::hint::black_box;
use std::sync::Arc;

const BATCHES: u64 = 10_000;
/// Number of files, from which batches are read in turn.
const ORIGINS: u64 = 100;
/// Number of payloads in flight, so that the ledger holds open ranges.
const IN_FLIGHT: usize = 64;
const LINE: &[u8] = b"one line of a quiet file\n";

/// Processes ten thousand one-line batches from a hundred files for two sinks: the block, the
/// batch, the range, the payloads, and the settlement of each payload.
pub fn small_batches() -> Load {
    let mut files = Files::new();
    Load::new("batch", move || {
        let mut in_flight: Vec<Payload> = Vec::with_capacity(IN_FLIGHT);
        for number in 0..BATCHES {
            in_flight.extend(files.payloads(number));
            if in_flight.len() >= IN_FLIGHT {
                in_flight.drain(..).for_each(|payload| payload.settle(Outcome::Delivered));
            }
        }
        in_flight.drain(..).for_each(|payload| payload.settle(Outcome::Delivered));
        assert_eq!(files.ledger.take_moved().len() as u64, ORIGINS);
        BATCHES
    })
}

/// Files with their ledger.
struct Files {
    ledger: Arc<Ledger>,
    origins: Vec<Arc<Origin>>,
    positions: Vec<u64>,
    sinks: SinkSet,
    info: Arc<SourceInfo>,
    grant: Arc<Grant>,
    pool: Arc<BlockPool>,
}

impl Files {
    fn new() -> Files {
        let ledger = Ledger::new();
        let sinks: Vec<SinkIndex> = SinkIndex::all().take(2).collect();
        let origin = |number| Arc::new(Origin::new(OriginId(number), "/var/log/app.log"));
        let origins: Vec<Arc<Origin>> = (1..=ORIGINS).map(origin).collect();
        for origin in &origins {
            ledger.open(origin, sinks.iter().map(|sink| (*sink, 0)));
        }
        Files {
            ledger,
            positions: vec![0; origins.len()],
            origins,
            sinks: sinks.into_iter().collect(),
            info: Arc::new(SourceInfo { id: "app".into(), ..SourceInfo::default() }),
            grant: Grant::new(256 << 20),
            pool: BlockPool::new(),
        }
    }

    /// Reads a batch and returns its payload for each sink.
    fn payloads(&mut self, number: u64) -> Vec<Payload> {
        let file = (number % ORIGINS) as usize;
        let permit = self.grant.try_take(LINE.len() as u64).expect("memory");
        let mut block = self.pool.block(LINE.len(), permit);
        block.memory()[..LINE.len()].copy_from_slice(LINE);
        let mut builder = BatchBuilder::with_capacity(1);
        builder.row(&block.filled(LINE.len())[..LINE.len() - 1], 0);
        let begin = self.positions[file];
        let end = begin + LINE.len() as u64;
        self.positions[file] = end;
        let origin = self.origins[file].clone();
        let ack = self.ledger.issue(origin.id, begin..end, self.sinks, 0, EngineTime::ZERO);
        builder.segment(origin, begin, ack.clone());
        let batch = builder.finish(block.freeze(LINE.len()), self.info.clone(), self.sinks, 0);
        let payloads = self.sinks.iter().map(|sink| self.payload(&batch, &ack, sink)).collect();
        ack.finish();
        black_box(payloads)
    }

    /// Copies the line into a payload, as encoders do with a short batch. The block returns to the
    /// pool.
    fn payload(&self, batch: &Batch, ack: &Ack, sink: SinkIndex) -> Payload {
        let mut buffer = self.pool.buffer();
        buffer.extend_from_slice(batch.text(0));
        buffer.push(b'\n');
        let permit = self.grant.try_take(buffer.capacity() as u64).expect("memory");
        let mut payload = Payload::new(batch.events() as u64);
        payload.push(self.pool.freeze(buffer, permit));
        payload.owe(ack.hold(sink));
        payload
    }
}
