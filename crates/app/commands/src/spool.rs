//! `millstream spool`: shows the contents of the sinks' disk buffers.

use crate::exit::{DONE, FAILED, USAGE};
use crate::load::{ConfigFiles, Loader};
use millstream_spool::inspect::{self, SegmentInfo};
use millstream_spool::{Damage, Entry, EntryNumber};
use serde_json::{Value, json};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Folder of the disk buffers in `data_dir`, with one folder per sink.
const FOLDER: &str = "spool";

/// The help of `spool ls`.
pub const LS_HELP: &str = "Example:\n  \
    millstream spool ls -c /etc/millstream/conf.d\n  \
    millstream spool ls --data-dir /var/lib/millstream --json\n\n\
    The command reads every entry, takes no lock and works while the agent runs. Delivered entries\n\
    are listed until their file is removed.\n\n\
    Exit status: 0 done; 1 a disk buffer cannot be read; 2 invalid configuration or usage.";

/// The help of `spool cat`.
pub const CAT_HELP: &str = "Example:\n  \
    millstream spool cat out --limit 10\n  \
    millstream spool cat out --meta --from 1200\n\n\
    Payloads are written as they were encoded for the endpoint, without separators. The command takes\n\
    no lock and works while the agent runs. Delivered entries are also written until their file is\n\
    removed; damaged entries are skipped.\n\n\
    Exit status: 0 done; 1 the disk buffer cannot be read; 2 invalid configuration or usage.";

/// The location of the disk buffers.
#[derive(clap::Args)]
struct Place {
    #[command(flatten)]
    files: ConfigFiles,
    /// The agent's data_dir, instead of reading a configuration
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    data_dir: Option<PathBuf>,
}

/// The arguments of `spool ls`.
#[derive(clap::Args)]
pub struct LsArgs {
    #[command(flatten)]
    place: Place,
    /// Print JSON: an array with one object per sink
    #[arg(long)]
    json: bool,
}

/// The arguments of `spool cat`.
#[derive(clap::Args)]
pub struct CatArgs {
    #[command(flatten)]
    place: Place,
    /// Id of the sink
    #[arg(value_name = "SINK")]
    sink: String,
    /// Write at most this number of entries
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Begin at this entry
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    from: u64,
    /// Write a line of JSON about each entry instead of its payload
    #[arg(long)]
    meta: bool,
}

impl Place {
    /// Returns the folder with the disk buffers; `None` if the configuration has errors, which are
    /// printed.
    fn folder(&self, loader: &Loader) -> Option<PathBuf> {
        let data_dir = match &self.data_dir {
            Some(data_dir) => data_dir.clone(),
            None => loader.load(&self.files.config)?.globals.data_dir,
        };
        Some(data_dir.join(FOLDER))
    }
}

/// Statistics of a disk buffer.
struct Buffer {
    sink: String,
    segments: Vec<SegmentInfo>,
}

/// Lists the disk buffers; returns the exit status.
pub fn ls(args: &LsArgs, loader: &Loader) -> u8 {
    let Some(folder) = args.place.folder(loader) else { return USAGE };
    let mut status = DONE;
    let mut buffers = Vec::new();
    for sink in sinks(&folder).unwrap_or_default() {
        match inspect::segments(&folder.join(&sink)) {
            Ok(segments) => buffers.push(Buffer { sink, segments }),
            Err(error) => {
                eprintln!("disk buffer {}: {error}", folder.join(&sink).display());
                status = FAILED;
            }
        }
    }
    if buffers.is_empty() && status == DONE && !args.json {
        eprintln!("no disk buffers in {}", folder.display());
    }
    let printed = if args.json { print_json(&buffers) } else { print_table(&buffers) };
    finished(printed, status)
}

/// Writes the entries of a disk buffer; returns the exit status.
pub fn cat(args: &CatArgs, loader: &Loader) -> u8 {
    let Some(folder) = args.place.folder(loader) else { return USAGE };
    let sinks = sinks(&folder).unwrap_or_default();
    if !sinks.contains(&args.sink) {
        let others = if sinks.is_empty() { "none".to_owned() } else { sinks.join(", ") };
        let folder = folder.display();
        eprintln!(
            "sink `{}` has no disk buffer in {folder}; these sinks have one: {others}",
            args.sink
        );
        return USAGE;
    }
    finished(write_entries(args, &folder.join(&args.sink)), DONE)
}

/// Returns the exit status of a command. A closed pipe stops the command as if its output were
/// complete.
fn finished(done: io::Result<()>, status: u8) -> u8 {
    match done {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => DONE,
        Err(error) => {
            eprintln!("{error}");
            FAILED
        }
        Ok(()) => status,
    }
}

/// Lists the sinks that have a disk buffer.
fn sinks(folder: &Path) -> io::Result<Vec<String>> {
    let mut sinks = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let is_folder = entry.path().is_dir();
        sinks.extend(entry.file_name().into_string().ok().filter(|_| is_folder));
    }
    sinks.sort_unstable();
    Ok(sinks)
}

fn write_entries(args: &CatArgs, folder: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let failed = |error| io::Error::other(format!("disk buffer {}: {error}", folder.display()));
    let entries = inspect::entries(folder, EntryNumber(args.from)).map_err(failed)?;
    for entry in entries.take(args.limit.unwrap_or(usize::MAX)) {
        let entry = entry.map_err(failed)?;
        if args.meta {
            writeln!(out, "{}", meta(&entry))?;
        } else {
            entry.parts.iter().try_for_each(|part| out.write_all(part))?;
        }
    }
    out.flush()
}

