//! A server connection with or without TLS.

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// A byte stream.
pub trait Wire: Read + Write + Send {}

impl<W: Read + Write + Send> Wire for W {}

/// Wraps an accepted connection, with TLS if there is a configuration.
pub fn wire(socket: &TcpStream, tls: Option<&Arc<ServerConfig>>) -> io::Result<Box<dyn Wire>> {
    let plain = socket.try_clone()?;
    let Some(tls) = tls else { return Ok(Box::new(plain)) };
    let connection = ServerConnection::new(tls.clone()).map_err(io::Error::other)?;
    Ok(Box::new(StreamOwned::new(connection, plain)))
}
