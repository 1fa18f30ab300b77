//! Turns sampled addresses into stacks of named frames.

use super::symbols::Symbols;
use millstream_profiler::{ALLOC_BYTES, Event, RawProfile, Stack};
use millstream_profiles::{About, Frame, FrameId, FrameKind, Profile};
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// The function of the standard library that calls a thread's code.
const THREAD_BEGINS: &str = "std::sys::backtrace::__rust_begin_short_backtrace";

/// Returns notes for the reader about the quality of the samples.
pub fn notes(raw: &RawProfile, missing: &[&str]) -> Vec<String> {
    let mut notes = Vec::new();
    if raw.event == Event::Alloc {
        let kib = ALLOC_BYTES >> 10;
        notes.push(format!("each sample is {kib} KiB of objects allocated in the JVM"));
    }
    if raw.lost > 0 {
        notes.push(format!("{} samples were lost because the buffer was full", raw.lost));
    }
    let threads = [
        (raw.threads_without_timer, "threads could not be sampled"),
        (raw.threads_with_blocked_signal, "threads block signals and could not be sampled"),
        (
            raw.threads_sampled_at_ticks,
            "threads were sampled at kernel clock ticks, which is less exact",
        ),
    ];
    let threads = threads.into_iter().filter(|(number, _)| *number > 0);
    notes.extend(threads.map(|(number, what)| format!("{number} {what}")));
    if raw.stacks.is_empty() {
        notes.push(match raw.event {
            Event::Alloc => "no objects were sampled".to_owned(),
            Event::Cpu | Event::Wall => "no thread used the CPU for a whole interval".to_owned(),
        });
    }
    notes.extend(missing.iter().map(|path| format!("{path}: cannot read its symbols")));
    notes
}

/// Returns the profile with named frames. Its roots are components, or threads.
pub fn profile(
    raw: &RawProfile,
    symbols: &Symbols,
    started: SystemTime,
    notes: Vec<String>,
    with_threads: bool,
) -> Profile {
    let started = started.duration_since(UNIX_EPOCH).unwrap_or_default();
    let about = About {
        title: format!("millstream, process {}", raw.pid),
        event: raw.event.to_string(),
        interval_ns: raw.interval_ns,
        duration_ns: raw.duration_ns,
        start_unix_ns: started.as_nanos() as u64,
        notes,
    };
    let mut builder = Builder { profile: Profile::new(about), symbols, known: HashMap::new() };
    for stack in &raw.stacks {
        let mut frames = builder.roots(raw, stack, with_threads);
        frames.extend(builder.frames(stack));
        builder.profile.add(&frames, stack.count);
    }
    builder.profile
}

struct Builder<'a> {
    profile: Profile,
    symbols: &'a Symbols,
    /// The frames at addresses that were already looked up, from the outermost frame to the
    /// innermost.
    known: HashMap<u64, Vec<FrameId>>,
}

impl Builder<'_> {
    /// Returns the component of a stack, or the name of its thread.
    fn roots(&mut self, raw: &RawProfile, stack: &Stack, with_threads: bool) -> Vec<FrameId> {
        let component = raw.components.get(stack.component as usize);
        let component = component.filter(|_| stack.component != 0);
        let mut roots = Vec::new();
        if with_threads || component.is_none() {
            let thread = raw.threads.get(stack.thread as usize);
            let name = thread.map_or("[unknown thread]", |thread| &thread.name);
            roots.push(self.profile.frame(root(name, FrameKind::Thread)));
        }
        if let Some(id) = component {
            roots.push(self.profile.frame(root(id, FrameKind::Component)));
        }
        roots
    }

    /// Returns the frames of a stack from the outermost to the innermost, without the frames that
    /// start every thread.
    fn frames(&mut self, stack: &Stack) -> Vec<FrameId> {
        let mut frames = Vec::new();
        for address in stack.addresses.iter().rev() {
            let known = self.at(*address);
            frames.extend(known);
        }
        let is_begin = |id: &FrameId| self.profile.get(*id).name.starts_with(THREAD_BEGINS);
        let begin = frames.iter().position(is_begin).map_or(0, |at| at + 1);
        frames.drain(..begin);
        if stack.is_truncated && begin == 0 {
            let cut = self.profile.frame(root("[truncated]", FrameKind::Unknown));
            frames.insert(0, cut);
        }
        frames
    }

    fn at(&mut self, address: u64) -> Vec<FrameId> {
        if let Some(known) = self.known.get(&address) {
            return known.clone();
        }
        let named = self.symbols.frames(address);
        let ids: Vec<FrameId> = named.into_iter().map(|frame| self.profile.frame(frame)).collect();
        self.known.insert(address, ids.clone());
        ids
    }
}

fn root(name: &str, kind: FrameKind) -> Frame {
    let name = name.to_owned();
    Frame { name, kind, is_inlined: false, module: None, file: None, line: None, address: None }
}
