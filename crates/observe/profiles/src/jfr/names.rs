//! Maps frames to threads and to methods of classes.

use super::thread_frames;
use crate::{Frame, FrameKind, Profile};
use millstream_jfr::stacks::StackFrame;
use std::collections::HashMap;
use std::hash::Hash;

/// Maximum length of a symbol in bytes, so that the size of a stack's pool entries is bounded.
const SYMBOL_BYTES_MAX: usize = 4 << 10;

/// Symbol number that all descriptors use.
pub const DESCRIPTOR: u32 = 0;

/// The descriptor of all methods: no parameters, and a return type without a name, so that Mission
/// Control shows no type.
const NO_PARAMETERS: &str = "()L;";

/// The frame types, indexed by number. Tools recognize these strings.
pub const FRAME_TYPES: [&str; 4] = ["Native", "Inlined", "Kernel", "JIT compiled"];

/// A table of distinct values, which are numbered in the order in which they were added.
struct Table<T> {
    values: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T: Clone + Eq + Hash> Table<T> {
    fn new() -> Table<T> {
        Table { values: Vec::new(), numbers: HashMap::new() }
    }

    fn number(&mut self, value: T) -> u32 {
        if let Some(number) = self.numbers.get(&value) {
            return *number;
        }
        let number = self.values.len() as u32;
        self.values.push(value.clone());
        self.numbers.insert(value, number);
        number
    }
}

/// A method: the number of its class, and the symbol number of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Method {
    pub class: u32,
    pub name: u32,
}

/// The names, methods and frames of a profile, from which the pools of all chunks are written.
pub struct Names<'a> {
    pub symbols: Vec<&'a str>,
    /// For each class, the symbol of its name.
    pub classes: Vec<u32>,
    pub methods: Vec<Method>,
    /// The names of threads.
    pub threads: Vec<&'a str>,
    /// The frames of the profile, indexed by number.
    pub frames: Vec<StackFrame>,
    /// For each stack, the number of the sampled thread, if the stack has one.
    pub thread_of: Vec<Option<u32>>,
    /// For each stack, the number of frames at the root that are excluded from the stack trace.
    pub skipped: Vec<usize>,
}

impl<'a> Names<'a> {
    /// Collects the names of a profile.
    pub fn of(profile: &'a Profile) -> Names<'a> {
        let (mut symbols, mut classes) = (Table::<&str>::new(), Table::new());
        let (mut methods, mut threads) = (Table::new(), Table::new());
        symbols.number(NO_PARAMETERS);
        let mut frames = Vec::new();
        for frame in profile.frames() {
            let (class, name) = split(frame);
            let class = classes.number(symbols.number(cut(class)));
            let method = methods.number(Method { class, name: symbols.number(cut(name)) });
            frames.push(StackFrame { method, line: frame.line, frame_type: frame_type(frame) });
        }
        let (mut thread_of, mut skipped) = (Vec::new(), Vec::new());
        for (stack, _) in profile.stacks() {
            let root = stack.first().map(|id| profile.get(*id));
            let thread = root.filter(|root| root.kind == FrameKind::Thread);
            thread_of.push(thread.map(|thread| threads.number(cut(&thread.name))));
            skipped.push(thread_frames(stack.iter().map(|id| profile.get(*id).kind)));
        }
        Names {
            symbols: symbols.values,
            classes: classes.values,
            methods: methods.values,
            threads: threads.values,
            frames,
            thread_of,
            skipped,
        }
    }
}

fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(SYMBOL_BYTES_MAX)]
}

fn frame_type(frame: &Frame) -> u32 {
    match frame.kind {
        FrameKind::Kernel => 2,
        FrameKind::Java => 3,
        _ => u32::from(frame.is_inlined),
    }
}

/// Returns the class and the method that represent a frame. If the name has no path, the class is
/// the file that contains the code, or otherwise the kind of the frame.
fn split(frame: &Frame) -> (&str, &str) {
    let name = frame.name.as_str();
    let divided = match frame.kind {
        FrameKind::Rust | FrameKind::C => split_path(name),
        FrameKind::Java => split_java(name),
        FrameKind::Component | FrameKind::Thread | FrameKind::Kernel | FrameKind::Unknown => None,
    };
    let module = || frame.module.as_deref().unwrap_or(frame.kind.name());
    divided.unwrap_or_else(|| (module(), name))
}

/// Splits `a::B::c` into `a::B` and `c`, and `a::b::{closure#0}` into `a` and `b::{closure#0}`.
/// Text in brackets is not split, and stays with the preceding name. Returns `None` if the name has
/// only one part.
fn split_path(name: &str) -> Option<(&str, &str)> {
    let mut depth = 0_usize;
    let (mut last, mut before) = (None, ' ');
    for (at, char) in name.char_indices() {
        match char {
            '<' | '(' | '[' | '{' => depth += 1,
            // The arrow in a function type does not close a bracket.
            '>' if before == '-' => {}
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ':' if before == ':' && depth == 0 && !name[at + 1..].starts_with(['{', '<']) => {
                last = Some(at);
            }
            _ => {}
        }
        before = char;
    }
    let at = last?;
    Some((&name[..at - 1], &name[at + 1..]))
        .filter(|(class, name)| !class.is_empty() && !name.is_empty())
}

/// Splits `a.B.c` into `a.B` and `c`. Returns `None` if the name has only one part.
fn split_java(name: &str) -> Option<(&str, &str)> {
    let end = name.find('(').unwrap_or(name.len());
    let at = name[..end].rfind('.')?;
    Some((&name[..at], &name[at + 1..end]))
        .filter(|(class, name)| !class.is_empty() && !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, kind: FrameKind) -> (String, String) {
        let frame = Frame::named(name, kind);
        let (class, method) = split(&frame);
        (class.to_owned(), method.to_owned())
    }

    #[test]
    fn a_function_is_a_method_of_its_path() {
        let cases = [
            ("core::fmt::write", "core::fmt", "write"),
            ("a::B::c::{closure#0}", "a::B", "c::{closure#0}"),
            ("a::b::{closure#0}::{closure#1}", "a", "b::{closure#0}::{closure#1}"),
            ("<a::Ser<&str> as b::X>::write", "<a::Ser<&str> as b::X>", "write"),
            ("<fn() -> a::T as b::X>::call", "<fn() -> a::T as b::X>", "call"),
            ("a::sort::<b::C>", "a", "sort::<b::C>"),
            ("foo::bar(std::x)", "foo", "bar(std::x)"),
            ("push (vec.rs)", "Rust", "push (vec.rs)"),
            ("::", "Rust", "::"),
            ("a::", "Rust", "a::"),
            ("{closure#0}", "Rust", "{closure#0}"),
        ];
        for (name, class, method) in cases {
            assert_eq!(of(name, FrameKind::Rust), (class.to_owned(), method.to_owned()), "{name}");
        }
    }

    #[test]
    fn other_frames_are_methods_of_their_file_or_kind() {
        let pair = |class: &str, method: &str| (class.to_owned(), method.to_owned());
        assert_eq!(of("app", FrameKind::Component), pair("component", "app"));
        assert_eq!(of("a.b.C.d(I)", FrameKind::Java), pair("a.b.C", "d"));
        let module = Some("libc.so.6".to_owned());
        let frame = Frame { module, ..Frame::named("memcpy", FrameKind::C) };
        assert_eq!(split(&frame), ("libc.so.6", "memcpy"));
    }
}
