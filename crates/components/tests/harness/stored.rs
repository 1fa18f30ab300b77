//! Payloads that are written to disk, and delivered by another instance of their sink.

use super::*;
use millstream_model::{Cell, CellKind, Column};
use millstream_testkit::{damaged, reread, stored, written_routing};
use millstream_testkit_servers::kafka::Record;
use parking_lot::Mutex;
use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

/// Maximum time that bytes may take from the kernel to a server.
const ARRIVAL: Duration = Duration::from_secs(20);

/// The destination of a sink, as far as a test can read it.
enum Endpoint {
    Http(&'static HttpServer),
    Tcp(Arc<Mutex<Vec<u8>>>),
    /// The files below this folder.
    Files(PathBuf),
    Kafka(String),
    /// A destination that only the sink's tests can read.
    Hidden,
}

impl Endpoint {
    /// Returns the endpoint of a sink, and the options to deliver to it.
    fn of(mut options: Value, row: &Row, number: usize, folder: &Path) -> (Endpoint, Value) {
        let own = options.as_object_mut().unwrap();
        let endpoint = match row.name {
            "http" | "elasticsearch" | "prometheus_remote_write" => {
                let server: &HttpServer = Box::leak(Box::new(match row.name {
                    "elasticsearch" => HttpServer::start(accept_all),
                    _ => HttpServer::start(|_| Reply::status(200)),
                }));
                let (key, value) = match row.name {
                    "elasticsearch" => ("endpoints", json!([server.uri("/")])),
                    _ => ("uri", json!(server.uri("/"))),
                };
                own.insert(key.to_owned(), value);
                ["tls", "auth"].iter().for_each(|key| drop(own.shift_remove(*key)));
                Endpoint::Http(server)
            }
            "tcp" => {
                let (port, received) = collector();
                own.insert("address".to_owned(), json!(format!("127.0.0.1:{port}")));
                Endpoint::Tcp(received)
            }
            "file" => Endpoint::Files(folder.to_owned()),
            "kafka" => {
                let topic = format!("stored-{number}");
                Kafka::shared().create_topic(&topic, 3);
                own.insert("topic".to_owned(), json!(topic));
                Endpoint::Kafka(topic)
            }
            _ => Endpoint::Hidden,
        };
        (endpoint, options)
    }

    /// Returns the data that has arrived since the last call, after `bytes` were sent.
    fn arrived(&self, seen: &mut Seen, bytes: &[u8]) -> Vec<Vec<u8>> {
        match self {
            Endpoint::Http(server) => {
                let requests = server.requests().into_iter().skip(seen.requests);
                let mut bodies: Vec<_> = requests.map(|request| request.body).collect();
                seen.requests += bodies.len();
                // Several bodies may be in flight at once.
                bodies.sort();
                bodies
            }
            Endpoint::Tcp(received) => {
                let end = Instant::now() + ARRIVAL;
                while received.lock().len() < bytes.len() && Instant::now() < end {
                    thread::sleep(Duration::from_millis(1));
                }
                vec![std::mem::take(&mut *received.lock())]
            }
            Endpoint::Files(folder) => {
                let mut files = Vec::new();
                take_files(folder, &mut files);
                files.sort();
                files
            }
            Endpoint::Kafka(topic) => new_records(topic, seen),
            Endpoint::Hidden => Vec::new(),
        }
    }
}

/// The position up to which the data at an endpoint was already read.
#[derive(Default)]
struct Seen {
    requests: usize,
    /// The next offset of each partition.
    offsets: BTreeMap<i32, i64>,
}

/// Starts a server that collects all input until the process exits; returns its port.
fn collector() -> (u16, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, received) = (listener.local_addr().unwrap().port(), Arc::default());
    let shared: Arc<Mutex<Vec<u8>>> = Arc::clone(&received);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let received = shared.clone();
            thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    received.lock().extend_from_slice(&buffer[..length]);
                }
            });
        }
    });
    (port, received)
}

/// Removes the files below a folder; adds their paths and contents.
fn take_files(folder: &Path, files: &mut Vec<Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let path = entry.path();
        if path.is_dir() {
            take_files(&path, files);
            continue;
        }
        files.push([path.to_str().unwrap().as_bytes(), b"\n", &fs::read(&path).unwrap()].concat());
        fs::remove_file(path).unwrap();
    }
}

/// Returns the new records of a topic without the values that the broker assigns, sorted by
/// partition.
fn new_records(topic: &str, seen: &mut Seen) -> Vec<Vec<u8>> {
    let mut records = Kafka::shared().read(topic);
    records.sort_by_key(|record| (record.partition, record.offset));
    records.retain(|record| {
        let next = seen.offsets.entry(record.partition).or_default();
        let is_new = record.offset >= *next;
        *next = (*next).max(record.offset + 1);
        is_new
    });
    let shown = |record: &Record| {
        let (key, headers) = (&record.key, &record.headers);
        format!("{} {key:?} {headers:?} {:?}", record.partition, record.payload).into_bytes()
    };
    records.iter().map(shown).collect()
}

/// Builds gauges whose names are the lines.
fn gauges(make: &Maker) -> Batch {
    let mut batch = make.of("a\nbc\nd\n", 1000);
    let rows = batch.rows();
    let names = batch.message.cells().to_vec();
    batch.fields.set(Column::new("name".into(), names, ""));
    let same = |kind, len| vec![Cell::own(kind, 0, len); rows];
    batch.fields.set(Column::new("type".into(), same(CellKind::Text, 5), "gauge"));
    batch.fields.set(Column::new("value".into(), same(CellKind::Int, 1), "7"));
    batch
}

