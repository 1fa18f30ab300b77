//! A child that violates the protocol or writes arbitrary data.

use super::*;
use crate::input::InputColumn;
use crate::layout;
use crate::process::frame::Channel;
use crate::process::memory::Attached;
use millstream_columns::{Cell, Kind as CellKind};
use rustix::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

/// A child whose responses are determined by the test.
struct Fake {
    channel: Channel,
    memory: Option<Fakery>,
}

/// The shared memory as the child sees it.
struct Fakery {
    attached: Attached,
    file: OwnedFd,
}

impl Fake {
    /// Receives a request, and attaches memory if the request asks for that.
    fn receive(&mut self) -> Option<Frame> {
        loop {
            let (request, file) = self.channel.receive(Patience::ENDLESS).ok()?;
            let Some(file) = file else { return Some(request) };
            let attached = Attached::new(&file, request.subject as usize).unwrap();
            let answer = Frame::new(Kind::Done, attached.address());
            self.send(Frame { request: request.request, ..answer });
            self.memory = Some(Fakery { attached, file });
        }
    }

    fn send(&self, frame: Frame) {
        _ = self.channel.send(&frame, None, Patience::ENDLESS);
    }

    /// Responds to a call with an offset.
    fn answer(&self, request: &Frame, offset: i64) {
        self.send(Frame { request: request.request, offset, ..Frame::new(Kind::Done, 0) });
    }

    fn word(&self, at: i64) -> i64 {
        let address = self.memory.as_ref().unwrap().attached.address() as usize;
        let word = std::ptr::with_exposed_provenance::<i64>(address + at as usize * 8);
        // SAFETY: the request is at the start of the mapping.
        unsafe { std::ptr::read_volatile(word) }
    }

    /// Writes words at an offset of the answer buffer.
    fn write(&self, offset: i64, words: &[i64]) {
        let buffer = self.word(layout::REQUEST_OUT) + offset;
        for (index, word) in words.iter().enumerate() {
            let at = buffer as usize + index * 8;
            // SAFETY: the tests write into the answer buffer, which is mapped.
            unsafe { std::ptr::write_volatile(std::ptr::with_exposed_provenance_mut(at), *word) };
        }
    }
}

type Called = Result<Result<Answer, CallError>, Broken>;

/// Calls a fake child `calls` times, and returns the results.
fn call(calls: usize, child: impl FnOnce(&mut Fake) + Send + 'static) -> Vec<Called> {
    call_within(Duration::from_secs(60), calls, child)
}

/// Calls a fake child with a time limit for all calls.
fn call_within(
    limit: Duration,
    calls: usize,
    child: impl FnOnce(&mut Fake) + Send + 'static,
) -> Vec<Called> {
    let (channel, other) = Channel::pair().unwrap();
    let fake = thread::spawn(move || {
        let mut fake = Fake { channel: Channel::of(other), memory: None };
        child(&mut fake);
    });
    let mut connection = Connection::new(channel, &Pool::new(1));
    let cells = [Cell::new(CellKind::Text, 0, 5)];
    let input = Input {
        block: b"block",
        rows: 1,
        selected: &[0],
        columns: &[InputColumn { name: "message", cells: &cells, own: b"" }],
        times: None,
        read_ns: 0,
        segments: &[],
        output_bytes_max: 1 << 20,
        deadline: None,
    };
    let until = Some(Instant::now() + limit);
    let patience = Patience { until, is_over: None };
    let called = (0..calls).map(|_| connection.call(1, 1, &input, patience)).collect();
    drop(connection);
    fake.join().unwrap();
    called
}

/// Responds to every request with an offset.
fn with_offset(offset: i64) -> Called {
    let answer = move |fake: &mut Fake| {
        while let Some(request) = fake.receive() {
            fake.answer(&request, offset);
        }
    };
    call(1, answer).remove(0)
}

fn invalid(called: &Called) -> bool {
    matches!(called, Ok(Err(CallError::Invalid(_))))
}

#[test]
fn offsets_outside_the_buffer_are_refused() {
    assert!(matches!(with_offset(0), Ok(Ok(_))), "zeros are an empty answer");
    for offset in [-1, -2, 1, i64::MIN, i64::MAX, 1 << 21, 1 << 40] {
        let called = with_offset(offset);
        assert!(invalid(&called), "{offset}: {called:?}");
    }
}

