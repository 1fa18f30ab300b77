//! Runtimes that generate code, such as a JVM. The unwinder has no tables for such code.
//!
//! Where a stack reaches generated code, the handler asks the runtime for the frames. The native
//! code below these frames, which has called the runtime, is found through the registers that it
//! has saved in a [`RuntimeCall`].

use crate::arch::Registers;
use crate::settings::Event;
use serde::{Deserialize, Serialize};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

/// Bit that distinguishes the address of a method from other addresses.
const METHOD: u64 = 1 << 63;

/// Bits of a method's id, which is a pointer or a small number.
const ID_BITS: u32 = 47;

/// Maximum location. Kernel addresses have all bits above the id set.
const LOCATION_MAX: u32 = 0x7ffe;

/// A runtime whose generated code has no unwind tables.
pub trait Runtime: Sync {
    /// Prepares for a profile of this event, on the profile's thread. For [`Event::Alloc`], the
    /// runtime calls [`sample_allocation`](crate::sample_allocation) from now on.
    fn begin(&self, event: Event);

    /// Ends the preparations for a profile, on the profile's thread.
    fn end(&self);

    /// Writes the frames of generated code on the calling thread as [`method_address`], innermost
    /// first. Returns the number of frames.
    ///
    /// # Safety
    ///
    /// `context` is the argument of a signal handler that runs on this thread, or has the program
    /// counter, stack pointer and frame pointer of a caller. The implementation must not allocate
    /// or lock.
    unsafe fn walk(&self, context: *mut c_void, addresses: &mut [u64]) -> usize;

    /// Describes methods, on the profile's thread. Unknown methods are left out.
    fn describe(&self, methods: &[MethodAddress]) -> Vec<RuntimeMethod>;
}

/// The runtime of the process.
static RUNTIME: OnceLock<&'static dyn Runtime> = OnceLock::new();

/// Sets the runtime of this process permanently. Running profiles use the runtime too.
pub fn set_runtime(runtime: &'static dyn Runtime) {
    _ = RUNTIME.set(runtime);
}

/// Returns the runtime of the process. Safe in signal handlers.
pub(crate) fn runtime() -> Option<&'static dyn Runtime> {
    RUNTIME.get().copied()
}

/// Returns the value that represents a method in a stack, in place of an address.
pub fn method_address(id: u64, location: u32) -> u64 {
    METHOD | u64::from(location.min(LOCATION_MAX)) << (ID_BITS + 1) | id & ((1 << ID_BITS) - 1)
}

/// A method, and a location in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MethodAddress(pub u64);

impl MethodAddress {
    /// Returns the method that a stack entry represents, or `None` if the entry is a code address.
    pub fn of(address: u64) -> Option<MethodAddress> {
        (address & METHOD != 0 && !crate::kernel::is_kernel(address))
            .then_some(MethodAddress(address))
    }

    /// Returns the id of the method.
    pub fn id(self) -> u64 {
        self.0 & ((1 << ID_BITS) - 1)
    }

    /// Returns the location, or `None` if it is too large.
    pub fn location(self) -> Option<u32> {
        let location = (self.0 & !METHOD) >> (ID_BITS + 1);
        Some(location as u32).filter(|location| *location < LOCATION_MAX)
    }
}

/// A method in the stacks of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RuntimeMethod {
    /// The value that represents the method in stacks, in place of an address.
    pub address: u64,
    /// The name of the method, including its class.
    pub name: String,
    /// The source file.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
}

/// Registers of the function that has called a runtime. The stack pointer is 0 if there is no call.
struct Caller {
    pc: AtomicU64,
    sp: AtomicU64,
    fp: AtomicU64,
}

thread_local! {
    /// The caller has no destructor and no lazy initialization, because signal handlers read it.
    static CALLER: Caller = const {
        Caller { pc: AtomicU64::new(0), sp: AtomicU64::new(0), fp: AtomicU64::new(0) }
    };
}

impl Caller {
    fn get(&self) -> Registers {
        let (pc, sp) = (self.pc.load(Ordering::Relaxed), self.sp.load(Ordering::Relaxed));
        Registers { pc, sp, fp: self.fp.load(Ordering::Relaxed), link: None }
    }

    /// A handler that runs during the update finds no caller.
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

/// A call into a runtime, which lasts until the value is dropped.
#[derive(Debug)]
#[must_use = "the call ends as soon as this is dropped"]
pub struct RuntimeCall {
    former: Registers,
    of_this_thread: PhantomData<*const ()>,
}

impl RuntimeCall {
    /// Begins a call. A stack then continues in the function that calls this one, below the frames
    /// of the runtime. The result must be dropped in the same function.
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

/// Returns the registers of the function that has called the runtime whose frames contain the stack
/// pointer. Safe in signal handlers.
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
