//! The content of a snapshot of windows: a list of changes, each preceded by a letter.
//!
//! | letter | change |
//! |---|---|
//! | `D` | a definition: its number (`u32`), length (`u32`) and JSON |
//! | `W` | a window begins: its number (`u64`), its definition (`u32`), its end in nanoseconds since 1970 (`i64`) |
//! | `G`, `O` | the groups, or the events beyond the group limit, change: window number (`u64`), length (`u32`), changes of a [`Groups`] |
//! | `P` | results of the first groups exist: window number (`u64`), number of groups (`u64`) |
//! | `E` | a window has ended: its number (`u64`) |
//! | `S` | every sink has settled the results before this number (`u64`) |
//! | `R` | another result |
//!
//! All numbers are little-endian.

use super::definition::{Definition, WINDOW_S_MAX};
use super::result::Outcome;
use crate::util::segments::array;
use millstream_groups::limits::KEYS_MAX;
use millstream_groups::{Groups, Layout};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The state in a snapshot.
#[derive(Default)]
pub struct Saved {
    /// Definitions by number.
    pub definitions: BTreeMap<u32, Arc<Definition>>,
    /// Windows by number, including ended windows whose results were not all produced.
    pub windows: BTreeMap<u64, SavedWindow>,
    /// Results that some sink has not settled.
    pub results: VecDeque<Outcome>,
    /// Number of the first of these results.
    pub first: u64,
}

/// A window in a snapshot.
pub struct SavedWindow {
    /// Definition number.
    pub definition: u32,
    pub end_ns: i64,
    pub groups: Groups,
    /// Maximum number of groups, from the definition.
    groups_max: usize,
    pub overflow: Groups,
    /// Number of groups whose results were produced.
    pub emitted: u64,
}

impl Saved {
    /// Applies the body of a frame; returns `None` if it is invalid, or contradicts itself or the
    /// previous frames.
    pub fn apply(&mut self, mut body: &[u8]) -> Option<()> {
        let body = &mut body;
        while let Some((letter, rest)) = body.split_first() {
            *body = rest;
            match letter {
                b'D' => self.define(body)?,
                b'W' => self.begin(body)?,
                b'G' => {
                    let window = self.window(body)?;
                    let groups_max = window.groups_max;
                    change(&mut window.groups, groups_max, sized(body)?)?;
                }
                b'O' => change(&mut self.window(body)?.overflow, 1, sized(body)?)?,
                b'P' => self.window(body)?.emit(u64::from_le_bytes(array(body)?))?,
                b'E' => {
                    self.windows.remove(&u64::from_le_bytes(array(body)?))?;
                }
                b'S' => self.settle(u64::from_le_bytes(array(body)?))?,
                b'R' => {
                    self.results.push_back(Outcome::read(body)?);
                    self.next()?;
                }
                _ => return None,
            }
        }
        Some(())
    }

    /// Adds a definition. Its number must be new.
    fn define(&mut self, body: &mut &[u8]) -> Option<()> {
        let number = u32::from_le_bytes(array(body)?);
        let definition: Definition = serde_json::from_slice(sized(body)?).ok()?;
        let is_window = (1..=WINDOW_S_MAX).contains(&definition.window_s);
        let is_possible = number < u32::MAX && is_window && definition.group_by.len() <= KEYS_MAX;
        let is_new = self.definitions.insert(number, Arc::new(definition)).is_none();
        (is_possible && is_new).then_some(())
    }

    /// Drops the results with numbers below `first`. The first frame determines where the numbers
    /// begin.
    fn settle(&mut self, first: u64) -> Option<()> {
        let begins = self.first == 0 && self.results.is_empty();
        (begins || first <= self.next()?).then_some(())?;
        let gone = first.checked_sub(self.first)?.min(self.results.len() as u64);
        self.results.drain(..gone as usize);
        self.first = first;
        Some(())
    }

    /// Returns the number of the next result; `None` if it would overflow.
    fn next(&self) -> Option<u64> {
        self.first.checked_add(self.results.len() as u64)
    }

    fn begin(&mut self, body: &mut &[u8]) -> Option<()> {
        let number = u64::from_le_bytes(array(body)?);
        let definition = u32::from_le_bytes(array(body)?);
        let end_ns = i64::from_le_bytes(array(body)?);
        let of_window = self.definitions.get(&definition)?;
        let (groups, overflow) = tables(of_window, &of_window.layout());
        let groups_max = of_window.groups_max;
        let window = SavedWindow { definition, end_ns, groups, groups_max, overflow, emitted: 0 };
        let is_new = self.windows.insert(number, window).is_none();
        (is_new && number < u64::MAX).then_some(())
    }

