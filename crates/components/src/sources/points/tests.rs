//! Tests of a point source with a real socket and a clock that the test controls.

use crate::codec::metric_view::MetricView;
use crate::component::{Component, SourceComponent};
use crate::sources::dogstatsd::DogStatsdConfig;
use millstream_encodings::metric::{Kind, Temporality, Value};
use millstream_model::{Batch, Polled, SinkSet, Source};
use millstream_testkit::SourceRig;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

const S: Duration = Duration::from_secs(1);

/// Timeout for actions of other threads.
const LIMIT: Duration = Duration::from_secs(60);

struct Bench {
    rig: SourceRig,
    source: Box<dyn Source>,
    client: UnixDatagram,
    _folder: tempfile::TempDir,
}

impl Bench {
    /// Creates a source whose first period has begun.
    fn new(options: &str) -> Bench {
        let mut bench = Bench::opened(options);
        assert!(matches!(bench.rig.poll(&mut *bench.source), Polled::Wait(_)));
        bench
    }

    /// Creates a source before its first poll.
    fn opened(options: &str) -> Bench {
        let (folder, rig) = (tempfile::tempdir().unwrap(), SourceRig::new(&["out"]));
        let path = folder.path().join("dsd.sock");
        let text = format!("{{\"listen\":[\"unixgram://{}\"]{options}}}", path.display());
        let config: DogStatsdConfig = serde_json::from_str(&text).unwrap();
        assert_eq!(config.check(), []);
        let source = config.open(rig.open()).unwrap();
        let client = UnixDatagram::unbound().unwrap();
        client.connect(&path).unwrap();
        Bench { rig, source, client, _folder: folder }
    }

    /// Sends points and waits until they are received.
    fn send(&self, messages: &[&str], events: u64) {
        let before = self.rig.counters.snapshot().received_events;
        messages.iter().for_each(|message| _ = self.client.send(message.as_bytes()).unwrap());
        let begun = Instant::now();
        while self.rig.counters.snapshot().received_events < before + events {
            assert!(begun.elapsed() < LIMIT, "the points do not arrive");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Polls until the period has ended and the source is under backpressure.
    fn wait_for_backpressure(&mut self) {
        let begun = Instant::now();
        while !matches!(self.rig.poll(&mut *self.source), Polled::Backpressure) {
            assert!(begun.elapsed() < LIMIT, "the period does not end");
            self.rig.wait_for_wake(Duration::from_millis(1));
        }
    }

    /// Polls until there is a batch; returns `None` if the period is fully emitted or the source
    /// has ended.
    fn batch(&mut self) -> Option<Batch> {
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < LIMIT, "the flush does not end");
            match self.rig.poll(&mut *self.source) {
                Polled::Batch(batch, _) => {
                    // Delivers the batch.
                    batch.segments.iter().for_each(|segment| segment.ack.finish());
                    return Some(*batch);
                }
                Polled::Ended => return None,
                Polled::Wait(pause) if pause > S / 2 => return None,
                _ => self.rig.wait_for_wake(Duration::from_millis(1)),
            }
        }
    }

    /// Ends a period, emits it, and waits until the receiver has removed idle series.
    fn flush_period(&mut self) -> BTreeMap<String, String> {
        self.rig.advance(10 * S);
        let all = self.flush();
        let begun = Instant::now();
        while !matches!(self.rig.poll(&mut *self.source), Polled::Wait(pause) if pause > S / 2) {
            assert!(begun.elapsed() < LIMIT, "the receiver does not finish eviction");
            std::thread::sleep(Duration::from_millis(1));
        }
        all
    }

    /// Returns the strings that are emitted for the period, with their interval.
    fn flush(&mut self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        while let Some(batch) = self.batch() {
            let interval = batch.fields.get("interval").unwrap();
            for row in 0..batch.rows() {
                let text = String::from_utf8_lossy(batch.text(row)).into_owned();
                let seconds = batch.value(interval, row).plain().unwrap();
                let seconds = String::from_utf8_lossy(&seconds).into_owned();
                assert!(all.insert(text.clone(), seconds).is_none(), "{text} is emitted twice");
            }
        }
        all
    }
}

