//! The message of an event: the `message` field, or the line if the event has no such field.

use millstream_model::{Batch, LINE};
use parking_lot::Mutex;

/// Name of the message, and of the field that replaces the line.
pub const MESSAGE: &str = "message";

/// Logs once for each `reader` that it reads the `message` field, because earlier releases read the
/// line.
pub fn note_message_field(batch: &Batch, reader: &'static str) {
    static NOTED: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    if batch.fields.get(MESSAGE).is_none() {
        return;
    }
    let mut noted = NOTED.lock();
    if !noted.contains(&reader) {
        noted.push(reader);
        log::warn!(
            "`message` in {reader} is the `message` field, which events of source {} contain; \
             earlier releases read the log line there; use `{LINE}` for the line",
            batch.source.id
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::{Cell, CellKind, ColumnBuilder, Grant, Ledger};
    use millstream_testkit::{Rows, batch};

    #[test]
    fn a_message_is_the_field_or_else_the_line() {
        let rows = [Rows { name: "/a.log", text: b"line 0\nline 1\nline 2\n" }];
        let mut batch = batch(&rows, 1000, &Grant::new(1 << 30), &Ledger::new());
        assert!(batch.message_column().is_same(&batch.message));
        let mut field = ColumnBuilder::new(3);
        let escaped = field.push(CellKind::Escaped, b"a \\\"b\\\"");
        field.set(0, escaped);
        field.set(2, Cell::constant(CellKind::Null));
        batch.fields.set(field.finish(MESSAGE.into()));
        let column = batch.message_column().into_owned();
        let text = |row: usize| batch.value(&column, row).plain().map(|text| text.to_vec());
        let expected = [Some(b"a \"b\"".to_vec()), Some(b"line 1".to_vec()), None];
        assert_eq!([text(0), text(1), text(2)], expected);
        let texts = (0..3).map(|row| batch.message_text(row).map(|text| text.to_vec()));
        assert_eq!(texts.collect::<Vec<_>>(), expected);
        assert_eq!(batch.text(0), b"line 0");
    }
}
