//! Measures the path of a point into the metric store: lookup and update by the number of series,
//! the memory of a series, and the cost to swap and merge all series.

use crate::measure::{Samples, progress, thread_cpu_seconds};
use crate::peers::Target;
use crate::plot::{Axes, Series};
use crate::report::{Report, Table};
use fastrand::Rng;
use millstream_series::{
    Canonical, Generation, Kind, Limits, Point, Shard, Store, TagStyle, Values,
};
use std::hint::black_box;
use std::io;

const SERIES: [usize; 4] = [1_000, 10_000, 250_000, 1_000_000];
/// Number of points per sample.
const POINTS: usize = 400_000;
/// Points per batch of a receiver.
const BATCH_POINTS: usize = 64;
const REPETITIONS: usize = 7;
/// Maximum memory, in bytes, for a counter or gauge in addition to its name and tags.
const TARGET_BYTES: f64 = 200.0;

const KINDS: [(&str, Kind, Order); 4] = [
    ("count", Kind::Count, Order::Sorted),
    ("count", Kind::Count, Order::Other),
    ("gauge", Kind::Gauge, Order::Sorted),
    ("distribution", Kind::Distribution, Order::Sorted),
];

/// Order in which an application writes its tags. The order never changes.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    Sorted,
    Other,
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Order::Sorted => "sorted",
            Order::Other => "other",
        }
    }
}

/// Measures and reports the store, and returns its targets.
pub fn run(report: &mut Report) -> io::Result<Vec<Vec<String>>> {
    let (mut targets, mut batches) = (Vec::new(), KINDS.map(|_| Vec::new()));
    let mut table = Table::new(
        "points",
        "Points into the metric store: ns per point in random order, five tags",
        &[
            "series",
            "kind",
            "order of tags",
            "first sight",
            "longest batch, us",
            "one by one",
            "batches",
            "swap us",
            "merge and drain, ns per series",
            "tags in order, ns per series",
            "bytes per series",
            "target",
        ],
    );
    for series in SERIES {
        let kinds = KINDS.iter().zip(&mut batches);
        for ((name, kind, order), batches) in
            kinds.filter(|((name, ..), _)| series <= 250_000 || *name == "count")
        {
            progress(&format!("points: {series} series, {name}, tags {}", order.name()));
            let row = Run::new(series, *kind, *order).measure();
            table.row(row.cells(series, [name, order.name()]));
            batches.push(((series as f64).log10(), row.batch_ns));
            if has_target(series, name) {
                let what = format!("bytes of a {name} of {series}, tags {}", order.name());
                targets.push(Target::most(&what, row.bytes, TARGET_BYTES));
            }
        }
    }
    table.note(
        "Batches have 64 points; the longest batch of new series is the longest stall of a receiver. Bytes: allocated memory of store, shard and both generations, in addition to one copy of \
             name and tags. Tags in order: read from every series, as for a flush; merge and drain do not include it."
            .to_owned(),
    );
    report.add(table)?;
    plot(report, batches)?;
    Ok(targets.iter().map(|target| target.cells("points")).collect())
}

fn plot(report: &mut Report, batches: [Vec<(f64, f64)>; KINDS.len()]) -> io::Result<()> {
    let named = KINDS.iter().zip(batches);
    let curves = named.map(|((name, _, order), points)| Series {
        label: format!("{name}, tags {}", order.name()),
        points,
    });
    let label = |x: &f64| format!("{:.0}", 10_f64.powf(*x));
    let axes =
        Axes { title: "A point into the store, in batches", x: "series", y: "ns", x_label: &label };
    report.plot("points", &axes, &curves.collect::<Vec<_>>())
}

/// Returns whether the memory has a target. With few series, other memory dominates, and a
/// distribution has no target.
fn has_target(series: usize, kind: &str) -> bool {
    kind != "distribution" && series >= 100_000
}

struct Figures {
    first_ns: f64,
    longest_us: f64,
    one_ns: f64,
    batch_ns: f64,
    swap_us: f64,
    merge_ns: f64,
    tags_ns: f64,
    bytes: f64,
}

impl Figures {
    fn cells(&self, series: usize, names: [&str; 2]) -> Vec<String> {
        let target = match has_target(series, names[0]) {
            false => "",
            true if self.bytes <= TARGET_BYTES => "holds",
            true => "MISSED",
        };
        let figures = [
            self.first_ns,
            self.longest_us,
            self.one_ns,
            self.batch_ns,
            self.swap_us,
            self.merge_ns,
            self.tags_ns,
            self.bytes,
        ];
        let figures = figures.map(|figure| format!("{figure:.1}"));
        let names = [series.to_string()].into_iter().chain(names.map(str::to_owned));
        names.chain(figures).chain([target.to_owned()]).collect()
    }
}

/// Points, contiguous in memory, as in a buffer that was just received.
struct Stream {
    bytes: Vec<u8>,
    /// Offset of each point, and the lengths of its name and of its tags.
    variables: Vec<(usize, usize, usize)>,
}

impl Stream {
    fn new(series: impl Iterator<Item = usize>, order: Order) -> Stream {
        let (mut bytes, mut variables) = (Vec::new(), Vec::new());
        for series in series {
            let (name, tags) = text(series, order);
            variables.push((bytes.len(), name.len(), tags.len()));
            bytes.extend_from_slice(&name);
            bytes.extend_from_slice(&tags);
        }
        Stream { bytes, variables }
    }

