//! Cursors: sinks with separate checkpoints, blocked sinks, and abandoned ranges.

use super::*;
use flate2::write::GzEncoder;
use millstream_model::{SinkIndex, SinkSet, Source};

fn sink(index: usize) -> SinkIndex {
    SinkIndex::new(index)
}

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

fn sinks(list: &[usize]) -> SinkSet {
    list.iter().copied().map(sink).collect()
}

/// Delivers the next batch; returns its sinks and rows.
fn next(fixture: &mut Fixture) -> (SinkSet, Vec<(u64, String)>) {
    let (batch, _) = fixture.next();
    deliver(&batch);
    seen(&batch)
}

/// Returns the sinks of a batch, and its rows as (offset, text).
fn seen(batch: &Batch) -> (SinkSet, Vec<(u64, String)>) {
    let rows =
        lines(batch).into_iter().map(|line| (line.offset, String::from_utf8(line.text).unwrap()));
    (batch.sinks, rows.collect())
}

fn row(offset: u64, text: &str) -> (u64, String) {
    (offset, text.to_owned())
}

/// Delivers a batch to some of its sinks. For the other sinks, the batch stays in flight until the
/// agent restarts.
fn deliver_to(batch: &Batch, to: &[usize]) -> Vec<millstream_model::Hold> {
    let others = batch.sinks - sinks(to);
    let hold = |segment: &millstream_model::Segment| {
        let holds: Vec<_> = others.iter().filter_map(|sink| segment.ack.hold(sink)).collect();
        segment.ack.finish();
        holds
    };
    batch.segments.iter().flat_map(hold).collect()
}

/// After a restart, the sink that lags catches up to exactly the position of the other sink. After
/// that, one read serves both sinks.
#[test]
fn each_sink_resumes_from_its_own_checkpoint() {
    let mut fixture = Fixture::new(json!({}), &["a", "b"]);
    fixture.append("f.log", "1\n2\n");
    deliver(&fixture.next().0);
    fixture.append("f.log", "3\n4\n");
    let held = deliver_to(&fixture.next().0, &[A]);
    fixture.append("f.log", "5\n");
    fixture.restart(true);
    drop(held);
    let batches = fixture.batches();
    let seen: Vec<_> = batches.iter().map(seen).collect();
    assert_eq!(
        seen,
        [(sinks(&[B]), vec![row(4, "3"), row(6, "4")]), (sinks(&[A, B]), vec![row(8, "5")])]
    );
    batches.iter().for_each(deliver);
    let id = batches[0].segments[0].origin.id;
    assert_eq!(
        (fixture.rig.ledger.checkpoint(id, sink(A)), fixture.rig.ledger.checkpoint(id, sink(B))),
        (Some(10), Some(10))
    );
}

/// A sink that is added to the configuration reads from the beginning, and nothing is resent to the
/// other sink.
#[test]
fn a_new_sink_reads_from_the_beginning() {
    let mut fixture = Fixture::new(json!({}), &["a"]);
    fixture.append("f.log", "1\n");
    assert_eq!(fixture.read_texts(), ["1"]);
    fixture.rig.commit();
    fixture.rig.sinks.push((sink(B), "b".into()));
    fixture.restart(false);
    assert_eq!(
        fixture.batches().iter().map(seen).collect::<Vec<_>>(),
        [(sinks(&[B]), vec![row(0, "1")])]
    );
}

/// Replaces the sinks, as a reload does.
fn reload(fixture: &mut Fixture, ids: &[&str]) {
    let ids = ids.iter().map(|id| (*id).to_owned());
    let now: Vec<(SinkIndex, String)> = SinkIndex::all().zip(ids).collect();
    let stay = now.iter().filter(|sink| fixture.rig.sinks.contains(sink)).map(|(index, _)| *index);
    fixture.rig.ledger.keep_sinks(stay.collect());
    fixture.source.set_sinks(&now);
    fixture.rig.sinks = now;
    fixture.rig.ready = fixture.rig.all();
}

