//! The field values of a batch. Each value is computed at most once, for the rows that need it.

use super::Batch;
use super::extract::{
    Between, Positions, Source, Text, Values, between, cast, number_of, typed, with_json, with_text,
};
use crate::bits::Bits;
use crate::plan::{Compute, FieldId, FieldPlan, Fields, Right};
use millstream_columns::{Cell, ColumnView, Kind};
use millstream_expressions::Counts;
use regex::bytes::CaptureLocations;

/// Values computed for a batch. The memory is reused from batch to batch.
#[derive(Default)]
pub struct Columns {
    /// Current batch number.
    batch: u64,
    /// Run number of the current task. Private values belong to one run.
    run: u64,
    memos: Vec<Memo>,
    /// Values of event fields that have no column.
    events: Vec<Memo>,
    positions: Vec<Positions>,
    numbers: Vec<Numbers>,
    /// For each pattern that the batch needs, the positions of its groups.
    locations: Vec<Option<CaptureLocations>>,
    /// Values found in the current document.
    found: Vec<Cell>,
    /// Rows whose values are being computed.
    missing: Vec<u32>,
}

/// The values of one field that are computed so far.
#[derive(Default)]
struct Memo {
    /// The batch or run to which the values belong.
    stamp: u64,
    values: Values,
    known: Bits,
    is_complete: bool,
}

/// The parsed numbers of one field. A row without a number has NaN.
#[derive(Default)]
struct Numbers {
    stamp: u64,
    list: Vec<f64>,
    known: Bits,
    unknown: Vec<u32>,
}

impl Memo {
    fn begin(&mut self, stamp: u64, rows: usize) {
        if self.stamp == stamp {
            return;
        }
        self.stamp = stamp;
        self.values.begin(rows);
        self.known.reset(rows);
        self.is_complete = false;
    }

    /// Collects the rows whose value is not computed yet, and marks them as computed.
    fn take_missing(&mut self, rows: &[u32], selected: usize, missing: &mut Vec<u32>) {
        missing.clear();
        if self.is_complete {
            return;
        }
        missing.extend(rows.iter().copied().filter(|row| self.known.add(*row)));
        self.is_complete = rows.len() == selected;
    }
}

impl Columns {
    /// Prepares for a new batch.
    pub fn begin(&mut self, fields: &Fields) {
        self.batch += 1;
        self.run = self.batch << 32;
        self.memos.resize_with(fields.memos, Memo::default);
        self.events.resize_with(fields.events.len(), Memo::default);
        self.positions.resize_with(fields.lefts.len(), Positions::default);
        self.numbers.resize_with(fields.number_memos, Numbers::default);
        self.locations.clear();
        self.locations.resize_with(fields.patterns.len(), || None);
    }

    /// Prepares for the next task.
    pub fn begin_task(&mut self) {
        self.run += 1;
    }

    fn stamp(&self, is_private: bool) -> u64 {
        if is_private { self.run } else { self.batch << 32 }
    }

    /// Computes the values of a field for these rows.
    pub fn ensure(&mut self, batch: &Batch<'_, '_>, field: FieldId, rows: &[u32]) {
        let plan = &batch.fields.list[field.index()];
        if let Compute::Event(event) = plan.compute {
            return self.ensure_event(batch, event);
        }
        let stamp = self.stamp(plan.is_private);
        let memo = &mut self.memos[plan.memo];
        memo.begin(stamp, batch.input.rows);
        let mut missing = std::mem::take(&mut self.missing);
        memo.take_missing(rows, batch.selected, &mut missing);
        if !missing.is_empty() {
            self.compute(batch, field, &missing);
        }
        self.missing = missing;
    }

