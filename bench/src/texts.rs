//! Log text as programs write it, derived from the lines of the web log: with stack traces, in
//! Chinese, in container formats.

use crate::weblog::WebLog;
use std::fmt::Write;

/// Returns access lines.
pub fn weblog(bytes: usize) -> Vec<u8> {
    weblog_of(4, bytes)
}

/// Returns the access lines of a seed, which must not be 0.
pub fn weblog_of(seed: u64, bytes: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 1024);
    WebLog::new(seed).write(bytes, &mut text).expect("to memory");
    text
}

/// Returns about `bytes` of text that `entry` writes, given an access line and its number.
fn written(bytes: usize, entry: impl Fn(&mut String, usize, &str)) -> String {
    let source = weblog(bytes);
    let mut text = String::with_capacity(bytes + 4096);
    for (number, line) in source.split(|byte| *byte == b'\n').enumerate() {
        if text.len() >= bytes {
            break;
        }
        entry(&mut text, number, std::str::from_utf8(line).expect("ASCII"));
    }
    text
}

/// Returns a time of day; several events share a second.
fn time_of_day(number: usize) -> String {
    let (second, milli) = (number / 50, number % 50 * 20);
    format!("{:02}:{:02}:{:02}.{milli:03}", second / 3600 % 24, second / 60 % 60, second % 60)
}

/// Returns lines of an application, each with a time. One in `one_in` has a stack trace of `frames`
/// frames and three more lines.
pub fn traces(bytes: usize, one_in: usize, frames: usize) -> Vec<u8> {
    let entry = |text: &mut String, number: usize, line: &str| {
        let _ = writeln!(text, "2026-11-21 {} INFO [main] c.e.Web - {line}", time_of_day(number));
        if number.is_multiple_of(one_in) {
            text.push_str("java.lang.IllegalStateException: no such order\n");
            for frame in 0..frames {
                let _ = writeln!(
                    text,
                    "\tat com.example.shop.OrderStore.get{frame}(OrderStore.java:{number})"
                );
            }
            text.push_str("Caused by: java.io.IOException: closed\n");
            let _ = writeln!(text, "\t... {frames} more");
        }
    };
    written(bytes, entry).into_bytes()
}

fn chinese(text: &mut String, number: usize, line: &str) {
    let _ = writeln!(
        text,
        "2026-11-21 {} 信息 订单服务：用户 {number} 提交的订单已经写入数据库，等待支付 {}",
        time_of_day(number),
        &line[..line.len() / 2]
    );
}

/// Returns Chinese lines in GBK; almost a third of the bytes are Chinese characters.
pub fn gbk(bytes: usize) -> Vec<u8> {
    encoding_rs::GBK.encode(&written(bytes, chinese)).0.into_owned()
}

/// Returns the lines of [`gbk`] in UTF-16, little endian, without a byte order mark.
pub fn utf16(bytes: usize) -> Vec<u8> {
    written(bytes / 2, chinese).encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Returns lines in the format of containerd. One line in ten is partial, and the next line
/// completes it.
pub fn cri(bytes: usize) -> Vec<u8> {
    let entry = |text: &mut String, number: usize, line: &str| {
        let tag = if number % 10 == 3 { 'P' } else { 'F' };
        let _ = writeln!(text, "2026-11-21T{}456789Z stdout {tag} {line}", time_of_day(number));
    };
    written(bytes, entry).into_bytes()
}

/// Returns lines in the format of Docker.
pub fn docker(bytes: usize) -> Vec<u8> {
    let entry = |text: &mut String, number: usize, line: &str| {
        let log = line.replace('"', "\\\"");
        let time = time_of_day(number);
        let _ = writeln!(
            text,
            "{{\"log\":\"{log}\\n\",\"stream\":\"stdout\",\"time\":\"2026-11-21T{time}456789Z\"}}"
        );
    };
    written(bytes, entry).into_bytes()
}
