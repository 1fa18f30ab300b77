//! Tests profiles of this process. Each test runs alone, because a process can have only one
//! profile at a time.

use crate::support::{Profile, alone, burn, settings, thread_cpu_time};
use fastrand::Rng;
use millstream_profiler::{Component, Event, RawProfile, Settings, StartError};
use millstream_testkit_random::Seed;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

#[inline(never)]
fn burn_one(time: Duration) -> u64 {
    std::hint::black_box(burn(time) + 1)
}

#[inline(never)]
fn burn_three(time: Duration) -> u64 {
    std::hint::black_box(burn(time) + 3)
}

/// Uses 4 s of CPU time, a quarter of it in one function. The times are random, because equal times
/// could be in step with the samples. Returns the CPU time of the function, and the total.
fn work(mut random: Rng) -> (Duration, Duration) {
    let (mut one, begun) = (Duration::ZERO, thread_cpu_time());
    for _ in 0..33 {
        let before = thread_cpu_time();
        burn_one(Duration::from_micros(random.u64(20_000..40_000)));
        one += thread_cpu_time() - before;
        burn_three(Duration::from_micros(random.u64(60_000..120_000)));
    }
    (one, thread_cpu_time() - begun)
}

#[test]
fn functions_have_the_shares_of_their_cpu_time() {
    let _alone = alone();
    let session = millstream_profiler::start(settings(Event::Cpu)).unwrap();
    let mut random = Seed::of_test().random();
    let numbers = random.fork();
    let (used_one, used) = thread::spawn(|| work(numbers)).join().unwrap();
    let profile = Profile::from(session.stop());
    let (one, three) = (profile.with("burn_one"), profile.with("burn_three"));
    let share = one as f64 / (one + three) as f64;
    let true_share = used_one.as_secs_f64() / used.as_secs_f64();
    assert!((true_share - 0.25).abs() < 0.1, "{used_one:?} of {used:?}");
    let is_exact = profile.raw.threads_sampled_at_ticks == 0;
    if !is_exact {
        println!("shares are not tested: the process may not use perf_event_open");
    }
    let is_right = !is_exact || (share - true_share).abs() < 0.03;
    assert!(is_right, "{one} and {three} samples, share {true_share}");
    let sampled = Duration::from_nanos((one + three) * profile.raw.interval_ns);
    let ratio = sampled.as_secs_f64() / used.as_secs_f64();
    assert!((0.9..1.1).contains(&ratio), "{sampled:?} sampled of {used:?}");
    assert!(profile.raw.cpu_ns >= used.as_nanos() as u64);
    assert_eq!(profile.raw.lost, 0);
    let whole = profile.raw.stacks.iter().filter(|stack| !stack.is_truncated);
    let whole: u64 = whole.map(|stack| stack.count).sum();
    assert!(whole * 100 >= profile.samples() * 99, "{whole} of {} are whole", profile.samples());
    // The stack extends to the function with which the C library starts the thread.
    assert_eq!(profile.with_all(&["burn_one", "thread_start"]), one);
}

#[test]
fn a_thread_that_waits_has_wall_samples_only() {
    let _alone = alone();
    for (event, is_sampled) in [(Event::Cpu, false), (Event::Wall, true)] {
        let (sender, receiver) = mpsc::channel::<()>();
        let idle = thread::Builder::new().name("idle".to_owned());
        let idle = idle.spawn(move || receiver.recv()).unwrap();
        thread::sleep(Duration::from_millis(20));
        let session = millstream_profiler::start(settings(event)).unwrap();
        burn(Duration::from_millis(500));
        thread::sleep(Duration::from_millis(300));
        let profile = Profile::from(session.stop());
        sender.send(()).unwrap();
        idle.join().unwrap().unwrap();
        let samples = profile.of_thread("idle");
        assert_eq!(samples > 0, is_sampled, "{event}: {samples} samples");
        assert!(profile.samples() > 0);
    }
}

#[test]
fn a_thread_that_starts_later_is_sampled_with_its_name() {
    let _alone = alone();
    let session = millstream_profiler::start(settings(Event::Cpu)).unwrap();
    let late = thread::Builder::new().name("late".to_owned());
    late.spawn(|| burn_one(Duration::from_millis(800))).unwrap().join().unwrap();
    let profile = Profile::from(session.stop());
    // A sample can also show the start of the thread.
    let (all, burning) = (profile.of_thread("late"), profile.with("burn_one"));
    assert!(burning > 0 && burning <= all && burning * 10 >= all * 9, "{burning} of {all}");
    assert!(profile.raw.threads.iter().any(|thread| thread.name == "profiler"));
}

