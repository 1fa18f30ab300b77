//! Turns entries into the rows of a batch.
//!
//! Values are copied into the block. Many entries share a value, such as the name of their unit, and
//! the block contains such a value once.

use super::level::{self, LevelCells, level_cells};
use bytes::Bytes;
use millstream_journal::{Entry, Error, Field, FieldId, Fields, Id};
use millstream_model::limits::BLOCK_BYTES;
use millstream_model::{
    Ack, Batch, BatchBuilder, Block, Cell, CellKind as Kind, Column, Columns, LongLine, MEMBERS,
    Origin, Selection, SinkSet, SourceCx, char_boundary,
};
use millstream_scan::escape_json;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of fields with a column. Other fields share a column.
const COLUMNS_MAX: usize = 192;

/// Number of shared values that are remembered; a power of two.
const SHARED_MAX: usize = 1024;

/// Maximum size of a batch with all names and values, in bytes, because encoders write them for
/// each row.
const EXPANDED_BYTES_MAX: usize = 4 * BLOCK_BYTES;

/// Longest id: `SEQNUM_ID-SEQNUM`.
const ID_BYTES_MAX: usize = 32 + 1 + 20;

/// Bytes that a row needs beyond its fields: the id, the boot and two times.
pub const ROW_BYTES: usize = ID_BYTES_MAX + 32 + 2 * 20;

/// The place of a value that entries share.
#[derive(Clone, Copy, Default)]
struct Shared {
    /// Identity of the file and its field.
    key: (u64, u64),
    column: u32,
    cell: Cell,
}

/// Why an entry was not added.
#[derive(Debug)]
pub enum Rejected {
    /// The entry does not fit into the block. It needs this many bytes in an empty block.
    Full(usize),
    /// The fields cannot be read.
    Failed(Error),
}

/// What was changed in an entry.
#[derive(Debug, Default)]
pub struct Changes {
    /// Whether a value was truncated.
    pub is_truncated: bool,
    /// Errors of fields that cannot be read.
    pub damage: Vec<Error>,
}

/// The rows of a batch in progress.
pub struct Rows {
    block: Block,
    used: usize,
    builder: BatchBuilder,
    columns: Vec<(Arc<str>, Vec<Cell>)>,
    by_name: HashMap<Box<[u8]>, usize>,
    shared: Vec<Shared>,
    levels: Vec<Cell>,
    severities: Vec<Cell>,
    shown: Vec<bool>,
    is_all_shown: bool,
    boot: (Id, Cell),
    expanded: usize,
    field_bytes_max: usize,
}

/// Columns that every entry has.
const BOOT: usize = 0;
const REALTIME: usize = 1;
const MONOTONIC: usize = 2;

/// Names of the columns that every entry has, as in `journalctl --output=json`.
const NAMES: [&str; 3] = ["_BOOT_ID", "__REALTIME_TIMESTAMP", "__MONOTONIC_TIMESTAMP"];

/// An entry while its fields are added.
#[derive(Default)]
struct Row {
    /// Start and length of the message in the block.
    message: Option<(usize, usize)>,
    is_message_truncated: bool,
    level: LevelCells,
    /// Time at which the program created the entry, in microseconds since 1970.
    time: Option<u64>,
    /// Fields that occur more than once: column and values.
    repeated: Vec<(usize, Vec<Vec<u8>>)>,
    /// Fields without a column, as members of a JSON object.
    members: Vec<u8>,
    changes: Changes,
}

impl Rows {
    /// Creates an empty batch over a block.
    pub fn new(block: Block, field_bytes_max: usize) -> Rows {
        let mut rows = Rows {
            block,
            used: 0,
            builder: BatchBuilder::default(),
            columns: Vec::new(),
            by_name: HashMap::new(),
            shared: vec![Shared::default(); SHARED_MAX],
            levels: Vec::new(),
            severities: Vec::new(),
            shown: Vec::new(),
            is_all_shown: true,
            boot: (Id::default(), Cell::ABSENT),
            expanded: 0,
            field_bytes_max,
        };
        for name in NAMES {
            rows.column(name.as_bytes());
        }
        rows
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.builder.rows()
    }

    /// Returns the number of bytes of all names and values.
    pub fn bytes(&self) -> usize {
        self.expanded
    }

