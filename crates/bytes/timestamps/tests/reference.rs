//! Checks that the compiled format, the caching parser, the reference implementation and chrono
//! agree.

mod simple;

use chrono::{DateTime, Datelike, TimeDelta, Utc};
use millstream_testkit_random::{TestSize, property};
use millstream_timestamps::{Fault, Format, Parser, Stamp, Zone, parse_utc_offset};
use proptest::prelude::*;
use std::sync::Arc;

/// Formats, and the equivalent formats in chrono.
const FORMATS: &[(&str, &str)] = &[
    ("%d/%b/%Y:%H:%M:%S %z", "%d/%b/%Y:%H:%M:%S +0000"),
    ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S"),
    ("%Y-%m-%d %H:%M:%S,%3f", "%Y-%m-%d %H:%M:%S,%3f"),
    ("%F %T.%f", "%F %T.%6f"),
    ("iso8601", "%FT%T%.9f+00:00"),
    ("iso8601", "%F %T%.3f"),
    ("iso8601", "%FT%TZ"),
    ("rfc3339", "%FT%T%.6fZ"),
    ("%FT%T%z", "%FT%T+00"),
    ("%b %e %H:%M:%S", "%b %e %H:%M:%S"),
    ("%a %b %d %T %Y", "%a %b %d %T %Y"),
    ("%A, %d %B %Y %H.%M", "%A, %d %B %Y %H.%M"),
    ("%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %I:%M:%S %p"),
    ("%p %l:%M %D", "%p %l:%M %D"),
    ("%D %p %-I", "%D %p %-I"),
    ("%Y %H:%M:%S %-m/%-d", "%Y %H:%M:%S %-m/%-d"),
    ("%D %R", "%D %R"),
    ("%-m/%-d/%Y %-H:%M:%S", "%-m/%-d/%Y %-H:%M:%S"),
    ("%Y/%j %k:%M:%S %Z", "%Y/%j %k:%M:%S UTC"),
    ("%S.%f %M %H %e.%m.%y 100%%", "%S.%3f %M %H %e.%m.%y 100%%"),
    ("epoch_s", "%s"),
    ("epoch_s", "%s%.3f"),
    ("epoch_ms", "%s%3f"),
    ("epoch_us", "%s%6f"),
    ("epoch_ns", "%s%9f"),
    ("[%s]", "[%s]"),
];

/// 2026-11-21 20:29:46.123.
const REFERENCE_NS: i64 = 1_795_292_986_123_000_000;

fn format(text: &str) -> Arc<Format> {
    Arc::new(Format::new(text, None).unwrap_or_else(|fault| panic!("{text}: {fault}")))
}

fn time(text: &str, line: &str) -> Result<i64, Fault> {
    format(text).parse(line.as_bytes(), REFERENCE_NS).map(|stamp| stamp.ns)
}

/// Parses every day from 1970 to 2100, at different times of day.
#[test]
fn every_day_matches_chrono() {
    for (ours, theirs) in FORMATS.iter().filter(|(ours, _)| *ours != "%b %e %H:%M:%S") {
        let mut parser = Parser::new(format(ours));
        for day in 0..=47_846_i64 {
            let of_day = TimeDelta::nanoseconds(day * 1_777_777_777_777 % 86_400_000_000_000);
            let time = DateTime::<Utc>::UNIX_EPOCH + TimeDelta::days(day) + of_day;
            // Two-digit years are unambiguous until 2068.
            if time.year() > 2068 && (ours.contains("%y") || ours.contains("%D")) {
                break;
            }
            let text = time.format(theirs).to_string();
            let stamp = parser.parse(text.as_bytes(), REFERENCE_NS);
            let exact = chrono_ns(&text, theirs, time);
            assert_eq!(stamp, Ok(Stamp { ns: exact, len: text.len() }), "{ours}: {text}");
        }
    }
}

/// Returns the nanoseconds of a time, truncated to the resolution of its format.
fn chrono_ns(text: &str, theirs: &str, time: DateTime<Utc>) -> i64 {
    let ns = time.timestamp_nanos_opt().unwrap();
    let unit = match () {
        () if theirs.contains("9f") => 1,
        () if theirs.contains("6f") => 1000,
        () if theirs.contains("3f") => 1_000_000,
        () if theirs.contains("%S") || theirs.contains("%T") || theirs.contains("%s") => {
            1_000_000_000
        }
        () if theirs.contains("%M") || theirs.contains("%R") => 60_000_000_000,
        () => 3_600_000_000_000,
    };
    assert!(!text.is_empty());
    ns - ns.rem_euclid(unit)
}

