//! The `kafka` source against a real broker, with the tests in the role of the engine: ranges that
//! sinks abandon, and the behavior of the group.

use millstream_components::component::AnyComponent;
use millstream_components::registry::find;
use millstream_model::{Batch, Kind, Outcome, Polled, SinkSet, Source};
use millstream_recorder::schema::EventKind;
use millstream_testkit::{SourceRig, recorded, start_recording};
use millstream_testkit_servers::kafka::{Kafka, Written};
use serde_json::json;
use std::time::{Duration, Instant};

/// Timeout, which is generous: a group takes seconds to form, and several times as long on a busy
/// machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Opens a source of `topic` with a group of the same name.
fn open(rig: &SourceRig, topic: &str) -> Box<dyn Source> {
    let options =
        json!({ "brokers": [Kafka::shared().bootstrap()], "topics": [topic], "group": topic });
    let row = find(Kind::Source, "kafka").unwrap();
    let AnyComponent::Source(source) = (row.decode)(options).unwrap() else { panic!("a source") };
    source.open(rig.open()).unwrap()
}

/// Polls until there is a batch; returns `None` if there is none within `limit`.
fn next(rig: &mut SourceRig, source: &mut dyn Source, limit: Duration) -> Option<Batch> {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if let Polled::Batch(batch, _) = rig.poll(source) {
            return Some(*batch);
        }
        rig.wait_for_wake(Duration::from_millis(10));
        rig.advance(Duration::from_millis(10));
    }
    None
}

/// Returns the offsets and texts of a batch.
fn rows(batch: &Batch) -> Vec<(u64, String)> {
    let segment = |segment: &millstream_model::Segment| {
        let rows = segment.first_row..segment.first_row + segment.rows;
        let row = |row| {
            (batch.offset(segment, row), String::from_utf8_lossy(batch.text(row)).into_owned())
        };
        rows.map(row).collect::<Vec<_>>()
    };
    batch.segments.iter().flat_map(segment).collect()
}

fn write(topic: &str, count: u64) {
    let kafka = Kafka::shared();
    kafka.create_topic(topic, 1);
    kafka.write(topic, (0..count).map(|n| Written::text(format!("r{n}"))));
}

/// Reads `count` records. The second sink abandons them, the first one settles them.
fn read_and_abandon(rig: &mut SourceRig, source: &mut dyn Source, count: usize) {
    let mut seen = 0;
    while seen < count {
        let batch = next(rig, source, PATIENCE).expect("a batch");
        seen += batch.rows();
        for segment in batch.segments.iter() {
            let abandoned = segment.ack.hold(rig.sinks[1].0);
            abandoned.unwrap().settle(Outcome::Abandoned);
            segment.ack.finish();
        }
    }
}

#[test]
fn an_abandoned_range_is_read_again() {
    write("again", 3000);
    let mut rig = SourceRig::new(&["a", "b"]);
    let mut source = open(&rig, "again");
    read_and_abandon(&mut rig, &mut *source, 3000);
    let (mut seen, mut attempts) = (Vec::new(), 0);
    while seen.len() < 3000 {
        let batch = next(&mut rig, &mut *source, PATIENCE).expect("the range again");
        assert_eq!(batch.sinks, SinkSet::one(rig.sinks[1].0));
        // Abandoned again, at first.
        let is_abandoned = attempts < 2;
        attempts += 1;
        for segment in batch.segments.iter() {
            if is_abandoned {
                segment.ack.hold(rig.sinks[1].0).unwrap().settle(Outcome::Abandoned);
            }
            segment.ack.finish();
        }
        if !is_abandoned {
            seen.extend(rows(&batch));
        }
    }
    seen.sort_unstable();
    assert!(seen.iter().map(|(offset, _)| *offset).eq(0..3000));
    assert!(seen.iter().all(|(offset, text)| *text == format!("r{offset}")));
    let origin = rig.ledger.origins().pop().unwrap();
    assert!(rig.ledger.is_idle());
    assert!(origin.checkpoints.iter().all(|(_, checkpoint)| *checkpoint == 3000));
    assert_eq!(rig.grant.used(), 0);
}

#[test]
fn an_abandoned_range_that_was_deleted_is_counted() {
    write("deleted_range", 1000);
    let mut rig = SourceRig::new(&["a", "b"]);
    let mut source = open(&rig, "deleted_range");
    let batch = next(&mut rig, &mut *source, PATIENCE).expect("a batch");
    let count = batch.rows() as u64;
    Kafka::shared().delete_records("deleted_range", 0, 990);
    for segment in batch.segments.iter() {
        segment.ack.hold(rig.sinks[1].0).unwrap().settle(Outcome::Abandoned);
        segment.ack.finish();
    }
    drop(batch);
    let begun = Instant::now();
    while !rig.ledger.is_idle() || rig.counters.snapshot().dropped_events.is_empty() {
        assert!(begun.elapsed() < PATIENCE, "{:?}", rig.counters.snapshot());
        if let Some(batch) = next(&mut rig, &mut *source, Duration::from_millis(50)) {
            batch.segments.iter().for_each(|segment| segment.ack.finish());
        }
    }
    let dropped = rig.counters.snapshot().dropped_events["expired"];
    assert!(dropped >= count.min(990), "{dropped} of {count}");
}

/// Polls both sources until events report this number of assigned or revoked partitions.
fn wait_for_rebalances(sources: &mut [(SourceRig, Box<dyn Source>)], group: &str, count: u64) {
    let begun = Instant::now();
    let member = format!("app,{group}");
    loop {
        for (rig, source) in &mut *sources {
            if let Some(batch) = next(rig, &mut **source, Duration::from_millis(50)) {
                batch.segments.iter().for_each(|segment| segment.ack.finish());
            }
            rig.commit();
        }
        let rebalances = recorded(EventKind::Rebalance);
        let counted = rebalances.get(&member).map_or(0, |sum| sum.counts);
        if counted >= count {
            return assert_eq!(counted, count, "{rebalances:?}");
        }
        assert!(begun.elapsed() < PATIENCE, "{rebalances:?}");
    }
}

#[test]
fn assigned_and_revoked_partitions_are_recorded() {
    let _test = start_recording();
    Kafka::shared().create_topic("shared", 2);
    let records = (0..200).map(|n| Written::text(format!("r{n}")).to(n % 2));
    Kafka::shared().write("shared", records);
    let member = || {
        let rig = SourceRig::new(&["a"]);
        let source = open(&rig, "shared");
        (rig, source)
    };
    let mut members = vec![member()];
    wait_for_rebalances(&mut members, "shared", 2);
    // One of the partitions moves: this member loses it, and the new member receives it.
    members.push(member());
    wait_for_rebalances(&mut members, "shared", 4);
}
