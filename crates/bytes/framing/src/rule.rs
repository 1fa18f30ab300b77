//! Which lines belong together.

use crate::pattern::Pattern;
use crate::presets::{go, java, json, python};
use crate::{TIME_UNKNOWN, TimeReader};

/// Which lines belong together.
#[derive(Clone, Debug)]
pub enum Rule {
    /// A line that fits begins an event, every other goes on with it.
    Start(Matcher),
    /// The same; the event ends with a line that matches, what follows it stands alone.
    StartEnd(Matcher, Pattern),
    /// The same; only lines that match go on with it.
    StartContinue(Matcher, Pattern),
    /// A line that matches goes on, every other begins an event.
    Continue(Pattern),
    /// An event ends with a line that matches.
    End(Pattern),
    /// A line that begins with white space goes on.
    Indentation,
    Java,
    Python,
    Go,
    Json,
}

/// What the first line of an event looks like.
#[derive(Clone, Debug)]
pub enum Matcher {
    /// It has a time, which the framer's reader reads.
    Time,
    Pattern(Pattern),
}

/// What a rule has to know of an event's lines to judge the next.
#[derive(Clone, Copy, Debug)]
pub enum State {
    /// Nothing.
    Any,
    Java(java::State),
    Python(python::State),
    Go(go::State),
    Json(json::State),
}

/// How a line stands to the event before it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// It goes on with it; else it begins one.
    pub joins: bool,
    /// It is a line that can begin an event.
    pub fits: bool,
    /// The event ends with it.
    pub last: bool,
    pub time_ns: i64,
    pub state: State,
}

impl Seen {
    const JOINS: Seen =
        Seen { joins: true, fits: false, last: false, time_ns: TIME_UNKNOWN, state: State::Any };

    fn begins(fits: bool) -> Seen {
        Seen { joins: false, fits, ..Seen::JOINS }
    }
}

/// A rule, applied to one file.
pub struct Judge<'a> {
    pub rule: &'a Rule,
    pub time: Option<&'a mut TimeReader>,
    pub reference_ns: i64,
}

impl Judge<'_> {
    /// How `line` stands to an event in this state.
    #[inline]
    pub fn join(&mut self, state: State, line: &[u8]) -> Seen {
        match (self.rule, state) {
            (Rule::Start(_) | Rule::Continue(_) | Rule::Indentation, _) => {
                let seen = self.begin(line);
                if seen.fits { seen } else { Seen::JOINS }
            }
            (Rule::StartEnd(_, end), _) => {
                let seen = self.begin(line);
                if seen.fits { seen } else { Seen { last: end.is_match(line), ..Seen::JOINS } }
            }
            (Rule::StartContinue(_, more), _) => {
                let seen = self.begin(line);
                if !seen.fits && (line.is_empty() || more.is_match(line)) {
                    Seen::JOINS
                } else {
                    seen
                }
            }
            (Rule::End(end), _) => Seen { last: end.is_match(line), ..Seen::JOINS },
            (Rule::Java, State::Java(state)) => {
                self.joined(state.next(line).map(State::Java), line)
            }
            (Rule::Python, State::Python(state)) => {
                self.joined(state.next(line).map(State::Python), line)
            }
            (Rule::Go, State::Go(state)) => self.joined(state.next(line).map(State::Go), line),
            (Rule::Json, State::Json(state)) => {
                let state = state.after(line);
                Seen { last: state.is_done(), state: State::Json(state), ..Seen::JOINS }
            }
            (Rule::Java | Rule::Python | Rule::Go | Rule::Json, _) => self.begin(line),
        }
    }

    fn joined(&mut self, state: Option<State>, line: &[u8]) -> Seen {
        match state {
            Some(state) => Seen { state, ..Seen::JOINS },
            None => self.begin(line),
        }
    }

    /// What `line` is as the first of an event.
    #[inline]
    pub fn begin(&mut self, line: &[u8]) -> Seen {
        match self.rule {
            Rule::Start(start) => self.start(start, line),
            Rule::StartEnd(start, end) => {
                let seen = self.start(start, line);
                Seen { last: !seen.fits || end.is_match(line), ..seen }
            }
            Rule::StartContinue(start, more) => {
                let seen = self.start(start, line);
                Seen { last: !seen.fits && !more.is_match(line), ..seen }
            }
            Rule::Continue(more) => Seen::begins(!line.is_empty() && !more.is_match(line)),
            Rule::End(end) => Seen { last: end.is_match(line), ..Seen::begins(true) },
            Rule::Indentation => Seen::begins(!matches!(line, [] | [b' ' | b'\t', ..])),
            Rule::Java => {
                let state = State::Java(java::State::first(line));
                Seen { state, ..Seen::begins(!java::continues(line)) }
            }
            Rule::Python => {
                Seen { state: State::Python(python::State::first(line)), ..Seen::begins(true) }
            }
            Rule::Go => Seen { state: State::Go(go::State::first(line)), ..Seen::begins(true) },
            Rule::Json => match json::State::first(line) {
                Some(state) => {
                    Seen { last: state.is_done(), state: State::Json(state), ..Seen::begins(true) }
                }
                None => Seen { last: true, ..Seen::begins(false) },
            },
        }
    }

    #[inline]
    fn start(&mut self, matcher: &Matcher, line: &[u8]) -> Seen {
        match (matcher, &mut self.time) {
            (Matcher::Pattern(pattern), _) => Seen::begins(pattern.is_match(line)),
            (Matcher::Time, Some(reader)) => match reader.time(line, self.reference_ns) {
                Ok(time_ns) => Seen { time_ns, ..Seen::begins(true) },
                Err(_) => Seen::begins(false),
            },
            (Matcher::Time, None) => Seen::begins(false),
        }
    }
}
