//! Settings for the flight recorder.

use super::fault::Fault;
use super::node::Node;
use millstream_console::EventChange;
use millstream_model::Size;
use millstream_recorder::recorder::{self, AllSettings};
use millstream_recorder::schema::{EVENTS, EventKind, EventSpec};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// Minimum recording size in bytes: about one minute of events from an idle agent.
const SIZE_MIN: Size = Size(1 << 20);

/// Default recording size, and the share of memory that the recording takes in an agent with little
/// memory.
const SIZE_USUAL: Size = Size(8 << 20);
const MEMORY_SHARE: u64 = 32;

/// Maximum recording size, in bytes. A copy of it is in memory while a client downloads it.
const SIZE_MAX: Size = Size(1 << 30);

/// Flight recorder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RecorderSettings {
    /// Whether the agent records events about its own work.
    pub enabled: bool,
    /// Size of the recording, 1MiB to 1GiB; new events overwrite the oldest. The default is 8MiB,
    /// or 1/32 of `limits.memory` if that is less. Raise it to keep a longer history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// Where the recording is stored: `memory` survives the process, `disk` also survives a reboot
    /// but may delay threads that record.
    pub storage: RecorderStorage,
    /// Conditions for recording events, by event type.
    #[schemars(schema_with = "events_schema")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub events: BTreeMap<String, EventChange>,
}

/// Where the recording is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecorderStorage {
    /// In `/dev/shm`. The recording survives the process, but not a reboot.
    Memory,
    /// In the data folder. Threads that record may have to wait for the disk.
    Disk,
}

impl Default for RecorderSettings {
    fn default() -> Self {
        let (size, storage) = (None, RecorderStorage::Memory);
        RecorderSettings { enabled: true, size, storage, events: BTreeMap::new() }
    }
}

impl RecorderSettings {
    /// Returns the recording size for an agent with this memory limit.
    pub fn size(&self, memory: Size) -> Size {
        let share = Size(memory.0 / MEMORY_SHARE);
        self.size.unwrap_or(share.clamp(SIZE_MIN, SIZE_USUAL))
    }

    /// Returns the settings for all event types.
    pub fn all_events(&self) -> AllSettings {
        let mut all = recorder::defaults();
        for (name, change) in &self.events {
            if let Some(kind) = EventKind::named(name) {
                change.apply(&mut all[kind as usize]);
            }
        }
        all
    }

    /// Returns the error that the schema cannot express, if there is one.
    pub fn fault(&self, node: &Node) -> Option<Fault> {
        let (kind, advice) = match self.size? {
            size if size < SIZE_MIN => ("small", format!("use at least {SIZE_MIN}")),
            size if size > SIZE_MAX => ("large", format!("use at most {SIZE_MAX}")),
            _ => return None,
        };
        let size = node.nearest("/recorder/size");
        Some(Fault::new(&size.place, format!("`size`: {} is too {kind}", size.quoted()), advice))
    }
}

/// Returns the JSON Schema of the settings by event type.
fn events_schema(_: &mut SchemaGenerator) -> Schema {
    let property = |spec: &EventSpec| (spec.name.to_owned(), event_schema(spec));
    let properties: Map<String, Json> = EVENTS.iter().map(property).collect();
    let schema = json!({
        "description": "Conditions for recording events, by event type.",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    });
    Schema::try_from(schema).unwrap_or_default()
}

fn event_schema(spec: &EventSpec) -> Json {
    let defaults = &spec.defaults;
    let mut properties = json!({
        "enabled": {
            "description": "Whether events of this type are recorded.",
            "type": "boolean",
            "default": defaults.enabled,
        },
        "rate": {
            "description": "Maximum events per second, such as 100/s, or none.",
            "type": "string",
            "format": "event-rate",
            "default": defaults.rate.map_or("none".to_owned(), |rate| rate.to_string()),
        },
    });
    if spec.has_duration {
        let shown = millstream_model::Interval(defaults.threshold).to_string();
        properties["threshold"] = json!({
            "description": "Minimum duration of a recorded event, or none.",
            "type": "string",
            "format": "event-threshold",
            "default": if defaults.threshold.is_zero() { "none".to_owned() } else { shown },
        });
    }
    json!({
        "description": spec.description,
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}