    /// Returns whether the batch takes no more rows.
    pub fn is_full(&self) -> bool {
        self.builder.is_full() || self.expanded >= EXPANDED_BYTES_MAX
    }

    /// Adds an entry. `file` is a number that tells the files apart.
    ///
    /// # Errors
    /// Returns the reason why the entry was not added. The batch is as before.
    pub fn push(
        &mut self,
        entry: &Entry,
        seqnum_id: Id,
        file: u64,
        fields: Fields<'_>,
    ) -> Result<Changes, Rejected> {
        let (used, expanded) = (self.used, self.expanded);
        let added = self.add(entry, seqnum_id, file, fields);
        if added.is_err() {
            self.undo(used, expanded);
        }
        added
    }

    fn add(
        &mut self,
        entry: &Entry,
        seqnum_id: Id,
        file: u64,
        mut fields: Fields<'_>,
    ) -> Result<Changes, Rejected> {
        let mut row = Row::default();
        let mut fits = self.used + ROW_BYTES <= self.block.capacity();
        let mut need = ROW_BYTES;
        for field in fields.by_ref() {
            match field {
                Ok(field) => {
                    need += field.name.len() + field.value.len() + 16;
                    fits = fits && self.field(&mut row, file, &field);
                }
                Err(error) if error.is_io() => return Err(Rejected::Failed(error)),
                Err(error) => row.changes.damage.push(error),
            }
        }
        if !(fits && self.repeated(&mut row) && self.finish_row(entry, seqnum_id, &row)) {
            // Escapes in lists and members may double a value.
            return Err(Rejected::Full(2 * need));
        }
        Ok(row.changes)
    }

    /// Removes what was added for an entry that does not fit.
    fn undo(&mut self, used: usize, expanded: usize) {
        let rows = self.builder.rows();
        for shared in &mut self.shared {
            let is_removed = shared.cell.is_present() && shared.cell.start() >= used;
            if is_removed {
                *shared = Shared::default();
            }
        }
        if self.boot.1.is_present() && self.boot.1.start() >= used {
            self.boot = (Id::default(), Cell::ABSENT);
        }
        self.columns.iter_mut().for_each(|(_, cells)| cells.truncate(rows));
        self.levels.truncate(rows);
        self.severities.truncate(rows);
        self.shown.truncate(rows);
        (self.used, self.expanded) = (used, expanded);
    }

    /// Returns the index of a column.
    fn column(&mut self, name: &[u8]) -> Option<usize> {
        if let Some(index) = self.by_name.get(name) {
            return Some(*index);
        }
        // journald accepts only such names, so that they differ from the other fields of events.
        let is_plain = |byte: &u8| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_');
        if self.columns.len() >= COLUMNS_MAX || name.is_empty() || !name.iter().all(is_plain) {
            return None;
        }
        let text = std::str::from_utf8(name).ok()?;
        self.columns.push((Arc::from(text), Vec::new()));
        self.by_name.insert(name.into(), self.columns.len() - 1);
        Some(self.columns.len() - 1)
    }

    /// Copies bytes into the block.
    fn put(&mut self, bytes: &[u8]) -> Option<usize> {
        let (start, end) = (self.used, self.used + bytes.len());
        if end + ROW_BYTES > self.block.capacity() {
            return None;
        }
        self.block.memory()[start..end].copy_from_slice(bytes);
        self.used = end;
        Some(start)
    }

    /// Adds a field to the row. Returns whether it fits.
    #[inline]
    fn field(&mut self, row: &mut Row, file: u64, field: &Field<'_>) -> bool {
        let key = (file, field.id.0);
        let slot = slot(file, field.id);
        let known = self.shared[slot];
        if known.key == key && known.cell.is_present() {
            self.expanded += known.cell.len() + field.name.len();
            return self.set(row, known.column as usize, known.cell);
        }
        self.new_field(row, (key, slot), field)
    }

