//! Operators: what they are made of, and the handle that keeps one.

use crate::answer::Answer;
use crate::bridge::Bridge;
use crate::control::Control;
use crate::error::{CallError, ControlError, RegisterError};
use crate::input::Input;
use crate::jni::{Env, Thrown};
use crate::process::Slot;
use crate::worker::{self, Shared};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

/// What the configuration of a transform says about its operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OperatorSpec {
    /// Id of the transform.
    pub component: String,
    /// `groovy`, `aviator` or `class`.
    pub language: String,
    /// The rules in their order; empty for `class`.
    pub rules: Vec<RuleSource>,
    /// The jar of `class`.
    pub jar: Option<PathBuf>,
    /// The class in that jar.
    pub class_name: Option<String>,
    /// Options for the class.
    pub options: serde_json::Map<String, serde_json::Value>,
    /// Declared types of fields: `text`, `int`, `float`, `bool` or `time`.
    pub fields: BTreeMap<String, String>,
    /// The field that takes the value of an expression.
    pub output: Option<String>,
    /// Longest time for a row in milliseconds; 0 for any.
    pub row_timeout_ms: u64,
    /// Further classes that scripts may use, or packages such as `java.text.*`.
    pub allow: Vec<String>,
    /// Names of methods whose calls are removed where their value is not used.
    pub removed_calls: Vec<String>,
}

/// The source of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleSource {
    /// Name of its file, or `script`.
    pub name: String,
    /// The source.
    pub text: String,
}

/// What is known about an operator after it was compiled.
#[derive(Clone, Debug, Deserialize)]
pub struct Registered {
    pub(crate) id: i32,
    /// Names of fields in its source. They must be columns of the input where the batch has them.
    pub fields: Vec<String>,
    /// Number of calls that were removed from the source.
    pub removed_calls: u64,
    /// Number of calls that are resolved when they run.
    pub dynamic_calls: u64,
}

/// What an operator did since it was registered.
#[derive(Clone, Debug, Deserialize)]
pub struct OperatorStats {
    /// One per rule; one for a class.
    pub rules: Vec<RuleStats>,
}

/// What a rule did.
#[derive(Clone, Debug, Deserialize)]
pub struct RuleStats {
    /// Its name.
    pub name: String,
    /// Number of rows that it has transformed, failed ones included.
    pub rows: u64,
    /// Number of rows that failed.
    pub failures: u64,
    /// Time that it took in nanoseconds.
    pub ns: u64,
}

/// The answer of the JVM to a request that may fail.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Answered<T> {
    /// It failed.
    Fault {
        /// What is wrong.
        error: Fault,
    },
    /// What was asked for.
    Done(T),
}

/// What is wrong, and where.
#[derive(Deserialize)]
pub struct Fault {
    /// What is wrong.
    pub message: String,
    /// Name of the rule; `None` if it is not about one.
    pub rule: Option<String>,
    /// Its line, counted from 1; 0 if unknown.
    pub line: u32,
    /// Its column, counted from 1; 0 if unknown.
    pub column: u32,
}

/// An operator, ready to be called by any number of threads. Cheap to clone; the operator is removed
/// when the last clone drops, and its classes are unloaded once its calls have ended.
#[derive(Clone)]
pub struct Operator(Arc<Handle>);

/// An operator that is not kept by this reference.
#[derive(Clone)]
pub struct WeakOperator(Weak<Handle>);

impl WeakOperator {
    /// Returns the operator, unless it was removed.
    pub fn upgrade(&self) -> Option<Operator> {
        self.0.upgrade().map(Operator)
    }
}

struct Handle {
    place: Place,
    rules: usize,
    registered: Registered,
}

/// Where an operator runs.
enum Place {
    /// In the JVM of this process.
    Inside { shared: Arc<Shared>, control: Control },
    /// In a JVM in a separate process.
    Process(Arc<Slot>),
}

impl Operator {
    /// Compiles an operator.
    pub(crate) fn register(
        shared: &Arc<Shared>,
        control: &Control,
        spec: &OperatorSpec,
    ) -> Result<Operator, RegisterError> {
        let spec_text = serde_json::to_vec(spec).map_err(unreadable)?;
        let registered = registered(&ask_register(control, spec_text)?)?;
        let (shared, control) = (Arc::clone(shared), control.clone());
        Ok(Operator::new(spec, Place::Inside { shared, control }, registered))
    }

