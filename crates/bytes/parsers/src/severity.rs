//! Severities of log events on the scale of OpenTelemetry's log data model.
//!
//! The scale has the numbers 1 to 24: four for each of six levels, from `trace` (1 to 4) to `fatal`
//! (21 to 24). Source: the fields `SeverityNumber` and `SeverityText` in the specification of
//! OpenTelemetry logs, whose appendix also maps the severities of syslog.

/// Names of the levels, in ascending order.
const LEVELS: [&str; 6] = ["trace", "debug", "info", "warn", "error", "fatal"];

/// Numbers of syslog's severities, from `emerg` (0) to `debug` (7).
const SYSLOG: [u8; 8] = [21, 19, 18, 17, 13, 10, 9, 5];

/// Length of the longest name in bytes.
const NAME_BYTES_MAX: usize = 13;

/// A severity: a number from 1 to 24.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Severity(u8);

/// The meaning of numbers in a level field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SeverityScale {
    /// From 0 to 7 as in syslog, and from 10 on as in pino.
    #[default]
    Auto,
    /// Python's `logging`: 10 for debug, 20 for info, 30 for warning, 40 for error, 50 for critical.
    Python,
    /// OpenTelemetry: 1 to 24.
    Otel,
}

impl Severity {
    /// Number of severities, including the unused number 0.
    pub const COUNT: usize = 25;

    /// Returns the severity of syslog's `severity`, which is also a journal entry's priority.
    /// Returns `None` for a number beyond 7.
    pub fn of_syslog(severity: u8) -> Option<Severity> {
        SYSLOG.get(usize::from(severity)).copied().map(Severity)
    }

    /// Reads a name such as `WARNING`, or a number on `scale`. Ignores case, surrounding
    /// whitespace, and brackets as in `[error]`. Returns `None` for any other text.
    pub fn parse(text: &[u8], scale: SeverityScale) -> Option<Severity> {
        let text = trimmed(text);
        match text.first()? {
            b'0'..=b'9' => number(text).and_then(|number| of_number(number, scale)),
            _ => of_name(text),
        }
    }

    /// Returns the number, from 1 to 24.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Returns the name of the level that contains the severity.
    pub fn level(self) -> &'static str {
        LEVELS[usize::from(self.0 - 1) / 4]
    }
}

/// Removes whitespace and brackets at both ends.
fn trimmed(text: &[u8]) -> &[u8] {
    let is_outside = |byte: &u8| byte.is_ascii_whitespace() || b"[]<>():".contains(byte);
    let start = text.iter().position(|byte| !is_outside(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_outside(byte)).map_or(start, |last| last + 1);
    &text[start..end]
}

/// Reads a number with at most three digits. A decimal point with zeros may follow.
fn number(text: &[u8]) -> Option<u16> {
    let digits = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let (whole, fraction) = text.split_at(digits);
    if whole.len() > 3 || !fraction.iter().skip(1).all(|byte| *byte == b'0') {
        return None;
    }
    whole
        .iter()
        .try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u16::from(byte - b'0')))
}

fn of_number(number: u16, scale: SeverityScale) -> Option<Severity> {
    let severity = match (scale, number) {
        (SeverityScale::Otel, 1..=24) => number as u8,
        (SeverityScale::Auto, 0..=7) => SYSLOG[usize::from(number)],
        (SeverityScale::Auto, 10) => 1,
        (SeverityScale::Auto, 20) | (SeverityScale::Python, 10) => 5,
        (SeverityScale::Auto, 30) | (SeverityScale::Python, 20) => 9,
        (SeverityScale::Auto, 40) | (SeverityScale::Python, 30) => 13,
        (SeverityScale::Auto, 50) | (SeverityScale::Python, 40) => 17,
        (SeverityScale::Python, 50) => 18,
        (SeverityScale::Auto, 60) => 21,
        _ => return None,
    };
    Some(Severity(severity))
}

