//! Key-value pairs that have no column.

use crate::Fields;
use millstream_columns::{Kind, MEMBERS, push_json_string, push_member};

/// The pairs that have no column, by row, encoded as JSON members.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members(Vec<(usize, Vec<u8>)>);

impl Members {
    /// Adds a pair to a row. A key without a value gets the value `true`. Rows must be ascending.
    #[cold]
    pub fn add(&mut self, row: usize, key: &[u8], value: Option<&[u8]>) {
        if self.0.last().is_none_or(|(last, _)| *last != row) {
            self.0.push((row, Vec::new()));
        }
        let Some((_, members)) = self.0.last_mut() else { return };
        let (mut name, mut json) = (Vec::new(), Vec::new());
        push_json_string(key, &mut name);
        match value {
            Some(value) => push_json_string(value, &mut json),
            None => json.extend_from_slice(b"true"),
        }
        push_member(&name[1..name.len() - 1], &json, members);
    }

    /// Moves the pairs in matching rows to the members column.
    // Inlined, because a call costs the key-value parser 1% more instructions per line.
    #[inline(always)]
    pub fn put(&mut self, fields: &mut Fields) {
        if self.0.is_empty() {
            return;
        }
        let failed: Vec<usize> = fields.failures().iter().map(|failure| failure.row).collect();
        for (row, members) in std::mem::take(&mut self.0) {
            if !failed.contains(&row) {
                let field = fields.named(&MEMBERS.into());
                let cell = fields.push(Kind::Members, &members);
                fields.set(field, row, cell);
            }
        }
    }
}