fn texts(all: &[(&str, &str)]) -> BTreeMap<String, String> {
    all.iter().map(|(text, seconds)| ((*text).to_owned(), (*seconds).to_owned())).collect()
}

#[test]
fn points_are_emitted_once_at_the_end_of_their_period() {
    let mut bench = Bench::new("");
    bench.send(&["a:1|c|#k:v\na:2|c|#k:v", "g:7|g", "a:4|c"], 4);
    assert!(bench.batch().is_none(), "the period has not ended");
    bench.rig.advance(10 * S);
    bench.flush();
    bench.send(&["a:1|c|#k:v"], 1);
    bench.rig.advance(10 * S);
    assert_eq!(bench.flush(), texts(&[("a {\"k\":\"v\"} 1", "10"), ("g {} 7", "10")]));
    bench.rig.advance(10 * S);
    assert_eq!(bench.flush(), texts(&[("g {} 7", "10")]), "a gauge stays, a count does not");
}

#[test]
fn tags_are_emitted_in_order() {
    let mut bench = Bench::new("");
    bench.send(&["a:1|c|#b:2,c,a:1,b:3", "a:2|c|#c,,a:1,b:3,b:2,a:1", "a:4|c|#a:1,b:2,b:3,c"], 3);
    bench.rig.advance(10 * S);
    assert_eq!(bench.flush(), texts(&[("a {\"a\":\"1\",\"b\":[\"2\",\"3\"],\"c\":true} 7", "10")]));
}

#[test]
fn a_tag_with_an_empty_value_is_a_series_of_its_own() {
    let mut bench = Bench::new("");
    bench.send(&["a:1|c|#f", "a:2|c|#f:", "a:4|c|#dd.internal.entity_id:x,f"], 3);
    bench.rig.advance(10 * S);
    let expected = [("a {\"f\":true} 5", "10"), ("a {\"f\":\"\"} 2", "10")];
    assert_eq!(bench.flush(), texts(&expected));
}

#[test]
fn an_undelivered_period_extends_the_next() {
    let mut bench = Bench::new("");
    bench.rig.advance(10 * S);
    bench.flush();
    bench.send(&["a:1|c"], 1);
    bench.rig.advance(10 * S);
    bench.rig.ready = SinkSet::EMPTY;
    // While the sink is not ready, the period is not emitted, but new points are still received.
    bench.wait_for_backpressure();
    bench.send(&["a:2|c"], 1);
    bench.rig.advance(12 * S);
    assert!(matches!(bench.rig.poll(&mut *bench.source), Polled::Backpressure));
    assert_eq!(bench.rig.counters.snapshot().errors.get("flush_late"), Some(&1));
    bench.rig.advance(13 * S);
    assert!(matches!(bench.rig.poll(&mut *bench.source), Polled::Backpressure));
    bench.rig.ready = bench.rig.all();
    // The delayed period, and one long period for the time since then.
    assert_eq!(bench.flush(), texts(&[("a {} 1", "10"), ("a {} 2", "25")]));
    assert_eq!(bench.rig.counters.snapshot().errors.get("flush_late"), Some(&1));
}

#[test]
fn a_closed_source_drains_and_can_be_reopened() {
    let mut bench = Bench::new("");
    bench.send(&["a:1|c"], 1);
    // Data that is still in the socket is also received.
    bench.client.send(b"a:2|c").unwrap();
    assert!(bench.source.close(false));
    assert_eq!(bench.flush().into_keys().collect::<Vec<_>>(), ["a {} 3"]);
    assert!(matches!(bench.rig.poll(&mut *bench.source), Polled::Ended));
    bench.source.reopen();
    bench.send(&["a:4|c"], 1);
    bench.rig.advance(10 * S);
    assert_eq!(bench.flush().into_keys().collect::<Vec<_>>(), ["a {} 4"]);
}

