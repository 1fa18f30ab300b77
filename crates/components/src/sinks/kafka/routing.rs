//! The binary form of a shipment, without the parts of the payload that contain the text of the
//! records.

use super::encoder::EncodedShipment;
use crate::codec::Codec;
use bytes::Bytes;
use millstream_encodings::binary::{Reader, push_bytes, push_number};
use millstream_kafka::{Headers, IdHeader, Key, Record, Run, Shipment};
use millstream_model::{Payload, Routing, RoutingError};
use std::ffi::CString;

impl Routing for EncodedShipment {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(codec_number(self.codec));
        push_number(out, self.shipment.runs.len() as u64);
        self.shipment.runs.iter().for_each(|run| write_run(run, out));
    }
}

impl EncodedShipment {
    /// Reads the shipment of a payload. Each record must be in a part of the payload.
    pub fn read(bytes: &[u8], payload: &Payload) -> Result<EncodedShipment, RoutingError> {
        let invalid = RoutingError("it is not a list of records of the payload");
        let mut reader = Reader::new(bytes);
        let codec = reader.byte().and_then(codec_of).ok_or(invalid)?;
        let runs = read_runs(&mut reader, &payload.parts).ok_or(invalid)?;
        let events = |run: &Run| run.events.checked_mul(run.records.len() as u64);
        let sum = |sum: u64, run: &Run| sum.checked_add(events(run)?);
        if !reader.is_at_end() || runs.iter().try_fold(0, sum) != Some(payload.events) {
            return Err(RoutingError("the events in the records do not add up to the payload's"));
        }
        let shipment = Shipment { parts: payload.parts.clone(), runs };
        Ok(EncodedShipment::recreated(shipment, codec))
    }
}

fn codec_number(codec: Codec) -> u8 {
    match codec {
        Codec::Json | Codec::RawJson => 0,
        Codec::Text => 1,
        Codec::Msgpack => 2,
    }
}

fn codec_of(number: u8) -> Option<Codec> {
    [Codec::Json, Codec::Text, Codec::Msgpack].get(usize::from(number)).copied()
}

fn write_run(run: &Run, out: &mut Vec<u8>) {
    push_bytes(out, run.topic.as_bytes());
    out.extend_from_slice(&run.origin.to_le_bytes());
    push_number(out, run.part as u64);
    push_number(out, run.events);
    write_records(&run.records, out);
    write_key(&run.key, out);
    push_number(out, run.headers.len() as u64);
    for (name, value) in run.headers.iter() {
        push_bytes(out, name.as_bytes());
        push_bytes(out, value);
    }
    out.push(u8::from(run.id_header.is_some()));
    if let Some(IdHeader { name, ids, ends }) = &run.id_header {
        push_bytes(out, name.to_bytes());
        write_slices(ids, ends, out);
    }
}

/// Writes the gap before each record, and its length.
fn write_records(records: &[Record], out: &mut Vec<u8>) {
    push_number(out, records.len() as u64);
    let mut end = 0;
    for Record { start, len } in records {
        push_number(out, u64::from(*start - end));
        push_number(out, u64::from(*len));
        end = start + len;
    }
}

fn write_key(key: &Key, out: &mut Vec<u8>) {
    match key {
        Key::None => out.push(0),
        Key::Same(key) => {
            out.push(1);
            push_bytes(out, key);
        }
        Key::Each(keys, ends) => {
            out.push(2);
            write_slices(keys, ends, out);
        }
    }
}

/// Writes one byte string per record, which are concatenated in `bytes`.
fn write_slices(bytes: &[u8], ends: &[u32], out: &mut Vec<u8>) {
    let mut begin = 0;
    for end in ends {
        push_bytes(out, &bytes[begin..*end as usize]);
        begin = *end as usize;
    }
}

fn read_runs(reader: &mut Reader<'_>, parts: &[Bytes]) -> Option<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for _ in 0..reader.count()? {
        let run = read_run(reader, parts, runs.last())?;
        runs.push(run);
    }
    Some(runs)
}

/// Reads a run. It shares its topic and headers with the previous run if they are equal.
fn read_run(reader: &mut Reader<'_>, parts: &[Bytes], before: Option<&Run>) -> Option<Run> {
    let topic = reader.text()?;
    let same = before.filter(|before| *before.topic == *topic);
    let topic = same.map_or_else(|| topic.into(), |before| before.topic.clone());
    let origin = reader.word()?;
    let part = usize::try_from(reader.number()?).ok()?;
    let events = reader.number()?;
    let records = read_records(reader, parts.get(part)?)?;
    let key = read_key(reader, records.len())?;
    let headers = read_headers(reader)?;
    let same = before.filter(|before| before.headers == headers);
    let headers = same.map_or(headers, |before| before.headers.clone());
    let id_header = match reader.byte()? {
        0 => None,
        1 => Some(read_id_header(reader, records.len())?),
        _ => return None,
    };
    Some(Run { topic, origin, part, key, headers, id_header, events, records })
}

/// Reads records within a part. Each record must have a different address, because the client
/// reports records by their address.
fn read_records(reader: &mut Reader<'_>, part: &[u8]) -> Option<Vec<Record>> {
    let mut records: Vec<Record> = Vec::new();
    let mut end = 0_u32;
    for _ in 0..reader.count()? {
        let start = end.checked_add(reader.number_32()?)?;
        let len = reader.number_32()?;
        end = start.checked_add(len)?;
        let is_apart = records.last().is_none_or(|before| before.start < start);
        if !is_apart || end as usize > part.len() {
            return None;
        }
        records.push(Record { start, len });
    }
    Some(records)
}

fn read_key(reader: &mut Reader<'_>, records: usize) -> Option<Key> {
    match reader.byte()? {
        0 => Some(Key::None),
        1 => Some(Key::Same(reader.bytes()?.to_vec())),
        2 => read_slices(reader, records).map(|(keys, ends)| Key::Each(keys, ends)),
        _ => None,
    }
}

fn read_headers(reader: &mut Reader<'_>) -> Option<Headers> {
    let count = reader.count()?;
    let header = |_| Some((CString::new(reader.bytes()?).ok()?, reader.bytes()?.to_vec()));
    (0..count).map(header).collect::<Option<Vec<_>>>().map(Headers::from)
}

fn read_id_header(reader: &mut Reader<'_>, records: usize) -> Option<IdHeader> {
    let name = CString::new(reader.bytes()?).ok()?.into();
    let (ids, ends) = read_slices(reader, records)?;
    Some(IdHeader { name, ids, ends })
}

/// Reads one byte string per record.
fn read_slices(reader: &mut Reader<'_>, records: usize) -> Option<(Vec<u8>, Vec<u32>)> {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..records {
        bytes.extend_from_slice(reader.bytes()?);
        ends.push(u32::try_from(bytes.len()).ok()?);
    }
    Some((bytes, ends))
}
