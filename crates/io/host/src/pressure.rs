//! Pressure stall information (PSI).

use crate::files::{is_gone, text};
use crate::reading::{Readings, labels};
use std::path::Path;

/// Resources with pressure information. Older kernels lack `irq`.
const RESOURCES: [&str; 4] = ["cpu", "memory", "io", "irq"];

/// Reads the kernel's `pressure` folder.
pub fn read(proc: &Path, out: &mut Readings) {
    let folder = proc.join("pressure");
    if let Err(error) = folder.metadata() {
        return out.failed(&folder, &error);
    }
    for resource in RESOURCES {
        let path = folder.join(resource);
        match text(&path) {
            Ok(text) if lines(resource, &text, out).is_none() => out.malformed(&path),
            Ok(_) => {}
            Err(error) if resource == "irq" && is_gone(&error) => {}
            Err(error) => out.failed(&path, &error),
        }
    }
}

/// Reads the lines `some` (at least one thread stalled) and `full` (all threads stalled). Older
/// kernels lack `full` for CPUs.
fn lines(resource: &str, text: &str, out: &mut Readings) -> Option<()> {
    for line in text.lines() {
        let (kind, rest) = line.split_once(' ')?;
        let kind = ["some", "full"].into_iter().find(|known| *known == kind)?;
        let total = rest.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?;
        let micros = total.parse::<u64>().ok()? as f64;
        let labels = labels([("kind", kind), ("resource", resource)]);
        out.counter("host_pressure_seconds_total", &labels, micros / 1e6);
    }
    (!text.is_empty()).then_some(())
}
