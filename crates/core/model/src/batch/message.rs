//! The message of an event: the `message` field, or the line if there is no such field.

use super::{Batch, MESSAGE};
use millstream_columns::{Column, Columns, MEMBERS};
use std::borrow::Cow;

/// Name of the line in configurations. Fields of an event cannot hide it.
pub const LINE: &str = "meta.line";

impl Batch {
    /// Returns whether any event can have a `message` field, either parsed from its line or added.
    pub fn has_message_field(&self) -> bool {
        let is_member = || self.fields.get(MEMBERS).is_some();
        self.fields.get(&MESSAGE).is_some() || is_member()
    }

    /// Returns the message of each row: the `message` field if there is one, and otherwise the
    /// line.
    pub fn message_column(&self) -> Cow<'_, Column> {
        if !self.has_message_field() {
            return Cow::Borrowed(&self.message);
        }
        let mut fields = Cow::Borrowed(&self.fields);
        if fields.get(MEMBERS).is_some() {
            fields.to_mut().lift([&**MESSAGE], &self.block);
        }
        let Some(field) = fields.get(&MESSAGE) else { return Cow::Borrowed(&self.message) };
        if field.cells().iter().all(|cell| cell.is_present()) {
            return Cow::Owned(field.clone());
        }
        let mut merged = Columns::from(vec![self.message.named(MESSAGE.clone())]);
        merged.merge(field.clone(), &self.block);
        Cow::Owned(merged.remove(&MESSAGE).unwrap_or_else(|| self.message.clone()))
    }

    /// Returns the message of a row as text, unescaped: the `message` field if there is one, and
    /// otherwise the line. `None` if the field is `null`.
    pub fn message_text(&self, row: usize) -> Option<Cow<'_, [u8]>> {
        let field = self.fields.get(&MESSAGE).filter(|field| field.cells()[row].is_present());
        let value = match field {
            Some(field) => Some(self.value(field, row)),
            None => self.fields.member(&MESSAGE, &self.block, row),
        };
        value.map_or(Some(Cow::Borrowed(self.text(row))), |value| value.plain())
    }
}
