//! Topics and rights.

use super::Kafka;
use rdkafka::admin::{AdminOptions, NewTopic, TopicReplication};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

impl Kafka {
    /// Makes a topic, and waits until clients can use it.
    pub fn create_topic(&self, name: &str, partitions: i32) {
        self.create_topic_with(name, partitions, &[]);
    }

    /// The same with a configuration, such as `("max.message.bytes", "1000")`.
    pub fn create_topic_with(&self, name: &str, partitions: i32, config: &[(&str, &str)]) {
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        topic.config = config.to_vec();
        let made = finish(self.admin.create_topics([&topic], &AdminOptions::new()));
        let made = made.expect("an answer of the broker");
        assert!(made[0].is_ok(), "topic {name}: {made:?}");
        self.wait_for_partitions(
            name,
            usize::try_from(partitions).expect("a number of partitions"),
        );
        // The leaders are known before they serve.
        self.ends(name);
    }

    /// Removes a topic, and waits until clients no longer see it.
    pub fn delete_topic(&self, name: &str) {
        let gone = finish(self.admin.delete_topics(&[name], &AdminOptions::new()));
        let gone = gone.expect("an answer of the broker");
        assert!(gone[0].is_ok(), "topic {name}: {gone:?}");
        self.wait_for_partitions(name, 0);
    }

    /// Waits until the broker shows so many partitions of a topic.
    fn wait_for_partitions(&self, name: &str, partitions: usize) {
        let begun = Instant::now();
        let leaders = || {
            let metadata =
                self.admin.inner().fetch_metadata(Some(name), PATIENCE).expect("metadata");
            let partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
            partitions.filter(|partition| partition.leader() >= 0).count()
        };
        while leaders() != partitions {
            assert!(
                begun.elapsed() < PATIENCE,
                "topic {name} has no {partitions} partitions with leaders"
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Gives [`Kafka::USER`] a right on a topic, such as `Write`; of use with `acl`.
    pub fn allow(&self, operation: &str, topic: &str) {
        let principal = format!("User:{}", Kafka::USER);
        let args =
            ["--add", "--allow-principal", &principal, "--operation", operation, "--topic", topic];
        self.tool("org.apache.kafka.tools.AclCommand", &args);
    }
}

/// Waits for an answer of the admin client, also in a test that runs inside an async runtime: this
/// needs none.
fn finish<F: Future>(future: F) -> F::Output {
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
