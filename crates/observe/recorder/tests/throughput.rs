//! Measures throughput. There is no limit, because a slow host could miss it:
//! `cargo test --release -p millstream-recorder --test throughput -- --ignored --nocapture`.

use millstream_recorder::event::{self, Event, Tables, Thread};
use millstream_recorder::ids::{SubjectId, TextId, ThreadId};
use millstream_recorder::jfr::{self, Clock, Recording};
use millstream_recorder::schema::{EventKind, Value};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::time::Instant;

const EVENTS: u64 = 5_000_000;
const ROUNDS: usize = 5;

struct Names(Vec<String>);

impl Tables for Names {
    fn text(&self, id: TextId) -> Option<&str> {
        self.0.get(id.0 as usize).map(|text| &text[..])
    }

    fn thread(&self, id: ThreadId) -> Option<Thread<'_>> {
        Some(Thread { name: "worker", os_id: id.0 })
    }
}

/// Counts bytes and discards them.
struct Counted(u64);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn event(number: u64) -> Event {
    let text = Value::Text(TextId(number as u32 % 100));
    let bytes = Value::Bytes(number * 7919 % 65_536);
    let (kind, values) = match number % 3 {
        0 => (EventKind::FileRead, event::bits([text, bytes, Value::Flag(false)])),
        1 => (EventKind::SocketWrite, event::bits([text, text, Value::Unsigned(9200), bytes])),
        _ => {
            (EventKind::BatchStage, event::bits([text, Value::Count(number as u32 % 1000), bytes]))
        }
    };
    let start_ticks = 2_900_000_000_000_000 + number * 900;
    let thread = ThreadId(number as u32 % 4);
    Event {
        kind,
        thread,
        subject: SubjectId(0),
        start_ticks,
        duration_ticks: number % 100_000,
        values,
    }
}

#[test]
#[ignore = "a measurement"]
fn events_and_bytes_per_second() {
    let names = Names((0..100).map(|number| format!("/var/log/app/{number}.log")).collect());
    let ticks_per_second = NonZeroU64::new(2_900_000_000).unwrap();
    let start_ticks = 2_900_000_000_000_000;
    let clock = Clock { ticks_per_second, start_ticks, start_unix_ns: 1_795_717_800_000_000_000 };
    let recording = Recording { clock, end_ticks: start_ticks, settings: &[] };
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let written = jfr::write(Counted(0), &recording, &names, (0..EVENTS).map(event)).unwrap();
        let seconds = begin.elapsed().as_secs_f64();
        let events = EVENTS as f64 / 1e6;
        let bytes = written.0 as f64 / 1e6;
        println!(
            "{:.1} million events/s, {:.0} MB/s, {:.1} ns and {:.1} bytes per event",
            events / seconds,
            bytes / seconds,
            seconds * 1000.0 / events,
            bytes / events,
        );
    }
}
