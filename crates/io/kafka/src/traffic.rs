//! Bytes that a client exchanges with each broker, and how long brokers throttled the client, taken
//! from librdkafka's statistics.
//!
//! The library makes its own system calls, so a read or a write cannot be recorded when it happens.
//! Instead, the library's statistics count each broker's bytes before encryption. Every interval,
//! the increase is recorded as one write and one read, without a duration. Bytes that a client
//! exchanges after its last statistics are not recorded.

use millstream_recorder::record::{self, Subject};
use millstream_recorder::recorder;
use millstream_recorder::schema::EventKind;
use parking_lot::Mutex;
use rdkafka::ClientConfig;
use serde::Deserialize;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Interval between statistics in milliseconds. Statistics take 700 bytes per partition. For a
/// thousand partitions, librdkafka and the parser take 2.5 ms.
const INTERVAL_MS: &str = "5000";

/// The fields of the statistics that this module uses.
#[derive(Deserialize)]
struct Statistics {
    brokers: HashMap<String, BrokerStatistics>,
}

#[derive(Deserialize)]
struct BrokerStatistics {
    /// Address as `host:port`; empty for a coordinator that is not known yet.
    nodename: String,
    /// Bytes sent since the client was created.
    txbytes: u64,
    /// Bytes received since the client was created.
    rxbytes: u64,
    #[serde(default)]
    throttle: ThrottleStatistics,
}

#[derive(Default, Deserialize)]
struct ThrottleStatistics {
    /// How long the broker's quota delayed requests since the last statistics, in milliseconds.
    sum: u64,
}

/// Totals as of the last statistics.
#[derive(Default)]
pub(crate) struct Traffic {
    /// Bytes sent and received on each connection at the last statistics, by the library's name for
    /// the connection.
    connections: Mutex<HashMap<String, Connection>>,
    throttled_ms: AtomicU64,
}

struct Connection {
    node: String,
    peer: Subject,
    sent: u64,
    received: u64,
}

impl Traffic {
    /// Configures a client to emit statistics.
    pub fn request(config: &mut ClientConfig) {
        config.set("statistics.interval.ms", INTERVAL_MS);
    }

    /// Returns how long broker quotas delayed requests since the last call.
    pub fn take_throttled(&self) -> Duration {
        Duration::from_millis(self.throttled_ms.swap(0, Ordering::Relaxed))
    }

    /// Records the increase since the last statistics.
    pub fn record(&self, json: &[u8]) {
        let statistics: Statistics = match serde_json::from_slice(json) {
            Ok(statistics) => statistics,
            Err(error) => return log::debug!("cannot read librdkafka statistics: {error}"),
        };
        let throttled_ms = statistics.brokers.values().map(|broker| broker.throttle.sum).sum();
        self.throttled_ms.fetch_add(throttled_ms, Ordering::Relaxed);
        let mut connections = self.connections.lock();
        for (name, now) in
            statistics.brokers.into_iter().filter(|(_, broker)| !broker.nodename.is_empty())
        {
            let known = connections.entry(name).or_insert_with(|| Connection::to(&now.nodename));
            known.record(now);
        }
    }
}

impl Connection {
    fn to(node: &str) -> Connection {
        Connection { node: node.to_owned(), peer: peer(node), sent: 0, received: 0 }
    }

    fn record(&mut self, now: BrokerStatistics) {
        if now.nodename != self.node {
            // The coordinator has moved to another broker. The library continues to count from the
            // same totals.
            (self.peer, self.node) = (peer(&now.nodename), now.nodename);
        }
        let sent = added(&mut self.sent, now.txbytes);
        if sent > 0 {
            record::socket_write(recorder::start(EventKind::SocketWrite), &self.peer, sent);
        }
        let received = added(&mut self.received, now.rxbytes);
        if received > 0 {
            record::socket_read(recorder::start(EventKind::SocketRead), &self.peer, received);
        }
    }
}

/// Returns the increase of a total. If librdkafka forgets a broker, the total restarts at 0.
fn added(total: &mut u64, now: u64) -> usize {
    let before = std::mem::replace(total, now);
    usize::try_from(now.checked_sub(before).unwrap_or(now)).unwrap_or(usize::MAX)
}

/// Returns the broker at `host:port` as the subject of events. librdkafka does not report the
/// address that a name resolves to.
fn peer(node: &str) -> Subject {
    let (host, port) = node.rsplit_once(':').unwrap_or((node, ""));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = port.parse().unwrap_or(0);
    match host.parse::<IpAddr>() {
        Ok(ip) => Subject::peer(host, SocketAddr::new(ip, port)),
        Err(_) => Subject::named_peer(host, port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit::{recorded, start_recording};
    use serde_json::json;

    fn sums(kind: EventKind) -> Vec<(String, u64)> {
        recorded(kind).into_iter().map(|(peer, sum)| (peer, sum.bytes)).collect()
    }

    #[test]
    fn what_was_added_is_recorded_for_each_broker() {
        let _test = start_recording();
        let traffic = Traffic::default();
        let add = |name: &str, node: &str, sent: u64, received: u64| {
            let broker = json!({ "nodename": node, "txbytes": sent, "rxbytes": received, "x": [] });
            let json = json!({ "name": "rdkafka#1", "brokers": { name: broker }, "topics": {} });
            traffic.record(json.to_string().as_bytes());
        };
        traffic.record(b"not JSON");
        assert_eq!(traffic.take_throttled(), Duration::ZERO);
        add("a:9092/1", "a:9092", 100, 10);
        add("a:9092/1", "a:9092", 100, 10);
        add("a:9092/1", "a:9092", 150, 30);
        add("[::1]:9092/bootstrap", "[::1]:9092", 7, 0);
        // At first, the library does not know the coordinator. Later, the coordinator moves.
        add("GroupCoordinator", "", 0, 0);
        add("GroupCoordinator", "a:9092", 1000, 0);
        add("GroupCoordinator", "b:9093", 1500, 0);
        // The library has forgotten the broker, and has reconnected to it.
        add("a:9092/1", "a:9092", 20, 30);
        traffic.record(
            br#"{"brokers":{"c":{"nodename":"","txbytes":0,"rxbytes":0,"throttle":{"sum":250}}}}"#,
        );
        assert_eq!(traffic.take_throttled(), Duration::from_millis(250));
        assert_eq!(traffic.take_throttled(), Duration::ZERO);
        let [a, b, local] = ["a,,9092", "b,,9093", "::1,::1,9092"].map(str::to_owned);
        let sent = [(local, 7), (a.clone(), 1170), (b, 500)];
        assert_eq!(sums(EventKind::SocketWrite), sent);
        assert_eq!(sums(EventKind::SocketRead), [(a, 30)]);
    }
}
