//! Reads kernel files, which are generated on each read and may disappear at any time.

use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Maximum file length in bytes: enough for the mounts of a host with thousands of containers.
const BYTES_MAX: u64 = 8 << 20;

/// Reads a whole file. Fails if it is not a regular file, or is too long.
pub fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(4096);
    // Reading a pipe could block forever.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > BYTES_MAX {
        true => Err(io::Error::new(io::ErrorKind::InvalidData, "longer than 8 MiB")),
        false => Ok(bytes),
    }
}

/// Reads a file as text and replaces invalid UTF-8.
pub fn text(path: &Path) -> io::Result<String> {
    let bytes = bytes(path)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Returns whether the error means that the process, device or group no longer exists.
pub fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::NOENT, Errno::SRCH, Errno::NODEV].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| gone.contains(&code))
}

/// Parses the next `N` words as whole numbers; `None` if there are fewer words or one of them is
/// invalid.
pub fn numbers<'t, const N: usize>(words: &mut impl Iterator<Item = &'t str>) -> Option<[f64; N]> {
    let mut numbers = [0.0; N];
    for number in &mut numbers {
        *number = words.next()?.parse::<u64>().ok()? as f64;
    }
    Some(numbers)
}

/// Returns the value for a key in a file whose lines have the form `key value` or `key: value
/// unit`.
pub fn value(text: &str, key: &str) -> Option<f64> {
    text.lines()
        .find_map(|line| numbers::<1>(&mut after(line, key)?.split_ascii_whitespace()))
        .map(|[n]| n)
}

/// Returns whether every line has the form `key value` or `key: value unit`.
pub fn is_table(text: &str) -> bool {
    text.lines().all(|line| numbers::<1>(&mut line.split_ascii_whitespace().skip(1)).is_some())
}

fn after<'t>(line: &'t str, key: &str) -> Option<&'t str> {
    line.strip_prefix(key)?.strip_prefix([' ', ':'])
}
