//! Text for a terminal or a log: escaped, and truncated to a number of bytes or columns.

use std::fmt::{self, Write};
use unicode_width::UnicodeWidthChar;

/// Maximum number of consecutive characters without width: marks above and below a letter.
const MARKS_MAX: usize = 3;

/// Returns text that cannot control a terminal: control characters, line separators, invisible
/// characters, and characters that change the direction of text are escaped.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // A mark needs a letter. Without one it would move the rest of the line by a column.
    let mut marks = MARKS_MAX;
    for c in text.chars() {
        marks = match c.width() {
            Some(0) => marks + 1,
            _ if c.is_whitespace() || is_unsafe(c) => MARKS_MAX,
            _ => 0,
        };
        match is_unsafe(c) || marks > MARKS_MAX {
            // Writing to a string does not fail.
            true => _ = write!(out, "{}", c.escape_default()),
            false => out.push(c),
        }
    }
    out
}

/// Returns whether a character is escaped.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Escapes control characters so that a message cannot start a new line or move the cursor, and
/// cuts the text to `bytes_max` bytes, with a mark at the cut.
pub fn escaped(text: impl fmt::Display, bytes_max: usize) -> String {
    let mut escaper = Escaper { out: String::new(), bytes_max };
    if write!(escaper, "{text}").is_err() {
        // The output is full, or a value cannot be formatted. Either way, the text is incomplete.
        escaper.out.push('…');
    }
    escaper.out
}

struct Escaper {
    out: String,
    bytes_max: usize,
}

impl fmt::Write for Escaper {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            let before = self.out.len();
            match character {
                // Some readers treat line and paragraph separators as line endings.
                '\u{2028}' | '\u{2029}' => self.out.extend(character.escape_default()),
                _ if character.is_control() => self.out.extend(character.escape_default()),
                _ => self.out.push(character),
            }
            if self.out.len() > self.bytes_max {
                self.out.truncate(before);
                return Err(fmt::Error);
            }
        }
        Ok(())
    }
}

/// Returns a number with its noun, such as `1 event`.
pub fn counted(number: u64, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

/// Returns the width of `text` in columns.
pub fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Returns `text`, truncated to at most `columns` columns. A mark at the end shows the truncation.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut out = prefix(text, columns.saturating_sub(1)).to_owned();
    if columns > 0 {
        out.push('…');
    }
    out
}

/// Returns the end of `text`, at most `columns` columns, with a mark at the start if `text` is
/// truncated. The end of a path is more informative than its beginning.
pub fn cut_start(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let mut start = text.len();
    for (at, c) in text.char_indices().rev() {
        let Some(rest) = left.checked_sub(c.width().unwrap_or(0)) else { break };
        left = rest;
        start = at;
    }
    let mark = if columns > 0 { "…" } else { "" };
    format!("{mark}{}", &text[start..])
}

/// Returns the longest prefix that takes at most `columns` columns.
fn prefix(text: &str, columns: usize) -> &str {
    let mut taken = 0;
    for (at, c) in text.char_indices() {
        taken += c.width().unwrap_or(0);
        if taken > columns {
            return &text[..at];
        }
    }
    text
}

/// Breaks `text` into lines of at most `columns` columns, between words if possible.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut rest = text;
    let mut lines = Vec::new();
    while width(rest) > columns.max(1) {
        let fits = prefix(rest, columns.max(1));
        let end = match fits.rfind(' ') {
            _ if rest[fits.len()..].starts_with(' ') => fits.len(),
            Some(space) if space > 0 => space,
            // A character that is wider than the line becomes a line.
            _ => fits.len().max(rest.chars().next().map_or(0, char::len_utf8)),
        };
        lines.push(rest[..end].to_owned());
        rest = rest[end..].trim_start();
    }
    if !rest.is_empty() || lines.is_empty() {
        lines.push(rest.to_owned());
    }
    lines
}

/// Returns a number with three digits and a unit of thousands: `999`, `1.23k`, `45.6M`.
pub fn short(number: f64) -> String {
    let mut rest = number;
    for unit in ["", "k", "M", "G", "T"] {
        if rest < 999.5 {
            return scaled(rest, unit);
        }
        rest /= 1000.0;
    }
    format!("{rest:.0}P")
}

/// Returns bytes with a binary unit: `512B`, `1.5KiB`.
pub fn bytes(number: f64) -> String {
    let mut rest = number;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if rest < 1023.5 {
            return scaled(rest, unit);
        }
        rest /= 1024.0;
    }
    format!("{rest:.0}PiB")
}

