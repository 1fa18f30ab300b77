//! Splits a stream of syslog messages into frames.
//!
//! RFC 6587 describes two methods: a message is preceded by its length (octet counting), or ends
//! with a line feed or NUL (non-transparent framing). A sender does not announce its method, so the
//! first bytes of the stream decide. A length is followed by a space and the `<` of a priority.

use memchr::memchr2_iter;
use std::ops::Range;

/// Maximum number of digits of a length.
const DIGITS_MAX: usize = 9;

/// Byte order mark of UTF-8, which some senders write at the start of a stream.
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The method by which a sender delimits messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Method {
    /// Too few bytes have arrived to decide.
    #[default]
    Unknown,
    /// A length precedes each message.
    Counted,
    /// A line feed or NUL follows each message.
    Delimited,
}

/// The part of the stream that is being skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Skip {
    #[default]
    Nothing,
    /// The rest of a message, up to its delimiter.
    Message,
    /// This number of bytes.
    Bytes(usize),
}

/// A message in the parsed bytes. Empty messages are not reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyslogFrame {
    /// Position of the message, without its length and delimiter.
    pub range: Range<usize>,
    /// Whether the end of the message is missing, because the message exceeds the limit or the
    /// stream has ended.
    pub is_truncated: bool,
}

/// The error for a stream in which a length is invalid. The position of the next message is
/// unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidLength;

/// Splits one stream into frames.
#[derive(Clone, Debug, Default)]
pub struct SyslogFramer {
    method: Method,
    skip: Skip,
}

/// The start of a message with a length.
enum Length {
    /// More bytes are needed.
    Incomplete,
    /// The length of the message, and the number of bytes before the message.
    Complete(usize, usize),
}

impl SyslogFramer {
    /// Number of bytes in addition to the maximum message size that must be kept for an incomplete
    /// message: the length, a space, and the byte order mark before the length.
    pub const EXTRA_BYTES: usize = 16;

    /// Passes the complete messages in `bytes` to `frame`. Returns the number of bytes consumed;
    /// the next call must begin with the remaining ones, of which there are at most
    /// `message_bytes_max` and [`SyslogFramer::EXTRA_BYTES`]. The first `searched` bytes are the
    /// remaining bytes of the previous call. A message over `message_bytes_max` bytes is truncated.
    ///
    /// # Errors
    /// Returns an error if a length is invalid. The stream is then unusable.
    pub fn parse(
        &mut self,
        bytes: &[u8],
        searched: usize,
        message_bytes_max: usize,
        mut frame: impl FnMut(SyslogFrame),
    ) -> Result<usize, InvalidLength> {
        let mut at = 0;
        if let Skip::Bytes(left) = self.skip {
            at = left.min(bytes.len());
            self.skip = if at < left { Skip::Bytes(left - at) } else { Skip::Nothing };
        }
        if self.method == Method::Unknown {
            at += blanks(&bytes[at..]);
            let mark = if bytes[at..].starts_with(BOM) { BOM.len() } else { 0 };
            self.method = method(&bytes[at + mark..]);
            at += if self.method == Method::Unknown { 0 } else { mark };
        }
        match self.method {
            Method::Unknown => Ok(at),
            Method::Counted => self.counted(bytes, at, message_bytes_max, &mut frame),
            Method::Delimited => {
                let searched = searched.max(at);
                Ok(self.delimited(bytes, at, searched, message_bytes_max, &mut frame))
            }
        }
    }

    /// Ends the stream. `rest` is the bytes that were not consumed. Returns the last message, whose
    /// end is missing if its length says so.
    pub fn finish(&mut self, rest: &[u8], message_bytes_max: usize) -> Option<SyslogFrame> {
        let begin = match (self.skip, self.method) {
            (Skip::Nothing, Method::Counted) => {
                let blanks = blanks(rest);
                match length(&rest[blanks..]) {
                    Ok(Length::Complete(_, head)) => blanks + head,
                    _ => rest.len(),
                }
            }
            (Skip::Nothing, _) => 0,
            _ => rest.len(),
        };
        let end = rest.len().min(begin + message_bytes_max);
        let is_truncated = self.method == Method::Counted || end < rest.len();
        (begin < end).then_some(SyslogFrame { range: begin..end, is_truncated })
    }

