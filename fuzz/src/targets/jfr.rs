//! Flight recordings: every chunk is read, its events are decoded, and their references are looked
//! up.

use millstream_jfr::read::{ChunkReader, Event, EventPlan, Lookup, Raw, SLOTS, Text, read_header};
use std::ops::ControlFlow;

pub const WORDS: &[&[u8]] = &[
    b"FLR\0\0\x02\0\x01",
    b"\x00\x00\x00\x00\x00\x00\x00\x44",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x80\x80\x80\x80\x10",
    b"jdk.SocketWrite",
    b"constantPool",
    b"dimension",
    b"superType",
    b"\x03\x04true",
    b"\x02\x01",
    b"\x05\x01\xff",
    b"\x04\x02ab",
];

/// The types whose values are kept.
const KEPT: [&str; 6] = [
    "java.lang.String",
    "java.lang.Thread",
    "java.lang.Class",
    "jdk.types.Symbol",
    "jdk.types.StackTrace",
    "jdk.types.Method",
];

pub fn jfr(input: &[u8]) {
    let mut rest = input;
    while let Ok(Some(header)) = read_header(rest) {
        let bytes = usize::try_from(header.chunk_bytes).unwrap_or(usize::MAX);
        chunk(rest, &header);
        match rest.split_at_checked(bytes) {
            Some((_, next)) if bytes > 0 => rest = next,
            _ => return,
        }
    }
}

fn chunk(chunk: &[u8], header: &millstream_jfr::read::ChunkHeader) {
    let Ok(reader) = ChunkReader::open(chunk, header, &KEPT) else { return };
    let plans = plans(&reader.lookup());
    let mut window = Vec::new();
    let mut positions = Vec::new();
    let whole = reader.events(chunk, 0..u64::MAX, &mut window, |at, event| {
        positions.push(at);
        decode(&reader.lookup(), &plans, event);
        ControlFlow::Continue(())
    });
    assert!(positions.windows(2).all(|pair| pair[0] < pair[1]), "events are in order");
    assert!(positions.len() <= chunk.len(), "an event has a byte at least");
    // Reading in two parts, split at any event, gives the same result as reading at once.
    let Some(middle) = positions.get(positions.len() / 2) else { return };
    let mut again = Vec::new();
    for range in [0..*middle, *middle..u64::MAX] {
        let part = reader.events(chunk, range.clone(), &mut window, |at, _| {
            again.push(at);
            ControlFlow::Continue(())
        });
        assert_eq!(part.is_err(), whole.is_err() && range.start == *middle);
    }
    assert_eq!(again, positions);
}

/// Returns the plans for reading all fields of each event type, up to the number of slots.
fn plans(lookup: &Lookup<'_>) -> Vec<(u64, Vec<u64>, EventPlan)> {
    let of = |(id, of): (u64, &millstream_jfr::read::Type)| {
        let fields = &of.fields[..of.fields.len().min(SLOTS)];
        let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        let types = fields.iter().map(|field| field.type_id).collect();
        Some((id, types, EventPlan::new(lookup.types, id, &names)?))
    };
    lookup.types.iter().filter(|(_, of)| of.is_event).filter_map(of).collect()
}

fn decode(lookup: &Lookup<'_>, plans: &[(u64, Vec<u64>, EventPlan)], event: &Event<'_>) {
    let Some((_, types, plan)) = plans.iter().find(|(id, ..)| *id == event.type_id) else { return };
    let Ok(raw) = plan.read(event.fields) else { return };
    for (raw, type_id) in raw.iter().zip(types) {
        if let Raw::Text(text @ (Text::Utf8(_) | Text::Latin1(_) | Text::Utf16(_))) = raw {
            assert_eq!(lookup.text(raw, *type_id), text.characters());
        }
        lookup.class(raw, *type_id);
        lookup.thread(raw, *type_id);
        assert!(lookup.stack(raw, *type_id, 8).len() <= 8);
    }
}
