//! The bytes of frames with acknowledgements: `docs/formats/tcp-frames.md` describes them for
//! endpoints.

use bytes::{BufMut, Bytes, BytesMut};

/// Version of the protocol.
const VERSION: u8 = 1;

/// Longest answer in bytes, without its length: a number and a reason of a line or two.
const ANSWER_BYTES_MAX: usize = 4096;

const HELLO: u8 = b'H';
const DATA: u8 = b'D';
const ACKNOWLEDGED: u8 = b'A';
const REFUSED: u8 = b'R';

/// Bytes of a number, and of a type before it.
const NUMBER_BYTES: usize = 8;
const HEAD_BYTES: usize = 1 + NUMBER_BYTES;

/// What the agent begins a connection with.
pub struct Hello {
    /// Of the lane's run: with it, the endpoint can tell repeats.
    pub session: [u8; 16],
    /// Number of the compression: its place in the documentation.
    pub compression: u8,
    /// Number of the codec.
    pub codec: u8,
    /// Number of the first frame that may follow.
    pub next: u64,
}

impl Hello {
    /// Its bytes.
    pub fn bytes(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64);
        out.put_u32(0);
        out.put_slice(&[HELLO, VERSION, self.compression, self.codec]);
        out.put_slice(&self.session);
        out.put_u64(self.next);
        let length = (out.len() - 4) as u32;
        out[..4].copy_from_slice(&length.to_be_bytes());
        out.freeze()
    }
}

/// What stands before the `bytes` of a batch.
pub fn data_head(number: u64, events: u64, bytes: usize) -> Bytes {
    let mut out = BytesMut::with_capacity(4 + HEAD_BYTES + 4);
    out.put_u32((HEAD_BYTES + 4 + bytes) as u32);
    out.put_u8(DATA);
    out.put_u64(number);
    out.put_u32(u32::try_from(events).unwrap_or(u32::MAX));
    out.freeze()
}

/// What the endpoint says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Every frame up to this number is settled.
    Acknowledged(u64),
    /// This one frame is refused for good, and why.
    Refused(u64, String),
}

/// Takes answers apart as their bytes arrive.
#[derive(Default)]
pub struct Answers {
    buffer: Vec<u8>,
    done: usize,
}

impl Answers {
    /// Adds bytes that have arrived.
    pub fn put(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.done);
        self.done = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next answer that is complete. An error says how the endpoint does not keep to the
    /// protocol.
    pub fn next(&mut self) -> Result<Option<Answer>, String> {
        let left = &self.buffer[self.done..];
        let Some((length, rest)) = left.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if !(HEAD_BYTES..=ANSWER_BYTES_MAX).contains(&length) {
            return Err(format!("an answer of {length} bytes; they have 9 to {ANSWER_BYTES_MAX}"));
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        self.done += 4 + length;
        let (head, reason) = body.split_at(HEAD_BYTES);
        let number = head[1..].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        match head[0] {
            ACKNOWLEDGED if reason.is_empty() => Ok(Some(Answer::Acknowledged(number))),
            REFUSED => {
                Ok(Some(Answer::Refused(number, String::from_utf8_lossy(reason).into_owned())))
            }
            kind => Err(format!("an answer of type {:?} and {length} bytes", char::from(kind))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(kind: u8, number: u64, reason: &[u8]) -> Vec<u8> {
        let mut out = ((9 + reason.len()) as u32).to_be_bytes().to_vec();
        out.push(kind);
        out.extend_from_slice(&number.to_be_bytes());
        out.extend_from_slice(reason);
        out
    }

    #[test]
    fn answers_are_found_however_they_are_cut() {
        let all = [answer(b'A', 0, b""), answer(b'R', 7, b"no \xff"), answer(b'A', u64::MAX, b"")]
            .concat();
        for step in 1..=all.len() {
            let (mut answers, mut found) = (Answers::default(), Vec::new());
            for piece in all.chunks(step) {
                answers.put(piece);
                while let Some(answer) = answers.next().unwrap() {
                    found.push(answer);
                }
            }
            let refused = Answer::Refused(7, "no \u{fffd}".into());
            assert_eq!(found, [Answer::Acknowledged(0), refused, Answer::Acknowledged(u64::MAX)]);
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for bytes in [
            answer(b'X', 1, b""),
            answer(b'A', 1, b"too long"),
            b"HTTP/1.1 400".to_vec(),
            vec![0, 0, 0, 8, b'A', 0, 0, 0, 0, 0, 0, 0],
        ] {
            let mut answers = Answers::default();
            answers.put(&bytes);
            assert!(answers.next().is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn what_the_agent_sends_is_laid_out_as_documented() {
        let hello = Hello { session: [9; 16], compression: 3, codec: 1, next: 258 };
        let text =
            [&[0, 0, 0, 28, b'H', 1, 3, 1][..], &[9; 16], &[0, 0, 0, 0, 0, 0, 1, 2]].concat();
        assert_eq!(hello.bytes(), text);
        assert_eq!(
            data_head(258, 3, 5)[..],
            [0, 0, 0, 18, b'D', 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3]
        );
    }
}
