//! The events that the source reads, and their metrics and log events: one row per event type.

use schemars::JsonSchema;
use serde::Deserialize;

/// Fields that most events have, in the order of their slots.
pub const COMMON: [&str; 4] = ["startTime", "duration", "eventThread", "stackTrace"];
/// Slot of an event's start time.
pub const START: usize = 0;
/// Slot of an event's duration.
pub const DURATION: usize = 1;
/// Slot of the thread that recorded the event.
pub const THREAD: usize = 2;
/// Slot of the event's stack.
pub const STACK: usize = 3;
/// Slot of the first field of [`Kind::fields`].
pub const OWN: usize = COMMON.len();

/// A group of events that is enabled or disabled together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Reads from and writes to sockets.
    Socket,
    /// Reads, writes and syncs of files.
    File,
    /// Garbage collections and their pauses.
    Gc,
    /// Operations that stop all threads.
    Safepoint,
    /// Waits for monitors.
    Monitor,
    /// Exceptions and errors, by class.
    Exceptions,
    /// Sampled allocations, by class.
    Allocation,
    /// The CPU load of the host and the process.
    Cpu,
}

impl Group {
    /// Groups that are enabled by default: all groups except the two with one event per exception
    /// or per sampled allocation.
    pub const DEFAULT: [Group; 6] =
        [Group::Socket, Group::File, Group::Gc, Group::Safepoint, Group::Monitor, Group::Cpu];
}

/// An event type: the fields to read, and the metrics and log events to produce from them.
#[derive(Debug)]
pub struct Kind {
    /// Name of the type.
    pub event: &'static str,
    /// Group that enables the type.
    pub group: Group,
    /// The fields that are read in addition to [`COMMON`].
    pub fields: &'static [&'static str],
    /// Tags of the metrics.
    pub tags: &'static [Tag],
    /// Name of the duration distribution.
    pub duration: Option<&'static str>,
    /// Name of a sum, with the slot of the values to add.
    pub amount: Option<(&'static str, usize)>,
    /// Name of the event counter.
    pub count: Option<&'static str>,
    /// Names of gauges, with the slots of their values.
    pub gauges: &'static [(&'static str, usize)],
    /// Slot of a flag. Events whose flag is not set are ignored.
    pub only_if: Option<usize>,
    /// Text of the log event; `None` if events of this type never become log events.
    pub log: Option<Log>,
}

