use super::super::{NameEscaping, RemoteWriteLabels, RowPlace, RowsBuilder};
use super::*;
use crate::metric::{Metric, SketchText, Temporality, Value};

const NOW_MS: i64 = 1_800_000_000_000;

fn options(distributions: Distributions) -> Options {
    let rules = LabelRules {
        constant: Vec::new(),
        host_label: None,
        counter_suffix: true,
        escaping: NameEscaping::Underscores,
        value_bytes_max: usize::MAX,
    };
    Options {
        rules,
        distributions,
        expire_seconds: 600,
        series_max: 4,
        starts_at_zero: true,
        seed: 1,
    }
}

/// Records samples: labels as `name=value`, the value, and the time and creation time relative to
/// now.
#[derive(Default)]
struct RecordedSamples(Vec<(String, f64, i64, i64)>);

fn text_of(mut labels: &[u8]) -> String {
    let mut texts = Vec::new();
    while let Some((_, mut label)) = super::super::protobuf::take_bytes(&mut labels) {
        let mut part = || {
            let (_, part) = super::super::protobuf::take_bytes(&mut label).unwrap();
            String::from_utf8(part.to_vec()).unwrap()
        };
        texts.push(part() + "=" + &part());
    }
    texts.join(",").replace("__name__=", "")
}

impl Collector for RecordedSamples {
    fn number(&mut self, labels: &[u8], point: &Point) {
        let created = if point.created_ms == 0 { 0 } else { point.created_ms - NOW_MS };
        self.0.push((text_of(labels), point.value, point.time_ms - NOW_MS, created));
    }

    fn histogram(&mut self, labels: &[u8], histogram: &Histogram, point: &Point) {
        self.number(labels, &Point { value: histogram.count, ..*point });
    }
}

struct Fixture {
    accumulator: Accumulator<RemoteWriteLabels>,
    distributions: Distributions,
    now_ms: i64,
}

impl Fixture {
    fn new(distributions: Distributions) -> Fixture {
        let form = RemoteWriteLabels::new(&distributions);
        Fixture {
            accumulator: Accumulator::new(options(distributions.clone()), form),
            distributions,
            now_ms: NOW_MS,
        }
    }

    fn summary() -> Fixture {
        Fixture::new(Distributions::Summary(vec![0.5]))
    }

    /// Adds a metric whose period ends `seconds` after now.
    fn add(&mut self, metric: &Metric<'_>, seconds: i64) -> Result<RecordedSamples, RejectReason> {
        let mut rows = RowsBuilder::new(&self.distributions, 7, "h", Vec::new());
        rows.push(&Metric { time_ns: (NOW_MS + seconds * 1000) * 1_000_000, ..*metric });
        let (rows, text) = rows.finish();
        let mut samples = RecordedSamples::default();
        let place = RowPlace { rows: &rows, row: &rows.rows()[0], text: &text };
        self.accumulator.add(place, self.now_ms, &mut samples)?;
        Ok(samples)
    }

    /// Sweeps every ten seconds until `seconds` after now.
    fn sweep_until(&mut self, seconds: i64) {
        while self.now_ms < NOW_MS + seconds * 1000 {
            self.now_ms += 10_000;
            self.accumulator.sweep(self.now_ms);
        }
    }

    /// Adds a metric that emits one sample. Returns the sample's value, and its time in
    /// milliseconds.
    fn last(&mut self, metric: &Metric<'_>, seconds: i64) -> Result<(f64, i64), RejectReason> {
        self.add(metric, seconds)
            .map(|samples| samples.0.last().map(|(_, value, time, _)| (*value, *time)).unwrap())
    }
}

fn counter(name: &str, value: f64) -> Metric<'_> {
    let name = name.as_bytes();
    let (kind, temporality) = (Kind::Counter, Temporality::Delta);
    Metric {
        name,
        tags: b"{}",
        kind,
        temporality,
        value: Value::Number(value),
        time_ns: 0,
        interval: 10.0,
    }
}

