//! Times of places, by the known days on which their clocks are moved and beside the library.

use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use millstream_timestamps::{Fault, Format, Parser};
use millstream_zones::zone;
use proptest::prelude::*;
use std::collections::HashMap;
use std::process::Command;
use std::sync::{Arc, LazyLock};

fn format(text: &str, place: &str) -> Arc<Format> {
    Arc::new(Format::new(text, Some(zone(place).unwrap())).unwrap())
}

/// Nanoseconds of a time in UTC.
fn utc(text: &str) -> i64 {
    Format::new("%F %T", None).unwrap().parse(text.as_bytes(), 0).unwrap().ns
}

/// The local time is that time in UTC, for a parser that reads one after the other.
fn check(place: &str, cases: &[(&str, &str)]) {
    let format = format("%F %T", place);
    let mut parser = Parser::new(format.clone());
    for (local, expected) in cases {
        let stamp = parser.parse(local.as_bytes(), 0);
        assert_eq!(stamp, format.parse(local.as_bytes(), 0), "{place} {local}");
        assert_eq!(stamp.unwrap().ns, utc(expected), "{place} {local}");
    }
}

#[test]
fn clocks_of_berlin_are_put_forward_and_back() {
    check(
        "Europe/Berlin",
        &[
            ("2026-03-29 01:59:59", "2026-03-29 00:59:59"),
            ("2026-03-29 01:59:60", "2026-03-29 01:00:00"),
            // There is no such hour: the distance before still holds.
            ("2026-03-29 02:00:00", "2026-03-29 01:00:00"),
            ("2026-03-29 02:30:00", "2026-03-29 01:30:00"),
            ("2026-03-29 02:59:59", "2026-03-29 01:59:59"),
            ("2026-03-29 03:00:00", "2026-03-29 01:00:00"),
            ("2026-10-25 01:59:59", "2026-10-24 23:59:59"),
            // This hour comes twice: it is the first.
            ("2026-10-25 02:00:00", "2026-10-25 00:00:00"),
            ("2026-10-25 02:59:59", "2026-10-25 00:59:59"),
            ("2026-10-25 02:59:60", "2026-10-25 01:00:00"),
            ("2026-10-25 03:00:00", "2026-10-25 02:00:00"),
            // The rule goes on.
            ("2200-07-01 12:00:00", "2200-07-01 10:00:00"),
            ("2261-12-31 12:00:00", "2261-12-31 11:00:00"),
            ("1700-01-01 12:00:00", "1700-01-01 11:06:32"),
        ],
    );
}

#[test]
fn other_places_move_their_clocks_otherwise_or_not() {
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
    // South of the equator, and by half an hour.
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
    // A whole day was left out.
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
fn a_name_in_the_text_says_which_of_two_times_is_meant() {
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
fn a_distance_in_the_text_comes_before_the_place() {
    let format = format("iso8601", "Asia/Kolkata");
    let ns = |text: &str| format.parse(text.as_bytes(), 0).unwrap().ns;
    assert_eq!(ns("2026-07-01T12:00:00Z"), utc("2026-07-01 12:00:00"));
    assert_eq!(ns("2026-07-01T12:00:00"), utc("2026-07-01 06:30:00"));
    let own = Format::new("%F %T %z", Some(zone("Asia/Kolkata").unwrap()));
    assert!(own.unwrap_err().contains("leave out timezone"));
    let fixed = Format::new("%F %T %Z", Some(zone("+02:00").unwrap()));
    assert!(fixed.unwrap_err().contains("leave out timezone"));
}

/// The year is found with the distance that the place has in it.
#[test]
fn a_year_that_is_missing_is_found_in_the_time_of_the_place() {
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
fn wrong_names_have_advice() {
    for (wrong, advice) in [
        ("Europe/Berln", "did you mean Europe/Berlin? Or write"),
        ("Berlin", "did you mean Europe/Berlin? Or write"),
        ("CEST", "write for example Europe/Berlin, +02:00"),
        ("pdt", "write for example America/Los_Angeles, +02:00"),
        ("America/New York", "did you mean America/New_York? Or write"),
        ("", "write for example Europe/Berlin, +02:00, UTC or local"),
        ("Etc/Unknown", "+02:00"),
        ("+2", "+02:00"),
        ("../../etc/passwd", "write for example"),
    ] {
        let message = zone(wrong).unwrap_err();
        assert!(
            message.contains("is no time zone that is known") && message.contains(advice),
            "{message}"
        );
    }
}

/// Nanoseconds of a summer noon in a zone, or the fault, as a process with this variable sees it:
/// the library reads its variables once.
fn noon(place: &str, variable: &str, value: &str) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "a_host_says_its_zone_and_where_its_database_is", "--nocapture"]);
    let output = child.env("ZONES_PLACE", place).env(variable, value).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| Some(line.split_once("noon: ")?.1.to_owned())).unwrap_or(text)
}

