//! Applies an operator's changes to its batch.

use crate::util::message::MESSAGE;
use millstream_jvm::{Answer, ChangedColumn, ColumnPlace, RowFailure};
use millstream_model::{
    Batch, Cell, CellKind, Column, ColumnBuilder, Columns, Selection, TIME_UNKNOWN,
};
use millstream_timestamps::Format;
use std::sync::{Arc, LazyLock};

/// The field with the event time.
const TIMESTAMP: &str = "timestamp";

/// Format of the times that operators write.
static RFC_3339: LazyLock<Option<Format>> = LazyLock::new(|| Format::new("rfc3339", None).ok());

/// A batch after an operator's changes.
pub struct Changed {
    /// The batch.
    pub batch: Batch,
    /// Failures, each with the index of its row in the batch.
    pub failed: Vec<(usize, RowFailure)>,
}

/// Applies an operator's changes to the rows of `batch`. `names` are the fields that the operator
/// received, by column; the first one is the message.
pub fn apply(mut batch: Batch, names: &[Arc<str>], answer: Answer) -> Changed {
    let places = Places::new(&batch, &answer);
    let dropped = Selection::collect_bool(batch.rows(), is_listed(&answer.dropped));
    match &places {
        None if answer.dropped.is_empty() => {}
        None => batch.select(!&dropped),
        Some(places) => batch = places.repeat(&batch),
    }
    let row = |row: &u32| places.as_ref().map_or(*row as usize, |places| places.of_row(*row));
    let placed = |failure: RowFailure| (row(&failure.row), failure);
    let failed = answer.failed.into_iter().map(placed).collect();
    for ChangedColumn { place, cells, removed } in answer.columns {
        let cells = match &places {
            None => cells,
            Some(places) => places.order(&cells),
        };
        let column = |name: &Arc<str>| Column::new(name.clone(), cells, answer.buffer.clone());
        match place {
            ColumnPlace::Existing(0) => set_messages(&mut batch, column(&names[0])),
            ColumnPlace::Existing(index) => batch.fields.set(column(&names[index])),
            ColumnPlace::New(name) if &*name == TIMESTAMP => set_times(&mut batch, &column(&name)),
            ColumnPlace::New(name) => {
                add(&mut batch, column(&name));
                remove(&mut batch, &name, removed.iter().map(row));
            }
        }
    }
    Changed { batch, failed }
}

/// Returns a function that tells whether a row is in an ascending list. The function must be called
/// with ascending rows.
fn is_listed(list: &[u32]) -> impl FnMut(usize) -> bool + '_ {
    let mut rest = list.iter().peekable();
    move |row| rest.next_if(|listed| **listed as usize == row).is_some()
}

/// The origin of each event in a batch to which the operator has added events.
struct Places {
    /// Number of events that result from each row.
    counts: Vec<u32>,
    /// Index of the first of these events, by row.
    firsts: Vec<u32>,
    /// Index of each event in the cells of a response.
    cells: Vec<u32>,
    /// Number of rows in the batch before the operator was called.
    rows: u32,
}

impl Places {
    /// Returns the places; `None` if no event was emitted, in which case every row keeps its index.
    fn new(batch: &Batch, answer: &Answer) -> Option<Places> {
        if answer.emitted.is_empty() {
            return None;
        }
        let rows = batch.rows() as u32;
        let (counts, firsts) = (vec![0; batch.rows()], vec![0; batch.rows()]);
        let mut places = Places { counts, firsts, cells: Vec::new(), rows };
        let mut emitted = answer.emitted.iter().enumerate().peekable();
        let mut is_dropped = is_listed(&answer.dropped);
        for row in (0..rows).filter(|row| batch.is_selected(*row as usize)) {
            let before = places.cells.len();
            if !is_dropped(row as usize) {
                places.cells.push(row);
            }
            while let Some((index, _)) = emitted.next_if(|(_, parent)| **parent == row) {
                places.cells.push(rows + index as u32);
            }
            places.firsts[row as usize] = before as u32;
            places.counts[row as usize] = (places.cells.len() - before) as u32;
        }
        Some(places)
    }

    /// Returns the batch with one row per event. Emitted events have no fields yet.
    fn repeat(&self, batch: &Batch) -> Batch {
        let mut made = batch.repeat(&self.counts);
        let bare = |column: &Column| {
            let own = |(cell, from): (&Cell, &u32)| {
                if *from < self.rows { *cell } else { Cell::ABSENT }
            };
            let cells = column.cells().iter().zip(&self.cells).map(own).collect();
            Column::new(column.name.clone(), cells, column.own().clone())
        };
        made.fields = Columns::from(made.fields.iter().map(bare).collect::<Vec<_>>());
        made
    }