fn gauge(name: &str, value: f64) -> Metric<'_> {
    Metric { kind: Kind::Gauge, temporality: Temporality::None, ..counter(name, value) }
}

#[test]
fn deltas_are_summed_from_a_zero_at_the_start_of_the_first_period() {
    let mut fixture = Fixture::summary();
    let first = fixture.add(&counter("a", 3.0), 0).unwrap().0;
    let series = "a_total".to_owned();
    assert_eq!(first, [(series.clone(), 0.0, -9999, -9999), (series.clone(), 3.0, 0, -9999)]);
    assert_eq!(fixture.add(&counter("a", 4.0), 10).unwrap().0, [(series, 7.0, 10_000, -9999)]);
}

#[test]
fn a_sum_stays_finite() {
    let mut fixture = Fixture::summary();
    let sums = [0, 10, 20].map(|seconds| fixture.last(&counter("a", 1e308), seconds).unwrap().0);
    assert_eq!(sums, [1e308, f64::MAX, f64::MAX]);
    let huge =
        r#"{"count":1e308,"sum":-1e308,"min":-1,"max":0,"values":[-1,0],"weights":[5e307,5e307]}"#;
    let numbers = [0, 10].map(|seconds| fixture.add(&distribution(huge), seconds).unwrap().0);
    let last: Vec<f64> = numbers[1].iter().map(|(_, value, ..)| *value).collect();
    assert_eq!(last[1..], [f64::MIN, f64::MAX]);
}

#[test]
fn the_seed_changes_the_table_layout_but_not_the_output() {
    let fill = |seed| {
        let mut fixture = Fixture::summary();
        fixture.accumulator.options.seed = seed;
        fixture.accumulator.options.series_max = 100;
        let names: Vec<String> = (0..100).map(|number| format!("a.{number}")).collect();
        let add = |fixture: &mut Fixture, name: &String, at| {
            fixture.add(&counter(name, 1.0), at).unwrap().0
        };
        let first: Vec<_> = names.iter().map(|name| add(&mut fixture, name, 0)).collect();
        let then: Vec<_> = names.iter().map(|name| add(&mut fixture, name, 10)).collect();
        let slots: Vec<_> = fixture.accumulator.by_labels.iter().map(|owner| owner.entry).collect();
        (slots, first, then)
    };
    let (one, other) = (fill(1), fill(2));
    assert_ne!(one.0, other.0);
    assert_eq!((one.1, one.2), (other.1, other.2));
}

#[test]
fn a_late_delta_gets_the_next_timestamp() {
    let mut fixture = Fixture::summary();
    assert_eq!(fixture.last(&counter("a", 3.0), 0), Ok((3.0, 0)));
    assert_eq!(fixture.last(&counter("a", 1.0), 0), Ok((4.0, 1)));
    assert_eq!(fixture.last(&counter("a", 1.0), -60), Ok((5.0, 2)));
}

#[test]
fn gauges_and_cumulative_counters_pass_unchanged_in_order() {
    let mut fixture = Fixture::summary();
    assert_eq!(fixture.add(&gauge("g", -1.5), 0).unwrap().0, [("g".to_owned(), -1.5, 0, 0)]);
    assert_eq!(fixture.last(&gauge("g", 2.0), 1), Ok((2.0, 1000)));
    assert_eq!(fixture.last(&gauge("g", 3.0), 0), Err(RejectReason::OutOfOrder));
    let cumulative = |value| Metric { temporality: Temporality::Cumulative, ..counter("c", value) };
    assert_eq!(fixture.add(&cumulative(9.0), 0).unwrap().0, [("c_total".to_owned(), 9.0, 0, 0)]);
    // The metric's source has restarted.
    assert_eq!(fixture.last(&cumulative(2.0), 10), Ok((2.0, 10_000)));
}

