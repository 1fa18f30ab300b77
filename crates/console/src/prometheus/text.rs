//! The output form of metrics: the text format, or one call per series.

use millstream_model::secrets::mask;
use millstream_model::snapshot::ComponentSnapshot;
use millstream_model::{HistogramSnapshot, InternalMetric};
use std::borrow::Cow;
use std::fmt::{self, Display, Write};

/// Returns the labels that all metrics of a component share.
pub fn labels(component: &ComponentSnapshot) -> [(&'static str, &str); 3] {
    [
        ("component_id", &component.id),
        ("component_type", component.type_name),
        ("component_kind", component.kind),
    ]
}

/// Destination of metrics: a string or a callback.
pub struct Text<'a>(Out<'a>);

enum Out<'a> {
    /// The text format.
    Text(&'a mut String),
    /// A callback that is called for each sample, and whether the current family is a counter.
    Each { each: &'a mut dyn FnMut(&InternalMetric<'_>), is_counter: bool },
}

impl<'a> Text<'a> {
    /// Creates metrics in the text format, which are appended to `text`.
    pub fn new(text: &'a mut String) -> Text<'a> {
        Text(Out::Text(text))
    }

    /// Creates metrics that are passed to `each`, one sample at a time.
    pub fn calls(each: &'a mut dyn FnMut(&InternalMetric<'_>)) -> Text<'a> {
        Text(Out::Each { each, is_counter: false })
    }
}

impl Text<'_> {
    /// Starts a metric family of the type `kind`.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        match &mut self.0 {
            Out::Text(text) => {
                line(text, format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"))
            }
            // Buckets, sum and count of a histogram are counters.
            Out::Each { is_counter, .. } => *is_counter = matches!(kind, "counter" | "histogram"),
        }
    }

    /// Adds a sample of the current family.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let shown: Vec<(&str, Cow<'_, str>)> =
            labels.iter().map(|(label, value)| (*label, shown(value))).collect();
        let text = match &mut self.0 {
            Out::Text(text) => text,
            Out::Each { each, is_counter } => {
                // Round to the value in the text, so that both outputs agree.
                let value = value.to_string().parse().unwrap_or(f64::NAN);
                let labels: Vec<(&str, &str)> =
                    shown.iter().map(|(label, value)| (*label, &**value)).collect();
                let labels = &labels[..];
                return each(&InternalMetric { name, labels, is_counter: *is_counter, value });
            }
        };
        text.push_str(name);
        for (index, (label, value)) in shown.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            line(text, format_args!("{before}{label}=\"{}\"", Escaped(value)));
        }
        let close = if labels.is_empty() { "" } else { "}" };
        line(text, format_args!("{close} {value}\n"));
    }

    /// Adds the samples of a histogram in the current family.
    pub fn histogram(
        &mut self,
        name: &str,
        labels: &[(&str, &str); 3],
        histogram: &HistogramSnapshot,
    ) {
        let [id, type_name, kind] = *labels;
        for (bound, count) in histogram.buckets() {
            let bound = Float(bound).to_string();
            self.sample(&format!("{name}_bucket"), &[id, type_name, kind, ("le", &bound)], count);
        }
        self.sample(&format!("{name}_sum"), labels, Float(histogram.sum_seconds));
        self.sample(&format!("{name}_count"), labels, histogram.count());
    }

    pub fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }
}

fn line(to: &mut String, text: fmt::Arguments) {
    // Writing to memory does not fail.
    let _ = to.write_fmt(text);
}

/// Returns a label value as it leaves the agent: secrets are masked, and control characters are
/// escaped so that they cannot move a terminal's cursor.
fn shown(value: &str) -> Cow<'_, str> {
    let masked = mask(value);
    if !masked.contains(char::is_control) {
        return masked;
    }
    let mut escaped = String::with_capacity(masked.len());
    for character in masked.chars() {
        match character.is_control() {
            true => escaped.extend(character.escape_default()),
            false => escaped.push(character),
        }
    }
    Cow::Owned(escaped)
}

/// A label value that is displayed with escapes.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// A number that is displayed with the special values of the format.
pub struct Float(pub f64);

impl Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            value if value == f64::INFINITY => f.write_str("+Inf"),
            value if value == f64::NEG_INFINITY => f.write_str("-Inf"),
            value => value.fmt(f),
        }
    }
}

/// A number that a counter can hold.
pub trait Number {
    fn shown(self) -> impl Display;
}

impl Number for u64 {
    fn shown(self) -> impl Display {
        self
    }
}

impl Number for f64 {
    fn shown(self) -> impl Display {
        Float(self)
    }
}
