//! Compares incremental decoding with encoding_rs, which decodes the whole input at once.

use encoding_rs::Encoding;
use millstream_framing::{Close, EventBuffer, Framer, Input, Rules, Spec};
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;
use proptest::sample::select;

const NAMES: &[&str] = &[
    "gbk",
    "gb18030",
    "big5",
    "shift_jis",
    "euc-kr",
    "euc-jp",
    "utf-16le",
    "utf-16be",
    "windows-1250",
    "windows-1251",
    "windows-1252",
    "windows-1258",
    "iso-8859-1",
    "iso-8859-2",
    "iso-8859-15",
    "koi8-r",
];

fn framer(name: &str) -> Framer {
    let spec = Spec { encoding: Some(name.into()), ..Spec::default() };
    Framer::new(Rules::new(&spec).unwrap().into())
}

/// Decodes `raw` with encoding_rs and with the framer. Returns both results, the number of bytes
/// consumed, and the number of invalid sequences.
fn decode_both_ways(name: &str, raw: &[u8], capacity: usize) -> (String, String, usize, u64) {
    let encoding = Encoding::for_label(name.as_bytes()).unwrap();
    let expected = encoding.decode_without_bom_handling(raw).0.into_owned();
    let mut framer = framer(name);
    let (mut got, mut position, mut broken) = (Vec::new(), 0, 0);
    let (mut out, mut found) = (vec![0; capacity], EventBuffer::default());
    loop {
        let input =
            Input { raw: &raw[position..], close: Close::All, rows_max: 7, reference_ns: 0 };
        let framed = framer.frame(input, &mut out, &mut found);
        for event in &found.events {
            got.extend_from_slice(&out[event.start as usize..event.end as usize]);
            got.push(b'\n');
        }
        broken += found.tally.broken;
        position += framed.used;
        if framed.used == 0 {
            break;
        }
    }
    (expected, String::from_utf8(got).expect("text is UTF-8"), position, broken)
}

/// Returns the lines of `text` as they appear in events, each followed by a newline.
fn lines(text: &str) -> String {
    let line = |line: &str| {
        let text = match line.strip_suffix('\n') {
            Some(whole) => whole.strip_suffix('\r').unwrap_or(whole),
            None => line,
        };
        text.strip_prefix('\u{FEFF}').unwrap_or(text).to_owned() + "\n"
    };
    text.split_inclusive('\n').map(line).collect()
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 2000, long: 50_000 };

proptest! {
    #![proptest_config(property(CASES))]

    #[test]
    fn incremental_decoding_equals_decoding_at_once(
        name in select(NAMES),
        raw in prop::collection::vec(
            prop_oneof![any::<u8>(), Just(b'\n'), Just(0), 0x81..=0xFEu8, 0x30..=0x7Eu8], 1..400),
        short in any::<bool>(),
    ) {
        // With a shorter buffer, fewer lines fit per call.
        let capacity = raw.len() * 3 + if short { 0 } else { 16 };
        let (expected, got, used, broken) = decode_both_ways(name, &raw, capacity);
        if used == raw.len() {
            prop_assert_eq!(got, lines(&expected));
            let characters = expected.matches('\u{FFFD}').count() as u64;
            // If the encoding cannot encode U+FFFD itself, each U+FFFD in the text is an invalid
            // sequence.
            let can_write_it = name.starts_with("gb") || name.starts_with("utf");
            prop_assert!(broken == characters || can_write_it && broken < characters);
        } else {
            prop_assert!(short, "a sufficient buffer fits everything");
        }
    }

    #[test]
    fn concatenated_chunks_equal_the_decoded_input(
        name in select(NAMES),
        raw in prop::collection::vec(prop_oneof![any::<u8>(), 0x81..=0xFEu8, 0x30..=0x7Eu8], 1..400),
        capacity in 16..60usize,
    ) {
        let encoding = Encoding::for_label(name.as_bytes()).unwrap();
        let framer = framer(name);
        let (mut got, mut position, mut out) = (Vec::new(), 0, vec![0; capacity]);
        while position < raw.len() {
            let (used, written) = framer.decode_chunk(&raw[position..], &mut out);
            prop_assert!(used > 0);
            prop_assert!(std::str::from_utf8(&out[..written]).is_ok());
            got.extend_from_slice(&out[..written]);
            position += used;
        }
        prop_assert_eq!(String::from_utf8(got).unwrap(), encoding.decode_without_bom_handling(&raw).0.into_owned());
    }

    #[test]
    fn plain_chunks_split_no_character(text in "\\PC{1,60}", capacity in 4..20usize) {
        let framer = Framer::new(Rules::new(&Spec::default()).unwrap().into());
        let (mut rest, mut out) = (text.as_bytes(), vec![0; capacity]);
        while !rest.is_empty() {
            let (used, written) = framer.decode_chunk(rest, &mut out);
            prop_assert!(used > 0 && std::str::from_utf8(&out[..written]).is_ok());
            rest = &rest[used..];
        }
    }

    #[test]
    fn line_end_is_the_end_of_the_first_event(
        name in select(NAMES),
        raw in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(0)], 0..60),
    ) {
        let mut framer = framer(name);
        let (mut out, mut found) = (vec![0; raw.len() * 3 + 16], EventBuffer::default());
        framer.frame(Input { raw: &raw, close: Close::No, rows_max: 1, reference_ns: 0 }, &mut out, &mut found);
        let next = found.events.first().map(|event| event.next as usize);
        prop_assert_eq!(framer.line_end(&raw), next);
    }
}
