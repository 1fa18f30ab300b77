//! Random operations on a journal and the agent: every entry is delivered, in order of its number,
//! under one id.

use super::*;
use fastrand::Rng;
use millstream_testkit_random::{Seed, TestSize};
use std::collections::BTreeMap;

/// Random histories of 40 operations.
const HISTORIES: TestSize = TestSize { gate: 60, long: 5_000 };

/// journald, with one file for the system and one for a user.
struct Journald {
    host: Host,
    /// The current files, and the number of entries in each.
    files: [(JournalWriter, u64); 2],
    next_file: u8,
    next: u64,
}

const NAMES: [&str; 2] = ["system", "user-1000"];

impl Journald {
    fn new() -> Journald {
        let files = [1, 2].map(|file| (JournalWriter::begin(file, 9), 0));
        Journald { host: Host::new(), files, next_file: 3, next: 1 }
    }

    fn path(&self, index: usize) -> PathBuf {
        self.host.disk(&format!("{}.journal", NAMES[index]))
    }

    fn append(&mut self, random: &mut Rng) {
        for _ in 0..random.usize(1..40) {
            let index = random.usize(..2);
            add(&mut self.files[index].0, self.next);
            self.files[index].1 += 1;
            self.next += 1;
        }
        // Only the files that journald has just written are visible in full.
        for index in [1, 0] {
            self.files[index].0.write(&self.path(index));
        }
    }

    fn rotate(&mut self, index: usize) {
        if self.files[index].1 == 0 {
            return;
        }
        self.files[index].0.archive();
        self.files[index].0.write(&self.path(index));
        let archived = format!("{}@9-{}.journal", NAMES[index], self.next_file);
        fs::rename(self.path(index), self.host.disk(&archived)).unwrap();
        self.files[index] = (JournalWriter::begin(self.next_file, 9), 0);
        self.files[index].0.write(&self.path(index));
        self.next_file += 1;
    }
}

/// What the sink has received: message by id.
#[derive(Default)]
struct Received {
    by_id: BTreeMap<String, String>,
    repeated: usize,
}

impl Received {
    fn add(&mut self, all: Vec<(String, String)>) {
        for (id, text) in all {
            let number: u64 = id.rsplit('-').next().unwrap().parse().unwrap();
            assert_eq!(text, format!("e{number}"));
            self.repeated += usize::from(self.by_id.insert(id, text).is_some());
        }
    }
}

fn run(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let mut journald = Journald::new();
    let mut rig = SourceRig::new(&["out"]);
    let mut source = journald.host.open(&rig);
    let (mut received, mut crashes) = (Received::default(), 0);
    for _ in 0..40 {
        match random.usize(..10) {
            0..4 => journald.append(&mut random),
            4 => journald.rotate(random.usize(..2)),
            5 => rig.commit(),
            6 => {
                // A crash loses what was not committed.
                crashes += 1;
                rig = rig.restart();
                source = journald.host.open(&rig);
            }
            7 => {
                rig.commit();
                rig = rig.restart();
                source = journald.host.open(&rig);
            }
            _ => {
                let mut last = 0;
                for (id, text) in events(&mut rig, &mut *source) {
                    let number: u64 = id.rsplit('-').next().unwrap().parse().unwrap();
                    assert!(number > last, "{number} after {last}");
                    last = number;
                    received.add(vec![(id, text)]);
                }
                rig.advance(Duration::from_secs(random.u64(..40)));
            }
        }
    }
    rig.advance(Duration::from_secs(40));
    received.add(events(&mut rig, &mut *source));
    assert_eq!(received.by_id.len() as u64, journald.next - 1, "every entry has arrived");
    assert!(crashes > 0 || received.repeated == 0, "{} repeated", received.repeated);
    assert_eq!(rig.counters.snapshot().dropped_events, [].into());
}

#[test]
fn every_entry_is_delivered_under_one_id() {
    for seed in Seed::of_test().cases(HISTORIES) {
        run(seed);
    }
}
