//! Tests that the example in CONTRIBUTING.md is a sink that works.

mod fifo;

use crate::component::{Component, SinkComponent};
use fifo::FifoConfig;
use millstream_model::{
    BlockPool, Counters, Delivery, EncodeCx, Grant, LaneCx, Ledger, Payload, Sink,
};
use millstream_testkit::{Rows, batch};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

const PAGE: &str = include_str!("../../../CONTRIBUTING.md");

const CONFIG: &str = include_str!("tests/fifo/config.rs");

const BEHAVIOR: &str = include_str!("tests/fifo/mod.rs");

/// Returns the code blocks of the example on the page.
fn shown() -> Vec<&'static str> {
    let (_, example) = PAGE.split_once("### Example: add a sink").expect("the heading");
    let blocks = example.split("```rust\n").skip(1);
    blocks.map(|block| block.split_once("```").expect("the end of a block").0).collect()
}

#[test]
fn the_page_shows_the_code_that_is_tested() {
    let shown = shown();
    assert!(shown.contains(&CONFIG), "tests/fifo/config.rs is not on the page");
    assert!(shown.contains(&BEHAVIOR), "tests/fifo/mod.rs is not on the page");
}

fn sink(path: &Path) -> Arc<dyn Sink> {
    let config: FifoConfig =
        serde_json::from_value(json!({ "path": path, "encoding": { "codec": "text" } })).unwrap();
    assert_eq!(config.check(), []);
    config.build().unwrap()
}

fn payload(sink: &dyn Sink, text: &str) -> Payload {
    let grant = Grant::new(1 << 30);
    let rows = [Rows { name: "/a.log", text: text.as_bytes() }];
    let batch = batch(&rows, 1000, &grant, &Ledger::new());
    let bytes = sink.payload_bytes_max(batch.block.len() as u64, batch.rows() as u64);
    let mut permit = grant.try_take(bytes).unwrap();
    let mut payload = Payload::new(batch.events() as u64);
    let (pool, counters) = (BlockPool::new(), Counters::default());
    let mut cx = EncodeCx { pool: &pool, permit: &mut permit, counters: &counters, refused: None };
    sink.encoder().encode(&batch, &mut payload, &mut cx).unwrap();
    payload
}

#[tokio::test]
async fn the_example_delivers_to_each_reader_whole_payloads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let sink = sink(&path);
    let mut lane = sink.lane(LaneCx::outside("out", 0, Arc::default()));
    let payload = payload(&*sink, "one\ntwo\n");
    let error = lane.deliver(&payload).await.unwrap_err();
    assert!(error.to_string().contains("No such device"), "without a reader: {error}");
    for _ in 0..2 {
        let opened = path.clone();
        let reader = std::thread::spawn(move || {
            let mut text = [0; 8];
            File::open(opened).unwrap().read_exact(&mut text).unwrap();
            text
        });
        let delivery = loop {
            match lane.deliver(&payload).await {
                Ok(delivery) => break delivery,
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(1)).await,
            }
        };
        assert_eq!(delivery, Delivery::Durable);
        assert_eq!(&reader.join().unwrap(), b"one\ntwo\n");
    }
}
