//! The SIGPROF handler, which samples the thread that it interrupts.
//!
//! The handler stays installed after a profile ends, because a signal might still be pending, and
//! the default action would terminate the process. The handler finds the running profile through a
//! pointer. Each handler increments a count before it reads the pointer. The data that handlers may
//! use is freed only after the pointer has been replaced and the count has then been zero.

use crate::arch::Registers;
use crate::buffer::{ADDRESSES_MAX, Buffer, Sample};
use crate::clocks::{Clocks, Due};
use crate::component;
use crate::kernel::FRAMES_MAX;
use crate::runtime;
use crate::settings::{ALLOC_BYTES, Event, StartError};
use crate::stack::{self, StackMemory, Tables};
use rustix::thread::gettid;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::time::Duration;
use std::{io, mem, ptr, thread};

/// Pause between two checks for running handlers. A handler takes a few microseconds.
const HANDLERS_PAUSE: Duration = Duration::from_micros(50);

/// Signal code of a file descriptor: an interval of a clock has passed.
const POLL_IN: c_int = 1;

/// The running profile, or null.
static SAMPLER: AtomicPtr<Sampler> = AtomicPtr::new(ptr::null_mut());

/// Number of running handlers.
static HANDLERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether the handler is running on this thread. The variable must not have a destructor or
    /// lazy initialization.
    static IS_HANDLING: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the signal handler is running on the calling thread. For testing functions that
/// the handler calls.
#[doc(hidden)]
pub fn is_handling() -> bool {
    IS_HANDLING.get()
}

/// The data that handlers need to sample for a profile.
pub(crate) struct Sampler {
    /// Number of the profile, which its signals carry. A signal for an earlier profile can arrive
    /// late.
    pub number: u32,
    event: Event,
    pub buffer: Buffer,
    clocks: Arc<Clocks>,
    /// The tables, which the sampler owns. Never null.
    tables: AtomicPtr<Tables>,
}

/// Information about a timer's signal, in the kernel's layout. For a file descriptor's signal, the
/// descriptor is in place of the value.
#[repr(C)]
struct TimerInfo {
    signal: c_int,
    errno: c_int,
    code: c_int,
    padding: c_int,
    timer: c_int,
    overrun: c_int,
    value: usize,
}

const _: () = assert!(size_of::<TimerInfo>() <= size_of::<libc::siginfo_t>());

impl Sampler {
    pub fn new(
        number: u32,
        event: Event,
        buffer: Buffer,
        clocks: Arc<Clocks>,
        tables: Tables,
    ) -> Sampler {
        let tables = AtomicPtr::new(Box::into_raw(Box::new(tables)));
        Sampler { number, event, buffer, clocks, tables }
    }

    /// Replaces the tables and frees the old ones.
    pub fn set_tables(&self, tables: Tables) {
        let former = self.tables.swap(Box::into_raw(Box::new(tables)), Ordering::SeqCst);
        wait_for_handlers();
        // SAFETY: the pointer came from a box, and all handlers that had loaded it have finished.
        drop(unsafe { Box::from_raw(former) });
    }

    /// Returns the sample that the signal requests, or `None` if the signal is not for this
    /// profile.
    ///
    /// # Safety
    ///
    /// `info` must be the argument of a signal handler on this thread.
    unsafe fn origin(&self, info: *const c_void) -> Option<Due> {
        // SAFETY: the information is at least as large as a timer's, and its fields are integers.
        let info = unsafe { &*info.cast::<TimerInfo>() };
        if info.code == POLL_IN {
            // The descriptor is in the lower half of the value.
            return self.clocks.take(info.value as u32 as usize);
        }
        let (number, thread) = parts(info.value);
        let is_ours = info.code == libc::SI_TIMER && number == self.number;
        let weight = (info.overrun.max(0) as u32).saturating_add(1);
        is_ours.then(|| Due::of_timer(thread, weight))
    }

