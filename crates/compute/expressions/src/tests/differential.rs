//! Checks that evaluation over columns produces the same result as evaluation per row.

use super::table::{Random, Table};
use crate::eval::evaluate_condition;
use crate::input::{Bound, Counts, Input};
use crate::{Expression, Fault, Literal, Scratch, Test};
use millstream_testkit_random::{Seed, TestSize};

/// Generates random expressions from names, literals and operators, whose types often match.
struct Grammar<'r>(&'r mut Random);

const FIELDS: &[&str] = &[
    "a",
    "m",
    "text",
    "n",
    "a.b",
    "a.c.d",
    "a.t",
    "when",
    "source",
    "rest",
    "none",
    "event[\"m\"]",
    "event.a.b",
    "event[text]",
];
const LITERALS: &[&str] = &[
    "200",
    "-3",
    "0.25",
    "200.0",
    "9223372036854775808.0",
    "\"GET /api\"",
    "\"error\"",
    "\"\"",
    "null",
    "true",
    "timestamp(\"2026-01-02T03:04:05Z\")",
    "[200, 'x']",
    "duration('1s')",
];
const LISTS: &[&str] = &[
    "[200, 500]",
    "[\"GET /api\", \"x\"]",
    "[200.0, null]",
    "[]",
    "m",
    "a.c",
    "event",
    "[n, text]",
];

impl Grammar<'_> {
    fn condition(&mut self, depth: usize) -> String {
        if depth > 0 && self.0.below(2) == 0 {
            let (a, b) = (self.condition(depth - 1), self.condition(depth - 1));
            return match self.0.below(5) {
                0 => format!("({a} && {b} && {})", self.condition(depth - 1)),
                1 => format!("({a} || {b})"),
                2 => format!("({a} && {b})"),
                3 => format!("!{a}"),
                _ => format!("({a} ? {b} : {})", self.condition(depth - 1)),
            };
        }
        let field = self.0.pick(FIELDS);
        match self.0.below(9) {
            0..=2 => {
                let operator = self.0.pick(&["==", "!=", "<", "<=", ">", ">="]);
                let (value, is_left) = (self.value(), self.0.below(4) == 0);
                if is_left {
                    format!("{value} {operator} {field}")
                } else {
                    format!("{field} {operator} {value}")
                }
            }
            3 | 4 => {
                let name = self.0.pick(&["contains", "startsWith", "endsWith", "matches"]);
                let text =
                    self.0.pick(&["\"error\"", "\"/api\"", "\"GET\"", "\"\"", "\"GET /api\""]);
                format!("{field}.{name}({text})")
            }
            5 => format!("{field} in {}", self.0.pick(LISTS)),
            6 => format!(
                "has({})",
                self.0.pick(&["a", "m", "a.b", "event.rest", "none", "source", "when", "a.c.d"])
            ),
            7 => field.to_owned(),
            _ => format!("size({field}) > {}", self.0.below(10)),
        }
    }

    fn value(&mut self) -> String {
        match self.0.below(4) {
            0 => self.0.pick(FIELDS).to_owned(),
            1 => format!("({} + {})", self.0.pick(FIELDS), self.0.pick(LITERALS)),
            _ => self.0.pick(LITERALS).to_owned(),
        }
    }
}

/// Compares both evaluations on a table. Returns the number of rows that match.
fn compare(expression: &Expression, table: &Table, seed: u64) -> u64 {
    table.with_input(|input| {
        let (mut words, mut counts) = (vec![7; 3], Counts::default());
        expression.matches(input, &mut words, &mut counts);
        let bound = Bound::new(&expression.compiled.paths, input);
        let (mut expected, mut expected_counts) =
            (vec![0u64; table.rows.div_ceil(64)], Counts::default());
        for row in input.runs.iter().flat_map(|(start, end)| *start..*end) {
            match evaluate_condition(&expression.compiled.node, &bound, row) {
                Ok(holds) => expected[row / 64] |= u64::from(holds) << (row % 64),
                Err(error) => expected_counts.add(error),
            }
        }
        assert_eq!((&words, counts), (&expected, expected_counts), "seed {seed}: {expression}");
        compare_lists(expression, input, &words, seed);
        words.iter().map(|word| u64::from(word.count_ones())).sum()
    })
}

