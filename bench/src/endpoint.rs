//! An HTTP endpoint that reads and keeps requests.

use crate::measure::pin;
use flate2::read::{GzDecoder, ZlibDecoder};
use parking_lot::Mutex;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Maximum length of an accepted body, which is also the maximum that the agent sends.
const BODY_BYTES_MAX: usize = 256 << 20;
const BUFFER_BYTES: usize = 256 << 10;
const ANSWER: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

/// A server on a loopback port. Each connection has a thread, which ends with the connection.
pub struct Endpoint {
    /// Address of the server.
    pub address: SocketAddr,
    bodies: Arc<Mutex<Vec<Body>>>,
}

/// The body of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    /// `Content-Encoding`, or an empty string.
    pub encoding: String,
    /// The body as it was sent.
    pub bytes: Vec<u8>,
}

impl Endpoint {
    /// Starts an endpoint on `core`.
    pub fn start(core: usize) -> io::Result<Endpoint> {
        Endpoint::start_distant(core, Duration::ZERO)
    }

    /// Starts an endpoint that waits for `latency` between a request and the response.
    pub fn start_distant(core: usize, latency: Duration) -> io::Result<Endpoint> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let endpoint = Endpoint { address: listener.local_addr()?, bodies: Arc::default() };
        let bodies = endpoint.bodies.clone();
        thread::spawn(move || -> io::Result<()> {
            pin(core)?;
            loop {
                let (stream, bodies) = (listener.accept()?.0, bodies.clone());
                // A broken connection needs no handling here because the sender detects it.
                thread::spawn(move || serve(stream, &bodies, latency));
            }
        });
        Ok(endpoint)
    }

    /// Returns the requests since the last call, in order within each connection.
    pub fn take(&self) -> Vec<Body> {
        std::mem::take(&mut *self.bodies.lock())
    }
}

fn serve(stream: TcpStream, bodies: &Mutex<Vec<Body>>, latency: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut answers = stream.try_clone()?;
    let mut requests = BufReader::with_capacity(BUFFER_BYTES, stream);
    while let Some(body) = read_request(&mut requests)? {
        bodies.lock().push(body);
        thread::sleep(latency);
        answers.write_all(ANSWER)?;
    }
    Ok(())
}

/// Reads the next request; `None` at the end of the connection.
fn read_request(from: &mut impl BufRead) -> io::Result<Option<Body>> {
    let (mut body, mut len, mut line) = (Body::default(), None, String::new());
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    loop {
        line.clear();
        from.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => len = value.parse().ok(),
            "content-encoding" => body.encoding = value.to_owned(),
            _ => {}
        }
    }
    let len = len.filter(|len| *len <= BODY_BYTES_MAX);
    let len =
        len.ok_or_else(|| io::Error::other("a request without a length, or with a huge one"))?;
    body.bytes = vec![0; len];
    from.read_exact(&mut body.bytes)?;
    Ok(Some(body))
}

impl Body {
    /// Returns the decompressed body.
    pub fn plain(&self) -> io::Result<Vec<u8>> {
        let (bytes, mut plain) = (&self.bytes[..], Vec::new());
        match self.encoding.as_str() {
            "" => return Ok(self.bytes.clone()),
            "gzip" => GzDecoder::new(bytes).read_to_end(&mut plain)?,
            "deflate" => ZlibDecoder::new(bytes).read_to_end(&mut plain)?,
            "zstd" => zstd::Decoder::new(bytes)?.read_to_end(&mut plain)?,
            "snappy" => {
                return snap::raw::Decoder::new().decompress_vec(bytes).map_err(io::Error::other);
            }
            other => return Err(io::Error::other(format!("a body that is encoded as {other}"))),
        };
        Ok(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_compression::{Algorithm, Compressor};

    #[test]
    fn it_answers_and_keeps_what_it_was_sent() {
        let endpoint = Endpoint::start(0).unwrap();
        let mut stream = TcpStream::connect(endpoint.address).unwrap();
        for (algorithm, text) in
            [(Algorithm::None, "one"), (Algorithm::Zstd, "two"), (Algorithm::Snappy, "")]
        {
            let body = Compressor::new(algorithm, None).compress(&[text.into()]).unwrap();
            write!(stream, "POST /in HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n", body.len())
                .unwrap();
            let encoding =
                algorithm.content_encoding().map(|name| format!("content-encoding: {name}\r\n"));
            write!(stream, "{}\r\n", encoding.unwrap_or_default()).unwrap();
            stream.write_all(&body).unwrap();
            let mut answer = vec![0; ANSWER.len()];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(answer, ANSWER);
        }
        let plain: Vec<Vec<u8>> =
            endpoint.take().iter().map(|body| body.plain().unwrap()).collect();
        assert_eq!(plain, [&b"one"[..], b"two", b""]);
        assert!(endpoint.take().is_empty());
    }
}
