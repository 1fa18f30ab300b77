//! The scenario for a simulation run: the topology, the faults and the reloads.

use crate::blueprint::{Blueprint, SinkPart, SourcePart, TransformPart};
use crate::buffer::Buffer;
use crate::pace::Pace;
use fastrand::Rng;
use millstream_model::{
    Batch, ComponentError, Map, Now, Offload, Outputs, Serial, SourceInfo, Transform,
};
use millstream_testkit::{
    FakeMerge, FakeSink, MemoryEndpoint, MemoryLog, MemorySnapshots, MergeBehavior, SinkBehavior,
};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The topology and the faults of one run.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub origins: usize,
    pub lines: usize,
    pub poison: Vec<(usize, usize)>,
    pub behaviors: [SinkBehavior; 6],
    /// The operator on a branch with a separate sink, if there is one.
    pub operator: Option<Operator>,
    /// See [`MemoryLog::revokes_one_in`].
    pub revokes_one_in: u64,
    pub transforms: Vec<&'static str>,
    pub kills: u64,
    pub stall: bool,
    pub rate_limit: Option<u64>,
    /// One step in this many is a reload; 0 for none.
    pub reload_one_in: u64,
    /// Maximum number of reloads in each life.
    pub reloads_max: u32,
    /// The sink that rejects some lines, which go to [`LETTERS`].
    pub refuser: Option<usize>,
    /// Whether the sink for rejected lines is stalled until the first sink has received everything.
    pub letters_stall: bool,
    /// Whether the sink for results is stalled until the first sink has received everything.
    pub results_stall: bool,
    /// Whether a merge transform counts the lines; its results go to [`RESULTS`].
    pub counts: Option<MergeBehavior>,
}

/// Index of the sink for the lines that another sink rejects.
pub const LETTERS: usize = 4;

/// Index of the sink for a merge transform's results.
pub const RESULTS: usize = 5;

/// Id of the merge transform.
pub const COUNTER: &str = "counter";

fn merge_behavior(random: &mut Rng, is_busy: bool) -> MergeBehavior {
    let mut ms = |max| Duration::from_millis(random.u64(..max));
    let window = ms(200) + ms(2);
    let delay = ms(8);
    let sync_interval = ms(60);
    let short = ms(40);
    // Some syncs take longer than a reload waits for them. Other lanes panic before the next sync.
    let is_slow = if is_busy { random.u64(..3) > 0 } else { random.u64(..5) == 0 };
    let panics = random.u64(..3) > 0;
    let sync_delay = if is_slow { Duration::from_millis(1200) } else { short };
    let panics_one_in = match (panics && !is_slow, is_busy) {
        (false, _) => 0,
        (true, true) => 8,
        (true, false) => 40,
    };
    MergeBehavior { window, delay, sync_delay, sync_interval, panics_one_in }
}

fn draw_sink(random: &mut Rng) -> SinkBehavior {
    let panics = random.u64(..4) == 0;
    SinkBehavior {
        lanes: 1 + random.u64(..3) as usize,
        fails_one_in: random.u64(..2) * (2 + random.u64(..10)),
        panics_one_in: if panics { 20 } else { 0 },
        syncs: random.u64(..2) == 0,
        sends: random.u64(..3) == 0,
        // Returned payloads, together with panics that return all other payloads, would prevent
        // progress.
        unordered: !panics && random.u64(..3) == 0,
        delay: Duration::from_millis(random.u64(..3) * random.u64(..40)),
        sync_delay: Duration::ZERO,
        refuses_one_in: 0,
    }
}

/// Draws the sinks, and the sink that rejects lines.
fn draw_sinks(random: &mut Rng, is_busy: bool) -> ([SinkBehavior; 6], Option<usize>) {
    let mut behaviors: [SinkBehavior; 6] = std::array::from_fn(|_| draw_sink(random));
    let refuser = (is_busy || random.u64(..2) == 0).then(|| random.u64(..2) as usize);
    if let Some(sink) = refuser {
        behaviors[sink].sends = true;
        behaviors[sink].refuses_one_in = 1 + random.u64(..6);
    }
    if is_busy {
        // Results and rejected lines wait, so that a reload or a kill finds some, and some of them
        // are returned.
        for sink in [LETTERS, RESULTS] {
            let panics_one_in = 10 * random.u64(1..3);
            let delay = Duration::from_millis(random.u64(..200));
            let unsynced = SinkBehavior { sends: false, syncs: false, ..behaviors[sink] };
            behaviors[sink] = SinkBehavior { panics_one_in, delay, ..unsynced };
        }
    }
    (behaviors, refuser)
}

