//! Routes each event by a template, and encodes events with the same destination together.

use crate::codec::{Codec, Encoding};
use crate::util::template::Template;
use bytes::Bytes;
use millstream_encodings::binary::{Reader, push_bytes, push_number};
use millstream_model::{
    Batch, ComponentError, Counters, EncodeCx, Encoder, Payload, Routing, RoutingError,
};
use std::collections::HashMap;
use std::sync::Arc;

/// The destination for the next parts of a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The rendered template.
    pub name: Arc<str>,
    /// Number of parts.
    pub parts: usize,
}

/// The destinations of a payload's parts, in order and without duplicate names. They are stored in
/// the payload's `routing`.
#[derive(Clone)]
pub struct Routes(pub Arc<[Route]>);

impl Routing for Routes {
    fn write(&self, out: &mut Vec<u8>) {
        push_number(out, self.0.len() as u64);
        for route in self.0.iter() {
            push_bytes(out, route.name.as_bytes());
            push_number(out, route.parts as u64);
        }
    }
}

impl Routes {
    /// Reads the destinations of this many parts.
    ///
    /// A path must be one that some template can render. It may not match the current template,
    /// because the template may have changed, and a payload goes to the files that it was encoded
    /// for. The values could not escape the folder of the template for which they were encoded. A
    /// process that can change these bytes can change the agent's folder anyway.
    pub fn read(bytes: &[u8], parts: usize) -> Result<Routes, RoutingError> {
        let invalid = RoutingError("it is not a list of paths");
        let mut reader = Reader::new(bytes);
        let routes = (0..reader.count().ok_or(invalid)?).map(|_| Route::read(&mut reader));
        let routes = routes.collect::<Option<Vec<Route>>>().ok_or(invalid)?;
        if !routes.iter().all(|route| is_path(&route.name)) {
            return Err(RoutingError("a path is not a file path"));
        }
        let sum = |sum: usize, route: &Route| sum.checked_add(route.parts);
        if !reader.is_at_end() || routes.iter().try_fold(0, sum) != Some(parts) {
            return Err(RoutingError("the parts in the files do not add up to the payload's"));
        }
        Ok(Routes(routes.into()))
    }
}

impl Route {
    fn read(reader: &mut Reader<'_>) -> Option<Route> {
        let name = reader.text()?.into();
        Some(Route { name, parts: usize::try_from(reader.number()?).ok()? })
    }
}

/// Returns whether some template can render this path.
fn is_path(path: &str) -> bool {
    !path.is_empty() && !path.ends_with('/') && !path.contains('\0')
}

/// Encodes all events for a single destination.
pub struct SingleRouteEncoder {
    name: Arc<str>,
    encoder: Box<dyn Encoder>,
}

impl SingleRouteEncoder {
    /// Creates an encoder of events for the file with this name.
    pub fn new(encoding: &Encoding, name: &str) -> SingleRouteEncoder {
        SingleRouteEncoder { name: name.into(), encoder: encoding.encoder() }
    }
}

impl Encoder for SingleRouteEncoder {
    fn encode(
        &mut self,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError> {
        self.encoder.encode(batch, payload, cx)?;
        let route = Route { name: self.name.clone(), parts: payload.parts.len() };
        payload.routing = Some(Arc::new(Routes([route].into())));
        Ok(())
    }
}

/// Encodes events and routes them by a template.
pub struct RoutingEncoder {
    template: Template,
    is_text: bool,
    encoder: Box<dyn Encoder>,
    names: Vec<Arc<str>>,
    by_name: HashMap<Vec<u8>, u32>,
    /// Name index of each selected row.
    of_row: Vec<u32>,
}

impl RoutingEncoder {
    /// Creates an encoder from `encoding`, which must be line-based. The name of an event is the
    /// rendered `template`.
    pub fn new(encoding: &Encoding, template: &Template) -> RoutingEncoder {
        RoutingEncoder {
            template: template.clone(),
            is_text: encoding.codec == Codec::Text,
            encoder: encoding.encoder(),
            names: Vec::new(),
            by_name: HashMap::new(),
            of_row: Vec::new(),
        }
    }

