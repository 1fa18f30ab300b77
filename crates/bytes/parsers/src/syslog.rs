//! Syslog: RFC 5424, RFC 3164, and what daemons make of the latter.

mod data;
#[cfg(test)]
mod tests;

use crate::{Fields, Input, Parser, Reason, TimeField};
use millstream_columns::{Cell, Kind};
use millstream_timestamps::{Format, Parser as Times, Zone, push_rfc3339};
use std::sync::Arc;

const MISMATCH: Reason = "not_syslog";

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

/// Times of RFC 3164, and those with a year that some devices write.
const LOCAL_TIMES: [&str; 2] = ["%b %e %H:%M:%S%.f", "%b %e %Y %H:%M:%S%.f"];

/// How lines are read.
#[derive(Clone, Debug, Default)]
pub struct SyslogConfig {
    /// The zone of times that do not say theirs. UTC where nothing is said.
    pub zone: Option<Zone>,
}

/// Takes syslog lines apart; which RFC a line follows is found line by line.
///
/// | field | RFC 5424 | RFC 3164 |
/// |---|---|---|
/// | `facility`, `severity` | names, such as `daemon` and `warning` | the same if there is `<PRI>` |
/// | `version` | a whole number | |
/// | `timestamp` | a time in UTC | the same; its year is found from when the line was read |
/// | `hostname` | text | text; none where the tag follows the time |
/// | `app_name`, `proc_id` | text | those of `tag[pid]:` |
/// | `msg_id` | text | |
/// | `structured_data` | an object with an object per element | |
/// | `message` | the rest | the rest |
///
/// A line without `<PRI>` must begin with a time. `-` in RFC 5424 is no value.
#[derive(Clone, Debug)]
pub struct Syslog {
    iso: Times,
    local: [Times; 2],
}

/// Where the values are.
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

/// A line that is read: what is found is kept aside until it is sure that it fits.
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    cell: Cell,
    found: [Cell; NAMES.len()],
    time_ns: Option<i64>,
    data: Vec<u8>,
    priority: Option<u8>,
}

impl Syslog {
    /// A parser of syslog lines.
    ///
    /// # Errors
    /// What is wrong; what to write instead.
    pub fn new(config: &SyslogConfig) -> Result<Syslog, String> {
        let times = |format: &str, offset| {
            Ok::<_, String>(Times::new(Arc::new(Format::new(format, offset)?)))
        };
        let local = |format: &str| times(format, config.zone.clone());
        let [first, second] = LOCAL_TIMES.map(local);
        Ok(Syslog { iso: times("iso8601", config.zone.clone())?, local: [first?, second?] })
    }

    /// Reads a line.
    fn read(&mut self, reader: &mut Reader<'_>, read_ns: i64) -> Result<(), usize> {
        reader.priority();
        if reader.priority.is_some() {
            let begin = reader.at;
            if self.rfc5424(reader, read_ns).is_some() {
                return Ok(());
            }
            reader.back(begin);
        }
        let is_timed = self.local_time(reader, read_ns);
        if !is_timed && reader.priority.is_none() {
            return Err(reader.at);
        }
        reader.skip_spaces();
        reader.origin(is_timed);
        reader.message();
        Ok(())
    }

    /// What follows the priority, if it has the form of RFC 5424.
    fn rfc5424(&mut self, reader: &mut Reader<'_>, read_ns: i64) -> Option<()> {
        let version = reader.word()?;
        let digits = &reader.text[version.0..version.1];
        let is_version = matches!(digits, [b'1'..=b'9', rest @ ..] if rest.len() < 3 && rest.iter().all(u8::is_ascii_digit));
        reader.found[VERSION] = is_version.then(|| reader.part(Kind::Int, version))?;
        let time = reader.word()?;
        let text = &reader.text[time.0..time.1];
        if text != b"-" {
            let stamp =
                self.iso.parse(text, read_ns).ok().filter(|stamp| stamp.len == text.len())?;
            reader.time_ns = Some(stamp.ns);
        }
        for name in [HOSTNAME, APP_NAME, PROC_ID, MSG_ID] {
            let value = reader.word()?;
            if &reader.text[value.0..value.1] != b"-" {
                reader.found[name] = reader.part(Kind::Text, value);
            }
        }
        reader.at += data::read(&reader.text[reader.at..], &mut reader.data)?;
        let rest = &reader.text[reader.at..];
        let rest = if rest.is_empty() { rest } else { rest.strip_prefix(b" ")? };
        reader.at = reader.text.len() - rest.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(rest).len();
        reader.message();
        Some(())
    }

