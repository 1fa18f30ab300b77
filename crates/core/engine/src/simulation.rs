//! The engine under a simulated clock: workers, lanes, faults, reloads and kills in an order drawn
//! from a seed. A failing seed is printed; `MILLSTREAM_SEED=n` runs only that one.
//!
//! It proves nothing about real threads, disks or networks.

use crate::blueprint::{Blueprint, Clock, Settings, SinkPart, SourcePart, TransformPart};
use crate::buffer::Buffer;
use crate::chain::{Worker, at_cut};
use crate::core::{Core, Op};
use crate::current::Current;
use crate::pace::Pace;
use crate::reload::{Retired, replace_core, settle};
use crate::scheduler::{Job, Next};
use crate::ticket::Ticket;
use fastrand::Rng;
use millstream_model::{
    Batch, BuildError, ComponentError, InternalMetrics, Kind, Map, Now, Offload, Outputs, Serial,
    SourceInfo, Transform,
};
use millstream_store::Store;
use millstream_testkit::{FakeSink, MemoryEndpoint, MemoryLog, SinkBehavior};
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A run that takes more steps than this counts as stuck.
const STEPS_MAX: usize = 400_000;

/// What happens in one run.
#[derive(Clone, Debug)]
struct Scenario {
    seed: u64,
    origins: usize,
    lines: usize,
    poison: Vec<(usize, usize)>,
    behaviors: [SinkBehavior; 3],
    transforms: Vec<&'static str>,
    kills: u64,
    stall: bool,
    rate_limit: Option<u64>,
    /// One step in this many is a reload; 0 for none.
    reload_one_in: u64,
}

impl Scenario {
    /// Draws a scenario.
    fn draw(seed: u64) -> Scenario {
        let mut random = Rng::with_seed(seed);
        let (origins, lines) = (1 + random.u64(..4) as usize, 20 + random.u64(..200) as usize);
        let poison = (0..random.u64(..3))
            .map(|_| (random.u64(..origins as u64) as usize, random.u64(..lines as u64) as usize));
        let poison = poison.collect();
        let behavior = |random: &mut Rng| SinkBehavior {
            lanes: 1 + random.u64(..3) as usize,
            fails_one_in: random.u64(..2) * (2 + random.u64(..10)),
            panics_one_in: if random.u64(..4) == 0 { 20 } else { 0 },
            syncs: random.u64(..2) == 0,
            sends: random.u64(..3) == 0,
            delay: Duration::from_millis(random.u64(..3) * random.u64(..40)),
            sync_delay: Duration::ZERO,
        };
        let behaviors = [behavior(&mut random), behavior(&mut random), behavior(&mut random)];
        let pool = ["panicky", "watch", "offload", "watch"];
        let transforms = pool.into_iter().filter(|_| random.u64(..2) == 0).collect();
        Scenario {
            seed,
            origins,
            lines,
            poison,
            behaviors,
            transforms,
            kills: random.u64(..4),
            stall: random.u64(..3) == 0,
            rate_limit: (random.u64(..8) == 0).then(|| 1000 + random.u64(..4000)),
            reload_one_in: if random.u64(..3) == 0 { 20 + random.u64(..100) } else { 0 },
        }
    }

    fn is_ordered(&self, sink: usize) -> bool {
        // What a panic in a delivery abandons arrives again later, and so does what a changed sink
        // returns.
        self.behaviors[sink].panics_one_in == 0 && (sink == 0 || self.reload_one_in == 0)
    }

    fn rejects_poison(&self) -> bool {
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
    static OUT_OF_ORDER: std::cell::RefCell<bool> = const { std::cell::RefCell::new(false) };
}

struct PassOn;

impl Offload for PassOn {
    fn threads(&self) -> usize {
        1
    }

