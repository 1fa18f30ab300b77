//! Series as text to be scraped: format 0.0.4 and OpenMetrics.

use super::accumulator::{Accumulator, Entry, Nobody, Options};
use super::form::TextForm;
use super::rows::{Row, Rows};
use super::{Distributions, Refusal};
use crate::metric::Kind;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Bound;

/// How the text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// Prometheus' own, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl TextFormat {
    /// The format that a scraper prefers, by its header `Accept`: OpenMetrics if it names it.
    pub fn of_accept(accept: &str) -> TextFormat {
        let refuses = |part: &str| part.split(';').any(|of| matches!(of.trim(), "q=0" | "q=0.0"));
        let wants = |part: &str| {
            part.trim_start().starts_with("application/openmetrics-text") && !refuses(part)
        };
        if accept.split(',').any(wants) { TextFormat::OpenMetrics } else { TextFormat::Prometheus }
    }

    /// What the header `Content-Type` says of it.
    pub fn content_type(self) -> &'static str {
        match self {
            TextFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            TextFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Where a text that is written in pieces goes on.
#[derive(Clone, Debug, Default)]
pub struct Place {
    family: Box<[u8]>,
    /// Series of it that are written.
    written: usize,
    /// Whether its type is written.
    has_type: bool,
}

/// The last value of every series, by metric.
pub struct Exposition {
    accumulator: Accumulator<TextForm>,
    /// Quantiles as they are written.
    quantiles: Vec<String>,
    families: BTreeMap<Box<[u8]>, Family>,
}

struct Family {
    kind: Kind,
    entries: Vec<u32>,
}

impl Exposition {
    /// No series yet. Distributions are emitted as summaries, with no quantiles if the options
    /// say otherwise.
    pub fn new(options: Options) -> Exposition {
        let quantiles = match &options.distributions {
            Distributions::Summary(quantiles) => quantiles.iter().map(f64::to_string).collect(),
            Distributions::Native => Vec::new(),
        };
        let accumulator = Accumulator::new(options, TextForm);
        Exposition { accumulator, quantiles, families: BTreeMap::new() }
    }

    /// Series that are known.
    pub fn series(&self) -> usize {
        self.accumulator.series()
    }

    /// Values of labels that were cut since this was asked last.
    pub fn take_cut(&mut self) -> u64 {
        self.accumulator.take_cut()
    }

    /// Adds a row, whose texts are in `text`. `now_ms` is the wall clock, in milliseconds since
    /// 1970.
    ///
    /// # Errors
    /// It cannot be emitted.
    pub fn add(&mut self, at: (&Rows, &Row, &[u8]), now_ms: i64) -> Result<(), Refusal> {
        if !self.accumulator.is_known(at.1) {
            let (index, is_new) = self.accumulator.learn(at)?;
            if is_new {
                self.sort_in(index);
            }
        }
        self.accumulator.add(at, now_ms, &mut Nobody)
    }

    /// Puts a new series to its metric. One that is of another type there stays out.
    fn sort_in(&mut self, index: u32) {
        let entry = &self.accumulator.entries()[index as usize];
        let name = family(&entry.labels);
        if !self.families.contains_key(name) && !self.is_reserved(name, entry.kind) {
            self.families.insert(name.into(), Family { kind: entry.kind, entries: Vec::new() });
        }
        match self.families.get_mut(name) {
            Some(family) if family.kind == entry.kind => family.entries.push(index),
            _ => self.accumulator.refuse(index),
        }
    }

    /// Whether lines of a new metric would be those of another: a summary has some with `_sum` and
    /// `_count`.
    fn is_reserved(&self, name: &[u8], kind: Kind) -> bool {
        let is_summary =
            |stem| self.families.get(stem).is_some_and(|of| of.kind == Kind::Distribution);
        [&b"_sum"[..], b"_count"].iter().any(|suffix| {
            let has_other =
                kind == Kind::Distribution && self.families.contains_key(&*[name, suffix].concat());
            has_other || name.strip_suffix(*suffix).is_some_and(is_summary)
        })
    }

    /// Forgets series that have been idle for too long, if it is time to look for them. Not while a
    /// text is written in pieces: places move.
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

    /// Appends about `series_max` series from a place on; gives the place behind them, `None` at
    /// the end.
    pub fn write(
        &self,
        from: Place,
        series_max: usize,
        (format, now_ms): (TextFormat, i64),
        out: &mut Vec<u8>,
    ) -> Option<Place> {
        let mut left = series_max;
        let families =
            self.families.range::<[u8], _>((Bound::Included(&*from.family), Bound::Unbounded));
        for (name, family) in families {
            let goes_on = *from.family == **name;
            let (first, mut has_type) =
                if goes_on { (from.written, from.has_type) } else { (0, false) };
            for (at, index) in family.entries.iter().enumerate().skip(first) {
                if left == 0 {
                    return Some(Place { family: name.clone(), written: at, has_type });
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

    /// OpenMetrics has the name of a counter without `_total` here, and no other counters.
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
        let name_len = family(&entry.labels).len();
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

/// The metric's name: what stands before the labels.
fn family(labels: &[u8]) -> &[u8] {
    labels.split(|byte| *byte == b'{').next().unwrap_or_default()
}

/// Ends the labels, and appends a number and the line's end.
fn push_value(value: f64, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = match value {
        f64::INFINITY => writeln!(out, "}} +Inf"),
        f64::NEG_INFINITY => writeln!(out, "}} -Inf"),
        value if value.fract() == 0.0 && value.abs() < 1e15 => writeln!(out, "}} {}", value as i64),
        value => writeln!(out, "}} {value:?}"),
    };
}

#[cfg(test)]
mod tests;
