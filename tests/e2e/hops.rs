//! Tests two agents in a row: files, agent A, Kafka, agent B, OpenSearch. Agents, broker and server
//! are killed while lines are written and rotated; each line becomes one document.

use crate::support::{Agent, folder};
use millstream_testkit_random::{Seed, TestSize};
use millstream_testkit_servers::kafka::Kafka;
use millstream_testkit_servers::search::SearchServer;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Number of kills of agents, broker and server in total.
const KILLS: TestSize = TestSize { gate: 4, long: 200 };
const TOPIC: &str = "hops";
const INDEX: &str = "hops";
const FILES: usize = 3;
/// Number of lines of a file between two rotations.
const ROTATE_AFTER: u64 = 700;
/// Time for everything to arrive after the last kill.
const PATIENCE: Duration = Duration::from_secs(180);
/// Number of documents in a page of the result.
const PAGE: u64 = 10_000;

fn sender(kafka: &Kafka) -> String {
    format!(
        "sources:\n  app: {{ type: file, include: ['DIR/in/*.log*'] }}\n\
         sinks:\n  out: {{ type: kafka, inputs: [app], brokers: ['{}'], topic: {TOPIC} }}\n",
        kafka.bootstrap()
    )
}

fn indexer(kafka: &Kafka, search: &SearchServer) -> String {
    format!(
        "sources:\n  lines:\n    type: kafka\n    brokers: ['{}']\n    topics: [{TOPIC}]\n    group: hops\n    \
         options: {{ session.timeout.ms: 6000, heartbeat.interval.ms: 500 }}\n\
         sinks:\n  out:\n    type: elasticsearch\n    inputs: [lines]\n    endpoints: ['{}']\n    \
         index: {INDEX}\n    encoding: {{ codec: raw_json, metadata: [] }}\n    batch: {{ timeout: 200ms }}\n    \
         request: {{ timeout: 5s }}\n",
        kafka.bootstrap(),
        search.uri()
    )
}

/// A log that is written line by line and rotated by renaming.
struct Log {
    path: PathBuf,
    file: File,
    index: usize,
    lines: u64,
}

impl Log {
    fn new(dir: &TempDir, index: usize) -> Log {
        let path = dir.path().join(format!("in/{index}.log"));
        Log { file: File::create(&path).unwrap(), path, index, lines: 0 }
    }

    fn write(&mut self) {
        let line = line(self.index, self.lines) + "\n";
        // Sometimes the agent may find only the first part of a line.
        let middle = line.len() / if self.lines.is_multiple_of(50) { 2 } else { 1 };
        self.file.write_all(&line.as_bytes()[..middle]).unwrap();
        self.file.write_all(&line.as_bytes()[middle..]).unwrap();
        self.lines += 1;
        if self.lines.is_multiple_of(ROTATE_AFTER) {
            let to = format!("{}.{}", self.path.display(), self.lines / ROTATE_AFTER);
            fs::rename(&self.path, to).unwrap();
            self.file = File::create(&self.path).unwrap();
        }
    }
}

fn line(file: usize, number: u64) -> String {
    format!("file {file} line {number:07} \"quoted\" and some words behind it")
}

/// Writes lines into all files until `stop`; returns the number of lines of each file.
fn write_lines(dir: &TempDir, stop: Arc<AtomicBool>) -> JoinHandle<Vec<u64>> {
    let mut logs: Vec<Log> = (0..FILES).map(|index| Log::new(dir, index)).collect();
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            logs.iter_mut().for_each(|log| (0..10).for_each(|_| log.write()));
            std::thread::sleep(Duration::from_millis(20));
        }
        logs.iter().map(|log| log.lines).collect()
    })
}

/// The programs on the path of a line.
struct Hops {
    dirs: [TempDir; 2],
    kafka: Kafka,
    search: SearchServer,
    agents: [Agent; 2],
}

