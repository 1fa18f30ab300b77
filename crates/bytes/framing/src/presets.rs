//! Rules for the multi-line output of programming languages and databases.

mod entry;
pub mod python;

/// Java: a stack trace and the log entry to which it belongs.
pub mod java {
    use super::entry::{TEXT_LINES_MAX, begins_entry};

    /// Suffixes of exception class names.
    const EXCEPTION_SUFFIXES: [&[u8]; 3] = [b"Exception", b"Error", b"Throwable"];
    const UNCAUGHT: &[u8] = b"Exception in thread \"";

    /// State after the last line of an event so far.
    #[derive(Clone, Copy, Debug)]
    pub enum State {
        /// Before a stack trace: the next line can name the exception.
        Line,
        /// After the name of an exception, followed by this many consecutive unindented lines of
        /// its message.
        Message(u8),
        /// Inside a stack trace. Another exception starts a new event.
        Trace,
    }

    impl State {
        /// Returns the state after the first line of an event.
        #[inline]
        pub fn first(line: &[u8]) -> State {
            if is_exception(line) || line.starts_with(UNCAUGHT) {
                State::Message(0)
            } else {
                State::Line
            }
        }

        /// Returns the state after another line, or `None` if it does not belong to the event.
        #[inline]
        pub fn next(self, line: &[u8]) -> Option<State> {
            if continues(line) {
                return Some(self.after(line));
            }
            match self {
                State::Line => is_exception(line).then_some(State::Message(0)),
                State::Message(lines) => is_message(lines, line).then(|| State::Message(lines + 1)),
                State::Trace => None,
            }
        }

        /// Returns the state after a line that continues any event.
        fn after(self, line: &[u8]) -> State {
            let text = line.trim_ascii_start();
            let is_frame = text.starts_with(b"at ") && line.len() > text.len();
            match self {
                _ if is_frame || text.starts_with(b"... ") => State::Trace,
                _ if is_cause(text) => State::Message(0),
                State::Message(_) if !line.is_empty() => State::Message(0),
                _ => self,
            }
        }
    }

    /// Returns whether a line starts with an exception name, as in
    /// `java.lang.IllegalStateException: no such order`, `com.example.Store$GoneException`,
    /// `com.example.StoreException$Gone: 404`.
    fn is_exception(line: &[u8]) -> bool {
        let is_part =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'$');
        if !line.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_') {
            return false;
        }
        let (name, rest) = line.split_at(line.iter().take_while(|byte| is_part(byte)).count());
        let is_name_end = matches!(rest.trim_ascii_end(), [] | [b':'] | [b':', b' ', ..]);
        let mut classes = name.split(|byte| *byte == b'$');
        is_name_end
            && name.contains(&b'.')
            && classes.any(|class| EXCEPTION_SUFFIXES.iter().any(|end| class.ends_with(end)))
    }

    /// Returns whether an unindented line belongs to the message of an exception, which already has
    /// `lines` such lines.
    #[inline(never)]
    fn is_message(lines: u8, line: &[u8]) -> bool {
        let starts_event = is_exception(line) || line.starts_with(UNCAUGHT) || begins_entry(line);
        lines < TEXT_LINES_MAX && !starts_event
    }

    /// Returns whether `line` continues the previous event.
    #[inline]
    pub fn continues(line: &[u8]) -> bool {
        match line {
            [] | [b' ' | b'\t', ..] => true,
            [b'C' | b'S' | b'W', ..] => is_cause(line),
            [b'.', ..] => line.starts_with(b"... ") && is_count(&line[4..]),
            _ => false,
        }
    }

    /// Returns whether a line names a cause: `Caused by: java.io.IOException: closed`. `Wrapped
    /// by:` occurs in traces that begin with the root cause.
    fn is_cause(text: &[u8]) -> bool {
        let prefixes: [&[u8]; 3] = [b"Caused by:", b"Suppressed:", b"Wrapped by:"];
        prefixes.iter().any(|prefix| text.starts_with(prefix))
    }

    /// Returns whether a line counts omitted frames, as in `12 more` or `12 common frames omitted`.
    fn is_count(text: &[u8]) -> bool {
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let rest = &text[digits..];
        digits > 0 && (rest.starts_with(b" more") || rest.starts_with(b" common frames"))
    }
}

/// Go: a panic or fatal error and the goroutines in its dump.
pub mod go {
    /// The position within a dump.
    #[derive(Clone, Copy, Debug)]
    pub enum State {
        /// Outside a dump.
        Line,
        /// In a dump, before the first goroutine.
        Head,
        /// In a dump, within the goroutines.
        Goroutines,
        /// In the stack trace of a log entry by the `zap` library.
        Stack,
    }

    impl State {
        /// Returns the state after the first line of an event.
        pub fn first(line: &[u8]) -> State {
            if is_head(line) {
                State::Head
            } else if is_goroutine(line) {
                State::Goroutines
            } else {
                State::Line
            }
        }

        /// Returns the state after another line, or `None` if it does not belong to the event.
        #[inline]
        pub fn next(self, line: &[u8]) -> Option<State> {
            let continues = match self {
                State::Line => line.is_empty(),
                State::Head => is_detail(line) || is_head(line),
                State::Goroutines => is_detail(line) || is_frame(line),
                State::Stack => matches!(line, [] | [b' ' | b'\t', ..]) || is_function(line),
            };
            match self {
                State::Line if is_running(line) => Some(State::Goroutines),
                State::Line if is_first_function(line) => Some(State::Stack),
                State::Line | State::Stack => continues.then_some(self),
                _ if is_goroutine(line) => Some(State::Goroutines),
                _ => continues.then_some(self),
            }
        }
    }

