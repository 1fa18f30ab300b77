//! Wording of suggestions: lists of names and "did you mean".

/// Returns advice for a name that is not in `names`: the nearest name, or all names after `lead`.
pub fn advice(given: &str, names: &[&str], lead: &str) -> String {
    match (nearest(given, names), names) {
        (Some(name), _) => format!("did you mean `{name}`?"),
        (None, [only]) => format!("only `{only}` is valid here"),
        (None, _) => format!("{lead} {}", listed(names, "and")),
    }
}

/// Returns the name in `names` that `given` most likely means.
pub fn nearest<'a>(given: &str, names: &[&'a str]) -> Option<&'a str> {
    let distance_max = match given.chars().count() {
        0..=3 => 1,
        4..=8 => 2,
        _ => 3,
    };
    let close = names.iter().filter(|name| name.len().abs_diff(given.len()) <= 4 * distance_max);
    let rated = close.map(|name| (strsim::levenshtein(given, name), *name));
    rated
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, n)| n)
}

/// Maximum number of names to list in a message.
const LISTED_MAX: usize = 30;

/// Joins names as `a`, `b` and `c`, in backticks.
pub fn listed(names: &[&str], last: &str) -> String {
    let mut quoted: Vec<String> =
        names.iter().take(LISTED_MAX).map(|name| format!("`{name}`")).collect();
    if names.len() > LISTED_MAX {
        quoted.push(format!("{} more", names.len() - LISTED_MAX));
    }
    match quoted.as_slice() {
        [] => "none".into(),
        [one] => one.clone(),
        [most @ .., end] => format!("{} {last} {end}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Typos of one or two letters find their word; an unrelated word finds none.
    #[test]
    fn near_misses() {
        let names = ["include", "exclude", "type", "read_from"];
        for (given, expected) in [
            ("includ", Some("include")),
            ("tpye", Some("type")),
            ("read-from", Some("read_from")),
            ("Include", Some("include")),
            ("colour", None),
            ("x", None),
        ] {
            assert_eq!(nearest(given, &names), expected, "{given}");
        }
    }

    /// A list reads as a sentence.
    #[test]
    fn lists() {
        assert_eq!(listed(&[], "and"), "none");
        assert_eq!(listed(&["a"], "and"), "`a`");
        assert_eq!(listed(&["a", "b", "c"], "or"), "`a`, `b` or `c`");
        assert!(listed(&["a"; 35], "and").ends_with("`a` and 5 more"));
    }
}
