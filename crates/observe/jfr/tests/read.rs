//! Reads chunks that are growing, truncated or damaged.

use millstream_jfr::elements::Element;
use millstream_jfr::metadata::{self, TypeId};
use millstream_jfr::read::{
    ChunkError, ChunkHeader, ChunkReader, ChunkState, EventPlan, ReadError, Text, read_header,
};
use millstream_jfr::{Chunk, Clock, varint};
use millstream_testkit::FlightRecording;
use std::num::NonZeroU64;
use std::ops::ControlFlow;

const KEPT: [&str; 2] = ["java.lang.String", "java.lang.Thread"];
const FIELDS: [&str; 5] = ["startTime", "host", "port", "eventThread", "bytesWritten"];

/// Returns the host, port, thread and bytes of the writes, starting at a position, and the end of
/// the writes.
fn writes(reader: &ChunkReader, chunk: &[u8], from: u64) -> (Vec<String>, u64) {
    let lookup = reader.lookup();
    let id = lookup.types.id("jdk.SocketWrite").unwrap();
    let plan = EventPlan::new(lookup.types, id, &FIELDS).unwrap();
    let thread = lookup.types.id("java.lang.Thread").unwrap();
    let mut found = Vec::new();
    let each = |_, event: &millstream_jfr::read::Event<'_>| {
        if event.type_id == id {
            let raw = plan.read(event.fields).unwrap();
            let (host, thread) = (lookup.text(&raw[1], 0), lookup.thread(&raw[3], thread));
            found.push(format!("{host}:{} {thread} {}", raw[2].integer(), raw[4].integer()));
        }
        ControlFlow::Continue(())
    };
    let end = reader.header().chunk_bytes;
    let read = reader.events(chunk, from..end, &mut Vec::new(), each).unwrap();
    (found, read)
}

fn header(chunk: &[u8]) -> ChunkHeader {
    read_header(chunk).unwrap().unwrap()
}

#[test]
fn a_chunk_is_read_as_far_as_its_header_says() {
    let mut recording = FlightRecording::begin(5, 7, "shop");
    recording.write(1, 1, "db", 10);
    let chunk = recording.flush().to_vec();
    let mut reader = ChunkReader::open(&chunk[..], &header(&chunk), &KEPT).unwrap();
    assert_eq!(reader.header().state, ChunkState::Growing);
    let (found, end) = writes(&reader, &chunk, 0);
    assert_eq!((found, end), (vec!["db:5432 worker 10".to_owned()], chunk.len() as u64));
    recording.write(2, 1, "cache", 20);
    let grown = recording.flush().to_vec();
    assert_eq!(writes(&reader, &grown, end).0, [""; 0], "the header was not read again");
    assert!(!reader.update(&grown[..], &header(&grown)).unwrap());
    assert_eq!(writes(&reader, &grown, end).0, ["cache:5432 worker 20"]);
    let whole = recording.complete().to_vec();
    assert!(!reader.update(&whole[..], &header(&whole)).unwrap());
    assert_eq!(reader.header().state, ChunkState::Complete);
    let late = ChunkReader::open(&whole[..], &header(&whole), &KEPT).unwrap();
    assert_eq!(writes(&late, &whole, 0).0.len(), 2, "all pools are found from the last back");
}

#[test]
fn a_cut_file_is_no_recording_yet_or_says_where_it_ends() {
    let mut recording = FlightRecording::begin(5, 7, "shop");
    recording.write(1, 1, "db", 10);
    let chunk = recording.complete().to_vec();
    for len in 0..68 {
        assert!(read_header(&chunk[..len]).unwrap().is_none(), "{len} bytes");
    }
    for len in 68..chunk.len() {
        let cut = &chunk[..len];
        let Ok(reader) = ChunkReader::open(cut, &header(cut), &KEPT) else { continue };
        let all = 0..chunk.len() as u64;
        let read = reader.events(cut, all, &mut Vec::new(), |_, _| ControlFlow::Continue(()));
        assert!(matches!(read, Err((at, _)) if at <= len as u64), "{len} bytes");
    }
    let text = b"2026-11-27 something else, and long enough to have a header of 68 bytes";
    let error = read_header(&text[..]).unwrap_err();
    assert!(matches!(error, ChunkError::Format(ReadError::NotARecording)), "{error}");
}

