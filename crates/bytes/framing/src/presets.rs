//! Multi-line output of programming languages.

/// Java: a stack trace and the log entry that it belongs to.
pub mod java {
    /// Suffixes of exception class names.
    const EXCEPTION_SUFFIXES: [&[u8]; 3] = [b"Exception", b"Error", b"Throwable"];

    /// The kind of the last line of an event.
    #[derive(Clone, Copy, Debug)]
    pub enum State {
        /// Before a stack trace: the next line may name the exception.
        Line,
        /// Inside a stack trace: another exception starts another event.
        Trace,
    }

    impl State {
        /// Returns the state after the first line of an event.
        #[inline]
        pub fn first(line: &[u8]) -> State {
            if is_exception(line) { State::Trace } else { State::Line }
        }

        /// Returns the state after another line, or `None` if it does not belong to the event.
        #[inline]
        pub fn next(self, line: &[u8]) -> Option<State> {
            match self {
                State::Line if is_exception(line) || is_frame(line) => Some(State::Trace),
                _ => continues(line).then_some(self),
            }
        }
    }

    /// `java.lang.IllegalStateException: no such order`, `com.example.Store$GoneException`.
    fn is_exception(line: &[u8]) -> bool {
        let is_part =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'$');
        if !line.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_') {
            return false;
        }
        let (name, rest) = line.split_at(line.iter().take_while(|byte| is_part(byte)).count());
        let is_name_end = matches!(rest.trim_ascii_end(), [] | [b':'] | [b':', b' ', ..]);
        is_name_end
            && name.contains(&b'.')
            && EXCEPTION_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
    }

    /// `\tat Orders.get(Orders.java:40)`.
    fn is_frame(line: &[u8]) -> bool {
        matches!(line, [b' ' | b'\t', ..]) && line.trim_ascii_start().starts_with(b"at ")
    }

    /// Returns whether `line` continues the previous event.
    #[inline]
    pub fn continues(line: &[u8]) -> bool {
        match line {
            [] | [b' ' | b'\t', ..] => true,
            [b'C', ..] => line.starts_with(b"Caused by:"),
            [b'S', ..] => line.starts_with(b"Suppressed:"),
            [b'.', ..] => line.starts_with(b"... ") && is_count(&line[4..]),
            _ => false,
        }
    }

    /// `12 more`, `12 common frames omitted`.
    fn is_count(text: &[u8]) -> bool {
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let rest = &text[digits..];
        digits > 0 && (rest.starts_with(b" more") || rest.starts_with(b" common frames"))
    }
}

/// Python: a traceback with its exception, and the tracebacks chained to it.
pub mod python {
    const TRACEBACK: &[u8] = b"Traceback (most recent call last):";
    const GROUP: &[u8] = b"+ Exception Group Traceback (most recent call last):";
    const CHAINS: [&[u8]; 2] = [
        b"During handling of the above exception, another exception occurred:",
        b"The above exception was the direct cause of the following exception:",
    ];

    /// The position within a traceback.
    #[derive(Clone, Copy, Debug)]
    pub enum State {
        /// Not a traceback.
        Line,
        /// In the frames; the next line without indentation names the exception.
        Frames,
        /// In an exception group, whose lines are all indented.
        Group,
        /// After the exception.
        Exception,
        /// After the line that announces a chained traceback.
        Chained,
    }

    impl State {
        /// Returns the state after the first line of an event.
        pub fn first(line: &[u8]) -> State {
            if line.starts_with(TRACEBACK) {
                State::Frames
            } else if line.trim_ascii_start().starts_with(GROUP) {
                State::Group
            } else {
                State::Line
            }
        }

        /// Returns the state after another line, or `None` if it does not belong to the event.
        #[inline]
        pub fn next(self, line: &[u8]) -> Option<State> {
            let is_indented = matches!(line, [] | [b' ' | b'\t', ..]);
            match self {
                _ if line.is_empty() => Some(self),
                State::Line => None,
                State::Frames if is_indented => Some(State::Frames),
                State::Frames => Some(State::Exception),
                State::Group if is_indented => Some(State::Group),
                State::Group | State::Exception => CHAINS.contains(&line).then_some(State::Chained),
                State::Chained => match State::first(line) {
                    State::Line => None,
                    state => Some(state),
                },
            }
        }
    }
}

