//! Contract tests of components, run for every row of the registry with the options of its sample,
//! so that a new row is covered automatically.
//!
//! Each row is checked in a separate process, because some components use standard input and
//! output.

#[path = "harness/stored.rs"]
mod stored;

use millstream_components::component::{AnyComponent, BuildCx};
use millstream_components::registry::{Row, rows};
use millstream_model::{
    Batch, BlockPool, Counters, Delivery, EncodeCx, Encoder, Grant, InternalLogs, InternalMetric,
    InternalMetrics, Kind, Lane, LaneCx, Ledger, LogRecord, Map, OriginId, Outcome, Outputs,
    Payload, Polled, Selection, Settled, Sink, SinkIndex, SinkSet, Source, TIME_UNKNOWN, Transform,
};
use millstream_testkit::{
    FlightRecording, JournalEntry, JournalWriter, Rows, SourceRig, assert_valid, batch, yaml,
};
use millstream_testkit_servers::http::{HttpServer, ReceivedRequest, Reply};
use millstream_testkit_servers::kafka::{Kafka, Written};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Environment variable with the row to check, set in the child process.
const ROW: &str = "MILLSTREAM_HARNESS_ROW";

/// Real time to wait for a source with its own thread before it is polled again.
const POLL_PAUSE: Duration = Duration::from_millis(2);

/// Number of polls after which a source that has neither ended nor returned a batch is stuck.
const POLLS_MAX: usize = 5000;

/// Input lines for sources: lines that filters keep, empty lines, both line endings.
fn input() -> String {
    (0..3000).map(|n| format!("ERROR line {n} status=503{}\n\n", ["", "\r"][n % 2])).collect()
}

/// Runs `check` for every row of a kind, each in a separate process that runs only `test`. The
/// process reads lines from its standard input; its standard output is discarded.
fn for_each(kind: Kind, test: &str, check: fn(Value, &Row)) {
    let dir = tempfile::tempdir().unwrap();
    if let Ok(name) = std::env::var(ROW) {
        let row = rows().find(|row| row.kind == kind && row.name == name).unwrap();
        return check(placed(options(row), dir.path()), row);
    }
    fs::write(dir.path().join("stdin"), input()).unwrap();
    for row in rows().filter(|row| row.kind == kind) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let test = format!("harness::{test}");
        command.args([&*test, "--exact", "--nocapture"]).env(ROW, row.name);
        let output = command.stdin(File::open(dir.path().join("stdin")).unwrap()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{kind} {}: {test}:\n{text}", row.name);
        // A name without a test passes, too.
        let summary = String::from_utf8_lossy(&output.stdout);
        assert!(summary.contains("1 passed"), "{kind} {}: {test} did not run", row.name);
    }
}

/// Returns a component's specific options from its sample.
fn options(row: &Row) -> Value {
    let sample = yaml(row.sample);
    let components = sample[row.kind.section()].as_object().expect("components of its kind");
    let mut options =
        components.values().find(|c| c["type"] == row.name).expect("one of its type").clone();
    for common in ["type", "inputs", "attributes", "host", "priority", "rate_limit", "buffer"] {
        options.as_object_mut().unwrap().shift_remove(common);
    }
    options
}

/// Replaces the servers in the options with reachable servers, and removes files and credentials,
/// which `tests/e2e` covers.
fn connected(mut options: Value, row: &Row) -> Value {
    let own = options.as_object_mut().unwrap();
    own.shift_remove("proxy");
    let mut set = |key: &str, value: Value| drop(own.insert(key.into(), value));
    match row.name {
        "kafka" => {
            let kafka = Kafka::shared();
            let topic = topic();
            kafka.create_topic(&topic, 3);
            set("brokers", json!([kafka.bootstrap()]));
            set("topic", json!(topic));
        }
        // The server runs until the process exits.
        "http" => set(
            "uri",
            json!(Box::leak(Box::new(HttpServer::start(|_| Reply::status(200)))).uri("/")),
        ),
        "elasticsearch" => {
            let server = Box::leak(Box::new(HttpServer::start(accept_all)));
            set("endpoints", json!([server.uri("/")]));
            set("compression", json!("none"));
        }
        "tcp" => {
            set("address", json!(format!("127.0.0.1:{}", reader())));
            set("framing", json!("newline"));
        }
        "prometheus_exporter" => set("listen", json!("127.0.0.1:0")),
        _ => return options,
    }
    let away: &[&str] = match row.name {
        "tcp" => &["tls", "acknowledgements", "compression", "compression_level", "batch"],
        "elasticsearch" => &["tls", "auth", "compression_level"],
        _ => &["tls", "sasl", "auth"],
    };
    away.iter().for_each(|key| drop(own.shift_remove(*key)));
    options
}