impl Scenario {
    /// Draws a scenario.
    pub fn draw(seed: u64) -> Scenario {
        let mut random = Rng::with_seed(seed);
        // Every other run is short and has many faults, some of which show only in combination.
        let is_busy = seed % 2 == 1;
        let lines_max = if is_busy { 80 } else { 200 };
        let origins = 1 + random.u64(..4) as usize;
        let lines = 20 + random.u64(..lines_max) as usize;
        let poison = (0..random.u64(..3) + if is_busy { 3 } else { 0 })
            .map(|_| (random.u64(..origins as u64) as usize, random.u64(..lines as u64) as usize));
        let poison = poison.collect();
        let (behaviors, refuser) = draw_sinks(&mut random, is_busy);
        let pool = ["panicky", "watch", "offload", "watch"];
        let mut is_there = |name: &&str| is_busy && *name == "panicky" || random.u64(..2) == 0;
        let transforms = pool.into_iter().filter(|name| is_there(name)).collect();
        Scenario {
            seed,
            origins,
            lines,
            poison,
            behaviors,
            transforms,
            kills: random.u64(..if is_busy { 10 } else { 4 }),
            stall: random.u64(..3) == 0,
            rate_limit: (random.u64(..8) == 0).then(|| 1000 + random.u64(..4000)),
            reload_one_in: match (is_busy, random.u64(..3)) {
                (true, 0 | 1) => 2 + random.u64(..12),
                (false, 0) => 20 + random.u64(..100),
                _ => 0,
            },
            // Endless reloads, as frequent as in a busy run, would return the payloads of slow
            // sinks before they are settled.
            reloads_max: if is_busy { 20 } else { u32::MAX },
            operator: (random.u64(..3) > 0).then(|| Operator::draw(&mut random)),
            refuser,
            letters_stall: is_busy || random.u64(..3) == 0,
            results_stall: is_busy && random.u64(..2) == 0,
            counts: (is_busy || random.u64(..8) > 0).then(|| merge_behavior(&mut random, is_busy)),
            revokes_one_in: match (is_busy, random.u64(..3)) {
                (true, 0 | 1) => 5 + random.u64(..20),
                (false, 0) => 5 + random.u64(..50),
                _ => 0,
            },
        }
    }

    pub fn is_ordered(&self, sink: usize) -> bool {
        // Lines that a panic during a delivery abandons, or that a changed sink returns, arrive
        // again later. Lines that an operator gave up on may pass when they are reread.
        let is_changed = self.reload_one_in > 0 && !matches!(sink, 0 | 3);
        let is_reread = self.kills > 0 || self.revokes_one_in > 0 || self.reload_one_in > 0;
        let may_pass = sink == 3 && is_reread && self.operator.is_some_and(|o| o.gives_up());
        let SinkBehavior { panics_one_in, sends, unordered, .. } = self.behaviors[sink];
        // The sink's payloads may also be returned undelivered.
        let is_unordered = sends && unordered;
        panics_one_in == 0 && !is_changed && !may_pass && !is_unordered
    }

    pub fn rejects_poison(&self) -> bool {
        self.transforms.contains(&"panicky")
    }
}

/// A map that panics on a line that ends in `!`.
struct Panicky;

impl Map for Panicky {
    fn apply(&mut self, batch: Batch, out: &mut Outputs) -> Result<(), ComponentError> {
        let poison = |row: usize| batch.is_selected(row) && batch.text(row).ends_with(b"!");
        assert!(!(0..batch.rows()).any(poison), "planted in a transform");
        out.send(0, batch);
        Ok(())
    }
}

/// A serial transform that checks that batches arrive in read order.
struct Watch {
    last: i64,
}

impl Serial for Watch {
    fn apply(&mut self, _: Now, batch: Batch, out: &mut Outputs) -> Result<(), ComponentError> {
        OUT_OF_ORDER.with(|flag| *flag.borrow_mut() |= batch.read_ns < self.last);
        self.last = batch.read_ns;
        out.send(0, batch);
        Ok(())
    }
}

thread_local! {
    pub static OUT_OF_ORDER: std::cell::RefCell<bool> = const { std::cell::RefCell::new(false) };
}

struct PassOn;

impl Offload for PassOn {
    fn concurrency(&self) -> usize {
        1
    }

    fn apply(
        &self,
        _: Now,
        batches: Vec<Batch>,
        outputs: &mut [Outputs],
    ) -> Result<(), ComponentError> {
        for (batch, out) in batches.into_iter().zip(outputs) {
            out.send(0, batch);
        }
        Ok(())
    }
}

