//! Measures the detection of secrets in a web log: one pass over a block for all detectors, and a
//! detailed check of candidate lines.

use crate::measure::{Samples, progress};
use crate::report::{Report, Table};
use crate::scan::ns_per_item;
use crate::weblog::WebLog;
use millstream_detect::{Candidate, Detector, Detectors, Hit};
use std::hint::black_box;
use std::io;

/// Bytes of log text in a block, which fits into the L2 cache like a block that was just read.
const TEXT_BYTES: usize = 512 << 10;
const REPETITIONS: usize = 11;

/// Detectors that are on by default.
const DEFAULT: &[Detector] = &[Detector::Card, Detector::Email, Detector::Token, Detector::Key];

/// Number of lines per inserted secret, in the text with secrets.
const PLANTED_ONE_IN: usize = 100;
const PLANTED: &str = " user=alice@example.com password=hunter2";

/// Measures and reports the detectors.
pub fn run(report: &mut Report) -> io::Result<()> {
    let mut clean = Vec::new();
    WebLog::new(2).write(TEXT_BYTES, &mut clean)?;
    let planted = plant(&clean);
    let mut table = Table::new(
        "redact",
        "Search for secrets: GB/s",
        &["detectors", "one pass", "no secrets", "one line in 100", "lines looked at"],
    );
    let mut sets: Vec<(&str, Vec<Detector>)> = vec![("default", DEFAULT.to_vec())];
    sets.extend(Detector::ALL.iter().map(|detector| (detector.name(), vec![*detector])));
    sets.push(("all", Detector::ALL.to_vec()));
    for (name, set) in sets {
        progress(&format!("redact: {name}"));
        let detectors = Detectors::new(&set, Vec::new());
        let pass = gb_per_second(&clean, |text, search| {
            detectors.candidates(text, &mut search.candidates)
        });
        let whole =
            |text: &[u8]| gb_per_second(text, |text, search| search.lines(&detectors, text));
        let mut search = Search::default();
        search.lines(&detectors, &clean);
        let lines = clean.iter().filter(|byte| **byte == b'\n').count();
        let share = format!("{:.1}%", search.looked_at as f64 * 100.0 / lines as f64);
        let speeds = [pass, whole(&clean), whole(&planted)].map(|speed| format!("{speed:.2}"));
        table.row([vec![name.to_owned()], speeds.to_vec(), vec![share]].concat());
    }
    table.note(
        "Target: the default detectors at 1 GB/s or more over lines without secrets.".to_owned(),
    );
    report.add(table)
}

/// Returns the lines of `text`, some of them with a secret.
fn plant(text: &[u8]) -> Vec<u8> {
    let mut planted = Vec::new();
    for (index, line) in
        text.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty())
    {
        planted.extend_from_slice(line);
        if index % PLANTED_ONE_IN == 0 {
            planted.extend_from_slice(PLANTED.as_bytes());
        }
        planted.push(b'\n');
    }
    planted
}

#[derive(Default)]
struct Search {
    candidates: Vec<Candidate>,
    hits: Vec<Hit>,
    /// Number of lines with a candidate.
    looked_at: usize,
}

impl Search {
    /// Runs one pass over the text, and checks each line with a candidate.
    fn lines(&mut self, detectors: &Detectors, text: &[u8]) {
        self.looked_at = 0;
        detectors.candidates(text, &mut self.candidates);
        let mut done = 0;
        for index in 0..self.candidates.len() {
            let at = self.candidates[index].at as usize;
            if at < done {
                continue;
            }
            let begin = memchr::memrchr(b'\n', &text[..at]).map_or(0, |newline| newline + 1);
            done = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |newline| at + newline);
            let within = self.candidates[index..]
                .iter()
                .take_while(|candidate| (candidate.at as usize) < done);
            let mask = within.fold(0, |mask, candidate| mask | candidate.mask);
            detectors.find(&text[begin..done], mask, &mut self.hits);
            self.looked_at += 1;
        }
    }
}

fn gb_per_second(text: &[u8], mut pass: impl FnMut(&[u8], &mut Search)) -> f64 {
    let (mut samples, mut search) = (Samples::default(), Search::default());
    for _ in 0..REPETITIONS {
        samples.push(ns_per_item(text.len(), || {
            search.candidates.clear();
            search.hits.clear();
            pass(black_box(text), &mut search);
            black_box(&mut search);
        }));
    }
    1.0 / samples.median()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_planted_is_found_and_nothing_else() {
        let (mut text, mut search) = (Vec::new(), Search::default());
        WebLog::new(3).write(100_000, &mut text).expect("to memory");
        let detectors = Detectors::new(DEFAULT, Vec::new());
        search.lines(&detectors, &text);
        assert!(search.hits.is_empty());
        search = Search::default();
        let planted = plant(&text);
        search.lines(&detectors, &planted);
        let count = memchr::memmem::find_iter(&planted, PLANTED).count();
        assert_eq!((search.looked_at, search.hits.len()), (count, 2 * count));
    }
}
