//! A JVM's memory, computed before the JVM starts.

use crate::buffer::BUFFER_BYTES;
use crate::options::{CODE_CACHE_BYTES, DIRECT_BYTES, JvmOptions, METASPACE_BYTES, STACK_BYTES};

/// Number of threads that the JVM itself uses: compilers, garbage collector, reference handling,
/// watchdog.
const JVM_THREADS: u64 = 16;

/// Memory that the JVM uses beyond the parts that have a limit, in bytes: code and data, symbols,
/// and the compilers' working memory. The largest measured value was 50 MiB.
const OVERHEAD_BYTES: u64 = 56 << 20;

/// The size of a garbage collector's tables is the heap size divided by this number: 2% for the
/// serial collector, and about 14% for other collectors.
const SERIAL_PART: u64 = 50;
const CONCURRENT_PART: u64 = 7;

/// A JVM's maximum memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JvmMemory {
    /// Maximum heap size.
    pub heap_bytes: u64,
    /// Maximum memory for classes.
    pub metaspace_bytes: u64,
    /// Maximum memory for compiled code.
    pub code_cache_bytes: u64,
    /// Maximum memory for direct buffers.
    pub direct_bytes: u64,
    /// Stacks of the JVM's threads and the threads that call collectors.
    pub stack_bytes: u64,
    /// The garbage collector's tables, and all other parts that have no limit.
    pub overhead_bytes: u64,
    /// Buffers for answers, one per thread that calls operators.
    pub buffer_bytes: u64,
}

impl JvmMemory {
    /// Computes the memory from the options alone.
    pub fn of(options: &JvmOptions) -> JvmMemory {
        let part = if options.has_concurrent_collector() { CONCURRENT_PART } else { SERIAL_PART };
        let stack_bytes = options.size("-Xss").unwrap_or(STACK_BYTES);
        JvmMemory {
            heap_bytes: options.heap_bytes,
            metaspace_bytes: options.size("-XX:MaxMetaspaceSize=").unwrap_or(METASPACE_BYTES),
            code_cache_bytes: options
                .size("-XX:ReservedCodeCacheSize=")
                .unwrap_or(CODE_CACHE_BYTES),
            direct_bytes: options.size("-XX:MaxDirectMemorySize=").unwrap_or(DIRECT_BYTES),
            stack_bytes: stack_bytes.saturating_mul(JVM_THREADS + options.collectors as u64),
            overhead_bytes: OVERHEAD_BYTES.saturating_add(options.heap_bytes / part),
            buffer_bytes: options.threads as u64 * BUFFER_BYTES as u64,
        }
    }

    /// Returns the sum of all parts.
    pub fn total_bytes(&self) -> u64 {
        let parts = [
            self.heap_bytes,
            self.metaspace_bytes,
            self.code_cache_bytes,
            self.direct_bytes,
            self.stack_bytes,
            self.overhead_bytes,
            self.buffer_bytes,
        ];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_follows_the_options() {
        let mut options = JvmOptions { heap_bytes: 100 << 20, threads: 2, ..JvmOptions::default() };
        let plain = JvmMemory::of(&options);
        assert_eq!((plain.heap_bytes, plain.buffer_bytes), (100 << 20, 20 << 20));
        assert_eq!(plain.overhead_bytes, OVERHEAD_BYTES + (2 << 20));
        options.options = vec!["-XX:MaxMetaspaceSize=200m".to_owned()];
        let more = JvmMemory::of(&options);
        assert_eq!(more.total_bytes() - plain.total_bytes(), (200 << 20) - METASPACE_BYTES);
        options.options = vec!["-Xss1m".to_owned()];
        let few = JvmMemory::of(&options);
        options.collectors += 10;
        assert_eq!(JvmMemory::of(&options).total_bytes() - few.total_bytes(), 10 << 20);
        options.options = vec!["-XX:+UseG1GC".to_owned()];
        assert!(JvmMemory::of(&options).overhead_bytes > plain.overhead_bytes);
    }

    #[test]
    fn absurd_sizes_do_not_overflow() {
        let options = vec!["-Xss8388608t".to_owned()];
        let options = JvmOptions { heap_bytes: u64::MAX, options, ..JvmOptions::default() };
        assert_eq!(JvmMemory::of(&options).total_bytes(), u64::MAX);
    }
}
