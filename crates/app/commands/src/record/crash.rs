//! Recordings of agents that no longer run.

use super::events;
use super::output::Target;
use super::story::{period, plain, time};
use super::{Failure, print};
use crate::run_files::{self, End, FOLDER, RunFile};
use millstream_model::Interval;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Writes the recorded events of a run.
pub fn write(path: &Path, last: Option<Interval>, target: &Target) -> Result<(), Failure> {
    let (bytes, end) = read(path)?;
    events::write(&bytes, end, last, target)
}

/// Reads the newest run of a folder, or a file. Returns a snapshot as bytes, and how the run ended.
pub fn read(path: &Path) -> Result<(Vec<u8>, End), Failure> {
    let run = if path.is_dir() { choose(path)? } else { open(path)? };
    let shown = run.path.display();
    if let Err(error) = &run.header {
        return Err(Failure::failed(format!("{shown}: {error}")));
    }
    let bytes = fs::read(&run.path);
    let bytes = bytes.map_err(|error| Failure::failed(format!("{shown}: {error}")))?;
    Ok((bytes, run.end))
}

fn open(path: &Path) -> Result<RunFile, Failure> {
    RunFile::open(path).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}

/// Returns the files of all runs in a data folder, or in the recorder's folder, from the oldest to
/// the newest.
fn runs(path: &Path) -> Result<Vec<RunFile>, Failure> {
    let inner = path.join(FOLDER);
    let folder: PathBuf = if inner.is_dir() { inner } else { path.to_owned() };
    let failed = |error| Failure::failed(format!("{}: {error}", folder.display()));
    let paths = run_files::list(&folder).map_err(failed)?;
    if paths.is_empty() {
        let text = "found no recording; check that this is the data_dir of an agent";
        return Err(Failure::failed(format!("{}: {text}", path.display())));
    }
    let mut runs = Vec::new();
    for path in &paths {
        match RunFile::open(path) {
            Ok(run) => runs.push(run),
            Err(_) if path.is_symlink() && !path.exists() => {
                let path = plain(&path.display().to_string());
                eprintln!("{path}: the recording was in memory, which a reboot cleared");
            }
            Err(error) => eprintln!("{}: {error}", plain(&path.display().to_string())),
        }
    }
    Ok(runs)
}

/// Returns the newest run that died, or the newest completed run if none died.
fn choose(path: &Path) -> Result<RunFile, Failure> {
    let mut runs = runs(path)?;
    let newest = |runs: &[RunFile], end: End| {
        runs.iter().rposition(|run| run.end == end && run.header.is_ok())
    };
    if let Some(died) = newest(&runs, End::Died) {
        let others = runs.iter().filter(|run| run.end == End::Died).count() - 1;
        if others > 0 {
            eprintln!("{}: {others} more runs died; --list shows all runs", path.display());
        }
        return Ok(runs.swap_remove(died));
    }
    let path = path.display();
    match newest(&runs, End::Ended) {
        Some(ended) => {
            eprintln!("{path}: no run died; this is the newest run that exited normally");
            Ok(runs.swap_remove(ended))
        }
        None if runs.is_empty() => {
            Err(Failure::failed(format!("{path}: found no readable recording")))
        }
        None => Err(Failure::failed(format!(
            "{path}: the only run belongs to the running agent; use --dump --data-dir {path}"
        ))),
    }
}

/// Prints the runs of a data folder.
pub fn list(path: &Path) -> Result<(), Failure> {
    let mut text = String::new();
    let (state, pid) = ("state", "process");
    let _ = writeln!(
        text,
        "{:<23}  {:<23}  {:>9}  {state:<7}  {pid:>7}  {:<8}  file",
        "start", "last sign of life", "after", "version"
    );
    for run in runs(path)? {
        text += &row(&run);
    }
    print(&text)
}

fn row(run: &RunFile) -> String {
    let path = plain(&run.path.display().to_string());
    let state = match run.end {
        End::Running => "running",
        End::Ended => "ended",
        End::Died => "died",
    };
    let header = match &run.header {
        Ok(header) => header,
        Err(error) => return format!("{error}: {path}\n"),
    };
    let clock = header.clock();
    let (start, end) = (clock.start_ticks, header.latest_ticks());
    let after = period(clock.ns(end.saturating_sub(start)));
    let (start, end) = (time(&clock, start), time(&clock, end));
    let (pid, version) = (header.pid(), plain(&header.agent_version()));
    format!("{start}  {end}  {after:>9}  {state:<7}  {pid:>7}  {version:<8}  {path}\n")
}
