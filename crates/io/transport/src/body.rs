//! A request body made of several buffers, which are sent one after another without being copied
//! into one.

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The buffers still to be sent.
pub struct Chunks {
    left: VecDeque<Bytes>,
    bytes: u64,
}

impl Chunks {
    /// Creates a body from the buffers.
    pub fn new(parts: &[Bytes]) -> Chunks {
        let left: VecDeque<Bytes> = parts.iter().filter(|part| !part.is_empty()).cloned().collect();
        Chunks { bytes: left.iter().map(|part| part.len() as u64).sum(), left }
    }
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let part = self.left.pop_front();
        self.bytes -= part.as_ref().map_or(0, |part| part.len() as u64);
        Poll::Ready(part.map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes)
    }
}
