//! Configuration of the `kafka` source.

use crate::util::formats::parse_rfc3339;
use crate::util::kafka::{OptionValue, Sasl, Tls};
use millstream_kafka::Place;
use millstream_model::{Interval, OptionError, Size};
use millstream_patterns::{PatternUse, pattern_fault};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Options for the `kafka` source.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KafkaConfig {
    /// Bootstrap brokers, as `host:port`.
    #[schemars(length(min = 1))]
    pub brokers: Vec<String>,
    /// Topics to read. A name that begins with `^` is a regular expression.
    #[schemars(length(min = 1))]
    pub topics: Vec<String>,
    /// Consumer group. The group's members share the partitions, and Kafka stores the offsets.
    #[schemars(length(min = 1))]
    pub group: String,
    /// Where to start in a partition for which neither the group nor this agent has an offset.
    #[serde(default)]
    pub read_from: ReadFrom,
    /// Where event ids come from.
    #[serde(default)]
    pub id: IdSource,
    /// Name of the header that carries the event id.
    #[serde(default = "default_id_header")]
    #[schemars(length(min = 1))]
    pub id_header: String,
    /// Additional event fields, by name. Each contains a part of the record: `topic`, `partition`,
    /// `offset`, `timestamp`, `key`, or `header.NAME`.
    #[serde(default)]
    pub fields: BTreeMap<String, RecordPart>,
    /// What happens to records without a value.
    #[serde(default)]
    pub tombstones: Tombstones,
    /// Maximum amount of data to fetch ahead, 1MiB to 1GiB. Twice this amount is reserved from
    /// `limits.memory`. Raise it for brokers with a long round-trip time.
    #[serde(default = "default_fetch_queue")]
    pub fetch_queue: Size,
    /// Interval at which offsets are committed to Kafka. A shorter interval means fewer repeated
    /// events after a crash, and more load on the brokers.
    #[serde(default = "default_commit_interval")]
    pub commit_interval: Interval,
    /// Maximum time to drain a partition that moves to another group member. Raise it for a slow
    /// sink, to avoid repeated events.
    #[serde(default = "default_revoke_timeout")]
    pub revoke_timeout: Interval,
    /// TLS settings for the connections.
    #[serde(default)]
    pub tls: Option<Tls>,
    /// The agent's SASL authentication.
    #[serde(default)]
    pub sasl: Option<Sasl>,
    /// librdkafka settings, passed through unchanged.
    #[serde(default)]
    pub options: BTreeMap<String, OptionValue>,
}

fn default_id_header() -> String {
    "millstream-id".into()
}

fn default_fetch_queue() -> Size {
    Size(8 << 20)
}

fn default_commit_interval() -> Interval {
    Interval(Duration::from_secs(1))
}

fn default_revoke_timeout() -> Interval {
    Interval(Duration::from_secs(5))
}

/// Where to start in a partition without a stored offset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadFrom {
    /// At its first record.
    #[default]
    Beginning,
    /// After its last record.
    End,
    /// At the first record at or after this time, such as `2026-11-22T10:00:00Z`.
    Time(String),
    /// At this offset, or at the nearest existing offset.
    Offset(u64),
}

/// Where to start reading a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// A position whose offset the broker looks up.
    At(Place),
    /// An offset.
    Offset(u64),
}

impl ReadFrom {
    /// Returns the start position.
    ///
    /// # Errors
    /// Returns an error if the time is invalid.
    pub fn start(&self) -> Result<Start, OptionError> {
        Ok(match self {
            ReadFrom::Beginning => Start::At(Place::First),
            ReadFrom::End => Start::At(Place::End),
            ReadFrom::Offset(offset) => Start::Offset(*offset),
            ReadFrom::Time(text) => {
                let ns = parse_rfc3339(text)
                    .map_err(|message| OptionError::new("/read_from/time", message))?;
                // `Place::Time` is in milliseconds. Round up, because no record before this time
                // may be read.
                Start::At(Place::Time(ns.saturating_add(999_999).div_euclid(1_000_000)))
            }
        })
    }
}

/// Where event ids come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IdSource {
    /// The header, otherwise the metadata of a Millstream JSON event, otherwise the position.
    #[default]
    Auto,
    /// The header, otherwise the position.
    Header,
    /// The metadata of a Millstream JSON event, otherwise the position.
    Field,
    /// The position: a hash of cluster, topic and partition, and the offset.
    Offset,
}

/// What happens to records without a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tombstones {
    /// Drops and counts them.
    #[default]
    Drop,
    /// Emits them as events with an empty message.
    Keep,
}

/// A part of a record.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub enum RecordPart {
    /// Name of the topic.
    Topic,
    /// Partition number.
    Partition,
    /// Offset of the record.
    Offset,
    /// Timestamp of the record.
    Timestamp,
    /// Key of the record.
    Key,
    /// Last header with this name.
    Header(String),
}

impl TryFrom<String> for RecordPart {
    type Error = String;

    fn try_from(text: String) -> Result<RecordPart, String> {
        Ok(match text.as_str() {
            "topic" => RecordPart::Topic,
            "partition" => RecordPart::Partition,
            "offset" => RecordPart::Offset,
            "timestamp" => RecordPart::Timestamp,
            "key" => RecordPart::Key,
            other => match other.strip_prefix("header.") {
                Some(name) if !name.is_empty() => RecordPart::Header(name.to_owned()),
                _ => {
                    return Err(format!(
                        "{other:?} is not part of a record; use topic, partition, offset, \
                         timestamp, key or header.NAME"
                    ));
                }
            },
        })
    }
}

impl KafkaConfig {
    /// Returns the topics that are configured by name, not by regular expression.
    pub fn plain_topics(&self) -> impl Iterator<Item = &String> {
        self.topics.iter().filter(|topic| !topic.starts_with('^'))
    }

    /// Returns the errors in `topics`.
    pub fn check_topics(&self) -> Vec<OptionError> {
        let error = |(index, topic): (usize, &String)| {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            let message = match topic.strip_prefix('^') {
                Some(_) => regex::bytes::Regex::new(topic).err().map(|error| {
                    let why = pattern_fault(topic, &error.to_string(), PatternUse::Condition);
                    format!("is not a regular expression: {why}")
                })?,
                None if !topic.is_empty() && topic.len() <= 249 && topic.chars().all(is_name) => {
                    return None;
                }
                None => "is not the name of a topic; use letters, digits, `.`, `_` and `-`, or a \
                         regular expression that begins with ^"
                    .to_owned(),
            };
            Some(OptionError::new(format!("/topics/{index}"), message))
        };
        self.topics.iter().enumerate().filter_map(error).collect()
    }
}
