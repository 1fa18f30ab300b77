//! Tests of the agent's state that sources see.

use super::*;
use millstream_config::Registry;
use millstream_engine::Snapshot;
use std::collections::BTreeSet;
use std::fs;

/// The engine's threads run slightly before the engine is set. A source that reads the agent's
/// metrics immediately still receives the metrics of all components.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn internal_metrics_have_all_components_from_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let (file, data) = (dir.path().join("c.yaml"), dir.path().join("data"));
    let text = "api: { listen: \"127.0.0.1:0\" }\nsources: { load: { type: generate, count: 1 } }\n\
                sinks: { out: { type: blackhole, inputs: [load] } }\n";
    fs::write(&file, format!("data_dir: {}\n{text}", data.display())).unwrap();
    let config = config::load(&[file], &Registry, &|_| None)
        .unwrap_or_else(|faults| panic!("{}", faults[0]));
    let store = Arc::new(Store::open(&data).unwrap());
    let recorder = &config.globals.recorder;
    let recorder = Arc::new(RecorderState::new(None, 1 << 20, recorder.all_events()));
    let options = Options { until_eof: true, progress: false };
    let api = Api::open(&config, options, &recorder).await.unwrap();
    let own = api.internal_metrics.clone();
    let first = std::thread::spawn(move || {
        let mut components = BTreeSet::new();
        own.each(|metric| {
            let ids = metric.labels.iter().filter(|(key, _)| *key == "component_id");
            components.extend(ids.map(|(_, id)| (*id).to_owned()));
        });
        components
    });
    // Long enough for the thread to query first. If the thread is slower, the test proves nothing
    // but does not fail.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let built = wiring::blueprint(&config)
        .unwrap()
        .build(&settings(&config, true, InternalMetrics::default()), store);
    let running = built.unwrap().start(&tokio::runtime::Handle::current());
    api.show(&running, &config);
    assert_eq!(first.join().unwrap().into_iter().collect::<Vec<_>>(), ["load", "out"]);
    running.stop(Duration::from_secs(30)).await;
    api.console.shutdown().await;
}

fn stopped() -> Stopped {
    Stopped {
        holders: Vec::new(),
        drained: true,
        uncommitted: None,
        left: millstream_model::Leftover::default(),
        unsettled: Unsettled::default(),
        snapshot: Snapshot::default(),
    }
}

fn timeout() -> Interval {
    Interval(Duration::from_secs(20))
}

#[test]
fn a_stop_reports_delivered_waiting_and_lost_events() {
    let mut stopped = stopped();
    assert_eq!(
        summary(&stopped),
        "delivered: 0 events; waiting on disk for the next start: nothing; lost: nothing"
    );
    assert_eq!(ending(&stopped, false, timeout()), DONE);
    stopped.left.waiting.add_file(100, 0);
    stopped.left.waiting.add_file(28, 0);
    assert_eq!(ending(&stopped, false, timeout()), DONE, "what waits on disk is no failure");
    stopped.unsettled = Unsettled { bytes: 12, records: 7 };
    assert_eq!(
        summary(&stopped),
        "delivered: 0 events; waiting on disk for the next start: 128 bytes in 2 files; lost: 7 \
         events and 12 bytes from sources that cannot be reread"
    );
    assert_eq!(ending(&stopped, false, timeout()), FAILED);
}

/// No sink has payloads to deliver if a transform or a source hangs.
#[test]
fn a_slow_stop_names_the_sinks_it_waits_for() {
    let mut stopped = stopped();
    stopped.drained = false;
    let failure = failure(&stopped, false, timeout()).unwrap();
    assert_eq!(failure, "not everything in flight was delivered within 20s");
    assert_eq!(ending(&stopped, false, timeout()), FAILED);
}

#[test]
fn events_dropped_on_error_are_not_lost() {
    let counters = millstream_model::Counters::of("parsed");
    counters.dropped_on_error("bad_json", 3);
    counters.dropped("deadline", 2);
    let mut stopped = stopped();
    stopped.snapshot.components.push(millstream_engine::ComponentSnapshot {
        id: "parsed".to_owned(),
        kind: "transform",
        counters: counters.snapshot(),
        ..Default::default()
    });
    assert_eq!(
        summary(&stopped),
        "delivered: 0 events; waiting on disk for the next start: nothing; dropped by on_error: 3 events \
         (3 bad_json (transform parsed)); lost: 2 events (2 deadline (transform parsed))"
    );
    assert_eq!(ending(&stopped, true, timeout()), DROPPED);
}
