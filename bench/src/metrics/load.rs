//! Datagrams of DogStatsD lines, created before they are sent. All lines have the same length, and
//! so do all datagrams. A counter is always 1, so that the sum of the emitted counters is the
//! number of received counters.

use fastrand::Rng;

/// Minimum number of prepared datagrams, so that successive datagrams differ.
const DATAGRAMS_MIN: usize = 4096;

/// The contents of the datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub struct Content {
    /// Number of series; each is sent once before any is repeated
    #[arg(long, default_value_t = 1000)]
    pub series: usize,
    /// Number of lines per datagram
    #[arg(long, default_value_t = 10)]
    pub lines: usize,
    /// Fill datagrams with whole lines up to this many bytes, instead of a number of lines
    #[arg(long, default_value_t = 0)]
    pub fill_bytes: usize,
    /// Make a gauge of every second series
    #[arg(long)]
    pub gauges: bool,
    /// Sort the tags of a line by their keys
    #[arg(long)]
    pub sorted: bool,
}

/// Datagrams, contiguous in memory.
pub struct Datagrams {
    bytes: Vec<u8>,
    /// Counters per datagram.
    counters: Vec<u32>,
    /// Bytes per datagram.
    pub len: usize,
    /// Lines per datagram.
    pub lines: usize,
}

impl Content {
    /// Returns the number of lines per datagram.
    pub fn lines(self) -> usize {
        match self.fill_bytes {
            0 => self.lines,
            bytes => ((bytes + 1) / (self.line(0).len() + 1)).max(1),
        }
    }

    /// Returns the size of a series' name and tags in bytes.
    pub fn context_bytes() -> usize {
        let content = Content { series: 1, lines: 1, fill_bytes: 0, gauges: false, sorted: false };
        content.line(0).len() - ":1|c|#".len()
    }

    fn is_gauge(self, series: usize) -> bool {
        self.gauges && series % 2 == 1
    }

    /// Returns a line of one series: five tags with 6-byte keys and 12-byte values.
    fn line(self, series: usize) -> Vec<u8> {
        let mut tags = [
            format!("region:eu-central-{:02}", series % 3),
            format!("status:answered-{:03}", series % 7),
            format!("method:post-as-{:04}", series % 11),
            format!("hostid:web-{series:08}"),
            format!("branch:release-{:04}", series % 5),
        ];
        if self.sorted {
            tags.sort();
        }
        let kind = if self.is_gauge(series) { 'g' } else { 'c' };
        format!("bench.requests.{:03}:1|{kind}|#{}", series % 50, tags.join(",")).into_bytes()
    }

    /// Creates all datagrams of the load, which are sent repeatedly.
    pub fn datagrams(self) -> Datagrams {
        let lines = self.lines();
        let number = self.series.div_ceil(lines).max(DATAGRAMS_MIN);
        let mut order = Order::new(self.series);
        let mut made =
            Datagrams { bytes: Vec::new(), counters: Vec::with_capacity(number), len: 0, lines };
        for _ in 0..number {
            let start = made.bytes.len();
            let mut counters = 0;
            for at in 0..lines {
                let series = order.next();
                counters += u32::from(!self.is_gauge(series));
                made.bytes.extend_from_slice(&self.line(series));
                made.bytes.extend((at + 1 < lines).then_some(b'\n'));
            }
            made.counters.push(counters);
            made.len = made.bytes.len() - start;
        }
        made
    }
}

impl Datagrams {
    /// Returns the number of datagrams.
    pub fn number(&self) -> usize {
        self.counters.len()
    }

    /// Returns the bytes of `count` consecutive datagrams, starting with the datagram at `at`.
    pub fn bytes(&self, at: usize, count: usize) -> &[u8] {
        &self.bytes[at * self.len..(at + count) * self.len]
    }

    /// Returns the number of counters in the datagram at `at`.
    pub fn counters(&self, at: usize) -> u64 {
        u64::from(self.counters[at])
    }
}

/// A random order of the series, in which each occurs once before any is repeated.
struct Order {
    series: Vec<usize>,
    at: usize,
}

impl Order {
    fn new(series: usize) -> Self {
        let mut random = Rng::with_seed(series as u64);
        let mut series: Vec<usize> = (0..series.max(1)).collect();
        for at in (1..series.len()).rev() {
            series.swap(at, random.u64(..at as u64 + 1) as usize);
        }
        Order { series, at: 0 }
    }

    fn next(&mut self) -> usize {
        let series = self.series[self.at];
        self.at = (self.at + 1) % self.series.len();
        series
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn content(series: usize, gauges: bool) -> Content {
        Content { series, lines: 10, fill_bytes: 0, gauges, sorted: false }
    }

    #[test]
    fn every_series_comes_and_every_line_is_as_long() {
        let made = content(50_000, true).datagrams();
        let all: Vec<&[u8]> = (0..made.number())
            .flat_map(|at| made.bytes(at, 1).split(|byte| *byte == b'\n'))
            .collect();
        assert_eq!(all.len(), made.number() * 10);
        assert!(all.iter().all(|line| line.len() == all[0].len()));
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 50_000);
        let counters =
            all.iter().filter(|line| line.windows(4).any(|part| part == b"1|c|")).count();
        assert_eq!((0..made.number()).map(|at| made.counters(at)).sum::<u64>(), counters as u64);
    }

    #[test]
    fn a_datagram_is_filled_with_whole_lines() {
        let content = Content { fill_bytes: 8192, ..content(1000, false) };
        let made = content.datagrams();
        assert!((8000..=8192).contains(&made.len), "{}", made.len);
        assert_eq!(made.bytes(3, 1).split(|byte| *byte == b'\n').count(), made.lines);
    }
}
