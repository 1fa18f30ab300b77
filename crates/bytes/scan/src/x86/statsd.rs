//! The loop over StatsD lines, monomorphized for each instruction set.

use super::sets::Set64;
use super::{Avx2, Avx512};
use crate::statsd::{BARS, StatsdLine, StatsdLines, assert_short};
use std::arch::x86_64::*;

/// Scans for lines (see [`crate::statsd_lines`]).
///
/// # Safety
/// [`super::avx2::detected`] must be true.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub unsafe fn avx2(text: &[u8], each: &mut impl StatsdLines) {
    // SAFETY: the caller upholds this function's condition.
    unsafe { lines::<Avx2, _>(text, each) }
}

/// Scans for lines (see [`crate::statsd_lines`]).
///
/// # Safety
/// [`super::avx512::detected`] must be true.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt")]
pub unsafe fn avx512(text: &[u8], each: &mut impl StatsdLines) {
    // SAFETY: the caller upholds this function's condition.
    unsafe { lines::<Avx512, _>(text, each) }
}

/// Number of bytes to scan at a time.
const BLOCK: usize = 64;

/// Bit masks of 64 bytes, one for each delimiter.
#[derive(Clone, Copy)]
struct Masks {
    end: u64,
    bar: u64,
    colon: u64,
}

/// Loads the tail of the text.
pub trait Tail: Set64 {
    /// Returns fewer than 64 bytes as a block, padded with zeros.
    ///
    /// # Safety
    /// The CPU must have the implementor's features.
    unsafe fn padded(rest: &[u8]) -> [u8; BLOCK];
}

impl Tail for Avx512 {
    #[inline(always)]
    unsafe fn padded(rest: &[u8]) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        // SAFETY: the masked load reads only the bytes of `rest`; the caller guarantees the
        // features.
        unsafe {
            let inside = _bzhi_u64(u64::MAX, rest.len() as u32);
            let bytes = _mm512_maskz_loadu_epi8(inside, rest.as_ptr().cast());
            _mm512_storeu_si512(block.as_mut_ptr().cast(), bytes);
        }
        block
    }
}

impl Tail for Avx2 {
    #[inline(always)]
    unsafe fn padded(rest: &[u8]) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        block[..rest.len()].copy_from_slice(rest);
        block
    }
}

/// Returns the masks of the 64 bytes at `at`. If fewer bytes are left, the end of the text is
/// treated as a newline.
///
/// The function uses no closures, because they would be compiled without the features.
///
/// # Safety
/// The CPU must have the features of `V`.
#[inline(always)]
unsafe fn masks64<V: Tail>(text: &[u8], at: usize) -> Masks {
    let rest = text.get(at..).unwrap_or_default();
    // SAFETY: the caller upholds the condition.
    unsafe {
        match rest.first_chunk::<BLOCK>() {
            Some(block) => Masks::from_block::<V>(block),
            None => {
                let masks = Masks::from_block::<V>(&V::padded(rest));
                Masks { end: masks.end | 1 << rest.len(), ..masks }
            }
        }
    }
}

impl Masks {
    /// Returns the masks of a block.
    ///
    /// # Safety
    /// The CPU must have the features of `V`.
    #[inline(always)]
    unsafe fn from_block<V: Set64>(block: &[u8; BLOCK]) -> Masks {
        // SAFETY: the caller upholds the condition.
        unsafe {
            Masks {
                end: V::byte_mask(block, b'\n'),
                bar: V::byte_mask(block, b'|'),
                colon: V::byte_mask(block, b':'),
            }
        }
    }
}

/// Passes all lines of the text to `each`.
///
/// # Safety
/// The CPU must have the features of `V`.
///
/// # Panics
/// Panics if `text` is longer than `u32::MAX` - 1 bytes.
#[inline(always)]
unsafe fn lines<V: Tail, F: StatsdLines>(text: &[u8], each: &mut F) {
    assert_short(text);
    let mut start = 0;
    while start < text.len() {
        // SAFETY: the caller upholds the condition.
        let line = unsafe {
            let first = masks64::<V>(text, start);
            match short(&first, start as u32) {
                Some(line) => line,
                None => match middle(&first, &masks64::<V>(text, start + BLOCK), start as u32) {
                    Some(line) => line,
                    None => long::<V>(text, start),
                },
            }
        };
        start = line.end as usize + 1;
        each.line(line);
    }
}

/// Parses a line that ends in its first block. Returns `None` for any other line.
#[inline(always)]
fn short(first: &Masks, start: u32) -> Option<StatsdLine> {
    // The end of the line replaces missing bars.
    let end = lowest(first.end);
    let bars = first.bar & below(end) | end;
    let [second, third] =
        [without_lowest(bars) | end, without_lowest(without_lowest(bars) | end) | end];
    let position = |bits: u64| start + bits.trailing_zeros();
    let line = StatsdLine {
        split: position(first.colon | bars),
        bars: [bars, second, third].map(position),
        end: position(end),
    };
    (end != 0).then_some(line)
}

/// Parses a line that ends in its second block and has two bars in the first block. Returns `None`
/// for any other line.
#[inline(always)]
fn middle(first: &Masks, second: &Masks, start: u32) -> Option<StatsdLine> {
    let end = lowest(second.end);
    let next = without_lowest(first.bar);
    let others = without_lowest(next);
    let position = |bits: u64| start + bits.trailing_zeros();
    let in_second = |bits: u64| start + BLOCK as u32 + bits.trailing_zeros();
    let third =
        if others != 0 { position(others) } else { in_second(second.bar & below(end) | end) };
    let line = StatsdLine {
        split: position(first.colon | first.bar),
        bars: [position(first.bar), position(next), third],
        end: in_second(end),
    };
    (end != 0 && next != 0).then_some(line)
}

/// Parses any other line, block by block.
///
/// # Safety
/// The CPU must have the features of `V`.
#[inline(always)]
unsafe fn long<V: Tail>(text: &[u8], start: usize) -> StatsdLine {
    let (mut bars, mut found, mut split) = ([u32::MAX; BARS], 0, u32::MAX);
    let mut at = start;
    loop {
        // SAFETY: the caller upholds the condition.
        let masks = unsafe { masks64::<V>(text, at) };
        let position = |bits: u64| at as u32 + bits.trailing_zeros();
        let inside = below(lowest(masks.end));
        if split == u32::MAX && masks.colon & inside != 0 {
            split = position(masks.colon);
        }
        let mut left = masks.bar & inside;
        while left != 0 && found < BARS {
            bars[found] = position(left);
            (left, found) = (without_lowest(left), found + 1);
        }
        if masks.end != 0 {
            let end = position(masks.end);
            let bars = bars.map(|bar| bar.min(end));
            return StatsdLine { split: split.min(bars[0]), bars, end };
        }
        at += BLOCK;
    }
}

/// Returns only the lowest set bit.
#[inline(always)]
fn lowest(bits: u64) -> u64 {
    bits & bits.wrapping_neg()
}

#[inline(always)]
fn without_lowest(bits: u64) -> u64 {
    bits & bits.wrapping_sub(1)
}

/// Returns the bits below `bit`, or all bits if `bit` is 0.
#[inline(always)]
fn below(bit: u64) -> u64 {
    bit.wrapping_sub(1)
}
