//! Encodes batches as shipments: the text of the records, and the destination of each.

use super::config::KafkaConfig;
use crate::codec::Codec;
use crate::codec::metric_view::MetricView;
use crate::codec::msgpack::{MetricBlock, MetricBlocks};
use crate::util::template::Template;
use bytes::Bytes;
use millstream_kafka::{Headers, IdHeader, Key, Record, Run, Shipment};
use millstream_model::limits::COMPACT_BELOW;
use millstream_model::{Batch, ComponentError, EncodeCx, Encoder, Payload, Permit, Segment};
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// Maximum number of topic names that an encoder caches.
const TOPICS_KEPT: usize = 1024;

/// Memory of a header in addition to its strings, in bytes: two allocations and their pointers.
const HEADER_BYTES: usize = 72;

/// Encodes batches as shipments.
pub struct KafkaEncoder {
    config: Arc<KafkaConfig>,
    /// Encoder for the `json` codec.
    json: Box<dyn Encoder>,
    /// Encoder for the `msgpack` codec.
    blocks: Option<MetricBlocks>,
    topics: HashMap<Vec<u8>, Arc<str>>,
    headers: Vec<(CString, Template)>,
    /// Name of the header that carries the event id.
    id_header: Option<Arc<CStr>>,
    newlines: Vec<u32>,
    /// Number of events for which a template had a missing field.
    missing_fields: u64,
}

/// A shipment, with its share of the memory grant for keys, headers and record positions, which may
/// take more memory than the text.
pub struct EncodedShipment {
    /// The shipment.
    pub shipment: Arc<Shipment>,
    /// Codec of the events.
    pub codec: Codec,
    _paid: Option<Permit>,
}

impl EncodedShipment {
    /// Creates the shipment of a payload that was on disk. The memory is included in the permit of
    /// the payload.
    pub fn recreated(shipment: Shipment, codec: Codec) -> EncodedShipment {
        EncodedShipment { shipment: Arc::new(shipment), codec, _paid: None }
    }
}

/// Returns the memory use of a run in bytes, without the text of the records.
fn memory(run: &Run) -> u64 {
    let key = match &run.key {
        Key::None => 0,
        Key::Same(key) => key.capacity(),
        Key::Each(keys, ends) => keys.capacity() + 4 * ends.capacity(),
    };
    let headers = run
        .headers
        .iter()
        .map(|(name, value)| HEADER_BYTES + name.as_bytes().len() + value.capacity());
    let ids = run
        .id_header
        .as_ref()
        .map_or(0, |header| header.ids.capacity() + 4 * header.ends.capacity());
    let records = run.records.capacity() * size_of::<Record>();
    (size_of::<Run>() + records + key + ids + headers.sum::<usize>()) as u64
}

/// The destination for the records of one run.
#[derive(Clone, PartialEq)]
struct Address {
    topic: Arc<str>,
    headers: Headers,
}

impl KafkaEncoder {
    /// Creates an encoder for a sink with these options.
    pub fn new(config: Arc<KafkaConfig>) -> KafkaEncoder {
        let header = |(name, value): (&String, &crate::util::template::TextTemplate)| {
            Some((CString::new(name.as_str()).ok()?, value.0.clone()))
        };
        KafkaEncoder {
            headers: config.headers.iter().filter_map(header).collect(),
            id_header: config.id_header().and_then(|name| Some(CString::new(name).ok()?.into())),
            json: config.encoding.encoder(),
            blocks: None,
            config,
            topics: HashMap::new(),
            newlines: Vec::new(),
            missing_fields: 0,
        }
    }

