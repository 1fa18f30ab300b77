//! A flight recording that grows like a JVM's: events, then the constant pools to which they refer,
//! then the header that makes both readable.

use millstream_jfr::elements::Element;
use millstream_jfr::metadata::{TypeId, class, event, field, root, start_time, thread_type, types};
use millstream_jfr::{Chunk, Clock, pools, text, varint};
use std::num::NonZeroU64;

/// The header value that marks a chunk as complete.
const COMPLETE: u8 = 0;

const SOCKET_WRITE: TypeId = TypeId(100);
const JVM_INFORMATION: TypeId = TypeId(101);
const ENVIRONMENT: TypeId = TypeId(102);

/// Nanoseconds in a millisecond; ticks are nanoseconds.
const MS: u64 = 1_000_000;

/// A recording of one chunk, written in steps.
pub struct FlightRecording {
    bytes: Vec<u8>,
    start_unix_ns: u64,
    /// Position of the last constant pools; 0 before the first.
    pools_at: u64,
    /// Names to write in the next constant pools.
    names: Vec<(u64, String)>,
    next_key: u64,
    state: u8,
}

impl FlightRecording {
    /// Begins a recording of a process at this time. Nothing is readable before the first flush.
    pub fn begin(start_unix_ns: u64, pid: u64, service: &str) -> FlightRecording {
        FlightRecording::begin_at(start_unix_ns, 0, pid, service)
    }

    /// Begins a recording that starts at tick `start_ticks`; ticks are nanoseconds. Times of events
    /// are relative to tick 0.
    pub fn begin_at(
        start_unix_ns: u64,
        start_ticks: u64,
        pid: u64,
        service: &str,
    ) -> FlightRecording {
        let mut chunk = Chunk::new(&root(declared()), start_ticks);
        let clock = Clock {
            ticks_per_second: NonZeroU64::new(1_000_000_000).unwrap(),
            start_ticks,
            start_unix_ns,
        };
        let end = chunk.end(&clock, start_ticks, |pools| varint::push(pools, 0)).to_vec();
        // Leave out the empty pools that end a chunk.
        let pools_at = u64::from_be_bytes(end[16..24].try_into().expect("8 bytes"));
        let mut bytes = end[..pools_at as usize].to_vec();
        bytes[8..24].fill(0);
        bytes[64] = 1;
        let mut recording = FlightRecording {
            bytes,
            start_unix_ns,
            pools_at: 0,
            names: Vec::new(),
            next_key: 1,
            state: 1,
        };
        recording.push(JVM_INFORMATION, |out| {
            varint::push(out, 0);
            text::push(out, "org.example.Main");
            varint::push(out, pid);
        });
        recording.push(ENVIRONMENT, |out| {
            varint::push(out, 0);
            text::push(out, "OTEL_SERVICE_NAME");
            text::push(out, service);
        });
        recording
    }

    /// Adds a write to a socket, which began `at_ms` after tick 0. The event refers to the constant
    /// pools for its host and its thread.
    pub fn write(&mut self, at_ms: u64, duration_ms: u64, host: &str, bytes: u64) {
        let key = self.next_key;
        self.next_key += 1;
        self.names.push((key, host.to_owned()));
        self.push(SOCKET_WRITE, |out| {
            varint::push(out, at_ms * MS);
            varint::push(out, duration_ms * MS);
            varint::push(out, key);
            out.push(2);
            varint::push(out, key);
            text::push(out, "10.0.0.1");
            varint::push(out, 5432);
            varint::push(out, bytes);
        });
    }

    fn push(&mut self, id: TypeId, fields: impl FnOnce(&mut Vec<u8>)) {
        let at = varint::push_size(&mut self.bytes);
        varint::push(&mut self.bytes, u64::from(id.0));
        fields(&mut self.bytes);
        varint::put_size(&mut self.bytes, at);
    }

    /// Writes the pools and the header, and returns the bytes so far.
    pub fn flush(&mut self) -> &[u8] {
        let at = self.bytes.len() as u64;
        let delta = if self.pools_at == 0 { 0 } else { self.pools_at.wrapping_sub(at) };
        let names = std::mem::take(&mut self.names);
        self.push(types::CHECKPOINT, |out| {
            varint::push(out, 0);
            varint::push(out, 0);
            varint::push(out, delta);
            out.push(0);
            varint::push(out, if names.is_empty() { 0 } else { 2 });
            if !names.is_empty() {
                push_pools(out, &names);
            }
        });
        self.pools_at = at;
        self.state = self.state % 250 + 1;
        self.header(self.state);
        &self.bytes
    }

    /// Flushes and completes the chunk, and returns the whole chunk.
    pub fn complete(&mut self) -> &[u8] {
        self.flush();
        self.header(COMPLETE);
        &self.bytes
    }

    fn header(&mut self, state: u8) {
        let size = self.bytes.len() as u64;
        self.bytes[8..16].copy_from_slice(&size.to_be_bytes());
        self.bytes[16..24].copy_from_slice(&self.pools_at.to_be_bytes());
        self.bytes[32..40].copy_from_slice(&self.start_unix_ns.to_be_bytes());
        self.bytes[64] = state;
    }
}

fn push_pools(out: &mut Vec<u8>, names: &[(u64, String)]) {
    varint::push(out, u64::from(types::STRING.0));
    varint::push(out, names.len() as u64);
    for (key, name) in names {
        varint::push(out, *key);
        text::push(out, name);
    }
    varint::push(out, u64::from(types::THREAD.0));
    varint::push(out, names.len() as u64);
    for (key, _) in names {
        varint::push(out, *key);
        pools::push_thread(out, "worker", 7);
    }
}

/// Returns the declared types.
fn declared() -> Vec<Element> {
    let key = |name, id, label| field(name, id, label).with("constantPool", "true");
    vec![
        class("int", types::INT),
        class("long", types::LONG),
        class("java.lang.String", types::STRING),
        thread_type(),
        event("jdk.SocketWrite", SOCKET_WRITE).containing([
            start_time(),
            field("duration", types::LONG, "Duration"),
            key("eventThread", types::THREAD, "Thread"),
            field("host", types::STRING, "Host"),
            field("address", types::STRING, "Address"),
            field("port", types::INT, "Port"),
            field("bytesWritten", types::LONG, "Bytes"),
        ]),
        event("jdk.JVMInformation", JVM_INFORMATION).containing([
            start_time(),
            field("javaArguments", types::STRING, "Arguments"),
            field("pid", types::LONG, "PID"),
        ]),
        event("jdk.InitialEnvironmentVariable", ENVIRONMENT).containing([
            start_time(),
            field("key", types::STRING, "Key"),
            field("value", types::STRING, "Value"),
        ]),
    ]
}
