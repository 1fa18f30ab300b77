//! Checks that the tools of every JDK on the host can read the files.

mod support;
mod tool;

use millstream_recorder::event::Event;
use millstream_recorder::ids::{SubjectId, ThreadId};
use millstream_recorder::jfr::{Clock, Recording};
use millstream_recorder::schema::{EVENTS, EventKind, FIELDS_MAX, Field, FieldKind};
use millstream_testkit_random::{TestSize, property};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::num::NonZeroU64;
use std::sync::Mutex;
use std::thread;
use support::{Names, file, printed, sorted};
use tool::{Jdk, jdks};

/// 2026-11-26T18:30:00Z.
const START_UNIX_NS: u64 = 1_795_717_800_000_000_000;

/// Number of bytes in a chunk header.
const HEADER_BYTES: u64 = 68;

/// An empty list of differences.
const NONE: [&str; 0] = [];

fn clock(ticks_per_second: u64, start_ticks: u64) -> Clock {
    let ticks_per_second = NonZeroU64::new(ticks_per_second).unwrap();
    Clock { ticks_per_second, start_ticks, start_unix_ns: START_UNIX_NS }
}

fn recording(clock: Clock) -> Recording<'static> {
    Recording { clock, end_ticks: clock.start_ticks, settings: &[] }
}

/// Calls a function for each JDK, in parallel.
fn on_every_jdk(check: impl Fn(&Jdk) + Sync) {
    let jdks = jdks();
    thread::scope(|scope| {
        for jdk in &jdks {
            scope.spawn(|| check(jdk));
        }
    });
}

/// Writes a file, and compares the output and the counts of every JDK with the events. Returns the
/// first difference for each JDK.
fn differences(recording: &Recording<'_>, names: &Names, events: &[Event]) -> Vec<String> {
    let file = file(recording, names, events);
    let expected: Vec<_> = events.iter().map(|event| printed(recording, names, event)).collect();
    let expected = sorted(&expected);
    let length = file.as_file().metadata().unwrap().len();
    let found = Mutex::new(Vec::new());
    on_every_jdk(|jdk| {
        let in_events = difference(&jdk.print(file.path()), &expected);
        let in_counts = || wrong_summary(&jdk.summary(file.path()), events, length);
        if let Some(difference) = in_events.or_else(in_counts) {
            found.lock().unwrap().push(format!("JDK {}: {difference}", jdk.version));
        }
    });
    found.into_inner().unwrap()
}

fn difference(found: &[String], expected: &[String]) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!("{} events, not {}", found.len(), expected.len()));
    }
    let (found, expected) = found.iter().zip(expected).find(|(one, other)| one != other)?;
    Some(format!("printed {found}\nwritten {expected}"))
}

fn wrong_summary(rows: &[(String, u64, u64)], events: &[Event], length: u64) -> Option<String> {
    let count_of = |name: &str| rows.iter().find(|row| row.0 == name).map(|row| row.1);
    for spec in &EVENTS {
        let written = events.iter().filter(|event| event.kind == spec.kind).count() as u64;
        let counted = count_of(&spec.jfr_name());
        if counted != Some(written) {
            return Some(format!("{counted:?} of {written} events {}", spec.name));
        }
    }
    let chunks = count_of("jdk.Metadata")?;
    let bytes = rows.iter().map(|row| row.2).sum::<u64>() + HEADER_BYTES * chunks;
    (bytes != length).then(|| format!("{bytes} bytes of {length}"))
}

/// Generates arbitrary numbers, many of them at the limits of types and encodings.
fn bits() -> impl Strategy<Value = u64> {
    let borders = prop::sample::select(vec![
        0,
        1,
        127,
        128,
        (1 << 56) - 1,
        1 << 56,
        i64::MAX as u64,
        i64::MIN as u64,
        u64::MAX,
        f64::NAN.to_bits(),
        f64::NEG_INFINITY.to_bits(),
        f64::MIN_POSITIVE.to_bits(),
        f64::MAX.to_bits(),
        0.1_f64.to_bits(),
    ]);
    let any_length = (any::<u64>(), 0_u32..64).prop_map(|(bits, shift)| bits >> shift);
    prop_oneof![borders, any_length]
}

fn text() -> impl Strategy<Value = String> {
    let letters = prop_oneof![
        any::<char>(),
        prop::char::range('\0', '\u{ff}'),
        prop::sample::select(vec!['\u{7f}', '\u{d7ff}', '\u{e000}', '\u{ffff}', '😀', '"', '\\']),
    ];
    let text = |length| vec(letters.clone(), length).prop_map(|all| all.into_iter().collect());
    prop_oneof![9 => text(0..12), 1 => text(900..1000)]
}

