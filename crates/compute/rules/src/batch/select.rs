//! Selects the rows of each task: those that pass its gate, then those that pass its conditions.

use super::Batch;
use super::columns::Columns;
use crate::bits::Bits;
use crate::plan::{Gate, Index, LiteralIndex, Plan, PostingId, TaskPlan, TestPlan, ValueIndex};
use millstream_columns::{ColumnView, Kind, Number, unescape};
use millstream_expressions::{Counts, Field, Input, Scratch};

/// The rows of a batch that pass gates. It keeps its memory from batch to batch.
#[derive(Default)]
pub struct Selection {
    /// All selected rows.
    all: Vec<u32>,
    /// The rows of each posting, ascending.
    postings: Vec<Vec<u32>>,
    /// The postings with rows.
    active: Vec<PostingId>,
    /// Changes with every batch.
    batch: u64,
    /// The last batch in which a task with several postings was evaluated.
    seen: Vec<u64>,
    tests: Tests,
}

/// Conditions and what is known of their rows.
#[derive(Default)]
struct Tests {
    /// Rows of conditions that several tasks have.
    shared: Vec<Known>,
    rows: Vec<u32>,
    unknown: Vec<u32>,
    scratch: Scratch,
}

#[derive(Default)]
struct Known {
    batch: u64,
    known: Bits,
    matching: Bits,
}

impl Selection {
    /// Finds the rows that pass each gate.
    pub fn find(&mut self, plan: &Plan, batch: &Batch<'_, '_>, columns: &mut Columns) {
        self.begin(plan);
        let runs = batch.input.runs.iter();
        self.all.extend(runs.flat_map(|(start, end)| *start as u32..*end as u32));
        let mut found = Found { postings: &mut self.postings, active: &mut self.active };
        for index in &plan.gates.indexes {
            let field = index.field();
            columns.ensure(batch, field, &self.all);
            let source = (columns.view(batch, field), batch.input.block);
            match index {
                Index::Values(index) => found.values(index, source, &self.all),
                Index::Literals(index) => found.literals(index, source, &self.all),
            }
        }
    }

    fn begin(&mut self, plan: &Plan) {
        self.batch += 1;
        self.all.clear();
        self.active.drain(..).for_each(|posting| self.postings[posting.index()].clear());
        self.postings.resize_with(plan.gates.postings.len(), Vec::new);
        self.seen.resize(plan.tasks.len(), 0);
        self.tests.shared.resize_with(plan.shared_tests, Known::default);
    }

    /// Calls `visit` with each task that some rows pass the gate of: its index, the number of these
    /// rows, and those that match.
    pub fn each_task(
        &mut self,
        plan: &Plan,
        (batch, columns, faults): (&Batch<'_, '_>, &mut Columns, &mut Counts),
        mut visit: impl FnMut(&mut Columns, usize, usize, &[u32]),
    ) {
        let Selection { all, postings, active, seen, tests, .. } = self;
        let number = self.batch;
        let mut run = |task: u32, rows: &[u32]| {
            columns.begin_task();
            let of_task = &plan.tasks[task as usize];
            let matching = tests.matching(of_task, rows, number, (batch, columns, faults));
            visit(columns, task as usize, rows.len(), matching);
        };
        if !all.is_empty() {
            plan.gates.open.iter().for_each(|task| run(*task, all));
        }
        let mut union = Vec::new();
        for posting in &*active {
            let tasks = &plan.gates.postings[posting.index()];
            tasks.single.iter().for_each(|task| run(*task, &postings[posting.index()]));
            for task in &tasks.several {
                if std::mem::replace(&mut seen[*task as usize], number) != number {
                    join(&plan.tasks[*task as usize].gate, postings, &mut union);
                    run(*task, &union);
                }
            }
        }
    }
}

/// Collects the rows of all postings of a gate, ascending.
fn join(gate: &Gate, postings: &[Vec<u32>], out: &mut Vec<u32>) {
    out.clear();
    let Gate::Postings(list) = gate else { return };
    list.iter().for_each(|posting| out.extend_from_slice(&postings[posting.index()]));
    out.sort_unstable();
    out.dedup();
}

