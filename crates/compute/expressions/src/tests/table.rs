//! Random columns that share one block.

use crate::input::{Field, Input};
use fastrand::Rng;
use millstream_columns::{Cell, Column, ColumnBuilder, Kind};

/// A reproducible random number generator.
pub struct Random(Rng);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(Rng::with_seed(seed))
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0.usize(..bound)
    }

    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// Values of all kinds. There are only a few, so that equal values are common.
const VALUES: &[(Kind, &str)] = &[
    (Kind::Absent, ""),
    (Kind::Null, ""),
    (Kind::True, ""),
    (Kind::False, ""),
    (Kind::Int, "200"),
    (Kind::Int, "-3"),
    (Kind::Int, "500"),
    (Kind::Int, "9223372036854775808"),
    (Kind::Float, "200.0"),
    (Kind::Float, "0.25"),
    (Kind::Float, "1e999"),
    (Kind::Time, "2026-01-02T03:04:05Z"),
    (Kind::Time, "broken"),
    (Kind::Text, ""),
    (Kind::Text, "GET /api"),
    (Kind::Text, "an error at /api"),
    (Kind::Text, "\u{FC}ber"),
    (Kind::Escaped, "GET \\/api"),
    (Kind::Escaped, "plain error"),
    (Kind::Object, r#"{"b":200,"c":{"d":"GET /api"},"t":true}"#),
    (Kind::Object, "{}"),
    (Kind::Array, r#"[200,"GET /api",null]"#),
    (Kind::Members, r#""rest":"an error","a":5"#),
];

pub struct Table {
    pub block: Vec<u8>,
    pub columns: Vec<Column>,
    pub runs: Vec<(usize, usize)>,
    pub times: Vec<i64>,
    pub constants: Vec<(usize, &'static str)>,
    pub rows: usize,
}

impl Table {
    pub fn random(random: &mut Random) -> Table {
        let rows = 1 + random.below(140);
        let mut table = Table {
            block: Vec::new(),
            columns: Vec::new(),
            runs: runs(rows, random),
            times: (0..rows)
                .map(|_| 1_767_323_045_000_000_000 + random.below(3) as i64 - 1)
                .collect(),
            constants: vec![(random.below(rows), "GET /api"), (rows / 2 + rows, "error")],
            rows,
        };
        for name in ["a", "m", "text", "n", "a.b", "rest"] {
            let column = table.column(name, random);
            table.columns.push(column);
        }
        table
    }

    fn column(&mut self, name: &str, random: &mut Random) -> Column {
        let mut builder = ColumnBuilder::new(self.rows);
        for row in 0..self.rows {
            let (kind, text) = match name {
                "text" => random.pick(&VALUES[13..17]),
                "n" => random.pick(&VALUES[4..10]),
                "rest" => random.pick(&[VALUES[0], VALUES[22]]),
                _ => random.pick(&VALUES[..22]),
            };
            let cell = if matches!(kind, Kind::Absent | Kind::Null | Kind::True | Kind::False) {
                Cell::constant(kind)
            } else if random.below(20) == 0 {
                builder.push(kind, text.as_bytes())
            } else {
                self.block.extend_from_slice(if random.below(9) == 0 { b"error" } else { b" " });
                self.block.extend_from_slice(text.as_bytes());
                Cell::new(kind, self.block.len() - text.len(), text.len())
            };
            builder.set(row, cell);
        }
        builder.finish(name.into())
    }

    /// Calls `visit` with the table as an input.
    pub fn with_input<T>(&self, visit: impl FnOnce(&Input<'_>) -> T) -> T {
        let field = |name: &str| match name {
            "when" => Some(Field::Times(&self.times)),
            "source" => Some(Field::Constants(&self.constants)),
            "rest" => None,
            name => self.columns.iter().find(|column| &*column.name == name).map(Field::from),
        };
        visit(&Input {
            block: &self.block,
            rows: self.rows,
            runs: &self.runs,
            field: &field,
            rest: self.columns.last(),
        })
    }
}

fn runs(rows: usize, random: &mut Random) -> Vec<(usize, usize)> {
    if random.below(2) == 0 {
        return vec![(0, rows)];
    }
    let mut ends: Vec<usize> = (0..6).map(|_| random.below(rows + 1)).collect();
    ends.sort_unstable();
    ends.dedup();
    ends.chunks_exact(2).map(|ends| (ends[0], ends[1])).collect()
}
