//! The `redact` transform hides data that must not leave the host.
//!
//! One scan of the block skips most rows. A match is a range of the block: every field that
//! overlaps the range is redacted, including the message, whichever field the match was found in.

mod config;
mod hide;
mod json;
mod search;

pub use config::{DetectorName, RedactConfig, Replace};
pub(crate) use hide::{hmac, push_hex};

use hide::Hide;
use json::{Unescaped, align, escape, is_json, tokens, unescape};
use millstream_detect::{Detector, Detectors, Hit, PATTERN, join};
use millstream_model::{
    Batch, Cell, CellKind, Column, ComponentError, LINE, MEMBERS, Map, Outputs, Value,
};
use search::{Search, SearchHit};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Counter keys of hidden parts: the detectors in order, then patterns.
const COUNTED: [&str; PATTERN + 1] = [
    "redacted_card",
    "redacted_email",
    "redacted_phone",
    "redacted_ip",
    "redacted_token",
    "redacted_key",
    "redacted_pattern",
];

/// A running `redact` transform.
#[derive(Clone)]
struct Redact {
    detectors: Detectors,
    /// Fields to search; `None` for all fields.
    fields: Option<Vec<String>>,
    hide: Hide,
    /// Name of each detector and pattern.
    names: Vec<Arc<str>>,
}

impl Map for Redact {
    fn apply(&mut self, mut batch: Batch, out: &mut Outputs) -> Result<(), ComponentError> {
        let named = self.fields.iter().flatten().map(String::as_str);
        batch.fields.lift(named, &batch.block);
        let columns: Vec<Column> = self.columns(&batch).cloned().collect();
        let mut found = Search::new(&self.detectors, &batch).search(&columns);
        if !found.is_empty() {
            found.sort_unstable();
            self.count(&found, out);
            for (index, column) in columns.iter().enumerate() {
                let dropped = self.rewrite(&mut batch, index, column, &found);
                out.counters.noted("too_large", dropped);
            }
        }
        if self.fields.is_none() {
            self.rename(&mut batch, out);
        }
        out.send(0, batch);
        Ok(())
    }
}

