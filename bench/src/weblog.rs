//! A seeded web log: access lines in the combined format with the request time, 184 bytes on
//! average.

use std::io::{self, Write};

const METHODS: &[&str] = &["GET", "GET", "GET", "GET", "GET", "POST", "PUT", "HEAD"];
const STATUSES: &[u16] = &[200, 200, 200, 200, 200, 200, 304, 301, 404, 500];
/// Paths of the requests; a number follows each path.
pub const PATHS: &[&str] = &[
    "/home",
    "/login",
    "/api/v1/orders",
    "/api/v1/items",
    "/static/js/app.min.js",
    "/static/css/site.css",
    "/images/banner.png",
    "/search?q=rust+logs&page=2",
];
const REFERERS: &[&str] = &[
    "-",
    "-",
    "https://www.example.com/",
    "https://shop.example.org/cart",
    "https://example.net/?q=logs",
];
const AGENTS: &[&str] = &[
    "curl/8.5.0",
    "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1 Safari/605.1",
    "Mozilla/5.0 (compatible; ExampleBot/2.1; +https://example.com)",
];

/// Writes access lines; the same seed gives the same lines.
pub struct WebLog {
    random: fastrand::Rng,
    second: u64,
}

impl WebLog {
    /// Creates the log of a seed.
    pub fn new(seed: u64) -> Self {
        WebLog { random: fastrand::Rng::with_seed(seed), second: 0 }
    }

    /// Writes whole lines until at least `bytes_min` bytes are written; returns bytes and lines.
    pub fn write(&mut self, bytes_min: usize, out: &mut impl Write) -> io::Result<(usize, usize)> {
        let (mut bytes, mut lines) = (0, 0);
        let mut line = Vec::with_capacity(512);
        while bytes < bytes_min {
            line.clear();
            self.line(&mut line)?;
            out.write_all(&line)?;
            bytes += line.len();
            lines += 1;
        }
        Ok((bytes, lines))
    }

    fn line(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let [a, b, c, d] = self.random.u32(..).to_le_bytes();
        self.second += u64::from(self.below(20) == 0);
        let (hour, minute, second) =
            (self.second / 3600 % 24, self.second / 60 % 60, self.second % 60);
        writeln!(
            out,
            "{a}.{b}.{c}.{d} - - [14/Nov/2025:{hour:02}:{minute:02}:{second:02} +0000] \"{} {}/{} HTTP/1.1\" {} {} \"{}\" \"{}\" {}.{:03}",
            self.pick(METHODS),
            self.pick(PATHS),
            self.below(100_000),
            self.pick(STATUSES),
            self.below(9_000),
            self.pick(REFERERS),
            self.pick(AGENTS),
            self.below(50) / 48,
            self.below(1000),
        )
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.u64(..bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_mean_they_promise_and_a_seed_repeats() {
        let (mut one, mut two) = (Vec::new(), Vec::new());
        let (bytes, lines) = WebLog::new(1).write(1 << 20, &mut one).expect("to memory");
        WebLog::new(1).write(1 << 20, &mut two).expect("to memory");
        assert_eq!(one, two);
        assert_eq!((bytes, lines), (one.len(), millstream_scan::count_newlines(&one)));
        assert_eq!(bytes / lines, 184, "bytes a line");
    }
}