    /// Encodes all selected rows, and returns the text and the position of each row in it.
    fn records(
        &mut self,
        batch: &Batch,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(Vec<Bytes>, Vec<Record>), ComponentError> {
        if self.config.encoding.codec == Codec::Text {
            return Ok(text(batch, cx));
        }
        let mut encoded = Payload::default();
        self.json.encode(batch, &mut encoded, cx)?;
        // JSON events contain no line feed.
        let Some(part) = encoded.parts.first() else { return Ok((Vec::new(), Vec::new())) };
        self.newlines.clear();
        millstream_scan::newlines(part, &mut self.newlines);
        let mut start = 0;
        let record = |end: &u32| {
            let record = Record { start, len: end - start };
            start = end + 1;
            record
        };
        let records = self.newlines.iter().map(record).collect();
        Ok((encoded.parts, records))
    }

    /// Splits the records of one segment, whose rows are `rows`, into runs with one address.
    fn runs(
        &mut self,
        batch: &Batch,
        segment: &Segment,
        rows: &[usize],
        records: &[Record],
        runs: &mut Vec<Run>,
    ) {
        let mut begin = 0;
        while begin < rows.len() {
            let address = self.address(batch, segment, rows[begin]);
            let mut end = begin + 1;
            while end < rows.len()
                && (self.has_same_address(batch, rows[begin], rows[end])
                    || self.address(batch, segment, rows[end]) == address)
            {
                end += 1;
            }
            runs.push(Run {
                topic: address.topic,
                origin: segment.origin.id.0,
                part: 0,
                events: 1,
                key: self.key(batch, segment, &rows[begin..end]),
                headers: address.headers,
                id_header: self.ids(batch, segment, &rows[begin..end]),
                records: records[begin..end].to_vec(),
            });
            begin = end;
        }
    }

    /// Returns whether two rows are known to have the same address.
    fn has_same_address(&self, batch: &Batch, one: usize, other: usize) -> bool {
        self.config.topic.0.is_same(batch, one, other)
            && self.headers.iter().all(|(_, value)| value.is_same(batch, one, other))
    }

    fn address(&mut self, batch: &Batch, segment: &Segment, row: usize) -> Address {
        let mut topic = Vec::new();
        let mut complete = self.config.topic.0.render(batch, segment, row, &mut topic);
        let header = |(name, value): &(CString, Template)| {
            let mut text = Vec::new();
            complete &= value.render(batch, segment, row, &mut text);
            (name.clone(), text)
        };
        let headers = self.headers.iter().map(header).collect();
        self.missing_fields += u64::from(!complete);
        Address { topic: self.topic(topic), headers }
    }

    /// Encodes blocks of metrics as records, one block per sequence of rows with the same
    /// destination.
    fn blocks(
        &mut self,
        blocks: &mut MetricBlocks,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Vec<Run> {
        let (view, mut encoded, mut runs) = (MetricView::new(batch), Vec::new(), Vec::new());
        for segment in batch.segments.iter() {
            let range = batch.runs(segment.first_row, segment.first_row + segment.rows);
            let rows: Vec<usize> = range.flat_map(|(begin, end)| begin..end).collect();
            let mut rest = &rows[..];
            while let Some(first) = rest.first() {
                let (address, key) = self.block_address(batch, segment, *first);
                let others = rest[1..].iter().take_while(|row| {
                    self.has_same_key(batch, *first, **row)
                        || self.block_address(batch, segment, **row)
                            == (address.clone(), key.clone())
                });
                let alike;
                (alike, rest) = rest.split_at(1 + others.count());
                blocks.encode(batch, &view, segment, alike.iter().copied(), cx, &mut encoded);
                for MetricBlock { bytes, events } in encoded.drain(..) {
                    let records = vec![Record { start: 0, len: bytes.len() as u32 }];
                    let (Address { topic, headers }, part) = (address.clone(), payload.parts.len());
                    let key = key.clone().map_or(Key::None, Key::Same);
                    runs.push(Run {
                        topic,
                        origin: segment.origin.id.0,
                        part,
                        events,
                        key,
                        headers,
                        id_header: None,
                        records,
                    });
                    payload.push(bytes);
                }
            }
        }
        blocks.settle(payload, cx);
        runs
    }

    fn has_same_key(&self, batch: &Batch, one: usize, other: usize) -> bool {
        let key = self.config.key.as_ref();
        self.has_same_address(batch, one, other)
            && key.is_none_or(|key| key.0.is_same(batch, one, other))
    }

    /// Returns the address and key of a block that contains this row.
    fn block_address(
        &mut self,
        batch: &Batch,
        segment: &Segment,
        row: usize,
    ) -> (Address, Option<Vec<u8>>) {
        let address = self.address(batch, segment, row);
        let key = self.config.key.as_ref().map(|template| {
            let mut key = Vec::new();
            self.missing_fields += u64::from(!template.0.render(batch, segment, row, &mut key));
            key
        });
        (address, key)
    }

    fn topic(&mut self, name: Vec<u8>) -> Arc<str> {
        if let Some(topic) = self.topics.get(&name) {
            return topic.clone();
        }
        if self.topics.len() >= TOPICS_KEPT {
            self.topics.clear();
        }
        let topic: Arc<str> = String::from_utf8_lossy(&name).into();
        self.topics.insert(name, topic.clone());
        topic
    }

    /// Returns the id header for each of these rows.
    fn ids(&self, batch: &Batch, segment: &Segment, rows: &[usize]) -> Option<IdHeader> {
        let name = self.id_header.clone()?;
        let (mut ids, mut ends) = (Vec::new(), Vec::with_capacity(rows.len()));
        for row in rows {
            batch.write_id(segment, *row, &mut ids);
            ends.push(ids.len() as u32);
        }
        Some(IdHeader { name, ids, ends })
    }

    fn key(&mut self, batch: &Batch, segment: &Segment, rows: &[usize]) -> Key {
        let Some(template) = self.config.key.as_ref().map(|key| &key.0) else { return Key::None };
        let mut bytes = Vec::new();
        let mut render = |row: usize, bytes: &mut Vec<u8>| {
            self.missing_fields += u64::from(!template.render(batch, segment, row, bytes));
        };
        if !template.per_row(batch) {
            render(rows[0], &mut bytes);
            return Key::Same(bytes);
        }
        let end = |row: &usize| {
            render(*row, &mut bytes);
            bytes.len() as u32
        };
        let ends = rows.iter().map(end).collect();
        Key::Each(bytes, ends)
    }

    /// Encodes events as records.
    fn lines(
        &mut self,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<Vec<Run>, ComponentError> {
        let (parts, records) = self.records(batch, cx)?;
        let (mut runs, mut done) = (Vec::new(), 0);
        for segment in batch.segments.iter() {
            let range = batch.runs(segment.first_row, segment.first_row + segment.rows);
            let rows: Vec<usize> = range.flat_map(|(begin, end)| begin..end).collect();
            self.runs(batch, segment, &rows, &records[done..done + rows.len()], &mut runs);
            done += rows.len();
        }
        parts.into_iter().for_each(|part| payload.push(part));
        // Count the bytes that are sent, not the whole read block.
        payload.bytes = records.iter().map(|record| u64::from(record.len) + 1).sum();
        Ok(runs)
    }
}

impl Encoder for KafkaEncoder {
    fn encode(
        &mut self,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError> {
        let runs = if self.config.encoding.codec == Codec::Msgpack {
            let kept = self.blocks.take();
            let mut blocks = kept.unwrap_or_else(|| MetricBlocks::new(&self.config.encoding));
            let runs = self.blocks(&mut blocks, batch, payload, cx);
            self.blocks = Some(blocks);
            runs
        } else {
            self.lines(batch, payload, cx)?
        };
        cx.counters.noted("missing_field", std::mem::take(&mut self.missing_fields));
        let paid = cx.permit.split(runs.iter().map(memory).sum());
        let shipment = Arc::new(Shipment { parts: payload.parts.clone(), runs });
        let codec = self.config.encoding.codec;
        payload.routing = Some(Arc::new(EncodedShipment { shipment, codec, _paid: Some(paid) }));
        Ok(())
    }
}

/// Refers to lines in the read block, unless this would pin a mostly empty block.
fn text(batch: &Batch, cx: &mut EncodeCx<'_>) -> (Vec<Bytes>, Vec<Record>) {
    let rows = batch.runs(0, batch.rows()).flat_map(|(begin, end)| begin..end);
    let used = batch.text_bytes() as usize + batch.events();
    if used * COMPACT_BELOW >= batch.block.len() {
        let record =
            |row: usize| Record { start: batch.starts[row], len: batch.text_len(row) as u32 };
        return (vec![batch.block.clone()], rows.map(record).collect());
    }
    let mut buffer = cx.pool.buffer();
    buffer.reserve(used);
    let record = |row: usize| {
        let start = buffer.len() as u32;
        buffer.extend_from_slice(batch.text(row));
        // The line feed gives empty lines distinct positions.
        buffer.push(b'\n');
        Record { start, len: batch.text_len(row) as u32 }
    };
    let records = rows.map(record).collect();
    (vec![cx.freeze(buffer)], records)
}
