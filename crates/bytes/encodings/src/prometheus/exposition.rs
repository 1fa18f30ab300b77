//! Exposes series as scrape text, in the Prometheus 0.0.4 or OpenMetrics format.

use super::accumulator::{Accumulator, Entry, NullCollector, Options};
use super::form::TextLabels;
use super::overflow::OVERFLOW_TEXT;
use super::rows::RowPlace;
use super::{Distributions, NameConflict, RejectReason};
use crate::metric::Kind;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Bound;

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// The Prometheus text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl TextFormat {
    /// Returns the format for a scraper's `Accept` header: OpenMetrics if the header lists it.
    pub fn from_accept(accept: &str) -> TextFormat {
        let rejects = |part: &str| {
            part.split(';').any(|parameter| matches!(parameter.trim(), "q=0" | "q=0.0"))
        };
        let accepts = |part: &str| {
            part.trim_start().starts_with("application/openmetrics-text") && !rejects(part)
        };
        if accept.split(',').any(accepts) {
            TextFormat::OpenMetrics
        } else {
            TextFormat::Prometheus
        }
    }

    /// Returns the value of the `Content-Type` header.
    pub fn content_type(self) -> &'static str {
        match self {
            TextFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            TextFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Position at which writing in chunks continues.
#[derive(Clone, Debug, Default)]
pub struct WritePosition {
    family: Box<[u8]>,
    /// Number of series in the family that are already written.
    written: usize,
    /// Whether the family's `# TYPE` line is already written.
    has_type: bool,
}

/// The series to which a row was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The row's own series.
    Series,
    /// The overflow series, because this limit rejects the row's own series.
    Overflow(RejectReason),
}

/// The last value of every series, grouped by metric family.
pub struct Exposition {
    accumulator: Accumulator<TextLabels>,
    /// The quantiles, formatted as label values.
    quantiles: Vec<String>,
    families: BTreeMap<Box<[u8]>, Family>,
}

struct Family {
    kind: Kind,
    entries: Vec<u32>,
}

impl Exposition {
    /// Creates an exposition without series. Distributions are always exposed as summaries. The
    /// summaries have no quantiles if the options select histograms.
    pub fn new(options: Options) -> Exposition {
        let quantiles = match &options.distributions {
            Distributions::Summary(quantiles) => quantiles.iter().map(f64::to_string).collect(),
            Distributions::Native => Vec::new(),
        };
        let accumulator = Accumulator::new(options, TextLabels);
        Exposition { accumulator, quantiles, families: BTreeMap::new() }
    }

    /// Sets whether new series are registered. Otherwise, they are rejected.
    pub fn set_may_grow(&mut self, may_grow: bool) {
        self.accumulator.set_may_grow(may_grow);
    }

    /// Returns the number of series.
    pub fn series(&self) -> usize {
        self.accumulator.series()
    }

    /// Returns the number of label values truncated since the last call.
    pub fn take_cut(&mut self) -> u64 {
        self.accumulator.take_cut()
    }

    /// Returns the number of tags joined to the label of a different tag since the last call.
    pub fn take_joined(&mut self) -> u64 {
        self.accumulator.take_joined()
    }

    /// Returns the name conflicts found since the last call.
    pub fn take_conflicts(&mut self) -> Vec<NameConflict> {
        self.accumulator.take_conflicts()
    }

    /// Adds a row. If a limit rejects the series of a counter, the row's increment is added to the
    /// overflow series. `now_ms` is the wall clock time in milliseconds since 1970.
    ///
    /// # Errors
    /// Returns the reason why the row is rejected.
    pub fn add(&mut self, place: RowPlace<'_>, now_ms: i64) -> Result<Added, RejectReason> {
        let Err(reason) = self.add_to_series(place, now_ms) else {
            return Ok(Added::Series);
        };
        let rows = place.rows;
        let row = rows.overflow(place.row, reason, self.accumulator.seed()).ok_or(reason)?;
        self.add_to_series(RowPlace { rows, row: &row, text: OVERFLOW_TEXT }, now_ms)?;
        Ok(Added::Overflow(reason))
    }

    fn add_to_series(&mut self, place: RowPlace<'_>, now_ms: i64) -> Result<(), RejectReason> {
        if !self.accumulator.is_known(place.row) {
            let (index, is_new) = self.accumulator.register(place)?;
            if is_new {
                self.add_to_family(index);
            }
        }
        self.accumulator.add(place, now_ms, &mut NullCollector)
    }