    /// Determines the name of the file for every selected row.
    fn assign(&mut self, batch: &Batch, counters: &Counters) {
        self.names.clear();
        self.by_name.clear();
        self.of_row.clear();
        let (mut name, mut missing) = (Vec::new(), 0);
        for segment in batch.segments.iter() {
            let mut last = None;
            for (begin, end) in batch.runs(segment.first_row, segment.first_row + segment.rows) {
                for row in begin..end {
                    let (index, complete) = match last {
                        Some((other, found)) if self.template.is_same(batch, other, row) => found,
                        _ => {
                            name.clear();
                            let complete = self.template.render(batch, segment, row, &mut name);
                            (self.index(&name), complete)
                        }
                    };
                    last = Some((row, (index, complete)));
                    self.of_row.push(index);
                    missing += u64::from(!complete);
                }
            }
        }
        counters.noted("missing_field", missing);
    }

    fn index(&mut self, name: &[u8]) -> u32 {
        if let Some(index) = self.by_name.get(name) {
            return *index;
        }
        let index = self.names.len() as u32;
        self.names.push(String::from_utf8_lossy(name).into());
        self.by_name.insert(name.to_vec(), index);
        index
    }

    /// Groups the records by name.
    fn gather(&self, batch: &Batch, parts: &[Bytes], payload: &mut Payload, cx: &mut EncodeCx<'_>) {
        let records = records(self.is_text, batch, parts);
        let mut ends = vec![0; self.names.len()];
        self.of_row
            .iter()
            .zip(&records)
            .for_each(|(name, record)| ends[*name as usize] += record.len());
        let mut total = 0;
        for end in &mut ends {
            total += *end;
            *end = total - *end;
        }
        let mut out = cx.pool.buffer();
        out.resize(total, 0);
        for (name, record) in self.of_row.iter().zip(&records) {
            let at = &mut ends[*name as usize];
            out[*at..*at + record.len()].copy_from_slice(record);
            *at += record.len();
        }
        let (out, mut begin) = (cx.freeze(out), 0);
        for end in ends {
            payload.push(out.slice(begin..end));
            begin = end;
        }
    }
}

/// Splits the encoded parts into rows.
fn records<'p>(is_text: bool, batch: &Batch, parts: &'p [Bytes]) -> Vec<&'p [u8]> {
    match is_text {
        // Text may contain line feeds, so split by length.
        true => {
            let (mut parts, mut rest): (_, &[u8]) = (parts.iter(), &[]);
            let rows = batch.runs(0, batch.rows()).flat_map(|(begin, end)| begin..end);
            let record = |row| {
                while rest.is_empty() {
                    rest = parts.next()?;
                }
                let record;
                (record, rest) = rest.split_at(batch.text_len(row) + 1);
                Some(record)
            };
            rows.map_while(record).collect()
        }
        false => {
            parts.iter().flat_map(|part| part.split_inclusive(|byte| *byte == b'\n')).collect()
        }
    }
}

impl Encoder for RoutingEncoder {
    fn encode(
        &mut self,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError> {
        self.assign(batch, cx.counters);
        let mut routes: Vec<Route> =
            self.names.iter().map(|name| Route { name: name.clone(), parts: 1 }).collect();
        if let [only] = &mut routes[..] {
            self.encoder.encode(batch, payload, cx)?;
            only.parts = payload.parts.len();
        } else if !routes.is_empty() {
            let mut whole = Payload::default();
            self.encoder.encode(batch, &mut whole, cx)?;
            self.gather(batch, &whole.parts, payload, cx);
        }
        payload.routing = Some(Arc::new(Routes(routes.into())));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
