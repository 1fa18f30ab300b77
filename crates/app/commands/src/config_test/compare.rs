//! Compares the output of a test with its expectation.

use millstream_components::util::formats::parse_rfc3339;
use millstream_config::{Event, Expectation};
use serde_json::{Number, Value as Json};

/// Maximum number of differences to show per expectation; the rest is counted.
const SHOWN_MAX: usize = 20;

/// Maximum size of the table of pairs for aligning events. Larger lists are compared by index.
const PAIRS_MAX: usize = 1 << 20;

/// A difference.
#[derive(Debug, PartialEq)]
pub struct Block {
    /// A short description.
    pub what: String,
    /// Expected lines begin with `-`, found lines with `+`.
    pub lines: Vec<String>,
}

/// Returns every difference between the found events and an expectation.
pub fn compare(found: &[Event], expected: &Expectation) -> Vec<Block> {
    let mut blocks = Vec::new();
    if let Some(events) = &expected.events {
        blocks.extend(compare_events(found, events, expected.exact));
    }
    if let Some(count) = expected.count.filter(|count| *count != found.len()) {
        let what = format!("{} expected, {} found", counted(count), found.len());
        // A list of differing events has already shown these events.
        let shown = if blocks.is_empty() { found } else { &[] };
        blocks.push(Block { what, lines: all_found(shown) });
    }
    blocks
}

fn counted(count: usize) -> String {
    if count == 1 { "1 event".into() } else { format!("{count} events") }
}

fn all_found(found: &[Event]) -> Vec<String> {
    let mut lines: Vec<String> =
        found.iter().take(SHOWN_MAX).map(|event| format!("+ {}", text(event))).collect();
    if found.len() > SHOWN_MAX {
        lines.push(format!("and {} more", found.len() - SHOWN_MAX));
    }
    lines
}

fn compare_events(found: &[Event], expected: &[Event], exact: bool) -> Vec<Block> {
    let is_same = |e: usize, f: usize| differences(&expected[e], &found[f], exact).is_empty();
    let (expected_count, found_count) = (expected.len(), found.len());
    let block = |pair: Pair| match pair {
        Pair::Same => None,
        Pair::Changed(e, f) => {
            let mut lines = differences(&expected[e], &found[f], exact);
            lines.push(format!("found {}", text(&found[f])));
            Some(Block { what: format!("event {} of {expected_count} differs", e + 1), lines })
        }
        Pair::Missing(e) => {
            let what = format!("event {} of {expected_count} is missing", e + 1);
            Some(Block { what, lines: vec![format!("- {}", text(&expected[e]))] })
        }
        Pair::Surplus(f) => {
            let what = format!("found event {} of {found_count} is not expected", f + 1);
            Some(Block { what, lines: vec![format!("+ {}", text(&found[f]))] })
        }
    };
    let mut blocks: Vec<Block> =
        align(expected_count, found_count, is_same).into_iter().filter_map(block).collect();
    if blocks.len() > SHOWN_MAX {
        let what = format!("{} more differences", blocks.len() - SHOWN_MAX);
        blocks.truncate(SHOWN_MAX);
        blocks.push(Block { what, lines: Vec::new() });
    }
    blocks
}

/// Returns the event as JSON on one line.
fn text(event: &Event) -> String {
    Json::Object(event.clone()).to_string()
}

/// The relation of an expected event to an actual one, by index.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pair {
    Same,
    Changed(usize, usize),
    Missing(usize),
    Surplus(usize),
}

/// Aligns expected and found events at minimal cost, so that one missing event does not make all
/// later events differ.
fn align(expected: usize, found: usize, is_same: impl Fn(usize, usize) -> bool) -> Vec<Pair> {
    let least = expected.min(found);
    let front = (0..least).take_while(|at| is_same(*at, *at)).count();
    let back =
        (0..least - front).take_while(|at| is_same(expected - 1 - at, found - 1 - at)).count();
    let (expected_end, found_end) = (expected - back, found - back);
    let (rows, columns) = (expected_end - front, found_end - front);
    let is_small = rows.saturating_mul(columns) <= PAIRS_MAX;
    let costs = is_small.then(|| Costs::new(rows, columns, |e, f| is_same(front + e, front + f)));
    let (mut e, mut f, mut pairs) = (front, front, vec![Pair::Same; front]);
    while e < expected_end || f < found_end {
        let pair = match (e < expected_end, f < found_end) {
            (true, false) => Pair::Missing(e),
            (false, _) => Pair::Surplus(f),
            (true, true) if is_same(e, f) => Pair::Same,
            (true, true) => {
                costs.as_ref().map_or(Pair::Changed(e, f), |costs| costs.cheapest(e, f, front))
            }
        };
        e += usize::from(!matches!(pair, Pair::Surplus(_)));
        f += usize::from(!matches!(pair, Pair::Missing(_)));
        pairs.push(pair);
    }
    pairs.extend(vec![Pair::Same; back]);
    pairs
}

/// Cost of an unpaired event; two unpaired events cost more than a differing pair.
const ALONE: u32 = 2;
/// Cost of a differing pair. It is higher than the cost of one unpaired event, so that equal events
/// are paired where possible.
const CHANGED: u32 = 3;

