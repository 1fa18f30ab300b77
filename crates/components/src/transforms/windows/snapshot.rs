//! What a snapshot of windows says: a list of changes, each with a letter before it.
//!
//! | letter | change |
//! |---|---|
//! | `D` | a definition: its number (`u32`), length (`u32`) and JSON |
//! | `W` | a window begins: its number (`u64`), its definition (`u32`), its end in nanoseconds since 1970 (`i64`) |
//! | `G`, `O` | its groups, or those beyond the limit, change: its number (`u64`), length (`u32`), changes of a [`Groups`] |
//! | `P` | results of its first groups are there: its number (`u64`), how many (`u64`) |
//! | `E` | it has ended: its number (`u64`) |
//! | `S` | every sink has settled the results before this number (`u64`) |
//! | `R` | another result |
//!
//! All little endian.

use super::definition::Definition;
use super::result::Outcome;
use crate::util::segments::array;
use millstream_groups::{Groups, Layout};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What a snapshot says.
#[derive(Default)]
pub struct Saved {
    /// Definitions by their number.
    pub definitions: BTreeMap<u32, Arc<Definition>>,
    /// Open windows by their number.
    pub windows: BTreeMap<u64, SavedWindow>,
    /// The results that some sink had not settled.
    pub results: VecDeque<Outcome>,
    /// Number of the first of them.
    pub first: u64,
}

/// A window in a snapshot.
pub struct SavedWindow {
    /// Number of its definition.
    pub definition: u32,
    pub end_ns: i64,
    pub groups: Groups,
    pub overflow: Groups,
    /// Groups whose results are there.
    pub emitted: u64,
}

impl Saved {
    /// Applies the body of a frame; `None` if it is not one.
    pub fn apply(&mut self, mut body: &[u8]) -> Option<()> {
        let body = &mut body;
        while let Some((letter, rest)) = body.split_first() {
            *body = rest;
            match letter {
                b'D' => {
                    let number = u32::from_le_bytes(array(body)?);
                    let definition = serde_json::from_slice(sized(body)?).ok()?;
                    self.definitions.insert(number, Arc::new(definition));
                }
                b'W' => self.begin(body)?,
                b'G' => {
                    let window = self.window(body)?;
                    window.groups.apply(&mut sized(body)?)?;
                }
                b'O' => {
                    let window = self.window(body)?;
                    window.overflow.apply(&mut sized(body)?)?;
                }
                b'P' => {
                    let window = self.window(body)?;
                    window.emitted = u64::from_le_bytes(array(body)?);
                }
                b'E' => {
                    self.windows.remove(&u64::from_le_bytes(array(body)?))?;
                }
                b'S' => {
                    let first = u64::from_le_bytes(array(body)?);
                    let gone = first.checked_sub(self.first)?.min(self.results.len() as u64);
                    self.results.drain(..gone as usize);
                    self.first = first;
                }
                b'R' => self.results.push_back(Outcome::read(body)?),
                _ => return None,
            }
        }
        Some(())
    }

    fn begin(&mut self, body: &mut &[u8]) -> Option<()> {
        let number = u64::from_le_bytes(array(body)?);
        let definition = u32::from_le_bytes(array(body)?);
        let end_ns = i64::from_le_bytes(array(body)?);
        let of_window = self.definitions.get(&definition)?;
        let (groups, overflow) = tables(of_window, &of_window.layout());
        let window = SavedWindow { definition, end_ns, groups, overflow, emitted: 0 };
        self.windows.insert(number, window).is_none().then_some(())
    }

    fn window(&mut self, body: &mut &[u8]) -> Option<&mut SavedWindow> {
        self.windows.get_mut(&u64::from_le_bytes(array(body)?))
    }
}

/// Returns empty tables of a window: one for its groups, one for the events beyond their limit.
pub fn tables(definition: &Definition, layout: &Arc<Layout>) -> (Groups, Groups) {
    let groups = Groups::new(layout.clone(), definition.group_by.len(), definition.groups_max);
    (groups, Groups::new(layout.clone(), 0, 1))
}

/// Takes bytes behind their length from the front of `body`.
fn sized<'b>(body: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = u32::from_le_bytes(array(body)?);
    let (bytes, rest) = body.split_at_checked(length as usize)?;
    *body = rest;
    Some(bytes)
}

/// The body of a frame under construction.
#[derive(Default)]
pub struct Frame(pub Vec<u8>);

impl Frame {
    pub fn definition(&mut self, number: u32, definition: &Definition) {
        self.letter(b'D');
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

    /// Appends the changes that `write` appends, if there are any.
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
        self.letter(b'R');
        result.write(&mut self.0);
    }

    fn letter(&mut self, letter: u8) {
        self.0.push(letter);
    }

    fn numbered(&mut self, letter: u8, number: u64) {
        self.letter(letter);
        self.0.extend_from_slice(&number.to_le_bytes());
    }
}
