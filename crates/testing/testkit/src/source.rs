//! A source of lines in memory, which can be reread like a file.

use fastrand::Rng;
use millstream_model::{
    BatchBuilder, Choice, Cursors, EngineTime, Ledger, LongLine, Origin, OriginId, OriginStore,
    Polled, SinkIndex, Source, SourceCx, SourceOpen,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Maximum number of revocations of a log, across all sources that read it. Without the limit,
/// revocations might never end if a sink is slow.
pub const REVOKES_MAX: u64 = 20;

/// Lines of some origins; the text of line `n` of origin `o` is `o:n`.
#[derive(Clone, Debug)]
pub struct MemoryLog {
    /// Content of each origin. The id of an origin is its index plus one.
    pub origins: Vec<Vec<u8>>,
    /// In each poll, one origin in this many is revoked and later reassigned, up to `REVOKES_MAX`
    /// revocations in total; 0 for never.
    pub revokes_one_in: u64,
    /// Number of revocations so far.
    revokes: Arc<AtomicU64>,
}

impl MemoryLog {
    /// Creates `origins` logs of `lines` lines. The lines in `poison` (origin, line) end in `!`.
    pub fn new(origins: usize, lines: usize, poison: &[(usize, usize)]) -> MemoryLog {
        let text = |origin: usize| {
            let line = |n: usize| {
                format!("{origin}:{n}{}\n", if poison.contains(&(origin, n)) { "!" } else { "" })
            };
            (0..lines).map(line).collect::<String>().into_bytes()
        };
        MemoryLog {
            origins: (0..origins).map(text).collect(),
            revokes_one_in: 0,
            revokes: Arc::default(),
        }
    }

    /// Returns the lines of an origin without line endings.
    pub fn lines(&self, origin: usize) -> Vec<String> {
        String::from_utf8_lossy(&self.origins[origin]).lines().map(str::to_owned).collect()
    }

    /// Opens a source that resumes from the checkpoints in the store.
    pub fn open(&self, open: &SourceOpen, seed: u64) -> Box<dyn Source> {
        let (log, random, sinks) = (self.clone(), Rng::with_seed(seed), open.sinks.clone());
        let (store, ledger) = (open.store.clone(), open.ledger.clone());
        let handed = vec![Vec::new(); self.origins.len()];
        let mut source =
            MemorySource { log, tails: Vec::new(), random, turn: 0, sinks, store, ledger, handed };
        let tails = (0..self.origins.len()).map(|index| source.tail(index)).collect();
        source.tails = tails;
        let ids: Vec<(OriginId, Vec<u8>)> =
            source.tails.iter().map(|tail| (tail.origin.id, Vec::new())).collect();
        open.store.keep(&ids).expect("the store accepts the origins");
        Box::new(source)
    }
}

/// State of reading one origin.
struct MemoryTail {
    origin: Arc<Origin>,
    cursors: Cursors,
    assignment: Assignment,
}

/// Whether an origin is assigned to this source, as in a consumer group.
#[derive(Clone, Copy, PartialEq)]
enum Assignment {
    Assigned,
    /// The origin is no longer read. It is revoked when everything is settled, at the latest at
    /// this time.
    Draining(EngineTime),
    /// The origin is reassigned at this time.
    Revoked(EngineTime),
}

struct MemorySource {
    log: MemoryLog,
    tails: Vec<MemoryTail>,
    random: Rng,
    turn: usize,
    sinks: Vec<(SinkIndex, String)>,
    store: Arc<dyn OriginStore>,
    ledger: Arc<Ledger>,
    /// Checkpoints of each origin at its last revocation, at which its next owner begins.
    handed: Vec<Vec<(SinkIndex, u64)>>,
}

impl Source for MemorySource {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        for reread in cx.ledger.take_rereads() {
            self.tails[reread.origin.0 as usize - 1].cursors.reread(&reread);
        }
        self.reassign(cx.now.since_start);
        let count = self.tails.len();
        let (mut blocked, mut behind) = (false, false);
        for i in 0..count {
            let index = (self.turn + i) % count;
            let end = self.log.origins[index].len() as u64;
            if self.tails[index].assignment != Assignment::Assigned {
                blocked = true;
                continue;
            }
            match self.tails[index].cursors.choose(cx.ready, cx.blocked, Some(end)) {
                Some(choice) => {
                    self.turn = (index + 1) % count;
                    return self.read(index, choice, cx);
                }
                None => {
                    behind |= self.tails[index].cursors.is_behind(end);
                    blocked |= behind;
                }
            }
        }
        match (blocked, cx.until_eof) {
            (true, _) => Polled::Backpressure,
            (false, true) => Polled::Ended,
            (false, false) => Polled::Wait(Duration::from_millis(10)),
        }
    }

    fn reads_again(&self) -> bool {
        true
    }

    fn set_sinks(&mut self, sinks: &[(SinkIndex, String)]) {
        // A sink that returns resumes at its position in the store, so its position from an earlier
        // revocation is discarded.
        let stays =
            |sink: SinkIndex| sinks.iter().any(|new| new.0 == sink && self.sinks.contains(new));
        self.handed.iter_mut().for_each(|positions| positions.retain(|(sink, _)| stays(*sink)));
        let (records, _) = self.store.origins().expect("the store can be read");
        let (kept_sinks, new_sinks): (Vec<_>, Vec<_>) =
            sinks.iter().partition(|sink| self.sinks.contains(sink));
        for MemoryTail { origin, cursors, assignment } in &mut self.tails {
            if matches!(assignment, Assignment::Revoked(_)) {
                continue;
            }

            let record = records.iter().find(|record| record.id == origin.id);
            let checkpoint = |id: &str| {
                record?.checkpoints.iter().find(|(sink, _)| sink == id).map(|(_, at)| *at)
            };
            let position = |(sink, id): &&(SinkIndex, String)| (*sink, checkpoint(id).unwrap_or(0));
            let new_sinks: Vec<(SinkIndex, u64)> = new_sinks.iter().map(position).collect();
            new_sinks.iter().for_each(|(sink, at)| self.ledger.join(origin.id, *sink, *at));
            cursors.set_sinks(kept_sinks.iter().map(|(sink, _)| *sink).collect(), new_sinks);
        }
        self.sinks = sinks.to_vec();
    }
}

