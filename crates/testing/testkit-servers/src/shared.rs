//! Servers that the tests of one run share, although each test is a separate process.
//!
//! `scripts/test` starts the program `shared-servers`, which starts a server when a test first
//! requests it, and stops all servers when its standard input closes. A request is a line with the
//! name of the server, and the response is a line with its address. Without the program, each
//! process starts separate servers.

pub mod program;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Environment variable with the path of the program's socket.
pub const SOCKET_VARIABLE: &str = "MILLSTREAM_SHARED_SERVERS";

/// A server that tests share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedServer {
    /// A broker without TLS and SASL.
    Kafka,
    /// An OpenSearch node.
    Search,
    /// A Prometheus without scrape targets.
    Prometheus,
}

impl SharedServer {
    const ALL: [SharedServer; 3] =
        [SharedServer::Kafka, SharedServer::Search, SharedServer::Prometheus];

    fn name(self) -> &'static str {
        match self {
            SharedServer::Kafka => "kafka",
            SharedServer::Search => "search",
            SharedServer::Prometheus => "prometheus",
        }
    }
}

/// Returns the address `HOST:PORT` of a server that the run shares; `None` if the run does not
/// share servers.
///
/// # Panics
/// Panics if the program does not respond, or cannot start the server.
pub(crate) fn address(server: SharedServer) -> Option<String> {
    let socket = std::env::var_os(SOCKET_VARIABLE)?;
    let mut stream = UnixStream::connect(Path::new(&socket)).expect("shared-servers accepts");
    writeln!(stream, "{}", server.name()).expect("shared-servers takes a request");
    let mut address = String::new();
    BufReader::new(stream).read_line(&mut address).expect("shared-servers answers");
    assert!(!address.is_empty(), "{server:?} does not start; target/test/servers.log says why");
    Some(address.trim_end().to_owned())
}
