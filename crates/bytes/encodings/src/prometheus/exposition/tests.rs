use super::super::overflow::OVERFLOW_SERIES_MAX;
use super::super::{LabelRules, NameEscaping, RowPlace, RowsBuilder};
use super::*;
use crate::metric::{Metric, SketchText, Temporality, Value};

const NOW_MS: i64 = 1_800_000_000_000;

struct Fixture {
    exposition: Exposition,
    distributions: Distributions,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture::with_limit(1000)
    }

    fn with_limit(series_max: usize) -> Fixture {
        let rules = LabelRules {
            constant: Vec::new(),
            host_label: None,
            counter_suffix: true,
            escaping: NameEscaping::Underscores,
            value_bytes_max: usize::MAX,
        };
        let distributions = Distributions::Summary(vec![0.5, 1.0]);
        let options = Options {
            rules,
            distributions: distributions.clone(),
            expire_seconds: 600,
            series_max,
            starts_at_zero: true,
            seed: 1,
        };
        Fixture { exposition: Exposition::new(options), distributions }
    }

    fn add(
        &mut self,
        kind: Kind,
        name: &str,
        tags: &str,
        value: Value<'_>,
        seconds: i64,
    ) -> Result<(), RejectReason> {
        let mut rows = RowsBuilder::new(&self.distributions, 7, "h", Vec::new());
        let (now_ms, temporality) = (NOW_MS + seconds * 1000, Temporality::Delta);
        let (name, tags, time_ns) = (name.as_bytes(), tags.as_bytes(), now_ms * 1_000_000);
        rows.push(&Metric { name, tags, kind, temporality, value, time_ns, interval: 10.0 });
        let (rows, text) = rows.finish();
        let place = RowPlace { rows: &rows, row: &rows.rows()[0], text: &text };
        self.exposition.add(place, now_ms).map(drop)
    }

    /// Adds a gauge whose period ends at `seconds`, while the clock is at `now` seconds.
    fn gauge_at(&mut self, value: f64, seconds: i64, now: i64) -> Result<(), RejectReason> {
        let mut rows = RowsBuilder::new(&self.distributions, 7, "h", Vec::new());
        let (kind, temporality, value) = (Kind::Gauge, Temporality::Delta, Value::Number(value));
        let time_ns = (NOW_MS + seconds * 1000) * 1_000_000;
        rows.push(&Metric {
            name: b"level",
            tags: b"{}",
            kind,
            temporality,
            value,
            time_ns,
            interval: 10.0,
        });
        let (rows, text) = rows.finish();
        let place = RowPlace { rows: &rows, row: &rows.rows()[0], text: &text };
        self.exposition.add(place, NOW_MS + now * 1000).map(drop)
    }

    fn number(
        &mut self,
        kind: Kind,
        name: &str,
        tags: &str,
        value: f64,
        seconds: i64,
    ) -> Result<(), RejectReason> {
        self.add(kind, name, tags, Value::Number(value), seconds)
    }

    /// Returns the scrape text, written in chunks of `chunk` series.
    fn text(&self, format: TextFormat, chunk: usize, seconds: i64) -> String {
        let (mut out, mut position) = (Vec::new(), Some(WritePosition::default()));
        while let Some(from) = position {
            position =
                self.exposition.write(from, chunk, format, NOW_MS + seconds * 1000, &mut out);
        }
        String::from_utf8(out).unwrap()
    }
}