    /// Calls `visit` with the values of all fields that begin after the string `left`: the position
    /// of the field in `fields`, the row, and the value. Values that tasks read are kept.
    pub fn each_between(
        &mut self,
        batch: &Batch<'_, '_>,
        left: usize,
        fields: &[FieldId],
        rows: &[u32],
        mut visit: impl FnMut(usize, u32, Kind, &[u8]),
    ) {
        let start = &batch.fields.lefts[left];
        self.ensure_event(batch, start.from);
        self.positions[left].begin(self.batch, start.kept, batch.input.rows);
        let stamp = self.stamp(false);
        let plan = |field: &FieldId| match &batch.fields.list[field.index()] {
            plan @ FieldPlan { compute: Compute::Between(_, index, right), .. } => {
                Some((plan, *index, right))
            }
            _ => None,
        };
        let plans: Vec<(&FieldPlan, u32, &Right)> = fields.iter().filter_map(plan).collect();
        for (plan, ..) in plans.iter().filter(|(plan, ..)| plan.is_read) {
            let memo = &mut self.memos[plan.memo];
            memo.begin(stamp, batch.input.rows);
            memo.is_complete = true;
        }
        let source = event_source(batch, &self.events, start.from);
        let positions = &mut self.positions[left];
        let memos = &mut self.memos;
        for row in rows {
            with_text(source, *row, |text| {
                for (at, (plan, index, right)) in plans.iter().enumerate() {
                    let mut value = Between { left: start, positions, index: *index, right };
                    let place = text.and_then(|text| value.place(text.bytes, *row));
                    let text = text.unwrap_or(Text::NONE);
                    let typed = place.and_then(|place| typed(text.bytes, place, plan.field.kind));
                    if plan.is_read {
                        memos[plan.memo].values.set_typed(*row, text, typed.clone());
                    }
                    if let Some((kind, place)) = typed {
                        visit(at, *row, kind, &text.bytes[place]);
                    }
                }
            });
        }
    }

    fn compute(&mut self, batch: &Batch<'_, '_>, field: FieldId, rows: &[u32]) {
        let plan = &batch.fields.list[field.index()];
        match &plan.compute {
            Compute::Event(_) => {}
            Compute::Cast(event) => {
                self.ensure_event(batch, *event);
                let source = event_source(batch, &self.events, *event);
                cast(source, rows, plan.field.kind, &mut self.memos[plan.memo].values);
            }
            Compute::Between(at, index, right) => {
                let left = &batch.fields.lefts[*at];
                self.ensure_event(batch, left.from);
                let source = event_source(batch, &self.events, left.from);
                let positions = &mut self.positions[*at];
                positions.begin(self.batch, left.kept, batch.input.rows);
                let value = Between { left, positions, index: *index, right };
                let values = &mut self.memos[plan.memo].values;
                between(source, rows, value, plan.field.kind, values);
            }
            Compute::Group(pattern) => self.search(batch, *pattern, rows),
            Compute::Json(document) => self.read(batch, *document, rows),
        }
    }

    /// Computes all groups of a pattern for these rows.
    fn search(&mut self, batch: &Batch<'_, '_>, pattern: usize, rows: &[u32]) {
        let plan = &batch.fields.patterns[pattern];
        self.ensure_event(batch, plan.from);
        let source = event_source(batch, &self.events, plan.from);
        let stamp = self.stamp(false);
        for (field, _) in &plan.groups {
            let memo = batch.fields.list[field.index()].memo;
            self.memos[memo].begin(stamp, batch.input.rows);
        }
        let locations =
            self.locations[pattern].get_or_insert_with(|| plan.regex.capture_locations());
        for row in rows {
            with_text(source, *row, |text| {
                let matches =
                    |text: Text<'_>| plan.regex.captures_read(locations, text.bytes).is_some();
                let is_match = text.is_some_and(matches);
                for (field, group) in &plan.groups {
                    let of_field = &batch.fields.list[field.index()];
                    let memo = &mut self.memos[of_field.memo];
                    memo.known.add(*row);
                    let place = locations.get(*group).filter(|_| is_match);
                    let place = place.map(|(start, end)| start..end);
                    let kind = of_field.field.kind;
                    memo.values.set(*row, text.unwrap_or(Text::NONE), place, kind);
                }
            });
        }
    }

