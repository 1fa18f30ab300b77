//! A small HTTP endpoint with a configurable delay.
//!
//! The endpoint appends the body of each request to a file before it responds, so that lines that
//! the agent counts as delivered are in the file. It supports the requests of the `http` sink: with
//! `Content-Length`, one after another over a connection.

use parking_lot::Mutex;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Encoding of the sinks under test: events that can be traced to their origin.
pub const ENCODING: &str = "{ metadata: [file, offset, id, file_id] }";

/// Delay of a slow response. A request carries up to 64 KiB, so this is 128 KiB per second.
const SLOW_ANSWER: Duration = Duration::from_millis(500);

/// Longest body. The sink sends at most `batch.bytes` and one event.
const BODY_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Longest header line.
const HEADER_BYTES_MAX: u64 = 16 * 1024;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// A running endpoint. Its threads end with the process.
pub struct Endpoint {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    is_slow: AtomicBool,
    taken: Mutex<File>,
}

impl Endpoint {
    /// Listens on a free loopback port, and appends received bodies to `path`.
    pub fn start(path: &Path) -> io::Result<Endpoint> {
        let taken = File::options().create(true).append(true).open(path)?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared { is_slow: AtomicBool::new(false), taken: Mutex::new(taken) });
        let served = shared.clone();
        let builder = std::thread::Builder::new().name("endpoint".into());
        builder.spawn(move || accept(&listener, &served))?;
        Ok(Endpoint { port, shared })
    }

    /// Returns the sink's configuration. The sink buffers little in memory, so that the rest stays
    /// in the files.
    pub fn configuration(&self) -> String {
        format!(
            "  slow:\n    type: http\n    inputs: [linked, copied, counted]\n    uri: 'http://127.0.0.1:{}/'\n    \
             batch: {{ bytes: 64KiB, timeout: 100ms }}\n    buffer: {{ max: 512KiB }}\n    encoding: {ENCODING}\n",
            self.port
        )
    }

    /// Starts to delay responses.
    pub fn slow_down(&self) {
        self.shared.is_slow.store(true, Ordering::Relaxed);
    }

    /// Stops delaying responses.
    pub fn speed_up(&self) {
        self.shared.is_slow.store(false, Ordering::Relaxed);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    // The agent has one connection at a time, and replaces a broken one.
    for stream in listener.incoming().flatten() {
        let shared = shared.clone();
        let builder = std::thread::Builder::new().name("endpoint".into());
        // An unserved connection is closed, and the sink retries.
        let _ = builder.spawn(move || serve(&stream, &shared));
    }
}

/// Serves the requests of one connection until it closes.
fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(length) = read_head(&mut reader)? {
        let mut body = vec![0; length as usize];
        reader.read_exact(&mut body)?;
        shared.taken.lock().write_all(&body)?;
        if shared.is_slow.load(Ordering::Relaxed) {
            std::thread::sleep(SLOW_ANSWER);
        }
        (&mut &*stream).write_all(ANSWER)?;
    }
    Ok(())
}

/// Reads the head of a request. Returns the length of its body, or `None` at the end of the
/// connection.
fn read_head(reader: &mut impl BufRead) -> io::Result<Option<u64>> {
    let mut length = None;
    for index in 0.. {
        let mut line = String::new();
        let n = reader.by_ref().take(HEADER_BYTES_MAX).read_line(&mut line)?;
        if n == 0 && index == 0 {
            return Ok(None);
        }
        let line = line.strip_suffix("\r\n").ok_or(io::ErrorKind::InvalidData)?;
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok();
        }
    }
    let length = length.filter(|length| *length <= BODY_BYTES_MAX);
    length.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_on_disk_before_the_response() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("taken");
        let endpoint = Endpoint::start(&path).unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", endpoint.port)).unwrap();
        for (body, taken) in [("one\n", "one\n"), ("two\n", "one\ntwo\n")] {
            let head =
                format!("POST / HTTP/1.1\r\nHost: x\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + body).as_bytes()).unwrap();
            let mut answer = vec![0; ANSWER.len()];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(answer, ANSWER);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), taken);
        }
        // A truncated request appends nothing.
        stream.write_all(b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nthr").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0, "it is not answered");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn a_head_without_a_length_is_rejected() {
        let read = |head: &str| read_head(&mut head.as_bytes()).map_err(|error| error.kind());
        assert_eq!(read("POST / HTTP/1.1\r\nContent-Length: 7\r\n\r\n"), Ok(Some(7)));
        assert_eq!(read(""), Ok(None));
        for wrong in [
            "POST / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 7\r\n",
            "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        ] {
            assert_eq!(read(wrong), Err(io::ErrorKind::InvalidData), "{wrong}");
        }
    }
}
