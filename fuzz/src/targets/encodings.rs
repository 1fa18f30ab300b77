//! Files in encodings other than UTF-8. The first byte of an input selects the encoding.

use crate::lines::lossy;
use encoding_rs::Encoding;
use millstream_framing::{Close, EventBuffer, Framer, Input, Rules, Spec};

pub const WORDS: &[&[u8]] = &[
    b"\n",
    b"\r\n",
    b"\n\0",
    b"\0\n",
    b"\0",
    b"\xFF",
    b"\xFE\xFF",
    b"\xEF\xBB\xBF",
    b"\x81\x30\x81\x30",
    b"\x81\x30\x81",
    b"\x84\x31\xA4\x37",
    b"\xC4\xE3",
    b"\x82\xB1",
    b"\x8F\xA2\xB7",
    b"\x8E\xB1",
    b"\x88\x62",
    b"\xA4",
    b"\x80",
    b"\x81",
    b"\xD8\x3D\xDE\x00",
    b"\x3D\xD8\x00\xDE",
    b"\x00\xD8",
    b"\xDC\x00",
    b"\0a",
    b"a\0",
    b"\x0A\x0A",
    b"\x30",
    b"a",
];

const NAMES: [&str; 16] = [
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

/// Number of events returned at a time.
const ROWS: usize = 7;

/// Checks that lines, and the pieces of a long line, are decoded the way encoding_rs decodes the
/// whole file.
pub fn encodings(input: &[u8]) {
    let Some((first, raw)) = input.split_first() else { return };
    let name = NAMES[usize::from(*first) % NAMES.len()];
    let spec = Spec { encoding: Some(name.into()), ..Spec::default() };
    let mut framer = Framer::new(Rules::new(&spec).expect("an encoding that is known").into());
    let encoding = Encoding::for_label(name.as_bytes()).expect("an encoding that is known");
    let expected = encoding.decode_without_bom_handling(raw).0;
    assert_eq!(decoded(&mut framer, raw), lines(&expected), "{name}");
    assert_eq!(in_pieces(&framer, raw), expected, "{name}");
}

/// Returns the events of a file, each with a line ending.
fn decoded(framer: &mut Framer, raw: &[u8]) -> String {
    let (mut text, mut at, mut found) = (Vec::new(), 0, EventBuffer::default());
    let mut out = vec![0; raw.len() * framer.expansion() + 16];
    while at < raw.len() {
        let input = Input { raw: &raw[at..], close: Close::All, rows_max: ROWS, reference_ns: 0 };
        let framed = framer.frame(input, &mut out, &mut found);
        assert!(framed.used > 0, "no progress at {at} of {}", raw.len());
        for event in &found.events {
            text.extend_from_slice(&out[event.start as usize..event.end as usize]);
            text.push(b'\n');
        }
        at += framed.used;
    }
    String::from_utf8(text).unwrap_or_else(|error| panic!("no UTF-8: {}", lossy(error.as_bytes())))
}

/// Returns the lines of a text in the form of events, each with a line ending.
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

/// Returns the whole file, decoded in pieces with the smallest buffer.
fn in_pieces(framer: &Framer, raw: &[u8]) -> String {
    let (mut text, mut at, mut out) = (String::new(), 0, [0; 16]);
    while at < raw.len() {
        let (used, written) = framer.decode_chunk(&raw[at..], &mut out);
        assert!(used > 0, "no progress at {at} of {}", raw.len());
        text.push_str(std::str::from_utf8(&out[..written]).expect("pieces are UTF-8"));
        at += used;
    }
    text
}
