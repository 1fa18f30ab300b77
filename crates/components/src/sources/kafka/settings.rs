//! Translates the source's options to librdkafka's settings.

use super::config::KafkaConfig;
use crate::util;
use crate::util::kafka::{OptionValue, connection};
use millstream_model::OptionError;
use std::collections::BTreeMap;

/// Record size in bytes below which the record count limits the fetch queue instead of the bytes,
/// because librdkafka needs about this much additional memory per record.
const RECORD_BYTES: u64 = 256;

/// Number of bytes that the consumer for rereads fetches ahead.
const REREAD_QUEUE_BYTES: u64 = 1 << 20;

/// Settings that the source derives from its options.
const OWN: &[(&str, &str)] = &[
    ("group.id", "group"),
    ("auto.offset.reset", "read_from"),
    ("auto.commit.interval.ms", "commit_interval"),
    ("queued.max.messages.kbytes", "fetch_queue"),
];

/// Settings that would break the source's guarantees: offsets, memory, the end of partitions.
const REFUSED: &[&str] = &[
    "enable.auto.commit",
    "auto.commit.enable",
    "enable.auto.offset.store",
    "offset.store.method",
    "offset.store.path",
    "offset.store.sync.interval.ms",
    "enable.partition.eof",
    "queued.min.messages",
    "fetch.max.bytes",
    "enabled_events",
    "log.queue",
    "topic.blacklist",
    "consume.callback.max.messages",
];

/// Returns the settings for the group member.
///
/// The end of a partition is reported only for a run that ends there. librdkafka (2.12) counts the
/// report as a record, and would skip the next record after a rebalance.
pub fn of(config: &KafkaConfig, until_eof: bool) -> Vec<(String, String)> {
    let mut settings = BTreeMap::new();
    put(&mut settings, config, config.fetch_queue.0);
    let mut set = |key: &str, value: &str| drop(settings.insert(key.to_owned(), value.to_owned()));
    set("enable.partition.eof", if until_eof { "true" } else { "false" });
    set("partition.assignment.strategy", "cooperative-sticky");
    // Limits the time until a new topic that matches a pattern is found.
    set("topic.metadata.refresh.interval.ms", "30000");
    for (key, value) in &config.options {
        set(key, &value.to_string());
    }
    // A member whose heartbeat interval exceeds its session timeout would be removed from the group
    // immediately.
    let session = config.options.get("session.timeout.ms").map(|value| value.to_string().parse());
    if let (Some(Ok(session_ms)), false) =
        (session, config.options.contains_key("heartbeat.interval.ms"))
    {
        set("heartbeat.interval.ms", &heartbeat_ms(session_ms).to_string());
    }
    // With the new protocol, the broker decides how partitions are assigned.
    if config.options.get("group.protocol").is_some_and(|value| value.to_string() == "consumer") {
        settings.remove("partition.assignment.strategy");
    }
    settings.into_iter().collect()
}

/// Returns the heartbeat interval: a third of the session timeout, but at most the default.
fn heartbeat_ms(session_ms: u64) -> u64 {
    (session_ms / 3).clamp(1, 3000)
}

/// Returns the settings for the rereading consumer, which is not a member of the group.
pub fn of_rereads(config: &KafkaConfig) -> Vec<(String, String)> {
    let mut settings = BTreeMap::new();
    put(&mut settings, config, REREAD_QUEUE_BYTES);
    let is_about_group = |key: &str| {
        key.starts_with("group.") || key.starts_with("partition.") || key.starts_with("session.")
    };
    for (key, value) in config.options.iter().filter(|(key, _)| !is_about_group(key)) {
        settings.insert(key.clone(), value.to_string());
    }
    settings.into_iter().collect()
}

fn put(settings: &mut BTreeMap<String, String>, config: &KafkaConfig, queue_bytes: u64) {
    let mut set = |key: &str, value: String| drop(settings.insert(key.to_owned(), value));
    connection(&config.brokers, config.tls.as_ref(), config.sasl.as_ref(), &mut set);
    set("group.id", config.group.clone());
    set("enable.auto.commit", "false".into());
    set("enable.auto.offset.store", "false".into());
    // The source decides where reading starts, so a lost position must be reported.
    set("auto.offset.reset", "error".into());
    set("enable.partition.eof", "true".into());
    set("queued.max.messages.kbytes", (queue_bytes >> 10).to_string());
    set("queued.min.messages", (queue_bytes / RECORD_BYTES).to_string());
    // A response may exceed the queue by its size.
    let fetch_bytes = (queue_bytes / 2).max(1 << 20);
    set("fetch.max.bytes", fetch_bytes.to_string());
    set("fetch.message.max.bytes", fetch_bytes.min(1 << 20).to_string());
    // The queue is full while the sinks are slow. Fetching must resume as soon as they catch up.
    set("fetch.queue.backoff.ms", "20".into());
    set("fetch.wait.max.ms", "100".into());
}

/// Returns the errors in `options`.
pub fn check_options(options: &BTreeMap<String, OptionValue>) -> Vec<OptionError> {
    util::kafka::check_options(options, OWN, |key, _| REFUSED.contains(&key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(options: &[(&str, &str)]) -> KafkaConfig {
        let options: BTreeMap<&str, &str> = options.iter().copied().collect();
        serde_json::from_value(serde_json::json!({
            "brokers": ["a:1"], "topics": ["t"], "group": "g", "options": options,
        }))
        .unwrap()
    }

    #[test]
    fn options_are_passed_on_except_those_that_break_a_guarantee() {
        let errors = |key: &str| check_options(&config(&[(key, "true")]).options).len();
        assert_eq!(["enable.auto.commit", "auto.offset.reset", "group.id"].map(errors), [1; 3]);
        let all = |config: &KafkaConfig| of(config, false).into_iter().collect::<BTreeMap<_, _>>();
        let settings = all(&config(&[("session.timeout.ms", "6000")]));
        assert_eq!(settings["session.timeout.ms"], "6000");
        assert_eq!(settings["heartbeat.interval.ms"], "2000");
        assert_eq!(settings["partition.assignment.strategy"], "cooperative-sticky");
        let settings = all(&config(&[("group.protocol", "consumer")]));
        assert!(!settings.contains_key("partition.assignment.strategy"));
        let rereads = of_rereads(&config(&[("group.instance.id", "a"), ("check.crcs", "true")]));
        let rereads: BTreeMap<_, _> = rereads.into_iter().collect();
        assert!(!rereads.contains_key("group.instance.id") && rereads.contains_key("check.crcs"));
    }
}
