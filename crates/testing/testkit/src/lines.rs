//! A simple reference implementation of splitting bytes into lines.

use millstream_model::{LongLine, char_boundary};

/// Splits content into lines with their offsets. A source must emit the same lines regardless of
/// how the content arrives and where its blocks end. The bytes after the last newline are also a
/// line.
pub fn split_lines(content: &[u8], line_max: usize, long: LongLine) -> Vec<(u64, Vec<u8>)> {
    split(content, line_max, long, |_| 0)
}

/// Splits the content of a file like [`split_lines`], but removes NUL bytes at the start of a line.
/// If only NUL bytes follow the last newline, they are not a line.
pub fn split_file_lines(content: &[u8], line_max: usize, long: LongLine) -> Vec<(u64, Vec<u8>)> {
    split(content, line_max, long, |line| line.iter().take_while(|byte| **byte == 0).count())
}

/// Splits content into lines, and removes from the start of each line the number of bytes that
/// `skipped` returns.
fn split(
    content: &[u8],
    line_max: usize,
    long: LongLine,
    skipped: impl Fn(&[u8]) -> usize,
) -> Vec<(u64, Vec<u8>)> {
    let (mut rows, mut offset) = (Vec::new(), 0);
    for line in content.split_inclusive(|b| *b == b'\n') {
        let (nuls, line) = line.split_at(skipped(line));
        offset += nuls.len() as u64;
        if line.is_empty() {
            continue;
        }
        // A carriage return is part of the line ending only before a newline.
        let text = match line.strip_suffix(b"\n") {
            Some(text) => text.strip_suffix(b"\r").unwrap_or(text),
            None => line,
        };
        limit(text, offset, line_max, long, &mut rows);
        offset += line.len() as u64;
    }
    rows
}

/// Truncates, splits or drops a line that is longer than `line_max`.
fn limit(
    mut text: &[u8],
    mut offset: u64,
    line_max: usize,
    long: LongLine,
    rows: &mut Vec<(u64, Vec<u8>)>,
) {
    if text.len() <= line_max {
        return rows.push((offset, text.to_vec()));
    }
    match long {
        LongLine::Drop => {}
        LongLine::Truncate => rows.push((offset, text[..char_boundary(text, line_max)].to_vec())),
        LongLine::Split => {
            while !text.is_empty() {
                let (chunk, rest) = text.split_at(char_boundary(text, line_max).min(text.len()));
                rows.push((offset, chunk.to_vec()));
                (text, offset) = (rest, offset + chunk.len() as u64);
            }
        }
    }
}
