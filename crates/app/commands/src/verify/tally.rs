//! Compares delivered events with written lines.

use super::lines::Lines;
use crate::random::Random;
use crate::text::escaped;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Maximum number of lines to show for each kind of error.
pub const SAMPLES_MAX: u64 = 5;

/// Maximum number of bytes to show from a line.
const SAMPLE_BYTES_MAX: usize = 160;

/// The used parts of a delivered event.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    message: Cow<'a, str>,
    #[serde(borrow)]
    meta: Meta<'a>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow)]
    file: Cow<'a, str>,
    offset: u64,
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    file_id: Cow<'a, str>,
}

/// The outcome of all lines.
pub struct Tally {
    lines: Arc<Lines>,
    /// Number of lines per writer.
    written: Vec<u64>,
    /// For each writer and line, a hash of the first id with which it arrived; 0 if it has not
    /// arrived. A line takes eight bytes, so that long runs fit in memory.
    ids: Vec<Vec<u64>>,
    /// Hashes of ids that may identify two lines.
    suspects: HashSet<u64>,
    /// Hashes of the additional ids with which lines arrived again.
    other_ids: HashSet<u64>,
    /// For each writer, the lines whose loss is unavoidable.
    at_risk: Vec<Vec<Range<u64>>>,
    /// Number of distinct lines at risk that have arrived.
    found_at_risk: u64,
    /// Lines to hide, to test that the loss is detected.
    hidden: HashSet<(usize, u64)>,
    /// Offset of the last line that arrived for the first time, by file.
    last: HashMap<String, u64>,
    made: Vec<u8>,
    /// Number of distinct lines that have arrived.
    pub found: u64,
    /// Number of events.
    pub events: u64,
    /// Total size of the events in bytes.
    pub bytes: u64,
    /// Number of lines that arrived again with a known id.
    pub repeated: u64,
    /// Number of lines that arrived again with a new id.
    pub repeated_anew: u64,
    /// Number of events that are not a written line.
    pub torn: u64,
    /// Number of lines that arrived after a later line of their file.
    pub out_of_order: u64,
    /// The first few torn, out-of-order or repeated lines.
    pub samples: Vec<String>,
}

impl Tally {
    /// Creates the tally of writers that have each written this many lines.
    pub fn new(lines: Arc<Lines>, written: Vec<u64>) -> Tally {
        let ids = written.iter().map(|count| vec![0; *count as usize]).collect();
        Tally {
            lines,
            ids,
            at_risk: vec![Vec::new(); written.len()],
            found_at_risk: 0,
            written,
            suspects: HashSet::new(),
            other_ids: HashSet::new(),
            hidden: HashSet::new(),
            last: HashMap::new(),
            made: Vec::new(),
            found: 0,
            events: 0,
            bytes: 0,
            repeated: 0,
            repeated_anew: 0,
            torn: 0,
            out_of_order: 0,
            samples: Vec::new(),
        }
    }

    /// Excuses lines of a writer before any line arrives: missing excused lines are not treated as
    /// lost. The ranges of a writer must be passed in ascending order.
    pub fn excuse(&mut self, writer: usize, lines: Range<u64>) {
        self.at_risk[writer].push(lines);
    }

    /// Hides `count` lines that are not excused.
    pub fn hide(&mut self, count: u64, random: &mut Random) {
        let count = count.min(self.written() - self.at_risk());
        while (self.hidden.len() as u64) < count {
            let writer = random.below(self.written.len() as u64) as usize;
            if self.written[writer] > 0 {
                let number = random.below(self.written[writer]);
                if !self.is_at_risk(writer, number) {
                    self.hidden.insert((writer, number));
                }
            }
        }
    }

    fn is_at_risk(&self, writer: usize, number: u64) -> bool {
        let ranges = &self.at_risk[writer];
        let index = ranges.partition_point(|lines| lines.end <= number);
        ranges.get(index).is_some_and(|lines| lines.contains(&number))
    }

    fn at_risk(&self) -> u64 {
        self.at_risk.iter().flatten().map(|lines| lines.end - lines.start).sum()
    }

