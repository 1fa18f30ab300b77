//! Runs every target on its corpus and on mutations of it, with a fixed seed in the gate.

use millstream_fuzz::{Mutator, TARGETS, Target, corpus, try_input};
use millstream_testkit_random::{Seed, TestSize};

/// Number of mutations for each target.
const CASES: TestSize = TestSize { gate: 400, long: 200_000 };

/// Maximum bytes of all corpora, which are kept with the code.
const CORPORA_BYTES_MAX: usize = 400_000;

fn play(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let files = corpus(target).unwrap();
    assert!(files.len() >= 10, "{} files are few", files.len());
    files.iter().for_each(|(file, input)| holds(target, file, input));
    let entries: Vec<Vec<u8>> = files.into_iter().map(|(_, input)| input).collect();
    let seed = Seed::of_test_or(17);
    let mut mutator = Mutator::new(&entries, target.words, seed.value());
    for case in 0..CASES.get() {
        seed.count(1);
        holds(target, &format!("case {case}"), &mutator.input());
    }
}

fn holds(target: &Target, what: &str, input: &[u8]) {
    if let Err(crash) = try_input(target, input) {
        panic!("{}, {what}: {crash}\ninput: {:?}", target.name, String::from_utf8_lossy(input));
    }
}

macro_rules! play {
    ($($name:ident)*) => {
        const PLAYED: &[&str] = &[$(stringify!($name)),*];
        $(#[test] fn $name() { play(stringify!($name)); })*
    };
}

play! {
    access bulk_answer cef config cri delimited detect docker dogstatsd encodings expressions files framing grok groups jfr journal json key_value leef metric_tags metrics_msgpack metricserver
    nginx profiles recorder regex requests rules scan spool syslog syslog_framing timestamps windows
}

#[test]
fn every_target_is_played() {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names, PLAYED);
}

#[test]
fn corpora_are_small() {
    let bytes =
        TARGETS.iter().flat_map(|target| corpus(target).unwrap()).map(|(_, input)| input.len());
    let bytes: usize = bytes.sum();
    assert!(bytes <= CORPORA_BYTES_MAX, "{bytes} bytes");
}

#[test]
fn a_target_that_fails_is_told() {
    let target =
        Target { name: "x", run: |input| assert!(!input.contains(&b'!'), "a mark"), words: &[] };
    assert!(try_input(&target, b"abc").is_ok());
    assert!(try_input(&target, b"ab!c").unwrap_err().contains("a mark"));
}

#[test]
fn changes_depend_on_the_seed_alone() {
    let entries = [b"one entry".to_vec(), b"another".to_vec()];
    let inputs = |seed| {
        let mut mutator = Mutator::new(&entries, &[b"word"], seed);
        (0..50).map(|_| mutator.input()).collect::<Vec<_>>()
    };
    assert_eq!(inputs(1), inputs(1));
    assert_ne!(inputs(1), inputs(2));
}