#[test]
fn a_missing_year_puts_a_time_at_most_one_day_ahead() {
    let day = 86_400_000_000_000;
    let at = |text: &str| time("iso8601", text).unwrap();
    let with = |text: &str, reference: &str| {
        let stamp = format("%b %e %T").parse(text.as_bytes(), at(reference)).map(|stamp| stamp.ns);
        let reference_result =
            simple::parse("%b %e %T", text.as_bytes(), 0, at(reference)).map(|(ns, _)| ns);
        assert_eq!(stamp.ok(), reference_result);
        stamp
    };
    assert_eq!(with("Nov 21 20:29:46", "2026-11-21T20:29:46"), Ok(at("2026-11-21T20:29:46")));
    assert_eq!(with("Nov 22 20:29:46", "2026-11-21T20:29:46"), Ok(at("2026-11-22T20:29:46")));
    assert_eq!(with("Nov 22 20:29:47", "2026-11-21T20:29:46"), Ok(at("2025-11-22T20:29:47")));
    assert_eq!(with("Dec 31 23:59:59", "2027-01-01T00:00:01"), Ok(at("2026-12-31T23:59:59")));
    assert_eq!(with("Jan  1 00:10:00", "2026-12-31T23:30:00"), Ok(at("2027-01-01T00:10:00")));
    assert_eq!(with("Jan  1 00:10:00", "2026-12-30T23:30:00"), Ok(at("2026-01-01T00:10:00")));
    assert_eq!(with("Feb 29 12:00:00", "2026-11-21T00:00:00"), Ok(at("2024-02-29T12:00:00")));
    assert_eq!(with("Feb 29 12:00:00", "2103-11-21T00:00:00"), Ok(at("2096-02-29T12:00:00")));
    assert_eq!(with("Feb 30 12:00:00", "2026-11-21T00:00:00"), Err(Fault::Date));
    // The boundary between two years is within this minute, and moves with the reference.
    let mut parser = Parser::new(format("%b %e %T"));
    for second in [46, 47, 0, 59, 30] {
        let text = format!("Nov 22 20:29:{second:02}");
        for reference in ["2026-11-21T20:29:46", "2026-11-21T20:29:20", "2026-11-20T20:29:46"] {
            let read = parser.parse(text.as_bytes(), at(reference)).map(|stamp| stamp.ns);
            assert_eq!(read, with(&text, reference), "{text} {reference}");
        }
    }
    assert!(format("%b %e %T").infers_year() && !format("iso8601").infers_year());
    assert!(at("2026-11-22T00:00:00") - at("2026-11-21T00:00:00") == day);
}

#[test]
fn zones_are_utc_offsets() {
    let base = time("iso8601", "2026-11-21T10:00:00Z").unwrap();
    let hours = 3_600_000_000_000;
    for (text, offset) in
        [("+02:00", 2 * hours), ("-0230", -5 * hours / 2), ("+02", 2 * hours), ("z", 0)]
    {
        assert_eq!(time("iso8601", &format!("2026-11-21T10:00:00{text}")), Ok(base - offset));
    }
    assert_eq!(time("iso8601", "2026-11-21 10:00:00 -0230"), Ok(base), "a space ends the time");
    assert_eq!(time("iso8601", "2026-11-21 10:00:00+2"), Err(Fault::Text(19)));
    assert_eq!(time("rfc3339", "2026-11-21T10:00:00"), Err(Fault::Text(19)));
    let berlin = Format::new("iso8601", parse_utc_offset("+01:00").map(Zone::fixed)).unwrap();
    let ns = |text: &str| berlin.parse(text.as_bytes(), 0).unwrap().ns;
    assert_eq!((ns("2026-11-21T10:00:00"), ns("2026-11-21T10:00:00Z")), (base - hours, base));
    let all = (parse_utc_offset("UTC"), parse_utc_offset("-00:30"), parse_utc_offset("+23:59"));
    assert_eq!(all, (Some(0), Some(-1800), Some(86_340)));
    for bad in
        ["", "CET", "+2", "+02", "+0200", "+24:00", "+02:60", "Z", "+02:00 ", "Europe/Berlin"]
    {
        assert_eq!(parse_utc_offset(bad), None, "{bad}");
    }
}

