//! JVMs as a resource: how a component requests a JVM, and what the program provides.

use crate::component::{Component, Resources};
use millstream_jvm::{JvmOptions, JvmProcesses, ProcessOptions};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Kind of a JVM as a resource. The instance is the name of a separate process; the default
/// instance is the JVM inside the agent.
pub const JVM: &str = "jvm";

/// The JVMs that the program provides to components, as a resource.
#[derive(Clone, Debug)]
pub struct JvmRuntime {
    /// Options for the JVM inside the agent.
    pub options: JvmOptions,
    /// Options for the JVMs in separate processes.
    pub processes: JvmProcesses,
}

/// Default JVMs for a program that provides none, such as a test. Root may also start them.
static DEFAULT: LazyLock<JvmRuntime> = LazyLock::new(|| {
    let options = JvmOptions { allow_root: true, ..JvmOptions::default() };
    let usual = ProcessOptions::new(options.clone());
    JvmRuntime { options, processes: JvmProcesses { usual, named: BTreeMap::new() } }
});

impl JvmRuntime {
    /// Returns the JVMs that the program provides, or the default JVMs.
    pub fn of(resources: &Resources) -> &JvmRuntime {
        resources.get::<JvmRuntime>().unwrap_or(&DEFAULT)
    }
}

/// Returns whether a component runs in the JVM inside the agent.
pub fn runs_inside(component: &dyn Component) -> bool {
    instances(component).any(|instance| instance.is_none())
}

/// Returns the names of the separate processes in which a component runs.
pub fn processes_of(component: &dyn Component) -> Vec<String> {
    instances(component).flatten().collect()
}

/// Returns the instances of JVMs that a component requests.
fn instances(component: &dyn Component) -> impl Iterator<Item = Option<String>> {
    let requests = component.resources().into_iter();
    requests.filter(|request| request.kind == JVM).map(|request| request.instance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_runtime_of_the_program_root_may_start_the_default_jvm() {
        let mut resources = Resources::new();
        assert!(JvmRuntime::of(&resources).options.allow_root);
        assert!(JvmRuntime::of(&resources).processes.usual.jvm.allow_root);
        let options = JvmOptions::default();
        let usual = ProcessOptions::new(options.clone());
        let processes = JvmProcesses { usual, named: BTreeMap::new() };
        resources.insert(JvmRuntime { options, processes });
        assert!(!JvmRuntime::of(&resources).options.allow_root);
    }
}