/// Returns a name for a topic and a group that no other process uses, because all tests share the
/// broker.
fn topic() -> String {
    format!("harness-{}", std::process::id())
}

/// Responds to a bulk request that each document was added.
fn accept_all(request: &ReceivedRequest) -> Reply {
    let lines = request.body.iter().filter(|byte| **byte == b'\n').count();
    let items = vec![json!({ "create": { "status": 201 } }); lines / 2];
    Reply::Status(200, Vec::new(), json!({ "errors": false, "items": items }).to_string())
}

/// Starts a server that discards all input until the process exits; returns its port.
fn reader() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || io::copy(&mut stream, &mut io::sink()));
        }
    });
    port
}

/// Moves every absolute path in the options below `dir`.
fn placed(options: Value, dir: &Path) -> Value {
    match options {
        Value::String(text) if text.starts_with('/') => {
            Value::from(format!("{}{text}", dir.display()))
        }
        Value::Array(items) => items.into_iter().map(|item| placed(item, dir)).collect(),
        Value::Object(map) => {
            map.into_iter().map(|(key, value)| (key, placed(value, dir))).collect()
        }
        other => other,
    }
}

/// Every sample is a valid configuration of its component, from which it can be built.
#[test]
fn samples_are_configurations_of_their_component() {
    for row in rows() {
        let options = options(row);
        let component = (row.decode)(options).unwrap();
        assert_eq!((component.kind(), component.check()), (row.kind, vec![]), "{}", row.name);
        let built = match component {
            AnyComponent::Source(_) => Ok(()),
            AnyComponent::Transform(transform) => transform.build(&BuildCx::default()).map(drop),
            AnyComponent::Sink(sink) => sink.build().map(drop),
        };
        assert!(built.is_ok(), "{} {}: {built:?}", row.kind, row.name);
    }
}

// Sources.

/// Builds a source from its sample, with files if it reads files, points in its socket, and metrics
/// of the agent.
fn source(mut options: Value, row: &Row, until_eof: bool) -> (SourceRig, Box<dyn Source>) {
    if row.name == "kafka" {
        read_topic(&mut options);
    }
    if row.name == "host_metrics" {
        // The source reads the metrics of this host.
        let own = options.as_object_mut().unwrap();
        ["proc", "sys", "root", "filesystems", "cgroups"]
            .iter()
            .for_each(|key| drop(own.shift_remove(*key)));
    }
    match row.name {
        "journald" => make_journal(&mut options),
        _ => make_files(&options, &content(row.name)),
    }
    let own = options.as_object_mut().unwrap();
    // Joined lines would be too few events.
    own.shift_remove("multiline");
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("points.sock");
    let listens = own.contains_key("listen");
    // A datagram is one message of syslog.
    let scheme = if row.name == "syslog" { "unix" } else { "unixgram" };
    if listens {
        own.insert("listen".into(), json!([format!("{scheme}://{}", socket.display())]));
        own.shift_remove("tls");
    }
    let mut rig = SourceRig::new(&["a", "b"]);
    (rig.until_eof, rig.expansion, rig.internal_metrics) = (until_eof, 1000, internal_metrics());
    rig.internal_logs = internal_logs();
    let AnyComponent::Source(component) = (row.decode)(options).unwrap() else {
        panic!("no source")
    };
    let source = component.open(rig.open()).unwrap();
    if scheme == "unix" {
        UnixStream::connect(&socket).unwrap().write_all(&points(row.name)).unwrap();
    } else if listens {
        let sender = UnixDatagram::unbound().unwrap();
        sender.send_to(&points(row.name), &socket).unwrap();
    }
    (rig, source)
}

