//! Selects the rows of each task: rows that pass its gate and then its conditions.

use super::BatchColumns;
use super::extract::Source;
use super::keys::KeyColumns;
use crate::bits::Bits;
use crate::plan::{
    FieldId, Gate, Index, LeftIndexes, LiteralIndex, NO_BULK, Plan, PostingId, TaskPlan, TestPlan,
    ValueIndex,
};
use millstream_columns::{Kind, Number, unescape};
use millstream_expressions::{Counts, Field, Input, Scratch};

/// The rows of a batch that pass gates. The memory is reused from batch to batch.
#[derive(Default)]
pub struct Selection {
    /// All selected rows of the batch.
    all: Vec<u32>,
    postings: Postings,
    /// The rows for each bulk of tasks.
    bulks: Vec<BulkRows>,
    bulk_rows: Vec<u32>,
    /// Current batch number.
    batch: u64,
    /// For each task with several postings, the last batch in which the task was evaluated.
    seen: Vec<u64>,
    tests: Tests,
}

/// The rows of each posting in ascending order. Rows are found in row order and then sorted by
/// posting, so that thousands of postings need only a few lists.
#[derive(Default)]
struct Postings {
    found: Vec<(PostingId, u32)>,
    places: Vec<Place>,
    /// The postings that have rows, in the order in which they were found.
    active: Vec<PostingId>,
    sorted: Vec<u32>,
}

/// Where a posting's rows are.
#[derive(Clone, Copy, Default)]
struct Place {
    /// End of the posting's sorted rows.
    end: u32,
    /// Number of rows.
    rows: u32,
    /// The row that was added last.
    last: u32,
}

/// The rows for a bulk of tasks.
#[derive(Default)]
struct BulkRows {
    /// The batch to which the rows belong.
    batch: u64,
    rows: Bits,
}

/// Results of conditions on the batch rows.
#[derive(Default)]
struct Tests {
    /// Known results of conditions that several tasks share.
    shared: Vec<TestedRows>,
    rows: Vec<u32>,
    unknown: Vec<u32>,
    scratch: Scratch,
}

#[derive(Default)]
struct TestedRows {
    batch: u64,
    known: Bits,
    matching: Bits,
}

impl Postings {
    fn begin(&mut self, postings: usize) {
        let Postings { found, places, active, .. } = self;
        found.clear();
        active.drain(..).for_each(|posting| places[posting.index()] = Place::default());
        places.resize(postings, Place::default());
    }

    /// Adds a row to a posting, unless it was the last row added.
    #[inline(always)]
    fn add(&mut self, posting: PostingId, row: u32) {
        let place = &mut self.places[posting.index()];
        if place.rows == 0 {
            self.active.push(posting);
        } else if place.last == row {
            return;
        }
        place.rows += 1;
        place.last = row;
        self.found.push((posting, row));
    }

    /// Sorts the rows by posting.
    fn sort(&mut self) {
        let Postings { found, places, active, sorted } = self;
        let mut start = 0;
        for posting in &*active {
            let place = &mut places[posting.index()];
            place.end = start;
            start += place.rows;
        }
        sorted.resize(found.len(), 0);
        for (posting, row) in &*found {
            let end = &mut places[posting.index()].end;
            sorted[*end as usize] = *row;
            *end += 1;
        }
    }

    #[inline(always)]
    fn rows(&self, posting: PostingId) -> &[u32] {
        let Place { end, rows, .. } = self.places[posting.index()];
        &self.sorted[(end - rows) as usize..end as usize]
    }

    /// Collects the rows from all of a gate's postings in ascending order.
    fn join(&self, gate: &Gate, out: &mut Vec<u32>) {
        out.clear();
        let Gate::Postings(list) = gate else { return };
        list.iter().for_each(|posting| out.extend_from_slice(self.rows(*posting)));
        out.sort_unstable();
        out.dedup();
    }
}

impl Selection {
    /// Finds the rows that pass each gate.
    pub fn find(&mut self, plan: &Plan, fields: &mut BatchColumns<'_, '_, '_>) {
        self.begin(plan);
        let runs = fields.batch.input.runs.iter();
        self.all.extend(runs.flat_map(|(start, end)| *start as u32..*end as u32));
        for lefts in &plan.gates.lefts {
            self.postings.lefts(plan, lefts, fields, &self.all);
        }
        for index in plan.gates.others.iter().map(|at| &plan.gates.indexes[*at]) {
            let field = index.field();
            fields.ensure(field, &self.all);
            let source = fields.source(field);
            match index {
                Index::Values(index) => self.postings.values(index, source, &self.all),
                Index::Literals(index) => self.postings.literals(index, source, &self.all),
            }
        }
        self.postings.sort();
    }

