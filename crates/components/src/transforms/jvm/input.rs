//! A batch as the input of an operator.

use super::Limits;
use crate::util::message::{MESSAGE, note_message_field};
use millstream_jvm::{Answer, CallError, InputColumn, InputSegment, Operator};
use millstream_model::{Batch, Column, Columns, LINE, Segment};
use std::borrow::Cow;
use std::sync::Arc;

/// A batch, and the rows for the operator.
pub struct Input<'b> {
    batch: &'b Batch,
    rows: &'b [u32],
    columns: Vec<Cow<'b, Column>>,
    /// Column names; the first one is the message.
    pub names: Vec<Arc<str>>,
}

impl<'b> Input<'b> {
    /// Lists the columns, including the lines if the operator `reads_lines`.
    pub fn new(batch: &'b Batch, rows: &'b [u32], reads_lines: bool) -> Input<'b> {
        note_message_field(batch, "transform jvm");
        let others = batch.fields.iter().filter(|column| *column.name != *MESSAGE);
        let lines = reads_lines.then(|| Cow::Owned(batch.message.named(LINE.into())));
        let messages = std::iter::once(batch.message_column());
        let columns: Vec<Cow<'_, Column>> = messages
            .chain(others.chain(batch.metadata.iter().flat_map(Columns::iter)).map(Cow::Borrowed))
            .chain(lines)
            .collect();
        let names = columns.iter().map(|column| column.name.clone()).collect();
        Input { batch, rows, columns, names }
    }

    /// Calls the operator within its limits.
    pub fn call(&self, operator: &Operator, limits: &Limits) -> Result<Answer, CallError> {
        let columns = self.columns.iter();
        let columns: Vec<InputColumn<'_>> = columns.map(|column| input_column(column)).collect();
        let constants: Vec<Vec<(&str, &str)>> =
            self.batch.segments.iter().map(|segment| self.constants(segment)).collect();
        let mut segments = Vec::with_capacity(constants.len());
        for (segment, constants) in self.batch.segments.iter().zip(&constants) {
            let (first_row, rows) = (segment.first_row, segment.rows);
            segments.push(InputSegment { first_row, rows, constants });
        }
        operator.call(&millstream_jvm::Input {
            block: &self.batch.block,
            rows: self.batch.rows(),
            selected: self.rows,
            columns: &columns,
            times: self.batch.time.as_deref(),
            read_ns: self.batch.read_ns,
            segments: &segments,
            output_bytes_max: limits.output_bytes_max as usize,
            deadline: Some(limits.deadline),
        })
    }

    /// Returns the names and values that all rows of a segment share.
    fn constants(&self, segment: &'b Segment) -> Vec<(&'b str, &'b str)> {
        let source = &self.batch.source;
        let attributes = segment.origin.attributes.iter().chain(&source.attributes);
        let meta = [
            ("meta.host", source.host.as_str()),
            ("meta.source", source.id.as_str()),
            ("meta.file", &*segment.origin.name),
        ];
        attributes.map(|(name, value)| (name.as_str(), value.as_str())).chain(meta).collect()
    }
}

fn input_column(column: &Column) -> InputColumn<'_> {
    InputColumn { name: &column.name, cells: column.cells(), own: column.own() }
}
