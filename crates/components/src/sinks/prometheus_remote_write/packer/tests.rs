use super::*;
use crate::sinks::http_delivery::PayloadMetadata;
use crate::sinks::prometheus::{Encoding, encoded};
use millstream_encodings::metric::{Kind, Metric, SketchText, Temporality, Value};
use millstream_encodings::prometheus::{Distributions, LabelRules, NameEscaping};
use millstream_model::Payload;
use millstream_testkit::damaged;

fn packer(protocol: Protocol, events: u64) -> (RemotePacker, Arc<Counters>) {
    packer_of(Feed::of_refused(), protocol, events)
}

/// Creates a packer for a sink whose rejected events a component reads.
fn packer_with_reader(protocol: Protocol, events: u64) -> (RemotePacker, Arc<Counters>) {
    let feed = Feed::of_refused();
    feed.attach(0, Arc::new(|| ()));
    packer_of(feed, protocol, events)
}

fn packer_of(feed: Arc<Feed>, protocol: Protocol, events: u64) -> (RemotePacker, Arc<Counters>) {
    packer_for(feed, protocol, events, &Distributions::Native)
}

fn packer_for(
    feed: Arc<Feed>,
    protocol: Protocol,
    events: u64,
    distributions: &Distributions,
) -> (RemotePacker, Arc<Counters>) {
    let rules = LabelRules {
        constant: Vec::new(),
        host_label: None,
        counter_suffix: true,
        escaping: NameEscaping::Underscores,
        value_bytes_max: 4,
    };
    let options = Options {
        rules,
        distributions: distributions.clone(),
        expire_seconds: 600,
        series_max: 5,
        starts_at_zero: false,
        seed: 1,
    };
    let counters = Arc::<Counters>::default();
    let limits = Limits { events, bytes: 1 << 20, protocol };
    let cx = LaneCx { feed, ..LaneCx::outside("out", 0, counters.clone()) };
    (RemotePacker::new(options, limits, &cx), counters)
}

/// Builds a payload with a counter of value 1 for each name, at this second.
fn payload(names: &[&str], second: i64) -> EncodedPayload {
    let time_ns = (now_ms() / 1000 + second) * 1_000_000_000;
    let metric = |name: &'_ &'static str| Metric {
        name: name.as_bytes(),
        tags: br#"{"tag":"longer"}"#,
        kind: Kind::Counter,
        temporality: Temporality::Delta,
        value: Value::Number(1.0),
        time_ns,
        interval: 1.0,
    };
    let leaked: Vec<&'static str> = names.iter().map(|name| &*name.to_string().leak()).collect();
    let metrics: Vec<_> = leaked.iter().map(metric).collect();
    let (routing, text) = encoded(&metrics, &Distributions::Native);
    let bytes = text.len() as u64;
    EncodedPayload {
        parts: vec![text],
        events: names.len() as u64,
        bytes,
        routing: Some(routing),
        units_before: 0,
        continues: false,
    }
}

fn header(request: &Request, name: &str) -> String {
    request
        .headers
        .iter()
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value.clone())
        .unwrap_or_default()
}

fn body(request: &Request) -> Vec<u8> {
    request.origin.downcast_ref::<Packed>().unwrap().body.parts().concat()
}

/// Returns the events of each request.
fn events(requests: &[Request]) -> Vec<u64> {
    requests.iter().map(|request| request.events.len()).collect()
}

#[test]
fn requests_have_a_bounded_size() {
    let (mut packer, _) = packer(Protocol::One, 2);
    let requests = packer.pack(vec![payload(&["a", "b", "c"], 0), payload(&["a", "b"], 1)]);
    assert_eq!(events(&requests), [2, 2, 1]);
    assert_eq!(header(&requests[0], "content-encoding"), "snappy");
    assert_eq!(header(&requests[0], "content-type"), "application/x-protobuf");
    assert_eq!(header(&requests[0], "x-prometheus-remote-write-version"), "0.1.0");
    assert_ne!(requests[0].body[0], body(&requests[0]));
}