    /// Returns the number of written lines.
    pub fn written(&self) -> u64 {
        self.written.iter().sum()
    }

    /// Returns whether every line has arrived, except for hidden and excused lines.
    pub fn is_complete(&self) -> bool {
        self.lost() == self.hidden.len() as u64
    }

    /// Returns the number of undelivered lines that the agent could have kept.
    pub fn lost(&self) -> u64 {
        (self.written() - self.at_risk()) - (self.found - self.found_at_risk)
    }

    /// Returns the number of undelivered lines that the agent could not keep.
    pub fn not_kept(&self) -> u64 {
        self.at_risk() - self.found_at_risk
    }

    /// Returns the number of undelivered lines in a range.
    pub fn missing_of(&self, writer: usize, lines: &Range<u64>) -> u64 {
        let ids = &self.ids[writer][lines.start as usize..lines.end as usize];
        ids.iter().filter(|id| **id == 0).count() as u64
    }

    /// Returns the number of lines that share an id with another line, which deduplication would
    /// lose.
    pub fn shadowed(&self) -> u64 {
        let suspects = || self.ids.iter().flatten().filter(|id| self.suspects.contains(id));
        let different: HashSet<&u64> = suspects().collect();
        (suspects().count() - different.len()) as u64
    }

    /// Returns the writer and number of each lost line.
    pub fn missing(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let of_writer = |(writer, ids): (usize, &'_ Vec<u64>)| {
            let missing = ids.iter().enumerate().filter(|(_, id)| **id == 0);
            missing.map(move |(number, _)| (writer, number as u64)).collect::<Vec<_>>()
        };
        let missing = self.ids.iter().enumerate().flat_map(of_writer);
        missing.filter(|(writer, number)| !self.is_at_risk(*writer, *number))
    }

    /// Counts one delivered event.
    pub fn count(&mut self, event: &[u8]) {
        let Ok(parsed) = serde_json::from_slice::<Event>(event) else {
            return self.tear(&String::from_utf8_lossy(event), "no JSON event");
        };
        let mut made = std::mem::take(&mut self.made);
        let found = self.lines.find(parsed.message.as_bytes(), &mut made);
        self.made = made;
        let found =
            found.filter(|(writer, number)| self.written.get(*writer).is_some_and(|n| number < n));
        match found {
            Some(line) if self.hidden.contains(&line) => return,
            Some((writer, number)) => self.arrive(writer, number, &parsed.meta),
            None => self.tear(&parsed.message, &place(&parsed.meta)),
        }
        self.events += 1;
        self.bytes += event.len() as u64;
    }

    fn tear(&mut self, text: &str, place: &str) {
        self.torn += 1;
        self.sample(self.torn, || format!("torn: {place}: {}", escaped(text, SAMPLE_BYTES_MAX)));
    }

    fn arrive(&mut self, writer: usize, number: u64, meta: &Meta<'_>) {
        // 0 means not delivered.
        let hash = xxh3_64(meta.id.as_bytes()) | 1;
        let known = self.ids[writer][number as usize];
        if known == 0 {
            self.ids[writer][number as usize] = hash;
            self.found += 1;
            self.found_at_risk += u64::from(self.is_at_risk(writer, number));
            return self.order(meta, hash);
        }
        if known == hash || !self.other_ids.insert(hash) {
            self.repeated += 1;
            return;
        }
        self.repeated_anew += 1;
        self.sample(self.repeated_anew, || {
            format!("under another id: w{writer:02} {number:010}, {}", place(meta))
        });
    }

    /// Checks that a file's lines first arrive in offset order.
    fn order(&mut self, meta: &Meta<'_>, hash: u64) {
        let Some(last) = self.last.get_mut(&*meta.file_id) else {
            self.last.insert(meta.file_id.clone().into_owned(), meta.offset);
            return;
        };
        let before = *last;
        *last = before.max(meta.offset);
        if meta.offset <= before {
            self.out_of_order += 1;
            // A reused id can occur only at a lower offset of its file.
            self.suspects.insert(hash);
            self.sample(self.out_of_order, || {
                format!("out of order: {} arrived after offset {before}", place(meta))
            });
        }
    }

