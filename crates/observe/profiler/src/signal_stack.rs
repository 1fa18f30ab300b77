//! Alternate stacks for signal handlers.

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Bytes of a stack. A JVM needs about 20 KB to walk its frames.
const STACK_BYTES: usize = 64 << 10;

/// Bytes of the guard page below a stack, which is not writable.
const GUARD_BYTES: usize = 4096;

/// A large alternate stack for the thread that created it. It must be dropped on the same thread.
#[derive(Debug)]
pub struct SignalStack {
    mapping: *mut c_void,
    former: libc::stack_t,
}

impl SignalStack {
    /// Makes signal handlers on the calling thread use a stack of 64 KiB.
    ///
    /// The standard library's threads have an alternate stack of 8 KB, which might be too small for
    /// a [`Runtime`](crate::Runtime).
    pub fn install() -> io::Result<SignalStack> {
        let bytes = GUARD_BYTES + STACK_BYTES;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses an unused address range.
        let mapping = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::PRIVATE) }?;
        let mut stack = SignalStack { mapping, former: disabled() };
        // SAFETY: the first page is part of the new mapping.
        unsafe { mprotect(mapping, GUARD_BYTES, MprotectFlags::empty()) }?;
        let new = libc::stack_t {
            ss_sp: mapping.wrapping_byte_add(GUARD_BYTES),
            ss_flags: 0,
            ss_size: STACK_BYTES,
        };
        // SAFETY: the new stack lives until `drop` replaces it.
        match unsafe { libc::sigaltstack(&raw const new, &raw mut stack.former) } {
            0 => Ok(stack),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        let is_ours = present()
            .is_some_and(|present| present.ss_sp == self.mapping.wrapping_byte_add(GUARD_BYTES));
        if is_ours {
            // SAFETY: the former stack belongs to the standard library, which frees it when the
            // thread exits, after it was restored.
            unsafe { libc::sigaltstack(&raw const self.former, ptr::null_mut()) };
        }
        // SAFETY: this value owns the mapping, and no handler of this thread runs or will run on
        // it.
        _ = unsafe { munmap(self.mapping, GUARD_BYTES + STACK_BYTES) };
    }
}

fn disabled() -> libc::stack_t {
    libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 }
}

/// Returns the alternate stack of the calling thread.
fn present() -> Option<libc::stack_t> {
    let mut present = MaybeUninit::uninit();
    // SAFETY: the call initializes the stack if it returns 0.
    let is_known = unsafe { libc::sigaltstack(ptr::null(), present.as_mut_ptr()) } == 0;
    // SAFETY: as above.
    is_known.then(|| unsafe { present.assume_init() })
}

/// Returns the number of bytes that are left for a signal handler on its alternate stack, or `None`
/// if the handler is running on the thread's own stack. Safe in signal handlers.
pub fn handler_room() -> Option<usize> {
    let stack = present().filter(|stack| stack.ss_flags & libc::SS_ONSTACK != 0)?;
    let here = (&raw const stack).addr();
    Some(here.saturating_sub(stack.ss_sp.addr()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_thread_has_its_former_stack_back() {
        let size = || present().map(|stack| (stack.ss_flags, stack.ss_size));
        thread::spawn(move || {
            let before = size();
            let stack = SignalStack::install().unwrap();
            assert_eq!(size(), Some((0, STACK_BYTES)));
            assert_eq!(handler_room(), None, "no handler is running");
            drop(stack);
            assert_eq!(size(), before);
        })
        .join()
        .unwrap();
    }

    /// Thread-local values are dropped after the standard library has freed its alternate stack.
    #[test]
    fn a_stack_in_thread_local_storage_outlives_that_of_the_standard_library() {
        thread_local! {
            static STACK: std::cell::RefCell<Option<SignalStack>> = const { std::cell::RefCell::new(None) };
        }
        for _ in 0..100 {
            let install = || STACK.set(Some(SignalStack::install().unwrap()));
            thread::spawn(install).join().unwrap();
        }
    }
}