#[test]
fn a_refused_request_is_halved_down_to_single_events() {
    let (mut packer, _) = packer(Protocol::Two, 10);
    let whole = packer.pack(vec![payload(&["a", "b", "c"], 0)]).remove(0);
    let [first, second] = packer.split(whole).unwrap().try_into().ok().unwrap();
    assert_eq!((&first.events, &second.events), (&EventSet::of(0..1), &EventSet::of(1..3)));
    assert!(packer.split(first).is_none());
    assert_eq!(events(&packer.split(second).unwrap()), [1, 1]);
}

#[test]
fn dropped_events_are_counted_by_reason() {
    let (mut packer, counters) = packer(Protocol::One, 10);
    let requests =
        packer.pack(vec![payload(&["a", "b", "c", "d", "e", "f"], 0), payload(&["a"], 3600)]);
    assert_eq!(events(&requests), [5]);
    let counted = counters.snapshot();
    assert_eq!(counted.dropped_events, [("future", 1), ("too_many_series", 1)].into());
    assert_eq!(counted.noted_events, [("label_cut", 5)].into());
}

/// Returns the index, reason and metric of the events that the packer rejected.
fn refused(packer: &mut RemotePacker) -> Vec<(u32, Cow<'static, str>, String)> {
    let describe = |refusal: RefusedEvent| {
        assert!(refusal.record.is_json);
        (refusal.event, refusal.reason, name(&refusal.record))
    };
    packer.take_refused().into_iter().map(describe).collect()
}

fn name(record: &Record) -> String {
    let metric: serde_json::Value = serde_json::from_slice(&record.bytes).unwrap();
    assert_eq!(
        (&metric["tags"]["tag"], &metric["value"], &metric["temporality"]),
        (&"longer".into(), &1.into(), &"delta".into()),
        "the increase of the event, not the sum"
    );
    metric["name"].as_str().unwrap().to_owned()
}

#[test]
fn events_that_the_packer_refuses_are_passed_on_if_someone_reads_them() {
    let (mut packer, counters) = packer_with_reader(Protocol::One, 4);
    let requests = packer.pack(vec![
        payload(&["a", "b"], 0),
        payload(&["c"], 3600),
        payload(&["c", "d", "e", "f", "a"], 0),
    ]);
    let sets: Vec<Vec<u32>> = requests.iter().map(|r| r.events.iter().collect()).collect();
    assert_eq!(sets, [vec![0, 1, 3, 4], vec![5, 7]]);
    let expected =
        [(2, "future".into(), "c".to_owned()), (6, "too_many_series".into(), "f".to_owned())];
    assert_eq!(refused(&mut packer), expected);
    assert!(packer.take_refused().is_empty() && counters.snapshot().dropped_events.is_empty());
}

