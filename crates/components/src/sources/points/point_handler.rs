//! Message handler of a receiver thread. It parses messages into points, and adds the points to the
//! thread's shard.

use super::log_events::LogEvent;
use super::origin::OriginTags;
use super::round_counts::RoundCounts;
use super::swap_slot::SwapSlot;
use crate::sources::points::events::TagsText;
use millstream_model::{ExpectedMemory, MemoryPressure};
use millstream_points::{
    Event, Extra, Fault, Grouped, Log, Note, ServiceCheck, Visit, dogstatsd, metricserver,
};
use millstream_receiver::{Messages, Sender};
use millstream_series::{Idle, Point, Shard, TagStyle, Values};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Maximum number of series that are evicted per round of messages. Each eviction takes a few
/// hundred nanoseconds.
const EVICT_PER_ROUND: usize = 256;

/// Maximum number of series that are evicted per notification without messages.
const EVICT_WHEN_IDLE: usize = 4096;

/// Maximum number of bytes that an emitted series takes in addition to its memory after creation:
/// in the store, and in the other generation. Measured with counters.
const EMITTED_SERIES_BYTES: u64 = 128;

/// Protocol of the messages.
#[derive(Clone, Copy, Debug)]
pub enum Protocol {
    /// The text protocol of DogStatsD.
    DogStatsd(dogstatsd::Options),
    /// The msgpack protocol of the metric server.
    MetricServer,
}

impl Protocol {
    /// Returns the tag syntax of the protocol.
    pub fn tag_style(self) -> TagStyle {
        match self {
            Protocol::DogStatsd(_) => TagStyle::DogStatsd,
            Protocol::MetricServer => TagStyle::Pairs,
        }
    }
}

/// The parser and the shard of one receiver thread.
pub struct PointHandler {
    protocol: Protocol,
    shard: Shard,
    swap_slot: Arc<SwapSlot>,
    origin: OriginTags,
    round_counts: RoundCounts,
    tags_text: TagsText,
    idle: Option<Idle>,
    /// Memory that the series created in this period and the previous one will take after they are
    /// emitted.
    expected: ExpectedMemory,
    /// Number of series that were created in the previous period.
    created_before: usize,
}

impl PointHandler {
    /// Creates a handler of messages in `protocol`.
    pub fn new(
        protocol: Protocol,
        shard: Shard,
        swap_slot: Arc<SwapSlot>,
        origin: OriginTags,
        round_counts: RoundCounts,
        pressure: Arc<MemoryPressure>,
    ) -> PointHandler {
        PointHandler {
            protocol,
            shard,
            swap_slot,
            origin,
            round_counts,
            tags_text: TagsText::default(),
            idle: None,
            expected: ExpectedMemory::new(pressure),
            created_before: 0,
        }
    }

    /// Swaps the generation if requested, and evicts up to `most` idle series.
    fn swap_and_evict(&mut self, most: usize) {
        let created = self.shard.created();
        if self.swap_slot.swap(&mut self.shard, &mut self.idle) {
            self.created_before = created;
        }
        if let Some(mut idle) = self.idle.take() {
            self.idle = self.shard.evict(&mut idle, most).then_some(idle);
            if self.idle.is_none() {
                self.swap_slot.finish_eviction();
            }
        }
    }

    /// Updates the memory that the recently created series are expected to take.
    fn expect(&mut self) {
        let created = self.shard.created() + self.created_before;
        self.expected.set(created as u64 * EMITTED_SERIES_BYTES);
    }
}

impl millstream_receiver::MessageHandler for PointHandler {
    fn round(&mut self, messages: &Messages<'_>) {
        let _entered = self.round_counts.enter();
        self.swap_and_evict(EVICT_PER_ROUND);
        self.shard.set_may_grow(self.expected.pressure().may_grow());
        let arrived = messages.received_ns();
        self.round_counts.begin_round(arrived);
        let mut visitor = Visitor {
            grouped: Grouped::new(&mut self.shard),
            round_counts: &mut self.round_counts,
            swap_slot: &self.swap_slot,
            origin: &mut self.origin,
            tags_text: &mut self.tags_text,
            sender: None,
            order: order(),
        };
        for message in messages.iter() {
            visitor.sender = message.sender;
            match self.protocol {
                Protocol::DogStatsd(options) => {
                    dogstatsd::parse(message.bytes, options, arrived, &mut visitor)
                }
                Protocol::MetricServer => metricserver::parse(message.bytes, arrived, &mut visitor),
            }
        }
        drop(visitor);
        self.expect();
        self.round_counts.end_round(messages.bytes() as u64);
    }

    fn notified(&mut self) {
        self.swap_and_evict(EVICT_WHEN_IDLE);
        // Periods also end without traffic.
        self.expect();
    }
}

/// Receives points, events and errors from the parser.
struct Visitor<'s, 'a> {
    grouped: Grouped<'s, 'a>,
    round_counts: &'s mut RoundCounts,
    swap_slot: &'s SwapSlot,
    origin: &'s mut OriginTags,
    tags_text: &'s mut TagsText,
    sender: Option<&'a Sender>,
    /// Monotonic time of the round (see [`order`]).
    order: u64,
}

