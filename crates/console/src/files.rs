//! The files of the sources: `/api/files`, and the metrics of files.

use crate::prometheus::text::{Float, Text, labels};
use crate::reply::{Reply, as_json, error};
use hyper::StatusCode;
use millstream_model::snapshot::{ComponentSnapshot, FileSnapshot, Snapshot};
use millstream_model::{HeldFiles, OriginTotals};
use serde::Serialize;
use std::cmp::Reverse;

/// Default number of files in a response.
const FILES_SHOWN: usize = 1000;

/// Number of files per source that have separate metrics; the files with the most lag are selected.
/// Each file has three series, and a host may have ten thousand files.
const FILES_MEASURED: usize = 100;

/// The response from `/api/files`.
#[derive(Serialize)]
struct Answer<'a> {
    /// Number of all files, including files that are not listed.
    total: usize,
    /// The files with the most lag, in descending order.
    files: Vec<Row<'a>>,
    unreadable: Vec<LastError<'a>>,
    /// Deleted files that sources hold until they are delivered.
    held: Vec<HeldBySource<'a>>,
}

/// The deleted files held by one source.
#[derive(Serialize)]
pub struct HeldBySource<'a> {
    source: &'a str,
    #[serde(flatten)]
    held: HeldFiles,
}

/// Returns the held files of those `components` that can hold files.
pub fn held<'a>(
    components: impl IntoIterator<Item = &'a ComponentSnapshot>,
) -> Vec<HeldBySource<'a>> {
    let held_by_source =
        |c: &'a ComponentSnapshot| Some(HeldBySource { source: &c.id, held: c.counters.held? });
    components.into_iter().filter_map(held_by_source).collect()
}

#[derive(Serialize)]
struct Row<'a> {
    source: &'a str,
    #[serde(flatten)]
    file: &'a FileSnapshot,
}

/// A path that a source cannot read, and the reason.
#[derive(Serialize)]
struct LastError<'a> {
    source: &'a str,
    /// Path or pattern.
    path: &'a str,
    reason: &'a str,
}

/// Lists the files of all sources, or of the source in the query.
pub fn answer(snapshot: &Snapshot, query: &str) -> Reply {
    let value_of = |name: &str| {
        query
            .split('&')
            .find_map(|part| part.split_once('=').filter(|(key, _)| *key == name))
            .map(|(_, v)| v)
    };
    let Ok(limit) = value_of("limit").map_or(Ok(FILES_SHOWN), str::parse) else {
        return error(
            StatusCode::BAD_REQUEST,
            "limit is not a whole number; use, for example, limit=100",
        );
    };
    let wanted = value_of("source");
    let is_wanted =
        |c: &&ComponentSnapshot| c.kind == "source" && wanted.is_none_or(|id| id == c.id);
    let sources: Vec<&ComponentSnapshot> = snapshot.components.iter().filter(is_wanted).collect();
    if wanted.is_some() && sources.is_empty() {
        return error(StatusCode::NOT_FOUND, "no source has this id; /api/snapshot lists sources");
    }
    let mut files: Vec<Row> = Vec::new();
    for source in &sources {
        files.extend(source.files.iter().map(|file| Row { source: &source.id, file }));
    }
    let total = files.len();
    files.sort_by_key(|row| (Reverse(lag(row.file)), row.source, row.file.path.as_str()));
    files.truncate(limit);
    let unreadable = sources.iter().flat_map(|source| {
        let list = source.unreadable.iter();
        list.map(|(path, reason)| LastError { source: &source.id, path, reason })
    });
    let held = held(sources.iter().copied());
    as_json(StatusCode::OK, &Answer { total, files, unreadable: unreadable.collect(), held })
}

/// A counter of a source: name, help and accessor.
type Total = (&'static str, &'static str, fn(&OriginTotals) -> u64);

const TOTALS: [Total; 4] = [
    (
        "millstream_source_disorder_events_total",
        "Events more than a second older than the newest event before them in their file.",
        |totals| totals.disorder,
    ),
    (
        "millstream_source_slice_errors_total",
        "Events whose first line does not match the start of an event.",
        |totals| totals.misfits,
    ),
    ("millstream_source_rotations_total", "Files that were renamed.", |totals| totals.rotations),
    ("millstream_source_truncations_total", "Files that were truncated.", |totals| {
        totals.truncations
    }),
];

/// A gauge of a source: name, help and accessor, which returns `None` for an unknown value.
type OfSource = (&'static str, &'static str, fn(&ComponentSnapshot) -> Option<f64>);

