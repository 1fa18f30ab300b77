//! Checks that the events of a file do not depend on how its bytes arrive.

use millstream_framing::{
    Close, Container, Event, EventBuffer, Framer, HEAD_BYTES, Input, Multiline, Preset, Rules,
    Spec, Start, Tally, TimeSpec,
};
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::sync::Arc;

/// An event, its text, and its offset in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Got {
    text: Vec<u8>,
    offset: u64,
    time_ns: i64,
}

fn framer(rules: &Arc<Rules>, file: &[u8]) -> Framer {
    let mut framer = Framer::new(rules.clone());
    framer.detect(&file[..file.len().min(HEAD_BYTES)], true);
    framer
}

/// Frames `raw`. Returns the events and their text, the number of bytes consumed, and the counts.
fn frame(
    framer: &mut Framer,
    raw: &[u8],
    close: Close,
    rows_max: usize,
) -> (Vec<(Got, Event)>, usize, Tally) {
    let mut out = vec![0; raw.len() * framer.expansion() + 16];
    let mut found = EventBuffer::default();
    let input = Input { raw, close, rows_max, reference_ns: 0 };
    let framed = framer.frame(input, &mut out, &mut found);
    let text: &[u8] = if framer.is_decoding() { &out[..framed.written] } else { raw };
    let got = found.events.iter().map(|event| {
        let text = text[event.start as usize..event.end as usize].to_vec();
        (Got { text, offset: event.offset.into(), time_ns: event.time_ns }, *event)
    });
    assert!(framed.used <= raw.len() && found.events.len() <= rows_max);
    assert_eq!(framed.used, found.events.last().map_or(0, |event| event.next as usize));
    (got.collect(), framed.used, found.tally)
}

fn frame_at_once(rules: &Arc<Rules>, file: &[u8]) -> (Vec<Got>, Tally) {
    let (got, used, tally) = frame(&mut framer(rules, file), file, Close::All, usize::MAX);
    assert_eq!(used, file.len(), "all bytes are consumed");
    (got.into_iter().map(|(got, _)| got).collect(), tally)
}

/// A length to which the file has grown, the maximum number of events to return, and the number of
/// returned events that are delivered, or `None` for all of them.
type Step = (Index, Index, Option<Index>);

/// Frames the file as it grows, with a new framer at each step.
fn frame_incrementally(rules: &Arc<Rules>, file: &[u8], steps: &[Step]) -> (Vec<Got>, Tally) {
    let (mut all, mut tally, mut position) = (Vec::new(), Tally::default(), 0);
    let mut lengths: Vec<usize> =
        steps.iter().map(|(length, ..)| length.index(file.len() + 1)).collect();
    lengths.sort_unstable();
    let closes = steps.iter().map(|_| Close::No).chain(std::iter::repeat(Close::All));
    let mut rest = lengths.into_iter().chain(std::iter::repeat(file.len())).zip(closes).enumerate();
    while let Some((index, (length, close))) = rest.next().filter(|_| position < file.len()) {
        if length < position {
            continue;
        }
        let raw = &file[position..length];
        let rows_max = steps.get(index).map_or(usize::MAX, |(_, rows, _)| 1000 + rows.index(9));
        let (got, used, counted) = frame(&mut framer(rules, file), raw, close, rows_max);
        let stop = steps.get(index).and_then(|(.., stop)| *stop);
        let stop = stop.map_or(got.len(), |stop| stop.index(got.len() + 1));
        let (kept, next, is_all) = consumable(&got, stop);
        let next = if is_all { used } else { next };
        all.extend(
            kept.iter().map(|(got, _)| Got { offset: got.offset + position as u64, ..got.clone() }),
        );
        if is_all {
            tally = Tally {
                misfits: tally.misfits + counted.misfits,
                cut: tally.cut + counted.cut,
                broken: tally.broken + counted.broken,
            };
        }
        assert!(close != Close::All || next > 0, "no progress at {position} of {}", file.len());
        position += next;
    }
    (all, tally)
}

/// Returns the longest prefix of the first `stop` events that can be consumed without later events,
/// the end of the prefix in the raw bytes, and whether the prefix contains all events.
fn consumable(got: &[(Got, Event)], stop: usize) -> (&[(Got, Event)], usize, bool) {
    let moves = |index: usize| {
        let before = if index == 0 { 0 } else { got[index - 1].1.next };
        got[index].1.next > before
    };
    let end = (0..stop).rev().find(|index| moves(*index)).map_or(0, |index| index + 1);
    (&got[..end], end.checked_sub(1).map_or(0, |last| got[last].1.next as usize), end == got.len())
}