#[test]
fn a_series_has_one_value_per_timestamp() {
    let mut fixture = Fixture::summary();
    let cumulative = |value| Metric { temporality: Temporality::Cumulative, ..counter("c", value) };
    assert_eq!(fixture.add(&gauge("g", 1.5), 0).unwrap().0.len(), 1);
    assert!(fixture.add(&gauge("g", 1.5), 0).unwrap().0.is_empty(), "already delivered");
    assert_eq!(fixture.last(&gauge("g", 2.0), 0), Err(RejectReason::OutOfOrder));
    assert_eq!(fixture.last(&gauge("g", 2.0), 10), Ok((2.0, 10_000)));
    assert_eq!(fixture.last(&cumulative(9.0), 0), Ok((9.0, 0)));
    assert!(fixture.add(&cumulative(9.0), 0).unwrap().0.is_empty());
    assert_eq!(fixture.last(&cumulative(10.0), 0), Err(RejectReason::OutOfOrder));
}

#[test]
fn values_that_no_back_end_accepts_are_rejected() {
    let mut fixture = Fixture::summary();
    assert_eq!(fixture.last(&counter("a", -1.0), 0), Err(RejectReason::Negative));
    assert_eq!(fixture.last(&counter("a", 1.0), 601), Err(RejectReason::Future));
    let cumulative = Metric { temporality: Temporality::Cumulative, ..counter("a", 1.0) };
    assert_eq!(fixture.last(&cumulative, 0), Err(RejectReason::TypeConflict));
    assert_eq!(fixture.last(&gauge("a_total", 1.0), 0), Err(RejectReason::NameConflict));
    let first = fixture.add(&counter("a", 1.0), 0).unwrap().0;
    assert_eq!(first.len(), 2, "a rejected row does not count as the first");
}

#[test]
fn of_names_with_one_exposed_name_the_first_keeps_it_until_it_expires() {
    let mut fixture = Fixture::summary();
    assert_eq!(fixture.last(&counter("a.b", 1.0), 0), Ok((1.0, 0)));
    for second in [0, 10] {
        let others = [counter("a-b", 2.0), counter("a_b", 2.0), gauge("a_b_total", 2.0)];
        for other in &others {
            assert_eq!(fixture.last(other, second), Err(RejectReason::NameConflict));
        }
    }
    assert_eq!(fixture.accumulator.take_conflicts().len(), 3, "each once");
    assert_eq!(fixture.accumulator.entries().len(), 1);
    assert_eq!(fixture.last(&counter("a.b", 1.0), 20), Ok((2.0, 20_000)));
    fixture.sweep_until(1000);
    assert_eq!(fixture.last(&counter("a-b", 2.0), 1000), Ok((2.0, 1_000_000)));
    assert_eq!(fixture.last(&counter("a.b", 1.0), 1000), Err(RejectReason::NameConflict));
}

#[test]
fn a_name_conflict_is_no_matter_of_limits() {
    let mut fixture = Fixture::summary();
    let names = ["a.b", "b", "c", "d"];
    names.iter().for_each(|name| assert_eq!(fixture.last(&gauge(name, 1.0), 0), Ok((1.0, 0))));
    assert_eq!(fixture.last(&gauge("a_b", 1.0), 0), Err(RejectReason::NameConflict));
}

