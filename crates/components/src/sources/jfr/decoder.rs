//! Decodes the events of a chunk into a [`Fill`].

use super::catalog::{
    COMMON, DURATION, KINDS, Kind, Log, OWN, STACK, STACK_VALUES, START, THREAD, VALUES,
};
use super::config::Settings;
use super::fill::{Added, Fill, ValueKey, Window, tag_bytes};
use super::tags::{Bounds, TagCx, TagSetId, TagSets, peer};
use crate::sources::points::events::{TagsText, some_value};
use crate::sources::points::log_events::LogEvent;
use millstream_jfr::Clock;
use millstream_jfr::read::{
    ChunkError, ChunkHeader, ChunkReader, Event, EventPlan, Lookup, Raw, ReadAt, SLOTS,
};
use std::fmt::Write;
use std::ops::{ControlFlow, Range};

/// Maximum number of stack frames in a log event.
const FRAMES_MAX: usize = 32;

/// Maximum size, in bytes, of a message or path in a log event; longer text is truncated.
const TEXT_BYTES_MAX: usize = 4096;

/// How to read the events of one type.
struct Plan {
    /// Index of the type in [`KINDS`].
    kind: usize,
    fields: EventPlan,
    /// The type of each slot's value.
    types: [u64; SLOTS],
}

/// Decodes the events of a chunk, up to the length that was readable at the last update.
pub struct Decoder {
    reader: ChunkReader,
    /// Plans by type id.
    plans: Vec<Option<Box<Plan>>>,
}

/// Input for the decoding of events.
pub struct DecodeCx<'a> {
    /// Source settings.
    pub settings: &'a Settings,
    /// Tags of the process.
    pub process_tags: &'a [(&'static str, String)],
    /// Text that identifies the process.
    pub process_key: &'a str,
    /// Tag sets of the chunk.
    pub tag_sets: &'a mut TagSets,
    /// Limits on the tags of all processes.
    pub bounds: &'a mut Bounds,
    /// Whether all events belong to one window, because the recording is still growing.
    pub is_live: bool,
    /// Number of events whose fields could not be read.
    pub invalid: u64,
}

impl Decoder {
    /// Reads the data that the events of a chunk refer to.
    ///
    /// # Errors
    /// Returns an error if the chunk is invalid, exceeds a limit, or cannot be read.
    pub fn open(
        from: &impl ReadAt,
        header: &ChunkHeader,
        settings: &Settings,
    ) -> Result<Decoder, ChunkError> {
        let mut kept = VALUES.to_vec();
        if settings.has_stacks {
            kept.extend(STACK_VALUES);
        }
        let reader = ChunkReader::open(from, header, &kept)?;
        let plans = plans(&reader.lookup(), settings);
        Ok(Decoder { reader, plans })
    }

    /// Reads the data that was added since the last call. Returns whether the chunk must be
    /// reopened.
    ///
    /// # Errors
    /// Returns an error if the new part is invalid, exceeds a limit, or cannot be read.
    pub fn update(&mut self, from: &impl ReadAt, header: &ChunkHeader) -> Result<bool, ChunkError> {
        self.reader.update(from, header)
    }

    /// Returns the reader.
    pub fn reader(&self) -> &ChunkReader {
        &self.reader
    }

