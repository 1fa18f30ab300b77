//! Blocks of lines with their fields as columns, and batches of such lines.

use crate::text::{BLOCK_BYTES, WriteLine, lines};
use millstream_columns::{Cell, Column, Kind};
use millstream_model::{
    Batch, BatchBuilder, BlockPool, EngineTime, Grant, Ledger, LongLine, Origin, OriginId, Outcome,
    SinkIndex, SinkSet, SourceInfo,
};
use millstream_parsers::{Access, AccessConfig, Fields, Input, Parser};
use std::hint::black_box;
use std::sync::Arc;

/// Maximum length of a line in bytes, which no line reaches.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Time at which the batches were read, in nanoseconds since 1970.
const READ_NS: i64 = 1_795_292_986_123_000_000;

/// Log format of the example in the docs, with 11 fields.
const NGINX: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
     \"$http_referer\" \"$http_user_agent\" $request_time";

/// A block of lines with the cell of each line.
pub struct Block {
    /// The lines.
    pub text: Vec<u8>,
    /// The lines without their line endings.
    pub cells: Vec<Cell>,
}

impl Block {
    /// Creates a block of whole lines.
    pub fn new(write: WriteLine) -> Block {
        let text = lines(BLOCK_BYTES, write);
        let mut ends = Vec::new();
        millstream_scan::newlines(&text, &mut ends);
        let mut start = 0;
        let cell = |end: &u32| {
            let cell = Cell::new(Kind::Text, start, *end as usize - start);
            start = *end as usize + 1;
            cell
        };
        let cells = ends.iter().map(cell).collect();
        Block { text, cells }
    }

    /// Parses the lines and returns the columns.
    ///
    /// # Panics
    /// Panics if a line does not match.
    pub fn parse(&self, parser: &mut dyn Parser) -> Vec<Column> {
        let runs = [(0, self.cells.len())];
        let input = Input {
            block: black_box(&self.text),
            own: b"",
            cells: &self.cells,
            runs: &runs,
            read_ns: 0,
        };
        let mut fields = Fields::new(self.cells.len(), b"");
        parser.parse(&input, &mut fields);
        assert!(fields.failures().is_empty(), "a line does not match");
        fields.finish()
    }
}

/// Returns the parser of access lines.
pub fn access_parser() -> Access {
    let config = AccessConfig { format: NGINX.into(), ..AccessConfig::default() };
    Access::new(&config).expect("a format")
}

/// Creates batches of one file, as the file source does.
pub struct Reader {
    ledger: Arc<Ledger>,
    origin: Arc<Origin>,
    sinks: SinkSet,
    position: u64,
    info: Arc<SourceInfo>,
    grant: Arc<Grant>,
    pool: Arc<BlockPool>,
    newlines: Vec<u32>,
}

impl Reader {
    /// Creates a reader with an empty ledger, for one sink.
    pub fn new() -> Reader {
        let (ledger, sink) = (Ledger::new(), SinkIndex::new(0));
        let origin = Arc::new(Origin::new(OriginId(0xA1), "/var/log/nginx/access.log"));
        ledger.open(&origin, [(sink, 0)]);
        let info = SourceInfo { id: "app".into(), host: "here".into(), ..SourceInfo::default() };
        Reader {
            ledger,
            origin,
            sinks: SinkSet::one(sink),
            position: 0,
            info: Arc::new(info),
            grant: Grant::new(64 << 20),
            pool: BlockPool::new(),
            newlines: Vec::new(),
        }
    }

    /// Creates a batch of `text`, the next whole lines of the file.
    pub fn batch(&mut self, text: &[u8]) -> Batch {
        let permit = self.grant.try_take(text.len() as u64).expect("memory");
        let mut block = self.pool.block(text.len(), permit);
        block.memory()[..text.len()].copy_from_slice(text);
        self.newlines.clear();
        millstream_scan::newlines(block.filled(text.len()), &mut self.newlines);
        let mut builder = BatchBuilder::with_capacity(BLOCK_BYTES / 128);
        let filled = block.filled(text.len());
        builder.lines_before_nul(filled, 0, &self.newlines, LINE_BYTES_MAX, LongLine::Truncate);
        let begin = self.position;
        self.position += text.len() as u64;
        let range = begin..self.position;
        let ack = self.ledger.issue(self.origin.id, range, self.sinks, 0, EngineTime::ZERO);
        builder.segment(self.origin.clone(), begin, ack);
        builder.finish(block.freeze(text.len()), self.info.clone(), self.sinks, READ_NS)
    }

    /// Settles a batch as delivered.
    pub fn settle(&self, batch: &Batch) {
        for segment in batch.segments.iter() {
            let hold = segment.ack.hold(SinkIndex::new(0)).expect("a debt");
            hold.settle(Outcome::Delivered);
            segment.ack.finish();
        }
    }
}
