//! Packs payloads into bodies, and splits rejected bodies.

use crate::codec::metric_record;
use crate::sinks::http_delivery::{
    Capacity, EncodedPayload, EventSet, Packer, Record, Request, compress, split_parts,
};
use bytes::Bytes;
use millstream_compression::{Algorithm, Compressor};
use millstream_encodings::binary::{Reader, push_number};
use millstream_encodings::msgpack;
use millstream_model::{EncodeCx, Payload, Permit, Routing, RoutingError};
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::Range;

/// Framing of the events in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// A line feed after each event.
    Newline,
    /// One JSON array of all events.
    JsonArray,
    /// A four-byte big-endian length before each event.
    Length,
    /// Events without separators.
    None,
}

/// The format of a body.
#[derive(Clone, Copy)]
pub struct BodyFormat {
    /// The framing of the events.
    pub framing: Framing,
    /// Whether a line feed ends each unit; blocks have none.
    pub line_ends: bool,
    /// Whether each event is a JSON object.
    pub is_json: bool,
    /// The compression of the body.
    pub compression: Algorithm,
    /// The compression level; `None` for the default.
    pub level: Option<u32>,
    /// Maximum bytes before framing and compression. A single unit may exceed it.
    pub bytes_max: u64,
    /// Maximum events.
    pub events_max: u64,
}

/// Memory of a unit in addition to its text, in bytes.
pub const UNIT_BYTES: u64 = 8;

/// The units of a payload: lines or blocks, the smallest pieces that a request can contain. Without
/// recorded units, each line feed ends a unit of one event.
pub struct Units {
    /// Bytes and events of each unit.
    units: Vec<(u32, u32)>,
    /// Permit for the memory of the units; `None` if the payload was on disk, because its permit
    /// includes them.
    _paid: Option<Permit>,
}

impl Units {
    /// Creates units from their bytes and events, and charges them to the permit.
    pub fn new(units: Vec<(u32, u32)>, cx: &mut EncodeCx<'_>) -> Units {
        let paid = cx.permit.split(units.capacity() as u64 * UNIT_BYTES);
        Units { units, _paid: Some(paid) }
    }

    /// Reads the units of a payload. Together they must cover all of its bytes and events.
    pub fn read(bytes: &[u8], payload: &Payload) -> Result<Units, RoutingError> {
        let invalid = RoutingError("it is not a list of units");
        let mut reader = Reader::new(bytes);
        let unit = |reader: &mut Reader<'_>| Some((reader.number_32()?, reader.number_32()?));
        let units = (0..reader.count().ok_or(invalid)?).map(|_| unit(&mut reader));
        let units = units.collect::<Option<Vec<_>>>().ok_or(invalid)?;
        let length: u64 = payload.parts.iter().map(|part| part.len() as u64).sum();
        let bytes: u64 = units.iter().map(|(bytes, _)| u64::from(*bytes)).sum();
        let events: u64 = units.iter().map(|(_, events)| u64::from(*events)).sum();
        if !reader.is_at_end() || (bytes, events) != (length, payload.events) {
            return Err(RoutingError("the units do not add up to the payload"));
        }
        Ok(Units { units, _paid: None })
    }
}

impl Routing for Units {
    fn write(&self, out: &mut Vec<u8>) {
        push_number(out, self.units.len() as u64);
        for (bytes, events) in &self.units {
            push_number(out, u64::from(*bytes));
            push_number(out, u64::from(*events));
        }
    }
}

/// Packs payloads into bodies.
pub struct HttpPacker {
    format: BodyFormat,
    compressor: Compressor,
}

/// The content of a body.
struct Piece {
    parts: Vec<Bytes>,
    /// Bytes and events of each unit; `None` if each line is a unit of one event.
    units: Option<Vec<(u32, u32)>>,
    /// The events of the piece, by their index in the batch.
    events: Range<u32>,
}

impl HttpPacker {
    /// Creates a packer for bodies of this format.
    pub fn new(format: BodyFormat) -> HttpPacker {
        HttpPacker { format, compressor: Compressor::new(format.compression, format.level) }
    }

