//! Steps on text: case, whitespace, substrings.

use super::{Noted, Step, change, plain};
use millstream_model::{Batch, Cell, CellKind, ColumnBuilder};
use std::borrow::Cow;
use std::sync::Arc;

/// A change to text.
#[derive(Clone, Copy)]
pub enum Edit {
    Lower,
    Upper,
    Trim,
}

/// Applies one edit to several fields.
pub struct Edits {
    pub edit: Edit,
    pub fields: Vec<Arc<str>>,
}

impl Step for Edits {
    fn apply(&self, batch: &mut Batch, _: &mut Noted) {
        for field in &self.fields {
            change(batch, field, field, |made, cell, bytes| match cell.kind() {
                CellKind::Text | CellKind::Escaped => self.edit.cell(made, cell, bytes),
                _ => cell,
            });
        }
    }
}

impl Edit {
    fn cell(self, made: &mut ColumnBuilder, cell: Cell, bytes: &[u8]) -> Cell {
        let is_affected = match self {
            Edit::Lower => bytes.iter().any(|byte| byte.is_ascii_uppercase() || *byte >= 0x80),
            Edit::Upper => bytes.iter().any(|byte| byte.is_ascii_lowercase() || *byte >= 0x80),
            Edit::Trim => {
                let is_end =
                    |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_whitespace());
                is_end(bytes.first()) || is_end(bytes.last())
            }
        };
        let is_escaped = cell.kind() == CellKind::Escaped && bytes.contains(&b'\\');
        if !is_affected && !is_escaped {
            return cell;
        }
        if is_escaped {
            let text = millstream_model::Value::Escaped(bytes).text().unwrap_or_default();
            let new = self.text(&text);
            return if *new == *text { cell } else { made.push(CellKind::Text, &new) };
        }
        match self.text(bytes) {
            Cow::Borrowed(part) => {
                let offset = part.as_ptr() as usize - bytes.as_ptr() as usize;
                cell.part(cell.kind(), offset, part.len())
            }
            Cow::Owned(text) if text == bytes => cell,
            Cow::Owned(text) => made.push(cell.kind(), &text),
        }
    }

    /// Returns the edited text, borrowed where possible.
    fn text(self, text: &[u8]) -> Cow<'_, [u8]> {
        match (self, text.is_ascii(), std::str::from_utf8(text)) {
            (Edit::Trim, _, _) => Cow::Borrowed(text.trim_ascii()),
            (Edit::Lower, false, Ok(text)) => Cow::Owned(text.to_lowercase().into_bytes()),
            (Edit::Upper, false, Ok(text)) => Cow::Owned(text.to_uppercase().into_bytes()),
            (Edit::Lower, ..) => Cow::Owned(text.to_ascii_lowercase()),
            (Edit::Upper, ..) => Cow::Owned(text.to_ascii_uppercase()),
        }
    }
}

/// Extracts a substring, counted in characters.
pub struct Substring {
    pub field: String,
    pub to: Arc<str>,
    /// First character; a negative number counts from the end.
    pub from: i64,
    pub length: Option<u64>,
}

impl Step for Substring {
    fn apply(&self, batch: &mut Batch, _: &mut Noted) {
        change(batch, &self.field, &self.to, |made, cell, bytes| {
            let Some((text, whole)) = plain(made, cell, bytes) else { return cell };
            let (start, end) = self.range(&text);
            if (start, end) == (0, bytes.len()) && text.len() == bytes.len() {
                return cell;
            }
            // The part is plain text, so its bytes must not be unescaped again.
            whole.part(CellKind::Text, start, end - start)
        });
    }
}

impl Substring {
    /// Returns the byte range of the part.
    fn range(&self, text: &[u8]) -> (usize, usize) {
        let is_ascii = text.is_ascii();
        let is_start = |byte: &&u8| **byte & 0xC0 != 0x80;
        let chars = if is_ascii { text.len() } else { text.iter().filter(is_start).count() };
        let from = match usize::try_from(self.from) {
            Ok(from) => from.min(chars),
            Err(_) => chars
                .saturating_sub(usize::try_from(self.from.unsigned_abs()).unwrap_or(usize::MAX)),
        };
        let length =
            self.length.map_or(usize::MAX, |length| usize::try_from(length).unwrap_or(usize::MAX));
        let to = from.saturating_add(length).min(chars);
        if is_ascii {
            return (from, to);
        }
        let mut starts =
            text.iter().enumerate().filter(|(_, byte)| **byte & 0xC0 != 0x80).map(|(at, _)| at);
        let start = if from == 0 { Some(0) } else { starts.clone().nth(from) };
        let end = if to == chars { None } else { starts.nth(to) };
        let start = start.unwrap_or(text.len());
        (start, end.unwrap_or(text.len()).max(start))
    }
}
