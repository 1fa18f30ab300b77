//! Topics and ACLs.

use super::Kafka;
use rdkafka::admin::{AdminOptions, NewTopic, TopicReplication};
use rdkafka::{Offset, TopicPartitionList};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(30);

impl Kafka {
    /// Creates a topic and waits until clients can use it.
    pub fn create_topic(&self, name: &str, partitions: i32) {
        self.create_topic_with(name, partitions, &[]);
    }

    /// Creates a topic with a configuration, such as `("max.message.bytes", "1000")`.
    pub fn create_topic_with(&self, name: &str, partitions: i32, config: &[(&str, &str)]) {
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        topic.config = config.to_vec();
        let created = block_on(self.admin.create_topics([&topic], &AdminOptions::new()));
        let created = created.expect("a response of the broker");
        assert!(created[0].is_ok(), "topic {name}: {created:?}");
        self.wait_for_partitions(
            name,
            usize::try_from(partitions).expect("a number of partitions"),
        );
        // A leader may be known before it responds, so wait until it does.
        self.ends(name);
    }

    /// Deletes a topic and waits until clients no longer see it.
    pub fn delete_topic(&self, name: &str) {
        let deleted = block_on(self.admin.delete_topics(&[name], &AdminOptions::new()));
        let deleted = deleted.expect("a response of the broker");
        assert!(deleted[0].is_ok(), "topic {name}: {deleted:?}");
        self.wait_for_partitions(name, 0);
    }

    /// Deletes the records of a partition before an offset, as retention does.
    pub fn delete_records(&self, topic: &str, partition: i32, before: i64) {
        let mut offsets = TopicPartitionList::new();
        offsets
            .add_partition_offset(topic, partition, Offset::Offset(before))
            .expect("a partition");
        let deleted = block_on(self.admin.delete_records(&offsets, &AdminOptions::new()));
        deleted.expect("a response of the broker");
    }

    /// Waits until this many partitions of a topic have leaders.
    fn wait_for_partitions(&self, name: &str, partitions: usize) {
        let started = Instant::now();
        let leaders = || {
            let metadata =
                self.admin.inner().fetch_metadata(Some(name), TIMEOUT).expect("metadata");
            let partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
            partitions.filter(|partition| partition.leader() >= 0).count()
        };
        while leaders() != partitions {
            assert!(
                started.elapsed() < TIMEOUT,
                "topic {name} has no {partitions} partitions with leaders"
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Allows [`Kafka::USER`] an operation on a topic, such as `Write`. For brokers with `acl`.
    pub fn allow(&self, operation: &str, topic: &str) {
        let principal = format!("User:{}", Kafka::USER);
        let args =
            ["--add", "--allow-principal", &principal, "--operation", operation, "--topic", topic];
        self.tool("org.apache.kafka.tools.AclCommand", &args);
    }
}

/// Blocks on a future of the admin client without an async runtime, so that it also works inside a
/// runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
