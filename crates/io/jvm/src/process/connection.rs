//! The agent's end of a connection to a child. There is one request at a time, and each request has
//! a response.

use super::frame::{Broken, Channel, Frame, Kind, Patience};
use super::memory::Memory;
use crate::answer::Answer;
use crate::buffer::{Buffer, Pool};
use crate::error::CallError;
use crate::input::Input;
use crate::validate;
use crate::worker::{ANSWER_BYTES, taken};
use std::sync::Arc;

/// A connection, with the shared memory for its calls.
pub struct Connection {
    channel: Channel,
    requests: u64,
    memory: Option<Memory>,
    buffer: Buffer,
}

impl Connection {
    /// Creates a connection over a channel to one of a child's threads.
    pub fn new(channel: Channel, pool: &Arc<Pool>) -> Connection {
        Connection { channel, requests: 0, memory: None, buffer: Buffer::new(Arc::clone(pool)) }
    }

    /// Sends a request, and waits for the response.
    ///
    /// # Errors
    /// Returns an error if the connection can no longer be used.
    pub fn ask(&mut self, request: Frame, patience: Patience<'_>) -> Result<Frame, Broken> {
        self.ask_with_memory(request, None, patience)
    }

    fn ask_with_memory(
        &mut self,
        mut request: Frame,
        memory: Option<&Memory>,
        patience: Patience<'_>,
    ) -> Result<Frame, Broken> {
        self.requests += 1;
        request.request = self.requests;
        self.channel.send(&request, memory.map(Memory::file), patience)?;
        let (answer, _) = self.channel.receive(patience)?;
        match answer.request == self.requests {
            true => Ok(answer),
            false => Err(Broken::Garbage("a response to another request")),
        }
    }

    /// Calls a Java method that does nothing.
    ///
    /// # Errors
    /// Returns an error if the connection can no longer be used.
    pub fn noop(&mut self, is_over: &dyn Fn() -> bool) -> Result<(), Broken> {
        let patience = Patience { until: None, is_over: Some(is_over) };
        self.ask(Frame::new(Kind::Noop, 0), patience).map(drop)
    }

    /// Calls an operator. The outer error concerns the connection, and the inner error concerns the
    /// call.
    ///
    /// # Errors
    /// Returns an error if the connection can no longer be used.
    pub fn call(
        &mut self,
        operator: i32,
        rules: usize,
        input: &Input<'_>,
        patience: Patience<'_>,
    ) -> Result<Result<Answer, CallError>, Broken> {
        let prepared = self.prepare(input, patience)?;
        let Some(mut memory) = prepared else { return Ok(Err(CallError::Memory)) };
        memory.write(input);
        let answer = self.ask(Frame::new(Kind::Call, operator.into()), patience)?;
        let (used, result) = match failure(&answer) {
            None => self.take(&memory, answer.offset, rules, input),
            Some(error) => (usize::MAX, Err(error)),
        };
        memory.trim(used);
        self.memory = Some(memory);
        match result {
            Err(CallError::Invalid(_)) | Ok(_) => {}
            Err(_) => self.buffer.shrink(),
        }
        Ok(result)
    }

    /// Returns shared memory that is large enough for an input; `None` if there is no memory left.
    fn prepare(
        &mut self,
        input: &Input<'_>,
        patience: Patience<'_>,
    ) -> Result<Option<Memory>, Broken> {
        let needed = Memory::bytes_for(input);
        if let Some(memory) = self.memory.take_if(|memory| memory.len() >= needed) {
            return Ok(Some(memory));
        }
        let Ok(mut memory) = Memory::new(needed) else { return Ok(None) };
        let request = Frame::new(Kind::Attach, needed as i64);
        let answer = self.ask_with_memory(request, Some(&memory), patience)?;
        if answer.kind != Kind::Done {
            return Ok(None);
        }
        memory.set_remote(answer.subject);
        Ok(Some(memory))
    }

    /// Copies the answer at an offset in the shared buffer, checks the copy, and takes the values
    /// out of it. Also returns how many bytes of the shared buffer were used.
    fn take(
        &mut self,
        memory: &Memory,
        offset: i64,
        rules: usize,
        input: &Input<'_>,
    ) -> (usize, Result<Answer, CallError>) {
        let outside = CallError::Invalid("an offset is outside the buffer");
        // Java writes the answer last, so everything else in the buffer comes before its end.
        let bytes =
            usize::try_from(offset).ok().and_then(|offset| offset.checked_add(ANSWER_BYTES));
        let found = bytes.and_then(|bytes| Some((bytes, memory.answer(bytes)?)));
        let Some((bytes, from)) = found else { return (usize::MAX, Err(outside)) };
        // SAFETY: `Memory::answer` has checked that this many bytes are mapped there, and `memory`
        // keeps them mapped.
        if unsafe { self.buffer.fill(from, bytes) }.is_err() {
            return (bytes, Err(CallError::Memory));
        }
        let copy = self.buffer.bytes().get(..bytes).unwrap_or_default();
        let parsed = validate::parse(copy, offset, input, rules);
        (bytes, parsed.and_then(|parsed| taken(&mut self.buffer, parsed)))
    }
}

/// Returns the error that a response contains, if it is not a success.
pub fn failure(answer: &Frame) -> Option<CallError> {
    match answer.kind {
        Kind::Done => None,
        Kind::UnknownOperator => Some(CallError::UnknownOperator),
        Kind::Failed => Some(CallError::Failed(answer.text())),
        Kind::Exception => Some(CallError::Exception(answer.text())),
        Kind::NotAttached => Some(CallError::Attach(answer.text())),
        _ => Some(CallError::Invalid("a frame that is not a response")),
    }
}

#[cfg(test)]
mod tests;