    fn begin(&mut self, plan: &Plan) {
        self.batch += 1;
        self.all.clear();
        self.postings.begin(plan.gates.postings);
        self.seen.resize(plan.tasks.len(), 0);
        self.tests.shared.resize_with(plan.shared_tests, TestedRows::default);
    }

    /// Runs work that many tasks share, for the rows of all these tasks at once.
    pub fn prepare(
        &mut self,
        plan: &Plan,
        fields: &mut BatchColumns<'_, '_, '_>,
        keys: &mut KeyColumns,
        faults: &mut Counts,
    ) {
        if plan.bulks.is_empty() {
            return;
        }
        self.collect_bulks(plan, fields.batch.input.rows);
        let mut rows = std::mem::take(&mut self.bulk_rows);
        for (bulk, found) in plan.bulks.iter().zip(&self.bulks) {
            if found.batch != self.batch {
                continue;
            }
            rows.clear();
            found.rows.collect(&mut rows);
            if bulk.has_test {
                let test = &plan.tasks[bulk.task as usize].tests[0];
                self.tests.retain(test, &mut rows, self.batch, fields, faults);
            }
            if let Some(shape) = bulk.shape {
                let shape = &plan.shapes[shape as usize];
                if let Some(of_shape) = shape.keys {
                    keys.ensure(plan, of_shape, fields, &rows);
                }
                let numbers = shape.inputs.iter().filter(|input| input.reads_numbers());
                for field in numbers.filter_map(|input| input.field) {
                    fields.columns.ensure_numbers(fields.batch, field, &rows);
                }
            }
        }
        self.bulk_rows = rows;
    }

    /// Collects the rows of each bulk.
    fn collect_bulks(&mut self, plan: &Plan, rows: usize) {
        self.bulks.resize_with(plan.bulks.len(), BulkRows::default);
        for posting in &self.postings.active {
            let mut last = NO_BULK;
            for task in plan.gates.single.of(*posting) {
                let bulk = plan.heads[*task as usize].bulk;
                if bulk == last || bulk == NO_BULK {
                    continue;
                }
                last = bulk;
                let found = &mut self.bulks[bulk as usize];
                if found.batch != self.batch {
                    found.batch = self.batch;
                    found.rows.reset(rows);
                }
                let of_posting = self.postings.rows(*posting);
                of_posting.iter().for_each(|row| _ = found.rows.add(*row));
            }
        }
    }

    /// Calls `visit` with each task that has rows that pass its gate: the index of the task, the
    /// number of these rows, and the matching rows.
    pub fn each_task(
        &mut self,
        plan: &Plan,
        fields: &mut BatchColumns<'_, '_, '_>,
        faults: &mut Counts,
        mut visit: impl FnMut(&mut BatchColumns<'_, '_, '_>, usize, usize, &[u32]),
    ) {
        let Selection { all, postings, seen, tests, .. } = self;
        let number = self.batch;
        let mut run = |task: u32, rows: &[u32]| {
            fields.columns.begin_task();
            let matching = match plan.heads[task as usize].has_tests {
                true => {
                    let of_task = &plan.tasks[task as usize];
                    tests.matching(of_task, rows, number, fields, faults)
                }
                false => rows,
            };
            visit(fields, task as usize, rows.len(), matching);
        };
        if !all.is_empty() {
            plan.gates.open.iter().for_each(|task| run(*task, all));
        }
        let mut union = Vec::new();
        for posting in &postings.active {
            let single = plan.gates.single.of(*posting);
            single.iter().for_each(|task| run(*task, postings.rows(*posting)));
            for task in plan.gates.several.of(*posting) {
                if std::mem::replace(&mut seen[*task as usize], number) != number {
                    postings.join(&plan.tasks[*task as usize].gate, &mut union);
                    run(*task, &union);
                }
            }
        }
    }
}

impl Tests {
    /// Returns the rows that match all remaining conditions of a task.
    fn matching<'t>(
        &'t mut self,
        task: &TaskPlan,
        rows: &'t [u32],
        number: u64,
        fields: &mut BatchColumns<'_, '_, '_>,
        faults: &mut Counts,
    ) -> &'t [u32] {
        self.rows.clear();
        self.rows.extend_from_slice(rows);
        for test in &task.tests {
            if self.rows.is_empty() {
                break;
            }
            let mut rows = std::mem::take(&mut self.rows);
            self.retain(test, &mut rows, number, fields, faults);
            self.rows = rows;
        }
        &self.rows
    }

    /// Keeps only the rows that match a condition. Stores the results if several tasks share the
    /// condition.
    fn retain(
        &mut self,
        test: &TestPlan,
        rows: &mut Vec<u32>,
        number: u64,
        fields: &mut BatchColumns<'_, '_, '_>,
        faults: &mut Counts,
    ) {
        let Some(shared) = test.shared else {
            return retain(test, rows, fields, faults, &mut self.scratch);
        };
        let rows_max = fields.batch.input.rows;
        let TestedRows { batch, known, matching } = &mut self.shared[shared];
        if *batch != number {
            *batch = number;
            known.reset(rows_max);
            matching.reset(rows_max);
        }
        self.unknown.clear();
        self.unknown.extend(rows.iter().copied().filter(|row| known.add(*row)));
        if !self.unknown.is_empty() {
            retain(test, &mut self.unknown, fields, faults, &mut self.scratch);
            self.unknown.iter().for_each(|row| _ = matching.add(*row));
        }
        rows.retain(|row| matching.has(*row));
    }
}