fn scaled(rest: f64, unit: &str) -> String {
    let is_whole = rest.fract() == 0.0;
    match rest {
        _ if is_whole || rest >= 99.95 => format!("{rest:.0}{unit}"),
        _ if rest < 0.05 => format!("{rest:.2}{unit}"),
        _ => format!("{rest:.1}{unit}"),
    }
}

/// Returns a readable duration: `0.4s`, `12s`, `5m20s`, `3h10m`, `4d2h`.
pub fn seconds(number: f64) -> String {
    let whole = number.abs() as u64;
    let sign = if number <= -0.05 { "-" } else { "" };
    match whole {
        0..10 if number.fract() == 0.0 => format!("{sign}{whole}s"),
        0..10 => format!("{sign}{:.1}s", number.abs()),
        10..60 => format!("{sign}{whole}s"),
        60..3_600 => format!("{sign}{}m{}s", whole / 60, whole % 60),
        3_600..86_400 => format!("{sign}{}h{}m", whole / 3_600, whole / 60 % 60),
        _ => format!("{sign}{}d{}h", whole / 86_400, whole / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\u{9b}c\u{7f}\n"), "a\\u{1b}[31mb\\u{9b}c\\u{7f}\\n");
        assert_eq!(plain("x\u{202e}y\u{2066}z\u{200d}"), "x\\u{202e}y\\u{2066}z\\u{200d}");
        assert_eq!(plain("日志/é.log"), "日志/é.log");
        let marks = "e".to_owned() + &"\u{301}".repeat(1000);
        assert_eq!(plain(&marks).matches('\u{301}').count(), MARKS_MAX);
        assert_eq!(plain("\u{301}"), "\\u{301}");
        assert_eq!(
            plain("\u{301}e\u{301} \u{301}\n\u{301}"),
            "\\u{301}e\u{301} \\u{301}\\n\\u{301}"
        );
    }

    #[test]
    fn a_message_is_one_line() {
        let forged = "x\n2026-11-21T20:29:46.123Z ERROR a  forged\r\t\u{1b}[2J\u{85}\u{2028}é";
        let expected =
            "x\\n2026-11-21T20:29:46.123Z ERROR a  forged\\r\\t\\u{1b}[2J\\u{85}\\u{2028}é";
        assert_eq!(escaped(forged, 4096), expected);
        assert_eq!(escaped("ééé", 5), "éé…");
        assert_eq!(escaped("a\nb", 2), "a…");
    }

    #[test]
    fn wide_characters_are_cut_by_columns() {
        assert_eq!((cut("日志文件", 5), cut("日志", 4)), ("日志…".to_owned(), "日志".to_owned()));
        assert_eq!((cut("日志文件", 4), cut("abc", 0)), ("日…".to_owned(), String::new()));
        assert_eq!(cut_start("/var/日志.log", 7), "…志.log");
        assert_eq!(cut_start("abc", 0), "");
        for columns in 0..12 {
            assert!(width(&cut("a日b志c文d件", columns)) <= columns, "{columns}");
            assert!(width(&cut_start("a日b志c文d件", columns)) <= columns, "{columns}");
        }
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("the sink is slow", 8), ["the sink", "is slow"]);
        assert_eq!(wrap("aaaaaaaaaa b", 4), ["aaaa", "aaaa", "aa b"]);
        assert_eq!(wrap("日志", 1), ["日", "志"]);
        assert_eq!(wrap("", 5), [""]);
    }

    #[test]
    fn one_thing_is_singular() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "event")), ["0 events", "1 event", "2 events"]);
    }

    #[test]
    fn numbers_have_three_digits() {
        let shown =
            |numbers: &[f64]| numbers.iter().map(|n| short(*n)).collect::<Vec<_>>().join(" ");
        assert_eq!(
            shown(&[0.0, 0.4, 7.0, 999.4, 1234.0, 45_600.0, 1e6]),
            "0 0.4 7 999 1.2k 45.6k 1M"
        );
        assert_eq!((bytes(512.0), bytes(1536.0), bytes(1e12)).1, "1.5KiB");
        let shown =
            |numbers: &[f64]| numbers.iter().map(|n| seconds(*n)).collect::<Vec<_>>().join(" ");
        assert_eq!(
            shown(&[0.0, 0.44, 12.5, 320.0, 11_400.0, 352_800.0]),
            "0s 0.4s 12s 5m20s 3h10m 4d2h"
        );
    }
}
