//! The kernels by name: the choice for this CPU, and each available one for tests and benchmarks.

use crate::scalar;
use crate::set::ByteSet;
#[cfg(target_arch = "x86_64")]
use crate::x86::{avx2, avx512};
use std::sync::atomic::{AtomicU8, Ordering};

/// One implementation of the scanners that runs on this CPU.
///
/// It can only be obtained from [`Kernel::best`] and [`available`], which look at the CPU first:
/// holding one is the proof that its instructions exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel(Level);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Level {
    Scalar = 1,
    #[cfg(target_arch = "x86_64")]
    Avx2 = 2,
    #[cfg(target_arch = "x86_64")]
    Avx512 = 3,
}

/// The kernels that run on this CPU, the slowest (`scalar`) first.
pub fn available() -> Vec<Kernel> {
    #[allow(unused_mut)]
    let mut kernels = vec![Kernel(Level::Scalar)];
    #[cfg(target_arch = "x86_64")]
    {
        kernels.extend(avx2::detected().then_some(Kernel(Level::Avx2)));
        kernels.extend(avx512::detected().then_some(Kernel(Level::Avx512)));
    }
    kernels
}

/// The [`Level`] chosen at first use, 0 before. A byte and a `match` instead of function pointers:
/// the branches predict, the calls are direct, and nothing has to be transmuted.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

#[cold]
fn choose() -> Kernel {
    let kernel = available().pop().unwrap_or(Kernel(Level::Scalar));
    CHOSEN.store(kernel.0 as u8, Ordering::Relaxed);
    kernel
}

/// Runs one function of the kernel `$level`.
macro_rules! dispatch {
    ($level:expr, $name:ident($($argument:expr),*)) => {
        match $level {
            Level::Scalar => scalar::$name($($argument),*),
            // SAFETY: a `Kernel` of this level is only made after `detected` saw its CPU features.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { avx2::$name($($argument),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { avx512::$name($($argument),*) },
        }
    };
}

mod points;

impl Kernel {
    /// The fastest kernel this CPU runs; decided at the first call.
    #[inline]
    pub fn best() -> Kernel {
        // Relaxed: the level alone is the message, and a race only chooses twice.
        match CHOSEN.load(Ordering::Relaxed) {
            #[cfg(target_arch = "x86_64")]
            3 => Kernel(Level::Avx512),
            #[cfg(target_arch = "x86_64")]
            2 => Kernel(Level::Avx2),
            1 => Kernel(Level::Scalar),
            _ => choose(),
        }
    }

    /// `avx512`, `avx2` or `scalar`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Level::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => "avx512",
        }
    }

    /// [`crate::newlines`] by this kernel.
    ///
    /// # Panics
    /// If `block` is longer than `u32::MAX` bytes.
    #[inline]
    pub fn newlines(self, block: &[u8], out: &mut Vec<u32>) {
        dispatch!(self.0, newlines(block, out));
    }

    /// [`crate::count_newlines`] by this kernel.
    #[inline]
    pub fn count_newlines(self, block: &[u8]) -> usize {
        dispatch!(self.0, count_newlines(block))
    }

    /// [`crate::last_newline`] by this kernel.
    #[inline]
    pub fn last_newline(self, block: &[u8]) -> Option<usize> {
        dispatch!(self.0, last_newline(block))
    }

    /// [`crate::escape_json`] by this kernel.
    #[inline]
    pub fn escape_json(self, text: &[u8], out: &mut Vec<u8>) {
        dispatch!(self.0, escape_json(text, out));
    }

    /// [`crate::find`] by this kernel.
    ///
    /// # Panics
    /// If `block` is longer than `u32::MAX` bytes.
    #[inline]
    pub fn find(self, block: &[u8], set: &ByteSet, out: &mut Vec<u32>) {
        dispatch!(self.0, find(block, set, out));
    }

    /// [`crate::bitmap`] by this kernel.
    #[inline]
    pub fn bitmap(self, block: &[u8], set: &ByteSet, out: &mut Vec<u8>) {
        dispatch!(self.0, bitmap(block, set, out));
    }
}