impl Tests {
    /// Returns the rows that match all conditions of a task.
    fn matching<'t>(
        &'t mut self,
        task: &TaskPlan,
        rows: &'t [u32],
        number: u64,
        (batch, columns, faults): (&Batch<'_, '_>, &mut Columns, &mut Counts),
    ) -> &'t [u32] {
        if task.tests.is_empty() {
            return rows;
        }
        self.rows.clear();
        self.rows.extend_from_slice(rows);
        for test in &task.tests {
            if self.rows.is_empty() {
                break;
            }
            match test.shared {
                Some(shared) => self.retain_shared(test, shared, number, (batch, columns, faults)),
                None => {
                    retain(test, &mut self.rows, (batch, columns, faults), &mut self.scratch);
                }
            }
        }
        &self.rows
    }

    /// Keeps the rows that match a condition, and remembers them for other tasks.
    fn retain_shared(
        &mut self,
        test: &TestPlan,
        shared: usize,
        number: u64,
        cx: (&Batch<'_, '_>, &mut Columns, &mut Counts),
    ) {
        let rows = cx.0.input.rows;
        let Known { batch, known, matching } = &mut self.shared[shared];
        if *batch != number {
            *batch = number;
            known.reset(rows);
            matching.reset(rows);
        }
        self.unknown.clear();
        self.unknown.extend(self.rows.iter().copied().filter(|row| known.add(*row)));
        if !self.unknown.is_empty() {
            retain(test, &mut self.unknown, cx, &mut self.scratch);
            self.unknown.iter().for_each(|row| _ = matching.add(*row));
        }
        self.rows.retain(|row| matching.has(*row));
    }
}

/// Keeps the rows that match a condition.
fn retain(
    test: &TestPlan,
    rows: &mut Vec<u32>,
    (batch, columns, faults): (&Batch<'_, '_>, &mut Columns, &mut Counts),
    scratch: &mut Scratch,
) {
    test.names.iter().for_each(|(_, field)| columns.ensure(batch, *field, rows));
    let field = |name: &str| field_named(test, name, columns, batch);
    let Input { block, rows: all, runs, rest, .. } = *batch.input;
    // A field of the task hides what the event has under its name.
    let rest = rest.filter(|_| test.names.is_empty());
    let input = Input { block, rows: all, runs, field: &field, rest };
    test.expression.retain(&input, rows, scratch, faults);
}

/// Returns a field of the task, else of the event.
fn field_named<'a, 'b: 'a>(
    test: &TestPlan,
    name: &str,
    columns: &'a Columns,
    batch: &Batch<'_, 'b>,
) -> Option<Field<'a>> {
    match test.names.iter().find(|(own, _)| own == name) {
        Some((_, field)) => Some(Field::Column(columns.view(batch, *field))),
        None => (batch.input.field)(name),
    }
}

/// The rows found so far.
struct Found<'f> {
    postings: &'f mut [Vec<u32>],
    active: &'f mut Vec<PostingId>,
}

impl Found<'_> {
    /// Adds a row to a posting, once.
    #[inline(always)]
    fn add(&mut self, posting: PostingId, row: u32) {
        let rows = &mut self.postings[posting.index()];
        match rows.last() {
            None => self.active.push(posting),
            Some(last) if *last == row => return,
            Some(_) => {}
        }
        rows.push(row);
    }

    fn values(&mut self, index: &ValueIndex, source: (ColumnView<'_>, &[u8]), rows: &[u32]) {
        for row in rows {
            if let Some(posting) = index.posting(source, *row) {
                self.add(posting, *row);
            }
        }
    }

    fn literals(
        &mut self,
        index: &LiteralIndex,
        (column, block): (ColumnView<'_>, &[u8]),
        rows: &[u32],
    ) {
        for row in rows {
            let cell = column.cells()[*row as usize];
            let bytes = column.bytes(block, cell);
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
    /// Returns the posting of the value in a row.
    #[inline(always)]
    fn posting(&self, (column, block): (ColumnView<'_>, &[u8]), row: u32) -> Option<PostingId> {
        let cell = column.cells()[row as usize];
        let bytes = column.bytes(block, cell);
        match cell.kind() {
            Kind::Text => self.texts.get(bytes).copied(),
            Kind::Escaped => self.texts.get(&*unescape(bytes)).copied(),
            Kind::Int | Kind::Float => self.number(Number::parse(bytes)?),
            _ => None,
        }
    }

    fn number(&self, number: Number) -> Option<PostingId> {
        let value = match number {
            Number::Int(value) => value,
            Number::Float(value) => {
                // Only a float that is an integer equals one; the limits are exact powers of two.
                let is_int = value.trunc() == value && (-TWO_63..TWO_63).contains(&value);
                is_int.then_some(value as i64)?
            }
        };
        self.ints.get(&value).copied()
    }
}

/// The first float above every `i64`.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;
