//! Tests that `diagnose` names the causes of late data that are injected into agents, and no
//! others.

use crate::support::millstream;
use millstream_testkit_random::{Seed, TestSize};
use millstream_testkit_servers::causes::{Matrix, VERDICT};

/// Number of runs of each single cause.
const SINGLES: TestSize = TestSize { gate: 1, long: 10 };

/// Number of runs with two causes.
const PAIRS: TestSize = TestSize { gate: 2, long: 150 };

/// Number of runs without a cause.
const HEALTHY: TestSize = TestSize { gate: 4, long: 560 };

/// Runs a part of `millstream-bench diagnose`. `DIAGNOSE_ONLY=NAME` runs a single cause.
#[test]
fn planted_causes_are_named_and_healthy_agents_are_not_accused() {
    let seed = Seed::of_test_or(26);
    let only = std::env::var("DIAGNOSE_ONLY").ok();
    let counts = (SINGLES.get(), PAIRS.get(), HEALTHY.get());
    let matrix = Matrix::play(&millstream(), seed.value(), counts, only.as_deref());
    seed.count(matrix.runs.len() as u64);
    for run in matrix.wrong().into_iter().chain(matrix.false_alarms()) {
        eprintln!("{}: expected {:?}, named {:?}", run.what, run.expected, run.named);
        eprintln!("seed {}, {:?} s: {}", run.seed, run.seconds, run.report);
    }
    let refused = ["endpoint_refuses", "operator_fails", "parse_failures"];
    for run in matrix.runs.iter().filter(|run| refused.contains(&&*run.what)) {
        assert!(run.report.contains("\"error\": \""), "{}: {}", run.what, run.report);
    }
    // A rate limit pauses the source for seconds, and the reads between the pauses take almost no
    // time, so the report must show a pause.
    for run in matrix.runs.iter().filter(|run| run.what == "low_rate_limit") {
        let is_paused = run.report.contains("\"held_back\":{\"limit\":\"rate_limit\"");
        assert!(is_paused, "{}", run.report);
    }
    let (f1, first) = (matrix.macro_f1(), matrix.first_right());
    eprintln!("F1 {f1:.3}, first {first:.3}, at most {:.0} s", matrix.seconds_max());
    assert!(matrix.false_alarms().is_empty(), "a healthy agent was accused");
    assert!(f1 >= 0.95, "macro F1 {f1:.3}: {:?}", matrix.figures());
    assert!(first >= 0.9, "the first cause is right in {first:.3}");
    assert!(matrix.seconds_max() <= VERDICT.as_secs_f64());
}
