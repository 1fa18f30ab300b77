//! A compressor with reusable state.

use crate::Algorithm;
use bytes::Bytes;
use libdeflater::CompressionLvl;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use std::error::Error;
use std::io::{self, Write};
use std::mem;

/// Maximum capacity of each buffer that is kept for the next request, which is enough for typical
/// requests. The memory of larger buffers is freed.
const KEPT_CAPACITY_MAX: usize = 4 << 20;

/// The capacity of the output buffer is a multiple of this, because request sizes vary.
const GROWTH_BYTES: usize = 64 << 10;

/// Compresses a sequence of buffers.
pub struct Compressor {
    algorithm: Algorithm,
    level: u32,
    /// The library's context. Created for the first buffer, because a sink might never send one.
    library: Option<Library>,
    memory: Memory,
}

impl Compressor {
    /// Creates a compressor. If `level` is `None`, the default level is used. A level that is out
    /// of range is clamped.
    pub fn new(algorithm: Algorithm, level: Option<u32>) -> Compressor {
        let level = algorithm.levels().map_or(0, |(levels, default)| {
            level.unwrap_or(default).clamp(*levels.start(), *levels.end())
        });
        Compressor { algorithm, level, library: None, memory: Memory::default() }
    }

    /// Returns the algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Compresses all parts into one self-contained buffer without spare capacity.
    /// [`Algorithm::None`] only concatenates the parts, so a caller that can send several parts
    /// need not call this method.
    ///
    /// # Errors
    ///
    /// Returns an error if the library is out of memory, or if the input for snappy has 4 GiB or
    /// more. After an error, the next call starts with a new context.
    pub fn compress(&mut self, parts: &[Bytes]) -> io::Result<Vec<u8>> {
        // The context is kept only on success, because its state is undefined after an error.
        let Some(mut library) =
            self.library.take().map_or_else(|| self.open_library(), |library| Ok(Some(library)))?
        else {
            return Ok(parts.concat());
        };
        let compressed = library.compress(parts, &mut self.memory);
        self.memory.trim();
        self.library = compressed.is_ok().then_some(library);
        compressed
    }

    /// Creates the library's context. Returns `None` if there is no compression.
    fn open_library(&self) -> io::Result<Option<Library>> {
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

/// Creates an LZ4 encoder that writes independent blocks, so that a reader can decompress them in
/// parallel.
fn lz4() -> FrameEncoder<Vec<u8>> {
    let info = FrameInfo::new()
        .block_size(BlockSize::Max256KB)
        .block_mode(BlockMode::Independent)
        .content_checksum(true);
    FrameEncoder::with_frame_info(info, Vec::new())
}

/// The context of a compression library.
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
            // If the encoder were reused, it would write an empty frame without a header.
            Library::Lz4(_) if bytes == 0 => Ok(lz4().finish()?),
            Library::Lz4(library) => memory.stream(library, parts),
        }
    }
}

/// Buffers that are reused for every request. Their pages stay mapped, so requests cause no page
/// faults.
#[derive(Default)]
struct Memory {
    /// The concatenated parts, for libraries that take a single slice.
    joined: Vec<u8>,
    /// The output of a library. It is copied to a buffer of the exact size, because it is much
    /// smaller than the upper bound that a library requires.
    out: Vec<u8>,
}

impl Memory {
    /// Passes all parts as one slice to `compress`, with at least `bound` bytes of output memory.
    /// Returns the compressed bytes.
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
            // The old contents are not needed, so free the old buffer before allocating a new one.
            self.out = Vec::new();
            self.out = vec![0; bound.next_multiple_of(GROWTH_BYTES)];
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

    /// Compresses the parts with a library that accepts one part at a time.
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

    /// Frees the buffers if a large request has made them too large.
    fn trim(&mut self) {
        for memory in [&mut self.joined, &mut self.out] {
            if memory.capacity() > KEPT_CAPACITY_MAX {
                *memory = Vec::new();
            }
        }
    }
}