/// Faults to inject into an offload transform on a branch of the chain.
#[derive(Clone, Copy, Debug)]
pub struct Operator {
    pub concurrency: usize,
    pub tickets_max: usize,
    pub deadline: Option<Duration>,
    pub passes_expired: bool,
    pub panics_one_in: u64,
    /// One call in this many hangs, and without a deadline it hangs until the first sink has
    /// received everything; 0 for none.
    pub hangs_one_in: u64,
    /// Number of hanging calls at which no more calls are made.
    pub hanging_max: Option<usize>,
    /// Maximum duration of calls that do not hang, in milliseconds.
    pub delay_ms_max: u64,
}

impl Operator {
    fn draw(random: &mut Rng) -> Operator {
        let deadline = 5 + random.u64(..100);
        Operator {
            concurrency: 1 + random.u64(..3) as usize,
            tickets_max: 1 + random.u64(..3) as usize,
            deadline: (random.u64(..3) > 0).then(|| Duration::from_millis(deadline)),
            passes_expired: random.u64(..2) == 0,
            panics_one_in: if random.u64(..4) == 0 { 10 } else { 0 },
            hangs_one_in: [0, 1, 3, 10][random.u64(..4) as usize],
            hanging_max: [None, Some(1), Some(2)][random.u64(..3) as usize],
            delay_ms_max: 1 + random.u64(..2) * random.u64(..300),
        }
    }
}

impl Operator {
    fn gives_up(&self) -> bool {
        self.panics_one_in > 0 || self.deadline.is_some() && !self.passes_expired
    }
}

/// Lines that an operator has deliberately given up on, in any life.
pub type GivenUp = Arc<Mutex<HashSet<String>>>;

/// An operator whose calls take simulated time, and sometimes hang.
struct Faulty {
    operator: Operator,
    given_up: GivenUp,
    random: Mutex<Rng>,
}

impl Faulty {
    fn give_up(&self, batch: &Batch) {
        let rows = (0..batch.rows()).filter(|row| batch.is_selected(*row));
        let text = |row| String::from_utf8_lossy(batch.text(row)).into_owned();
        self.given_up.lock().extend(rows.map(text));
    }
}

impl Offload for Faulty {
    fn concurrency(&self) -> usize {
        self.operator.concurrency
    }

    fn deadline(&self) -> Option<Duration> {
        self.operator.deadline
    }

    fn hanging_max(&self) -> Option<usize> {
        self.operator.hanging_max
    }

    fn tickets_max(&self) -> usize {
        self.operator.tickets_max
    }

    fn apply(
        &self,
        _: Now,
        batches: Vec<Batch>,
        outputs: &mut [Outputs],
    ) -> Result<(), ComponentError> {
        let one_in = self.operator.panics_one_in;
        if one_in > 0 && self.random.lock().u64(..one_in) == 0 {
            for batch in &batches {
                self.give_up(batch);
            }
            panic!("planted in an operator");
        }
        for (batch, out) in batches.into_iter().zip(outputs) {
            out.send(0, batch);
        }
        Ok(())
    }

    fn expired(&self, batch: Batch, out: &mut Outputs) {
        if self.operator.passes_expired {
            return out.send(0, batch);
        }
        self.give_up(&batch);
        out.counters.dropped("deadline", batch.events() as u64);
    }
}

fn transform(name: &str) -> Transform {
    match name {
        "panicky" => Transform::Map(Arc::new(|| Box::new(Panicky))),
        "offload" => Transform::Offload(Arc::new(PassOn)),
        _ => Transform::Serial(Box::new(Watch { last: i64::MIN })),
    }
}

/// The parts of the topology that a reload changes. A change of a number is a change of options.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub source: u64,
    pub second_sink: u64,
    pub transforms: u64,
    /// Number that identifies the options of the third sink, if there is one.
    pub third_sink: Option<u64>,
    /// Whether the topology contains an additional transform.
    pub watched: bool,
    /// Whether the topology contains a sink for rejected lines.
    pub keeps_letters: bool,
    /// Number that identifies the options of the merge transform.
    pub counter: u64,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            source: 0,
            second_sink: 0,
            transforms: 0,
            third_sink: None,
            watched: false,
            keeps_letters: true,
            counter: 0,
        }
    }
}