    /// Takes a sample of the calling thread.
    ///
    /// # Safety
    ///
    /// The arguments must come from a signal handler on this thread, and the handler must have
    /// incremented the count.
    unsafe fn sample(&self, info: *const c_void, context: *mut c_void) {
        // SAFETY: the caller upholds the conditions.
        let Some(due) = (unsafe { self.origin(info) }) else { return };
        // SAFETY: the pointer is never null, and the tables live until the handler has finished.
        let tables = unsafe { &*self.tables.load(Ordering::SeqCst) };
        // SAFETY: the context is the argument of a signal handler.
        let registers = unsafe { Registers::interrupted(context) };
        let memory = tables.stack(registers.sp, due.thread == 0);
        let mut addresses = [0; ADDRESSES_MAX];
        let (in_kernel, _) = addresses.split_at_mut(FRAMES_MAX);
        let in_kernel = due.take_kernel_stack(in_kernel);
        let (_, rest) = addresses.split_at_mut(in_kernel);
        let walked = stack::walk(tables, &memory, registers, rest);
        let (count, is_truncated) = match walked.generated {
            // SAFETY: the context is the argument of a signal handler.
            Some(generated) => unsafe {
                walk_generated(tables, &memory, context, registers, walked.count, generated, rest)
            },
            None => (walked.count, walked.is_truncated),
        };
        self.buffer.push(&Sample {
            thread: due.thread,
            component: component::current(),
            weight: due.weight,
            is_truncated,
            addresses: addresses.get(..in_kernel + count).unwrap_or_default(),
        });
    }
}

impl Sampler {
    /// Adds a sample for an allocation by the calling thread. Its stack begins with these methods.
    fn sample_allocation(&self, methods: &[u64], bytes: u64) {
        // SAFETY: the pointer is never null, and the tables live until the caller, which has
        // incremented the count, has finished.
        let tables = unsafe { &*self.tables.load(Ordering::SeqCst) };
        let mut addresses = [0; ADDRESSES_MAX];
        let count = methods.len().min(ADDRESSES_MAX);
        addresses[..count].copy_from_slice(&methods[..count]);
        let here = Registers::here();
        let below = runtime::caller_of(here.sp).map(|caller| {
            let memory = tables.stack(here.sp, false);
            stack::walk(tables, &memory, caller, &mut addresses[count..])
        });
        let tid = gettid().as_raw_pid();
        self.buffer.push(&Sample {
            // The profile's thread maps the system id to the thread's index.
            thread: tid as u32,
            component: component::current(),
            weight: (bytes / ALLOC_BYTES).clamp(1, u64::from(u32::MAX)) as u32,
            is_truncated: below.is_some_and(|walked| walked.is_truncated),
            addresses: &addresses[..count + below.map_or(0, |walked| walked.count)],
        });
    }
}

/// Adds a sample for an allocation by the calling thread. A [`Runtime`](crate::Runtime) calls this
/// about once per [`ALLOC_BYTES`]. The methods must be encoded by
/// [`method_address`](crate::method_address), innermost first.
pub fn sample_allocation(methods: &[u64], bytes: u64) {
    HANDLERS.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the sampler lives until this function, which has incremented the count, has finished.
    let sampler = unsafe { SAMPLER.load(Ordering::SeqCst).as_ref() };
    if let Some(sampler) = sampler.filter(|sampler| sampler.event == Event::Alloc) {
        sampler.sample_allocation(methods, bytes);
    }
    HANDLERS.fetch_sub(1, Ordering::SeqCst);
}

/// Continues a stack that has reached generated code: appends the frames of the runtime that
/// generated the code, and the callers of the runtime. Returns the number of addresses, and whether
/// callers are missing.
///
/// # Safety
///
/// `context` must be the argument of a signal handler on this thread, and `interrupted` must
/// contain its registers.
unsafe fn walk_generated(
    tables: &Tables,
    memory: &StackMemory,
    context: *mut c_void,
    interrupted: Registers,
    count: usize,
    generated: Registers,
    addresses: &mut [u64],
) -> (usize, bool) {
    // The last address is not needed if the runtime returns frames for it.
    let (before, rest) = addresses.split_at_mut(count - 1);
    // SAFETY: the caller upholds the condition.
    let frames = unsafe { runtime_frames(memory, context, interrupted, generated, rest) };
    let count = before.len() + frames.max(1);
    let (_, rest) = addresses.split_at_mut(count);
    match runtime::caller_of(interrupted.sp) {
        Some(caller) if !rest.is_empty() => {
            let walked = stack::walk(tables, memory, caller, rest);
            (count + walked.count, walked.is_truncated)
        }
        // A thread that the runtime created has no other callers.
        _ => (count, frames == 0),
    }
}

