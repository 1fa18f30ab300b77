//! Loads that evaluate conditions over the columns of a block.

use super::events::{Block, access_parser};
use crate::load::Load;
use crate::text;
use millstream_columns::Column;
use millstream_expressions::{Counts, Expression, Field, Input};
use std::hint::black_box;

/// Conditions for all evaluation methods: numbers, strings, lists, patterns, arithmetic.
const CONDITIONS: &[&str] = &[
    "status >= 500",
    "method == 'POST'",
    "status in [500, 502, 503]",
    "path.startsWith('/api')",
    "http_user_agent.contains('Bot')",
    "status >= 400 && path.startsWith('/api') && !http_user_agent.contains('Bot')",
    "path.matches('^/api/v[0-9]+/')",
    "request_time > 0.5",
    "status / 100 == 5",
];

/// Evaluates all conditions over the fields of access lines.
pub fn filter() -> Load {
    let block = Block::new(text::access);
    let columns = block.parse(&mut access_parser());
    let read = |text: &&str| Expression::condition(text).expect("a condition");
    let conditions: Vec<Expression> = CONDITIONS.iter().map(read).collect();
    let mut words = Vec::new();
    Load::new("line", move || {
        for condition in &conditions {
            matches(condition, &block, &columns, &mut words);
            black_box(&words);
        }
        block.cells.len() as u64
    })
}

fn matches(condition: &Expression, block: &Block, columns: &[Column], words: &mut Vec<u64>) {
    let rows = block.cells.len();
    let runs = [(0, rows)];
    let field = |name: &str| columns.iter().find(|column| &*column.name == name).map(Field::from);
    let input = Input { block: &block.text, rows, runs: &runs, field: &field, rest: None };
    let mut counts = Counts::default();
    condition.matches(&input, words, &mut counts);
    assert_eq!(counts, Counts::default(), "every field exists in every row");
}