#[test]
fn a_host_says_its_zone_and_where_its_database_is() {
    if let Ok(place) = std::env::var("ZONES_PLACE") {
        let read = |zone| {
            Format::new("%F %T", Some(zone)).unwrap().parse(b"2026-07-01 12:00:00", 0).unwrap().ns
        };
        return println!(
            "noon: {}",
            zone(&place).map_or_else(|message| message, |zone| read(zone).to_string())
        );
    }
    assert_eq!(noon("local", "TZ", "Asia/Kolkata"), utc("2026-07-01 06:30:00").to_string());
    assert_eq!(noon("local", "TZ", ":Europe/Berlin"), utc("2026-07-01 10:00:00").to_string());
    assert_eq!(noon("local", "TZ", "XYZ-3"), utc("2026-07-01 09:00:00").to_string());
    assert!(
        noon("local", "TZ", "Nowhere/Land")
            .contains("TZ says, which has \"Nowhere/Land\"; set it to")
    );
    // A database with one place, two hours before UTC: it comes first, the program has the others.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Japan"), ONE_DISTANCE).unwrap();
    let path = folder.path().to_str().unwrap();
    assert_eq!(noon("Japan", "TZDIR", path), utc("2026-07-01 10:00:00").to_string());
    assert_eq!(noon("Asia/Kolkata", "TZDIR", path), utc("2026-07-01 06:30:00").to_string());
}

/// A file of a time zone that has one distance, 7200 seconds, named `ABC`: six counts, of which
/// there are one distance and four bytes of names, and those.
const ONE_DISTANCE: &[u8] = b"TZif\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    \0\0\0\x01\0\0\0\x04\0\0\x1C\x20\0\0ABC\0";

/// Nanoseconds of a local time as the library reads it.
fn library_ns(zone: &TimeZone, local: DateTime) -> i64 {
    let stamp = zone.to_ambiguous_timestamp(local).compatible().unwrap();
    i64::try_from(stamp.as_nanosecond()).unwrap()
}

/// Every zone over every change of its clocks: before, within and after.
#[test]
fn every_zone_is_that_of_the_library_around_its_changes() {
    let built_in = TimeZoneDatabase::bundled();
    for name in built_in.available() {
        let zone = TimeZone::get(name.as_str()).or_else(|_| built_in.get(name.as_str())).unwrap();
        let format = format("%F %T", name.as_str());
        let begin = "1700-01-01T00:00Z".parse().unwrap();
        let changes = zone
            .following(begin)
            .take_while(|change| change.timestamp().as_second() < 7_000_000_000);
        for change in changes {
            for minutes in
                [-1500, -121, -61, -60, -59, -31, -30, -1, 0, 1, 29, 30, 59, 60, 61, 119, 1500]
            {
                let minute = change.timestamp().as_second().div_euclid(60) + minutes;
                let utc = jiff::Timestamp::from_second(minute * 60).unwrap();
                // The last second of a local minute: a change within one counts from its beginning.
                let local = change.offset().to_datetime(utc).with().second(59).build().unwrap();
                let text = local.strftime("%F %T").to_string();
                let ns = format.parse(text.as_bytes(), 0).unwrap().ns;
                assert_eq!(ns, library_ns(&zone, local), "{name} {text}");
            }
        }
    }
}

const PLACES: [&str; 8] = [
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
    let read = |place| (place, (TimeZone::get(place).unwrap(), format("%F %T%.f", place)));
    PLACES.into_iter().map(read).collect()
});

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 4000, ..ProptestConfig::default() })]

    /// Lines that follow each other, from 1973 on, when no zone changed within a minute any more.
    #[test]
    fn random_times_are_those_of_the_library(
        place in prop::sample::select(&PLACES),
        begin in 94_694_400..7_000_000_000_i64,
        steps in prop::collection::vec(0..200_000_i64, 1..20),
    ) {
        let (zone, format) = &FORMATS[place];
        let mut parser = Parser::new(format.clone());
        let mut ms = begin * 1000;
        for step in steps {
            ms += step;
            let utc = jiff::Timestamp::from_millisecond(ms).unwrap();
            let local = jiff::tz::TimeZone::UTC.to_datetime(utc);
            let text = local.strftime("%F %T.%3f").to_string();
            let stamp = parser.parse(text.as_bytes(), 0);
            prop_assert_eq!(stamp, format.parse(text.as_bytes(), 0));
            prop_assert_eq!(stamp.unwrap().ns, library_ns(zone, local), "{} {}", place, text);
        }
    }
}
