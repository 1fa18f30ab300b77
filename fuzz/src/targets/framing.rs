//! Bytes of files that become events. The first byte of an input selects the rules.

use crate::Random;
use millstream_framing::{
    Close, Container, Event, EventBuffer, Framer, HEAD_BYTES, Input, Multiline, Preset, Rules,
    Spec, Start, Tally, TimeSpec,
};
use std::sync::{Arc, LazyLock};

pub const WORDS: &[&[u8]] = &[
    b"\n",
    b"\r\n",
    b"\n\n",
    b"a",
    b"z\n",
    b" c",
    b"\n\tat A.b(A.java:1)",
    b"\nCaused by: x",
    b"\n... 3 more",
    b"\n b",
    b"2026-11-21 20:29:46 x",
    b"\xEF\xBB\xBF",
    b"Traceback (most recent call last):\n",
    b"  File \"x\", line 1\n",
    b"ValueError: x\n",
    b"\nERROR x\n",
    b"\njava.io.IOException: x\n",
    b"panic: x\n",
    b"goroutine 1 [running]:\n",
    b"{",
    b"}",
    b"\"",
    b"\\",
    b"[1, {",
    b"2026-11-21T20:29:46.5Z stdout F a\n",
    b"2026-11-21T20:29:46.5Z stderr P b\n",
    b"2026-11-21T20:29:46.5Z stdout F",
    b"{\"log\":\"a\\n\",\"stream\":\"stdout\",\"time\":\"2026-11-21T20:29:46.5Z\"}\n",
    b"{\"log\":\"part\"",
    b"\xFF",
    b"\0",
    b"\xFE\xFF",
    b"\n\0",
    b"\0\n",
    b"a line that is long enough to reach the limit of bytes soon\n",
];

/// Maximum bytes and lines of an event; small, so that inputs reach the limits.
const BYTES_MAX: usize = 120;
const LINES_MAX: usize = 6;

/// Enough events for a call to make progress.
const ROWS: usize = millstream_framing::GROUP_ROWS_MAX;

static RULES: LazyLock<Vec<Arc<Rules>>> = LazyLock::new(|| {
    specs().iter().map(|spec| Arc::new(Rules::new(spec).expect("rules that are sound"))).collect()
});

fn few() -> Multiline {
    Multiline { lines_max: LINES_MAX, ..Multiline::default() }
}

fn regex(pattern: &str) -> Multiline {
    Multiline { start: Some(Start::Regex), pattern: Some(pattern.into()), ..few() }
}

fn rules_of_lines() -> Vec<Multiline> {
    let time = TimeSpec { formats: vec!["%Y-%m-%d %H:%M:%S".into()], ..TimeSpec::default() };
    let presets = [Preset::Java, Preset::Python, Preset::Go, Preset::Json];
    let presets = presets.map(|preset| Multiline { preset: Some(preset), ..few() });
    let mut rules = vec![
        Multiline { start: Some(Start::Timestamp), time: Some(time), ..few() },
        regex("^a"),
        Multiline { end: Some("z$".into()), ..regex("^a") },
        Multiline { more: Some("^ ".into()), ..regex("^a") },
        Multiline { more: Some("^b|z$".into()), ..few() },
        Multiline { end: Some("z$".into()), ..few() },
        Multiline { start: Some(Start::Indentation), ..few() },
    ];
    rules.extend(presets);
    rules
}

fn specs() -> Vec<Spec> {
    let of_lines = |rule| Spec { multiline: Some(rule), bytes_max: BYTES_MAX, ..Spec::default() };
    let mut specs: Vec<Spec> = rules_of_lines().into_iter().map(of_lines).collect();
    specs.push(Spec { bytes_max: BYTES_MAX, ..Spec::default() });
    for container in [Container::Cri, Container::Docker, Container::Auto] {
        specs.push(Spec { container, bytes_max: BYTES_MAX, ..Spec::default() });
        specs.extend(rules_of_lines().into_iter().map(|rule| Spec { container, ..of_lines(rule) }));
    }
    for name in ["utf-16le", "utf-16be", "utf-16", "gb18030", "big5", "shift_jis", "euc-jp"] {
        specs.push(Spec { encoding: Some(name.into()), ..of_lines(regex("^a")) });
    }
    specs
}

