//! The engine under a simulated clock: workers, lanes, faults, reloads and kills in an order drawn
//! from a seed. A failing seed is printed.
//!
//! The simulation proves nothing about real threads, disks or networks.

mod scenario;

use crate::blueprint::{Parts, Settings};
use crate::chain::Worker;
use crate::clock::Clock;
use crate::core::{Core, FinishedCall, SourceSlot};
use crate::current::Current;
use crate::offload::{CallId, OffloadQueue};
use crate::reload::{Change, replace_core, settle};
use crate::retired::Retired;
use crate::scheduler::{Job, Next};
use crate::ticket::Step;
use fastrand::Rng;
use millstream_model::limits::BLOCK_BYTES;
use millstream_model::tap::Taps;
use millstream_model::{BuildError, EngineTime, InternalLogs, InternalMetrics, Kind, Outputs};
use millstream_store::Store;
use millstream_testkit::{MemoryEndpoint, MemoryLog, MemorySnapshots, is_refused};
use millstream_testkit_random::{Seed, TestSize};
use scenario::{
    GivenUp, LETTERS, OPERATOR, OUT_OF_ORDER, RESULTS, Scenario, Shape, World, blueprint,
};
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A run with more steps than this is treated as stuck.
const STEPS_MAX: usize = 400_000;

/// Maximum number of steps for which the sink that receives rejected lines is stalled.
const LETTERS_STALL_STEPS: usize = 10_000;

fn settings() -> Settings {
    Settings {
        threads: 1,
        offload_threads: 1,
        memory_bytes: 64 << 20,
        reserved_bytes: 0,
        memory_host: None,
        cpu: None,
        sink_bytes_max: 300,
        until_eof: true,
        internal_metrics: InternalMetrics::default(),
        taps: Taps::default(),
        internal_logs: InternalLogs::default(),
        clock: Clock::Simulated(0),
    }
}

/// A call to an offload transform that takes time.
struct RunningCall {
    id: CallId,
    queue: Arc<OffloadQueue>,
    outputs: Vec<Outputs>,
    /// When the call returns; `None` if it is hanging.
    ends: Option<EngineTime>,
}

/// One life of the agent, until it has delivered everything or is killed.
struct Life<'a> {
    world: World<'a>,
    shape: Shape,
    current: Arc<Current>,
    retired: Vec<Arc<Retired>>,
    core: Arc<Core>,
    workers: Vec<Worker>,
    running: VecDeque<Step>,
    calls: Vec<RunningCall>,
    /// Whether calls that hang may return, because a sink that is not downstream of the operator
    /// has received everything.
    is_released: bool,
    /// Number of reloads so far.
    reloads: u32,
    random: Rng,
}