/// Writes the runtime's frames and returns their number.
///
/// The runtime recognizes its methods, but not all other code that it generates, such as code that
/// looks up a method or copies memory. If the runtime does not recognize the code, this function
/// retries with the caller of the code.
///
/// # Safety
///
/// The conditions of [`walk_generated`] apply.
unsafe fn runtime_frames(
    memory: &StackMemory,
    context: *mut c_void,
    interrupted: Registers,
    generated: Registers,
    addresses: &mut [u64],
) -> usize {
    let Some(runtime) = runtime::runtime() else { return 0 };
    let callers = [
        Some(generated),
        stack::caller_without_frame(memory, generated),
        stack::caller_by_frame_pointer(memory, generated),
    ];
    let mut frames = 0;
    for registers in callers.into_iter().flatten() {
        // SAFETY: the context is the argument of a signal handler, and its registers are restored
        // below.
        unsafe { registers.put(context) };
        // SAFETY: the context contains the registers of the interrupted code or of one of its
        // callers.
        frames = unsafe { runtime.walk(context, addresses) }.min(addresses.len());
        if frames > 0 {
            break;
        }
    }
    // SAFETY: as above.
    unsafe { interrupted.put(context) };
    frames
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a box, and handlers cannot reach a sampler that is being
        // dropped.
        drop(unsafe { Box::from_raw(*self.tables.get_mut()) });
    }
}

/// Packs the profile number and the thread number into the value that a timer's signal carries.
pub(crate) fn value(number: u32, thread: u32) -> usize {
    (u64::from(number) << 32 | u64::from(thread)) as usize
}

fn parts(value: usize) -> (u32, u32) {
    ((value as u64 >> 32) as u32, value as u32)
}

/// A profile for which handlers take samples until this value is dropped.
pub(crate) struct Active(Box<Sampler>);

impl Active {
    /// Installs the handler, and enables sampling for this sampler.
    pub fn start(sampler: Box<Sampler>) -> Result<Active, StartError> {
        install()?;
        SAMPLER.store(ptr::from_ref(&*sampler).cast_mut(), Ordering::SeqCst);
        Ok(Active(sampler))
    }

    pub fn sampler(&self) -> &Sampler {
        &self.0
    }