fn meta(entry: &Entry) -> Value {
    let meta = &entry.meta;
    let ranges: Vec<Value> = meta
        .ranges
        .iter()
        .map(|range| {
            json!({
                "source": &*range.source,
                "origin": format!("{:016x}", range.origin),
                "start": range.start,
                "end": range.end,
            })
        })
        .collect();
    json!({
        "number": meta.number.0,
        "time_ms": meta.written_ms,
        "events": meta.events,
        "bytes": entry.payload_bytes(),
        "format": &*meta.format,
        "lane": meta.lane,
        "lanes": meta.lanes,
        "ranges": ranges,
    })
}

impl Buffer {
    fn sum(&self, number: fn(&SegmentInfo) -> u64) -> u64 {
        self.segments.iter().map(number).sum()
    }

    fn oldest_ms(&self) -> Option<i64> {
        self.segments.iter().find_map(|segment| segment.first_written_ms)
    }

    fn formats(&self) -> Vec<&str> {
        let mut formats: Vec<&str> = Vec::new();
        for format in self.segments.iter().filter_map(|segment| segment.format.as_deref()) {
            if !formats.contains(&format) {
                formats.push(format);
            }
        }
        formats
    }

    fn damage(&self) -> impl Iterator<Item = &Damage> {
        self.segments.iter().flat_map(|segment| &segment.damage)
    }

    /// Describes the damage in a few words; returns a dash if there is none.
    fn damage_text(&self) -> String {
        let bytes: u64 = self.damage().map(|damage| damage.bytes).sum();
        let lost: Option<u64> = self.damage().map(|damage| damage.entries).sum();
        match (self.damage().next(), lost) {
            (None, _) => "-".to_owned(),
            (Some(_), Some(entries)) => format!("{bytes} bytes, {entries} entries"),
            (Some(_), None) => format!("{bytes} bytes, number of entries unknown"),
        }
    }

    fn json(&self) -> Value {
        let damage = self.damage().map(|damage| {
            json!({
                "segment": damage.segment,
                "at": damage.at,
                "bytes": damage.bytes,
                "entries": damage.entries,
                "events": damage.events,
            })
        });
        let damage: Vec<Value> = damage.collect();
        json!({
            "sink": self.sink,
            "entries": self.sum(|segment| segment.entries),
            "events": self.sum(|segment| segment.events),
            "bytes": self.sum(|segment| segment.bytes),
            "segments": self.segments.len(),
            "first": self.segments.iter().find_map(|segment| segment.first).map(|first| first.0),
            "last": self.segments.iter().rev().find_map(|segment| segment.last).map(|last| last.0),
            "oldest_ms": self.oldest_ms(),
            "formats": self.formats(),
            "damage": damage,
        })
    }
}

fn print_json(buffers: &[Buffer]) -> io::Result<()> {
    let buffers: Vec<Value> = buffers.iter().map(Buffer::json).collect();
    writeln!(io::stdout(), "{:#}", Value::from(buffers))
}

fn print_table(buffers: &[Buffer]) -> io::Result<()> {
    if buffers.is_empty() {
        return Ok(());
    }
    let headings = ["sink", "entries", "events", "bytes", "oldest", "format", "damage"];
    let mut rows = vec![headings.map(str::to_owned)];
    rows.extend(buffers.iter().map(row));
    let widths = [0, 1, 2, 3, 4, 5].map(|column| {
        let lengths = rows.iter().map(|row: &[String; 7]| row[column].chars().count());
        lengths.max().unwrap_or_default()
    });
    let mut out = io::stdout().lock();
    for [sink, entries, events, bytes, oldest, format, damage] in &rows {
        let [w0, w1, w2, w3, w4, w5] = widths;
        writeln!(
            out,
            "{sink:<w0$}  {entries:>w1$}  {events:>w2$}  {bytes:>w3$}  {oldest:>w4$}  {format:<w5$}  {damage}"
        )?;
    }
    Ok(())
}

fn row(buffer: &Buffer) -> [String; 7] {
    [
        buffer.sink.clone(),
        buffer.sum(|segment| segment.entries).to_string(),
        buffer.sum(|segment| segment.events).to_string(),
        buffer.sum(|segment| segment.bytes).to_string(),
        buffer.oldest_ms().map_or("-".to_owned(), |ms| age(now_ms().saturating_sub(ms))),
        buffer.formats().join(", "),
        buffer.damage_text(),
    ]
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// Writes an age in its two largest units.
fn age(ms: i64) -> String {
    let seconds = Duration::from_millis(ms.max(0) as u64).as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{}s", seconds % 60),
        (0, ..) => format!("{hours}h{}m", minutes % 60),
        _ => format!("{days}d{}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::age;

    #[test]
    fn an_age_has_two_units() {
        let cases = [(-5, "0s"), (999, "0s"), (59_000, "59s"), (61_000, "1m1s")];
        let more = [(3_600_000, "1h0m"), (90_000_000, "1d1h"), (8_640_000_000, "100d0h")];
        for (ms, expected) in cases.into_iter().chain(more) {
            assert_eq!(age(ms), expected);
        }
    }
}
