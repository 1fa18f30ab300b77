//! Typical user data: metrics of a web shop's hosts, and access lines. The data is the same in
//! every run.

use crate::texts;
use fastrand::Rng;
use std::fmt::Write;

/// Metrics of the batch by name, with their kind and their tags.
const NAMES: &[(&str, Value, &[&str])] = &[
    ("http.server.requests", Value::Count, &["service", "method", "route", "status"]),
    ("http.server.request.bytes", Value::Bytes, &["service", "method", "route"]),
    ("http.client.requests", Value::Count, &["service", "target", "status"]),
    ("http.client.retries", Value::Count, &["service", "target"]),
    ("shop.orders", Value::Count, &["service", "country", "payment"]),
    ("shop.basket.value", Value::Decimal, &["country", "payment"]),
    ("db.pool.active", Value::Gauge, &["service", "pool"]),
    ("db.pool.wait.seconds", Value::Decimal, &["service", "pool"]),
    ("db.query.rows", Value::Count, &["service", "pool", "table"]),
    ("cache.hits", Value::Count, &["service", "cache"]),
    ("cache.misses", Value::Count, &["service", "cache"]),
    ("queue.depth", Value::Gauge, &["service", "queue"]),
    ("jvm.memory.used", Value::Bytes, &["service", "area"]),
    ("jvm.gc.pause.seconds", Value::Decimal, &["service", "area"]),
    ("process.cpu.ratio", Value::Decimal, &["service"]),
    ("process.open.files", Value::Gauge, &["service"]),
];

/// Values of the tags. Every metric also has the tags `env`, `host` and `pod`.
const TAGS: &[(&str, &[&str])] = &[
    (
        "service",
        &["checkout", "catalog", "basket", "payment-gateway", "search", "user-profile", "mailer"],
    ),
    ("method", &["GET", "POST", "PUT", "DELETE"]),
    (
        "route",
        &["/", "/login", "/api/v1/items/{id}", "/api/v1/orders", "/api/v1/orders/{id}", "/search"],
    ),
    ("status", &["200", "201", "204", "302", "400", "404", "500", "503"]),
    ("target", &["inventory", "billing", "shipping", "ratings"]),
    ("country", &["de", "at", "ch", "fr", "nl", "pl"]),
    ("payment", &["card", "invoice", "paypal"]),
    ("pool", &["orders-rw", "orders-ro", "users"]),
    ("table", &["orders", "order_items", "customers", "prices", "stock"]),
    ("cache", &["items", "prices", "sessions"]),
    ("queue", &["mail.out", "order.events", "stock.updates"]),
    ("area", &["eden", "survivor", "old", "metaspace"]),
];

/// Attributes that the agent adds to each metric: host, source and offset. The number of the offset
/// follows.
const META: &str = "\"meta\":{\"host\":\"web-017\",\"source\":\"dogs\",\"offset\":";

#[derive(Clone, Copy, PartialEq)]
enum Value {
    Count,
    Gauge,
    Bytes,
    Decimal,
}

/// One metric of a batch.
pub struct Metric {
    pub name: &'static str,
    /// Tags as a JSON object, with sorted keys.
    pub tags: String,
    pub is_counter: bool,
    pub value: f64,
}

/// An endless sequence of metrics in random order, as a metric store emits them.
pub struct Metrics(Rng);

impl Metrics {
    /// Creates the sequence of a seed.
    pub fn new(seed: u64) -> Metrics {
        Metrics(Rng::with_seed(seed))
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0.u64(..bound as u64) as usize
    }

    fn tags(&mut self, keys: &[&str]) -> String {
        let host = self.below(120);
        let mut tags = vec![
            ("env", "production".to_owned()),
            ("host", format!("web-{host:03}")),
            // A pod has a random name, which is constant per host.
            (
                "pod",
                format!("shop-{:x}-{:05x}", host % 9 * 7_919 + 65_537, host * 104_729 % 1_048_573),
            ),
        ];
        for (key, values) in TAGS.iter().filter(|(key, _)| keys.contains(key)) {
            tags.push((key, values[self.below(values.len())].to_owned()));
        }
        tags.sort();
        let pairs: Vec<String> =
            tags.iter().map(|(key, value)| format!("\"{key}\":\"{value}\"")).collect();
        format!("{{{}}}", pairs.join(","))
    }

