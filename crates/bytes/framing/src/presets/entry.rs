//! Recognition of the first line of a log entry in common log formats.

/// Maximum number of consecutive unindented lines that are treated as the text of an entry or an
/// exception. The limit exists because log lines in an unknown format look the same.
pub const TEXT_LINES_MAX: u8 = 20;

/// Patterns that match dates and times that begin with a digit. `0` represents a digit, `A` an
/// uppercase letter, and `a` a lowercase letter.
const NUMERIC_TIMES: [&[u8]; 12] = [
    b"0000-00-00",
    b"0000/00/00",
    b"0000.00.00",
    b"00-00-0000",
    b"00/00/0000",
    b"00.00.0000",
    b"00-Aaa-0000",
    b"00/Aaa/0000",
    b"00 Aaa 0000",
    b"00:00:00",
    b"00000000 00:00",
    b"0000000000",
];

/// Patterns that match dates and times that begin with a letter.
const NAMED_TIMES: [&[u8]; 8] = [
    b"Aaa 00 00:00",
    b"Aaa  0 00:00",
    b"Aaa 00, 0000",
    b"Aaa Aaa 00 ",
    b"Aaa Aaa  0 ",
    b"Aaa, 00 Aaa",
    b"A0000 00:00:00",
    b"A, [0000-00-00",
];

/// Maximum number of words up to and including the level of an entry without a time, such as
/// `app.orders - INFO - up`.
const LEVEL_WORDS_MAX: usize = 3;

/// Keys with which a logfmt entry can begin.
const KEYS: [&[u8]; 5] = [b"time=", b"ts=", b"t=", b"timestamp=", b"level="];

/// The first byte of a terminal escape sequence, such as a color.
const ESCAPE: u8 = 0x1b;

/// Number of bytes at the start of a line that are searched for a level or another severity word.
const SEVERITY_BYTES_MAX: usize = 80;

/// Severity words, and whether each word means an error.
const SEVERITIES: [(&[u8], bool); 19] = [
    (b"error", true),
    (b"err", true),
    (b"warning", true),
    (b"warn", true),
    (b"critical", true),
    (b"crit", true),
    (b"fatal", true),
    (b"severe", true),
    (b"alert", true),
    (b"exception", true),
    (b"failed", true),
    (b"failure", true),
    (b"unhandled", true),
    (b"uncaught", true),
    (b"panic", true),
    (b"info", false),
    (b"debug", false),
    (b"trace", false),
    (b"notice", false),
];

/// The first letters of the severity words, by word length, as bit masks. Most words of a line
/// start with other letters and are excluded by one test.
const INITIALS: [u32; 10] = {
    let mut initials = [0; 10];
    let mut at = 0;
    while at < SEVERITIES.len() {
        let word = SEVERITIES[at].0;
        initials[word.len()] |= 1 << (word[0] - b'a');
        at += 1;
    }
    initials
};

/// Returns whether `line` begins an entry: with a time or a level, optionally in brackets or
/// colors, or as JSON, logfmt or an access log line.
pub fn begins_entry(line: &[u8]) -> bool {
    let line = without_color(line);
    let text = line.strip_prefix(b"[").unwrap_or(line);
    has_time(text)
        || line.split(|byte| *byte == b' ').take(LEVEL_WORDS_MAX).any(is_level)
        || KEYS.iter().any(|key| line.starts_with(key))
        || (line.starts_with(b"{\"") && line.ends_with(b"}"))
        || is_access(line)
}

/// Returns whether `line` reports an error, according to its first severity word.
pub fn reports_error(line: &[u8]) -> bool {
    let mut rest = &line[..line.len().min(SEVERITY_BYTES_MAX)];
    let begins = |byte: &u8| byte.is_ascii_alphabetic() || *byte == ESCAPE;
    while let Some(start) = rest.iter().position(begins) {
        rest = &rest[start..];
        let letters = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        if let Some(is_error) = severity(&rest[..letters]) {
            return is_error;
        }
        rest = &rest[color_len(rest).max(letters).max(1)..];
    }
    false
}

/// Returns whether a word means an error, or `None` if it is not a severity word.
fn severity(word: &[u8]) -> Option<bool> {
    let first = word.first()?.to_ascii_lowercase() - b'a';
    if INITIALS.get(word.len())? >> first & 1 == 0 {
        return None;
    }
    let (_, is_error) = SEVERITIES.iter().find(|(other, _)| word.eq_ignore_ascii_case(other))?;
    Some(*is_error)
}

fn without_color(text: &[u8]) -> &[u8] {
    &text[color_len(text)..]
}

