//! Measures the reader of journal files and the `journald` source, over journals that systemd
//! writes.

mod source;

use crate::Options;
use crate::measure::{Samples, cpu_seconds, progress};
use crate::report::{Report, Table};
use crate::scratch::Scratch;
use fastrand::Rng;
use millstream_journal::{JournalFile, ReaderLimits};
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Number of entries: about as many as a journal of systemd has before it is rotated, because each
/// entry has two fields that no other entry has.
const ENTRIES: u64 = 50_000;

/// Number of different services.
const UNITS: u64 = 60;

/// Minimum entries per CPU second with all fields.
const ENTRIES_PER_SECOND_MIN: f64 = 500_000.0;

/// The program that writes the journal.
const WRITER: &str = "/lib/systemd/systemd-journal-remote";

/// The match of the load that filters.
const MATCH: &[u8] = b"_SYSTEMD_UNIT=unit7.service";

const WORDS: &[&str] =
    &["connection", "opened", "failed", "for", "user", "root", "timeout", "port"];

/// Measures the reader, then the agent.
pub fn run(options: &Options, scratch: &Scratch, report: &mut Report) -> io::Result<()> {
    reader(options.repetitions, scratch, report)?;
    source::run(options, scratch, report)
}

/// Measures each load for regular and compact files.
fn reader(repetitions: usize, scratch: &Scratch, report: &mut Report) -> io::Result<()> {
    let mut table = Table::new(
        "journal",
        "Reader of journal files: thousand entries per CPU second",
        &["file", "MB", "all fields", "without fields", "one unit", "journalctl -o json"],
    );
    for (name, compact) in [("regular", "0"), ("compact", "1")] {
        progress(&format!("journal: {name}"));
        let path = scratch.path(&format!("{name}.journal"));
        write(&path, compact, 0)?;
        let rates = [all_fields, entries_only, one_unit]
            .map(|load| rate(repetitions, || cpu_seconds(|| load(&path))));
        let peer = rate(repetitions.min(3), || journalctl("--file", &path))?;
        let mut row = vec![name.to_owned(), (fs::metadata(&path)?.len() / 1_000_000).to_string()];
        for (index, rate) in rates.into_iter().chain([Ok(peer)]).enumerate() {
            let rate = rate?;
            let is_missed = index == 0 && rate < ENTRIES_PER_SECOND_MIN;
            row.push(format!("{:.0}{}", rate / 1e3, if is_missed { " MISSED" } else { "" }));
        }
        table.row(row);
        fs::remove_file(path)?;
    }
    table.note(format!(
        "{ENTRIES} entries with 20 fields, which systemd-journal-remote writes. Target: {:.0} thousand \
         entries per second with all fields.",
        ENTRIES_PER_SECOND_MIN / 1e3
    ));
    report.add(table)
}

/// Returns the entries per CPU second of a load, the median.
fn rate(repetitions: usize, mut seconds: impl FnMut() -> io::Result<f64>) -> io::Result<f64> {
    let mut samples = Samples::default();
    for _ in 0..repetitions {
        samples.push(ENTRIES as f64 / seconds()?);
    }
    Ok(samples.median())
}

fn all_fields(path: &Path) -> io::Result<()> {
    let mut journal = open(path)?;
    let mut entries = 0;
    while journal.next_entry().map_err(io::Error::other)?.is_some() {
        for field in journal.fields().map_err(io::Error::other)? {
            black_box(field.map_err(io::Error::other)?);
        }
        entries += 1;
    }
    check(entries, ENTRIES)
}

fn entries_only(path: &Path) -> io::Result<()> {
    let mut journal = open(path)?;
    let mut entries = 0;
    while let Some(entry) = journal.next_entry().map_err(io::Error::other)? {
        black_box(entry);
        entries += 1;
    }
    check(entries, ENTRIES)
}

