//! Remote write 1.0: `prometheus.WriteRequest`.

use super::accumulator::{Collector, Point};
use super::distribution::{Histogram, ZERO_THRESHOLD};
use super::protobuf::{
    push_bytes, push_double, push_int, push_tag, push_varint, push_zigzag, varint_len, zigzag,
};

/// Length of a sample without its timestamp: the value with its tag, and the timestamp's tag.
const SAMPLE_BYTES: usize = 1 + 8 + 1;

/// An uncompressed request that is being built.
#[derive(Default)]
pub struct WriteRequest {
    body: Vec<u8>,
    value_buf: Vec<u8>,
}

impl WriteRequest {
    /// Returns the length of the request so far in bytes.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Returns the series, which form the complete request, and starts the next request.
    pub fn take(&mut self) -> Vec<u8> {
        let capacity = self.body.len();
        std::mem::replace(&mut self.body, Vec::with_capacity(capacity))
    }
}

/// Appends a sample.
#[inline]
pub(super) fn push_sample(point: &Point, out: &mut Vec<u8>) {
    push_tag(2, super::protobuf::BYTES, out);
    out.push(sample_len(point) as u8);
    push_double(1, point.value, out);
    push_int(2, point.time_ms, out);
}

/// Returns the encoded length of a sample in bytes, at most 20.
#[inline]
pub(super) fn sample_len(point: &Point) -> usize {
    SAMPLE_BYTES + varint_len(point.time_ms as u64)
}

impl Collector for WriteRequest {
    #[inline]
    fn number(&mut self, labels: &[u8], point: &Point) {
        let out = &mut self.body;
        push_tag(1, super::protobuf::BYTES, out);
        push_varint((labels.len() + 2 + sample_len(point)) as u64, out);
        out.extend_from_slice(labels);
        push_sample(point, out);
    }

    fn histogram(&mut self, labels: &[u8], histogram: &Histogram, point: &Point) {
        self.value_buf.clear();
        push_histogram(histogram, point.time_ms, &mut self.value_buf);
        let len = labels.len() + 1 + varint_len(self.value_buf.len() as u64) + self.value_buf.len();
        push_tag(1, super::protobuf::BYTES, &mut self.body);
        push_varint(len as u64, &mut self.body);
        self.body.extend_from_slice(labels);
        push_bytes(4, &self.value_buf, &mut self.body);
    }
}

/// Appends a histogram, which both versions encode in the same way. If all counts are integral,
/// they are encoded as integers, which are shorter.
pub(super) fn push_histogram(histogram: &Histogram, time_ms: i64, out: &mut Vec<u8>) {
    let is_integral = histogram.is_integral();
    push_count(1, histogram.count, is_integral, out);
    push_double(3, histogram.sum, out);
    push_zigzag(4, histogram.schema, out);
    push_double(5, ZERO_THRESHOLD, out);
    push_count(6, histogram.zero, is_integral, out);
    push_buckets(8, &histogram.negative, is_integral, out);
    push_buckets(11, &histogram.positive, is_integral, out);
    push_int(15, time_ms, out);
}

/// Appends a count: an integer in `field`, or a float in `field + 1`.
fn push_count(field: u8, count: f64, is_integral: bool, out: &mut Vec<u8>) {
    match is_integral {
        true => push_int(field, count as i64, out),
        false => push_double(field + 1, count, out),
    }
}

/// Appends buckets. `field` contains the spans of consecutive buckets. Integral counts follow
/// delta-encoded in `field + 1`, or float counts in `field + 2`.
fn push_buckets(field: u8, buckets: &[(i32, f64)], is_integral: bool, out: &mut Vec<u8>) {
    let (mut end, mut buf) = (0, Vec::new());
    // As in Prometheus, the bucket at index 0 ends at 1.
    for span in buckets.chunk_by(|(index, _), (next, _)| index + 1 == *next) {
        buf.clear();
        push_zigzag(1, span[0].0 - end, &mut buf);
        push_int(2, span.len() as i64, &mut buf);
        push_bytes(field, &buf, out);
        end = span[0].0 + span.len() as i32;
    }
    if buckets.is_empty() {
        return;
    }
    buf.clear();
    if !is_integral {
        buckets.iter().for_each(|(_, count)| buf.extend_from_slice(&count.to_le_bytes()));
        return push_bytes(field + 2, &buf, out);
    }
    let mut previous = 0;
    for (_, count) in buckets {
        push_varint(zigzag(*count as i64 - previous), &mut buf);
        previous = *count as i64;
    }
    push_bytes(field + 1, &buf, out);
}
