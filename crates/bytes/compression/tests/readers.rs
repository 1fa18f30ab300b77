//! Checks that all compressed data can be decompressed, including by independent implementations.

use bytes::Bytes;
use millstream_compression::{Algorithm, Compressor};
use millstream_testkit_random::{TestSize, property};
use proptest::collection::vec;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// Decompresses with another library, or with the same library for zstd, snappy and LZ4.
fn decompress(algorithm: Algorithm, compressed: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut reader: Box<dyn Read> = match algorithm {
        Algorithm::None => Box::new(compressed),
        Algorithm::Gzip => Box::new(flate2::read::GzDecoder::new(compressed)),
        Algorithm::Zlib => Box::new(flate2::read::ZlibDecoder::new(compressed)),
        Algorithm::Zstd => Box::new(zstd::Decoder::new(compressed).unwrap()),
        Algorithm::Snappy => return snap::raw::Decoder::new().decompress_vec(compressed).unwrap(),
        Algorithm::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(compressed)),
    };
    reader.read_to_end(&mut plain).unwrap();
    plain
}

/// Returns every algorithm with each of its levels.
fn every_level() -> impl Iterator<Item = (Algorithm, Option<u32>)> {
    Algorithm::ALL.iter().copied().flat_map(|algorithm| match algorithm.levels() {
        Some((levels, _)) => levels.map(|level| (algorithm, Some(level))).collect(),
        None => vec![(algorithm, None)],
    })
}

/// Generates the parts of requests: repeated bytes, noise, empty parts, and similar lines.
fn parts() -> impl Strategy<Value = Vec<Bytes>> {
    let part = prop_oneof![
        Just(Vec::new()),
        vec(any::<u8>(), 0..300),
        (any::<u8>(), 0usize..40_000).prop_map(|(byte, count)| vec![byte; count]),
        (0u64..1000, 1u64..2000).prop_map(|(first, count)| lines(first, count)),
    ];
    vec(part.prop_map(Bytes::from), 0..4)
}

fn lines(first: u64, count: u64) -> Vec<u8> {
    (first..first + count)
        .flat_map(|id| format!("{{\"id\":{id},\"path\":\"/a/{}\"}}\n", id * 7919).into_bytes())
        .collect()
}

/// Returns incompressible bytes.
fn noise(len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(7);
    (0..len).map(|_| random.u8(..)).collect()
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 24, long: 500 };

proptest! {
    #![proptest_config(property(CASES))]

    /// One compressor handles all requests, because any leftover state would corrupt the next
    /// request.
    #[test]
    fn every_request_round_trips(requests in vec(parts(), 1..5)) {
        for (algorithm, level) in every_level() {
            let mut compressor = Compressor::new(algorithm, level);
            for parts in &requests {
                let compressed = compressor.compress(parts).unwrap();
                prop_assert_eq!(decompress(algorithm, &compressed), parts.concat(), "{:?} {:?}", algorithm, level);
            }
        }
    }
}

#[test]
fn small_requests_round_trip_after_large_ones() {
    let large = [Bytes::from(noise(6 << 20)), Bytes::from(lines(0, 40_000)), Bytes::from(noise(3))];
    for &algorithm in Algorithm::ALL {
        let mut compressor = Compressor::new(algorithm, None);
        for parts in [&large[..], &large[1..2], &[], &large[2..]] {
            let compressed = compressor.compress(parts).unwrap();
            assert!(decompress(algorithm, &compressed) == parts.concat(), "{algorithm:?}");
        }
    }
}

#[test]
fn compression_is_deterministic() {
    let (first, second) = ([Bytes::from(lines(0, 3000))], [Bytes::from(lines(500, 100))]);
    for (algorithm, level) in every_level() {
        let mut compressor = Compressor::new(algorithm, level);
        let before = compressor.compress(&first).unwrap();
        compressor.compress(&second).unwrap();
        assert!(compressor.compress(&first).unwrap() == before, "{algorithm:?} {level:?}");
        let split = [first[0].slice(..1000), Bytes::new(), first[0].slice(1000..)];
        assert!(
            compressor.compress(&split).unwrap() == before,
            "{algorithm:?} {level:?}: in parts"
        );
    }
}

#[test]
fn higher_levels_compress_better() {
    let parts = [Bytes::from(lines(0, 30_000))];
    let size = |algorithm, level| Compressor::new(algorithm, level).compress(&parts).unwrap().len();
    for (algorithm, level) in every_level().skip(1) {
        assert!(size(algorithm, level) < parts[0].len() / 2, "{algorithm:?} {level:?}");
    }
    for algorithm in [Algorithm::Gzip, Algorithm::Zlib, Algorithm::Zstd] {
        let (levels, _) = algorithm.levels().unwrap();
        assert!(size(algorithm, Some(*levels.end())) < size(algorithm, Some(1)), "{algorithm:?}");
    }
}

/// Compares with Python's zlib and gzip, and with snappy and LZ4 decoders written from the
/// specifications.
#[test]
fn independent_decoders_agree() {
    let inputs = [
        Vec::new(),
        b"a".to_vec(),
        lines(0, 200),
        noise(100_000),
        vec![7; 600_000],
        lines(0, 20_000),
    ];
    let (mut stream, mut buffers) = (Vec::new(), 0);
    for (algorithm, level) in every_level() {
        if matches!(algorithm, Algorithm::None | Algorithm::Zstd) {
            continue;
        }
        let mut compressor = Compressor::new(algorithm, level);
        for plain in &inputs {
            let compressed = compressor.compress(&[plain.clone().into()]).unwrap();
            let name = algorithm.content_encoding().unwrap();
            writeln!(stream, "{name} {} {}", compressed.len(), plain.len()).unwrap();
            stream.extend(compressed.iter().chain(plain));
            buffers += 1;
        }
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/read.py");
    let mut python = Command::new("python3")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(&stream).unwrap();
    let output = python.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), buffers.to_string());
}