fn one_unit(path: &Path) -> io::Result<()> {
    let mut journal = open(path)?;
    let unit = journal.find_field(MATCH).map_err(io::Error::other)?;
    let unit = unit.ok_or_else(|| io::Error::other("the journal lacks the unit"))?;
    let mut entries = 0;
    loop {
        let entry = journal.next_entry_if(|_, ids| ids.contains(&unit));
        if entry.map_err(io::Error::other)?.is_none() {
            return check(entries, ENTRIES / UNITS);
        }
        for field in journal.fields().map_err(io::Error::other)? {
            black_box(field.map_err(io::Error::other)?);
        }
        entries += 1;
    }
}

fn open(path: &Path) -> io::Result<JournalFile<File>> {
    JournalFile::open(File::open(path)?, ReaderLimits::default()).map_err(io::Error::other)
}

/// Checks that a load has read at least as many entries as it must.
fn check(entries: u64, least: u64) -> io::Result<()> {
    if entries >= least {
        return Ok(());
    }
    Err(io::Error::other(format!("{entries} entries instead of {least}")))
}

/// Returns the CPU seconds that journalctl needs for the journal, which `option` expects at `path`.
fn journalctl(option: &str, path: &Path) -> io::Result<f64> {
    let before = seconds_of_children()?;
    let mut command = Command::new("journalctl");
    command.args(["-o", "json", option]).arg(path).stdout(Stdio::null());
    finished(command.status()?.success(), "journalctl")?;
    Ok(seconds_of_children()? - before)
}

/// Returns the CPU seconds of all children that have ended.
fn seconds_of_children() -> io::Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name of the program may contain spaces, so the fields are counted from its end.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks = fields.skip(13).take(2).map(|ticks| ticks.parse::<u64>().unwrap_or(0));
    Ok(ticks.sum::<u64>() as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn finished(success: bool, program: &str) -> io::Result<()> {
    if success { Ok(()) } else { Err(io::Error::other(format!("{program} failed"))) }
}

/// Writes a file with the entries from the number `first` on.
fn write(path: &Path, compact: &str, first: u64) -> io::Result<()> {
    if !Path::new(WRITER).exists() {
        return Err(io::Error::other(format!("{WRITER} is missing; run `scripts/servers`")));
    }
    let mut writer = Command::new(WRITER)
        .env("SYSTEMD_JOURNAL_COMPACT", compact)
        .arg("-o")
        .arg(path)
        .arg("-")
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(input) = writer.stdin.take() {
        let mut input = BufWriter::new(input);
        let mut random = Rng::with_seed(1);
        for number in first..first + ENTRIES {
            write_entry(&mut input, number, &mut random)?;
        }
        input.flush()?;
    }
    finished(writer.wait()?.success(), "systemd-journal-remote")
}

/// Writes an entry in the export format.
fn write_entry(output: &mut impl Write, number: u64, random: &mut Rng) -> io::Result<()> {
    let (time, unit) = (1_700_000_000_000_000 + number * 900, number % UNITS);
    let words: Vec<&str> = (0..9).map(|_| WORDS[random.usize(..WORDS.len())]).collect();
    write!(
        output,
        "__REALTIME_TIMESTAMP={time}\n__MONOTONIC_TIMESTAMP={}\n\
         _BOOT_ID=0123456789abcdef0123456789abcdef\n\
         MESSAGE={} {number}\nPRIORITY={}\nSYSLOG_FACILITY=3\nSYSLOG_IDENTIFIER=unit{unit}\n\
         _SYSTEMD_UNIT=unit{unit}.service\n_PID={}\n_UID=0\n_GID=0\n_COMM=unit{unit}\n\
         _EXE=/usr/bin/unit{unit}\n_CMDLINE=/usr/bin/unit{unit} --config /etc/unit{unit}.conf\n\
         _TRANSPORT=stdout\n_MACHINE_ID=4d696c6c73747265616d4a6f75726e61\n_HOSTNAME=host-a\n\
         _SYSTEMD_CGROUP=/system.slice/unit{unit}.service\n_SYSTEMD_SLICE=system.slice\n\
         _CAP_EFFECTIVE=1ffffffffff\n_SELINUX_CONTEXT=unconfined\n\
         _SOURCE_REALTIME_TIMESTAMP={}\n\n",
        time - 1_600_000_000_000_000,
        words.join(" "),
        random.u8(..8),
        1 + random.u32(..2000),
        time - random.u64(..500),
    )
}