/// A sink that one reload removes and a later reload adds continues at its checkpoint. A sink
/// without a checkpoint starts where reading of the file began. Nothing is resent to the remaining
/// sink.
#[test]
fn a_sink_added_by_a_reload_starts_at_its_checkpoint() {
    let mut fixture = Fixture::new(json!({ "read_from": "end" }), &["a", "b"]);
    fixture.append("f.log", "old\n");
    assert!(fixture.batches().is_empty());
    fixture.append("f.log", "1\n");
    assert_eq!(next(&mut fixture), (sinks(&[A, B]), vec![row(4, "1")]));
    fixture.rig.commit();
    reload(&mut fixture, &["a"]);
    fixture.append("f.log", "2\n");
    assert_eq!(next(&mut fixture), (sinks(&[A]), vec![row(6, "2")]));
    fixture.rig.commit();
    reload(&mut fixture, &["a", "b", "c"]);
    assert_eq!(
        fixture.batches().iter().map(seen).collect::<Vec<_>>(),
        [(sinks(&[C]), vec![row(4, "1")]), (sinks(&[B, C]), vec![row(6, "2")])]
    );
}

/// A sink that is not ready delays the other sinks until it is treated as blocked; then they
/// continue without it. Once the sink is ready again, it first receives the data that it missed,
/// and then shares batches with the other sinks.
#[test]
fn a_blocked_sink_is_left_behind_and_catches_up() {
    let mut fixture = Fixture::new(json!({}), &["a", "b"]);
    fixture.append("f.log", "1\n");
    fixture.rig.ready = sinks(&[A]);
    assert!(matches!(fixture.poll(), Polled::Backpressure));
    fixture.rig.blocked = sinks(&[B]);
    assert_eq!(next(&mut fixture), (sinks(&[A]), vec![row(0, "1")]));
    fixture.append("f.log", "2\n");
    assert_eq!(next(&mut fixture), (sinks(&[A]), vec![row(2, "2")]));
    (fixture.rig.ready, fixture.rig.blocked) = (sinks(&[A, B]), SinkSet::EMPTY);
    fixture.append("f.log", "3\n");
    assert_eq!(next(&mut fixture), (sinks(&[B]), vec![row(0, "1"), row(2, "2")]));
    assert_eq!(next(&mut fixture), (sinks(&[A, B]), vec![row(4, "3")]));
}

/// One compressed file is decompressed at a time, but a file that waits for a blocked sink does not
/// delay other files for the other sinks.
#[test]
fn a_blocked_sink_is_left_behind_in_compressed_files() {
    let mut fixture = Fixture::new(json!({}), &["a", "b"]);
    let names: Vec<String> = (0..4).map(|n| format!("{n}.log.gz")).collect();
    for (n, name) in names.iter().enumerate() {
        let mut compressed = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writeln!(compressed, "{n}").unwrap();
        fixture.append(name, compressed.finish().unwrap());
    }
    (fixture.rig.ready, fixture.rig.blocked) = (sinks(&[A]), sinks(&[B]));
    let read = |fixture: &mut Fixture| {
        let mut texts = Vec::new();
        for _ in 0..4 {
            texts.extend(fixture.read_texts());
            fixture.rig.advance(crate::stability::STABLE_AFTER);
        }
        texts.sort();
        texts
    };
    assert_eq!(read(&mut fixture), ["0", "1", "2", "3"]);
    (fixture.rig.ready, fixture.rig.blocked) = (sinks(&[B]), sinks(&[A]));
    assert_eq!(read(&mut fixture), ["0", "1", "2", "3"]);
    (fixture.rig.ready, fixture.rig.blocked) = (sinks(&[A, B]), SinkSet::EMPTY);
    assert_eq!(read(&mut fixture), Vec::<String>::new());
}

/// Files whose sinks are at different positions never share a batch.
#[test]
fn every_row_of_a_batch_has_the_same_sinks() {
    let mut fixture = Fixture::new(json!({}), &["a", "b"]);
    fixture.append("behind.log", "1\n");
    (fixture.rig.ready, fixture.rig.blocked) = (sinks(&[A]), sinks(&[B]));
    next(&mut fixture);
    (fixture.rig.ready, fixture.rig.blocked) = (sinks(&[A, B]), SinkSet::EMPTY);
    for n in 0..20 {
        fixture.append(&format!("{n}.log"), "x\n");
    }
    // The fixture checks that every segment has exactly the sinks of its batch.
    let batches = fixture.batches();
    let rows =
        |set: SinkSet| batches.iter().filter(|b| b.sinks == set).map(Batch::rows).sum::<usize>();
    assert_eq!((rows(sinks(&[B])), rows(sinks(&[A, B]))), (1, 20));
}

