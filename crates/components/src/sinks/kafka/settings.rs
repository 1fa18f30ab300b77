//! Translates the sink's options to librdkafka's settings.

use super::config::{Compression, KafkaConfig};
use crate::util;
use crate::util::kafka::{OptionValue, connection};
use millstream_model::OptionError;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of records in flight, each with at least 200 bytes of the library's memory. The
/// limit exceeds what a round trip to a distant broker needs; the engine limits the bytes.
pub const RECORDS_MAX: usize = 100_000;

/// librdkafka's default size of a record batch before compression, in bytes.
const BATCH_BYTES: usize = 1_000_000;

/// Batch size in bytes that is small enough to send the records of a rejected batch individually.
const BATCH_BYTES_SMALL: usize = 16_384;

/// Smallest batch size in bytes.
const BATCH_BYTES_MIN: usize = 1_024;

/// Time that a batch waits for more records, in milliseconds. The library's default of 5 costs a
/// fifth more CPU time, and lines are read in steps of 100 ms anyway.
const LINGER_MS: f64 = 50.0;

/// Settings that the sink derives from its options.
const OWN: &[(&str, &str)] = &[
    ("compression.codec", "compression"),
    ("compression.type", "compression"),
    ("partitioner", "partitioner"),
];

/// Settings that would break the sink's guarantees: delivery reports, order, memory.
const REFUSED: &[&str] = &[
    "delivery.report.only.error",
    "enable.gapless.guarantee",
    "enabled_events",
    "log.queue",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "queuing.strategy",
    "topic.blacklist",
    "transactional.id",
];

/// How records are batched. A lane starts with the defaults, and shrinks the batches when a broker
/// rejects one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Maximum size of a batch in bytes.
    pub batch_bytes: usize,
    /// Whether each record is sent as a separate batch.
    pub one_by_one: bool,
}

impl Default for Batching {
    fn default() -> Self {
        Batching { batch_bytes: BATCH_BYTES, one_by_one: false }
    }
}

impl Batching {
    /// Returns the next step after a rejection: first smaller batches, then the records of small
    /// batches individually.
    pub fn smaller(self) -> Batching {
        if self.batch_bytes > BATCH_BYTES_SMALL {
            return Batching {
                batch_bytes: (self.batch_bytes / 4).max(BATCH_BYTES_SMALL),
                one_by_one: false,
            };
        }
        Batching { batch_bytes: (self.batch_bytes / 2).max(BATCH_BYTES_MIN), one_by_one: true }
    }

    /// Returns the next step to larger batches.
    pub fn larger(self) -> Batching {
        Batching { batch_bytes: (self.batch_bytes * 4).min(BATCH_BYTES), ..self }
    }
}

/// Returns all settings for a client.
pub fn of(config: &KafkaConfig, batching: &Batching) -> Vec<(String, String)> {
    let mut settings = BTreeMap::new();
    let mut set = |key: &str, value: String| drop(settings.insert(key.to_owned(), value));
    connection(&config.brokers, config.tls.as_ref(), config.sasl.as_ref(), &mut set);
    set("compression.codec", codec(config.compression).into());
    set("enable.idempotence", "true".into());
    // Retry without limit. Meanwhile, the lane reports errors.
    set("message.timeout.ms", "0".into());
    // The engine limits the records in flight; the library's limits must not apply first.
    set("queue.buffering.max.messages", (RECORDS_MAX * 4).to_string());
    set("queue.buffering.max.kbytes", "2097151".into());
    set("linger.ms", LINGER_MS.to_string());
    for (key, value) in &config.options {
        // `queue.buffering.max.ms` is an alias. The library must not receive both names.
        set(if key == "queue.buffering.max.ms" { "linger.ms" } else { key }, value.to_string());
    }
    finish(settings, batching)
}

/// Returns how long the library waits for more records before it sends a batch.
pub fn linger(config: &KafkaConfig) -> Duration {
    let option =
        |key: &str| config.options.get(key).and_then(|value| value.to_string().parse().ok());
    let ms: f64 =
        option("linger.ms").or_else(|| option("queue.buffering.max.ms")).unwrap_or(LINGER_MS);
    Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default()
}

/// Adds the settings that depend on the batching and on configured settings.
fn finish(mut settings: BTreeMap<String, String>, batching: &Batching) -> Vec<(String, String)> {
    if batching.one_by_one {
        settings.insert("batch.num.messages".into(), "1".into());
    } else {
        // A record that is rejected individually may leave a gap; a record in a batch may not.
        if is_true(&settings["enable.idempotence"]) {
            settings.insert("enable.gapless.guarantee".into(), "true".into());
        }
        if *batching != Batching::default() {
            let chosen = settings.get("batch.size").and_then(|bytes| bytes.parse().ok());
            let bytes = chosen
                .map_or(batching.batch_bytes, |chosen: usize| chosen.min(batching.batch_bytes));
            settings.insert("batch.size".into(), bytes.to_string());
        }
    }
    settings.into_iter().collect()
}

/// Returns whether the library parses this as true.
fn is_true(value: &str) -> bool {
    matches!(value.trim().to_ascii_lowercase().as_str(), "true" | "t" | "1")
}

fn codec(compression: Compression) -> &'static str {
    match compression {
        Compression::None => "none",
        Compression::Gzip => "gzip",
        Compression::Snappy => "snappy",
        Compression::Lz4 => "lz4",
        Compression::Zstd => "zstd",
    }
}

/// Returns the errors in `options`.
pub fn check_options(options: &BTreeMap<String, OptionValue>) -> Vec<OptionError> {
    let is_silent = |key: &str, value: &OptionValue| {
        matches!(key, "acks" | "request.required.acks") && value.to_string().trim() == "0"
    };
    let refused = |key: &str, value: &OptionValue| REFUSED.contains(&key) || is_silent(key, value);
    util::kafka::check_options(options, OWN, refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_break_a_guarantee_are_rejected_and_others_are_not() {
        let error = |key: &str, value: &str| {
            let options = [(key.to_owned(), OptionValue::Text(value.into()))].into();
            check_options(&options).pop()
        };
        let refused = [
            ("acks", "0"),
            ("request.required.acks", "0"),
            ("test.mock.num.brokers", "1"),
            ("internal.termination.signal", "15"),
            ("queue.buffering.max.messages", "1"),
            ("enable.ssl.certificate.verification", "false"),
            ("bootstrap.servers", "other:9092"),
            ("linger.ms", "soon"),
            ("no.such.setting", "1"),
        ];
        assert!(refused.iter().all(|(key, value)| error(key, value).is_some()));
        let accepted = [
            ("acks", "1"),
            ("enable.idempotence", "1"),
            ("linger.ms", "5"),
            ("batch.size", "50000"),
        ];
        assert!(accepted.iter().all(|(key, value)| error(key, value).is_none()));
    }

    #[test]
    fn idempotence_enables_gapless_delivery_however_it_is_written() {
        for (written, gapless) in
            [("true", true), ("1", true), ("TRUE", true), ("false", false), ("0", false)]
        {
            let settings = BTreeMap::from([("enable.idempotence".to_owned(), written.to_owned())]);
            let finished = finish(settings, &Batching::default());
            assert_eq!(
                finished.iter().any(|(key, _)| key == "enable.gapless.guarantee"),
                gapless,
                "{written}"
            );
        }
    }
}