impl Shape {
    pub fn draw(self, random: &mut Rng) -> Shape {
        let mut bump = |number: u64, one_in| number + u64::from(random.u64(..one_in) == 0);
        let source = bump(self.source, 3);
        let second_sink = bump(self.second_sink, 3);
        let transforms = bump(self.transforms, 3);
        let third = bump(self.third_sink.unwrap_or(0), 3);
        let counter = bump(self.counter, 2);
        let third_sink = (random.u64(..2) == 0).then_some(third);
        let watched = random.u64(..2) == 0;
        let keeps_letters = random.u64(..4) > 0;
        Shape { source, second_sink, transforms, third_sink, watched, keeps_letters, counter }
    }

    /// Returns whether the reload keeps a component unchanged.
    pub fn keeps(self, before: Shape, id: &str) -> bool {
        match id {
            "log" => self.source == before.source,
            "s0" | "s3" | "s5" => true,
            "s4" => self.keeps_letters && before.keeps_letters,
            COUNTER => self.counter == before.counter,
            "s1" => self.second_sink == before.second_sink,
            "s2" => self.third_sink == before.third_sink,
            "watched" => self.watched && before.watched,
            _ => self.transforms == before.transforms,
        }
    }
}

/// Id of the operator on a branch.
pub const OPERATOR: &str = "operator";

/// The environment in which a life runs.
#[derive(Clone, Copy)]
pub struct World<'a> {
    pub scenario: &'a Scenario,
    pub log: &'a MemoryLog,
    pub endpoints: &'a [MemoryEndpoint; 6],
    pub snapshots: &'a MemorySnapshots,
    pub given_up: &'a GivenUp,
    pub folder: &'a Path,
    pub life: u64,
}

/// Returns the topology: a log, a chain of transforms, two or three sinks, and one more sink
/// downstream of an operator.
pub fn blueprint(world: World<'_>, shape: Shape) -> Blueprint {
    let World { scenario, log, endpoints, life, .. } = world;
    let log = log.clone();
    let seed = scenario.seed ^ life << 32;
    let pace = Pace { rate_limit: scenario.rate_limit, ..Pace::default() };
    let info = SourceInfo { id: "log".into(), ..SourceInfo::default() };
    let source = SourcePart {
        info,
        type_name: "memory",
        pace,
        queue_bytes: 0,
        open: Box::new(move |open| Ok(log.open(&open, seed))),
    };
    let mut blueprint = Blueprint { sources: vec![source], ..Blueprint::default() };
    let mut last = "log".to_owned();
    let names =
        scenario.transforms.iter().enumerate().map(|(index, name)| (format!("t{index}"), *name));
    let watched = shape.watched.then(|| ("watched".to_owned(), "watch"));
    for (id, name) in watched.into_iter().chain(names) {
        let inputs = vec![(std::mem::replace(&mut last, id.clone()), 0)];
        blueprint.transforms.push(TransformPart {
            id,
            type_name: "fake",
            inputs,
            transform: transform(name),
        });
    }
    let main = last.clone();
    let mut sinks = vec![(0, last.clone()), (1, last.clone())];
    sinks.extend(shape.third_sink.map(|_| (2, last.clone())));
    if let Some(operator) = scenario.operator {
        let given_up = world.given_up.clone();
        let random = Mutex::new(Rng::with_seed(seed));
        blueprint.transforms.push(TransformPart {
            id: OPERATOR.into(),
            type_name: "fake",
            inputs: vec![(last, 0)],
            transform: Transform::Offload(Arc::new(Faulty { operator, given_up, random })),
        });
        sinks.push((3, OPERATOR.to_owned()));
    }
    if let Some(behavior) = scenario.counts {
        let snapshots = world.snapshots.clone();
        blueprint.transforms.push(TransformPart {
            id: COUNTER.into(),
            type_name: "fake",
            inputs: vec![(main, 0)],
            transform: Transform::Merge(Arc::new(FakeMerge { snapshots, behavior, seed })),
        });
        sinks.push((RESULTS, COUNTER.to_owned()));
    }
    let refused = scenario.refuser.filter(|_| shape.keeps_letters).map(|sink| format!("s{sink}"));
    sinks.extend(refused.map(|sink| (LETTERS, sink)));
    blueprint.sinks.extend(sinks.into_iter().map(|(index, input)| SinkPart {
        id: format!("s{index}"),
        type_name: "fake",
        inputs: vec![(input, usize::from(index == LETTERS))],
        buffer: Buffer::default(),
        sink: Arc::new(FakeSink {
            endpoint: endpoints[index].clone(),
            behavior: scenario.behaviors[index],
            seed: seed ^ index as u64,
            format: "fake/1",
        }),
    }));
    blueprint
}