    /// Returns a response's cells in event order.
    fn order(&self, cells: &[Cell]) -> Vec<Cell> {
        self.cells.iter().map(|from| cells[*from as usize]).collect()
    }

    /// Returns the index of a row that was not dropped.
    fn of_row(&self, row: u32) -> usize {
        self.firsts[row as usize] as usize
    }
}

/// Adds a column to the batch. Rows without a value in the column keep an earlier value of the
/// field.
fn add(batch: &mut Batch, column: Column) {
    let name = column.name.clone();
    batch.fields.lift([&*name], &batch.block);
    batch.fields.merge(column, &batch.block);
}

/// Removes a field from rows.
fn remove(batch: &mut Batch, name: &Arc<str>, rows: impl Iterator<Item = usize>) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    let Some(column) = batch.fields.get(name) else { return };
    let mut edit = column.edit();
    rows.for_each(|row| edit.set(row, Cell::ABSENT));
    batch.fields.set(edit.finish(name.clone()));
}

/// Sets the messages: the `message` field of events that have this field, and the line of other
/// events.
fn set_messages(batch: &mut Batch, column: Column) {
    let Some(field) = batch.fields.get(MESSAGE).cloned() else {
        return set_message(batch, column);
    };
    let has_field = |row: usize| field.cells()[row].is_present();
    let (mut of_fields, mut of_lines) = (column.edit(), column.edit());
    for row in 0..batch.rows() {
        match has_field(row) {
            true => keep_text(batch, row, &mut of_lines),
            false => of_fields.set(row, Cell::ABSENT),
        }
    }
    // A removed field is not replaced by the line.
    let stays = |row| batch.is_shown(row) && column.cells()[row].is_present();
    let shown = Selection::collect_bool(batch.rows(), |row| !has_field(row) || stays(row));
    batch.fields.set(of_fields.finish(field.name.clone()));
    set_message(batch, of_lines.finish(column.name.clone()));
    batch.shown = Some(match &batch.shown {
        Some(before) => before & &shown,
        None => shown,
    });
}

/// Sets the lines. An event without a value in the column keeps its text, but no longer shows it.
fn set_message(batch: &mut Batch, column: Column) {
    let kept = |row: usize| column.cells()[row].is_present();
    if !(0..batch.rows()).all(kept) {
        let shown = Selection::collect_bool(batch.rows(), |row| kept(row) && batch.is_shown(row));
        batch.shown = Some(shown);
    } else if batch.shown.is_some() {
        let is_set = |row: usize| column.cells()[row] != batch.message.cells()[row];
        let is_shown = |row| batch.is_shown(row) || is_set(row);
        batch.shown = Some(Selection::collect_bool(batch.rows(), is_shown));
    }
    batch.message = texts(batch, column);
}

/// Returns the column with every value as text. Where there is no value, the text of the event is
/// used.
fn texts(batch: &Batch, column: Column) -> Column {
    if column.cells().iter().all(|cell| cell.kind() == CellKind::Text) {
        return column;
    }
    let mut edit = column.edit();
    for (row, cell) in column.cells().iter().enumerate() {
        match batch.value(&column, row).plain() {
            _ if cell.kind() == CellKind::Text => {}
            Some(text) => edit.text(row, &text),
            None => keep_text(batch, row, &mut edit),
        }
    }
    edit.finish(column.name.clone())
}

fn keep_text(batch: &Batch, row: usize, edit: &mut ColumnBuilder) {
    let cell = batch.message.cells()[row];
    match cell.is_own() {
        true => edit.text(row, batch.text(row)),
        false => edit.set(row, cell),
    }
}

/// Sets the times of the rows that have a time in the column.
fn set_times(batch: &mut Batch, column: &Column) {
    let mut times: Vec<i64> = match &batch.time {
        Some(times) => times.to_vec(),
        None => vec![TIME_UNKNOWN; batch.rows()],
    };
    for (time, cell) in times.iter_mut().zip(column.cells()) {
        if cell.kind() == CellKind::Time {
            let text = column.bytes(&batch.block, *cell);
            *time = unix_ns(text).unwrap_or(*time);
        }
    }
    batch.time = Some(times.into());
}

fn unix_ns(text: &[u8]) -> Option<i64> {
    Some(RFC_3339.as_ref()?.parse(text, 0).ok()?.ns)
}