impl Hops {
    fn start() -> Hops {
        let dirs = [folder(), folder()];
        let kafka = Kafka::start();
        kafka.create_topic(TOPIC, 4);
        let search = SearchServer::opensearch();
        fs::create_dir_all(dirs[0].path().join("in")).unwrap();
        let agents = [
            Agent::start(dirs[0].path(), &sender(&kafka), &[]),
            Agent::start(dirs[1].path(), &indexer(&kafka, &search), &[]),
        ];
        Hops { dirs, kafka, search, agents }
    }

    fn kill(&mut self, random: &mut fastrand::Rng) {
        match random.u8(..10) {
            0 => {
                self.kafka.kill();
                self.kafka.restart();
            }
            1 => {
                self.search.kill();
                self.search.restart();
            }
            other => {
                let agent = usize::from(other % 2 == 0);
                self.agents[agent].kill();
                // Sometimes the agent is down for longer than the other agent needs to process its
                // events.
                std::thread::sleep(Duration::from_millis(random.u64(..300)));
                let config = match agent {
                    0 => sender(&self.kafka),
                    _ => indexer(&self.kafka, &self.search),
                };
                self.agents[agent] = Agent::start(self.dirs[agent].path(), &config, &[]);
            }
        }
    }

    /// Waits until the server has `count` documents; fails after [`PATIENCE`].
    fn wait_for(&self, count: u64) {
        let begun = Instant::now();
        while self.search.count(INDEX) < count {
            let logs = || self.agents.each_ref().map(Agent::log).join("\n");
            assert!(
                begun.elapsed() < PATIENCE,
                "{} of {count}:\n{}",
                self.search.count(INDEX),
                logs()
            );
            std::thread::sleep(Duration::from_millis(200));
        }
        // Leave time for repeats under other ids to arrive.
        std::thread::sleep(Duration::from_secs(1));
    }

    /// Returns the number of documents of each message, and checks that each document has the id of
    /// its event.
    fn messages(&self) -> BTreeMap<String, u64> {
        let mut messages = BTreeMap::new();
        let first = json!({ "size": PAGE, "sort": ["_doc"] });
        let mut page = self.search.request("POST", &format!("/{INDEX}/_search?scroll=1m"), &first);
        loop {
            let hits = page["hits"]["hits"].as_array().unwrap_or_else(|| panic!("{page}"));
            if hits.is_empty() {
                return messages;
            }
            for hit in hits {
                assert_eq!(hit["_id"], hit["_source"]["meta"]["id"], "{hit}");
                let message = hit["_source"]["message"].as_str().unwrap().to_owned();
                *messages.entry(message).or_default() += 1;
            }
            let next = json!({ "scroll": "1m", "scroll_id": page["_scroll_id"] });
            page = self.search.request("POST", "/_search/scroll", &next);
        }
    }
}

#[test]
fn each_line_becomes_one_document_over_two_hops_and_kills() {
    let mut random = Seed::of_test().random();
    let mut hops = Hops::start();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = write_lines(&hops.dirs[0], stop.clone());
    for _ in random.rounds(KILLS) {
        std::thread::sleep(Duration::from_millis(300 + random.u64(..900)));
        hops.kill(&mut random);
    }
    stop.store(true, Ordering::Relaxed);
    let written = writer.join().unwrap();
    hops.wait_for(written.iter().sum());
    let all = written.iter().enumerate();
    let expected: BTreeMap<String, u64> =
        all.flat_map(|(file, lines)| (0..*lines).map(move |n| (line(file, n), 1))).collect();
    let found = hops.messages();
    let differs = |(message, count): &(&String, &u64)| expected.get(*message) != Some(count);
    let wrong: Vec<_> = found.iter().filter(differs).take(5).collect();
    assert!(wrong.is_empty(), "not written, or more than once: {wrong:?}");
    assert_eq!(found.len(), expected.len());
    assert_eq!(hops.search.count(INDEX), written.iter().sum::<u64>());
    println!("{} lines", found.len());
}
