//! The unwind information of an object, as a table of rules for finding the caller of each
//! instruction.
//!
//! The `.eh_frame` section is a program for a small machine, which needs kilobytes of memory per
//! step. A signal handler cannot use that much of its thread's alternate stack. The program
//! therefore runs once, before the first sample, and the signal handler searches the resulting
//! rows.

use crate::arch::{self, FRAME_POINTER, RETURN_ADDRESS, STACK_POINTER};
use crate::objects::{LoadedObject, UnwindSections};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, LittleEndian,
    RegisterRule, UnwindContext, UnwindSection, UnwindTableRow,
};
use std::ops::Range;

type Bytes<'b> = EndianSlice<'b, LittleEndian>;

/// Marks a register that is not saved.
const NOT_SAVED: i16 = i16::MIN;

/// Expressions for entries of the procedure linkage table on x86_64: `rsp + 8`, plus another 8 once
/// the entry has pushed a word, which is at offset 11 or 10 of the entry.
const PLT_EXPRESSIONS: [&[u8]; 2] = [
    &[0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22],
    &[0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3a, 0x2a, 0x33, 0x24, 0x22],
];

/// How the address of a frame, which is the caller's stack pointer, is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// Relative to the stack pointer.
    StackPointer,
    /// Relative to the frame pointer.
    FramePointer,
    /// Relative to the stack pointer, at an offset that depends on the position in an entry of the
    /// procedure linkage table.
    LinkageTable,
    /// The function has no caller.
    EndOfStack,
    /// There is no information, or its kind is not supported.
    Unknown,
}

/// A rule for finding the caller of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub base: Base,
    /// Number of words from the base to the frame's address.
    words: i16,
    /// Number of words from the frame's address to the saved frame pointer.
    frame_pointer: i16,
    /// Number of words from the frame's address to the return address.
    return_address: i16,
}

impl Rule {
    const UNKNOWN: Rule = Rule::without_values(Base::Unknown);

    const fn without_values(base: Base) -> Rule {
        Rule { base, words: 0, frame_pointer: NOT_SAVED, return_address: NOT_SAVED }
    }

    /// Returns the number of bytes from the base to the frame's address.
    pub fn offset(self) -> i64 {
        i64::from(self.words) * 8
    }

    /// Returns the number of bytes from the frame's address to the saved frame pointer, or `None`
    /// if it is not saved.
    pub fn frame_pointer(self) -> Option<i64> {
        (self.frame_pointer != NOT_SAVED).then(|| i64::from(self.frame_pointer) * 8)
    }

    /// Returns the number of bytes from the frame's address to the return address, or `None` if it
    /// is not saved.
    pub fn return_address(self) -> Option<i64> {
        (self.return_address != NOT_SAVED).then(|| i64::from(self.return_address) * 8)
    }
}

/// A rule and the first instruction to which it applies.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Offset of the instruction from the first address of the object, in bytes.
    at: u32,
    rule: Rule,
}

/// The rules for a loaded object.
#[derive(Debug)]
pub(crate) struct Code {
    pub addresses: Range<u64>,
    rows: Vec<Row>,
}

impl Code {
    /// Computes the rules for an object.
    pub fn of(object: &LoadedObject) -> Code {
        let mut builder = Builder { addresses: object.code.clone(), rows: Vec::new() };
        if let Some(sections) = &object.unwind {
            // An error ends the table, so that later instructions have no rule.
            _ = builder.add(sections);
        }
        Code { addresses: object.code.clone(), rows: builder.sorted() }
    }

    /// Returns the number of rows. Each row takes 12 bytes.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the rule for the instruction at an address. Safe in signal handlers.
    pub fn rule(&self, address: u64) -> Rule {
        let offset = address.wrapping_sub(self.addresses.start);
        let after = self.rows.partition_point(|row| u64::from(row.at) <= offset);
        self.rows.get(after.wrapping_sub(1)).map_or(Rule::UNKNOWN, |row| row.rule)
    }
}

/// Collects rows in the order of the sections.
struct Builder {
    addresses: Range<u64>,
    rows: Vec<Row>,
}

impl Builder {
    fn add(&mut self, sections: &UnwindSections) -> gimli::Result<()> {
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(sections.header_at)
            .set_eh_frame(sections.frames_at)
            .set_text(self.addresses.start);
        let header = EhFrameHdr::new(&sections.header, LittleEndian).parse(&bases, 8)?;
        let mut frames = EhFrame::new(&sections.frames, LittleEndian);
        frames.set_address_size(8);
        frames.set_vendor(arch::VENDOR);
        let Some(table) = header.table() else { return Ok(()) };
        let mut entries = table.iter(&bases);
        let mut context = UnwindContext::new();
        while let Some((_, pointer)) = entries.next()? {
            let Ok(offset) = table.pointer_to_offset(pointer) else { continue };
            let Ok(entry) = frames.fde_from_offset(&bases, offset, EhFrame::cie_from_offset) else {
                continue;
            };
            // After an error, the rest of the function has no rule.
            _ = self.add_function(&frames, &bases, &mut context, &entry);
            self.push(entry.end_address(), Rule::UNKNOWN);
        }
        Ok(())
    }

