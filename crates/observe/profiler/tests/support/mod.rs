//! A profile with symbols, and functions that use a known amount of CPU time.

#![allow(dead_code, reason = "each test uses a part")]

use addr2line::Loader;
use millstream_profiler::{Event, RawProfile, Settings};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Returns a guard that allows only one test at a time to run.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn settings(event: Event) -> Settings {
    Settings { event, interval: Duration::from_millis(1), buffer_bytes: 4 << 20 }
}

/// Returns the CPU time that this thread has used.
pub fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists, and the time outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Uses `time` of CPU time.
#[inline(never)]
pub fn burn(time: Duration) -> u64 {
    let end = thread_cpu_time() + time;
    let mut value = 1_u64;
    while thread_cpu_time() < end {
        for _ in 0..2000 {
            value = std::hint::black_box(value.wrapping_mul(31) + 7);
        }
    }
    value
}

/// Returns the difference between this program's addresses in memory and in its file.
fn base() -> u64 {
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _: usize,
        base: *mut c_void,
    ) -> c_int {
        // SAFETY: the dynamic linker passes valid information, and the pointer that it received.
        unsafe { *base.cast::<u64>() = (*info).dlpi_addr };
        1
    }
    let mut base = 0_u64;
    // SAFETY: the first object is the program, and the value outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut base).cast()) };
    base
}

/// A profile of this program, and the names of the functions in the profile.
pub struct Profile {
    pub raw: RawProfile,
    names: HashMap<u64, String>,
}

impl From<RawProfile> for Profile {
    fn from(raw: RawProfile) -> Profile {
        let program = std::env::current_exe().unwrap();
        let (loader, base) = (Loader::new(program).unwrap(), base());
        let all = raw.stacks.iter().flat_map(|stack| stack.addresses.iter().copied());
        let named = all.map(|address| {
            let symbol = loader.find_symbol(address.wrapping_sub(base)).unwrap_or_default();
            (address, rustc_demangle::demangle(symbol).to_string())
        });
        let names = named.collect();
        Profile { raw, names }
    }
}

impl Profile {
    /// Returns the name of the function at an address. Empty for addresses outside the program.
    pub fn name(&self, address: u64) -> &str {
        &self.names[&address]
    }

    pub fn samples(&self) -> u64 {
        self.raw.stacks.iter().map(|stack| stack.count).sum()
    }

    /// Returns the number of samples whose stack contains a function.
    pub fn with(&self, function: &str) -> u64 {
        self.with_all(&[function])
    }

    /// Returns the number of samples whose stack contains all of these functions.
    pub fn with_all(&self, functions: &[&str]) -> u64 {
        let has = |addresses: &[u64], function: &&str| {
            addresses.iter().any(|address| self.name(*address).contains(*function))
        };
        let found = self.raw.stacks.iter();
        let found = found.filter(|stack| functions.iter().all(|name| has(&stack.addresses, name)));
        found.map(|stack| stack.count).sum()
    }

    pub fn of_thread(&self, name: &str) -> u64 {
        let threads = &self.raw.threads;
        let found = self.raw.stacks.iter();
        let found = found.filter(|stack| threads[stack.thread as usize].name == name);
        found.map(|stack| stack.count).sum()
    }

    pub fn of_component(&self, id: &str, function: &str) -> u64 {
        let found = self.raw.stacks.iter().filter(|stack| {
            self.raw.components[stack.component as usize] == id
                && stack.addresses.iter().any(|address| self.name(*address).contains(function))
        });
        found.map(|stack| stack.count).sum()
    }
}