/// Go: a panic or fatal error with the goroutines it dumps.
pub mod go {
    /// The position within a dump.
    #[derive(Clone, Copy, Debug)]
    pub enum State {
        /// Not a dump.
        Line,
        /// Before the first goroutine.
        Head,
        /// After it.
        Goroutines,
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
            };
            match self {
                State::Line if is_running(line) => Some(State::Goroutines),
                State::Line => continues.then_some(self),
                _ if is_goroutine(line) => Some(State::Goroutines),
                _ => continues.then_some(self),
            }
        }
    }

    fn is_head(line: &[u8]) -> bool {
        let prefixes: [&[u8]; 5] =
            [b"panic: ", b"fatal error: ", b"SIGQUIT: ", b"SIGSEGV: ", b"SIGABRT: "];
        prefixes.iter().any(|prefix| line.starts_with(prefix))
    }

    fn is_goroutine(line: &[u8]) -> bool {
        (line.starts_with(b"goroutine ") && line.ends_with(b":")) || line == b"runtime stack:"
    }

    /// `goroutine 18 [running]:`, after the line of a log that reports a recovered panic.
    fn is_running(line: &[u8]) -> bool {
        is_goroutine(line) && line.ends_with(b"[running]:")
    }

    /// Lines that may occur anywhere in a dump.
    fn is_detail(line: &[u8]) -> bool {
        let prefixes: [&[u8]; 5] = [b" ", b"\t", b"[signal ", b"PC=", b"exit status "];
        line.is_empty()
            || prefixes.iter().any(|prefix| line.starts_with(prefix))
            || is_register(line)
    }

    /// `rip    0x46a1c1`.
    fn is_register(line: &[u8]) -> bool {
        let name = line.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        (2..=6).contains(&name) && line[name..].trim_ascii_start().starts_with(b"0x")
    }

    /// `main.(*T).run(0xc000012345, {0x1, 0x2})`, `created by main.main in goroutine 1`.
    fn is_frame(line: &[u8]) -> bool {
        let is_call = || {
            let name = line.iter().take_while(|byte| !b" (".contains(byte)).count();
            name > 0 && line.get(name) == Some(&b'(') && line.ends_with(b")")
        };
        line.starts_with(b"created by ") || line.starts_with(b"...additional frames") || is_call()
    }
}

/// JSON: an object or array over several lines.
pub mod json {
    use memchr::memchr2;

    /// The nesting depth at the end of a line.
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

        /// Consumes up to and including the next significant byte; returns the length, or `None`
        /// without one.
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

/// MySQL: entries of the slow query log. Only the first one of a second has a line with the time.
pub mod slow_log {
    const TIME: &[u8] = b"# Time:";
    const USER: &[u8] = b"# User@Host:";

    /// The position within an entry.
    #[derive(Clone, Copy, Debug)]
    pub enum State {
        /// After the line with the time, which belongs to the entry that follows.
        Time,
        /// After any other line.
        Entry,
    }

    impl State {
        /// Returns the state after the first line of an event.
        pub fn first(line: &[u8]) -> State {
            if line.starts_with(TIME) { State::Time } else { State::Entry }
        }

        /// Whether a line continues the entry although it can start one.
        pub fn is_continued_by(self, line: &[u8]) -> bool {
            matches!(self, State::Time) && line.starts_with(USER)
        }
    }

    /// Whether an expression for first lines matches both lines that an entry can start with.
    pub fn is_started_by(is_match: impl Fn(&[u8]) -> bool) -> bool {
        is_match(b"# Time: 2026-11-21T20:29:46.123456Z")
            && is_match(b"# User@Host: app[app] @  [192.0.2.38]  Id:     7")
    }
}