    /// Adds the events of `range` to `fill` until the fill is full.
    ///
    /// # Errors
    /// Returns an error with the position if an event is invalid or the system cannot read the
    /// file.
    pub fn fill(
        &self,
        from: &impl ReadAt,
        range: Range<u64>,
        window: &mut Vec<u8>,
        fill: &mut Fill,
        cx: &mut DecodeCx<'_>,
    ) -> Result<(), (u64, ChunkError)> {
        let clock = self.reader.header().clock();
        let read = self.reader.events(from, range, window, |at, event| {
            let plan = usize::try_from(event.type_id).ok().and_then(|id| self.plans.get(id));
            if let Some(Some(plan)) = plan {
                self.event(at, event, plan, &clock, fill, cx);
            }
            match fill.is_full() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        fill.end = match &read {
            Ok(end) => *end,
            // The events before an invalid event are valid.
            Err((at, _)) => fill.end.max(*at),
        };
        read.map(drop)
    }

    fn event(
        &self,
        at: u64,
        event: &Event<'_>,
        plan: &Plan,
        clock: &Clock,
        fill: &mut Fill,
        cx: &mut DecodeCx<'_>,
    ) {
        let Ok(raw) = plan.fields.read(event.fields) else {
            cx.invalid += 1;
            return;
        };
        let kind = &KINDS[plan.kind];
        if kind.only_if.is_some_and(|slot| !raw[slot].flag()) {
            return;
        }
        let lookup = self.reader.lookup();
        let tag_cx = TagCx { lookup, process: cx.process_key, max: cx.settings.tag_values_max };
        let tags = cx.tag_sets.of(kind, &raw, &plan.types, cx.bounds, &tag_cx);
        let decoded = Decoded { kind, raw: &raw, types: &plan.types, lookup, clock };
        decoded.add(plan.kind, tags, fill, cx);
        if let Some(log) = decoded.log(tags, cx) {
            fill.add_log(at, log);
        }
    }
}

/// Returns the plans for the events that the settings select.
fn plans(lookup: &Lookup<'_>, settings: &Settings) -> Vec<Option<Box<Plan>>> {
    let mut plans = Vec::new();
    for (index, kind) in KINDS.iter().enumerate() {
        if !settings.groups.contains(&kind.group) {
            continue;
        }
        let Some((id, plan)) = plan(lookup, index, kind) else { continue };
        plans.resize_with(plans.len().max(id + 1), || None);
        plans[id] = Some(Box::new(plan));
    }
    plans
}

fn plan(lookup: &Lookup<'_>, index: usize, kind: &Kind) -> Option<(usize, Plan)> {
    let id = lookup.types.id(kind.event)?;
    let names: Vec<&str> = COMMON.iter().chain(kind.fields).copied().collect();
    let fields = EventPlan::new(lookup.types, id, &names)?;
    let mut types = [0; SLOTS];
    for field in &lookup.types.get(id)?.fields {
        if let Some(slot) = names.iter().position(|name| *name == field.name) {
            types[slot] = field.type_id;
        }
    }
    // Event types are numbered from 0, and a chunk has a limited number of types.
    let id = usize::try_from(id).ok().filter(|id| *id < 1 << 16)?;
    Some((id, Plan { kind: index, fields, types }))
}

/// An event with its fields.
struct Decoded<'a> {
    kind: &'static Kind,
    raw: &'a [Raw<'a>; SLOTS],
    types: &'a [u64; SLOTS],
    lookup: Lookup<'a>,
    clock: &'a Clock,
}

