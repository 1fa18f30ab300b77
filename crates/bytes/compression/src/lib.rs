//! Compresses complete buffers for the network, in formats that any endpoint can decompress.
//!
//! A separate crate because it cuts a dependency: the compression libraries are compiled and
//! tuned in one place.
//!
//! A [`Compressor`] reuses its state for every buffer: its output memory, and the library's
//! context, whose creation takes longer than compressing a small request. Each compressed buffer is
//! self-contained, so a request can be resent or sent to another endpoint.

#![forbid(unsafe_code)]

mod compressor;

pub use compressor::Compressor;

use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::RangeInclusive;

/// A compression algorithm.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// No compression.
    #[default]
    None,
    /// gzip, which every endpoint supports.
    Gzip,
    /// zlib (RFC 1950): like gzip, with twelve bytes less overhead.
    Zlib,
    /// zstd: faster than gzip, with smaller output.
    Zstd,
    /// A snappy block: faster, with larger output. Prometheus remote write supports no other
    /// algorithm.
    Snappy,
    /// An LZ4 frame: similar to snappy, with a checksum.
    Lz4,
}

impl Algorithm {
    /// All algorithms, in the order in which they are documented.
    pub const ALL: &[Algorithm] = <Algorithm as strum::VariantArray>::VARIANTS;

    /// Returns the supported levels and the default level, or `None` if the algorithm has no
    /// levels.
    pub fn levels(self) -> Option<(RangeInclusive<u32>, u32)> {
        match self {
            Algorithm::None | Algorithm::Snappy | Algorithm::Lz4 => None,
            Algorithm::Gzip | Algorithm::Zlib => Some((1..=9, 6)),
            Algorithm::Zstd => Some((1..=19, 3)),
        }
    }

    /// Returns the value of the `Content-Encoding` header, or `None` if there is no compression.
    /// The value for zlib is `deflate` (RFC 9110).
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

    /// Checks a level from the configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if the algorithm does not support the level. The error says what to use
    /// instead.
    pub fn check_level(self, level: u32) -> Result<(), String> {
        match self.levels() {
            Some((levels, _)) if levels.contains(&level) => Ok(()),
            Some((levels, _)) => {
                Err(format!("out of range; use {} to {}", levels.start(), levels.end()))
            }
            None => {
                Err("not supported by this algorithm; remove it, or use gzip, zlib or zstd"
                    .to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_levels_are_rejected_with_advice() {
        assert_eq!(Algorithm::Zstd.check_level(19), Ok(()));
        assert_eq!(Algorithm::Zlib.check_level(0), Err("out of range; use 1 to 9".to_owned()));
        assert!(Algorithm::Lz4.check_level(1).unwrap_err().contains("remove it"));
        for &algorithm in Algorithm::ALL {
            let Some((levels, default)) = algorithm.levels() else { continue };
            assert!(levels.contains(&default), "{algorithm:?}");
        }
    }

    #[test]
    fn names_match_the_configuration() {
        for (algorithm, name) in
            Algorithm::ALL.iter().copied().zip(["none", "gzip", "zlib", "zstd", "snappy", "lz4"])
        {
            assert_eq!(serde_json::from_str::<Algorithm>(&format!("{name:?}")).unwrap(), algorithm);
        }
        assert_eq!(Algorithm::Zlib.content_encoding(), Some("deflate"));
    }
}