#[test]
fn samples_have_the_component_that_the_thread_works_for() {
    let _alone = alone();
    let session = millstream_profiler::start(settings(Event::Cpu)).unwrap();
    let time = Duration::from_millis(200);
    {
        let _outer = Component::named("outer").enter();
        burn_one(time);
        {
            let _inner = Component::named("inner").enter();
            burn_three(time);
        }
        burn_one(time);
    }
    burn_three(time);
    let profile = Profile::from(session.stop());
    assert_eq!(profile.raw.components[0], "");
    let samples = |component, function| profile.of_component(component, function);
    assert!(samples("outer", "burn_one") > 0 && samples("inner", "burn_three") > 0);
    assert!(samples("", "burn_three") > 0);
    let other =
        samples("outer", "burn_three") + samples("inner", "burn_one") + samples("", "burn_one");
    assert_eq!(other, 0, "samples of the wrong component");
}

#[inline(never)]
fn recursion(depth: u32, time: Duration) -> u64 {
    let below = if depth == 0 { burn(time) } else { recursion(depth - 1, time) };
    std::hint::black_box(below) + 1
}

#[test]
fn a_deep_stack_is_truncated() {
    let _alone = alone();
    let session = millstream_profiler::start(settings(Event::Cpu)).unwrap();
    recursion(500, Duration::from_millis(200));
    let profile = Profile::from(session.stop());
    let deepest = profile.raw.stacks.iter().max_by_key(|stack| stack.addresses.len()).unwrap();
    assert_eq!((deepest.addresses.len(), deepest.is_truncated), (128, true));
    // Above the recursion are `burn` and, where the kernel shows its frames, frames of the clock.
    let is_recursion = |at: &&u64| profile.name(**at).contains("recursion");
    let below: Vec<_> = deepest.addresses.iter().skip_while(|at| !is_recursion(at)).collect();
    assert!(below.len() > 64 && below.iter().all(is_recursion), "{} frames", below.len());
}

#[inline(never)]
fn waits_deep(depth: u32, barrier: &std::sync::RwLock<()>) -> u32 {
    if depth > 0 {
        return std::hint::black_box(waits_deep(depth - 1, barrier)) + 1;
    }
    drop(barrier.read().unwrap());
    0
}

#[test]
fn samples_without_space_are_counted() {
    let _alone = alone();
    let barrier = std::sync::RwLock::new(());
    let locked = barrier.write().unwrap();
    thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| waits_deep(200, &barrier));
        }
        // The buffer has room for 62 samples with 128 frames. On a slow host, many rounds take
        // fewer samples.
        let is_full = (0..100).any(|_| {
            let settings = Settings { buffer_bytes: 1 << 16, ..settings(Event::Wall) };
            let session = millstream_profiler::start(settings).unwrap();
            thread::sleep(Duration::from_millis(300));
            session.stop().lost > 0
        });
        drop(locked);
        assert!(is_full);
    });
}

#[test]
fn one_profile_runs_at_a_time() {
    let _alone = alone();
    let session = millstream_profiler::start(settings(Event::Cpu)).unwrap();
    let second = millstream_profiler::start(settings(Event::Wall));
    assert!(matches!(second, Err(StartError::Running)), "{second:?}");
    drop(session);
    millstream_profiler::start(settings(Event::Wall)).unwrap().stop();
}

#[inline(never)]
fn read_zeros(time: Duration) -> usize {
    let (mut file, begun) = (std::fs::File::open("/dev/zero").unwrap(), thread_cpu_time());
    let mut zeros = vec![1; 1 << 20];
    while thread_cpu_time() - begun < time {
        file.read_exact(&mut zeros).unwrap();
    }
    std::hint::black_box(zeros.len())
}

