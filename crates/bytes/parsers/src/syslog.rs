//! Parses syslog: RFC 5424, RFC 3164, and common variants of RFC 3164.

mod data;
#[cfg(test)]
mod devices;
#[cfg(test)]
mod tests;

use crate::{Fields, Input, Parser, Reason, Severity, TimeField};
use millstream_columns::{Cell, Kind};
use millstream_timestamps::{Format, Parser as Times, Stamp, Zone, push_rfc3339};
use std::sync::Arc;

const MISMATCH: Reason = "not_syslog";
const BAD_TIME: Reason = "bad_time";
const BAD_STRUCTURED_DATA: Reason = "bad_structured_data";

const FACILITIES: [&str; 24] = [
    "kern",
    "user",
    "mail",
    "daemon",
    "auth",
    "syslog",
    "lpr",
    "news",
    "uucp",
    "cron",
    "authpriv",
    "ftp",
    "ntp",
    "security",
    "console",
    "solaris-cron",
    "local0",
    "local1",
    "local2",
    "local3",
    "local4",
    "local5",
    "local6",
    "local7",
];
const SEVERITIES: [&str; 8] =
    ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// Longer names of severities.
const SEVERITY_WORDS: [&str; 4] = ["emergency", "critical", "error", "informational"];

/// The time format of RFC 3164, and formats with a year that some devices write.
const LOCAL_TIMES: [&str; 5] = [
    "%b %e %H:%M:%S%.f",
    "%b %e %Y %H:%M:%S%.f",
    "%Y %b %e %H:%M:%S%.f",
    "%Y-%m-%d,%H:%M:%S%.f",
    "%m/%d/%Y:%H:%M:%S",
];

/// Name with which Snare begins events of Windows, followed by a tab.
const SNARE: &[u8] = b"MSWinEventLog\t";

/// The first of the [`LOCAL_TIMES`], with a year at the end.
const YEAR_LAST: &str = "%b %e %H:%M:%S%.f %Y";

/// Minimum number of digits in a time in seconds since 1970. A shorter number is not a time.
const EPOCH_DIGITS_MIN: usize = 9;

/// Options for the parser.
#[derive(Clone, Debug, Default)]
pub struct SyslogConfig {
    /// Time zone of times without an offset. The default is UTC.
    pub zone: Option<Zone>,
}

/// Byte order mark of UTF-8.
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Maximum length of the abbreviation of a time zone.
const ZONE_BYTES_MAX: usize = 6;

/// Parser for syslog lines, which detects the RFC of each line.
///
/// | field | RFC 5424 | RFC 3164 |
/// |---|---|---|
/// | `facility`, `severity` | names, such as `daemon` and `warning` | the same if there is `<PRI>` |
/// | `version` | an integer | |
/// | `timestamp` | a time in UTC | the same; the year is derived from the read time |
/// | `hostname` | string | string; absent if the tag follows the time |
/// | `app_name`, `proc_id` | string | from `tag[pid]:` |
/// | `msg_id` | string | |
/// | `structured_data` | an object that contains one object per element | |
/// | `message` | the rest | the rest |
///
/// A line without `<PRI>` must begin with a time. In RFC 5424, `-` means no value.
///
/// After `<PRI>`, a Cisco device may write a sequence number and the name of the host before the
/// time, each followed by a colon. The number becomes `meta.sequenceId` in the structured data,
/// which is the name that RFC 5424 defines for it. A task such as `*dot1xTask`, which a wireless
/// controller writes after the host, becomes the process id. If the abbreviation of a time zone
/// before `%` is unknown, the time is invalid.
///
/// A byte order mark before the header is skipped, and so are a selector such as `Local7.Info`
/// before the host, and a host name that a relay has repeated.
///
/// An RFC 5424 header may contain a time in seconds since 1970, or a space between date and time,
/// and may lack structured data. If the time or the structured data is invalid, the parts before it
/// are kept, the rest is the message, and the row is [recorded](Fields::flaw).
#[derive(Clone, Debug)]
pub struct Syslog {
    iso: Times,
    epoch: Times,
    local: [LocalTimes; LOCAL_TIMES.len()],
    year_last: Times,
}

/// A format for local times, with and without a zone name at the end.
#[derive(Clone, Debug)]
struct LocalTimes {
    plain: Times,
    zoned: Times,
}

