//! Runtimes that generate code, such as a JVM. There is no unwind information for such code.
//!
//! When a stack reaches generated code, the handler asks the runtime for the frames. Below these
//! frames is the native code that has called the runtime. The handler continues there with the
//! registers that the native code has saved in a [`RuntimeCall`].

use crate::arch::Registers;
use crate::settings::Event;
use serde::{Deserialize, Serialize};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

/// Bit that distinguishes a method address from a code address.
const METHOD: u64 = 1 << 63;

/// Number of bits in a method id, which is a pointer or a small number.
const ID_BITS: u32 = 47;

/// Maximum location. The limit distinguishes methods from kernel addresses, in which all bits above
/// the id are set.
const LOCATION_MAX: u32 = 0x7ffe;

/// A runtime whose generated code has no unwind information.
pub trait Runtime: Sync {
    /// Prepares for a profile of this event. Called on the profile's thread. For [`Event::Alloc`],
    /// the runtime must then call [`sample_allocation`](crate::sample_allocation).
    fn begin(&self, event: Event);

    /// Ends the profile for which `begin` was called. Called on the profile's thread.
    fn end(&self);

    /// Writes the frames of generated code on the calling thread, encoded by [`method_address`],
    /// innermost first. Returns the number of frames.
    ///
    /// # Safety
    ///
    /// `context` must be the argument of a signal handler that is running on this thread. It may
    /// contain the program counter, stack pointer and frame pointer of a caller instead of its
    /// original registers. The implementation must not allocate or lock.
    unsafe fn walk(&self, context: *mut c_void, addresses: &mut [u64]) -> usize;

    /// Describes methods. Unknown methods are omitted. Called on the profile's thread.
    fn describe(&self, methods: &[MethodAddress]) -> Vec<RuntimeMethod>;
}

/// The runtime of the process.
static RUNTIME: OnceLock<&'static dyn Runtime> = OnceLock::new();

/// Sets the runtime of this process permanently. Profiles that are already running use the runtime
/// as well.
pub fn set_runtime(runtime: &'static dyn Runtime) {
    _ = RUNTIME.set(runtime);
}

/// Returns the runtime of the process, if one was set. Safe in signal handlers.
pub(crate) fn runtime() -> Option<&'static dyn Runtime> {
    RUNTIME.get().copied()
}

/// Encodes a method and a location as a stack entry, in place of an address.
pub fn method_address(id: u64, location: u32) -> u64 {
    METHOD | u64::from(location.min(LOCATION_MAX)) << (ID_BITS + 1) | id & ((1 << ID_BITS) - 1)
}

/// A stack entry that is a method and a location in the method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MethodAddress(pub u64);

impl MethodAddress {
    /// Returns the method in a stack entry, or `None` if the entry is a code address.
    pub fn of(address: u64) -> Option<MethodAddress> {
        (address & METHOD != 0 && !crate::kernel::is_kernel(address))
            .then_some(MethodAddress(address))
    }

    /// Returns the method id.
    pub fn id(self) -> u64 {
        self.0 & ((1 << ID_BITS) - 1)
    }

    /// Returns the location, or `None` if it was too large to encode.
    pub fn location(self) -> Option<u32> {
        let location = (self.0 & !METHOD) >> (ID_BITS + 1);
        Some(location as u32).filter(|location| *location < LOCATION_MAX)
    }
}

/// A method that occurs in the stacks of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RuntimeMethod {
    /// The stack entry for the method, in place of an address.
    pub address: u64,
    /// The method's name, including its class.
    pub name: String,
    /// The source file.
    pub file: Option<String>,
    /// The line number, counted from 1.
    pub line: Option<u32>,
}

/// Registers of the function that has called a runtime. The stack pointer is 0 if there is no such
/// call.
struct Caller {
    pc: AtomicU64,
    sp: AtomicU64,
    fp: AtomicU64,
}

thread_local! {
    /// The current caller. It must not have a destructor or lazy initialization, because signal
    /// handlers read it.
    static CALLER: Caller = const {
        Caller { pc: AtomicU64::new(0), sp: AtomicU64::new(0), fp: AtomicU64::new(0) }
    };
}

impl Caller {
    fn get(&self) -> Registers {
        let (pc, sp) = (self.pc.load(Ordering::Relaxed), self.sp.load(Ordering::Relaxed));
        Registers { pc, sp, fp: self.fp.load(Ordering::Relaxed), link: None }
    }

    /// Sets the registers. A handler that interrupts the update finds no caller.
    #[inline(always)]
    fn set(&self, registers: Registers) {
        self.sp.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.pc.store(registers.pc, Ordering::Relaxed);
        self.fp.store(registers.fp, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.sp.store(registers.sp, Ordering::Relaxed);
    }
}

/// A call into a runtime. The call ends when this value is dropped.
#[derive(Debug)]
#[must_use = "the call ends as soon as this is dropped"]
pub struct RuntimeCall {
    former: Registers,
    of_this_thread: PhantomData<*const ()>,
}

impl RuntimeCall {
    /// Begins a call. Below the frames of the runtime, a stack continues in the function that calls
    /// `begin`. The result must be dropped in the same function.
    #[inline(always)]
    pub fn begin() -> RuntimeCall {
        let here = Registers::here();
        let former = CALLER.with(|caller| {
            let former = caller.get();
            caller.set(here);
            former
        });
        RuntimeCall { former, of_this_thread: PhantomData }
    }
}

impl Drop for RuntimeCall {
    #[inline(always)]
    fn drop(&mut self) {
        CALLER.with(|caller| caller.set(self.former));
    }
}

/// Returns the registers of the function that has called the runtime, if `sp` is in a frame of the
/// runtime. Safe in signal handlers.
pub(crate) fn caller_of(sp: u64) -> Option<Registers> {
    let caller = CALLER.with(Caller::get);
    (caller.sp > sp).then_some(caller)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_holds_method_and_location_and_is_none_of_code() {
        for id in [1, 0x7fff_ffff_fff8, 123_456] {
            for (location, expected) in [
                (0, Some(0)),
                (7, Some(7)),
                (0x7ffd, Some(0x7ffd)),
                (0x7ffe, None),
                (u32::MAX, None),
            ] {
                let address = method_address(id, location);
                let method = MethodAddress::of(address).unwrap();
                assert_eq!((method.id(), method.location()), (id, expected));
                assert!(!crate::kernel::is_kernel(address));
            }
        }
        for code in [0, 0x7fff_ffff_ffff, 0xffff_ffff_8100_0000, 0xffff_8000_0000_0000] {
            assert_eq!(MethodAddress::of(code), None, "{code:#x}");
        }
    }

    #[test]
    fn calls_nest_and_restore() {
        assert_eq!(caller_of(0), None);
        {
            let _outer = RuntimeCall::begin();
            let outer = caller_of(0).unwrap();
            assert!(outer.sp > 0 && outer.pc > 0);
            assert_eq!(caller_of(outer.sp), None, "the interrupted code is outside of it");
            {
                let _inner = RuntimeCall::begin();
                assert_ne!(caller_of(0).unwrap().pc, outer.pc);
            }
            assert_eq!(caller_of(0), Some(outer));
        }
        assert_eq!(caller_of(0), None);
    }
}
