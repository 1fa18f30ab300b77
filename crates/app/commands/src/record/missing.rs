//! Events and bytes that a recording lacks.

use millstream_recorder::schema::{EVENTS, EventKind};
use millstream_recorder::snapshot::{Reader, Snapshot};

/// Events that a recording lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Chunks that were overwritten before they were read.
    pub lost_chunks: u64,
    /// Events that no chunk had space for.
    pub without_space: u64,
    /// Events that were omitted because their type was over its rate limit.
    pub over_rate: Vec<(EventKind, u64)>,
    /// Events without the name of the file, connection or component that they are about.
    pub without_name: u64,
    /// Bytes that are missing at the end of the file.
    pub cut_bytes: u64,
}

impl Missing {
    /// Returns the missing data since the start of a run.
    pub fn of(snapshot: &Snapshot, reader: &Reader) -> Missing {
        let over =
            |kind: EventKind| Some((kind, snapshot.over_rate(kind))).filter(|pair| pair.1 > 0);
        Missing {
            lost_chunks: reader.lost_chunks(),
            without_space: snapshot.without_space(),
            over_rate: EVENTS.iter().filter_map(|spec| over(spec.kind)).collect(),
            without_name: snapshot.without_name(),
            cut_bytes: snapshot.cut_bytes(),
        }
    }

    /// Returns the missing data since a snapshot of the same run.
    pub fn since(snapshot: &Snapshot, before: &Snapshot, reader: &Reader) -> Missing {
        let mut missing = Missing::of(snapshot, reader);
        missing.without_space = missing.without_space.saturating_sub(before.without_space());
        missing.without_name = missing.without_name.saturating_sub(before.without_name());
        for (kind, count) in &mut missing.over_rate {
            *count = count.saturating_sub(before.over_rate(*kind));
        }
        missing.over_rate.retain(|(_, count)| *count > 0);
        missing
    }

    /// Describes the missing data, one line per kind.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.lost_chunks > 0 {
            lines.push(format!(
                "{} chunks of up to 1022 events were overwritten before they were read; a larger recorder.size keeps more",
                self.lost_chunks
            ));
        }
        if self.without_space > 0 {
            lines.push(format!(
                "{} events were not recorded because too many threads recorded at the same \
                 time; use a larger recorder.size",
                self.without_space
            ));
        }
        if self.without_name > 0 {
            lines.push(format!(
                "{} names of files, connections or components were not recorded for lack of space; \
                 use a larger recorder.size",
                self.without_name
            ));
        }
        if self.cut_bytes > 0 {
            lines.push(format!(
                "the file is truncated: its last {} bytes are missing",
                self.cut_bytes
            ));
        }
        let over = self.over_rate.iter().map(|(kind, count)| {
            format!("{count} {} events exceeded the rate limit of this type", kind.spec().name)
        });
        lines.extend(over);
        lines
    }
}
