//! Time zones by name: from the database of the host, and where it has none or not that zone, from
//! the one that is built in.
//!
//! A separate crate because it cuts a dependency: `timestamps`, and through it expressions,
//! parsers and transport, build without jiff and its time zone database.
//!
//! A zone is looked up once, when a configuration is read; what comes out is a table for
//! `millstream-timestamps`, which knows no files.
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
use millstream_timestamps::{Period, Zone, distance};
use std::env;
use std::path::Path;

/// Where a host says its time zone.
const LOCALTIME: &str = "/etc/localtime";

/// From 1677 to 2262: as far as nanoseconds in 64 bits reach.
const SECONDS: std::ops::Range<i64> = i64::MIN / 1_000_000_000..i64::MAX / 1_000_000_000;

/// The zone of this name: `UTC`, a distance such as `+02:00`, a place such as `Europe/Berlin`, or
/// `local` for the host's own, as the variable `TZ` or `/etc/localtime` say it now.
///
/// # Errors
///
/// What is wrong; what to write instead.
pub fn zone(text: &str) -> Result<Zone, String> {
    if let Some(seconds) = distance(text) {
        return Ok(Zone::fixed(seconds));
    }
    let found = if text == "local" { local()? } else { named(text)? };
    Ok(table(&found))
}

fn named(text: &str) -> Result<TimeZone, String> {
    let built_in = TimeZoneDatabase::bundled();
    let found = jiff::tz::db().get(text).or_else(|_| built_in.get(text)).ok();
    found.filter(|found| !found.is_unknown()).ok_or_else(|| {
        if let Some(place) = near::place_of(text) {
            return format!(
                "{text:?} is no time zone that is known; an abbreviation does not name a place, write for example \
                 {place}, +02:00, UTC or local"
            );
        }
        let names: Vec<String> =
            jiff::tz::db().available().chain(built_in.available()).map(|name| name.to_string()).collect();
        let advice = match near::names(text, &names).as_slice() {
            [] => "write for example Europe/Berlin,".to_owned(),
            near => format!("did you mean {}? Or write", near.join(" or ")),
        };
        format!("{text:?} is no time zone that is known; {advice} +02:00, UTC or local")
    })
}

fn local() -> Result<TimeZone, String> {
    TimeZone::try_system().or_else(|_| match env::var("TZ") {
        Ok(value) => Err(format!(
            "local is what the variable TZ says, which has {value:?}; set it to for example Europe/Berlin"
        )),
        Err(_) if Path::new(LOCALTIME).exists() => {
            Err(format!("{LOCALTIME} is no time zone that is known; write for example Europe/Berlin"))
        }
        // As the C library has it: a host that says nothing is at UTC.
        Err(_) => Ok(TimeZone::UTC),
    })
}

/// The distances of a zone to UTC, one after the other.
fn table(zone: &TimeZone) -> Zone {
    let begin = Timestamp::from_second(SECONDS.start).unwrap_or(Timestamp::MIN);
    let info = zone.to_offset_info(begin);
    let first = Period {
        begin_seconds: SECONDS.start,
        offset_seconds: info.offset().seconds(),
        name: info.abbreviation(),
    };
    let mut last = SECONDS.start;
    // A file without a rule for later times may give its last change without end.
    let mut is_later =
        |second: i64| second > std::mem::replace(&mut last, second) && second < SECONDS.end;
    let changes: Vec<_> = zone
        .following(begin)
        .take_while(|change| is_later(change.timestamp().as_second()))
        .collect();
    let later = changes.iter().map(|change| Period {
        begin_seconds: change.timestamp().as_second(),
        offset_seconds: change.offset().seconds(),
        name: change.abbreviation(),
    });
    Zone::of_periods(std::iter::once(first).chain(later))
}
