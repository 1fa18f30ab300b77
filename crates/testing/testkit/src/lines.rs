//! What cutting bytes into lines must give, said as plainly as possible.

use millstream_model::{LongLine, char_boundary};

/// The lines of a whole content with their offsets: what a source must give, however the content
/// came in and wherever its blocks end. What follows the last newline is a line too.
pub fn cut_lines(content: &[u8], line_max: usize, long: LongLine) -> Vec<(u64, Vec<u8>)> {
    let (mut rows, mut offset) = (Vec::new(), 0);
    for line in content.split_inclusive(|b| *b == b'\n') {
        // A carriage return belongs to the line end only before a newline.
        let text = match line.strip_suffix(b"\n") {
            Some(text) => text.strip_suffix(b"\r").unwrap_or(text),
            None => line,
        };
        cut(text, offset, line_max, long, &mut rows);
        offset += line.len() as u64;
    }
    rows
}

fn cut(
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
                let (piece, rest) = text.split_at(char_boundary(text, line_max).min(text.len()));
                rows.push((offset, piece.to_vec()));
                (text, offset) = (rest, offset + piece.len() as u64);
            }
        }
    }
}
