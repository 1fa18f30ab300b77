//! Measures the segments of disk buffers, compared with plain writes, syncs and reads of the same
//! bytes.

use crate::measure::{Samples, progress, thread_cpu_seconds};
use crate::report::{Report, Table};
use crate::scratch::Scratch;
use bytes::Bytes;
use millstream_spool::{EntryMeta, EntryNumber, Folder, NewEntry, Spool, SpoolOptions};
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes of a load, on a disk and in memory.
const DISK_BYTES: usize = 128 << 20;
const MEMORY_BYTES: usize = 512 << 20;

/// Size of a plain file in bytes, equal to the size of a segment.
const FILE_BYTES: usize = 64 << 20;

/// Bytes of a payload, and number of payloads per sync.
const LOADS: [(usize, usize); 4] = [(256 << 10, 16), (256 << 10, 1), (4 << 10, 256), (512, 512)];

/// Minimum GB per CPU second with payloads of 256 KiB: written, and read.
const TARGET_WRITTEN: f64 = 1.0;
const TARGET_READ: f64 = 1.5;

const COLUMNS: &[&str] = &[
    "payload bytes",
    "per sync",
    "write + fdatasync",
    "append + sync",
    "ratio",
    "pread",
    "next",
    "ratio ",
];

/// Payloads to write and read.
struct Load {
    payload: Bytes,
    per_sync: usize,
    count: usize,
}

impl Load {
    fn new((bytes, per_sync): (usize, usize), total: usize) -> Load {
        let payload: Vec<u8> = (0..bytes).map(|at| (at * 7) as u8).collect();
        // Bounds the number of syncs, because a sync of a disk takes longer than a small write.
        let total = (total / bytes).min(512 * per_sync);
        Load { payload: payload.into(), per_sync, count: total.next_multiple_of(per_sync) }
    }

    fn bytes(&self) -> usize {
        self.count * self.payload.len()
    }
}

/// Measures the loads on the disk of the folder `disk`, and in memory.
pub fn run(
    repetitions: usize,
    disk: &Path,
    scratch: &Scratch,
    report: &mut Report,
) -> io::Result<()> {
    let begun = Instant::now();
    let seconds = move || begun.elapsed().as_secs_f64();
    let folder = disk.join(format!("millstream-bench-spool-{}", std::process::id()));
    let title = "Disk buffers on a disk: MB per second";
    let mut table = Table::new("spool_disk", title, COLUMNS);
    let measured = rows(&mut table, repetitions, 1e6, DISK_BYTES, &folder, &seconds);
    fs::remove_dir_all(&folder)?;
    measured?;
    table.note(format!(
        "The disk has the folder {}; reads are from the page cache.",
        disk.display()
    ));
    report.add(table)?;
    let title = "Disk buffers in memory: GB per CPU second";
    let mut table = Table::new("spool_memory", title, COLUMNS);
    let folder = scratch.path("spool");
    let best = rows(&mut table, repetitions, 1e9, MEMORY_BYTES, &folder, &thread_cpu_seconds)?;
    let holds =
        if best[1] >= TARGET_WRITTEN && best[3] >= TARGET_READ { "holds" } else { "MISSED" };
    table.note(format!(
        "Target for payloads of 256 KiB: {TARGET_WRITTEN} GB written and {TARGET_READ} GB read per CPU second: {holds}."
    ));
    report.add(table)
}

/// Adds a row per load; returns the speeds of the first load.
fn rows(
    table: &mut Table,
    repetitions: usize,
    unit: f64,
    total: usize,
    folder: &Path,
    seconds: &dyn Fn() -> f64,
) -> io::Result<[f64; 4]> {
    let mut first = None;
    for (index, of) in LOADS.into_iter().enumerate() {
        let load = Load::new(of, total);
        let mut speeds: [Samples; 4] = Default::default();
        for repetition in 0..repetitions {
            progress(&format!("spool: load {} of {}, {repetition}", index + 1, LOADS.len()));
            let elapsed = once(&load, folder, seconds)?;
            for (samples, elapsed) in speeds.iter_mut().zip(elapsed) {
                samples.push(load.bytes() as f64 / unit / elapsed);
            }
        }
        let medians = speeds.map(|samples| samples.median());
        first.get_or_insert(medians);
        let [plain, ours, pread, next] = medians;
        let mut cells = vec![load.payload.len().to_string(), load.per_sync.to_string()];
        let speeds = [plain, ours, ours / plain, pread, next, next / pread];
        cells.extend(speeds.map(|speed| format!("{speed:.2}")));
        table.row(cells);
    }
    Ok(first.unwrap_or_default())
}

