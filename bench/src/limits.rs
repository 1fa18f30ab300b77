//! Measures the limits of the host: plain loops over the input on one core, as references for the
//! agent.

use crate::measure::{Samples, cpu_seconds, progress};
use crate::report::{Report, Table};
use crate::scratch::{Input, Scratch};
use encoding_rs::Encoding;
use flate2::bufread::MultiGzDecoder;
use memchr::memchr_iter;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

/// A loop over the input file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Name of the limit in scenarios and tables.
    pub name: &'static str,
    /// Description of the loop's work.
    pub title: &'static str,
    block_bytes: usize,
    work: Work,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Read,
    LinesMemchr,
    LinesPlain,
    LinesScan,
    Write,
    EscapeNaive,
    Decode(&'static Encoding),
    Gunzip,
}

/// All limits, in the order of the table.
pub const LIMITS: &[Limit] = &[
    limit("read", "read, 512 KiB blocks", 512, Work::Read),
    limit("read_256k", "read, 256 KiB blocks", 256, Work::Read),
    limit("read_memchr", "read, collect newlines with memchr_iter", 512, Work::LinesMemchr),
    limit("read_newlines", "read, collect newlines with a plain AVX2 loop", 512, Work::LinesPlain),
    limit("read_newlines_256k", "the same, 256 KiB blocks", 256, Work::LinesPlain),
    limit("read_scan", "read, collect newlines with scan::newlines", 512, Work::LinesScan),
    limit("read_write", "read, write to a new file", 512, Work::Write),
    limit("read_escape", "read, escape as JSON byte by byte", 512, Work::EscapeNaive),
];

/// Loops over inputs that exist only in scenarios.
const DECODERS: &[Limit] = &[
    limit("decode_gbk", "read, decode with encoding_rs", 256, Work::Decode(encoding_rs::GBK)),
    limit(
        "decode_utf16",
        "read, decode with encoding_rs",
        256,
        Work::Decode(encoding_rs::UTF_16LE),
    ),
    limit("gunzip", "read, decompress with flate2", 256, Work::Gunzip),
];

const fn limit(name: &'static str, title: &'static str, block_kib: usize, work: Work) -> Limit {
    Limit { name, title, block_bytes: block_kib << 10, work }
}

impl Limit {
    /// Returns the limit with this name.
    pub fn by_name(name: &str) -> Option<Limit> {
        LIMITS.iter().chain(DECODERS).copied().find(|limit| limit.name == name)
    }

    /// Measures the CPU seconds of one pass over the input on the calling thread.
    pub fn run(self, input: &Input, scratch: &Scratch) -> io::Result<f64> {
        let copy_path = scratch.path("limit.out");
        if self.work == Work::Write {
            scratch.warm_memory(input.bytes)?;
        }
        let seconds = cpu_seconds(|| match self.work {
            Work::Read => self.for_each_block(&input.path, |_| Ok(())),
            Work::LinesMemchr => self.collect_lines(&input.path, |block, out| {
                out.extend(memchr_iter(b'\n', block).map(|at| at as u32));
            }),
            Work::LinesPlain => self.collect_lines(&input.path, newlines_plain),
            Work::LinesScan => self.collect_lines(&input.path, millstream_scan::newlines),
            Work::Write => self.copy(&input.path, &copy_path),
            Work::EscapeNaive => self.escape(&input.path),
            Work::Decode(encoding) => self.decode(&input.path, encoding),
            Work::Gunzip => self.gunzip(&input.path),
        });
        if copy_path.exists() {
            std::fs::remove_file(copy_path)?;
        }
        seconds
    }

    fn for_each_block(
        self,
        path: &Path,
        mut work: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut file = File::open(path)?;
        let mut block = vec![0; self.block_bytes];
        loop {
            match file.read(&mut block)? {
                0 => return Ok(()),
                len => work(black_box(&block[..len]))?,
            }
        }
    }

    fn collect_lines(self, path: &Path, find: impl Fn(&[u8], &mut Vec<u32>)) -> io::Result<()> {
        let mut positions = Vec::with_capacity(self.block_bytes);
        self.for_each_block(path, |block| {
            positions.clear();
            find(block, &mut positions);
            black_box(&positions);
            Ok(())
        })
    }

    fn copy(self, from: &Path, to: &Path) -> io::Result<()> {
        let mut to = File::create_new(to)?;
        self.for_each_block(from, |block| to.write_all(block))
    }

