//! Open files, and the delay of their log times.

use crate::{OriginProgress, OriginStatus, OriginTotals, SinkIndex, TIME_UNKNOWN};
use millstream_timestamps::push_rfc3339;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

/// One open file of a source.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FileSnapshot {
    /// Id of the file in hexadecimal, as in its events.
    pub file_id: String,
    /// First known path.
    pub name: String,
    /// Last known path.
    pub path: String,
    /// `active`, `waiting`, `finished`, `gone` or `deleted`.
    pub status: &'static str,
    /// How the file is held after its deletion: `descriptor` or `disk`; `None` if it is not held.
    pub held_by: Option<&'static str>,
    /// Offset up to which the file has been read, in bytes.
    pub position: u64,
    /// Known length in bytes.
    pub size: u64,
    /// For each sink, the offset in bytes before which everything is settled.
    pub checkpoints: BTreeMap<String, u64>,
    /// Bytes between the lowest checkpoint and the end; 0 for a partition.
    pub lag_bytes: u64,
    /// Records between the lowest checkpoint and the end of a partition, whose offsets are records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_records: Option<u64>,
    /// The newest time in the file's lines, as RFC 3339; `None` if no line has a time.
    pub newest_log_time: Option<String>,
    /// Seconds from that time to now; negative if that time is in the future.
    pub log_delay_seconds: Option<f64>,
    /// Bytes read per second, averaged over the last few seconds.
    pub rate_bytes_per_second: f64,
    /// Totals since the file was opened.
    #[serde(flatten)]
    pub totals: OriginTotals,
}

impl FileSnapshot {
    /// Returns the snapshot of an origin, as a file. `sinks` contains the indices and ids of the
    /// origin's sinks; `unix_ns` is the current time in nanoseconds since 1970.
    pub fn of(
        progress: &OriginProgress,
        sinks: &[(SinkIndex, &str)],
        unix_ns: i64,
    ) -> FileSnapshot {
        let (origin, state) = (&progress.origin, &progress.origin.state);
        let size = progress.end.max(state.size.load(Relaxed));
        let lowest = progress.checkpoints.iter().map(|(_, checkpoint)| *checkpoint).min();
        let id_of = |index: SinkIndex| {
            sinks.iter().find(|(sink, _)| *sink == index).map(|(_, id)| (*id).to_owned())
        };
        let checkpoints = progress.checkpoints.iter();
        let lag = lowest.map_or(0, |lowest| size.saturating_sub(lowest));
        let is_in_records = origin.is_in_records;
        let path = state.path();
        FileSnapshot {
            file_id: origin.id.to_string(),
            name: origin.name.to_string(),
            path: if path.is_empty() { origin.name.to_string() } else { path },
            status: state.status().name(),
            held_by: state.held_by().name(),
            position: state.position.load(Relaxed),
            size,
            checkpoints: checkpoints
                .filter_map(|(index, offset)| Some((id_of(*index)?, *offset)))
                .collect(),
            lag_bytes: if is_in_records { 0 } else { lag },
            lag_records: is_in_records.then_some(lag),
            newest_log_time: (state.newest() != TIME_UNKNOWN).then(|| rfc3339(state.newest())),
            log_delay_seconds: delay_seconds(progress, unix_ns),
            rate_bytes_per_second: state.rate(),
            totals: state.totals(),
        }
    }
}

