//! Suggestions for unknown zone names.

use strsim::generic_levenshtein;

/// Maximum number of suggestions.
const SUGGESTIONS_MAX: usize = 3;

/// Maximum edit distance between a name and a suggestion.
const DISTANCE_MAX: usize = 2;

/// Abbreviations in common use that are not zone names in the database, and a location for each.
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

/// Returns a location in which this abbreviation is used; `None` if the abbreviation is unknown.
pub fn location_of(abbreviation: &str) -> Option<&'static str> {
    let matches = |(known, _): &&(&str, &str)| known.eq_ignore_ascii_case(abbreviation);
    ABBREVIATIONS.iter().find(matches).map(|(_, location)| *location)
}

/// Returns the names that are closest to `given`, which can also be the last part of a name, such
/// as `Berlin`.
pub fn suggest<'n>(given: &str, names: &'n [String]) -> Vec<&'n str> {
    let given = normalize(given);
    let last = |name: &'n str| name.rsplit_once('/').map_or(name, |(_, last)| last);
    let distance_to = |name: &'n str| {
        generic_levenshtein(&given, &normalize(name))
            .min(generic_levenshtein(&given, &normalize(last(name))))
    };
    let distances = names.iter().map(|name| (distance_to(name), name.as_str()));
    // A short word would be close to any name.
    let limit = DISTANCE_MAX.min(given.len() / 3);
    let mut near: Vec<_> = distances.filter(|(distance, _)| *distance <= limit).collect();
    near.sort_unstable();
    near.dedup();
    let best = near.first().map_or(0, |(distance, _)| *distance);
    near.into_iter()
        .filter(|(distance, _)| *distance == best)
        .map(|(_, name)| name)
        .take(SUGGESTIONS_MAX)
        .collect()
}

fn normalize(name: &str) -> Vec<char> {
    name.chars()
        .map(|letter| if letter == ' ' { '_' } else { letter.to_ascii_lowercase() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every suggested location must exist. No abbreviation may be a zone, because the zone would
    /// hide the suggestion.
    #[test]
    fn abbreviations_suggest_locations() {
        for (abbreviation, location) in ABBREVIATIONS {
            assert!(crate::zone(location).is_ok(), "{location}");
            assert!(crate::zone(abbreviation).unwrap_err().contains(location), "{abbreviation}");
        }
    }

    #[test]
    fn typos_and_last_parts_suggest_names() {
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
            assert_eq!(suggest(given, &all), expected, "{given}");
        }
    }
}
