//! The `jvm` transform runs operators written in Groovy, AviatorScript or Java.
//!
//! A batch is passed to Java by address, in one call. The operator's changes are returned as cells
//! and one buffer. The engine calls the operator on its thread pool, because an operator may be
//! slow or hang. In a separate process, the addresses refer to a copy in shared memory.

mod answer;
mod config;
mod figures;
mod input;
mod registered;

pub use crate::util::jvm::{
    JvmMode, KeptOperators, jvm_process_snapshots, jvm_snapshot, note_pressure, promised_bytes,
};
pub use config::{DeclaredType, JvmConfig, OperatorLanguage, Timeouts};

use crate::transforms::on_error::{Failed, OnError};
use crate::util::condition::Condition;
use crate::util::message::MESSAGE;
use figures::Figures;
use input::Input;
use millstream_jvm::{CallError, FailureReason, Operator};
use millstream_model::snapshot::TaskSnapshot;
use millstream_model::{Batch, ComponentError, Now, Offload, Outputs};
use millstream_recorder::schema::EventKind;
use millstream_recorder::{record, recorder};
use std::sync::Arc;
use std::time::Duration;

/// Number of hanging calls at which no more calls are made.
const HANGING_MAX: usize = 2;

/// Outcome of a call that returned a response, whatever the operator did with each event.
const ANSWERED: &str = "answered";

/// Drop reason for events in a call that failed as a whole.
const CALL_FAILED: &str = "call_failed";

/// Drop reason for events in a call whose process exited on every attempt, or was not running
/// before the call stopped waiting.
const PROCESS_ENDED: &str = "process_ended";

/// Drop reason for events in a call that took too long.
const DEADLINE: &str = "deadline";

/// Drop reason for events that the operator dropped.
const DROPPED: &str = "filtered";

/// Limits of an operator.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Maximum number of concurrent calls.
    concurrency: usize,
    /// Maximum time for a call.
    deadline: Duration,
    /// Maximum size of a call's output in bytes.
    output_bytes_max: u64,
    /// Whether the operator runs in a separate process, which is terminated if a call takes too
    /// long.
    runs_in_child: bool,
    /// Whether the operator reads the lines of events as `meta.line`.
    reads_lines: bool,
}

/// A running `jvm` transform.
struct JvmOperator {
    operator: Operator,
    figures: Arc<Figures>,
    condition: Option<Condition>,
    on_error: OnError,
    limits: Limits,
}

impl JvmOperator {
    fn transform(&self, mut batch: Batch, out: &mut Outputs) {
        let names = self.operator.registered().fields.iter().map(String::as_str);
        batch.fields.lift(names.chain([MESSAGE]), &batch.block);
        let rows = self.rows(&batch, out);
        if rows.is_empty() {
            return out.send(0, batch);
        }
        let input = Input::new(&batch, &rows, self.limits.reads_lines);
        self.figures.count_call();
        let timer = recorder::start(EventKind::JvmCall);
        let answer = input.call(&self.operator, &self.limits);
        if timer.is_on() {
            let outcome = answer.as_ref().err().map_or(ANSWERED, reason_of_call);
            let bytes = text_bytes(&batch, &rows);
            record::jvm_call(timer, out.counters.subject(), rows.len(), bytes, outcome);
        }
        match answer {
            Ok(answer) => {
                let names = input.names;
                out.counters.dropped(DROPPED, answer.dropped.len() as u64);
                self.settle(answer::apply(batch, &names, answer), rows.len(), out);
            }
            Err(error) => self.fail(batch, &rows, &error, out),
        }
    }

    /// Returns the selected rows that satisfy the condition.
    fn rows(&self, batch: &Batch, out: &mut Outputs) -> Vec<u32> {
        let chosen = self.condition.as_ref().map(|condition| condition.holds(batch, out));
        let is_chosen =
            |row: &u32| chosen.as_ref().is_none_or(|selection| selection.value(*row as usize));
        let selected =
            batch.runs(0, batch.rows()).flat_map(|(begin, end)| begin as u32..end as u32);
        selected.filter(is_chosen).collect()
    }

    /// Sends the batch after a call with this number of events, and handles the failed rows.
    fn settle(&self, changed: answer::Changed, events: usize, out: &mut Outputs) {
        let mut failed = Failed::default();
        failed.examined(events);
        for (row, failure) in changed.failed {
            failed.add_in_words(row, reason(failure.reason), failure.message.to_string());
        }
        failed.settle(changed.batch, self.on_error, out);
    }

    /// Treats all rows of a call as failed.
    fn fail(&self, batch: Batch, rows: &[u32], error: &CallError, out: &mut Outputs) {
        let mut failed = Failed::default();
        let words = error.to_string();
        let reason = reason_of_call(error);
        rows.iter().for_each(|row| failed.add_in_words(*row as usize, reason, words.clone()));
        out.counters.error(reason);
        failed.settle(batch, self.on_error, out);
    }
}

/// Returns the number of text bytes in these rows.
fn text_bytes(batch: &Batch, rows: &[u32]) -> usize {
    let cells = batch.message.cells();
    rows.iter().map(|row| cells[*row as usize].len()).sum()
}

/// Returns the drop reason for events in a call that failed as a whole.
fn reason_of_call(error: &CallError) -> &'static str {
    match error {
        CallError::ProcessEnded(_) => PROCESS_ENDED,
        CallError::Deadline => DEADLINE,
        _ => CALL_FAILED,
    }
}

/// Returns the counter key of a failure.
fn reason(reason: FailureReason) -> &'static str {
    match reason {
        FailureReason::Exception => "exception",
        FailureReason::Timeout => "timeout",
        FailureReason::WrongType => "wrong_type",
        FailureReason::OutOfMemory => "out_of_memory",
        FailureReason::StackOverflow => "stack_overflow",
        FailureReason::OutputFull => "output_full",
    }
}

impl Offload for JvmOperator {
    fn concurrency(&self) -> usize {
        self.limits.concurrency
    }

    fn deadline(&self) -> Option<Duration> {
        (!self.limits.runs_in_child).then_some(self.limits.deadline)
    }

    fn hanging_max(&self) -> Option<usize> {
        (!self.limits.runs_in_child).then_some(HANGING_MAX)
    }

    fn output_bytes_max(&self) -> u64 {
        self.limits.output_bytes_max
    }

    fn let_go(&self) {
        self.operator.let_go();
    }

    fn tasks(&self) -> Vec<TaskSnapshot> {
        self.figures.tasks()
    }

    fn apply(
        &self,
        _: Now,
        batches: Vec<Batch>,
        outputs: &mut [Outputs],
    ) -> Result<(), ComponentError> {
        batches.into_iter().zip(outputs).for_each(|(batch, out)| self.transform(batch, out));
        Ok(())
    }

    fn expired(&self, batch: Batch, out: &mut Outputs) {
        let rows = self.rows(&batch, out);
        let mut failed = Failed::default();
        rows.iter().for_each(|row| failed.add(*row as usize, DEADLINE));
        failed.settle(batch, self.on_error, out);
    }
}

#[cfg(test)]
mod tests;