    /// Adds a new series to its family. If the family has another type, all rows of the series are
    /// rejected.
    fn add_to_family(&mut self, index: u32) {
        let entry = &self.accumulator.entries()[index as usize];
        let name = family_name(&entry.labels);
        if !self.families.contains_key(name) {
            self.families.insert(name.into(), Family { kind: entry.kind, entries: Vec::new() });
        }
        match self.families.get_mut(name) {
            Some(family) if family.kind == entry.kind => family.entries.push(index),
            _ => self.accumulator.reject(index),
        }
    }

    /// Expires idle series if a check is due. Must not be called between chunks of one response,
    /// because expiry moves positions.
    pub fn sweep(&mut self, now_ms: i64) {
        if !self.accumulator.sweep(now_ms) {
            return;
        }
        let entries = self.accumulator.entries();
        for family in self.families.values_mut() {
            family.entries.retain(|index| !entries[*index as usize].labels.is_empty());
        }
        self.families.retain(|_, family| !family.entries.is_empty());
    }

    /// Appends up to `series_max` series, starting at `from`. Returns the position at which to
    /// continue, or `None` after the last series.
    pub fn write(
        &self,
        from: WritePosition,
        series_max: usize,
        format: TextFormat,
        now_ms: i64,
        out: &mut Vec<u8>,
    ) -> Option<WritePosition> {
        let mut left = series_max;
        let families =
            self.families.range::<[u8], _>((Bound::Included(&*from.family), Bound::Unbounded));
        for (name, family) in families {
            let resumes = *from.family == **name;
            let (first, mut has_type) =
                if resumes { (from.written, from.has_type) } else { (0, false) };
            for (at, index) in family.entries.iter().enumerate().skip(first) {
                if left == 0 {
                    return Some(WritePosition { family: name.clone(), written: at, has_type });
                }
                left -= 1;
                let entry = &self.accumulator.entries()[*index as usize];
                if !self.accumulator.is_alive(entry, now_ms) {
                    continue;
                }
                if !std::mem::replace(&mut has_type, true) {
                    self.write_type(name, family.kind, format, out);
                }
                self.write_entry(entry, out);
            }
        }
        if format == TextFormat::OpenMetrics {
            out.extend_from_slice(b"# EOF\n");
        }
        None
    }

    /// Writes the `# TYPE` line. In OpenMetrics, the family name of a counter excludes `_total`,
    /// and a counter without that suffix is invalid and therefore `unknown`.
    fn write_type(&self, name: &[u8], kind: Kind, format: TextFormat, out: &mut Vec<u8>) {
        let (name, kind) = match (kind, format) {
            (Kind::Gauge, _) => (name, "gauge"),
            (Kind::Distribution, _) => (name, "summary"),
            (Kind::Counter, TextFormat::Prometheus) => (name, "counter"),
            (Kind::Counter, TextFormat::OpenMetrics) => match name.strip_suffix(b"_total") {
                Some(stem) if !self.families.contains_key(stem) => (stem, "counter"),
                _ => (name, "unknown"),
            },
        };
        out.extend_from_slice(b"# TYPE ");
        out.extend_from_slice(name);
        out.push(b' ');
        out.extend_from_slice(kind.as_bytes());
        out.push(b'\n');
    }

    fn write_entry(&self, entry: &Entry, out: &mut Vec<u8>) {
        let Some(distribution) = &entry.distribution else {
            out.extend_from_slice(&entry.labels);
            return push_value(entry.value, out);
        };
        let name_len = family_name(&entry.labels).len();
        for (quantile, value) in self.quantiles.iter().zip(&distribution.quantiles) {
            out.extend_from_slice(&entry.labels);
            if entry.labels.len() > name_len + 1 {
                out.push(b',');
            }
            out.extend_from_slice(b"quantile=\"");
            out.extend_from_slice(quantile.as_bytes());
            out.push(b'"');
            push_value(*value, out);
        }
        for (suffix, value) in
            [("_sum", distribution.total.sum), ("_count", distribution.total.count)]
        {
            let (name, labels) = entry.labels.split_at(name_len);
            [name, suffix.as_bytes(), labels].iter().for_each(|part| out.extend_from_slice(part));
            push_value(value, out);
        }
    }
}

/// Returns the family name, which is at the front of rendered labels.
fn family_name(labels: &[u8]) -> &[u8] {
    labels.split(|byte| *byte == b'{').next().unwrap_or_default()
}

/// Closes the labels and appends a value and a newline.
fn push_value(value: f64, out: &mut Vec<u8>) {
    // Writing to memory never fails.
    let _ = match value {
        f64::INFINITY => writeln!(out, "}} +Inf"),
        f64::NEG_INFINITY => writeln!(out, "}} -Inf"),
        value if value.fract() == 0.0 && value.abs() < 1e15 => writeln!(out, "}} {}", value as i64),
        value => writeln!(out, "}} {value:?}"),
    };
}

#[cfg(test)]
mod tests;
