//! The resident memory of a process.

use crate::files;
use rustix::param::page_size;
use std::path::Path;

/// Returns the resident memory of a process in bytes, from its folder below `/proc`. `None` if it
/// cannot be read: the process has ended.
pub fn resident_bytes(process: &Path) -> Option<u64> {
    let text = files::text(&process.join("statm")).ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
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
        let own = Path::new("/proc/self");
        let before = resident_bytes(own).unwrap();
        let memory = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = resident_bytes(own).unwrap();
        assert!(after >= before + (48 << 20), "{before} {after} {}", memory[1 << 20]);
    }
}
