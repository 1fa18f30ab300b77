//! Compression of appended files as independent gzip members or zstd frames.
//!
//! A file is a sequence of gzip members or zstd frames, which readers concatenate. An empty member
//! follows each one as an end mark: a file that ends in the mark is complete.

use bytes::Bytes;
use flate2::write::GzEncoder;
use schemars::JsonSchema;
use serde::Deserialize;
use std::io::{self, Write};
use zstd::stream::write::Encoder as ZstdEncoder;
use zstd::zstd_safe::CParameter;

/// Base-2 logarithm of the zstd window in bytes. It is small because many files may be open at the
/// same time.
const ZSTD_WINDOW_LOG: u32 = 19;

/// Lowest level at which zstd's default tables are larger than the window can use.
const ZSTD_LARGE_TABLES_FROM: u32 = 9;

/// Base-2 logarithm of the table size, in 4-byte entries.
const ZSTD_TABLE_LOG: u32 = ZSTD_WINDOW_LOG + 1;

/// Memory of a frame at level `ZSTD_LARGE_TABLES_FROM` or higher, in KiB.
const ZSTD_LARGEST_KIB: u64 = 12 * 1024;

/// An empty gzip member.
const GZIP_END: &[u8] = &[0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// An empty skippable zstd frame.
const ZSTD_END: &[u8] = &[0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0];

/// File compression.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// gzip, which every tool can read.
    Gzip,
    /// zstd: several times as fast as gzip, with smaller output.
    Zstd,
}

impl Compression {
    /// Returns the name of the compression in a configuration.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the valid levels and the default level.
    pub fn levels(self) -> (std::ops::RangeInclusive<u32>, u32) {
        match self {
            Compression::None => (0..=0, 0),
            Compression::Gzip => (1..=9, 6),
            Compression::Zstd => (1..=19, 3),
        }
    }

    /// Returns the maximum memory, in bytes, for a file with a member in progress, excluding its
    /// payloads. The library reports the values for zstd per level; a test compares them.
    pub fn member_bytes(self, level: u32) -> u64 {
        const KIB: u64 = 1024;
        match (self, level) {
            (Compression::None, _) => 0,
            (Compression::Gzip, _) => 512 * KIB,
            (Compression::Zstd, ..=3) => 2048 * KIB,
            (Compression::Zstd, ..=6) => 4096 * KIB,
            (Compression::Zstd, ..=8) => 6400 * KIB,
            (Compression::Zstd, _) => ZSTD_LARGEST_KIB * KIB,
        }
    }

    /// Checks a configured level; the error says which levels are valid.
    pub fn check_level(self, level: u32) -> Result<(), String> {
        let (levels, _) = self.levels();
        match self {
            Compression::None => {
                Err("has no effect without compression; add compression: gzip or zstd".to_owned())
            }
            _ if levels.contains(&level) => Ok(()),
            _ => Err(format!("is out of range; use {} to {}", levels.start(), levels.end())),
        }
    }

    /// Returns the end mark of a complete file.
    pub fn end(self) -> &'static [u8] {
        match self {
            Compression::None => b"\n",
            Compression::Gzip => GZIP_END,
            Compression::Zstd => ZSTD_END,
        }
    }
}

/// Compresses parts in memory, and holds the result until it is written to the file.
///
/// Compression cannot be undone: the compressor keeps the compressed bytes until they are written,
/// however many attempts that takes.
pub struct Compressor {
    compression: Compression,
    level: u32,
    member: Option<Member>,
    /// Compressed bytes that are not in the file yet.
    pub out: Vec<Bytes>,
    /// Whether the parts of the current delivery are already compressed.
    pub is_compressed: bool,
}

impl Compressor {
    /// Creates a compressor without a member in progress.
    pub fn new(compression: Compression, level: u32) -> Compressor {
        Compressor { compression, level, member: None, out: Vec::new(), is_compressed: false }
    }

    /// Returns whether a member is in progress, which takes memory.
    pub fn has_member(&self) -> bool {
        self.member.is_some()
    }

    /// After another program has truncated the file, discards the member in progress, whose
    /// beginning is lost, and its unwritten bytes. The compressor then recompresses the current
    /// delivery. `is_empty` says whether the file is now empty.
    pub fn reset(&mut self, is_empty: bool) {
        (self.member, self.is_compressed) = (None, false);
        self.out.clear();
        if is_empty && self.compression != Compression::None {
            // Readers reject an empty file as compressed data.
            self.out.push(Bytes::from_static(self.compression.end()));
        }
    }

    /// Compresses the parts of a delivery, unless they are already compressed. Without compression
    /// the parts pass through.
    pub fn compress(&mut self, parts: &[Bytes]) -> io::Result<()> {
        if self.is_compressed {
            return Ok(());
        }
        if self.member.is_none() {
            self.member = Member::begin(self.compression, self.level)?;
        }
        match &mut self.member {
            Some(member) => self.out.push(member.write(parts)?.into()),
            None => self.out.extend_from_slice(parts),
        }
        self.is_compressed = true;
        Ok(())
    }