    /// Returns whether the rest of a message over the limit is being skipped.
    pub fn is_skipping(&self) -> bool {
        self.skip != Skip::Nothing
    }

    /// Skips the message that begins with `rest`, the bytes that were not consumed.
    pub fn skip_message(&mut self, rest: &[u8]) {
        let blanks = blanks(rest);
        self.skip = match (self.method, length(&rest[blanks..])) {
            (Method::Counted, Ok(Length::Complete(len, head))) => {
                Skip::Bytes((blanks + head + len).saturating_sub(rest.len()))
            }
            (Method::Delimited, _) => Skip::Message,
            _ => Skip::Nothing,
        };
    }

    fn counted(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        message_bytes_max: usize,
        frame: &mut impl FnMut(SyslogFrame),
    ) -> Result<usize, InvalidLength> {
        loop {
            at += blanks(&bytes[at..]);
            let Length::Complete(len, head) = length(&bytes[at..])? else { return Ok(at) };
            let body = at + head;
            let arrived = bytes.len() - body;
            let kept = len.min(message_bytes_max);
            if arrived < kept {
                return Ok(at);
            }
            frame(SyslogFrame { range: body..body + kept, is_truncated: kept < len });
            if arrived < len {
                self.skip = Skip::Bytes(len - arrived);
                return Ok(bytes.len());
            }
            at = body + len;
        }
    }

    fn delimited(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        searched: usize,
        message_bytes_max: usize,
        frame: &mut impl FnMut(SyslogFrame),
    ) -> usize {
        let mut emit = |begin: usize, end: usize| {
            let end = end - usize::from(bytes[begin..end].ends_with(b"\r"));
            let kept = end.min(begin + message_bytes_max);
            if begin < kept {
                frame(SyslogFrame { range: begin..kept, is_truncated: kept < end });
            }
        };
        for end in memchr2_iter(b'\n', 0, &bytes[searched..]) {
            let end = searched + end;
            if std::mem::take(&mut self.skip) == Skip::Nothing {
                emit(at, end);
            }
            at = end + 1;
        }
        if self.skip != Skip::Nothing {
            return bytes.len();
        }
        if bytes.len() - at > message_bytes_max + 1 {
            emit(at, bytes.len());
            self.skip = Skip::Message;
            return bytes.len();
        }
        at
    }
}

/// Returns the number of delimiters at the start of `bytes`. Some senders write a length and a
/// delimiter.
fn blanks(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| matches!(byte, b'\n' | b'\r' | 0)).count()
}

/// Returns the method of a stream that begins with `bytes`.
fn method(bytes: &[u8]) -> Method {
    let digits = bytes.iter().take(DIGITS_MAX + 1).take_while(|byte| byte.is_ascii_digit()).count();
    if bytes.is_empty() || bytes.len() < BOM.len() && BOM.starts_with(bytes) {
        return Method::Unknown;
    }
    if digits == 0 || digits > DIGITS_MAX || bytes[0] == b'0' {
        return Method::Delimited;
    }
    match bytes[digits..] {
        [] | [b' '] => Method::Unknown,
        [b' ', b'<', ..] => Method::Counted,
        _ => Method::Delimited,
    }
}

