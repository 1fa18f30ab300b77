//! Measures the progress of a running program by the lines in its output or a number that it
//! publishes.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Timeout for a request. A program that is busy or shows a hundred thousand series responds
/// slowly.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Place where a program shows its progress.
pub enum Delivered {
    /// Lines of the output file. Lines that were counted are not read again.
    Output {
        /// Path of the output file.
        path: PathBuf,
        /// The output file, opened as soon as it exists.
        file: Option<File>,
        /// Number of lines so far.
        lines: u64,
    },
    /// A number in a file: its path, and the pattern of the line.
    File(PathBuf, String),
    /// A number on a page: the address with a path, and the pattern of the line.
    Page(String, String),
}

impl Delivered {
    /// Parses the key `until` of a scenario: `output`, or a file or an `http` address followed by a
    /// pattern.
    pub fn of(until: &str, output: PathBuf) -> io::Result<Self> {
        let Some((place, pattern)) = until.split_once(' ') else {
            return match until {
                "output" => Ok(Delivered::Output { path: output, file: None, lines: 0 }),
                _ => Err(io::Error::other(format!(
                    "`until: {until}`: `output`, or a place and a pattern"
                ))),
            };
        };
        Ok(match place.strip_prefix("http://") {
            Some(address) => Delivered::Page(address.to_owned(), pattern.to_owned()),
            None => Delivered::File(place.into(), pattern.to_owned()),
        })
    }

    /// Returns the minimum interval between polls. A request for a page costs the measured program
    /// CPU time.
    pub fn interval(&self) -> Duration {
        Duration::from_millis(if matches!(self, Delivered::Page(..)) { 200 } else { 20 })
    }

    /// Returns the number of lines so far, which is 0 until the program shows any progress.
    pub fn lines(&mut self) -> io::Result<u64> {
        match self {
            Delivered::Output { path, file, lines } => {
                *file = file.take().or_else(|| File::open(path).ok());
                *lines += file.as_mut().map_or(Ok(0), count_lines)?;
                Ok(*lines)
            }
            Delivered::File(path, pattern) => {
                Ok(last_number(&fs::read_to_string(path).unwrap_or_default(), pattern))
            }
            Delivered::Page(address, pattern) => {
                Ok(last_number(&page(address).unwrap_or_default(), pattern))
            }
        }
    }
}

/// Counts the lines of the file at `path`.
pub fn lines_of(path: &Path) -> io::Result<u64> {
    count_lines(&mut File::open(path)?)
}

/// Counts the newlines from the position of `file` to its end.
fn count_lines(file: &mut File) -> io::Result<u64> {
    let (mut block, mut lines) = (vec![0; 256 << 10], 0);
    loop {
        match file.read(&mut block)? {
            0 => return Ok(lines),
            len => lines += millstream_scan::count_newlines(&block[..len]) as u64,
        }
    }
}

fn page(address: &str) -> io::Result<String> {
    let (host, path) = address.split_once('/').unwrap_or((address, ""));
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Returns the sum of the numbers in all lines that match a pattern, and the number of these lines.
/// `counted` has the syntax of `until` in [`Delivered::of`].
pub fn sum(counted: &str, output: &Path) -> io::Result<(u64, u64)> {
    let (place, pattern) = counted.split_once(' ').unwrap_or((counted, ""));
    let text = match (place, place.strip_prefix("http://")) {
        (_, Some(address)) => page(address)?,
        ("output", _) => fs::read_to_string(output)?,
        _ => fs::read_to_string(place)?,
    };
    let numbers = text.lines().filter_map(|line| number_in(line, pattern));
    Ok(numbers.fold((0, 0), |(sum, lines), number| (sum + number, lines + 1)))
}

/// Returns the number in the last line that matches `pattern`, or 0 without a match. In the
/// pattern, `*` matches any text and `#` the number.
pub fn last_number(text: &str, pattern: &str) -> u64 {
    text.lines().rev().find_map(|line| number_in(line, pattern)).unwrap_or(0)
}

fn number_in(line: &str, pattern: &str) -> Option<u64> {
    let rest = pattern.trim_end_matches('#').split('*').try_fold(line, |rest, piece| {
        let at = rest.find(piece)?;
        Some(&rest[at + piece.len()..])
    })?;
    let end = rest.find(|c: char| !(c.is_ascii_digit() || ".e+".contains(c))).unwrap_or(rest.len());
    rest[..end].parse::<f64>().ok().map(|number| number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_counts() {
        let log =
            "sink out: 5 events/s, total 5 events\nsink out: 1 events/s, total 77 events\nbye";
        assert_eq!(last_number(log, "total #"), 77);
        assert_eq!(last_number("nothing", "total #"), 0);
        assert_eq!(last_number("{ \"lines\": 1500 } }", "\"lines\": #"), 1500);
        assert_eq!(last_number("a_total{version=\"0.1\"} 1.5e+06\nb 2", "a_total*} #"), 1_500_000);
    }
}
