//! From payloads to bodies, and from a body that was refused to two halves.

use super::config::Framing;
use crate::requests::{Packer, Request, Taken};
use bytes::Bytes;
use millstream_compression::{Algorithm, Compressor};
use millstream_model::Permit;

/// What a body is like.
#[derive(Clone, Copy)]
pub struct Form {
    /// How events are put into it.
    pub framing: Framing,
    /// How it is compressed.
    pub compression: Algorithm,
    /// The level of that, or the usual one.
    pub level: Option<u32>,
    /// Bytes at most, before framing and compression; one event may be more.
    pub bytes_max: u64,
    /// Events at most.
    pub events_max: u64,
}

/// Where the events of a payload end in it, behind their line ends; with what that takes of the grant.
pub struct Ends {
    /// Positions, ascending.
    pub ends: Vec<u32>,
    /// What they take.
    pub _paid: Permit,
}

/// Makes bodies.
pub struct HttpPacker {
    form: Form,
    compressor: Compressor,
}

/// Events that make up a body.
struct Piece {
    /// Their text, each with a line end behind it.
    parts: Vec<Bytes>,
    /// Where each ends in all parts together; `None` if line ends tell.
    ends: Option<Vec<u64>>,
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
            Framing::Length => Some(piece.each(|event, out| {
                out.extend_from_slice(&u32::try_from(event.len()).unwrap_or(u32::MAX).to_be_bytes());
                out.extend_from_slice(event);
            })),
            Framing::None => Some(piece.each(|event, out| out.extend_from_slice(event))),
        };
        let framed = framed.map_or_else(|| piece.parts.clone(), |framed| vec![Bytes::from(framed)]);
        let (body, headers) = self.compress(framed);
        Request { body, headers, events: piece.events, origin: Box::new(piece) }
    }

    /// The body as it is sent, with the header that says so. Should a library be without memory, the body
    /// goes as it is.
    fn compress(&mut self, framed: Vec<Bytes>) -> (Vec<Bytes>, Vec<(&'static str, String)>) {
        let Some(encoding) = self.form.compression.content_encoding() else { return (framed, Vec::new()) };
        match self.compressor.compress(&framed) {
            Ok(body) => (vec![Bytes::from(body)], vec![("content-encoding", encoding.to_owned())]),
            Err(error) => {
                log::warn!("a request is not compressed: {error}");
                (framed, Vec::new())
            }
        }
    }

    /// Cuts a piece that is more than a body may have.
    fn fit(&self, piece: Piece) -> Vec<Piece> {
        let (mut pieces, mut left) = (Vec::new(), vec![piece]);
        while let Some(mut piece) = left.pop() {
            let is_over = piece.bytes() > self.form.bytes_max || piece.events > self.form.events_max;
            match piece.halves().filter(|_| is_over) {
                Some((first, second)) => left.extend([second, first]),
                None => pieces.push(piece),
            }
        }
        pieces
    }
}

impl Packer for HttpPacker {
    fn pack(&mut self, taken: Vec<Taken>) -> Vec<Request> {
        let pieces = self.fit(Piece::of(taken));
        pieces.into_iter().map(|piece| self.request(piece)).collect()
    }

    fn split(&mut self, request: Request) -> Option<Vec<Request>> {
        let mut piece = request.origin.downcast::<Piece>().ok()?;
        let (first, second) = piece.halves()?;
        Some(vec![self.request(first), self.request(second)])
    }
}

impl Piece {
    /// All events of these payloads.
    fn of(taken: Vec<Taken>) -> Piece {
        let events = taken.iter().map(|taken| taken.events).sum();
        let mut piece = Piece { parts: Vec::new(), ends: None, events };
        let mut before = 0;
        for Taken { parts, bytes, routing, .. } in taken {
            if let Some(marks) = routing.as_ref().and_then(|routing| routing.downcast_ref::<Ends>()) {
                let ends = marks.ends.iter().map(|end| before + u64::from(*end));
                piece.ends.get_or_insert_default().extend(ends);
            }
            piece.parts.extend(parts);
            before += bytes;
        }
        piece
    }

    fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }

    /// Where events end; found by their line ends where nothing else says it.
    fn ends(&mut self) -> &[u64] {
        let parts = &self.parts;
        self.ends.get_or_insert_with(|| {
            let (mut before, mut ends, mut found) = (0, Vec::new(), Vec::new());
            for part in parts {
                found.clear();
                millstream_scan::newlines(part, &mut found);
                ends.extend(found.iter().map(|at| before + u64::from(*at) + 1));
                before += part.len() as u64;
            }
            ends
        })
    }

    /// Two pieces with half of the events each; `None` if there is only one.
    fn halves(&mut self) -> Option<(Piece, Piece)> {
        if self.ends().len() < 2 {
            return None;
        }
        let mut first = self.ends.clone().unwrap_or_default();
        let second = first.split_off(first.len() / 2);
        let at = first.last().copied().unwrap_or_default();
        let (front, back) = cut(&self.parts, at);
        let piece = |parts, ends: Vec<u64>| Piece { parts, events: ends.len() as u64, ends: Some(ends) };
        Some((piece(front, first), piece(back, second.iter().map(|end| end - at).collect())))
    }

    /// Writes each event, without the line end behind it, with `write`.
    fn each(&mut self, mut write: impl FnMut(&[u8], &mut Vec<u8>)) -> Vec<u8> {
        let joined = self.parts.concat();
        let mut out = Vec::with_capacity(joined.len() + 4 * self.events as usize);
        let mut begin = 0;
        for end in self.ends() {
            let end = *end as usize;
            write(&joined[begin..end - 1], &mut out);
            begin = end;
        }
        out
    }
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
