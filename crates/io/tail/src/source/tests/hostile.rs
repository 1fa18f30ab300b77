//! A random mix of growing and renamed files, blocked and failing sinks, and restarts.

use super::*;
use fastrand::Rng;
use millstream_model::{OriginId, SinkIndex, SinkSet};
use millstream_testkit_random::{Seed, TestSize};
use std::collections::BTreeMap;

/// Number of cases, each with 200 steps.
const CASES: TestSize = TestSize { gate: 80, long: 5000 };

/// Number of active files; renamed files are in addition to these.
const FILES: u64 = 3;

/// State of the test: the lines that were written, and the lines that each sink has received.
struct World {
    fixture: Fixture,
    random: Rng,
    in_flight: Vec<Batch>,
    /// Number of the next line.
    written: u64,
    /// Texts by (file id, offset), for each sink.
    got: BTreeMap<SinkIndex, BTreeMap<(OriginId, u64), Vec<u8>>>,
    /// Number of files renamed so far.
    renamed: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let fixture = Fixture::new(json!({}), &["a", "b"]);
        World {
            fixture,
            random: Rng::with_seed(seed),
            in_flight: Vec::new(),
            written: 0,
            got: BTreeMap::new(),
            renamed: 0,
        }
    }

    /// Appends unique lines in two writes, which may split a line.
    fn write(&mut self) {
        let name = format!("{}.log", self.random.u64(..FILES));
        let mut text = String::new();
        for _ in 0..self.random.u64(..30) {
            let padding = if self.random.u64(..40) == 0 {
                self.random.u64(..100_000)
            } else {
                self.random.u64(..60)
            };
            text += &format!("{} {}\n", self.written, "x".repeat(padding as usize));
            self.written += 1;
        }
        let middle = self.random.u64(..text.len() as u64 + 1) as usize;
        self.fixture.append(&name, &text[..middle]);
        if self.random.u64(..2) == 0 {
            self.poll();
        }
        self.fixture.append(&name, &text[middle..]);
    }

    fn rename(&mut self) {
        let name = format!("{}.log", self.random.u64(..FILES));
        if self.fixture.path(&name).exists() {
            self.renamed += 1;
            let to = format!("{name}.{}", self.renamed);
            self.fixture.rename(&name, &to);
        }
    }

    fn poll(&mut self) -> bool {
        let polled = self.fixture.poll();
        let ended = matches!(polled, Polled::Ended);
        if let Polled::Batch(batch, _) = polled {
            self.in_flight.push(*batch);
        }
        ended
    }

    /// Delivers one of the batches in flight, or abandons it if it was not abandoned earlier.
    fn settle(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        let index = self.random.u64(..self.in_flight.len() as u64) as usize;
        let batch = self.in_flight.swap_remove(index);
        let lost = self.random.u64(..6) == 0 && batch.segments.iter().all(|s| s.ack.attempt() == 0);
        if !lost {
            self.arrive(&batch);
        }
    }

    fn arrive(&mut self, batch: &Batch) {
        for line in lines(batch) {
            for sink in batch.sinks.iter() {
                let got = self.got.entry(sink).or_default();
                let before = got.insert((line.file_id, line.offset), line.text.clone());
                assert!(before.is_none_or(|before| before == line.text), "one id, two texts");
            }
        }
        deliver(batch);
    }

    /// Makes the `b` sink ready, not ready, or blocked.
    fn change_sink_state(&mut self) {
        let (a, both) = (SinkSet::one(SinkIndex::new(0)), self.fixture.rig.all());
        let states = [(both, SinkSet::EMPTY), (a, SinkSet::EMPTY), (a, both - a)];
        (self.fixture.rig.ready, self.fixture.rig.blocked) = states[self.random.u64(..3) as usize];
    }

    fn restart(&mut self) {
        let commit = self.random.u64(..2) == 0;
        self.fixture.restart(commit);
        self.in_flight.clear();
    }

    fn step(&mut self) {
        match self.random.u64(..20) {
            0..5 => self.write(),
            5..11 => _ = self.poll(),
            11..15 => self.settle(),
            15 => self.change_sink_state(),
            16 => self.rename(),
            17 => self.fixture.rig.commit(),
            18 if self.random.u64(..3) == 0 => self.restart(),
            _ => self.fixture.rig.advance(STEP),
        }
    }

    /// Reads and delivers everything, and compares it with the written lines.
    fn finish(mut self, seed: u64) {
        (self.fixture.rig.ready, self.fixture.rig.blocked) =
            (self.fixture.rig.all(), SinkSet::EMPTY);
        end(&mut self.fixture);
        let mut steps = 0;
        loop {
            let ended = self.poll();
            let silent = self.in_flight.is_empty();
            for batch in std::mem::take(&mut self.in_flight) {
                self.arrive(&batch);
            }
            if ended && silent && self.fixture.rig.ledger.is_idle() {
                break;
            }
            self.fixture.rig.advance(STEP);
            steps += 1;
            assert!(steps < 10_000, "seed {seed}: the source does not end");
        }
        for sink in SinkIndex::all().take(2) {
            let number = |text: &Vec<u8>| -> u64 {
                String::from_utf8_lossy(text).split(' ').next().unwrap_or_default().parse().unwrap()
            };
            let mut numbers: Vec<u64> = self.got[&sink].values().map(number).collect();
            numbers.sort_unstable();
            let expected: Vec<u64> = (0..self.written).collect();
            assert!(
                numbers == expected,
                "seed {seed}, sink {sink:?}: {numbers:?} of {}",
                self.written
            );
        }
    }
}

/// In the end, every sink has received every line, and repeated lines have the same id.
#[test]
fn every_sink_gets_every_line_under_one_id() {
    for seed in Seed::of_test_or(0).cases(CASES) {
        let mut world = World::new(seed);
        for _ in 0..200 {
            world.step();
        }
        world.finish(seed);
    }
}
