//! The member names of previous lines, which predict the names in the next line.
//!
//! Consecutive lines usually have the same members in the same order. Each name therefore records
//! which name followed it last, and the parser compares the line with the predicted name instead of
//! searching for the end of the name.

use super::cursor::Cursor;
use crate::fields::{Fields, Reason};
use crate::types::Type;
use millstream_columns::unescape;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of names that are remembered. All other names are parsed every time.
const NAMES_MAX: usize = 1024;

/// Maximum length of a column name in bytes.
const NAME_BYTES_MAX: usize = 1024;

/// Parent of the top-level members.
pub const ROOT: usize = 0;

/// Field index of members that have no column.
pub const MEMBERS: usize = usize::MAX;
/// Field index of members that are not selected.
pub const UNWANTED: usize = usize::MAX - 1;
/// Field index that is not resolved yet.
pub const UNKNOWN: usize = usize::MAX - 2;

/// The options that affect names.
#[derive(Debug)]
pub struct Wanted {
    /// Separator between the names of an object and its member. `None` if objects are not
    /// flattened.
    pub separator: Option<String>,
    /// The members to keep. An empty list keeps all members.
    pub fields: Vec<String>,
    /// Types of fields.
    pub types: Vec<(String, Type)>,
}

/// A remembered member name.
pub struct Name {
    /// The bytes of the name in the line, including quotes and colon.
    pub raw: Box<[u8]>,
    /// The first bytes of `raw` as an integer, or 0 if `raw` is too long.
    head: u128,
    /// Mask of the bytes in `head` that are part of `raw`, or 0 if `raw` is too long.
    mask: u128,
    /// Index of the field, or [`MEMBERS`], [`UNWANTED`] or [`UNKNOWN`].
    pub field: usize,
    /// Name index of the enclosing object.
    pub parent: usize,
    next: usize,
    /// Path of the member: the names of the enclosing objects and the member's name.
    pub full: Arc<str>,
    /// Whether an object with this name is flattened.
    pub is_opened: bool,
    /// Type to which values are cast.
    pub cast: Option<Type>,
}

impl Name {
    fn new(raw: &[u8], parent: usize, full: &str) -> Name {
        let mut head = [0; 16];
        let mut mask = 0;
        if raw.len() <= 16 {
            head[..raw.len()].copy_from_slice(raw);
            mask = u128::MAX >> (128 - 8 * raw.len());
        }
        Name {
            raw: raw.into(),
            head: u128::from_le_bytes(head),
            mask,
            field: UNKNOWN,
            parent,
            next: ROOT,
            full: full.into(),
            is_opened: false,
            cast: None,
        }
    }

    #[inline(always)]
    fn begins(&self, rest: &[u8]) -> bool {
        match rest.first_chunk::<16>() {
            Some(bytes) if self.mask != 0 => u128::from_le_bytes(*bytes) & self.mask == self.head,
            _ => rest.starts_with(&self.raw),
        }
    }
}

/// All remembered names.
pub struct Names {
    wanted: Arc<Wanted>,
    list: Vec<Name>,
    /// Indices of names. The key is the index of the parent (four bytes) followed by the name.
    by_path: HashMap<Vec<u8>, usize>,
    path: Vec<u8>,
}

impl Names {
    /// Creates a set that contains only the root.
    pub fn new(wanted: Arc<Wanted>) -> Names {
        let mut names =
            Names { wanted, list: Vec::new(), by_path: HashMap::new(), path: Vec::new() };
        names.clear();
        names
    }

    fn clear(&mut self) {
        self.by_path.clear();
        self.list.clear();
        self.list.push(Name::new(b"\"", usize::MAX, ""));
    }

    /// Resets the field indices for a new batch.
    pub fn forget_fields(&mut self) {
        self.list
            .iter_mut()
            .filter(|name| name.field != UNWANTED)
            .for_each(|name| name.field = UNKNOWN);
    }

    /// Removes all names if there are too many. Must be called between two lines.
    #[inline(always)]
    pub fn make_room(&mut self) {
        if self.list.len() > NAMES_MAX {
            self.clear();
        }
    }

