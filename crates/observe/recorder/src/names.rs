//! A table of strings and subjects in shared memory, each of which is stored once.
//!
//! The table has two halves, and new entries go into one of them. When that half is full, the other
//! half is cleared and used instead. References that are still in use are recreated there, and
//! entries for closed files and connections disappear at the next change. An event that is older
//! than the current use of its half loses the values of its references.
//!
//! | word of a half | holds |
//! |---|---|
//! | 0 | number of used words (32 bits), epoch (32), which numbers the uses of the halves |
//! | 1 | start of this use in ticks |
//! | 2 to 7 | 0 |
//! | from 8 | entries |
//!
//! | entry | words |
//! |---|---|
//! | text | 1 (8 bits), bytes (56); then the bytes, with zeros up to a whole word |
//! | subject | 2 (8 bits), 0 (24), first value (32); second value (32), third value (32) |
//!
//! A reference contains the half in bit 23, and the position of the entry in the lower bits.

use crate::layout::NAME_WORDS_FIRST;
use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

const POSITION: usize = 0;
const SINCE: usize = 1;
const HEADER_WORDS: usize = 8;

const TEXT: u64 = 1;
const SUBJECT: u64 = 2;

/// Position of the bit that selects the half in a reference.
const HALF_BIT: u32 = 23;

/// Maximum length of a string in bytes, which is the maximum length of a path.
const TEXT_BYTES_MAX: usize = 4096;

/// Minimum time in seconds that a half is used, so that an event that is being written never refers
/// to a removed entry.
const HALF_SECONDS_MIN: u64 = 2;

/// The values that all events about one file, connection or component share: numbers, or references
/// to strings.
pub type Shared = [u32; 3];

/// The table of strings and subjects, and the index for finding existing entries.
#[derive(Debug)]
pub struct Names<'m> {
    halves: [&'m [AtomicU64]; 2],
    texts: HashMap<Box<str>, u32>,
    subjects: HashMap<Shared, u32>,
    epoch: u32,
    used: usize,
    since_ticks: u64,
    /// Whether both halves can be used in full.
    has_all: bool,
}