impl Life<'_> {
    fn start(world: World<'_>) -> Life<'_> {
        let store = Arc::new(Store::open(world.folder).expect("the store opens"));
        let shape = Shape::default();
        let built =
            blueprint(world, shape).build(&settings(), store).expect("the blueprint builds");
        for driver in built.drivers {
            tokio::spawn(driver.run());
        }
        let core = built.current.core();
        let workers = (0..3).map(|_| Worker::new(&core)).collect();
        let random = Rng::with_seed(world.scenario.seed ^ world.life);
        let current = built.current;
        let running = VecDeque::new();
        let retired = Vec::new();
        let calls = Vec::new();
        let is_released = false;
        let reloads = 0;
        Life {
            world,
            shape,
            current,
            retired,
            core,
            workers,
            running,
            calls,
            is_released,
            reloads,
            random,
        }
    }

    /// Switches to another topology, or keeps the current topology if the other one cannot be
    /// opened.
    async fn reload(&mut self) {
        if !self.pause().await {
            return;
        }
        let shape = self.shape.draw(&mut self.random);
        let mut parts = Parts::of(blueprint(self.world, shape));
        let fails = self.random.u64(..8) == 0 && shape.source != self.shape.source;
        if fails {
            parts.sources[0].open = Box::new(|_| Err(BuildError::Listen("planted".into())));
        }
        let kept = |_: Kind, id: &str| shape.keeps(self.shape, id);
        settle(&self.core, &parts, &kept).await;
        let change = Change { parts, settings: &settings(), kept: &kept };
        let replaced = replace_core(&self.current, &self.retired, change);
        assert_eq!(replaced.is_err(), fails);
        if let Ok(replaced) = replaced {
            for driver in replaced.drivers {
                tokio::spawn(driver.run());
            }
            for retired in replaced.retired {
                let drain = Duration::from_millis(self.random.u64(..4000));
                tokio::spawn(retired.clone().drain(drain));
                self.retired.push(retired);
            }
            (self.core, self.shape) = (replaced.core, shape);
            self.workers = (0..3).map(|_| Worker::new(&self.core)).collect();
        }
        self.core.resources().scheduler.pause(false);
    }

    /// Performs one of the steps that could happen next.
    async fn step(&mut self) {
        match self.random.u64(..8) {
            0..3 => self.take().await,
            3 | 4 => self.run_one(),
            5 => self.offloads(),
            6 => tokio::task::yield_now().await,
            _ if self.draws_reload() => self.reload().await,
            _ if self.random.u64(..20) == 0 => _ = self.current.commit(),
            _ if self.random.u64(..40) == 0 => self.barrier().await,
            _ => tokio::time::sleep(Duration::from_millis(self.random.u64(..30))).await,
        }
    }

    fn draws_reload(&mut self) -> bool {
        let Scenario { reload_one_in: one_in, reloads_max, .. } = *self.world.scenario;
        let reloads = one_in > 0 && self.reloads < reloads_max && self.random.u64(..one_in) == 0;
        self.reloads += u32::from(reloads);
        reloads
    }

    async fn barrier(&mut self) {
        if self.pause().await {
            self.core.resources().scheduler.pause(false);
        }
    }

    /// Pauses polling until every ticket issued so far has ended. Returns `false`, and resumes
    /// polling, if an operator is hanging.
    async fn pause(&mut self) -> bool {
        self.core.resources().scheduler.pause(true);
        let issued = self.issued();
        for step in 0..20_000 {
            self.take().await;
            self.run_one();
            self.offloads();
            // Slow calls end within this many steps; hanging calls do not.
            if self.core.status().is_drained() || step > 1000 && self.hangs() {
                break;
            }
        }
        assert_eq!(issued, self.issued(), "a ticket was issued after the barrier");
        assert!(self.running.is_empty());
        if !self.core.status().is_drained() {
            assert!(self.hangs(), "the barrier is not reached");
            assert_eq!(self.core.status().holders(), [format!("transform {OPERATOR}")]);
            self.core.resources().scheduler.pause(false);
            return false;
        }
        true
    }

    fn hangs(&self) -> bool {
        self.calls.iter().any(|call| call.ends.is_none())
    }

    fn issued(&self) -> u64 {
        self.core.sources().iter().map(SourceSlot::issued).sum()
    }

    async fn take(&mut self) {
        // A millisecond passes between polls, so that the batches show the read order.
        tokio::time::sleep(Duration::from_millis(1)).await;
        if self.running.len() >= self.workers.len() {
            return;
        }
        match self.core.resources().scheduler.next(self.core.resources().engine_time()) {
            Next::Job(Job::Poll(source)) => self.running.extend(self.core.polling().poll(source)),
            Next::Job(Job::Resume(step)) => self.running.push_back(step),
            Next::Idle(_) | Next::Stopped => {
                for lane in self.core.nodes().lanes() {
                    lane.flush();
                }
            }
        }
    }

    fn run_one(&mut self) {
        if !self.running.is_empty() {
            let step = self.random.u64(..self.running.len() as u64);
            let worker = self.random.u64(..3);
            let step = self.running.swap_remove_back(step as usize);
            let step = step.expect("the index is below the length");
            let done = self.workers[worker as usize].run(step);
            self.core.flow().take(done);
            self.check_shares();
        }
    }

    /// Begins and ends calls to offload transforms.
    fn offloads(&mut self) {
        let now = self.core.resources().engine_time();
        if let Some(due) = self.core.resources().offload.take(now) {
            let outputs = self.core.flow().call(&due.queue, due.batches);
            let ends = self.end_of_call(&due.queue, now);
            self.calls.push(RunningCall { id: due.id, queue: due.queue, outputs, ends });
        }
        let has_ended = |call: &RunningCall| call.ends.is_some_and(|ends| ends <= now);
        if let Some(at) = self.calls.iter().position(has_ended) {
            let call = self.calls.swap_remove(at);
            if let Some(arrivals) = self.core.resources().offload.finish(call.id) {
                let RunningCall { queue, outputs, .. } = call;
                let begun = Instant::now();
                self.core.flow().resume(FinishedCall { queue, arrivals, begun, outputs });
            }
        }
        self.core.flow().expire_calls();
    }

    /// Draws the time when a call that begins now returns; `None` if it hangs.
    fn end_of_call(&mut self, queue: &Arc<OffloadQueue>, now: EngineTime) -> Option<EngineTime> {
        let node = self.core.nodes().of_offload(queue);
        let operator =
            self.world.scenario.operator.filter(|_| node.is_some_and(|node| &*node.id == OPERATOR));
        let Some(operator) = operator else { return Some(now) };
        let is_same = |call: &&RunningCall| Arc::ptr_eq(&call.queue, queue);
        let calls = self.calls.iter().filter(is_same).count();
        assert!(calls < operator.concurrency, "more calls than the operator allows");
        let hangs = operator.hangs_one_in > 0 && self.random.u64(..operator.hangs_one_in) == 0;
        let delay = Duration::from_millis(self.random.u64(..operator.delay_ms_max));
        (!hangs || self.is_released && operator.deadline.is_none()).then(|| now + delay)
    }

    /// Lets hanging calls return once the first sink has received everything, unless the operator
    /// has a deadline.
    fn release_calls(&mut self) {
        let has_deadline = self.world.scenario.operator.is_some_and(|o| o.deadline.is_some());
        self.is_released |= self.hangs() && is_complete(self.world, 0);
        if self.is_released && !has_deadline {
            let now = self.core.resources().engine_time();
            for call in &mut self.calls {
                call.ends = call.ends.or(Some(now));
            }
        }
    }

    /// Checks that the tickets at a cut, except the last one, stay within the source's share.
    fn check_shares(&self) {
        for source in self.core.sources().iter() {
            let batch_max = source.wiring.expansion + BLOCK_BYTES as u64;
            for cut in &source.wiring.cuts {
                let bytes_max = cut.bytes_max() + batch_max;
                assert!(cut.bytes() <= bytes_max, "{} bytes wait at a cut", cut.bytes());
            }
        }
    }
}

