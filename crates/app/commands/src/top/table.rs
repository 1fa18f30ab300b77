//! Tables of values: sorted, filtered, and fitted to a width.

use crate::text;
use std::cmp::Ordering;

/// A value of a cell. Its type determines how it is sorted and shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Unknown or not applicable.
    None,
    /// A name or a note.
    Text(String),
    /// A path. If it is too long, its end is shown.
    Path(String),
    /// A word with its rank in the order, lowest first.
    Ranked(u8, String),
    /// A count or a rate.
    Count(f64),
    /// Bytes.
    Bytes(f64),
    /// Megabytes per second.
    Megabytes(f64),
    /// A share of 1.
    Share(f64),
    /// Seconds.
    Seconds(f64),
}

impl Value {
    /// Returns a value in this unit, or [`Value::None`].
    pub fn of(number: Option<f64>, unit: fn(f64) -> Value) -> Value {
        number.filter(|number| number.is_finite()).map_or(Value::None, unit)
    }

    /// Returns the text for human readers.
    pub fn shown(&self) -> String {
        match self {
            Value::None => "-".to_owned(),
            Value::Text(text) | Value::Path(text) | Value::Ranked(_, text) => text::plain(text),
            Value::Count(number) => text::short(*number),
            Value::Bytes(number) => text::bytes(*number),
            Value::Megabytes(number) => format!("{number:.2}"),
            Value::Share(number) => format!("{:.0}%", number * 100.0),
            Value::Seconds(number) => text::seconds(*number),
        }
    }

    /// Returns the text for programs: a number without unit, and no spaces.
    pub fn exact(&self) -> String {
        match self {
            Value::Count(number) | Value::Bytes(number) => format!("{number:.0}"),
            Value::Share(number) | Value::Seconds(number) => format!("{number:.3}"),
            Value::Text(text) | Value::Path(text) if text.is_empty() => "-".to_owned(),
            Value::Text(_) | Value::Path(_) | Value::Ranked(..) => self.shown().replace(' ', "_"),
            Value::None | Value::Megabytes(_) => self.shown(),
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Value::None | Value::Text(_) | Value::Path(_) | Value::Ranked(..) => None,
            Value::Count(number)
            | Value::Bytes(number)
            | Value::Megabytes(number)
            | Value::Share(number)
            | Value::Seconds(number) => Some(*number),
        }
    }

    /// Compares values by their position in the order: numbers descending, strings ascending,
    /// unknown values last.
    fn order(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::None, Value::None) => Ordering::Equal,
            (Value::None, _) => Ordering::Greater,
            (_, Value::None) => Ordering::Less,
            (Value::Ranked(a, text), Value::Ranked(b, other)) => a.cmp(b).then(text.cmp(other)),
            (Value::Text(a) | Value::Path(a), Value::Text(b) | Value::Path(b)) => a.cmp(b),
            _ => match (self.number(), other.number()) {
                (Some(a), Some(b)) => b.total_cmp(&a),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => Ordering::Equal,
            },
        }
    }
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Heading of the column.
    pub name: &'static str,
    /// Rank of the column. Columns with the highest rank are omitted first if the width is small.
    pub rank: u8,
    /// Whether the values are numbers, which are aligned on the right.
    pub is_number: bool,
}

/// Returns a column of names or notes.
pub const fn words(name: &'static str, rank: u8) -> Column {
    Column { name, rank, is_number: false }
}

/// Returns a column of numbers.
pub const fn numbers(name: &'static str, rank: u8) -> Column {
    Column { name, rank, is_number: true }
}

/// The state of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Normal.
    #[default]
    Good,
    /// Needs attention.
    Warning,
    /// Does not work.
    Bad,
}

/// A row.
#[derive(Clone, Debug)]
pub struct Row {
    /// Identity of the row across intervals.
    pub key: String,
    /// One value per column.
    pub cells: Vec<Value>,
    /// State of the row.
    pub level: Level,
}