/// An abandoned range is reread with the same ids, and the checkpoint waits for it.
#[test]
fn an_abandoned_range_is_read_again_under_the_same_ids() {
    let mut fixture = Fixture::new(json!({}), &["a"]);
    fixture.append("f.log", "1\n2\n");
    let (first, _) = fixture.next();
    let before = lines(&first);
    fixture.append("f.log", "3\n");
    deliver(&fixture.next().0);
    drop(first);
    assert_eq!(fixture.rig.ledger.checkpoint(before[0].file_id, sink(A)), Some(0));
    assert_eq!(fixture.read(), before);
    assert_eq!(fixture.rig.ledger.checkpoint(before[0].file_id, sink(A)), Some(6));
    assert!(fixture.rig.ledger.is_idle());
}

/// A range that was abandoned once may share a batch with other ranges.
#[test]
fn a_range_abandoned_twice_is_sent_in_its_own_batch() {
    let mut fixture = Fixture::new(json!({}), &["a"]);
    fixture.append("f.log", "1\n");
    fixture.append("g.log", "2\n");
    for _ in 0..2 {
        assert_eq!(fixture.batches().iter().map(|b| b.segments.len()).collect::<Vec<_>>(), [2]);
    }
    let batches = fixture.batches();
    assert_eq!(batches.iter().map(|b| b.segments.len()).collect::<Vec<_>>(), [1, 1]);
    assert!(batches.iter().flat_map(|b| b.segments.iter()).all(|s| s.ack.attempt() == 2));
}

/// Returns the lines delivered to a sink that panics on every batch with a line that begins with
/// `bad`.
fn isolate(fixture: &mut Fixture, bad: &[u8]) -> Vec<Line> {
    let mut delivered = Vec::new();
    for _ in 0..100 {
        if let Polled::Batch(batch, _) = fixture.poll() {
            let lines = lines(&batch);
            if !lines.iter().any(|line| line.text.starts_with(bad)) {
                deliver(&batch);
                delivered.extend(lines);
            }
        } else {
            fixture.rig.advance(STEP);
        }
    }
    assert!(fixture.rig.ledger.is_idle(), "the line that panics is not found");
    delivered.sort();
    delivered
}

/// A line on which a sink panics, at any position in its range, is found by bisection, and is
/// rejected and counted once. Every other line is delivered exactly once.
#[test]
fn only_the_line_that_panics_a_sink_is_rejected() {
    for bad in 0..7 {
        let mut fixture = Fixture::new(json!({}), &["a"]);
        let line = |n: usize| if n == bad { "bad\n".to_owned() } else { format!("{n}\n") };
        fixture.append("f.log", (0..7).map(line).collect::<String>());
        let expected: Vec<String> = (0..7).filter(|n| *n != bad).map(|n| n.to_string()).collect();
        assert_eq!(texts(&isolate(&mut fixture, b"bad")), expected, "line {bad} is bad");
        assert_eq!(fixture.dropped("panic"), 1, "line {bad} is bad");
    }
}

/// A line without a line ending and a truncated line are rejected in the same way.
#[test]
fn an_unterminated_or_overlong_line_that_panics_a_sink_is_rejected() {
    let long = "bad ".repeat(200_000) + "\nlast\n";
    let options = [json!({}), json!({ "max_line": "100B" }), json!({ "max_line": "1MiB" })];
    for (options, tail) in options.into_iter().zip(["bad", &long, &long]) {
        let mut fixture = Fixture::new(options, &["a"]);
        fixture.rig.until_eof = true;
        fixture.append("f.log", "first\n");
        fixture.append("f.log", tail);
        let expected: Vec<&str> = if tail == "bad" { vec!["first"] } else { vec!["first", "last"] };
        assert_eq!(texts(&isolate(&mut fixture, b"bad")), expected);
        assert_eq!(fixture.dropped("panic"), 1);
    }
}

/// A read that stops after the first line of a suspect range, because recent lines were short, does
/// not reject that line.
#[test]
fn a_line_is_rejected_only_if_it_was_the_whole_range() {
    let mut fixture = Fixture::new(json!({}), &["a"]);
    let (good, bad) = ("good ".repeat(10_000), "bad ".repeat(10_000));
    fixture.append("f.log", format!("{good}\n{bad}\n"));
    for _ in 0..2 {
        assert_eq!(lines(&fixture.next().0).len(), 2);
    }
    fixture.append("f.log", "\n".repeat(20_000));
    let delivered = isolate(&mut fixture, b"bad");
    assert!(delivered[0].text == good.as_bytes(), "the good line is delivered");
    assert_eq!((delivered.len(), fixture.dropped("panic")), (20_001, 1));
}
