//! Checks that the handler fits on the alternate stack that the standard library provides for each
//! thread.

use crate::support::{Profile, burn, settings};
use millstream_profiler::Event;
use std::mem;
use std::ptr;
use std::thread;
use std::time::Duration;

/// Size of the standard library's alternate stack on x86_64. The kernel first stores registers
/// there.
const ALTERNATE_STACK_BYTES: usize = 8192;

/// Bytes of this test's alternate stack.
const BYTES: usize = 256 << 10;

/// Value of unused bytes.
const UNUSED: u8 = 0xa5;

#[inline(never)]
fn deep(depth: u32) -> u64 {
    let below = if depth == 0 { burn(Duration::from_millis(300)) } else { deep(depth - 1) };
    std::hint::black_box(below) + 1
}

/// Returns the number of bytes of an alternate stack that signals use.
fn used_bytes() -> usize {
    let mut memory = vec![UNUSED; BYTES];
    let stack =
        libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
    // SAFETY: all zeros are a valid value for this structure.
    let mut former: libc::stack_t = unsafe { mem::zeroed() };
    // SAFETY: the memory is used as a stack until the former stack is restored.
    assert_eq!(unsafe { libc::sigaltstack(&stack, &mut former) }, 0);
    deep(100);
    // SAFETY: the former stack still exists.
    assert_eq!(unsafe { libc::sigaltstack(&former, ptr::null_mut()) }, 0);
    let top = memory.as_ptr().wrapping_add(BYTES);
    // SAFETY: all bytes are initialized. The kernel has changed some of them.
    let unused = (0..BYTES)
        .take_while(|at| unsafe { top.wrapping_sub(BYTES - at).read_volatile() == UNUSED });
    BYTES - unused.count()
}

#[test]
fn the_handler_needs_little_stack() {
    let session = millstream_profiler::start(settings(Event::Cpu)).unwrap();
    let used = thread::spawn(used_bytes).join().unwrap();
    let profile = Profile::from(session.stop());
    assert!(profile.with("deep") > 0);
    // SAFETY: the call has no preconditions.
    let registers = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    println!("{used} bytes, {registers} of them at most for registers");
    assert!(used > 1000, "the signals were handled elsewhere");
    assert!(used.saturating_sub(registers) < ALTERNATE_STACK_BYTES / 2, "{used} bytes");
}