    /// Builds the request for a piece.
    fn request(&mut self, mut piece: Piece) -> Request {
        let framed = match self.format.framing {
            Framing::Newline => None,
            Framing::JsonArray => Some(array(&piece.parts)),
            Framing::Length => Some(piece.each(self.format.line_ends, |unit, out| {
                out.extend_from_slice(&u32::try_from(unit.len()).unwrap_or(u32::MAX).to_be_bytes());
                out.extend_from_slice(unit);
            })),
            Framing::None if self.format.line_ends => {
                Some(piece.each(true, |unit, out| out.extend_from_slice(unit)))
            }
            Framing::None => None,
        };
        let framed = framed.map_or_else(|| piece.parts.clone(), |framed| vec![Bytes::from(framed)]);
        let (body, headers) = compress(&mut self.compressor, framed);
        let events = EventSet::of(piece.events.clone());
        Request { body, headers, events, origin: Box::new(piece) }
    }

    /// Splits a piece that exceeds the limits of a body into bodies that are as full as possible.
    fn fit(&self, piece: Piece) -> Vec<Piece> {
        let (mut pieces, mut rest) = (Vec::new(), piece);
        let capacity = Capacity {
            bytes: self.format.bytes_max,
            events: self.format.events_max,
            is_empty: true,
        };
        while rest.bytes() > capacity.bytes || rest.events.len() as u64 > capacity.events {
            let front = Front::of(rest.units().iter().copied(), capacity);
            let Some((first, second)) = rest.split_at_unit(front.units) else { break };
            pieces.push(first);
            rest = second;
        }
        pieces.push(rest);
        pieces
    }
}

impl Packer for HttpPacker {
    fn pack(&mut self, payloads: Vec<EncodedPayload>) -> Vec<Request> {
        let pieces = self.fit(Piece::of(payloads));
        pieces.into_iter().map(|piece| self.request(piece)).collect()
    }

    fn cut(
        payload: &EncodedPayload,
        capacity: Capacity,
    ) -> Option<(EncodedPayload, EncodedPayload)> {
        let front = match known_units(payload) {
            Some(units) => Front::of(units.iter().copied(), capacity),
            None => Front::of(line_units(&payload.parts), capacity),
        };
        if front.units == 0 || front.events >= payload.events {
            return None;
        }
        let (first, rest) = payload.split(front.events, front.bytes);
        let units_before = payload.units_before + front.units;
        Some((first, EncodedPayload { units_before, ..rest }))
    }

    fn split(&mut self, request: Request) -> Option<Vec<Request>> {
        let mut piece = request.origin.downcast::<Piece>().ok()?;
        let (first, second) = match piece.halves() {
            None if !self.format.line_ends => piece.halves_of_block()?,
            halves => halves?,
        };
        Some(vec![self.request(first), self.request(second)])
    }

    fn record(&mut self, request: &Request) -> Record {
        let Some(piece) = request.origin.downcast_ref::<Piece>() else { return Record::default() };
        let unit = piece.joined();
        if !self.format.line_ends {
            let metric = metric_record::of_block(&unit).and_then(|mut metrics| metrics.pop());
            return metric.map(Record::json).unwrap_or_default();
        }
        let len = unit.len() - usize::from(unit.ends_with(b"\n"));
        Record { bytes: unit.slice(..len), is_json: self.format.is_json }
    }
}

impl Piece {
    /// Combines the units of these payloads into one piece.
    fn of(payloads: Vec<EncodedPayload>) -> Piece {
        let events: u64 = payloads.iter().map(|payload| payload.events).sum();
        let mut piece = Piece { parts: Vec::new(), units: None, events: 0..events as u32 };
        for payload in payloads {
            if let Some(known) = known_units(&payload) {
                let mut left = payload.events;
                let units = known.iter().take_while(|(_, events)| {
                    let is_here = left > 0;
                    left = left.saturating_sub(u64::from(*events));
                    is_here
                });
                piece.units.get_or_insert_default().extend(units);
            }
            piece.parts.extend(payload.parts);
        }
        piece
    }

    /// Returns the bytes as one view, or as a copy if there are several parts.
    fn joined(&self) -> Bytes {
        match &self.parts[..] {
            [part] => part.clone(),
            parts => parts.concat().into(),
        }
    }

    fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }

    /// Returns the bytes and events of each unit. If the encoder recorded no units, each line is a
    /// unit.
    fn units(&mut self) -> &[(u32, u32)] {
        let parts = &self.parts;
        self.units.get_or_insert_with(|| {
            let (mut units, mut found) = (Vec::new(), Vec::new());
            for part in parts {
                found.clear();
                millstream_scan::newlines(part, &mut found);
                let mut begin = 0;
                units.extend(
                    found.iter().map(|at| (at + 1 - std::mem::replace(&mut begin, at + 1), 1)),
                );
            }
            units
        })
    }

    /// Splits into two pieces with half of the units each; returns `None` for a single unit.
    fn halves(&mut self) -> Option<(Piece, Piece)> {
        let half = self.units().len() / 2;
        self.split_at_unit(half)
    }

    /// Splits into two pieces, the first with this many units; returns `None` if one would be
    /// empty.
    fn split_at_unit(&mut self, units: usize) -> Option<(Piece, Piece)> {
        if units == 0 || units >= self.units().len() {
            return None;
        }
        let mut first = self.units.clone().unwrap_or_default();
        let second = first.split_off(units);
        let (front, back) =
            split_parts(&self.parts, first.iter().map(|(bytes, _)| u64::from(*bytes)).sum());
        let middle = self.events.start + first.iter().map(|(_, events)| *events).sum::<u32>();
        let piece = |parts, units, events| Piece { parts, units: Some(units), events };
        let (before, behind) = (self.events.start..middle, middle..self.events.end);
        Some((piece(front, first, before), piece(back, second, behind)))
    }

    /// Splits a block into two pieces with half of the metrics each. Returns `None` if the piece is
    /// not a block, or is a block of a single metric.
    fn halves_of_block(&self) -> Option<(Piece, Piece)> {
        let [first, second] = msgpack::split(&self.parts.concat())?;
        let metrics = msgpack::blocks(&first).next()?.ok()?.metrics().len() as u32;
        let middle = self.events.start + metrics;
        let piece = |block: Vec<u8>, events: Range<u32>| {
            let units = Some(vec![(block.len() as u32, events.len() as u32)]);
            Piece { parts: vec![Bytes::from(block)], units, events }
        };
        let (before, behind) = (self.events.start..middle, middle..self.events.end);
        Some((piece(first, before), piece(second, behind)))
    }

    /// Calls `write` for each unit, without the line feed that may end the unit.
    fn each(&mut self, line_ends: bool, mut write: impl FnMut(&[u8], &mut Vec<u8>)) -> Vec<u8> {
        let joined = self.parts.concat();
        let mut rest = &joined[..];
        let mut out = Vec::with_capacity(joined.len() + 4 * self.units().len());
        for (bytes, _) in self.units() {
            let (unit, behind) = rest.split_at((*bytes as usize).min(rest.len()));
            write(
                if line_ends { unit.strip_suffix(b"\n").unwrap_or(unit) } else { unit },
                &mut out,
            );
            rest = behind;
        }
        out
    }
}

/// The leading units of a payload that fit into a body.
#[derive(Clone, Copy, Default)]
struct Front {
    units: usize,
    bytes: u64,
    events: u64,
}

impl Front {
    /// Takes as many leading units as fit, by bytes and events.
    fn of(units: impl Iterator<Item = (u32, u32)>, capacity: Capacity) -> Front {
        let mut front = Front::default();
        for (bytes, events) in units {
            let bytes = front.bytes + u64::from(bytes);
            let events = front.events + u64::from(events);
            let is_first = capacity.is_empty && front.units == 0;
            if (bytes > capacity.bytes || events > capacity.events) && !is_first {
                break;
            }
            front = Front { units: front.units + 1, bytes, events };
        }
        front
    }
}

/// Returns the units that the encoder recorded, starting at the first unit in `payload`.
fn known_units(payload: &EncodedPayload) -> Option<&[(u32, u32)]> {
    let known = payload.routing.as_ref()?.as_type::<Units>()?;
    known.units.get(payload.units_before..)
}

/// Iterates over the lines of these parts as units. The iterator is lazy, so that cutting a payload
/// scans only the lines in the first piece.
fn line_units(parts: &[Bytes]) -> impl Iterator<Item = (u32, u32)> {
    parts.iter().flat_map(|part| {
        let mut begin = 0;
        let ends = memchr::memchr_iter(b'\n', part).map(|at| at + 1);
        ends.map(move |end| ((end - std::mem::replace(&mut begin, end)) as u32, 1))
    })
}

/// Joins JSON lines into an array. Events contain no line feed.
fn array(parts: &[Bytes]) -> Vec<u8> {
    let mut out = Vec::with_capacity(parts.iter().map(Bytes::len).sum::<usize>() + 1);
    out.push(b'[');
    for part in parts {
        out.extend(part.iter().map(|byte| if *byte == b'\n' { b',' } else { *byte }));
    }
    if out.len() > 1 {
        out.pop();
    }
    out.push(b']');
    out
}