    /// Ends the member in progress.
    pub fn end(&mut self) -> io::Result<()> {
        if let Some(member) = self.member.take() {
            self.out.push(member.finish()?.into());
        }
        Ok(())
    }
}

/// A member in progress, in memory.
enum Member {
    /// A gzip member.
    Gzip(GzEncoder<Vec<u8>>),
    /// A zstd frame.
    Zstd(ZstdEncoder<'static, Vec<u8>>),
}

impl Member {
    /// Starts a member; `None` without compression.
    fn begin(compression: Compression, level: u32) -> io::Result<Option<Member>> {
        Ok(match compression {
            Compression::None => None,
            Compression::Gzip => {
                Some(Member::Gzip(GzEncoder::new(Vec::new(), flate2::Compression::new(level))))
            }
            Compression::Zstd => {
                let mut encoder = ZstdEncoder::new(Vec::new(), level as i32)?;
                zstd_parameters(level)
                    .try_for_each(|parameter| encoder.set_parameter(parameter))?;
                Some(Member::Zstd(encoder))
            }
        })
    }

    /// Compresses all parts and flushes. The returned bytes contain all parts.
    fn write(&mut self, parts: &[Bytes]) -> io::Result<Vec<u8>> {
        match self {
            Member::Gzip(encoder) => {
                parts.iter().try_for_each(|part| encoder.write_all(part))?;
                encoder.flush()?;
                Ok(std::mem::take(encoder.get_mut()))
            }
            Member::Zstd(encoder) => {
                parts.iter().try_for_each(|part| encoder.write_all(part))?;
                encoder.flush()?;
                Ok(std::mem::take(encoder.get_mut()))
            }
        }
    }

    /// Ends the member; returns its last bytes and the end mark.
    fn finish(self) -> io::Result<Vec<u8>> {
        let (mut rest, end) = match self {
            Member::Gzip(encoder) => (encoder.finish()?, GZIP_END),
            Member::Zstd(encoder) => (encoder.finish()?, ZSTD_END),
        };
        rest.extend_from_slice(end);
        Ok(rest)
    }
}

/// Returns the parameters of a frame at this level. The parameters make the frame's memory use
/// independent of the content.
fn zstd_parameters(level: u32) -> impl Iterator<Item = CParameter> {
    let always = [CParameter::WindowLog(ZSTD_WINDOW_LOG), CParameter::ChecksumFlag(true)];
    let tables = [CParameter::HashLog(ZSTD_TABLE_LOG), CParameter::ChainLog(ZSTD_TABLE_LOG)];
    let tables = tables.into_iter().filter(move |_| level >= ZSTD_LARGE_TABLES_FROM);
    always.into_iter().chain(tables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_member_uses_no_more_memory_than_declared() {
        use zstd::zstd_safe::{CCtx, InBuffer, OutBuffer};
        for level in Compression::Zstd.levels().0 {
            let mut library = CCtx::create();
            library.set_parameter(CParameter::CompressionLevel(level as i32)).unwrap();
            zstd_parameters(level)
                .for_each(|parameter| _ = library.set_parameter(parameter).unwrap());
            let mut out = vec![0; 1 << 20];
            let (mut out, mut text) = (OutBuffer::around(&mut out[..]), InBuffer::around(b"text"));
            library.compress_stream(&mut out, &mut text).unwrap();
            let (used, declared) = (library.sizeof() as u64, Compression::Zstd.member_bytes(level));
            println!("level {level}: {} of {} KiB", used >> 10, declared >> 10);
            assert!(used <= declared, "level {level}: {used} of {declared}");
            assert!(used >= declared / 3, "level {level} declares {declared} and uses {used}");
        }
    }

    /// Decompresses as `zcat` and `zstd -d` do.
    fn read(compression: Compression, bytes: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        match compression {
            Compression::Gzip => {
                flate2::read::MultiGzDecoder::new(bytes).read_to_string(&mut text)?
            }
            _ => zstd::stream::read::Decoder::new(bytes)?.read_to_string(&mut text)?,
        };
        Ok(text)
    }

    #[test]
    fn concatenated_members_read_back_as_one_text() {
        for compression in [Compression::Gzip, Compression::Zstd] {
            let (mut file, mut expected) = (Vec::new(), String::new());
            for level in compression.levels().0 {
                let mut member = Member::begin(compression, level).unwrap().unwrap();
                for number in 0..3 {
                    let line = format!("level {level} line {number}\n");
                    let out = member.write(&[line.clone().into(), "more\n".into()]).unwrap();
                    assert!(!out.is_empty(), "a write is flushed");
                    file.extend(out);
                    expected += &(line + "more\n");
                }
                file.extend(member.finish().unwrap());
                assert!(file.ends_with(compression.end()));
                assert_eq!(read(compression, &file).unwrap(), expected);
            }
            assert!(read(compression, &file[..file.len() - compression.end().len() - 1]).is_err());
            assert_eq!(read(compression, compression.end()).unwrap(), "");
        }
    }
}
