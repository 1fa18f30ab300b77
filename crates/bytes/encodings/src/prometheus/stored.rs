//! A form of rows without process-specific data, so that another process can restore them.

use super::distribution::Distributions;
use super::rows::{Row, Rows, key, seed_of_host};
use crate::metric::Kind;

/// A row in its stored form. The strings of consecutive rows are adjacent in the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoredRow<'n> {
    /// Length of the name, in bytes.
    pub name_len: u32,
    /// Length of the tags in bytes. The tags follow the name.
    pub tags_len: u32,
    /// The type.
    pub kind: Kind,
    /// Whether the value is a delta, which must be added to a sum.
    pub is_delta: bool,
    /// The value if the metric is a number. Unused for distributions.
    pub value: f64,
    /// End of the period, in milliseconds since 1970.
    pub time_ms: i64,
    /// Length of the period in milliseconds, or 0 if it is unknown.
    pub interval_ms: u32,
    /// The numbers of a distribution.
    pub numbers: &'n [f64],
}

impl Rows {
    /// Returns the rows in their stored form. The text of the batch must begin with the first name.
    pub fn stored(&self) -> impl Iterator<Item = StoredRow<'_>> {
        self.rows().iter().map(|row| StoredRow {
            name_len: row.name_len,
            tags_len: row.tags_len,
            kind: row.kind,
            is_delta: row.is_delta,
            value: row.value,
            time_ms: row.time_ms,
            interval_ms: row.interval_ms,
            numbers: self.numbers(row),
        })
    }
}

/// Maximum absolute time in milliseconds since 1970 that fits 64 bits in nanoseconds.
const TIME_MS_MAX: u64 = i64::MAX as u64 / 1_000_000 + 1;

/// Restores stored rows.
pub struct RestoredRows<'a> {
    distributions: &'a Distributions,
    seed: u64,
    /// The text of the rows that are not restored yet.
    text: &'a str,
    text_at: u32,
    rows: Rows,
}

