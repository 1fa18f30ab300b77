//! The parts that producers and consumers share: callbacks for logs, errors and statistics, and the
//! token.

use crate::ErrorCode;
use crate::token::Token;
use crate::traffic::Traffic;
use parking_lot::{Mutex, MutexGuard};
use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use std::error::Error;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum size of a token file in bytes. Reading a longer file is an error.
const TOKEN_BYTES_MAX: u64 = 64 << 10;

/// The reason why a client cannot be created.
#[derive(Debug)]
pub struct OpenError(pub String);

/// An error from a broker, or from the connection to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientError {
    /// The error code.
    pub code: ErrorCode,
    /// The error as text.
    pub message: String,
}

impl From<KafkaError> for ClientError {
    fn from(error: KafkaError) -> ClientError {
        let code = error.rdkafka_error_code().unwrap_or(ErrorCode::Unknown);
        ClientError { code, message: error.to_string() }
    }
}

/// Receives librdkafka's logs, errors and statistics, and reads the SASL OAUTHBEARER token.
#[derive(Default)]
pub(crate) struct Callbacks {
    last_error: Mutex<Option<ClientError>>,
    token_file: Option<PathBuf>,
    /// Text of the token that was read last, which is masked in messages.
    token: Mutex<String>,
    traffic: Traffic,
}

impl Callbacks {
    /// Creates the callbacks of a client. With a `token_file`, the client logs in with the token in
    /// that file.
    pub fn new(token_file: Option<PathBuf>) -> Callbacks {
        Callbacks { token_file, ..Callbacks::default() }
    }

    /// Logs a message from the library.
    pub fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log::debug!("librdkafka {level:?} {facility}: {}", self.masked(message));
    }

    /// Records the bytes exchanged with each broker, taken from librdkafka's statistics.
    pub fn statistics(&self, json: &[u8]) {
        self.traffic.record(json);
    }

    /// Returns how long broker quotas delayed requests since the last call.
    pub fn take_throttled(&self) -> Duration {
        self.traffic.take_throttled()
    }

    /// Stores an error until it is taken.
    pub fn error(&self, error: &KafkaError, reason: &str) {
        let reason = self.masked(reason);
        log::debug!("librdkafka {error}: {reason}");
        // Keep a single broker's last error instead of the error that all brokers are down, because
        // it is more informative.
        let code = error.rdkafka_error_code().unwrap_or(ErrorCode::Unknown);
        let mut last_error = self.last_error();
        if code != ErrorCode::AllBrokersDown || last_error.is_none() {
            *last_error = Some(ClientError { code, message: reason });
        }
    }

    /// Returns the last error. The caller may take or replace it.
    pub fn last_error(&self) -> MutexGuard<'_, Option<ClientError>> {
        self.last_error.lock()
    }

    /// Reads the token file.
    ///
    /// # Errors
    /// Returns an error if no file is configured, or if the file cannot be read.
    pub fn token(&self) -> Result<OAuthToken, Box<dyn Error>> {
        let read = self.read_token();
        if let Err(error) = &read {
            let message = error.to_string();
            *self.last_error() = Some(ClientError { code: ErrorCode::Authentication, message });
        }
        let Token { text, principal, lifetime_ms } = read?;
        Ok(OAuthToken { token: text, principal_name: principal, lifetime_ms })
    }

    /// Returns `text` with the token masked.
    fn masked(&self, text: &str) -> String {
        let token = self.token.lock();
        if token.is_empty() { text.to_owned() } else { text.replace(&**token, "REDACTED") }
    }

    fn read_token(&self) -> Result<Token, String> {
        let path = self.token_file.as_ref().ok_or("no token is configured")?;
        let text = read(path)
            .map_err(|error| format!("cannot read the token {}: {error}", path.display()))?;
        text.trim().clone_into(&mut self.token.lock());
        Token::new(text.trim()).ok_or_else(|| format!("{} contains no token", path.display()))
    }
}

/// Reads a token file.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(TOKEN_BYTES_MAX + 1).read_to_string(&mut text)?;
    match text.len() as u64 > TOKEN_BYTES_MAX {
        true => {
            Err(io::Error::other("is longer than 64 KiB; use a file that contains only the token"))
        }
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_broker_says_has_no_token() {
        let callbacks = Callbacks::default();
        assert_eq!(callbacks.masked("a-token"), "a-token");
        "a-token".clone_into(&mut callbacks.token.lock());
        assert_eq!(callbacks.masked("no a-token here"), "no REDACTED here");
    }

    #[test]
    fn a_token_file_without_an_end_is_read_up_to_its_bound() {
        let error = read(Path::new("/dev/zero")).unwrap_err();
        assert!(error.to_string().contains("longer than 64 KiB"), "{error}");
    }
}
