//! Reads and writes of components on files and sockets are recorded, with their bytes.

use millstream_components::component::AnyComponent;
use millstream_components::registry::find;
use millstream_components::util::segments::Segments;
use millstream_model::{
    BlockPool, Counters, Delivery, EncodeCx, Grant, Kind, Lane, LaneCx, Ledger, Outcome, Payload,
    Sink, SinkIndex,
};
use millstream_recorder::schema::EventKind;
use millstream_testkit::{RecordedSum, Rows, batch, recorded, start_recording, thread_bytes};
use serde_json::{Value, json};
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn sink(name: &str, options: Value) -> Arc<dyn Sink> {
    let row = find(Kind::Sink, name).unwrap();
    let AnyComponent::Sink(component) = (row.decode)(options).unwrap() else { panic!("a sink") };
    component.build().unwrap()
}

/// Delivers lines like the engine does.
async fn deliver(sink: &dyn Sink, lane: &mut dyn Lane, text: &str) {
    let (grant, ledger) = (Grant::new(1 << 30), Ledger::new());
    let rows = [Rows { name: "/var/log/a.log", text: text.as_bytes() }];
    let batch = batch(&rows, 1000, &grant, &ledger);
    let mut permit = grant.try_take(64 << 20).unwrap();
    let mut payload = Payload::new(batch.events() as u64);
    let (pool, counters) = (BlockPool::new(), Counters::default());
    let mut cx = EncodeCx { pool: &pool, permit: &mut permit, counters: &counters, refused: None };
    sink.encoder().encode(&batch, &mut payload, &mut cx).unwrap();
    payload.owe(batch.segments.iter().filter_map(|segment| segment.ack.hold(SinkIndex::new(0))));
    batch.segments.iter().for_each(|segment| segment.ack.finish());
    assert_eq!(lane.deliver(&payload).await.unwrap(), Delivery::Taken);
    payload.settle(Outcome::Delivered);
}

fn of(kind: EventKind, subject: &Path) -> RecordedSum {
    recorded(kind).get(&subject.display().to_string()).copied().unwrap_or_default()
}

/// Writes to a file with two syncs, and again after a restart.
async fn write(path: &Path, compression: &str) {
    let options = json!({
        "path": path, "compression": compression, "encoding": { "codec": "text" },
    });
    let sink = sink("file", options);
    let text: String = (0..5000).map(|n| format!("line {n}\n")).collect();
    let mut state = None;
    for _ in 0..2 {
        let cx = LaneCx { state: state.take(), ..LaneCx::outside("out", 0, Arc::default()) };
        let mut lane = sink.lane(cx);
        for _ in 0..2 {
            deliver(&*sink, &mut *lane, &text).await;
            state = lane.sync().await.unwrap();
        }
    }
}

#[tokio::test]
async fn the_file_sink_records_what_is_in_its_files_and_every_sync() {
    let _test = start_recording();
    let folder = tempfile::tempdir().unwrap();
    for compression in ["none", "gzip", "zstd"] {
        let path = folder.path().join(compression);
        write(&path, compression).await;
        let (written, synced) = (of(EventKind::FileWrite, &path), of(EventKind::FileSync, &path));
        assert_eq!(written.bytes, fs::metadata(&path).unwrap().len(), "{compression}");
        assert!(written.events >= 4, "{compression}: {written:?}");
        assert_eq!(synced.events, 4, "{compression}");
        // The bytes before the synced length identify the file.
        assert!(of(EventKind::FileRead, &path).bytes > 4096, "{compression}");
    }
    assert!(of(EventKind::FileSync, folder.path()).events >= 3);
}

#[test]
fn segments_record_their_frames() {
    let _test = start_recording();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("1.segment");
    let (mut segments, _) = Segments::open(folder.path(), None, &mut |_| Some(()));
    let mut place = None;
    let truth = thread_bytes(|| {
        for (frame, begins) in [(vec![1; 5000], true), (vec![2; 70], false)] {
            place = Some(segments.append(&frame, begins, 1).unwrap());
        }
    });
    let written = of(EventKind::FileWrite, &path);
    assert_eq!((written.bytes, truth.written), (5094, 5094));
    assert_eq!(of(EventKind::FileSync, &path).events, 2);
    let truth = thread_bytes(|| {
        let (_, read) = Segments::open(folder.path(), place, &mut |_| Some(()));
        read.unwrap();
    });
    let read = of(EventKind::FileRead, &path);
    assert_eq!((read.bytes, read.bytes), (5094, truth.read));
    assert!(read.flags > 0, "to its end");
}

#[tokio::test]
async fn the_exporter_records_requests_and_responses() {
    let _test = start_recording();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let sink = sink("prometheus_exporter", json!({ "listen": free.to_string() }));
    let mut lane = sink.lane(LaneCx::outside("out", 0, Arc::default()));
    lane.start().await.unwrap();
    let mut scraper = TcpStream::connect(free).await.unwrap();
    let own = scraper.local_addr().unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    scraper.write_all(request).await.unwrap();
    let mut response = Vec::new();
    scraper.read_to_end(&mut response).await.unwrap();
    assert!(response.starts_with(b"HTTP/1.1 200"));
    let peer = format!(",{},{}", Ipv4Addr::LOCALHOST, own.port());
    let (read, written) = (recorded(EventKind::SocketRead), recorded(EventKind::SocketWrite));
    assert_eq!(read[&peer].bytes, request.len() as u64);
    assert_eq!(written[&peer].bytes, response.len() as u64);
}
