//! Topics that are deleted and created again while they are read.
//!
//! The new topic has the name, and after a while also the offsets, of the old one. The client
//! continues at its position, and so would skip the records before it.

use super::Member;
use millstream_kafka::{ClientError, TopicPartition};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the ids of the topics are compared.
const INTERVAL: Duration = Duration::from_secs(3);

/// How long the question for the ids may take. Records wait meanwhile.
const TIMEOUT: Duration = Duration::from_secs(1);

impl Member {
    /// Reads topics that were created again from where a new partition starts.
    pub(super) fn check_topics(&mut self, now: Instant) {
        let is_settled = self.pending.is_empty() && self.revoking.is_none();
        if now < self.topics_at || !is_settled || self.owned.is_empty() {
            return;
        }
        self.topics_at = now + INTERVAL;
        let mut topics: Vec<Arc<str>> = self.owned.keys().map(|at| at.topic.clone()).collect();
        topics.sort_unstable();
        topics.dedup();
        // A topic without an answer is being deleted, or its broker is away.
        let Ok(ids) = self.consumer.topic_ids(&topics, TIMEOUT) else { return };
        let is_other = |(topic, id): &(&Arc<str>, &Option<[u8; 16]>)| {
            let before = self.topic_ids.get(*topic).copied().flatten();
            before.is_some() && id.is_some() && before != **id
        };
        let other: Vec<Arc<str>> =
            topics.iter().zip(&ids).filter(is_other).map(|(topic, _)| topic.clone()).collect();
        for topic in other {
            if let Err(error) = self.begin_again(&topic) {
                self.shared.report(&error);
            }
        }
    }

    /// Opens the partitions of a topic that was created again. What the group has of it is of the
    /// topic before.
    fn begin_again(&mut self, topic: &Arc<str>) -> Result<(), ClientError> {
        let is_of = |at: &&TopicPartition| at.topic == *topic;
        let of: Vec<TopicPartition> = self.owned.keys().filter(is_of).cloned().collect();
        self.shared.open.counters.error("topic_recreated");
        log::warn!(
            "source {}: topic {topic} was deleted and created again; its records are read from `read_from` on",
            self.shared.open.info.id
        );
        let gone: Vec<_> =
            of.iter().filter_map(|at| Some(self.owned.get(at)?.partition.clone())).collect();
        self.recreated.insert(topic.clone());
        if self.consumer.is_cooperative() {
            self.consumer.unassign(&of)?;
        }
        self.shared.remove(&gone);
        for at in &of {
            self.owned.remove(at);
            self.offsets.end(at);
        }
        // Answered like an assignment by the group, which repeats it after a failure.
        self.wait_for_answer(millstream_kafka::Event::Assign(of));
        Ok(())
    }
}
