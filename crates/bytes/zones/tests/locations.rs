//! Compares local times in zones with known transitions and with jiff.

use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use millstream_testkit_random::{TestSize, property};
use millstream_timestamps::{Fault, Format, Parser};
use millstream_zones::zone;
use proptest::prelude::*;
use std::collections::HashMap;
use std::process::Command;
use std::sync::{Arc, LazyLock};

fn format(text: &str, location: &str) -> Arc<Format> {
    Arc::new(Format::new(text, Some(zone(location).unwrap())).unwrap())
}

/// Returns a UTC time in nanoseconds since 1970.
fn utc(text: &str) -> i64 {
    Format::new("%F %T", None).unwrap().parse(text.as_bytes(), 0).unwrap().ns
}

/// Asserts that local times map to UTC times, using one parser for all of them.
fn check(location: &str, cases: &[(&str, &str)]) {
    let format = format("%F %T", location);
    let mut parser = Parser::new(format.clone());
    for (local, expected) in cases {
        let stamp = parser.parse(local.as_bytes(), 0);
        assert_eq!(stamp, format.parse(local.as_bytes(), 0), "{location} {local}");
        assert_eq!(stamp.unwrap().ns, utc(expected), "{location} {local}");
    }
}

#[test]
fn daylight_saving_time_in_berlin_starts_and_ends() {
    check(
        "Europe/Berlin",
        &[
            ("2026-03-29 01:59:59", "2026-03-29 00:59:59"),
            ("2026-03-29 01:59:60", "2026-03-29 01:00:00"),
            // This hour does not exist, so the previous offset applies.
            ("2026-03-29 02:00:00", "2026-03-29 01:00:00"),
            ("2026-03-29 02:30:00", "2026-03-29 01:30:00"),
            ("2026-03-29 02:59:59", "2026-03-29 01:59:59"),
            ("2026-03-29 03:00:00", "2026-03-29 01:00:00"),
            ("2026-10-25 01:59:59", "2026-10-24 23:59:59"),
            // This hour occurs twice, and the first occurrence is used.
            ("2026-10-25 02:00:00", "2026-10-25 00:00:00"),
            ("2026-10-25 02:59:59", "2026-10-25 00:59:59"),
            ("2026-10-25 02:59:60", "2026-10-25 01:00:00"),
            ("2026-10-25 03:00:00", "2026-10-25 02:00:00"),
            // The rule continues to apply.
            ("2200-07-01 12:00:00", "2200-07-01 10:00:00"),
            ("2261-12-31 12:00:00", "2261-12-31 11:00:00"),
            ("1700-01-01 12:00:00", "1700-01-01 11:06:32"),
        ],
    );
}

#[test]
fn other_zones_have_other_transitions_or_none() {
    check(
        "America/New_York",
        &[
            ("2026-03-08 01:59:59", "2026-03-08 06:59:59"),
            ("2026-03-08 02:30:00", "2026-03-08 07:30:00"),
            ("2026-03-08 03:00:00", "2026-03-08 07:00:00"),
            ("2026-11-01 01:59:59", "2026-11-01 05:59:59"),
            ("2026-11-01 02:00:00", "2026-11-01 07:00:00"),
        ],
    );
    check("Asia/Kolkata", &[("2026-07-01 05:30:00", "2026-07-01 00:00:00")]);
    // A zone in the southern hemisphere, whose transitions are half an hour.
    check(
        "Australia/Lord_Howe",
        &[
            ("2026-04-05 01:29:59", "2026-04-04 14:29:59"),
            ("2026-04-05 01:30:00", "2026-04-04 14:30:00"),
            ("2026-04-05 02:00:00", "2026-04-04 15:30:00"),
            ("2026-10-04 02:15:00", "2026-10-03 15:45:00"),
            ("2026-10-04 02:30:00", "2026-10-03 15:30:00"),
        ],
    );
    check("America/Santiago", &[("2026-01-15 12:00:00", "2026-01-15 15:00:00")]);
    // A whole day was skipped.
    check(
        "Pacific/Apia",
        &[
            ("2011-12-29 23:00:00", "2011-12-30 09:00:00"),
            ("2011-12-31 00:00:00", "2011-12-30 10:00:00"),
        ],
    );
    for same in ["UTC", "+00:00", "Etc/UTC"] {
        check(same, &[("2026-07-01 00:00:00", "2026-07-01 00:00:00")]);
    }
}

