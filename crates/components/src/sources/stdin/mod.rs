//! Source `stdin`: lines from standard input.
//!
//! Standard input cannot be read twice: what is in flight when the agent is killed is lost, and
//! while a sink is down the reader waits.

mod config;

pub use config::StdinConfig;

use crate::stream::StreamLines;
use millstream_model::{Ledger, Origin, Polled, Source, SourceCx, SourceOpen};
use rustix::event::{PollFd, PollFlags};
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

/// Bytes of one read.
const CHUNK_BYTES: usize = 64 * 1024;

/// Chunks between the reading thread and the source.
const CHUNKS_MAX: usize = 4;

/// Bytes that wait in the source before it takes no more.
const WAITING_BYTES_MAX: usize = millstream_model::limits::BLOCK_BYTES;

/// The source. A thread of its own reads, because nothing else can wait for standard input.
struct Stdin {
    chunks: Receiver<io::Result<Vec<u8>>>,
    lines: StreamLines,
    line_max: usize,
    ledger: Arc<Ledger>,
}

impl Stdin {
    fn start(config: &StdinConfig, open: SourceOpen) -> io::Result<Stdin> {
        let (sender, chunks) = sync_channel(CHUNKS_MAX);
        let wake = open.wake.clone();
        std::thread::Builder::new().name("stdin".into()).spawn(move || {
            read_chunks(&mut io::stdin().lock(), &sender, &*wake);
            drop(sender);
            wake();
        })?;
        let origin = Arc::new(Origin::new(getrandom::u64().map_err(io::Error::other)?, ""));
        open.ledger.open(&origin, open.sinks.iter().map(|(sink, _)| (*sink, 0)));
        let line_max = config.max_line.0 as usize;
        let lines = StreamLines::new(origin, line_max, config.on_long_line);
        Ok(Stdin { chunks, lines, line_max, ledger: open.ledger })
    }

    fn take_chunks(&mut self, cx: &SourceCx<'_>) {
        while self.lines.waiting() < WAITING_BYTES_MAX.max(self.line_max + 2) {
            match self.chunks.try_recv() {
                Ok(Ok(chunk)) => self.lines.push(chunk),
                Ok(Err(error)) => {
                    cx.counters.error("read");
                    log::error!("source {}: standard input: {error}", cx.info.id);
                }
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => return self.lines.end(),
            }
        }
    }

    /// What was lost on the way cannot be read again: it is counted.
    fn count_lost(&self, cx: &SourceCx<'_>) {
        for lost in self.ledger.take_rereads() {
            cx.counters.error("abandoned");
            let bytes = lost.end - lost.begin;
            log::error!("source {}: {bytes} bytes were lost in a sink and cannot be read again", cx.info.id);
            let gone = (lost.begin, lost.end);
            let sink = millstream_model::SinkSet::one(lost.sink);
            self.ledger.issue(lost.origin, gone, sink, lost.attempt, cx.now.since_start).finish();
            cx.counters.dropped("abandoned", 1);
        }
    }
}

fn read_chunks(input: &mut impl Read, chunks: &SyncSender<io::Result<Vec<u8>>>, wake: &dyn Fn()) {
    loop {
        let mut chunk = vec![0; CHUNK_BYTES];
        let read = match input.read(&mut chunk) {
            Ok(0) => return,
            Ok(n) => {
                chunk.truncate(n);
                Ok(chunk)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait_for_input();
                continue;
            }
            Err(error) => Err(error),
        };
        let failed = read.is_err();
        if chunks.send(read).is_err() || failed {
            return;
        }
        wake();
    }
}

/// Waits on an input that somebody has made non-blocking.
fn wait_for_input() {
    let stdin = io::stdin();
    let mut poll = [PollFd::new(&stdin, PollFlags::IN)];
    // A wait that fails is as good as one that ends early: reading says what there is.
    let _ = rustix::event::poll(&mut poll, None);
}

impl Source for Stdin {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        self.count_lost(cx);
        self.take_chunks(cx);
        self.lines.batch(cx)
    }
}
