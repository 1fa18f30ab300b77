//! Packs payloads into the bodies of bulk requests. An event is two lines: the action and the
//! document, neither of which contains a line feed.

use super::answer::BulkAnswer;
use crate::sinks::http_delivery::{
    Answer, BulkPacker, Capacity, EncodedPayload, EventSet, Packer, Record, Request, compress,
    split_parts,
};
use bytes::Bytes;
use millstream_compression::Compressor;
use std::ops::Range;

/// Packs payloads into bodies.
pub struct DocumentPacker {
    compressor: Compressor,
}

/// The content of a body.
struct Piece(Vec<Bytes>);

impl DocumentPacker {
    /// Creates a packer that compresses bodies with this compressor.
    pub fn new(compressor: Compressor) -> DocumentPacker {
        DocumentPacker { compressor }
    }

    fn request(&mut self, piece: Piece, events: EventSet) -> Request {
        let (body, headers) = compress(&mut self.compressor, piece.0.clone());
        Request { body, headers, events, origin: Box::new(piece) }
    }
}

impl Packer for DocumentPacker {
    fn pack(&mut self, payloads: Vec<EncodedPayload>) -> Vec<Request> {
        let events: u64 = payloads.iter().map(|payload| payload.events).sum();
        let parts = payloads.into_iter().flat_map(|payload| payload.parts).collect();
        vec![self.request(Piece(parts), EventSet::of(0..events as u32))]
    }

    fn cut(
        payload: &EncodedPayload,
        capacity: Capacity,
    ) -> Option<(EncodedPayload, EncodedPayload)> {
        let (mut events, mut bytes) = (0, 0);
        for length in lengths(&payload.parts) {
            let is_first = capacity.is_empty && events == 0;
            if (bytes + length > capacity.bytes || events + 1 > capacity.events) && !is_first {
                break;
            }
            (events, bytes) = (events + 1, bytes + length);
        }
        (events > 0 && events < payload.events).then(|| payload.split(events, bytes))
    }

    fn split(&mut self, request: Request) -> Option<Vec<Request>> {
        let (piece, count) = (request.origin.downcast_ref::<Piece>()?, request.events.len());
        if count < 2 {
            return None;
        }
        let half = lengths(&piece.0).take(count as usize / 2).sum();
        let (first, second) = request.events.split_at(count / 2);
        let (before, behind) = split_parts(&piece.0, half);
        Some(vec![self.request(Piece(before), first), self.request(Piece(behind), second)])
    }

    fn record(&mut self, request: &Request) -> Record {
        self.record_at(request, 0)
    }
}

impl BulkPacker for DocumentPacker {
    fn answer(request: &Request) -> Box<dyn Answer> {
        Box::new(BulkAnswer::new(request.events.len()))
    }

    fn unreadable(request: &Request, body: &[u8]) -> Option<&'static str> {
        // Every server supports the other compression formats. Events cannot make a body invalid,
        // so a parse error means that the server does not support zstd.
        let is_rare = request.headers.iter().any(|(_, value)| value == "zstd");
        let is_parse_error = memchr::memmem::find(body, b"parse_exception").is_some();
        (is_rare && is_parse_error)
            .then_some("the endpoint may not support this compression; use `compression: gzip`")
    }

    fn select(&mut self, request: &Request, positions: &[u32]) -> Request {
        let (mut parts, mut events) = (Vec::new(), EventSet::default());
        if let Some(piece) = request.origin.downcast_ref::<Piece>() {
            parts = piece.select(positions);
        }
        let mut wanted = positions.iter().peekable();
        for (position, event) in (0..).zip(request.events.iter()) {
            if wanted.next_if_eq(&&position).is_some() {
                events.push(event);
            }
        }
        self.request(Piece(parts), events)
    }

    fn record_at(&mut self, request: &Request, position: u32) -> Record {
        let piece = request.origin.downcast_ref::<Piece>();
        let parts = piece.map(|piece| piece.select(&[position])).unwrap_or_default();
        let lines = match &parts[..] {
            [part] => part.clone(),
            parts => parts.concat().into(),
        };
        let start = memchr::memchr(b'\n', &lines).map_or(0, |at| at + 1);
        let end = lines.len().saturating_sub(1).max(start);
        Record::json(lines.slice(start..end))
    }
}

impl Piece {
    /// Returns views of the events at these ascending positions.
    fn select(&self, positions: &[u32]) -> Vec<Bytes> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let (mut wanted, mut begin) = (positions.iter().peekable(), 0);
        for (position, length) in (0..).zip(lengths(&self.0)) {
            let end = begin + length;
            if wanted.next_if_eq(&&position).is_some() {
                match ranges.last_mut() {
                    Some(last) if last.end == begin => last.end = end,
                    _ => ranges.push(begin..end),
                }
            } else if wanted.peek().is_none() {
                break;
            }
            begin = end;
        }
        self.views(&ranges)
    }

    /// Returns views of these ascending ranges of the content.
    fn views(&self, ranges: &[Range<u64>]) -> Vec<Bytes> {
        let (mut views, mut ranges, mut before) = (Vec::new(), ranges.iter().peekable(), 0);
        for part in &self.0 {
            let after = before + part.len() as u64;
            while let Some(range) = ranges.peek().filter(|range| range.start < after) {
                let (start, end) = (range.start.max(before), range.end.min(after));
                views.push(part.slice((start - before) as usize..(end - before) as usize));
                if range.end > after {
                    break;
                }
                ranges.next();
            }
            before = after;
        }
        views
    }
}

/// Iterates over the lengths of the events. The iterator is lazy, so that cutting a payload scans
/// only the events in the first piece.
fn lengths(parts: &[Bytes]) -> impl Iterator<Item = u64> {
    let (mut is_action, mut begin, mut before) = (true, 0, 0);
    let ends = parts.iter().flat_map(move |part| {
        let start = before;
        before += part.len() as u64;
        memchr::memchr_iter(b'\n', part).map(move |at| start + at as u64 + 1)
    });
    ends.filter_map(move |end| {
        is_action = !is_action;
        is_action.then(|| end - std::mem::replace(&mut begin, end))
    })
}

#[cfg(test)]
mod tests;