/// A tag, with the slot of its value.
#[derive(Clone, Copy, Debug)]
pub enum Tag {
    /// The peer of a connection. The host, address and port are in this slot and the next two.
    Peer(usize),
    /// The first folders of a path.
    Directory(usize),
    /// A string.
    Text(&'static str, usize),
    /// The name of a class.
    Class(&'static str, usize),
}

impl Tag {
    /// Returns the slots that determine the value of the tag.
    pub fn slots(self) -> std::ops::Range<usize> {
        match self {
            Tag::Peer(at) => at..at + 3,
            Tag::Directory(at) | Tag::Text(_, at) | Tag::Class(_, at) => at..at + 1,
        }
    }
}

/// Text of a log event, by kind of event.
#[derive(Clone, Copy, Debug)]
pub enum Log {
    /// `VERB PEER took 1.5 ms, 3 bytes`.
    Socket(&'static str),
    /// `VERB PATH took 1.5 ms, 3 bytes`.
    File(&'static str),
    /// A garbage collection pause.
    Pause,
    /// A wait for the monitor of an object, with the class of the object.
    Monitor,
    /// An error, which always becomes a log event. The class and the message are in this slot and
    /// the next one.
    Error(usize),
}

const fn kind(event: &'static str, group: Group, fields: &'static [&'static str]) -> Kind {
    Kind {
        event,
        group,
        fields,
        tags: &[],
        duration: None,
        amount: None,
        count: None,
        gauges: &[],
        only_if: None,
        log: None,
    }
}

const PEER: &[Tag] = &[Tag::Peer(OWN)];
const DIRECTORY: &[Tag] = &[Tag::Directory(OWN)];
const BYTES_OF_SOCKET: usize = OWN + 3;
const BYTES_OF_FILE: usize = OWN + 1;

/// Index of `jdk.JavaExceptionThrow` in [`KINDS`].
pub const EXCEPTION_THROW: usize = 9;
/// Index of `jdk.JavaErrorThrow`.
pub const ERROR_THROW: usize = 10;

/// All event types that the source reads.
pub static KINDS: &[Kind] = &[
    Kind {
        tags: PEER,
        duration: Some("jvm.socket.read.duration_ms"),
        amount: Some(("jvm.socket.read.bytes", BYTES_OF_SOCKET)),
        log: Some(Log::Socket("socket read from")),
        ..kind("jdk.SocketRead", Group::Socket, &["host", "address", "port", "bytesRead"])
    },
    Kind {
        tags: PEER,
        duration: Some("jvm.socket.write.duration_ms"),
        amount: Some(("jvm.socket.write.bytes", BYTES_OF_SOCKET)),
        log: Some(Log::Socket("socket write to")),
        ..kind("jdk.SocketWrite", Group::Socket, &["host", "address", "port", "bytesWritten"])
    },
    Kind {
        tags: DIRECTORY,
        duration: Some("jvm.file.read.duration_ms"),
        amount: Some(("jvm.file.read.bytes", BYTES_OF_FILE)),
        log: Some(Log::File("file read from")),
        ..kind("jdk.FileRead", Group::File, &["path", "bytesRead"])
    },
    Kind {
        tags: DIRECTORY,
        duration: Some("jvm.file.write.duration_ms"),
        amount: Some(("jvm.file.write.bytes", BYTES_OF_FILE)),
        log: Some(Log::File("file write to")),
        ..kind("jdk.FileWrite", Group::File, &["path", "bytesWritten"])
    },
    Kind {
        tags: DIRECTORY,
        duration: Some("jvm.file.force.duration_ms"),
        log: Some(Log::File("file force of")),
        ..kind("jdk.FileForce", Group::File, &["path"])
    },
    Kind {
        tags: &[Tag::Text("jvm.gc.name", OWN), Tag::Text("jvm.gc.cause", OWN + 1)],
        duration: Some("jvm.gc.duration_ms"),
        ..kind("jdk.GarbageCollection", Group::Gc, &["name", "cause"])
    },
    Kind {
        duration: Some("jvm.gc.pause_ms"),
        log: Some(Log::Pause),
        ..kind("jdk.GCPhasePause", Group::Gc, &["name"])
    },
    Kind {
        tags: &[Tag::Text("jvm.safepoint.operation", OWN)],
        duration: Some("jvm.safepoint.duration_ms"),
        only_if: Some(OWN + 1),
        ..kind("jdk.ExecuteVMOperation", Group::Safepoint, &["operation", "safepoint"])
    },
    Kind {
        tags: &[Tag::Class("class", OWN)],
        duration: Some("jvm.monitor.enter.duration_ms"),
        log: Some(Log::Monitor),
        ..kind("jdk.JavaMonitorEnter", Group::Monitor, &["monitorClass"])
    },
    Kind {
        tags: &[Tag::Class("exception.type", OWN)],
        count: Some("jvm.exceptions"),
        ..kind("jdk.JavaExceptionThrow", Group::Exceptions, &["thrownClass"])
    },
    Kind {
        tags: &[Tag::Class("exception.type", OWN)],
        count: Some("jvm.exceptions"),
        log: Some(Log::Error(OWN)),
        ..kind("jdk.JavaErrorThrow", Group::Exceptions, &["thrownClass", "message"])
    },
    Kind {
        tags: &[Tag::Class("class", OWN)],
        amount: Some(("jvm.allocation.bytes", OWN + 1)),
        ..kind("jdk.ObjectAllocationSample", Group::Allocation, &["objectClass", "weight"])
    },
    Kind {
        gauges: &[("jvm.cpu.user", OWN), ("jvm.cpu.system", OWN + 1), ("jvm.cpu.machine", OWN + 2)],
        ..kind("jdk.CPULoad", Group::Cpu, &["jvmUser", "jvmSystem", "machineTotal"])
    },
];

/// Types whose values are kept from the constant pools, because events refer to them.
pub const VALUES: [&str; 7] = [
    "java.lang.String",
    "java.lang.Thread",
    "java.lang.Class",
    "jdk.types.Symbol",
    "jdk.types.GCName",
    "jdk.types.GCCause",
    "jdk.types.VMOperationType",
];

/// Additional types to keep if log events contain stacks.
pub const STACK_VALUES: [&str; 2] = ["jdk.types.StackTrace", "jdk.types.Method"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_where_their_indexes_say() {
        assert_eq!(KINDS[EXCEPTION_THROW].event, "jdk.JavaExceptionThrow");
        assert_eq!(KINDS[ERROR_THROW].event, "jdk.JavaErrorThrow");
    }
}