    fn apply(&self, batch: Batch, out: &mut Outputs) -> Result<(), ComponentError> {
        out.send(0, batch);
        Ok(())
    }
}

fn transform(name: &str) -> Transform {
    match name {
        "panicky" => Transform::Map(Arc::new(|| Box::new(Panicky))),
        "offload" => Transform::Offload(Arc::new(PassOn)),
        _ => Transform::Serial(Box::new(Watch { last: i64::MIN })),
    }
}

/// What a reload changes. A different number means different options.
#[derive(Clone, Copy, Debug, Default)]
struct Shape {
    source: u64,
    second_sink: u64,
    transforms: u64,
    /// The number of a third sink, if there is one.
    third_sink: Option<u64>,
    /// One more transform.
    watched: bool,
}

impl Shape {
    fn draw(self, random: &mut Rng) -> Shape {
        let mut bump = |number: u64, one_in| number + u64::from(random.u64(..one_in) == 0);
        let (source, second_sink) = (bump(self.source, 4), bump(self.second_sink, 3));
        let (transforms, third) = (bump(self.transforms, 3), bump(self.third_sink.unwrap_or(0), 3));
        let third_sink = (random.u64(..2) == 0).then_some(third);
        Shape { source, second_sink, transforms, third_sink, watched: random.u64(..2) == 0 }
    }

    /// Whether a component is unchanged.
    fn keeps(self, before: Shape, id: &str) -> bool {
        match id {
            "log" => self.source == before.source,
            "s0" => true,
            "s1" => self.second_sink == before.second_sink,
            "s2" => self.third_sink == before.third_sink,
            "watched" => before.watched,
            _ => self.transforms == before.transforms,
        }
    }
}

/// A log through a chain of transforms to two or three sinks.
fn blueprint(
    scenario: &Scenario,
    log: &MemoryLog,
    endpoints: &[MemoryEndpoint; 3],
    life: u64,
    shape: Shape,
) -> Blueprint {
    let (log, seed) = (log.clone(), scenario.seed ^ life << 32);
    let pace = Pace { rate_limit: scenario.rate_limit, ..Pace::default() };
    let info = SourceInfo { id: "log".into(), ..SourceInfo::default() };
    let source = SourcePart {
        info,
        type_name: "memory",
        pace,
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
    let sinks = 2 + usize::from(shape.third_sink.is_some());
    for (index, (endpoint, behavior)) in
        endpoints.iter().zip(scenario.behaviors).enumerate().take(sinks)
    {
        let endpoint = endpoint.clone();
        let sink = Arc::new(FakeSink { endpoint, behavior, seed: seed ^ index as u64 });
        let inputs = vec![(last.clone(), 0)];
        blueprint.sinks.push(SinkPart {
            id: format!("s{index}"),
            type_name: "fake",
            inputs,
            buffer: Buffer::default(),
            sink,
        });
    }
    blueprint
}

/// The environment of a life.
#[derive(Clone, Copy)]
struct World<'a> {
    scenario: &'a Scenario,
    log: &'a MemoryLog,
    endpoints: &'a [MemoryEndpoint; 3],
    folder: &'a Path,
    life: u64,
}

impl World<'_> {
    fn blueprint(self, shape: Shape) -> Blueprint {
        blueprint(self.scenario, self.log, self.endpoints, self.life, shape)
    }
}

fn settings() -> Settings {
    Settings {
        threads: 1,
        memory_bytes: 64 << 20,
        cpu: None,
        sink_bytes_max: 300,
        until_eof: true,
        internal_metrics: InternalMetrics::default(),
        clock: Clock::Simulated(0),
    }
}

/// One life of the agent, until it has delivered everything or is killed.
struct Life<'a> {
    world: World<'a>,
    shape: Shape,
    current: Arc<Current>,
    retired: Vec<Arc<Retired>>,
    core: Arc<Core>,
    workers: Vec<Worker>,
    running: VecDeque<Box<Ticket>>,
    random: Rng,
}

