//! Input of the loads: log text as programs write it, from a fixed seed.

use fastrand::Rng;
use std::fmt::Write;

/// Size of a block in bytes, as the file source reads it.
pub const BLOCK_BYTES: usize = 256 << 10;

const METHODS: &[&str] = &["GET", "GET", "GET", "GET", "GET", "POST", "PUT", "HEAD"];
const STATUSES: &[u16] = &[200, 200, 200, 200, 200, 200, 304, 301, 404, 500];
const PATHS: &[&str] = &[
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

/// Writes one line without its newline, from random numbers and the line's number.
pub type WriteLine = fn(&mut String, &mut Rng, usize);

/// Returns as many whole lines as fit into `bytes_max` bytes.
pub fn lines(bytes_max: usize, write: WriteLine) -> Vec<u8> {
    let mut text = String::with_capacity(bytes_max);
    let mut random = Rng::with_seed(4);
    let mut line = String::new();
    for number in 0.. {
        line.clear();
        write(&mut line, &mut random, number);
        if text.len() + line.len() + 1 > bytes_max {
            break;
        }
        text.push_str(&line);
        text.push('\n');
    }
    text.into_bytes()
}

/// Writes an access line in the combined format with the request time.
pub fn access(line: &mut String, random: &mut Rng, number: usize) {
    let [a, b, c, d] = random.u32(..).to_le_bytes();
    let time = time_of_day(number);
    let _ = write!(
        line,
        "{a}.{b}.{c}.{d} - - [14/Nov/2025:{time} +0000] \"{} {}/{} HTTP/1.1\" {} {} \"{}\" \"{}\" {}.{:03}",
        pick(random, METHODS),
        pick(random, PATHS),
        random.u32(..100_000),
        pick(random, STATUSES),
        random.u32(..9_000),
        pick(random, REFERERS),
        pick(random, AGENTS),
        random.u32(..50) / 48,
        random.u32(..1000),
    );
}

/// Writes a service's log line as JSON: strings, one in ten with an escape, numbers, and a nested
/// object.
pub fn json(line: &mut String, random: &mut Rng, number: usize) {
    let quoted = if random.u32(..10) == 0 { "say \\\"hi\\\"" } else { "done" };
    let _ = write!(
        line,
        "{{\"time\":\"2025-11-14T{}Z\",\"level\":\"{}\",\"logger\":\"com.example.shop.Orders\",\
         \"message\":\"order {} {quoted}\",\"user\":{},\"took\":{}.{:03},\"ok\":{},\
         \"request\":{{\"method\":\"{}\",\"path\":\"{}\",\"status\":{}}}}}",
        time_of_day(number),
        pick(random, &["INFO", "INFO", "INFO", "WARN", "ERROR"]),
        random.u32(..1_000_000),
        random.u32(..50_000),
        random.u32(..2),
        random.u32(..1000),
        random.bool(),
        pick(random, METHODS),
        pick(random, PATHS),
        pick(random, STATUSES),
    );
}

/// Number of fields in a line of [`delimited`] and of [`key_value`].
pub const FIELDS: usize = 10;

/// Writes ten values of 4 to 19 digits, separated by commas.
pub fn delimited(line: &mut String, random: &mut Rng, _: usize) {
    for field in 0..FIELDS {
        let comma = if field > 0 { "," } else { "" };
        let _ = write!(line, "{comma}{}", digits(random));
    }
}

/// Writes the values of [`delimited`], each after its key.
pub fn key_value(line: &mut String, random: &mut Rng, _: usize) {
    for field in 0..FIELDS {
        let blank = if field > 0 { " " } else { "" };
        let _ = write!(line, "{blank}key{field}={}", digits(random));
    }
}

/// Writes a firewall event in CEF after a syslog header: twelve pairs, with an escape in one of ten
/// lines.
pub fn cef(line: &mut String, random: &mut Rng, number: usize) {
    let [a, b, c, d] = random.u32(..).to_le_bytes();
    let query = if random.u32(..10) == 0 { "?page\\=2" } else { "" };
    let _ = write!(
        line,
        "Nov 14 {} fw-1 CEF:0|Acme|Wall|7.1.2|{}|Connection closed|{}|src={a}.{b}.{c}.{d} spt={} \
         dst=10.0.0.{} dpt=443 proto=TCP act={} in={} out={} cs1Label=Rule cs1=web to app \
         request={}{query} msg=closed by the client after {} ms",
        time_of_day(number),
        random.u32(100..120),
        random.u32(..11),
        random.u32(1024..65_536),
        random.u32(1..255),
        pick(random, &["allowed", "allowed", "allowed", "blocked"]),
        random.u32(..100_000),
        random.u32(..1_000_000),
        pick(random, PATHS).split('?').next().unwrap_or_default(),
        random.u32(..30_000),
    );
}

/// Writes an application's log line with a time; every tenth line continues with a stack trace.
pub fn traced(line: &mut String, random: &mut Rng, number: usize) {
    let _ = write!(line, "2025-11-14 {} INFO [main] c.e.Web - ", time_of_day(number));
    access(line, random, number);
    if number.is_multiple_of(10) {
        line.push_str("\njava.lang.IllegalStateException: no such order");
        for frame in 0..12 {
            let at = random.u32(1..900);
            let _ = write!(line, "\n\tat com.example.shop.Store.get{frame}(Store.java:{at})");
        }
        line.push_str("\nCaused by: java.io.IOException: closed\n\t... 12 more");
    }
}

/// Returns a random element of `choices`.
pub fn pick<T: Copy>(random: &mut Rng, choices: &[T]) -> T {
    choices[random.usize(..choices.len())]
}

fn digits(random: &mut Rng) -> String {
    let digits = format!("{:020}", random.u64(..));
    digits[20 - random.usize(4..20)..].to_owned()
}

/// Returns the time of a line; twenty successive lines share a second.
fn time_of_day(number: usize) -> String {
    let second = number / 20;
    format!("{:02}:{:02}:{:02}", second / 3600 % 24, second / 60 % 60, second % 60)
}
