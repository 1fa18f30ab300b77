//! Looks up time zones by name, in the host's database, or in the bundled database if the host
//! lacks the zone.
//!
//! A separate crate because it cuts a dependency: `timestamps`, and through it expressions,
//! parsers and transport, build without jiff and its time zone database.
//!
//! A zone is looked up once, when a configuration is loaded. The result is a table of offsets for
//! `millstream-timestamps`, which does no I/O.
//!
//! ```
//! use millstream_timestamps::Format;
//! let berlin = millstream_zones::zone("Europe/Berlin").unwrap();
//! let format = Format::new("%F %T", Some(berlin)).unwrap();
//! assert_eq!(format.parse(b"2026-07-01 12:00:00", 0).unwrap().ns, 1_782_900_000_000_000_000);
//! assert!(millstream_zones::zone("Europe/Berln").unwrap_err().contains("Europe/Berlin"));
//! ```

#![forbid(unsafe_code)]

mod near;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use millstream_timestamps::{Period, Zone, parse_utc_offset};
use std::env;
use std::path::Path;

/// The file that defines the host's time zone.
const LOCALTIME: &str = "/etc/localtime";

/// The times that fit into 64-bit nanoseconds, in seconds since 1970: the years 1677 to 2262.
const SECONDS: std::ops::Range<i64> = i64::MIN / 1_000_000_000..i64::MAX / 1_000_000_000;

/// Returns the zone with this name: `UTC`, an offset such as `+02:00`, a location such as
/// `Europe/Berlin`, or `local` for the host's current zone, which is taken from the `TZ` variable
/// or `/etc/localtime`.
///
/// # Errors
///
/// Returns an error if the name is unknown. The error says what to use instead.
pub fn zone(text: &str) -> Result<Zone, String> {
    if let Some(seconds) = parse_utc_offset(text) {
        return Ok(Zone::fixed(seconds));
    }
    let zone = if text == "local" { local()? } else { named(text)? };
    Ok(table(&zone))
}

fn named(text: &str) -> Result<TimeZone, String> {
    let bundled = TimeZoneDatabase::bundled();
    let found = jiff::tz::db().get(text).or_else(|_| bundled.get(text)).ok();
    found.filter(|found| !found.is_unknown()).ok_or_else(|| {
        if let Some(location) = near::location_of(text) {
            return format!(
                "{text:?} is not a known time zone; an abbreviation does not identify a location; \
                 use, for example, {location}, +02:00, UTC or local"
            );
        }
        let names: Vec<String> = jiff::tz::db()
            .available()
            .chain(bundled.available())
            .map(|name| name.to_string())
            .collect();
        let advice = match near::suggest(text, &names).as_slice() {
            [] => "use, for example, Europe/Berlin,".to_owned(),
            near => format!("did you mean {}? Or use", near.join(" or ")),
        };
        format!("{text:?} is not a known time zone; {advice} +02:00, UTC or local")
    })
}

fn local() -> Result<TimeZone, String> {
    TimeZone::try_system().or_else(|_| match env::var("TZ") {
        Ok(value) => Err(format!(
            "local uses the variable TZ, which has the invalid value {value:?}; set it to, for \
             example, Europe/Berlin"
        )),
        Err(_) if Path::new(LOCALTIME).exists() => {
            Err(format!("{LOCALTIME} is not a known time zone; use, for example, Europe/Berlin"))
        }
        // As in the C library, a host without a time zone uses UTC.
        Err(_) => Ok(TimeZone::UTC),
    })
}

/// Returns a zone with its periods and their UTC offsets.
fn table(zone: &TimeZone) -> Zone {
    let begin = Timestamp::from_second(SECONDS.start).unwrap_or(Timestamp::MIN);
    let info = zone.to_offset_info(begin);
    let first = Period {
        begin_seconds: SECONDS.start,
        offset_seconds: info.offset().seconds(),
        name: info.abbreviation(),
    };
    let mut last = SECONDS.start;
    // If a file has no rule for later times, its last transition can repeat forever.
    let mut advances =
        |second: i64| second > std::mem::replace(&mut last, second) && second < SECONDS.end;
    let transitions: Vec<_> = zone
        .following(begin)
        .take_while(|transition| advances(transition.timestamp().as_second()))
        .collect();
    let periods = transitions.iter().map(|transition| Period {
        begin_seconds: transition.timestamp().as_second(),
        offset_seconds: transition.offset().seconds(),
        name: transition.abbreviation(),
    });
    Zone::from_periods(std::iter::once(first).chain(periods))
}