/// Checks that evaluating a list of rows, either all selected rows or every other one, finds the
/// same matching rows, both with the condition and with each of its conjuncts in turn.
fn compare_lists(expression: &Expression, input: &Input<'_>, words: &[u64], seed: u64) {
    let mut scratch = Scratch::default();
    let selected = input.runs.iter().flat_map(|(start, end)| *start as u32..*end as u32);
    let all: Vec<u32> = selected.collect();
    let others: Vec<u32> = all.iter().copied().step_by(2).collect();
    let conjuncts = expression.conjuncts().unwrap_or_default();
    for rows in [all, others] {
        let is_set = |row: &u32| words[*row as usize / 64] >> (row % 64) & 1 == 1;
        let expected: Vec<u32> = rows.iter().copied().filter(is_set).collect();
        let (mut whole, mut split) = (rows.clone(), rows);
        expression.retain(input, &mut whole, &mut scratch, &mut Counts::default());
        assert_eq!(whole, expected, "seed {seed}: {expression}");
        if conjuncts.is_empty() {
            continue;
        }
        for conjunct in &conjuncts {
            conjunct.retain(input, &mut split, &mut scratch, &mut Counts::default());
        }
        assert_eq!(split, expected, "seed {seed}: the conjuncts of {expression}");
    }
}

/// Number of conditions. Each has a separate table.
const CASES: TestSize = TestSize { gate: 4000, long: 200_000 };

#[test]
fn columns_and_rows_give_the_same_result() {
    let (mut sound, mut held) = (0u64, 0);
    for seed in Seed::of_test_or(1).cases(CASES) {
        let random = &mut Random::new(seed);
        let table = Table::random(random);
        let text = Grammar(random).condition(3);
        let read: Result<Expression, Fault> = Expression::parse(&text, seed % 2 == 0);
        if let Ok(expression) = read {
            sound += 1;
            held += compare(&expression, &table, seed);
        }
    }
    let cases = CASES.get();
    assert!(sound > cases / 2 && held > cases, "{sound} of {cases} are sound, {held} rows held");
}

/// Number of tables to search.
const SEARCHES: TestSize = TestSize { gate: 2000, long: 100_000 };

#[test]
fn a_search_over_the_block_finds_the_same_rows() {
    let contains =
        Expression::parse("text.contains(\"error\") || m.contains(\"/api\")", true).unwrap();
    let held: u64 = Seed::of_test_or(1)
        .cases(SEARCHES)
        .map(|seed| compare(&contains, &Table::random(&mut Random::new(seed)), seed))
        .sum();
    assert!(held > 1000, "{held}");
}

#[test]
fn a_conjunct_says_what_it_tests() {
    let text = "a == 'x' && (3 == n && m in ['p', 4]) && text.contains('err') && \
                m.startsWith('GET') && m.endsWith('z') && m.matches('a+b') && n > 5 && has(a.b) && \
                (a == 'y' || n == 2) && [1].all(x, x > 0) && n == 0.5 && [2].exists(x, x == n)";
    let conjuncts = Expression::condition(text).unwrap().conjuncts().unwrap();
    let tests: Vec<Test<'_>> = conjuncts.iter().map(Expression::test).collect();
    assert_eq!(
        tests,
        [
            Test::OneOf("a", vec![Literal::Text(b"x")]),
            Test::OneOf("n", vec![Literal::Int(3)]),
            Test::OneOf("m", vec![Literal::Text(b"p"), Literal::Int(4)]),
            Test::Contains("text", b"err"),
            Test::StartsWith("m", b"GET"),
            Test::EndsWith("m", b"z"),
            Test::Matches("m", "a+b"),
            Test::Compare("n"),
            Test::Compare("a.b"),
            Test::Other,
            Test::Compare("n"),
            Test::Other,
        ]
    );
}