    fn is_head(line: &[u8]) -> bool {
        let prefixes: [&[u8]; 7] = [
            b"panic: ",
            b"fatal error: ",
            b"runtime: ",
            b"unexpected fault address ",
            b"SIGQUIT: ",
            b"SIGSEGV: ",
            b"SIGABRT: ",
        ];
        prefixes.iter().any(|prefix| line.starts_with(prefix))
    }

    fn is_goroutine(line: &[u8]) -> bool {
        (line.starts_with(b"goroutine ") && line.ends_with(b":")) || line == b"runtime stack:"
    }

    /// Returns whether a line begins a running goroutine, as after the log line of a recovered
    /// panic: `goroutine 18 [running]:` or `goroutine 1 [running, locked to thread]:`.
    fn is_running(line: &[u8]) -> bool {
        let state = |line: &[u8]| line.iter().rposition(|byte| *byte == b'[');
        is_goroutine(line) && state(line).is_some_and(|at| line[at..].starts_with(b"[running"))
    }

    /// Returns whether a line names a function of the program, not of the standard library:
    /// `main.run`, `example.com/shop/orders.(*Store).Get`. The stack trace of a log entry begins
    /// with such a line.
    fn is_first_function(line: &[u8]) -> bool {
        is_function(line) && (line.starts_with(b"main.") || line.contains(&b'/'))
    }

    /// Returns whether a line is a function name: `runtime.goexit`,
    /// `net/http.HandlerFunc.ServeHTTP`, `main.main.func1`.
    fn is_function(line: &[u8]) -> bool {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"./_-~@%()*[]".contains(byte);
        line.first().is_some_and(u8::is_ascii_alphabetic)
            && line.last().is_some_and(|byte| *byte != b'.')
            && line.iter().all(is_part)
            && line.contains(&b'.')
    }

    /// Returns whether a line can occur at any position in a dump.
    fn is_detail(line: &[u8]) -> bool {
        let prefixes: [&[u8]; 5] = [b" ", b"\t", b"[signal ", b"PC=", b"exit status "];
        line.is_empty()
            || prefixes.iter().any(|prefix| line.starts_with(prefix))
            || is_register(line)
    }

    /// Returns whether a line shows a register: `rip    0x46a1c1`.
    fn is_register(line: &[u8]) -> bool {
        let name = line.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        (2..=6).contains(&name) && line[name..].trim_ascii_start().starts_with(b"0x")
    }

    /// Returns whether a line is a stack frame: `main.(*T).run(0xc000012345, {0x1, 0x2})`,
    /// `created by main.main in goroutine 1`.
    fn is_frame(line: &[u8]) -> bool {
        let is_call = || {
            let name = line.iter().take_while(|byte| !b" (".contains(byte)).count();
            name > 0 && line.get(name) == Some(&b'(') && line.ends_with(b")")
        };
        line.starts_with(b"created by ") || line.starts_with(b"...additional frames") || is_call()
    }
}

/// JSON: an object or array that spans several lines.
pub mod json {
    use memchr::memchr2;

    /// The nesting depth at the end of a line, and whether the line ends inside a string.
    #[derive(Clone, Copy, Debug)]
    pub struct State {
        depth: u32,
        in_string: bool,
    }

    impl State {
        /// Returns the state after the first line of an event, if it opens an object or array.
        pub fn first(line: &[u8]) -> Option<State> {
            let opens = matches!(line.trim_ascii_start(), [b'{' | b'[', ..]);
            opens.then(|| State { depth: 0, in_string: false }.after(line))
        }

        /// Returns the state after another line.
        pub fn after(mut self, line: &[u8]) -> State {
            let mut rest = line;
            while let Some(length) = self.step(rest) {
                rest = &rest[length..];
            }
            self
        }

        /// Returns whether all objects, arrays and strings are closed.
        pub fn is_done(self) -> bool {
            self.depth == 0 && !self.in_string
        }

        /// Consumes bytes up to and including the next significant byte. Returns their number, or
        /// `None` if there is no significant byte.
        fn step(&mut self, rest: &[u8]) -> Option<usize> {
            if self.in_string {
                let at = memchr2(b'"', b'\\', rest)?;
                self.in_string = rest[at] == b'\\';
                // Skip the escaped byte.
                return Some((at + 1 + usize::from(self.in_string)).min(rest.len()));
            }
            let at = rest.iter().position(|byte| b"\"{}[]".contains(byte))?;
            match rest[at] {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                _ => self.depth = self.depth.saturating_sub(1),
            }
            Some(at + 1)
        }
    }
}

/// MySQL: entries of the slow query log. Only the first entry in a second has a line with the time.
pub mod slow_log {
    const TIME: &[u8] = b"# Time:";
    const USER: &[u8] = b"# User@Host:";

    /// The position within an entry.
    #[derive(Clone, Copy, Debug)]
    pub enum State {
        /// After the line with the time, to which the next entry belongs.
        Time,
        /// After any other line.
        Entry,
    }

    impl State {
        /// Returns the state after the first line of an event.
        pub fn first(line: &[u8]) -> State {
            if line.starts_with(TIME) { State::Time } else { State::Entry }
        }

        /// Returns whether a line continues the entry although such a line can also start an entry.
        pub fn is_continued_by(self, line: &[u8]) -> bool {
            matches!(self, State::Time) && line.starts_with(USER)
        }
    }

    /// Returns whether the expression for first lines matches both kinds of line that can start an
    /// entry.
    pub fn is_started_by(is_match: impl Fn(&[u8]) -> bool) -> bool {
        is_match(b"# Time: 2026-11-21T20:29:46.123456Z")
            && is_match(b"# User@Host: app[app] @  [192.0.2.38]  Id:     7")
    }
}
