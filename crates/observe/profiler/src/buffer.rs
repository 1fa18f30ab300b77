//! A buffer to which signal handlers on many threads write, and which one thread drains.
//!
//! Positions count words since the start and never decrease. A handler reserves the words of its
//! sample by advancing `head`, and writes them. The first word is never zero, and the handler
//! stores it last. The reader stops at a first word that is zero. It zeroes the words that it has
//! read before it advances `tail`, which makes them available again.

use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of addresses in a sample.
pub(crate) const ADDRESSES_MAX: usize = 128;

/// Number of words in a sample, excluding its addresses.
const HEADER_WORDS: u64 = 2;

/// Maximum number of attempts to reserve words before a sample is lost. An attempt fails only if
/// another handler succeeds.
const ATTEMPTS_MAX: usize = 64;

/// Bit of the first word that is set in every sample.
const WRITTEN: u64 = 1;

/// Bit of the first word that is set if callers are missing.
const TRUNCATED: u64 = 2;

/// Position of the address count in the first word. The count has 16 bits.
const COUNT_SHIFT: u32 = 8;

/// A sample of one thread's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample<'a> {
    pub thread: u32,
    pub component: u32,
    /// Number of intervals that the sample represents.
    pub weight: u32,
    pub is_truncated: bool,
    pub addresses: &'a [u64],
}

/// A lock-free buffer of samples.
pub(crate) struct Buffer {
    /// The words of the buffer. Their number is a power of two.
    words: Box<[AtomicU64]>,
    /// Number of words reserved since the start.
    head: AtomicU64,
    /// Number of words drained since the start.
    tail: AtomicU64,
    /// Weight of the samples that were lost because there was no space.
    lost: AtomicU64,
}

