//! Taps over real sockets.

use crate::common::{Fixture, ask_socket};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Opens a tap of the fixture, which sends an endless sequence of numbered lines.
fn tap(fixture: &Fixture, query: &str) -> BufReader<UnixStream> {
    let mut stream = UnixStream::connect(&fixture.console().socket_path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET /api/tap?{query} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    BufReader::new(stream)
}

/// Reads lines until one contains `part`.
fn read_until(client: &mut impl BufRead, part: &str) -> String {
    let mut line = String::new();
    while !line.contains(part) {
        line.clear();
        assert!(client.read_line(&mut line).unwrap() > 0, "the answer ends before {part}");
    }
    line
}

#[test]
fn lines_are_sent_until_the_client_goes_away() {
    let fixture = Fixture::new();
    let mut client = tap(&fixture, "id=app&where=a%20%3E%201");
    assert!(read_until(&mut client, "HTTP/1.1").contains("200"));
    assert!(read_until(&mut client, "content-type").contains("application/x-ndjson"));
    read_until(&mut client, "a > 1 1000\n");
}

#[test]
fn a_tap_needs_the_token_and_a_valid_query() {
    let fixture = Fixture::new();
    assert_eq!(fixture.ask("/api/tap?id=app", &[]).status, 401);
    let refused = |query: &str| {
        let socket = &fixture.console().socket_path;
        let reply = ask_socket(socket, "GET", &format!("/api/tap{query}"), &[]);
        (reply.status, reply.json()["error"].as_str().unwrap().to_owned())
    };
    assert_eq!(refused("").0, 400);
    assert_eq!(refused("?id=app&limit=0").0, 400);
    assert_eq!(refused("?id=none"), (404, "there is no `none`".to_owned()));
    assert_eq!(refused("?id=app&where=bad"), (400, "bad condition".to_owned()));
    let post = ask_socket(&fixture.console().socket_path, "POST", "/api/tap", &[]);
    assert_eq!(post.status, 405);
}

#[test]
fn eight_taps_may_be_open_and_one_that_ends_leaves_its_place() {
    let fixture = Fixture::new();
    let mut clients: Vec<_> = (0..8).map(|_| tap(&fixture, "id=app")).collect();
    for client in &mut clients {
        read_until(client, "200 OK");
    }
    let socket = &fixture.console().socket_path;
    let refused = ask_socket(socket, "GET", "/api/tap?id=app", &[]);
    assert_eq!(refused.status, 429, "{}", refused.body);
    assert_eq!(ask_socket(socket, "GET", "/health", &[]).status, 200);
    clients.pop();
    let begun = Instant::now();
    loop {
        let mut client = tap(&fixture, "id=app");
        if read_until(&mut client, "HTTP/1.1").contains("200") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "the place is not free");
    }
}

/// The fastest of several shutdowns counts, because a busy host delays single ones.
#[test]
fn a_tap_does_not_delay_the_shutdown() {
    let times: Vec<Duration> = (0..5).map(|_| shutdown_with_taps()).collect();
    assert!(times.iter().any(|time| *time < Duration::from_millis(900)), "{times:?}");
}

/// Returns how long the shutdown of a console with two taps takes.
fn shutdown_with_taps() -> Duration {
    let mut fixture = Fixture::new();
    // One client reads; the other does not.
    let mut reads = tap(&fixture, "id=app");
    let mut stuck = tap(&fixture, "id=app");
    read_until(&mut reads, "200 OK");
    read_until(&mut stuck, "200 OK");
    let reader = std::thread::spawn(move || std::io::copy(&mut reads, &mut std::io::sink()));
    let begun = Instant::now();
    let console = fixture.console.take().unwrap();
    fixture.runtime.block_on(console.shutdown());
    let time = begun.elapsed();
    let _ = reader.join().unwrap();
    let mut rest = Vec::new();
    let _ = stuck.read_to_end(&mut rest);
    time
}
