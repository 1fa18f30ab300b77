//! Tests that the sums over recorded reads and writes match the files and connections.

use super::{LIMIT, dump, record, stdout};
use crate::support::{Agent, folder, java, wait_until};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

/// Number of lines in the log, each of 32 bytes.
const LINES: usize = 50_000;

/// An HTTP endpoint that counts every byte of its connections.
struct CountingServer {
    address: SocketAddr,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    received: AtomicU64,
    sent: AtomicU64,
    /// Number of lines in the bodies that were answered.
    lines: AtomicU64,
}

impl CountingServer {
    fn start() -> CountingServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Arc::<Counts>::default();
        let of_server = counts.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let counts = of_server.clone();
                std::thread::spawn(move || serve(stream, &counts));
            }
        });
        CountingServer { address, counts }
    }
}

/// Answers every request with 204.
fn serve(stream: TcpStream, counts: &Counts) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            let bytes = reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
            counts.received.fetch_add(bytes as u64, SeqCst);
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        counts.received.fetch_add(length as u64, SeqCst);
        let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
        counts.sent.fetch_add(answer.len() as u64, SeqCst);
        stream.write_all(answer).ok()?;
        let lines = body.iter().filter(|byte| **byte == b'\n').count();
        counts.lines.fetch_add(lines as u64, SeqCst);
    }
}

/// Returns the sum of a field over all events of a type for which a condition holds.
fn sum(events: &[Value], kind: &str, field: &str, is_counted: impl Fn(&Value) -> bool) -> u64 {
    let of_kind = events.iter().filter(|event| event["event"] == kind && is_counted(event));
    of_kind.map(|event| event[field].as_u64().unwrap()).sum()
}

/// Maximum bytes of a read that is not for data: it reads the head of a file, which identifies the
/// file, or the bytes before the position.
const SHORT_READ_BYTES: u64 = 1024;

/// Returns the bytes read from the log, written to the output, written to the endpoint, and read
/// from the endpoint.
fn sums(events: &[Value], log: &Path, output: &Path, port: u16) -> [u64; 4] {
    let of_file = |path: &Path| {
        let path = path.to_str().unwrap().to_owned();
        move |event: &Value| event["path"] == path
    };
    let is_peer = |event: &Value| event["port"] == port && event["address"] == "127.0.0.1";
    let (of_log, of_output) = (of_file(log), of_file(output));
    let is_data = |event: &Value| event["bytesRead"].as_u64() > Some(SHORT_READ_BYTES);
    [
        sum(events, "FileRead", "bytesRead", |event| of_log(event) && is_data(event)),
        sum(events, "FileWrite", "bytesWritten", of_output),
        sum(events, "SocketWrite", "bytesWritten", is_peer),
        sum(events, "SocketRead", "bytesRead", is_peer),
    ]
}

/// Returns the events of a JFR file as a JDK prints them, converted to the form of the JSON lines.
fn printed(home: &Path, file: &Path) -> Vec<Value> {
    let mut jfr = Command::new(home.join("bin/jfr"));
    jfr.args(["-J-XX:TieredStopAtLevel=1", "print", "--json", "--events"]);
    jfr.arg("millstream.File*,millstream.Socket*").arg(file).env_remove("JAVA_TOOL_OPTIONS");
    let text = stdout(&jfr.output().unwrap());
    let mut parsed: Value = serde_json::from_str(&text).unwrap();
    let events = parsed["recording"]["events"].as_array_mut().unwrap();
    let flat = |event: &mut Value| {
        let mut values = event["values"].take();
        let name = event["type"].as_str().unwrap();
        values["event"] = name.trim_start_matches("millstream.").into();
        values
    };
    events.iter_mut().map(flat).collect()
}

#[test]
fn sums_of_bytes_are_those_of_files_and_connections() {
    let dir = folder();
    let server = CountingServer::start();
    // Each block ends between two lines, so that no part of a line is reread. Both buffers have
    // space for the whole file, because a blocked sink would read it later.
    let text: String = (0..LINES).map(|line| format!("line {line:026}\n")).collect();
    fs::create_dir(dir.path().join("in")).unwrap();
    fs::write(dir.path().join("in/a.log"), &text).unwrap();
    let bytes = text.len() as u64;
    let config = format!(
        "
sources: {{ app: {{ type: file, include: ['DIR/in/*.log'] }} }}
sinks:
  out: {{ type: file, inputs: [app], path: DIR/out, encoding: {{ codec: text }}, buffer: {{ max: 16MiB }} }}
  web: {{ type: http, inputs: [app], uri: 'http://{}/in', batch: {{ timeout: 100ms }}, buffer: {{ max: 16MiB }} }}
",
        server.address
    );
    let _agent = Agent::start(dir.path(), &config, &[]);
    let (log, output) = (dir.path().join("in/a.log"), dir.path().join("out"));
    let counts = &server.counts;
    wait_until("all is delivered", LIMIT, || {
        let written = fs::metadata(&output).map_or(0, |output| output.len());
        written == bytes && counts.lines.load(SeqCst) == LINES as u64
    });
    let expected = || [bytes, bytes, counts.received.load(SeqCst), counts.sent.load(SeqCst)];
    let of = |events: &[Value]| sums(events, &log, &output, server.address.port());
    // The end of the last read may be recorded shortly after the server has counted its answer.
    let mut found = [0; 4];
    wait_until("all is recorded", LIMIT, || {
        found = of(&dump(dir.path()));
        found[3] >= expected()[3]
    });
    assert_eq!(found, expected());
    let file = dir.path().join("x.jfr");
    stdout(&record(dir.path(), &["--dump", "-o", "x.jfr"]));
    for home in java::homes() {
        assert_eq!(of(&printed(&home, &file)), expected(), "{}", home.display());
    }
}