/// Replaces the servers with a broker with 2,000 records, and removes files and credentials.
fn read_topic(options: &mut Value) {
    let kafka = Kafka::shared();
    let topic = topic();
    kafka.create_topic(&topic, 2);
    kafka.write(&topic, (0..2000).map(|n| Written::text(format!("record {n}")).to(n % 2)));
    let own = options.as_object_mut().unwrap();
    own.insert("brokers".into(), json!([kafka.bootstrap()]));
    own.insert("topics".into(), json!([topic]));
    // A group with members of other processes waits for them.
    own.insert("group".into(), json!(topic));
    ["tls", "sasl", "options"].iter().for_each(|key| drop(own.shift_remove(*key)));
}

/// Returns the agent's log with 1,020 waiting records, which is close to the maximum.
fn internal_logs() -> InternalLogs {
    let logs = InternalLogs::keeping();
    for n in 0..1020 {
        logs.publish(|| LogRecord {
            unix_ns: 1_700_000_000_000_000_000 + n,
            level: "warn",
            target: "millstream".to_owned(),
            message: format!("sink out: message {n}"),
        });
    }
    logs
}

fn internal_metrics() -> InternalMetrics {
    InternalMetrics::new(|each| {
        for n in 0..2000 {
            each(&InternalMetric {
                name: &format!("metric_{n}"),
                labels: &[],
                is_counter: true,
                value: 1.0,
            });
        }
    })
}

/// Returns a datagram with one point for each of 2,000 series, or a stream of as many messages.
fn points(source: &str) -> Vec<u8> {
    if source == "syslog" {
        return (0..2000).map(|n| format!("<13>app: message {n}\n")).collect::<String>().into();
    }
    if source == "dogstatsd" {
        return (0..2000).map(|n| format!("n{n}:1|c\n")).collect::<String>().into_bytes();
    }
    let mut message = vec![0xDC, 0x07, 0xD0];
    for n in 1000..3000 {
        message.extend_from_slice(b"\x94\xA4emit\xA7counter\xA4");
        message.extend_from_slice(n.to_string().as_bytes());
        message.extend_from_slice(b"\xA11");
    }
    message
}

/// Returns the content of the files of a source: a recording of 2,000 slow calls, or lines.
fn content(source: &str) -> Vec<u8> {
    if source != "jfr" {
        return input().into_bytes();
    }
    let mut recording = FlightRecording::begin(1_700_000_000_000_000_000, 4711, "shop");
    for n in 0..2000 {
        recording.write(n, 200, "db", 10);
    }
    recording.complete().to_vec()
}

/// Creates a journal of 2,000 entries in the first folder. Removes the conditions on entries, which
/// unit tests cover.
fn make_journal(options: &mut Value) {
    let folder = options["path"][0].as_str().unwrap().to_owned();
    fs::create_dir_all(&folder).unwrap();
    let mut journal = JournalWriter::begin(1, 2);
    for n in 1..=2000 {
        journal.add(&JournalEntry::new(n, &format!("entry {n}")).field("_SYSTEMD_UNIT=a.service"));
    }
    journal.write(&Path::new(&folder).join("system.journal"));
    let own = options.as_object_mut().unwrap();
    ["units", "identifiers", "matches"].iter().for_each(|key| drop(own.shift_remove(*key)));
}