/// Reads a name of syslog, of common logging libraries, or of OpenTelemetry (`WARN2`).
fn of_name(text: &[u8]) -> Option<Severity> {
    let mut lower = [0; NAME_BYTES_MAX];
    let lower = lower.get_mut(..text.len())?;
    lower.copy_from_slice(text);
    lower.make_ascii_lowercase();
    let number = match &*lower {
        b"trace" | b"trc" | b"t" | b"finest" | b"verbose" | b"v" | b"silly" => 1,
        b"finer" => 2,
        b"debug" | b"dbg" | b"d" | b"fine" | b"config" => 5,
        b"info" | b"inf" | b"i" | b"information" | b"informational" | b"log" | b"default" => 9,
        b"notice" | b"n" => 10,
        b"warn" | b"wrn" | b"w" | b"warning" => 13,
        b"error" | b"err" | b"e" | b"severe" => 17,
        b"critical" | b"crit" | b"c" | b"dpanic" => 18,
        b"alert" | b"a" => 19,
        b"fatal" | b"ftl" | b"f" | b"emergency" | b"emerg" | b"panic" => 21,
        [level @ .., step @ b'2'..=b'4'] => {
            let position = LEVELS.iter().position(|name| name.as_bytes() == level)?;
            position as u8 * 4 + 1 + (*step - b'1')
        }
        _ => return None,
    };
    Some(Severity(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(scale: SeverityScale, cases: &[(&str, Option<(&str, u8)>)]) {
        for (text, expected) in cases {
            let found = Severity::parse(text.as_bytes(), scale);
            let found = found.map(|severity| (severity.level(), severity.number()));
            assert_eq!(found, *expected, "{text:?} {scale:?}");
        }
    }

    #[test]
    fn names_are_read_without_case_and_brackets() {
        let cases = [
            ("TRACE", Some(("trace", 1))),
            ("Debug", Some(("debug", 5))),
            ("  info ", Some(("info", 9))),
            ("notice", Some(("info", 10))),
            ("[WARNING]", Some(("warn", 13))),
            ("<err>", Some(("error", 17))),
            ("E", Some(("error", 17))),
            ("CRITICAL", Some(("error", 18))),
            ("alert", Some(("error", 19))),
            ("emerg", Some(("fatal", 21))),
            ("Informational", Some(("info", 9))),
            ("ERROR3", Some(("error", 19))),
            ("fatal4", Some(("fatal", 24))),
            ("info1", None),
            ("error5", None),
            ("", None),
            ("[]", None),
            ("erro", None),
            ("a name that is too long", None),
            ("wärn", None),
        ];
        check(SeverityScale::Auto, &cases);
    }

    #[test]
    fn numbers_are_read_on_their_scale() {
        let auto = [
            ("0", Some(("fatal", 21))),
            ("3", Some(("error", 17))),
            ("7", Some(("debug", 5))),
            ("8", None),
            ("10", Some(("trace", 1))),
            ("30", Some(("info", 9))),
            ("30.0", Some(("info", 9))),
            ("30.5", None),
            ("60", Some(("fatal", 21))),
            ("70", None),
            ("1000", None),
            ("3x", None),
        ];
        check(SeverityScale::Auto, &auto);
        let python = [
            ("10", Some(("debug", 5))),
            ("30", Some(("warn", 13))),
            ("50", Some(("error", 18))),
            ("3", None),
        ];
        check(SeverityScale::Python, &python);
        let otel = [("0", None), ("1", Some(("trace", 1))), ("24", Some(("fatal", 24)))];
        check(SeverityScale::Otel, &otel);
        check(SeverityScale::Otel, &[("25", None), ("warn", Some(("warn", 13)))]);
    }

    #[test]
    fn priorities_of_syslog_keep_their_order() {
        let numbers: Vec<_> = (0..8).filter_map(Severity::of_syslog).collect();
        assert_eq!(numbers.len(), 8);
        assert!(numbers.is_sorted_by(|a, b| a > b), "{numbers:?}");
        assert_eq!(Severity::of_syslog(8), None);
    }
}