/// Returns the length of the color escape sequences at the start of `text`.
fn color_len(text: &[u8]) -> usize {
    let mut len = 0;
    while let Some(inside) = text[len..].strip_prefix(b"\x1b[") {
        let is_part = |byte: &&u8| byte.is_ascii_digit() || **byte == b';';
        let parts = inside.iter().take_while(is_part).count();
        if inside.get(parts) != Some(&b'm') {
            break;
        }
        len += b"\x1b[m".len() + parts;
    }
    len
}

fn has_time(text: &[u8]) -> bool {
    match text {
        [b'0'..=b'9', ..] => NUMERIC_TIMES.iter().any(|shape| has_shape(text, shape)),
        [b'A'..=b'Z', ..] => NAMED_TIMES.iter().any(|shape| has_shape(text, shape)),
        _ => false,
    }
}

fn has_shape(text: &[u8], shape: &[u8]) -> bool {
    let fits = |byte: &u8, shape: &u8| match shape {
        b'0' => byte.is_ascii_digit(),
        b'A' => byte.is_ascii_uppercase(),
        b'a' => byte.is_ascii_lowercase(),
        other => byte == other,
    };
    text.len() >= shape.len() && text.iter().zip(shape).all(|(byte, shape)| fits(byte, shape))
}

/// Returns whether a word is a level: `INFO`, `[ERROR`, `WARNING:root:slow`. Only uppercase words
/// count, because `error` is a common word in messages.
fn is_level(word: &[u8]) -> bool {
    let word = without_color(word);
    let word = word.strip_prefix(b"[").unwrap_or(word);
    let letters = word.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    let is_level = matches!(
        &word[..letters],
        b"TRACE"
            | b"DEBUG"
            | b"INFO"
            | b"NOTICE"
            | b"WARN"
            | b"WARNING"
            | b"ERROR"
            | b"SEVERE"
            | b"CRITICAL"
            | b"FATAL"
    );
    is_level && !word.get(letters).is_some_and(is_name)
}

/// Returns whether a line is from an access log:
/// `127.0.0.1 - ada [21/Nov/2026 20:29:46] "GET / HTTP/1.1" 200 -`.
fn is_access(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == b' ').skip(1);
    words.next() == Some(b"-") && words.nth(1).is_some_and(|word| word.starts_with(b"["))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_usual_formats_are_recognized() {
        for line in [
            "2026-11-21 20:29:46,123 ERROR app: failed",
            "[2026-11-21 20:29:46 +0000] [7] [INFO] Booting worker",
            "2026/11/21 20:29:46 listening",
            "21-Nov-2026 20:29:46.123 INFO [main] up",
            "[Sat Nov 21 20:29:46.123456 2026] [core:notice] up",
            "Nov 21 20:29:46 host app[7]: up",
            "Nov  1 20:29:46 host app[7]: up",
            "20:29:46.123 [main] INFO up",
            "1795292986.123 up",
            "I1121 20:29:46.123456       1 main.go:7] up",
            "I, [2026-11-21T20:29:46.123456 #7]  INFO -- : up",
            "INFO:root:up",
            "INFO:     127.0.0.1:50123 - \"GET / HTTP/1.1\" 200 OK",
            "[ERROR] failed",
            "app.orders - WARNING - slow",
            "\u{1b}[32m2026-11-21 20:29:46\u{1b}[0m up",
            "\u{1b}[1m\u{1b}[31mERROR\u{1b}[0m failed",
            "app \u{1b}[32mINFO\u{1b}[0m up",
            "{\"level\": \"info\"}",
            "level=info msg=up",
            "127.0.0.1 - - [21/Nov/2026 20:29:46] \"GET / HTTP/1.1\" 200 -",
        ] {
            assert!(begins_entry(line.as_bytes()), "{line}");
        }
        for line in [
            "",
            "b",
            "Error: no such order",
            "INFORMATION",
            "ERROR_CODE",
            "[SQL: SELECT 1]",
            "(Background on this error at: https://example.com/e/20)",
            "{",
            "2026",
            "LINE 1: SELECT ERROR FROM orders",
        ] {
            assert!(!begins_entry(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn the_first_word_about_severity_counts() {
        for (line, expected) in [
            ("ERROR:root:failed", true),
            ("[2026-11-21 20:29:46 +0000] [7] [ERROR] Exception in worker process", true),
            ("Exception in thread Thread-1 (run):", true),
            ("INFO:root:no errors", false),
            ("20:29:46 \u{1b}[1;31mERROR\u{1b}[0m app: bad", true),
            ("20:29:46 \u{1b}[1m\u{1b}[32m[INFO]\u{1b}[0m 2 of 3 failed", false),
            ("\u{1b}[2K\u{1b}ERROR", true),
            ("INFO:root:2 of 3 failed", false),
            ("listening on port 8080", false),
            ("", false),
        ] {
            assert_eq!(reports_error(line.as_bytes()), expected, "{line}");
        }
    }
}