impl LocalTimes {
    fn new(format: &str, zone: Option<&Zone>) -> Result<LocalTimes, String> {
        let zoned = format!("{format} %Z");
        // A fixed zone has no names. In this case, only the names of UTC are accepted.
        let zoned = Format::new(&zoned, zone.cloned()).or_else(|_| Format::new(&zoned, None))?;
        let plain = Format::new(format, zone.cloned())?;
        Ok(LocalTimes { plain: Times::new(Arc::new(plain)), zoned: Times::new(Arc::new(zoned)) })
    }
}

/// Names of the columns for the level and the number of the severity on the common scale.
const LEVEL: &str = "level";
const SEVERITY_NUMBER: &str = "severity_number";

/// Column names. Each value is stored at the index of its name.
const NAMES: [&str; 10] = [
    "facility",
    "severity",
    "version",
    "timestamp",
    "hostname",
    "app_name",
    "proc_id",
    "msg_id",
    "structured_data",
    "message",
];
const FACILITY: usize = 0;
const SEVERITY: usize = 1;
const VERSION: usize = 2;
const TIMESTAMP: usize = 3;
const HOSTNAME: usize = 4;
const APP_NAME: usize = 5;
const PROC_ID: usize = 6;
const MSG_ID: usize = 7;
const STRUCTURED_DATA: usize = 8;
const MESSAGE: usize = 9;

/// Start and end of part of a line.
type Span = (usize, usize);

/// The names of an RFC 5424 header, in order.
const HEADER_NAMES: [usize; 4] = [HOSTNAME, APP_NAME, PROC_ID, MSG_ID];

/// State of the line that is being parsed. The values are stored only once it is certain that the
/// line matches.
struct LineReader<'a> {
    text: &'a [u8],
    at: usize,
    cell: Cell,
    found: [Cell; NAMES.len()],
    time_ns: Option<i64>,
    data: Vec<u8>,
    priority: Option<u8>,
    /// The invalid part of a matching line: the reason and the position.
    flaw: Option<(Reason, usize)>,
}

impl Syslog {
    /// Creates a parser.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is invalid. The error says what to use instead.
    pub fn new(config: &SyslogConfig) -> Result<Syslog, String> {
        let times = |format: &str, offset| {
            Ok::<_, String>(Times::new(Arc::new(Format::new(format, offset)?)))
        };
        let [first, second, third, fourth, fifth] =
            LOCAL_TIMES.map(|format| LocalTimes::new(format, config.zone.as_ref()));
        Ok(Syslog {
            iso: times("iso8601", config.zone.clone())?,
            epoch: times("epoch_s", None)?,
            local: [first?, second?, third?, fourth?, fifth?],
            year_last: times(YEAR_LAST, config.zone.clone())?,
        })
    }

    /// Parses like [`Parser::parse`], but stores the time of each line that has one in `times`, in
    /// nanoseconds since 1970, instead of in a field. Adds the fields `level` and `severity_number`
    /// with the [`Severity`].
    pub fn parse_events(&mut self, input: &Input<'_>, fields: &mut Fields, times: &mut [i64]) {
        let (level, number) = (fields.named(&LEVEL.into()), fields.named(&SEVERITY_NUMBER.into()));
        let mut levels = Levels::default();
        self.parse_rows(input, fields, |reader, row, fields| {
            if let Some(ns) = reader.time_ns {
                times[row] = ns;
            }
            if let Some(priority) = reader.priority {
                let [name, value] = levels.cells(priority % 8, fields);
                fields.set(level, row, name);
                fields.set(number, row, value);
            }
        });
    }

