//! Compression libraries of the agent, and others for comparison.

use bytes::Bytes;
use flate2::{Compress, FlushCompress, Status};
use libz_sys::{Z_FINISH, Z_OK, Z_STREAM_END, z_stream};
use millstream_compression::{Algorithm, Compressor};
use std::ffi::CStr;
use std::io::{self, Write};
use std::mem::MaybeUninit;

/// A library, with a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// The agent's library for the format.
    Agent(Algorithm, Option<u32>),
    /// Plain zlib.
    PlainZlib(u32),
    /// Zlib in Rust, which the agent uses for gzip files.
    ZlibRs(u32),
    /// Bzip2 in Rust.
    Bzip2(u32),
}

/// All measured methods. Methods of one library are adjacent, fastest first.
pub const METHODS: &[Method] = &[
    Method::PlainZlib(1),
    Method::PlainZlib(3),
    PLAIN,
    Method::PlainZlib(9),
    Method::ZlibRs(1),
    Method::ZlibRs(3),
    Method::ZlibRs(6),
    Method::ZlibRs(9),
    Method::Agent(Algorithm::Zlib, Some(1)),
    Method::Agent(Algorithm::Zlib, Some(2)),
    Method::Agent(Algorithm::Zlib, Some(3)),
    Method::Agent(Algorithm::Zlib, Some(4)),
    Method::Agent(Algorithm::Zlib, Some(5)),
    Method::Agent(Algorithm::Zlib, Some(6)),
    Method::Agent(Algorithm::Zlib, Some(9)),
    Method::Agent(Algorithm::Gzip, Some(6)),
    Method::Agent(Algorithm::Zstd, Some(1)),
    Method::Agent(Algorithm::Zstd, Some(2)),
    Method::Agent(Algorithm::Zstd, Some(3)),
    Method::Agent(Algorithm::Zstd, Some(6)),
    Method::Agent(Algorithm::Zstd, Some(9)),
    Method::Agent(Algorithm::Snappy, None),
    Method::Agent(Algorithm::Lz4, None),
    Method::Bzip2(9),
];

/// Method that the others are compared with: plain zlib at its default level.
pub const PLAIN: Method = Method::PlainZlib(6);

/// Compresses one buffer per call, independently of earlier buffers.
pub type Work = Box<dyn FnMut(&Bytes) -> io::Result<Vec<u8>>>;

impl Method {
    /// Returns the library's name in tables and plots.
    pub fn library(self) -> &'static str {
        match self {
            Method::Agent(Algorithm::Zlib, _) => "libdeflate (zlib)",
            Method::Agent(Algorithm::Gzip, _) => "libdeflate (gzip)",
            Method::Agent(Algorithm::Zstd, _) => "zstd",
            Method::Agent(Algorithm::Snappy, _) => "snappy",
            Method::Agent(Algorithm::Lz4, _) => "LZ4",
            Method::Agent(Algorithm::None, _) => "none",
            Method::PlainZlib(_) => "plain zlib",
            Method::ZlibRs(_) => "zlib-rs",
            Method::Bzip2(_) => "bzip2",
        }
    }

    /// Returns the level if the library has levels.
    pub fn level(self) -> Option<u32> {
        match self {
            Method::Agent(_, level) => level,
            Method::PlainZlib(level) | Method::ZlibRs(level) | Method::Bzip2(level) => Some(level),
        }
    }

    /// Creates the compressor. It keeps the library's state between buffers if the library can
    /// reuse it.
    pub fn start(self) -> io::Result<Work> {
        Ok(match self {
            Method::Agent(algorithm, level) => {
                let mut compressor = Compressor::new(algorithm, level);
                Box::new(move |input| compressor.compress(std::slice::from_ref(input)))
            }
            Method::PlainZlib(level) => {
                let mut zlib = PlainZlib::new(level)?;
                Box::new(move |input| zlib.compress(input))
            }
            Method::ZlibRs(level) => {
                let mut zlib = Compress::new(flate2::Compression::new(level), true);
                let mut out = Vec::new();
                Box::new(move |input| zlib_rs(&mut zlib, input, &mut out))
            }
            Method::Bzip2(level) => Box::new(move |input| {
                let mut encoder =
                    bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::new(level));
                encoder.write_all(input)?;
                encoder.finish()
            }),
        })
    }
}

