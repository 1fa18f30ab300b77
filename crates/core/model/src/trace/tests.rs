use super::{Progress, SamplePoint, StageKind, TRACED_ROWS_MAX, Trace, TraceListener};
use crate::batch::{Batch, BatchBuilder};
use crate::side::TapSide;
use crate::tap::{TapPoint, Taps};
use crate::{EngineTime, Ledger, Origin, OriginId, Outcome, SinkIndex, SinkSet};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

fn sink() -> SinkIndex {
    SinkIndex::new(0)
}

/// Returns a batch of lines of one digit.
fn batch(rows: usize) -> Batch {
    let block: Vec<u8> = (0..rows).flat_map(|n| format!("{}\n", n % 10).into_bytes()).collect();
    let mut builder = BatchBuilder::default();
    (0..rows).for_each(|row| builder.row(&block[row * 2..row * 2 + 1], row * 2));
    let (ledger, origin) = (Ledger::new(), Arc::new(Origin::new(OriginId(1), "f")));
    ledger.open(&origin, [(sink(), 0)]);
    let ack = ledger.issue(OriginId(1), 0..9, SinkSet::one(sink()), 0, EngineTime::ZERO);
    builder.segment(origin, 0, ack);
    builder.finish(Bytes::from(block), Arc::default(), SinkSet::one(sink()), 7)
}

#[derive(Default)]
struct TraceLog {
    traces: Mutex<Vec<Arc<Trace>>>,
    bytes: Arc<AtomicUsize>,
    is_full: bool,
}

impl TraceListener for TraceLog {
    fn room(&self) -> Option<Arc<AtomicUsize>> {
        (!self.is_full).then(|| self.bytes.clone())
    }

    fn begin(&self, trace: &Arc<Trace>) {
        self.traces.lock().push(trace.clone());
    }
}

fn point(side: TapSide, id: &str, output: usize) -> SamplePoint {
    SamplePoint { side, id: id.into(), output }
}

/// A listener that traces the batches of the `app` source, with a copy of the events at `at`.
struct Followed {
    taps: Taps,
    kept: Arc<TraceLog>,
    app: Arc<TapPoint>,
}

impl Followed {
    fn new(is_full: bool) -> Followed {
        let (taps, kept) = (Taps::default(), TraceLog { is_full, ..TraceLog::default() });
        let app = taps.point(TapSide::Output, "app");
        Followed { taps, kept: Arc::new(kept), app }
    }

    fn follow(&self, at: SamplePoint) -> crate::tap::Tracing {
        let listener: Arc<dyn TraceListener> = self.kept.clone();
        self.taps.trace(&["app".to_owned()], &at, &listener)
    }

    fn issue(&self, batch: &Batch) -> Option<Arc<Trace>> {
        self.app.trace(&"app".into(), batch, 9)
    }
}

#[test]
fn batches_are_traced_while_a_tracer_listens_and_has_room() {
    let followed = Followed::new(false);
    assert!(followed.issue(&batch(3)).is_none());
    let tracing = followed.follow(point(TapSide::Output, "app", 0));
    let trace = followed.issue(&batch(3)).unwrap();
    assert_eq!((&*trace.source, trace.events, trace.read_ns, trace.begun_ns), ("app", 3, 7, 9));
    drop(tracing);
    assert!(followed.issue(&batch(3)).is_none());
    let full = Followed::new(true);
    let _tracing = full.follow(point(TapSide::Output, "app", 0));
    assert!(full.issue(&batch(3)).is_none());
}

#[test]
fn a_tracer_gets_some_twenty_batches_per_second() {
    let followed = Followed::new(false);
    let _tracing = followed.follow(point(TapSide::Output, "app", 0));
    let (begun, large) = (Instant::now(), batch(1000));
    let traced = (0..500).filter(|_| followed.issue(&large).is_some()).count();
    let most = 20.0 + (1.0 + begun.elapsed().as_secs_f64()) * 1000.0 / TRACED_ROWS_MAX as f64;
    assert!((20..=most as usize).contains(&traced), "{traced} of 500");
}

#[test]
fn the_copy_is_made_at_its_point_and_counted_until_it_is_taken() {
    let followed = Followed::new(false);
    let _tracing = followed.follow(point(TapSide::Output, "odd", 1));
    let mut passed = batch(6);
    let trace = followed.issue(&passed).unwrap();
    assert!(trace.read(Progress::sampled).is_empty(), "not at the source");
    let mut entered = trace.enter(&passed, Instant::now());
    passed.select_range(2, 4);
    entered.output("odd", 0, &passed);
    assert!(trace.read(Progress::sampled).is_empty(), "not at another output");
    entered.output("odd", 1, &passed);
    entered.leave(&"odd".into());
    assert!(followed.kept.bytes.load(Ordering::Relaxed) > 0);
    assert_eq!(trace.read(Progress::sampled).iter().collect::<Vec<_>>(), [2, 3]);
    let ended = trace.end();
    let (sample, events) = ended.sample.unwrap();
    assert_eq!(
        (sample.batch.text(0), sample.batch.text(1), events),
        (&b"2"[..], &b"3"[..], vec![2, 3])
    );
    assert_eq!(followed.kept.bytes.load(Ordering::Relaxed), 0);
    let stage = &ended.stages[0];
    assert_eq!((stage.events, stage.input.iter().count()), (6, 6));
    let left: Vec<Vec<usize>> =
        stage.outputs.iter().map(|(_, rows)| rows.iter().collect()).collect();
    assert_eq!(left, [[2, 3], [2, 3]]);
}

