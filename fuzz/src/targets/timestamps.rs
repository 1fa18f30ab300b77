//! Times of lines. The first line of an input is a format.

use crate::lines::{head_and_lines, lines, lossy};
use millstream_timestamps::{Format, Parser, Period, Stamp, Zone, push_rfc3339};
use std::sync::{Arc, LazyLock};

pub const WORDS: &[&[u8]] = &[
    b"%Y",
    b"%y",
    b"%m",
    b"%d",
    b"%e",
    b"%j",
    b"%b",
    b"%B",
    b"%a",
    b"%H",
    b"%I",
    b"%p",
    b"%M",
    b"%S",
    b"%f",
    b"%3f",
    b"%.f",
    b"%z",
    b"%Z",
    b"%s",
    b"%F",
    b"%T",
    b"%D",
    b"%%",
    b"iso8601",
    b"epoch_ms",
    b"2026-11-21T20:29:46.123456789Z",
    b"21/Nov/2026:20:29:46 +0000",
    b"Feb 29 23:59:60",
    b"2000-02-29",
    b"1677-09-21",
    b"2262-04-11",
    b"-0530",
    b"+02:00",
    b"CEST",
    b"Z",
    b"9223372036854775807",
    b"-1",
    b"0.5",
    b"12",
    b"AM",
    b"PM",
    b"\n",
    b" ",
    b"\xFF",
    b"December",
    b"60",
];

/// Formats that are tried with every input.
const FORMATS: [&str; 9] = [
    "iso8601",
    "rfc3339",
    "epoch_s",
    "epoch_ns",
    "%d/%b/%Y:%H:%M:%S %z",
    "%b %e %H:%M:%S%.f",
    "%Y-%j %I:%M %p",
    "%a %b %d %T %Z %Y",
    "%D %R",
];

/// Reference times for times without a year, which are at most a day later: in 2026, on a February
/// 29, and in 1970.
const REFERENCES_NS: [i64; 3] = [1_772_323_200_000_000_000, 1_709_164_800_000_000_000, 0];

static KNOWN: LazyLock<Vec<Arc<Format>>> = LazyLock::new(|| {
    FORMATS.iter().map(|text| Arc::new(Format::new(text, None).expect("sound"))).collect()
});

/// Checks that a caching parser returns the same as the format, and that a parsed time can be
/// written and parsed again.
pub fn timestamps(input: &[u8]) {
    let all = lines(input);
    KNOWN.iter().for_each(|format| read_all(format, &all));
    let (format, rest) = head_and_lines(input);
    let Ok(text) = std::str::from_utf8(format) else { return };
    let place = Zone::from_periods([
        Period { begin_seconds: 0, offset_seconds: 3600, name: "CET" },
        Period { begin_seconds: 1_774_746_000, offset_seconds: 7200, name: "CEST" },
        Period { begin_seconds: 1_792_890_000, offset_seconds: 3600, name: "CET" },
    ]);
    for zone in [None, Some(Zone::fixed(-1800)), Some(place)] {
        match Format::new(text, zone) {
            Ok(format) => read_all(&Arc::new(format), &rest),
            Err(message) => assert!(!message.is_empty(), "{text} is refused without a word"),
        }
    }
}

fn read_all(format: &Arc<Format>, lines: &[&[u8]]) {
    let mut parser = Parser::new(format.clone());
    for reference_ns in REFERENCES_NS {
        for line in lines {
            let found = format.parse(line, reference_ns);
            assert_eq!(parser.parse(line, reference_ns), found, "{format:?}: {}", lossy(line));
            found.into_iter().for_each(|stamp| is_sound(format, line, stamp, reference_ns));
        }
    }
}

fn is_sound(format: &Format, line: &[u8], stamp: Stamp, reference_ns: i64) {
    assert!(stamp.len <= line.len(), "{stamp:?} is longer than {}", lossy(line));
    let alone = format.parse(&line[..stamp.len], reference_ns);
    assert_eq!(alone, Ok(stamp), "without what follows: {}", lossy(line));
    let mut written = Vec::new();
    push_rfc3339(&mut written, stamp.ns);
    // Years at the limits of 64 bits are not parsed.
    if (&b"1678"[..]..&b"2262"[..]).contains(&&written[..]) {
        let again = KNOWN[1].parse(&written, reference_ns).expect("the written time can be read");
        let expected_ns = stamp.ns - stamp.ns.rem_euclid(1_000_000);
        assert_eq!((again.ns, again.len), (expected_ns, written.len()), "{}", lossy(line));
    }
}