impl Life<'_> {
    fn start(world: World<'_>) -> Life<'_> {
        let store = Arc::new(Store::open(world.folder).expect("the store opens"));
        let shape = Shape::default();
        let built = world.blueprint(shape).build(&settings(), store).expect("the blueprint builds");
        for driver in built.drivers {
            tokio::spawn(driver.run());
        }
        let core = built.current.core();
        let workers = (0..3).map(|_| Worker::new(&core)).collect();
        let random = Rng::with_seed(world.scenario.seed ^ world.life);
        let (current, running) = (built.current, VecDeque::new());
        Life { world, shape, current, retired: Vec::new(), core, workers, running, random }
    }

    /// Switches to another topology, or stays if that one cannot be opened.
    async fn reload(&mut self) {
        self.pause().await;
        let shape = self.shape.draw(&mut self.random);
        let mut blueprint = self.world.blueprint(shape);
        let fails = self.random.u64(..8) == 0 && shape.source != self.shape.source;
        if fails {
            blueprint.sources[0].open = Box::new(|_| Err(BuildError::Listen("planted".into())));
        }
        let kept = |_: Kind, id: &str| shape.keeps(self.shape, id);
        settle(&self.core, &blueprint, &kept).await;
        let replaced = replace_core(&self.current, &self.retired, blueprint, &settings(), &kept);
        assert_eq!(replaced.is_err(), fails);
        if let Ok(replaced) = replaced {
            for driver in replaced.drivers {
                tokio::spawn(driver.run());
            }
            for retired in replaced.retired {
                let drain = Duration::from_millis(self.random.u64(..2000));
                tokio::spawn(retired.clone().drain(drain));
                self.retired.push(retired);
            }
            (self.core, self.shape) = (replaced.core, shape);
            self.workers = (0..3).map(|_| Worker::new(&self.core)).collect();
        }
        self.core.scheduler.pause(false);
    }

    /// Performs a step that could happen next.
    async fn step(&mut self) {
        match self.random.u64(..8) {
            0..3 => self.take().await,
            3 | 4 => self.run_one(),
            5 => self.offloads(),
            6 => tokio::task::yield_now().await,
            _ if self.reloads() => self.reload().await,
            _ if self.random.u64(..20) == 0 => _ = self.current.commit(),
            _ if self.random.u64(..40) == 0 => self.barrier().await,
            _ => tokio::time::sleep(Duration::from_millis(self.random.u64(..30))).await,
        }
    }

    fn reloads(&mut self) -> bool {
        let one_in = self.world.scenario.reload_one_in;
        one_in > 0 && self.random.u64(..one_in) == 0
    }

    async fn barrier(&mut self) {
        self.pause().await;
        self.core.scheduler.pause(false);
    }

    /// Ends every ticket issued so far, and issues none meanwhile.
    async fn pause(&mut self) {
        self.core.scheduler.pause(true);
        let issued = self.issued();
        for _ in 0..1000 {
            self.take().await;
            self.run_one();
            self.offloads();
            if self.core.is_drained() {
                break;
            }
        }
        assert!(self.core.is_drained(), "the barrier is not reached");
        assert_eq!(issued, self.issued(), "a ticket was issued behind the barrier");
        assert!(self.running.is_empty());
    }

    fn issued(&self) -> u64 {
        self.core.sources.iter().map(|source| source.release.lock().issued()).sum()
    }

    async fn take(&mut self) {
        // A millisecond between polls, so that the read order shows in the batches.
        tokio::time::sleep(Duration::from_millis(1)).await;
        if self.running.len() >= self.workers.len() {
            return;
        }
        match self.core.scheduler.next(self.core.now().since_start) {
            Next::Job(Job::Poll(source)) => self.running.extend(self.core.poll(source)),
            Next::Job(Job::Resume(ticket)) => self.running.push_back(ticket),
            Next::Idle(_) | Next::Stopped => {
                self.core.sinks().flat_map(|(_, s)| &s.lanes).for_each(|lane| lane.flush())
            }
        }
    }

    fn run_one(&mut self) {
        if !self.running.is_empty() {
            let (ticket, worker) =
                (self.random.u64(..self.running.len() as u64), self.random.u64(..3));
            let ticket = self.running.swap_remove_back(ticket as usize);
            let ticket = ticket.expect("the index is below the length");
            self.workers[worker as usize].run(&self.core, ticket);
        }
    }

    fn offloads(&mut self) {
        for (index, node) in self.core.nodes.iter().enumerate() {
            if let Op::Offload(offload, queue) = &node.op
                && let Some(ticket) = queue.try_pop()
            {
                let ticket =
                    at_cut(&self.core, index, ticket, |batch, out| offload.apply(batch, out));
                self.core.scheduler.resume(ticket);
            }
        }
    }
}

/// Lives one life on its own runtime, so that a kill takes the lanes with it. Returns the last
/// shape if everything was delivered.
fn live(world: World<'_>) -> Option<Shape> {
    let World { scenario, log, endpoints, .. } = world;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let mut running = Life::start(world);
        let last = world.life == scenario.kills;
        let steps = if last { STEPS_MAX } else { running.random.u64(..600) as usize };
        endpoints[1].stall(scenario.stall);
        for step in 0..steps {
            running.step().await;
            // The blocked sink recovers once the other one has everything.
            if scenario.stall && step % 50 == 0 && is_complete(scenario, log, &endpoints[0]) {
                endpoints[1].stall(false);
            }
            if running.core.is_finished() && running.running.is_empty() {
                running.current.commit().expect("checkpoints are written");
                return Some(running.shape);
            }
        }
        assert!(!last, "stuck: {:?}", crate::snapshot::take(&running.core));
        None
    })
}