    fn add_function<'b>(
        &mut self,
        frames: &EhFrame<Bytes<'b>>,
        bases: &BaseAddresses,
        context: &mut UnwindContext<usize>,
        entry: &FrameDescriptionEntry<Bytes<'b>>,
    ) -> gimli::Result<()> {
        self.push(entry.initial_address(), Rule::UNKNOWN);
        let mut rows = entry.rows(frames, bases, context)?;
        while let Some(row) = rows.next_row()? {
            let rule = rule(frames, row).unwrap_or(Rule::UNKNOWN);
            self.push(row.start_address(), rule);
        }
        Ok(())
    }

    /// Adds a row. The row replaces a previous row with the same address. A row that repeats the
    /// previous rule is omitted.
    fn push(&mut self, address: u64, rule: Rule) {
        let Ok(at) = u32::try_from(address.wrapping_sub(self.addresses.start)) else { return };
        self.rows.pop_if(|last| last.at == at);
        if self.rows.last().is_none_or(|last| last.rule != rule || last.at > at) {
            self.rows.push(Row { at, rule });
        }
    }

    fn sorted(mut self) -> Vec<Row> {
        // Functions should be in ascending order, like the search table. Sorting handles objects in
        // which they are not.
        self.rows.sort_by_key(|row| row.at);
        self.rows.shrink_to_fit();
        self.rows
    }
}

/// Returns the rule for a row, or `None` if its kind is not supported.
fn rule(frames: &EhFrame<Bytes<'_>>, row: &UnwindTableRow<usize>) -> Option<Rule> {
    let return_address = row.register(RETURN_ADDRESS);
    if arch::ends_stack(return_address.as_ref()) {
        return Some(Rule::without_values(Base::EndOfStack));
    }
    let (base, offset) = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } if *register == STACK_POINTER => {
            (Base::StackPointer, *offset)
        }
        CfaRule::RegisterAndOffset { register, offset } if *register == FRAME_POINTER => {
            (Base::FramePointer, *offset)
        }
        CfaRule::Expression(expression) => {
            let bytes = expression.get(frames).ok()?.0;
            PLT_EXPRESSIONS.contains(&bytes.slice()).then_some((Base::LinkageTable, 8))?
        }
        CfaRule::RegisterAndOffset { .. } => return None,
    };
    Some(Rule {
        base,
        words: words(offset)?,
        frame_pointer: saved(row.register(FRAME_POINTER))?,
        return_address: saved(return_address)?,
    })
}

/// Returns the position of a saved register, in words from the frame's address, or [`NOT_SAVED`].
/// Returns `None` if the kind of rule is not supported.
fn saved(rule: Option<RegisterRule<usize>>) -> Option<i16> {
    match rule {
        None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => Some(NOT_SAVED),
        Some(RegisterRule::Offset(offset)) => words(offset),
        Some(_) => None,
    }
}

fn words(bytes: i64) -> Option<i16> {
    let words = i16::try_from(bytes / 8).ok()?;
    (bytes % 8 == 0 && words != NOT_SAVED).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::{Base, Builder, Code, Rule};
    use crate::objects::loaded;

    #[inline(never)]
    fn function_with_a_frame() -> u64 {
        std::hint::black_box([3_u64; 40]).iter().sum()
    }

    #[test]
    fn almost_all_code_of_the_program_has_rules() {
        assert_eq!(function_with_a_frame(), 120);
        let here = function_with_a_frame as fn() -> u64 as usize as u64;
        let (_, objects) = loaded(|_| false);
        let program = objects.iter().find(|object| object.code.contains(&here)).unwrap();
        let code = Code::of(program);
        let first = code.rule(here);
        assert_eq!((first.base, first.frame_pointer()), (Base::StackPointer, None));
        assert!((0..20).any(|offset| code.rule(here + offset).offset() > first.offset()));
        let addresses = program.code.clone().step_by(64);
        let (all, unknown) = addresses.fold((0, 0), |(all, unknown), address| {
            (all + 1, unknown + u32::from(code.rule(address).base == Base::Unknown))
        });
        assert!(unknown * 10 < all, "{unknown} of {all} addresses without a rule");
        assert!(code.rows.is_sorted_by_key(|row| row.at));
    }

    #[test]
    fn addresses_outside_of_functions_have_no_rule() {
        let mut builder = Builder { addresses: 1000..2000, rows: Vec::new() };
        let end = Rule::without_values(Base::EndOfStack);
        builder.push(1100, Rule::UNKNOWN);
        builder.push(1100, end);
        builder.push(1150, end);
        builder.push(1200, Rule::UNKNOWN);
        let code = Code { addresses: 1000..2000, rows: builder.sorted() };
        assert_eq!(code.rows.len(), 2);
        let bases = [0, 999, 1099, 1100, 1199, 1200, u64::MAX].map(|at| code.rule(at).base);
        let (end, none) = (Base::EndOfStack, Base::Unknown);
        assert_eq!(bases, [none, none, none, end, end, none, none]);
    }
}
