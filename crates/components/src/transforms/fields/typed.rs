//! Steps on values: casts and hashes.

use super::config::Algorithm;
use super::{Noted, Step, change, column, plain, rows};
use crate::transforms::redact::{hmac, push_hex};
use crate::util::message::MESSAGE;
use millstream_model::{Batch, Cell, CellKind, Column, ColumnBuilder};
use millstream_parsers::{Fields, Type};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Casts fields to types.
pub struct Cast(pub Vec<(Arc<str>, Type)>);

impl Step for Cast {
    fn apply(&self, batch: &mut Batch, noted: &mut Noted) {
        for (name, kind) in &self.0 {
            cast(batch, name, kind, noted);
        }
    }
}

fn cast(batch: &mut Batch, name: &Arc<str>, kind: &Type, noted: &mut Noted) {
    // The message always stays text. A field that was copied from it can be cast.
    let Some(source) = column(batch, name).filter(|_| &**name != MESSAGE) else { return };
    // Unescape the text into a separate column first, because cast values are in a different
    // buffer.
    let mut texts = source.edit();
    for row in rows(batch) {
        let cell = source.cells()[row];
        if let Some((_, text)) = plain(&mut texts, cell, source.bytes(&batch.block, cell)) {
            texts.set(row, text);
        }
    }
    let texts = texts.finish(name.clone());
    let mut fields = Fields::new(batch.rows(), texts.own());
    let field = fields.named(name);
    for (row, cell) in texts.cells().iter().enumerate() {
        fields.set(field, row, *cell);
    }
    for row in rows(batch) {
        let cell = texts.cells()[row];
        if cell.kind() != CellKind::Text {
            continue;
        }
        let is_kept =
            source.cells()[row].kind() == CellKind::Time && matches!(kind, Type::Timestamp(_));
        let new = match kind.cast(texts.bytes(&batch.block, cell), cell, batch.read_ns, &mut fields)
        {
            Some(new) => new,
            None if is_kept => cell.with_kind(CellKind::Time),
            None => {
                noted.failed.explain(|| format!("in field {name}"));
                fields.bad_type(row)
            }
        };
        fields.set(field, row, new);
    }
    fields.take_bad_types().into_iter().for_each(|row| noted.failed.add(row, "bad_type"));
    fields.finish().into_iter().for_each(|column: Column| batch.fields.set(column));
}

/// Replaces a value with its hash, as hexadecimal digits.
pub struct Hash {
    pub field: String,
    pub to: Arc<str>,
    pub algorithm: Algorithm,
    /// Key of an HMAC; `None` for a plain hash.
    pub key: Option<Vec<u8>>,
}

impl Step for Hash {
    fn apply(&self, batch: &mut Batch, _: &mut Noted) {
        let mut digits = Vec::new();
        change(batch, &self.field, &self.to, |made: &mut ColumnBuilder, cell: Cell, bytes| {
            let value = millstream_model::Value::Escaped(bytes);
            let text = match cell.kind() {
                CellKind::Absent | CellKind::Null => return cell,
                CellKind::True => b"true"[..].into(),
                CellKind::False => b"false"[..].into(),
                CellKind::Escaped => value.text().unwrap_or_default(),
                _ => bytes.into(),
            };
            digits.clear();
            match (&self.key, self.algorithm) {
                (Some(key), _) => push_hex(&hmac(key, &text), &mut digits),
                (None, Algorithm::Sha256) => push_hex(&Sha256::digest(&text), &mut digits),
                (None, Algorithm::Xxh3) => push_hex(&xxh3_64(&text).to_be_bytes(), &mut digits),
            }
            made.push(CellKind::Text, &digits)
        });
    }
}
