//! The binary form of row sources, for payloads that are stored on disk.

use super::{FeedId, RowSource};
use crate::origin::{Origin, OriginId};
use bytes::Bytes;
use millstream_encodings::binary::{Reader, push_bytes, push_number, push_signed};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

impl RowSource {
    /// Appends sources in the form that [`RowSource::read_all`] reads. Each origin is written once.
    pub fn write_all(sources: &[RowSource], out: &mut Vec<u8>) {
        let (mut origins, mut indexes) = (Vec::new(), HashMap::new());
        let mut index_of = |source: &RowSource| {
            let origin = &source.id.origin;
            *indexes.entry(Arc::as_ptr(origin)).or_insert_with(|| {
                origins.push(origin.clone());
                origins.len() as u64 - 1
            })
        };
        let of_row: Vec<u64> = sources.iter().map(&mut index_of).collect();
        push_number(out, origins.len() as u64);
        origins.iter().for_each(|origin| write_origin(origin, out));
        push_number(out, sources.len() as u64);
        let mut before = Before::default();
        for (origin, source) in of_row.into_iter().zip(sources) {
            push_number(out, origin);
            before.write(source, out);
        }
    }

    /// Reads sources that [`RowSource::write_all`] wrote; returns `None` for any other bytes.
    pub fn read_all(bytes: &[u8]) -> Option<Vec<RowSource>> {
        // The ids that arrived with the records are views of this buffer.
        let bytes = Bytes::copy_from_slice(bytes);
        let mut reader = Reader::new(&bytes);
        let count = reader.count()?;
        let origins = (0..count).map(|_| read_origin(&mut reader).map(Arc::new));
        let origins = origins.collect::<Option<Vec<_>>>()?;
        let (count, mut before) = (reader.count()?, Before::default());
        let rows = (0..count).map(|_| {
            let origin = origins.get(usize::try_from(reader.number()?).ok()?)?;
            before.read(origin, &mut reader, &bytes)
        });
        let rows = rows.collect::<Option<Vec<_>>>()?;
        reader.is_at_end().then_some(rows)
    }
}

fn write_origin(origin: &Origin, out: &mut Vec<u8>) {
    out.extend_from_slice(&origin.id.0.to_le_bytes());
    out.push(u8::from(origin.is_in_records));
    push_bytes(out, origin.name.as_bytes());
    push_number(out, origin.attributes.len() as u64);
    for (name, value) in &origin.attributes {
        push_bytes(out, name.as_bytes());
        push_bytes(out, value.as_bytes());
    }
}

fn read_origin(reader: &mut Reader<'_>) -> Option<Origin> {
    let id = OriginId(reader.word()?);
    let is_in_records = match reader.byte()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let name = reader.text()?;
    let count = reader.count()?;
    let attribute = |_| Some((reader.text()?.to_owned(), reader.text()?.to_owned()));
    let attributes = (0..count).map(attribute).collect::<Option<BTreeMap<_, _>>>()?;
    Some(Origin { is_in_records, ..Origin::new(id, name).with_attributes(attributes) })
}

/// The previous row. Each row is written as a difference from its predecessor.
#[derive(Default)]
struct Before {
    offset: u64,
    time_ns: i64,
}

impl Before {
    fn write(&mut self, source: &RowSource, out: &mut Vec<u8>) {
        let FeedId { offset, ordinal, received, .. } = &source.id;
        push_signed(out, offset.wrapping_sub(self.offset) as i64);
        push_signed(out, source.time_ns.wrapping_sub(self.time_ns));
        push_number(out, u64::from(*ordinal));
        out.push(u8::from(received.is_some()));
        received.iter().for_each(|received| push_bytes(out, received));
        *self = Before { offset: *offset, time_ns: source.time_ns };
    }

    fn read(
        &mut self,
        origin: &Arc<Origin>,
        reader: &mut Reader<'_>,
        bytes: &Bytes,
    ) -> Option<RowSource> {
        let offset = self.offset.wrapping_add(reader.signed()? as u64);
        let time_ns = self.time_ns.wrapping_add(reader.signed()?);
        let ordinal = reader.number_32()?;
        let received = match reader.byte()? {
            0 => None,
            1 => Some(bytes.slice_ref(reader.bytes()?)),
            _ => return None,
        };
        *self = Before { offset, time_ns };
        let id = FeedId { origin: origin.clone(), offset, ordinal, received };
        Some(RowSource { id, time_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::TIME_UNKNOWN;

    fn sources() -> Vec<RowSource> {
        let attributes = BTreeMap::from([("env".to_owned(), "prod".to_owned())]);
        let file = Origin::new(OriginId(7), "/var/log/a.log").with_attributes(attributes);
        let (file, topic) =
            (Arc::new(file), Arc::new(Origin::new(OriginId(9), "t/3").of_records()));
        let row =
            |origin: &Arc<Origin>, offset, ordinal, received: Option<&'static str>, time_ns| {
                let (origin, received) = (origin.clone(), received.map(Bytes::from));
                RowSource { id: FeedId { origin, offset, ordinal, received }, time_ns }
            };
        vec![
            row(&file, 100, 0, None, 1_800_000_000_000_000_000),
            row(&file, 170, 0, None, TIME_UNKNOWN),
            row(&topic, u64::MAX, 0, Some("id-1"), i64::MAX),
            row(&topic, 5, u32::MAX, Some(""), 0),
            row(&file, 190, 0, None, -1),
        ]
    }

    /// Returns the ids of events with their origins, as text.
    fn shown(sources: &[RowSource]) -> Vec<String> {
        let one = |RowSource { id, time_ns }: &RowSource| {
            let FeedId { origin, offset, ordinal, received } = id;
            let Origin { id, name, attributes, is_in_records, .. } = &**origin;
            format!(
                "{id} {name} {attributes:?} {is_in_records} {offset} {ordinal} {received:?} {time_ns}"
            )
        };
        sources.iter().map(one).collect()
    }

    fn written(sources: &[RowSource]) -> Vec<u8> {
        let mut out = Vec::new();
        RowSource::write_all(sources, &mut out);
        out
    }

    #[test]
    fn sources_are_read_as_they_were_written_with_each_origin_once() {
        let expected = sources();
        let read = RowSource::read_all(&written(&expected)).unwrap();
        assert_eq!(shown(&read), shown(&expected));
        let is_shared =
            |one: usize, other: usize| Arc::ptr_eq(&read[one].id.origin, &read[other].id.origin);
        assert!(is_shared(0, 1) && is_shared(0, 4) && is_shared(2, 3) && !is_shared(0, 2));
        assert!(RowSource::read_all(&written(&[])).unwrap().is_empty());
    }

    #[test]
    fn other_bytes_are_refused_or_read_but_never_a_panic() {
        let bytes = written(&sources());
        for length in 0..bytes.len() {
            assert!(RowSource::read_all(&bytes[..length]).is_none(), "{length} bytes");
        }
        assert!(RowSource::read_all(&[&bytes[..], b"\0"].concat()).is_none(), "more bytes");
        for (at, other) in (0..bytes.len()).flat_map(|at| (0..=255).map(move |other| (at, other))) {
            let mut changed = bytes.clone();
            changed[at] = other;
            let read = RowSource::read_all(&changed);
            assert!(read.is_none_or(|rows| rows.len() <= bytes.len()), "byte {at} as {other}");
        }
        // A count that would exceed any amount of memory.
        assert!(RowSource::read_all(&[0, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]).is_none());
    }
}