impl<'a> Visit<'a> for Visitor<'_, 'a> {
    #[inline(always)]
    fn point(&mut self, point: Point<'a>, extra: &Extra<'a>) {
        let point = Point { arrived: self.order, ..point };
        self.round_counts.points += 1;
        if self.origin.is_empty() {
            return self.grouped.add(point);
        }
        let tags = self.origin.of(point.tags, extra, self.sender);
        self.grouped.add_now(&Point { tags, ..point });
    }

    fn packed(&mut self, point: &Point<'_>, extra: &Extra<'a>) {
        if let Values::Numbers(values) = point.values {
            self.round_counts.points += values.len() as u64;
        }
        let tags = self.origin.of(point.tags, extra, self.sender);
        self.grouped.add_now(&Point { tags, arrived: self.order, ..*point });
    }

    fn event(&mut self, event: &Event<'a>) {
        self.round_counts.points += 1;
        let tags = self.origin.of(event.tags.as_bytes(), &event.extra, self.sender);
        self.tags_text.render_text(tags, TagStyle::DogStatsd);
        let at = time(event.timestamp, event.arrived);
        let text = |text: Option<&str>| text.unwrap_or_default().as_bytes().to_vec();
        let log_event = LogEvent::new(at, dogstatsd::unescaped(event.text).into_owned().into())
            .set("type", b"event")
            .set("title", dogstatsd::unescaped(event.title).as_bytes())
            .set("priority", &text(event.priority))
            .set("alert_type", &text(event.alert))
            .set("aggregation_key", &text(event.aggregation_key))
            .set("source_type", &text(event.source))
            .set("hostname", &text(event.host))
            .set_tags(&self.tags_text.object);
        self.log_event(log_event);
    }

    fn service_check(&mut self, check: &ServiceCheck<'a>) {
        self.round_counts.points += 1;
        let tags = self.origin.of(check.tags.as_bytes(), &check.extra, self.sender);
        self.tags_text.render_text(tags, TagStyle::DogStatsd);
        let status = ["ok", "warning", "critical", "unknown"][usize::from(check.status.min(3))];
        let message = dogstatsd::unescaped(check.message.unwrap_or_default()).into_owned();
        let log_event = LogEvent::new(time(check.timestamp, check.arrived), message.into())
            .set("type", b"service_check")
            .set("name", check.name.as_bytes())
            .set("status", status.as_bytes())
            .set("hostname", check.host.unwrap_or_default().as_bytes())
            .set_tags(&self.tags_text.object);
        self.log_event(log_event);
    }

    #[cold]
    fn log(&mut self, log: &Log<'a>) {
        self.round_counts.points += 1;
        let tags = self.origin.of(log.tags.as_bytes(), Extra::NONE, self.sender);
        self.tags_text.render_text(tags, TagStyle::Pairs);
        let at = log.unix_ms.map_or(log.arrived as i64, |ms| ms.saturating_mul(1_000_000));
        let mut log_event = LogEvent::new(at, log.message.into())
            .set("name", log.name.as_bytes())
            .set("level", log.level.as_bytes());
        for (key, value) in &log.fields {
            log_event = set_field(log_event, key, value);
        }
        self.log_event(log_event.set_tags(&self.tags_text.object));
    }

    #[cold]
    fn fault(&mut self, fault: Fault, text: &'a [u8]) {
        self.round_counts.reject(fault, text);
    }

    #[cold]
    fn note(&mut self, note: Note, _: &'a [u8]) {
        self.round_counts.note(note);
    }
}

impl Visitor<'_, '_> {
    fn log_event(&mut self, log_event: LogEvent) {
        if !self.swap_slot.log_event(log_event) {
            self.round_counts.log_events_lost += 1;
        }
    }
}

/// Names of fields that every event has or that the source sets itself.
const RESERVED: [&str; 8] =
    ["message", "timestamp", "name", "level", "tags", "host", "meta", "attributes"];

/// Sets a field of a log event. The field is a number if its key ends with a numeric unit. A field
/// with the name of another part of the event becomes `fields.NAME`.
fn set_field(log_event: LogEvent, key: &str, value: &str) -> LogEvent {
    if RESERVED.contains(&key) {
        return log_event.set(&format!("fields.{key}"), value.as_bytes());
    }
    let is_number = key == "bytes" || key.ends_with("_bytes") || key.ends_with("_ms");
    let number = value.parse::<f64>().ok().filter(|number| is_number && number.is_finite());
    match number {
        Some(number) => log_event.set_number(key, number),
        None => log_event.set(key, value.as_bytes()),
    }
}

/// Returns the monotonic time in nanoseconds, which orders the last values from different receivers
/// independently of the wall clock.
fn order() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Returns the timestamp of the client, otherwise the arrival time, in nanoseconds since 1970.
fn time(timestamp: Option<i64>, arrived: u64) -> i64 {
    timestamp.map_or(arrived as i64, |seconds| seconds.saturating_mul(1_000_000_000))
}
