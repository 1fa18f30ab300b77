//! Whole buffers compressed for the network, in formats that the endpoint reads without help of
//! ours.
//!
//! A separate crate because it cuts a dependency: the compression libraries are compiled and
//! tuned in one place.
//!
//! A [`Compressor`] keeps what it works with from one buffer to the next: the state of a library,
//! which takes longer to make than a small request takes to compress, and the memory it writes to.
//! Each buffer is complete by itself, so a request can be sent again, or to another endpoint.

#![forbid(unsafe_code)]

mod compressor;

pub use compressor::Compressor;

use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::RangeInclusive;

/// How a request is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// Not at all.
    #[default]
    None,
    /// As gzip, which everything reads.
    Gzip,
    /// As zlib (RFC 1950): gzip with twelve bytes less around it.
    Zlib,
    /// As zstd: faster than gzip, and smaller.
    Zstd,
    /// As a snappy block: faster and larger. Prometheus remote write takes nothing else.
    Snappy,
    /// As an LZ4 frame: about as snappy, with a checksum.
    Lz4,
}

impl Algorithm {
    /// Every one, in the order of the documentation.
    pub const ALL: [Algorithm; 6] = [
        Algorithm::None,
        Algorithm::Gzip,
        Algorithm::Zlib,
        Algorithm::Zstd,
        Algorithm::Snappy,
        Algorithm::Lz4,
    ];

    /// Levels there are, and the one to take if nothing else is said. `None` where there is nothing
    /// to choose.
    pub fn levels(self) -> Option<(RangeInclusive<u32>, u32)> {
        match self {
            Algorithm::None | Algorithm::Snappy | Algorithm::Lz4 => None,
            Algorithm::Gzip | Algorithm::Zlib => Some((1..=9, 6)),
            Algorithm::Zstd => Some((1..=19, 3)),
        }
    }

    /// What the header `Content-Encoding` says of it; `None` where there is nothing to say. That of
    /// zlib is `deflate` (RFC 9110).
    pub fn content_encoding(self) -> Option<&'static str> {
        match self {
            Algorithm::None => None,
            Algorithm::Gzip => Some("gzip"),
            Algorithm::Zlib => Some("deflate"),
            Algorithm::Zstd => Some("zstd"),
            Algorithm::Snappy => Some("snappy"),
            Algorithm::Lz4 => Some("lz4"),
        }
    }

    /// What is wrong with a level that was asked for, and what to write instead.
    pub fn check_level(self, level: u32) -> Result<(), String> {
        match self.levels() {
            Some((levels, _)) if levels.contains(&level) => Ok(()),
            Some((levels, _)) => {
                Err(format!("out of range; write {} to {}", levels.start(), levels.end()))
            }
            None => {
                Err("without a meaning here; remove it, or choose gzip, zlib or zstd".to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_checked_with_advice() {
        assert_eq!(Algorithm::Zstd.check_level(19), Ok(()));
        assert_eq!(Algorithm::Zlib.check_level(0), Err("out of range; write 1 to 9".to_owned()));
        assert!(Algorithm::Lz4.check_level(1).unwrap_err().contains("remove it"));
        for algorithm in Algorithm::ALL {
            let Some((levels, default)) = algorithm.levels() else { continue };
            assert!(levels.contains(&default), "{algorithm:?}");
        }
    }

    #[test]
    fn names_are_those_of_the_configuration() {
        for (algorithm, name) in
            Algorithm::ALL.into_iter().zip(["none", "gzip", "zlib", "zstd", "snappy", "lz4"])
        {
            assert_eq!(serde_json::from_str::<Algorithm>(&format!("{name:?}")).unwrap(), algorithm);
        }
        assert_eq!(Algorithm::Zlib.content_encoding(), Some("deflate"));
    }
}
