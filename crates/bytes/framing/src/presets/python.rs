//! Python: a traceback with its exception, the chained tracebacks, and the preceding log entry.

use super::entry::{TEXT_LINES_MAX, begins_entry, reports_error};

const TRACEBACK: &[u8] = b"Traceback (most recent call last):";
const GROUP: &[u8] = b"+ Exception Group Traceback (most recent call last):";
/// The frame of a syntax error, which can appear without a traceback.
const FILE: &[u8] = b"  File \"";
const CHAINS: [&[u8]; 2] = [
    b"During handling of the above exception, another exception occurred:",
    b"The above exception was the direct cause of the following exception:",
];
/// First lines of reports that the interpreter prints without a logger.
const REPORTS: [&[u8]; 4] = [
    b"--- Logging error ---",
    b"Exception in thread ",
    b"Exception ignored in",
    b"Fatal Python error: ",
];

/// The position within an event.
#[derive(Clone, Copy, Debug)]
pub struct State {
    place: Place,
    /// Whether the event reports an error and has no traceback yet, so that the next traceback
    /// belongs to the event.
    takes_traceback: bool,
    /// Number of consecutive unindented lines of text.
    text_lines: u8,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// After a line that does not begin a log entry.
    Line,
    /// After the first line of a log entry that does not report an error.
    Entry,
    /// In the text of a log entry or an exception.
    Text,
    /// In the frames. The next unindented line names the exception.
    Frames,
    /// In an exception group, whose lines are all indented.
    Group,
    /// After the line that announces a chained traceback.
    Chained,
}

impl State {
    fn new(place: Place, takes_traceback: bool) -> State {
        State { place, takes_traceback, text_lines: 0 }
    }

    /// Returns the state after the first line of an event.
    pub fn first(line: &[u8]) -> State {
        if let Some(state) = State::of_traceback(line) {
            return state;
        }
        if is_report(line) {
            return State::new(Place::Text, true);
        }
        let is_error = reports_error(line);
        let place = match (begins_entry(line), is_error) {
            (true, true) => Place::Text,
            (true, false) => Place::Entry,
            (false, _) => Place::Line,
        };
        State::new(place, is_error)
    }

    /// Returns the state after the first line of a traceback, or `None` for any other line.
    fn of_traceback(line: &[u8]) -> Option<State> {
        // The first and last bytes exclude most lines.
        let ([b' ' | b'\t' | b'T' | 0xE2, ..] | [.., b' ' | b':']) = line else { return None };
        if is_group(line) || is_unraised_group(line) {
            Some(State::new(Place::Group, false))
        } else if line.starts_with(TRACEBACK) || line.starts_with(FILE) || is_boxed(line) {
            Some(State::new(Place::Frames, false))
        } else if line.trim_ascii_end().ends_with(b"RemoteTraceback:") {
            // A traceback quoted from another process.
            Some(State::new(Place::Text, true))
        } else {
            None
        }
    }

    /// Returns the state after another line, or `None` if it does not belong to the event.
    #[inline]
    pub fn next(self, line: &[u8]) -> Option<State> {
        match (self.place, line) {
            (Place::Entry, []) => Some(State { place: Place::Text, ..self }),
            (_, []) => Some(self),
            (Place::Frames, _) if is_indented(line) => Some(self),
            (Place::Group, _) if is_indented(line) && !is_group(line) => Some(self),
            _ => self.next_text(line),
        }
    }

    /// Returns the state after a line that is neither empty nor within a traceback. Returns `None`
    /// if the line does not belong to the event.
    fn next_text(self, line: &[u8]) -> Option<State> {
        if let Some(state) = State::of_traceback(line) {
            let is_expected = self.takes_traceback || matches!(self.place, Place::Chained);
            return is_expected.then_some(state);
        }
        match self.place {
            Place::Chained => None,
            _ if is_indented(line) => Some(State { text_lines: 0, ..self }),
            Place::Line | Place::Entry => None,
            _ if CHAINS.contains(&line) => Some(State::new(Place::Chained, false)),
            Place::Group => None,
            _ if begins_entry(line) || is_report(line) => None,
            Place::Frames | Place::Text => self.after_text(line),
        }
    }

    /// Returns the state after a line of text, or `None` if the text has too many lines.
    fn after_text(self, line: &[u8]) -> Option<State> {
        // Frames can follow, as after `Call stack:`.
        let place = if line.ends_with(b":") { Place::Frames } else { Place::Text };
        let is_text = self.text_lines < TEXT_LINES_MAX;
        is_text.then(|| State { place, text_lines: self.text_lines + 1, ..self })
    }
}

/// Returns whether a line begins the traceback of an outermost group.
fn is_group(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(GROUP)
}

/// Returns whether a line is an exception group that was not raised, which has no traceback: `  |
/// ExceptionGroup: two (2 sub-exceptions)`.
fn is_unraised_group(line: &[u8]) -> bool {
    let ends: [&[u8]; 2] = [b" sub-exception)", b" sub-exceptions)"];
    line.starts_with(b"  | ") && ends.iter().any(|end| line.ends_with(end))
}

fn is_report(line: &[u8]) -> bool {
    REPORTS.iter().any(|report| line.starts_with(report))
}

/// Returns whether a line begins with whitespace, or with a box that the `rich` library draws.
fn is_indented(line: &[u8]) -> bool {
    matches!(line, [b' ' | b'\t', ..] | [0xE2, 0x94 | 0x95, ..])
}

/// Returns whether a line is the top of a box around a traceback: `╭──── Traceback (most recent
/// call last) ────╮`.
fn is_boxed(line: &[u8]) -> bool {
    let title = b" Traceback (most recent call last) ";
    line.starts_with("╭".as_bytes()) && line.windows(title.len()).any(|text| text == title)
}
