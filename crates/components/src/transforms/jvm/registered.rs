//! The operators in use, so that the same operator is compiled only once.
//!
//! Every check and every reload of a configuration rebuilds all components, and drops them if
//! nothing has changed.

use super::figures::{Counted, Figures};
use crate::util::jvm::{self, JarState, Java, Place, advised, has_log, keep, placed};
use millstream_jvm::{Operator, OperatorSpec, WeakOperator};
use parking_lot::Mutex;
use std::sync::Arc;

/// Registered operators. Entries of operators that are no longer used are removed.
static OPERATORS: Mutex<Vec<Registered>> = Mutex::new(Vec::new());

struct Registered {
    /// Name of the separate process, if the operator runs in one.
    process: Option<String>,
    spec: OperatorSpec,
    jar: Option<JarState>,
    operator: WeakOperator,
    figures: Arc<Figures>,
    is_reported: bool,
}

/// Returns the operator for a specification. Starts the JVM and registers the operator if
/// necessary.
///
/// # Errors
/// Returns an error if there is no suitable JVM or the operator is invalid. The error says what is
/// wrong and where.
pub fn registered(place: &Place<'_>, spec: OperatorSpec) -> Result<Counted, String> {
    let java = place.start().map_err(|error| advised(error.to_string()))?;
    let process = java.process().map(str::to_owned);
    let jar = spec.jar.as_deref().and_then(JarState::of);
    let mut operators = OPERATORS.lock();
    jvm::report(&java);
    jvm::watch(&java, look);
    if let Some(known) = find(&mut operators, process.as_deref(), &spec, jar) {
        return Ok(known);
    }
    let operator = java.register(&spec).map_err(|error| placed(&error))?;
    let is_reported = report(&spec, &operator);
    let (weak, figures) = (operator.downgrade(), Arc::<Figures>::default());
    let figures_of = figures.clone();
    let known = Registered { process, spec, jar, operator: weak, figures: figures_of, is_reported };
    operators.push(known);
    keep(operator.clone());
    Ok((operator, figures))
}

/// Reads the statistics of the operators that are in use in a JVM. Returns whether one of them was
/// called since the last read.
fn look(java: &Java) -> bool {
    let looks =
        in_use(java.process()).into_iter().map(|(operator, figures)| figures.look(&operator));
    looks.fold(false, |any, was_called| any | was_called)
}

/// Returns the operators in use in the JVM inside the agent, or in the separate process with this
/// name.
fn in_use(process: Option<&str>) -> Vec<Counted> {
    let operators = OPERATORS.lock();
    let used = |entry: &Registered| Some((entry.operator.upgrade()?, entry.figures.clone()));
    let known = operators.iter().filter(|entry| entry.process.as_deref() == process);
    known.filter_map(used).collect()
}

/// Returns a registered operator, and removes operators that are no longer used.
fn find(
    operators: &mut Vec<Registered>,
    process: Option<&str>,
    spec: &OperatorSpec,
    jar: Option<JarState>,
) -> Option<Counted> {
    operators.retain(|entry| entry.operator.upgrade().is_some());
    let is_same = |entry: &&mut Registered| {
        entry.process.as_deref() == process && entry.spec == *spec && entry.jar == jar
    };
    let known = operators.iter_mut().find(is_same)?;
    let operator = known.operator.upgrade()?;
    if !known.is_reported {
        known.is_reported = report(spec, &operator);
    }
    keep(operator.clone());
    Some((operator, known.figures.clone()))
}

/// Logs information about a script. Returns whether logging has started.
fn report(spec: &OperatorSpec, operator: &Operator) -> bool {
    let (id, registered) = (&spec.component, operator.registered());
    if registered.removed_calls > 0 {
        let count = registered.removed_calls;
        log::info!("transform {id}: removed {count} calls that only print, log or walk the stack");
    }
    if registered.dynamic_calls > 0 {
        let count = registered.dynamic_calls;
        log::info!(
            "transform {id}: {count} calls are resolved again for each event; declare types in \
             `fields` to avoid the cost"
        );
    }
    has_log()
}
