//! Disk I/O.

use crate::files::numbers;
use crate::filter::Filter;
use crate::reading::{Readings, labels};
use std::path::Path;

/// Bytes per sector in `diskstats`, which does not depend on the disk's sector size.
const SECTOR_BYTES: f64 = 512.0;

/// The disks to collect.
#[derive(Clone, Debug)]
pub struct Disks {
    /// The device names, such as `sda`.
    pub names: Filter,
    /// Whether to collect partitions in addition to whole disks.
    pub partitions: bool,
}

/// Reads the kernel's `diskstats` file.
pub fn read(proc: &Path, sys: &Path, disks: &Disks, out: &mut Readings) {
    let path = proc.join("diskstats");
    let Some(text) = out.read(&path) else { return };
    let block = sys.join("class/block");
    let wants_parts = disks.partitions;
    if !wants_parts && let Err(error) = block.metadata() {
        out.failed(&block, &error);
    }
    let mut is_valid = true;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace().skip(2);
        let Some(name) = words.next() else {
            is_valid = false;
            continue;
        };
        if disks.names.allows(name) && (wants_parts || !block.join(name).join("partition").exists())
        {
            is_valid &= disk(name, &mut words, out).is_some();
        }
    }
    if !is_valid {
        out.malformed(&path);
    }
}

fn disk<'t>(
    name: &str,
    words: &mut impl Iterator<Item = &'t str>,
    out: &mut Readings,
) -> Option<()> {
    let [
        reads,
        _,
        sectors_read,
        read_ms,
        writes,
        _,
        sectors_written,
        write_ms,
        now,
        busy_ms,
        weighted_ms,
    ] = numbers::<11>(words)?;
    let labels = labels([("device", name)]);
    for (name, value) in [
        ("host_disk_reads_completed_total", reads),
        ("host_disk_read_bytes_total", sectors_read * SECTOR_BYTES),
        ("host_disk_read_time_seconds_total", read_ms / 1000.0),
        ("host_disk_writes_completed_total", writes),
        ("host_disk_written_bytes_total", sectors_written * SECTOR_BYTES),
        ("host_disk_write_time_seconds_total", write_ms / 1000.0),
        ("host_disk_io_time_seconds_total", busy_ms / 1000.0),
        ("host_disk_io_time_weighted_seconds_total", weighted_ms / 1000.0),
    ] {
        out.counter(name, &labels, value);
    }
    out.gauge("host_disk_io_now", &labels, now);
    Some(())
}
