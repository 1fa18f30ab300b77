//! The `console` sink writes events to standard output or standard error.

mod config;

pub use config::ConsoleConfig;

use crate::codec::Encoding;
use bytes::Bytes;
use millstream_model::{BoxFuture, DeliverError, Delivery, Encoder, Lane, LaneCx, Payload, Sink};
use std::io::{self, Write};

/// A `console` sink. It creates encoders, and lanes that write to standard output or standard
/// error.
struct Console {
    encoding: Encoding,
    target: config::Target,
}

impl Sink for Console {
    fn encoder(&self) -> Box<dyn Encoder> {
        self.encoding.encoder()
    }

    fn payload_format(&self) -> String {
        "console/1".to_owned()
    }

    fn payload_bytes_max(&self, block_bytes: u64, rows: u64) -> u64 {
        self.encoding.payload_bytes_max(block_bytes, rows)
    }

    fn lane(&self, _: LaneCx) -> Box<dyn Lane> {
        Box::new(ConsoleLane { target: self.target, written: 0 })
    }
}

struct ConsoleLane {
    target: config::Target,
    /// Number of bytes of the current payload that were written before a failure, and that a retry
    /// must not repeat.
    written: u64,
}

impl Lane for ConsoleLane {
    fn deliver<'a>(
        &'a mut self,
        payload: &'a Payload,
    ) -> BoxFuture<'a, Result<Delivery, DeliverError>> {
        Box::pin(async move {
            let (parts, target, done) = (payload.parts.clone(), self.target, self.written);
            let write = move || match target {
                config::Target::Stdout => write_parts(&mut io::stdout().lock(), &parts, done),
                config::Target::Stderr => write_parts(&mut io::stderr().lock(), &parts, done),
            };
            let (written, result) = tokio::task::spawn_blocking(write)
                .await
                .unwrap_or_else(|error| (done, Err(io::Error::other(error))));
            self.written = if result.is_ok() { 0 } else { written };
            result.map(|()| Delivery::Durable).map_err(|error| failed(&error))
        })
    }
}

/// Classifies a write error. A closed pipe stays closed, so the payload is rejected. Any other
/// error may be transient, so the write is retried.
fn failed(error: &io::Error) -> DeliverError {
    match error.kind() {
        io::ErrorKind::BrokenPipe => {
            DeliverError::reject("broken_pipe", "the reader closed the output")
        }
        _ => DeliverError::retry("write", error.to_string()),
    }
}

/// Writes all but the first `done` bytes; returns the total number of bytes written so far.
fn write_parts(out: &mut impl Write, parts: &[Bytes], mut done: u64) -> (u64, io::Result<()>) {
    let mut skip = done as usize;
    for part in parts {
        let mut rest = &part[skip.min(part.len())..];
        skip = skip.saturating_sub(part.len());
        while !rest.is_empty() {
            match out.write(rest) {
                Ok(0) => return (done, Err(io::ErrorKind::WriteZero.into())),
                Ok(n) => {
                    done += n as u64;
                    rest = &rest[n..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (done, Err(error)),
            }
        }
    }
    (done, out.flush())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer that accepts a few bytes per write, and fails once.
    struct FlakyWriter {
        out: Vec<u8>,
        fail_at: usize,
    }

    impl Write for FlakyWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.out.len() >= self.fail_at {
                self.fail_at = usize::MAX;
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let n = bytes.len().min(3);
            self.out.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_partial_write_resumes_where_it_failed() {
        let parts = [
            Bytes::from_static(b"hello\n"),
            Bytes::from_static(b""),
            Bytes::from_static(b"world\n"),
        ];
        for fail_at in 0..=9 {
            let mut out = FlakyWriter { out: Vec::new(), fail_at };
            let (done, result) = write_parts(&mut out, &parts, 0);
            assert!(result.is_err());
            let (_, result) = write_parts(&mut out, &parts, done);
            assert!(result.is_ok());
            assert_eq!(out.out, b"hello\nworld\n");
        }
    }
}
