//! Files of the recorder: any bytes, and a valid copy that is changed.

use crate::Random;
use millstream_recorder::event::Event;
use millstream_recorder::jfr::{JfrWriter, Recording};
use millstream_recorder::snapshot::{Reader, Snapshot};

pub const WORDS: &[&[u8]] = &[
    b"MSRINGS\0",
    b"MSCOPY\0\0",
    b"\x01\0\0\0\0\0\0\0",
    b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
    b"\0\0\0\0\0\0\0\x80",
    b"\0\0\x80\0",
    b"\xFF",
];

/// A copy with an event of each type.
const VALID: &[u8] = include_bytes!("../../corpus/recorder/valid");

/// Maximum bytes of an event in a JFR file.
const EVENT_BYTES_MAX: usize = 127;

/// Maximum bytes of a chunk of a JFR file without its events: header, declarations, settings,
/// names.
const REST_BYTES_MAX: usize = 1 << 20;

/// Checks that reading any bytes yields a limited number of events, which can be written as a JFR
/// file, and that a second reading yields no new events.
pub fn recorder(input: &[u8]) {
    read(input);
    read(&changed(input));
}

/// Overwrites words of the valid copy with words of the input. The input also determines the
/// positions.
fn changed(input: &[u8]) -> Vec<u8> {
    let mut bytes = VALID.to_vec();
    let mut random = Random::of(input);
    for change in input.chunks(8) {
        let at = random.below(bytes.len() / 8) * 8;
        bytes[at..at + change.len()].copy_from_slice(change);
    }
    bytes
}

fn read(bytes: &[u8]) {
    let Ok(snapshot) = Snapshot::parse(bytes) else { return };
    let settings = snapshot.settings();
    let end_ticks = snapshot.latest_ticks();
    let recording = Recording { clock: snapshot.clock(), end_ticks, settings: &settings };
    let mut writer = JfrWriter::new(Vec::new(), &recording);
    let mut reader = Reader::default();
    let mut events = 0;
    reader.read(&snapshot, |event: &Event, names| {
        events += 1;
        writer.write(event, names).unwrap();
    });
    assert!(events * 32 <= bytes.len(), "{events} events of {} bytes", bytes.len());
    let file = writer.finish(&reader).unwrap();
    assert!(file.starts_with(b"FLR\0"));
    assert!(file.len() <= events * EVENT_BYTES_MAX + REST_BYTES_MAX);
    reader.read(&snapshot, |event, _| panic!("read twice: {event:?}"));
    assert!(!snapshot.agent_version().contains('\0'));
}
