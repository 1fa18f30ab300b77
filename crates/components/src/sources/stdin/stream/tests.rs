//! Tests of streams in chunks of any size, compared with splitting the whole content at once.

use super::*;
use millstream_model::{Batch, OriginId, SinkIndex, Source};
use millstream_testkit::{SourceRig, assert_valid, split_lines};
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;

const ORIGIN: OriginId = OriginId(7);

struct Stream(StreamLines);

impl Source for Stream {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        self.0.batch(cx)
    }
}

/// A stream and its output.
struct Run {
    rig: SourceRig,
    stream: Stream,
    got: Vec<(u64, Vec<u8>)>,
}

impl Run {
    fn new(line_max: usize, long: LongLine) -> Run {
        let rig = SourceRig::new(&["out"]);
        let origin = Arc::new(Origin::new(ORIGIN, ""));
        rig.ledger.open(&origin, [(SinkIndex::new(0), 0)]);
        Run { rig, stream: Stream(StreamLines::new(origin, line_max, long)), got: Vec::new() }
    }

    /// Takes all batches. Returns whether the stream has ended.
    fn drain(&mut self) -> bool {
        loop {
            match self.rig.poll(&mut self.stream) {
                Polled::Batch(batch, _) => self.take(&batch),
                Polled::Wait(pause) if pause.is_zero() => {}
                polled => return matches!(polled, Polled::Ended),
            }
        }
    }

    fn take(&mut self, batch: &Batch) {
        assert_valid(batch);
        let [segment] = &*batch.segments else { panic!("one segment for one stream") };
        segment.ack.finish();
        self.got.extend(
            (0..batch.rows()).map(|row| (batch.offset(segment, row), batch.text(row).to_vec())),
        );
    }
}

/// A stream without ready sinks or without memory emits nothing and loses nothing.
#[test]
fn backpressure_stops_the_stream_without_loss() {
    let mut run = Run::new(100, LongLine::Truncate);
    run.stream.0.push(b"a\nb\n".to_vec());
    run.rig.ready = millstream_model::SinkSet::EMPTY;
    assert!(matches!(run.rig.poll(&mut run.stream), Polled::Backpressure));
    run.rig.ready = run.rig.all();
    let all = run.rig.grant.try_take(run.rig.grant.bytes_max());
    assert!(matches!(run.rig.poll(&mut run.stream), Polled::Backpressure));
    drop(all);
    assert!(!run.drain());
    assert_eq!(run.got, [(0, b"a".to_vec()), (2, b"b".to_vec())]);
}

/// A stream with more empty lines than the row limit of a batch loses no line.
#[test]
fn empty_lines_fill_batches_up_to_their_limit() {
    let mut run = Run::new(100, LongLine::Truncate);
    run.stream.0.push(vec![b'\n'; 40_000]);
    let Polled::Batch(batch, _) = run.rig.poll(&mut run.stream) else { panic!("a full batch") };
    assert_eq!(batch.rows(), BATCH_ROWS_MAX);
    run.take(&batch);
    assert!(!run.drain());
    assert_eq!(run.got, (0..40_000).map(|offset| (offset, Vec::new())).collect::<Vec<_>>());
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![20 => 0..30usize, 3 => 60_000..70_000usize, 2 => 260_000..264_000usize, 1 => 300_000..700_000usize];
    let end = prop_oneof![4 => Just("\n"), 1 => Just("\r\n"), 1 => Just("\r\r\n")];
    (prop::collection::vec((length, end, 0..3usize), 0..25), 0..4usize).prop_map(|(lines, rest)| {
        let mut content = Vec::new();
        for (length, end, kind) in lines {
            let pattern =
                ["abcdefg".as_bytes(), "é€𝄞x".as_bytes(), b"\xff\r\0\x80\x80\x80\x80"][kind];
            content.extend(pattern.iter().cycle().take(length));
            content.extend_from_slice(end.as_bytes());
        }
        content.extend_from_slice(&b"end\r"[..rest]);
        content
    })
}

/// Cases of each property.
const CASES: TestSize = TestSize { gate: 128, long: 2500 };

proptest! {
    #![proptest_config(property(CASES))]

    /// For any chunks and any times of the polls, every line is emitted once, in order, with the
    /// correct offset. At the end, all data is settled and all memory is returned.
    #[test]
    fn chunks_are_split_like_their_whole_content(
        content in content(),
        sizes in prop::collection::vec(prop_oneof![1..40usize, 1..100_000usize], 1..20),
        line_max in prop_oneof![4..20usize, Just(65_536usize), Just(262_144), Just(262_143), Just(400_000)],
        long in prop_oneof![Just(LongLine::Truncate), Just(LongLine::Split), Just(LongLine::Drop)],
    ) {
        let mut run = Run::new(line_max, long);
        let (mut rest, mut sizes) = (&content[..], sizes.into_iter().cycle());
        while !rest.is_empty() {
            // Limits the number of chunks of a large content, to save time.
            let size = sizes.next().unwrap().max(content.len() / 200).min(rest.len());
            let (chunk, behind) = rest.split_at(size);
            run.stream.0.push(chunk.to_vec());
            rest = behind;
            if size % 3 > 0 {
                prop_assert!(!run.drain());
            }
        }
        run.stream.0.end();
        prop_assert!(run.drain());
        let expected = split_lines(&content, line_max, long);
        let differs = (0..expected.len().max(run.got.len())).find(|at| run.got.get(*at) != expected.get(*at));
        prop_assert_eq!(differs, None, "first row that differs, of {} and {}", run.got.len(), expected.len());
        prop_assert!(run.rig.ledger.is_idle());
        prop_assert_eq!(run.rig.ledger.checkpoint(ORIGIN, SinkIndex::new(0)), Some(content.len() as u64));
        prop_assert_eq!(run.rig.grant.used(), 0);
    }
}