fn names() -> impl Strategy<Value = Names> {
    (vec(text(), 1..40), vec((text(), any::<u32>()), 1..300))
        .prop_map(|(texts, threads)| Names { texts, threads })
}

/// Returns the bits of a value. A string id is in the table or just past the table's end.
fn value(field: Option<&Field>, bits: u64, names: &Names) -> u64 {
    match field.map(|field| field.kind) {
        Some(FieldKind::Text) => bits % (names.texts.len() as u64 + 1),
        Some(FieldKind::Duration) => period(bits),
        _ => bits,
    }
}

/// Returns a period that all JDK versions show in the same way. Some versions show the longest
/// period as endless.
fn period(ticks: u64) -> u64 {
    if ticks == i64::MAX as u64 { ticks - 1 } else { ticks }
}

type Parts = (prop::sample::Index, prop::sample::Index, u64, u64, [u64; FIELDS_MAX]);

fn event((kind, thread, start, duration, bits): Parts, names: &Names) -> Event {
    let spec = &EVENTS[kind.index(EVENTS.len())];
    let value = |index: usize| value(spec.fields.get(index), bits[index], names);
    Event {
        subject: SubjectId(0),
        kind: spec.kind,
        thread: ThreadId(thread.index(names.threads.len() + 1) as u32),
        start_ticks: start,
        duration_ticks: period(duration),
        values: std::array::from_fn(value),
    }
}

fn events() -> impl Strategy<Value = (Names, Vec<Event>)> {
    let parts = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), bits(), bits());
    let parts = (parts, prop::array::uniform(bits())).prop_map(|((a, b, c, d), e)| (a, b, c, d, e));
    (names(), vec(parts, 0..400)).prop_map(|(names, parts)| {
        let events = parts.into_iter().map(|parts| event(parts, &names)).collect();
        (names, events)
    })
}

fn clocks() -> impl Strategy<Value = Clock> {
    let rates = prop_oneof![Just(1), Just(1_000_000_000), Just(2_899_999_777), 1_u64..1 << 40];
    (rates, bits()).prop_map(|(rate, start)| clock(rate, start))
}

/// Number of files. For each file, the `jfr` command of a JDK is started twice, which takes half a
/// second each time.
const CASES: TestSize = TestSize { gate: 4, long: 200 };

