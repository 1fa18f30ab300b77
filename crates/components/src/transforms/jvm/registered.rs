//! The operators in use, so that the same operator is compiled once.
//!
//! Every check and every reload of a configuration builds its components again, and drops them
//! again where nothing has changed.

use super::figures::{Counted, Figures, watch};
use super::heap::follow_pressure;
use millstream_jvm::{Jvm, JvmOptions, Operator, OperatorSpec, RegisterError, WeakOperator};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// The class of the exception that Java throws when it has too little memory.
const OUT_OF_MEMORY: &str = "OutOfMemoryError";

static OPERATORS: Mutex<Operators> = Mutex::new(Operators::new());

/// Operators that are in use, or were.
struct Operators {
    known: Vec<Registered>,
    /// Those of the configurations that are being loaded.
    kept: Vec<Operator>,
    /// Number of loads in progress.
    loads: usize,
    has_reported_jvm: bool,
}

struct Registered {
    spec: OperatorSpec,
    jar: Option<JarState>,
    operator: WeakOperator,
    figures: Arc<Figures>,
    is_reported: bool,
}

/// Tells whether a jar has changed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct JarState {
    bytes: u64,
    modified: Option<SystemTime>,
}

impl JarState {
    fn of(path: &Path) -> Option<JarState> {
        let metadata = path.metadata().ok()?;
        Some(JarState { bytes: metadata.len(), modified: metadata.modified().ok() })
    }
}

/// Keeps every operator that is registered while it exists: a configuration is checked and then
/// built, and its operators are compiled once.
pub struct KeptOperators(());

impl KeptOperators {
    /// Begins to keep operators.
    pub fn begin() -> KeptOperators {
        OPERATORS.lock().loads += 1;
        KeptOperators(())
    }
}

impl Drop for KeptOperators {
    fn drop(&mut self) {
        let mut operators = OPERATORS.lock();
        operators.loads -= 1;
        let let_go = match operators.loads {
            0 => std::mem::take(&mut operators.kept),
            _ => Vec::new(),
        };
        drop(operators);
        drop(let_go);
    }
}

/// Returns the operator of a spec; starts the JVM and registers the operator if necessary.
///
/// # Errors
/// There is no suitable JVM, or the operator is invalid: what is wrong, and where.
pub fn registered(options: &JvmOptions, spec: OperatorSpec) -> Result<Counted, String> {
    let jvm = Jvm::start(options).map_err(|error| advised(error.to_string()))?;
    let jar = spec.jar.as_deref().and_then(JarState::of);
    let mut operators = OPERATORS.lock();
    operators.report(&jvm);
    watch(&jvm, in_use);
    follow_pressure(&jvm);
    if let Some(known) = operators.find(&spec, jar) {
        return Ok(known);
    }
    let operator = jvm.register(&spec).map_err(|error| placed(&error))?;
    let is_reported = report(&spec, &operator);
    let (weak, figures) = (operator.downgrade(), Arc::<Figures>::default());
    let known = Registered { spec, jar, operator: weak, figures: figures.clone(), is_reported };
    operators.known.push(known);
    operators.keep(&operator);
    Ok((operator, figures))
}

/// Returns the message of an error, behind the place in the script as far as it is known.
fn placed(error: &RegisterError) -> String {
    let text = error.to_string();
    match error {
        _ if text.contains(OUT_OF_MEMORY) => advised(text),
        RegisterError::Fault { message, rule: Some(rule), line: 0, .. } => {
            format!("{rule}: {message}")
        }
        RegisterError::Fault { message, rule: Some(rule), line, column } => {
            format!("{rule}:{line}:{column}: {message}")
        }
        _ => text,
    }
}

/// Returns a message, followed by what to do if Java has too little memory.
fn advised(text: String) -> String {
    if text.contains("OutOfMemoryError: Metaspace") {
        return format!("{text}; raise -XX:MaxMetaspaceSize in jvm.options");
    }
    if text.contains(OUT_OF_MEMORY) {
        return format!("{text}; raise jvm.heap");
    }
    text
}

/// Returns the operators that are in use.
pub fn in_use() -> Vec<Counted> {
    let operators = OPERATORS.lock();
    let used = |of: &Registered| Some((of.operator.upgrade()?, of.figures.clone()));
    operators.known.iter().filter_map(used).collect()
}

impl Operators {
    const fn new() -> Operators {
        Operators { known: Vec::new(), kept: Vec::new(), loads: 0, has_reported_jvm: false }
    }

    /// Returns a registered operator, and forgets those that are gone.
    fn find(&mut self, spec: &OperatorSpec, jar: Option<JarState>) -> Option<Counted> {
        self.known.retain(|of| of.operator.upgrade().is_some());
        let is_same = |of: &&mut Registered| of.spec == *spec && of.jar == jar;
        let known = self.known.iter_mut().find(is_same)?;
        let operator = known.operator.upgrade()?;
        if !known.is_reported {
            known.is_reported = report(spec, &operator);
        }
        let figures = known.figures.clone();
        self.keep(&operator);
        Some((operator, figures))
    }

    fn keep(&mut self, operator: &Operator) {
        if self.loads > 0 {
            self.kept.push(operator.clone());
        }
    }

    /// Logs what was started, once there is a log: the configuration is checked before.
    fn report(&mut self, jvm: &Jvm) {
        if has_log() && !self.has_reported_jvm {
            self.has_reported_jvm = true;
            let info = jvm.info();
            log::info!("operators run on Java {} of {}", info.java_version, info.home.display());
            info.warnings.iter().for_each(|warning| log::warn!("{warning}"));
        }
    }
}

fn has_log() -> bool {
    log::max_level() != log::LevelFilter::Off
}

/// Logs what is worth knowing about a script; returns whether there is a log.
fn report(spec: &OperatorSpec, operator: &Operator) -> bool {
    let (id, registered) = (&spec.component, operator.registered());
    if registered.removed_calls > 0 {
        let count = registered.removed_calls;
        log::info!("transform {id}: removed {count} calls that only print, log or walk the stack");
    }
    if registered.dynamic_calls > 0 {
        let count = registered.dynamic_calls;
        log::info!(
            "transform {id}: {count} calls are resolved for each event; types declared in `fields` avoid that"
        );
    }
    has_log()
}
