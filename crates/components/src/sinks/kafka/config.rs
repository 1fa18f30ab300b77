//! Configuration of sink `kafka`.

use crate::codec::{Codec, Encoding, METADATA_KEY, Metadata};
use crate::util::kafka::{OptionValue, Sasl, Tls};
use crate::util::template::{TextTemplate, TopicTemplate};
use millstream_kafka::KeyHash;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Options of sink `kafka`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KafkaConfig {
    /// Bootstrap brokers, as `host:port`.
    #[schemars(length(min = 1))]
    pub brokers: Vec<String>,
    /// Topic to send to: a template.
    pub topic: TopicTemplate,
    /// Key of each record: a template; none by default.
    #[serde(default)]
    pub key: Option<TextTemplate>,
    /// Headers of each record: templates by name.
    #[serde(default)]
    pub headers: BTreeMap<String, TextTemplate>,
    /// Name of the header with the id of the event, by which a source `kafka` recognizes a repeated
    /// record; `''` for none. Defaults to `millstream-id`, unless the record has the id in
    /// `meta.id` or is a block of metrics.
    #[serde(default)]
    pub id_header: Option<String>,
    /// How a partition is chosen; defaults to `murmur2` with a key, otherwise `origin`.
    #[serde(default)]
    pub partitioner: Option<Partitioner>,
    /// How events are encoded.
    #[serde(default)]
    pub encoding: Encoding,
    /// How record batches are compressed.
    #[serde(default)]
    pub compression: Compression,
    /// How connections are encrypted.
    #[serde(default)]
    pub tls: Option<Tls>,
    /// How the agent authenticates.
    #[serde(default)]
    pub sasl: Option<Sasl>,
    /// Maximum distinct topics of one agent run; events for further topics are refused.
    #[serde(default = "default_topics_max")]
    #[schemars(range(min = 1))]
    pub topics_max: usize,
    /// Number of librdkafka clients, each with a thread that compresses; files are distributed over
    /// them.
    #[serde(default = "default_connections")]
    #[schemars(range(min = 1, max = 64))]
    pub connections: usize,
    /// librdkafka settings, passed through unchanged.
    #[serde(default)]
    pub options: BTreeMap<String, OptionValue>,
}

/// Header that carries the id of an event.
pub const ID_HEADER: &str = "millstream-id";

impl KafkaConfig {
    /// Returns the name of the header with the id of the event, if there is one.
    pub fn id_header(&self) -> Option<&str> {
        let is_in_record = match self.encoding.codec {
            Codec::Json | Codec::RawJson => {
                self.encoding.metadata_key == METADATA_KEY
                    && self.encoding.metadata.contains(&Metadata::Id)
            }
            Codec::Text => false,
            Codec::Msgpack => true,
        };
        let default = if is_in_record { "" } else { ID_HEADER };
        Some(self.id_header.as_deref().unwrap_or(default)).filter(|name| !name.is_empty())
    }
}

fn default_topics_max() -> usize {
    1000
}

fn default_connections() -> usize {
    1
}

/// How a partition is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Partitioner {
    /// All events of a file go to one partition.
    Origin,
    /// Batches go to the partitions round-robin: balanced load, no order.
    RoundRobin,
    /// By key, like Kafka's Java client.
    Murmur2,
    /// By key, like librdkafka's default.
    Crc32,
    /// By key, like Sarama, a Go client.
    Fnv1a,
}

impl Partitioner {
    /// Returns the hash of the key, if the key selects the partition.
    pub fn key_hash(self) -> Option<KeyHash> {
        match self {
            Partitioner::Origin | Partitioner::RoundRobin => None,
            Partitioner::Murmur2 => Some(KeyHash::Murmur2),
            Partitioner::Crc32 => Some(KeyHash::Crc32),
            Partitioner::Fnv1a => Some(KeyHash::Fnv1a),
        }
    }
}

/// How record batches are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// gzip.
    Gzip,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl KafkaConfig {
    /// Returns how a partition is chosen.
    pub fn partitioner(&self) -> Partitioner {
        let default = if self.key.is_some() { Partitioner::Murmur2 } else { Partitioner::Origin };
        self.partitioner.unwrap_or(default)
    }
}
