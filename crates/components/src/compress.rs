//! Compression of what is appended to a file, in members that can be read by themselves.
//!
//! A file is a row of gzip members or zstd frames, which readers put together. Behind each stands a
//! mark, an empty member: a file that ends in it is whole.

use bytes::Bytes;
use flate2::write::GzEncoder;
use schemars::JsonSchema;
use serde::Deserialize;
use std::io::{self, Write};
use zstd::stream::write::Encoder as ZstdEncoder;
use zstd::zstd_safe::CParameter;

/// How far back a zstd frame refers: 2 to this power, in bytes. Many files may be written at a
/// time.
const ZSTD_WINDOW_LOG: u32 = 19;

/// From this level on the tables of zstd are larger than the window can use.
const ZSTD_LARGE_TABLES_FROM: u32 = 9;

/// Size of those tables: 2 to this power, in entries of 4 bytes.
const ZSTD_TABLE_LOG: u32 = ZSTD_WINDOW_LOG + 1;

/// KiB of memory from that level on.
const ZSTD_LARGEST_KIB: u64 = 12 * 1024;

/// An empty gzip member.
const GZIP_END: &[u8] = &[0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A zstd frame that readers skip, with nothing in it.
const ZSTD_END: &[u8] = &[0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0];

/// How bytes are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// As gzip, which everything reads.
    Gzip,
    /// As zstd: several times as fast, and smaller.
    Zstd,
}

impl Compression {
    /// Levels there are, and the one to take if nothing else is said.
    pub fn levels(self) -> (std::ops::RangeInclusive<u32>, u32) {
        match self {
            Compression::None => (0..=0, 0),
            Compression::Gzip => (1..=9, 6),
            Compression::Zstd => (1..=19, 3),
        }
    }

    /// Bytes of memory that a file with a member in progress takes beside its payloads, at most.
    /// Those of zstd are what the library says of each level, which a test compares.
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

    /// What is wrong with a level that was asked for, and what to write instead.
    pub fn check_level(self, level: u32) -> Result<(), String> {
        let (levels, _) = self.levels();
        match self {
            Compression::None => {
                Err("compresses nothing; add compression: gzip or zstd".to_owned())
            }
            _ if levels.contains(&level) => Ok(()),
            _ => Err(format!("out of range; write {} to {}", levels.start(), levels.end())),
        }
    }

    /// What a whole file ends in.
    pub fn end(self) -> &'static [u8] {
        match self {
            Compression::None => b"\n",
            Compression::Gzip => GZIP_END,
            Compression::Zstd => ZSTD_END,
        }
    }
}

/// Compresses what is on its way to a file, in memory, and holds it until it is there.
///
/// Members cannot be taken back: what was compressed once is written, however often that has to be
/// tried.
pub struct Compressor {
    compression: Compression,
    level: u32,
    member: Option<Member>,
    /// Compressed, and not in the file yet.
    pub out: Vec<Bytes>,
    /// Whether the parts in delivery are compressed already.
    pub taken: bool,
}

impl Compressor {
    /// With nothing in progress.
    pub fn new(compression: Compression, level: u32) -> Compressor {
        Compressor { compression, level, member: None, out: Vec::new(), taken: false }
    }

    /// Whether a member is in progress, which takes memory.
    pub fn has_member(&self) -> bool {
        self.member.is_some()
    }

    /// Leaves the member in progress, whose beginning is gone, and what of it was to be written.
    /// What is in delivery is taken anew. `is_empty`: whether nothing is left of the file.
    pub fn forget(&mut self, is_empty: bool) {
        (self.member, self.taken) = (None, false);
        self.out.clear();
        if is_empty && self.compression != Compression::None {
            // Readers take no empty file for a compressed one.
            self.out.push(Bytes::from_static(self.compression.end()));
        }
    }

    /// Compresses the parts of a delivery, if that was not done before. Not compressed they go as
    /// they are.
    pub fn take(&mut self, parts: &[Bytes]) -> io::Result<()> {
        if self.taken {
            return Ok(());
        }
        if self.member.is_none() {
            self.member = Member::begin(self.compression, self.level)?;
        }
        match &mut self.member {
            Some(member) => self.out.push(member.write(parts)?.into()),
            None => self.out.extend_from_slice(parts),
        }
        self.taken = true;
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
    /// Begins a member; `None` where nothing is compressed.
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

    /// Compresses all parts; what comes out holds all of them.
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

    /// Ends the member: the rest of it, and the mark.
    fn finish(self) -> io::Result<Vec<u8>> {
        let (mut rest, end) = match self {
            Member::Gzip(encoder) => (encoder.finish()?, GZIP_END),
            Member::Zstd(encoder) => (encoder.finish()?, ZSTD_END),
        };
        rest.extend_from_slice(end);
        Ok(rest)
    }
}

/// The parameters of a frame at this level. Its memory does not depend on what is written.
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
    fn a_member_takes_no_more_memory_than_is_declared() {
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
            assert!(
                used >= declared / 3,
                "level {level} is declared with {declared}, and takes {used}"
            );
        }
    }

    /// Reads back as `zcat` and `zstd -d` do.
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
    fn members_in_a_row_read_back_as_one_text() {
        for compression in [Compression::Gzip, Compression::Zstd] {
            let (mut file, mut expected) = (Vec::new(), String::new());
            for level in compression.levels().0 {
                let mut member = Member::begin(compression, level).unwrap().unwrap();
                for number in 0..3 {
                    let line = format!("level {level} line {number}\n");
                    let out = member.write(&[line.clone().into(), "more\n".into()]).unwrap();
                    assert!(!out.is_empty(), "what was taken comes out");
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
