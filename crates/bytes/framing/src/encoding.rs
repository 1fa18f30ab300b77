//! Text in other encodings than UTF-8.

use crate::Close;
use crate::line::{Scratch, unfinished, whole};
use encoding_rs::{DecoderResult, Encoding, UTF_16BE, UTF_16LE};

/// What stands for bytes that are no character.
pub const REPLACEMENT: &[u8] = "\u{FFFD}".as_bytes();

/// Most bytes of text that a byte becomes: one alone that is no character.
pub const EXPANSION: usize = REPLACEMENT.len();

/// Bytes of a file that a byte order mark takes in UTF-16.
const UTF_16_BOM_BE: &[u8] = &[0xFE, 0xFF];

/// An encoding.
#[derive(Clone, Copy, Debug)]
pub struct Coding {
    encoding: &'static Encoding,
}

/// What a configuration may name.
#[derive(Clone, Copy, Debug)]
pub enum Name {
    Utf8,
    /// The byte order mark says which of both it is.
    Utf16,
    Coding(Coding),
}

impl Name {
    /// Finds the encoding of this name, by the labels of the WHATWG Encoding Standard.
    ///
    /// # Errors
    ///
    /// Why it cannot be read, and what to write instead.
    pub fn new(name: &str) -> Result<Name, String> {
        if name.trim().eq_ignore_ascii_case("utf-16") {
            return Ok(Name::Utf16);
        }
        match Encoding::for_label(name.as_bytes()) {
            Some(encoding) if encoding == encoding_rs::UTF_8 => Ok(Name::Utf8),
            Some(encoding) if is_stateful(encoding) => Err(format!(
                "{name} cannot be read from any line on, as what stands before decides what bytes mean; \
                 let the program write utf-8"
            )),
            Some(encoding) => Ok(Name::Coding(Coding { encoding })),
            None => Err(format!(
                "{name:?} is no encoding; write for example utf-8, utf-16le, gbk, gb18030, big5, shift_jis, \
                 euc-jp, euc-kr, windows-1252 or iso-8859-15"
            )),
        }
    }
}

fn is_stateful(encoding: &'static Encoding) -> bool {
    encoding == encoding_rs::ISO_2022_JP || encoding == encoding_rs::REPLACEMENT
}

impl Coding {
    /// The byte order of UTF-16 that a file beginning with `head` has.
    pub fn utf16(head: &[u8]) -> Coding {
        Coding { encoding: if head.starts_with(UTF_16_BOM_BE) { UTF_16BE } else { UTF_16LE } }
    }

    /// The lines of `raw`, decoded into `out`. The bytes of `out` written, and whether it was too
    /// short for all of them.
    pub fn lines(
        self,
        raw: &[u8],
        out: &mut [u8],
        close: Close,
        lines_max: usize,
        scratch: &mut Scratch,
    ) -> bool {
        self.line_ends(raw, lines_max, &mut scratch.ends);
        let whole_bytes = scratch.ends.last().map_or(0, |end| *end as usize);
        let has_rest =
            close == Close::All && scratch.ends.len() < lines_max && whole_bytes < raw.len();
        let bytes = if has_rest { raw.len() } else { whole_bytes };
        let decoded = self.decode(&raw[..bytes], out, &mut scratch.faults);
        let text = &out[..decoded.written];
        millstream_scan::newlines(text, &mut scratch.newlines);
        // A line end is a line end on both sides, see `line_ends`: the n-th of one is the n-th of
        // the other.
        let (mut start, mut offset) = (0, 0);
        scratch.lines.extend(scratch.newlines.iter().zip(&scratch.ends).map(
            |(&newline, &next)| {
                let line = whole(text, (start, newline), (offset, next));
                (start, offset) = (newline + 1, next);
                line
            },
        ));
        if has_rest && !decoded.is_full {
            scratch.lines.push(unfinished(
                text,
                (start, text.len() as u32),
                (offset, raw.len() as u32),
            ));
        }
        decoded.is_full
    }

