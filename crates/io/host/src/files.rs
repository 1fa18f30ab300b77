//! Files of the kernel: short, made when they are read, gone at any time.

use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Longest file that is taken, in bytes: the mounts of a host with thousands of containers fit.
const BYTES_MAX: u64 = 8 << 20;

/// All bytes of a file.
pub fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(4096);
    // A pipe would keep the reader for ever.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > BYTES_MAX {
        true => Err(io::Error::new(io::ErrorKind::InvalidData, "longer than 8 MiB")),
        false => Ok(bytes),
    }
}

/// The text of a file; what is not UTF-8 in it is replaced.
pub fn text(path: &Path) -> io::Result<String> {
    let bytes = bytes(path)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Whether the error says that the process, the device or the group has ended.
pub fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::NOENT, Errno::SRCH, Errno::NODEV].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| gone.contains(&code))
}

/// The first words of a line as numbers; none if there are fewer, or others.
pub fn numbers<'t, const N: usize>(words: &mut impl Iterator<Item = &'t str>) -> Option<[f64; N]> {
    let mut numbers = [0.0; N];
    for number in &mut numbers {
        *number = words.next()?.parse::<u64>().ok()? as f64;
    }
    Some(numbers)
}

/// The value of `key value` or `key: value unit` in a file of such lines.
pub fn value(text: &str, key: &str) -> Option<f64> {
    text.lines()
        .find_map(|line| numbers::<1>(&mut after(line, key)?.split_ascii_whitespace()))
        .map(|[n]| n)
}

/// Whether every line is `key value` or `key: value unit`.
pub fn is_table(text: &str) -> bool {
    text.lines().all(|line| numbers::<1>(&mut line.split_ascii_whitespace().skip(1)).is_some())
}

fn after<'t>(line: &'t str, key: &str) -> Option<&'t str> {
    line.strip_prefix(key)?.strip_prefix([' ', ':'])
}
