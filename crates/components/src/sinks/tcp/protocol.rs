//! The wire format of frames with acknowledgements, which `docs/formats/tcp-frames.md` specifies.

use bytes::{BufMut, Bytes, BytesMut};

/// Version of the protocol.
const VERSION: u8 = 1;

/// Maximum size of a response in bytes, excluding its length: a number and a short reason.
const RESPONSE_BYTES_MAX: usize = 4096;

const HELLO: u8 = b'H';
const DATA: u8 = b'D';
const ACKNOWLEDGED: u8 = b'A';
const REFUSED: u8 = b'R';

/// Size of a number in bytes, and size of a number with the type before it.
const NUMBER_BYTES: usize = 8;
const HEAD_BYTES: usize = 1 + NUMBER_BYTES;

/// The handshake that starts a connection.
pub struct Hello {
    /// Id of the lane's run, which lets the endpoint detect duplicates.
    pub session: [u8; 16],
    /// Compression number, as in the specification.
    pub compression: u8,
    /// Codec number, as in the specification.
    pub codec: u8,
    /// Number of the first frame that may follow.
    pub next: u64,
}

impl Hello {
    /// Encodes the handshake.
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

/// Encodes the header for a data frame with `bytes` of payload.
pub fn data_header(number: u64, events: u64, bytes: usize) -> Bytes {
    let mut out = BytesMut::with_capacity(4 + HEAD_BYTES + 4);
    out.put_u32((HEAD_BYTES + 4 + bytes) as u32);
    out.put_u8(DATA);
    out.put_u64(number);
    out.put_u32(u32::try_from(events).unwrap_or(u32::MAX));
    out.freeze()
}

/// A message from the endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// Every frame up to this number is settled.
    Acknowledged(u64),
    /// This frame is permanently rejected for this reason.
    Refused(u64, String),
}

/// Parses responses incrementally.
#[derive(Default)]
pub struct ResponseParser {
    buffer: Vec<u8>,
    done: usize,
}

impl ResponseParser {
    /// Adds received bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.done);
        self.done = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete response. Fails if the endpoint violates the protocol.
    pub fn next(&mut self) -> Result<Option<Response>, String> {
        let left = &self.buffer[self.done..];
        let Some((length, rest)) = left.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if !(HEAD_BYTES..=RESPONSE_BYTES_MAX).contains(&length) {
            return Err(format!(
                "a response of {length} bytes, which is not from 9 to {RESPONSE_BYTES_MAX}"
            ));
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        self.done += 4 + length;
        let (head, reason) = body.split_at(HEAD_BYTES);
        let number = head[1..].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        match head[0] {
            ACKNOWLEDGED if reason.is_empty() => Ok(Some(Response::Acknowledged(number))),
            REFUSED => {
                Ok(Some(Response::Refused(number, String::from_utf8_lossy(reason).into_owned())))
            }
            kind => Err(format!("a response of type {:?} and {length} bytes", char::from(kind))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(kind: u8, number: u64, reason: &[u8]) -> Vec<u8> {
        let mut out = ((9 + reason.len()) as u32).to_be_bytes().to_vec();
        out.push(kind);
        out.extend_from_slice(&number.to_be_bytes());
        out.extend_from_slice(reason);
        out
    }

    #[test]
    fn responses_are_parsed_however_they_are_split() {
        let all =
            [response(b'A', 0, b""), response(b'R', 7, b"no \xff"), response(b'A', u64::MAX, b"")]
                .concat();
        for step in 1..=all.len() {
            let (mut responses, mut found) = (ResponseParser::default(), Vec::new());
            for piece in all.chunks(step) {
                responses.put(piece);
                while let Some(response) = responses.next().unwrap() {
                    found.push(response);
                }
            }
            let refused = Response::Refused(7, "no \u{fffd}".into());
            assert_eq!(
                found,
                [Response::Acknowledged(0), refused, Response::Acknowledged(u64::MAX)]
            );
        }
    }

    #[test]
    fn invalid_responses_are_errors() {
        for bytes in [
            response(b'X', 1, b""),
            response(b'A', 1, b"too long"),
            b"HTTP/1.1 400".to_vec(),
            vec![0, 0, 0, 8, b'A', 0, 0, 0, 0, 0, 0, 0],
        ] {
            let mut responses = ResponseParser::default();
            responses.put(&bytes);
            assert!(responses.next().is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn sent_messages_have_the_documented_layout() {
        let hello = Hello { session: [9; 16], compression: 3, codec: 1, next: 258 };
        let text =
            [&[0, 0, 0, 28, b'H', 1, 3, 1][..], &[9; 16], &[0, 0, 0, 0, 0, 0, 1, 2]].concat();
        assert_eq!(hello.bytes(), text);
        assert_eq!(
            data_header(258, 3, 5)[..],
            [0, 0, 0, 18, b'D', 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3]
        );
    }
}