impl Decoded<'_> {
    fn duration_ns(&self) -> u64 {
        self.clock.ns(self.raw[DURATION].integer())
    }

    fn duration_ms(&self) -> f64 {
        self.duration_ns() as f64 / 1e6
    }

    /// Returns the start time of the event, which may be before the start of the chunk.
    fn start_ns(&self) -> u64 {
        let (start, clock) = (self.raw[START].integer(), self.clock);
        let before = clock.ns(clock.start_ticks.saturating_sub(start));
        clock.unix_ns(start).saturating_sub(before)
    }

    fn amount(&self) -> f64 {
        // The value is negative if a read reached the end of the stream.
        let amount = |(_, slot): (&str, usize)| self.raw[slot].integer().cast_signed().max(0);
        self.kind.amount.map_or(0, amount) as f64
    }

    /// Adds the metric values of the event.
    fn add(&self, index: usize, tags: TagSetId, fill: &mut Fill, cx: &DecodeCx<'_>) {
        let end_ns = self.start_ns().saturating_add(self.duration_ns());
        let mut gauges = [None; 3];
        for (value, (_, slot)) in gauges.iter_mut().zip(self.kind.gauges) {
            *value = self.raw[*slot].float();
        }
        let added = Added {
            end_ns,
            duration_ms: self.kind.duration.map(|_| self.duration_ms()),
            amount: self.amount(),
            gauges: &gauges,
            tag_bytes: tag_bytes(cx.tag_sets.get(tags).iter().chain(cx.process_tags)),
        };
        let key = ValueKey { window: self.window(end_ns, cx), kind: index, tags };
        fill.add(key, self.kind, &added);
    }

    fn window(&self, end_ns: u64, cx: &DecodeCx<'_>) -> Window {
        let length = cx.settings.period.as_nanos() as i64;
        let end_ns = i64::try_from(end_ns).unwrap_or(i64::MAX);
        if cx.is_live { 0 } else { end_ns.div_euclid(length) }
    }

    /// Returns the log event, if the event is long enough.
    fn log(&self, tags: TagSetId, cx: &DecodeCx<'_>) -> Option<LogEvent> {
        let log = self.kind.log?;
        let threshold = cx.settings.log_threshold?;
        let is_logged =
            matches!(log, Log::Error(_)) || u128::from(self.duration_ns()) >= threshold.as_nanos();
        is_logged.then(|| self.log_event(log, tags, cx))
    }

    fn log_event(&self, log: Log, tags: TagSetId, cx: &DecodeCx<'_>) -> LogEvent {
        let text = |slot: usize| self.lookup.text(&self.raw[slot], self.types[slot]);
        let unix_ns = i64::try_from(self.start_ns()).unwrap_or(i64::MAX);
        let mut event = LogEvent::new(unix_ns, self.message(log).into_bytes())
            .set("name", self.kind.event.as_bytes())
            .set("level", if matches!(log, Log::Error(_)) { b"error" } else { b"warn" });
        if !matches!(log, Log::Error(_)) {
            event = event.set_number("duration_ms", self.duration_ms());
        }
        if self.kind.amount.is_some() {
            event = event.set_number("bytes", self.amount());
        }
        let thread = self.lookup.thread(&self.raw[THREAD], self.types[THREAD]);
        event = event.set("thread", cut(&thread).as_bytes());
        if let Log::File(_) = log {
            event = event.set("file.path", cut(&text(OWN)).as_bytes());
        }
        event.set("stack", self.stack(cx).as_bytes()).set_tags(&tags_object(tags, cx))
    }

    fn message(&self, log: Log) -> String {
        let text =
            |slot: usize| cut(&self.lookup.text(&self.raw[slot], self.types[slot])).to_owned();
        let ms = self.duration_ms();
        let bytes = || match self.kind.amount {
            Some(_) => format!(", {} bytes", self.amount()),
            None => String::new(),
        };
        match log {
            Log::Socket(verb) => {
                let peer = peer(self.raw, self.types, &self.lookup, OWN);
                let port = match self.raw[OWN + 2].integer() {
                    0 => String::new(),
                    port => format!(":{port}"),
                };
                format!("{verb} {peer}{port} took {ms:.1} ms{}", bytes())
            }
            Log::File(verb) => format!("{verb} {} took {ms:.1} ms{}", text(OWN), bytes()),
            Log::Pause => format!("{} took {ms:.1} ms", text(OWN)),
            Log::Monitor => {
                let class = self.lookup.class(&self.raw[OWN], self.types[OWN]);
                format!("monitor of class {class} was entered after {ms:.1} ms")
            }
            Log::Error(at) => {
                let class = self.lookup.class(&self.raw[at], self.types[at]);
                match text(at + 1) {
                    empty if empty.is_empty() => class,
                    message => format!("{class}: {message}"),
                }
            }
        }
    }

    fn stack(&self, cx: &DecodeCx<'_>) -> String {
        let mut text = String::new();
        if cx.settings.has_stacks {
            for frame in self.lookup.stack(&self.raw[STACK], self.types[STACK], FRAMES_MAX) {
                let line = if text.is_empty() { "" } else { "\n" };
                // Writing to a string does not fail.
                let (class, file) = (&frame.class, file_of(&frame.class));
                let _ = write!(text, "{line}at {class}.{}({file}.java", frame.method);
                if frame.line > 0 {
                    let _ = write!(text, ":{}", frame.line);
                }
                text.push(')');
            }
        }
        text
    }
}

/// Returns the likely name of a class's source file, without `.java`. Recordings do not contain
/// this name; it is usually the name of the outermost class.
fn file_of(class: &str) -> &str {
    let simple = class.rsplit('.').next().unwrap_or(class);
    let end = simple.char_indices().skip(1).find(|(_, character)| *character == '$');
    end.map_or(simple, |(at, _)| &simple[..at])
}

/// Returns the tags of a log event as JSON: the metric tags of the event, and the tags of the
/// process.
fn tags_object(tags: TagSetId, cx: &DecodeCx<'_>) -> Vec<u8> {
    let all = cx.tag_sets.get(tags).iter().chain(cx.process_tags);
    let mut all: Vec<(&[u8], Option<&[u8]>)> =
        all.map(|(key, value)| (key.as_bytes(), some_value(value.as_bytes()))).collect();
    let mut text = TagsText::default();
    text.render_sorted(&mut all);
    text.object
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}