    /// Ends sampling. When the call returns, every sample is in the buffer.
    pub fn end(&self) {
        SAMPLER.store(ptr::null_mut(), Ordering::SeqCst);
        wait_for_handlers();
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits for a moment at which no handler is running. After that, no handler uses a pointer that
/// was replaced before the call.
fn wait_for_handlers() {
    while HANDLERS.load(Ordering::SeqCst) != 0 {
        thread::sleep(HANDLERS_PAUSE);
    }
}

/// Installs the handler. Returns an error if another library has installed a handler.
fn install() -> Result<(), StartError> {
    let failed = StartError::system("handle SIGPROF");
    // SAFETY: all zeros are a valid value for this C structure.
    let mut present: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: the call only reads the current action.
    if unsafe { libc::sigaction(libc::SIGPROF, ptr::null(), &mut present) } != 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    let ours = on_signal as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
    if present.sa_sigaction == ours {
        return Ok(());
    }
    if ![libc::SIG_DFL, libc::SIG_IGN].contains(&present.sa_sigaction) {
        return Err(StartError::ForeignHandler);
    }
    // SAFETY: as above.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = ours;
    action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler has the signature that the flags require, and is async-signal-safe.
    match unsafe { libc::sigaction(libc::SIGPROF, &action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(failed(io::Error::last_os_error())),
    }
}

/// Takes a sample if a profile is running. The handler does not allocate, lock or panic.
extern "C" fn on_signal(_signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the C library returns the address of a variable of this thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let former = unsafe { *errno };
    IS_HANDLING.set(true);
    HANDLERS.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the sampler lives until this handler, which has incremented the count, has finished.
    if let Some(sampler) = unsafe { SAMPLER.load(Ordering::SeqCst).as_ref() } {
        // SAFETY: the arguments come from this handler.
        unsafe { sampler.sample(info.cast(), context) };
    }
    HANDLERS.fetch_sub(1, Ordering::SeqCst);
    IS_HANDLING.set(false);
    // SAFETY: as above.
    unsafe { *errno = former };
}

#[cfg(test)]
mod tests {
    use super::{Active, Sampler, TimerInfo, on_signal, value};
    use crate::buffer::Buffer;
    use crate::clocks::Clocks;
    use crate::component::Component;
    use crate::maps::Maps;
    use crate::modules::Modules;
    use crate::settings::Event;
    use crate::stack::Tables;
    use crate::timer::Timer;
    use millstream_testkit_random::{Seed, TestSize};
    use parking_lot::Mutex;
    use rustix::thread::gettid;
    use std::ffi::c_int;
    use std::hint::black_box;
    use std::mem::MaybeUninit;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    /// Allows only one test at a time to activate a sampler.
    static ALONE: Mutex<()> = Mutex::new(());

    fn active(number: u32) -> Active {
        let (mut modules, maps) = (Modules::default(), Maps::read().unwrap());
        modules.update(&maps);
        let (code, memory, main_stack) = (modules.code.clone(), maps.memory, maps.main_stack);
        let tables = Tables { code, memory, main_stack };
        let clocks = Arc::new(Clocks::new(Duration::from_millis(1)));
        let sampler = Sampler::new(number, Event::Cpu, Buffer::new(1 << 20), clocks, tables);
        Active::start(Box::new(sampler)).unwrap()
    }

    fn context() -> libc::ucontext_t {
        let mut context = MaybeUninit::<libc::ucontext_t>::zeroed();
        // SAFETY: all zeros are a valid value for the structure, which the call overwrites.
        unsafe {
            assert_eq!(libc::getcontext(context.as_mut_ptr()), 0);
            context.assume_init()
        }
    }

    /// Calls the handler the way the kernel does for a timer.
    fn signal(code: c_int, overrun: c_int, value: usize, context: &mut libc::ucontext_t) {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let timer = TimerInfo {
            signal: libc::SIGPROF,
            errno: 0,
            code,
            padding: 0,
            timer: 0,
            overrun,
            value,
        };
        // SAFETY: `info` has room for the information about a timer's signal.
        unsafe { info.as_mut_ptr().cast::<TimerInfo>().write(timer) };
        on_signal(libc::SIGPROF, info.as_mut_ptr(), (&raw mut *context).cast());
    }

    fn drained(active: &Active) -> Vec<(u32, u32, usize)> {
        let mut all = Vec::new();
        active.sampler().buffer.drain(|sample| {
            all.push((sample.thread, sample.weight, sample.addresses.len()));
        });
        all
    }

    #[test]
    fn signals_of_other_senders_and_profiles_are_ignored() {
        let _alone = ALONE.lock();
        let active = active(7);
        let mut context = context();
        signal(libc::SI_USER, 0, value(7, 3), &mut context);
        signal(libc::SI_TIMER, 0, value(6, 3), &mut context);
        signal(super::POLL_IN, 0, value(7, 3), &mut context);
        signal(super::POLL_IN, 0, usize::MAX, &mut context);
        assert_eq!(drained(&active), []);
        signal(libc::SI_TIMER, 0, value(7, 3), &mut context);
        signal(libc::SI_TIMER, 4, value(7, u32::MAX), &mut context);
        let all = drained(&active);
        assert_eq!((all[0].0, all[0].1, all[1].0, all[1].1), (3, 1, u32::MAX, 5));
        assert!(all.iter().all(|(_, _, addresses)| *addresses > 2), "{all:?}");
        active.end();
        signal(libc::SI_TIMER, 0, value(7, 3), &mut context);
        assert_eq!(drained(&active), []);
    }

    /// If clocks are not permitted, CPU time timers replace them.
    #[test]
    fn a_timer_samples_the_cpu_time_of_its_thread() {
        let _alone = ALONE.lock();
        let active = active(10);
        let tid = gettid().as_raw_pid() as u32;
        let ms = Duration::from_millis(1);
        let timer = Timer::start(Event::Cpu, tid, value(10, 5), ms, ms).unwrap();
        let (begun, mut weight) = (Instant::now(), 0);
        while weight < 100 && begun.elapsed() < Duration::from_secs(60) {
            (0..100_000).for_each(|value| _ = black_box(value));
            active.sampler().buffer.drain(|sample| {
                assert_eq!(sample.thread, 5);
                weight += sample.weight;
            });
        }
        drop(timer);
        assert!(weight >= 100, "{weight} samples");
    }

    /// Number of signals with random registers.
    const ROUNDS: TestSize = TestSize { gate: 20_000, long: 1_000_000 };

    /// Regardless of what the registers contain, only mapped memory is read, and `errno` is
    /// preserved.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn random_registers_are_harmless() {
        let _alone = ALONE.lock();
        let active = active(8);
        let here = drained as fn(&Active) -> _ as usize as u64;
        // SAFETY: the C library returns the address of a variable of this thread.
        let errno = unsafe { libc::__errno_location() };
        let mut random = Seed::of_test().random();
        for round in random.rounds(ROUNDS).map(|round| round as c_int) {
            let mut context = context();
            let sp = context.uc_mcontext.gregs[libc::REG_RSP as usize] as u64;
            let candidates = [
                random.u64(..),
                sp.wrapping_add(random.u64(0..1 << 21)),
                sp & !7,
                (sp & !7).wrapping_add(random.u64(0..1 << 18) * 8),
                here.wrapping_add(random.u64(0..100_000)),
                0,
                u64::MAX - random.u64(0..32),
            ];
            for register in [libc::REG_RIP, libc::REG_RSP, libc::REG_RBP] {
                let value = candidates[random.usize(..candidates.len())];
                context.uc_mcontext.gregs[register as usize] = value as i64;
            }
            // SAFETY: as above.
            unsafe { errno.write(round) };
            signal(libc::SI_TIMER, 0, value(8, random.u32(0..2)), &mut context);
            // SAFETY: as above.
            assert_eq!(unsafe { errno.read() }, round);
            assert_eq!(drained(&active).len(), 1);
        }
    }

    #[inline(never)]
    fn sampled_at(depth: u32, active: &Active, rounds: u32) -> f64 {
        if depth > 0 {
            return black_box(sampled_at(depth - 1, active, rounds));
        }
        let (mut context, mut elapsed) = (context(), 0.0);
        for _ in 0..rounds / 100 {
            let begun = Instant::now();
            for _ in 0..100 {
                signal(libc::SI_TIMER, 0, value(9, 1), &mut context);
            }
            elapsed += begun.elapsed().as_secs_f64();
            assert!(drained(active).iter().all(|(_, _, addresses)| *addresses > 20));
        }
        elapsed * 1e9 / f64::from(rounds)
    }

    #[test]
    #[ignore = "prints costs: run it in a release build"]
    fn costs() {
        let _alone = ALONE.lock();
        let active = active(9);
        for depth in [20, 60] {
            let ns = sampled_at(depth, &active, 100_000);
            println!("a sample of {depth} and some frames: {ns:.0} ns");
        }
        let begun = Instant::now();
        let (mut modules, maps) = (Modules::default(), Maps::read().unwrap());
        modules.update(&maps);
        let rows: usize = modules.code.iter().map(|code| code.len()).sum();
        println!("{rows} rows of unwind information: {:?}", begun.elapsed());
        let (component, rounds) = (Component::named("access"), 100_000_000);
        let begun = Instant::now();
        for _ in 0..rounds {
            let _entered = black_box(black_box(component).enter());
        }
        let ns = begun.elapsed().as_secs_f64() * 1e9 / f64::from(rounds);
        println!("entering and leaving a component: {ns:.2} ns");
    }
}
