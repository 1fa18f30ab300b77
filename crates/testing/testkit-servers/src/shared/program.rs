//! The `shared-servers` program.

use super::SharedServer;
use crate::kafka::Kafka;
use crate::prometheus::Prometheus;
use crate::search::SearchServer;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Serves requests at a socket until standard input closes.
///
/// # Errors
/// Returns an error if the socket cannot be created.
pub fn serve(socket: &Path) -> std::io::Result<()> {
    let listener = UnixListener::bind(socket)?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn answer(stream: UnixStream) {
    let mut request = String::new();
    let read = BufReader::new(&stream).read_line(&mut request);
    let server = SharedServer::ALL.into_iter().find(|server| server.name() == request.trim_end());
    if let (Ok(_), Some(server)) = (read, server) {
        // The test that sent the request may be gone.
        let _ = writeln!(&stream, "{}", start(server));
    }
}

/// Returns the address of this process's server, which is started if necessary.
fn start(server: SharedServer) -> String {
    match server {
        SharedServer::Kafka => Kafka::shared().bootstrap(),
        SharedServer::Search => format!("127.0.0.1:{}", SearchServer::shared().port),
        SharedServer::Prometheus => Prometheus::shared().address().to_owned(),
    }
}