#[test]
fn answers_that_point_outside_are_refused() {
    for (word, value) in [
        (layout::ANSWER_VALUE_BYTES, 1 << 30),
        (layout::ANSWER_VALUE_BYTES, -1),
        (layout::ANSWER_CHANGED_LEN, 1),
        (layout::ANSWER_DROPPED_LEN, i64::MAX),
        (layout::ANSWER_FAILED_LEN, 1 << 20),
    ] {
        let called = call(1, move |fake| {
            let request = fake.receive().unwrap();
            fake.write(word * 8, &[value]);
            // Written after this part was copied.
            fake.write(layout::ANSWER_CHANGED * 8, &[1 << 19]);
            fake.answer(&request, 0);
        });
        assert!(invalid(&called[0]), "{word}: {called:?}");
    }
}

#[test]
fn what_is_written_behind_the_answer_changes_nothing() {
    let called = call(2, |fake| {
        for _ in 0..2 {
            let request = fake.receive().unwrap();
            fake.write(0, &[0; layout::ANSWER_WORDS as usize]);
            fake.answer(&request, 0);
            (0..1000).for_each(|n| fake.write(0, &[n, n, n, n, -1, n, n, n, n]));
        }
    });
    let is_whole = |called: &Called| match called {
        // Written in the middle of the copy, so the copy is validated as a whole.
        Ok(answer) => answer.as_ref().map_or_else(
            |error| matches!(error, CallError::Invalid(_)),
            |answer| answer.columns.is_empty(),
        ),
        Err(_) => false,
    };
    assert!(called.iter().all(is_whole), "{called:?}");
}

#[test]
fn frames_that_are_no_answer_are_garbage() {
    let twice = call(2, |fake| {
        while let Some(request) = fake.receive() {
            fake.answer(&request, 0);
            fake.answer(&request, 0);
        }
    });
    assert!(matches!(twice[0], Ok(Ok(_))), "{twice:?}");
    assert!(matches!(twice[1], Err(Broken::Garbage(_))), "{twice:?}");
    let bytes = call(1, |fake| {
        fake.receive();
        rustix::io::write(&fake.channel, &[0xff; 32]).unwrap();
        fake.receive();
    });
    assert!(matches!(bytes[0], Err(Broken::Garbage(_))), "{bytes:?}");
    let truncated = call(1, |fake| {
        fake.receive();
        rustix::io::write(&fake.channel, &[1, 0, 0]).unwrap();
    });
    assert!(matches!(truncated[0], Err(Broken::Ended)), "{truncated:?}");
    let request = call(1, |fake| {
        let request = fake.receive().unwrap();
        fake.send(Frame { request: request.request, ..Frame::new(Kind::Call, 0) });
    });
    assert!(invalid(&request[0]), "{request:?}");
}

#[test]
fn a_child_that_is_silent_is_late_and_one_that_ends_is_gone() {
    let limit = Duration::from_secs(2);
    let silent = call_within(limit, 1, |fake| while fake.receive().is_some() {});
    assert!(matches!(silent[0], Err(Broken::Late)), "{silent:?}");
    let gone = call(2, |fake| drop(fake.receive()));
    assert!(gone.iter().all(|called| matches!(called, Err(Broken::Ended))), "{gone:?}");
}

#[test]
fn memory_that_cannot_be_attached_fails_the_call() {
    let called = call(1, |fake| {
        let (request, _) = fake.channel.receive(Patience::ENDLESS).unwrap();
        let failed = Frame::with(Kind::Failed, b"planted".to_vec());
        fake.send(Frame { request: request.request, ..failed });
    });
    assert!(matches!(called[0], Ok(Err(CallError::Memory))), "{called:?}");
}

#[test]
fn a_child_cannot_take_the_memory_away() {
    let called = call(1, |fake| {
        let request = fake.receive().unwrap();
        let file = &fake.memory.as_ref().unwrap().file;
        assert!(rustix::fs::ftruncate(file, 0).is_err());
        fake.answer(&request, 0);
    });
    assert!(matches!(called[0], Ok(Ok(_))), "{called:?}");
}
