//! Tests messages in the metric server's protocol.

use crate::recorder::Recorder;
use millstream_points::metricserver::parse;
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;

const ARRIVED_NS: u64 = 1_700_000_000_900_000_000;

fn parsed(message: &[u8]) -> Vec<String> {
    let mut parsed = Recorder::default();
    parse(message, ARRIVED_NS, &mut parsed);
    parsed.0
}

/// Encodes an array of short strings.
fn point(fields: &[&str]) -> Vec<u8> {
    let mut out = vec![0x90 + fields.len() as u8];
    for text in fields {
        out.push(0xA0 + text.len() as u8);
        out.extend_from_slice(text.as_bytes());
    }
    out
}

const GOOD: [&str; 6] = ["emit", "counter", "a", "1", "k=v|l=w", ""];
const GOOD_PARSED: &str = "Counter a 1.0 #k=v|l=w";

#[test]
fn every_type_is_a_kind() {
    for (kind, name) in [
        ("counter", "Counter"),
        ("rate_counter", "RateCounter"),
        ("meter", "Meter"),
        ("delta_counter", "DeltaCounter"),
        ("timer", "Timer"),
        ("store", "Store"),
        ("ts_store", "TimedStore"),
        ("histogram", "Histogram"),
    ] {
        let message = point(&["emit", kind, "a.b", "12.5", "k=v", "1600000000"]);
        assert_eq!(parsed(&message), [format!("{name} a.b 12.5 #k=v at 1600000000")]);
    }
}

#[test]
fn points_are_parsed_alone_in_arrays_and_in_sequence() {
    let good = point(&GOOD);
    let two = [&[0x92][..], &good, &good].concat();
    assert_eq!(parsed(&good), [GOOD_PARSED]);
    assert_eq!(parsed(&two), [GOOD_PARSED; 2]);
    assert_eq!(parsed(&[&good[..], &two, &good].concat()), [GOOD_PARSED; 4]);
    let long = [&[0xDC, 0, 2][..], &good, &good, &[0xDD, 0, 0, 0, 1], &good].concat();
    assert_eq!(parsed(&long), [GOOD_PARSED; 3]);
    assert_eq!(parsed(b""), [""; 0]);
}

#[test]
fn strings_are_str_or_bin_and_values_may_be_numbers() {
    let message =
        b"\x96\xC4\x04emit\xD9\x05store\xDA\x00\x01a\xCB\x3F\xF8\x00\x00\x00\x00\x00\x00\xC5\x00\x03k=v\xC0";
    assert_eq!(parsed(message), ["Store a 1.5 #k=v"]);
    let message =
        b"\x96\xC6\x00\x00\x00\x04emit\xDB\x00\x00\x00\x05store\xA1a\xD0\xFE\xC0\xCE\x00\x00\x00\x07";
    assert_eq!(parsed(message), ["Store a -2.0 at 7"]);
    let message = b"\x96\xA4emit\xA5store\xA1a\x05\xA0\xCB\x40\x1C\x00\x00\x00\x00\x00\x00";
    assert_eq!(parsed(message), ["Store a 5.0 at 7"]);
    assert_eq!(parsed(&point(&GOOD[..4])), ["Counter a 1.0"]);
    assert_eq!(parsed(&point(&GOOD[..5])), [GOOD_PARSED]);
}

#[test]
fn unusual_messages_are_noted() {
    let reset = point(&["reset", "counter", "a", "", ""]);
    assert_eq!(parsed(&reset), ["note reset_ignored a"]);
    let timed = point(&["emit", "ts_store", "a", "1", "", ""]);
    assert_eq!(parsed(&timed), ["note no_timestamp a", "TimedStore a 1.0 at 1700000000"]);
    let good = point(&GOOD);
    assert_eq!(parsed(b"hello there\r\n"), ["note plain_text hello there"]);
    let around = [b"hello\n", &good[..], b"\n\nbye"].concat();
    assert_eq!(parsed(&around), ["note plain_text hello", GOOD_PARSED, "note plain_text bye"]);
}

