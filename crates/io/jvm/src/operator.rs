//! Operators: what they are made of, and the handle that keeps one.

use crate::answer::Answer;
use crate::bridge::Bridge;
use crate::control::Control;
use crate::error::{CallError, ControlError, RegisterError};
use crate::input::Input;
use crate::jni::{Env, Thrown};
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
    id: i32,
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
    shared: Arc<Shared>,
    control: Control,
    rules: usize,
    registered: Registered,
}

impl Operator {
    /// Compiles an operator.
    pub(crate) fn register(
        shared: &Arc<Shared>,
        control: &Control,
        spec: &OperatorSpec,
    ) -> Result<Operator, RegisterError> {
        let text = serde_json::to_vec(spec).map_err(unreadable)?;
        let register = move |bridge: &Bridge, env| bridge.register(env, &text);
        let answer = control.ask(register, |bridge, env, late| {
            if let Ok(Answered::<Registered>::Done(late)) = serde_json::from_slice(&late) {
                remove(bridge, env, late.id);
            }
        })?;
        match serde_json::from_slice(&answer).map_err(unreadable)? {
            Answered::Fault { error: Fault { message, rule, line, column } } => {
                Err(RegisterError::Fault { message, rule, line, column })
            }
            Answered::<Registered>::Done(registered) => Ok(Operator(Arc::new(Handle {
                shared: Arc::clone(shared),
                control: control.clone(),
                rules: spec.rules.len().max(1),
                registered,
            }))),
        }
    }

    /// Returns a reference that does not keep the operator.
    pub fn downgrade(&self) -> WeakOperator {
        WeakOperator(Arc::downgrade(&self.0))
    }

    /// Returns what is known since it was compiled.
    pub fn registered(&self) -> &Registered {
        &self.0.registered
    }

    /// Transforms the selected rows of a batch on the current thread, which is attached to the JVM
    /// on its first call and detached when it ends. Returns when Java does: an operator without a
    /// row timeout may take any time, and the input stays borrowed until then.
    ///
    /// # Errors
    /// The call failed as a whole, or the answer is invalid: nothing of the input has changed.
    /// Rows that failed on their own are in [`Answer::failed`].
    pub fn call(&self, input: &Input<'_>) -> Result<Answer, CallError> {
        worker::call(&self.0.shared, self.0.registered.id, self.0.rules, input)
    }

    /// Returns what it did since it was registered. Runs on the current thread, as a call does, and
    /// so never waits for a compiler.
    ///
    /// # Errors
    /// The thread cannot call Java, or Java threw an exception.
    pub fn stats(&self) -> Result<OperatorStats, CallError> {
        parsed(worker::stats(&self.0.shared, self.0.registered.id)?)
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
        let id = self.registered.id;
        self.control.send(move |bridge, env| remove(bridge, env, id));
    }
}

fn remove(bridge: &Bridge, env: Env, id: i32) {
    if let Err(Thrown(reason)) = bridge.remove(env, id) {
        log::warn!("an operator did not end well: {reason}");
    }
}