#[test]
fn no_changed_byte_makes_the_reader_panic() {
    let mut recording = FlightRecording::begin(5, 7, "shop");
    recording.write(1, 1, "db", 10);
    recording.flush();
    recording.write(2, 1, "cache", 20);
    let chunk = recording.complete().to_vec();
    for at in 0..chunk.len() {
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let mut changed = chunk.clone();
            changed[at] = byte;
            let Ok(Some(header)) = read_header(&changed[..]) else { continue };
            let Ok(reader) = ChunkReader::open(&changed[..], &header, &KEPT) else { continue };
            let lookup = reader.lookup();
            let plan = lookup.types.id("jdk.SocketWrite");
            let plan = plan.and_then(|id| EventPlan::new(lookup.types, id, &FIELDS));
            let each = |_, event: &millstream_jfr::read::Event<'_>| {
                if let Some(Ok(raw)) = plan.as_ref().map(|plan| plan.read(event.fields)) {
                    raw.iter().for_each(|raw| drop(lookup.text(raw, 20)));
                    lookup.stack(&raw[3], 22, 10);
                }
                ControlFlow::Continue(())
            };
            let _ = reader.events(&changed[..], 0..u64::MAX, &mut Vec::new(), each);
        }
    }
}

/// Returns a chunk that declares these types and contains no events.
fn chunk_of(types: impl IntoIterator<Item = Element>) -> Vec<u8> {
    let mut chunk = Chunk::new(&metadata::root(types), 0);
    let ticks_per_second = NonZeroU64::new(1_000_000_000).unwrap();
    let clock = Clock { ticks_per_second, start_ticks: 0, start_unix_ns: 0 };
    chunk.end(&clock, 0, |pools| varint::push(pools, 0)).to_vec()
}

#[test]
fn a_name_that_many_types_have_does_not_take_memory_for_each() {
    let name = "n".repeat(60_000);
    let types = (0..200).map(|id| metadata::class(name.clone(), TypeId(id)));
    let chunk = chunk_of(types);
    let error = ChunkReader::open(&chunk[..], &header(&chunk), &KEPT).unwrap_err();
    assert_eq!(error.to_string(), "too large: names of types and fields");
}

#[test]
fn a_length_that_is_declared_takes_no_memory() {
    let mut recording = FlightRecording::begin(5, 7, "shop");
    recording.write(1, 1, "db", 10);
    let mut chunk = recording.complete().to_vec();
    let whole = chunk.len() as u64;
    // The chunk claims to be a petabyte long, and to contain an event of 256 MiB next.
    chunk[8..16].copy_from_slice(&(1_u64 << 50).to_be_bytes());
    chunk.extend([0xff, 0xff, 0xff, 0x7f]);
    let reader = ChunkReader::open(&chunk[..], &header(&chunk), &KEPT).unwrap();
    let mut window = Vec::new();
    let each = |_, _: &millstream_jfr::read::Event<'_>| ControlFlow::Continue(());
    assert!(reader.events(&chunk[..], whole..u64::MAX, &mut window, each).is_err());
    assert!(window.capacity() <= 1 << 20, "{} bytes", window.capacity());
}

#[test]
fn pools_that_overlap_are_refused() {
    let mut recording = FlightRecording::begin(5, 7, "shop");
    recording.write(1, 1, "db", 10);
    let first = recording.flush().len();
    recording.write(2, 1, "db", 10);
    let mut chunk = recording.complete().to_vec();
    // Extend the first pools over the last pools.
    let at = u64::from_be_bytes(chunk[16..24].try_into().unwrap()) as usize;
    let first_at = (69..first).rev().find(|at| chunk[*at + 4] == 1 && chunk[*at + 3] == 0).unwrap();
    let size = (at - first_at + 8) as u32;
    let bytes = [size as u8 & 0x7f | 0x80, (size >> 7) as u8 & 0x7f | 0x80, 0x80, 0];
    chunk[first_at..first_at + 4].copy_from_slice(&bytes);
    let error = ChunkReader::open(&chunk[..], &header(&chunk), &KEPT).unwrap_err();
    assert_eq!(error.to_string(), "invalid size of constant pools or metadata");
}

#[test]
fn a_long_text_is_cut() {
    let text = vec![b'x'; 1 << 20];
    assert_eq!(Text::Latin1(&text).characters().len(), 8192);
    assert_eq!(Text::Utf8(&text).characters().len(), 8192);
}

#[test]
fn texts_of_every_encoding_have_their_characters() {
    assert_eq!(Text::Utf8("größe".as_bytes()).characters(), "größe");
    assert_eq!(Text::Latin1(b"gr\xf6\xdfe").characters(), "größe");
    assert_eq!(Text::Utf16(b"ab").characters(), "ab");
    assert_eq!(Text::Utf8(b"a\xff").characters(), "a\u{fffd}");
}
