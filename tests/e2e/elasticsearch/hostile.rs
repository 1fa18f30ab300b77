//! Tests a server whose answers never end.

use super::{PATIENCE, append, assert_lines, config, line};
use crate::e2e::elasticsearch::bulk_endpoint::{Act, BulkEndpoint};
use crate::e2e::memory::peak_bytes;
use crate::support::{Agent, folder, wait_until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of bytes that the server sends, far more than the agent can keep in memory.
const SENT_BYTES_MAX: u64 = 1 << 30;

/// Maximum number of additional bytes of memory that the agent may need because of this server.
const MORE_BYTES_MAX: u64 = 16 << 20;

const LINES: usize = 5_000;

/// The beginning of an item whose reason never ends.
const BEGIN: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n\
    {\"errors\":true,\"items\":[{\"create\":{\"status\":400,\"error\":{\"type\":\"t\",\"reason\":\"";

/// Starts a server that answers each request with a string that continues as long as the agent
/// reads. Returns its address and the number of sent bytes.
fn endless() -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap());
    let sent = Arc::new(AtomicU64::new(0));
    let count = sent.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap(), &count);
        }
    });
    (uri, sent)
}

fn answer(mut stream: TcpStream, sent: &AtomicU64) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        let header = line.to_lowercase();
        let value = header.strip_prefix("content-length:");
        length = value.map_or(length, |value| value.trim().parse().unwrap());
        line.clear();
    }
    let _ = std::io::copy(&mut reader.take(length), &mut std::io::sink());
    let mut takes_more = stream.write_all(BEGIN).is_ok();
    while takes_more && sent.load(Ordering::Relaxed) < SENT_BYTES_MAX {
        takes_more = stream.write_all(&[b'x'; 1 << 16]).is_ok();
        sent.fetch_add(1 << 16, Ordering::Relaxed);
    }
}

/// Delivers the lines to `uris`; returns the peak of the agent's resident memory in bytes.
fn peak(uris: &str, endpoint: &BulkEndpoint, why: &str) -> u64 {
    let dir = folder();
    append(dir.path(), (0..LINES).map(line));
    let options = "index: a, batch: { events: 100 }, request: { concurrency: 1 }";
    let limit = "limits: { memory: 128MiB, threads: 2 }\n";
    let config = format!("{limit}{}", config(uris, options));
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_until("all lines", PATIENCE, || {
        assert!(!agent.poll_ended(), "{}", agent.log());
        endpoint.documents.lock().len() == LINES && agent.log().contains(why)
    });
    assert_lines(&endpoint.documents.lock(), LINES);
    let peak = peak_bytes(agent.pid());
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    peak
}

#[test]
fn an_answer_without_an_end_takes_no_memory_and_loses_nothing() {
    let endpoint = || BulkEndpoint::start(|_, _| Act::Judge, |_, _| 201);
    let usual = endpoint();
    let usual_peak = peak(&usual.server.uri("/"), &usual, "");
    let healthy = endpoint();
    let (uri, sent) = endless();
    let uris = format!("{uri}', '{}", healthy.server.uri("/"));
    let hostile_peak = peak(
        &uris,
        &healthy,
        "the response up to the end of its next item exceeds the maximum of 16384 KiB",
    );
    let sent = sent.load(Ordering::Relaxed);
    eprintln!("peaks: {usual_peak} and {hostile_peak} bytes, {sent} bytes sent");
    assert!(hostile_peak <= usual_peak + MORE_BYTES_MAX, "{hostile_peak}, usually {usual_peak}");
    assert!(sent < SENT_BYTES_MAX, "the agent has read everything");
}
