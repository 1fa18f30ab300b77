//! Tests of the source through its trait. They control time, sinks and the store.

mod copy_detection;
mod cursors;
mod discovery;
mod finished;
mod framed;
mod headers;
mod hostile;
mod incomplete_copies;
mod model;
mod open_files;
mod options;
mod retention;
mod rotations;

use super::FileSource;
use millstream_model::{Batch, OriginId, Permit, Polled};
use millstream_testkit::{SourceRig, assert_valid};
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Longer than any pause between two steps of the source.
const STEP: Duration = Duration::from_millis(200);

/// An emitted line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    pub file_id: OriginId,
    pub offset: u64,
    pub text: Vec<u8>,
}

/// A folder, and a source that reads every `*.log*` in it.
pub struct Fixture {
    pub dir: TempDir,
    pub rig: SourceRig,
    pub source: FileSource,
    options: Value,
}

impl Fixture {
    /// Creates a source with these options, before its first poll. `include` is one pattern in the
    /// folder, by default `*.log*`.
    pub fn new(mut options: Value, sinks: &[&str]) -> Fixture {
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }
            .unwrap();
        let include = options.get("include").and_then(Value::as_str).unwrap_or("*.log*");
        options["include"] = json!([dir.path().join(include)]);
        let rig = SourceRig::new(sinks);
        let source = open(&options, &rig);
        Fixture { dir, rig, source, options }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Appends to a file; creates the file if it is missing.
    pub fn append(&self, name: &str, text: impl AsRef<[u8]>) -> File {
        let mut file = OpenOptions::new().create(true).append(true).open(self.path(name)).unwrap();
        file.write_all(text.as_ref()).unwrap();
        file
    }

    /// Renames `name` to `to`.
    pub fn rename(&self, name: &str, to: &str) {
        fs::rename(self.path(name), self.path(to)).unwrap();
    }

    pub fn poll(&mut self) -> Polled {
        let polled = self.rig.poll(&mut self.source);
        self.source.settle_copies();
        if let Polled::Batch(batch, _) = &polled {
            assert_valid(batch);
        }
        polled
    }

    /// Returns the next batch; advances the time until there is one.
    pub fn next(&mut self) -> (Batch, Permit) {
        for _ in 0..100 {
            if let Polled::Batch(batch, permit) = self.poll() {
                return (*batch, permit);
            }
            self.rig.advance(STEP);
        }
        panic!("no batch in {:?}", STEP * 100);
    }

    /// Returns all batches until three polls return none.
    pub fn batches(&mut self) -> Vec<Batch> {
        let (mut batches, mut silent) = (Vec::new(), 0);
        while silent < 3 {
            match self.poll() {
                Polled::Batch(batch, _) => {
                    batches.push(*batch);
                    silent = 0;
                }
                _ => {
                    silent += 1;
                    self.rig.advance(STEP);
                }
            }
        }
        batches
    }

    /// Returns all lines, and delivers them to every sink.
    pub fn read(&mut self) -> Vec<Line> {
        let batches = self.batches();
        batches.iter().for_each(deliver);
        batches.iter().flat_map(lines).collect()
    }

    /// Returns all lines as strings, and delivers them to every sink.
    pub fn read_texts(&mut self) -> Vec<String> {
        texts(&self.read())
    }

    /// Restarts the agent after a crash, optionally with an earlier commit of the checkpoints.
    pub fn restart(&mut self, commit: bool) {
        if commit {
            self.rig.commit();
        }
        self.rig = self.rig.restart();
        self.source = open(&self.options, &self.rig);
    }

    /// Returns the number of events that were dropped for this reason.
    pub fn dropped(&self, reason: &str) -> u64 {
        self.rig.counters.snapshot().dropped_events.get(reason).copied().unwrap_or(0)
    }
}

fn open(options: &Value, rig: &SourceRig) -> FileSource {
    FileSource::open(options::settings(options), rig.open()).unwrap()
}

/// Makes the source end at the end of its files, as `--until-eof` does.
pub fn end(fixture: &mut Fixture) {
    fixture.rig.until_eof = true;
    fixture.rig.advance(super::schedule::QUIET_POLL);
}

/// Delivers a batch to all its sinks.
pub fn deliver(batch: &Batch) {
    batch.segments.iter().for_each(|segment| segment.ack.finish());
}

/// Returns the selected lines of a batch.
pub fn lines(batch: &Batch) -> Vec<Line> {
    let mut lines = Vec::new();
    for segment in batch.segments.iter() {
        for row in (segment.first_row..segment.first_row + segment.rows)
            .filter(|row| batch.is_selected(*row))
        {
            let (file_id, offset) = (segment.origin.id, batch.offset(segment, row));
            lines.push(Line { file_id, offset, text: batch.text(row).to_vec() });
        }
    }
    lines
}

pub fn texts(lines: &[Line]) -> Vec<String> {
    lines.iter().map(|line| String::from_utf8_lossy(&line.text).into_owned()).collect()
}

/// Returns the selected lines of a batch as strings.
pub fn texts_of(batch: &Batch) -> Vec<String> {
    texts(&lines(batch))
}
