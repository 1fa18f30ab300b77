//! The recording of a run of the agent, in a file in memory or on disk.

use millstream_commands::run_files::{self, Earlier, FOLDER, NewFile, memory};
use millstream_config::{Globals, RecorderSettings, RecorderStorage};
use millstream_console::RecorderState;
use millstream_model::Size;
use millstream_recorder::recorder::{self, Destination};
use millstream_recorder::snapshot::SlotCounts;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A recording. Dropping it records that the run has ended in an orderly way.
pub struct Recording {
    /// State of the recording, for the API.
    pub state: Arc<RecorderState>,
    /// Path in the data folder, and the locked file. The lock shows that the agent is running.
    /// `None` if the recording has no file.
    file: Option<(PathBuf, File)>,
}

impl Recording {
    /// Starts recording according to the settings. The caller holds the lock of the data folder.
    ///
    /// If there is no space for a file, the recording ends with the process, because delivery is
    /// more important than the analysis of a crash.
    pub fn start(data_dir: &Path, globals: &Globals) -> Recording {
        let (settings, size) = (&globals.recorder, globals.recorder.size(globals.limits.memory));
        let folder = data_dir.join(FOLDER);
        let earlier = run_files::earlier(&folder);
        let file =
            settings.enabled.then(|| start_enabled(&folder, settings, size, &earlier)).flatten();
        let path = file.as_ref().map(|(path, _)| path.clone());
        // Freeing the pages of earlier files takes longer than the other steps.
        tokio::task::spawn_blocking(move || earlier.clean());
        let state = RecorderState::new(path, size.0, settings.all_events());
        Recording { state: Arc::new(state), file }
    }
}

/// Starts recording into a file, or into memory. Returns the file.
fn start_enabled(
    folder: &Path,
    settings: &RecorderSettings,
    size: Size,
    earlier: &Earlier,
) -> Option<(PathBuf, File)> {
    let mut started = start_in_file(folder, settings, size);
    if started.is_err() && recorder::settings().is_none() && !earlier.useless.is_empty() {
        run_files::remove(&earlier.useless);
        started = start_in_file(folder, settings, size);
    }
    let error = match started {
        Ok(file) => return Some(file),
        Err(error) => error,
    };
    let folder = folder.display();
    log::warn!(
        "recorder: {folder}: {error}; the recording of this run is lost if the agent crashes"
    );
    let (bytes, events) = (size.0, settings.all_events());
    // The recording has already started if only the final name of the file could not be set.
    if recorder::settings().is_none()
        && let Err(error) = recorder::start_run(&Destination::Memory, bytes, &events)
    {
        log::warn!("recorder: {error}; this run records nothing");
    }
    None
}

/// Starts recording into a file in memory, or on disk if there is no space in memory or the
/// settings ask for it.
fn start_in_file(
    folder: &Path,
    settings: &RecorderSettings,
    size: Size,
) -> io::Result<(PathBuf, File)> {
    if settings.storage == RecorderStorage::Memory {
        match start_in(folder, settings, size, RecorderStorage::Memory) {
            Err(error) if recorder::settings().is_none() => {
                log::debug!("recorder: not in memory: {error}");
            }
            started => return started,
        }
    }
    start_in(folder, settings, size, RecorderStorage::Disk)
}

fn start_in(
    folder: &Path,
    settings: &RecorderSettings,
    size: Size,
    storage: RecorderStorage,
) -> io::Result<(PathBuf, File)> {
    let new = NewFile::create(folder, storage)?;
    let (bytes, events) = (size.0, settings.all_events());
    recorder::start_run(&Destination::File(new.file()), bytes, &events)?;
    new.keep()
}

impl Drop for Recording {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            recorder::end_run();
            self.file.iter().for_each(|(path, _)| leave_memory(path));
        }
    }
}

/// Moves the recording to disk if its file is in memory. The agent must no longer write to the
/// recording.
fn leave_memory(path: &Path) {
    let Some(target) = memory::target(path) else { return };
    let recorded = recorder::copy(&SlotCounts::new()).unwrap_or_default();
    if let Err(error) = run_files::replace(path, &mut &recorded[..]) {
        log::debug!("recorder: {}: {error}", path.display());
        run_files::remove(&[path.to_owned(), target]);
    }
}