    /// Reads a time at the beginning of RFC 3164, as it stands there or as ISO 8601; false if there
    /// is none.
    fn local_time(&mut self, reader: &mut Reader<'_>, read_ns: i64) -> bool {
        // Cisco marks clocks that are not synchronised.
        let mark = reader.rest().iter().take_while(|byte| b"*. ".contains(byte)).count();
        let text = &reader.rest()[mark..];
        let all = self.local.iter_mut().chain([&mut self.iso]);
        let Some(stamp) = all.filter_map(|times| times.parse(text, read_ns).ok()).next() else {
            return false;
        };
        let behind = &text[stamp.len..];
        let colon = usize::from(behind.first() == Some(&b':'));
        if !matches!(behind.get(colon), None | Some(b' ')) {
            return false;
        }
        reader.time_ns = Some(stamp.ns);
        reader.at += mark + stamp.len + colon;
        true
    }
}

impl<'a> Reader<'a> {
    fn new(text: &'a [u8], cell: Cell) -> Reader<'a> {
        let (found, data) = Default::default();
        Reader { text, at: 0, cell, found, time_ns: None, data, priority: None }
    }

    fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    fn part(&self, kind: Kind, (start, end): (usize, usize)) -> Cell {
        self.cell.part(kind, start, end - start)
    }

    /// Forgets what was found behind the priority.
    fn back(&mut self, at: usize) {
        (self.at, self.found, self.time_ns) = (at, Default::default(), None);
        self.data.clear();
    }

    fn skip_spaces(&mut self) {
        self.at += self.rest().iter().take_while(|byte| **byte == b' ').count();
    }

    /// The bytes up to the next space, which there must be; it is passed.
    fn word(&mut self) -> Option<(usize, usize)> {
        let len = self.rest().iter().position(|byte| *byte == b' ').filter(|len| *len > 0)?;
        self.at += len + 1;
        Some((self.at - len - 1, self.at - 1))
    }

    /// Reads `<PRI>`, if it is there.
    fn priority(&mut self) {
        let [b'<', rest @ ..] = self.text else { return };
        let len = rest.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
        let value = rest[..len].iter().fold(0, |value, digit| value * 10 + u16::from(digit - b'0'));
        if len == 0 || len > 3 || value > 191 || rest.get(len) != Some(&b'>') {
            return;
        }
        (self.priority, self.at) = (Some(value as u8), len + 2);
    }

    /// Host name and tag of RFC 3164. Where there is no time, there is no host name.
    fn origin(&mut self, is_timed: bool) {
        if is_timed && self.tag().is_none() {
            let begin = self.at;
            let len =
                self.rest().iter().position(|byte| *byte == b' ').unwrap_or(self.rest().len());
            if len > 0 {
                self.found[HOSTNAME] = self.part(Kind::Text, (begin, begin + len));
                self.at += len;
                self.skip_spaces();
            }
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

    /// A tag as `tag[pid]:` or `tag:`: where its name ends, its process, where it ends.
    #[allow(clippy::type_complexity)]
    fn tag(&self) -> Option<(usize, Option<(usize, usize)>, usize)> {
        let rest = self.rest();
        let len = rest
            .iter()
            .position(|byte| matches!(byte, b' ' | b'[' | b':'))
            .filter(|len| *len > 0)?;
        let app_end = self.at + len;
        if rest[len] != b'[' {
            // An IPv6 address has colons too, and is no tag.
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

/// The names that were needed so far: each is kept once for all rows.
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

/// Puts what was found in a line into its fields.
fn keep(
    reader: &mut Reader<'_>,
    names: &mut Names,
    row: usize,
    indices: &[usize],
    fields: &mut Fields,
) {
    if let Some(priority) = reader.priority {
        let [facility, severity] = names.cells(priority, fields);
        (reader.found[FACILITY], reader.found[SEVERITY]) = (facility, severity);
    }
    if let Some(ns) = reader.time_ns {
        let mut rendered = Vec::new();
        push_rfc3339(&mut rendered, ns);
        reader.found[TIMESTAMP] = fields.push(Kind::Time, &rendered);
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
        let indices = NAMES.map(|name| fields.named(&name.into()));
        let mut names = Names::default();
        for (row, cell, text) in input.rows() {
            let mut reader = Reader::new(text, cell);
            match self.read(&mut reader, input.read_ns) {
                Ok(()) => keep(&mut reader, &mut names, row, &indices, fields),
                Err(at) => fields.fail(row, MISMATCH, at),
            }
        }
    }

    fn time_field(&self) -> Option<TimeField> {
        Some(TimeField { name: NAMES[TIMESTAMP].into(), format: "rfc3339".into() })
    }

    fn again(&self) -> Box<dyn Parser> {
        Box::new(self.clone())
    }
}