#[test]
fn an_abbreviation_selects_one_of_two_ambiguous_times() {
    let format = format("%F %T %Z", "Europe/Berlin");
    let mut parser = Parser::new(format.clone());
    for (text, expected) in [
        ("2026-10-25 02:30:00 CEST", "2026-10-25 00:30:00"),
        ("2026-10-25 02:30:01 CEST", "2026-10-25 00:30:01"),
        ("2026-10-25 02:30:01 CET", "2026-10-25 01:30:01"),
        ("2026-10-25 02:30:02 CET,", "2026-10-25 01:30:02"),
        ("2026-07-01 12:00:00 CEST] x", "2026-07-01 10:00:00"),
        ("2026-07-01 12:00:00 CET", "2026-07-01 11:00:00"),
        ("2026-01-01 12:00:00 CEST", "2026-01-01 10:00:00"),
        ("2026-01-01 12:00:00 UTC", "2026-01-01 12:00:00"),
        ("2026-07-01 12:00:00 GMT", "2026-07-01 12:00:00"),
    ] {
        let stamp = parser.parse(text.as_bytes(), 0);
        assert_eq!(stamp, format.parse(text.as_bytes(), 0), "{text}");
        assert_eq!(stamp.unwrap().ns, utc(expected), "{text}");
    }
    for (text, expected) in [
        ("2026-07-01 12:00:00 EST", Fault::Zone),
        ("2026-07-01 12:00:00 CESTA", Fault::Zone),
        ("2026-07-01 12:00:00 ", Fault::Text(20)),
        ("2026-07-01 12:00:00 Mitteleu", Fault::Zone),
        ("2026-07-01 12:00:00 Mitteleur", Fault::Text(20)),
    ] {
        assert_eq!(parser.parse(text.as_bytes(), 0), Err(expected), "{text}");
    }
}

#[test]
fn an_offset_in_the_text_overrides_the_zone() {
    let format = format("iso8601", "Asia/Kolkata");
    let ns = |text: &str| format.parse(text.as_bytes(), 0).unwrap().ns;
    assert_eq!(ns("2026-07-01T12:00:00Z"), utc("2026-07-01 12:00:00"));
    assert_eq!(ns("2026-07-01T12:00:00"), utc("2026-07-01 06:30:00"));
    let own = Format::new("%F %T %z", Some(zone("Asia/Kolkata").unwrap()));
    assert!(own.unwrap_err().contains("remove timezone"));
    let fixed = Format::new("%F %T %Z", Some(zone("+02:00").unwrap()));
    assert!(fixed.unwrap_err().contains("remove timezone"));
}

/// The year is inferred with the offset that the zone uses in that year.
#[test]
fn a_missing_year_is_inferred_in_the_zone() {
    let format = format("%b %e %T", "Pacific/Auckland");
    let mut parser = Parser::new(format.clone());
    for (reference, text, expected) in [
        ("2026-11-21 12:00:00", "Nov 23 00:59:59", "2026-11-22 11:59:59"),
        ("2026-11-21 12:00:00", "Nov 23 01:00:00", "2026-11-22 12:00:00"),
        ("2026-11-21 12:00:00", "Nov 23 01:00:01", "2025-11-22 12:00:01"),
        ("2026-11-21 12:00:00", "Jul  1 12:00:00", "2026-07-01 00:00:00"),
    ] {
        let stamp = parser.parse(text.as_bytes(), utc(reference));
        assert_eq!(stamp, format.parse(text.as_bytes(), utc(reference)), "{text}");
        assert_eq!(stamp.unwrap().ns, utc(expected), "{text}");
    }
}

#[test]
fn unknown_names_have_suggestions() {
    for (name, advice) in [
        ("Europe/Berln", "did you mean Europe/Berlin? Or use"),
        ("Berlin", "did you mean Europe/Berlin? Or use"),
        ("CEST", "use, for example, Europe/Berlin, +02:00"),
        ("pdt", "use, for example, America/Los_Angeles, +02:00"),
        ("America/New York", "did you mean America/New_York? Or use"),
        ("", "use, for example, Europe/Berlin, +02:00, UTC or local"),
        ("Etc/Unknown", "+02:00"),
        ("+2", "+02:00"),
        ("../../etc/passwd", "use, for example"),
    ] {
        let message = zone(name).unwrap_err();
        assert!(
            message.contains("is not a known time zone") && message.contains(advice),
            "{message}"
        );
    }
}

/// Returns the nanoseconds of noon on a summer day in a zone, or the error. Runs in a process with
/// this environment variable, because jiff reads its variables only once.
fn noon(location: &str, variable: &str, value: &str) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "the_host_configures_its_zone_and_its_database", "--nocapture"]);
    let output = child.env("TEST_ZONE", location).env(variable, value).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| Some(line.split_once("noon: ")?.1.to_owned())).unwrap_or(text)
}