/// Builds an instance of a sink.
fn built(row: &Row, options: &Value) -> Arc<dyn Sink> {
    let AnyComponent::Sink(component) = (row.decode)(options.clone()).unwrap() else {
        panic!("no sink")
    };
    component.build().unwrap()
}

/// Encodes a batch. The batch may be so short that no size was declared for it.
fn encoded(sink: &dyn Sink, batch: &Batch, grant: &Arc<Grant>) -> Payload {
    let (pool, counters) = (BlockPool::new(), Counters::default());
    let mut permit = grant.try_take(1 << 24).unwrap();
    let mut payload = Payload::new(batch.events() as u64);
    let mut cx = EncodeCx { pool: &pool, permit: &mut permit, counters: &counters, refused: None };
    sink.encoder().encode(batch, &mut payload, &mut cx).unwrap();
    payload
}

/// Returns the options of each codec, including codecs of blocks of metrics.
fn all_codecs(options: Value, row: &Row) -> Vec<Value> {
    let mut all: Vec<Value> =
        by_codec(options.clone(), row).into_iter().map(|(_, options)| options).collect();
    if ["http", "kafka"].contains(&row.name) {
        let mut blocks = options;
        blocks["encoding"] = json!({ "codec": "msgpack" });
        ["framing", "id_header"].iter().for_each(|key| {
            blocks.as_object_mut().unwrap().shift_remove(*key);
        });
        all.push(blocks);
    }
    all
}

/// An instance of a sink in a process, with a lane.
struct Instance {
    sink: Arc<dyn Sink>,
    lane: Box<dyn Lane>,
}

impl Instance {
    fn of(row: &Row, options: &Value) -> Instance {
        let sink = built(row, options);
        let lane = sink.lane(lane_cx(0));
        Instance { sink, lane }
    }
}

/// Returns the batches whose payloads are compared. It is a subset for `kafka`, because reading a
/// topic takes a long time.
fn batches(row: &Row) -> impl Iterator<Item = (&'static str, Make)> {
    let is_slow = row.name == "kafka";
    let some = ["some selected", "invalid UTF-8", "many segments"];
    let batches = BATCHES.iter().filter(move |(what, _)| !is_slow || some.contains(what));
    [("gauges", gauges as Make)].into_iter().chain(batches.copied())
}

/// Another instance of a sink delivers a payload from disk exactly as the original instance would
/// have.
#[test]
fn a_payload_from_disk_is_delivered_as_it_was_encoded() {
    for_each(
        Kind::Sink,
        "stored::a_payload_from_disk_is_delivered_as_it_was_encoded",
        |options, row| {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap();
            let folder = tempfile::tempdir().unwrap();
            let options = connected(placed(options, folder.path()), row);
            let mut delivered = 0;
            for (number, options) in all_codecs(options, row).into_iter().enumerate() {
                let (endpoint, options) = Endpoint::of(options, row, number, folder.path());
                delivered += runtime.block_on(compare(&endpoint, &options, row));
            }
            assert!(delivered > 0 || row.name == "blackhole", "nothing was compared");
        },
    );
}

/// Delivers payloads, and the same payloads from disk. Returns the number of compared payloads.
async fn compare(endpoint: &Endpoint, options: &Value, row: &Row) -> usize {
    let maker = Maker { grant: Grant::new(1 << 30), ledger: Ledger::new() };
    let (mut one, mut other) = (Instance::of(row, options), Instance::of(row, options));
    assert_eq!(one.sink.payload_format(), other.sink.payload_format());
    let (mut seen, mut delivered) = (Seen::default(), 0);
    for (what, make) in batches(row) {
        let batch = make(&maker);
        let mut payload = encoded(&*one.sink, &batch, &maker.grant);
        batch.segments.iter().for_each(|segment| segment.ack.finish());
        if payload.is_empty() {
            continue;
        }
        let read = reread(&payload, &*other.sink);
        let mut read = read.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(written_routing(&read), written_routing(&payload), "{what}");
        let bytes = payload.parts.concat();
        send(&mut *one.lane, &mut payload).await;
        let expected = endpoint.arrived(&mut seen, &bytes);
        send(&mut *other.lane, &mut read).await;
        let arrived = endpoint.arrived(&mut seen, &bytes);
        let is_unseen = matches!(endpoint, Endpoint::Hidden) || payload.events == 0;
        assert!(is_unseen || !expected.is_empty(), "{what}: nothing arrived");
        assert!(arrived == expected, "{what}: {} of {} differ", arrived.len(), expected.len());
        delivered += 1;
    }
    one.sink.close();
    other.sink.close();
    delivered
}

/// Damaged bytes are rejected, or yield a routing that can be written.
#[test]
fn a_damaged_routing_is_refused_or_valid() {
    for_each(Kind::Sink, "stored::a_damaged_routing_is_refused_or_valid", |options, row| {
        for options in all_codecs(options, row) {
            let maker = Maker { grant: Grant::new(1 << 30), ledger: Ledger::new() };
            let (sink, batch) = (built(row, &options), gauges(&maker));
            let payload = encoded(&*sink, &batch, &maker.grant);
            let mut whole = stored(&payload);
            for damaged in damaged(&written_routing(&payload).unwrap_or_default()) {
                whole.routing = sink.read_routing(&damaged, &whole).unwrap_or_default();
                if let Some(bytes) = written_routing(&whole) {
                    assert!(sink.read_routing(&bytes, &whole).is_ok());
                }
            }
            batch.segments.iter().for_each(|segment| segment.ack.finish());
        }
    });
}
