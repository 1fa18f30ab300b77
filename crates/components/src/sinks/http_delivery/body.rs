//! Bodies of requests, and their compression.

use bytes::Bytes;
use millstream_compression::Compressor;

/// A body, and its headers.
pub type Body = (Vec<Bytes>, Vec<(&'static str, String)>);

/// Compresses a body, and returns the header for it. If the library runs out of memory, the body is
/// sent uncompressed.
pub fn compress(compressor: &mut Compressor, parts: Vec<Bytes>) -> Body {
    let Some(encoding) = compressor.algorithm().content_encoding() else {
        return (parts, Vec::new());
    };
    match compressor.compress(&parts) {
        Ok(body) => (vec![Bytes::from(body)], vec![("content-encoding", encoding.to_owned())]),
        Err(error) => {
            log::warn!("cannot compress a request: {error}; sending it uncompressed");
            (parts, Vec::new())
        }
    }
}

/// Splits the parts at a position, as views.
pub fn split_parts(parts: &[Bytes], at: u64) -> (Vec<Bytes>, Vec<Bytes>) {
    let (mut front, mut back, mut before) = (Vec::new(), Vec::new(), 0);
    for part in parts {
        let here = at.saturating_sub(before).min(part.len() as u64) as usize;
        front.extend((here > 0).then(|| part.slice(..here)));
        back.extend((here < part.len()).then(|| part.slice(here..)));
        before += part.len() as u64;
    }
    (front, back)
}
