//! Tests that other pipelines keep their rate while an operator has a fault.
//!
//! Each pipeline has a separate source, since a source that feeds several pipelines waits for the
//! slowest. A writer appends to all files at a fixed rate, and the test compares the lines in the
//! sinks with the lines written in the same time.

use super::{PATIENCE, SetOnDrop, faulty, noted, settings};
use crate::support::java::{built, homes};
use crate::support::{Agent, folder, wait_until};
use parking_lot::Mutex;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Length of `bad 00000001` or `good00000001` in bytes, including the newline.
const LINE_BYTES: usize = 13;

/// Lines per second in each file.
const LINES_PER_S: usize = 20_000;

const INTERVAL: Duration = Duration::from_millis(100);

/// Number of intervals of a measurement.
const INTERVALS: usize = 50;

/// Number of intervals over which a rate is computed.
const RATE_INTERVALS: usize = 20;

/// Maximum number of intervals that a line may take to arrive at the end.
const DELAY_INTERVALS: usize = 10;

/// Minimum share of the written lines that must arrive.
const LEAST: f64 = 0.95;

/// Returns a configuration with three pipelines: with the faulty operator, with another operator,
/// and without an operator.
fn config(home: &Path, fault: &str) -> String {
    let op = faulty(fault, "timeouts: { event: 60s, batch: 60s }");
    settings(home)
        + &format!(
            "sources:\n  \
               app: {{ type: file, include: ['DIR/app.log'] }}\n  \
               good: {{ type: file, include: ['DIR/good.log'] }}\n  \
               plain: {{ type: file, include: ['DIR/plain.log'] }}\n\
             transforms:\n  op: {op}\n  \
               sound: {{ type: jvm, inputs: [good], language: groovy, script: 'row.message = row.message.toUpperCase()' }}\n\
             sinks:\n  \
               out: {{ type: file, inputs: [op], path: DIR/out.txt, encoding: {{ codec: text }} }}\n  \
               sound_out: {{ type: file, inputs: [sound], path: DIR/sound.txt, encoding: {{ codec: text }} }}\n  \
               plain_out: {{ type: file, inputs: [plain], path: DIR/plain.txt, encoding: {{ codec: text }} }}\n"
        )
}

/// Appends lines to the three files at the rate until `stops` is set, and updates their number in
/// `written`.
fn write_lines(dir: &Path, written: &AtomicUsize, stops: &AtomicBool) {
    let create = |name: &str| File::create(dir.join(name)).unwrap();
    let mut files = [("bad ", "app.log"), ("good", "good.log"), ("good", "plain.log")]
        .map(|(word, name)| (word, create(name)));
    let begun = Instant::now();
    let mut count = 0;
    while !stops.load(Ordering::Relaxed) {
        let due = (begun.elapsed().as_secs_f64() * LINES_PER_S as f64) as usize;
        for (word, file) in &mut files {
            let text: String = (count..due).map(|n| format!("{word}{n:08}\n")).collect();
            file.write_all(text.as_bytes()).unwrap();
        }
        count = due;
        written.store(count, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the number of lines in a file.
fn lines(path: &Path) -> usize {
    fs::metadata(path).map_or(0, |metadata| metadata.len() as usize / LINE_BYTES)
}

/// Number of lines written and delivered up to one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    written: usize,
    delivered: usize,
}

/// Takes samples of the sinks for the whole measurement.
fn measure(dir: &Path, sinks: &[&str], written: &AtomicUsize) -> Vec<Vec<Sample>> {
    let mut samples = vec![Vec::new(); sinks.len()];
    for _ in 0..=INTERVALS {
        let written = written.load(Ordering::Relaxed);
        for (name, of) in sinks.iter().zip(&mut samples) {
            of.push(Sample { written, delivered: lines(&dir.join(name)) });
        }
        std::thread::sleep(INTERVAL);
    }
    samples
}

/// Checks that enough lines have arrived by the end of the measurement, and that the median of the
/// rates over all spans is high enough. A short stall of the host does not change the median.
fn assert_keeps_its_rate(samples: &[Sample]) {
    let rate = |span: &[Sample]| {
        let (first, last) = (span[0], span[RATE_INTERVALS]);
        let written = (last.written - first.written) as f64;
        (last.delivered - first.delivered) as f64 / written
    };
    let mut rates: Vec<f64> = samples.windows(RATE_INTERVALS + 1).map(rate).collect();
    rates.sort_by(f64::total_cmp);
    let median = rates[rates.len() / 2];
    eprintln!("rates: least {:.3}, median {median:.3}", rates[0]);
    assert!(median >= LEAST, "{median} of the rate: {samples:?}");
    let (first, last) = (samples[0], samples[INTERVALS]);
    let due = (samples[INTERVALS - DELAY_INTERVALS].written - first.written) as f64;
    let delivered = (last.delivered - first.delivered) as f64;
    assert!(delivered >= LEAST * due, "{delivered} of {due}: {samples:?}");
}

/// Checks the rate at `sinks` while an operator has a fault. `evidence` must grow while the fault
/// acts.
fn others_keep_their_rate(fault: &str, sinks: &[&str], evidence: impl Fn(&Agent, &Path) -> f64) {
    // Runs one measurement at a time, because each keeps all processors busy.
    static MEASURING: Mutex<()> = Mutex::new(());
    let _measuring = MEASURING.lock();
    built();
    let home = homes().pop().unwrap();
    let dir = folder();
    let (written, stops) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut agent = Agent::start(dir.path(), &config(&home, fault), &[]);
    wait_until("it is ready", PATIENCE, || agent.get("/ready").is_some());
    let evidence = || evidence(&agent, dir.path());
    std::thread::scope(|scope| {
        let stop = SetOnDrop(&stops);
        scope.spawn(|| write_lines(dir.path(), &written, &stops));
        let flows = |name: &str| lines(&dir.path().join(name)) > 0;
        wait_until("lines arrive", PATIENCE, || flows("plain.txt") && flows("sound.txt"));
        wait_until("the fault acts", PATIENCE, || evidence() > 0.0);
        let before = evidence();
        let samples = measure(dir.path(), sinks, &written);
        let after = evidence();
        drop(stop);
        assert!(after > before, "{before}, {after}: {}", agent.log());
        samples.iter().for_each(|of| assert_keeps_its_rate(of));
    });
    assert!(!agent.poll_ended(), "{}", agent.log());
}

#[test]
fn pipelines_beside_an_operator_that_hangs_keep_their_rate() {
    others_keep_their_rate("loop", &["plain.txt", "sound.txt"], |agent, dir| {
        match lines(&dir.join("out.txt")) {
            0 => agent.single("millstream_process_cpu_seconds_total").unwrap(),
            _ => 0.0,
        }
    });
}

#[test]
fn pipelines_beside_an_operator_that_uses_up_the_memory_keep_their_rate() {
    // The other operator is not checked, because it shares the heap and waits for its garbage
    // collections.
    others_keep_their_rate("allocation", &["plain.txt"], |agent, _| {
        agent.single("millstream_jvm_collections_total").unwrap_or_default()
    });
}

#[test]
fn pipelines_beside_an_operator_that_always_fails_keep_their_rate() {
    others_keep_their_rate("exception", &["plain.txt", "sound.txt"], |agent, _| {
        agent.metric(&noted("exception")).unwrap_or_default()
    });
}
