//! Configuration of the `kafka` sink.

use crate::codec::{Codec, Encoding, METADATA_KEY, Metadata};
use crate::util::kafka::{OptionValue, Sasl, Tls};
use crate::util::template::{TextTemplate, TopicTemplate};
use millstream_kafka::KeyHash;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Options for the `kafka` sink.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KafkaConfig {
    /// Bootstrap brokers, as `host:port`.
    #[schemars(length(min = 1))]
    pub brokers: Vec<String>,
    /// Topic to send records to, as a template.
    pub topic: TopicTemplate,
    /// Key of each record, as a template. The default is no key.
    #[serde(default)]
    pub key: Option<TextTemplate>,
    /// Additional headers to send with each record, by name; the values are templates.
    #[serde(default)]
    pub headers: BTreeMap<String, TextTemplate>,
    /// Name of the header that carries the event id; the `kafka` source uses it to recognize
    /// repeated records. `''` sends no header. The default is `millstream-id`, or no header if the
    /// record contains the id in `meta.id` or is a block of metrics.
    #[serde(default)]
    pub id_header: Option<String>,
    /// How the sink chooses a partition. The default is `murmur2` with a key, otherwise `origin`.
    #[serde(default)]
    pub partitioner: Option<Partitioner>,
    /// Event encoding.
    #[serde(default)]
    pub encoding: Encoding,
    /// Compression of record batches.
    #[serde(default)]
    pub compression: Compression,
    /// TLS settings for the connections.
    #[serde(default)]
    pub tls: Option<Tls>,
    /// The agent's SASL authentication.
    #[serde(default)]
    pub sasl: Option<Sasl>,
    /// Maximum number of distinct topics in one run of the agent; events for additional topics are
    /// rejected. The limit protects the brokers from a template that renders too many names.
    #[serde(default = "default_topics_max")]
    #[schemars(range(min = 1))]
    pub topics_max: usize,
    /// Number of librdkafka clients. Each client handles a share of the files, and compresses on
    /// one thread per broker. Raise it if one of these threads saturates a core.
    #[serde(default = "default_connections")]
    #[schemars(range(min = 1, max = 64))]
    pub connections: usize,
    /// librdkafka settings, passed through unchanged.
    #[serde(default)]
    pub options: BTreeMap<String, OptionValue>,
}

/// Default name of the header that carries the id of an event.
pub const ID_HEADER: &str = "millstream-id";

impl KafkaConfig {
    /// Returns the name of the header that carries the id of the event, if there is one.
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

    /// Returns the configured partitioner, or its default.
    pub fn partitioner(&self) -> Partitioner {
        let default = if self.key.is_some() { Partitioner::Murmur2 } else { Partitioner::Origin };
        self.partitioner.unwrap_or(default)
    }
}

fn default_topics_max() -> usize {
    1000
}

fn default_connections() -> usize {
    1
}

/// How the sink chooses a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Partitioner {
    /// Sends all events of a file to one partition.
    Origin,
    /// Sends batches to the partitions round-robin, which balances the load but does not keep the
    /// order.
    RoundRobin,
    /// Hashes the key like Kafka's Java client.
    Murmur2,
    /// Hashes the key like librdkafka's default partitioner.
    Crc32,
    /// Hashes the key like Sarama, a Go client.
    Fnv1a,
}

impl Partitioner {
    /// Returns the hash function, if the key selects the partition.
    pub fn key_hash(self) -> Option<KeyHash> {
        match self {
            Partitioner::Origin | Partitioner::RoundRobin => None,
            Partitioner::Murmur2 => Some(KeyHash::Murmur2),
            Partitioner::Crc32 => Some(KeyHash::Crc32),
            Partitioner::Fnv1a => Some(KeyHash::Fnv1a),
        }
    }
}

/// Compression of record batches.
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
