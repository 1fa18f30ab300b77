//! Reads the records that are written to a topic after the reader was opened.

use crate::ErrorCode;
use crate::client::ClientError;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use std::time::Duration;

/// Reads all partitions of a topic, without joining a consumer group.
pub struct Reader {
    consumer: BaseConsumer,
}

impl Reader {
    /// Creates a client that reads `topic`, starting at its current end. `settings` are librdkafka
    /// settings. Blocks for up to `timeout` per partition.
    pub fn open(
        settings: &[(&str, &str)],
        topic: &str,
        timeout: Duration,
    ) -> Result<Reader, ClientError> {
        let mut config = ClientConfig::new();
        // librdkafka requires a group id even if the client joins no group.
        config
            .set("group.id", "millstream")
            .set("enable.auto.commit", "false")
            .set("check.crcs", "true");
        for (key, value) in settings {
            config.set(*key, *value);
        }
        config.set_log_level(RDKafkaLogLevel::Error);
        let consumer: BaseConsumer = config.create().map_err(ClientError::from)?;
        let metadata = consumer.fetch_metadata(Some(topic), timeout).map_err(ClientError::from)?;
        let partitions = metadata.topics().first().map_or(&[][..], |topic| topic.partitions());
        if partitions.is_empty() {
            return Err(KafkaError::MetadataFetch(ErrorCode::UnknownTopicOrPartition).into());
        }
        let mut wanted = TopicPartitionList::new();
        for partition in partitions {
            let (_, end) = consumer
                .fetch_watermarks(topic, partition.id(), timeout)
                .map_err(ClientError::from)?;
            wanted
                .add_partition_offset(topic, partition.id(), Offset::Offset(end))
                .map_err(ClientError::from)?;
        }
        consumer.assign(&wanted).map_err(ClientError::from)?;
        Ok(Reader { consumer })
    }

    /// Passes each record to `handle`, in order per partition, until no record has arrived for
    /// `quiet`. Returns the number of records. Errors are logged at debug level.
    pub fn read(&self, quiet: Duration, mut handle: impl FnMut(&[u8])) -> u64 {
        let mut count = 0;
        while let Some(polled) = self.consumer.poll(quiet) {
            match polled {
                Ok(message) => {
                    handle(message.payload().unwrap_or_default());
                    count += 1;
                }
                Err(error) => log::debug!("reading a topic: {error}"),
            }
        }
        count
    }
}
