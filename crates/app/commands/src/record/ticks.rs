//! Events and clocks in ticks.

use millstream_recorder::event::Event;
use millstream_recorder::jfr::Clock;

/// Returns the end of an event in ticks.
pub fn end_of(event: &Event) -> u64 {
    let has_duration = event.kind.spec().has_duration;
    event.start_ticks.saturating_add(if has_duration { event.duration_ticks } else { 0 })
}

/// Returns a clock that begins at another point in time.
pub fn clock_from(clock: Clock, start_ticks: u64) -> Clock {
    let start_ticks = start_ticks.max(clock.start_ticks);
    Clock { start_ticks, start_unix_ns: clock.unix_ns(start_ticks), ..clock }
}
