//! The event types. To add one, add a variant to [`EventKind`] and an entry to [`EVENTS`].

use super::{EventSpec, FIELDS_MAX, Field, FieldKind, PerSecond, Settings};
use std::time::Duration;

/// An event type. Its number is its position in [`EVENTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "EVENTS describes each of them")]
pub enum EventKind {
    FileRead,
    FileWrite,
    FileSync,
    SocketRead,
    SocketWrite,
    BatchStage,
    WaitForCapacity,
    Flush,
    Retry,
    Drop,
    Checkpoint,
    Snapshot,
    Spool,
    JvmCall,
    Collection,
    Reload,
    Throttle,
    Rebalance,
}

impl EventKind {
    /// Returns the declaration.
    pub const fn spec(self) -> &'static EventSpec {
        &EVENTS[self as usize]
    }

    /// Returns the type with this name, such as `FileRead`.
    pub fn named(name: &str) -> Option<EventKind> {
        EVENTS.iter().find(|spec| spec.name == name).map(|spec| spec.kind)
    }

    /// Returns the type with this number.
    pub fn of_number(number: u8) -> Option<EventKind> {
        EVENTS.get(usize::from(number)).map(|spec| spec.kind)
    }
}

const fn field(name: &'static str, label: &'static str, kind: FieldKind) -> Field {
    Field { name, label, kind, is_shared: false }
}

/// A field with the same value in all events of one file, connection or component.
const fn shared(name: &'static str, label: &'static str, kind: FieldKind) -> Field {
    Field { name, label, kind, is_shared: true }
}

const PATH: Field = shared("path", "Path", FieldKind::Text);
const HOST: Field = shared("host", "Remote Host", FieldKind::Text);
const ADDRESS: Field = shared("address", "Remote Address", FieldKind::Text);
const PORT: Field = shared("port", "Remote Port", FieldKind::Unsigned);
const COMPONENT: Field = shared("component", "Component", FieldKind::Text);
const REASON: Field = field("reason", "Reason", FieldKind::Text);
const OUTCOME: Field = field("outcome", "Outcome", FieldKind::Text);
const BYTES_READ: Field = field("bytesRead", "Bytes Read", FieldKind::Bytes);
const BYTES_WRITTEN: Field = field("bytesWritten", "Bytes Written", FieldKind::Bytes);
const BYTES: Field = field("bytes", "Bytes", FieldKind::Bytes);
const ROWS: Field = field("rows", "Rows", FieldKind::Count);

const FILE: &[&str] = &["Millstream", "File"];
const SOCKET: &[&str] = &["Millstream", "Socket"];
const PIPELINE: &[&str] = &["Millstream", "Pipeline"];
const STATE: &[&str] = &["Millstream", "State"];
const JVM: &[&str] = &["Millstream", "JVM"];
const CONTROL: &[&str] = &["Millstream", "Control"];

/// Records every event, so that sums over these types are correct.
const ALWAYS: Settings =
    Settings { enabled: true, threshold: Duration::ZERO, rate: None, stack: false };

/// Records events of at least a millisecond. Shorter events are frequent and do not explain delays.
const FROM_1_MS: Settings = Settings { threshold: Duration::from_millis(1), ..ALWAYS };

/// Records up to 100 events per second, because one fault can cause thousands.
const UP_TO_100_PER_S: Settings = Settings { rate: Some(PerSecond(100)), ..ALWAYS };