    /// Parses the rows. Calls `add` with each line that matches, to add the values that are not
    /// stored in a column in the same way by all callers.
    fn parse_rows(
        &mut self,
        input: &Input<'_>,
        fields: &mut Fields,
        mut add: impl FnMut(&mut LineReader<'_>, usize, &mut Fields),
    ) {
        let indices = NAMES.map(|name| fields.named(&name.into()));
        let mut names = Names::default();
        for (row, cell, text) in input.rows() {
            let mut reader = LineReader::new(text, cell);
            match self.read(&mut reader, input.read_ns) {
                Ok(()) => {
                    add(&mut reader, row, fields);
                    keep(&mut reader, &mut names, row, &indices, fields);
                    if let Some((reason, at)) = reader.flaw {
                        fields.flaw(row, reason, at);
                    }
                }
                Err(at) => fields.fail(row, MISMATCH, at),
            }
        }
    }

    /// Parses a line.
    fn read(&mut self, reader: &mut LineReader<'_>, read_ns: i64) -> Result<(), usize> {
        reader.priority();
        if reader.priority.is_some() {
            let begin = reader.at;
            if self.rfc5424(reader, read_ns).is_some() {
                return Ok(());
            }
            reader.reset(begin);
        }
        let is_timed = self.local_time(reader, read_ns) || self.cisco_header(reader, read_ns);
        if !is_timed && reader.priority.is_none() {
            return Err(reader.at);
        }
        reader.skip_spaces();
        reader.host_and_tag(is_timed);
        reader.message();
        Ok(())
    }

    /// Parses the text after the priority if it is in RFC 5424 format.
    fn rfc5424(&mut self, reader: &mut LineReader<'_>, read_ns: i64) -> Option<()> {
        let version = reader.word()?;
        let digits = &reader.text[version.0..version.1];
        let is_version = matches!(digits, [b'1'..=b'9', rest @ ..] if rest.len() < 3 && rest.iter().all(u8::is_ascii_digit));
        reader.found[VERSION] = is_version.then(|| reader.part(Kind::Int, version))?;
        match self.header_time(reader.rest(), read_ns)? {
            HeaderTime::Missing => reader.skip_word(1),
            HeaderTime::Valid(stamp) => {
                reader.time_ns = Some(stamp.ns);
                reader.skip_word(stamp.len);
            }
            HeaderTime::Invalid => {
                reader.flaw = Some((BAD_TIME, reader.at));
                reader.message();
                return Some(());
            }
        }
        let names = reader.header_names();
        // The message of an RFC 3164 line can also begin with a number and a dash.
        (names > 2 || reader.time_ns.is_some()).then(|| reader.message())
    }

    /// Parses the time in an RFC 5424 header. Returns `None` if the header has no time.
    fn header_time(&mut self, text: &[u8], read_ns: i64) -> Option<HeaderTime> {
        let is_end = |at: usize| matches!(text.get(at), None | Some(b' '));
        if text.first() == Some(&b'-') && is_end(1) {
            return Some(HeaderTime::Missing);
        }
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let times = match digits {
            4 if text.get(4) == Some(&b'-') => &mut self.iso,
            EPOCH_DIGITS_MIN.. => &mut self.epoch,
            _ => return None,
        };
        let stamp = times.parse(text, read_ns).ok().filter(|stamp| is_end(stamp.len));
        Some(stamp.map_or(HeaderTime::Invalid, HeaderTime::Valid))
    }

    /// Parses the time at the start of an RFC 3164 line, in the format of the RFC or in ISO 8601.
    /// Returns false if there is no time.
    fn local_time(&mut self, reader: &mut LineReader<'_>, read_ns: i64) -> bool {
        // Cisco devices mark the time if their clock is not synchronized, or precede it by a colon.
        let mark = reader.rest().iter().take_while(|byte| b"*. :".contains(byte)).count();
        let Some(stamp) = self.stamp(&reader.rest()[mark..], read_ns) else { return false };
        let begin = reader.at + mark;
        reader.time_ns = Some(stamp.ns);
        reader.at = begin + stamp.len;
        if let Some(len) = unknown_zone(reader.rest()) {
            (reader.time_ns, reader.flaw) = (None, Some((BAD_TIME, begin)));
            reader.at += len;
        }
        reader.at += usize::from(reader.rest().first() == Some(&b':'));
        true
    }

    /// Parses a local time at the start of `text`, including any year or zone after it. Returns
    /// `None` if there is no time.
    fn stamp(&mut self, text: &[u8], read_ns: i64) -> Option<Stamp> {
        for LocalTimes { plain, zoned } in &mut self.local {
            let Ok(stamp) = plain.parse(text, read_ns) else { continue };
            let longer = match text[stamp.len..] {
                [b' ', b'A'..=b'Z', b'A'..=b'Z', ..] => zoned.parse(text, read_ns).ok(),
                [b' ', b'1', b'9', ..] | [b' ', b'2', b'0', ..] => {
                    // If a colon follows, the number is a sequence number instead of a year.
                    let year = self.year_last.parse(text, read_ns).ok();
                    year.filter(|year| text.get(year.len) != Some(&b':'))
                }
                _ => None,
            };
            return longer.into_iter().chain([stamp]).find(|stamp| ends_word(text, stamp.len));
        }
        self.iso.parse(text, read_ns).ok().filter(|stamp| ends_word(text, stamp.len))
    }

    /// Parses the header that Cisco devices write before `%SYS-5-CONFIG_I`, such as
    /// `29: sw-1: *Mar  1 12:34:56:`. If the line has another form, returns false and changes
    /// nothing.
    fn cisco_header(&mut self, reader: &mut LineReader<'_>, read_ns: i64) -> bool {
        if reader.priority.is_none() {
            return false;
        }
        let begin = reader.at;
        let count = reader.label(is_number);
        let sequence = reader.label(is_number).or(count);
        let host = reader.label(|word| is_host(word) && !is_number(word) && word[0] != b'*');
        let task = reader.label(|word| word.len() > 1 && word[0] == b'*' && is_name(&word[1..]));
        let node = if host.is_none() { reader.node() } else { None };
        let is_timed = reader.at > begin && self.local_time(reader, read_ns);
        let is_message = |text: &[u8]| match node {
            None => text.starts_with(b": %"),
            Some(_) => text[1..].starts_with(b" : ") || text.starts_with(b": "),
        };
        if !is_timed || !is_message(&reader.text[reader.at - 1..]) {
            (reader.at, reader.time_ns, reader.flaw) = (begin, None, None);
            return false;
        }
        if reader.rest().starts_with(b" : ") {
            reader.at += 3;
        }
        if let Some((start, end)) = task {
            reader.found[PROC_ID] = reader.part(Kind::Text, (start + 1, end));
        }
        let host = host.or(node);
        if let Some((start, end)) = host {
            reader.found[HOSTNAME] = reader.part(Kind::Text, (start, end));
        }
        if let Some((start, end)) = sequence.filter(|(start, end)| start < end) {
            reader.data.extend_from_slice(b"{\"meta\":{\"sequenceId\":\"");
            reader.data.extend_from_slice(&reader.text[start..end]);
            reader.data.extend_from_slice(b"\"}}");
        }
        true
    }
}

/// Returns the length of a space and an abbreviation of a time zone, if a Cisco device has written
/// them between a time and the name of a message. The caller has parsed the known abbreviations.
fn unknown_zone(text: &[u8]) -> Option<usize> {
    let len = text.strip_prefix(b" ")?.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    let is_zone = (2..=ZONE_BYTES_MAX).contains(&len) && text[1 + len..].starts_with(b": %");
    is_zone.then_some(1 + len)
}

/// Returns whether a word is a facility and a severity, as in `Local7.Info`.
fn is_selector(word: &[u8]) -> bool {
    let is_in = |names: &[&str], part: &[u8]| {
        names.iter().any(|name| part.eq_ignore_ascii_case(name.as_bytes()))
    };
    let dot = word.iter().position(|byte| *byte == b'.');
    dot.is_some_and(|dot| {
        let severity = &word[dot + 1..];
        is_in(&FACILITIES, &word[..dot])
            && (is_in(&SEVERITIES, severity) || is_in(&SEVERITY_WORDS, severity))
    })
}

/// Returns whether a word, optionally followed by a colon, ends at `at`.
fn ends_word(text: &[u8], at: usize) -> bool {
    let behind = &text[at..];
    matches!(behind.strip_prefix(b":").unwrap_or(behind).first(), None | Some(b' '))
}

/// The time in an RFC 5424 header.
enum HeaderTime {
    /// The header has a dash instead of a time.
    Missing,
    Valid(Stamp),
    /// The text looks like a time, but is not valid.
    Invalid,
}

/// Returns whether the word can be the name of a host or program. A value that is certainly wrong
/// is worse than a missing value.
fn is_name(word: &[u8]) -> bool {
    !word.is_empty() && !word.iter().any(|byte| b"=\"'{}<>,;|".contains(byte))
}

/// Returns whether the word can be a host name that precedes a message without a tag.
fn is_host(word: &[u8]) -> bool {
    is_name(word) && !word.starts_with(b"[") && !word.ends_with(b":")
}

fn is_number(word: &[u8]) -> bool {
    word.iter().all(u8::is_ascii_digit)
}

impl<'a> LineReader<'a> {
    fn new(text: &'a [u8], cell: Cell) -> LineReader<'a> {
        let (found, data) = Default::default();
        LineReader { text, at: 0, cell, found, time_ns: None, data, priority: None, flaw: None }
    }

    fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    fn part(&self, kind: Kind, (start, end): Span) -> Cell {
        self.cell.part(kind, start, end - start)
    }

    /// Discards everything after the priority, and moves to `at`.
    fn reset(&mut self, at: usize) {
        (self.at, self.found, self.time_ns) = (at, Default::default(), None);
        (self.flaw, self.data) = Default::default();
    }

    fn skip_spaces(&mut self) {
        self.at += self.rest().iter().take_while(|byte| **byte == b' ').count();
    }

    /// Skips `len` bytes and the following space.
    fn skip_word(&mut self, len: usize) {
        self.at = (self.at + len + 1).min(self.text.len());
    }

    /// Returns the bytes up to the next space and skips both. Returns `None` if there are no such
    /// bytes or there is no space.
    fn word(&mut self) -> Option<Span> {
        let len = self.rest().iter().position(|byte| *byte == b' ').filter(|len| *len > 0)?;
        self.at += len + 1;
        Some((self.at - len - 1, self.at - 1))
    }

    /// Returns a word that `is_kind` accepts and that is followed by a colon and a space. Skips all
    /// three. Returns `None` and skips nothing if there is no such word.
    fn label(&mut self, is_kind: impl Fn(&[u8]) -> bool) -> Option<Span> {
        let len = self.rest().windows(2).position(|pair| pair == b": ")?;
        if !is_kind(&self.rest()[..len]) || self.rest()[..len].contains(&b' ') {
            return None;
        }
        self.at += len + 2;
        Some((self.at - len - 2, self.at - 2))
    }

    /// Returns the name of a node that precedes the time on Cisco IOS XR, as in
    /// `RP/0/RSP0/CPU0:Feb`. Skips the name and the colon.
    fn node(&mut self) -> Option<Span> {
        let len = self.rest().iter().position(|byte| matches!(byte, b' ' | b':'))?;
        let name = &self.rest()[..len];
        if self.rest()[len] != b':' || !is_host(name) || !name.contains(&b'/') {
            return None;
        }
        self.at += len + 1;
        Some((self.at - len - 1, self.at - 1))
    }

    /// Skips the name of the severity, which F5 devices write between host and tag.
    fn skip_severity_name(&mut self) {
        let Some(priority) = self.priority else { return };
        let name = SEVERITIES[usize::from(priority % 8)].as_bytes();
        let behind = self.rest().strip_prefix(name).and_then(|rest| rest.strip_prefix(b" "));
        if behind.is_some() {
            let begin = self.at;
            self.at += name.len() + 1;
            if self.tag().is_none() {
                self.at = begin;
            }
        }
    }

    /// Returns the number of bytes up to the next space or the end of the line.
    fn word_len(&self) -> usize {
        self.rest().iter().position(|byte| *byte == b' ').unwrap_or(self.rest().len())
    }

    /// Skips the name of the facility and the severity before a host name. Returns the length of
    /// the host name.
    fn host_len(&mut self) -> usize {
        let len = self.word_len();
        if !is_selector(&self.rest()[..len]) {
            return len;
        }
        self.at += len;
        self.skip_spaces();
        self.word_len()
    }

    /// Skips a host name that a relay has repeated before a tag.
    fn skip_repeated(&mut self, host: Span) {
        let (begin, name) = (self.at, &self.text[host.0..host.1]);
        if let Some([b' ', ..]) = self.rest().strip_prefix(name) {
            self.at += name.len();
            self.skip_spaces();
            if self.tag().is_none() {
                self.at = begin;
            }
        }
    }

    /// Returns the next words, which are separated by spaces. Words past the end are empty.
    fn words<const N: usize>(&self) -> [Span; N] {
        let mut at = self.at;
        std::array::from_fn(|_| {
            let start = at;
            let len = self.text[start..].iter().take_while(|byte| **byte != b' ').count();
            at = (start + len + 1).min(self.text.len());
            (start, start + len)
        })
    }

    /// Parses an RFC 5424 header, starting at the host name. Returns the number of names in the
    /// header.
    fn header_names(&mut self) -> usize {
        let words: [Span; 4] = self.words();
        let data_at = (words[3].1 + 1).min(self.text.len());
        let is_whole = words.iter().all(|(start, end)| start < end);
        let data_len = if is_whole { self.structured_data(data_at) } else { None };
        let is_invalid = is_whole && data_len.is_none() && self.text.get(data_at) == Some(&b'[');
        let names = match is_invalid || data_len.is_some() {
            true => words.len(),
            false => self.names_without_data(&words),
        };
        for (name, word) in HEADER_NAMES.into_iter().zip(words).take(names) {
            self.at = (word.1 + 1).min(self.text.len());
            if &self.text[word.0..word.1] != b"-" {
                self.found[name] = self.part(Kind::Text, word);
            }
        }
        if let Some(len) = data_len {
            self.skip_word(len);
        }
        if is_invalid {
            self.flaw = Some((BAD_STRUCTURED_DATA, data_at));
        }
        self.at += BOM.len() * usize::from(self.rest().starts_with(BOM));
        names
    }

    /// Parses structured data at `at`, which must be followed by a space or the end of the line.
    /// Returns the length of the data, or `None` if the data is missing or invalid.
    fn structured_data(&mut self, at: usize) -> Option<usize> {
        let text = &self.text[at..];
        let len = data::read(text, &mut self.data);
        let len = len.filter(|len| matches!(text.get(*len), None | Some(b' ')));
        if len.is_none() {
            self.data.clear();
        }
        len
    }

    /// Returns how many of these words are names in a header that lacks structured data. A process
    /// id distinguishes a header from a message that directly follows the host name.
    fn names_without_data(&self, words: &[Span; 4]) -> usize {
        let [host, app, process, message] = words.map(|(start, end)| &self.text[start..end]);
        let is_process = !process.is_empty() && (process == b"-" || is_number(process));
        let is_message_id = !message.is_empty()
            && message.iter().all(|byte| {
                byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"-_.".contains(byte)
            });
        match (is_host(host), is_process && is_name(app)) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 3 + usize::from(is_message_id),
        }
    }