const OF_SOURCE: [OfSource; 9] = [
    (
        "millstream_source_files",
        "Files being read, open or closed because of the limit.",
        |source| Some(source.files.len() as f64),
    ),
    (
        "millstream_source_finished_files",
        "Idle files beyond the limit, for which memory holds only path, size and modification time.",
        |source| Some(source.counters.finished_files as f64),
    ),
    ("millstream_source_series", "Series that a metric source holds.", |source| {
        source.counters.series.map(|series| series as f64)
    }),
    ("millstream_source_unreadable", "Paths and patterns that cannot be read.", |source| {
        Some(source.unreadable.len() as f64)
    }),
    ("millstream_held_files", "Deleted files that are held until they are delivered.", |source| {
        Some(source.counters.held?.files as f64)
    }),
    ("millstream_held_bytes", "Disk space of held files in bytes.", |source| {
        Some(source.counters.held?.bytes as f64)
    }),
    (
        "millstream_held_copied_bytes",
        "Disk space of the copies of held files in bytes.",
        |source| Some(source.counters.held?.copied_bytes as f64),
    ),
    ("millstream_held_bytes_max", "Limit of the disk space of held files in bytes.", |source| {
        Some(source.counters.held?.bytes_max as f64)
    }),
    (
        "millstream_source_log_delay_seconds",
        "Seconds since the newest log time of an active file; the maximum over all files.",
        |source| source.log_delay_seconds,
    ),
];

/// A gauge of a file: name, help and accessor, which returns `None` for an unknown value.
type OfFile = (&'static str, &'static str, fn(&FileSnapshot) -> Option<f64>);

const OF_FILE: [OfFile; 3] = [
    ("millstream_file_lag_bytes", "Bytes of the file that some sink has not settled.", |file| {
        file.lag_records.is_none().then_some(file.lag_bytes as f64)
    }),
    ("millstream_file_size_bytes", "Known size of the file in bytes.", |file| {
        file.lag_records.is_none().then_some(file.size as f64)
    }),
    (
        "millstream_file_log_delay_seconds",
        "Seconds since the newest log time of the file.",
        |file| file.log_delay_seconds,
    ),
];

/// Appends metrics for all sources, and for the files with the most lag.
pub fn metrics(text: &mut Text<'_>, components: &[ComponentSnapshot]) {
    let sources: Vec<&ComponentSnapshot> =
        components.iter().filter(|c| c.kind == "source").collect();
    for (name, help, figure) in TOTALS {
        text.family(name, "counter", help);
        for (source, totals) in
            sources.iter().filter_map(|source| Some((source, source.totals.as_ref()?)))
        {
            text.sample(name, &labels(source), figure(totals));
        }
    }
    for (name, help, figure) in OF_SOURCE {
        text.family(name, "gauge", help);
        for (source, value) in sources.iter().filter_map(|source| Some((source, figure(source)?))) {
            text.sample(name, &labels(source), Float(value));
        }
    }
    let measured: Vec<_> = sources.iter().flat_map(|source| with_most_lag(source)).collect();
    for (name, help, figure) in OF_FILE {
        text.family(name, "gauge", help);
        for (source, file, value) in
            measured.iter().filter_map(|(s, file)| Some((s, file, figure(file)?)))
        {
            let [id, type_name, kind] = labels(source);
            // A path alone is ambiguous, because a file and its rotated predecessor may have the
            // same path.
            let own = [("file", file.path.as_str()), ("file_id", file.file_id.as_str())];
            text.sample(name, &[id, type_name, kind, own[0], own[1]], Float(value));
        }
    }
    partitions(text, &measured);
}

/// Appends partition lag, which is not in bytes.
fn partitions(text: &mut Text<'_>, measured: &[(&ComponentSnapshot, &FileSnapshot)]) {
    let name = "millstream_source_lag_records";
    text.family(name, "gauge", "Records of the partition that some sink has not settled.");
    for (source, file) in measured {
        let [id, type_name, kind] = labels(source);
        if let Some(records) = file.lag_records {
            text.sample(name, &[id, type_name, kind, ("partition", &file.name)], records);
        }
    }
}

/// Returns the lag of a file in bytes, or of a partition in records.
fn lag(file: &FileSnapshot) -> u64 {
    file.lag_records.unwrap_or(file.lag_bytes)
}

/// Returns the files of a source that have separate metrics.
fn with_most_lag(source: &ComponentSnapshot) -> Vec<(&ComponentSnapshot, &FileSnapshot)> {
    let mut files: Vec<&FileSnapshot> = source.files.iter().collect();
    files.sort_by_key(|file| (Reverse(lag(file)), file.path.as_str(), file.file_id.as_str()));
    files.truncate(FILES_MEASURED);
    files.into_iter().map(|file| (source, file)).collect()
}