/// Columns and rows.
#[derive(Clone, Debug)]
pub struct Table {
    /// Columns. The first column takes the remaining width.
    pub columns: &'static [Column],
    /// The rows.
    pub rows: Vec<Row>,
    /// Note about the table, such as that it is incomplete.
    pub note: Option<String>,
}

/// The order of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sort {
    /// Index of the column; `None` for the order of the agent.
    pub column: Option<usize>,
    /// Whether the order is reversed.
    pub is_reversed: bool,
}

/// Minimum width of the first column before other columns are omitted.
const FIRST_COLUMNS_MIN: usize = 16;

/// Maximum width of any other text column.
const TEXT_COLUMNS_MAX: usize = 30;

impl Table {
    /// Keeps the rows with a cell whose text contains `filter`, ignoring case.
    pub fn filter(&mut self, filter: &str) {
        let filter = filter.to_lowercase();
        let has = |value: &Value| match value {
            Value::Text(text) | Value::Path(text) | Value::Ranked(_, text) => {
                text.to_lowercase().contains(&filter)
            }
            _ => false,
        };
        self.rows.retain(|row| filter.is_empty() || row.cells.iter().any(has));
    }

    /// Sorts the rows. Equal rows stay in the order in which the agent sent them.
    pub fn sort(&mut self, sort: Sort) {
        if let Some(column) = sort.column.filter(|column| *column < self.columns.len()) {
            self.rows.sort_by(|a, b| {
                let order = a.cells[column].order(&b.cells[column]);
                if sort.is_reversed { order.reverse() } else { order }
            });
        } else if sort.is_reversed {
            self.rows.reverse();
        }
    }

    /// Chooses the columns that fit into `width`, and their widths, with a space between two
    /// columns. The sorted column always stays.
    pub fn fit(&self, width: usize, sorted: Option<usize>) -> Vec<(usize, usize)> {
        let mut shown: Vec<(usize, usize)> =
            (0..self.columns.len()).map(|column| (column, self.natural(column))).collect();
        let first = shown.first().map_or(0, |(_, natural)| *natural);
        let taken = |shown: &[(usize, usize)]| -> usize {
            shown.iter().skip(1).map(|(_, natural)| natural + 1).sum()
        };
        while taken(&shown) + first.min(FIRST_COLUMNS_MIN) > width {
            let rank = |(at, (column, _)): (usize, &(usize, usize))| {
                let may_go = at > 0 && Some(*column) != sorted;
                may_go.then_some((self.columns[*column].rank, at))
            };
            let Some((_, at)) = shown.iter().enumerate().filter_map(rank).max() else { break };
            shown.remove(at);
        }
        let left = width.saturating_sub(taken(&shown));
        if let Some(first) = shown.first_mut() {
            first.1 = first.1.min(left);
        }
        shown
    }

    /// Returns the width that a column needs for all its values.
    fn natural(&self, column: usize) -> usize {
        // Reserve space for the mark of the sorted column.
        let heading = text::width(self.columns[column].name) + 1;
        let values = self.rows.iter().map(|row| text::width(&row.cells[column].shown()));
        let widest = values.max().unwrap_or(0).max(heading);
        if column == 0 { widest } else { widest.min(TEXT_COLUMNS_MAX) }
    }
}

