//! The `stdin` source reads lines from standard input.
//!
//! Standard input cannot be reread, so data in flight is lost if the agent is killed. While a sink
//! is down, the source stops reading. On shutdown, the source emits the data that it has read.

mod config;
mod reader;
mod stream;

pub use config::StdinConfig;

use crate::component::random_u64;
use crate::sources::stdin::stream::StreamLines;
use millstream_model::{
    Ack, BuildError, EngineTime, Ledger, Leftover, Origin, OriginId, Polled, SinkSet, Source,
    SourceCx, SourceOpen, Wake,
};
use reader::Reader;
use std::sync::Arc;
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

/// Maximum number of bytes that the source buffers before it stops reading.
const WAITING_BYTES_MAX: usize = millstream_model::limits::BLOCK_BYTES;

/// Stops the thread of a source that a reload removed. Returns the number of bytes that the thread
/// has read and that are therefore lost. Called at shutdown; until then, another reload may add a
/// source that continues to read.
pub fn abandon() -> u64 {
    let rest = Reader::left().into_iter().flat_map(Reader::into_rest);
    rest.map(|chunk| chunk.len() as u64).sum()
}

/// A running `stdin` source.
struct Stdin {
    /// The reader, which is set at the first poll. Until then, the predecessor may own it.
    reader: Option<Reader>,
    origin: OriginId,
    lines: StreamLines,
    sinks: SinkSet,
    /// Whether the agent is shutting down.
    is_stopping: bool,
    /// Unfinished acknowledgement of the data that could not be emitted before the shutdown.
    lost: Option<Ack>,
    line_max: usize,
    ledger: Arc<Ledger>,
    wake: Wake,
}

impl Stdin {
    fn start(config: &StdinConfig, open: SourceOpen) -> Result<Stdin, BuildError> {
        let origin = Arc::new(Origin::new(OriginId(random_u64()?), ""));
        open.ledger.open(&origin, open.sinks.iter().map(|(sink, _)| (*sink, 0)));
        let line_max = config.max_line.0 as usize;
        Ok(Stdin {
            reader: None,
            origin: origin.id,
            lines: StreamLines::new(origin, line_max, config.on_long_line),
            sinks: open.sinks.iter().map(|(sink, _)| *sink).collect(),
            is_stopping: false,
            lost: None,
            line_max,
            ledger: open.ledger,
            wake: open.wake,
        })
    }

    fn take_chunks(&mut self, cx: &SourceCx<'_>) {
        let reader = match self.reader.take().map_or_else(|| Reader::take(&self.wake), Ok) {
            Ok(reader) => self.reader.insert(reader),
            Err(error) => {
                cx.counters.error("read");
                return log::error!(
                    "source {}: cannot start reading standard input: {error}; retrying",
                    cx.info.id
                );
            }
        };
        while self.lines.waiting() < WAITING_BYTES_MAX.max(self.line_max + 2) {
            match reader.next() {
                Ok(Ok(chunk)) => self.lines.push(chunk),
                Ok(Err(error)) => {
                    cx.counters.error("read");
                    log::error!("source {}: cannot read standard input: {error}", cx.info.id);
                }
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => return self.lines.end(),
            }
        }
    }

    /// Counts and settles abandoned ranges, which cannot be reread.
    fn count_lost(&self, cx: &SourceCx<'_>) {
        for lost in self.ledger.take_rereads() {
            cx.counters.error("abandoned");
            let bytes = lost.range.end - lost.range.start;
            log::error!(
                "source {}: a sink abandoned {bytes} bytes, which are lost because standard input \
                 cannot be reread",
                cx.info.id
            );
            let sink = SinkSet::one(lost.sink);
            let now = cx.now.since_start;
            self.ledger.issue(lost.origin, lost.range, sink, lost.attempt, now).finish();
            cx.counters.dropped("abandoned", 1);
        }
    }
}

impl Source for Stdin {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        self.sinks = cx.sinks;
        self.count_lost(cx);
        self.take_chunks(cx);
        if self.reader.is_none() {
            return Polled::Wait(Duration::from_secs(1));
        }
        self.lines.batch(cx)
    }

    /// At shutdown, stops the reader. Before a reload, keeps the reader, which `drop` then leaves
    /// to the successor.
    fn close(&mut self, for_good: bool) -> bool {
        self.is_stopping = for_good;
        let reader = self.reader.as_ref().filter(|_| for_good);
        reader.inspect(|reader| reader.stop()).is_some()
    }

    fn leave(&mut self) -> Option<Leftover> {
        if !self.is_stopping {
            return None;
        }
        let rest = self.reader.take().into_iter().flat_map(Reader::into_rest);
        rest.for_each(|chunk| self.lines.push(chunk));
        let range = self.lines.give_up();
        let issue =
            || self.ledger.issue(self.origin, range.clone(), self.sinks, 0, EngineTime::ZERO);
        self.lost = (!range.is_empty()).then(issue);
        None
    }
}

impl Drop for Stdin {
    /// Leaves unread data to the successor.
    fn drop(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.put_back(self.lines.take_rest());
        }
    }
}