fn multiline(rule: Multiline) -> Spec {
    Spec { multiline: Some(rule), bytes_max: 120, ..Spec::default() }
}

fn regex(pattern: &str) -> Multiline {
    Multiline { start: Some(Start::Regex), pattern: Some(pattern.into()), ..limited() }
}

fn limited() -> Multiline {
    Multiline { lines_max: 6, ..Multiline::default() }
}

fn timestamp() -> Multiline {
    let time = TimeSpec { formats: vec!["%Y-%m-%d %H:%M:%S".into()], ..TimeSpec::default() };
    Multiline { start: Some(Start::Timestamp), time: Some(time), ..limited() }
}

fn preset(preset: Preset) -> Multiline {
    Multiline { preset: Some(preset), ..limited() }
}

fn line_rules() -> Vec<Multiline> {
    vec![
        timestamp(),
        regex("^a"),
        Multiline { end: Some("z$".into()), ..regex("^a") },
        Multiline { more: Some("^ ".into()), ..regex("^a") },
        Multiline { more: Some("^b|z$".into()), ..limited() },
        Multiline { end: Some("z$".into()), ..limited() },
        Multiline { start: Some(Start::Indentation), ..limited() },
        preset(Preset::Java),
        preset(Preset::Python),
        preset(Preset::Go),
        preset(Preset::Json),
    ]
}

fn specs() -> Vec<Spec> {
    let mut specs: Vec<Spec> = line_rules().into_iter().map(multiline).collect();
    for container in [Container::Cri, Container::Docker, Container::Auto] {
        specs.push(Spec { container, bytes_max: 300, ..Spec::default() });
        for rule in line_rules() {
            specs.push(Spec { container, bytes_max: 300, ..multiline(rule) });
        }
    }
    for name in [
        "utf-16le",
        "utf-16be",
        "utf-16",
        "gbk",
        "gb18030",
        "big5",
        "shift_jis",
        "euc-kr",
        "euc-jp",
    ] {
        specs.push(Spec { encoding: Some(name.into()), ..Spec::default() });
        specs.push(Spec { encoding: Some(name.into()), ..multiline(regex("^a")) });
    }
    specs
}

const LINES: &[&str] = &[
    "",
    "\r",
    "a",
    "az",
    "a long enough line to reach the limit of bytes soon",
    "b",
    "bz",
    " c",
    "\tat A.b(A.java:1)",
    "Caused by: x",
    "... 3 more",
    "2026-11-21 20:29:46 x",
    "2026-11-21 20:29:47 y",
    "\u{FEFF}a",
    "Traceback (most recent call last):",
    "  File \"x\", line 1",
    "ValueError: x",
    "ERROR:x",
    "INFO y",
    "During handling of the above exception, another exception occurred:",
    "panic: x",
    "goroutine 1 [running]:",
    "main.main()",
    "main.main",
    "java.io.IOException: x",
    "{",
    "}",
    "{\"a\": \"}\\\"\"}",
    "[1, {",
    "2026-11-21T20:29:46.5Z stdout F a full one",
    "2026-11-21T20:29:46.5Z stdout P the first ",
    "2026-11-21T20:29:47.5Z stdout F and last\r",
    "2026-11-21T20:29:48.5Z stderr P 1",
    "2026-11-21T20:29:48.5Z stderr P 2",
    "2026-11-21T20:29:49.5Z stderr F",
    "2026-11-21T20:29:49.5Z stderr F a java.io.IOException: no",
    "2026-11-21T20:29:49.6Z stderr F \tat A.b(C.java:1)",
    "2026-11-21T20:29:49.7Z stdout F \tat D.e(F.java:2)",
    "2026-11-21T20:29:50.9Z stdout F b z",
    "{\"log\":\"a\\n\",\"stream\":\"stdout\",\"time\":\"2026-11-21T20:29:46.5Z\"}",
    "{\"log\":\"part \\u00e9\\ud83d\\ude00\\ud83d\\x\",\"stream\":\"stdout\",\"time\":\"2026-11-21T20:29:46.5Z\"}",
    "{\"log\":\" c\\\\n\",\"stream\":\"stderr\",\"time\":\"2026-11-21T20:29:46.5Z\"}",
    "{\"log\":\"z\\r\\n\",\"attrs\":{\"a\":[1]},\"stream\":\"stderr\",\"time\":\"2026-11-21T20:29:46.5Z\"}",
    "你好世界",
    "こんにちは",
];