/// Runs one life on a separate runtime, so that a kill also ends the lanes. Returns the last shape
/// if everything was delivered.
fn live(world: World<'_>) -> Option<Shape> {
    let World { scenario, endpoints, .. } = world;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let mut running = Life::start(world);
        let last = world.life == scenario.kills;
        let steps = if last { STEPS_MAX } else { running.random.u64(..600) as usize };
        endpoints[1].stall(scenario.stall);
        endpoints[LETTERS].stall(scenario.letters_stall);
        endpoints[RESULTS].stall(scenario.results_stall);
        for step in 0..steps {
            running.step().await;
            // The blocked sink recovers once the other sink has received everything.
            let is_complete = step % 50 == 0 && is_complete(world, 0);
            if is_complete {
                endpoints[1].stall(false);
            }
            // A payload that is returned undelivered is settled only after its rejected lines.
            if is_complete || step == LETTERS_STALL_STEPS {
                endpoints[LETTERS].stall(false);
                endpoints[RESULTS].stall(false);
            }
            if step % 50 == 0 {
                running.release_calls();
            }
            if running.core.status().is_finished() && running.running.is_empty() {
                running.current.commit().expect("checkpoints are written");
                return Some(running.shape);
            }
        }
        assert!(!last, "stuck: {:?}", running.core.status().snapshot());
        None
    })
}

