//! Tests that hosts with aligned periods spread their requests.

use super::endpoint::{Act, Endpoint};
use super::{PATIENCE, start_ready, stop};
use crate::support::{folder, wait_until};
use millstream_components::sinks::http_delivery::Jitter;
use millstream_testkit_servers::http::{HttpServer, ReceivedRequest};
use serde_json::Value;
use std::collections::HashMap;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Host names, some of which send early and some late.
const HOSTS: [&str; 3] = ["web-01", "web-02", "web-03"];

/// Number of full periods to measure.
const PERIODS: usize = 4;

/// Tolerance for late requests on an idle host.
const JITTER: Duration = Duration::from_millis(90);

/// Returns the delay after a period that is expected for this host.
fn own_delay(host: &str) -> Duration {
    let spread: Jitter = serde_json::from_str("\"900ms\"").unwrap();
    spread.delay(host, Duration::from_secs(1))
}

/// Returns the file name of a host's socket. The first host has the name for which `start_ready`
/// waits.
fn socket(host: &str) -> String {
    if host == HOSTS[0] { "points.sock".to_owned() } else { format!("{host}.sock") }
}

/// Returns a configuration with one source and one sink per host.
fn config(server: &HttpServer) -> String {
    let mut text = String::from("sources:\n");
    for host in HOSTS {
        let listen = format!("['unixgram://DIR/{}']", socket(host));
        text += &format!(
            "  {host}: {{ type: dogstatsd, listen: {listen}, period: 1s, host: {host} }}\n"
        );
    }
    text += "sinks:\n";
    for host in HOSTS {
        let uri = server.uri(&format!("/{host}"));
        text += &format!(
            "  to-{host}: {{ type: http, inputs: [{host}], uri: '{uri}', spread: 900ms, batch: {{ timeout: 10ms }} }}\n"
        );
    }
    text
}

/// Returns the time between the end of a full period and the arrival of its request.
fn delay(seen: &ReceivedRequest) -> Option<Duration> {
    let event: Value = serde_json::from_str(seen.text().lines().next()?).unwrap();
    let end = event["timestamp"].as_str()?;
    // If the thread pauses between the two readings of the clock, the request appears to arrive
    // later, not earlier.
    let ago = seen.at.elapsed();
    let came = SystemTime::now() - ago;
    let seconds: u64 = end[17..19].parse().unwrap();
    assert_eq!(&end[19..], ".000Z", "a period ends with a second");
    let of_minute = Duration::from_nanos(
        (came.duration_since(UNIX_EPOCH).unwrap().as_nanos() % 60_000_000_000) as u64,
    );
    let of_minute =
        if of_minute.as_secs() < seconds { of_minute + Duration::from_secs(60) } else { of_minute };
    (event["interval"] == 1.0).then(|| of_minute - Duration::from_secs(seconds))
}

#[test]
fn each_host_sends_at_a_fixed_delay_after_every_period() {
    let endpoint = Endpoint::start(|_, _| Act::Keep);
    let dir = folder();
    let agent = start_ready(dir.path(), &config(&endpoint.server));
    let listen = || HOSTS.iter().all(|host| dir.path().join(socket(host)).exists());
    wait_until("all sources listen", PATIENCE, listen);
    let mut delays: HashMap<&str, Vec<Duration>> = HashMap::new();
    let begun = Instant::now();
    // A busy host may send late, but not in every period.
    let is_seen = |host: &str, delays: &[Duration]| {
        delays.len() >= PERIODS && delays.iter().any(|delay| *delay < own_delay(host) + JITTER)
    };
    while HOSTS.iter().any(|host| !delays.get(host).is_some_and(|delays| is_seen(host, delays))) {
        assert!(begun.elapsed() < PATIENCE, "{delays:?}\n{}", agent.log());
        for host in HOSTS {
            let client = UnixDatagram::unbound().unwrap();
            client.send_to(b"herd.points:1|c", dir.path().join(socket(host))).unwrap();
        }
        std::thread::sleep(Duration::from_millis(100));
        for host in HOSTS {
            let path = format!("/{host}");
            let of_host = endpoint.server.requests().into_iter().filter(|seen| seen.path == path);
            delays.insert(host, of_host.filter_map(|seen| delay(&seen)).collect());
        }
    }
    for host in HOSTS {
        let (expected, least) = (own_delay(host), delays[host].iter().min().unwrap());
        assert!(
            *least + Duration::from_millis(1) >= expected,
            "{host}: {least:?} instead of {expected:?}"
        );
    }
    stop(agent);
}