    /// Appends where the lines of `raw` end, behind their `\n`.
    ///
    /// In the encodings with several bytes for a character, byte 0x0A is only ever `\n`: what
    /// follows a first byte is 0x30 at least (WHATWG Encoding Standard, the decoders of gb18030,
    /// Big5, Shift_JIS, EUC-JP, EUC-KR), and a byte below 0x80 that does not fit is read again by
    /// itself.
    fn line_ends(self, raw: &[u8], lines_max: usize, ends: &mut Vec<u32>) {
        millstream_scan::newlines(raw, ends);
        if self.encoding == UTF_16LE {
            ends.retain(|at| at % 2 == 0 && raw.get(*at as usize + 1) == Some(&0));
        } else if self.encoding == UTF_16BE {
            ends.retain(|at| at % 2 == 1 && raw[*at as usize - 1] == 0);
        }
        ends.truncate(lines_max);
        let behind = self.newline_bytes_behind();
        ends.iter_mut().for_each(|end| *end += behind);
    }

    /// From byte 0x0A of a line end to the next line.
    fn newline_bytes_behind(self) -> u32 {
        if self.encoding == UTF_16LE { 2 } else { 1 }
    }

    /// Bytes up to the first line end of `raw`, with it.
    pub fn line_end(self, raw: &[u8]) -> Option<usize> {
        let is_end = |at: &usize| match self.encoding {
            encoding if encoding == UTF_16LE => at.is_multiple_of(2) && raw.get(at + 1) == Some(&0),
            encoding if encoding == UTF_16BE => at % 2 == 1 && raw[at - 1] == 0,
            _ => true,
        };
        let at = memchr::memchr_iter(b'\n', raw).find(is_end)?;
        Some(at + self.newline_bytes_behind() as usize)
    }

    /// Decodes `raw`, which ends where a character ends.
    fn decode(self, raw: &[u8], out: &mut [u8], faults: &mut Vec<u32>) -> Decoded {
        let mut decoder = self.encoding.new_decoder_without_bom_handling();
        let (mut used, mut written) = (0, 0);
        loop {
            let (result, read, wrote) =
                decoder.decode_to_utf8_without_replacement(&raw[used..], &mut out[written..], true);
            (used, written) = (used + read, written + wrote);
            match result {
                DecoderResult::InputEmpty => return Decoded { used, written, is_full: false },
                DecoderResult::OutputFull => return Decoded { used, written, is_full: true },
                DecoderResult::Malformed(..) => {
                    let Some(room) = out.get_mut(written..written + REPLACEMENT.len()) else {
                        return Decoded { used, written, is_full: true };
                    };
                    room.copy_from_slice(REPLACEMENT);
                    faults.push(written as u32);
                    written += REPLACEMENT.len();
                }
            }
        }
    }

    /// Decodes the beginning of `raw`, up to a character of which bytes may be missing: the bytes
    /// used and written. Makes progress where `out` has room for 16 bytes.
    pub fn piece(self, raw: &[u8], out: &mut [u8]) -> (usize, usize) {
        // Two bytes become one at least: what is longer than that cannot have room.
        let mut bytes = raw.len().min(2 * out.len());
        let mut faults = Vec::new();
        while bytes > 0 {
            let whole = match bytes - self.pending(&raw[..bytes]) {
                0 => bytes,
                whole => whole,
            };
            let decoded = self.decode(&raw[..whole], out, &mut faults);
            if !decoded.is_full {
                return (decoded.used, decoded.written);
            }
            // The decoder may hold back some of what it has taken: again, without that.
            bytes = decoded.used.min(whole - 1);
        }
        (0, 0)
    }

    /// Bytes at the end of `raw` that begin a character.
    fn pending(self, raw: &[u8]) -> usize {
        let mut decoder = self.encoding.new_decoder_without_bom_handling();
        let mut sink = [0; 256];
        let (mut used, mut last) = (0, false);
        loop {
            let (result, read, _) =
                decoder.decode_to_utf8_without_replacement(&raw[used..], &mut sink, last);
            used += read;
            match result {
                DecoderResult::Malformed(bytes, _) if last => return usize::from(bytes),
                DecoderResult::InputEmpty if last => return 0,
                DecoderResult::InputEmpty => last = true,
                DecoderResult::Malformed(..) | DecoderResult::OutputFull => {}
            }
        }
    }
}

/// How far decoding went.
struct Decoded {
    used: usize,
    written: usize,
    is_full: bool,
}