    fn points(&self, kind: Kind) -> impl Iterator<Item = Point<'_>> {
        let values = Values::Number(1.5);
        self.variables.iter().map(move |(start, name, tags)| {
            let (name, tags) = self.bytes[*start..start + name + tags].split_at(*name);
            Point { kind, name, tags, values, sample_rate: 1.0, timestamp: None, arrived: 1 }
        })
    }
}

/// A store with its points.
struct Run {
    kind: Kind,
    each: Stream,
    random: Stream,
    shard: Shard,
    store: Store,
    bytes_before: usize,
}

impl Run {
    fn new(series: usize, kind: Kind, order: Order) -> Run {
        let mut random = Rng::with_seed(series as u64);
        let each = Stream::new(0..series, order);
        let random = Stream::new((0..POINTS).map(|_| random.u64(..series as u64) as usize), order);
        let limits = Limits { series: 2_000_000, ..Limits::default() };
        let bytes_before = allocated_bytes();
        let shard = Shard::new(TagStyle::DogStatsd, &limits, 7);
        Run { kind, each, random, shard, store: Store::new(1, 10, 7), bytes_before }
    }

    fn one_by_one(&mut self) {
        self.random.points(self.kind).for_each(|point| self.shard.add(black_box(&point)));
    }

    fn in_batches(&mut self) {
        batches(self.random.points(self.kind), |batch| self.shard.add_all(black_box(batch)));
    }

    /// Adds points of new series. Returns the seconds in total and of the longest batch; a receiver
    /// can stall for the duration of the latter.
    fn first(&mut self) -> (f64, f64) {
        let (mut all, mut longest) = (0.0, 0.0_f64);
        batches(self.each.points(self.kind), |batch| {
            let seconds = seconds(|| self.shard.add_all(batch));
            (all, longest) = (all + seconds, longest.max(seconds));
        });
        (all, longest)
    }

    fn tags_in_order(&mut self) {
        let mut room = Canonical::default();
        self.store.drain(|reading| reading.key.tags(&mut room, |tag| _ = black_box(tag)));
    }

    fn measure(mut self) -> Figures {
        let series = self.each.variables.len();
        let (first, longest) = self.first();
        let mut samples = [(); 5].map(|()| Samples::default());
        let mut spare = Generation::default();
        for _ in 0..REPETITIONS {
            samples[0].push(seconds(|| self.one_by_one()));
            samples[1].push(seconds(|| self.in_batches()));
            let mut generation = Generation::default();
            samples[2].push(seconds(|| {
                generation = self.shard.swap_generation(std::mem::take(&mut spare))
            }));
            samples[3].push(seconds(|| {
                spare = self.store.merge(0, generation);
                self.store.drain(|reading| {
                    black_box(reading);
                });
            }));
            samples[4].push(seconds(|| self.tags_in_order()));
        }
        let text_bytes = self.each.bytes.len();
        let bytes = (allocated_bytes() - self.bytes_before).saturating_sub(text_bytes);
        let [one, batch, turn, merge, tags] = samples.map(|samples| samples.median());
        Figures {
            first_ns: first * 1e9 / series as f64,
            longest_us: longest * 1e6,
            one_ns: one * 1e9 / POINTS as f64,
            batch_ns: batch * 1e9 / POINTS as f64,
            swap_us: turn * 1e6,
            merge_ns: merge * 1e9 / series as f64,
            tags_ns: tags * 1e9 / series as f64,
            bytes: bytes as f64 / series as f64,
        }
    }
}

/// Calls `each` with [`BATCH_POINTS`] points at a time.
fn batches<'a>(points: impl Iterator<Item = Point<'a>>, mut each: impl FnMut(&[Point<'a>])) {
    let mut batch = Vec::with_capacity(BATCH_POINTS);
    for point in points {
        batch.push(point);
        if batch.len() == BATCH_POINTS {
            each(&batch);
            batch.clear();
        }
    }
    each(&batch);
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = thread_cpu_seconds();
    work();
    thread_cpu_seconds() - start
}

/// Returns the name and the tags of a series, as an application sends them.
fn text(series: usize, order: Order) -> (Vec<u8>, Vec<u8>) {
    let name = format!("service.requests.{}", series % 50);
    let mut tags = [
        format!("endpoint:/api/v1/{}", series % 97),
        "env:production".to_owned(),
        format!("host:web-{:05}", series / 7),
        format!("region:eu-west-{}", series % 3),
        format!("status:{}", 200 + series % 7),
    ];
    if order == Order::Other {
        tags.swap(0, 3);
        tags.swap(1, 4);
    }
    (name.into_bytes(), tags.join(",").into_bytes())
}

/// Returns the bytes that the allocator has allocated, including its overhead.
fn allocated_bytes() -> usize {
    // SAFETY: `mallinfo2` returns a struct of numbers and has no preconditions.
    let info = unsafe { libc::mallinfo2() };
    info.uordblks + info.hblkhd
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_a_series_of_its_own() {
        for order in [Order::Sorted, Order::Other] {
            let mut run = Run::new(1000, Kind::Count, order);
            run.each.points(run.kind).for_each(|point| run.shard.add(&point));
            run.one_by_one();
            run.in_batches();
            assert_eq!(run.shard.series(), 1000);
        }
    }
}
