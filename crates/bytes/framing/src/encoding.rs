//! Decoding of encodings other than UTF-8.

use crate::Close;
use crate::line::{Scratch, terminated, unterminated};
use encoding_rs::{DecoderResult, Encoding, UTF_16BE, UTF_16LE};

/// The UTF-8 text that replaces an invalid byte sequence.
pub const REPLACEMENT: &[u8] = "\u{FFFD}".as_bytes();

/// Maximum number of text bytes per raw byte: an invalid byte becomes [`REPLACEMENT`].
pub const EXPANSION: usize = REPLACEMENT.len();

/// The byte order mark of big-endian UTF-16.
const UTF_16_BOM_BE: &[u8] = &[0xFE, 0xFF];

/// A decoder for one encoding other than UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct TextDecoder {
    encoding: &'static Encoding,
}

/// An encoding that the configuration names.
#[derive(Clone, Copy, Debug)]
pub enum Name {
    Utf8,
    /// UTF-16 whose byte order mark selects the byte order.
    Utf16,
    TextDecoder(TextDecoder),
}

impl Name {
    /// Looks up an encoding by its label in the WHATWG Encoding Standard.
    ///
    /// # Errors
    ///
    /// Returns an error if the encoding is not supported. The error says what to use instead.
    pub fn new(name: &str) -> Result<Name, String> {
        if name.trim().eq_ignore_ascii_case("utf-16") {
            return Ok(Name::Utf16);
        }
        match Encoding::for_label(name.as_bytes()) {
            Some(encoding) if encoding == encoding_rs::UTF_8 => Ok(Name::Utf8),
            Some(encoding) if is_stateful(encoding) => Err(format!(
                "{name} is stateful, so decoding cannot start at an arbitrary line; configure the \
                 program to write utf-8"
            )),
            Some(encoding) => Ok(Name::TextDecoder(TextDecoder { encoding })),
            None => Err(format!(
                "{name:?} is not a known encoding; use, for example, utf-8, utf-16le, gbk, \
                 gb18030, big5, shift_jis, euc-jp, euc-kr, windows-1252 or iso-8859-15"
            )),
        }
    }
}

fn is_stateful(encoding: &'static Encoding) -> bool {
    encoding == encoding_rs::ISO_2022_JP || encoding == encoding_rs::REPLACEMENT
}

impl TextDecoder {
    /// Returns the UTF-16 decoder for a file that begins with `head`. The default is little-endian.
    pub fn utf16(head: &[u8]) -> TextDecoder {
        TextDecoder { encoding: if head.starts_with(UTF_16_BOM_BE) { UTF_16BE } else { UTF_16LE } }
    }

    /// Returns whether the encoding is UTF-16, in which every character takes at least two bytes.
    pub fn is_utf16(self) -> bool {
        self.encoding == UTF_16LE || self.encoding == UTF_16BE
    }