/// Keeps only the rows that match a condition.
fn retain(
    test: &TestPlan,
    rows: &mut Vec<u32>,
    fields: &mut BatchColumns<'_, '_, '_>,
    faults: &mut Counts,
    scratch: &mut Scratch,
) {
    for (_, field) in &test.names {
        fields.ensure(*field, rows);
    }
    let field = |name: &str| field_named(test, name, fields);
    let Input { block, rows: all, runs, rest, .. } = *fields.batch.input;
    // A field of the task takes precedence over an event member with the same name.
    let rest = rest.filter(|_| test.names.is_empty());
    let input = Input { block, rows: all, runs, field: &field, rest };
    test.expression.retain(&input, rows, scratch, faults);
}

/// Returns the task's field with this name, or otherwise the event's field.
fn field_named<'a>(
    test: &TestPlan,
    name: &str,
    fields: &'a BatchColumns<'_, '_, '_>,
) -> Option<Field<'a>> {
    match test.names.iter().find(|(own, _)| own == name) {
        Some((_, field)) => Some(Field::Column(fields.source(*field).column)),
        None => (fields.batch.input.field)(name),
    }
}

impl Postings {
    /// Looks up the values of all fields that begin after the same string.
    fn lefts(
        &mut self,
        plan: &Plan,
        lefts: &LeftIndexes,
        fields: &mut BatchColumns<'_, '_, '_>,
        rows: &[u32],
    ) {
        let index = |at: &usize| match &plan.gates.indexes[*at] {
            Index::Values(index) => Some(index),
            Index::Literals(_) => None,
        };
        let indexes: Vec<&ValueIndex> = lefts.indexes.iter().filter_map(index).collect();
        let of_indexes: Vec<FieldId> = indexes.iter().map(|index| index.field).collect();
        let BatchColumns { batch, columns } = fields;
        columns.each_between(batch, lefts.left, &of_indexes, rows, |at, row, kind, value| {
            if let Some(posting) = indexes[at].posting_of(kind, value) {
                self.add(posting, row);
            }
        });
    }

    fn values(&mut self, index: &ValueIndex, source: Source<'_>, rows: &[u32]) {
        for row in rows {
            if let Some(posting) = index.posting(source, *row) {
                self.add(posting, *row);
            }
        }
    }

    fn literals(&mut self, index: &LiteralIndex, source: Source<'_>, rows: &[u32]) {
        for row in rows {
            let cell = source.column.cells()[*row as usize];
            let bytes = source.column.bytes(source.block, cell);
            match cell.kind() {
                Kind::Text => self.find(index, bytes, *row),
                Kind::Escaped => self.find(index, &unescape(bytes), *row),
                _ => {}
            }
        }
    }

    #[inline(always)]
    fn find(&mut self, index: &LiteralIndex, text: &[u8], row: u32) {
        index.search.each(text, |literal| self.add(index.postings[literal], row));
    }
}

impl ValueIndex {
    /// Returns the posting for the value in a row, if the index contains the value.
    #[inline(always)]
    fn posting(&self, source: Source<'_>, row: u32) -> Option<PostingId> {
        let cell = source.column.cells()[row as usize];
        self.posting_of(cell.kind(), source.column.bytes(source.block, cell))
    }

    #[inline(always)]
    fn posting_of(&self, kind: Kind, bytes: &[u8]) -> Option<PostingId> {
        match kind {
            Kind::Text => self.text(bytes),
            Kind::Escaped => self.text(&unescape(bytes)),
            Kind::Int | Kind::Float => self.number(Number::parse(bytes)?),
            _ => None,
        }
    }

    fn number(&self, number: Number) -> Option<PostingId> {
        let value = match number {
            Number::Int(value) => value,
            Number::Float(value) => {
                // Only an integral float can equal an integer. Both bounds are exact powers of two.
                let is_int = value.trunc() == value && (-TWO_63..TWO_63).contains(&value);
                is_int.then_some(value as i64)?
            }
        };
        self.int(value)
    }
}

/// The first float above every `i64`.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;
