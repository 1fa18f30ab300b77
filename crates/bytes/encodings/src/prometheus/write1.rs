//! Remote write 1.0: `prometheus.WriteRequest`.

use super::accumulator::{Collector, Point};
use super::distribution::{Histogram, ZERO_THRESHOLD};
use super::protobuf::{
    push_bytes, push_double, push_int, push_tag, push_varint, push_zigzag, varint_len, zigzag,
};

/// Bytes of a sample beside its time: the value with its tag, and the tag of the time.
const SAMPLE_BYTES: usize = 1 + 8 + 1;

/// A request under construction, not compressed.
#[derive(Default)]
pub struct WriteRequest {
    body: Vec<u8>,
    room: Vec<u8>,
}

impl WriteRequest {
    /// Its bytes so far.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// The series, which are the request; the next one begins.
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

/// Bytes of a sample, at most 20.
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
        self.room.clear();
        push_histogram(histogram, point.time_ms, &mut self.room);
        let len = labels.len() + 1 + varint_len(self.room.len() as u64) + self.room.len();
        push_tag(1, super::protobuf::BYTES, &mut self.body);
        push_varint(len as u64, &mut self.body);
        self.body.extend_from_slice(labels);
        push_bytes(4, &self.room, &mut self.body);
    }
}

/// Appends a histogram, which both versions write alike: with whole numbers where all are, which is
/// shorter.
pub(super) fn push_histogram(histogram: &Histogram, time_ms: i64, out: &mut Vec<u8>) {
    let is_whole = histogram.is_whole();
    push_count(1, histogram.count, is_whole, out);
    push_double(3, histogram.sum, out);
    push_zigzag(4, histogram.schema, out);
    push_double(5, ZERO_THRESHOLD, out);
    push_count(6, histogram.zero, is_whole, out);
    push_buckets(8, &histogram.negative, is_whole, out);
    push_buckets(11, &histogram.positive, is_whole, out);
    push_int(15, time_ms, out);
}

/// A count: an integer in one field, or a float in the next.
fn push_count(field: u8, count: f64, is_whole: bool, out: &mut Vec<u8>) {
    match is_whole {
        true => push_int(field, count as i64, out),
        false => push_double(field + 1, count, out),
    }
}

/// Buckets: where they lie, as spans without gaps, in `field`; whole numbers of values, each as the
/// difference to the one before, in the next field, or floats in the one behind that.
fn push_buckets(field: u8, buckets: &[(i32, f64)], is_whole: bool, out: &mut Vec<u8>) {
    let (mut end, mut room) = (0, Vec::new());
    // The bucket of Prometheus' index 0 ends with 1, as here.
    for span in buckets.chunk_by(|(one, _), (next, _)| one + 1 == *next) {
        room.clear();
        push_zigzag(1, span[0].0 - end, &mut room);
        push_int(2, span.len() as i64, &mut room);
        push_bytes(field, &room, out);
        end = span[0].0 + span.len() as i32;
    }
    if buckets.is_empty() {
        return;
    }
    room.clear();
    if !is_whole {
        buckets.iter().for_each(|(_, count)| room.extend_from_slice(&count.to_le_bytes()));
        return push_bytes(field + 2, &room, out);
    }
    let mut before = 0;
    for (_, count) in buckets {
        push_varint(zigzag(*count as i64 - before), &mut room);
        before = *count as i64;
    }
    push_bytes(field + 1, &room, out);
}
