//! Expected behavior: the lines that were written, could be read, and were delivered.

use super::Line;
use super::disk::{Content, STARTED};
use millstream_model::OriginId;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// File id and offset.
type Id = (OriginId, u64);

/// Number of bytes that make a line unique.
const NUMBER_BYTES: u64 = 6;

/// Tracks lines from write to delivery, and checks them.
#[derive(Default)]
pub struct Oracle {
    /// Every complete line that was ever in a file.
    written: HashSet<String>,
    /// Lines that vanished before they could be read.
    excused: HashSet<String>,
    /// Incomplete last lines of vanished files, which are delivered incomplete.
    fragments: HashSet<String>,
    /// Texts of delivered lines.
    delivered: BTreeMap<Id, String>,
    ids: HashMap<String, Id>,
    /// Lines that were read but not delivered.
    outstanding: BTreeSet<Id>,
    committed: BTreeSet<Id>,
    /// Lines that were delivered but not committed when the agent exited.
    may_repeat: BTreeSet<Id>,
    /// Lines read since the start of the agent.
    seen: BTreeSet<Id>,
    /// Lines in `may_repeat` beyond the saved head of their file. If the file is truncated and
    /// begins with the same bytes, other lines may get the ids of these lines.
    loose: BTreeSet<Id>,
    /// Files without a commit when the agent was killed. If such a file is truncated or moved after
    /// that, it may get another id, because only its head was saved.
    unsure: HashSet<OriginId>,
    /// Largest offset read, by file id. After that, smaller offsets are read only for abandoned
    /// lines.
    furthest: HashMap<OriginId, u64>,
}

impl Oracle {
    /// Records the lines that can be read now.
    pub fn observe<'a>(
        &mut self,
        readable: impl Iterator<Item = &'a Content>,
        named: impl Iterator<Item = &'a Content>,
    ) {
        let there: HashSet<&String> = readable.flat_map(|content| &content.lines).collect();
        self.written.extend(named.flat_map(|content| &content.lines).cloned());
        self.written.extend(there.iter().map(|line| (*line).clone()));
        let lost = self
            .written
            .iter()
            .filter(|line| !there.contains(line) && !self.ids.contains_key(*line));
        self.excused.extend(lost.cloned());
    }

    pub fn fragment(&mut self, content: &Content) {
        self.fragments.insert(content.rest.clone());
    }

    /// Records lines that were read.
    pub fn read(&mut self, lines: &[Line]) -> Result<(), String> {
        for line in lines {
            let id = (line.file_id, line.offset);
            if !self.delivered.contains_key(&id) {
                self.outstanding.insert(id);
            }
            let furthest = self.furthest.entry(id.0).or_insert(id.1);
            if self.seen.insert(id) && id.1 < *furthest {
                return Err(format!("{id:?} was read after offset {furthest}"));
            }
            *furthest = id.1.max(*furthest);
        }
        Ok(())
    }

    pub fn deliver(&mut self, lines: &[Line]) -> Result<(), String> {
        lines.iter().try_for_each(|line| self.arrive(line))
    }

    fn arrive(&mut self, line: &Line) -> Result<(), String> {
        let id = (line.file_id, line.offset);
        let text = String::from_utf8_lossy(&line.text).into_owned();
        self.outstanding.remove(&id);
        if !self.written.contains(&text) && !self.fragments.contains(&text) {
            return Err(format!("{text:?} never was a line"));
        }
        if let Some(before) = self.delivered.insert(id, text.clone()) {
            if before != text && !self.loose.contains(&id) {
                return Err(format!("{id:?} was {before:?} and is {text:?}"));
            }
            if !self.may_repeat.contains(&id) {
                return Err(format!("{text:?} arrived twice, {id:?}"));
            }
        }
        let before = self.ids.insert(text.clone(), id).filter(|before| *before != id);
        let before = before.filter(|_| text != STARTED && !self.fragments.contains(&text));
        match before.filter(|before| !self.unsure.contains(&before.0)) {
            Some(before) => Err(format!("{text:?} was {before:?} and is {id:?}")),
            None => Ok(()),
        }
    }

    /// Commits the checkpoints of open files, each up to the first undelivered line.
    pub fn commit(&mut self, is_open: impl Fn(OriginId) -> bool) {
        for id in self.delivered.keys().filter(|id| is_open(id.0)) {
            if self.outstanding.range((id.0, 0)..*id).next().is_none() {
                self.committed.insert(*id);
            }
        }
    }

    /// Records that the agent exited. `known` contains the number of hashed bytes by file id.
    pub fn stop(&mut self, known: &HashMap<OriginId, u64>) {
        let open = self.delivered.keys().filter(|id| !self.committed.contains(id));
        self.may_repeat.extend(open.copied());
        let is_loose = |id: &&Id| id.1 + NUMBER_BYTES > known.get(&id.0).copied().unwrap_or(0);
        self.loose.extend(self.may_repeat.iter().filter(is_loose).copied());
        let committed: HashSet<OriginId> = self.committed.iter().map(|id| id.0).collect();
        let not_committed = self.seen.iter().map(|id| id.0).filter(|id| !committed.contains(id));
        self.unsure.extend(not_committed);
        self.outstanding.clear();
        self.seen.clear();
        self.furthest.clear();
    }

    /// Checks that the missing lines of deleted files are in held files, or in files that the agent
    /// reads at its next start.
    pub fn are_kept<'a>(
        &self,
        deleted: impl Iterator<Item = &'a Content>,
        kept: impl Iterator<Item = &'a Content>,
    ) -> Result<(), String> {
        let held: HashSet<&String> = kept.flat_map(|content| &content.lines).collect();
        let mut owed =
            deleted.flat_map(|content| &content.lines).filter(|line| !self.ids.contains_key(*line));
        match owed.find(|line| !held.contains(line)) {
            Some(line) => Err(format!("{line:?} is not held at shutdown")),
            None => Ok(()),
        }
    }

    /// Checks that every readable line was delivered.
    pub fn is_complete(&self) -> Result<(), String> {
        let missing = self.written.iter().filter(|line| !self.ids.contains_key(*line));
        let mut missing: Vec<&String> =
            missing.filter(|line| !self.excused.contains(*line)).collect();
        missing.sort();
        if missing.is_empty() {
            return Ok(());
        }
        Err(format!("{} lines are missing: {missing:?}", missing.len()))
    }
}
