//! Detects topics that are deleted and recreated while they are being read.
//!
//! The new topic has the same name as the old one, and eventually reaches the same offsets. The
//! client would continue at its old position, and so skip earlier records.

use super::Member;
use crate::util::kafka::error_type;
use millstream_kafka::{ClientError, Place, TopicPartition, TopicState};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval at which the topic ids are compared.
const INTERVAL: Duration = Duration::from_secs(3);

/// Maximum time for the request of the topic ids. No records are fetched during the request.
const TIMEOUT: Duration = Duration::from_secs(1);

impl Member {
    /// Starts reading recreated topics at `read_from`. Also checks whether a reported error has
    /// ended, because no records may arrive that would show this.
    pub(super) fn check_topics(&mut self, now: Instant) {
        let is_settled = self.pending.is_empty() && self.revoking.is_none();
        let is_failing = self.shared.is_failing();
        if now < self.topics_at || !is_settled {
            return;
        }
        self.topics_at = now + INTERVAL;
        let mut topics: Vec<Arc<str>> = self.owned.keys().map(|at| at.topic.clone()).collect();
        if is_failing {
            topics.extend(self.shared.config.plain_topics().map(|topic| topic.as_str().into()));
        }
        topics.sort_unstable();
        topics.dedup();
        if topics.is_empty() {
            if is_failing && self.consumer.cluster_id(TIMEOUT).is_some() {
                self.shared.recovered(|error| error_type::concerns_connection(error.code));
            }
            return;
        }
        // Without a response, a topic may be in deletion, or its broker is unreachable.
        let Ok(states) = self.consumer.describe(&topics, TIMEOUT) else { return };
        if is_failing {
            self.answered(states.iter().all(|state| state.exists));
        }
        let is_other = |(topic, state): &(&Arc<str>, &TopicState)| {
            let before = self.topic_ids.get(*topic).copied().flatten();
            let is_owned = self.owned.keys().any(|at| at.topic == **topic);
            is_owned && before.is_some() && state.id.is_some() && before != state.id
        };
        let other: Vec<Arc<str>> =
            topics.iter().zip(&states).filter(is_other).map(|(topic, _)| topic.clone()).collect();
        for topic in other {
            if let Err(error) = self.begin_again(&topic) {
                self.shared.report(&error);
            }
        }
    }

    /// Ends a reported error after the brokers have responded, if the partition leaders also
    /// respond. An error about a topic also requires that all topics exist.
    fn answered(&self, all_exist: bool) {
        let owned: Vec<TopicPartition> = self.owned.keys().cloned().collect();
        let are_led = owned.is_empty() || self.consumer.find(&owned, Place::End, TIMEOUT).is_ok();
        self.shared.recovered(|error| match error.code {
            code if error_type::is_about_topic(code) => all_exist && are_led,
            code => error_type::concerns_connection(code) && are_led,
        });
    }

    /// Closes the partitions of a recreated topic, and queues their assignment. The group's
    /// committed offsets are ignored, because they belong to the previous topic.
    fn begin_again(&mut self, topic: &Arc<str>) -> Result<(), ClientError> {
        let is_of = |at: &&TopicPartition| at.topic == *topic;
        let partitions: Vec<TopicPartition> = self.owned.keys().filter(is_of).cloned().collect();
        self.shared.open.counters.error("topic_recreated");
        log::warn!(
            "source {}: topic {topic} was deleted and recreated; reading of its records starts at \
             `read_from`",
            self.shared.open.info.id
        );
        self.recreated.insert(topic.clone());
        if self.consumer.is_cooperative() {
            self.consumer.unassign(&partitions)?;
        }
        self.disown(&partitions);
        // Handle this like an assignment by the group, which is retried after a failure.
        self.wait_for_answer(millstream_kafka::Event::Assign(partitions));
        Ok(())
    }
}
