//! Checks that stacks end in code that was generated at run time, regardless of the frame pointer's
//! value.
#![cfg(target_arch = "x86_64")]

use crate::support::{Profile, burn, settings};
use millstream_profiler::Event;
use std::ptr;
use std::time::Duration;

/// Bytes of a page.
const PAGE: usize = 4096;

/// Returns a function that sets the frame pointer to a value, calls its argument, and restores the
/// frame pointer.
fn generate(frame_pointer: u64) -> extern "C" fn(extern "C" fn()) {
    let mut code = vec![0x55, 0x48, 0xbd];
    code.extend(frame_pointer.to_le_bytes());
    code.extend([0xff, 0xd7, 0x5d, 0xc3]);
    // SAFETY: the page is new, and the code follows the calling convention of its type.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(ptr::null_mut(), PAGE, protection, flags, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        ptr::copy_nonoverlapping(code.as_ptr(), page.cast(), code.len());
        std::mem::transmute(page)
    }
}

extern "C" fn work() {
    burn(Duration::from_millis(100));
}

#[test]
fn a_stack_ends_in_generated_code() {
    let local = 0_u64;
    let stack = (&raw const local).addr() as u64;
    for frame_pointer in [0, 1, 8, stack, stack + 64, stack + (1 << 24), u64::MAX, u64::MAX - 15] {
        let call = generate(frame_pointer);
        let session = millstream_profiler::start(settings(Event::Cpu)).unwrap();
        call(work);
        let profile = Profile::from(session.stop());
        let page = call as usize as u64;
        let sampled = profile.raw.stacks.iter();
        // The frame of `work` is complete while `burn` runs, but not in its own first instructions.
        let sampled = sampled.filter(|stack| {
            let has = |function| {
                let mut names = stack.addresses.iter().map(|address| profile.name(*address));
                names.any(|name| name.contains(function))
            };
            has("generated_code::work") && has("burn")
        });
        let mut samples = 0;
        for stack in sampled {
            let last = *stack.addresses.last().unwrap();
            assert!((page..page + PAGE as u64).contains(&last), "{last:x} is not in the page");
            assert!(stack.is_truncated);
            samples += stack.count;
        }
        assert!(samples > 0, "frame pointer {frame_pointer:x}");
    }
}
