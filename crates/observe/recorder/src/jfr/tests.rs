//! Tests the bytes of complete files.

use super::*;
use crate::event::{Thread, bits};
use crate::ids::{SubjectId, TextId, ThreadId};
use crate::schema::Value;
use std::num::NonZeroU64;

struct Names {
    texts: Vec<String>,
}

impl Tables for Names {
    fn text(&self, id: TextId) -> Option<&str> {
        self.texts.get(id.0 as usize).map(|text| &text[..])
    }

    fn thread(&self, id: ThreadId) -> Option<Thread<'_>> {
        (id.0 == 0).then_some(Thread { name: "worker", os_id: 77 })
    }
}

fn recording() -> Recording<'static> {
    let ticks_per_second = NonZeroU64::new(1_000_000_000).unwrap();
    let clock = Clock { ticks_per_second, start_ticks: 1000, start_unix_ns: 5_000_000 };
    Recording { clock, end_ticks: 3000, settings: &[] }
}

fn written(texts: &[&str], events: &[Event]) -> Vec<u8> {
    let tables = Names { texts: texts.iter().map(|text| (*text).to_owned()).collect() };
    write(Vec::new(), &recording(), &tables, events.iter().copied()).unwrap()
}

fn event(path: u32, length: u64) -> Event {
    let values = bits([Value::Text(TextId(path)), Value::Bytes(length)]);
    let kind = EventKind::FileWrite;
    let (thread, subject) = (ThreadId(0), SubjectId(0));
    Event { kind, thread, subject, start_ticks: 1100, duration_ticks: 300, values }
}

/// Returns a number in a chunk header.
fn number(chunk: &[u8], at: usize) -> usize {
    u64::from_be_bytes(chunk[at..at + 8].try_into().unwrap()) as usize
}

/// Splits a file into chunks according to the sizes in their headers.
fn chunks(file: &[u8]) -> Vec<&[u8]> {
    let mut rest = file;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at(number(rest, 8));
        found.push(chunk);
        rest = behind;
    }
    found
}

#[test]
fn a_file_without_events_has_no_pools() {
    let file = written(&["/a"], &[]);
    let pools = &file[number(&file, 16)..];
    // Size, type, start, duration, offset of earlier pools, checkpoint type, number of pools.
    assert_eq!(pools, [0x8b, 0x80, 0x80, 0, 1, 0xe8, 7, 0, 0, 0, 0]);
    assert_eq!(number(&file, 8), file.len());
    assert_eq!(number(&file, 32), 5_000_000);
    assert_eq!(number(&file, 40), 2000);
}

#[test]
fn an_event_refers_to_its_thread_and_texts() {
    let file = written(&["/a", "/b", "", "/c"], &[event(3, 300), event(2, 0), event(4, 1)]);
    let pools_at = number(&file, 16);
    let kind = 80 + EventKind::FileWrite as u8;
    let start = [0xcc, 8, 0xac, 2];
    let events = [
        &[11, kind][..],
        &start,
        &[1, 2, 4, 0xac, 2],
        &[10, kind],
        &start,
        &[1, 2, 3, 0],
        &[9, kind],
        &start,
        &[1, 0, 1],
    ];
    let events = events.concat();
    assert_eq!(&file[pools_at - events.len()..pools_at], events);
    let pools =
        [&[2, 20, 2, 4, 3, 2, b'/', b'c', 3, 1][..], &[22, 1, 1, 3, 6], b"worker", &[77, 0, 0]];
    let pools = pools.concat();
    assert!(file.ends_with(&pools), "{:?}", &file[pools_at..]);
}

/// The times of all events are relative to the header.
#[test]
fn an_event_after_the_end_does_not_change_the_header() {
    let last = Event { start_ticks: u64::MAX, ..event(0, 1) };
    let file = written(&["/a"], &[last]);
    assert_eq!(number(&file, 32), 5_000_000);
    assert_eq!(number(&file, 40), 2000);
}

#[test]
fn chunks_are_complete_and_their_durations_add_up() {
    let count = 2 * CHUNK_BYTES_MAX / 12;
    let numbered = |index: usize| Event { start_ticks: 1000 + index as u64, ..event(0, 300) };
    let events: Vec<Event> = (0..count).map(numbered).collect();
    let tables = Names { texts: vec!["/a".to_owned()] };
    let end_ticks = 1000 + count as u64 + 300;
    let recording = Recording { end_ticks, ..recording() };
    let file = write(Vec::new(), &recording, &tables, events).unwrap();
    let chunks = chunks(&file);
    assert!(chunks.len() > 1, "{} bytes", file.len());
    for pair in chunks.windows(2) {
        assert_eq!(number(pair[0], 32) + number(pair[0], 40), number(pair[1], 32));
    }
    for chunk in &chunks {
        assert!(chunk.len() <= CHUNK_BYTES_MAX + (64 << 10));
        assert!(chunk.ends_with(b"worker\x4d\0\0"));
    }
    let total: usize = chunks.iter().map(|chunk| number(chunk, 40)).sum();
    assert_eq!(total, count + 300);
    assert!(chunks.iter().all(|chunk| number(chunk, 40) > 0));
}

#[test]
fn texts_count_for_the_length_of_a_chunk_and_are_cut() {
    let long = "ä".repeat(100_000);
    let texts: Vec<&str> = (0..300).map(|_| &long[..]).collect();
    let events: Vec<Event> = (0..300).map(|id| event(id, 1)).collect();
    let file = written(&texts, &events);
    let chunks = chunks(&file);
    assert_eq!(chunks.len(), 3);
    assert!(chunks.iter().all(|chunk| chunk.len() <= CHUNK_BYTES_MAX + (128 << 10)));
}

#[test]
fn errors_of_the_output_are_returned() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let tables = Names { texts: Vec::new() };
    let result = write(Full, &recording(), &tables, [event(0, 1)]);
    assert_eq!(result.err().unwrap().kind(), io::ErrorKind::StorageFull);
}