/// Returns the seconds of plain writes, of writes to the spool, of plain reads, and of reads from
/// the spool.
fn once(load: &Load, folder: &Path, seconds: &dyn Fn() -> f64) -> io::Result<[f64; 4]> {
    let plain = folder.join("plain");
    fs::create_dir_all(&plain)?;
    let timed = |work: &mut dyn FnMut() -> io::Result<()>| {
        let begun = seconds();
        work()?;
        io::Result::Ok(seconds() - begun)
    };
    let written = timed(&mut || write_plain(load, &plain))?;
    let pread = timed(&mut || read_plain(load, &plain))?;
    fs::remove_dir_all(&plain)?;
    let disk = Folder::open(&folder.join("spool")).map_err(io::Error::other)?;
    let spool = Spool::open(Box::new(disk), SpoolOptions::default(), EntryNumber(0));
    let mut spool = spool.map_err(io::Error::other)?;
    let appended = timed(&mut || append(load, &mut spool))?;
    let next = timed(&mut || read(load, &mut spool))?;
    spool.release(spool.stats().next_number)?;
    Ok([written, appended, pread, next])
}

fn plain_file(folder: &Path, number: usize) -> PathBuf {
    folder.join(number.to_string())
}

/// Writes the same bytes in the same groups to files of the same size.
fn write_plain(load: &Load, folder: &Path) -> io::Result<()> {
    let per_file = FILE_BYTES / load.payload.len();
    let mut file = File::create(plain_file(folder, 0))?;
    for number in 0..load.count {
        if number > 0 && number % per_file == 0 {
            file.sync_data()?;
            file = File::create(plain_file(folder, number / per_file))?;
        }
        file.write_all(&load.payload)?;
        if (number + 1) % load.per_sync == 0 {
            file.sync_data()?;
        }
    }
    Ok(())
}

fn read_plain(load: &Load, folder: &Path) -> io::Result<()> {
    let bytes = load.payload.len();
    let per_file = FILE_BYTES / bytes;
    let mut buffer = vec![0; bytes];
    let mut file = File::open(plain_file(folder, 0))?;
    for number in 0..load.count {
        if number > 0 && number % per_file == 0 {
            file = File::open(plain_file(folder, number / per_file))?;
        }
        file.read_exact_at(&mut buffer, (number % per_file * bytes) as u64)?;
        black_box(&mut buffer);
    }
    Ok(())
}

fn append(load: &Load, spool: &mut Spool) -> io::Result<()> {
    let parts = [load.payload.clone()];
    let mut meta = EntryMeta {
        number: spool.stats().next_number,
        written_ms: 0,
        events: 100,
        lane: 0,
        lanes: 1,
        format: "bench/1".into(),
        ranges: Vec::new(),
        completes: true,
    };
    for number in 1..=load.count {
        spool.append(&NewEntry { meta: &meta, parts: &parts, routing: b"topic", rows: b"" })?;
        meta.number = meta.number.next();
        if number % load.per_sync == 0 {
            spool.sync()?;
        }
    }
    Ok(())
}

fn read(load: &Load, spool: &mut Spool) -> io::Result<()> {
    let mut bytes = 0;
    while let Some(entry) = spool.next()? {
        bytes += entry.payload_bytes() as usize;
        black_box(entry);
    }
    if bytes != load.bytes() {
        return Err(io::Error::other(format!("{bytes} of {} bytes are read back", load.bytes())));
    }
    Ok(())
}
