//! Streams of syslog messages. The first byte of an input selects the maximum message size.

use crate::Random;
use millstream_framing::{SyslogFrame, SyslogFramer};

pub const WORDS: &[&[u8]] = &[
    b"5 <1>ab",
    b"<1>ab\n",
    b"<1>ab\0",
    b"\r\n",
    b"\xEF\xBB\xBF",
    b"12 ",
    b"0",
    b"999999999 <",
    b"1234567890",
    b"<13>a message that is long enough to reach the limit\n",
];

/// Messages, whether each is truncated, and whether the stream ended with an invalid length.
type Framed = (Vec<(Vec<u8>, bool)>, bool);

/// Checks that messages do not depend on how the bytes of a stream arrive, keep their order, stay
/// within the limit, and that little has to be kept between two reads.
pub fn syslog_framing(input: &[u8]) {
    let Some((first, stream)) = input.split_first() else { return };
    let max = 1 + usize::from(*first) % 40;
    let whole = frame(stream, &[], max);
    let mut random = Random::of(input);
    let mut cuts: Vec<usize> =
        (0..random.below(9)).map(|_| random.below(stream.len() + 1)).collect();
    cuts.sort_unstable();
    assert_eq!(frame(stream, &cuts, max), whole);
    let bytes: Vec<usize> = (0..stream.len()).collect();
    assert_eq!(frame(stream, &bytes, max), whole);
    let total: usize = whole.0.iter().map(|(message, _)| message.len()).sum();
    assert!(total <= stream.len(), "a byte occurs twice");
    assert!(whole.0.iter().all(|(message, _)| (1..=max).contains(&message.len())));
}

/// Frames a stream that arrives in pieces, which end at `cuts`.
fn frame(stream: &[u8], cuts: &[usize], max: usize) -> Framed {
    let (mut framer, mut rest, mut found) = (SyslogFramer::default(), Vec::new(), Vec::new());
    let taken =
        |bytes: &[u8], frame: SyslogFrame| (bytes[frame.range].to_vec(), frame.is_truncated);
    let mut begin = 0;
    for end in cuts.iter().copied().chain([stream.len()]) {
        let searched = rest.len();
        rest.extend_from_slice(&stream[begin..end]);
        begin = end;
        let parsed = framer.parse(&rest, searched, max, |frame| found.push(taken(&rest, frame)));
        let Ok(used) = parsed else { return (found, true) };
        rest.drain(..used);
        assert!(rest.len() <= max + SyslogFramer::EXTRA_BYTES, "{} bytes wait", rest.len());
    }
    let last = framer.finish(&rest, max);
    found.extend(last.map(|frame| taken(&rest, frame)));
    (found, false)
}
