//! Chunks of slots, which threads take turns using.
//!
//! A thread owns a chunk and appends to it without a lock. When the chunk is full, the thread
//! releases it, takes the next unowned chunk in turn, and overwrites it. A busy thread thus uses
//! most of the memory, while an idle thread keeps a single chunk.
//!
//! | word of a chunk | holds |
//! |---|---|
//! | 0 | 1 if a thread owns the chunk, otherwise 0 |
//! | 1 | number of complete slots (32 bits), sequence (32) |
//! | 2 | system id of the thread |
//! | 3, 4 | name of the thread, padded with zeros to 16 bytes |
//! | 5 | 0; in a copy, the number of leading slots that are omitted |
//! | 6, 7 | 0 |
//! | from 8 | slots |
//!
//! The sequence changes every time the chunk is taken. Readers copy a chunk without a lock, and use
//! the copy only if the sequence is unchanged afterwards.

use crate::slot::Slot;
use crate::word::Word;
use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const OWNER: usize = 0;
const POSITION: usize = 1;
const OS_ID: usize = 2;
const NAME: usize = 3;
const LEFT_OUT: usize = 5;
/// Number of words before the slots.
pub const HEADER_WORDS: usize = 8;
const SLOT_WORDS: usize = size_of::<Slot>() / size_of::<u64>();

/// Maximum length of a thread name in bytes, as in the kernel.
pub const NAME_BYTES: usize = 16;

/// A thread of the operating system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OsThread {
    /// System id of the thread.
    pub os_id: u32,
    /// Name of the thread, padded with zeros.
    pub name: [u8; NAME_BYTES],
}

/// Position word of a chunk: the sequence, and the number of complete slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    sequence: u32,
    slots: u32,
}

impl Position {
    fn of_word(word: u64) -> Position {
        Position { sequence: (word >> 32) as u32, slots: word as u32 }
    }

    fn to_word(self) -> u64 {
        u64::from(self.sequence) << 32 | u64::from(self.slots)
    }
}

/// All chunks that have the same use.
#[derive(Debug)]
pub struct Pool<'m, W> {
    /// The memory of all chunks.
    pub words: &'m [W],
    /// Number of words per chunk.
    pub chunk_words: usize,
    /// Number of chunks that have memory.
    pub available: &'m W,
    /// Index of the chunk to try next.
    pub cursor: &'m W,
    /// The most recently assigned sequence, which all pools share.
    pub sequence: &'m W,
}

impl<W> Clone for Pool<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for Pool<'_, W> {}

impl<'m, W: Word> Pool<'m, W> {
    /// Returns the number of chunks that have memory. The number is bounded in case another process
    /// has changed the file.
    fn count(&self) -> usize {
        let available = usize::try_from(self.available.load(Acquire)).unwrap_or(usize::MAX);
        available.min(self.words.len() / self.chunk_words)
    }

    /// Returns the chunks that have memory.
    pub fn chunks(&self) -> impl Iterator<Item = &'m [W]> + Clone + use<'m, W> {
        self.words.chunks(self.chunk_words).take(self.count())
    }

    /// Takes a chunk that has no owner. Tries each chunk once. Returns the chunk and its new
    /// sequence, or `None` if all chunks have owners.
    fn take(&self, thread: &OsThread) -> Option<(&'m [W], u32)> {
        let count = self.count();
        for _ in 0..count {
            let at = self.cursor.fetch_add(1) as usize % count * self.chunk_words;
            let chunk = &self.words[at..at + self.chunk_words];
            if chunk[OWNER].load(Relaxed) == 0 && chunk[OWNER].replace(0, 1) {
                let sequence = (self.sequence.fetch_add(1) as u32).wrapping_add(1);
                begin(chunk, sequence, thread);
                return Some((chunk, sequence));
            }
        }
        None
    }
}

/// Begins a new use of a chunk. The position is written first, so that a reader that sees any part
/// of the new use also sees that the sequence has changed.
fn begin<W: Word>(chunk: &[W], sequence: u32, thread: &OsThread) {
    chunk[POSITION].store(Position { sequence, slots: 0 }.to_word(), Relaxed);
    W::fence(Release);
    chunk[OS_ID].store(u64::from(thread.os_id), Relaxed);
    for (word, bytes) in chunk[NAME..].iter().zip(thread.name.as_chunks().0) {
        word.store(u64::from_le_bytes(*bytes), Relaxed);
    }
}

/// Appends slots to the chunk that one thread owns.
#[derive(Debug)]
pub struct Appender<'m, W> {
    chunk: Cell<&'m [W]>,
    /// Position of the next slot within the chunk, in words.
    at: Cell<usize>,
    sequence: Cell<u32>,
}

impl<W> Default for Appender<'_, W> {
    fn default() -> Self {
        Appender::new()
    }
}

impl<'m, W> Appender<'m, W> {
    /// Returns an appender that has no chunk.
    pub const fn new() -> Self {
        Appender { chunk: Cell::new(&[]), at: Cell::new(0), sequence: Cell::new(0) }
    }
}