impl<'m> Names<'m> {
    /// Creates an empty table. Until [`Names::use_all`] is called, the table uses only
    /// [`NAME_WORDS_FIRST`] words of the half [`crate::layout::FIRST_HALF`].
    pub fn new(halves: [&'m [AtomicU64]; 2], now_ticks: u64) -> Names<'m> {
        let (texts, subjects) = (HashMap::default(), HashMap::default());
        let (epoch, used, since_ticks, has_all) = Default::default();
        let mut names = Names { halves, texts, subjects, epoch, used, since_ticks, has_all };
        names.begin_half(now_ticks);
        names
    }

    /// Returns the epoch, which numbers the uses of the halves. References from another epoch must
    /// be recreated.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns whether both halves can be used in full.
    pub fn uses_all(&self) -> bool {
        self.has_all
    }

    /// Allows the table to use both halves in full.
    pub fn use_all(&mut self) {
        self.has_all = true;
    }

    fn half(&self) -> &'m [AtomicU64] {
        self.halves[self.epoch as usize % 2]
    }

    /// Clears the other half and starts using it.
    fn begin_half(&mut self, now_ticks: u64) {
        self.epoch += 1;
        self.texts.clear();
        self.subjects.clear();
        self.used = HEADER_WORDS;
        self.since_ticks = now_ticks;
        let half = self.half();
        half[POSITION].store(u64::from(self.epoch) << 32, Relaxed);
        fence(Release);
        half[SINCE].store(now_ticks, Relaxed);
        self.publish();
    }

    fn publish(&self) {
        let position = u64::from(self.epoch) << 32 | self.used as u64;
        self.half()[POSITION].store(position, Release);
    }

    /// Clears the other half and starts using it, unless the current half is too new.
    fn change_half(&mut self, now_ticks: u64, ticks_per_second: u64) -> Option<()> {
        let least = ticks_per_second.saturating_mul(HALF_SECONDS_MIN);
        let is_due = now_ticks.saturating_sub(self.since_ticks) >= least;
        (is_due && self.has_all).then(|| self.begin_half(now_ticks))
    }

    /// Appends an entry and returns its reference. Returns `None` if there is no space.
    fn append(&mut self, words: impl ExactSizeIterator<Item = u64>) -> Option<u32> {
        let half = self.half();
        let half = if self.has_all { half } else { &half[..half.len().min(NAME_WORDS_FIRST)] };
        let at = self.used;
        let entry = half.get(at..at + words.len())?;
        entry.iter().zip(words).for_each(|(word, value)| word.store(value, Relaxed));
        self.used += entry.len();
        self.publish();
        Some(((self.epoch % 2) << HALF_BIT) | at as u32)
    }

    /// Returns the reference to a string, or `None` if there is no space.
    fn text(&mut self, text: &str) -> Option<u32> {
        let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
        if let Some(reference) = self.texts.get(text) {
            return Some(*reference);
        }
        let mut words = vec![0; 1 + text.len().div_ceil(8)];
        words[0] = TEXT | (text.len() as u64) << 8;
        for (word, bytes) in words[1..].iter_mut().zip(text.as_bytes().chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(whole);
        }
        let reference = self.append(words.into_iter())?;
        self.texts.insert(text.into(), reference);
        Some(reference)
    }

    /// Returns the reference to a subject, or `None` if there is no space. Unless `is_new`, this
    /// can be an existing subject with the same values.
    fn subject(&mut self, parts: &[Part<'_>], is_new: bool) -> Option<u32> {
        let mut values = [0; 3];
        for (value, part) in values.iter_mut().zip(parts) {
            *value = match part {
                Part::Text(text) => self.text(text)?,
                Part::Number(number) => *number,
            };
        }
        if !is_new && let Some(reference) = self.subjects.get(&values) {
            return Some(*reference);
        }
        let [first, second, third] = values.map(u64::from);
        let reference = self.append([SUBJECT | first << 32, second | third << 32].into_iter())?;
        if !is_new {
            self.subjects.insert(values, reference);
        }
        Some(reference)
    }

    /// Returns the reference to a string, or `None` if there is no space. Changes halves if
    /// necessary.
    pub fn refer_to_text(&mut self, text: &str, now: u64, rate: u64) -> Option<u32> {
        let found = self.text(text);
        found.or_else(|| self.change_half(now, rate).and_then(|()| self.text(text)))
    }

    /// Returns the reference to a subject, or `None` if there is no space. Changes halves if
    /// necessary. If `is_new`, as for a connection, always adds a subject.
    pub fn refer_to_subject(
        &mut self,
        parts: &[Part<'_>],
        is_new: bool,
        now: u64,
        rate: u64,
    ) -> Option<u32> {
        let found = self.subject(parts, is_new);
        found.or_else(|| self.change_half(now, rate).and_then(|()| self.subject(parts, is_new)))
    }
}

/// A value that belongs to a subject.
#[derive(Clone, Copy, Debug)]
pub enum Part<'p> {
    /// A string.
    Text(&'p str),
    /// A number.
    Number(u32),
}

/// Copies the used words of a half, which another thread might be changing. The copy is empty if
/// the half was cleared during the copy.
pub fn copy(half: &[AtomicU64]) -> Vec<u64> {
    let before = half[POSITION].load(Acquire);
    let used = (before as u32 as usize).min(half.len());
    let mut copied: Vec<u64> = half[..used].iter().map(|word| word.load(Relaxed)).collect();
    fence(Acquire);
    let after = half[POSITION].load(Relaxed);
    match copied.get_mut(POSITION) {
        Some(position) if before >> 32 == after >> 32 => *position = before,
        _ => copied.clear(),
    }
    copied
}

/// The entries of both halves at one point in time. The words can have arbitrary values.
#[derive(Clone, Debug, Default)]
pub struct CopiedNames {
    halves: [Vec<u64>; 2],
}

impl CopiedNames {
    /// Wraps the copied words of both halves.
    pub fn new(halves: [Vec<u64>; 2]) -> CopiedNames {
        CopiedNames { halves }
    }

    /// Returns the epoch of the half to which a reference points, and the start of that epoch in
    /// ticks. Returns `None` if the copy of the half is incomplete.
    pub fn epoch(&self, reference: u32) -> Option<(u32, u64)> {
        let half = self.half(reference);
        Some(((half.get(POSITION)? >> 32) as u32, *half.get(SINCE)?))
    }

    fn half(&self, reference: u32) -> &[u64] {
        let half = &self.halves[(reference >> HALF_BIT) as usize % 2];
        let used = half.get(POSITION).map_or(0, |position| *position as u32 as usize);
        &half[..used.min(half.len())]
    }

    fn entry(&self, reference: u32) -> Option<&[u64]> {
        let at = (reference & ((1 << HALF_BIT) - 1)) as usize;
        (at >= HEADER_WORDS).then(|| self.half(reference).get(at..))?
    }

    /// Returns the string to which a reference points; `None` if the reference is invalid.
    pub fn text(&self, reference: u32) -> Option<String> {
        let (head, words) = self.entry(reference)?.split_first()?;
        let bytes = usize::try_from(head >> 8).ok()?;
        if *head as u8 != TEXT as u8 || bytes > TEXT_BYTES_MAX {
            return None;
        }
        let words = words.get(..bytes.div_ceil(8))?;
        let mut all: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        all.truncate(bytes);
        Some(String::from_utf8_lossy(&all).into_owned())
    }

    /// Returns the values of the subject to which a reference points; `None` if the reference is
    /// invalid.
    pub fn subject(&self, reference: u32) -> Option<Shared> {
        let [head, others, ..] = *self.entry(reference)? else { return None };
        let values = [(head >> 32) as u32, others as u32, (others >> 32) as u32];
        (head as u8 == SUBJECT as u8).then_some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 1000;

    fn memory(words: usize) -> Vec<AtomicU64> {
        (0..words).map(|_| AtomicU64::new(0)).collect()
    }

    fn copied(names: &Names<'_>) -> CopiedNames {
        CopiedNames::new(names.halves.map(copy))
    }

    #[test]
    fn a_text_is_stored_once_and_cut_to_its_limit() {
        let memory = memory(2048);
        let mut names = Names::new([&memory[..1024], &memory[1024..]], 0);
        let one = names.refer_to_text("/var/log/app.log", 0, RATE).unwrap();
        assert_eq!(names.refer_to_text("/var/log/app.log", 0, RATE), Some(one));
        let empty = names.refer_to_text("", 0, RATE).unwrap();
        let long = names.refer_to_text(&"ä".repeat(TEXT_BYTES_MAX), 0, RATE).unwrap();
        let copied = copied(&names);
        assert_eq!(copied.text(one).unwrap(), "/var/log/app.log");
        assert_eq!(copied.text(empty).unwrap(), "");
        assert_eq!(copied.text(long).unwrap(), "ä".repeat(TEXT_BYTES_MAX / 2));
        assert_eq!(copied.subject(one), None);
        assert_eq!(copied.text(0), None);
    }

    #[test]
    fn the_other_half_takes_over_when_one_is_full_but_not_at_once() {
        let memory = memory(40);
        let mut names = Names::new([&memory[..20], &memory[20..]], 0);
        let parts = |number| [Part::Text("host"), Part::Text("::1"), Part::Number(number)];
        let first = names.refer_to_subject(&parts(1), false, 0, RATE).unwrap();
        let mut numbers = 2..;
        while names.refer_to_subject(&parts(numbers.next().unwrap()), false, 0, RATE).is_some() {}
        assert_eq!(
            (names.epoch(), names.refer_to_subject(&parts(1), false, 0, RATE)),
            (1, Some(first))
        );
        let later = HALF_SECONDS_MIN * RATE;
        assert_eq!(names.refer_to_subject(&parts(99), false, later, RATE), None);
        names.use_all();
        let second = names.refer_to_subject(&parts(99), false, later, RATE).unwrap();
        let copied = copied(&names);
        assert_eq!(names.epoch(), 2);
        assert_eq!(copied.epoch(first), Some((1, 0)));
        assert_eq!(copied.epoch(second), Some((2, later)));
        assert_eq!(copied.subject(first).unwrap()[2], 1);
        let [host, address, port] = copied.subject(second).unwrap();
        let texts = [host, address].map(|text| copied.text(text).unwrap());
        assert_eq!((texts, port), (["host".to_owned(), "::1".to_owned()], 99));
    }
}
