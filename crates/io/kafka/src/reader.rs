//! A reader of one topic: what is added to it after the reader was made.

use crate::ErrorCode;
use crate::producer::TopicError;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use std::time::Duration;

/// Reads every partition of a topic, without a group.
pub struct Reader {
    consumer: BaseConsumer,
}

impl Reader {
    /// Makes a client from librdkafka's own settings, which reads `topic` from its present end on.
    /// Blocks for up to `timeout` per partition.
    pub fn open(
        settings: &[(&str, &str)],
        topic: &str,
        timeout: Duration,
    ) -> Result<Reader, TopicError> {
        let mut config = ClientConfig::new();
        // The library wants the name of a group, though none is joined.
        config
            .set("group.id", "millstream")
            .set("enable.auto.commit", "false")
            .set("check.crcs", "true");
        for (key, value) in settings {
            config.set(*key, *value);
        }
        config.set_log_level(RDKafkaLogLevel::Error);
        let consumer: BaseConsumer = config.create().map_err(failed)?;
        let metadata = consumer.fetch_metadata(Some(topic), timeout).map_err(failed)?;
        let partitions = metadata.topics().first().map_or(&[][..], |topic| topic.partitions());
        if partitions.is_empty() {
            return Err(failed(KafkaError::MetadataFetch(ErrorCode::UnknownTopicOrPartition)));
        }
        let mut wanted = TopicPartitionList::new();
        for partition in partitions {
            let (_, end) =
                consumer.fetch_watermarks(topic, partition.id(), timeout).map_err(failed)?;
            wanted
                .add_partition_offset(topic, partition.id(), Offset::Offset(end))
                .map_err(failed)?;
        }
        consumer.assign(&wanted).map_err(failed)?;
        Ok(Reader { consumer })
    }

    /// Hands every record that has come to `take`, by partition in the order of the topic, until
    /// none came for `quiet`; how many. A failure that may pass counts as quiet.
    pub fn read(&self, quiet: Duration, mut take: impl FnMut(&[u8])) -> u64 {
        let mut count = 0;
        while let Some(polled) = self.consumer.poll(quiet) {
            match polled {
                Ok(message) => {
                    take(message.payload().unwrap_or_default());
                    count += 1;
                }
                Err(error) => log::debug!("reading a topic: {error}"),
            }
        }
        count
    }
}

fn failed(error: KafkaError) -> TopicError {
    let code = error.rdkafka_error_code().unwrap_or(ErrorCode::Unknown);
    TopicError { code, message: error.to_string() }
}
