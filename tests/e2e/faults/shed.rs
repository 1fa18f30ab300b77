//! Tests an endpoint that is down while metrics arrive, and a buffer that drops the oldest events.

use super::endpoint::{Act, Endpoint};
use super::metrics::decode;
use super::{PATIENCE, counted, points, send, start_ready, stop};
use crate::support::{folder, wait_until};
use millstream_testkit_servers::http::Reply;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Number of new series per wave; each series is one event.
const SERIES: usize = 4000;

const WAVES: usize = 6;

#[test]
fn drops_during_an_outage_are_counted_exactly() {
    let is_away = Arc::new(AtomicBool::new(true));
    let away = is_away.clone();
    let endpoint = Endpoint::start(move |_, _| match away.load(Ordering::Relaxed) {
        true => Act::Instead(Reply::status(503)),
        false => Act::Keep,
    });
    let dir = folder();
    let sink = format!(
        "type: http, uri: '{}', spread: 0s, encoding: {{ codec: msgpack }}, batch: {{ bytes: 64KiB, timeout: 10ms }}, \
         buffer: {{ type: memory, max: 96KiB, when_full: drop_oldest }}",
        endpoint.server.uri("/in")
    );
    let agent = start_ready(dir.path(), &points(&sink));
    for wave in 0..WAVES {
        send(
            dir.path(),
            (0..SERIES).map(|series| format!("shed.{wave}.{series}:1|c|#wave:w{wave}")),
        );
        std::thread::sleep(Duration::from_millis(1100));
    }
    let source = "millstream_component_sent_events_total{component_id=\"points\"";
    let produced = (SERIES * WAVES) as u64;
    wait_until("the end of the last period", PATIENCE, || {
        agent.metric(source) == Some(produced as f64)
    });
    is_away.store(false, Ordering::Relaxed);
    let counts = || (counted(&agent, "sent_events", ""), counted(&agent, "dropped_events", ""));
    wait_until("every event is accounted for", PATIENCE, || counts().0 + counts().1 >= produced);
    let (sent, dropped) = counts();
    assert_eq!(sent + dropped, produced);
    assert_eq!(counted(&agent, "dropped_events", "reason=\"buffer_full\""), dropped);
    assert!(dropped > 0 && sent > 0, "{dropped} dropped, {sent} sent");
    let events = decode(&endpoint.bytes());
    assert_eq!(events.len() as u64, sent, "what was sent is there");
    let times: Vec<i64> = events.iter().map(|event| event["time_ns"].as_i64().unwrap()).collect();
    assert!(times.is_sorted(), "in order of time");
    let mut per_wave: HashMap<&str, usize> = HashMap::new();
    events.iter().for_each(|event| {
        *per_wave.entry(event["tags"]["wave"].as_str().unwrap()).or_default() += 1
    });
    let newest = format!("w{}", WAVES - 1);
    assert!(per_wave.contains_key(&*newest), "the newest is kept: {per_wave:?}");
    stop(agent);
}