    fn escape(self, path: &Path) -> io::Result<()> {
        let mut json = Vec::with_capacity(2 * self.block_bytes);
        self.for_each_block(path, |block| {
            json.clear();
            block.iter().for_each(|byte| escape_byte(*byte, &mut json));
            black_box(&json);
            Ok(())
        })
    }

    fn decode(self, path: &Path, encoding: &'static Encoding) -> io::Result<()> {
        let mut decoder = encoding.new_decoder_without_bom_handling();
        let mut text = vec![0; decoder.max_utf8_buffer_length(self.block_bytes).unwrap_or(0)];
        self.for_each_block(path, |block| {
            let _ = decoder.decode_to_utf8(block, &mut text, false);
            black_box(&mut text);
            Ok(())
        })
    }

    fn gunzip(self, path: &Path) -> io::Result<()> {
        let packed = BufReader::with_capacity(self.block_bytes, File::open(path)?);
        let (mut unpacked, mut block) = (MultiGzDecoder::new(packed), vec![0; self.block_bytes]);
        while unpacked.read(&mut block)? > 0 {
            black_box(&mut block);
        }
        Ok(())
    }
}

fn escape_byte(byte: u8, json: &mut Vec<u8>) {
    match byte {
        b'"' => json.extend_from_slice(b"\\\""),
        b'\\' => json.extend_from_slice(b"\\\\"),
        b'\n' => json.extend_from_slice(b"\\n"),
        0..0x20 => json.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        byte => json.push(byte),
    }
}

/// Collects newlines with the simplest vector loop, which shares no code with the measured program.
fn newlines_plain(block: &[u8], out: &mut Vec<u32>) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") {
        // SAFETY: the CPU has the features, as the condition above has checked.
        return unsafe { newlines_avx2(block, out) };
    }
    out.extend(memchr_iter(b'\n', block).map(|at| at as u32));
}

/// # Safety
/// The CPU must have AVX2 and BMI1.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1")]
unsafe fn newlines_avx2(block: &[u8], out: &mut Vec<u32>) {
    use std::arch::x86_64::*;
    let (vectors, rest) = block.as_chunks::<64>();
    let newline = _mm256_set1_epi8(b'\n' as i8);
    let hits_of = |half: *const u8| {
        // SAFETY: `half` is one of the two 32-byte halves of a 64-byte vector.
        let bytes = unsafe { _mm256_loadu_si256(half.cast()) };
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, newline)) as u32
    };
    for (index, vector) in vectors.iter().enumerate() {
        let (low, high) = (hits_of(vector.as_ptr()), hits_of(vector[32..].as_ptr()));
        let mut hits = u64::from(low) | u64::from(high) << 32;
        while hits != 0 {
            out.push(index as u32 * 64 + hits.trailing_zeros());
            hits &= hits - 1;
        }
    }
    let start = block.len() - rest.len();
    out.extend((start as u32..).zip(rest).filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at));
}

/// Measures all limits, with interleaved repetitions.
pub fn run(
    input: &Input,
    scratch: &Scratch,
    repetitions: usize,
    report: &mut Report,
) -> io::Result<()> {
    let mut seconds = vec![Samples::default(); LIMITS.len()];
    for repetition in 1..=repetitions {
        for (limit, samples) in LIMITS.iter().zip(&mut seconds) {
            progress(&format!("limits: {} {repetition}/{repetitions}", limit.name));
            samples.push(limit.run(input, scratch)?);
        }
    }
    let mut table = Table::new(
        "limits",
        "Limits of the host",
        &["limit", "loop", "GB per CPU s", "min", "max"],
    );
    let gb = input.bytes as f64 / 1e9;
    for (limit, samples) in LIMITS.iter().zip(&seconds) {
        let speeds = [samples.median(), samples.max(), samples.min()]
            .map(|seconds| format!("{:.2}", gb / seconds));
        table.row([vec![limit.name.to_owned(), limit.title.to_owned()], speeds.to_vec()].concat());
    }
    report.add(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_loop_finds_every_newline() {
        for len in 0..200 {
            let block: Vec<u8> =
                (0..len).map(|at| if at % 7 == 3 { b'\n' } else { b'x' }).collect();
            let (mut plain, mut expected) = (Vec::new(), Vec::new());
            newlines_plain(&block, &mut plain);
            millstream_scan::scalar::newlines(&block, &mut expected);
            assert_eq!(plain, expected);
        }
    }
}