#[test]
fn an_event_that_the_endpoint_refuses_is_known_after_splits_and_conversions() {
    for is_converted in [false, true] {
        let (mut packer, _) = packer_with_reader(Protocol::Auto, 10);
        packer.version = Version::Two;
        let payloads = vec![
            payload(&["a"], 0),
            payload(&["x"], 3600),
            payload(&["b", "c"], 0),
            payload(&["d", "e"], 0),
        ];
        let mut left = packer.pack(payloads);
        left.retain(|request| !request.events.is_empty());
        let mut alone = Vec::new();
        while let Some(mut request) = left.pop() {
            if is_converted && let Some(converted) = packer.convert(&request) {
                request = converted;
            }
            let (record, events) = (packer.record(&request), request.events.clone());
            match packer.split(request) {
                Some(halves) => left.extend(halves.into_iter().rev()),
                None => alone.push((events, name(&record))),
            }
        }
        let expected = [(0, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e")];
        let expected = expected.map(|(n, name)| (EventSet::of(n..n + 1), name.to_owned()));
        assert_eq!(alone, expected);
    }
}

#[test]
fn payloads_are_kept_only_if_someone_reads_what_is_refused() {
    let (mut unread, _) = packer(Protocol::One, 10);
    let requests = unread.pack(vec![payload(&["a"], 0)]);
    assert_eq!(unread.record(&requests[0]), Record::default());
    assert!(requests[0].origin.downcast_ref::<Packed>().unwrap().batch.kept.is_none());
    assert!(unread.take_refused().is_empty());
}

#[test]
fn a_probe_detects_version_2() {
    let (mut packer, _) = packer(Protocol::Auto, 10);
    let version = |requests: &[Request]| -> Vec<String> {
        requests
            .iter()
            .map(|request| header(request, "x-prometheus-remote-write-version"))
            .collect()
    };
    let first = packer.pack(vec![payload(&["a"], 0)]);
    assert_eq!(
        (version(&first), events(&first)),
        (vec!["2.0.0".to_owned(), "0.1.0".into()], vec![0, 1])
    );
    packer.on_success(&|_| None);
    assert_eq!(version(&packer.pack(vec![payload(&["a"], 1)])), ["0.1.0"]);
    packer.on_success(&|name| (name == WRITTEN).then(|| "0".to_owned()));
    let second = packer.pack(vec![payload(&["a"], 2)]);
    assert_eq!(version(&second), ["2.0.0"]);
    // The endpoint no longer supports version 2.
    let converted = packer.convert(&second[0]).unwrap();
    assert_eq!(header(&converted, "x-prometheus-remote-write-version"), "0.1.0");
    assert_eq!(header(&converted, "content-type"), "application/x-protobuf");
    assert_eq!(version(&packer.pack(vec![payload(&["a"], 3)])), ["0.1.0"]);
    assert!(packer.convert(&converted).is_none());
}

#[test]
fn a_configured_version_is_kept() {
    for (protocol, version) in [(Protocol::One, "0.1.0"), (Protocol::Two, "2.0.0")] {
        let (mut packer, _) = packer(protocol, 10);
        packer.on_success(&|_| Some("1".to_owned()));
        let requests = packer.pack(vec![payload(&["a"], 0)]);
        assert_eq!(header(&requests[0], "x-prometheus-remote-write-version"), version);
        assert!(requests.len() == 1 && packer.convert(&requests[0]).is_none());
    }
}

/// Returns a counter and a distribution.
fn metrics() -> [Metric<'static>; 2] {
    let sketch = br#"{"count":2,"sum":3,"min":1,"max":2,"values":[1,2],"weights":[1,1]}"#;
    let sketch = Value::Sketch(SketchText::parse(sketch).unwrap());
    let metric = |name: &'static str, kind, value| Metric {
        name: name.as_bytes(),
        tags: b"{}",
        kind,
        temporality: Temporality::Delta,
        value,
        time_ns: now_ms() / 1000 * 1_000_000_000,
        interval: 1.0,
    };
    [
        metric("requests", Kind::Counter, Value::Number(2.0)),
        metric("latency", Kind::Distribution, sketch),
    ]
}

/// Encodes metrics as a payload. Returns the payload, and the payload that a process reads from
/// disk.
fn with_reread(distributions: &Distributions) -> (EncodedPayload, EncodedPayload) {
    let (routing, text) = encoded(&metrics(), distributions);
    let encoding = Encoding::new(distributions.clone(), None);
    let mut payload = Payload::new(2);
    payload.push(text);
    let (mut bytes, mut again) = (Vec::new(), Vec::new());
    routing.write(&mut bytes);
    let taken = |routing| EncodedPayload {
        parts: payload.parts.clone(),
        events: 2,
        bytes: payload.bytes,
        routing: Some(routing),
        units_before: 0,
        continues: false,
    };
    let read = encoding.read_routing(&bytes, &payload).unwrap().unwrap();
    read.write(&mut again);
    assert_eq!(again, bytes);
    let metadata = read.as_type::<PayloadMetadata>().unwrap();
    assert!(metadata.hold.is_none(), "it is late already");
    (taken(routing), taken(metadata.routing.clone().unwrap()))
}

#[test]
fn the_requests_of_a_payload_from_disk_are_those_of_the_original() {
    for distributions in [Distributions::Native, Distributions::Summary(vec![0.5, 1.0])] {
        for protocol in [Protocol::One, Protocol::Two] {
            let (original, read) = with_reread(&distributions);
            let (mut one, _) = packer_for(Feed::of_refused(), protocol, 10, &distributions);
            let (mut other, _) = packer_for(Feed::of_refused(), protocol, 10, &distributions);
            let bodies = |requests: Vec<Request>| requests.iter().map(body).collect::<Vec<_>>();
            let expected = bodies(one.pack(vec![original]));
            assert!(expected.len() == 1 && !expected[0].is_empty());
            assert_eq!(bodies(other.pack(vec![read])), expected);
        }
    }
}

#[test]
fn a_payload_from_disk_adds_to_the_series_of_this_process() {
    let native = Distributions::Native;
    let (original, read) = with_reread(&native);
    let (mut packer, counters) = packer_for(Feed::of_refused(), Protocol::One, 10, &native);
    let requests = packer.pack(vec![original, read]);
    assert_eq!(events(&requests), [4]);
    assert_eq!(packer.accumulator.series(), 2);
    assert!(counters.snapshot().dropped_events.is_empty());
}

#[test]
fn damaged_rows_are_refused_or_can_be_packed() {
    for distributions in [Distributions::Native, Distributions::Summary(vec![0.5])] {
        let encoding = Encoding::new(distributions.clone(), None);
        let (original, _) = with_reread(&distributions);
        let mut payload = Payload::new(2);
        payload.push(original.parts[0].clone());
        let mut bytes = Vec::new();
        original.routing.as_ref().unwrap().write(&mut bytes);
        for damaged in damaged(&bytes) {
            let Ok(Some(routing)) = encoding.read_routing(&damaged, &payload) else { continue };
            assert!(damaged.len() == bytes.len() || damaged[0] != bytes[0], "all of it is needed");
            let routing = routing.as_type::<PayloadMetadata>().unwrap().routing.clone();
            let read = EncodedPayload { routing, ..original.clone() };
            let feed = Feed::of_refused();
            feed.attach(0, Arc::new(|| ()));
            let (mut packer, _) = packer_for(feed, Protocol::Two, 10, &distributions);
            let packed: u64 = events(&packer.pack(vec![read.clone(), read])).iter().sum();
            assert_eq!(packed + packer.take_refused().len() as u64, 4);
        }
    }
}

fn refusal(reason: &str) -> Refusal {
    Refusal { reason: reason.to_owned(), is_duplicate: false }
}

/// Sends requests to an endpoint that rejects requests with the series `bad`, and splits these
/// requests. Returns the number of requests, and the names whose samples were accepted.
fn sent(packer: &mut RemotePacker, requests: Vec<Request>, bad: &[&str]) -> (usize, Vec<String>) {
    let (mut left, mut count, mut accepted) = (requests, 0, Vec::new());
    left.reverse();
    while let Some(request) = left.pop() {
        count += 1;
        let text = String::from_utf8_lossy(&body(&request)).into_owned();
        let names = ["a_total", "b_total", "c_total", "d_total", "e_total"];
        let found = names.into_iter().filter(|name| text.contains(*name));
        if !bad.iter().any(|bad| text.contains(*bad)) {
            accepted.extend(found.map(str::to_owned));
        } else if packer.on_refusal(&request, &refusal("400: bad label")) {
            left.extend(packer.split(request).into_iter().flatten().rev());
        }
    }
    accepted.sort();
    (count, accepted)
}

#[test]
fn samples_of_a_refused_series_are_left_out_and_its_sum_goes_on() {
    let (mut packer, _) = packer_with_reader(Protocol::One, 10);
    let names = ["a", "b", "c", "d"];
    let requests = packer.pack(vec![payload(&names, -2)]);
    assert_eq!(sent(&mut packer, requests, &["b_total"]).0, 5);
    let requests = packer.pack(vec![payload(&names, -1)]);
    assert_eq!((events(&requests), requests[0].events.ranges()), (vec![3], &[0..1, 2..4][..]));
    assert_eq!(refused(&mut packer), [(1, "400: bad label".into(), "b".to_owned())]);
    assert_eq!(sent(&mut packer, requests, &["b_total"]).0, 1);
    // Simulates that a long time has passed.
    packer.refused_series = RefusedSeries::default();
    let again = packer.pack(vec![payload(&["b"], 0)]);
    let three = 3.0_f64.to_le_bytes();
    assert!(body(&again[0]).windows(8).any(|bytes| bytes == three), "all three increases");
}

#[test]
fn left_out_samples_are_counted_if_nothing_reads_them() {
    let (mut packer, counters) = packer(Protocol::Two, 10);
    for (second, dropped) in [(-2, 0), (-1, 1), (0, 2)] {
        let requests = packer.pack(vec![payload(&["a", "b"], second)]);
        sent(&mut packer, requests, &["b_total"]);
        let counted = counters.snapshot().dropped_events.get("refused").copied();
        assert_eq!(counted.unwrap_or_default(), dropped, "the lane counts the first");
    }
}

#[test]
fn a_suspect_is_sent_apart_after_the_other_series_and_in_order() {
    let (mut packer, _) = packer(Protocol::One, 10);
    let first = packer.pack(vec![payload(&["b"], -3)]).remove(0);
    assert!(packer.on_refusal(&first, &refusal("400: out of order sample")));
    std::thread::sleep(std::time::Duration::from_millis(2));
    let payloads = vec![payload(&["a", "b", "c"], -2), payload(&["a", "b", "c"], -1)];
    let requests = packer.pack(payloads);
    let sets: Vec<Vec<u32>> = requests.iter().map(|r| r.events.iter().collect()).collect();
    assert_eq!(sets, [vec![0, 2, 3, 5], vec![1, 4]]);
    assert_eq!(
        sent(&mut packer, requests, &["b_total"]),
        (4, vec!["a_total".into(), "c_total".into()])
    );
    assert_eq!(events(&packer.pack(vec![payload(&["a", "b", "c"], 0)])), [2]);
}

#[test]
fn a_duplicate_does_not_make_its_series_a_suspect() {
    let (mut packer, _) = packer(Protocol::One, 10);
    for second in -3..0 {
        let request = packer.pack(vec![payload(&["a"], second)]).remove(0);
        let duplicate = Refusal { is_duplicate: true, ..refusal("400: out of order sample") };
        assert!(packer.on_refusal(&request, &duplicate) && packer.split(request).is_none());
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert_eq!(events(&packer.pack(vec![payload(&["a", "b"], 0)])), [2]);
}

#[test]
fn a_request_that_is_too_late_to_be_split_is_refused_as_a_whole() {
    let (mut packer, counters) = packer(Protocol::One, 10);
    let names = ["a", "b", "c"];
    let mut late = packer.pack(vec![payload(&names, -60)]).remove(0);
    // The time for splitting late requests has passed.
    assert!(packer.on_refusal(&late, &refusal("400: bad")));
    packer.split_time = SplitTime::since(now_ms() - 6000);
    assert!(!packer.on_refusal(&late, &refusal("400: bad")));
    assert_eq!(counters.snapshot().dropped_events, [("refused", 3)].into());
    let requests = packer.pack(vec![payload(&["a", "b", "c", "d"], 0)]);
    assert_eq!((events(&requests), &requests[0].events), (vec![1, 3], &EventSet::of(3..4)));
    // The lane rejects a single event itself. If a component reads rejected events, it receives all
    // of them.
    late = packer.pack(vec![payload(&["e"], -60)]).remove(0);
    assert!(packer.on_refusal(&late, &refusal("400: bad")));
    let (mut packer, counters) = packer_with_reader(Protocol::One, 10);
    packer.split_time = SplitTime::since(now_ms() - 6000);
    let late = packer.pack(vec![payload(&names, -60)]).remove(0);
    assert!(!packer.on_refusal(&late, &refusal("400: bad")));
    let refusal = |event, name: &str| (event, "400: bad".into(), name.to_owned());
    assert_eq!(refused(&mut packer), [refusal(0, "a"), refusal(1, "b"), refusal(2, "c")]);
    assert!(counters.snapshot().dropped_events.is_empty());
}
