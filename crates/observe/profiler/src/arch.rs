//! Registers, and other differences between architectures.

use gimli::{Register, RegisterRule};
use std::ffi::c_void;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("stacks are walked on x86_64 and aarch64 only");

/// The registers that walking a stack needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registers {
    /// The address of the next instruction.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer.
    pub fp: u64,
    /// The return address, if a register contains it.
    pub link: Option<u64>,
}

/// The stack pointer's register in unwind information.
#[cfg(target_arch = "x86_64")]
pub(crate) const STACK_POINTER: Register = gimli::X86_64::RSP;
/// The frame pointer's register in unwind information.
#[cfg(target_arch = "x86_64")]
pub(crate) const FRAME_POINTER: Register = gimli::X86_64::RBP;
/// The return address's register in unwind information.
#[cfg(target_arch = "x86_64")]
pub(crate) const RETURN_ADDRESS: Register = gimli::X86_64::RA;
/// The vendor of the unwind information.
#[cfg(target_arch = "x86_64")]
pub(crate) const VENDOR: gimli::Vendor = gimli::Vendor::Default;

/// The stack pointer's register in unwind information.
#[cfg(target_arch = "aarch64")]
pub(crate) const STACK_POINTER: Register = gimli::AArch64::SP;
/// The frame pointer's register in unwind information.
#[cfg(target_arch = "aarch64")]
pub(crate) const FRAME_POINTER: Register = gimli::AArch64::X29;
/// The return address's register in unwind information.
#[cfg(target_arch = "aarch64")]
pub(crate) const RETURN_ADDRESS: Register = gimli::AArch64::X30;
/// The vendor of the unwind information, which determines how return addresses are signed.
#[cfg(target_arch = "aarch64")]
pub(crate) const VENDOR: gimli::Vendor = gimli::Vendor::AArch64;

/// Returns whether a function whose return address has this rule has no caller.
pub(crate) fn ends_stack(rule: Option<&RegisterRule<usize>>) -> bool {
    match rule {
        Some(RegisterRule::Undefined) => true,
        // On x86_64, a call stores the return address. On aarch64, the address stays in a register
        // until the function saves it.
        None => cfg!(target_arch = "x86_64"),
        Some(_) => false,
    }
}

/// Removes the signature that a return address can have in its upper bits on aarch64.
pub(crate) fn without_signature(address: u64) -> u64 {
    match cfg!(target_arch = "aarch64") {
        true => address & 0x0000_ffff_ffff_ffff,
        false => address,
    }
}

impl Registers {
    /// Returns the registers of the code that a signal interrupted.
    ///
    /// # Safety
    ///
    /// `context` must be the third argument of a signal handler.
    #[cfg(target_arch = "x86_64")]
    pub unsafe fn interrupted(context: *const c_void) -> Registers {
        // SAFETY: the kernel passes a `ucontext_t`.
        let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let value = |register: i32| registers[register as usize] as u64;
        let (pc, sp, fp) = (value(libc::REG_RIP), value(libc::REG_RSP), value(libc::REG_RBP));
        Registers { pc, sp, fp, link: None }
    }

    /// Returns the registers of the code that a signal interrupted.
    ///
    /// # Safety
    ///
    /// `context` must be the third argument of a signal handler.
    #[cfg(target_arch = "aarch64")]
    pub unsafe fn interrupted(context: *const c_void) -> Registers {
        // SAFETY: the kernel passes a `ucontext_t`.
        let context = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
        let link = Some(without_signature(context.regs[30]));
        Registers { pc: context.pc, sp: context.sp, fp: context.regs[29], link }
    }
}

impl Registers {
    /// Returns the registers of the function into which this function is inlined.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub fn here() -> Registers {
        let (pc, sp, fp): (u64, u64, u64);
        // SAFETY: the instructions only read registers.
        unsafe {
            std::arch::asm!(
                "lea {pc}, [rip]", "mov {sp}, rsp", "mov {fp}, rbp",
                pc = out(reg) pc, sp = out(reg) sp, fp = out(reg) fp,
                options(nostack, nomem, preserves_flags)
            );
        }
        Registers { pc, sp, fp, link: None }
    }

    /// Returns the registers of the function into which this function is inlined.
    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    pub fn here() -> Registers {
        let (pc, sp, fp): (u64, u64, u64);
        // SAFETY: the instructions only read registers.
        unsafe {
            std::arch::asm!(
                "adr {pc}, .", "mov {sp}, sp", "mov {fp}, x29",
                pc = out(reg) pc, sp = out(reg) sp, fp = out(reg) fp,
                options(nostack, nomem, preserves_flags)
            );
        }
        Registers { pc, sp, fp, link: None }
    }

    /// Sets the registers of an interrupted context.
    ///
    /// # Safety
    ///
    /// `context` must be the third argument of a signal handler. The handler must restore the
    /// original registers before it returns.
    pub unsafe fn put(self, context: *mut c_void) {
        // SAFETY: the kernel passes a `ucontext_t`.
        let context = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext };
        #[cfg(target_arch = "x86_64")]
        {
            context.gregs[libc::REG_RIP as usize] = self.pc as i64;
            context.gregs[libc::REG_RSP as usize] = self.sp as i64;
            context.gregs[libc::REG_RBP as usize] = self.fp as i64;
        }
        #[cfg(target_arch = "aarch64")]
        {
            (context.pc, context.sp, context.regs[29]) = (self.pc, self.sp, self.fp);
        }
    }
}

/// Returns the thread pointer. It points to thread data, which the C libraries on Linux keep at the
/// upper end of the thread's stack memory, except for the main thread.
pub(crate) fn thread_pointer() -> u64 {
    let pointer: u64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the ABI stores the thread pointer at the address to which it points.
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the register may be read in user mode.
    unsafe {
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags));
    }
    pointer
}