/// Creates a file of this content for every path or glob pattern.
fn make_files(options: &Value, content: &[u8]) {
    match options {
        Value::String(text) if text.starts_with('/') => {
            let path = one_match(text);
            fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Value::Array(items) => items.iter().for_each(|item| make_files(item, content)),
        Value::Object(map) => map.values().for_each(|value| make_files(value, content)),
        _ => {}
    }
}

/// Returns a path that matches a pattern. A wildcard becomes `x`, and alternatives become the first
/// of them.
fn one_match(pattern: &str) -> String {
    let (mut path, mut braces) = (String::new(), "");
    for c in pattern.chars() {
        match (braces, c) {
            ("", '*' | '?') => path.push('x'),
            ("", '{') => braces = "first",
            ("first", ',') => braces = "rest",
            (_, '}') => braces = "",
            ("rest", _) => {}
            _ => path.push(c),
        }
    }
    path
}

/// Gives a source time to work: on its simulated clock, and a little real time.
fn pause(rig: &mut SourceRig) {
    rig.wait_for_wake(POLL_PAUSE);
    rig.advance(Duration::from_secs(1));
}

/// Maximum memory in bytes that a source needs to know its files, without their data.
const STATE_BYTES_MAX: u64 = 64 << 10;

/// While no sink has capacity, a source returns nothing and holds no data.
#[test]
fn a_source_under_backpressure_reads_nothing() {
    for_each(Kind::Source, "a_source_under_backpressure_reads_nothing", |options, row| {
        let (mut rig, mut source) = source(options, row, false);
        rig.ready = SinkSet::EMPTY;
        for _ in 0..20 {
            let polled = rig.poll(&mut *source);
            assert!(
                matches!(polled, Polled::Backpressure | Polled::Wait(_)),
                "a batch despite backpressure"
            );
            assert!(rig.grant.used() <= STATE_BYTES_MAX, "{}", rig.grant.used());
            pause(&mut rig);
        }
    });
}

/// While memory is exhausted, a source reports backpressure or waits; it continues once memory is
/// available.
#[test]
fn a_source_without_memory_waits_for_it() {
    for_each(Kind::Source, "a_source_without_memory_waits_for_it", |options, row| {
        let (mut rig, mut source) = source(options, row, false);
        let all = rig.grant.try_take(rig.grant.bytes_max()).unwrap();
        for _ in 0..20 {
            let polled = rig.poll(&mut *source);
            assert!(
                matches!(polled, Polled::Backpressure | Polled::Wait(_)),
                "a batch without memory"
            );
            let used = rig.grant.used() - rig.grant.bytes_max();
            assert!(used <= STATE_BYTES_MAX, "{used}");
            pause(&mut rig);
        }
        drop(all);
        let mut gives = || {
            pause(&mut rig);
            matches!(rig.poll(&mut *source), Polled::Batch(..))
        };
        assert!((0..POLLS_MAX).any(|_| gives()), "no batch although memory is available");
    });
}

/// The batches of a source are complete, their ranges are held for every sink until they are
/// settled, and all memory is returned. With `--until-eof`, the source ends.
#[test]
fn a_source_returns_complete_batches_and_ends() {
    for_each(Kind::Source, "a_source_returns_complete_batches_and_ends", |options, row| {
        let (mut rig, mut source) = source(options, row, true);
        let (mut events, mut polls) = (0, 0);
        loop {
            match rig.poll(&mut *source) {
                Polled::Batch(batch, permit) => {
                    assert!(rig.grant.used() >= permit.bytes() && permit.bytes() == rig.expansion);
                    check_batch(&batch, &rig);
                    events += batch.events();
                }
                Polled::Ended => break,
                Polled::Wait(Duration::ZERO) => {}
                _ => pause(&mut rig),
            }
            polls += 1;
            assert!(polls < POLLS_MAX, "the source does not end");
        }
        let least = if row.name == "host_metrics" { 50 } else { 1000 };
        assert!(events > least, "{events} events");
        assert!(rig.ledger.is_idle());
        assert_eq!(rig.grant.used(), 0);
        assert!(matches!(rig.poll(&mut *source), Polled::Ended), "the end is final");
    });
}

/// Checks a batch and settles it.
fn check_batch(batch: &Batch, rig: &SourceRig) {
    assert_valid(batch);
    let checkpoints = |at: &dyn Fn(u64, u64, u64) -> bool| {
        for segment in batch.segments.iter().filter(|segment| segment.rows > 0) {
            let (first, last) = (segment.first_row, segment.first_row + segment.rows - 1);
            for sink in batch.sinks.iter() {
                let checkpoint =
                    rig.ledger.checkpoint(segment.origin.id, sink).expect("an open origin");
                let offsets = (batch.offset(segment, first), batch.offset(segment, last));
                assert!(at(checkpoint, offsets.0, offsets.1), "{checkpoint} for {offsets:?}");
            }
        }
    };
    assert!(batch.sinks.iter().all(|sink| rig.ledger.progress(sink).unsettled > 0));
    checkpoints(&|checkpoint, first, _| checkpoint <= first);
    batch.segments.iter().for_each(|segment| segment.ack.finish());
    checkpoints(&|checkpoint, _, last| checkpoint > last);
}

// Sinks and transforms.

/// Returns the sample's options, once for each codec if it has codecs.
fn by_codec(options: Value, row: &Row) -> Vec<(Option<&'static str>, Value)> {
    if options.pointer("/encoding/codec").is_none() {
        return vec![(None, options)];
    }
    let with = |codec| {
        let mut options = options.clone();
        options["encoding"]["codec"] = json!(codec);
        (Some(codec), options)
    };
    match row.name {
        // A document must be an object.
        "elasticsearch" => vec![with("json"), with("raw_json")],
        _ => vec![with("json"), with("raw_json"), with("text")],
    }
}

/// Builds batches.
struct Maker {
    grant: Arc<Grant>,
    ledger: Arc<Ledger>,
}

impl Maker {
    fn of(&self, text: impl AsRef<[u8]>, line_max: usize) -> Batch {
        batch(
            &[Rows { name: "/var/log/a.log", text: text.as_ref() }],
            line_max,
            &self.grant,
            &self.ledger,
        )
    }

    /// Builds a batch like `of`, but selects only the rows for which `keep` is true.
    fn selected(&self, text: String, keep: fn(usize) -> bool) -> Batch {
        let mut batch = self.of(text, 1000);
        batch.select(Selection::collect_bool(batch.rows(), keep));
        batch
    }

    /// Builds a batch with a time for two of three rows.
    fn timed(&self, lines: usize) -> Batch {
        let mut batch = self.of(ordinary(lines), 1000);
        let time = |row: usize| {
            if row.is_multiple_of(3) { TIME_UNKNOWN } else { row as i64 * 1_000_000_007 }
        };
        batch.time = Some((0..batch.rows()).map(time).collect::<Vec<_>>().into());
        batch
    }

    fn segments(&self, count: usize) -> Batch {
        let rows: Vec<Rows<'_>> =
            (0..count).map(|_| Rows { name: "/var/log/b.log", text: b"1\n\n3\n" }).collect();
        batch(&rows, 1000, &self.grant, &self.ledger)
    }
}

fn ordinary(lines: usize) -> String {
    (0..lines).map(|n| format!("203.0.113.7 - - \"GET /?seq={n} HTTP/1.1\" 200\n")).collect()
}

/// Returns lines, three in four with a timestamp.
fn timed(lines: usize) -> String {
    let line = |n: usize| match n % 4 {
        3 => format!("no time {n}\n"),
        _ => format!("a [21/Nov/2026:10:{:02}:{:02} +0000] {n}\n", n / 60 % 60, n % 60),
    };
    (0..lines).map(line).collect()
}

/// Builds a kind of batch.
type Make = fn(&Maker) -> Batch;

/// Every kind of batch that a transform or a sink may receive.
const BATCHES: &[(&str, Make)] = &[
    ("ordinary lines", |make| make.of(ordinary(1000), 1000)),
    ("a full block", |make| make.of(ordinary(5000), 1000)),
    ("nothing selected", |make| make.selected(ordinary(1000), |_| false)),
    ("some selected", |make| make.selected(ordinary(1000), |row| row % 3 == 1)),
    ("no row at all", |make| make.of("", 1000)),
    ("invalid UTF-8", |make| make.of(b"good\nb\xffd\n\xc3\n\xe2\x82\n\x80\x80\x80\n", 1000)),
    ("NUL and other control characters", |make| make.of("\0\0\n\x01\x1f\x7f\"\\\n\r\r\r\n", 1000)),
    ("empty rows", |make| make.of("\n".repeat(16 * 1024), 1000)),
    ("cut rows", |make| make.of("a long line\nshort\n\u{20ac}\u{20ac}\u{20ac}\u{20ac}\n", 7)),
    ("many segments", |make| make.segments(300)),
    ("lines with a time", |make| make.of(timed(3000), 1000)),
    ("rows with their own times", |make| make.timed(1000)),
];

/// For any batch, a sink encodes exactly the selected rows, within the declared size for ordinary
/// text, accepts the payload, and returns all memory.
#[test]
fn a_sink_accepts_every_batch() {
    for_each(Kind::Sink, "a_sink_accepts_every_batch", |options, row| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let options = connected(options, row);
        for (codec, options) in by_codec(options, row) {
            let AnyComponent::Sink(component) = (row.decode)(options).unwrap() else {
                panic!("no sink")
            };
            let sink = component.build().unwrap();
            let make = Maker { grant: Grant::new(1 << 30), ledger: Ledger::new() };
            let mut lanes: Vec<_> =
                (0..sink.lanes()).map(|lane| sink.lane(lane_cx(lane))).collect();
            let mut encoder = sink.encoder();
            let pool = BlockPool::new();
            for (what, batch) in BATCHES.iter().map(|(what, batch)| (what, batch(&make))) {
                let payload = encode(&*sink, &mut *encoder, &batch, what, (&make.grant, &pool));
                // With routing, only the sink's lane knows which parts are sent.
                if payload.routing.is_none() {
                    check_payload(codec, &batch, &payload, what);
                }
                runtime.block_on(deliver(&mut *lanes[0], batch, payload));
                assert!(make.ledger.is_idle(), "{what}: settled");
                assert_eq!(make.grant.used(), 0, "{what}: memory is returned");
            }
            sink.close();
        }
    });
}