impl<'a> RestoredRows<'a> {
    /// Starts restoring rows whose text is `text`. The other arguments are the same as for
    /// [`RowsBuilder::new`](super::RowsBuilder::new). Returns `None` if `text` cannot be the text
    /// of rows.
    pub fn new(
        distributions: &'a Distributions,
        seed: u64,
        host: &str,
        text: &'a [u8],
    ) -> Option<RestoredRows<'a>> {
        u32::try_from(text.len()).ok()?;
        Some(RestoredRows {
            distributions,
            seed: seed_of_host(host, seed),
            text: str::from_utf8(text).ok()?,
            text_at: 0,
            rows: Rows { host: host.into(), ..Rows::default() },
        })
    }

    /// Restores the next row. Returns `None` if the row contradicts the text or the distributions.
    /// In that case, all of the rows are unusable.
    pub fn push(&mut self, row: &StoredRow<'_>) -> Option<()> {
        let (name_len, strings_len) = (row.name_len, row.name_len.checked_add(row.tags_len)?);
        let (strings, rest) = self.text.split_at_checked(strings_len as usize)?;
        let is_split = strings.is_char_boundary(name_len as usize) && name_len > 0;
        let is_number = row.kind != Kind::Distribution && row.numbers.is_empty();
        let is_distribution =
            row.kind == Kind::Distribution && self.distributions.has_form(row.numbers);
        if !is_split || !(is_number || is_distribution) || row.time_ms.unsigned_abs() > TIME_MS_MAX
        {
            return None;
        }
        self.rows.rows.push(Row {
            key: key(strings.as_bytes(), name_len, row.kind, row.is_delta, self.seed),
            value: row.value,
            time_ms: row.time_ms,
            interval_ms: row.interval_ms,
            text_at: self.text_at,
            name_len,
            tags_len: row.tags_len,
            numbers_at: u32::try_from(self.rows.numbers.len()).ok()?,
            numbers_len: row.numbers.len() as u32,
            kind: row.kind,
            is_delta: row.is_delta,
        });
        self.rows.numbers.extend_from_slice(row.numbers);
        (self.text, self.text_at) = (rest, self.text_at + strings_len);
        Some(())
    }

    /// Returns the rows, or `None` if unused text remains.
    pub fn finish(self) -> Option<Rows> {
        self.text.is_empty().then_some(self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{Metric, SketchText, Temporality, Value};
    use crate::prometheus::RowsBuilder;

    const SKETCH: &[u8] =
        br#"{"count":4,"sum":10,"min":1,"max":4,"values":[1,2,3,4],"weights":[1,1,1,1]}"#;

    /// Builds rows for a counter and a distribution.
    fn built(distributions: &Distributions, seed: u64) -> (Rows, Vec<u8>) {
        let mut rows = RowsBuilder::new(distributions, seed, "web-1", Vec::new());
        let metric = |name: &'static str, value| Metric {
            name: name.as_bytes(),
            tags: br#"{"x":"y"}"#,
            kind: Kind::Counter,
            temporality: Temporality::Delta,
            value,
            time_ns: 1_999_999_999,
            interval: 10.0,
        };
        rows.push(&metric("n\u{e9}", Value::Number(2.0)));
        rows.push(&metric("latency", Value::Sketch(SketchText::parse(SKETCH).unwrap())));
        rows.finish()
    }

    fn restored(
        stored: &[StoredRow<'_>],
        text: &[u8],
        distributions: &Distributions,
        seed: u64,
    ) -> Option<Rows> {
        let mut rows = RestoredRows::new(distributions, seed, "web-1", text)?;
        stored.iter().try_for_each(|row| rows.push(row))?;
        rows.finish()
    }

    #[test]
    fn rows_have_the_keys_of_the_process_that_restores_them() {
        for distributions in [Distributions::Native, Distributions::Summary(vec![0.5, 0.9])] {
            let (before, text) = built(&distributions, 1);
            let (expected, _) = built(&distributions, 2);
            let stored: Vec<StoredRow<'_>> = before.stored().collect();
            let rows = restored(&stored, &text, &distributions, 2).unwrap();
            assert_eq!((rows.rows(), &rows.numbers), (expected.rows(), &expected.numbers));
            assert_eq!(rows.host(), "web-1");
            assert_ne!(rows.rows()[0].key, before.rows()[0].key);
        }
    }

    #[test]
    fn rows_that_contradict_their_text_or_distributions_are_refused() {
        let native = Distributions::Native;
        let (rows, text) = built(&native, 1);
        let stored: Vec<StoredRow<'_>> = rows.stored().collect();
        assert!(restored(&stored[..1], &text, &native, 1).is_none(), "a row is missing");
        assert!(restored(&stored, b"\xFF", &native, 1).is_none(), "not a text");
        let summary = Distributions::Summary(vec![0.5]);
        assert!(restored(&stored, &text, &summary, 1).is_none(), "buckets are no quantiles");
        let wrong: [&[f64]; 4] = [
            &[4.0, 10.0, 0.0, 1.0, 1e9, 1.0],
            &[4.0, 10.0, 0.0, 1.0, 3.0, -1.0],
            &[4.0, 10.0, 0.0, 1.0, 3.0],
            &[f64::NAN, 10.0, 0.0, 1.0, 3.0, 1.0],
        ];
        let changes: [fn(&mut StoredRow<'_>); 7] = [
            |row| (row.name_len, row.tags_len) = (2, row.tags_len + 1),
            |row| row.name_len = 0,
            |row| row.tags_len = u32::MAX,
            |row| row.kind = Kind::Distribution,
            |row| row.time_ms = i64::MIN,
            |row| row.numbers = &[1.0],
            |row| row.tags_len -= 1,
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut changed = stored.clone();
            change(&mut changed[0]);
            assert!(restored(&changed, &text, &native, 1).is_none(), "change {number}");
        }
        for numbers in wrong {
            let changed = [stored[0], StoredRow { numbers, ..stored[1] }];
            assert!(restored(&changed, &text, &native, 1).is_none(), "{numbers:?}");
        }
    }
}