/// Different tag keys that map to the same label name must not share a series. Otherwise, counts
/// would be added together, and gauges would be out of order.
#[test]
fn tag_keys_with_one_label_name_are_a_conflict() {
    let mut fixture = Fixture::summary();
    let tagged = |tags: &'static str| Metric { tags: tags.as_bytes(), ..counter("a", 1.0) };
    assert_eq!(fixture.last(&tagged(r#"{"x.y":"1","z":"2"}"#), 0), Ok((1.0, 0)));
    let other = tagged(r#"{"x_y":"1","z":"2"}"#);
    assert_eq!(fixture.last(&other, 0), Err(RejectReason::NameConflict));
    assert_eq!(fixture.last(&tagged(r#"{"z":"2","x.y":"1"}"#), 0), Ok((2.0, 1)), "another order");
    let conflicts = fixture.accumulator.take_conflicts();
    assert_eq!(conflicts.len(), 1);
    assert_eq!((&*conflicts[0].kept, &*conflicts[0].refused), ("a", "a"));
    assert_eq!(fixture.last(&tagged(r#"{"x.y":"1","x-y":"2"}"#), 0), Ok((1.0, 0)));
    assert_eq!(fixture.accumulator.take_joined(), 1);
}

#[test]
fn escaped_values_keep_names_apart() {
    let mut fixture = Fixture::summary();
    fixture.accumulator.options.rules.escaping = NameEscaping::Values;
    for (name, exposed) in [("a.b", "U__a_2e_b__total"), ("a_b", "a_b_total")] {
        let samples = fixture.add(&counter(name, 1.0), 0).unwrap();
        assert_eq!(samples.0.last().unwrap().0, exposed);
    }
    assert_eq!(fixture.last(&counter("a_b_total", 1.0), 0), Err(RejectReason::NameConflict));
}

#[test]
fn series_are_bounded_and_idle_ones_expire() {
    let mut fixture = Fixture::summary();
    let names = ["a", "b", "c", "d"];
    names.iter().for_each(|name| assert_eq!(fixture.last(&gauge(name, 1.0), 0), Ok((1.0, 0))));
    assert_eq!(fixture.last(&gauge("e", 1.0), 0), Err(RejectReason::TooManySeries));
    fixture.sweep_until(500);
    assert_eq!(fixture.last(&gauge("a", 2.0), 500), Ok((2.0, 500_000)));
    fixture.sweep_until(700);
    assert_eq!(fixture.accumulator.series(), 1);
    assert_eq!(fixture.last(&counter("e", 5.0), 700), Ok((5.0, 700_000)));
    assert_eq!(fixture.accumulator.entries().len(), 4, "slots are reused");
    assert_eq!(fixture.last(&gauge("a", 3.0), 700), Ok((3.0, 700_000)));
}

#[test]
fn series_never_expire_if_configured() {
    let mut fixture = Fixture::summary();
    fixture.accumulator.options.expire_seconds = EXPIRE_NEVER;
    fixture.sweep_until(10);
    assert_eq!(fixture.last(&counter("a", 1.0), 10), Ok((1.0, 10_000)));
    fixture.sweep_until(10_000);
    assert_eq!(fixture.accumulator.series(), 1);
    let ten_years = 10 * 365 * 86_400;
    fixture.now_ms += ten_years * 1000;
    assert!(!fixture.accumulator.sweep(fixture.now_ms));
    let entry = &fixture.accumulator.entries()[0];
    assert!(fixture.accumulator.is_alive(entry, fixture.now_ms));
    assert_eq!(fixture.last(&counter("a", 2.0), 20), Ok((3.0, 20_000)), "the sum continues");
}

#[test]
fn an_outage_does_not_count_as_idle() {
    let mut fixture = Fixture::summary();
    fixture.sweep_until(10);
    assert_eq!(fixture.last(&counter("a", 1.0), 10), Ok((1.0, 10_000)));
    fixture.now_ms += 3_600_000;
    fixture.accumulator.sweep(fixture.now_ms);
    assert_eq!(fixture.last(&counter("a", 2.0), 20), Ok((3.0, 20_000)), "the sum continues");
}

#[test]
fn a_returning_sum_starts_after_the_last_emitted_time() {
    let mut fixture = Fixture::summary();
    fixture.sweep_until(10);
    assert_eq!(fixture.last(&counter("a", 1.0), 10), Ok((1.0, 10_000)));
    fixture.sweep_until(700);
    assert_eq!(fixture.accumulator.series(), 0);
    // The event is late: its period begins before the end of the last emitted period.
    let back = fixture.add(&counter("a", 2.0), 15).unwrap().0;
    let times: Vec<_> = back.iter().map(|(_, value, time, _)| (*value, *time)).collect();
    assert_eq!(times, [(0.0, 10_001), (2.0, 15_000)]);
    let back = fixture.add(&counter("b", 2.0), 5).unwrap().0;
    assert_eq!(back.len(), 1, "no zero before the sum");
}

fn distribution<'a>(sketch: &'a str) -> Metric<'a> {
    let value = Value::Sketch(SketchText::parse(sketch.as_bytes()).unwrap());
    Metric { kind: Kind::Distribution, tags: br#"{"Zone":"z"}"#, value, ..counter("d", 0.0) }
}

const SKETCH: &str = r#"{"count":3,"sum":6,"min":1,"max":3,"values":[1,2,3],"weights":[1,1,1]}"#;

#[test]
fn a_summary_has_quantiles_of_the_period_and_cumulative_sums() {
    let mut fixture = Fixture::summary();
    let numbers = |samples: RecordedSamples| -> Vec<(String, f64, i64)> {
        samples.0.into_iter().map(|(name, value, time, _)| (name, value, time)).collect()
    };
    let row = |name: &str, value, time| (format!("Zone=z,{name}"), value, time);
    let first = numbers(fixture.add(&distribution(SKETCH), 0).unwrap());
    let zeros = [row("d_sum", 0.0, -9999), row("d_count", 0.0, -9999)];
    let values = [row("d,quantile=0.5", 2.0, 0), row("d_sum", 6.0, 0), row("d_count", 3.0, 0)];
    assert_eq!(first, [&zeros[..], &values].concat());
    let second = numbers(fixture.add(&distribution(SKETCH), 10).unwrap());
    let values = [
        row("d,quantile=0.5", 2.0, 10_000),
        row("d_sum", 12.0, 10_000),
        row("d_count", 6.0, 10_000),
    ];
    assert_eq!(second, values);
}

#[test]
fn a_metric_with_the_labels_of_a_summary_part_is_rejected() {
    let tagged = |name, tags: &'static str| Metric { tags: tags.as_bytes(), ..gauge(name, 1.0) };
    let parts = [
        (tagged("d.sum", r#"{"Zone":"z"}"#), RejectReason::NameConflict),
        (tagged("d.count", "{}"), RejectReason::NameConflict),
        (tagged("d", r#"{"Zone":"z","quantile":"0.5"}"#), RejectReason::TypeConflict),
    ];
    for (part, reason) in &parts {
        let mut fixture = Fixture::summary();
        assert!(fixture.add(&distribution(SKETCH), 0).is_ok());
        assert_eq!(fixture.last(part, 0), Err(*reason));
        assert!(fixture.add(&distribution(SKETCH), 10).is_ok());
        let mut fixture = Fixture::summary();
        assert_eq!(fixture.last(part, 0), Ok((1.0, 0)));
        assert_eq!(fixture.add(&distribution(SKETCH), 0).err(), Some(*reason));
    }
}

#[test]
fn a_native_histogram_is_cumulative() {
    let mut fixture = Fixture::new(Distributions::Native);
    assert_eq!(fixture.add(&distribution(SKETCH), 0).unwrap().0.len(), 2);
    assert_eq!(fixture.last(&distribution(SKETCH), 10), Ok((6.0, 10_000)));
}

#[test]
fn a_series_takes_at_most_140_bytes_besides_its_labels() {
    // Both tables can be half empty. Their tags count as well.
    let table = 2 * (size_of::<RawSeries>() + 1) + 2 * (size_of::<LabelOwner>() + 1);
    assert!(size_of::<Entry>() + table <= 140, "{} + {table}", size_of::<Entry>());
}
