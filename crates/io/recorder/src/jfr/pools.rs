//! The texts and threads of a chunk, to which its events refer.

use super::types::{STRING, THREAD, TypeId};
use super::varint;
use crate::event::{Tables, TextId, Thread, ThreadId};

/// How a text is written.
const NO_TEXT: u8 = 0;
const EMPTY_TEXT: u8 = 1;
const POOL_TEXT: u8 = 2;
const UTF8_TEXT: u8 = 3;

/// Longest text. What exceeds it is cut off, so that a chunk has a limit, too. A path has up to 4 KiB.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Bytes of an entry apart from its texts: key, encoding, length, number.
const ENTRY_BYTES_MAX: usize = 24;

/// Key for a thread that is not known.
const NO_KEY: u64 = 0;

/// Most bytes of a reference to a text.
pub const TEXT_REFERENCE_BYTES_MAX: usize = 1 + KEY_BYTES_MAX;

/// Most bytes of a key: up to 2^32.
pub const KEY_BYTES_MAX: usize = 5;

/// Returns the key of an entry. It is the same in all chunks, because the JDK's parser takes an entry
/// of the previous chunk if it has the same key.
fn key(id: u32) -> u64 {
    u64::from(id) + 1
}

/// Appends a text, up to its limit.
pub fn push_text(out: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
    if text.is_empty() {
        out.push(EMPTY_TEXT);
        return;
    }
    out.push(UTF8_TEXT);
    varint::push(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// What the events of a chunk refer to.
#[derive(Default)]
pub struct Pools {
    texts: Used,
    threads: Used,
}

impl Pools {
    /// Appends a reference to a text.
    #[inline]
    pub fn push_text<T: Tables + ?Sized>(&mut self, out: &mut Vec<u8>, id: TextId, tables: &T) {
        if self.texts.has(id.0) || self.texts.add(id.0, tables.text(id)) {
            out.push(POOL_TEXT);
            varint::push(out, key(id.0));
        } else {
            out.push(NO_TEXT);
        }
    }

    /// Appends a reference to a thread.
    #[inline]
    pub fn push_thread<T: Tables + ?Sized>(&mut self, out: &mut Vec<u8>, id: ThreadId, tables: &T) {
        let name = || tables.thread(id).map(|thread| thread.name);
        let is_known = self.threads.has(id.0) || self.threads.add(id.0, name());
        varint::push(out, if is_known { key(id.0) } else { NO_KEY });
    }

    /// Returns the most bytes of the pools so far.
    pub fn bytes_max(&self) -> usize {
        self.texts.bytes_max + self.threads.bytes_max
    }

    /// Appends the number of pools and the pools. The parser of the JDK refuses an empty one.
    pub fn push<T: Tables + ?Sized>(&self, out: &mut Vec<u8>, tables: &T) {
        let pools = [&self.texts, &self.threads];
        varint::push(out, pools.iter().filter(|used| !used.ids.is_empty()).count() as u64);
        push_pool(out, STRING, &self.texts, |out, id| {
            push_text(out, tables.text(TextId(id)).unwrap_or_default());
        });
        push_pool(out, THREAD, &self.threads, |out, id| {
            let unknown = Thread { name: "", os_id: 0 };
            push_thread(out, tables.thread(ThreadId(id)).unwrap_or(unknown));
        });
    }

    /// Forgets all, for the next chunk.
    pub fn clear(&mut self) {
        self.texts.clear();
        self.threads.clear();
    }
}

fn push_pool(out: &mut Vec<u8>, id: TypeId, used: &Used, push_entry: impl Fn(&mut Vec<u8>, u32)) {
    if used.ids.is_empty() {
        return;
    }
    varint::push(out, u64::from(id.0));
    varint::push(out, used.ids.len() as u64);
    for id in &used.ids {
        varint::push(out, key(*id));
        push_entry(out, *id);
    }
}

/// Appends a thread: its name and number in the system, and no name and number in Java.
fn push_thread(out: &mut Vec<u8>, thread: Thread<'_>) {
    push_text(out, thread.name);
    varint::push(out, u64::from(thread.os_id));
    out.push(NO_TEXT);
    varint::push(out, 0);
}

/// Entries of a table that a chunk refers to.
#[derive(Default)]
struct Used {
    ids: Vec<u32>,
    /// Whether an entry is among them, by its number.
    marks: Vec<bool>,
    /// Most bytes of their pool.
    bytes_max: usize,
}

impl Used {
    fn has(&self, id: u32) -> bool {
        self.marks.get(id as usize) == Some(&true)
    }

    /// Adds an entry with a text if it exists. Returns whether it does.
    #[cold]
    fn add(&mut self, id: u32, text: Option<&str>) -> bool {
        let Some(text) = text else { return false };
        let index = id as usize;
        self.marks.resize(self.marks.len().max(index + 1), false);
        self.marks[index] = true;
        self.ids.push(id);
        self.bytes_max += ENTRY_BYTES_MAX + text.len().min(TEXT_BYTES_MAX);
        true
    }

    fn clear(&mut self) {
        self.bytes_max = 0;
        for id in self.ids.drain(..) {
            self.marks[id as usize] = false;
        }
    }
}