#[test]
fn invalid_points_are_reported_and_others_are_parsed() {
    let good = point(&GOOD);
    let nested =
        [&[0x92][..], &[0x96, 0xA4], b"emit", &[0x91, 0x91, 0x81, 0x01, 0x02], &[0xC0; 4]].concat();
    for (faulty, fault) in [
        (point(&["emit", "gauge", "a", "1", "", ""]), "unknown_type"),
        (point(&["send", "store", "a", "1", "", ""]), "unknown_action"),
        (point(&["emit", "store", "", "1", "", ""]), "no_name"),
        (point(&["emit", "store", "a", "", "", ""]), "no_value"),
        (point(&["emit", "store", "a", "x", "", ""]), "bad_value"),
        (point(&["emit", "store", "a", "1", "", "-1"]), "bad_timestamp"),
        (point(&["emit", "store", "a", "1", "", "0"]), "bad_timestamp"),
        (point(&["emit", "store", "a", "1", "", "x"]), "bad_timestamp"),
        (point(&["emit", "store", "a"]), "too_few_elements"),
        (point(&[]), "too_few_elements"),
        (point(&["emit", "store", "a", "1", "", "", ""]), "too_many_elements"),
        (b"\x96\xA4emit\xA5store\x05\x01\xA0\xA0".to_vec(), "wrong_type"),
        (b"\x96\xA4emit\xA5store\xA1a\x01\x81\xA1k\xA1v\xA0".to_vec(), "wrong_type"),
        (b"\x96\xA4emit\xA5store\xA1a\xC2\xA0\xA0".to_vec(), "wrong_type"),
        (b"\x96\xA4emit\xA5store\xA1a\x01\xA0\xC3".to_vec(), "wrong_type"),
        (
            b"\x96\xA4emit\xA5store\xA1a\x01\xA0\xCB\x7F\xF8\x00\x00\x00\x00\x00\x00".to_vec(),
            "bad_timestamp",
        ),
        (b"\x96\x01\xA5store\xA1a\x01\xA0\xA0".to_vec(), "wrong_type"),
        (nested[1..].to_vec(), "wrong_type"),
    ] {
        let fault = format!("fault {fault} {}", faulty.escape_ascii());
        assert_eq!(
            parsed(&[&good[..], &faulty, &good].concat()),
            [GOOD_PARSED, &fault, GOOD_PARSED]
        );
        assert_eq!(
            parsed(&[&[0x93][..], &good, &faulty, &good].concat()),
            [GOOD_PARSED, &fault, GOOD_PARSED]
        );
    }
    let number = [&[0x93][..], &good, &[0x05], &good].concat();
    assert_eq!(parsed(&number), [GOOD_PARSED, "fault wrong_type \\x05", GOOD_PARSED]);
}

#[test]
fn an_unreadable_item_ends_the_message() {
    let good = point(&GOOD);
    for len in 1..good.len() {
        let cut = good[..len].escape_ascii();
        assert_eq!(
            parsed(&[&good, &good[..len]].concat()),
            [GOOD_PARSED, &format!("fault truncated {cut}")]
        );
    }
    assert_eq!(parsed(b"\x80\x91"), ["fault not_array \\x80\\x91"]);
    assert_eq!(parsed(b"\xFFabc"), ["fault not_array \\xffabc"]);
    let bomb = [0x91; 100_000];
    assert_eq!(parsed(&bomb).len(), 1);
    let promise = b"\xDD\xFF\xFF\xFF\xFF\x96";
    assert_eq!(parsed(promise), [format!("fault truncated {}", promise.escape_ascii())]);
}

/// Encodes a point with `str` or `bin` in the shortest form, or with a longer array header, which
/// clients do not use.
fn encoded(fields: &[String], is_long: bool, is_binary: bool) -> Vec<u8> {
    let mut out =
        if is_long { vec![0xDC, 0, fields.len() as u8] } else { vec![0x90 + fields.len() as u8] };
    for text in fields {
        match text.len() {
            len @ ..32 if !is_binary => out.push(0xA0 + len as u8),
            len @ ..256 => out.extend([if is_binary { 0xC4 } else { 0xD9 }, len as u8]),
            len => out.extend([0xDA, (len >> 8) as u8, len as u8]),
        }
        out.extend_from_slice(text.as_bytes());
    }
    out
}

