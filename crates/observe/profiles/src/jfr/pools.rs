//! The pools to which the samples of a chunk refer.

use super::names::{DESCRIPTOR, FRAME_TYPES, Names};
use crate::{FrameId, Profile};
use millstream_jfr::keys::{NO_KEY, key};
use millstream_jfr::metadata::types;
use millstream_jfr::pools::{self, ENTRY_BYTES_MAX, Used};
use millstream_jfr::stacks::{self, FRAME_BYTES_MAX, METHOD_BYTES_MAX};
use millstream_jfr::text;

/// Thread states. CPU profiles sample only running threads. In other profiles, threads can be
/// waiting.
const STATES: [&str; 2] = ["STATE_RUNNABLE", "STATE_DEFAULT"];

/// The pool entries to which the samples of a chunk refer.
pub struct Pools<'a> {
    names: &'a Names<'a>,
    stacks: Vec<&'a [FrameId]>,
    state: u32,
    stack_traces: Used,
    methods: Used,
    classes: Used,
    symbols: Used,
    threads: Used,
    frame_types: Used,
    states: Used,
}

impl<'a> Pools<'a> {
    /// Creates empty pools.
    pub fn new(profile: &'a Profile, names: &'a Names<'a>) -> Pools<'a> {
        let runs = profile.about().event == "cpu";
        Pools {
            names,
            stacks: profile.stacks().map(|(stack, _)| stack).collect(),
            state: u32::from(!runs),
            stack_traces: Used::default(),
            methods: Used::default(),
            classes: Used::default(),
            symbols: Used::default(),
            threads: Used::default(),
            frame_types: Used::default(),
            states: Used::default(),
        }
    }

    /// Adds a stack and the entries to which it refers.
    pub fn add(&mut self, stack: u32) {
        if self.stack_traces.has(stack) {
            return;
        }
        let frames = self.frames(stack);
        self.stack_traces.add(stack, ENTRY_BYTES_MAX + frames.len() * FRAME_BYTES_MAX);
        for id in frames {
            let frame = self.names.frames[id.index()];
            add_text(&mut self.frame_types, frame.frame_type, &FRAME_TYPES);
            self.add_method(frame.method);
        }
        if let Some(thread) = self.names.thread_of[stack as usize] {
            add_text(&mut self.threads, thread, &self.names.threads);
        }
        add_text(&mut self.states, self.state, &STATES);
    }

    fn add_method(&mut self, id: u32) {
        if self.methods.has(id) {
            return;
        }
        self.methods.add(id, METHOD_BYTES_MAX);
        let method = self.names.methods[id as usize];
        let class_name = self.names.classes[method.class as usize];
        if !self.classes.has(method.class) {
            self.classes.add(method.class, METHOD_BYTES_MAX);
        }
        for symbol in [DESCRIPTOR, class_name, method.name] {
            add_text(&mut self.symbols, symbol, &self.names.symbols);
        }
    }

    /// Returns the frames in a stack trace, root first.
    fn frames(&self, stack: u32) -> &'a [FrameId] {
        let index = stack as usize;
        &self.stacks[index][self.names.skipped[index]..]
    }

    /// Returns the key of a stack's thread.
    pub fn thread_key(&self, stack: u32) -> u64 {
        self.names.thread_of[stack as usize].map_or(NO_KEY, key)
    }

    /// Returns the key of a stack trace.
    pub fn stack_trace_key(&self, stack: u32) -> u64 {
        key(stack)
    }

    /// Returns the key of the state that all threads have.
    pub fn state_key(&self) -> u64 {
        key(self.state)
    }

    fn all(&self) -> [&Used; 7] {
        [
            &self.stack_traces,
            &self.methods,
            &self.classes,
            &self.symbols,
            &self.threads,
            &self.frame_types,
            &self.states,
        ]
    }

    /// Returns the maximum size of the pools so far in bytes.
    pub fn bytes_max(&self) -> usize {
        self.all().into_iter().map(Used::bytes_max).sum()
    }

    /// Appends the number of pools, and the pools.
    pub fn push(&self, out: &mut Vec<u8>) {
        let names = self.names;
        pools::push_count(out, self.all());
        pools::push_pool(out, types::STACK_TRACE, &self.stack_traces, |out, id| {
            let frames = self.frames(id).iter().rev();
            stacks::push_stack_trace(out, frames.map(|id| names.frames[id.index()]));
        });
        pools::push_pool(out, types::METHOD, &self.methods, |out, id| {
            let method = names.methods[id as usize];
            stacks::push_method(out, method.class, method.name, DESCRIPTOR);
        });
        pools::push_pool(out, types::CLASS, &self.classes, |out, id| {
            stacks::push_class(out, names.classes[id as usize]);
        });
        pools::push_pool(out, types::SYMBOL, &self.symbols, |out, id| {
            text::push(out, names.symbols[id as usize]);
        });
        // Mission Control distinguishes threads by their system id, which a profile does not
        // contain.
        pools::push_pool(out, types::THREAD, &self.threads, |out, id| {
            pools::push_thread(out, names.threads[id as usize], id + 1);
        });
        pools::push_pool(out, types::FRAME_TYPE, &self.frame_types, |out, id| {
            text::push(out, FRAME_TYPES[id as usize]);
        });
        pools::push_pool(out, types::THREAD_STATE, &self.states, |out, id| {
            text::push(out, STATES[id as usize]);
        });
    }

    /// Removes all entries, for the next chunk.
    pub fn clear(&mut self) {
        self.stack_traces.clear();
        self.methods.clear();
        self.classes.clear();
        self.symbols.clear();
        self.threads.clear();
        self.frame_types.clear();
        self.states.clear();
    }
}

/// Adds an entry that contains a string.
fn add_text(used: &mut Used, id: u32, texts: &[&str]) {
    if !used.has(id) {
        used.add(id, ENTRY_BYTES_MAX + texts[id as usize].len());
    }
}
