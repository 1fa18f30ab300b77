//! Measures the sent bytes before and after compression, and the CPU time of the minimum of work on
//! them.

use crate::endpoint::Body;
use crate::measure::thread_cpu_seconds;
use bytes::Bytes;
use millstream_compression::{Algorithm, Compressor};
use std::hint::black_box;
use std::io;

/// Requests, and CPU seconds of the minimum of work on their bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Least {
    pub requests: usize,
    pub plain_bytes: usize,
    pub sent_bytes: usize,
    /// CPU seconds to copy the decompressed bytes.
    pub copy_seconds: f64,
    /// CPU seconds of the compressor alone, to compress the bytes again.
    pub compress_seconds: f64,
}

impl Least {
    /// Decompresses every request and does the work on this thread.
    pub fn of(bodies: &[Body]) -> io::Result<Least> {
        let mut least = Least { requests: bodies.len(), ..Least::default() };
        let Some(first) = bodies.first() else { return Ok(least) };
        let mut compressor = Compressor::new(algorithm(&first.encoding)?, None);
        let mut copy = Vec::new();
        for body in bodies {
            let plain = Bytes::from(body.plain()?);
            least.plain_bytes += plain.len();
            least.sent_bytes += body.bytes.len();
            let start = thread_cpu_seconds();
            copy.clear();
            copy.extend_from_slice(&plain);
            black_box(&mut copy);
            let copied = thread_cpu_seconds();
            black_box(compressor.compress(&[plain])?);
            least.compress_seconds += thread_cpu_seconds() - copied;
            least.copy_seconds += copied - start;
        }
        Ok(least)
    }
}

/// Returns the total bytes of all requests, uncompressed and compressed by each algorithm. Each
/// request is compressed separately.
pub fn bytes_by_algorithm(bodies: &[Body], algorithms: &[Algorithm]) -> io::Result<Vec<usize>> {
    let mut compressors: Vec<Compressor> =
        algorithms.iter().map(|algorithm| Compressor::new(*algorithm, None)).collect();
    let mut bytes = vec![0; algorithms.len() + 1];
    for body in bodies {
        let plain = [Bytes::from(body.plain()?)];
        bytes[0] += plain[0].len();
        for (bytes, compressor) in bytes[1..].iter_mut().zip(&mut compressors) {
            *bytes += compressor.compress(&plain)?.len();
        }
    }
    Ok(bytes)
}

/// Returns the algorithm that a request names.
fn algorithm(content_encoding: &str) -> io::Result<Algorithm> {
    let named =
        |algorithm: &Algorithm| algorithm.content_encoding().unwrap_or("") == content_encoding;
    Algorithm::ALL
        .iter()
        .copied()
        .find(named)
        .ok_or_else(|| io::Error::other(format!("a body that is encoded as {content_encoding}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_bodies() {
        let bytes =
            Compressor::new(Algorithm::Zlib, None).compress(&[vec![7; 50_000].into()]).unwrap();
        let body = Body { encoding: "deflate".to_owned(), bytes };
        let least = Least::of(&[body.clone(), body.clone()]).unwrap();
        assert_eq!((least.requests, least.plain_bytes), (2, 100_000));
        assert_eq!(least.sent_bytes, 2 * body.bytes.len());
        assert!(least.compress_seconds > 0.0 && least.copy_seconds > 0.0);
    }
}