#[test]
fn stacks_begin_in_the_kernel_where_that_is_permitted() {
    let _alone = alone();
    let session = millstream_profiler::start(settings(Event::Cpu)).unwrap();
    thread::spawn(|| read_zeros(Duration::from_millis(500))).join().unwrap();
    let profile = Profile::from(session.stop());
    if profile.raw.threads_sampled_at_ticks > 0 {
        return println!("not tested: the process may not use perf_event_open");
    }
    let reading = profile.with("read_zeros");
    let in_kernel = profile.raw.stacks.iter().filter(|stack| {
        let mut names = stack.addresses.iter().map(|address| profile.name(*address));
        millstream_profiler::is_kernel(stack.addresses[0])
            && names.any(|name| name.contains("read_zeros"))
    });
    let in_kernel: u64 = in_kernel.map(|stack| stack.count).sum();
    assert!(in_kernel * 10 > reading * 8, "{in_kernel} of {reading} samples");
}

#[test]
fn a_running_profile_gives_away_its_samples_in_slices() {
    let _alone = alone();
    let session = millstream_profiler::start(settings(Event::Cpu)).unwrap();
    let of_burning = |raw: RawProfile| {
        let profile = Profile::from(raw);
        (profile.with("burn_one"), profile.with("burn_three"))
    };
    thread::spawn(|| burn_one(Duration::from_millis(300))).join().unwrap();
    let first = session.take().unwrap();
    thread::spawn(|| burn_three(Duration::from_millis(300))).join().unwrap();
    let second = session.take().unwrap();
    let rest = session.stop();
    let durations = [&first, &second, &rest].map(|profile| profile.duration_ns);
    let merged = millstream_profiler::merge([first.clone(), second.clone(), rest]).unwrap();
    assert_eq!(merged.duration_ns, durations.iter().sum::<u64>());
    let (first, second, all) = (of_burning(first), of_burning(second), of_burning(merged));
    assert!(first.0 > 0 && first.1 == 0, "{first:?}");
    assert!(second.0 == 0 && second.1 > 0, "{second:?}");
    assert_eq!(all, (first.0, second.1));
}

#[test]
fn a_profile_starts_and_stops_two_hundred_times() {
    let _alone = alone();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    burn_one(Duration::from_millis(1));
                }
            });
        }
        for round in 0..200 {
            let event = if round % 2 == 0 { Event::Cpu } else { Event::Wall };
            let session = millstream_profiler::start(settings(event)).unwrap();
            thread::sleep(Duration::from_millis(round % 5));
            match round % 3 {
                0 => drop(session),
                _ => assert_eq!(session.stop().event, event),
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn threads_that_start_and_end_all_the_time_are_sampled() {
    let _alone = alone();
    let mut random = Seed::of_test().random();
    for event in [Event::Cpu, Event::Wall] {
        let session = millstream_profiler::start(settings(event)).unwrap();
        let is_over = AtomicBool::new(false);
        let started = thread::scope(|scope| {
            let starters = [(); 60].map(|()| {
                let mut random = random.fork();
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut started = 0_u64;
                    while !is_over.load(Ordering::Relaxed) {
                        let time = Duration::from_micros(random.u64(0..2000));
                        thread::spawn(move || recursion(20, time)).join().unwrap();
                        started += 1;
                    }
                    started
                })
            });
            thread::sleep(Duration::from_secs(2));
            is_over.store(true, Ordering::Relaxed);
            starters.map(|starter| starter.join().unwrap()).iter().sum::<u64>()
        });
        let profile = Profile::from(session.stop());
        assert!(started > 60 && profile.samples() > 0, "{started} threads");
    }
}

#[test]
fn calls_that_the_signal_interrupts_are_restarted() {
    let _alone = alone();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let read = thread::Builder::new().name("reader".to_owned());
    let read = read.spawn(move || {
        let mut byte = [0];
        // `read_exact` would retry interrupted calls.
        let result = reader.read(&mut byte).map(|bytes| (bytes, byte));
        (result, std::io::Error::last_os_error().raw_os_error())
    });
    let session = millstream_profiler::start(settings(Event::Wall)).unwrap();
    thread::sleep(Duration::from_millis(300));
    writer.write_all(b"x").unwrap();
    let (result, errno) = read.unwrap().join().unwrap();
    let profile = Profile::from(session.stop());
    assert_eq!(result.unwrap(), (1, *b"x"));
    assert_ne!(errno, Some(libc::EINTR));
    assert!(profile.of_thread("reader") > 0);
}

