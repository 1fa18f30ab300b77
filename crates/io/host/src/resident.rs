//! A process's resident memory.

use crate::files;
use rustix::io::{Errno, pread};
use rustix::param::page_size;
use std::fs::File;
use std::io;
use std::path::Path;

/// Maximum length of `statm` in bytes: seven 64-bit numbers.
const STATM_BYTES: usize = 160;

/// Returns a process's resident memory in bytes, given its folder in `/proc`; `None` if it cannot
/// be read, for example because the process has exited.
pub fn resident_bytes(process: &Path) -> Option<u64> {
    parse(&files::text(&process.join("statm")).ok()?)
}

/// Reads this process's resident memory, for frequent use. The file is kept open, because opening
/// it takes four times as long as reading.
#[derive(Debug)]
pub struct ResidentMemory(File);

impl ResidentMemory {
    /// Opens `/proc/self/statm`.
    ///
    /// # Errors
    /// Returns an error if `/proc` is not mounted, or no file descriptor is available.
    pub fn open() -> io::Result<ResidentMemory> {
        File::open("/proc/self/statm").map(ResidentMemory)
    }

    /// Returns the resident memory in bytes; `None` if it cannot be read.
    pub fn bytes(&self) -> Option<u64> {
        let mut text = [0; STATM_BYTES];
        let len = loop {
            match pread(&self.0, &mut text, 0) {
                Err(Errno::INTR) => {}
                read => break read.ok()?,
            }
        };
        parse(str::from_utf8(text.get(..len)?).ok()?)
    }
}

fn parse(statm: &str) -> Option<u64> {
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_pages_are_the_second_number() {
        let process = tempfile::tempdir().unwrap();
        assert_eq!(resident_bytes(process.path()), None);
        std::fs::write(process.path().join("statm"), "9000 20 3 4 0 6 0\n").unwrap();
        assert_eq!(resident_bytes(process.path()), Some(20 * page_size() as u64));
    }

    #[test]
    fn memory_that_is_written_is_resident() {
        let own = ResidentMemory::open().unwrap();
        let before = own.bytes().unwrap();
        let memory = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = own.bytes().unwrap();
        let other = resident_bytes(Path::new("/proc/self")).unwrap();
        assert!(after >= before + (48 << 20), "{before} {after} {}", memory[1 << 20]);
        assert!(other.abs_diff(after) < 16 << 20, "{after} {other}");
    }
}
