//! Compares the fields with the groups that the `regex` crate finds.

use super::*;
use crate::harness::{mutate, parse, parse_line, show};
use millstream_testkit_random::{Seed, TestSize, property};
use proptest::prelude::*;

fn parser(pattern: &str, types: &[(&str, Type)]) -> Regex {
    let types =
        types.iter().map(|(name, field_type)| ((*name).to_owned(), field_type.clone())).collect();
    Regex::new(&RegexConfig { pattern: pattern.into(), types }).unwrap()
}

#[test]
fn named_groups_become_fields() {
    let types = [("status", Type::Int), ("took", Type::Float)];
    let mut access =
        parser(r"^(?P<method>[A-Z]+) (\S+) (?<status>\d+)(?: (?<took>[\d.]+))?(?<end>$)", &types);
    let shown = |parser: &mut Regex, line: &[u8]| show(&parse_line(parser, line));
    assert_eq!(shown(&mut access, b"GET / 200 0.5"), "method='GET' status=200 took=0.5 end=''");
    assert_eq!(shown(&mut access, b"GET / 007"), "method='GET' status=7 end=''");
    assert_eq!(shown(&mut access, b"get / 200"), "!no_match@0");
    assert_eq!(shown(&mut access, b""), "!no_match@0");
    assert_eq!(shown(&mut parser("(?<a>b+)", &[]), b"a\xFFbb\0b"), "a='bb'");
    let mut bytes = parser("x(?<a>(?s-u:.*))y", &[]);
    assert_eq!(parse_line(&mut bytes, b"x\xFF\ny").unwrap()[0].2, b"\xFF\n");
    let all = parse(&mut parser(r"(?<status>\S*) (?<b>.)", &types[..1]), &[b"x y", b"12 z"]);
    let lines: Vec<String> = all.lines.iter().map(show).collect();
    assert_eq!(
        (lines, all.bad_types),
        (vec!["status=Null b='y'".to_owned(), "status=12 b='z'".into()], 1)
    );
}

#[test]
fn errors_give_advice() {
    let fault = |pattern: &str| {
        let config = RegexConfig { pattern: pattern.into(), types: vec![("a".into(), Type::Int)] };
        Regex::new(&config).err().unwrap()
    };
    assert!(fault(r"(\d+)").contains("no named group"));
    assert!(fault("(?<a>x").contains("unclosed group"));
    assert!(fault("(?=a)(?<a>x)").contains("`(?=a)` is look-ahead, which is not supported; use"));
    assert!(fault(r"(?<a>x)\1").contains("backreferences are not supported"));
    assert!(!fault(r"(?<a>\d+)\Z").contains("backreferences"));
    assert!(fault("(?<b>x)").contains("`a`, which is not a group; the groups are b"));
    assert!(fault(r"(?<a>\w{1000}{1000})").contains("; use fewer"));
}

#[test]
fn a_clone_parses_the_same() {
    let mut first = parser("(?<a>[0-9]+)", &[("a", Type::Int)]);
    let mut second = first.clone_boxed();
    assert_eq!(parse_line(&mut first, b"x 12"), parse_line(&mut *second, b"x 12"));
}

/// Returns the parser and the equivalent expression in the `regex` crate.
fn both(pattern: &str) -> (Regex, ::regex::bytes::Regex) {
    (parser(pattern, &[]), ::regex::bytes::Regex::new(pattern).unwrap())
}

/// Compares every group with the result of the `regex` crate.
fn compare((parser, expression): &mut (Regex, ::regex::bytes::Regex), line: &[u8]) {
    let found = parse_line(parser, line);
    let Some(captures) = expression.captures(line) else {
        return assert_eq!(found, Err((NO_MATCH, 0)));
    };
    let expected = expression.capture_names().flatten().filter_map(|name| {
        let group = captures.name(name)?;
        Some((name.to_owned(), Kind::Text, group.as_bytes().to_vec()))
    });
    assert_eq!(found, Ok(expected.collect::<Vec<_>>()));
}

/// Number of mutated lines.
const LINES: TestSize = TestSize { gate: 20_000, long: 1_000_000 };

#[test]
fn mutated_lines_match_as_in_the_regex_crate() {
    let mut both = both(r#"(?<a>\S+) \[(?<b>[^\]]*)\] "(?<c>(?:[^"\\]|\\.)*)"(?: (?<d>\d+))?"#);
    let mut random = Seed::of_test_or(5).random();
    for _ in random.rounds(LINES) {
        let mut line = br#"10.0.0.1 [21/Nov/2026] "GET \"x\" HTTP/1.1" 200 tail"#.to_vec();
        mutate(&mut line, &[b"\"", b"\\", b"[", b"]", b" ", b"\xFF", b"9"], &mut random);
        compare(&mut both, &line);
    }
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    #[test]
    fn any_bytes_match_as_in_the_regex_crate(line in proptest::collection::vec(any::<u8>(), 0..60)) {
        compare(&mut both(r"(?<a>[^ ]*) ?(?<b>\w+)?(?<c>.$)?"), &line);
    }
}