fn lane_cx(lane: usize) -> LaneCx {
    LaneCx::outside("out", lane, Arc::default())
}

fn encode(
    sink: &dyn Sink,
    encoder: &mut dyn Encoder,
    batch: &Batch,
    what: &str,
    (grant, pool): (&Arc<Grant>, &Arc<BlockPool>),
) -> Payload {
    let declared = sink.payload_bytes_max(batch.block.len() as u64, batch.rows() as u64);
    let mut permit = grant.try_take(declared).unwrap();
    let mut payload = Payload::new(batch.events() as u64);
    let counters = Counters::default();
    let mut cx = EncodeCx { pool, permit: &mut permit, counters: &counters, refused: None };
    encoder.encode(batch, &mut payload, &mut cx).unwrap_or_else(|error| panic!("{what}: {error}"));
    let bytes = payload.parts.iter().map(|part| part.len() as u64).sum();
    assert!(payload.bytes == bytes || payload.routing.is_some() && payload.bytes < bytes, "{what}");
    assert!(
        payload.bytes <= declared || !is_ordinary(batch),
        "{what}: {} of {declared}",
        payload.bytes
    );
    payload
}

/// Returns whether no encoder needs to expand the text.
fn is_ordinary(batch: &Batch) -> bool {
    batch.block.iter().all(|b| matches!(b, b' '..=b'~' | b'\n'))
}