/// Parses the length at the start of `bytes`.
fn length(bytes: &[u8]) -> Result<Length, InvalidLength> {
    let mut len = 0;
    for (digits, byte) in bytes.iter().enumerate() {
        match byte {
            b'0' if digits == 0 => return Err(InvalidLength),
            b'0'..=b'9' if digits < DIGITS_MAX => len = len * 10 + usize::from(byte - b'0'),
            b' ' if digits > 0 => return Ok(Length::Complete(len, digits + 1)),
            _ => return Err(InvalidLength),
        }
    }
    Ok(Length::Incomplete)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames a stream that arrives in pieces of `step` bytes. A truncated message ends with `~`.
    fn frames(stream: &[u8], step: usize, max: usize) -> (Vec<String>, Result<(), InvalidLength>) {
        let (mut framer, mut rest, mut found) = (SyslogFramer::default(), Vec::new(), Vec::new());
        let show = |bytes: &[u8], frame: &SyslogFrame| {
            let text = String::from_utf8_lossy(&bytes[frame.range.clone()]).into_owned();
            if frame.is_truncated { text + "~" } else { text }
        };
        for piece in stream.chunks(step) {
            let searched = rest.len();
            rest.extend_from_slice(piece);
            let parsed =
                framer.parse(&rest, searched, max, |frame| found.push(show(&rest, &frame)));
            match parsed {
                Ok(used) => drop(rest.drain(..used)),
                Err(error) => return (found, Err(error)),
            }
            assert!(rest.len() <= max + SyslogFramer::EXTRA_BYTES, "{} bytes wait", rest.len());
        }
        let last = framer.finish(&rest, max);
        found.extend(last.map(|frame| show(&rest, &frame)));
        (found, Ok(()))
    }

    #[track_caller]
    fn check(stream: &str, expected: &[&str]) {
        for step in 1..=stream.len() + 1 {
            let found = frames(stream.as_bytes(), step, 20);
            assert_eq!(found, (expected.iter().map(|text| (*text).to_owned()).collect(), Ok(())));
        }
    }

    #[test]
    fn lengths_and_delimiters_are_told_apart() {
        check("5 <1>ab7 <2>abcd", &["<1>ab", "<2>abcd"]);
        check("\n5 <1>ab\n\n6 <2>c\r\n3 <3>", &["<1>ab", "<2>c\r\n", "<3>"]);
        check("6 <1>a\nb4 <2>c", &["<1>a\nb", "<2>c"]);
        check("<1>ab\n<2>c\r\n\n<3>\0<4>d", &["<1>ab", "<2>c", "<3>", "<4>d"]);
        check("2026-11-21 a\n12 b\n", &["2026-11-21 a", "12 b"]);
        check("12 monkeys\n", &["12 monkeys"]);
        check("05 <1>ab\n", &["05 <1>ab"]);
        check("1234567890 <1>\n", &["1234567890 <1>"]);
        check("12", &["12"]);
        check("\u{feff}5 <1>ab4 <1>c", &["<1>ab", "<1>c"]);
        check("\n\u{feff}<1>ab\n\u{feff}<1>c", &["<1>ab", "\u{feff}<1>c"]);
        check("", &[]);
        check("\n\r\n", &[]);
    }

    #[test]
    fn long_and_incomplete_messages_are_truncated() {
        let long = "x".repeat(50);
        let kept = format!("<1>{}~", "x".repeat(17));
        check(&format!("<1>{long}\n<2>b\n"), &[&kept, "<2>b"]);
        check(&format!("53 <1>{long}4 <2>b"), &[&kept, "<2>b"]);
        check(&format!("<1>{long}"), &[&kept]);
        check("9 <1>ab", &["<1>ab~"]);
        check(&format!("<1>{}\r\n<2>b", "x".repeat(17)), &[kept.trim_end_matches('~'), "<2>b"]);
    }

    #[test]
    fn an_invalid_length_is_an_error() {
        for stream in ["5 <1>ab07 <2>abcd", "5 <1>ab<2>cd", "5 <1>ab 7 ", "5 <1>ab1234567890 "] {
            for step in 1..=stream.len() {
                let expected = (vec!["<1>ab".to_owned()], Err(InvalidLength));
                assert_eq!(frames(stream.as_bytes(), step, 20), expected, "{stream}");
            }
        }
    }

    #[test]
    fn the_rest_of_a_message_can_be_skipped() {
        for (begin, end) in
            [("30 <1>abc", "xxxxxxxxxxxxxxxxxxxxxxxx4 <3>d"), ("<1>abc", "defgh\n<3>d\n")]
        {
            let mut framer = SyslogFramer::default();
            let used = framer.parse(begin.as_bytes(), 0, 100, |_| panic!("no message")).unwrap();
            framer.skip_message(&begin.as_bytes()[used..]);
            let mut found = Vec::new();
            framer
                .parse(end.as_bytes(), 0, 100, |frame| found.push(end[frame.range].to_owned()))
                .unwrap();
            assert_eq!(found, ["<3>d"]);
        }
    }
}
