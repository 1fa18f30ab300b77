//! From payloads to bodies, and from a body that was refused to two halves.

use super::config::Framing;
use crate::requests::{Capacity, EncodedPayload, Packer, Request};
use bytes::Bytes;
use millstream_compression::{Algorithm, Compressor};
use millstream_encodings::msgpack;
use millstream_model::{EncodeCx, Permit};

/// What a body is like.
#[derive(Clone, Copy)]
pub struct Form {
    /// How events are put into it.
    pub framing: Framing,
    /// Whether each unit has a line end behind it; blocks have none.
    pub line_ends: bool,
    /// How it is compressed.
    pub compression: Algorithm,
    /// The level of that, or the usual one.
    pub level: Option<u32>,
    /// Bytes at most, before framing and compression; one unit may be more.
    pub bytes_max: u64,
    /// Events at most.
    pub events_max: u64,
}

/// Bytes that a unit takes beside its text.
pub const UNIT_BYTES: u64 = 8;

/// The units of a payload: the smallest things that can be sent alone, lines or blocks. Without
/// them each line end ends a unit of one event.
pub struct Units {
    /// Bytes and events of each.
    units: Vec<(u32, u32)>,
    _paid: Permit,
}

impl Units {
    /// Units with so many bytes and events each, paid from the permit.
    pub fn new(units: Vec<(u32, u32)>, cx: &mut EncodeCx<'_>) -> Units {
        let paid = cx.permit.split(units.capacity() as u64 * UNIT_BYTES);
        Units { units, _paid: paid }
    }
}

/// Makes bodies.
pub struct HttpPacker {
    form: Form,
    compressor: Compressor,
}

/// What makes up a body.
struct Piece {
    parts: Vec<Bytes>,
    /// Bytes and events of each unit; `None` if line ends tell.
    units: Option<Vec<(u32, u32)>>,
    events: u64,
}

impl HttpPacker {
    /// A packer for bodies of this form.
    pub fn new(form: Form) -> HttpPacker {
        HttpPacker { form, compressor: Compressor::new(form.compression, form.level) }
    }

    /// The request that carries a piece.
    fn request(&mut self, mut piece: Piece) -> Request {
        let framed = match self.form.framing {
            Framing::Newline => None,
            Framing::JsonArray => Some(array(&piece.parts)),
            Framing::Length => Some(piece.each(self.form.line_ends, |unit, out| {
                out.extend_from_slice(&u32::try_from(unit.len()).unwrap_or(u32::MAX).to_be_bytes());
                out.extend_from_slice(unit);
            })),
            Framing::None if self.form.line_ends => {
                Some(piece.each(true, |unit, out| out.extend_from_slice(unit)))
            }
            Framing::None => None,
        };
        let framed = framed.map_or_else(|| piece.parts.clone(), |framed| vec![Bytes::from(framed)]);
        let (body, headers) = self.compress(framed);
        Request { body, headers, events: piece.events, origin: Box::new(piece) }
    }

    /// The body as it is sent, with the header that says so. Should a library be without memory,
    /// the body goes as it is.
    fn compress(&mut self, framed: Vec<Bytes>) -> (Vec<Bytes>, Vec<(&'static str, String)>) {
        let Some(encoding) = self.form.compression.content_encoding() else {
            return (framed, Vec::new());
        };
        match self.compressor.compress(&framed) {
            Ok(body) => (vec![Bytes::from(body)], vec![("content-encoding", encoding.to_owned())]),
            Err(error) => {
                log::warn!("a request is not compressed: {error}");
                (framed, Vec::new())
            }
        }
    }

    /// Cuts a piece that is more than a body may have, into bodies that are as full as they may be.
    fn fit(&self, piece: Piece) -> Vec<Piece> {
        let (mut pieces, mut rest) = (Vec::new(), piece);
        let capacity =
            Capacity { bytes: self.form.bytes_max, events: self.form.events_max, is_empty: true };
        while rest.bytes() > capacity.bytes || rest.events > capacity.events {
            let front = Front::of(rest.units().iter().copied(), capacity);
            let Some((first, second)) = rest.parted(front.units) else { break };
            pieces.push(first);
            rest = second;
        }
        pieces.push(rest);
        pieces
    }
}

impl Packer for HttpPacker {
    fn pack(&mut self, taken: Vec<EncodedPayload>) -> Vec<Request> {
        let pieces = self.fit(Piece::of(taken));
        pieces.into_iter().map(|piece| self.request(piece)).collect()
    }