impl MemorySource {
    /// Opens an origin at its checkpoints in the store.
    fn tail(&self, index: usize) -> MemoryTail {
        let id = OriginId(index as u64 + 1);
        let (records, _) = self.store.origins().expect("the store can be read");
        let record = records.iter().find(|record| record.id == id);
        let checkpoint = |sink: &str| {
            let found = record.and_then(|r| r.checkpoints.iter().find(|(id, _)| id == sink));
            found.map_or(0, |(_, offset)| *offset)
        };
        let checkpoints: Vec<(SinkIndex, u64)> = self
            .sinks
            .iter()
            .map(|(i, id)| (*i, checkpoint(id).max(self.handed(index, *i))))
            .collect();
        let origin = Arc::new(Origin::new(id, index.to_string()));
        self.ledger.open(&origin, checkpoints.iter().copied());
        let cursors = Cursors::resume(checkpoints);
        MemoryTail { origin, cursors, assignment: Assignment::Assigned }
    }

    /// Returns the checkpoint of a sink at the origin's last revocation.
    fn handed(&self, index: usize, sink: SinkIndex) -> u64 {
        let checkpoint = self.handed[index].iter().find(|(known, _)| *known == sink);
        checkpoint.map_or(0, |(_, offset)| *offset)
    }

    /// Revokes and assigns origins at random.
    fn reassign(&mut self, now: EngineTime) {
        let one_in = self.log.revokes_one_in;
        for index in 0..if one_in > 0 { self.tails.len() } else { 0 } {
            let id = self.tails[index].origin.id;
            let later = now + Duration::from_millis(self.random.u64(..200));
            let is_settled = || self.ledger.owed(id).is_some_and(|owed| owed.in_flight == 0);
            match self.tails[index].assignment {
                Assignment::Assigned
                    if self.log.revokes.load(Relaxed) < REVOKES_MAX
                        && self.random.u64(..one_in) == 0 =>
                {
                    self.log.revokes.fetch_add(1, Relaxed);
                    self.tails[index].assignment = Assignment::Draining(later);
                }
                Assignment::Draining(until) if now >= until || is_settled() => {
                    let checkpoint = |(sink, _): &(SinkIndex, String)| {
                        Some((*sink, self.ledger.checkpoint(id, *sink)?))
                    };
                    self.handed[index] = self.sinks.iter().filter_map(checkpoint).collect();
                    self.ledger.revoke(id);
                    self.tails[index].assignment = Assignment::Revoked(later);
                }
                Assignment::Revoked(until) if now >= until => {
                    self.tails[index] = self.tail(index);
                }
                _ => {}
            }
        }
    }

    /// Reads a random number of lines, starting at the cursor.
    fn read(&mut self, index: usize, choice: Choice, cx: &SourceCx<'_>) -> Polled {
        let Some((mut block, permit)) = cx.block(1) else { return Polled::Backpressure };
        let (begin, text) = (choice.cursor.position as usize, &self.log.origins[index]);
        let limit = choice.limit.map_or(text.len(), |limit| limit as usize);
        let mut lines = 1 + self.random.u64(..20) as usize;
        // Like the file source, read less at a time after repeated abandons.
        if choice.cursor.attempt >= 3 {
            lines = 1;
        }
        let ends = text[begin..limit]
            .iter()
            .enumerate()
            .filter(|(_, b)| **b == b'\n')
            .map(|(i, _)| i as u32);
        let newlines: Vec<u32> = ends.take(lines).collect();
        let bytes = newlines.last().map_or(0, |last| *last as usize + 1);
        block.memory()[..bytes].copy_from_slice(&text[begin..begin + bytes]);
        let mut builder = BatchBuilder::default();
        builder.lines(block.filled(bytes), 0, &newlines, 1000, LongLine::Truncate);
        let MemoryTail { origin, cursors, .. } = &mut self.tails[index];
        let range = begin as u64..(begin + bytes) as u64;
        let ack = cx.ledger.issue(
            origin.id,
            range.clone(),
            choice.cursor.sinks,
            choice.cursor.attempt,
            cx.now.since_start,
        );
        builder.segment(origin.clone(), range.start, ack);
        cx.counters.received(newlines.len() as u64, bytes as u64);
        origin.state.read(bytes as u64, range.end);
        cursors.advance(choice.index, range.end);
        let sinks = choice.cursor.sinks;
        let batch = builder.finish(block.freeze(bytes), cx.info.clone(), sinks, cx.now.unix_ns);
        Polled::Batch(Box::new(batch), permit)
    }
}
