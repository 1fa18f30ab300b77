use super::*;
use millstream_jvm::{Chunk, Deliver};
use millstream_model::{Batch, Now, OriginId, SinkIndex, Source, TIME_UNKNOWN};
use millstream_testkit::SourceRig;

/// A source without a collector.
struct Queued(Reading);

impl Source for Queued {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        self.0.count_lost(cx);
        self.0.batch(cx)
    }
}

fn start() -> (SourceRig, Arc<Queue>, Queued) {
    let rig = SourceRig::new(&["a", "b"]);
    let (queue, origin) =
        (Arc::<Queue>::default(), Arc::new(Origin::new(OriginId(7), "").of_records()));
    rig.ledger.open(&origin, rig.sinks.iter().map(|(sink, _)| (*sink, 0)));
    let source = Queued(Reading::new(queue.clone(), origin));
    (rig, queue, source)
}

fn chunk(events: &[(i64, &str, &str)]) -> Chunk {
    let mut bytes = Vec::new();
    for (time_ns, message, members) in events {
        bytes.extend_from_slice(&time_ns.to_le_bytes());
        bytes.extend_from_slice(&(message.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(members.len() as u32).to_le_bytes());
        bytes.extend_from_slice(message.as_bytes());
        bytes.extend_from_slice(members.as_bytes());
    }
    Chunk::new(bytes, events.len() as i64).unwrap()
}

/// Delivers a chunk for which there is space.
fn deliver(queue: &Queue, chunk: Chunk) {
    queue.offer(chunk, Box::new(|is_taken| assert!(is_taken)));
}

fn batch(rig: &mut SourceRig, source: &mut Queued) -> Batch {
    let Polled::Batch(batch, _) = rig.poll(source) else { panic!("no batch") };
    *batch
}

fn member(batch: &Batch, name: &str, row: usize) -> String {
    format!("{:?}", batch.fields.member(name, &batch.block, row))
}

#[test]
fn events_have_their_texts_fields_and_times() {
    let (mut rig, queue, mut source) = start();
    assert!(matches!(rig.poll(&mut source), Polled::Wait(_)));
    deliver(&queue, chunk(&[(5, "one", r#""n":1,"ok":true"#), (TIME_UNKNOWN, "", "")]));
    deliver(&queue, chunk(&[(-6, "three", r#""n":"x""#)]));
    let batch = batch(&mut rig, &mut source);
    let texts: Vec<&[u8]> = (0..3).map(|row| batch.text(row)).collect();
    assert_eq!(texts, [&b"one"[..], b"", b"three"]);
    assert_eq!(member(&batch, "n", 0), format!("{:?}", Some(millstream_model::Value::Int(b"1"))));
    assert_eq!(member(&batch, "n", 1), "None");
    assert_eq!(member(&batch, "n", 2), format!("{:?}", Some(millstream_model::Value::Text(b"x"))));
    let Now { unix_ns, .. } = rig.now;
    assert_eq!([0, 1, 2].map(|row| batch.event_ns(row)), [5, unix_ns, -6]);
    let offsets = [0, 1, 2].map(|row| batch.event_id(&batch.segments[0], row).offset);
    assert_eq!(offsets, [0, 1, 2]);
    assert!(queue.is_empty() && matches!(rig.poll(&mut source), Polled::Wait(_)));
}

#[test]
fn without_a_ready_sink_or_memory_events_stay_in_the_queue() {
    let (mut rig, queue, mut source) = start();
    deliver(&queue, chunk(&[(5, "kept", "")]));
    let all = std::mem::replace(&mut rig.ready, SinkSet::EMPTY);
    assert!(matches!(rig.poll(&mut source), Polled::Backpressure));
    rig.ready = SinkSet::one(SinkIndex::new(0));
    assert!(matches!(rig.poll(&mut source), Polled::Backpressure), "one sink is not ready");
    rig.ready = all;
    let taken = rig.grant.try_take(rig.grant.bytes_max()).unwrap();
    assert!(matches!(rig.poll(&mut source), Polled::Backpressure));
    assert!(!queue.is_empty());
    drop(taken);
    assert_eq!(batch(&mut rig, &mut source).text(0), b"kept");
}

#[test]
fn a_block_takes_what_fits_and_a_large_event_gets_its_own() {
    let (mut rig, queue, mut source) = start();
    let (half, large) = ("x".repeat(BLOCK_BYTES / 2), "y".repeat(3 * BLOCK_BYTES));
    deliver(&queue, chunk(&[(1, &half, ""), (2, &half, ""), (3, "z", ""), (4, &large, "")]));
    assert_eq!(batch(&mut rig, &mut source).rows(), 2);
    assert_eq!(batch(&mut rig, &mut source).text(0), b"z");
    let last = batch(&mut rig, &mut source);
    assert_eq!((last.rows(), last.text_len(0)), (1, large.len()));
    assert_eq!(last.event_id(&last.segments[0], 0).offset, 3);
    assert!(queue.is_empty());
}

#[test]
fn abandoned_events_are_counted_and_settled() {
    let (mut rig, queue, mut source) = start();
    deliver(&queue, chunk(&[(1, "lost", ""), (2, "too", "")]));
    drop(batch(&mut rig, &mut source));
    assert!(matches!(rig.poll(&mut source), Polled::Wait(_)));
    let counters = rig.counters.snapshot();
    assert_eq!((counters.dropped_events["abandoned"], counters.errors["abandoned"]), (4, 2));
    let progress = rig.sinks.iter().map(|(sink, _)| rig.ledger.progress(*sink).unsettled);
    assert_eq!(progress.sum::<u64>(), 0);
}
