//! The recording of a run of the agent: its file in the data folder, or memory.

pub mod files;

use crate::config::RecorderSettings;
use files::{FOLDER, NewFile};
use millstream_console::RecorderState;
use millstream_recorder::recorder::{self, Destination};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A recording. Dropping it notes that the run has ended in order.
pub struct Recording {
    /// Its state, for the API.
    pub state: Arc<RecorderState>,
    /// The locked file, which says that the agent runs.
    _file: Option<File>,
}

impl Recording {
    /// Starts recording, as the settings say. The caller holds the lock of the data folder.
    ///
    /// Without space on the disk the recording is in memory: an agent that delivers is worth more than
    /// one that can be examined after a crash.
    pub fn start(data_dir: &Path, settings: &RecorderSettings) -> Recording {
        let folder = data_dir.join(FOLDER);
        let useless = files::useless(&folder);
        let file = settings.enabled.then(|| start_enabled(&folder, settings, &useless)).flatten();
        let (path, file) = file.map_or((None, None), |(path, file)| (Some(path), Some(file)));
        if !useless.is_empty() {
            // Freeing the pages of a file takes longer than everything else.
            tokio::task::spawn_blocking(move || files::remove(&useless));
        }
        let state = RecorderState::new(path, settings.size.0, settings.all_events());
        Recording { state: Arc::new(state), _file: file }
    }
}

/// Starts recording into a file, or into memory. Returns the file.
fn start_enabled(
    folder: &Path,
    settings: &RecorderSettings,
    useless: &[PathBuf],
) -> Option<(PathBuf, File)> {
    let mut started = start_in_file(folder, settings);
    if started.is_err() && recorder::settings().is_none() && !useless.is_empty() {
        files::remove(useless);
        started = start_in_file(folder, settings);
    }
    let error = match started {
        Ok(file) => return Some(file),
        Err(error) => error,
    };
    let folder = folder.display();
    log::warn!(
        "recorder: {folder}: {error}; recordings of this run are in memory and do not survive a crash"
    );
    let (bytes, events) = (settings.size.0, settings.all_events());
    // It records already if only the name of the file could not be given.
    if recorder::settings().is_none()
        && let Err(error) = recorder::start_run(&Destination::Memory, bytes, &events)
    {
        log::warn!("recorder: {error}; this run records nothing");
    }
    None
}

fn start_in_file(folder: &Path, settings: &RecorderSettings) -> io::Result<(PathBuf, File)> {
    let new = NewFile::create(folder)?;
    let (bytes, events) = (settings.size.0, settings.all_events());
    recorder::start_run(&Destination::File(new.file()), bytes, &events)?;
    new.keep()
}

impl Drop for Recording {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            recorder::end_run();
        }
    }
}
