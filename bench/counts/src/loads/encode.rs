//! Loads that encode batches as bytes for a sink.

use super::events::{Block, Reader, access_parser};
use crate::load::Load;
use crate::text;
use millstream_codecs::bulk::{Action, DocumentEncoder, Id, Indexes, OpType};
use millstream_codecs::template::{Template, Use};
use millstream_codecs::{Codec, Encoding};
use millstream_model::{BlockPool, Counters, EncodeCx, Encoder, Grant, Payload};
use std::hint::black_box;
use std::sync::Arc;

/// Memory for the encoded payloads, in bytes.
const PERMIT_BYTES: u64 = 16 << 20;
/// Maximum number of indexes per sink.
const INDEXES_MAX: usize = 100;

/// Encodes access lines with their fields as JSON, with the default metadata.
pub fn json() -> Load {
    encode(encoding(Codec::Json).encoder())
}

/// Encodes the same lines as text, as they were read.
pub fn text() -> Load {
    encode(encoding(Codec::Text).encoder())
}

/// Encodes the same events as actions and documents of a bulk request, into an index per day.
pub fn bulk() -> Load {
    let action = Action {
        op_type: OpType::Create,
        index: Template::parse("logs-%Y.%m.%d", Use::Index).expect("a template"),
        id: Some(Id::Event),
        routing: None,
        pipeline: None,
        indexes: Indexes::new(INDEXES_MAX),
    };
    encode(Box::new(DocumentEncoder::new(Arc::new(action), encoding(Codec::Json).encoder())))
}

fn encoding(codec: Codec) -> Encoding {
    Encoding { codec, ..Encoding::default() }
}

fn encode(mut encoder: Box<dyn Encoder>) -> Load {
    let block = Block::new(text::access);
    let mut batch = Reader::new().batch(&block.text);
    for column in block.parse(&mut access_parser()) {
        batch.fields.set(column);
    }
    let (pool, counters) = (BlockPool::new(), Counters::default());
    let grant = Grant::new(2 * PERMIT_BYTES);
    Load::new("event", move || {
        let mut permit = grant.try_take(PERMIT_BYTES).expect("memory");
        let mut payload = Payload::new(batch.events() as u64);
        let mut cx =
            EncodeCx { pool: &pool, permit: &mut permit, counters: &counters, refused: None };
        encoder.encode(&batch, &mut payload, &mut cx).expect("a payload");
        assert!(payload.bytes >= batch.text_bytes(), "all is encoded");
        black_box(&payload).events
    })
}
