//! A source of lines in memory, which can be reread like a file.

use fastrand::Rng;
use millstream_model::{
    BatchBuilder, Choice, Cursors, Ledger, LongLine, Origin, OriginStore, Polled, Source, SourceCx,
    SourceOpen,
};
use std::sync::Arc;
use std::time::Duration;

/// Lines of some origins; the text of line `n` of origin `o` is `o:n`.
#[derive(Clone, Debug)]
pub struct MemoryLog {
    /// Content of each origin. The id of an origin is its index plus one.
    pub origins: Vec<Vec<u8>>,
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
        MemoryLog { origins: (0..origins).map(text).collect() }
    }

    /// Returns the lines of an origin without line ends.
    pub fn lines(&self, origin: usize) -> Vec<String> {
        String::from_utf8_lossy(&self.origins[origin]).lines().map(str::to_owned).collect()
    }

    /// Opens a source that resumes from the checkpoints in the store.
    pub fn open(&self, open: &SourceOpen, seed: u64) -> Box<dyn Source> {
        let (records, _) = open.store.origins().expect("the store can be read");
        let mut tails = Vec::new();
        for index in 0..self.origins.len() {
            let id = index as u64 + 1;
            let record = records.iter().find(|record| record.id == id);
            let checkpoint = |sink: &str| {
                let found = record.and_then(|r| r.checkpoints.iter().find(|(of, _)| of == sink));
                found.map_or(0, |(_, offset)| *offset)
            };
            let checkpoints: Vec<(usize, u64)> =
                open.sinks.iter().map(|(i, id)| (*i, checkpoint(id))).collect();
            let origin = Arc::new(Origin::new(id, index.to_string()));
            open.ledger.open(&origin, checkpoints.iter().copied());
            tails.push((origin, Cursors::resume(checkpoints)));
        }
        let ids: Vec<(u64, Vec<u8>)> =
            tails.iter().map(|(origin, _)| (origin.id, Vec::new())).collect();
        open.store.keep(&ids).expect("the store accepts the origins");
        let (log, random, sinks) = (self.clone(), Rng::with_seed(seed), open.sinks.clone());
        let (store, ledger) = (open.store.clone(), open.ledger.clone());
        Box::new(MemorySource { log, tails, random, turn: 0, sinks, store, ledger })
    }
}

struct MemorySource {
    log: MemoryLog,
    tails: Vec<(Arc<Origin>, Cursors)>,
    random: Rng,
    turn: usize,
    sinks: Vec<(usize, String)>,
    store: Arc<dyn OriginStore>,
    ledger: Arc<Ledger>,
}

impl Source for MemorySource {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        for reread in cx.ledger.take_rereads() {
            self.tails[reread.origin as usize - 1].1.reread(&reread);
        }
        let count = self.tails.len();
        let (mut blocked, mut behind) = (false, false);
        for i in 0..count {
            let index = (self.turn + i) % count;
            let end = self.log.origins[index].len() as u64;
            match self.tails[index].1.choose(cx.ready, cx.blocked, Some(end)) {
                Some(choice) => {
                    self.turn = (index + 1) % count;
                    return self.read(index, choice, cx);
                }
                None => {
                    behind |= self.tails[index].1.is_behind(end);
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

    fn set_sinks(&mut self, sinks: &[(usize, String)]) {
        let (records, _) = self.store.origins().expect("the store can be read");
        let (kept_sinks, new_sinks): (Vec<_>, Vec<_>) =
            sinks.iter().partition(|sink| self.sinks.contains(sink));
        for (origin, cursors) in &mut self.tails {
            let record = records.iter().find(|record| record.id == origin.id);
            let checkpoint =
                |id: &str| record?.checkpoints.iter().find(|(of, _)| of == id).map(|(_, at)| *at);
            let position = |(sink, id): &&(usize, String)| (*sink, checkpoint(id).unwrap_or(0));
            let new_sinks: Vec<(usize, u64)> = new_sinks.iter().map(position).collect();
            new_sinks.iter().for_each(|(sink, at)| self.ledger.join(origin.id, *sink, *at));
            cursors.set_sinks(kept_sinks.iter().map(|(sink, _)| *sink).collect(), new_sinks);
        }
        self.sinks = sinks.to_vec();
    }
}

impl MemorySource {
    /// Reads a random number of lines from the cursor.
    fn read(&mut self, index: usize, choice: Choice, cx: &SourceCx<'_>) -> Polled {
        let Some((mut block, permit)) = cx.block(1) else { return Polled::Backpressure };
        let (begin, text) = (choice.cursor.position as usize, &self.log.origins[index]);
        let limit = choice.limit.map_or(text.len(), |limit| limit as usize);
        let mut lines = 1 + self.random.u64(..20) as usize;
        // Like the file source, reads less at a time after repeated abandons.
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
        let (origin, cursors) = &mut self.tails[index];
        let range = (begin as u64, (begin + bytes) as u64);
        let ack = cx.ledger.issue(
            origin.id,
            range,
            choice.cursor.sinks,
            choice.cursor.attempt,
            cx.now.since_start,
        );
        builder.segment(origin.clone(), range.0, ack);
        cx.counters.received(newlines.len() as u64, bytes as u64);
        origin.state.read(bytes as u64, range.1);
        cursors.advance(choice.index, range.1);
        let sinks = choice.cursor.sinks;
        let batch = builder.finish(block.freeze(bytes), cx.info.clone(), sinks, cx.now.unix_ns);
        Polled::Batch(Box::new(batch), permit)
    }
}
