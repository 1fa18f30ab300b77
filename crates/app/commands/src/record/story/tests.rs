use super::*;
use millstream_recorder::event::{Thread, bits};
use millstream_recorder::ids::{SubjectId, TextId, ThreadId};
use std::num::NonZeroU64;

/// Texts by number; the only thread is `network`.
struct Names(Vec<&'static str>);

impl Names {
    fn id(&mut self, text: &'static str) -> Value {
        let known = self.0.iter().position(|known| *known == text);
        let id = known.unwrap_or_else(|| {
            self.0.push(text);
            self.0.len() - 1
        });
        Value::Text(TextId(id as u32))
    }
}

impl Tables for Names {
    fn text(&self, id: TextId) -> Option<&str> {
        self.0.get(id.0 as usize).copied()
    }

    fn thread(&self, id: ThreadId) -> Option<Thread<'_>> {
        (id.0 == 0).then_some(Thread { name: "network", os_id: 7 })
    }
}

const MS: u64 = 1_000_000;

/// The start of the run: 2026-11-26 20:46:57 UTC. A tick is a nanosecond.
const CLOCK: Clock = Clock {
    ticks_per_second: NonZeroU64::new(1_000_000_000).unwrap(),
    start_ticks: 1_000 * MS,
    start_unix_ns: 1_795_726_017_000_000_000,
};

const END_TICKS: u64 = CLOCK.start_ticks + 60_000 * MS;

fn head() -> Head {
    let (version, missing) = ("1.2.3".to_owned(), Missing::default());
    Head {
        version,
        pid: 4711,
        end: End::Died,
        started_ticks: CLOCK.start_ticks,
        missing,
        last: LAST,
    }
}

/// Returns an event that ended this many milliseconds before the end.
fn event(kind: EventKind, before_ms: u64, took_ms: u64, values: [u64; 5]) -> Event {
    let start_ticks = END_TICKS - (before_ms + took_ms) * MS;
    let subject = SubjectId(values[1] as u32 + 1);
    Event { kind, thread: ThreadId(0), subject, start_ticks, duration_ticks: took_ms * MS, values }
}

fn told(mut events: Vec<Event>, names: &Names) -> String {
    events.sort_by_key(end_of);
    story(&head(), &CLOCK, END_TICKS, &events, names)
}

fn section_of<'t>(text: &'t str, title: &str) -> &'t str {
    let (_, behind) = text.split_once(title).unwrap_or_else(|| panic!("no {title} in {text}"));
    behind
}

#[test]
fn the_head_says_what_ran_and_how_it_ended() {
    let text = told(Vec::new(), &Names(Vec::new()));
    assert!(text.starts_with("Millstream 1.2.3, process 4711, died: it did not exit normally\n"));
    assert!(text.contains("started            2026-11-26 20:46:57.000 UTC\n"), "{text}");
    assert!(text.contains("last sign of life  2026-11-26 20:47:57.000 UTC, after 1m0s\n"));
    assert!(text.contains("recorded           nothing\n") && text.contains("no events\n"));
    assert!(text.ends_with("Nothing is missing except for events that newer events overwrote.\n"));
    assert!(!text.contains("Errors") && !text.contains("Waits"));
}

#[test]
fn the_last_seconds_are_counted() {
    let mut names = Names(Vec::new());
    let (app, log) = (names.id("app"), names.id("/var/log/a.log"));
    let stage = |before, rows, bytes| {
        let values = bits([app, Value::Count(rows), Value::Bytes(bytes)]);
        event(EventKind::BatchStage, before, 5, values)
    };
    let read = |before, bytes| {
        let values = bits([log, Value::Bytes(bytes), Value::Flag(false)]);
        event(EventKind::FileRead, before, 1, values)
    };
    let events = vec![
        stage(1, 10, 100),
        stage(2_000, 5, 50),
        stage(10_001, 99, 99),
        read(30, 4096),
        read(40, 4),
    ];
    let text = told(events, &names);
    let last = section_of(&text, "The last 10 seconds");
    assert!(last.contains("  app              2    15    150  10.0ms\n"), "{text}");
    assert!(
        last.contains(
            "  /var/log/a.log      2        4100       0              0  30.0ms before\n"
        )
    );
    assert!(text.contains("5 events since 2026-11-26 20:47:46.999 UTC"));
}