    /// Parses `<PRI>`, if present.
    fn priority(&mut self) {
        self.at = if self.text.starts_with(BOM) { BOM.len() } else { 0 };
        let [b'<', rest @ ..] = self.rest() else { return };
        let len = rest.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
        let value = rest[..len].iter().fold(0, |value, digit| value * 10 + u16::from(digit - b'0'));
        if len == 0 || len > 3 || value > 191 || rest.get(len) != Some(&b'>') {
            return;
        }
        self.priority = Some(value as u8);
        self.at += len + 2;
    }

    /// Parses the host name and tag of an RFC 3164 line. A line without a time has no host name.
    fn host_and_tag(&mut self, is_timed: bool) {
        let may_have_host = is_timed && !self.found[HOSTNAME].is_present();
        if may_have_host && self.tag().is_none() {
            let len = self.host_len();
            let begin = self.at;
            if is_host(&self.rest()[..len]) {
                self.found[HOSTNAME] = self.part(Kind::Text, (begin, begin + len));
                self.at += len;
                self.skip_spaces();
                self.skip_repeated((begin, begin + len));
                // Cisco ASA writes `host : %ASA-6-302013: text`.
                self.at += 2 * usize::from(self.rest().starts_with(b": "));
                self.skip_severity_name();
            }
        }
        if self.rest().starts_with(SNARE) {
            self.found[APP_NAME] = self.part(Kind::Text, (self.at, self.at + SNARE.len() - 1));
            self.at += SNARE.len();
            return;
        }
        let Some((app_end, process, end)) = self.tag() else { return };
        self.found[APP_NAME] = self.part(Kind::Text, (self.at, app_end));
        if let Some(process) = process.filter(|(start, end)| end > start) {
            self.found[PROC_ID] = self.part(Kind::Text, process);
        }
        self.at = end;
        if self.rest().first() == Some(&b' ') {
            self.at += 1;
        }
    }

