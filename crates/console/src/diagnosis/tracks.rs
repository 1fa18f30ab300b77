//! Files over time: which have grown, and which have unread bytes although they do not grow.

use millstream_model::snapshot::{ComponentSnapshot, FileSnapshot, Snapshot};
use std::collections::HashMap;

/// Number of unread bytes below which a file is treated as read.
const UNREAD_ON_THE_WAY: u64 = 64 << 10;

/// A file over time. Times are the agent's uptime in seconds.
#[derive(Clone, Debug)]
pub struct FileTrack {
    pub path: String,
    /// Whether the file was renamed, or reading continues in a copy.
    pub is_moved: bool,
    pub status: &'static str,
    pub position: u64,
    pub size: u64,
    /// Time since which the position and the size have not changed.
    pub still_since: f64,
    /// Time when the file last grew.
    pub grown: Option<f64>,
    /// Time since which all but a few bytes of the file have been read; `None` if more are unread.
    pub read_since: Option<f64>,
    /// Seconds from the newest timestamp in the lines to now.
    pub log_delay_seconds: Option<f64>,
}

impl FileTrack {
    fn new(file: &FileSnapshot, now: f64) -> FileTrack {
        FileTrack {
            path: file.path.clone(),
            is_moved: file.path != file.name,
            status: file.status,
            position: file.position,
            size: file.size,
            still_since: now,
            grown: None,
            read_since: is_read(file).then_some(now),
            log_delay_seconds: file.log_delay_seconds,
        }
    }

    fn update(&mut self, file: &FileSnapshot, now: f64) {
        if (file.position, file.size) != (self.position, self.size) {
            self.still_since = now;
        }
        if file.size > self.size {
            self.grown = Some(now);
        }
        self.read_since = is_read(file).then(|| self.read_since.unwrap_or(now));
        if self.path != file.path {
            self.path.clone_from(&file.path);
        }
        self.is_moved = file.path != file.name;
        (self.position, self.size, self.status) = (file.position, file.size, file.status);
        self.log_delay_seconds = file.log_delay_seconds;
    }

    /// Returns the number of unread bytes.
    pub fn unread(&self) -> u64 {
        self.size.saturating_sub(self.position)
    }
}

fn is_read(file: &FileSnapshot) -> bool {
    file.size.saturating_sub(file.position) < UNREAD_ON_THE_WAY
}

/// The files of all sources, by source and id.
#[derive(Default)]
pub struct Tracks(HashMap<String, HashMap<String, FileTrack>>);

impl Tracks {
    /// Updates the files from a snapshot, and removes files that are not in the snapshot.
    pub fn observe(&mut self, snapshot: &Snapshot) {
        let sources = snapshot.components.iter().filter(|component| component.kind == "source");
        let mut before = std::mem::take(&mut self.0);
        for source in sources {
            let known = before.remove(&source.id).unwrap_or_default();
            self.0.insert(source.id.clone(), followed(source, known, snapshot.uptime_seconds));
        }
    }

    /// Returns the files of a source.
    pub fn of(&self, source: &str) -> Vec<&FileTrack> {
        self.0.get(source).map_or(Vec::new(), |files| files.values().collect())
    }
}

fn followed(
    source: &ComponentSnapshot,
    mut known: HashMap<String, FileTrack>,
    now: f64,
) -> HashMap<String, FileTrack> {
    let files = source.files.iter().filter(|file| file.lag_records.is_none());
    let track = |file: &FileSnapshot| {
        let track = known.remove(&file.file_id).map_or_else(
            || FileTrack::new(file, now),
            |mut track| {
                track.update(file, now);
                track
            },
        );
        (file.file_id.clone(), track)
    };
    files.map(track).collect()
}