    /// Adds a field whose value is not in the block.
    fn new_field(&mut self, row: &mut Row, at: ((u64, u64), usize), field: &Field<'_>) -> bool {
        let (value, is_truncated) = self.cut(field);
        row.changes.is_truncated |= is_truncated;
        self.expanded += value.len() + field.name.len();
        match field.name {
            b"MESSAGE" if row.message.is_none() => {
                row.is_message_truncated = is_truncated;
                row.message = self.put(value).map(|start| (start, value.len()));
                return row.message.is_some();
            }
            // The boot is in the entry itself.
            b"_BOOT_ID" => return true,
            b"PRIORITY" => {
                row.level = level_cells(value);
            }
            b"_SOURCE_REALTIME_TIMESTAMP" => {
                row.time = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            }
            b"MESSAGE" => self.repeat_message(row),
            _ => {}
        }
        let Some(column) = self.column(field.name) else { return self.member(row, field, value) };
        let Some(start) = self.put(value) else { return false };
        let cell = Cell::new(Kind::Text, start, value.len());
        // Levels and times are found in the value, so that the value must not be skipped.
        let is_special =
            matches!(field.name, b"PRIORITY" | b"_SOURCE_REALTIME_TIMESTAMP" | b"MESSAGE");
        if !is_special {
            let (key, slot) = at;
            self.shared[slot] = Shared { key, column: column as u32, cell };
        }
        self.set(row, column, cell)
    }