    /// Finds the lines of `raw` and decodes them into `out`. Returns whether `out` was too short
    /// for all of the lines.
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
        let has_last_line =
            close == Close::All && scratch.ends.len() < lines_max && whole_bytes < raw.len();
        let bytes = if has_last_line { raw.len() } else { whole_bytes };
        let decoded = self.decode(&raw[..bytes], out, &mut scratch.invalid);
        let text = &out[..decoded.written];
        millstream_scan::newlines(text, &mut scratch.newlines);
        // Decoding preserves newlines (see `line_ends`), so line ending n of the text corresponds
        // to line ending n of the raw bytes.
        let mut start = 0;
        let mut offset = 0;
        scratch.lines.extend(scratch.newlines.iter().zip(&scratch.ends).map(
            |(&newline, &next)| {
                let line = terminated(text, start..newline, offset..next);
                start = newline + 1;
                offset = next;
                line
            },
        ));
        if has_last_line && !decoded.is_full {
            scratch.lines.push(unterminated(
                text,
                start..text.len() as u32,
                offset..raw.len() as u32,
            ));
        }
        decoded.is_full
    }

    /// Appends the offset after the `\n` of each line in `raw`.
    ///
    /// In the multi-byte encodings, byte 0x0A is always `\n`. Trail bytes, which follow a lead
    /// byte, are at least 0x30 (WHATWG Encoding Standard, decoders of gb18030, Big5, Shift_JIS,
    /// EUC-JP, EUC-KR). A byte below 0x80 that is invalid as a trail byte is decoded as the first
    /// byte of a new character.
    fn line_ends(self, raw: &[u8], lines_max: usize, ends: &mut Vec<u32>) {
        millstream_scan::newlines(raw, ends);
        if self.encoding == UTF_16LE {
            ends.retain(|at| at % 2 == 0 && raw.get(*at as usize + 1) == Some(&0));
        } else if self.encoding == UTF_16BE {
            ends.retain(|at| at % 2 == 1 && raw[*at as usize - 1] == 0);
        }
        ends.truncate(lines_max);
        let distance = self.newline_to_next_line();
        ends.iter_mut().for_each(|end| *end += distance);
    }

    /// Returns the distance in bytes from the 0x0A of a line ending to the next line.
    fn newline_to_next_line(self) -> u32 {
        if self.encoding == UTF_16LE { 2 } else { 1 }
    }

    /// Returns the length of the first line of `raw`, including its line ending; `None` if there is
    /// no complete line.
    pub fn line_end(self, raw: &[u8]) -> Option<usize> {
        let at = memchr::memchr_iter(b'\n', raw).find(|at| self.is_line_end(raw, *at))?;
        Some(at + self.newline_to_next_line() as usize)
    }

    /// Returns the length of the complete lines of `raw`, which begins at an even file offset;
    /// `None` if there are none.
    pub fn last_line_end(self, raw: &[u8]) -> Option<usize> {
        let at = memchr::memrchr_iter(b'\n', raw).find(|at| self.is_line_end(raw, *at))?;
        Some(at + self.newline_to_next_line() as usize)
    }

    /// Returns whether the byte 0x0A at `at` is a `\n` (see `line_ends`).
    fn is_line_end(self, raw: &[u8], at: usize) -> bool {
        match self.encoding {
            encoding if encoding == UTF_16LE => at.is_multiple_of(2) && raw.get(at + 1) == Some(&0),
            encoding if encoding == UTF_16BE => at % 2 == 1 && raw[at - 1] == 0,
            _ => true,
        }
    }

    /// Decodes `raw`, which ends on a character boundary.
    fn decode(self, raw: &[u8], out: &mut [u8], invalid: &mut Vec<u32>) -> Decoded {
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
                    let Some(dst) = out.get_mut(written..written + REPLACEMENT.len()) else {
                        return Decoded { used, written, is_full: true };
                    };
                    dst.copy_from_slice(REPLACEMENT);
                    invalid.push(written as u32);
                    written += REPLACEMENT.len();
                }
            }
        }
    }

    /// Decodes a prefix of `raw` that ends before any incomplete character. If `raw` contains only
    /// an incomplete character, decodes it as invalid. Returns the number of bytes read and
    /// written. Reads at least one byte if `out` has room for 16 bytes.
    pub fn decode_chunk(self, raw: &[u8], out: &mut [u8]) -> (usize, usize) {
        // Two raw bytes decode to at least one byte, so more than this cannot fit.
        let mut bytes = raw.len().min(2 * out.len());
        let mut invalid = Vec::new();
        while bytes > 0 {
            let whole = match bytes - self.incomplete_bytes(&raw[..bytes]) {
                0 => bytes,
                whole => whole,
            };
            let decoded = self.decode(&raw[..whole], out, &mut invalid);
            if !decoded.is_full {
                return (decoded.used, decoded.written);
            }
            // The decoder might have buffered some of the bytes that it read, so retry without
            // these bytes.
            bytes = decoded.used.min(whole - 1);
        }
        (0, 0)
    }

    /// Returns the length of the incomplete character at the end of `raw`.
    fn incomplete_bytes(self, raw: &[u8]) -> usize {
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

/// The progress of a decoder in bytes, and whether the output is full.
struct Decoded {
    used: usize,
    written: usize,
    is_full: bool,
}
