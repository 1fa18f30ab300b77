//! Controls which memory stays resident without need: freed memory that the C library's allocator
//! keeps, and pages of the program that only the start used.
//!
//! A separate crate because it fences `unsafe`: the functions of the C library have no safe
//! wrapper.
//!
//! By default, when a large block is freed, the GNU allocator raises the size above which blocks
//! come directly from the system and return to it immediately. After that, tables of a hundred
//! megabytes are allocated between small blocks, and leave holes that stay resident. See
//! `mallopt(3)`.

#[cfg(target_env = "gnu")]
mod gnu {
    use std::ffi::{c_int, c_void};

    /// The `M_TRIM_THRESHOLD` parameter of `mallopt`.
    const TRIM_THRESHOLD: c_int = -1;
    /// The `M_MMAP_THRESHOLD` parameter of `mallopt`.
    const MMAP_THRESHOLD: c_int = -3;

    /// Minimum size in bytes of blocks that come directly from the system. The minimum is larger
    /// than the blocks that the data path recycles.
    const MMAP_BYTES: c_int = 1 << 20;

    /// The heap shrinks if this many bytes are free at its end. The threshold is larger than the
    /// memory that a batch frees.
    const TRIM_BYTES: c_int = 8 << 20;

    /// The `MADV_DONTNEED` advice of `madvise`.
    const DONT_NEED: c_int = 4;

    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
        fn malloc_trim(keep: usize) -> c_int;
        fn madvise(start: *mut c_void, length: usize, advice: c_int) -> c_int;
        fn getpagesize() -> c_int;
        /// The first byte of the program in memory. The linker defines the symbol.
        static __executable_start: u8;
        /// The first byte behind the program's code. The linker defines the symbol.
        static etext: u8;
    }

    pub fn fix_thresholds() -> bool {
        // SAFETY: the parameters have existed since glibc 2.0, and any value is allowed.
        unsafe {
            mallopt(MMAP_THRESHOLD, MMAP_BYTES) == 1 && mallopt(TRIM_THRESHOLD, TRIM_BYTES) == 1
        }
    }

    pub fn trim() {
        // SAFETY: the function may be called at any time, and only returns free pages to the
        // system.
        _ = unsafe { malloc_trim(0) };
    }

    /// Reads each page of the program's constants and code, so that they are resident.
    #[cfg(test)]
    pub fn touch_program() {
        let start = &raw const __executable_start;
        let length = (&raw const etext).addr() - start.addr();
        for offset in (0..length).step_by(4096) {
            // SAFETY: the segments before the end of the code are mapped and readable.
            _ = unsafe { start.add(offset).read_volatile() };
        }
    }

    pub fn unmap_program() -> bool {
        let start = (&raw const __executable_start).addr();
        let end = (&raw const etext).addr();
        // SAFETY: the function has no requirements.
        let page = unsafe { getpagesize() }.cast_unsigned() as usize;
        let length = end.saturating_sub(start) / page * page;
        // SAFETY: the range consists of the segments of the executable before the end of its code.
        // They are private read-only mappings of a file, and the loader changes only later
        // segments. The next access therefore reads the same bytes from the file again.
        unsafe { madvise(start as *mut c_void, length, DONT_NEED) == 0 }
    }
}

#[cfg(not(target_env = "gnu"))]
mod gnu {
    pub fn fix_thresholds() -> bool {
        false
    }

    pub fn trim() {}

    pub fn unmap_program() -> bool {
        false
    }
}

/// Makes large blocks return to the system as soon as they are freed, regardless of earlier frees.
/// Must be called once, before threads start. Returns whether the allocator supports this.
pub fn fix_thresholds() -> bool {
    gnu::fix_thresholds()
}

/// Returns the free pages of all heaps to the system. This takes milliseconds, or a tenth of a
/// second if there are many small blocks. Meanwhile, other threads cannot allocate from the heap
/// that is being trimmed.
pub fn trim() {
    gnu::trim();
}

/// Removes the pages of the program's code and constants from resident memory. The kernel maps
/// pages again from the page cache when they are used: 64 KiB at a time, in about a microsecond.
///
/// For use after the start, which runs more code than the agent does later: most of the file
/// pages that are resident then belong to parsing the configuration and creating components.
/// Returns whether the system supports this.
pub fn unmap_program() -> bool {
    gnu::unmap_program()
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use std::fs;

    fn resident_pages() -> u64 {
        let text = fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// This is a single test, because both parts affect the whole process.
    #[test]
    fn freed_memory_returns_to_the_system() {
        assert!(super::fix_thresholds());
        // Allocates small blocks. Every second block is kept, and a page is returned only if it is
        // completely free.
        let mut blocks: Vec<Option<Box<[u8; 1024]>>> =
            (0..65_536).map(|_| Some(Box::new([1; 1024]))).collect();
        let full = resident_pages();
        for chunk in blocks.chunks_mut(64) {
            chunk[..60].iter_mut().for_each(|block| *block = None);
        }
        super::trim();
        let after = resident_pages();
        assert!(full > 16_384 && after < full - 8192, "{full} pages, then {after}");
        assert_eq!(blocks.iter().flatten().count(), 4096);
    }

    #[test]
    fn pages_of_the_program_are_resident_only_while_used() {
        let status = || fs::read_to_string("/proc/self/status").unwrap();
        let resident_file_kib = || -> u64 {
            let text = status();
            let line = text.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap();
            line.trim().trim_end_matches(" kB").parse().unwrap()
        };
        super::gnu::touch_program();
        let before = resident_file_kib();
        assert!(super::unmap_program());
        let after = resident_file_kib();
        assert!(after + 256 < before, "{before} KiB, then {after} KiB");
        // The code still runs, and constants have the same values.
        assert_eq!(status().lines().next().unwrap().split('\t').next(), Some("Name:"));
    }
}
