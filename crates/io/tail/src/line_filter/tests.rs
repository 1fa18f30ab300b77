//! The lines that pass the filters, compared with those that pass if each line is filtered
//! separately.

use super::*;
use millstream_model::{Grant, Ledger};
use millstream_testkit::{Rows, batch};
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;

fn filter(contains: &[&str], regex: &[&str]) -> LineFilter {
    LineFilter {
        contains: contains.iter().map(|text| (*text).to_owned()).collect(),
        regex: regex.iter().map(|pattern| (*pattern).to_owned()).collect(),
    }
}

/// Returns the lines of `text`, truncated at `line_max`, that pass the filters.
fn left(
    text: &[u8],
    line_max: usize,
    keep: Option<&LineFilter>,
    drop: Option<&LineFilter>,
) -> Vec<String> {
    let mut batch =
        batch(&[Rows { name: "f", text }], line_max, &Grant::new(1 << 30), &Ledger::new());
    let dropped = LineFilters::new(keep, drop).unwrap().apply(&mut batch);
    assert_eq!(dropped as usize, batch.rows() - batch.events());
    let rows = (0..batch.rows()).filter(|row| batch.is_selected(*row));
    rows.map(|row| String::from_utf8_lossy(batch.text(row)).into_owned()).collect()
}

/// A line is kept if it matches something in `keep_lines` and nothing in `drop_lines`.
#[test]
fn drop_lines_applies_after_keep_lines() {
    let text = b"ERROR a\nWARN b\nERROR health\n\nerror 503\nstatus=200\n";
    let keep = filter(&["ERROR", "WARN"], &[r"5\d\d$"]);
    let drop = filter(&["health"], &["^WARN"]);
    assert_eq!(
        left(text, 100, Some(&keep), None),
        ["ERROR a", "WARN b", "ERROR health", "error 503"]
    );
    assert_eq!(left(text, 100, None, Some(&drop)), ["ERROR a", "", "error 503", "status=200"]);
    assert_eq!(left(text, 100, Some(&keep), Some(&drop)), ["ERROR a", "error 503"]);
    assert_eq!(left(text, 100, None, None).len(), 6);
}

/// Texts are compared as bytes; surrounding invalid UTF-8 and NUL bytes do not matter.
#[test]
fn lines_need_not_be_utf8() {
    assert_eq!(
        left(b"\xff\0ERROR\xfe\n\xff\n", 100, Some(&filter(&["ERROR"], &[])), None).len(),
        1
    );
    assert_eq!(
        left(b"\xff\0ERROR\xfe\n\xff\n", 100, Some(&filter(&[], &["R$", r"\x00E"])), None).len(),
        1
    );
}

/// A match across a line ending, or in the truncated part of a line, does not count.
#[test]
fn a_match_must_be_within_one_line() {
    assert_eq!(
        left(b"ab\ncd\n", 100, Some(&filter(&["b\nc", "bc", "b\n"], &[])), None),
        Vec::<String>::new()
    );
    assert_eq!(left(b"aaaaaab\nb\n", 6, Some(&filter(&["ab", "b"], &[])), None), ["b"]);
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    /// Searching the whole block at once finds the same lines as searching each line.
    #[test]
    fn the_block_search_finds_what_a_line_search_finds(
        lines in prop::collection::vec("[ab]{0,9}", 0..40),
        keep in prop::option::of(prop::collection::vec("[ab\n]{1,4}", 1..4)),
        drop in prop::option::of(prop::collection::vec("[ab\n]{1,4}", 1..3)),
        line_max in 1..12usize,
        crlf in any::<bool>(),
    ) {
        let text: String = lines.iter().map(|line| format!("{line}{}\n", if crlf { "\r" } else { "" })).collect();
        let make = |texts: &Option<Vec<String>>| texts.as_ref().map(|t| filter(&t.iter().map(|t| &**t).collect::<Vec<_>>(), &[]));
        let has = |texts: &Option<Vec<String>>, line: &str| texts.as_ref().map(|t| t.iter().any(|t| line.contains(t.as_str())));
        let truncated = lines.iter().map(|line| line[..line.len().min(line_max)].to_owned());
        let is_left = |line: &String| has(&keep, line).unwrap_or(true) && !has(&drop, line).unwrap_or(false);
        let expected: Vec<String> = truncated.filter(is_left).collect();
        prop_assert_eq!(left(text.as_bytes(), line_max, make(&keep).as_ref(), make(&drop).as_ref()), expected);
    }
}
