//! One compressor with what it keeps between buffers.

use crate::Algorithm;
use bytes::Bytes;
use libdeflater::CompressionLvl;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use std::error::Error;
use std::io::{self, Write};
use std::mem;

/// Memory for joined parts, and for what comes out, that is kept until the next buffer: that of
/// usual requests. What a larger one needed is given back.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// Memory to write to grows by so much at least, as requests are not all of the same size.
const STEP_BYTES: usize = 64 << 10;

/// Compresses one buffer after another.
pub struct Compressor {
    algorithm: Algorithm,
    level: u32,
    /// Made for the first buffer: a sink that sends nothing has no use for it.
    library: Option<Library>,
    memory: Memory,
}

impl Compressor {
    /// Without a level the default one is taken; a level that does not exist becomes the nearest
    /// one.
    pub fn new(algorithm: Algorithm, level: Option<u32>) -> Compressor {
        let level = algorithm.levels().map_or(0, |(levels, default)| {
            level.unwrap_or(default).clamp(*levels.start(), *levels.end())
        });
        Compressor { algorithm, level, library: None, memory: Memory::default() }
    }

    /// What it compresses to.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// All parts as one compressed buffer, complete by itself and without spare capacity. With
    /// [`Algorithm::None`] they are only joined: who can send them one by one need not ask.
    ///
    /// # Errors
    ///
    /// If a library has no memory, and for snappy, if the parts have 4 GiB or more. The next call
    /// begins anew.
    pub fn compress(&mut self, parts: &[Bytes]) -> io::Result<Vec<u8>> {
        // Put back only if all went well: in between it is in an unknown state.
        let Some(mut library) =
            self.library.take().map_or_else(|| self.open(), |kept| Ok(Some(kept)))?
        else {
            return Ok(parts.concat());
        };
        let compressed = library.compress(parts, &mut self.memory);
        self.memory.give_back();
        self.library = compressed.is_ok().then_some(library);
        compressed
    }

    /// The library in its first state; `None` where nothing is compressed.
    fn open(&self) -> io::Result<Option<Library>> {
        Ok(Some(match self.algorithm {
            Algorithm::None => return Ok(None),
            Algorithm::Gzip => Library::Gzip(deflate(self.level)?),
            Algorithm::Zlib => Library::Zlib(deflate(self.level)?),
            Algorithm::Zstd => {
                let mut compressor = zstd::bulk::Compressor::new(self.level as i32)?;
                compressor.include_checksum(true)?;
                Library::Zstd(compressor)
            }
            Algorithm::Snappy => Library::Snappy(Box::new(snap::raw::Encoder::new())),
            Algorithm::Lz4 => Library::Lz4(Box::new(lz4())),
        }))
    }
}

fn deflate(level: u32) -> io::Result<libdeflater::Compressor> {
    let level = CompressionLvl::new(level as i32)
        .map_err(|error| io::Error::other(format!("level {level}: {error:?}")))?;
    Ok(libdeflater::Compressor::new(level))
}

/// Blocks do not refer to each other, so that a reader can have several at work.
fn lz4() -> FrameEncoder<Vec<u8>> {
    let info = FrameInfo::new()
        .block_size(BlockSize::Max256KB)
        .block_mode(BlockMode::Independent)
        .content_checksum(true);
    FrameEncoder::with_frame_info(info, Vec::new())
}

/// The state of a library.
enum Library {
    Gzip(libdeflater::Compressor),
    Zlib(libdeflater::Compressor),
    Zstd(zstd::bulk::Compressor<'static>),
    Snappy(Box<snap::raw::Encoder>),
    Lz4(Box<FrameEncoder<Vec<u8>>>),
}

impl Library {
    fn compress(&mut self, parts: &[Bytes], memory: &mut Memory) -> io::Result<Vec<u8>> {
        let bytes = parts.iter().map(Bytes::len).sum();
        match self {
            Library::Gzip(library) => {
                let bound = library.gzip_compress_bound(bytes);
                memory.fill(parts, bound, |input, out| library.gzip_compress(input, out))
            }
            Library::Zlib(library) => {
                let bound = library.zlib_compress_bound(bytes);
                memory.fill(parts, bound, |input, out| library.zlib_compress(input, out))
            }
            Library::Zstd(library) => {
                let bound = zstd::zstd_safe::compress_bound(bytes);
                memory.fill(parts, bound, |input, out| library.compress_to_buffer(input, out))
            }
            Library::Snappy(library) => {
                let bound = snap::raw::max_compress_len(bytes);
                memory.fill(parts, bound, |input, out| library.compress(input, out))
            }
            // An encoder that wrote a frame before would write an empty one without its header.
            Library::Lz4(_) if bytes == 0 => Ok(lz4().finish()?),
            Library::Lz4(library) => memory.stream(library, parts),
        }
    }
}

/// What is kept between buffers beside the state of the library. It has been used before, so that
/// the kernel need not give a page for every 4 KiB of each request.
#[derive(Default)]
struct Memory {
    /// Parts one after the other, for libraries that take one piece.
    joined: Vec<u8>,
    /// What comes out is written to its beginning, and copied from there: it is much smaller than
    /// the space that a library asks for.
    out: Vec<u8>,
}

impl Memory {
    /// What `compress` makes of all parts, given as one piece together with `bound` bytes to write
    /// to.
    fn fill<E>(
        &mut self,
        parts: &[Bytes],
        bound: usize,
        compress: impl FnOnce(&[u8], &mut [u8]) -> Result<usize, E>,
    ) -> io::Result<Vec<u8>>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        if self.out.len() < bound {
            // What it held is not needed: the old one goes before the new one comes.
            self.out = Vec::new();
            self.out = vec![0; bound.next_multiple_of(STEP_BYTES)];
        }
        let input: &[u8] = match parts {
            [part] => part,
            parts => {
                self.joined.clear();
                self.joined.reserve_exact(parts.iter().map(Bytes::len).sum());
                parts.iter().for_each(|part| self.joined.extend_from_slice(part));
                &self.joined
            }
        };
        let written = compress(input, &mut self.out).map_err(io::Error::other)?;
        Ok(self.out[..written].to_vec())
    }

    /// What a library makes of parts that it takes one by one.
    fn stream(
        &mut self,
        library: &mut FrameEncoder<Vec<u8>>,
        parts: &[Bytes],
    ) -> io::Result<Vec<u8>> {
        self.out.clear();
        mem::swap(library.get_mut(), &mut self.out);
        parts.iter().try_for_each(|part| library.write_all(part))?;
        library.try_finish()?;
        mem::swap(library.get_mut(), &mut self.out);
        Ok(self.out.clone())
    }

    /// Frees what a large buffer needed.
    fn give_back(&mut self) {
        for memory in [&mut self.joined, &mut self.out] {
            if memory.capacity() > KEPT_BYTES_MAX {
                *memory = Vec::new();
            }
        }
    }
}
