//! Decompression of fields, as far as a limit permits.

mod lz4;
mod xz;

use crate::object::{COMPRESSED_LZ4, COMPRESSED_XZ, COMPRESSED_ZSTD};
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};
use zstd::zstd_safe::get_frame_content_size;

/// Maximum size of the window of zstd, as an exponent of 2. Journald writes windows of up to 8 MiB.
const WINDOW_LOG_MAX: u32 = 25;

/// Bytes of compressed input that are enough for `limit` bytes of output: no algorithm makes data
/// longer by more than a 64th and one block.
pub(crate) fn input_max(limit: usize) -> usize {
    limit + limit / 64 + (256 << 10)
}

/// A decompressor, which keeps its state for the next field.
#[derive(Default)]
pub(crate) struct Decompressor {
    zstd: Option<Decoder<'static>>,
}

impl Decompressor {
    /// Appends up to `limit` decompressed bytes to `output`, and returns the length of the
    /// complete data. `input` may lack its end if the limit does not need it.
    ///
    /// # Errors
    ///
    /// Fails if the data is not compressed with the algorithm in `flags`. The error is what an
    /// undamaged file contains.
    pub(crate) fn decompress(
        &mut self,
        flags: u8,
        input: &[u8],
        limit: usize,
        output: &mut Vec<u8>,
    ) -> Result<u64, &'static str> {
        match flags {
            COMPRESSED_ZSTD => {
                self.zstd(input, limit, output).ok_or("a field compressed with zstd")
            }
            COMPRESSED_LZ4 => {
                lz4::decompress(input, limit, output).ok_or("a field compressed with LZ4")
            }
            COMPRESSED_XZ => {
                xz::decompress(input, limit, output).ok_or("a field compressed with xz")
            }
            _ => Err("a field with one compression"),
        }
    }

    fn zstd(&mut self, input: &[u8], limit: usize, output: &mut Vec<u8>) -> Option<u64> {
        let total = get_frame_content_size(input).ok()??;
        let wanted = total.min(limit as u64) as usize;
        let decoder = match &mut self.zstd {
            Some(decoder) => decoder,
            None => {
                let mut decoder = Decoder::new().ok()?;
                decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).ok()?;
                self.zstd.insert(decoder)
            }
        };
        decoder.reinit().ok()?;
        let start = output.len();
        output.resize(start + wanted, 0);
        let mut input = InBuffer::around(input);
        let mut decompressed = OutBuffer::around(&mut output[start..]);
        while decompressed.pos() < wanted {
            let before = (input.pos(), decompressed.pos());
            decoder.run(&mut input, &mut decompressed).ok()?;
            if (input.pos(), decompressed.pos()) == before {
                return None;
            }
        }
        Some(total)
    }
}