impl<'m, W: Word> Appender<'m, W> {
    /// Returns whether there is space for `slots` slots.
    #[inline(always)]
    pub fn has_space(&self, slots: usize) -> bool {
        self.at.get() + slots * SLOT_WORDS <= self.chunk.get().len()
    }

    /// Returns the check byte for slots in the chunk.
    #[inline(always)]
    pub fn check(&self) -> u8 {
        self.sequence.get() as u8
    }

    /// Appends the slots of an event. The chunk must have space for them.
    #[inline(always)]
    pub fn push(&self, slots: &[Slot]) {
        let chunk = self.chunk.get();
        let mut at = self.at.get();
        for slot in slots {
            let Some(words) = chunk.get(at..at + SLOT_WORDS) else { return };
            for (word, value) in words.iter().zip(slot) {
                word.store(*value, Relaxed);
            }
            at += SLOT_WORDS;
        }
        self.at.set(at);
        let complete = ((at - HEADER_WORDS) / SLOT_WORDS) as u32;
        let position = Position { sequence: self.sequence.get(), slots: complete };
        if let Some(word) = chunk.get(POSITION) {
            word.store(position.to_word(), Release);
        }
    }

    /// Releases the chunk and takes another chunk. Returns whether a chunk was available.
    #[cold]
    pub fn renew(&self, pool: &Pool<'m, W>, thread: &OsThread) -> bool {
        self.release();
        let Some((chunk, sequence)) = pool.take(thread) else { return false };
        self.chunk.set(chunk);
        self.at.set(HEADER_WORDS);
        self.sequence.set(sequence);
        true
    }

    /// Releases the chunk, if there is one.
    pub fn release(&self) {
        if let Some(owner) = self.chunk.replace(&[]).get(OWNER) {
            owner.store(0, Release);
        }
        self.at.set(0);
    }
}

/// Copies a chunk while threads might be appending to it or taking it. Omits the slots that the
/// reader already has; `known` returns their number for a sequence. Returns `None` if there are no
/// new slots, or if the chunk was taken during the copy.
pub fn copy<W: Word>(chunk: &[W], known: impl Fn(u32) -> u32) -> Option<Vec<u64>> {
    let before = chunk[POSITION].load(Acquire);
    let position = Position::of_word(before);
    let known = known(position.sequence).min(position.slots);
    let to = HEADER_WORDS + position.slots as usize * SLOT_WORDS;
    if known == position.slots {
        return None;
    }
    let slots = chunk.get(HEADER_WORDS + known as usize * SLOT_WORDS..to)?;
    let copied = chunk[..HEADER_WORDS].iter().chain(slots).map(|word| word.load(Relaxed));
    let mut copied: Vec<u64> = copied.collect();
    W::fence(Acquire);
    let after = Position::of_word(chunk[POSITION].load(Relaxed));
    copied[POSITION] = before;
    copied[LEFT_OUT] = u64::from(known);
    (after.sequence == position.sequence).then_some(copied)
}

/// Returns the position word of a chunk.
pub fn position<W: Word>(chunk: &[W]) -> u64 {
    chunk[POSITION].load(Acquire)
}

/// Returns the sequence in a position word, or `None` if the chunk was never taken.
pub fn sequence(position: u64) -> Option<u32> {
    (position != 0).then(|| Position::of_word(position).sequence)
}

/// A copied chunk, or a chunk in a file.
#[derive(Clone, Copy, Debug)]
pub struct Copied<'c> {
    /// Sequence of the chunk's current use.
    pub sequence: u32,
    /// Number of leading slots that were not copied.
    pub left_out: u32,
    /// Number of complete slots, including slots that were not copied.
    pub complete: u32,
    /// The thread that owned the chunk.
    pub thread: OsThread,
    slots: &'c [u64],
}

impl<'c> Copied<'c> {
    /// Parses a copied chunk. The words can have arbitrary values. Returns `None` if the header is
    /// incomplete.
    pub fn of_words(words: &'c [u64]) -> Option<Copied<'c>> {
        let (header, slots) = words.split_at_checked(HEADER_WORDS)?;
        let position = Position::of_word(header[POSITION]);
        let mut name = [0; NAME_BYTES];
        let bytes = name.as_chunks_mut().0.iter_mut().zip(&header[NAME..]);
        bytes.for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        let thread = OsThread { os_id: header[OS_ID] as u32, name };
        let (sequence, complete) = (position.sequence, position.slots);
        let left_out = (header[LEFT_OUT] as u32).min(complete);
        Some(Copied { sequence, left_out, complete, thread, slots })
    }

    /// Returns the position word of a chunk. The words can have arbitrary values.
    pub fn position(words: &[u64]) -> Option<u64> {
        words.get(POSITION).copied()
    }

    /// Returns the slots up to the last complete one.
    pub fn slots(&self) -> &'c [Slot] {
        let (slots, _) = self.slots.as_chunks();
        &slots[..slots.len().min((self.complete - self.left_out) as usize)]
    }
}
