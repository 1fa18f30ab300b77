//! Compressed bodies as an endpoint reads them. gzip and zlib are read by another library than the
//! agent writes them with.

use flate2::read::{GzDecoder, ZlibDecoder};
use std::io::{self, Read};

/// What is in a body with this `Content-Encoding`; `identity` and nothing are no compression,
/// `deflate` is zlib's form, `snappy` the block form, `lz4` the frame form.
///
/// # Errors
///
/// The body is cut or damaged, or the name is not known.
pub fn unpack(encoding: &str, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    match encoding {
        "" | "identity" => out.extend_from_slice(body),
        "gzip" => drop(GzDecoder::new(body).read_to_end(&mut out)?),
        "deflate" => drop(ZlibDecoder::new(body).read_to_end(&mut out)?),
        "zstd" => out = zstd::decode_all(body)?,
        "snappy" => out = snap::raw::Decoder::new().decompress_vec(body)?,
        "lz4" => drop(lz4_flex::frame::FrameDecoder::new(body).read_to_end(&mut out)?),
        other => return Err(io::Error::other(format!("{other} is not known"))),
    }
    Ok(out)
}