#[test]
fn with_until_eof_the_source_ends_after_reading_its_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = SourceRig::new(&["out"]);
    rig.until_eof = true;
    let path = folder.path().join("dsd.sock");
    let text = format!("{{\"listen\":[\"unixgram://{}\"]}}", path.display());
    let source = serde_json::from_str::<DogStatsdConfig>(&text).unwrap().open(rig.open()).unwrap();
    let client = UnixDatagram::unbound().unwrap();
    client.connect(&path).unwrap();
    client.send(b"a:5|c").unwrap();
    let mut bench = Bench { rig, source, client, _folder: folder };
    assert_eq!(bench.flush().into_keys().collect::<Vec<_>>(), ["a {} 5"]);
    assert!(matches!(bench.rig.poll(&mut *bench.source), Polled::Ended));
}

#[test]
fn every_configuration_error_names_its_option() {
    let text = r#"{"listen":["unixgram:///a","unixgram:///a","nowhere"],"mode":"0999","period":"1500ms",
                   "max_message":"1B","origin_tags":["pid","pod_uid","pid"],"receivers":2,"gauge_deltas":true}"#;
    let config: DogStatsdConfig = serde_json::from_str(text).unwrap();
    let mut pointers: Vec<String> = config.check().into_iter().map(|error| error.pointer).collect();
    pointers.sort();
    assert_eq!(
        pointers,
        [
            "/gauge_deltas",
            "/listen/1",
            "/listen/2",
            "/max_message",
            "/mode",
            "/origin_tags/2",
            "/period"
        ]
    );
}

/// Captures the log of the current thread.
struct CaptureLog;

thread_local! {
    static LOGGED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

impl log::Log for CaptureLog {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() == log::Level::Error
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            LOGGED.with_borrow_mut(|logged| logged.push(record.args().to_string()));
        }
    }

    fn flush(&self) {}
}

/// Returns the errors that are logged when the source is dropped.
fn errors_logged_on_drop(bench: Bench) -> Vec<String> {
    // Fails if the logger is already set.
    if log::set_logger(&CaptureLog).is_ok() {
        log::set_max_level(log::LevelFilter::Error);
    }
    LOGGED.take();
    drop(bench);
    LOGGED.take()
}

#[test]
fn a_source_dropped_with_unsent_data_logs_an_error() {
    let lost = ["source app: closed before all metrics were emitted; the remaining metrics are \
                 lost"];
    // Dropped within a period.
    let bench = Bench::new("");
    bench.send(&["a:1|c"], 1);
    assert_eq!(errors_logged_on_drop(bench), lost);
    // Dropped before the last period is emitted.
    let mut bench = Bench::new("");
    bench.send(&["a:1|c"], 1);
    bench.source.close(true);
    bench.rig.ready = SinkSet::EMPTY;
    bench.wait_for_backpressure();
    assert_eq!(errors_logged_on_drop(bench), lost);
    // Dropped after everything is emitted.
    let mut bench = Bench::new("");
    bench.send(&["a:1|c"], 1);
    bench.source.close(true);
    bench.flush();
    assert!(matches!(bench.rig.poll(&mut *bench.source), Polled::Ended));
    assert_eq!(errors_logged_on_drop(bench), [""; 0]);
    // Dropped before the first poll, so before it received any data.
    assert_eq!(errors_logged_on_drop(Bench::opened("")), [""; 0]);
}