#[test]
fn printed_events_and_counts_are_those_that_were_written() {
    let config = ProptestConfig { max_shrink_iters: 60, ..property(CASES) };
    // The runner contains the seed, which is printed if the runner is still alive when the test
    // fails.
    let mut runner = TestRunner::new(config);
    let result = runner.run(&(clocks(), events()), |(clock, (names, events))| {
        let found = differences(&recording(clock), &names, &events);
        prop_assert!(found.is_empty(), "{}", found.join("\n"));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_recording_may_be_empty() {
    let recording = recording(clock(1_000_000_000, 0));
    assert_eq!(differences(&recording, &Names::default(), &[]), NONE);
}

/// Returns one event of each declared type, with all kinds of fields.
fn one_of_each() -> (Names, Vec<Event>) {
    let names = Names {
        texts: ["/var/log/app.log", "search", "example.org", ""].map(str::to_owned).to_vec(),
        threads: vec![("worker-0".to_owned(), 4711), ("network".to_owned(), 4712)],
    };
    let event = |(number, kind): (usize, EventKind)| Event {
        subject: SubjectId(0),
        kind,
        thread: ThreadId(number as u32 % 2),
        start_ticks: 1_000_000 * number as u64,
        duration_ticks: 1_500_000,
        values: [number as u64 % 4, 1, 2, 3, 4],
    };
    let events = EVENTS.iter().map(|spec| spec.kind).enumerate().map(event).collect();
    (names, events)
}

#[test]
fn the_metadata_shows_every_declaration() {
    let (names, events) = one_of_each();
    let file = file(&recording(clock(1_000_000_000, 0)), &names, &events);
    on_every_jdk(|jdk| {
        let text = jdk.run(&["metadata"], file.path());
        for spec in &EVENTS {
            let name = format!("@Name(\"{}\")\n", spec.jfr_name());
            let (_, behind) = text.split_once(&name).unwrap_or_else(|| panic!("{name}: {text}"));
            let (declared, _) = behind.split_once("\n}").unwrap();
            let category = spec.category.join("\", \"");
            let mut expected = vec![
                format!("@Category({{\"{category}\"}})"),
                format!("@Label(\"{}\")", spec.label),
                format!("@Description(\"{}\")", spec.description),
                format!("class {} extends jdk.jfr.Event {{", spec.name),
                "@Label(\"Start Time\")\n  @Timestamp(\"TICKS\")\n  long startTime;".to_owned(),
                "@Label(\"Event Thread\")\n  Thread eventThread;".to_owned(),
            ];
            expected.extend(spec.fields.iter().map(declaration));
            for part in expected {
                assert!(declared.contains(&part), "JDK {}: {part}: {declared}", jdk.version);
            }
            let duration = "@Label(\"Duration\")\n  @Timespan(\"TICKS\")\n  long duration;";
            assert_eq!(declared.contains(duration), spec.has_duration, "{declared}");
        }
    });
}

/// Returns the output of `jfr metadata` for a field.
fn declaration(field: &Field) -> String {
    let (units, type_name) = match field.kind {
        FieldKind::Unsigned | FieldKind::Count => ("  @Unsigned\n", "long"),
        FieldKind::Bytes => ("  @Unsigned\n  @DataAmount(\"BYTES\")\n", "long"),
        FieldKind::Duration => ("  @Timespan(\"TICKS\")\n", "long"),
        FieldKind::Timestamp => ("  @Timestamp(\"TICKS\")\n", "long"),
        FieldKind::Signed => ("", "long"),
        FieldKind::Float => ("", "double"),
        FieldKind::Flag => ("", "boolean"),
        FieldKind::Text => ("", "String"),
    };
    format!("@Label(\"{}\")\n{units}  {type_name} {};", field.label, field.name)
}

#[test]
fn settings_in_effect_are_events() {
    let settings: Vec<_> = EVENTS.iter().map(|spec| (spec.kind, spec.defaults)).collect();
    let recording = Recording { settings: &settings, ..recording(clock(1_000_000_000, 0)) };
    let file = file(&recording, &Names::default(), &[]);
    on_every_jdk(|jdk| {
        let text = jdk.run(&["print", "--events", "jdk.ActiveSetting"], file.path());
        for expected in ["name = \"threshold\"\n  value = \"1 ms\"", "value = \"100/s\""] {
            assert!(text.contains(expected), "JDK {}: {expected}: {text}", jdk.version);
        }
        let with_threshold = EVENTS.iter().filter(|spec| spec.has_duration).count();
        let count = text.matches("jdk.ActiveSetting {").count();
        assert_eq!(count, 3 * EVENTS.len() + with_threshold, "JDK {}: {text}", jdk.version);
    });
}

/// Labels are shown with units and thread names.
#[test]
fn units_and_threads_are_shown() {
    let (names, events) = one_of_each();
    let file = file(&recording(clock(1_000_000_000, 0)), &names, &events[..1]);
    on_every_jdk(|jdk| {
        let text = jdk.run(&["print"], file.path());
        for expected in [
            "millstream.FileRead {",
            "duration = 1.50 ms",
            "eventThread = \"worker-0\" (osThreadId = 4711)",
            "path = \"/var/log/app.log\"",
            "bytesRead = 1 byte",
            "endOfFile = true",
        ] {
            assert!(text.contains(expected), "JDK {}: {expected}: {text}", jdk.version);
        }
    });
}

/// `jfr view` exists in JDK 21 and later.
#[test]
fn events_are_shown_as_a_table() {
    let (names, events) = one_of_each();
    let file = file(&recording(clock(1_000_000_000, 0)), &names, &events);
    on_every_jdk(|jdk| {
        if jdk.version < 21 {
            return;
        }
        let arguments = ["view", "--width", "160", "millstream.SocketWrite"];
        let text = jdk.run(&arguments, file.path());
        for expected in ["Socket Write", "Remote Host", "Bytes Written", "search", "3 bytes"] {
            assert!(text.contains(expected), "JDK {}: {expected}: {text}", jdk.version);
        }
    });
}

/// The JDK's parser keeps strings and threads from the previous chunk.
#[test]
fn later_chunks_have_their_own_texts() {
    let names = Names {
        texts: (0..1000).map(|number| format!("/data/{number}{}", "x".repeat(10_000))).collect(),
        threads: (0..1000).map(|number| (format!("thread {number}"), number)).collect(),
    };
    let event = |number: u64| Event {
        subject: SubjectId(0),
        kind: EventKind::FileWrite,
        thread: ThreadId(number as u32),
        start_ticks: number,
        duration_ticks: 1,
        values: [number, number, 0, 0, 0],
    };
    let events: Vec<Event> = (0..1000).chain(0..10).map(event).collect();
    let recording = Recording { end_ticks: 1001, ..recording(clock(1_000_000_000, 0)) };
    assert_eq!(differences(&recording, &names, &events), NONE);
}
