//! Evaluates a plan's tasks on a batch.

mod accumulate;
mod columns;
mod extract;
mod keys;
mod select;

use crate::partial::Partial;
use crate::plan::{EventField, FieldId, Fields, Plan};
use accumulate::{Accumulation, Target, TaskRows};
use columns::Columns;
use extract::Source;
use keys::KeyColumns;
use millstream_columns::ColumnView;
use millstream_expressions::{Counts, Field, Input};
use select::Selection;

/// The rows of a batch, with their times and positions.
pub struct BatchRows<'r, 'b> {
    /// The block, the selected rows, and the event fields.
    pub input: &'r Input<'b>,
    /// The time of each row in nanoseconds since 1970. Only needed for tasks whose windows follow
    /// event time.
    pub times: &'r [i64],
    /// Returns the origin and the offset of a row. Together with the row's time, they define the
    /// order of events.
    pub place: &'r dyn Fn(u32) -> (u64, u64),
}

/// A batch with the data that is available before any task is evaluated.
pub(crate) struct Batch<'p, 'b> {
    pub fields: &'p Fields,
    pub input: &'p Input<'b>,
    /// The columns of the event fields. `None` for a field without a column.
    pub events: Vec<Option<ColumnView<'b>>>,
    /// Number of selected rows.
    pub selected: usize,
}

impl<'p, 'b> Batch<'p, 'b> {
    fn new(fields: &'p Fields, input: &'p Input<'b>) -> Batch<'p, 'b> {
        let column = |EventField { name, .. }: &EventField| match (input.field)(name) {
            // Members of objects have names with dots, and `input.rest` can contain members with
            // any name.
            Some(Field::Column(column)) if input.rest.is_none() && !name.contains('.') => {
                Some(column)
            }
            _ => None,
        };
        let selected = input.runs.iter().map(|(start, end)| end - start).sum();
        Batch { fields, input, events: fields.events.iter().map(column).collect(), selected }
    }
}

/// A batch that is being evaluated, with the columns that tasks have read so far.
pub(crate) struct BatchColumns<'c, 'p, 'b> {
    pub batch: &'c Batch<'p, 'b>,
    pub columns: &'c mut Columns,
}

impl BatchColumns<'_, '_, '_> {
    /// Computes the values of a field for these rows.
    fn ensure(&mut self, field: FieldId, rows: &[u32]) {
        self.columns.ensure(self.batch, field, rows);
    }

    /// Returns the values of a field, and the block. Only values computed by `ensure` are valid.
    fn source(&self, field: FieldId) -> Source<'_> {
        Source { column: self.columns.view(self.batch, field), block: self.batch.input.block }
    }
}

/// Costs and results of evaluating one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    /// Rows that passed the gate.
    pub examined: u64,
    /// Rows that matched.
    pub matched: u64,
    /// Aggregated values that are present but are not numbers.
    pub not_numbers: u64,
    /// Aggregated values that are missing.
    pub missing: u64,
    /// Time spent on the task in nanoseconds, in the measured batches. Work that a few tasks share
    /// counts for the first of them. Work that many tasks share does not count.
    pub measured_ns: u64,
}

impl TaskCounts {
    /// Adds the counts from another batch.
    pub fn add(&mut self, other: &TaskCounts) {
        self.examined += other.examined;
        self.matched += other.matched;
        self.not_numbers += other.not_numbers;
        self.missing += other.missing;
        self.measured_ns += other.measured_ns;
    }
}

/// How to measure task time in a sample of batches.
#[derive(Clone, Copy)]
pub struct Sampling {
    /// Returns the monotonic time in nanoseconds.
    pub now: fn() -> u64,
    /// One in this many batches is measured.
    pub every: u64,
}

/// Evaluates plans on batches, on one thread. Keeps its buffers between batches, but no events.
#[derive(Default)]
pub struct Evaluator {
    columns: Columns,
    selection: Selection,
    keys: KeyColumns,
    accumulation: Accumulation,
    counts: Vec<(usize, TaskCounts)>,
    faults: Counts,
    sampling: Option<Sampling>,
    batches: u64,
}

impl Evaluator {
    /// Creates an evaluator that measures the time of tasks.
    pub fn with_sampling(sampling: Sampling) -> Evaluator {
        Evaluator { sampling: Some(sampling), ..Evaluator::default() }
    }

    /// Calls `visit` with each task that has matching rows, and with these rows in ascending order.
    pub fn matches(
        &mut self,
        plan: &Plan,
        rows: &BatchRows<'_, '_>,
        mut visit: impl FnMut(usize, &[u32]),
    ) {
        self.run(plan, rows, |_, _, task, rows| visit(task, rows));
    }

    /// Aggregates the matching rows of each task into partial results.
    pub fn add_up(&mut self, plan: &Plan, rows: &BatchRows<'_, '_>, partial: &mut Partial) {
        let mut accumulation = std::mem::take(&mut self.accumulation);
        self.run(plan, rows, |fields, keys, task, list| {
            let of_task = TaskRows { plan, task, rows, list };
            accumulation.add(&of_task, &mut Target { fields, keys, partial });
        });
        self.keys.write(partial);
        self.counts.extend(accumulation.take_counts());
        self.accumulation = accumulation;
    }

    fn run(
        &mut self,
        plan: &Plan,
        rows: &BatchRows<'_, '_>,
        mut visit: impl FnMut(&mut BatchColumns<'_, '_, '_>, &mut KeyColumns, usize, &[u32]),
    ) {
        let batch = Batch::new(&plan.fields, rows.input);
        self.columns.begin(&plan.fields);
        self.keys.begin(plan);
        let sampling =
            self.sampling.filter(|sampling| self.batches.is_multiple_of(sampling.every.max(1)));
        let clock = sampling.map(|sampling| sampling.now);
        self.batches += 1;
        self.counts.clear();
        let Evaluator { columns, selection, keys, counts, faults, .. } = self;
        let mut fields = BatchColumns { batch: &batch, columns };
        selection.find(plan, &mut fields);
        selection.prepare(plan, &mut fields, keys, faults);
        let mut last_ns = clock.map(|now| now());
        selection.each_task(plan, &mut fields, faults, |fields, task, examined, list| {
            let (examined, matched) = (examined as u64, list.len() as u64);
            if !list.is_empty() {
                visit(fields, keys, task, list);
            }
            let mut measured_ns = 0;
            if let Some((now, last_ns)) = clock.zip(last_ns.as_mut()) {
                let ns = now();
                measured_ns = ns.saturating_sub(*last_ns);
                *last_ns = ns;
            }
            let found = TaskCounts { examined, matched, measured_ns, ..TaskCounts::default() };
            counts.push((task, found));
        });
    }

    /// Takes the counts of the tasks from the most recent batch. A task can occur several times.
    pub fn take_counts(&mut self) -> impl Iterator<Item = (usize, TaskCounts)> + '_ {
        self.counts.drain(..)
    }

    /// Takes the number of rows, by reason, for which evaluating a condition failed since the last
    /// call. Conditions are evaluated only for rows that are still candidates, so other rows do not
    /// count.
    pub fn take_faults(&mut self) -> Counts {
        std::mem::take(&mut self.faults)
    }
}
