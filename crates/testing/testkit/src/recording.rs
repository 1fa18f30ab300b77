//! The events that a process records about its work, and the counts of the system.

use millstream_recorder::event::Tables;
use millstream_recorder::ids::TextId;
use millstream_recorder::recorder::{self, Destination};
use millstream_recorder::schema::{EventKind, Field, FieldKind, Value};
use millstream_recorder::snapshot::{Reader, SlotCounts, Snapshot};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;

/// Size of a recording in memory, in bytes.
const BYTES: u64 = 16 << 20;

/// The events of one type about one file, connection or component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedSum {
    /// Number of events.
    pub events: usize,
    /// Sum of the events' bytes.
    pub bytes: u64,
    /// Sum of the events' counts, such as rows.
    pub counts: u64,
    /// Number of events whose flag is set, such as the flag for the end of the file.
    pub flags: usize,
}

/// A test that records. Other recording tests wait until this test is over, because an event has no
/// name if another thread stores a name at the same moment.
#[must_use = "until it is dropped, no other test records"]
pub struct RecordingTest {
    _only: MutexGuard<'static, ()>,
}

/// Starts recording in memory, unless the process is already recording. Waits until no other test
/// records.
///
/// # Panics Panics if there is no memory.
pub fn start_recording() -> RecordingTest {
    static ONLY: Mutex<()> = Mutex::new(());
    let only = ONLY.lock();
    if recorder::settings().is_none() {
        let started = recorder::start_run(&Destination::Memory, BYTES, &recorder::defaults());
        started.expect("memory");
    }
    RecordingTest { _only: only }
}

/// Returns the recorded events of a type, by subject: the path of a file; or host, address and port
/// of a connection, separated by commas.
///
/// # Panics
/// Panics if the process does not record.
pub fn recorded(kind: EventKind) -> BTreeMap<String, RecordedSum> {
    let copy = recorder::copy(&SlotCounts::new()).expect("a recording");
    let snapshot = Snapshot::parse(&copy).expect("a copy");
    assert_eq!(recorder::omitted(), recorder::Omitted::default());
    let mut sums: BTreeMap<String, RecordedSum> = BTreeMap::new();
    Reader::default().read(&snapshot, |event, names| {
        if event.kind != kind {
            return;
        }
        let fields = || event.kind.spec().fields.iter().zip(event.values);
        let shared = fields().filter(|(field, _)| field.is_shared);
        let shared: Vec<String> = shared.map(|(field, bits)| shown(field, bits, names)).collect();
        let sum = sums.entry(shared.join(",")).or_default();
        sum.events += 1;
        for (field, bits) in fields().filter(|(field, _)| !field.is_shared) {
            match field.kind {
                FieldKind::Bytes => sum.bytes += bits,
                FieldKind::Count => sum.counts += bits,
                FieldKind::Flag => sum.flags += usize::from(bits != 0),
                _ => {}
            }
        }
    });
    sums
}

fn shown(field: &Field, bits: u64, names: &Reader) -> String {
    match Value::from_bits(field.kind, bits) {
        Value::Text(id @ TextId(_)) => names.text(id).unwrap_or("?").to_owned(),
        value => value.to_bits().to_string(),
    }
}

/// Bytes that system calls have returned to one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadBytes {
    /// Bytes returned by reads.
    pub read: u64,
    /// Bytes returned by writes.
    pub written: u64,
}

/// Returns the bytes that `work` reads and writes on this thread, as the system counts them: for
/// files and other descriptors, but not for data received with socket calls.
///
/// # Panics
/// Panics if the system does not count.
pub fn thread_bytes(work: impl FnOnce()) -> ThreadBytes {
    let count = || std::fs::read_to_string("/proc/thread-self/io").expect("a kernel that counts");
    let before = count();
    work();
    let after = count();
    let number = |text: &str, name: &str| -> u64 {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.and_then(|value| value.trim().parse().ok()).expect("a number")
    };
    let added = |name: &str| number(&after, name) - number(&before, name);
    // The second reading includes the bytes of the first one.
    ThreadBytes { read: added("rchar:") - before.len() as u64, written: added("wchar:") }
}
