//! Rendering of labels, once per series.

use super::distribution::Distributions;
use super::labels::{LabelSet, QUANTILE};
use super::protobuf::{push_bytes, varint_len};
use crate::metric::Kind;

/// Renders the labels of a new series. The rendered bytes also identify the series.
pub trait LabelFormat {
    /// Appends the labels for every series that a raw series of this kind emits.
    fn render(&self, set: &LabelSet, kind: Kind, out: &mut Vec<u8>);

    /// Returns whether a series of this kind also emits its sum and count as suffixed series.
    fn has_sum_and_count(&self, kind: Kind) -> bool;

    /// Splits rendered labels into blocks, one per emitted series. Two series never share a block.
    fn blocks(labels: &[u8]) -> impl Iterator<Item = &[u8]>;
}

/// Renders labels for remote write 1.0. Each block has a 4-byte length prefix. A number or native
/// histogram has one block. A summary has one block per quantile, one for the sum, and one for the
/// count.
pub struct RemoteWriteLabels {
    quantiles: Vec<String>,
    is_summary: bool,
}

impl RemoteWriteLabels {
    /// Creates a format for one way to emit distributions.
    pub fn new(distributions: &Distributions) -> RemoteWriteLabels {
        let quantiles = match distributions {
            Distributions::Summary(quantiles) => quantiles.iter().map(f64::to_string).collect(),
            Distributions::Native => Vec::new(),
        };
        RemoteWriteLabels {
            quantiles,
            is_summary: matches!(distributions, Distributions::Summary(_)),
        }
    }
}

impl LabelFormat for RemoteWriteLabels {
    fn render(&self, set: &LabelSet, kind: Kind, out: &mut Vec<u8>) {
        if !self.has_sum_and_count(kind) {
            return push_block(set, b"", None, out);
        }
        for quantile in &self.quantiles {
            push_block(set, b"", Some(quantile.as_bytes()), out);
        }
        push_block(set, b"_sum", None, out);
        push_block(set, b"_count", None, out);
    }

    fn has_sum_and_count(&self, kind: Kind) -> bool {
        kind == Kind::Distribution && self.is_summary
    }

    fn blocks(mut labels: &[u8]) -> impl Iterator<Item = &[u8]> {
        std::iter::from_fn(move || {
            let (block, rest) = split_block(labels)?;
            labels = rest;
            Some(block)
        })
    }
}

fn push_block(set: &LabelSet, suffix: &[u8], quantile: Option<&[u8]>, out: &mut Vec<u8>) {
    let name = [set.family(), suffix].concat();
    let mut labels: Vec<(&[u8], &[u8])> = set.labels().collect();
    // Sorted by name. Uppercase letters sort before `_`.
    let mut insert = |name: &'static [u8], value| {
        let at = labels.partition_point(|(before, _)| *before < name);
        labels.insert(at, (name, value));
    };
    insert(b"__name__", &name);
    quantile.into_iter().for_each(|quantile| insert(QUANTILE, quantile));
    let field_len = |len: usize| 1 + varint_len(len as u64) + len;
    let label_len = |(name, value): &(&[u8], &[u8])| field_len(name.len()) + field_len(value.len());
    let total: usize = labels.iter().map(|label| field_len(label_len(label))).sum();
    out.extend_from_slice(&(total as u32).to_le_bytes());
    for label in &labels {
        out.push(0x0A);
        super::protobuf::push_varint(label_len(label) as u64, out);
        push_bytes(1, label.0, out);
        push_bytes(2, label.1, out);
    }
}

/// Splits off the first block. Returns `None` if there is no complete block.
#[inline]
pub(super) fn split_block(blocks: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = blocks.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*len) as usize)
}

/// Renders labels for scrape text: the name, `{`, and the labels, without the closing `}`.
pub struct TextLabels;

impl LabelFormat for TextLabels {
    fn render(&self, set: &LabelSet, _: Kind, out: &mut Vec<u8>) {
        out.extend_from_slice(set.family());
        out.push(b'{');
        for (index, (name, value)) in set.labels().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(name);
            out.extend_from_slice(b"=\"");
            for byte in value {
                match byte {
                    b'\\' => out.extend_from_slice(b"\\\\"),
                    b'"' => out.extend_from_slice(b"\\\""),
                    b'\n' => out.extend_from_slice(b"\\n"),
                    byte => out.push(*byte),
                }
            }
            out.push(b'"');
        }
    }

    fn has_sum_and_count(&self, kind: Kind) -> bool {
        kind == Kind::Distribution
    }

    fn blocks(labels: &[u8]) -> impl Iterator<Item = &[u8]> {
        std::iter::once(labels)
    }
}
