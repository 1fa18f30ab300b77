//! Tests files over TCP, with the server in the documentation and with a server that reads lines.

use crate::support::{Agent, folder, lines};
use fastrand::Rng;
use millstream_testkit_random::{Seed, TestSize};
use serde_json::Value;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const FILES: usize = 3;

/// `docs/formats/tcp_frames.py`, killed when dropped.
struct Server {
    child: Child,
    port: u16,
    path: PathBuf,
}

impl Server {
    fn start(path: PathBuf, port: u16) -> Server {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/formats/tcp_frames.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(port.to_string()).arg(&path).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python3 runs");
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        Server { child, port: first.trim().parse().expect("a port"), path }
    }

    /// Kills the server, and starts a new one with the same file and port.
    fn replace(&mut self) {
        self.end();
        *self = Server::start(self.path.clone(), self.port);
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns how many times each event arrived, by message and id.
    fn events(&self) -> HashMap<(String, String), usize> {
        let mut events = HashMap::new();
        for line in lines(&self.path) {
            let event: Value =
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            *events.entry((text(&event["message"]), text(&event["meta"]["id"]))).or_default() += 1;
        }
        events
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn config(port: u16, more: &str) -> String {
    format!(
        "sources:\n  app: {{ type: file, include: ['DIR/in/*.log'] }}\n\
         sinks:\n  out: {{ type: tcp, inputs: [app], address: '127.0.0.1:{port}', {more} }}\n"
    )
}

const FRAMES: &str = "framing: length, acknowledgements: true, compression: gzip, \
                      batch: { bytes: 64KiB, events: 500, timeout: 10ms }";

/// Appends numbered lines to every file.
fn append(dir: &Path, from: usize, count: usize) {
    fs::create_dir_all(dir.join("in")).unwrap();
    for file in 0..FILES {
        let path = dir.join(format!("in/{file}.log"));
        let mut out = File::options().create(true).append(true).open(path).unwrap();
        let text: String =
            (from..from + count).map(|n| format!("{file} {n:06} some words\n")).collect();
        out.write_all(text.as_bytes()).unwrap();
    }
}

fn finish(dir: &Path, config: &str) {
    let mut agent = Agent::start(dir, config, &["--until-eof"]);
    assert!(agent.wait(PATIENCE).success(), "{}", agent.log());
}

/// Number of runs, each with all kills.
const RUNS: TestSize = TestSize { gate: 1, long: 10 };

#[test]
fn acknowledged_lines_survive_kills_of_the_agent_and_of_the_server() {
    Seed::of_test().cases(RUNS).for_each(survive_kills);
}

fn survive_kills(seed: u64) {
    const ROUNDS: usize = 8;
    const LINES: usize = 4000;
    let dir = folder();
    let mut server = Server::start(dir.path().join("events.log"), 0);
    let (config, mut random) = (config(server.port, FRAMES), Rng::with_seed(seed));
    for round in 0..ROUNDS {
        append(dir.path(), round * LINES, LINES);
        let mut agent = Agent::start(dir.path(), &config, &[]);
        std::thread::sleep(Duration::from_millis(150 + random.u64(..300)));
        if round % 2 == 1 {
            server.replace();
            append(dir.path(), ROUNDS * LINES + round * 10, 10);
            std::thread::sleep(Duration::from_millis(random.u64(..400)));
        }
        agent.kill();
    }
    finish(dir.path(), &config);
    let events = server.events();
    let more = ROUNDS / 2 * 10;
    assert_eq!(events.len(), FILES * (ROUNDS * LINES + more), "every line, each under one id");
}

#[test]
fn a_server_with_sessions_gets_every_line_once_across_kills() {
    let dir = folder();
    let mut server = Server::start(dir.path().join("events.log"), 0);
    append(dir.path(), 0, 1000);
    let mut agent = Agent::start(dir.path(), &config(server.port, FRAMES), &[]);
    for round in 1..6 {
        append(dir.path(), round * 3000, 3000);
        std::thread::sleep(Duration::from_millis(60));
        server.replace();
    }
    assert!(agent.stop().success(), "{}", agent.log());
    finish(dir.path(), &config(server.port, FRAMES));
    let events = server.events();
    assert_eq!(events.len(), FILES * 16_000);
    assert!(events.values().all(|count| *count == 1), "no line twice");
}

#[test]
fn lines_reach_a_socket_once_and_in_order_across_clean_stops() {
    let dir = folder();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config =
        config(listener.local_addr().unwrap().port(), "encoding: { codec: text }, connections: 2");
    let reader = std::thread::spawn(move || {
        let readers: Vec<_> = (0..2 * 3).map(|_| read_all(listener.accept().unwrap().0)).collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).collect::<Vec<String>>()
    });
    for round in 0..3 {
        append(dir.path(), round * 5000, 5000);
        finish(dir.path(), &config);
    }
    let texts = reader.join().unwrap();
    for file in 0..FILES {
        let begin = format!("{file} ");
        let of_file =
            texts.iter().flat_map(|text| text.lines()).filter(|line| line.starts_with(&begin));
        let expected = (0..15_000).map(|n| format!("{file} {n:06} some words"));
        assert!(of_file.eq(expected), "file {file}");
    }
}

fn read_all(mut stream: std::net::TcpStream) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    })
}
