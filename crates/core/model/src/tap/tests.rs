use super::{Allowance, EVENTS_PER_SECOND, Listener, ROWS_MAX, TapSide, Taps, evenly};
use crate::batch::{Batch, BatchBuilder, EventSample};
use crate::{EngineTime, Ledger, Origin, OriginId, SinkSet};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Returns a batch of `rows` lines of one character.
fn batch(rows: usize) -> Batch {
    let block = "x\n".repeat(rows).into_bytes();
    let mut builder = BatchBuilder::default();
    (0..rows).for_each(|row| builder.row(&block[row * 2..row * 2 + 1], row * 2));
    let ack = Ledger::new().issue(OriginId(1), 0..9, SinkSet::EMPTY, 0, EngineTime::ZERO);
    builder.segment(Arc::new(Origin::new(OriginId(1), "f")), 0, ack);
    builder.finish(Bytes::from(block), Arc::default(), SinkSet::EMPTY, 0)
}

/// A listener that keeps a limited number of samples, and counts the copies that were made.
#[derive(Clone, Default)]
struct SampleLog {
    samples: Arc<Mutex<Vec<usize>>>,
    room: usize,
    copies: Arc<AtomicUsize>,
}

impl SampleLog {
    fn with_room(room: usize) -> SampleLog {
        SampleLog { room, ..SampleLog::default() }
    }

    fn events(&self) -> usize {
        self.samples.lock().iter().sum()
    }
}

impl Listener for SampleLog {
    fn offer(&self, copy: &mut dyn FnMut() -> EventSample) -> Option<usize> {
        let mut samples = self.samples.lock();
        if samples.len() >= self.room {
            return None;
        }
        let sample = copy();
        self.copies.fetch_add(1, Ordering::Relaxed);
        samples.push(sample.batch.rows());
        Some(sample.bytes)
    }
}

#[test]
fn a_tap_gets_the_events_of_its_output_until_it_is_dropped() {
    let (taps, kept) = (Taps::default(), SampleLog::with_room(99));
    let point = taps.point(TapSide::Output, "app");
    point.offer(0, &batch(3));
    let listening = taps.listen(TapSide::Output, "app", 1, Box::new(kept.clone()));
    point.offer(0, &batch(5));
    taps.point(TapSide::Input, "app").offer(1, &batch(5));
    point.offer(1, &batch(2));
    assert_eq!((kept.events(), listening.passed()), (2, 2));
    drop(listening);
    point.offer(1, &batch(2));
    assert_eq!(kept.events(), 2);
    assert!(!point.is_tapped.load(Ordering::Relaxed));
}

#[test]
fn a_point_stays_the_same_while_something_uses_it() {
    let (taps, kept) = (Taps::default(), SampleLog::with_room(99));
    let listening = taps.listen(TapSide::Output, "app", 0, Box::new(kept.clone()));
    // A reload looks up the point the same way.
    taps.point(TapSide::Output, "app").offer(0, &batch(2));
    drop(listening);
    assert_eq!(kept.events(), 2);
    taps.point(TapSide::Output, "other");
    assert_eq!(taps.0.lock().len(), 1, "points of components that are gone are forgotten");
}

#[test]
fn a_tap_copies_a_bounded_number_of_events() {
    let (taps, kept) = (Taps::default(), SampleLog::with_room(usize::MAX));
    let point = taps.point(TapSide::Output, "app");
    let listening = taps.listen(TapSide::Output, "app", 0, Box::new(kept.clone()));
    let (batch, begun) = (batch(10_000), Instant::now());
    for _ in 0..1000 {
        point.offer(0, &batch);
    }
    let most = EVENTS_PER_SECOND * (1.0 + begun.elapsed().as_secs_f64());
    assert!(kept.events() as f64 <= most + 1.0, "{} of {most}", kept.events());
    assert!(kept.samples.lock().iter().all(|rows| *rows <= ROWS_MAX));
    assert_eq!(listening.passed(), 10_000_000);
    let (before, samples) = (kept.events(), kept.samples.lock().len());
    std::thread::sleep(Duration::from_millis(100));
    point.offer(0, &batch);
    assert!(kept.events() >= before + 50, "the allowance accrues again");
    let most = 4.0 + 20.0 * begun.elapsed().as_secs_f64();
    assert!(samples as f64 <= most, "{samples} samples, {most} at most: they are few");
}

/// One batch per millisecond: copying one event each time would wake the client a thousand times a
/// second.
#[test]
fn a_tap_that_has_used_up_its_allowance_copies_some_twenty_times_per_second() {
    let begun = Instant::now();
    let (mut allowance, mut copies) = (Allowance::full(begun), Vec::new());
    for millisecond in 0..3000 {
        let few = allowance.refill(begun + Duration::from_millis(millisecond)).min(ROWS_MAX);
        if few > 0 {
            allowance.take(few, 0);
            copies.push(few);
        }
    }
    assert!(copies.iter().all(|few| *few >= 50) && copies.len() <= 3 + 3 * 20, "{copies:?}");
    assert!(copies.iter().sum::<usize>() >= 3900, "{copies:?}");
}

/// Batches of two events each, 50,000 per second: a client that is woken for one copy finds
/// several.
#[test]
fn copies_of_small_batches_come_some_at_once() {
    let begun = Instant::now();
    let (mut allowance, mut copied) = (Allowance::full(begun), Vec::new());
    for number in 0..150_000_u64 {
        let at = Duration::from_micros(number * 20);
        let few = allowance.refill(begun + at).min(2);
        if few > 0 {
            allowance.take(few, 0);
            copied.push(at);
        }
    }
    let is_apart = |pair: &&[Duration]| pair[1] - pair[0] > Duration::from_millis(5);
    let portions = copied.windows(2).filter(is_apart).count();
    assert!((50..=3 * 20 + 2).contains(&portions), "{portions}");
    assert!((1900..2200).contains(&copied.len()), "{} copies of two events", copied.len());
}

#[test]
fn nothing_is_copied_for_a_listener_without_room() {
    let (taps, kept) = (Taps::default(), SampleLog::with_room(1));
    let point = taps.point(TapSide::Output, "app");
    let listening = taps.listen(TapSide::Output, "app", 0, Box::new(kept.clone()));
    (0..100).for_each(|_| point.offer(0, &batch(1)));
    assert_eq!((kept.copies.load(Ordering::Relaxed), listening.passed()), (1, 100));
}

#[test]
fn workers_offer_at_once_while_taps_come_and_go() {
    let taps = Taps::default();
    let point = taps.point(TapSide::Output, "app");
    let batch = batch(100);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..20_000).for_each(|_| point.offer(0, &batch)));
        }
        for _ in 0..200 {
            let kept = SampleLog::with_room(2);
            let listening = taps.listen(TapSide::Output, "app", 0, Box::new(kept.clone()));
            assert!(listening.passed() % 100 == 0);
            drop(listening);
            let after = kept.events();
            assert!(after <= 2 * ROWS_MAX);
            point.offer(0, &batch);
            assert_eq!(kept.events(), after, "nothing comes after the end");
        }
    });
}

#[test]
fn few_rows_are_spread_over_the_selected_ones() {
    let mut batch = batch(100);
    assert_eq!(evenly(&batch, 4, 100), [0, 25, 50, 75]);
    batch.select_range(10, 20);
    assert_eq!(evenly(&batch, 10, 10), (10..20).collect::<Vec<_>>());
    assert_eq!(evenly(&batch, 3, 10), [10, 13, 16]);
    batch.select_range(19, 20);
    assert_eq!(evenly(&batch, 1, 1), [19]);
}
