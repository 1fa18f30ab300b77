//! A search server that only answers bulk requests and counts each document as created.

use crate::measure::pin;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

const BUFFER_BYTES: usize = 256 << 10;
const ITEM: &str = "{\"create\":{\"status\":201}},";
const ROOT: &str = "{\"name\":\"n\",\"cluster_name\":\"c\",\"version\":{\"number\":\"8.19.0\"}}";

/// A server on a loopback port. Each connection has a thread, which ends with the connection.
pub struct BulkServer {
    /// Address of the server.
    pub address: SocketAddr,
    documents: Arc<AtomicU64>,
}

impl BulkServer {
    /// Starts a server on `core`.
    pub fn start(core: usize) -> io::Result<BulkServer> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let server = BulkServer { address: listener.local_addr()?, documents: Arc::default() };
        let documents = server.documents.clone();
        thread::spawn(move || -> io::Result<()> {
            pin(core)?;
            loop {
                let (stream, documents) = (listener.accept()?.0, documents.clone());
                // A broken connection needs no handling here because the sender detects it.
                thread::spawn(move || serve(stream, &documents));
            }
        });
        Ok(server)
    }

    /// Returns the number of documents since the last call.
    pub fn take(&self) -> u64 {
        self.documents.swap(0, Relaxed)
    }
}

fn serve(stream: TcpStream, documents: &AtomicU64) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut answers = stream.try_clone()?;
    let mut requests = BufReader::with_capacity(BUFFER_BYTES, stream);
    let mut body = Vec::new();
    while let Some(is_bulk) = read_request(&mut requests, &mut body)? {
        // A document takes one line for the action and one for its content.
        let count = memchr::memchr_iter(b'\n', &body).count() / 2;
        documents.fetch_add(count as u64, Relaxed);
        let answer = if is_bulk { answer(count) } else { ROOT.to_owned() };
        write!(
            answers,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-elastic-product: Elasticsearch\r\n\
             content-length: {}\r\n\r\n{answer}",
            answer.len()
        )?;
    }
    Ok(())
}

fn answer(count: usize) -> String {
    let items = ITEM.repeat(count);
    format!("{{\"took\":1,\"errors\":false,\"items\":[{}]}}", items.trim_end_matches(','))
}

/// Reads the next request; returns whether it is a bulk request, or `None` at the end of the
/// connection.
fn read_request(from: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<Option<bool>> {
    let (mut line, mut len) = (String::new(), 0);
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let is_bulk = line.contains("_bulk");
    loop {
        line.clear();
        from.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        if name.eq_ignore_ascii_case("content-length") {
            len = value.parse().map_err(io::Error::other)?;
        }
        if name.eq_ignore_ascii_case("content-encoding") {
            return Err(io::Error::other("a compressed body, in which nothing can be counted"));
        }
    }
    body.resize(len, 0);
    from.read_exact(body)?;
    Ok(Some(is_bulk))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn each_document_is_answered() {
        let server = BulkServer::start(0).unwrap();
        let mut stream = TcpStream::connect(server.address).unwrap();
        let body = "{\"create\":{}}\n{}\n{\"create\":{}}\n{}\n";
        write!(stream, "POST /_bulk HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len())
            .unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!((answer.matches("201").count(), server.take(), server.take()), (2, 2, 0));
    }
}