    /// Keeps the first few samples of an anomaly.
    fn sample(&mut self, count: u64, text: impl FnOnce() -> String) {
        if count <= SAMPLES_MAX {
            self.samples.push(text());
        }
    }
}

fn place(meta: &Meta<'_>) -> String {
    format!("{} offset {} id {}", meta.file, meta.offset, meta.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(lines: &Lines, writer: usize, number: u64, id: &str, offset: u64) -> Vec<u8> {
        let mut text = Vec::new();
        lines.append(writer, number, &mut text);
        let meta = serde_json::json!({ "file": "f", "offset": offset, "id": id, "file_id": "F" });
        serde_json::json!({ "message": String::from_utf8(text).unwrap(), "meta": meta })
            .to_string()
            .into_bytes()
    }

    #[test]
    fn lost_repeated_torn_and_reordered_lines_are_distinguished() {
        let lines = Arc::new(Lines::new(1));
        let mut tally = Tally::new(lines.clone(), vec![4, 2]);
        let send = |tally: &mut Tally, number, id: &str, offset| {
            tally.count(&event(&lines, 0, number, id, offset))
        };
        send(&mut tally, 0, "F-0", 0);
        send(&mut tally, 1, "F-50", 50);
        send(&mut tally, 1, "F-50", 50);
        send(&mut tally, 1, "G-50", 50);
        send(&mut tally, 1, "G-50", 50);
        send(&mut tally, 3, "F-200", 200);
        send(&mut tally, 2, "F-100", 100);
        tally.count(b"{\"message\":\"w00 00000\",\"meta\":{}}");
        send(&mut tally, 4, "F-300", 300);
        assert_eq!((tally.found, tally.lost(), tally.torn), (4, 2, 2));
        assert_eq!((tally.repeated, tally.repeated_anew, tally.out_of_order), (2, 1, 1));
        assert_eq!(tally.missing().collect::<Vec<_>>(), [(1, 0), (1, 1)]);
        assert_eq!(tally.shadowed(), 0);
        tally.count(&event(&lines, 1, 0, "F-50", 50));
        assert_eq!((tally.lost(), tally.shadowed(), tally.out_of_order), (1, 1, 2));
    }

    #[test]
    fn hidden_lines_are_missing() {
        let lines = Arc::new(Lines::new(1));
        let mut tally = Tally::new(lines.clone(), vec![50]);
        tally.hide(3, &mut Random::new(1));
        (0..50)
            .for_each(|number| tally.count(&event(&lines, 0, number, &number.to_string(), number)));
        assert!(tally.is_complete() && tally.lost() == 3);
    }

    #[test]
    fn excused_lines_are_not_lost_and_never_hidden() {
        let lines = Arc::new(Lines::new(1));
        let mut tally = Tally::new(lines.clone(), vec![50, 50]);
        tally.excuse(1, 0..20);
        tally.excuse(1, 30..50);
        tally.hide(60, &mut Random::new(1));
        assert!(
            tally.is_complete() && tally.lost() == 60,
            "every line that is not excused is hidden"
        );
        let mut tally = Tally::new(lines.clone(), vec![50, 50]);
        tally.excuse(1, 0..20);
        let send = |tally: &mut Tally, writer: usize, number: u64| {
            tally.count(&event(&lines, writer, number, &format!("{writer}-{number}"), number));
        };
        (0..50).for_each(|number| send(&mut tally, 0, number));
        (15..49).for_each(|number| send(&mut tally, 1, number));
        assert!(!tally.is_complete());
        assert_eq!((tally.lost(), tally.not_kept(), tally.missing_of(1, &(10..50))), (1, 15, 6));
        assert_eq!(tally.missing().collect::<Vec<_>>(), [(1, 49)]);
        send(&mut tally, 1, 49);
        send(&mut tally, 1, 49);
        assert!(tally.is_complete() && tally.lost() == 0 && tally.not_kept() == 15);
    }
}