/// Runs a scenario to its end and checks what arrived.
fn run(seed: u64) {
    let scenario = Scenario::draw(seed);
    let log = MemoryLog::new(scenario.origins, scenario.lines, &scenario.poison);
    let endpoints =
        [MemoryEndpoint::default(), MemoryEndpoint::default(), MemoryEndpoint::default()];
    let folder = tempfile::tempdir().expect("a folder");
    OUT_OF_ORDER.with(|flag| *flag.borrow_mut() = false);
    let world = |life| World {
        scenario: &scenario,
        log: &log,
        endpoints: &endpoints,
        folder: folder.path(),
        life,
    };
    let last = (0..=scenario.kills).find_map(|life| Some((life, live(world(life))?)));
    let (life, shape) = last.expect("the last life ends by itself");
    let sinks = 2 + usize::from(shape.third_sink.is_some());
    endpoints
        .iter()
        .enumerate()
        .take(sinks)
        .for_each(|(sink, endpoint)| check(&scenario, &log, endpoint, sink));
    if life == 0 && shape.source == 0 && scenario.is_ordered(0) {
        let (lines, mut seen) = (endpoints[0].lines(), HashSet::new());
        assert!(
            lines.iter().all(|line| seen.insert(line)),
            "a sink that nothing happened to got a line twice"
        );
    }
    assert!(
        !OUT_OF_ORDER.with(|flag| *flag.borrow()),
        "a serial transform saw batches out of order"
    );
}

#[test]
fn every_line_arrives_in_order_under_any_fault() {
    std::panic::set_hook(Box::new(|_| {}));
    let one = std::env::var("MILLSTREAM_SEED").ok().and_then(|seed| seed.parse().ok());
    let runs: u64 =
        std::env::var("MILLSTREAM_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(2000);
    let seeds = one.map_or(1..=runs, |seed| seed..=seed);
    for seed in seeds {
        if let Err(panic) = std::panic::catch_unwind(|| run(seed)) {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text
                .or_else(|| panic.downcast_ref::<&str>().map(|t| (*t).to_owned()))
                .unwrap_or_default();
            let _ = std::panic::take_hook();
            panic!("seed {seed}: {text}\n{:?}", Scenario::draw(seed));
        }
    }
    let _ = std::panic::take_hook();
}

fn expected(scenario: &Scenario, log: &MemoryLog) -> HashSet<String> {
    let lines = (0..scenario.origins).flat_map(|origin| log.lines(origin));
    lines.filter(|line| !(scenario.rejects_poison() && line.ends_with('!'))).collect()
}

fn is_complete(scenario: &Scenario, log: &MemoryLog, endpoint: &MemoryEndpoint) -> bool {
    let got: HashSet<String> = endpoint.lines().into_iter().collect();
    got.len() >= expected(scenario, log).len()
}

fn check(scenario: &Scenario, log: &MemoryLog, endpoint: &MemoryEndpoint, sink: usize) {
    let lines = endpoint.lines();
    let got: HashSet<String> = lines.iter().cloned().collect();
    let expected = expected(scenario, log);
    let lost: Vec<&String> = expected.difference(&got).collect();
    assert!(lost.is_empty(), "sink {sink} lost {lost:?}");
    let foreign: Vec<&String> = got.difference(&expected).collect();
    assert!(foreign.is_empty(), "sink {sink} got what it should not have: {foreign:?}");
    if scenario.is_ordered(sink) {
        check_order(&lines, sink);
    }
}

/// Checks that the first arrivals of each origin's lines are in order.
fn check_order(lines: &[String], sink: usize) {
    let (mut seen, mut last) = (HashSet::new(), HashMap::new());
    for line in lines.iter().filter(|line| seen.insert((*line).clone())) {
        let (origin, number) = line.trim_end_matches('!').split_once(':').expect("origin:number");
        let number: i64 = number.parse().expect("a number");
        let before = last.insert(origin.to_owned(), number).unwrap_or(-1);
        assert!(
            before < number,
            "sink {sink}: line {number} of origin {origin} came after {before}"
        );
    }
}