fn rfc3339(ns: i64) -> String {
    let mut text = Vec::new();
    push_rfc3339(&mut text, ns);
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the seconds from an origin's newest log time to now; `None` if no log time is known.
fn delay_seconds(progress: &OriginProgress, unix_ns: i64) -> Option<f64> {
    let newest = progress.origin.state.newest();
    (newest != TIME_UNKNOWN).then(|| (unix_ns as f64 - newest as f64) / 1e9)
}

/// Returns the maximum time since the newest log time of an active origin, in seconds; `None` if no
/// log time is known. An origin also counts if its log is quiet. `unix_ns` is the current time in
/// nanoseconds since 1970.
pub fn log_delay_seconds(origins: &[OriginProgress], unix_ns: i64) -> Option<f64> {
    let active =
        origins.iter().filter(|progress| progress.origin.state.status() == OriginStatus::Active);
    active.filter_map(|progress| delay_seconds(progress, unix_ns)).reduce(f64::max)
}

/// Returns a sink's delay in seconds. The delay is 0 if everything is settled. Otherwise it is the
/// log delay of the origins with unsettled ranges, or `oldest_seconds`, the age of the oldest
/// unsettled range, whichever is longer. `unix_ns` is the current time in nanoseconds since 1970.
pub fn lag_seconds(
    origins: &[OriginProgress],
    sink: SinkIndex,
    oldest_seconds: f64,
    unix_ns: i64,
) -> f64 {
    let is_behind = |progress: &&OriginProgress| {
        progress
            .checkpoints
            .iter()
            .any(|(by_sink, checkpoint)| *by_sink == sink && *checkpoint < progress.end)
    };
    let behind = origins.iter().filter(is_behind);
    behind.filter_map(|progress| delay_seconds(progress, unix_ns)).fold(oldest_seconds, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Origin, OriginId};
    use std::sync::Arc;

    const NOW_NS: i64 = 1_795_292_986_000_000_000;

    fn progress(id: u64, end: u64, checkpoints: &[(usize, u64)], newest: i64) -> OriginProgress {
        let origin = Arc::new(Origin::new(OriginId(id), "/var/log/a.log"));
        origin.state.record_times(0..end, &[newest]);
        let sink = |(index, at): &(usize, u64)| (SinkIndex::new(*index), *at);
        OriginProgress { origin, end, checkpoints: checkpoints.iter().map(sink).collect() }
    }

    #[test]
    fn a_file_reports_its_position() {
        let progress = progress(0xab, 100, &[(0, 40), (1, 70)], NOW_NS - 2_500_000_000);
        progress.origin.state.read(90, 90);
        progress.origin.state.size.store(130, Relaxed);
        progress.origin.state.set_path("/var/log/a.log.1");
        progress.origin.state.rotations.fetch_add(1, Relaxed);
        let file = FileSnapshot::of(
            &progress,
            &[(SinkIndex::new(0), "slow"), (SinkIndex::new(1), "fast")],
            NOW_NS,
        );
        assert_eq!((file.file_id.as_str(), file.status), ("00000000000000ab", "active"));
        assert_eq!(
            (file.name.as_str(), file.path.as_str()),
            ("/var/log/a.log", "/var/log/a.log.1")
        );
        assert_eq!((file.position, file.size, file.lag_bytes), (90, 130, 90));
        assert_eq!(file.checkpoints, BTreeMap::from([("slow".into(), 40), ("fast".into(), 70)]));
        assert_eq!(file.newest_log_time.as_deref(), Some("2026-11-21T20:29:43.500Z"));
        assert_eq!((file.log_delay_seconds, file.totals.rotations), (Some(2.5), 1));
    }

    #[test]
    fn the_lag_of_a_partition_is_in_records() {
        let origin = Origin::new(OriginId(1), "topic/0").of_records();
        let mut progress = progress(1, 50, &[(0, 20)], TIME_UNKNOWN);
        progress.origin = std::sync::Arc::new(origin);
        let file = FileSnapshot::of(&progress, &[], NOW_NS);
        assert_eq!((file.lag_bytes, file.lag_records), (0, Some(30)));
    }

    #[test]
    fn without_a_log_time_there_is_no_delay() {
        let progress = progress(1, 10, &[(0, 10)], TIME_UNKNOWN);
        let file = FileSnapshot::of(&progress, &[(SinkIndex::new(0), "out")], NOW_NS);
        assert_eq!((file.newest_log_time, file.log_delay_seconds), (None, None));
        assert_eq!((file.path.as_str(), file.lag_bytes), ("/var/log/a.log", 0));
        assert_eq!(log_delay_seconds(&[progress], NOW_NS), None);
    }

    #[test]
    fn lag_in_seconds_covers_only_unsettled_data() {
        let quiet = progress(1, 10, &[(0, 10), (1, 10)], NOW_NS - 3600 * 1_000_000_000);
        let behind = progress(2, 50, &[(0, 20), (1, 50)], NOW_NS - 5 * 1_000_000_000);
        let origins = [quiet, behind];
        assert_eq!(lag_seconds(&origins, SinkIndex::new(0), 1.5, NOW_NS), 5.0);
        assert_eq!(lag_seconds(&origins, SinkIndex::new(0), 7.5, NOW_NS), 7.5);
        assert_eq!(lag_seconds(&origins, SinkIndex::new(1), 0.0, NOW_NS), 0.0);
        assert_eq!(log_delay_seconds(&origins, NOW_NS), Some(3600.0));
        origins[0].origin.state.set_status(OriginStatus::Gone);
        assert_eq!(log_delay_seconds(&origins, NOW_NS), Some(5.0));
    }
}