impl Redact {
    /// Returns the columns to search.
    fn columns<'b>(&self, batch: &'b Batch) -> impl Iterator<Item = &'b Column> {
        let is_chosen =
            |name: &str| self.fields.as_ref().is_none_or(|list| list.iter().any(|one| one == name));
        let message = (is_chosen("message") || is_chosen(LINE)).then_some(&batch.message);
        let fields = batch.fields.iter().filter(move |column| is_chosen(&column.name));
        message.into_iter().chain(fields.collect::<Vec<_>>())
    }

    /// Counts the events with a match, as a total and by detector.
    fn count(&self, found: &[SearchHit], out: &Outputs) {
        let (mut events, mut by_name) = (0, [0; PATTERN + 1]);
        for row in found.chunk_by(|one, other| one.row == other.row) {
            events += 1;
            for (what, count) in by_name.iter_mut().enumerate() {
                *count += u64::from(row.iter().any(|found| found.hit.what.min(PATTERN) == what));
            }
        }
        out.counters.noted("redacted", events);
        COUNTED.iter().zip(by_name).for_each(|(name, count)| out.counters.noted(name, count));
    }

    /// Redacts field names. If names become equal, appends numbers to them.
    fn rename(&self, batch: &mut Batch, out: &Outputs) {
        let new: Vec<Option<Vec<u8>>> =
            batch.fields.iter().map(|column| self.hidden_name(&column.name)).collect();
        let count = new.iter().flatten().count();
        if count == 0 {
            return;
        }
        let mut names: HashSet<Arc<str>> =
            batch.fields.iter().map(|column| column.name.clone()).collect();
        let renamed = batch.fields.iter().zip(new).map(|(column, new)| match new {
            Some(new) => column.named(unique(&String::from_utf8_lossy(&new), &mut names)),
            None => column.clone(),
        });
        batch.fields = renamed.collect::<Vec<Column>>().into();
        out.counters.noted("redacted_names", count as u64);
    }

    /// Returns the redacted name of a field; `None` if there is no match.
    fn hidden_name(&self, name: &str) -> Option<Vec<u8>> {
        if name == MEMBERS {
            return None;
        }
        let (mut candidates, mut hits) = (Vec::new(), Vec::new());
        self.detectors.candidates(name.as_bytes(), &mut candidates);
        let mask = candidates.iter().fold(0, |mask, candidate| mask | candidate.mask);
        if mask != 0 || self.detectors.has_patterns() {
            self.detectors.find(name.as_bytes(), mask, &mut hits);
        }
        let (mut edits, mut out) = (Vec::new(), Vec::new());
        self.edit_text(name.as_bytes(), 0..name.len(), &hits, &mut edits);
        apply(&edits, name.as_bytes(), &mut out);
        (!hits.is_empty()).then_some(out)
    }

    /// Redacts the values of a column that overlap a match. Returns the number of values that were
    /// dropped because they are too large.
    fn rewrite(
        &self,
        batch: &mut Batch,
        index: usize,
        column: &Column,
        found: &[SearchHit],
    ) -> u64 {
        let mut edit = None;
        let mut written = Vec::new();
        for row in found.chunk_by(|one, other| one.row == other.row) {
            let (cell, at) = (column.cells()[row[0].row], row[0].row);
            let hits = hits_of(cell, index, row);
            if hits.is_empty() {
                continue;
            }
            written.clear();
            let bytes = column.bytes(&batch.block, cell);
            let Some(kind) = self.write(cell.kind(), bytes, &hits, &mut written) else { continue };
            let edit = edit.get_or_insert_with(|| column.edit());
            let changed = edit.push(kind, &written);
            edit.set(at, changed);
        }
        let Some(edit) = edit else { return 0 };
        let dropped = edit.dropped();
        let changed = edit.finish(column.name.clone());
        match column.is_same(&batch.message) {
            true => batch.message = changed,
            false => batch.fields.set(changed),
        }
        dropped
    }

    /// Appends the redacted value, and returns its kind; returns `None` if the value does not
    /// change.
    fn write(
        &self,
        kind: CellKind,
        bytes: &[u8],
        hits: &[Hit],
        out: &mut Vec<u8>,
    ) -> Option<CellKind> {
        let mut edits = Vec::new();
        let changed = match kind {
            CellKind::Absent | CellKind::Null | CellKind::False | CellKind::True => return None,
            CellKind::Object | CellKind::Array | CellKind::Members => {
                self.edit_json(bytes, hits, &mut edits);
                kind
            }
            CellKind::Escaped => {
                self.edit_inside(bytes, 0..bytes.len(), hits, &mut edits);
                kind
            }
            CellKind::Text if is_json(bytes) => {
                self.edit_json(bytes, hits, &mut edits);
                kind
            }
            CellKind::Text | CellKind::Time | CellKind::Int | CellKind::Float => {
                self.edit_text(bytes, 0..bytes.len(), hits, &mut edits);
                CellKind::Text
            }
        };
        apply(&edits, bytes, out);
        Some(changed)
    }

    /// Redacts strings, turns redacted numbers into strings, and keeps all other values.
    fn edit_json(&self, text: &[u8], hits: &[Hit], edits: &mut Vec<Edit>) {
        for token in tokens(text, |_| false) {
            let overlaps = |hit: &&Hit| hit.start < token.range.end && token.range.start < hit.end;
            let within: Vec<Hit> = hits.iter().filter(overlaps).copied().collect();
            if within.is_empty() {
                continue;
            }
            if token.is_string {
                self.edit_inside(text, token.range, &within, edits);
                continue;
            }
            let mut parts = Vec::new();
            self.edit_text(text, token.range.clone(), &within, &mut parts);
            let mut quoted = vec![b'"'];
            apply_to(&parts, text, token.range.clone(), &mut quoted);
            quoted.push(b'"');
            edits.push(Edit { range: token.range, text: quoted });
        }
    }

    /// Redacts the content of a JSON string, `text[range]`, without cutting an escape. JSON that is
    /// written as a string stays JSON.
    fn edit_inside(&self, text: &[u8], range: Range<usize>, hits: &[Hit], edits: &mut Vec<Edit>) {
        let inside = &text[range.clone()];
        let aligned = hits.iter().map(|hit| {
            let (start, end) = (hit.start.max(range.start), hit.end.min(range.end));
            let whole = align(inside, start - range.start..end - range.start);
            Hit { start: whole.start, end: whole.end, ..*hit }
        });
        let mut aligned: Vec<Hit> = aligned.collect();
        join(&mut aligned, 0);
        let is_whole = aligned.iter().any(|hit| hit.start == 0 && hit.end == inside.len());
        let mut parts = Vec::new();
        let inner = unescape(inside);
        match !is_whole && is_json(&inner.text) {
            true => self.edit_inner(&inner, &aligned, &mut parts),
            false => self.edit_text(inside, 0..inside.len(), &aligned, &mut parts),
        }
        edits.extend(parts.into_iter().map(|edit| edit.shifted(range.start)));
    }

    /// Redacts JSON that is the unescaped content of a string. The ranges of hits and edits refer
    /// to the string.
    fn edit_inner(&self, inner: &Unescaped, hits: &[Hit], edits: &mut Vec<Edit>) {
        let within = |hit: &Hit| Hit { start: inner.at(hit.start), end: inner.at(hit.end), ..*hit };
        let hits: Vec<Hit> = hits.iter().map(within).collect();
        let mut parts = Vec::new();
        self.edit_json(&inner.text, &hits, &mut parts);
        let outer = |edit: Edit| Edit { range: inner.range(edit.range), text: escape(&edit.text) };
        edits.extend(parts.into_iter().map(outer));
    }

    /// Replaces each hit in `text[range]`.
    fn edit_text(&self, text: &[u8], range: Range<usize>, hits: &[Hit], edits: &mut Vec<Edit>) {
        let mut done = range.start;
        for hit in hits {
            let (start, end) = (hit.start.max(done), hit.end.min(range.end));
            let hidden = Value::Escaped(&text[start..end]).text().unwrap_or_default();
            let mut replacement = Vec::new();
            self.hide.write(&self.names[hit.what], &hidden, &mut replacement);
            edits.push(Edit { range: start..end, text: replacement });
            done = end;
        }
    }
}