#[inline(never)]
fn checks_errno() {
    // SAFETY: the C library returns the address of a variable of this thread.
    let errno = unsafe { libc::__errno_location() };
    let begun = thread_cpu_time();
    let mut rounds = 0_u64;
    // SAFETY: as above.
    unsafe { errno.write_volatile(12_345) };
    while thread_cpu_time() - begun < Duration::from_millis(300) {
        // SAFETY: as above.
        assert_eq!(unsafe { errno.read_volatile() }, 12_345, "round {rounds}");
        rounds += 1;
    }
}

#[test]
fn errno_is_kept() {
    let _alone = alone();
    let session = millstream_profiler::start(settings(Event::Cpu)).unwrap();
    checks_errno();
    let profile = Profile::from(session.stop());
    assert!(profile.with("checks_errno") > 0);
}

#[test]
fn signals_of_others_are_ignored() {
    let _alone = alone();
    let raise = || {
        // SAFETY: the handler is installed and stays installed.
        assert_eq!(unsafe { libc::raise(libc::SIGPROF) }, 0);
    };
    let session = millstream_profiler::start(settings(Event::Cpu)).unwrap();
    (0..100).for_each(|_| raise());
    let profile = Profile::from(session.stop());
    assert_eq!(profile.with("raise"), 0);
    // Signals after the end of a profile must be harmless as well.
    (0..100).for_each(|_| raise());
}

/// Returns the number of threads that block the signal, and the number of threads that have no
/// timer, for a profile that has just started.
fn threads_not_sampled() -> (u64, u64) {
    let profile = millstream_profiler::start(settings(Event::Wall)).unwrap().stop();
    (profile.threads_with_blocked_signal, profile.threads_without_timer)
}

#[test]
fn threads_that_block_signals_are_counted() {
    let _alone = alone();
    let (sender, receiver) = mpsc::channel::<()>();
    let (ready, is_ready) = mpsc::channel();
    let blocked = thread::spawn(move || {
        // SAFETY: the calls change only this thread's mask.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut set);
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        }
        ready.send(()).unwrap();
        receiver.recv()
    });
    is_ready.recv().unwrap();
    // A thread that the test runner starts in the meantime blocks all signals until it runs.
    let counts: Vec<_> = (0..20).map(|_| threads_not_sampled()).collect();
    assert!(counts.contains(&(1, 0)) && counts.iter().all(|(n, _)| *n >= 1), "{counts:?}");
    sender.send(()).unwrap();
    blocked.join().unwrap().unwrap();
}

#[test]
fn libraries_that_are_loaded_later_are_modules() {
    let _alone = alone();
    let library = c"libresolv.so.2";
    let has = |profile: &Profile| {
        profile.raw.modules.iter().any(|module| module.path.contains("libresolv"))
    };
    let profile = Profile::from(millstream_profiler::start(settings(Event::Cpu)).unwrap().stop());
    assert!(!has(&profile), "the test needs a library that is not loaded yet");
    let session = millstream_profiler::start(settings(Event::Cpu)).unwrap();
    // SAFETY: this library belongs to the C library and may be loaded at any time.
    let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null());
    burn(Duration::from_millis(300));
    // SAFETY: no function or data of the library is in use.
    assert_eq!(unsafe { libc::dlclose(handle) }, 0);
    burn(Duration::from_millis(300));
    let profile = Profile::from(session.stop());
    assert!(has(&profile));
}

#[test]
fn a_profile_lists_modules_and_returns_from_json() {
    let _alone = alone();
    let session = millstream_profiler::start(settings(Event::Cpu)).unwrap();
    burn_one(Duration::from_millis(100));
    let profile = session.stop();
    let program = std::env::current_exe().unwrap();
    let program = profile.modules.iter().find(|module| program == *module.path).unwrap();
    let here = burn_one as fn(Duration) -> u64 as usize as u64;
    assert!((program.start..program.end).contains(&here));
    assert!(program.build_id.as_ref().is_some_and(|id| id.len() == 40), "{:?}", program.build_id);
    assert!(profile.modules.iter().any(|module| module.path == "[vdso]"));
    assert_eq!(profile.pid, std::process::id());
    assert_eq!(profile.interval_ns, 1_000_000);
    let text = serde_json::to_string(&profile).unwrap();
    assert_eq!(serde_json::from_str::<millstream_profiler::RawProfile>(&text).unwrap(), profile);
}
