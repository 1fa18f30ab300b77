//! Tests lines over TCP without acknowledgements.

use super::{FILES, PATIENCE, append, counted, line, logs, stop, wait_settled};
use crate::support::{Agent, folder, wait_until};
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Number of lines per file. It is several times what the kernel buffers can hold.
const LINES: usize = 4_000;

/// Requested receive buffer in bytes; the kernel doubles the number and fills the buffer slightly
/// beyond it.
const BUFFER: usize = 16 * 1024;

/// Maximum number of bytes in such a buffer.
const HELD_MAX: usize = 4 * BUFFER;

/// Treatment of the first connection; the endpoint reads all other connections to the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    /// Reads about this many bytes, then resets the connection while more bytes are waiting in the
    /// kernel.
    ResetAfter(usize),
    /// Reads nothing until released.
    Hold,
    /// Reads this many times 1000 bytes, each after a pause.
    Slowly(usize),
}

/// An endpoint, and the data that it received on each connection.
struct Lines {
    port: u16,
    texts: Arc<Mutex<Vec<Vec<u8>>>>,
    release: Arc<AtomicBool>,
}

impl Lines {
    fn start(first: First) -> Lines {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_socket_recv_buffer_size(&listener, BUFFER).unwrap();
        let port = listener.local_addr().unwrap().port();
        let texts = Arc::new(Mutex::new(Vec::new()));
        let release = Arc::new(AtomicBool::new(false));
        let (all, released) = (texts.clone(), release.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let number = all.lock().unwrap().len();
                all.lock().unwrap().push(Vec::new());
                let (all, released) = (all.clone(), released.clone());
                thread::spawn(move || read(stream, &all, number, first, &released));
            }
        });
        Lines { port, texts, release }
    }

    fn connections(&self) -> usize {
        self.texts.lock().unwrap().len()
    }

    /// Returns the complete lines of a connection.
    fn text(&self, connection: usize) -> String {
        let text = String::from_utf8(self.texts.lock().unwrap()[connection].clone()).unwrap();
        let end = text.rfind('\n').map_or(0, |end| end + 1);
        text[..end].to_owned()
    }
}

fn read(
    mut stream: TcpStream,
    texts: &Mutex<Vec<Vec<u8>>>,
    number: usize,
    first: First,
    released: &AtomicBool,
) {
    let mut buffer = [0; 1000];
    let mut turns = 0;
    while number == 0 && first == First::Hold && !released.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(5));
    }
    loop {
        if number == 0 && matches!(first, First::Slowly(slow) if turns < slow) {
            thread::sleep(Duration::from_millis(2));
        }
        turns += 1;
        let Ok(count @ 1..) = stream.read(&mut buffer) else { return };
        texts.lock().unwrap()[number].extend_from_slice(&buffer[..count]);
        if number == 0 && matches!(first, First::ResetAfter(bytes) if turns * 1000 >= bytes) {
            // Gives more data time to arrive in the kernel.
            thread::sleep(Duration::from_millis(100));
            return set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        }
    }
}

fn config(port: u16, timeout: &str) -> String {
    logs(&format!("type: tcp, address: '127.0.0.1:{port}', timeout: {timeout}"))
}

/// Returns the numbers of a file's lines in a text as a half-open range, and asserts that the range
/// has no gaps. If there are no such lines, both bounds are `go_on`.
fn range(text: &str, file: usize, go_on: usize) -> (usize, usize) {
    let begin = format!("{file:02} ");
    let mut of_file = text.lines().filter(|line| line.starts_with(&begin)).peekable();
    let Some(first) = of_file.peek() else { return (go_on, go_on) };
    let first: usize = first[3..9].parse().unwrap();
    let mut next = first;
    for found in of_file {
        assert_eq!(found, line(file, next));
        next += 1;
    }
    (first, next)
}

#[test]
fn a_stuck_endpoint_is_abandoned_and_the_next_gets_every_line() {
    let endpoint = Lines::start(First::Hold);
    let dir = folder();
    append(dir.path(), 0, LINES);
    let agent = Agent::start(dir.path(), &config(endpoint.port, "5s"), &[]);
    let all = (FILES * LINES) as u64;
    assert_eq!(wait_settled(&agent, all), (all, 0), "sent and dropped");
    assert_eq!(counted(&agent, "errors", "error_type=\"timeout\""), 1, "{}", agent.log());
    stop(agent);
    endpoint.release.store(true, Ordering::Relaxed);
    let has_rest = || (0..FILES).all(|file| range(&endpoint.text(1), file, 0).1 == LINES);
    wait_until("the rest", PATIENCE, has_rest);
    wait_until("what the first connection has", PATIENCE, || {
        // Lines that were settled over the first connection had arrived completely in the
        // endpoint's kernel.
        (0..FILES)
            .all(|file| range(&endpoint.text(0), file, 0).1 >= range(&endpoint.text(1), file, 0).0)
    });
    assert_eq!(endpoint.connections(), 2);
}

#[test]
fn a_reset_loses_at_most_data_that_the_endpoint_had_not_read() {
    let endpoint = Lines::start(First::ResetAfter(100_000));
    let dir = folder();
    append(dir.path(), 0, LINES);
    let agent = Agent::start(dir.path(), &config(endpoint.port, "30s"), &[]);
    let all = (FILES * LINES) as u64;
    assert_eq!(wait_settled(&agent, all), (all, 0), "sent and dropped");
    stop(agent);
    let has_rest = || (0..FILES).all(|file| range(&endpoint.text(1), file, 0).1 == LINES);
    wait_until("the rest", PATIENCE, || endpoint.connections() == 2 && has_rest());
    let mut lost = 0;
    for file in 0..FILES {
        let (first, end) = range(&endpoint.text(0), file, 0);
        assert_eq!(first, 0);
        lost += range(&endpoint.text(1), file, 0).0.saturating_sub(end) * (line(file, 0).len() + 1);
    }
    assert!(lost <= HELD_MAX, "{lost} bytes lost of a buffer of at most {HELD_MAX}");
}

#[test]
fn a_slow_reader_gets_every_line_once() {
    let endpoint = Lines::start(First::Slowly(200));
    let dir = folder();
    append(dir.path(), 0, LINES);
    let agent = Agent::start(dir.path(), &config(endpoint.port, "30s"), &[]);
    let all = (FILES * LINES) as u64;
    assert_eq!(wait_settled(&agent, all), (all, 0), "sent and dropped");
    assert_eq!(counted(&agent, "errors", ""), 0);
    stop(agent);
    wait_until("every line", PATIENCE, || {
        (0..FILES).all(|file| range(&endpoint.text(0), file, 0) == (0, LINES))
    });
    assert_eq!(endpoint.connections(), 1);
}