/// A part of the text, and its replacement.
struct Edit {
    range: Range<usize>,
    text: Vec<u8>,
}

impl Edit {
    /// Returns the edit for text with `by` more bytes at its beginning.
    fn shifted(self, by: usize) -> Edit {
        Edit { range: self.range.start + by..self.range.end + by, text: self.text }
    }
}

/// Appends `text` after applying edits, which must be in order.
fn apply(edits: &[Edit], text: &[u8], out: &mut Vec<u8>) {
    apply_to(edits, text, 0..text.len(), out);
}

/// Appends `text[range]` after applying edits, which must be in order.
fn apply_to(edits: &[Edit], text: &[u8], range: Range<usize>, out: &mut Vec<u8>) {
    let mut done = range.start;
    for edit in edits {
        out.extend_from_slice(&text[done..edit.range.start]);
        out.extend_from_slice(&edit.text);
        done = edit.range.end;
    }
    out.extend_from_slice(&text[done..range.end]);
}

/// Returns a name that no other field has.
fn unique(name: &str, names: &mut HashSet<Arc<str>>) -> Arc<str> {
    let numbered = (2..).map(|number| Arc::from(format!("{name}_{number}")));
    let mut all = std::iter::once(Arc::from(name)).chain(numbered);
    let found: Arc<str> = all.find(|new| !names.contains(new)).unwrap_or_else(|| name.into());
    names.insert(found.clone());
    found
}

/// Returns the matches of a row that overlap a cell, as ascending ranges of its bytes.
fn hits_of(cell: Cell, column: usize, row: &[SearchHit]) -> Vec<Hit> {
    let (start, end) = (cell.start(), cell.start() + cell.len());
    let lies_in = |found: &&SearchHit| match found.own {
        None => !cell.is_own(),
        Some(index) => cell.is_own() && index == column,
    };
    let there =
        row.iter().filter(lies_in).filter(|found| found.hit.start < end && start < found.hit.end);
    let place = |found: &SearchHit| Hit {
        start: found.hit.start.max(start) - start,
        end: found.hit.end.min(end) - start,
        what: found.hit.what,
    };
    let mut hits: Vec<Hit> = there.map(place).collect();
    join(&mut hits, 0);
    hits
}

/// Index of the `key` detector, under which secret names are counted.
const SECRET: usize = Detector::Key as usize;

#[cfg(test)]
mod tests;
