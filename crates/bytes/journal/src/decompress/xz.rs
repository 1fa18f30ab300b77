//! xz streams with one block, as liblzma writes a buffer.
//!
//! `lzma-rs` keeps all decompressed data of a stream in memory, so this module finds the chunks
//! that the limit needs and passes only these to it.

use std::io;

/// First bytes of a stream.
const MAGIC: &[u8] = b"\xfd7zXZ\0";

/// Bytes of the header of a stream: the magic bytes, two bytes of flags and their CRC.
const STREAM_HEADER_BYTES: usize = 12;

/// Id of the LZMA2 filter.
const LZMA2: u8 = 0x21;

/// Appends up to `limit` decompressed bytes to `output`, and returns the complete length, or `None`
/// if the data is damaged. The length is at least `limit` plus one if the input lacks its end.
pub(super) fn decompress(input: &[u8], limit: usize, output: &mut Vec<u8>) -> Option<u64> {
    let chunks = chunks(input)?;
    let (needed, total) = measure(chunks, limit)?;
    let mut stream = chunks[..needed].to_vec();
    // The end of the chunks.
    stream.push(0);
    let start = output.len();
    let mut writer = Limited { output, rest: limit };
    lzma_rs::lzma2_decompress(&mut &stream[..], &mut writer).ok()?;
    (output.len() - start == total.min(limit as u64) as usize).then_some(total)
}

/// Returns the chunks of the first block, and what follows.
fn chunks(input: &[u8]) -> Option<&[u8]> {
    let block = input.strip_prefix(MAGIC)?.get(STREAM_HEADER_BYTES - MAGIC.len()..)?;
    // The first byte is the size of the header in words of four bytes, minus one.
    let header_bytes = (usize::from(*block.first()?) + 1) * 4;
    let header = block.get(..header_bytes)?;
    // The low two bits of the flags are the number of filters, minus one. The high two bits say
    // which sizes precede the filters.
    let flags = *header.get(1)?;
    let mut filters = header.get(2..)?;
    for bit in [0x40, 0x80] {
        if flags & bit != 0 {
            let end = filters.iter().position(|byte| byte & 0x80 == 0)?;
            filters = &filters[end + 1..];
        }
    }
    (flags & 3 == 0 && *filters.first()? == LZMA2).then_some(())?;
    block.get(header_bytes..)
}

/// Returns the bytes of the chunks that the limit needs, and the decompressed length of all chunks.
fn measure(chunks: &[u8], limit: usize) -> Option<(usize, u64)> {
    let (mut at, mut needed, mut total) = (0, 0, 0_u64);
    loop {
        let (compressed, decompressed) = match *chunks.get(at..)? {
            // A truncated end is only permitted behind the limit.
            [] | [_] | [_, _] | [_, _, _] if total > limit as u64 => return Some((needed, total)),
            [0, ..] => return Some((needed, total)),
            [1 | 2, high, low, ..] => {
                let len = usize::from(u16::from_be_bytes([high, low])) + 1;
                (3 + len, len)
            }
            [control @ 0x80..=0xff, high, low, in_high, in_low, ..] => {
                let properties = if control >= 0xc0 { 6 } else { 5 };
                let len = usize::from(u16::from_be_bytes([high, low])) + 1;
                let compressed = usize::from(u16::from_be_bytes([in_high, in_low])) + 1;
                (properties + compressed, (usize::from(control & 0x1f) << 16) + len)
            }
            _ => return None,
        };
        if total < limit as u64 {
            needed = at + compressed;
            chunks.get(..needed)?;
        }
        total += decompressed as u64;
        at = (at + compressed).min(chunks.len());
    }
}

/// A writer that ignores bytes beyond a limit.
struct Limited<'a> {
    output: &'a mut Vec<u8>,
    rest: usize,
}

impl io::Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let kept = bytes.len().min(self.rest);
        self.output.extend_from_slice(&bytes[..kept]);
        self.rest -= kept;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