/// All types, by their number.
pub static EVENTS: [EventSpec; 18] = [
    EventSpec {
        kind: EventKind::FileRead,
        name: "FileRead",
        label: "File Read",
        category: FILE,
        description: "Data was read from a file.",
        has_duration: true,
        is_frequent: true,
        fields: &[PATH, BYTES_READ, field("endOfFile", "End of File", FieldKind::Flag)],
        defaults: ALWAYS,
    },
    EventSpec {
        kind: EventKind::FileWrite,
        name: "FileWrite",
        label: "File Write",
        category: FILE,
        description: "Data was written to a file.",
        has_duration: true,
        is_frequent: true,
        fields: &[PATH, BYTES_WRITTEN],
        defaults: ALWAYS,
    },
    EventSpec {
        kind: EventKind::FileSync,
        name: "FileSync",
        label: "File Sync",
        category: FILE,
        description: "A file was synced to disk.",
        has_duration: true,
        is_frequent: false,
        fields: &[PATH],
        defaults: ALWAYS,
    },
    EventSpec {
        kind: EventKind::SocketRead,
        name: "SocketRead",
        label: "Socket Read",
        category: SOCKET,
        description: "Data was read from a socket.",
        has_duration: true,
        is_frequent: true,
        fields: &[HOST, ADDRESS, PORT, BYTES_READ],
        defaults: ALWAYS,
    },
    EventSpec {
        kind: EventKind::SocketWrite,
        name: "SocketWrite",
        label: "Socket Write",
        category: SOCKET,
        description: "Data was written to a socket.",
        has_duration: true,
        is_frequent: true,
        fields: &[HOST, ADDRESS, PORT, BYTES_WRITTEN],
        defaults: ALWAYS,
    },
    EventSpec {
        kind: EventKind::BatchStage,
        name: "BatchStage",
        label: "Batch Stage",
        category: PIPELINE,
        description: "A component processed a batch.",
        has_duration: true,
        is_frequent: true,
        fields: &[COMPONENT, ROWS, BYTES],
        defaults: ALWAYS,
    },
    EventSpec {
        kind: EventKind::WaitForCapacity,
        name: "WaitForCapacity",
        label: "Wait for Capacity",
        category: PIPELINE,
        description: "A component waited until another component or the memory grant had capacity.",
        has_duration: true,
        is_frequent: false,
        fields: &[
            COMPONENT,
            shared("waitsFor", "Waits for", FieldKind::Text),
            field("bytes", "Bytes Needed", FieldKind::Bytes),
        ],
        defaults: FROM_1_MS,
    },
    EventSpec {
        kind: EventKind::Flush,
        name: "Flush",
        label: "Flush",
        category: PIPELINE,
        description: "A component emitted its accumulated data.",
        has_duration: true,
        is_frequent: false,
        fields: &[COMPONENT, field("due", "Due", FieldKind::Timestamp), ROWS],
        defaults: ALWAYS,
    },
    EventSpec {
        kind: EventKind::Retry,
        name: "Retry",
        label: "Retry",
        category: PIPELINE,
        description: "A delivery failed and will be retried.",
        has_duration: false,
        is_frequent: false,
        fields: &[
            COMPONENT,
            REASON,
            field("code", "HTTP Status or Negative System Error", FieldKind::Signed),
            field("attempt", "Failed Attempts", FieldKind::Count),
            field("pause", "Pause before the Next Attempt", FieldKind::Duration),
        ],
        defaults: UP_TO_100_PER_S,
    },
    EventSpec {
        kind: EventKind::Drop,
        name: "Drop",
        label: "Drop",
        category: PIPELINE,
        description: "Rows were rejected or dropped.",
        has_duration: false,
        is_frequent: false,
        fields: &[COMPONENT, REASON, ROWS],
        defaults: UP_TO_100_PER_S,
    },
    EventSpec {
        kind: EventKind::Checkpoint,
        name: "Checkpoint",
        label: "Checkpoint",
        category: STATE,
        description: "Checkpoints were committed to the store.",
        has_duration: true,
        is_frequent: false,
        fields: &[field("checkpoints", "Checkpoints", FieldKind::Count), OUTCOME],
        defaults: ALWAYS,
    },
    EventSpec {
        kind: EventKind::Snapshot,
        name: "Snapshot",
        label: "Snapshot",
        category: STATE,
        description: "The state of a component was encoded and stored.",
        has_duration: true,
        is_frequent: false,
        fields: &[COMPONENT, BYTES],
        defaults: ALWAYS,
    },
    EventSpec {
        kind: EventKind::Spool,
        name: "Spool",
        label: "Disk Buffer",
        category: STATE,
        description: "Payloads were appended to a disk buffer, read from it or released.",
        has_duration: true,
        is_frequent: true,
        fields: &[
            COMPONENT,
            field("operation", "Operation", FieldKind::Text),
            field("payloads", "Payloads", FieldKind::Count),
            BYTES,
        ],
        defaults: ALWAYS,
    },
    EventSpec {
        kind: EventKind::JvmCall,
        name: "JvmCall",
        label: "JVM Call",
        category: JVM,
        description: "An operator or a collector in a JVM was called.",
        has_duration: true,
        is_frequent: true,
        fields: &[COMPONENT, ROWS, BYTES, OUTCOME],
        defaults: ALWAYS,
    },
    EventSpec {
        kind: EventKind::Collection,
        name: "Collection",
        label: "Garbage Collection",
        category: JVM,
        description: "A JVM collected garbage.",
        has_duration: true,
        is_frequent: false,
        fields: &[
            shared("collector", "Collector", FieldKind::Text),
            field("cause", "Cause", FieldKind::Text),
            field("heapBefore", "Heap Before", FieldKind::Bytes),
            field("heapAfter", "Heap After", FieldKind::Bytes),
        ],
        defaults: ALWAYS,
    },
    EventSpec {
        kind: EventKind::Reload,
        name: "Reload",
        label: "Reload",
        category: CONTROL,
        description: "The configuration was reloaded.",
        has_duration: true,
        is_frequent: false,
        fields: &[OUTCOME, field("components", "Changed Components", FieldKind::Count)],
        defaults: ALWAYS,
    },
    EventSpec {
        kind: EventKind::Throttle,
        name: "Throttle",
        label: "Throttle",
        category: CONTROL,
        description: "A component was slowed down to stay within a limit.",
        has_duration: true,
        is_frequent: false,
        fields: &[COMPONENT, REASON, field("limit", "Limit per Second", FieldKind::Float)],
        defaults: FROM_1_MS,
    },
    EventSpec {
        kind: EventKind::Rebalance,
        name: "Rebalance",
        label: "Rebalance",
        category: CONTROL,
        description: "Partitions of a consumer group were assigned or revoked.",
        has_duration: true,
        is_frequent: false,
        fields: &[
            COMPONENT,
            shared("group", "Consumer Group", FieldKind::Text),
            field("assigned", "Assigned Partitions", FieldKind::Count),
            field("revoked", "Revoked Partitions", FieldKind::Count),
        ],
        defaults: ALWAYS,
    },
];

/// Each entry is at the position of its type's number, and its fields fit into an event.
const _: () = {
    let mut number = 0;
    while number < EVENTS.len() {
        assert!(EVENTS[number].kind as usize == number);
        assert!(EVENTS[number].fields.len() <= FIELDS_MAX);
        number += 1;
    }
};
