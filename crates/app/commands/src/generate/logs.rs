//! `millstream generate logs`: numbered lines of a web server.

use super::{Progress, TICK, due};
use crate::exit::{DONE, FAILED, USAGE};
use millstream_components::sources::generate::WebLog;
use millstream_model::Size;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Options for `generate logs`.
#[derive(clap::Args)]
pub struct LogsArgs {
    /// Lines per second [default: unlimited]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
    /// Average bytes per line, with a unit
    #[arg(long, default_value = "178B")]
    size: Size,
    /// Random seed; the same seed generates the same lines except for their timestamps
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of lines [default: endless]
    #[arg(long)]
    count: Option<u64>,
    /// First sequence number
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// File to append to [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Generates log lines; returns the exit status.
pub fn logs(args: &LogsArgs) -> u8 {
    if !(120..=65_536).contains(&args.size.0) {
        eprintln!("--size {} is out of range; use 120B to 64KiB", args.size);
        return USAGE;
    }
    let result = match &args.output {
        None => write(args, io::stdout().lock()),
        Some(path) => OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .and_then(|file| write(args, file)),
    };
    match result {
        Ok(()) => DONE,
        // The reader has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => DONE,
        Err(error) => {
            let target = args
                .output
                .as_ref()
                .map_or("standard output".into(), |path| path.display().to_string());
            eprintln!("{target}: {error}");
            FAILED
        }
    }
}

fn write(args: &LogsArgs, out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(256 * 1024, out);
    let (mut log, mut line, mut made) =
        (WebLog::new(args.seed, args.size.0 as usize), Vec::new(), 0);
    // Lines on a terminal already show the progress.
    let is_seen = args.output.is_none() && io::stdout().is_terminal();
    let (begun, mut progress) = (Instant::now(), Progress::new("lines", args.count, is_seen));
    let count = args.count.unwrap_or(u64::MAX);
    while made < count {
        let due = args.rate.map_or(u64::MAX, |rate| due(rate, begun.elapsed()));
        let until = due.min(count).min(made + 16 * 1024);
        let seconds =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
        while made < until {
            line.clear();
            log.line(args.first + made, seconds, &mut line);
            out.write_all(&line)?;
            made += 1;
        }
        progress.show(made, begun.elapsed());
        if due < count && due == made {
            out.flush()?;
            std::thread::sleep(TICK);
        }
    }
    out.flush()
}