    /// Computes all values in a document for these rows.
    fn read(&mut self, batch: &Batch<'_, '_>, document: usize, rows: &[u32]) {
        let plan = &batch.fields.documents[document];
        self.ensure_event(batch, plan.from);
        let source = event_source(batch, &self.events, plan.from);
        let stamp = self.stamp(false);
        for (field, _) in &plan.values {
            let memo = batch.fields.list[field.index()].memo;
            self.memos[memo].begin(stamp, batch.input.rows);
        }
        let found = &mut self.found;
        for row in rows {
            with_json(source, *row, |text| {
                plan.paths.read(text.bytes, found);
                for (field, value) in &plan.values {
                    let of_field = &batch.fields.list[field.index()];
                    let memo = &mut self.memos[of_field.memo];
                    memo.known.add(*row);
                    let kind = of_field.field.kind;
                    memo.values.set_json(*row, text, found[*value], kind);
                }
            });
        }
    }

    /// Computes an event field that has no column, for all selected rows.
    fn ensure_event(&mut self, batch: &Batch<'_, '_>, event: usize) {
        let stamp = self.stamp(false);
        let memo = &mut self.events[event];
        if batch.events[event].is_some() || memo.stamp == stamp {
            return;
        }
        memo.begin(stamp, batch.input.rows);
        let expression = &batch.fields.events[event].expression;
        let column = expression.compute(batch.input, &mut Counts::default()).finish("".into());
        memo.values.cells.copy_from_slice(column.cells());
        memo.values.own.extend_from_slice(column.own());
    }

    /// Returns the values of a field. Only values computed by `ensure` are valid.
    pub fn view<'a, 'b: 'a>(&'a self, batch: &Batch<'_, 'b>, field: FieldId) -> ColumnView<'a> {
        let plan = &batch.fields.list[field.index()];
        match plan.compute {
            Compute::Event(event) => event_view(batch, &self.events, event),
            _ => self.memos[plan.memo].values.view(),
        }
    }

    /// Appends the number in each row, or NaN if the row has no number.
    pub fn numbers(
        &mut self,
        batch: &Batch<'_, '_>,
        field: FieldId,
        rows: &[u32],
        out: &mut Vec<f64>,
    ) {
        let plan = &batch.fields.list[field.index()];
        let Some(index) = plan.numbers else {
            self.ensure(batch, field, rows);
            let source = Source { column: self.view(batch, field), block: batch.input.block };
            out.extend(rows.iter().map(|row| number_of(source, *row)));
            return;
        };
        self.ensure_numbers(batch, field, rows);
        let numbers = &self.numbers[index].list;
        out.extend(rows.iter().map(|row| numbers[*row as usize]));
    }

    /// If several tasks read a field's numbers, parses them for the rows that are not parsed yet.
    pub fn ensure_numbers(&mut self, batch: &Batch<'_, '_>, field: FieldId, rows: &[u32]) {
        let Some(index) = batch.fields.list[field.index()].numbers else { return };
        let mut numbers = std::mem::take(&mut self.numbers[index]);
        if numbers.stamp != self.batch {
            numbers.stamp = self.batch;
            numbers.known.reset(batch.input.rows);
            numbers.list.resize(batch.input.rows, f64::NAN);
        }
        let mut unknown = std::mem::take(&mut numbers.unknown);
        unknown.clear();
        unknown.extend(rows.iter().copied().filter(|row| numbers.known.add(*row)));
        if !unknown.is_empty() {
            self.ensure(batch, field, &unknown);
            let source = Source { column: self.view(batch, field), block: batch.input.block };
            for row in &unknown {
                numbers.list[*row as usize] = number_of(source, *row);
            }
        }
        numbers.unknown = unknown;
        self.numbers[index] = numbers;
    }
}

fn event_view<'a, 'b: 'a>(
    batch: &Batch<'_, 'b>,
    events: &'a [Memo],
    event: usize,
) -> ColumnView<'a> {
    batch.events[event].unwrap_or_else(|| events[event].values.view())
}

fn event_source<'a, 'b: 'a>(batch: &Batch<'_, 'b>, events: &'a [Memo], event: usize) -> Source<'a> {
    Source { column: event_view(batch, events, event), block: batch.input.block }
}
