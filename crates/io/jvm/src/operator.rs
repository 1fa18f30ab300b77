//! Operators: their specification, and the handle that keeps an operator registered.

use crate::answer::Answer;
use crate::answered::{Answered, Fault, parsed, unreadable};
use crate::bridge::Bridge;
use crate::control::Control;
use crate::error::{CallError, ControlError, RegisterError};
use crate::input::Input;
use crate::jni::{Env, Thrown};
use crate::process::Slot;
use crate::worker::{self, Shared};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

/// The configuration of the operator in a `jvm` transform.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OperatorSpec {
    /// Id of the transform.
    pub component: String,
    /// `groovy`, `aviator` or `class`.
    pub language: String,
    /// The rules, in order; empty for `class`.
    pub rules: Vec<RuleSource>,
    /// Path of the jar, for `class`.
    pub jar: Option<PathBuf>,
    /// Name of the class in the jar, for `class`.
    pub class_name: Option<String>,
    /// Options for the class.
    pub options: serde_json::Map<String, serde_json::Value>,
    /// Declared field types: `text`, `int`, `float`, `bool` or `time`.
    pub fields: BTreeMap<String, String>,
    /// Field that receives the value of an expression.
    pub output: Option<String>,
    /// Maximum time per row in milliseconds; 0 for no limit.
    pub row_timeout_ms: u64,
    /// Additional classes that scripts may use, or packages such as `java.text.*`.
    pub allow: Vec<String>,
    /// Names of methods whose calls are removed if the result is not used.
    pub removed_calls: Vec<String>,
}

/// The source code of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleSource {
    /// Name of the file, or `script`.
    pub name: String,
    /// The source code.
    pub text: String,
}

/// Properties of a compiled operator.
#[derive(Clone, Debug, Deserialize)]
pub struct Registered {
    pub(crate) id: i32,
    /// Names of fields in the source. If the batch has a column with such a name, it must be a
    /// column of the input.
    pub fields: Vec<String>,
    /// Number of calls that were removed from the source.
    pub removed_calls: u64,
    /// Number of calls that are resolved at run time.
    pub dynamic_calls: u64,
}

/// Statistics about an operator since it was registered.
#[derive(Clone, Debug, Deserialize)]
pub struct OperatorStats {
    /// Statistics of each rule; a class has one entry.
    pub rules: Vec<RuleStats>,
}

/// Statistics about a rule.
#[derive(Clone, Debug, Deserialize)]
pub struct RuleStats {
    /// Name of the rule.
    pub name: String,
    /// Number of transformed rows, including failed rows.
    pub rows: u64,
    /// Number of rows that failed.
    pub failures: u64,
    /// Total time of the rule in nanoseconds.
    pub ns: u64,
}

/// A registered operator, which any number of threads can call. Cheap to clone. The operator is
/// removed when the last clone is dropped, and its classes are unloaded after its calls have ended.
#[derive(Clone)]
pub struct Operator(Arc<Handle>);

/// A reference that does not keep an operator registered.
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
    /// In this process's JVM.
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

    /// Creates the handle for an operator that is registered in another process.
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

    /// Returns a weak reference to the operator.
    pub fn downgrade(&self) -> WeakOperator {
        WeakOperator(Arc::downgrade(&self.0))
    }

    /// Returns the properties of the compiled operator.
    pub fn registered(&self) -> &Registered {
        &self.0.registered
    }

    /// Transforms a batch's selected rows.
    ///
    /// In this process's JVM, the call runs on the current thread, which is attached to the JVM on
    /// its first call and detached when it exits. The function returns when Java returns. An
    /// operator without a row timeout may take any amount of time, and the input stays borrowed
    /// until then.
    ///
    /// In a separate process, the call runs on a thread of that process. If the process exits, the
    /// call is repeated after the restart, until [`Operator::let_go`]. At the input's deadline, the
    /// process is killed.
    ///
    /// # Errors
    /// Returns an error if the call failed as a whole, or if the answer is invalid. In both cases,
    /// the input is unchanged. Rows that failed individually are in [`Answer::failed`].
    pub fn call(&self, input: &Input<'_>) -> Result<Answer, CallError> {
        let Handle { place, rules, registered } = &*self.0;
        match place {
            Place::Inside { shared, .. } => worker::call(shared, registered.id, *rules, input),
            Place::Process(slot) => slot.call(*rules, input),
        }
    }

    /// Makes calls fail that are waiting for a process that is not running. Other calls continue.
    pub fn let_go(&self) {
        if let Place::Process(slot) = &self.0.place {
            slot.let_go();
        }
    }

    /// Returns statistics about the operator since it was registered, or since its process was
    /// started. Calls Java on the current thread, so that the function never waits for a
    /// compilation.
    ///
    /// # Errors
    /// Returns an error if the thread cannot call Java, or Java threw an exception.
    pub fn stats(&self) -> Result<OperatorStats, CallError> {
        match &self.0.place {
            Place::Inside { shared, .. } => parsed(worker::stats(shared, self.0.registered.id)?),
            Place::Process(slot) => parsed(slot.stats()?),
        }
    }
}

/// Compiles an operator in this process's JVM, and returns Java's response.
pub(crate) fn ask_register(control: &Control, spec: Vec<u8>) -> Result<Vec<u8>, ControlError> {
    let register = move |bridge: &Bridge, env| bridge.register(env, &spec);
    control.ask(register, |bridge, env, late| {
        if let Ok(Answered::<Registered>::Done(late)) = serde_json::from_slice(&late) {
            remove(bridge, env, late.id);
        }
    })
}

/// Parses Java's response to a registration.
pub(crate) fn registered(answer: &[u8]) -> Result<Registered, RegisterError> {
    match serde_json::from_slice(answer).map_err(unreadable)? {
        Answered::Fault { error: Fault { message, rule, line, column } } => {
            Err(RegisterError::Fault { message, rule, line, column })
        }
        Answered::Done(registered) => Ok(registered),
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // An operator in a separate process is removed by its slot.
        if let Place::Inside { control, .. } = &self.place {
            remove_later(control, self.registered.id);
        }
    }
}

/// Asks the control thread to remove an operator from this process's JVM. Does not wait.
pub(crate) fn remove_later(control: &Control, id: i32) {
    control.send(move |bridge, env| remove(bridge, env, id));
}

fn remove(bridge: &Bridge, env: Env, id: i32) {
    if let Err(Thrown(reason)) = bridge.remove(env, id) {
        log::warn!("an operator was not closed cleanly: {reason}");
    }
}