#[test]
fn a_request_without_an_answer_is_named_by_its_connection() {
    let mut names = Names(Vec::new());
    let (host, ip, other) =
        (names.id("search.example"), names.id("10.0.0.7"), names.id("10.0.0.8"));
    let io = |kind, before, ip, bytes| {
        let values = bits([host, ip, Value::Unsigned(9200), Value::Bytes(bytes)]);
        event(kind, before, 2, values)
    };
    use EventKind::{SocketRead, SocketWrite};
    let events = vec![
        io(SocketWrite, 50_000, ip, 1),
        io(SocketRead, 49_000, ip, 2),
        io(SocketWrite, 30_000, ip, 300),
        io(SocketWrite, 20_000, ip, 400),
        io(SocketWrite, 5_000, other, 1),
        io(SocketRead, 4_000, other, 1),
    ];
    let text = told(events, &names);
    let found = section_of(&text, "Requests without a response");
    let found = &found[..found.find("The last").unwrap()];
    assert!(found.contains("search.example (10.0.0.7:9200)"), "{text}");
    assert!(found.contains("2    700  30.0s before"), "{text}");
    assert!(!found.contains("10.0.0.8"), "{text}");
    let last = section_of(&text, "The last 10 seconds");
    assert!(last.contains("search.example (10.0.0.8:9200)       1"), "{text}");
}

#[test]
fn waits_are_counted() {
    let mut names = Names(Vec::new());
    let (app, out) = (names.id("app"), names.id("out"));
    let wait = |before, took| {
        let values = bits([app, out, Value::Bytes(1)]);
        event(EventKind::WaitForCapacity, before, took, values)
    };
    let text = told(vec![wait(50_000, 20), wait(30_000, 1_500), wait(1, 30)], &names);
    let row = section_of(&text, "Waits").lines().find(|line| line.contains("app")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells, ["app", "out", "3", "1.55s", "1.50s", "1.00ms", "before"]);
}

#[test]
fn errors_come_newest_first_and_successes_are_none() {
    let mut names = Names(Vec::new());
    let (out, refused) = (names.id("out"), names.id("refused"));
    let (good, bad) = (names.id("committed"), names.id("disk full"));
    let retry = |before| {
        let values =
            [out, refused, Value::Signed(-111), Value::Count(3), Value::Duration(250 * MS)];
        event(EventKind::Retry, before, 0, bits(values))
    };
    let commit =
        |before, outcome| event(EventKind::Checkpoint, before, 1, bits([Value::Count(1), outcome]));
    let mut events = vec![commit(10, good), commit(20, bad)];
    events.extend((0..30).map(|number| retry(100 + number)));
    let text = told(events, &names);
    let errors = section_of(&text, "Errors, newest first\n\n");
    let errors = &errors[..errors.find("\n\n").unwrap()];
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), ROWS_MAX + 1, "{errors}");
    assert!(lines[0].contains("outcome=disk full") && !errors.contains("committed"));
    let retry = "component=out  reason=refused  code=-111  attempt=3  pause=250ms";
    assert!(lines[1].starts_with("  2026-11-26 20:47:56.900  network"), "{}", lines[1]);
    assert!(lines[1].ends_with(retry), "{}", lines[1]);
    assert_eq!(lines[ROWS_MAX], "  and 11 before");
}

#[test]
fn names_cannot_steer_a_terminal() {
    let mut names = Names(Vec::new());
    let path = names.id("/a\u{1b}[31m\nb\u{9b}c");
    let values = bits([path, Value::Bytes(1), Value::Flag(true)]);
    let text = told(vec![event(EventKind::FileRead, 1, 1, values)], &names);
    assert!(text.contains(r"/a\u{1b}[31m\nb\u{9b}c"), "{text}");
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text}");
}

#[test]
fn texts_that_are_not_known_are_question_marks() {
    let mut names = Names(Vec::new());
    names.id("a");
    let values = [u64::from(u32::MAX), 5, 0, 0, 0];
    let unknown = Event { thread: ThreadId(9), ..event(EventKind::FileWrite, 1, 1, values) };
    let text = told(vec![unknown], &names);
    assert!(text.contains("  ?                FileWrite"), "{text}");
    assert!(text.contains("path=?  bytesWritten=5"), "{text}");
}

#[test]
fn what_is_missing_is_said() {
    let over_rate = vec![(EventKind::Retry, 17)];
    let missing = Missing { lost_chunks: 2, without_space: 3, over_rate, ..Missing::default() };
    let text = story(&Head { missing, ..head() }, &CLOCK, END_TICKS, &[], &Names(Vec::new()));
    let missing = section_of(&text, "Missing data\n");
    for part in ["  2 chunks of", "  3 events were", "  17 Retry events exceeded the rate"] {
        assert!(missing.contains(part), "{text}");
    }
}

#[test]
fn periods_have_two_or_three_digits_or_two_units() {
    for (ns, expected) in [
        (0, "0ns"),
        (999, "999ns"),
        (1_000, "1.00us"),
        (12_345, "12.3us"),
        (999_999, "999us"),
        (4_560_000, "4.56ms"),
        (59_990_000_000, "59.9s"),
        (60_000_000_000, "1m0s"),
        (3_661_000_000_000, "1h1m"),
        (90_000_000_000_000, "1d1h"),
    ] {
        assert_eq!(period(ns), expected);
    }
}
