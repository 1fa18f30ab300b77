//! TLS on the receiver's side of a connection.
//!
//! The bytes of the socket are read and written by [`crate::connection`]; this module only decrypts
//! them.

use rustls::{ServerConfig, ServerConnection};
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

/// Maximum ciphertext per read in bytes. Its plaintext fits into the space for one read, together
/// with a record that was incomplete before.
pub const CIPHERTEXT_BYTES: usize = 32 << 10;

/// Provides the configuration for each new connection, so that changed certificates apply.
#[derive(Clone)]
pub struct TlsConfigs(Arc<dyn Fn() -> Result<Arc<ServerConfig>, String> + Send + Sync>);

impl TlsConfigs {
    /// Creates a provider. `config` returns the current configuration, or the reason why there is
    /// none. It is called on a receiver's thread for each connection.
    pub fn new(
        config: impl Fn() -> Result<Arc<ServerConfig>, String> + Send + Sync + 'static,
    ) -> TlsConfigs {
        TlsConfigs(Arc::new(config))
    }

    /// Creates the TLS state for a new connection.
    pub fn accept(&self) -> Result<TlsStream, String> {
        let config = (self.0)()?;
        let connection = ServerConnection::new(config).map_err(|error| error.to_string())?;
        Ok(TlsStream { connection: Box::new(connection), is_closed: false })
    }
}

impl fmt::Debug for TlsConfigs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsConfigs")
    }
}

impl PartialEq for TlsConfigs {
    fn eq(&self, other: &TlsConfigs) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for TlsConfigs {}

/// The TLS state of a connection.
#[derive(Debug)]
pub struct TlsStream {
    connection: Box<ServerConnection>,
    is_closed: bool,
}

impl TlsStream {
    /// Returns whether the handshake is not complete.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Returns whether the peer has ended the session.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Decrypts up to [`CIPHERTEXT_BYTES`] bytes into `plain`. Returns the number of bytes there.
    pub fn decrypt(
        &mut self,
        mut ciphertext: &[u8],
        plain: &mut [u8],
    ) -> Result<usize, rustls::Error> {
        let mut len = 0;
        while !ciphertext.is_empty() {
            let taken = self.connection.read_tls(&mut ciphertext);
            let taken = taken.map_err(|error| rustls::Error::General(error.to_string()))?;
            let state = self.connection.process_new_packets()?;
            len += self.drain(&mut plain[len..])?;
            if state.peer_has_closed() || taken == 0 {
                // The peer may wait for the answer before it closes the connection.
                self.is_closed = true;
                self.connection.send_close_notify();
                break;
            }
        }
        Ok(len)
    }

    /// Moves decrypted bytes to `plain`.
    fn drain(&mut self, plain: &mut [u8]) -> Result<usize, rustls::Error> {
        let mut len = 0;
        loop {
            match self.connection.reader().read(&mut plain[len..]) {
                Ok(0) => return Ok(len),
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(len),
                // The peer has closed the connection without ending the session.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(len),
                Err(error) => return Err(rustls::Error::General(error.to_string())),
            }
        }
    }

    /// Passes the bytes that the peer must receive to `write`, which returns how many it took. The
    /// bytes that it did not take are kept.
    pub fn flush(&mut self, write: impl FnMut(&[u8]) -> io::Result<usize>) {
        let mut writer = Writer(write);
        while self.connection.wants_write()
            && self.connection.write_tls(&mut writer).is_ok_and(|written| written > 0)
        {}
    }
}

/// A function as a writer.
struct Writer<F>(F);

impl<F: FnMut(&[u8]) -> io::Result<usize>> io::Write for Writer<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (self.0)(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
