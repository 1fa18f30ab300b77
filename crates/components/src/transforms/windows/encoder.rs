//! The workers' part: evaluates the tasks over a batch, so that the lane receives one entry per
//! group.

use super::definition::TaskDefinition;
use super::stats::Stats;
use crate::util::template;
use millstream_expressions::{Field, Input};
use millstream_model::{
    Batch, CellKind, Column, ColumnBuilder, ComponentError, EncodeCx, Encoder, LINE, Payload,
    Segment,
};
use millstream_rules::{BatchRows, Evaluator, Partial, Plan, Sampling};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

/// Number of batches of which one is measured, because two readings of the clock per task take up
/// to 50 ns.
const BATCHES_PER_MEASURED: u64 = 16;

/// Number of bytes for each origin after a partial result: the id of the origin and its latest
/// time.
const ORIGIN_BYTES: usize = 16;

/// Aggregates the events of batches.
pub struct TaskEncoder {
    plan: Arc<Plan>,
    names: Arc<[String]>,
    stats: Arc<Stats>,
    evaluator: Evaluator,
    times: Vec<i64>,
}

/// Returns the names of the event fields that tasks read, including the fields that contain them.
pub fn names(tasks: &[TaskDefinition]) -> Vec<String> {
    let mut names = Vec::new();
    for TaskDefinition { task, .. } in tasks {
        let from = task.fields.iter().map(|(_, field)| field.extraction.from());
        let of_condition = task.condition.iter().flat_map(|condition| condition.fields());
        let of_inputs = task.inputs.iter().filter_map(|input| input.field.as_deref());
        let of_keys = task.keys.iter().map(String::as_str);
        // If the task has a field `f`, then `f` and `f.member` refer to this field.
        let is_own = |path: &&str| {
            let mut rests = task.fields.iter().filter_map(|(name, _)| path.strip_prefix(&**name));
            rests.any(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let others = of_condition.chain(of_keys).chain(of_inputs).filter(|path| !is_own(path));
        for path in from.chain(others) {
            let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
            names.extend(ends.map(|end| path[..end].to_owned()));
        }
    }
    names.sort();
    names.dedup();
    names
}

impl TaskEncoder {
    /// Creates an encoder for a plan. The tasks read the fields in `names`.
    pub fn new(plan: Arc<Plan>, names: Arc<[String]>, stats: Arc<Stats>) -> TaskEncoder {
        let sampling = Sampling { now: monotonic_ns, every: BATCHES_PER_MEASURED };
        let evaluator = Evaluator::with_sampling(sampling);
        TaskEncoder { plan, names, stats, evaluator, times: Vec::new() }
    }

    /// Evaluates the tasks over a batch. Returns the partial results, written to `buffer`.
    fn add_up(&mut self, batch: &Batch, buffer: Vec<u8>) -> Vec<u8> {
        let others: Vec<Column> =
            self.names.iter().filter_map(|name| other_column(name, batch)).collect();
        self.times.clear();
        self.times.extend((0..batch.rows()).map(|row| batch.event_ns(row)));
        let times = &self.times;
        let message = OnceCell::new();
        let field = |name: &str| match batch.fields.get(name) {
            _ if name == LINE => Some(Field::from(&batch.message)),
            _ if batch.metadata(name).is_some() => batch.metadata(name).map(Field::from),
            _ if name == "message" => {
                Some(Field::from(&**message.get_or_init(|| batch.message_column())))
            }
            Some(column) => Some(Field::from(column)),
            None if name == "timestamp" => Some(Field::Times(times)),
            None => others.iter().find(|column| &*column.name == name).map(Field::from),
        };
        let runs: Vec<(usize, usize)> = batch.runs(0, batch.rows()).collect();
        let rest = batch.fields.get("");
        let input =
            Input { block: &batch.block, rows: batch.rows(), runs: &runs, field: &field, rest };
        let place = |row: u32| {
            let segment = segment_of(batch, row as usize);
            (segment.origin.id.0, batch.offset(segment, row as usize))
        };
        let rows = BatchRows { input: &input, times, place: &place };
        let mut partial = Partial::new(buffer);
        self.evaluator.add_up(&self.plan, &rows, &mut partial);
        partial.into_bytes()
    }

    fn count(&mut self, cx: &EncodeCx<'_>) {
        let (mut not_numbers, mut missing) = (0, 0);
        for (task, counts) in self.evaluator.take_counts() {
            self.stats.add(task, &counts);
            not_numbers += counts.not_numbers;
            missing += counts.missing;
        }
        cx.counters.noted("not_a_number", not_numbers);
        cx.counters.noted("missing_field", missing);
        let faults = self.evaluator.take_faults();
        cx.counters.noted("type_error", faults.type_error);
        cx.counters.noted("arithmetic_error", faults.arithmetic_error);
        cx.counters.noted("step_limit", faults.step_limit);
    }
}

/// Returns the segment of a row.
fn segment_of(batch: &Batch, row: usize) -> &Segment {
    let after = batch.segments.partition_point(|segment| segment.first_row <= row);
    &batch.segments[after.saturating_sub(1)]
}

/// Returns a column for the name of an attribute or metadata; `None` for any other name.
fn other_column(name: &str, batch: &Batch) -> Option<Column> {
    let is_known =
        batch.fields.get(name).is_some() || matches!(name, "message" | "timestamp" | LINE);
    if is_known {
        return None;
    }
    let field = template::Field::named(name.strip_prefix("meta.").unwrap_or(name));
    let is_missing = |segment: &Segment| attribute(batch, segment, name).is_none();
    if matches!(field, template::Field::Named(_)) && batch.segments.iter().all(is_missing) {
        return None;
    }
    let mut column = ColumnBuilder::new(batch.rows());
    let mut is_there = false;
    for segment in batch.segments.iter() {
        let mut rows = segment.first_row..segment.first_row + segment.rows;
        let constant = match &field {
            template::Field::Named(_) => attribute(batch, segment, name),
            field if field.per_row(batch) => {
                let text = |row| Some((row, field.of(batch, segment, row)?));
                rows.by_ref().filter_map(text).for_each(|(row, text)| column.text(row, &text));
                is_there = true;
                None
            }
            field => field.of(batch, segment, segment.first_row),
        };
        if let Some(value) = constant {
            let cell = column.push(CellKind::Text, &value);
            column.cells()[rows].fill(cell);
            is_there = true;
        }
    }
    is_there.then(|| column.finish(name.into()))
}

fn attribute<'b>(batch: &'b Batch, segment: &'b Segment, name: &str) -> Option<Cow<'b, [u8]>> {
    let own = segment.origin.attributes.get(name);
    batch.source.attributes.get(name).or(own).map(|text| Cow::Borrowed(text.as_bytes()))
}

impl Encoder for TaskEncoder {
    fn encode(
        &mut self,
        batch: &Batch,
        payload: &mut Payload,
        cx: &mut EncodeCx<'_>,
    ) -> Result<(), ComponentError> {
        let mut bytes = self.add_up(batch, cx.pool.buffer());
        self.count(cx);
        if self.plan.has_log_windows() {
            push_origins(batch, &mut bytes);
        } else if !millstream_rules::has_sections(&bytes) {
            return Ok(());
        } else {
            bytes.extend_from_slice(&0u32.to_le_bytes());
        }
        payload.push(cx.freeze(bytes));
        Ok(())
    }
}

/// Appends the latest time of each origin, and the number of origins.
fn push_origins(batch: &Batch, out: &mut Vec<u8>) {
    for segment in batch.segments.iter() {
        let rows = segment.first_row..segment.first_row + segment.rows;
        let latest = rows.map(|row| batch.event_ns(row)).max().unwrap_or(i64::MIN);
        out.extend_from_slice(&segment.origin.id.0.to_le_bytes());
        out.extend_from_slice(&latest.to_le_bytes());
    }
    out.extend_from_slice(&(batch.segments.len() as u32).to_le_bytes());
}

/// Splits part of a payload into partial results and the latest time of each origin; returns `None`
/// if the part is invalid.
pub fn split(part: &[u8]) -> Option<(&[u8], impl Iterator<Item = (u64, i64)>)> {
    let (rest, origins) = part.split_last_chunk::<4>()?;
    let origins = u32::from_le_bytes(*origins) as usize;
    let at = rest.len().checked_sub(origins.checked_mul(ORIGIN_BYTES)?)?;
    let (partial, origins) = rest.split_at(at);
    let origins = origins.as_chunks::<8>().0.as_chunks::<2>().0.iter();
    let origin = |[id, time]: &[[u8; 8]; 2]| (u64::from_le_bytes(*id), i64::from_le_bytes(*time));
    Some((partial, origins.map(origin)))
}

/// Returns the time of a monotonic clock in nanoseconds. The time is used only for the cost of
/// tasks and affects no result.
fn monotonic_ns() -> u64 {
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGUN.elapsed().as_nanos() as u64
}