    fn window(&mut self, body: &mut &[u8]) -> Option<&mut SavedWindow> {
        self.windows.get_mut(&u64::from_le_bytes(array(body)?))
    }
}

impl SavedWindow {
    /// Records the number of groups whose results were produced. The number must not exceed the
    /// number of groups, and must not decrease.
    fn emit(&mut self, emitted: u64) -> Option<()> {
        let groups = (self.groups.len() + self.overflow.len()) as u64;
        (self.emitted..=groups).contains(&emitted).then_some(())?;
        self.emitted = emitted;
        Some(())
    }
}

/// Applies changes to a table of up to `groups_max` groups. The changes must fill `bytes`.
fn change(groups: &mut Groups, groups_max: usize, mut bytes: &[u8]) -> Option<()> {
    groups.apply(&mut bytes)?;
    (bytes.is_empty() && groups.len() <= groups_max).then_some(())
}

/// Reads the frames of a snapshot, and writes the resulting state as one frame. Returns `None` if
/// the frames are damaged or contradict each other.
pub fn rewrite_snapshot(frames: &[u8]) -> Option<Vec<u8>> {
    let mut saved = Saved::default();
    saved.apply(frames)?;
    let mut frame = Frame::default();
    for (number, definition) in &saved.definitions {
        frame.definition(*number, definition);
    }
    for (number, window) in &mut saved.windows {
        frame.window(*number, window.definition, window.end_ns);
        frame.groups(b'G', *number, |out| window.groups.write_all(out));
        frame.groups(b'O', *number, |out| window.overflow.write_all(out));
        frame.emitted(*number, window.emitted);
    }
    frame.settled(saved.first);
    saved.results.iter().for_each(|result| frame.result(result));
    Some(frame.0)
}

/// Returns the empty tables of a window: one for its groups, and one for the events beyond the
/// group limit.
pub fn tables(definition: &Definition, layout: &Arc<Layout>) -> (Groups, Groups) {
    let groups = Groups::new(layout.clone(), definition.group_by.len(), definition.groups_max);
    (groups, Groups::new(layout.clone(), 0, 1))
}

/// Takes bytes with a length prefix from the front of `body`.
fn sized<'b>(body: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = u32::from_le_bytes(array(body)?);
    let (bytes, rest) = body.split_at_checked(length as usize)?;
    *body = rest;
    Some(bytes)
}

/// A frame body under construction.
#[derive(Default)]
pub struct Frame(pub Vec<u8>);

impl Frame {
    pub fn definition(&mut self, number: u32, definition: &Definition) {
        self.0.push(b'D');
        self.0.extend_from_slice(&number.to_le_bytes());
        let text = serde_json::to_vec(definition).unwrap_or_default();
        self.0.extend_from_slice(&(text.len() as u32).to_le_bytes());
        self.0.extend_from_slice(&text);
    }

    pub fn window(&mut self, number: u64, definition: u32, end_ns: i64) {
        self.numbered(b'W', number);
        self.0.extend_from_slice(&definition.to_le_bytes());
        self.0.extend_from_slice(&end_ns.to_le_bytes());
    }

    /// Appends the changes from `write`, if there are any.
    pub fn groups(&mut self, letter: u8, number: u64, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.0.len();
        self.numbered(letter, number);
        let at = self.0.len();
        self.0.extend_from_slice(&[0; 4]);
        write(&mut self.0);
        let length = (self.0.len() - at - 4) as u32;
        match length {
            0 => self.0.truncate(start),
            _ => self.0[at..at + 4].copy_from_slice(&length.to_le_bytes()),
        }
    }

    pub fn emitted(&mut self, number: u64, groups: u64) {
        self.numbered(b'P', number);
        self.0.extend_from_slice(&groups.to_le_bytes());
    }

    pub fn ended(&mut self, number: u64) {
        self.numbered(b'E', number);
    }

    pub fn settled(&mut self, first: u64) {
        self.numbered(b'S', first);
    }

    pub fn result(&mut self, result: &Outcome) {
        self.0.push(b'R');
        result.write(&mut self.0);
    }

    fn numbered(&mut self, letter: u8, number: u64) {
        self.0.push(letter);
        self.0.extend_from_slice(&number.to_le_bytes());
    }
}