#[test]
fn the_last_period_is_never_reported_as_late() {
    let mut bench = Bench::new("");
    bench.send(&["a:1|c"], 1);
    bench.source.close(true);
    bench.rig.ready = SinkSet::EMPTY;
    bench.wait_for_backpressure();
    bench.rig.advance(25 * S);
    assert!(matches!(bench.rig.poll(&mut *bench.source), Polled::Backpressure));
    bench.rig.ready = bench.rig.all();
    assert_eq!(bench.flush().into_keys().collect::<Vec<_>>(), ["a {} 1"]);
    assert_eq!(bench.rig.counters.snapshot().errors.get("flush_late"), None);
}

/// Series with tags of many lengths, so that blocks end between the events of a series.
#[test]
fn a_series_that_does_not_fit_continues_in_the_next_block() {
    let mut bench = Bench::new("");
    let mut expected = BTreeSet::new();
    for series in 0..400 {
        let tag = format!("t{series}:{}", "\"".repeat(series * 9));
        bench.send(&[&format!("d:{series}|d|#{tag}")], 1);
        expected.insert(format!("t{series}"));
    }
    bench.rig.advance(10 * S);
    let (mut blocks, mut rows, mut seen) = (0, BTreeSet::new(), BTreeSet::new());
    while let Some(batch) = bench.batch() {
        blocks += 1;
        for row in 0..batch.rows() {
            let text = String::from_utf8_lossy(batch.text(row)).into_owned();
            seen.insert(text[text.find("{\"").unwrap() + 2..text.find("\":").unwrap()].to_owned());
            assert!(rows.insert(text.clone()), "{text} is emitted twice");
        }
    }
    assert_eq!((rows.len(), seen), (4000, expected));
    assert!(blocks > 10, "{blocks}");
}

#[test]
fn an_idle_series_is_evicted_without_traffic() {
    let mut bench = Bench::new(",\"expire\":\"20s\"");
    let points: Vec<String> = (0..10_000).map(|series| format!("g:1|g|#n:{series}")).collect();
    let points: Vec<&str> = points.iter().map(String::as_str).collect();
    bench.send(&points, 10_000);
    let mut periods = 0;
    while !bench.flush_period().is_empty() {
        periods += 1;
        assert!(periods < 10, "the gauges are not evicted");
    }
    assert!(periods >= 3, "{periods}");
    assert_eq!(bench.rig.counters.snapshot().series, Some(0));
}

/// More periods than the default allows pass without points.
#[test]
fn an_idle_series_is_kept_if_it_never_expires() {
    let mut bench = Bench::new(",\"expire\":\"never\"");
    bench.send(&["g:1|g"], 1);
    for period in 0..70 {
        assert!(!bench.flush_period().is_empty(), "the gauge is gone after {period} periods");
    }
    assert_eq!(bench.rig.counters.snapshot().series, Some(1));
}

#[test]
fn events_and_service_checks_are_emitted_at_once() {
    let mut bench = Bench::new("");
    bench.send(&["_e{2,3}:hi|yes|#b:2,a:1,b:3|h:web|t:error|d:1700000000", "_sc|db|2|m:gone"], 2);
    let (mut found, begun) = (Vec::new(), Instant::now());
    while found.len() < 2 {
        assert!(begun.elapsed() < LIMIT);
        let Polled::Batch(batch, _) = bench.rig.poll(&mut *bench.source) else { continue };
        for row in 0..batch.rows() {
            let field = |name: &str| {
                let value = batch.fields.get(name).map(|column| batch.value(column, row));
                value.and_then(|value| Some(String::from_utf8_lossy(&value.plain()?).into_owned()))
            };
            let names = ["type", "title", "name", "status", "hostname", "alert_type", "tags"];
            let text = String::from_utf8_lossy(batch.text(row)).into_owned();
            found.push((
                text,
                names.map(|name| field(name).unwrap_or_default()),
                batch.event_ns(row),
            ));
        }
    }
    let tags = "{\"a\":\"1\",\"b\":[\"2\",\"3\"]}";
    assert_eq!(found[0].0, "yes");
    assert_eq!(found[0].1, ["event", "hi", "", "", "web", "error", tags]);
    assert_eq!(found[0].2, 1_700_000_000_000_000_000);
    assert_eq!(found[1].0, "gone");
    assert_eq!(found[1].1, ["service_check", "", "db", "critical", "", "", "{}"]);
}

