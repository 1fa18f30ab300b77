//! Names that a wrong one may stand for.

use strsim::generic_levenshtein;

/// Most names that are offered.
const OFFERED_MAX: usize = 3;

/// Letters that may be wrong.
const DISTANCE_MAX: usize = 2;

/// The names nearest to `given`, which may also be the last part of one: `Berlin`.
pub fn names<'n>(given: &str, names: &'n [String]) -> Vec<&'n str> {
    let given = plain(given);
    let last = |name: &'n str| name.rsplit_once('/').map_or(name, |(_, last)| last);
    let rate = |name: &'n str| {
        generic_levenshtein(&given, &plain(name)).min(generic_levenshtein(&given, &plain(last(name))))
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
    name.chars().map(|letter| if letter == ' ' { '_' } else { letter.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
