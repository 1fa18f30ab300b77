//! Priorities of syslog, and the names of levels.

/// Names of the priorities 0 to 7 in syslog and `journalctl`.
const PRIORITIES: [&str; 8] =
    ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// Other names that programs use for priorities.
const OTHER_NAMES: [(&str, u8); 5] =
    [("emergency", 0), ("critical", 2), ("error", 3), ("warn", 4), ("panic", 0)];

/// Text that the cells of levels refer to: the levels of the priorities 0 to 7, without separators.
pub const LEVELS: &[u8] = b"emergalertcriterrorwarnnoticeinfodebug";

/// Start and length of each level in [`LEVELS`].
const PLACES: [(usize, usize); 8] =
    [(0, 5), (5, 5), (10, 4), (14, 5), (19, 4), (23, 6), (29, 4), (33, 5)];

/// Returns the number of a priority, given as a number or a name.
pub fn priority(text: &str) -> Option<u8> {
    let lower = text.to_ascii_lowercase();
    let named = PRIORITIES.iter().position(|name| *name == lower).map(|number| number as u8);
    let other = || OTHER_NAMES.iter().find(|(name, _)| *name == lower).map(|(_, number)| *number);
    let number = || lower.parse().ok().filter(|number| *number < 8);
    named.or_else(other).or_else(number)
}

/// Returns start and length in [`LEVELS`] of the level of an entry whose `PRIORITY` is this text;
/// `None` if the text is not a number from 0 to 7.
pub fn level(priority: &[u8]) -> Option<(usize, usize)> {
    match priority {
        [digit @ b'0'..=b'7'] => Some(PLACES[usize::from(digit - b'0')]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_the_names_of_this_project() {
        let name = |priority: &[u8]| {
            let (start, len) = level(priority)?;
            Some(std::str::from_utf8(&LEVELS[start..start + len]).unwrap())
        };
        let names: Vec<_> = (b'0'..=b'8').map(|digit| name(&[digit])).collect();
        let expected = ["emerg", "alert", "crit", "error", "warn", "notice", "info", "debug"];
        assert_eq!(names[..8], expected.map(Some));
        assert_eq!((names[8], name(b""), name(b"03")), (None, None, None));
    }

    #[test]
    fn a_priority_is_a_number_or_a_name() {
        let cases = [("0", 0), ("warning", 4), ("WARN", 4), ("err", 3), ("error", 3), ("7", 7)];
        assert!(cases.iter().all(|(text, number)| priority(text) == Some(*number)));
        assert_eq!((priority("8"), priority("loud"), priority("-1")), (None, None, None));
    }
}
