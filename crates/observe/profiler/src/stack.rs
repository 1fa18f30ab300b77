//! Walks the stack of the interrupted thread. All functions here are safe in signal handlers.

use crate::arch::{self, Registers};
use crate::rows::{Base, Code, Rule};
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of stack bytes to read if the end of the stack is unknown.
const UNKNOWN_STACK_BYTES: u64 = 1 << 20;

/// Bytes below the main stack that the kernel keeps unmapped so that the stack can grow.
const STACK_GAP_BYTES: u64 = 1 << 20;

/// The process data needed to walk stacks. All ranges are in ascending order.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// The unwind rules of loaded objects.
    pub code: Vec<Arc<Code>>,
    /// Private writable mappings.
    pub memory: Vec<Range<u64>>,
    /// The stack of the main thread.
    pub main_stack: Range<u64>,
}

impl Tables {
    fn code(&self, address: u64) -> Option<&Code> {
        let after = self.code.partition_point(|code| code.addresses.start <= address);
        let code = self.code.get(after.wrapping_sub(1))?;
        (address < code.addresses.end).then_some(code)
    }

    fn memory(&self, address: u64) -> Option<&Range<u64>> {
        let after = self.memory.partition_point(|range| range.start <= address);
        let range = self.memory.get(after.wrapping_sub(1))?;
        (address < range.end).then_some(range)
    }

    /// Returns the memory of the calling thread's stack, starting at a stack pointer.
    ///
    /// The mappings are at least as recent as the thread. The stack stays mapped while the thread
    /// runs, but its mapping can extend beyond the stack, and that part might have been unmapped
    /// since. The returned memory therefore ends at the thread pointer, which is inside the stack's
    /// memory.
    pub fn stack(&self, sp: u64, is_main: bool) -> StackMemory {
        let main = self.main_stack.start.saturating_sub(STACK_GAP_BYTES)..self.main_stack.end;
        if is_main && main.contains(&sp) {
            return StackMemory { addresses: sp..main.end, is_mapped: true };
        }
        let end = arch::thread_pointer();
        let mapping = self.memory(end).filter(|mapping| mapping.contains(&sp) && sp < end);
        match mapping.filter(|_| !is_main) {
            Some(_) => StackMemory { addresses: sp..end, is_mapped: true },
            None => {
                let end = sp.saturating_add(UNKNOWN_STACK_BYTES);
                StackMemory { addresses: sp..end, is_mapped: false }
            }
        }
    }
}

/// The memory of a stack.
#[derive(Debug)]
pub(crate) struct StackMemory {
    addresses: Range<u64>,
    /// Whether all of the memory stays mapped while the thread runs.
    is_mapped: bool,
}

impl StackMemory {
    /// Returns the word at an address, or `None` if the address is unaligned, outside the stack, or
    /// not mapped.
    fn word(&self, address: u64) -> Option<u64> {
        let is_within = address >= self.addresses.start
            && address <= self.addresses.end.saturating_sub(8)
            && address.is_multiple_of(8);
        match is_within {
            // SAFETY: the word is aligned and on the stack of this thread. Only the code of this
            // thread may change the word, and that code is interrupted.
            true if self.is_mapped => Some(unsafe { (address as *const u64).read_volatile() }),
            true => copied(address),
            false => None,
        }
    }
}

/// Returns a word of process memory, or `None` if the address is not mapped.
fn copied(address: u64) -> Option<u64> {
    let mut word = 0_u64;
    let to = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: size_of::<u64>() };
    let from = libc::iovec { iov_base: address as *mut _, iov_len: size_of::<u64>() };
    // SAFETY: the kernel writes only to `word`, and returns an error if it cannot read the source.
    let bytes = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    (bytes == size_of::<u64>() as isize).then_some(word)
}

/// The result of a step to the caller.
enum Step {
    Caller(Registers),
    /// There is no caller.
    End,
    /// The caller is unknown.
    Unknown,
}

/// The result of walking a stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walked {
    /// Number of addresses.
    pub count: usize,
    /// Whether callers are missing.
    pub is_truncated: bool,
    /// The registers of the last frame, if its code does not belong to a loaded object.
    pub generated: Option<Registers>,
}