#[test]
fn invalid_dates_and_times_are_rejected() {
    let parsed = |text: &str| time("iso8601", text);
    for bad in ["2026-02-29", "2026-04-31", "2026-13-01", "2026-00-01", "2026-01-00", "2100-02-29"]
    {
        assert_eq!(parsed(&format!("{bad}T00:00:00")), Err(Fault::Date), "{bad}");
    }
    for bad in ["24:00:00", "10:60:00", "10:00:61"] {
        assert_eq!(parsed(&format!("2026-01-01T{bad}")), Err(Fault::Date), "{bad}");
    }
    assert_eq!(parsed("2016-12-31T23:59:60Z"), parsed("2017-01-01T00:00:00Z"));
    assert_eq!(
        (parsed("1677-12-31T00:00:00"), parsed("2262-01-01T00:00:00")),
        (Err(Fault::Range), Err(Fault::Range))
    );
    assert!(
        parsed("1678-01-01T00:00:00+23:59").is_ok()
            && parsed("2261-12-31T23:59:60.999999999-23:59").is_ok()
    );
    assert_eq!(
        (parsed(""), parsed("2026-1-01T00:00:00")),
        (Err(Fault::Text(0)), Err(Fault::Text(0)))
    );
    assert_eq!(time("%Y/%j %H", "2026/366 00"), Err(Fault::Date));
    assert_eq!(time("%Y/%j %H", "2024/366 00"), parsed("2024-12-31T00:00:00"));
    assert_eq!(time("%F %I %p", "2026-01-01 13 AM"), Err(Fault::Date));
    assert_eq!(time("%F %I %p", "2026-01-01 00 PM"), Err(Fault::Date));
    assert_eq!(time("epoch_ns", "9223372036854775807"), Ok(i64::MAX));
    assert_eq!(time("epoch_ns", "9223372036854775808"), Err(Fault::Text(0)));
    assert_eq!(time("epoch_ns", "99999999999999999999999"), Err(Fault::Text(0)));
    assert_eq!(time("epoch_s", "9223372036.999"), Err(Fault::Range));
}

#[test]
fn invalid_formats_are_rejected_with_advice() {
    let fault = |text: &str| Format::new(text, None).unwrap_err();
    let all = [
        ("", "not a time format; use"),
        ("yyyy-MM-dd", "not a time format; use"),
        ("%F %T %q", "`%q` is not a time specifier; the specifiers are"),
        ("%F %T %", "`%` is not a time specifier; the specifiers are"),
        ("%F %T %-S", "`%-` is not a time specifier; the specifiers are"),
        ("%H:%M", "contains no day; use"),
        ("%Y-%m %H", "contains no day; use"),
        ("%F", "contains no hour; add"),
        ("%j %H", "%j is the day of the year; combine it with %Y"),
        ("%F %j %H", "%j is the day of the year; combine it with %Y"),
        ("%F %I", "%I needs %p"),
        ("%F %H %p", "%I needs %p"),
        ("%F %T %H", "contains the hour twice; remove"),
        ("%F %T %f %.f", "contains the fraction twice; remove"),
        ("%F %T %z %Z", "contains the time zone twice; remove"),
        ("%F %b %T", "contains the month twice; remove"),
        ("%s %s", "contains the time since 1970 twice; remove"),
    ];
    for (text, expected) in all {
        assert!(fault(text).starts_with(expected), "{text}: {}", fault(text));
    }
    assert!(fault(&format!("%F %T{}", "x".repeat(200))).starts_with("longer than 128 bytes; use"));
    for includes_zone in ["%F %T %z", "rfc3339", "epoch_ms", "%F %T %Z"] {
        assert!(
            Format::new(includes_zone, Some(Zone::fixed(0)))
                .unwrap_err()
                .contains("remove timezone"),
            "{includes_zone}"
        );
    }
    assert!(
        Format::new("iso8601", Some(Zone::fixed(3600))).is_ok()
            && Format::new("%F é %T", None).is_ok()
    );
}

