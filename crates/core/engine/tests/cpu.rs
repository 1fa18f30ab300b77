//! The CPU limit. It applies to the process, so this file has a single test.

use crate::common::{busy, start};
use millstream_engine::Pace;
use std::time::{Duration, Instant};

/// Returns the CPU time of the process, in seconds.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_busy_agent_uses_its_allowed_cores_and_stops_promptly() {
    let folder = tempfile::tempdir().unwrap();
    let sources = vec![busy("app", Duration::from_millis(1), 100, Pace::default())];
    let (running, endpoint) = start(sources, Some(0.2), false, folder.path());
    let cpu = cpu_seconds();
    let begun = Instant::now();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let cores = (cpu_seconds() - cpu) / begun.elapsed().as_secs_f64();
    assert!((0.1..0.3).contains(&cores), "{cores} cores");
    let waited = running.snapshot().components[0].counters.wait_seconds["cpu"];
    assert!(waited > 1.0, "{waited} s");
    let begun = Instant::now();
    let stopped = running.stop(Duration::from_secs(30)).await;
    assert!(stopped.drained && begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(
        endpoint.lines().len() as u64,
        stopped.snapshot.components[0].counters.received_events
    );
}