    fn value(&mut self, value: Value) -> f64 {
        match value {
            Value::Count => {
                let digits = self.0.u64(..5) as u32;
                self.below(10_usize.pow(digits) + 1) as f64
            }
            Value::Gauge => self.below(400) as f64,
            Value::Bytes => (self.below(1 << 20) << 10) as f64,
            Value::Decimal => self.below(1_000_000) as f64 / 1e4,
        }
    }
}

impl Iterator for Metrics {
    type Item = Metric;

    fn next(&mut self) -> Option<Metric> {
        let (name, value, keys) = NAMES[self.below(NAMES.len())];
        let tags = self.tags(keys);
        let is_counter = matches!(value, Value::Count | Value::Bytes);
        Some(Metric { name, tags, is_counter, value: self.value(value) })
    }
}

/// Encodes about `bytes` of metrics as the agent's JSON; returns the bytes and the number of
/// metrics.
pub fn json(seed: u64, bytes: usize) -> (Vec<u8>, usize) {
    let (mut text, mut number) = (String::with_capacity(bytes + 512), 0);
    for Metric { name, tags, is_counter, value } in Metrics::new(seed) {
        if text.len() >= bytes {
            break;
        }
        let kind = match is_counter {
            true => format!("\"counter\",\"value\":{value},\"temporality\":\"delta\""),
            false => format!("\"gauge\",\"value\":{value}"),
        };
        let _ = writeln!(
            text,
            "{{\"timestamp\":\"2026-11-22T09:30:10.000Z\",\"name\":\"{name}\",\"tags\":{tags},\"type\":{kind},\
             \"interval\":10,{META}{number},\"id\":\"d27bba130be4f3f1-{number:x}\"}}}}"
        );
        number += 1;
    }
    (text.into_bytes(), number)
}

/// Encodes about `bytes` of access lines as the agent's JSON; returns the bytes and the number of
/// lines.
pub fn logs(seed: u64, bytes: usize) -> (Vec<u8>, usize) {
    let mut lines = 0;
    let (mut text, mut offset) = (String::with_capacity(bytes + 512), seed as usize * 100_000);
    let source = texts::weblog_of(seed, bytes);
    for line in source.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let message = String::from_utf8_lossy(line).replace('"', "\\\"");
        let millis = offset / 300;
        let _ = writeln!(
            text,
            "{{\"timestamp\":\"2026-11-22T09:{:02}:{:02}.{:03}Z\",\"message\":\"{message}\",\
             \"meta\":{{\"file\":\"/var/log/nginx/access.log\",\"offset\":{offset}}}}}",
            millis / 60_000 % 60,
            millis / 1000 % 60,
            millis % 1000,
        );
        offset += line.len() + 1;
        lines += 1;
        if text.len() >= bytes {
            break;
        }
    }
    (text.into_bytes(), lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_lines_of_about_the_size_asked_for_and_repeat() {
        for of in [json, logs] {
            let (text, number) = of(3, 64 << 10);
            assert_eq!(number, millstream_scan::count_newlines(&text));
            assert!((64 << 10..66 << 10).contains(&text.len()), "{}", text.len());
            assert!(text.ends_with(b"}\n"));
            assert!(text == of(3, 64 << 10).0 && text != of(4, 64 << 10).0);
        }
    }

    #[test]
    fn every_metric_has_its_tags_in_order() {
        for metric in Metrics::new(1).take(200) {
            let keys: Vec<&str> = metric.tags.split('"').skip(1).step_by(4).collect();
            assert!(keys.is_sorted() && keys.contains(&"pod"), "{}", metric.tags);
        }
    }
}
