//! The `elasticsearch` sink writes events as documents to Elasticsearch and OpenSearch.
//!
//! Workers encode the lines of bulk requests. `crate::sinks::http_delivery` batches the payloads,
//! compresses bodies on a blocking thread, sends several requests at once, and settles each event
//! by its item in the response. This sink provides the actions, the documents, and the meaning of
//! an item.

mod answer;
mod config;
mod packer;
#[cfg(test)]
mod tests;

pub use config::ElasticsearchConfig;

use crate::codec::Encoding;
use crate::codec::bulk::{ACTION_BYTES, Action, DocumentEncoder};
use crate::sinks::http_delivery::{Answer, BulkLane, Failure, LaneLoop, Settings};
use answer::BulkAnswer;
use millstream_compression::{Algorithm, Compressor};
use millstream_model::limits::BATCH_ROWS_MAX;
use millstream_model::{Encoder, Lane, LaneCx, Sink};
use millstream_transport::http::BodyReader;
use packer::DocumentPacker;
use std::sync::Arc;

/// Judges the response to a bulk request of `events` events. The response arrives in pieces, as in
/// a lane.
///
/// # Errors
///
/// Returns an error if the body is not a complete response to this request.
pub fn judge_answer<'a>(
    mut pieces: impl Iterator<Item = &'a [u8]>,
    events: u64,
) -> Result<Vec<Failure>, String> {
    let mut answer = Box::new(BulkAnswer::new(events));
    while pieces.next().is_some_and(|piece| answer.read(piece)) {}
    answer.judge(true).map_err(|unusable| unusable.text)
}

/// An `elasticsearch` sink. It creates encoders, and lanes that send bulk requests.
struct ElasticsearchSink {
    settings: Arc<Settings>,
    action: Arc<Action>,
    encoding: Encoding,
    compression: (Algorithm, Option<u32>),
}

impl Sink for ElasticsearchSink {
    fn encoder(&self) -> Box<dyn Encoder> {
        Box::new(DocumentEncoder::new(self.action.clone(), self.encoding.encoder()))
    }

    fn payload_format(&self) -> String {
        "elasticsearch/1".to_owned()
    }

    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        // The documents are encoded first, and then copied into the lines that contain the actions.
        let documents = self.encoding.payload_bytes_max(block_bytes, rows);
        2 * documents + rows.min(BATCH_ROWS_MAX as u64) * ACTION_BYTES
    }

    fn lane(&self, cx: LaneCx) -> Box<dyn Lane> {
        let (algorithm, level) = self.compression;
        let packer = DocumentPacker::new(Compressor::new(algorithm, level));
        Box::new(LaneLoop::new(BulkLane::new(self.settings.clone(), packer, cx)))
    }
}