impl Buffer {
    /// Creates an empty buffer of at most `bytes` bytes.
    pub fn new(bytes: usize) -> Buffer {
        let words = bytes / size_of::<u64>();
        let words = words.next_power_of_two() >> usize::from(!words.is_power_of_two());
        Buffer {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// Adds a sample, or counts it as lost. Safe in signal handlers, because it takes bounded time.
    pub fn push(&self, sample: &Sample<'_>) {
        let count = sample.addresses.len() as u64;
        let Some(at) = self.reserve(count + HEADER_WORDS) else {
            self.lost.fetch_add(u64::from(sample.weight), Ordering::Relaxed);
            return;
        };
        for (position, address) in (at + HEADER_WORDS..).zip(sample.addresses) {
            self.word(position).store(*address, Ordering::Relaxed);
        }
        let second = u64::from(sample.component) | u64::from(sample.weight) << 32;
        self.word(at + 1).store(second, Ordering::Relaxed);
        let truncated = if sample.is_truncated { TRUNCATED } else { 0 };
        let first = WRITTEN | truncated | count << COUNT_SHIFT | u64::from(sample.thread) << 32;
        self.word(at).store(first, Ordering::Release);
    }

    /// Reserves `words` words. Returns their position, or `None` if there is no space.
    fn reserve(&self, words: u64) -> Option<u64> {
        let mut head = self.head.load(Ordering::Relaxed);
        for _ in 0..ATTEMPTS_MAX {
            let end = head + words;
            // If the loaded head is outdated, `tail` can be past it. In this case, the exchange
            // fails.
            let used = end.saturating_sub(self.tail.load(Ordering::Acquire));
            if used > self.words.len() as u64 {
                return None;
            }
            let order = (Ordering::Relaxed, Ordering::Relaxed);
            match self.head.compare_exchange_weak(head, end, order.0, order.1) {
                Ok(_) => return Some(head),
                Err(newer) => head = newer,
            }
        }
        None
    }

    fn word(&self, position: u64) -> &AtomicU64 {
        // The length is a power of two, so the masked index is in range.
        &self.words[position as usize & (self.words.len() - 1)]
    }

    /// Passes the complete samples to `take` and removes them. Must not be called by several
    /// threads at the same time.
    pub fn drain(&self, mut take: impl FnMut(&Sample<'_>)) {
        let mut tail = self.tail.load(Ordering::Relaxed);
        let mut addresses = Vec::with_capacity(ADDRESSES_MAX);
        while tail != self.head.load(Ordering::Relaxed) {
            let first = self.word(tail).load(Ordering::Acquire);
            if first == 0 {
                return;
            }
            let second = self.word(tail + 1).load(Ordering::Relaxed);
            let end = tail + HEADER_WORDS + (first >> COUNT_SHIFT & 0xffff);
            addresses.clear();
            addresses
                .extend((tail + HEADER_WORDS..end).map(|at| self.word(at).load(Ordering::Relaxed)));
            (tail..end).for_each(|at| self.word(at).store(0, Ordering::Relaxed));
            tail = end;
            self.tail.store(tail, Ordering::Release);
            take(&Sample {
                thread: (first >> 32) as u32,
                component: second as u32,
                weight: (second >> 32) as u32,
                is_truncated: first & TRUNCATED != 0,
                addresses: &addresses,
            });
        }
    }

    /// Returns the weight of the samples that were lost since the last call.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Buffer, Sample};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    fn sample(thread: u32, addresses: &[u64]) -> Sample<'_> {
        let is_truncated = addresses.len().is_multiple_of(2);
        Sample { thread, component: thread * 3, weight: thread + 1, is_truncated, addresses }
    }

    fn drained(buffer: &Buffer) -> Vec<(u32, Vec<u64>)> {
        let mut all = Vec::new();
        buffer.drain(|taken| {
            assert_eq!(*taken, sample(taken.thread, taken.addresses));
            all.push((taken.thread, taken.addresses.to_vec()));
        });
        all
    }

    #[test]
    fn samples_return_in_order_and_unchanged_over_every_end_of_the_buffer() {
        let buffer = Buffer::new(1000);
        assert_eq!(buffer.words.len(), 64);
        for round in 0..200 {
            let addresses: Vec<u64> = (0..round % 29).map(|at| u64::MAX - at).collect();
            buffer.push(&sample(7, &addresses));
            buffer.push(&sample(u32::MAX / 3, &[0]));
            let expected = vec![(7, addresses), (u32::MAX / 3, vec![0])];
            assert_eq!(drained(&buffer), expected, "round {round}");
        }
        assert_eq!(buffer.take_lost(), 0);
    }

    #[test]
    fn a_full_buffer_counts_the_weight_of_lost_samples() {
        let buffer = Buffer::new(64 * 8);
        let addresses = [1; 14];
        for _ in 0..4 {
            buffer.push(&sample(0, &addresses));
        }
        assert_eq!(buffer.take_lost(), 0);
        buffer.push(&sample(9, &addresses));
        buffer.push(&sample(0, &[]));
        assert_eq!((buffer.take_lost(), buffer.take_lost()), (10 + 1, 0));
        assert_eq!(drained(&buffer).len(), 4);
        buffer.push(&sample(9, &addresses));
        assert_eq!(drained(&buffer).len(), 1);
    }

    /// Each thread numbers its samples. The reader must receive them in order, and gaps must
    /// correspond to lost samples.
    #[test]
    fn threads_write_while_one_reads() {
        let (buffer, is_over) = (&Buffer::new(4096), &AtomicBool::new(false));
        let mut last = [0_u64; 4];
        let mut drain = move || {
            let mut taken = 0;
            buffer.drain(|sample| {
                let number = sample.addresses[0];
                assert!(sample.addresses.iter().all(|address| *address == number));
                assert!(number > last[sample.thread as usize]);
                last[sample.thread as usize] = number;
                taken += 1;
            });
            taken
        };
        thread::scope(|scope| {
            let writers = [0, 1, 2, 3].map(|thread| {
                scope.spawn(move || {
                    for number in 1..=50_000 {
                        let addresses = vec![number; 1 + number as usize % 20];
                        let weight = 1;
                        let (component, is_truncated, addresses) = (0, false, &addresses[..]);
                        let sample = Sample { thread, component, weight, is_truncated, addresses };
                        buffer.push(&sample);
                    }
                })
            });
            let reader = scope.spawn(move || {
                let mut taken = 0;
                while !is_over.load(Ordering::Acquire) {
                    taken += drain();
                }
                taken + drain()
            });
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            is_over.store(true, Ordering::Release);
            assert_eq!(reader.join().unwrap() + buffer.take_lost(), 200_000);
        });
    }
}