    fn cut(taken: &EncodedPayload, capacity: Capacity) -> Option<(EncodedPayload, EncodedPayload)> {
        let front = match known_units(taken) {
            Some(units) => Front::of(units.iter().copied(), capacity),
            None => Front::of(line_units(&taken.parts), capacity),
        };
        if front.units == 0 || front.events >= taken.events {
            return None;
        }
        let (before, behind) = cut(&taken.parts, front.bytes);
        let rest = EncodedPayload {
            parts: behind,
            events: taken.events - front.events,
            bytes: taken.bytes.saturating_sub(front.bytes),
            units_before: taken.units_before + front.units,
            ..taken.clone()
        };
        let Front { events, bytes, .. } = front;
        Some((
            EncodedPayload { parts: before, events, bytes, continues: true, ..taken.clone() },
            rest,
        ))
    }

    fn split(&mut self, request: Request) -> Option<Vec<Request>> {
        let mut piece = request.origin.downcast::<Piece>().ok()?;
        let (first, second) = match piece.halves() {
            None if !self.form.line_ends => piece.halves_of_block()?,
            halves => halves?,
        };
        Some(vec![self.request(first), self.request(second)])
    }
}

impl Piece {
    /// All units of these payloads.
    fn of(taken: Vec<EncodedPayload>) -> Piece {
        let events = taken.iter().map(|taken| taken.events).sum();
        let mut piece = Piece { parts: Vec::new(), units: None, events };
        for taken in taken {
            if let Some(known) = known_units(&taken) {
                let mut left = taken.events;
                let units = known.iter().take_while(|(_, events)| {
                    let is_here = left > 0;
                    left = left.saturating_sub(u64::from(*events));
                    is_here
                });
                piece.units.get_or_insert_default().extend(units);
            }
            piece.parts.extend(taken.parts);
        }
        piece
    }

    fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }

    /// Bytes and events of each unit; found by line ends where nothing else says it.
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

    /// Two pieces with half of the units each; `None` if there is only one.
    fn halves(&mut self) -> Option<(Piece, Piece)> {
        let half = self.units().len() / 2;
        self.parted(half)
    }

    /// Two pieces, the first with so many units; `None` if one of them would have none.
    fn parted(&mut self, units: usize) -> Option<(Piece, Piece)> {
        if units == 0 || units >= self.units().len() {
            return None;
        }
        let mut first = self.units.clone().unwrap_or_default();
        let second = first.split_off(units);
        let (front, back) =
            cut(&self.parts, first.iter().map(|(bytes, _)| u64::from(*bytes)).sum());
        let piece = |parts, units: Vec<(u32, u32)>| {
            let events = units.iter().map(|(_, events)| u64::from(*events)).sum();
            Piece { parts, events, units: Some(units) }
        };
        Some((piece(front, first), piece(back, second)))
    }

    /// Two pieces with half of the metrics each; `None` if this is no block, or one of a single
    /// metric.
    fn halves_of_block(&self) -> Option<(Piece, Piece)> {
        let piece = |block: Vec<u8>| {
            let events = msgpack::blocks(&block).next()?.ok()?.metrics().len() as u64;
            let units = Some(vec![(block.len() as u32, events as u32)]);
            Some(Piece { parts: vec![Bytes::from(block)], units, events })
        };
        let [first, second] = msgpack::split(&self.parts.concat())?;
        Some((piece(first)?, piece(second)?))
    }

    /// Writes each unit with `write`, without its line end where it has one.
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

/// The units from the beginning of something that fit into a body.
#[derive(Clone, Copy, Default)]
struct Front {
    units: usize,
    bytes: u64,
    events: u64,
}

impl Front {
    /// As many of these units, by bytes and events, as there is capacity for.
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

/// The units that the encoder has told, from the first that is in `taken` on.
fn known_units(taken: &EncodedPayload) -> Option<&[(u32, u32)]> {
    let known = taken.routing.as_ref()?.downcast_ref::<Units>()?;
    known.units.get(taken.units_before..)
}

/// Each line of these parts as a unit. Lazy: of a payload that is cut often, each cut looks at its
/// own lines.
fn line_units(parts: &[Bytes]) -> impl Iterator<Item = (u32, u32)> {
    parts.iter().flat_map(|part| {
        let mut begin = 0;
        let ends = memchr::memchr_iter(b'\n', part).map(|at| at + 1);
        ends.map(move |end| ((end - std::mem::replace(&mut begin, end)) as u32, 1))
    })
}

/// JSON lines as one array: nothing in an event is a line end.
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

/// What lies before and behind a position, as views.
fn cut(parts: &[Bytes], at: u64) -> (Vec<Bytes>, Vec<Bytes>) {
    let (mut front, mut back, mut before) = (Vec::new(), Vec::new(), 0);
    for part in parts {
        let here = at.saturating_sub(before).min(part.len() as u64) as usize;
        front.extend((here > 0).then(|| part.slice(..here)));
        back.extend((here < part.len()).then(|| part.slice(here..)));
        before += part.len() as u64;
    }
    (front, back)
}