fn check_payload(codec: Option<&str>, batch: &Batch, payload: &Payload, what: &str) {
    let out = payload.parts.concat();
    let rows = (0..batch.rows()).filter(|row| batch.is_selected(*row)).map(|row| batch.text(row));
    match codec {
        Some("json" | "raw_json") => {
            let parsed: Result<Vec<Value>, _> =
                out.split_inclusive(|b| *b == b'\n').map(serde_json::from_slice).collect();
            let mut parsed = parsed.unwrap_or_else(|error| panic!("{what}: {error}"));
            // Remove the actions before the documents of a bulk request.
            parsed.retain(|line| line.get("create").is_none());
            let messages: Vec<&str> =
                parsed.iter().filter_map(|event| event["message"].as_str()).collect();
            let expected: Vec<_> = rows.map(String::from_utf8_lossy).collect();
            assert!(parsed.len() == messages.len() && messages == expected, "{what}");
        }
        Some(_) => {
            assert!(
                out == rows.flat_map(|text| [text, b"\n"].concat()).collect::<Vec<u8>>(),
                "{what}"
            )
        }
        None => {}
    }
}

/// Delivers a payload like the engine does, and settles it after it is durable.
async fn deliver(lane: &mut dyn Lane, batch: Batch, mut payload: Payload) {
    payload.owe(batch.segments.iter().filter_map(|segment| segment.ack.hold(SinkIndex::new(0))));
    batch.segments.iter().for_each(|segment| segment.ack.finish());
    drop(batch);
    if !payload.is_empty() {
        send(lane, &mut payload).await;
    }
    payload.settle(Outcome::Delivered);
}

