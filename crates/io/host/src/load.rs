//! Load averages.

use crate::reading::{Readings, labels};
use std::path::Path;

const NAMES: [&str; 3] = ["host_load1", "host_load5", "host_load15"];

/// Reads the kernel's `loadavg` file.
pub fn read(proc: &Path, out: &mut Readings) {
    let path = proc.join("loadavg");
    let Some(text) = out.read(&path) else { return };
    let mut words = text.split_ascii_whitespace().map(|word| word.parse::<f64>());
    for name in NAMES {
        match words.next() {
            Some(Ok(load)) if load.is_finite() => out.gauge(name, &labels([]), load),
            _ => return out.malformed(&path),
        }
    }
}