    /// Returns a name.
    #[inline(always)]
    pub fn get(&self, index: usize) -> &Name {
        &self.list[index]
    }

    /// Returns whether an object with this name is flattened. Objects whose names are not
    /// remembered are not flattened.
    #[inline(always)]
    pub fn is_opened(&self, index: usize) -> bool {
        index < NAMES_MAX && self.list[index].is_opened
    }

    /// Resolves the field of a name, and returns the field's index, or [`MEMBERS`]. This happens at
    /// the first value instead of when the name is parsed, because flattened objects need no field.
    #[cold]
    pub fn find_field(&mut self, index: usize, fields: &mut Fields) -> usize {
        let name = &mut self.list[index];
        name.field = match name.full.len() {
            1..=NAME_BYTES_MAX => fields.seen(name.full.as_bytes(), index - 1).unwrap_or(MEMBERS),
            _ => MEMBERS,
        };
        name.field
    }

    /// Skips a name and its colon. Returns the index of the name. `parent` is the index of the
    /// enclosing object's name, and `last` is the index of the previous name.
    #[inline(always)]
    pub fn read(
        &mut self,
        cursor: &mut Cursor<'_>,
        parent: usize,
        last: usize,
    ) -> Result<usize, Reason> {
        let next = self.list[last].next;
        let guess = &self.list[next];
        if guess.parent == parent && guess.begins(&cursor.text[cursor.at..]) {
            cursor.at += guess.raw.len();
            return Ok(next);
        }
        self.search(cursor, parent, last)
    }

    #[inline(never)]
    fn search(
        &mut self,
        cursor: &mut Cursor<'_>,
        parent: usize,
        last: usize,
    ) -> Result<usize, Reason> {
        let (start, end) = cursor.key()?;
        let inside = &cursor.text[start..end];
        let key = unescape(inside);
        self.path.clear();
        self.path.extend_from_slice(&(parent as u32).to_le_bytes());
        self.path.extend_from_slice(&key);
        let index = match self.by_path.get(&self.path) {
            Some(index) => *index,
            None => self.learn(parent, inside, &key),
        };
        if index < NAMES_MAX {
            self.list[last].next = index;
        }
        Ok(index)
    }

    #[cold]
    fn learn(&mut self, parent: usize, inside: &[u8], key: &[u8]) -> usize {
        let raw = [b"\"", inside, b"\":"].concat();
        let key = String::from_utf8_lossy(key);
        let full = match &self.wanted.separator {
            Some(separator) if parent != ROOT => {
                format!("{}{separator}{key}", self.list[parent].full)
            }
            _ => key.into_owned(),
        };
        let mut name = Name::new(&raw, parent, &full);
        let is_wanted = self.wanted.has(&full);
        name.is_opened =
            self.wanted.separator.is_some() && (is_wanted || self.wanted.has_below(&full));
        name.field = if is_wanted { UNKNOWN } else { UNWANTED };
        name.cast = self
            .wanted
            .types
            .iter()
            .find(|(field, _)| *field == full)
            .map(|(_, cast)| cast.clone());
        if self.list.len() > NAMES_MAX {
            // The last slot is for names that are not remembered.
            self.list[NAMES_MAX] = name;
            return NAMES_MAX;
        }
        let index = self.list.len();
        self.list.push(name);
        if index < NAMES_MAX {
            self.by_path.insert(self.path.clone(), index);
        }
        index
    }
}

impl Wanted {
    /// Returns whether to keep a member, which is the case if the member is listed or nested in a
    /// listed member.
    fn has(&self, full: &str) -> bool {
        self.fields.is_empty() || self.fields.iter().any(|wanted| self.is_below(full, wanted))
    }

    /// Returns whether any member nested in this member is kept.
    fn has_below(&self, full: &str) -> bool {
        self.fields.iter().any(|wanted| self.is_below(wanted, full))
    }

    fn is_below(&self, name: &str, above: &str) -> bool {
        let Some(rest) = name.strip_prefix(above) else { return false };
        rest.is_empty()
            || self.separator.as_ref().is_some_and(|separator| rest.starts_with(&**separator))
    }
}
