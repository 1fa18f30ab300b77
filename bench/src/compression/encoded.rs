//! Encodes batches of metrics as msgpack and as remote write requests.

use super::payloads::{self, Metrics};
use millstream_encodings::metric::{Kind, Metric, Temporality, Value};
use millstream_encodings::msgpack::{BlockEncoder, Shared};
use millstream_encodings::prometheus::{
    Accumulator, Distributions, LabelRules, NameEscaping, Options, RemoteWriteLabels,
    RequestBuilder, RowPlace, RowsBuilder, Version,
};

/// End of the period in ms since 1970.
const TIME_MS: i64 = 1_795_339_810_000;
const INTERVAL_S: f64 = 10.0;
const HOST: &str = "web-017";
/// Minimum number of metrics per msgpack block, except for the last block.
const BLOCK: usize = 2000;

/// Encodes about `bytes` of metrics as msgpack; returns the bytes and the number of metrics.
pub fn msgpack(seed: u64, bytes: usize) -> (Vec<u8>, usize) {
    let mut number = 0;
    let (mut metrics, mut encoder, mut body) =
        (Metrics::new(seed), BlockEncoder::new(seed), Vec::new());
    let shared = Shared { meta: &[("host", HOST), ("source", "dogs")], attributes: &[] };
    while body.len() + encoder.bytes() < bytes {
        for metric in metrics.by_ref().take(100) {
            encoder.push(&of(&metric)).expect("tags are an object");
            number += 1;
        }
        if encoder.rows() >= BLOCK {
            encoder.finish(&shared, &mut body);
        }
    }
    encoder.finish(&shared, &mut body);
    (body, number)
}

/// Encodes about `bytes` of metrics as a remote write 1.0 request; returns the bytes and the number
/// of metrics.
pub fn remote_write(seed: u64, bytes: usize) -> (Vec<u8>, usize) {
    let mut number = 0;
    let distributions = Distributions::Native;
    let rules = LabelRules {
        constant: Vec::new(),
        host_label: None,
        counter_suffix: true,
        escaping: NameEscaping::Underscores,
        value_bytes_max: usize::MAX,
    };
    let options = Options {
        rules,
        distributions: distributions.clone(),
        expire_seconds: 600,
        series_max: usize::MAX,
        starts_at_zero: false,
        seed,
    };
    let (mut metrics, mut request) = (Metrics::new(seed), RequestBuilder::new(Version::One, seed));
    let mut accumulator = Accumulator::new(options, RemoteWriteLabels::new(&distributions));
    while request.bytes() < bytes {
        let mut rows = RowsBuilder::new(&distributions, seed, HOST, Vec::new());
        metrics.by_ref().take(100).for_each(|metric| rows.push(&of(&metric)));
        let (rows, text) = rows.finish();
        for row in rows.rows() {
            // The load repeats some series, but remote write allows one value per series and time.
            let place = RowPlace { rows: &rows, row, text: &text };
            number += usize::from(accumulator.add(place, TIME_MS, &mut request).is_ok());
            request.end_event();
        }
    }
    (request.take().parts().concat(), number)
}

fn of(metric: &payloads::Metric) -> Metric<'_> {
    let (kind, temporality) = match metric.is_counter {
        true => (Kind::Counter, Temporality::Delta),
        false => (Kind::Gauge, Temporality::None),
    };
    Metric {
        name: metric.name.as_bytes(),
        tags: metric.tags.as_bytes(),
        kind,
        temporality,
        value: Value::Number(metric.value),
        time_ns: TIME_MS * 1_000_000,
        interval: INTERVAL_S,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_encodings::msgpack::blocks;

    #[test]
    fn payloads_have_about_the_size_asked_for_and_can_be_read() {
        for of in [msgpack, remote_write] {
            let len = of(1, 64 << 10).0.len();
            assert!((48 << 10..96 << 10).contains(&len), "{len}");
        }
        let (body, number) = msgpack(2, 200 << 10);
        let rows: usize = blocks(&body).map(|block| block.unwrap().metrics().count()).sum();
        assert!(rows > BLOCK && rows == number, "{rows} {number}");
    }
}
