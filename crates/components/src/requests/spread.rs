//! No herd: periods of metrics end on all hosts at the same moment; each host sends a while later,
//! always the same while.

use millstream_model::{Batch, Interval};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::borrow::Cow;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// Part of a period over which `auto` spreads hosts: all of them have sent long before the next one.
const AUTO_PARTS: u32 = 3;

/// Over what time after the end of a period hosts spread their metrics: `auto`, which is a third of the
/// period, `0s`, which is not at all, or a duration. Logs are never held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Cow<'_, str>")]
pub enum Spread {
    /// A third of the period.
    #[default]
    Auto,
    /// This long.
    Over(Duration),
}

impl TryFrom<Cow<'_, str>> for Spread {
    type Error = String;

    fn try_from(text: Cow<'_, str>) -> Result<Spread, String> {
        match text.as_ref() {
            "auto" => Ok(Spread::Auto),
            "0s" => Ok(Spread::Over(Duration::ZERO)),
            other => match other.parse::<Interval>() {
                Ok(over) => Ok(Spread::Over(over.0)),
                Err(error) => Err(format!("{error}; or auto, or 0s")),
            },
        }
    }
}

impl JsonSchema for Spread {
    fn schema_name() -> Cow<'static, str> {
        "Spread".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "`auto`, `0s`, or a length of time with its unit.",
            "type": "string",
            "examples": ["auto", "0s", "3s"],
        })
    }
}

impl Spread {
    /// How long after the end of a period of `interval` this host sends: stable per host, and even over
    /// all of them.
    pub fn delay(self, host: &str, interval: Duration) -> Duration {
        let over = match self {
            Spread::Auto => interval / AUTO_PARTS,
            Spread::Over(over) => over,
        };
        let part = xxh3_64(host.as_bytes()) as f64 / 2f64.powi(64);
        over.mul_f64(part)
    }

    /// Before when a batch is not to be sent, in nanoseconds since 1970; `None` if it brings no metrics
    /// of a period.
    ///
    /// A period that says it ends later than it was read does not hold anything back for longer than
    /// the spread.
    pub fn not_before_ns(self, batch: &Batch) -> Option<i64> {
        let (interval, end_ns) = period(batch)?;
        let delay = self.delay(&batch.source.host, interval);
        let delay_ns = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
        (delay_ns > 0).then(|| end_ns.min(batch.read_ns).saturating_add(delay_ns))
    }
}

/// How long the period is that a batch of metrics is of, and when it ended: as its first row says.
fn period(batch: &Batch) -> Option<(Duration, i64)> {
    let (row, _) = batch.runs(0, batch.rows()).next()?;
    let (_, _) = (batch.fields.get("name")?, batch.fields.get("value")?);
    let seconds = batch.value(batch.fields.get("interval")?, row).number()?.as_f64();
    let interval = Duration::try_from_secs_f64(seconds).ok().filter(|interval| !interval.is_zero())?;
    Some((interval, batch.event_ns(row)))
}