/// Delivers a payload until it is durable.
async fn send(lane: &mut dyn Lane, payload: &mut Payload) {
    let delivery = lane.deliver(payload).await.unwrap();
    match delivery {
        Delivery::Durable => {}
        Delivery::Taken => drop(lane.sync().await.unwrap()),
        Delivery::Sent => {
            drop(payload.parts.split_off(0));
            payload.routing = None;
            lane.flush();
            let settled = loop {
                let settled = lane.settled();
                if !settled.is_empty() {
                    break settled;
                }
                lane.progress().await.unwrap();
            };
            assert_eq!(settled, [Settled { outcome: Outcome::Delivered, refused: 0 }]);
        }
    }
}

// Transforms.

/// The events of some batches: text and time by output, origin and offset.
type Events = BTreeMap<(usize, OriginId, u64), (Vec<u8>, i64)>;

/// For any batch, a map returns complete batches with the same acknowledgements, and transforms a
/// row the same way regardless of the other rows and their order.
#[test]
fn a_map_accepts_every_batch_and_is_independent_of_batching() {
    for_each(
        Kind::Transform,
        "a_map_accepts_every_batch_and_is_independent_of_batching",
        |options, row| {
            let AnyComponent::Transform(component) = (row.decode)(options).unwrap() else {
                panic!("no transform")
            };
            let Transform::Map(instance) = component.build(&BuildCx::default()).unwrap() else {
                return;
            };
            let make = Maker { grant: Grant::new(1 << 30), ledger: Ledger::new() };
            let mut used = instance();
            for (what, batch) in BATCHES.iter().map(|(what, batch)| (what, batch(&make))) {
                let whole = applied(&mut *instance(), &batch);
                assert_eq!(applied(&mut *used, &batch), whole, "{what}: a second time");
                for piece_rows in [1, 7, 1000] {
                    let mut pieces = pieces(&batch, piece_rows);
                    assert_eq!(
                        all(&mut *used, &pieces),
                        whole,
                        "{what}: in pieces of {piece_rows}"
                    );
                    pieces.reverse();
                    assert_eq!(
                        all(&mut *used, &pieces),
                        whole,
                        "{what}: in pieces of {piece_rows}, from the end"
                    );
                }
                batch.segments.iter().for_each(|segment| segment.ack.finish());
                drop(batch);
                assert!(make.ledger.is_idle(), "{what}: settled");
                assert_eq!(make.grant.used(), 0, "{what}: memory is returned");
            }
        },
    );
}

/// Splits the batch into pieces of `rows` rows, at most about 100 pieces, because each piece is
/// scanned completely.
fn pieces(batch: &Batch, rows: usize) -> Vec<Batch> {
    let rows = rows.max(batch.rows() / 100);
    let piece = |begin: usize| {
        let mut piece = batch.clone();
        piece.select_range(begin, begin + rows);
        piece
    };
    (0..batch.rows()).step_by(rows).map(piece).collect()
}

fn all(map: &mut dyn Map, batches: &[Batch]) -> Events {
    batches.iter().flat_map(|batch| applied(map, batch)).collect()
}

fn applied(map: &mut dyn Map, batch: &Batch) -> Events {
    let mut out = Outputs::default();
    map.apply(batch.clone(), &mut out).unwrap();
    let mut events = Events::new();
    for (output, made) in out.batches {
        assert_valid(&made);
        assert_eq!((made.sinks, made.read_ns), (batch.sinks, batch.read_ns));
        for segment in made.segments.iter() {
            let rows = segment.first_row..segment.first_row + segment.rows;
            for row in rows.filter(|row| made.is_selected(*row)) {
                let key = (output, segment.origin.id, made.offset(segment, row));
                let before = events.insert(key, (made.text(row).to_vec(), made.event_ns(row)));
                assert!(before.is_none(), "an event twice at one output");
            }
        }
    }
    events
}
