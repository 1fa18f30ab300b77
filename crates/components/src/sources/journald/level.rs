//! Priorities of syslog, and their levels on the scale of the step `severity`.

use millstream_model::{Cell, CellKind as Kind};

/// Names of the priorities 0 to 7 in syslog and `journalctl`.
const PRIORITIES: [&str; 8] =
    ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// Other names that programs use for priorities.
const OTHER_NAMES: [(&str, u8); 5] =
    [("emergency", 0), ("critical", 2), ("error", 3), ("warn", 4), ("panic", 0)];

/// Text that the cells of levels and of severity numbers refer to.
pub const TEXT: &[u8] = b"fatal error warn info debug 21 19 18 17 13 10 9 5";

/// Start and length in [`TEXT`] of the level and of the number, for the priorities 0 to 7.
const PLACES: [[(usize, usize); 2]; 8] = [
    [(0, 5), (28, 2)],
    [(6, 5), (31, 2)],
    [(6, 5), (34, 2)],
    [(6, 5), (37, 2)],
    [(12, 4), (40, 2)],
    [(17, 4), (43, 2)],
    [(17, 4), (46, 1)],
    [(22, 5), (48, 1)],
];

/// Level and severity number of an entry, as cells that refer to [`TEXT`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelCells {
    pub level: Cell,
    pub number: Cell,
}

/// Returns the number of a priority, given as a number or a name.
pub fn priority(text: &str) -> Option<u8> {
    let lower = text.to_ascii_lowercase();
    let named = PRIORITIES.iter().position(|name| *name == lower).map(|number| number as u8);
    let other = || OTHER_NAMES.iter().find(|(name, _)| *name == lower).map(|(_, number)| *number);
    let number = || lower.parse().ok().filter(|number| *number < 8);
    named.or_else(other).or_else(number)
}

/// Returns the cells for an entry whose `PRIORITY` is this text. The cells are absent if the text is
/// not a number from 0 to 7.
pub fn level_cells(priority: &[u8]) -> LevelCells {
    let [digit @ b'0'..=b'7'] = priority else { return LevelCells::default() };
    let [level, number] = PLACES[usize::from(digit - b'0')];
    LevelCells {
        level: Cell::own(Kind::Text, level.0, level.1),
        number: Cell::own(Kind::Int, number.0, number.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_parsers::Severity;

    fn text(cell: Cell) -> &'static str {
        std::str::from_utf8(&TEXT[cell.start()..cell.start() + cell.len()]).unwrap()
    }

    #[test]
    fn levels_have_the_scale_of_all_sources() {
        for priority in 0..8 {
            let cells = level_cells(&[b'0' + priority]);
            let severity = Severity::of_syslog(priority).unwrap();
            assert_eq!(text(cells.level), severity.level());
            assert_eq!(text(cells.number), severity.number().to_string());
        }
        for text in ["8", "", "03"] {
            assert_eq!(level_cells(text.as_bytes()), LevelCells::default());
        }
    }

    #[test]
    fn a_priority_is_a_number_or_a_name() {
        let cases = [("0", 0), ("warning", 4), ("WARN", 4), ("err", 3), ("error", 3), ("7", 7)];
        assert!(cases.iter().all(|(text, number)| priority(text) == Some(*number)));
        assert_eq!((priority("8"), priority("loud"), priority("-1")), (None, None, None));
    }
}