    /// Parses a tag in the form `tag[pid]:` or `tag:`. Returns the end of the name, the process id,
    /// and the end of the tag. Returns `None` if there is no tag.
    #[allow(clippy::type_complexity)]
    fn tag(&self) -> Option<(usize, Option<Span>, usize)> {
        let rest = self.rest();
        let len = rest
            .iter()
            .position(|byte| matches!(byte, b' ' | b'[' | b':'))
            .filter(|len| is_name(&rest[..*len]) && !is_number(&rest[..*len]))?;
        let app_end = self.at + len;
        if rest[len] != b'[' {
            // An IPv6 address also contains colons, but is not a tag.
            let is_tag = rest[len] == b':' && matches!(rest.get(len + 1), None | Some(b' '));
            return is_tag.then_some((app_end, None, app_end + 1));
        }
        let inside = &rest[len + 1..];
        let process = inside.iter().position(|byte| matches!(byte, b' ' | b']'))?;
        let behind = inside[process..].strip_prefix(b"]")?;
        let colon = usize::from(behind.first() == Some(&b':'));
        let start = app_end + 1;
        Some((app_end, Some((start, start + process)), start + process + 1 + colon))
    }

    fn message(&mut self) {
        if self.at < self.text.len() {
            self.found[MESSAGE] = self.part(Kind::Text, (self.at, self.text.len()));
        }
    }
}

/// The facility and severity names used so far. Each name is stored once for all rows.
#[derive(Default)]
struct Names {
    facilities: [Cell; 24],
    severities: [Cell; 8],
}

impl Names {
    fn cells(&mut self, priority: u8, fields: &mut Fields) -> [Cell; 2] {
        let (facility, severity) = (usize::from(priority / 8), usize::from(priority % 8));
        let mut known = |cell: &mut Cell, name: &str| {
            if !cell.is_present() {
                *cell = fields.push(Kind::Text, name.as_bytes());
            }
            *cell
        };
        let facility = known(&mut self.facilities[facility], FACILITIES[facility]);
        [facility, known(&mut self.severities[severity], SEVERITIES[severity])]
    }
}

/// The levels and severity numbers used so far. Each is stored once for all rows.
#[derive(Default)]
struct Levels([Option<[Cell; 2]>; 8]);

impl Levels {
    /// Returns the cells for the level and number of a severity of syslog.
    fn cells(&mut self, severity: u8, fields: &mut Fields) -> [Cell; 2] {
        let known = &mut self.0[usize::from(severity)];
        *known.get_or_insert_with(|| match Severity::of_syslog(severity) {
            None => [Cell::ABSENT; 2],
            Some(severity) => [
                fields.push(Kind::Text, severity.level().as_bytes()),
                fields.push(Kind::Int, severity.number().to_string().as_bytes()),
            ],
        })
    }
}

/// Stores the values of a line in the fields.
fn keep(
    reader: &mut LineReader<'_>,
    names: &mut Names,
    row: usize,
    indices: &[usize],
    fields: &mut Fields,
) {
    if let Some(priority) = reader.priority {
        let [facility, severity] = names.cells(priority, fields);
        (reader.found[FACILITY], reader.found[SEVERITY]) = (facility, severity);
    }
    if !reader.data.is_empty() {
        reader.found[STRUCTURED_DATA] = fields.push(Kind::Object, &reader.data);
    }
    for (index, cell) in indices.iter().zip(reader.found) {
        fields.set(*index, row, cell);
    }
}

impl Parser for Syslog {
    fn parse(&mut self, input: &Input<'_>, fields: &mut Fields) {
        let mut rendered = Vec::new();
        self.parse_rows(input, fields, |reader, _, fields| {
            if let Some(ns) = reader.time_ns {
                rendered.clear();
                push_rfc3339(&mut rendered, ns);
                reader.found[TIMESTAMP] = fields.push(Kind::Time, &rendered);
            }
        });
    }

    fn time_field(&self) -> Option<TimeField> {
        Some(TimeField { name: NAMES[TIMESTAMP].into(), format: "rfc3339".into() })
    }

    fn clone_boxed(&self) -> Box<dyn Parser> {
        Box::new(self.clone())
    }
}