/// Minimal costs of aligning the remaining parts of two lists.
struct Costs {
    width: usize,
    /// Cost for the expected events starting at `e` and the found events starting at `f`, at index
    /// `e * width + f`.
    list: Vec<u32>,
}

impl Costs {
    fn new(rows: usize, columns: usize, is_same: impl Fn(usize, usize) -> bool) -> Costs {
        let width = columns + 1;
        let mut costs = Costs { width, list: vec![0; (rows + 1) * width] };
        for e in (0..=rows).rev() {
            for f in (0..=columns).rev() {
                costs.list[e * width + f] = match (rows - e, columns - f) {
                    (0, alone) | (alone, 0) => alone as u32 * ALONE,
                    _ if is_same(e, f) => costs.at(e + 1, f + 1),
                    _ => {
                        let alone = costs.at(e + 1, f).min(costs.at(e, f + 1)) + ALONE;
                        alone.min(costs.at(e + 1, f + 1) + CHANGED)
                    }
                };
            }
        }
        costs
    }

    fn at(&self, e: usize, f: usize) -> u32 {
        self.list[e * self.width + f]
    }

    /// Returns the relation of two different events. The table of costs begins at index `front` of
    /// both lists.
    fn cheapest(&self, e: usize, f: usize, front: usize) -> Pair {
        let cost = |e: usize, f: usize| self.at(e - front, f - front);
        match cost(e, f) {
            least if least == cost(e + 1, f + 1) + CHANGED => Pair::Changed(e, f),
            least if least == cost(e + 1, f) + ALONE => Pair::Missing(e),
            _ => Pair::Surplus(f),
        }
    }
}

/// Returns the differences between two events, one line per value.
fn differences(expected: &Event, found: &Event, exact: bool) -> Vec<String> {
    let mut lines = Vec::new();
    collect("", expected, found, exact, &mut lines);
    lines
}

fn collect(path: &str, expected: &Event, found: &Event, exact: bool, lines: &mut Vec<String>) {
    for (key, wanted) in expected {
        let there = found.get(key).unwrap_or(&Json::Null);
        let inner = format!("{path}{key}");
        match (wanted, there) {
            (Json::Object(wanted), Json::Object(there)) => {
                collect(&format!("{inner}."), wanted, there, exact, lines);
            }
            _ if is_equal(wanted, there) || inner == "timestamp" && is_same_time(wanted, there) => {
            }
            _ => lines.extend([shown('-', &inner, wanted), shown('+', &inner, there)]),
        }
    }
    let may_be = |key: &str| expected.contains_key(key) || path.is_empty() && key == "timestamp";
    let surplus = found.iter().filter(|(key, value)| exact && !value.is_null() && !may_be(key));
    lines.extend(surplus.map(|(key, value)| shown('+', &format!("{path}{key}"), value)));
}

fn shown(sign: char, path: &str, value: &Json) -> String {
    if value.is_null() {
        format!("{sign} {path} (none)")
    } else {
        format!("{sign} {path}: {value}")
    }
}

/// Returns whether two values are equal. Numbers are compared by value.
fn is_equal(left: &Json, right: &Json) -> bool {
    match (left, right) {
        (Json::Number(left), Json::Number(right)) => is_equal_number(left, right),
        (Json::Array(left), Json::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| is_equal(left, right))
        }
        (Json::Object(left), Json::Object(right)) => {
            let is_in_right =
                |(key, value)| right.get(key).is_some_and(|other| is_equal(value, other));
            left.len() == right.len() && left.iter().all(is_in_right)
        }
        _ => left == right,
    }
}

fn is_equal_number(left: &Number, right: &Number) -> bool {
    left == right || (left.is_f64() || right.is_f64()) && left.as_f64() == right.as_f64()
}