#[test]
fn the_host_configures_its_zone_and_its_database() {
    if let Ok(location) = std::env::var("TEST_ZONE") {
        let read = |zone| {
            Format::new("%F %T", Some(zone)).unwrap().parse(b"2026-07-01 12:00:00", 0).unwrap().ns
        };
        return println!(
            "noon: {}",
            zone(&location).map_or_else(|message| message, |zone| read(zone).to_string())
        );
    }
    assert_eq!(noon("local", "TZ", "Asia/Kolkata"), utc("2026-07-01 06:30:00").to_string());
    assert_eq!(noon("local", "TZ", ":Europe/Berlin"), utc("2026-07-01 10:00:00").to_string());
    assert_eq!(noon("local", "TZ", "XYZ-3"), utc("2026-07-01 09:00:00").to_string());
    assert!(
        noon("local", "TZ", "Nowhere/Land")
            .contains("TZ, which has the invalid value \"Nowhere/Land\"; set it to")
    );
    // A database with one zone, two hours east of UTC. It takes precedence, and the bundled
    // database contains the other zones.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Japan"), ONE_OFFSET).unwrap();
    let path = folder.path().to_str().unwrap();
    assert_eq!(noon("Japan", "TZDIR", path), utc("2026-07-01 10:00:00").to_string());
    assert_eq!(noon("Asia/Kolkata", "TZDIR", path), utc("2026-07-01 06:30:00").to_string());
}

/// A TZif file with one offset, 7200 seconds, which is named `ABC`. The header contains six counts,
/// followed by one offset and four bytes of names.
const ONE_OFFSET: &[u8] = b"TZif\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    \0\0\0\x01\0\0\0\x04\0\0\x1C\x20\0\0ABC\0";

/// Returns a local time in nanoseconds since 1970, according to jiff.
fn jiff_ns(zone: &TimeZone, local: DateTime) -> i64 {
    let stamp = zone.to_ambiguous_timestamp(local).compatible().unwrap();
    i64::try_from(stamp.as_nanosecond()).unwrap()
}

/// Checks every zone around each of its transitions: before, within and after the transition.
#[test]
fn every_zone_agrees_with_jiff_around_its_transitions() {
    let bundled = TimeZoneDatabase::bundled();
    for name in bundled.available() {
        let zone = TimeZone::get(name.as_str()).or_else(|_| bundled.get(name.as_str())).unwrap();
        let format = format("%F %T", name.as_str());
        let begin = "1700-01-01T00:00Z".parse().unwrap();
        let transitions = zone
            .following(begin)
            .take_while(|transition| transition.timestamp().as_second() < 7_000_000_000);
        for transition in transitions {
            for minutes in
                [-1500, -121, -61, -60, -59, -31, -30, -1, 0, 1, 29, 30, 59, 60, 61, 119, 1500]
            {
                let minute = transition.timestamp().as_second().div_euclid(60) + minutes;
                let utc = jiff::Timestamp::from_second(minute * 60).unwrap();
                // The last second of a local minute, because a transition within a minute counts
                // from the start of the minute.
                let local = transition.offset().to_datetime(utc).with().second(59).build().unwrap();
                let text = local.strftime("%F %T").to_string();
                let ns = format.parse(text.as_bytes(), 0).unwrap().ns;
                assert_eq!(ns, jiff_ns(&zone, local), "{name} {text}");
            }
        }
    }
}

const LOCATIONS: [&str; 8] = [
    "Europe/Berlin",
    "Europe/London",
    "America/New_York",
    "America/Sao_Paulo",
    "Asia/Kolkata",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
];

static FORMATS: LazyLock<HashMap<&str, (TimeZone, Arc<Format>)>> = LazyLock::new(|| {
    let read =
        |location| (location, (TimeZone::get(location).unwrap(), format("%F %T%.f", location)));
    LOCATIONS.into_iter().map(read).collect()
});

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 4000, long: 100_000 };

proptest! {
    #![proptest_config(property(CASES))]

    /// Parses consecutive lines starting in 1973. Since then, no zone has had a transition within a
    /// minute.
    #[test]
    fn random_times_agree_with_jiff(
        location in prop::sample::select(&LOCATIONS),
        begin in 94_694_400..7_000_000_000_i64,
        steps in prop::collection::vec(0..200_000_i64, 1..20),
    ) {
        let (zone, format) = &FORMATS[location];
        let mut parser = Parser::new(format.clone());
        let mut ms = begin * 1000;
        for step in steps {
            ms += step;
            let utc = jiff::Timestamp::from_millisecond(ms).unwrap();
            let local = jiff::tz::TimeZone::UTC.to_datetime(utc);
            let text = local.strftime("%F %T.%3f").to_string();
            let stamp = parser.parse(text.as_bytes(), 0);
            prop_assert_eq!(stamp, format.parse(text.as_bytes(), 0));
            prop_assert_eq!(stamp.unwrap().ns, jiff_ns(zone, local), "{} {}", location, text);
        }
    }
}
