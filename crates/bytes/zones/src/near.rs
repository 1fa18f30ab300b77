//! Names that a wrong one may stand for.

use strsim::generic_levenshtein;

/// Most names that are offered.
const OFFERED_MAX: usize = 3;

/// Letters that may be wrong.
const DISTANCE_MAX: usize = 2;

/// Abbreviations of civil times that the database does not have as zones, and a place that uses
/// each.
const ABBREVIATIONS: &[(&str, &str)] = &[
    ("CEST", "Europe/Berlin"),
    ("MEZ", "Europe/Berlin"),
    ("MESZ", "Europe/Berlin"),
    ("BST", "Europe/London"),
    ("EEST", "Europe/Athens"),
    ("WEST", "Europe/Lisbon"),
    ("MSK", "Europe/Moscow"),
    ("EDT", "America/New_York"),
    ("CST", "America/Chicago"),
    ("CDT", "America/Chicago"),
    ("MDT", "America/Denver"),
    ("PST", "America/Los_Angeles"),
    ("PDT", "America/Los_Angeles"),
    ("BRT", "America/Sao_Paulo"),
    ("IST", "Asia/Kolkata"),
    ("SGT", "Asia/Singapore"),
    ("HKT", "Asia/Hong_Kong"),
    ("JST", "Asia/Tokyo"),
    ("KST", "Asia/Seoul"),
    ("AEST", "Australia/Sydney"),
    ("AEDT", "Australia/Sydney"),
    ("NZST", "Pacific/Auckland"),
    ("NZDT", "Pacific/Auckland"),
];

/// A place whose civil time is abbreviated so.
pub fn place_of(abbreviation: &str) -> Option<&'static str> {
    let is_it = |(known, _): &&(&str, &str)| known.eq_ignore_ascii_case(abbreviation);
    ABBREVIATIONS.iter().find(is_it).map(|(_, place)| *place)
}

/// The names nearest to `given`, which may also be the last part of one: `Berlin`.
pub fn names<'n>(given: &str, names: &'n [String]) -> Vec<&'n str> {
    let given = plain(given);
    let last = |name: &'n str| name.rsplit_once('/').map_or(name, |(_, last)| last);
    let rate = |name: &'n str| {
        generic_levenshtein(&given, &plain(name))
            .min(generic_levenshtein(&given, &plain(last(name))))
    };
    let rated = names.iter().map(|name| (rate(name), name.as_str()));
    // A short word is near to everything.
    let limit = DISTANCE_MAX.min(given.len() / 3);
    let mut near: Vec<_> = rated.filter(|(distance, _)| *distance <= limit).collect();
    near.sort_unstable();
    near.dedup();
    let best = near.first().map_or(0, |(distance, _)| *distance);
    near.into_iter()
        .filter(|(distance, _)| *distance == best)
        .map(|(_, name)| name)
        .take(OFFERED_MAX)
        .collect()
}

fn plain(name: &str) -> Vec<char> {
    name.chars()
        .map(|letter| if letter == ' ' { '_' } else { letter.to_ascii_lowercase() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every place that is advised exists, and no abbreviation is a zone, which would hide the
    /// advice.
    #[test]
    fn abbreviations_lead_to_places() {
        for (abbreviation, place) in ABBREVIATIONS {
            assert!(crate::zone(place).is_ok(), "{place}");
            assert!(crate::zone(abbreviation).unwrap_err().contains(place), "{abbreviation}");
        }
    }

    #[test]
    fn slips_and_last_parts_find_their_name() {
        let all: Vec<String> =
            ["Europe/Berlin", "America/New_York", "America/North_Dakota/Center", "CET", "EST"]
                .map(str::to_owned)
                .into();
        for (given, expected) in [
            ("Berlin", vec!["Europe/Berlin"]),
            ("Europe/Berln", vec!["Europe/Berlin"]),
            ("america/new york", vec!["America/New_York"]),
            ("NewYork", vec!["America/New_York"]),
            ("CEST", vec!["CET", "EST"]),
            ("X", vec![]),
            ("", vec![]),
            ("Gondor", vec![]),
        ] {
            assert_eq!(names(given, &all), expected, "{given}");
        }
    }
}
