//! The strings and threads to which the events in a chunk refer.

use crate::event::{Tables, Thread};
use crate::ids::{TextId, ThreadId};
use millstream_jfr::keys::{NO_KEY, key};
use millstream_jfr::metadata::types::{STRING, THREAD};
use millstream_jfr::pools::{self, ENTRY_BYTES_MAX, Used};
use millstream_jfr::text::TEXT_BYTES_MAX;
use millstream_jfr::{text, varint};

/// The strings and threads to which the events in a chunk refer.
#[derive(Default)]
pub struct Pools {
    texts: Used,
    threads: Used,
}

impl Pools {
    /// Appends a reference to a string.
    #[inline]
    pub fn push_text<T: Tables + ?Sized>(&mut self, out: &mut Vec<u8>, id: TextId, tables: &T) {
        if self.texts.has(id.0) || add(&mut self.texts, id.0, tables.text(id)) {
            text::push_reference(out, id.0);
        } else {
            text::push_none(out);
        }
    }

    /// Appends a reference to a thread.
    #[inline]
    pub fn push_thread<T: Tables + ?Sized>(&mut self, out: &mut Vec<u8>, id: ThreadId, tables: &T) {
        let name = || tables.thread(id).map(|thread| thread.name);
        let is_known = self.threads.has(id.0) || add(&mut self.threads, id.0, name());
        varint::push(out, if is_known { key(id.0) } else { NO_KEY });
    }

    /// Returns the maximum size of the pools so far in bytes.
    pub fn bytes_max(&self) -> usize {
        self.texts.bytes_max() + self.threads.bytes_max()
    }

    /// Appends the number of pools, and the pools.
    pub fn push<T: Tables + ?Sized>(&self, out: &mut Vec<u8>, tables: &T) {
        pools::push_count(out, [&self.texts, &self.threads]);
        pools::push_pool(out, STRING, &self.texts, |out, id| {
            text::push(out, tables.text(TextId(id)).unwrap_or_default());
        });
        pools::push_pool(out, THREAD, &self.threads, |out, id| {
            let unknown = Thread { name: "", os_id: 0 };
            let thread = tables.thread(ThreadId(id)).unwrap_or(unknown);
            pools::push_thread(out, thread.name, thread.os_id);
        });
    }

    /// Removes all entries, for the next chunk.
    pub fn clear(&mut self) {
        self.texts.clear();
        self.threads.clear();
    }
}

/// Adds an entry if its text exists. Returns whether the text exists.
#[cold]
fn add(used: &mut Used, id: u32, text: Option<&str>) -> bool {
    let Some(text) = text else { return false };
    used.add(id, ENTRY_BYTES_MAX + text.len().min(TEXT_BYTES_MAX));
    true
}