/// Runs a scenario to its end and checks what arrived.
fn run(seed: u64) {
    fastrand::seed(seed);
    let scenario = Scenario::draw(seed);
    let mut log = MemoryLog::new(scenario.origins, scenario.lines, &scenario.poison);
    log.revokes_one_in = scenario.revokes_one_in;
    let endpoints: [MemoryEndpoint; 6] = Default::default();
    let snapshots = MemorySnapshots::default();
    let given_up = GivenUp::default();
    // The folder is in memory if possible, because disk syncs would take most of the time.
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let folder = folder.expect("a folder");
    OUT_OF_ORDER.with(|flag| *flag.borrow_mut() = false);
    let world = |life| World {
        scenario: &scenario,
        log: &log,
        endpoints: &endpoints,
        snapshots: &snapshots,
        given_up: &given_up,
        folder: folder.path(),
        life,
    };
    let last = (0..=scenario.kills).find_map(|life| Some((life, live(world(life))?)));
    let (life, shape) = last.expect("the last life ends by itself");
    let sinks = [0, 1].into_iter().chain(shape.third_sink.map(|_| 2));
    let sinks = sinks.chain(scenario.operator.map(|_| 3));
    for sink in sinks {
        check(world(life), sink);
    }
    check_letters(world(life));
    if scenario.counts.is_some() {
        check_counts(world(life));
    }
    // A payload is repeated if a reload removes the reader of its rejected lines.
    let may_return = scenario.refuser == Some(0) && scenario.reload_one_in > 0;
    let is_undisturbed =
        life == 0 && shape.source == 0 && scenario.revokes_one_in == 0 && !may_return;
    if is_undisturbed && scenario.is_ordered(0) {
        let lines = endpoints[0].lines();
        let mut seen = HashSet::new();
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

/// Number of scenarios.
const RUNS: TestSize = TestSize { gate: 100, long: 50_000 };

#[test]
fn every_line_arrives_in_order_under_any_fault() {
    let seed = Seed::of_test_or(1);
    let runs = RUNS.get();
    seed.count(runs);
    std::panic::set_hook(Box::new(|_| {}));
    let failure = first_failure(seed.value()..seed.value().saturating_add(runs));
    let _ = std::panic::take_hook();
    if let Some((failed, text)) = failure {
        seed.set_value(failed);
        panic!("{text}\n{:?}", Scenario::draw(failed));
    }
}

/// Runs scenarios on every core, and returns the lowest seed that fails, with the message.
fn first_failure(seeds: Range<u64>) -> Option<(u64, String)> {
    let next = AtomicU64::new(seeds.start);
    let search = || {
        let mut drawn = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed))
            .take_while(|seed| *seed < seeds.end);
        let failure = drawn.find_map(|seed| Some((seed, failure(seed)?)));
        // The other threads end after their current scenario, because every lower seed has been
        // drawn.
        if failure.is_some() {
            next.store(seeds.end, Ordering::Relaxed);
        }
        failure
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        let searches: Vec<_> = (0..threads).map(|_| scope.spawn(search)).collect();
        searches.into_iter().filter_map(|search| search.join().expect("it catches panics")).min()
    })
}

/// Runs a scenario, and returns the message of its failure.
fn failure(seed: u64) -> Option<String> {
    let panic = std::panic::catch_unwind(|| run(seed)).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|t| (*t).to_owned()));
    Some(text.unwrap_or_default())
}

fn expected(scenario: &Scenario, log: &MemoryLog) -> HashSet<String> {
    let lines = (0..scenario.origins).flat_map(|origin| log.lines(origin));
    lines.filter(|line| !(scenario.rejects_poison() && line.ends_with('!'))).collect()
}