#[test]
fn a_sample_that_is_not_taken_is_no_longer_counted_when_the_trace_drops() {
    let followed = Followed::new(false);
    let _tracing = followed.follow(point(TapSide::Output, "app", 0));
    drop(followed.issue(&batch(3)));
    assert!(followed.kept.bytes.load(Ordering::Relaxed) > 0);
    followed.kept.traces.lock().clear();
    assert_eq!(followed.kept.bytes.load(Ordering::Relaxed), 0);
}

/// A transform may put the events into a new batch, in which they are found by their ids.
#[test]
fn events_are_found_in_a_batch_with_other_rows() {
    let followed = Followed::new(false);
    let _tracing = followed.follow(point(TapSide::Output, "app", 0));
    let issued = batch(9);
    let trace = followed.issue(&issued).unwrap();
    let moved = issued.sample(&[3, 5, 8]).batch;
    let mut entered = trace.enter(&moved, Instant::now());
    entered.output("x", 0, &moved);
    entered.leave(&"x".into());
    let stage = trace.read(|progress| progress.stages[0].clone());
    assert_eq!(stage.input.iter().collect::<Vec<_>>(), [3, 5, 8]);
    assert_eq!(stage.outputs[0].1, stage.input);
}

#[test]
fn a_delivery_is_followed_to_the_worst_outcome() {
    let followed = Followed::new(false);
    let _tracing = followed.follow(point(TapSide::Input, "out", 0));
    let issued = batch(2);
    let trace = followed.issue(&issued).unwrap();
    let encoded = trace.enter(&issued, Instant::now()).encoded(&"out".into(), &issued, true);
    assert!(!trace.read(Progress::sampled).is_empty(), "at the input of the sink");
    let holds = || issued.segments[0].ack.hold(sink()).unwrap().traced(encoded.clone());
    let (first, second) = (holds(), holds());
    let traced = first.trace().unwrap();
    traced.sent();
    traced.failed(&"refused");
    traced.refused(1);
    first.settle(Outcome::Rejected);
    second.settle(Outcome::Delivered);
    let stage = trace.end().stages.remove(0);
    let StageKind::Delivery(delivery) = stage.kind else { panic!("{stage:?}") };
    assert_eq!((delivery.failures, delivery.refused), (1, 1));
    assert_eq!(delivery.error.as_deref(), Some("refused"));
    assert!(delivery.sent.unwrap() >= stage.times.1);
    assert_eq!(delivery.settled.unwrap().1, Outcome::Rejected);
}

/// A stalled sink may keep the payload for hours.
#[test]
fn a_trace_that_has_ended_takes_no_room_and_notes_nothing() {
    let followed = Followed::new(false);
    let _tracing = followed.follow(point(TapSide::Output, "app", 0));
    let issued = batch(2);
    let trace = followed.issue(&issued).unwrap();
    let encoded = trace.enter(&issued, Instant::now()).encoded(&"out".into(), &issued, true);
    assert_eq!(Arc::strong_count(&followed.kept.bytes), 2);
    assert!(trace.end().sample.is_some());
    assert_eq!(Arc::strong_count(&followed.kept.bytes), 1);
    assert_eq!(followed.kept.bytes.load(Ordering::Relaxed), 0);
    encoded.unwrap().sent();
    let entered = trace.enter(&issued, Instant::now());
    assert!(entered.encoded(&"other".into(), &issued, true).is_none());
    assert!(trace.end().stages.is_empty());
}

#[test]
fn what_a_component_does_not_get_is_noted() {
    let followed = Followed::new(false);
    let _tracing = followed.follow(point(TapSide::Output, "app", 0));
    let mut issued = batch(3);
    let trace = followed.issue(&issued).unwrap();
    issued.select_range(1, 2);
    trace.skip(&"full".into(), &issued);
    assert!(trace.enter(&issued, Instant::now()).encoded(&"bh".into(), &issued, false).is_none());
    let stages = trace.end().stages;
    assert!(matches!(stages[0].kind, StageKind::Skipped), "{stages:?}");
    assert!(matches!(stages[1].kind, StageKind::NotSent), "{stages:?}");
    assert_eq!(stages[0].input.iter().collect::<Vec<_>>(), [1]);
}