/// Writes the addresses on a stack, leaf first.
pub(crate) fn walk(
    tables: &Tables,
    stack: &StackMemory,
    mut registers: Registers,
    addresses: &mut [u64],
) -> Walked {
    let mut address = registers.pc;
    for (index, slot) in addresses.iter_mut().enumerate() {
        *slot = address;
        match step(tables, stack, &registers, address) {
            Step::Caller(caller) => registers = caller,
            Step::End => {
                return Walked { count: index + 1, is_truncated: false, generated: None };
            }
            Step::Unknown => {
                let generated = tables.code(address).is_none().then_some(registers);
                return Walked { count: index + 1, is_truncated: true, generated };
            }
        }
        // Subtract one, because a call can be the last instruction of its function.
        address = registers.pc.wrapping_sub(1);
    }
    Walked { count: addresses.len(), is_truncated: true, generated: None }
}

/// Returns the caller of a function without a frame, whose return address is in a register or at
/// the top of the stack. Returns `None` if the stack cannot be read.
pub(crate) fn caller_without_frame(stack: &StackMemory, registers: Registers) -> Option<Registers> {
    match registers.link {
        Some(pc) => Some(Registers { pc, link: None, ..registers }),
        None => {
            let pc = stack.word(registers.sp)?;
            Some(Registers { pc, sp: registers.sp + 8, ..registers })
        }
    }
}

/// Returns the caller of a function that maintains the frame pointer. Returns `None` if the frame
/// pointer does not point into the stack.
pub(crate) fn caller_by_frame_pointer(
    stack: &StackMemory,
    registers: Registers,
) -> Option<Registers> {
    if registers.fp < registers.sp {
        return None;
    }
    let fp = stack.word(registers.fp)?;
    let pc = arch::without_signature(stack.word(registers.fp.wrapping_add(8))?);
    Some(Registers { pc, sp: registers.fp.wrapping_add(16), fp, link: None })
}

/// Finds the caller of an instruction.
fn step(tables: &Tables, stack: &StackMemory, registers: &Registers, address: u64) -> Step {
    let Some(code) = tables.code(address) else { return Step::Unknown };
    let rule = code.rule(address);
    let caller = match rule.base {
        Base::EndOfStack => return Step::End,
        Base::Unknown => by_frame_pointer(tables, stack, registers),
        _ => by_rule(stack, registers, rule),
    };
    match caller {
        Some(caller) if caller.pc == 0 => Step::End,
        Some(caller) => Step::Caller(caller),
        None => Step::Unknown,
    }
}

fn by_rule(stack: &StackMemory, registers: &Registers, rule: Rule) -> Option<Registers> {
    let base = match rule.base {
        Base::FramePointer => registers.fp,
        // An entry has 16 bytes. In both kinds of entries, the instruction that pushes a word ends
        // at offset 11.
        Base::LinkageTable if registers.pc % 16 >= 11 => registers.sp.wrapping_add(8),
        _ => registers.sp,
    };
    let frame = base.wrapping_add_signed(rule.offset());
    let saved = |offset: i64| stack.word(frame.wrapping_add_signed(offset));
    let return_address = match rule.return_address() {
        Some(offset) => saved(offset)?,
        None => registers.link?,
    };
    let fp = rule.frame_pointer().map_or(Some(registers.fp), saved)?;
    // Only a leaf whose return address is in a register may have an empty frame.
    let has_advanced = frame > registers.sp || (frame == registers.sp && registers.link.is_some());
    let pc = arch::without_signature(return_address);
    has_advanced.then_some(Registers { pc, sp: frame, fp, link: None })
}

/// Finds the caller through the frame pointer, which many functions maintain even if they have no
/// unwind information.
fn by_frame_pointer(
    tables: &Tables,
    stack: &StackMemory,
    registers: &Registers,
) -> Option<Registers> {
    let caller = caller_by_frame_pointer(stack, *registers)?;
    // If the register contains something else, its value is unlikely to point to code.
    let is_code = caller.pc == 0 || tables.code(caller.pc).is_some();
    is_code.then_some(caller)
}