/// Returns an upper bound of the compressed size of incompressible bytes, over all formats.
fn bound(input: &[u8]) -> usize {
    input.len() + input.len() / 1000 + 1024
}

/// Reserves memory for the output, as the agent does.
fn make_room(out: &mut Vec<u8>, bytes: usize) {
    if out.len() < bytes {
        *out = vec![0; bytes.next_multiple_of(64 << 10)];
    }
}

fn zlib_rs(zlib: &mut Compress, input: &[u8], out: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    make_room(out, bound(input));
    zlib.reset();
    match zlib.compress(input, out, FlushCompress::Finish)? {
        Status::StreamEnd => Ok(out[..zlib.total_out() as usize].to_vec()),
        _ => Err(io::Error::other("zlib-rs has not ended the stream")),
    }
}

/// Stream of plain zlib, reused for each buffer.
struct PlainZlib {
    stream: Box<z_stream>,
    out: Vec<u8>,
}

impl PlainZlib {
    fn new(level: u32) -> io::Result<PlainZlib> {
        let mut stream = Box::new(MaybeUninit::<z_stream>::zeroed());
        let size = size_of::<z_stream>() as i32;
        // SAFETY: zeros tell zlib to use its default memory functions. The stream does not move,
        // because zlib keeps its address. It is used only if zlib has initialized it.
        unsafe {
            let version = libz_sys::zlibVersion();
            match libz_sys::deflateInit_(stream.as_mut_ptr(), level as i32, version, size) {
                Z_OK => Ok(PlainZlib { stream: stream.assume_init(), out: Vec::new() }),
                status => Err(io::Error::other(format!("zlib does not begin: {status}"))),
            }
        }
    }

    fn compress(&mut self, input: &[u8]) -> io::Result<Vec<u8>> {
        make_room(&mut self.out, bound(input));
        let stream = &mut *self.stream;
        stream.next_in = input.as_ptr().cast_mut();
        stream.avail_in = input.len() as u32;
        stream.next_out = self.out.as_mut_ptr();
        stream.avail_out = self.out.len() as u32;
        // SAFETY: the stream was initialized; both buffers have the lengths passed to zlib, which
        // only reads the first buffer.
        let status = unsafe {
            libz_sys::deflateReset(stream);
            libz_sys::deflate(stream, Z_FINISH)
        };
        match status {
            Z_STREAM_END => Ok(self.out[..stream.total_out as usize].to_vec()),
            _ => Err(io::Error::other(format!("zlib does not end: {status}"))),
        }
    }
}

impl Drop for PlainZlib {
    fn drop(&mut self) {
        // SAFETY: the stream was initialized, and is not used after this call.
        unsafe { libz_sys::deflateEnd(&mut *self.stream) };
    }
}

/// Returns the version of plain zlib.
pub fn plain_version() -> String {
    // SAFETY: zlib returns the address of a constant text that ends in a zero.
    unsafe { CStr::from_ptr(libz_sys::zlibVersion()) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn every_zlib_reads_back_twice() {
        let input = Bytes::from(crate::compression::payloads::json(1, 200_000).0);
        for method in METHODS.iter().filter(|method| method.library().contains("zlib")) {
            let mut work = method.start().unwrap();
            for _ in 0..2 {
                let compressed = work(&input).unwrap();
                let mut plain = Vec::new();
                flate2::read::ZlibDecoder::new(&compressed[..]).read_to_end(&mut plain).unwrap();
                assert!(plain == input, "{method:?}");
            }
        }
    }
}