fn filled() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.number(Kind::Counter, "shop.orders", r#"{"country":"de"}"#, 3.0, 0).unwrap();
    fixture.number(Kind::Gauge, "load", r#"{"odd":"a\"b\\c\nd"}"#, 0.25, 0).unwrap();
    fixture.number(Kind::Counter, "shop.orders", r#"{"country":"fr"}"#, 1.0, 0).unwrap();
    fixture.number(Kind::Counter, "shop.orders", r#"{"country":"de"}"#, 4.0, 10).unwrap();
    let sketch = br#"{"count":3,"sum":7.5,"min":1,"max":4,"values":[1,2.5,4],"weights":[1,1,1]}"#;
    let sketch = Value::Sketch(SketchText::parse(sketch).unwrap());
    fixture.add(Kind::Distribution, "login", "{}", sketch, 0).unwrap();
    fixture.add(Kind::Distribution, "login", r#"{"a":"b"}"#, sketch, 0).unwrap();
    fixture
}

const TEXT: &str = r#"# TYPE load gauge
load{odd="a\"b\\c\nd"} 0.25
# TYPE login summary
login{quantile="0.5"} 2.5
login{quantile="1"} 4
login_sum{} 7.5
login_count{} 3
login{a="b",quantile="0.5"} 2.5
login{a="b",quantile="1"} 4
login_sum{a="b"} 7.5
login_count{a="b"} 3
# TYPE shop_orders_total counter
shop_orders_total{country="de"} 7
shop_orders_total{country="fr"} 1
"#;

#[test]
fn the_text_is_independent_of_the_chunk_size() {
    let fixture = filled();
    (1..8).for_each(|chunk| {
        assert_eq!(fixture.text(TextFormat::Prometheus, chunk, 20), TEXT, "{chunk}")
    });
}

#[test]
fn open_metrics_names_counters_without_their_suffix() {
    let mut fixture = filled();
    let text = fixture.text(TextFormat::OpenMetrics, 100, 20);
    let expected =
        TEXT.replace("TYPE shop_orders_total counter", "TYPE shop_orders counter") + "# EOF\n";
    assert_eq!(text, expected);
    fixture.number(Kind::Gauge, "shop.orders", "{}", 1.0, 10).unwrap();
    let text = fixture.text(TextFormat::OpenMetrics, 100, 20);
    assert!(
        text.contains("# TYPE shop_orders gauge\n")
            && text.contains("# TYPE shop_orders_total unknown\n")
    );
}

#[test]
fn idle_series_expire() {
    let mut fixture = filled();
    let sweep = |fixture: &mut Fixture, seconds: std::ops::Range<i64>| {
        seconds.step_by(10).for_each(|second| fixture.exposition.sweep(NOW_MS + second * 1000));
    };
    sweep(&mut fixture, 0..500);
    fixture.number(Kind::Gauge, "later", "{}", 1.0, 500).unwrap();
    let text = fixture.text(TextFormat::Prometheus, 100, 700);
    assert_eq!(text, "# TYPE later gauge\nlater{} 1\n");
    sweep(&mut fixture, 500..700);
    assert_eq!(fixture.exposition.series(), 1);
    assert_eq!(fixture.text(TextFormat::Prometheus, 100, 700), text);
}

#[test]
fn a_metric_has_one_type() {
    let mut fixture = filled();
    let add = |fixture: &mut Fixture| fixture.number(Kind::Gauge, "login", r#"{"x":"y"}"#, 1.0, 0);
    assert_eq!(add(&mut fixture), Err(RejectReason::TypeConflict));
    assert_eq!(
        add(&mut fixture),
        Err(RejectReason::TypeConflict),
        "every time, not only the first"
    );
    assert_eq!(fixture.text(TextFormat::Prometheus, 100, 20), TEXT);
}

#[test]
fn the_sum_and_count_names_of_a_summary_are_reserved() {
    let mut fixture = filled();
    for name in ["login.sum", "login.count"] {
        assert_eq!(
            fixture.number(Kind::Gauge, name, "{}", 1.0, 0),
            Err(RejectReason::NameConflict)
        );
    }
    fixture.number(Kind::Gauge, "logout.count", "{}", 1.0, 0).unwrap();
    let sketch = br#"{"count":1,"sum":1,"min":1,"max":1,"values":[1],"weights":[1]}"#;
    let sketch = Value::Sketch(SketchText::parse(sketch).unwrap());
    for name in ["logout", "login.count"] {
        let added = fixture.add(Kind::Distribution, name, "{}", sketch, 0);
        assert_eq!(added, Err(RejectReason::NameConflict), "{name}");
    }
}

#[test]
fn a_metric_with_a_conflict_is_accepted_after_the_other_expires() {
    let mut fixture = filled();
    let results: Vec<_> = (0..70)
        .map(|period| {
            fixture.exposition.sweep(NOW_MS + period * 10_000);
            let name = fixture.number(Kind::Gauge, "shop.orders.total", "{}", 1.0, period * 10);
            let kind = fixture.number(Kind::Gauge, "login", "{}", 1.0, period * 10);
            (name, kind)
        })
        .collect();
    assert_eq!(results[59], (Err(RejectReason::NameConflict), Err(RejectReason::TypeConflict)));
    assert_eq!(results[69], (Ok(()), Ok(())));
}

#[test]
fn the_format_is_negotiated_by_the_accept_header() {
    let prometheus =
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
    assert_eq!(TextFormat::from_accept(prometheus), TextFormat::OpenMetrics);
    for accept in ["", "*/*", "text/plain", "text/plain, application/openmetrics-text;q=0"] {
        assert_eq!(TextFormat::from_accept(accept), TextFormat::Prometheus, "{accept}");
    }
}

#[test]
fn a_gauge_continues_after_the_clock_is_set_back() {
    let mut fixture = Fixture::new();
    fixture.gauge_at(1.0, 3600, 3601).unwrap();
    assert_eq!(fixture.gauge_at(9.0, 3590, 3602), Err(RejectReason::OutOfOrder));
    for (value, seconds) in [(2.0, 10), (3.0, 20), (4.0, 30)] {
        fixture.gauge_at(value, seconds, seconds + 1).unwrap();
        let text = fixture.text(TextFormat::Prometheus, 10, seconds + 1);
        assert!(text.contains(&format!("level{{}} {value}\n")), "{text}");
    }
    assert_eq!(
        fixture.gauge_at(9.0, 20, 32),
        Err(RejectReason::OutOfOrder),
        "also after the clock change"
    );
}

#[test]
fn increments_beyond_a_limit_are_in_the_overflow_series() {
    let mut fixture = Fixture::with_limit(2);
    let count = |fixture: &mut Fixture, name: &str, value, seconds| {
        fixture.number(Kind::Counter, name, "{}", value, seconds)
    };
    // The source's overflow series does not count toward the limit of two.
    count(&mut fixture, "millstream.overflow", 100.0, 0).unwrap();
    for name in ["a", "b", "c", "d"] {
        count(&mut fixture, name, 1.0, 0).unwrap();
    }
    fixture.exposition.set_may_grow(false);
    count(&mut fixture, "a", 1.0, 10).unwrap();
    count(&mut fixture, "e", 5.0, 10).unwrap();
    assert_eq!(count(&mut fixture, "e", -5.0, 10), Err(RejectReason::Negative));
    let text = fixture.text(TextFormat::Prometheus, 100, 10);
    let values: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(values, ["a_total{} 2", "b_total{} 1", "millstream_overflow_total{} 107"]);
}

#[test]
fn gauges_beyond_a_limit_are_rejected() {
    let mut fixture = Fixture::with_limit(1);
    fixture.number(Kind::Gauge, "a", "{}", 1.0, 0).unwrap();
    let beyond = fixture.number(Kind::Gauge, "b", "{}", 1.0, 0);
    assert_eq!(beyond, Err(RejectReason::TooManySeries));
    fixture.exposition.set_may_grow(false);
    let beyond = fixture.number(Kind::Gauge, "b", "{}", 1.0, 0);
    assert_eq!(beyond, Err(RejectReason::TooManySeries));
    assert!(!fixture.text(TextFormat::Prometheus, 100, 10).contains("overflow"));
}

#[test]
fn overflow_series_beyond_the_limits_are_bounded_and_expire() {
    let mut fixture = Fixture::with_limit(1);
    fixture.exposition.set_may_grow(false);
    let add = |fixture: &mut Fixture, number: usize, seconds| {
        let name = format!("millstream.overflow.{number}");
        fixture.number(Kind::Gauge, &name, "{}", 1.0, seconds)
    };
    for number in 0..OVERFLOW_SERIES_MAX {
        add(&mut fixture, number, 0).unwrap();
    }
    let beyond = OVERFLOW_SERIES_MAX;
    assert_eq!(add(&mut fixture, beyond, 0), Err(RejectReason::MemoryPressure));
    for second in (0..1000).step_by(10) {
        fixture.exposition.sweep(NOW_MS + second * 1000);
    }
    assert_eq!(fixture.exposition.series(), 0);
    add(&mut fixture, beyond, 1000).unwrap();
}
