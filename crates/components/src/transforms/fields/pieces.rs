//! Steps that split and join values.

use super::{Noted, Step, change, column, plain, put, rows};
use memchr::memmem;
use millstream_model::{Batch, CellKind, Column, ColumnBuilder};
use std::sync::Arc;

/// Splits text into fields. The last field receives the rest.
pub struct Split {
    pub field: String,
    pub delimiter: String,
    pub to: Vec<Arc<str>>,
}

impl Step for Split {
    fn apply(&self, batch: &mut Batch, _: &mut Noted) {
        let Some(source) = column(batch, &self.field) else { return };
        // The first piece may replace the field that is split, so compute all pieces first.
        let made: Vec<Column> =
            (0..self.to.len()).map(|index| self.piece(batch, &source, index)).collect();
        made.into_iter().for_each(|column| put(batch, column));
    }
}

impl Split {
    fn piece(&self, batch: &Batch, source: &Column, index: usize) -> Column {
        let mut made = source.edit();
        made.cells().fill(Default::default());
        let is_last = index + 1 == self.to.len();
        for row in rows(batch) {
            let cell = source.cells()[row];
            let text = plain(&mut made, cell, source.bytes(&batch.block, cell));
            let Some((text, whole)) = text else { continue };
            let delimiters = || memmem::find_iter(&text, self.delimiter.as_bytes());
            let begin = match index {
                0 => Some(0),
                _ => delimiters().nth(index - 1).map(|at| at + self.delimiter.len()),
            };
            let Some(begin) = begin else { continue };
            let end = delimiters().nth(index).filter(|_| !is_last).unwrap_or(text.len());
            made.set(row, whole.part(CellKind::Text, begin, end - begin));
        }
        made.finish(self.to[index].clone())
    }
}

/// Splits text into a JSON array.
pub struct SplitInto {
    pub field: String,
    pub delimiter: String,
    pub into: Arc<str>,
}

impl Step for SplitInto {
    fn apply(&self, batch: &mut Batch, _: &mut Noted) {
        change(batch, &self.field, &self.into, |made, cell, bytes| {
            let Some((text, _)) = plain(made, cell, bytes) else { return cell };
            let mut list = vec![b'['];
            let mut begin = 0;
            for at in memmem::find_iter(&text, self.delimiter.as_bytes()).chain([text.len()]) {
                push_string(&text[begin..at], &mut list);
                list.push(b',');
                begin = at + self.delimiter.len();
            }
            list.pop();
            list.push(b']');
            made.push(CellKind::Array, &list)
        });
    }
}

fn push_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    millstream_scan::escape_json(String::from_utf8_lossy(text).as_bytes(), out);
    out.push(b'"');
}

/// Joins the values of several fields.
pub struct Join {
    pub fields: Vec<String>,
    pub delimiter: String,
    pub to: Arc<str>,
}

impl Step for Join {
    fn apply(&self, batch: &mut Batch, _: &mut Noted) {
        let columns: Vec<Column> =
            self.fields.iter().filter_map(|name| column(batch, name)).collect();
        let mut made = ColumnBuilder::new(batch.rows());
        let mut text = Vec::new();
        for row in rows(batch) {
            let mut values = columns.iter().filter_map(|column| batch.value(column, row).plain());
            let Some(first) = values.next() else { continue };
            text.clear();
            text.extend_from_slice(&first);
            for value in values {
                text.extend_from_slice(self.delimiter.as_bytes());
                text.extend_from_slice(&value);
            }
            made.text(row, &text);
        }
        put(batch, made.finish(self.to.clone()));
    }
}