/// Returns whether two strings are the same time. The codec writes milliseconds.
fn is_same_time(left: &Json, right: &Json) -> bool {
    let ms = |value: &Json| parse_rfc3339(value.as_str()?).ok().map(|ns| ns.div_euclid(1_000_000));
    ms(left).is_some() && ms(left) == ms(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(json: &str) -> Vec<Event> {
        serde_json::from_str(json).unwrap()
    }

    /// Returns the differences as text, one line per block.
    fn shown(found: &str, expected: &str, exact: bool) -> Vec<String> {
        let blocks = compare_events(&events(found), &events(expected), exact);
        blocks.iter().map(|block| format!("{}: {}", block.what, block.lines.join(", "))).collect()
    }

    #[test]
    fn only_given_keys_are_compared_and_null_means_absent() {
        let found = r#"[{"timestamp":"t","a":1,"b":{"c":2,"d":3},"e":null}]"#;
        assert_eq!(
            shown(found, r#"[{"a":1.0,"b":{"c":2},"e":null,"x":null}]"#, false),
            Vec::<String>::new()
        );
        assert_eq!(
            shown(found, r#"[{"a":null,"b":{"c":"2"},"x":[1]}]"#, false),
            [format!(
                "event 1 of 1 differs: - a (none), + a: 1, - b.c: \"2\", + b.c: 2, - x: [1], + x (none), found {}",
                &found[1..found.len() - 1]
            )]
        );
        let exact = shown(found, r#"[{"a":1,"b":{"c":2}}]"#, true);
        assert!(exact[0].starts_with("event 1 of 1 differs: + b.d: 3, found "), "{exact:?}");
        assert_eq!(shown(found, r#"[{"a":1,"b":{"c":2,"d":3}}]"#, true), Vec::<String>::new());
    }

    #[test]
    fn values_differ_by_type_and_numbers_by_value() {
        let same = |left: &str, right: &str| {
            is_equal(&serde_json::from_str(left).unwrap(), &serde_json::from_str(right).unwrap())
        };
        for (left, right) in
            [("1", "1.0"), ("25e-2", "0.25"), ("[1,{\"a\":2}]", "[1.0,{\"a\":2.0}]")]
        {
            assert!(same(left, right), "{left} {right}");
        }
        for (left, right) in [
            ("1", "\"1\""),
            ("1", "true"),
            ("[1]", "[1,2]"),
            ("[{\"a\":1}]", "[{\"a\":1,\"b\":2}]"),
            ("18446744073709551615", "18446744073709551614"),
        ] {
            assert!(!same(left, right), "{left} {right}");
        }
    }

    #[test]
    fn only_the_timestamp_is_compared_as_a_time() {
        let found = r#"[{"timestamp":"2026-01-01T00:00:00.000Z","t":"2026-01-01T00:00:00.000Z"}]"#;
        assert_eq!(
            shown(found, r#"[{"timestamp":"2026-01-01T01:00:00.0004+01:00"}]"#, true).len(),
            1
        );
        assert_eq!(
            shown(found, r#"[{"timestamp":"2026-01-01T01:00:00.0004+01:00"}]"#, false).len(),
            0
        );
        assert_eq!(shown(found, r#"[{"t":"2026-01-01T01:00:00+01:00"}]"#, false).len(), 1);
        assert_eq!(shown(found, r#"[{"timestamp":"2026-01-01T00:00:01Z"}]"#, false).len(), 1);
    }

    #[test]
    fn a_missing_or_extra_event_does_not_shift_the_others() {
        let list = |names: &[&str]| {
            let all: Vec<String> =
                names.iter().map(|name| format!("{{\"m\":\"{name}\"}}")).collect();
            format!("[{}]", all.join(","))
        };
        let shown = |found: &[&str], expected: &[&str]| shown(&list(found), &list(expected), false);
        assert_eq!(
            shown(&["a", "c", "d"], &["a", "b", "c", "d"]),
            ["event 2 of 4 is missing: - {\"m\":\"b\"}"]
        );
        assert_eq!(
            shown(&["x", "a", "b", "y", "c"], &["a", "B", "c"]),
            [
                "found event 1 of 5 is not expected: + {\"m\":\"x\"}",
                "event 2 of 3 differs: - m: \"B\", + m: \"b\", found {\"m\":\"b\"}",
                "found event 4 of 5 is not expected: + {\"m\":\"y\"}",
            ]
        );
        assert_eq!(
            shown(&["a", "b"], &["A", "b", "c"]),
            [
                "event 1 of 3 differs: - m: \"A\", + m: \"a\", found {\"m\":\"a\"}",
                "event 3 of 3 is missing: - {\"m\":\"c\"}"
            ]
        );
        assert_eq!(
            shown(&["b", "c"], &["a", "b"]),
            [
                "event 1 of 2 is missing: - {\"m\":\"a\"}",
                "found event 2 of 2 is not expected: + {\"m\":\"c\"}"
            ]
        );
        assert_eq!(shown(&[], &["a"]), ["event 1 of 1 is missing: - {\"m\":\"a\"}"]);
        let many = vec!["z"; 30];
        let blocks = shown(&many, &[]);
        assert_eq!(
            (blocks.len(), blocks[SHOWN_MAX].as_str()),
            (SHOWN_MAX + 1, "10 more differences: ")
        );
    }

    /// For any two lists, with and without the table, the alignment contains every event of both
    /// once and in order.
    #[test]
    fn alignments_cover_both_lists() {
        for (expected, found) in [(0, 0), (0, 3), (4, 0), (5, 3), (3, 5), (7, 7), (1500, 1400)] {
            for step in 1..4 {
                let pairs = align(expected, found, |e, f| e == step * f);
                let (mut e, mut f) = (0, 0);
                for pair in pairs {
                    let at = match pair {
                        Pair::Same => (e == step * f).then_some((1, 1)),
                        Pair::Changed(left, right) => ((left, right) == (e, f)).then_some((1, 1)),
                        Pair::Missing(left) => (left == e).then_some((1, 0)),
                        Pair::Surplus(right) => (right == f).then_some((0, 1)),
                    };
                    let (left, right) =
                        at.unwrap_or_else(|| panic!("{expected} {found} {step}: {pair:?}"));
                    (e, f) = (e + left, f + right);
                }
                assert_eq!((e, f), (expected, found), "{step}");
            }
        }
    }
}