/// Returns the lines in the encoding of `spec`, with some bytes replaced at random.
fn file(spec: &Spec, lines: &[&str], noise: &[(Index, u8)]) -> Vec<u8> {
    let text = lines.join("\n");
    let wide = |bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect();
    let mut file: Vec<u8> = match spec.encoding.as_deref() {
        Some("utf-16be") => wide(u16::to_be_bytes),
        Some("utf-16le" | "utf-16") => wide(u16::to_le_bytes),
        Some(name) => {
            encoding_rs::Encoding::for_label(name.as_bytes()).unwrap().encode(&text).0.into()
        }
        None => text.into(),
    };
    for (at, byte) in noise.iter().filter(|_| !lines.is_empty()) {
        let length = file.len();
        file.get_mut(at.index(length.max(1))).into_iter().for_each(|target| *target = *byte);
    }
    file
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(any::<Step>(), 0..12)
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 4000, long: 100_000 };

proptest! {
    #![proptest_config(property(CASES))]

    #[test]
    fn events_are_independent_of_read_boundaries(
        spec in select(specs()),
        lines in prop::collection::vec(select(LINES), 0..40),
        noise in prop::collection::vec(any::<(Index, u8)>(), 0..3),
        steps in steps(),
    ) {
        let rules = Arc::new(Rules::new(&spec).unwrap());
        let file = file(&spec, &lines, &noise);
        let (expected, tally) = frame_at_once(&rules, &file);
        let (got, _) = frame_incrementally(&rules, &file, &steps);
        prop_assert_eq!(&got, &expected);
        // Events are neither lost nor duplicated.
        prop_assert!(expected.windows(2).all(|pair| pair[0].offset < pair[1].offset));
        // If all returned events are delivered, the counts are equal, except `cut`, because how an
        // event was cut is known only once its next line is complete.
        let all: Vec<Step> = steps.iter().map(|(length, rows, _)| (*length, *rows, None)).collect();
        let (_, counted) = frame_incrementally(&rules, &file, &all);
        prop_assert_eq!((counted.misfits, counted.broken), (tally.misfits, tally.broken));
    }

    #[test]
    fn arbitrary_bytes_are_consumed(spec in select(specs()), file in prop::collection::vec(any::<u8>(), 0..300), steps in steps()) {
        let rules = Arc::new(Rules::new(&spec).unwrap());
        let (expected, _) = frame_at_once(&rules, &file);
        prop_assert_eq!(frame_incrementally(&rules, &file, &steps).0, expected);
    }

    /// A timeout changes where an event ends, but lines must not be split, lost or duplicated.
    #[test]
    fn events_ended_by_timeout_contain_every_line_once(
        rule in select(line_rules()),
        lines in prop::collection::vec(select(LINES), 0..40),
        steps in prop::collection::vec(any::<(Index, bool)>(), 0..12),
    ) {
        let rules = Arc::new(Rules::new(&multiline(rule)).unwrap());
        let file = lines.join("\n").replace(['\r', '\u{FEFF}'], "");
        let mut lengths: Vec<_> = steps.iter().map(|(at, ends)| (at.index(file.len() + 1), *ends)).collect();
        lengths.sort_unstable();
        let (mut got, mut position) = (Vec::new(), 0);
        let closes = lengths.iter().map(|(length, ends)| (*length, if *ends { Close::Lines } else { Close::No }));
        for (length, close) in closes.chain([(file.len(), Close::All)]).filter(|(length, _)| *length > 0) {
            let raw = &file.as_bytes()[position.min(length)..length];
            let (events, used, _) = frame(&mut framer(&rules, file.as_bytes()), raw, close, usize::MAX);
            let open = &raw[used..];
            prop_assert!(close == Close::No || !open.contains(&b'\n'), "complete lines are left");
            got.extend(events.into_iter().flat_map(|(got, _)| [got.text, b"\n".to_vec()].concat()));
            position += used;
        }
        let expected = file.split_inclusive('\n').map(|line| format!("{}\n", line.trim_end_matches('\n')));
        prop_assert_eq!(String::from_utf8(got).unwrap(), expected.collect::<String>());
    }

    /// A reader whose buffer has room for more than the longest event and its line ending must
    /// always make progress.
    #[test]
    fn more_than_bytes_max_raw_bytes_yield_an_event(
        spec in select(specs()),
        lines in prop::collection::vec(select(LINES), 0..80),
        noise in prop::collection::vec(any::<(Index, u8)>(), 0..3),
        bytes_max in 4..200usize,
    ) {
        let rules = Arc::new(Rules::new(&Spec { bytes_max, ..spec.clone() }).unwrap());
        let file = file(&spec, &lines, &noise);
        let mut framer = framer(&rules, &file);
        let (_, used, _) = frame(&mut framer, &file, Close::No, usize::MAX);
        let rest = &file[used..];
        prop_assert!(rest.len() <= bytes_max + 2 || framer.line_end(rest).is_none(), "{} bytes left", rest.len());
    }
}