/// Checks that events do not depend on how the bytes of a file arrive, and that every byte is
/// consumed once.
pub fn framing(input: &[u8]) {
    let Some((first, file)) = input.split_first() else { return };
    let rules = &RULES[usize::from(*first) % RULES.len()];
    let whole = frame(&mut framer(rules, file), file, Close::All, usize::MAX);
    assert_eq!(whole.used, file.len(), "everything is used up");
    let offsets = || whole.events.iter().map(|event| event.offset);
    assert!(offsets().zip(offsets().skip(1)).all(|(one, next)| one < next), "events are in order");
    let grown = grown(rules, file, &mut Random::of(input));
    assert_eq!(grown.events, whole.events);
    let counted = |tally: Tally| (tally.misfits, tally.broken);
    assert_eq!(counted(grown.tally), counted(whole.tally));
    waits_for_little(rules, file);
    is_cut_between_characters(rules, file);
}

/// An event with its text, and its position in the file.
#[derive(Debug, PartialEq, Eq)]
struct Got {
    text: Vec<u8>,
    offset: usize,
    time_ns: i64,
}

/// Events, the bytes consumed, and the counts.
#[derive(Default)]
struct Framed {
    events: Vec<Got>,
    used: usize,
    tally: Tally,
}

fn framer(rules: &Arc<Rules>, file: &[u8]) -> Framer {
    let mut framer = Framer::new(rules.clone());
    framer.detect(&file[..file.len().min(HEAD_BYTES)], true);
    framer
}

fn frame(framer: &mut Framer, raw: &[u8], close: Close, rows_max: usize) -> Framed {
    let mut out = vec![0; raw.len() * framer.expansion() + 16];
    let mut found = EventBuffer::default();
    let framed =
        framer.frame(Input { raw, close, rows_max, reference_ns: 0 }, &mut out, &mut found);
    let text = if framer.is_decoding() { &out[..framed.written] } else { raw };
    let got = |event: &Event| {
        let text = text[event.start as usize..event.end as usize].to_vec();
        Got { text, offset: event.offset as usize, time_ns: event.time_ns }
    };
    assert!(framed.used <= raw.len() && found.events.len() <= rows_max);
    assert_eq!(framed.used, found.events.last().map_or(0, |event| event.next as usize));
    Framed { events: found.events.iter().map(got).collect(), used: framed.used, tally: found.tally }
}

/// Frames the file as it grows, each time with a new framer.
fn grown(rules: &Arc<Rules>, file: &[u8], random: &mut Random) -> Framed {
    let mut lengths: Vec<usize> =
        (0..random.below(9)).map(|_| random.below(file.len() + 1)).collect();
    lengths.sort_unstable();
    let mut all = Framed::default();
    let mut steps = lengths.into_iter().map(|length| (length, Close::No));
    while all.used < file.len() {
        let (length, close) = steps.next().unwrap_or((file.len(), Close::All));
        let Some(raw) = file.get(all.used..length) else { continue };
        let rows_max = ROWS + random.below(9);
        let got = frame(&mut framer(rules, file), raw, close, rows_max);
        assert!(
            close != Close::All || got.used > 0,
            "no progress at {} of {}",
            all.used,
            file.len()
        );
        let at = all.used;
        all.events.extend(got.events.into_iter().map(|got| Got { offset: got.offset + at, ..got }));
        all.used += got.used;
        all.tally.misfits += got.tally.misfits;
        all.tally.broken += got.tally.broken;
    }
    all
}

/// Checks that a reader with a buffer for more than the longest event always makes progress.
fn waits_for_little(rules: &Arc<Rules>, file: &[u8]) {
    let mut framer = framer(rules, file);
    let used = frame(&mut framer, file, Close::No, usize::MAX).used;
    let rest = &file[used..];
    let is_open = rest.len() <= BYTES_MAX + 2 || framer.line_end(rest).is_none();
    assert!(is_open, "{} bytes wait", rest.len());
}

/// Checks that the pieces of a long line make progress, and that their text is valid UTF-8 if the
/// file is.
fn is_cut_between_characters(rules: &Arc<Rules>, file: &[u8]) {
    let framer = framer(rules, file);
    let (mut at, mut out) = (0, [0; 16]);
    while at < file.len() {
        let (used, written) = framer.decode_chunk(&file[at..], &mut out);
        assert!(used > 0 && at + used <= file.len() && written <= out.len(), "no progress at {at}");
        if std::str::from_utf8(file).is_ok() {
            assert!(std::str::from_utf8(&out[..written]).is_ok(), "a character is cut at {at}");
        }
        at += used;
    }
}
