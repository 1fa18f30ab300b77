//! Decompresses bodies like an endpoint. For gzip and zlib, it uses a different library from the
//! agent's.

use flate2::read::{GzDecoder, ZlibDecoder};
use std::io::{self, Read};

/// Decompresses a body with this `Content-Encoding`. `identity` and an empty name mean no
/// compression, `deflate` is the zlib format, `snappy` the block format, `lz4` the frame format.
///
/// # Errors
///
/// Returns an error if the body is truncated or corrupt, or the name is unknown.
pub fn unpack(encoding: &str, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    match encoding {
        "" | "identity" => out.extend_from_slice(body),
        "gzip" => drop(GzDecoder::new(body).read_to_end(&mut out)?),
        "deflate" => drop(ZlibDecoder::new(body).read_to_end(&mut out)?),
        "zstd" => out = zstd::decode_all(body)?,
        "snappy" => out = snap::raw::Decoder::new().decompress_vec(body)?,
        "lz4" => drop(lz4_flex::frame::FrameDecoder::new(body).read_to_end(&mut out)?),
        other => return Err(io::Error::other(format!("unknown encoding {other}"))),
    }
    Ok(out)
}
