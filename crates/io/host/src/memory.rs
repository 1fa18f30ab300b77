//! Memory and swap.

use crate::files;
use crate::reading::{Readings, labels};
use std::path::Path;

/// Keys in `meminfo`, with the metric name.
const STATES: [(&str, &str); 18] = [
    ("MemTotal", "host_memory_total_bytes"),
    ("MemFree", "host_memory_free_bytes"),
    ("MemAvailable", "host_memory_available_bytes"),
    ("Buffers", "host_memory_buffers_bytes"),
    ("Cached", "host_memory_cached_bytes"),
    ("Active", "host_memory_active_bytes"),
    ("Inactive", "host_memory_inactive_bytes"),
    ("AnonPages", "host_memory_anonymous_bytes"),
    ("Shmem", "host_memory_shared_bytes"),
    ("Slab", "host_memory_slab_bytes"),
    ("SReclaimable", "host_memory_slab_reclaimable_bytes"),
    ("PageTables", "host_memory_page_tables_bytes"),
    ("Dirty", "host_memory_dirty_bytes"),
    ("Writeback", "host_memory_writeback_bytes"),
    ("Committed_AS", "host_memory_committed_bytes"),
    ("CommitLimit", "host_memory_commit_limit_bytes"),
    ("SwapTotal", "host_memory_swap_total_bytes"),
    ("SwapFree", "host_memory_swap_free_bytes"),
];

/// Keys in `vmstat`, with the metric name, and whether the value is a number of pages, which is
/// converted to bytes.
const COUNTERS: [(&str, &str, bool); 5] = [
    ("pswpin", "host_memory_swapped_in_bytes_total", true),
    ("pswpout", "host_memory_swapped_out_bytes_total", true),
    ("pgfault", "host_memory_page_faults_total", false),
    ("pgmajfault", "host_memory_major_page_faults_total", false),
    ("oom_kill", "host_memory_oom_kills_total", false),
];

/// Reads `meminfo` and `vmstat`. Omits metrics for which the files have no line.
pub fn read(proc: &Path, out: &mut Readings) {
    let none = labels([]);
    let path = proc.join("meminfo");
    if let Some(text) = out.read(&path) {
        let bytes = |key| files::value(&text, key).map(|kib| kib * 1024.0);
        let found = STATES.iter().filter_map(|(key, name)| Some((name, bytes(key)?)));
        found.for_each(|(name, value)| out.gauge(name, &none, value));
        let available = || {
            bytes("MemAvailable")
                .or_else(|| Some(bytes("MemFree")? + bytes("Buffers")? + bytes("Cached")?))
        };
        let used = bytes("MemTotal")
            .zip(available())
            .map(|(total, available)| (total - available).max(0.0));
        used.iter().for_each(|used| out.gauge("host_memory_used_bytes", &none, *used));
        if let (Some(total), Some(free)) = (bytes("SwapTotal"), bytes("SwapFree")) {
            out.gauge("host_memory_swap_used_bytes", &none, (total - free).max(0.0));
        }
        if used.is_none() || !files::is_table(&text) {
            out.malformed(&path);
        }
    }
    let path = proc.join("vmstat");
    let Some(text) = out.read(&path) else { return };
    for (key, name, is_pages) in COUNTERS {
        let factor = if is_pages { rustix::param::page_size() as f64 } else { 1.0 };
        if let Some(count) = files::value(&text, key) {
            out.counter(name, &none, count * factor);
        }
    }
    if text.is_empty() || !files::is_table(&text) {
        out.malformed(&path);
    }
}