/// Returns the text of a cell with this width.
pub fn cell(value: &Value, columns: usize, is_number: bool) -> String {
    let text = match value {
        Value::Path(_) => text::cut_start(&value.shown(), columns),
        _ => text::cut(&value.shown(), columns),
    };
    let blanks = " ".repeat(columns.saturating_sub(text::width(&text)));
    if is_number { blanks + &text } else { text + &blanks }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[words("id", 0), numbers("events/s", 1), words("type", 2)];

    fn table(rows: &[(&str, Value, &str)]) -> Table {
        let row = |(id, number, type_name): &(&str, Value, &str)| Row {
            key: (*id).to_owned(),
            cells: vec![
                Value::Text((*id).to_owned()),
                number.clone(),
                Value::Text((*type_name).to_owned()),
            ],
            level: Level::Good,
        };
        Table { columns: COLUMNS, rows: rows.iter().map(row).collect(), note: None }
    }

    fn keys(table: &Table) -> String {
        table.rows.iter().map(|row| row.key.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn numbers_sort_from_the_largest_and_texts_from_a() {
        let count = Value::Count;
        let rows = [("b", count(1.0), "x"), ("c", Value::None, "y"), ("a", count(9.0), "x")];
        let sorted = |column, is_reversed| {
            let mut table = table(&rows);
            table.sort(Sort { column, is_reversed });
            keys(&table)
        };
        assert_eq!(sorted(None, false), "b c a");
        assert_eq!(sorted(Some(0), false), "a b c");
        assert_eq!(sorted(Some(1), false), "a b c");
        assert_eq!(sorted(Some(1), true), "c b a");
        assert_eq!(sorted(Some(2), false), "b a c");
        assert_eq!(sorted(Some(7), false), "b c a");
    }

    /// An inconsistent order, for example one in which strings are equal to unknown values, may
    /// cause a panic.
    #[test]
    fn texts_and_statuses_come_before_what_is_not_known() {
        let values = [
            Value::None,
            Value::Text("b".to_owned()),
            Value::Ranked(1, "a".to_owned()),
            Value::None,
            Value::Text("a".to_owned()),
            Value::Ranked(0, "z".to_owned()),
            Value::Count(1.0),
        ];
        let sorted = |select: fn(&Value) -> bool| {
            let mut sorted: Vec<&Value> = values.iter().filter(|value| select(value)).collect();
            sorted.sort_by(|a, b| a.order(b));
            sorted.iter().map(|value| value.shown()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(sorted(|value| matches!(value, Value::None | Value::Text(_))), "a b - -");
        assert_eq!(sorted(|value| matches!(value, Value::None | Value::Ranked(..))), "z a - -");
        let text = Value::Text("a".to_owned());
        for other in &values {
            assert_eq!(text.order(other), other.order(&text).reverse(), "{other:?}");
        }
    }

    #[test]
    fn a_filter_looks_at_every_text() {
        let mut all = table(&[("App", Value::Count(7.0), "file"), ("b", Value::None, "kafka")]);
        all.filter("aP");
        assert_eq!(keys(&all), "App");
        let mut all = table(&[("App", Value::Count(7.0), "file"), ("b", Value::None, "kafka")]);
        all.filter("KAF");
        assert_eq!(keys(&all), "b");
        all.filter("7");
        assert_eq!(keys(&all), "");
    }

    #[test]
    fn columns_are_left_out_by_rank_but_not_the_sorted_one() {
        let long = "i".repeat(40);
        let table = table(&[(&long, Value::Count(7.0), "file")]);
        let columns = |width, sorted| {
            let fitted = table.fit(width, sorted);
            fitted.iter().map(|(column, _)| *column).collect::<Vec<_>>()
        };
        assert_eq!(table.fit(80, None), [(0, 40), (1, 9), (2, 5)]);
        assert_eq!(table.fit(40, None)[0].1, 40 - 10 - 6);
        assert_eq!(columns(30, None), [0, 1]);
        assert_eq!(columns(30, Some(2)), [0, 2]);
        assert_eq!(columns(10, None), [0]);
        assert_eq!(table.fit(0, None), [(0, 0)]);
    }

    #[test]
    fn a_program_gets_numbers_without_units() {
        assert_eq!(Value::Count(12_345.4).exact(), "12345");
        assert_eq!(Value::Seconds(0.5).exact(), "0.500");
        assert_eq!(Value::Text("a b\n".to_owned()).exact(), "a_b\\n");
        assert_eq!(Value::None.exact(), "-");
    }
}