    /// Returns the value of a field within the limit, and whether it was truncated.
    fn cut<'f>(&self, field: &Field<'f>) -> (&'f [u8], bool) {
        match field.value.len() > self.field_bytes_max || field.truncated.is_some() {
            true => (&field.value[..char_boundary(field.value, self.field_bytes_max)], true),
            false => (field.value, false),
        }
    }

    /// Sets the value of a column, or collects the values if the row has one already.
    #[inline]
    fn set(&mut self, row: &mut Row, column: usize, cell: Cell) -> bool {
        let rows = self.builder.rows();
        let cells = &mut self.columns[column].1;
        if cells.len() <= rows {
            cells.resize(rows, Cell::ABSENT);
            cells.push(cell);
            return true;
        }
        let first = cells[rows];
        let text = |block: &mut Block, cell: Cell| {
            block.memory()[cell.start()..cell.start() + cell.len()].to_vec()
        };
        let second = text(&mut self.block, cell);
        match row.repeated.iter_mut().find(|(index, _)| *index == column) {
            Some((_, values)) => values.push(second),
            None => {
                let first = text(&mut self.block, first);
                row.repeated.push((column, vec![first, second]));
            }
        }
        true
    }

    /// Adds the first message to the list of messages, because there is another one.
    fn repeat_message(&mut self, row: &mut Row) {
        let Some((start, len)) = row.message else { return };
        if let Some(column) = self.column(b"MESSAGE") {
            let rows = self.builder.rows();
            if self.columns[column].1.len() <= rows {
                self.set(row, column, Cell::new(Kind::Text, start, len));
            }
        }
    }

    /// Adds a field to the members without a column.
    fn member(&mut self, row: &mut Row, field: &Field<'_>, value: &[u8]) -> bool {
        let (mut name, mut text) = (Vec::new(), Vec::new());
        escape_json(String::from_utf8_lossy(field.name).as_bytes(), &mut name);
        push_text(value, &mut text);
        let comma = if row.members.is_empty() { "" } else { "," };
        row.members.extend([comma.as_bytes(), b"\"", &name, b"\":", &text].concat());
        true
    }

    /// Writes the lists of values of fields that occur more than once, and the members without a
    /// column.
    fn repeated(&mut self, row: &mut Row) -> bool {
        let rows = self.builder.rows();
        for (column, values) in std::mem::take(&mut row.repeated) {
            let mut list = vec![b'['];
            for value in &values {
                if list.len() > 1 {
                    list.push(b',');
                }
                push_text(value, &mut list);
            }
            list.push(b']');
            let Some(start) = self.put(&list) else { return false };
            self.columns[column].1[rows] = Cell::new(Kind::Array, start, list.len());
        }
        if row.members.is_empty() {
            return true;
        }
        // The limit on columns leaves one for the members.
        let column = self.by_name.get(MEMBERS.as_bytes()).copied().unwrap_or_else(|| {
            self.columns.push((Arc::from(MEMBERS), Vec::new()));
            self.by_name.insert(MEMBERS.as_bytes().into(), self.columns.len() - 1);
            self.columns.len() - 1
        });
        let Some(start) = self.put(&row.members) else { return false };
        let cells = &mut self.columns[column].1;
        cells.resize(rows, Cell::ABSENT);
        cells.push(Cell::new(Kind::Members, start, row.members.len()));
        true
    }

    /// Adds the id, the boot and the times, and the row itself. Returns whether they fit.
    fn finish_row(&mut self, entry: &Entry, seqnum_id: Id, row: &Row) -> bool {
        if self.used + ROW_BYTES > self.block.capacity() {
            return false;
        }
        let rows = self.builder.rows();
        if self.boot.0 != entry.boot_id || !self.boot.1.is_present() {
            let start = self.write(entry.boot_id.to_string().as_bytes());
            self.boot = (entry.boot_id, Cell::new(Kind::Text, start, 32));
        }
        let boot = self.boot.1;
        let mut number = itoa::Buffer::new();
        let realtime = self.write_cell(number.format(entry.realtime).as_bytes());
        let monotonic = self.write_cell(number.format(entry.monotonic).as_bytes());
        for (column, cell) in [(BOOT, boot), (REALTIME, realtime), (MONOTONIC, monotonic)] {
            let cells = &mut self.columns[column].1;
            cells.resize(rows, Cell::ABSENT);
            cells.push(cell);
        }
        self.expanded += 128;
        let id = self.write(format!("{seqnum_id}-").as_bytes());
        self.write(number.format(entry.seqnum).as_bytes());
        let id_len = self.used - id;
        self.add_message(entry, row);
        self.builder.id(id, id_len);
        let us = row.time.unwrap_or(entry.realtime);
        self.builder.time(i64::try_from(us.saturating_mul(1000)).unwrap_or(i64::MAX));
        self.levels.push(row.level.level);
        self.severities.push(row.level.number);
        self.shown.push(row.message.is_some());
        self.is_all_shown &= row.message.is_some();
        true
    }

    fn add_message(&mut self, entry: &Entry, row: &Row) {
        let (start, len) = row.message.unwrap_or((self.used, 0));
        let text = &self.block.memory()[start..start + len];
        if row.is_message_truncated {
            self.builder.long_row(text, start, len, LongLine::Truncate);
            self.builder.offset(entry.seqnum);
        } else {
            self.builder.row_at(text, start, entry.seqnum);
        }
    }

    /// Writes into the space that each row reserves.
    fn write(&mut self, bytes: &[u8]) -> usize {
        let start = self.used;
        self.used += bytes.len();
        self.block.memory()[start..self.used].copy_from_slice(bytes);
        start
    }

    fn write_cell(&mut self, bytes: &[u8]) -> Cell {
        Cell::new(Kind::Text, self.write(bytes), bytes.len())
    }

    /// Closes a segment with the rows that were added since the last one.
    pub fn segment(&mut self, origin: &Arc<Origin>, ack: Ack) {
        self.builder.segment(origin.clone(), 0, ack);
    }

    /// Builds the batch.
    pub fn finish(self, sinks: SinkSet, cx: &SourceCx<'_>) -> Batch {
        let rows = self.builder.rows();
        let block = self.block.freeze(self.used);
        let mut batch = self.builder.finish(block, cx.info.clone(), sinks, cx.now.unix_ns);
        let mut columns = Vec::with_capacity(self.columns.len() + 2);
        for (name, cells) in [("level", self.levels), ("severity_number", self.severities)] {
            columns.push(Column::new(Arc::from(name), cells, level::TEXT));
        }
        let present = self.columns.into_iter().filter(|(_, cells)| !cells.is_empty());
        columns.extend(present.map(|(name, mut cells)| {
            cells.resize(rows, Cell::ABSENT);
            Column::new(name, cells, Bytes::new())
        }));
        batch.fields = Columns::from(columns);
        if !self.is_all_shown {
            batch.shown = Some(Selection::from(self.shown));
        }
        batch
    }
}

/// Returns the slot of a shared value.
fn slot(file: u64, id: FieldId) -> usize {
    let mixed = ((id.0 >> 3) ^ file.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 54) as usize & (SHARED_MAX - 1)
}

/// Appends a JSON string. Invalid UTF-8 is replaced.
fn push_text(value: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    escape_json(String::from_utf8_lossy(value).as_bytes(), out);
    out.push(b'"');
}
