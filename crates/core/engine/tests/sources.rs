//! Rate limits of sources, and the origins in a snapshot.

use crate::common::{busy, start, wait_until};
use millstream_engine::{Pace, SourcePart};
use millstream_model::SourceInfo;
use millstream_testkit::MemoryLog;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_rate_limit_slows_a_source_and_drops_nothing() {
    const RATE: u64 = 400_000;
    const LINE: usize = 10_000;
    let folder = tempfile::tempdir().unwrap();
    let pace = Pace { rate_limit: Some(RATE), ..Pace::default() };
    let begun = Instant::now();
    let (running, endpoint) =
        start(vec![busy("app", Duration::ZERO, LINE, pace)], None, false, folder.path());
    tokio::time::sleep(Duration::from_secs(2)).await;
    // The source may start late.
    let bytes = || running.snapshot().components[0].counters.received_bytes;
    wait_until(|| bytes() >= RATE + 10 * LINE as u64).await;
    let stopped = running.stop(Duration::from_secs(30)).await;
    let counters = &stopped.snapshot.components[0].counters;
    let most = RATE as f64 * (begun.elapsed().as_secs_f64() + 1.0) + 2.0 * LINE as f64;
    assert!(counters.received_bytes >= RATE, "{}", counters.received_bytes);
    assert!((counters.received_bytes as f64) < most, "{} of {most}", counters.received_bytes);
    assert!(counters.wait_seconds["rate_limit"] > 0.1, "{:?}", counters.wait_seconds);
    assert_eq!(endpoint.lines().len() as u64, counters.received_events);
    assert_eq!(stopped.snapshot.dropped_events(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_snapshot_reports_the_position_of_each_origin() {
    let folder = tempfile::tempdir().unwrap();
    let log = MemoryLog::new(2, 1000, &[]);
    let sizes: Vec<u64> = log.origins.iter().map(|text| text.len() as u64).collect();
    let info = SourceInfo { id: "log".to_owned(), ..SourceInfo::default() };
    let open = Box::new(move |open: millstream_model::SourceOpen| {
        open.unreadable.note("/var/log/none", "matches no file");
        Ok(log.open(&open, 1))
    });
    let source =
        SourcePart { info, type_name: "memory", pace: Pace::default(), queue_bytes: 0, open };
    let (running, _) = start(vec![source], None, true, folder.path());
    running.finished(Duration::from_secs(60)).await;
    let source = running.snapshot().components.remove(0);
    let mut files = source.files;
    files.sort_by(|one, other| one.name.cmp(&other.name));
    assert_eq!(files.iter().map(|file| file.size).collect::<Vec<_>>(), sizes);
    for file in &files {
        assert_eq!((file.position, file.lag_bytes), (file.size, 0));
        assert_eq!(file.checkpoints, BTreeMap::from([("out".to_owned(), file.size)]));
        assert_eq!((file.status, file.log_delay_seconds), ("active", None));
    }
    assert_eq!((files.len(), files[1].file_id.as_str()), (2, "0000000000000002"));
    assert_eq!(source.sinks[0].lag_seconds, 0.0);
    assert_eq!(
        source.unreadable,
        BTreeMap::from([("/var/log/none".into(), "matches no file".into())])
    );
    running.stop(Duration::from_secs(30)).await;
}
