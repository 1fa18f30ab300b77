//! Access to kernels: the kernel selected for this CPU, and all supported kernels, for tests and
//! benchmarks.

use crate::scalar;
use crate::set::ByteSet;
#[cfg(target_arch = "x86_64")]
use crate::x86::{avx2, avx512};
use std::sync::atomic::{AtomicU8, Ordering};

/// One implementation of the scanners, which this CPU supports.
///
/// Only [`Kernel::best`] and [`available`] return kernels, after checking the CPU features. A value
/// of type `Kernel` therefore proves that its instructions are available.
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

/// Returns all kernels that this CPU supports, slowest first, starting with `scalar`.
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

/// The selected [`Level`], or 0 before the first use. This is a byte with a `match` instead of
/// function pointers, because the branches predict well, the calls are direct, and no transmute is
/// needed.
static SELECTED: AtomicU8 = AtomicU8::new(0);

#[cold]
fn select() -> Kernel {
    let kernel = available().pop().unwrap_or(Kernel(Level::Scalar));
    SELECTED.store(kernel.0 as u8, Ordering::Relaxed);
    kernel
}

/// Calls a function of the kernel at `$level`.
macro_rules! dispatch {
    ($level:expr, $name:ident($($argument:expr),*)) => {
        match $level {
            Level::Scalar => scalar::$name($($argument),*),
            // SAFETY: a `Kernel` of this level exists only if `detected` returned true.
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
    /// Returns the fastest kernel that this CPU supports. The kernel is selected in the first call.
    #[inline]
    pub fn best() -> Kernel {
        // Relaxed ordering suffices: the byte guards no other data, and a race only causes a second
        // selection.
        match SELECTED.load(Ordering::Relaxed) {
            #[cfg(target_arch = "x86_64")]
            3 => Kernel(Level::Avx512),
            #[cfg(target_arch = "x86_64")]
            2 => Kernel(Level::Avx2),
            1 => Kernel(Level::Scalar),
            _ => select(),
        }
    }

    /// Returns the kernel's name: `avx512`, `avx2` or `scalar`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Level::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => "avx512",
        }
    }

    /// Calls [`crate::newlines`] with this kernel.
    ///
    /// # Panics
    /// Panics if `block` is longer than `u32::MAX` bytes.
    #[inline]
    pub fn newlines(self, block: &[u8], out: &mut Vec<u32>) {
        dispatch!(self.0, newlines(block, out));
    }

    /// Calls [`crate::count_newlines`] with this kernel.
    #[inline]
    pub fn count_newlines(self, block: &[u8]) -> usize {
        dispatch!(self.0, count_newlines(block))
    }

    /// Calls [`crate::last_newline`] with this kernel.
    #[inline]
    pub fn last_newline(self, block: &[u8]) -> Option<usize> {
        dispatch!(self.0, last_newline(block))
    }

    /// Calls [`crate::escape_json`] with this kernel.
    #[inline]
    pub fn escape_json(self, text: &[u8], out: &mut Vec<u8>) {
        dispatch!(self.0, escape_json(text, out));
    }

    /// Calls [`crate::find`] with this kernel.
    ///
    /// # Panics
    /// Panics if `block` is longer than `u32::MAX` bytes.
    #[inline]
    pub fn find(self, block: &[u8], set: &ByteSet, out: &mut Vec<u32>) {
        dispatch!(self.0, find(block, set, out));
    }

    /// Calls [`crate::bitmap`] with this kernel.
    #[inline]
    pub fn bitmap(self, block: &[u8], set: &ByteSet, out: &mut Vec<u8>) {
        dispatch!(self.0, bitmap(block, set, out));
    }
}