#[test]
fn dropped_points_are_counted_by_reason() {
    let mut bench = Bench::new(",\"max_series\":2,\"max_name\":\"8B\"");
    let messages =
        ["x", "x:1|q", "x:y|c", "x:NaN|g", "a:1|c", "b:1|c", "c:1|c", "d:1|c", "too.long.name:1|c"];
    bench.send(&messages, 9);
    bench.rig.advance(10 * S);
    let all = bench.flush();
    assert_eq!(
        all.into_keys().collect::<Vec<_>>(),
        ["a {} 1", "b {} 1", "millstream.overflow {} 3"],
        "three points are in the overflow"
    );
    let counted = bench.rig.counters.snapshot();
    let dropped = [
        ("bad_value", 1),
        ("kernel", 0),
        ("no_value", 1),
        ("truncated", 0),
        ("not_finite", 1),
        ("unknown_type", 1),
    ];
    assert_eq!(counted.dropped_events, BTreeMap::from(dropped));
    assert_eq!(counted.noted_events, BTreeMap::from([("name_bytes", 1), ("series", 2)]));
}

#[test]
fn a_distribution_can_be_one_event_with_all_values() {
    let mut bench = Bench::new(",\"distributions\":\"sketch\"");
    bench.send(&["h:2:1.5:2|h|#k:v\nc:1|c", "t:-3|ms|@0.5"], 5);
    bench.rig.advance(10 * S);
    let histogram = r#"{"count":3,"sum":5.5,"min":1.5,"max":2,"values":[1.5,2],"weights":[1,2]}"#;
    let timing = r#"{"count":2,"sum":-6,"min":-3,"max":-3,"values":[-3],"weights":[2]}"#;
    let (histogram, timing) =
        (format!("h {{\"k\":\"v\"}} {histogram}"), format!("t {{}} {timing}"));
    assert_eq!(bench.flush(), texts(&[("c {} 1", "10"), (&histogram, "10"), (&timing, "10")]));
    bench.rig.advance(10 * S);
    assert_eq!(bench.flush(), texts(&[]), "without points there is none");
}

/// With a value in every bucket, the event is larger than a normal block.
#[test]
fn the_largest_distribution_is_emitted_whole() {
    let mut bench = Bench::new(",\"distributions\":\"sketch\"");
    let bucket = |power: i32, part: i32| (1.0 + f64::from(2 * part + 1) / 128.0) * 2f64.powi(power);
    let values: Vec<f64> =
        (-764..-636).flat_map(|power| (0..64).map(move |part| bucket(power, part))).collect();
    for some in values.chunks(512) {
        let texts: Vec<String> = some.iter().map(|value| format!("{value:?}")).collect();
        bench.send(&[&format!("d:{}|d|@0.3", texts.join(":"))], some.len() as u64);
    }
    bench.send(&["a:1|c\nz:1|c"], 2);
    bench.rig.advance(10 * S);
    let mut found = Vec::new();
    while let Some(batch) = bench.batch() {
        let view = MetricView::new(&batch);
        for row in 0..batch.rows() {
            let metric = view.metric(row).unwrap();
            match metric.value {
                Value::Sketch(sketch) => {
                    assert!(batch.text_len(row) > millstream_model::limits::BLOCK_BYTES);
                    assert_eq!(
                        (metric.kind, metric.temporality),
                        (Kind::Distribution, Temporality::Delta)
                    );
                    assert!(sketch.points().eq(values.iter().map(|value| (*value, 1.0 / 0.3))));
                    found.push("d");
                }
                _ => found.push(if metric.name == b"a" { "a" } else { "z" }),
            }
        }
    }
    found.sort_unstable();
    assert_eq!(found, ["a", "d", "z"]);
}
