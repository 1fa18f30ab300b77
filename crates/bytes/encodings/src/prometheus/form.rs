//! Labels as they are written: made once for each series.

use super::distribution::Distributions;
use super::labels::{LabelSet, QUANTILE};
use super::protobuf::{push_bytes, varint_len};
use crate::metric::Kind;

/// How the labels of a new series are written. What is written is also what tells series apart.
pub trait Form {
    /// Appends the labels of everything that a series of this kind emits.
    fn render(&self, set: &LabelSet, kind: Kind, out: &mut Vec<u8>);

    /// The labels of each thing that is emitted: no other series may have them.
    fn blocks(labels: &[u8]) -> impl Iterator<Item = &[u8]>;
}

/// As remote write 1.0 has them. Several blocks, each with its length in four bytes before it: one
/// for a number or a native histogram; for a summary one for each quantile, then those of the sum
/// and the count.
pub struct RemoteForm {
    quantiles: Vec<String>,
    is_summary: bool,
}

impl RemoteForm {
    /// The form for distributions that are emitted in this way.
    pub fn new(distributions: &Distributions) -> RemoteForm {
        let quantiles = match distributions {
            Distributions::Summary(quantiles) => quantiles.iter().map(f64::to_string).collect(),
            Distributions::Native => Vec::new(),
        };
        RemoteForm { quantiles, is_summary: matches!(distributions, Distributions::Summary(_)) }
    }
}

impl Form for RemoteForm {
    fn render(&self, set: &LabelSet, kind: Kind, out: &mut Vec<u8>) {
        if kind != Kind::Distribution || !self.is_summary {
            return push_block(set, b"", None, out);
        }
        for quantile in &self.quantiles {
            push_block(set, b"", Some(quantile.as_bytes()), out);
        }
        push_block(set, b"_sum", None, out);
        push_block(set, b"_count", None, out);
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
    // Sorted by name: capital letters stand before `_`.
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

/// The first block, and what follows it.
#[inline]
pub(super) fn split_block(blocks: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = blocks.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*len) as usize)
}

/// As text to be scraped: the name, `{` and the labels, without the `}`.
pub struct TextForm;

impl Form for TextForm {
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

    fn blocks(labels: &[u8]) -> impl Iterator<Item = &[u8]> {
        std::iter::once(labels)
    }
}
