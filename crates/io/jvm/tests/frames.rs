//! Java frames in profiles.

use crate::support::{Batch, jvm, operator};
use millstream_profiler::{Component, Event, MethodAddress, RawProfile, Session, Settings, Stack};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time until a condition must hold, sufficient for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// CPU time during which profiles are taken while classes come and go: enough for two to three
/// thousand samples.
const CLASSES_CPU_TIME: Duration = Duration::from_secs(3);

/// Returns the CPU time of the process. If a test waits for CPU time, a profile contains the same
/// number of samples on a busy host.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn start() -> Session {
    let interval = Duration::from_millis(1);
    let settings = Settings { event: Event::Cpu, interval, buffer_bytes: 8 << 20 };
    millstream_profiler::start(settings).unwrap()
}

/// Returns the position of a Java method in a stack.
fn position(profile: &RawProfile, stack: &Stack, name: &str) -> Option<usize> {
    let named = profile.methods.iter().filter(|method| method.name == name);
    let addresses: Vec<u64> = named.map(|method| method.address).collect();
    stack.addresses.iter().position(|address| addresses.contains(address))
}

fn is_java(address: u64) -> bool {
    MethodAddress::of(address).is_some()
}

/// Sample counts of a thread.
#[derive(Debug, Default)]
struct Samples {
    all: u64,
    /// Samples that contain the method.
    found: u64,
    /// Samples of the component that contain the method, the Rust functions that called it, and
    /// their callers.
    whole: u64,
}

impl Samples {
    fn of(profile: &RawProfile, thread: &str, component: &str, method: &str) -> Samples {
        let thread = profile.threads.iter().position(|other| other.name == thread).unwrap();
        let mut samples = Samples::default();
        for stack in profile.stacks.iter().filter(|stack| stack.thread as usize == thread) {
            samples.all += stack.count;
            let Some(at) = position(profile, stack, method) else { continue };
            samples.found += stack.count;
            let has_callers = stack.addresses.iter().skip(at).any(|address| !is_java(*address));
            let is_of = profile.components[stack.component as usize] == component;
            let is_whole = has_callers && is_of && !stack.is_truncated;
            samples.whole += stack.count * u64::from(is_whole);
        }
        samples
    }
}

#[test]
#[ignore = "run by every_java"]
fn an_operator_that_uses_the_cpu_is_between_what_it_calls_and_its_caller() {
    let operator = operator();
    Batch::new(&["burn", "burn"]).call(&operator);
    let session = start();
    let burner = thread::Builder::new().name("burner".to_owned()).spawn(move || {
        let _entered = Component::named("burning").enter();
        Batch::new(&["burn"; 10]).call(&operator);
    });
    burner.unwrap().join().unwrap();
    let profile = session.stop();
    let samples = Samples::of(&profile, "burner", "burning", "test.Commands.burn");
    let Samples { all, found, whole } = samples;
    assert!(all > 500 && found * 10 >= all * 9 && whole * 10 >= all * 9, "{samples:?}");
    let burn = profile.methods.iter().find(|method| method.name == "test.Commands.burn").unwrap();
    assert_eq!(burn.file.as_deref(), Some("Commands.java"));
    assert!(burn.line.is_some());
}

#[test]
#[ignore = "run by every_java"]
fn allocations_are_those_of_the_operator() {
    let operator = operator();
    Batch::new(&["add x"]).call(&operator);
    let interval = Duration::from_millis(10);
    let settings = Settings { event: Event::Alloc, interval, buffer_bytes: 1 << 20 };
    let session = millstream_profiler::start(settings).unwrap();
    // The JVM starts sampling in the profiler's next round.
    thread::sleep(Duration::from_millis(500));
    let allocating = thread::Builder::new().name("allocating".to_owned()).spawn(move || {
        let _entered = Component::named("allocating").enter();
        (0..20).for_each(|_| drop(Batch::new(&["garbage"]).call(&operator)));
    });
    allocating.unwrap().join().unwrap();
    let profile = session.stop();
    let samples = Samples::of(&profile, "allocating", "allocating", "test.Commands.garbage");
    assert!(samples.whole > 10 && samples.whole == samples.found, "{samples:?}");
    assert_eq!(profile.interval_ns, 0);
}

#[test]
#[ignore = "run by every_java"]
fn a_profile_that_begins_before_the_jvm_has_its_frames() {
    let session = start();
    let operator = operator();
    // Methods get their ids in the profiler's next round.
    let (begun, mut is_found) = (Instant::now(), false);
    while !is_found {
        assert!(begun.elapsed() < PATIENCE, "no profile has the method");
        Batch::new(&["burn"]).call(&operator);
        let methods = session.take().map(|profile| profile.methods).unwrap_or_default();
        is_found = methods.iter().any(|method| method.name == "test.Commands.burn");
    }
}

#[test]
#[ignore = "run by every_java"]
fn profiles_start_and_stop_while_operators_run() {
    let (operator, stop) = (operator(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                Batch::new(&["add x", "drop", "throw"]).call(&operator);
                thread::sleep(Duration::from_micros(200));
            }
        });
        let with_java = (0..50).filter(|_| {
            let (session, begun) = (start(), cpu_time());
            while cpu_time() - begun < Duration::from_millis(10) {
                thread::sleep(Duration::from_millis(1));
            }
            !session.stop().methods.is_empty()
        });
        let with_java = with_java.count();
        stop.store(true, Ordering::Relaxed);
        assert!(with_java > 10, "{with_java} of 50 profiles");
    });
}

#[test]
#[ignore = "run by every_java"]
fn profiles_of_classes_that_come_and_go_are_harmless() {
    jvm();
    let (current, stop) = (Mutex::new(operator()), AtomicBool::new(false));
    let load = || {
        while !stop.load(Ordering::Relaxed) {
            let operator = current.lock().clone();
            Batch::new(&["add x", "drop", "throw", "recurse"]).call(&operator);
        }
    };
    let (session, begun) = (start(), cpu_time());
    let mut profiles = Vec::new();
    thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(load)));
        while cpu_time() - begun < CLASSES_CPU_TIME {
            let next = operator();
            *current.lock() = next;
            Batch::new(&["collect"]).call(&operator());
            profiles.extend(session.take());
        }
        stop.store(true, Ordering::Relaxed);
    });
    profiles.push(session.stop());
    let profile = millstream_profiler::merge(profiles).unwrap();
    let samples: u64 = profile.stacks.iter().map(|stack| stack.count).sum();
    let has_java = |stack: &&Stack| stack.addresses.iter().any(|address| is_java(*address));
    let with_java: u64 = profile.stacks.iter().filter(has_java).map(|stack| stack.count).sum();
    assert!(profile.methods.len() > 100, "{} methods", profile.methods.len());
    assert!(samples > 1000 && with_java * 4 > samples, "{with_java} of {samples} samples");
}