/// Returns whether a sink has received every line that it does not reject.
fn is_complete(world: World<'_>, sink: usize) -> bool {
    let got: HashSet<String> = world.endpoints[sink].lines().into_iter().collect();
    let expected = expected(world.scenario, world.log);
    let one_in = world.scenario.behaviors[sink].refuses_one_in;
    expected.iter().all(|line| got.contains(line) || is_refused(line.as_bytes(), one_in))
}

fn check(world: World<'_>, sink: usize) {
    let lines = world.endpoints[sink].lines();
    let mut got: HashSet<String> = lines.iter().cloned().collect();
    if world.scenario.refuser == Some(sink) {
        got.extend(world.endpoints[LETTERS].lines());
    }
    let expected = expected(world.scenario, world.log);
    let given_up = if sink == 3 { world.given_up.lock().clone() } else { HashSet::new() };
    let lost: Vec<&String> =
        expected.difference(&got).filter(|line| !given_up.contains(*line)).collect();
    assert!(lost.is_empty(), "sink {sink} lost {lost:?}");
    let foreign: Vec<&String> = got.difference(&expected).collect();
    assert!(foreign.is_empty(), "sink {sink} got what it should not have: {foreign:?}");
    if world.scenario.is_ordered(sink) {
        // A rejected line may arrive more than once if nothing reads rejected lines.
        let one_in = world.scenario.behaviors[sink].refuses_one_in;
        let lines: Vec<String> =
            lines.into_iter().filter(|line| !is_refused(line.as_bytes(), one_in)).collect();
        check_order(&lines, sink);
    }
}

/// Checks that exactly the lines that a sink rejects arrive as rejected lines.
fn check_letters(world: World<'_>) {
    let World { scenario, endpoints, .. } = world;
    let Some(refuser) = scenario.refuser else { return };
    let one_in = scenario.behaviors[refuser].refuses_one_in;
    let letters = endpoints[LETTERS].lines();
    let is_right = |line: &String| is_refused(line.as_bytes(), one_in);
    assert!(letters.iter().all(is_right), "a line that was not refused is treated as refused");
    if scenario.reload_one_in == 0 {
        let both = endpoints[refuser].lines().into_iter().find(is_right);
        assert!(both.is_none(), "delivered although it is refused: {both:?}");
    }
    let behavior = scenario.behaviors[LETTERS];
    let panics = behavior.panics_one_in + scenario.behaviors[refuser].panics_one_in > 0;
    let comes_back = panics || scenario.behaviors[refuser].unordered || behavior.unordered;
    let is_reread = scenario.kills + scenario.revokes_one_in + scenario.reload_one_in > 0;
    if !comes_back && !is_reread {
        let mut seen = HashSet::new();
        let twice = letters.iter().find(|line| !seen.insert(*line));
        assert!(twice.is_none(), "refused twice: {twice:?}");
    }
}

/// Checks that the counts of all windows add up to the line counts, and that no two results have
/// the same number.
fn check_counts(world: World<'_>) {
    let mut results: HashMap<String, String> = HashMap::new();
    for line in world.endpoints[RESULTS].lines() {
        let (number, result) = line.split_once(' ').expect("number and result");
        let before = results.insert(number.to_owned(), result.to_owned());
        let is_same = before.as_ref().is_none_or(|before| before == result);
        assert!(is_same, "number {number} was {before:?} and is {result}");
    }
    let mut counts: HashMap<String, u64> = HashMap::new();
    for result in results.values() {
        let (line, count) = result.split_once(' ').expect("line and count");
        *counts.entry(line.to_owned()).or_default() += count.parse::<u64>().expect("a count");
    }
    for line in expected(world.scenario, world.log) {
        let count = counts.remove(&line).unwrap_or(0);
        assert_eq!(count, 1, "wrong count of {line}");
    }
    assert!(counts.is_empty(), "counted what was never read: {counts:?}");
}

/// Checks that the first arrivals of each origin's lines are in order.
fn check_order(lines: &[String], sink: usize) {
    let mut seen = HashSet::new();
    let mut last = HashMap::new();
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
