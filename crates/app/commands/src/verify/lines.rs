//! The lines to write. Each line can be recreated from its number, so that delivered lines are
//! compared byte by byte and no line needs to be kept.

use crate::random::{Random, mix};

/// Number of bytes of text from which lines are taken.
const POOL_BYTES: usize = 64 * 1024;

/// Longest text of the few long lines.
const LONG_BYTES_MAX: u64 = 20_000;

/// Alphabet of lines: it contains quotes, backslashes and tabs, which JSON escapes.
const ALPHABET: &[u8] = b"abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLM 0123456789 \"\\\t:=/{}[]";

/// All lines of one seed.
pub struct Lines {
    seed: u64,
    pool: Vec<u8>,
}

impl Lines {
    /// Creates the lines of a seed.
    pub fn new(seed: u64) -> Lines {
        let mut random = Random::new(seed);
        let letter = |_| ALPHABET[random.below(ALPHABET.len() as u64) as usize];
        Lines { seed, pool: (0..POOL_BYTES).map(letter).collect() }
    }

    /// Appends line `number` of writer `writer`, without a line ending.
    pub fn append(&self, writer: usize, number: u64, out: &mut Vec<u8>) {
        let hash = mix(self.seed ^ mix((writer as u64) << 48 | number));
        let length = match hash % 1000 {
            0 => hash >> 16 & 0xFFFF,
            _ => 20 + (hash >> 16) % 180,
        };
        let length = (length % LONG_BYTES_MAX) as usize;
        let begin = (hash >> 32) as usize % (POOL_BYTES - length);
        out.extend_from_slice(format!("w{writer:02} {number:010} ").as_bytes());
        out.extend_from_slice(&self.pool[begin..begin + length]);
        out.push(b'.');
    }

    /// Returns the writer and number of a delivered line; `None` if no such line was written.
    pub fn find(&self, text: &[u8], made: &mut Vec<u8>) -> Option<(usize, u64)> {
        let number = |part: &[u8]| std::str::from_utf8(part).ok()?.parse::<u64>().ok();
        let mut words = text.strip_prefix(b"w")?.splitn(3, |byte| *byte == b' ');
        let (writer, number) = (number(words.next()?)? as usize, number(words.next()?)?);
        made.clear();
        self.append(writer, number, made);
        (text == made).then_some((writer, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_lines_are_found() {
        let (lines, mut line, mut made) = (Lines::new(7), Vec::new(), Vec::new());
        for number in 0..3000 {
            line.clear();
            lines.append(3, number, &mut line);
            assert_eq!(lines.find(&line, &mut made), Some((3, number)));
            assert!(!line.contains(&b'\n') && line.len() < LONG_BYTES_MAX as usize + 20);
            assert_eq!(lines.find(&line[..line.len() - 1], &mut made), None);
            assert_eq!(lines.find(&line[1..], &mut made), None);
            let twice = [&line[..10], &line[..]].concat();
            assert_eq!(lines.find(&twice, &mut made), None);
        }
        line.clear();
        lines.append(101, 7, &mut line);
        assert_eq!(lines.find(&line, &mut made), Some((101, 7)), "a writer of three digits");
        assert_eq!(Lines::new(8).find(&line, &mut made), None, "another seed makes other lines");
    }
}
