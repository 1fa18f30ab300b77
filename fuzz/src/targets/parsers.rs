//! Lines of syslog and of container runtimes.

use crate::lines::{lines, lossy, take};
use millstream_parsers::{Cri, Syslog, SyslogConfig};
use millstream_timestamps::Zone;

pub const CONTAINER_WORDS: &[&[u8]] = &[
    b"2026-11-21T20:29:46.123456789Z",
    b"2026-11-21T20:29:46+01:00",
    b" stdout ",
    b" stderr ",
    b" F ",
    b" P ",
    b"F:x",
    b" ",
    b"P",
    b"F",
    b"\n",
    b"\r",
    b"Z",
    b":",
    b"60",
    b"99",
    b"\xFF",
];
pub const SYSLOG_WORDS: &[&[u8]] = &[
    b"<34>",
    b"<0>",
    b"<191>",
    b"<192>",
    b"<",
    b">1 ",
    b"- ",
    b"2026-11-21T20:29:46.123456Z ",
    b"Nov 21 20:29:46 ",
    b"Feb 29 23:59:60 ",
    b"Nov  1 2026 00:00:00.5: ",
    b"[a@1 b=\"c\"]",
    b"[",
    b"]",
    b"\\]",
    b"\\\"",
    b"=\"",
    b"\"]",
    b"su[12]: ",
    b"su: ",
    b"host ",
    b"\xEF\xBB\xBF",
    b" ",
    b"*",
    b"%",
    b":",
    b"\n",
    b"\xFF",
    b"-",
];

/// Checks that the fields of a line, joined again, equal the line.
pub fn cri(input: &[u8]) {
    let lines = lines(input);
    let mut parser = Cri::new().expect("nothing to configure");
    for (line, row) in lines.iter().zip(take(&mut parser, &lines)) {
        let Ok(fields) = row else { continue };
        let parts =
            ["timestamp", "log.iostream", "flags", "message"].map(|name| &fields[name].1[..]);
        let whole = parts.join(&b' ');
        let is_same = whole == *line || whole.strip_suffix(b" ") == Some(line);
        assert!(is_same, "{} became {}", lossy(line), lossy(&whole));
    }
}

/// Checks that a message is the end of its line, and that a line has the same fields in every zone.
pub fn syslog(input: &[u8]) {
    let lines = lines(input);
    let [rows, others] = [None, Some(Zone::fixed(-3600))].map(|zone| {
        let mut parser = Syslog::new(&SyslogConfig { zone }).expect("formats that are known");
        take(&mut parser, &lines)
    });
    for ((line, row), other) in lines.iter().zip(&rows).zip(&others) {
        assert_eq!(row.is_ok(), other.is_ok(), "in another zone: {}", lossy(line));
        let (Ok(fields), Ok(other)) = (row, other) else { continue };
        assert!(fields.keys().eq(other.keys()), "in another zone: {}", lossy(line));
        if let Some((_, message)) = fields.get("message") {
            assert!(line.ends_with(message), "{}", lossy(line));
        }
        assert_eq!(fields.contains_key("facility"), line.starts_with(b"<"), "{}", lossy(line));
    }
}