/// A mutation of a time's text.
#[derive(Clone, Debug)]
enum Mutation {
    None,
    Byte(usize, u8),
    Digit(usize, u8),
    Cut(usize),
    Insert(usize, u8),
    Append(String),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let byte =
        || prop_oneof![Just(b' '), Just(b'.'), Just(b':'), Just(b'+'), b'0'..=b'9', any::<u8>()];
    prop_oneof![
        3 => Just(Mutation::None),
        2 => (0..40usize, byte()).prop_map(|(at, byte)| Mutation::Byte(at, byte)),
        2 => (0..40usize, b'0'..=b'9').prop_map(|(at, byte)| Mutation::Digit(at, byte)),
        1 => (0..40usize).prop_map(Mutation::Cut),
        1 => (0..40usize, byte()).prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        3 => "[ .:+Z0-9x]{0,4}( [a-z ]{0,40})?".prop_map(Mutation::Append),
    ]
}

impl Mutation {
    fn of(&self, text: &str) -> Vec<u8> {
        let mut text = text.as_bytes().to_vec();
        let at = |at: &usize| at % (text.len() + 1);
        match self {
            Mutation::None => {}
            Mutation::Byte(index, byte) if at(index) < text.len() => {
                let index = at(index);
                text[index] = *byte;
            }
            Mutation::Digit(index, byte)
                if at(index) < text.len() && text[at(index)].is_ascii_digit() =>
            {
                let index = at(index);
                text[index] = *byte;
            }
            Mutation::Byte(..) | Mutation::Digit(..) => {}
            Mutation::Cut(index) => text.truncate(at(index)),
            Mutation::Insert(index, byte) => text.insert(at(index), *byte),
            Mutation::Append(more) => text.extend_from_slice(more.as_bytes()),
        }
        text
    }
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 4000, long: 100_000 };

proptest! {
    #![proptest_config(property(CASES))]

    /// Parses consecutive texts, most of which are in the same minute, and some of which are
    /// corrupted.
    #[test]
    fn the_parser_matches_its_format_and_the_reference(
        index in 0..FORMATS.len(),
        begin in 0..4_000_000_000_i64,
        lines in prop::collection::vec((0..120_000_i64, mutation(), -1..2_i64), 1..12),
        offset in prop_oneof![Just(0), Just(3600)],
    ) {
        let (ours, theirs) = FORMATS[index];
        let includes_zone = Format::new(ours, Some(Zone::fixed(0))).is_err();
        let offset = if includes_zone { 0 } else { offset };
        let format = Arc::new(Format::new(ours, (!includes_zone).then_some(Zone::fixed(offset))).unwrap());
        let mut parser = Parser::new(format.clone());
        for (ms, mutation, reference) in lines {
            let time = DateTime::<Utc>::UNIX_EPOCH + TimeDelta::seconds(begin) + TimeDelta::milliseconds(ms);
            // Times without a year are close to the limit of one day in the future.
            let reference = (begin + reference * 30 - 86_400) * 1_000_000_000;
            let text = mutation.of(&time.format(theirs).to_string());
            let plain = format.parse(&text, reference);
            let reference_result = simple::parse(ours, &text, i64::from(offset), reference);
            prop_assert_eq!(plain.ok().map(|stamp| (stamp.ns, stamp.len)), reference_result, "{} {:?}", ours, String::from_utf8_lossy(&text));
            prop_assert_eq!(parser.parse(&text, reference), plain, "{} {:?}", ours, String::from_utf8_lossy(&text));
        }
    }

    /// Parses random bytes.
    #[test]
    fn random_bytes_cause_no_panic(
        index in 0..FORMATS.len(),
        texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..4),
        reference in any::<i64>(),
    ) {
        let format = format(FORMATS[index].0);
        let mut parser = Parser::new(format.clone());
        for text in texts {
            prop_assert_eq!(parser.parse(&text, reference), format.parse(&text, reference));
        }
    }

    /// Compiles random formats.
    #[test]
    fn random_formats_cause_no_panic(text in "(%[-.0-9a-zA-Z%]{1,2}|[ -~é]){0,12}") {
        if let Ok(format) = Format::new(&text, None) {
            let _ = format.parse(b"2026-11-21 10:00:00", 0);
        }
    }
}
