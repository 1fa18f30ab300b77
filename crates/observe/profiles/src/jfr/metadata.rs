//! Declarations of the types in a profile's file.

use millstream_jfr::elements::Element;
use millstream_jfr::metadata::types::{self, TypeId};
use millstream_jfr::metadata::{
    active_setting, annotation, annotations, category, class, event, label, root, setting_type,
    start_time, thread_type,
};
use millstream_jfr::stacks::{self, reference};

/// The `jdk.ExecutionSample` type.
pub const EXECUTION_SAMPLE: TypeId = TypeId(80);

/// Name of the setting for the time between two samples.
pub const PERIOD: &str = "period";

/// Returns the complete metadata tree.
pub fn tree() -> Element {
    let settings = [
        setting_type("jdk.settings.Enabled", types::ENABLED_SETTING, "Enabled", "Record event"),
        setting_type(
            "jdk.settings.Period",
            types::PERIOD_SETTING,
            "Period",
            "Time between two samples of a thread",
        ),
    ];
    let all = values().into_iter().chain(stacks::types()).chain(annotations()).chain(settings);
    root(all.chain([active_setting(), execution_sample()]))
}

fn values() -> Vec<Element> {
    vec![
        class("boolean", types::BOOLEAN),
        class("int", types::INT),
        class("long", types::LONG),
        class("java.lang.String", types::STRING),
        thread_type(),
    ]
}

fn execution_sample() -> Element {
    event("jdk.ExecutionSample", EXECUTION_SAMPLE).containing([
        setting("enabled", types::ENABLED_SETTING, "true"),
        setting(PERIOD, types::PERIOD_SETTING, "10 ms"),
        start_time(),
        reference("sampledThread", types::THREAD, "Thread"),
        reference("stackTrace", types::STACK_TRACE, "Stack Trace"),
        reference("state", types::THREAD_STATE, "Thread State"),
        label("Method Profiling Sample"),
        category(&["Java Virtual Machine", "Profiling"]),
        annotation(types::DESCRIPTION, "A thread and its stack at a point in time"),
    ])
}

fn setting(name: &'static str, id: TypeId, default: &'static str) -> Element {
    Element::new("setting").with("name", name).with_type("class", id).with("defaultValue", default)
}