    /// Makes an operator of one that is registered in another process.
    pub(crate) fn in_process(
        spec: &OperatorSpec,
        slot: Arc<Slot>,
        registered: Registered,
    ) -> Operator {
        Operator::new(spec, Place::Process(slot), registered)
    }

    fn new(spec: &OperatorSpec, place: Place, registered: Registered) -> Operator {
        let rules = spec.rules.len().max(1);
        Operator(Arc::new(Handle { place, rules, registered }))
    }

    /// Returns a reference that does not keep the operator.
    pub fn downgrade(&self) -> WeakOperator {
        WeakOperator(Arc::downgrade(&self.0))
    }

    /// Returns what is known since it was compiled.
    pub fn registered(&self) -> &Registered {
        &self.0.registered
    }

    /// Transforms the selected rows of a batch.
    ///
    /// In the JVM of this process, on the current thread, which is attached to it on its first call
    /// and detached when it ends. Returns when Java does: an operator without a row timeout may take
    /// any time, and the input stays borrowed until then.
    ///
    /// In a separate process, on a thread of that. If it ends, the call is tried again once it
    /// runs again, until [`Operator::let_go`]; at the deadline of the input it is ended.
    ///
    /// # Errors
    /// The call failed as a whole, or the answer is invalid: nothing of the input has changed.
    /// Rows that failed on their own are in [`Answer::failed`].
    pub fn call(&self, input: &Input<'_>) -> Result<Answer, CallError> {
        let Handle { place, rules, registered } = &*self.0;
        match place {
            Place::Inside { shared, .. } => worker::call(shared, registered.id, *rules, input),
            Place::Process(slot) => slot.call(*rules, input),
        }
    }

    /// Ends the calls that wait for a process that does not run: they fail. Others continue.
    pub fn let_go(&self) {
        if let Place::Process(slot) = &self.0.place {
            slot.let_go();
        }
    }

    /// Returns what it did since it was registered, or its process was started. Runs on the current
    /// thread, as a call does, and so never waits for a compiler.
    ///
    /// # Errors
    /// The thread cannot call Java, or Java threw an exception.
    pub fn stats(&self) -> Result<OperatorStats, CallError> {
        match &self.0.place {
            Place::Inside { shared, .. } => parsed(worker::stats(shared, self.0.registered.id)?),
            Place::Process(slot) => parsed(slot.stats()?),
        }
    }
}

/// Compiles an operator in the JVM of this process; returns what Java says.
pub(crate) fn ask_register(control: &Control, spec: Vec<u8>) -> Result<Vec<u8>, ControlError> {
    let register = move |bridge: &Bridge, env| bridge.register(env, &spec);
    control.ask(register, |bridge, env, late| {
        if let Ok(Answered::<Registered>::Done(late)) = serde_json::from_slice(&late) {
            remove(bridge, env, late.id);
        }
    })
}

/// Parses what Java says about a compilation.
pub(crate) fn registered(answer: &[u8]) -> Result<Registered, RegisterError> {
    match serde_json::from_slice(answer).map_err(unreadable)? {
        Answered::Fault { error: Fault { message, rule, line, column } } => {
            Err(RegisterError::Fault { message, rule, line, column })
        }
        Answered::Done(registered) => Ok(registered),
    }
}

/// Parses an answer of the JVM.
pub fn parsed<T: DeserializeOwned>(answer: Vec<u8>) -> Result<T, CallError> {
    serde_json::from_slice(&answer).map_err(|error| CallError::Exception(error.to_string()))
}

/// Describes an answer that cannot be parsed.
pub fn unreadable(error: serde_json::Error) -> ControlError {
    ControlError::Answer(error.to_string())
}

impl Drop for Handle {
    fn drop(&mut self) {
        // In a separate process, its slot does this.
        if let Place::Inside { control, .. } = &self.place {
            remove_later(control, self.registered.id);
        }
    }
}

/// Removes an operator from the JVM of this process at some time.
pub(crate) fn remove_later(control: &Control, id: i32) {
    control.send(move |bridge, env| remove(bridge, env, id));
}

fn remove(bridge: &Bridge, env: Env, id: i32) {
    if let Err(Thrown(reason)) = bridge.remove(env, id) {
        log::warn!("an operator did not end well: {reason}");
    }
}