fn fields() -> impl Strategy<Value = Vec<String>> {
    let kind =
        prop::sample::select(vec!["counter", "timer", "store", "ts_store", "meter", "gauge", ""]);
    let timestamp = prop::sample::select(vec!["", "", "", "1600000000", "x"]);
    let value = "[0-9]{0,9}[.]?[0-9]{0,3}|-1|nan";
    (kind, "[a-z.]{0,40}", value, "[a-z=|]{0,300}", timestamp, 4..=6_usize).prop_map(
        |(kind, name, value, tags, timestamp, len)| {
            let mut fields =
                vec!["emit".to_owned(), kind.to_owned(), name, value, tags, timestamp.to_owned()];
            fields.truncate(len);
            fields
        },
    )
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    #[test]
    fn every_encoding_of_a_point_parses_the_same(fields in prop::collection::vec(fields(), 1..4)) {
        let forms = [(false, false), (true, false), (false, true)];
        // Faults include the rejected bytes, which differ.
        let without_bytes = |parsed: String| match parsed.strip_prefix("fault ") {
            Some(fault) => fault.split(' ').next().unwrap_or_default().to_owned(),
            None => parsed,
        };
        let [short, long, binary] = forms.map(|(is_long, is_binary)| {
            let points = fields.iter().flat_map(|fields| encoded(fields, is_long, is_binary));
            parsed(&points.collect::<Vec<u8>>()).into_iter().map(without_bytes).collect::<Vec<_>>()
        });
        prop_assert_eq!(&short, &long);
        prop_assert_eq!(&short, &binary);
    }
}

/// Encodes a log event with these fields.
fn log_event(texts: [&str; 6], fields: &[&str]) -> Vec<u8> {
    let texts = texts.map(str::to_owned);
    let mut message = encoded(&texts, false, false);
    message[0] = 0x97;
    message.push(0x90 + fields.len() as u8);
    let fields: Vec<String> = fields.iter().map(|text| (*text).to_owned()).collect();
    message.extend_from_slice(&encoded(&fields, false, false)[1..]);
    message
}

#[test]
fn log_events_are_among_the_points() {
    let texts = ["log", "warn", "jdk.SocketWrite", "slow", "a=b|c=d", "1700000000123"];
    let event = log_event(texts, &["duration_ms", "312.4", "", "no key"]);
    let told = "log warn jdk.SocketWrite \"slow\" #a=b|c=d at Some(1700000000123) [(\"duration_ms\", \"312.4\")]";
    let good = encoded(&["emit", "store", "a", "1"].map(str::to_owned), false, false);
    let point = parsed(&good).remove(0);
    let message = [&good[..], &event, &good].concat();
    assert_eq!(parsed(&message), [&point, told, &point]);
    let mut array = vec![0x93];
    array.extend_from_slice(&message);
    assert_eq!(parsed(&array), [&point, told, &point]);
}

#[test]
fn invalid_log_events_are_faults() {
    let reason = |message: &[u8]| {
        let parsed = parsed(message);
        parsed[0].split(' ').nth(1).unwrap_or_default().to_owned()
    };
    let with = |at: usize, text: &'static str| {
        let mut texts = ["log", "", "name", "", "", ""];
        texts[at] = text;
        log_event(texts, &[])
    };
    assert_eq!(reason(&with(2, "")), "no_name");
    assert_eq!(reason(&with(5, "-1")), "bad_timestamp");
    assert_eq!(reason(&with(5, "soon")), "bad_timestamp");
    assert_eq!(reason(&log_event(["log", "", "n", "", "", ""], &["odd"])), "wrong_type");
    let mut many = log_event(["log", "", "n", "", "", ""], &[]);
    many.pop();
    many.extend([0xDC, 0, 66]);
    many.extend(std::iter::repeat_n(0xA0, 66));
    assert_eq!(reason(&many), "too_many_elements");
    let event = with(3, "text");
    for len in 1..event.len() {
        assert_eq!(parsed(&event[..len]).len(), 1, "cut at {len}");
        assert_eq!(reason(&event[..len]), "truncated", "cut at {len}");
    }
}
