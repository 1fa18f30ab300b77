//! Numbered lines of a web server's access log, in the combined format.

use crate::util::formats::{civil, push_decimal};

/// Smallest average line length in bytes. The fixed parts of a line need this many.
pub const LINE_BYTES_MIN: usize = 120;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const METHODS: [&str; 8] = ["GET", "GET", "GET", "GET", "GET", "POST", "PUT", "HEAD"];
const STATUSES: [&str; 16] = [
    "200", "200", "200", "200", "200", "200", "200", "200", "200", "200", "304", "302", "404",
    "404", "500", "503",
];
const PATHS: [&str; 8] = [
    "/",
    "/index.html",
    "/api/v1/orders",
    "/api/v1/users",
    "/static/app.js",
    "/img/logo.png",
    "/search",
    "/cart",
];
const AGENTS: [&str; 4] =
    ["Mozilla/5.0 (X11; Linux)", "curl/8.5.0", "okhttp/4.12", "Mozilla/5.0 (iPhone)"];

/// Generates the log lines. The seed and the line number determine everything except the time.
pub struct WebLog {
    seed: u64,
    size: usize,
    /// The last rendered time in seconds, with its text.
    time: (i64, String),
}

impl WebLog {
    /// Creates a generator for lines that average `size` bytes, including the line ending.
    pub fn new(seed: u64, size: usize) -> WebLog {
        WebLog { seed, size, time: (i64::MIN, String::new()) }
    }

    /// Appends line `number` with its line ending. The request contains the number as the `seq`
    /// parameter.
    pub fn line(&mut self, number: u64, unix_seconds: i64, out: &mut Vec<u8>) {
        let begin = out.len();
        let random = mix(self.seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let pick = |shift: u32, n: usize| (random >> shift) as usize % n;
        // Documentation address ranges (RFC 5737).
        out.extend_from_slice(b"203.0.113.");
        push_decimal(out, random & 0xFF);
        out.extend_from_slice(b" - - [");
        out.extend_from_slice(self.time(unix_seconds).as_bytes());
        out.extend_from_slice(b"] \"");
        out.extend_from_slice(METHODS[pick(8, METHODS.len())].as_bytes());
        out.push(b' ');
        out.extend_from_slice(PATHS[pick(12, PATHS.len())].as_bytes());
        out.extend_from_slice(b"?seq=");
        push_decimal(out, number);
        out.extend_from_slice(b" HTTP/1.1\" ");
        out.extend_from_slice(STATUSES[pick(16, STATUSES.len())].as_bytes());
        out.push(b' ');
        push_decimal(out, (random >> 24) & 0xFFFF);
        out.extend_from_slice(b" \"-\" \"");
        out.extend_from_slice(AGENTS[pick(40, AGENTS.len())].as_bytes());
        self.pad(out, begin, random);
        out.extend_from_slice(b"\"\n");
    }

    /// Pads the user agent so that the line length differs from the average by at most a quarter.
    fn pad(&self, out: &mut Vec<u8>, begin: usize, mut random: u64) {
        let spread = self.size / 2;
        let target = self.size - spread / 2 + (random >> 44) as usize % (spread + 1);
        let end = begin + target.saturating_sub(2);
        if out.len() < end {
            out.push(b' ');
        }
        while out.len() < end {
            random = mix(random);
            out.push(b"abcdefghijklmnopqrstuvwxyz012345"[random as usize % 32]);
        }
    }

    fn time(&mut self, seconds: i64) -> &str {
        if self.time.0 != seconds {
            let (year, month, day) = civil(seconds.div_euclid(86_400));
            let of_day = seconds.rem_euclid(86_400);
            let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
            let month = MONTHS[month as usize - 1];
            self.time = (
                seconds,
                format!("{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000"),
            );
        }
        &self.time.1
    }
}

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(seed: u64, size: usize) -> Vec<u8> {
        let (mut log, mut out) = (WebLog::new(seed, size), Vec::new());
        (0..10_000).for_each(|number| log.line(number, 1_795_292_986, &mut out));
        out
    }

    #[test]
    fn lines_are_numbered_sized_and_repeatable() {
        for size in [LINE_BYTES_MIN, 178, 512, 4096] {
            let out = lines(7, size);
            let average = out.len() / 10_000;
            assert!(average.abs_diff(size) <= size / 16 + 8, "{average} for {size}");
            let text = String::from_utf8(out).unwrap();
            assert!(
                text.lines().enumerate().all(|(i, line)| line.contains(&format!("?seq={i} HTTP")))
            );
        }
        assert_eq!(lines(7, 178), lines(7, 178));
        assert_ne!(lines(7, 178), lines(8, 178));
        assert!(lines(7, 178).starts_with(b"203.0.113."));
        assert!(String::from_utf8(lines(7, 178)).unwrap().contains("[21/Nov/2026:20:29:46 +0000]"));
    }
}
