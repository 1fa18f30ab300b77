//! The state of the whole agent: the engine, and sections for the other parts that the agent runs.

use millstream_jvm::{CollectorsSnapshot, JvmProcessSnapshot, JvmSnapshot};
use millstream_model::snapshot::Snapshot;
use serde::Serialize;

/// The state of the agent at one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AgentSnapshot {
    /// The engine.
    #[serde(flatten)]
    pub engine: Snapshot,
    /// The other parts that the agent runs.
    #[serde(flatten)]
    pub sections: Sections,
}

/// The parts that the agent runs in addition to the engine. Each section is a value that its owner
/// defines, and appears under its name in `/api/snapshot`; an empty section is omitted.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sections {
    /// The JVM inside the process, if one is running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jvm: Option<JvmSnapshot>,
    /// The collectors of `jvm` sources, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collectors: Option<CollectorsSnapshot>,
    /// The JVMs in separate processes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jvm_processes: Vec<JvmProcessSnapshot>,
}

impl From<Snapshot> for AgentSnapshot {
    /// Returns the state of an agent that runs only the engine.
    fn from(engine: Snapshot) -> AgentSnapshot {
        AgentSnapshot { engine, sections: Sections::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, to_value};

    /// Returns the names of the members in the JSON of a snapshot, in order.
    fn members(snapshot: &AgentSnapshot) -> Vec<String> {
        let Value::Object(members) = to_value(snapshot).unwrap() else { panic!("no object") };
        members.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn sections_follow_the_members_of_the_engine_and_empty_sections_are_omitted() {
        let mut snapshot = AgentSnapshot::from(Snapshot::default());
        let engine = ["uptime_seconds", "worker_threads", "memory", "components", "checkpoints"];
        assert_eq!(members(&snapshot), engine);
        snapshot.sections = Sections {
            jvm: Some(JvmSnapshot { threads: 3, ..JvmSnapshot::default() }),
            collectors: Some(CollectorsSnapshot::default()),
            jvm_processes: vec![JvmProcessSnapshot::default()],
        };
        let all = [&engine[..], &["jvm", "collectors", "jvm_processes"]].concat();
        assert_eq!(members(&snapshot), all);
        assert_eq!(to_value(&snapshot).unwrap()["jvm"]["threads"], 3);
    }
}
