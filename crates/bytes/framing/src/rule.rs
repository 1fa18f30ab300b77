//! Rules that decide which lines form one event.

use crate::pattern::Pattern;
use crate::presets::{go, java, json, python, slow_log};
use crate::{TIME_UNKNOWN, TimeReader};

/// Decides which lines form one event.
#[derive(Clone, Debug)]
pub enum Rule {
    /// A line that matches starts an event. Every other line continues the event.
    Start(Matcher),
    /// Like `Start`, but a line that matches the pattern ends the event. Each line outside of these
    /// events is an event.
    StartEnd(Matcher, Pattern),
    /// Like `Start`, but only empty lines and lines that match the pattern continue the event.
    StartContinue(Matcher, Pattern),
    /// A line that matches or is empty continues the event. Every other line starts an event.
    Continue(Pattern),
    /// A line that matches ends the event.
    End(Pattern),
    /// A line that is empty or begins with a space or a tab continues the event. Every other line
    /// starts an event.
    Indentation,
    /// Like `Start`, for MySQL's slow query log, in which two consecutive lines of an entry can
    /// match.
    SlowLog(Pattern),
    Java,
    Python,
    Go,
    Json,
}

/// Recognizes the first line of an event.
#[derive(Clone, Debug)]
pub enum Matcher {
    /// The line has a timestamp, which the framer's `TimeReader` parses.
    Time,
    Pattern(Pattern),
}

/// State of an event that a rule needs to classify the next line.
#[derive(Clone, Copy, Debug)]
pub enum State {
    /// The rule needs no state.
    Any,
    Java(java::State),
    Python(python::State),
    Go(go::State),
    Json(json::State),
    SlowLog(slow_log::State),
}

/// How a line relates to the previous event.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// Whether the line continues the event. Otherwise, it starts an event.
    pub joins: bool,
    /// Whether the line can start an event.
    pub can_start: bool,
    /// Whether the line ends the event.
    pub is_last: bool,
    pub time_ns: i64,
    pub state: State,
}

impl Verdict {
    const JOINS: Verdict = Verdict {
        joins: true,
        can_start: false,
        is_last: false,
        time_ns: TIME_UNKNOWN,
        state: State::Any,
    };

    fn starts(can_start: bool) -> Verdict {
        Verdict { joins: false, can_start, ..Verdict::JOINS }
    }
}

/// A rule, applied to one file.
pub struct Classifier<'a> {
    pub rule: &'a Rule,
    pub time: Option<&'a mut TimeReader>,
    pub reference_ns: i64,
}

impl Classifier<'_> {
    /// Classifies `line` after an event that is in this state.
    #[inline(always)]
    pub fn join(&mut self, state: State, line: &[u8]) -> Verdict {
        match (self.rule, state) {
            (Rule::Start(_) | Rule::Continue(_) | Rule::Indentation, _) => {
                let verdict = self.begin(line);
                if verdict.can_start { verdict } else { Verdict::JOINS }
            }
            (Rule::StartEnd(_, end), _) => {
                let verdict = self.begin(line);
                match verdict.can_start {
                    true => verdict,
                    false => Verdict { is_last: end.is_match(line), ..Verdict::JOINS },
                }
            }
            (Rule::StartContinue(_, more), _) => {
                let verdict = self.begin(line);
                if !verdict.can_start && (line.is_empty() || more.is_match(line)) {
                    Verdict::JOINS
                } else {
                    verdict
                }
            }
            (Rule::End(end), _) => Verdict { is_last: end.is_match(line), ..Verdict::JOINS },
            (Rule::Java, State::Java(state)) => {
                self.continued(state.next(line).map(State::Java), line)
            }
            (Rule::Python, State::Python(state)) => {
                self.continued(state.next(line).map(State::Python), line)
            }
            (Rule::Go, State::Go(state)) => self.continued(state.next(line).map(State::Go), line),
            (Rule::Json, State::Json(state)) => {
                let state = state.after(line);
                Verdict { is_last: state.is_done(), state: State::Json(state), ..Verdict::JOINS }
            }
            (Rule::SlowLog(start), State::SlowLog(state)) => slow_log_line(start, state, line),
            (Rule::Java | Rule::Python | Rule::Go | Rule::Json | Rule::SlowLog(_), _) => {
                self.begin(line)
            }
        }
    }

    fn continued(&mut self, state: Option<State>, line: &[u8]) -> Verdict {
        match state {
            Some(state) => Verdict { state, ..Verdict::JOINS },
            None => self.begin(line),
        }
    }

    /// Classifies `line` as the first line of an event.
    #[inline]
    pub fn begin(&mut self, line: &[u8]) -> Verdict {
        match self.rule {
            Rule::Start(start) => self.start(start, line),
            Rule::StartEnd(start, end) => {
                let verdict = self.start(start, line);
                Verdict { is_last: !verdict.can_start || end.is_match(line), ..verdict }
            }
            Rule::StartContinue(start, more) => {
                let verdict = self.start(start, line);
                Verdict { is_last: !verdict.can_start && !more.is_match(line), ..verdict }
            }
            Rule::Continue(more) => Verdict::starts(!line.is_empty() && !more.is_match(line)),
            Rule::End(end) => Verdict { is_last: end.is_match(line), ..Verdict::starts(true) },
            Rule::Indentation => Verdict::starts(!matches!(line, [] | [b' ' | b'\t', ..])),
            Rule::Java => {
                let state = State::Java(java::State::first(line));
                Verdict { state, ..Verdict::starts(!java::continues(line)) }
            }
            Rule::Python => Verdict {
                state: State::Python(python::State::first(line)),
                ..Verdict::starts(true)
            },
            Rule::Go => {
                Verdict { state: State::Go(go::State::first(line)), ..Verdict::starts(true) }
            }
            Rule::SlowLog(start) => Verdict {
                state: State::SlowLog(slow_log::State::first(line)),
                ..Verdict::starts(start.is_match(line))
            },
            Rule::Json => match json::State::first(line) {
                Some(state) => Verdict {
                    is_last: state.is_done(),
                    state: State::Json(state),
                    ..Verdict::starts(true)
                },
                None => Verdict { is_last: true, ..Verdict::starts(false) },
            },
        }
    }

    #[inline]
    fn start(&mut self, matcher: &Matcher, line: &[u8]) -> Verdict {
        match (matcher, &mut self.time) {
            (Matcher::Pattern(pattern), _) => Verdict::starts(pattern.is_match(line)),
            (Matcher::Time, Some(reader)) => match reader.time(line, self.reference_ns) {
                Ok(time_ns) => Verdict { time_ns, ..Verdict::starts(true) },
                Err(_) => Verdict::starts(false),
            },
            (Matcher::Time, None) => Verdict::starts(false),
        }
    }
}

/// Classifies a line of a slow query log. Not inlined, because inlining slows down the other rules.
#[inline(never)]
fn slow_log_line(start: &Pattern, state: slow_log::State, line: &[u8]) -> Verdict {
    if state.is_continued_by(line) {
        return Verdict { state: State::SlowLog(slow_log::State::Entry), ..Verdict::JOINS };
    }
    let state = State::SlowLog(slow_log::State::first(line));
    match start.is_match(line) {
        true => Verdict { state, ..Verdict::starts(true) },
        false => Verdict { state: State::SlowLog(slow_log::State::Entry), ..Verdict::JOINS },
    }
}
