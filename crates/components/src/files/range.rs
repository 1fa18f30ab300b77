//! Back-fill: reads only events within a time range.

use crate::framing::TimeFormats;
use millstream_framing::{TimeReader, TimeSpec};
use millstream_model::{Batch, Selection, TIME_UNKNOWN};
use millstream_timestamps::Format;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::HashMap;

/// A time range to read, after which the source ends.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackfillConfig {
    /// Start of the range, inclusive, such as `2026-11-22T10:00:00Z`.
    pub from: Option<String>,
    /// End of the range, exclusive.
    pub until: Option<String>,
    /// Format of a line's time, unless `multiline` or `format` of the source parses it: `strptime`
    /// directives, or `iso8601`, `rfc3339`, `epoch_s`, `epoch_ms`, `epoch_us`, `epoch_ns`; or a
    /// list of them, of which the first match is used.
    pub format: Option<TimeFormats>,
    /// Text directly before the time; without it, the time is at the start of the line.
    pub after: Option<String>,
    /// Which occurrence of `after` to use, counted from 1; the first by default.
    pub nth: Option<u32>,
    /// Time zone of times without one: `UTC` (the default), `+02:00`, `Europe/Berlin`, or `local`
    /// for that of the host.
    pub timezone: Option<String>,
}

/// Selects events within a time range.
pub struct Range {
    from_ns: i64,
    until_ns: i64,
    reader: Option<TimeReader>,
    /// By origin, whether its last event was selected. An event without a time gets the same
    /// decision as the one before it.
    last: HashMap<u64, bool>,
}

impl Range {
    /// Compiles the options. `finds_times` says that the source parses the times of events.
    ///
    /// # Errors
    /// A JSON pointer below the options, and a message that says what to write instead.
    pub fn new(config: &BackfillConfig, finds_times: bool) -> Result<Range, (String, String)> {
        let from_ns = bound("/from", config.from.as_deref(), i64::MIN)?;
        let until_ns = bound("/until", config.until.as_deref(), i64::MAX)?;
        if config.from.is_none() && config.until.is_none() {
            return Err((String::new(), "sets no range; write from: or until:, or both".into()));
        }
        if from_ns >= until_ns {
            return Err(("/until".into(), "is not later than from:; write a later time".into()));
        }
        let BackfillConfig { after, nth, timezone, .. } = config.clone();
        let spec = |format: &TimeFormats| TimeSpec {
            formats: format.clone().into(),
            after,
            nth,
            timezone,
        };
        let reader = config.format.as_ref().map(|format| spec(format).reader()).transpose();
        let reader = reader.map_err(|(pointer, message)| (pointer.to_owned(), message))?;
        if reader.is_none() && !finds_times {
            let message =
                "is required, as the source parses no times; write for example format: iso8601";
            return Err(("/format".into(), message.into()));
        }
        Ok(Range { from_ns, until_ns, reader, last: HashMap::new() })
    }

    /// Deselects events outside of the range; returns how many.
    pub fn apply(&mut self, batch: &mut Batch) -> u64 {
        let before = batch.events();
        let mut kept = vec![false; batch.rows()];
        let segments = batch.segments.clone();
        for segment in segments.iter() {
            let mut chosen = self.last.get(&segment.origin.id).copied().unwrap_or(true);
            for (row, kept) in
                kept.iter_mut().enumerate().skip(segment.first_row).take(segment.rows)
            {
                let time = self.time(batch, row);
                if time != TIME_UNKNOWN {
                    chosen = (self.from_ns..self.until_ns).contains(&time);
                }
                *kept = chosen;
            }
            self.last.insert(segment.origin.id, chosen);
        }
        batch.select(Selection::from(kept));
        (before - batch.events()) as u64
    }

    fn time(&mut self, batch: &Batch, row: usize) -> i64 {
        let known = batch.time.as_ref().map_or(TIME_UNKNOWN, |times| times[row]);
        match &mut self.reader {
            Some(reader) if known == TIME_UNKNOWN => {
                reader.time(batch.text(row), batch.read_ns).unwrap_or(TIME_UNKNOWN)
            }
            _ => known,
        }
    }

    /// Whether a file with this modification time, in seconds since 1970, may have events in the
    /// range.
    pub fn may_be_in(&self, modified_s: i64) -> bool {
        modified_s.saturating_add(1).saturating_mul(1_000_000_000) >= self.from_ns
    }
}

fn bound(key: &str, text: Option<&str>, default: i64) -> Result<i64, (String, String)> {
    let Some(text) = text else { return Ok(default) };
    let format = Format::new("rfc3339", None).map_err(|message| (key.to_owned(), message))?;
    match format.parse(text.as_bytes(), 0) {
        Ok(parsed) if parsed.len == text.len() => Ok(parsed.ns),
        _ => Err((
            key.into(),
            format!("{text:?} is not a time; write for example 2026-11-22T10:00:00Z"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn error(options: Value, finds_times: bool) -> Option<(String, String)> {
        Range::new(&serde_json::from_value(options).unwrap(), finds_times).err()
    }

    #[test]
    fn an_error_names_the_option_and_says_what_to_write() {
        let (early, late) = ("2026-11-21T00:00:00Z", "2026-11-22T00:00:00+02:00");
        for (options, pointer, advice) in [
            (json!({}), "", "from: or until:"),
            (json!({ "from": late, "until": early, "format": "iso8601" }), "/until", "later"),
            (json!({ "from": "yesterday" }), "/from", "2026-11-22T10:00:00Z"),
            (json!({ "from": early }), "/format", "iso8601"),
            (json!({ "from": early, "format": "%Q" }), "/format", "%Q"),
        ] {
            let (at, message) = error(options.clone(), false).unwrap();
            assert!(at == pointer && message.contains(advice), "{options}: {at}: {message}");
        }
        assert_eq!(error(json!({ "from": early, "until": late }), true), None);
    }

    #[test]
    fn files_last_modified_before_the_range_are_skipped() {
        let config = serde_json::from_value(json!({ "from": "1970-01-01T00:01:40Z" })).unwrap();
        let range = Range::new(&config, true).unwrap();
        assert_eq!([98, 99, 100].map(|second| range.may_be_in(second)), [false, true, true]);
    }
}
