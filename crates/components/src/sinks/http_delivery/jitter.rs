//! Send jitter: metric periods end on all hosts at the same moment, so each host delays its
//! requests by a stable, host-specific time.

use millstream_model::{Batch, Interval};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::borrow::Cow;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// The jitter window of `auto` is the period divided by this number, so that every host sends well
/// before the next period ends.
const AUTO_PARTS: u32 = 3;

/// Longest jitter window of `auto`: long enough for any number of hosts, short enough that metrics
/// with a long period arrive while they are current.
const AUTO_MAX: Duration = Duration::from_secs(60);

/// Time window after the end of a metric period in which a host sends its metrics: `auto` (a third
/// of the period, at most a minute), `0s` (no delay), or a duration. Each host has a constant delay
/// within the window. Logs are never delayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Cow<'_, str>")]
pub enum Jitter {
    /// A third of the period, at most a minute.
    #[default]
    Auto,
    /// A fixed window.
    Over(Duration),
}

impl TryFrom<Cow<'_, str>> for Jitter {
    type Error = String;

    fn try_from(text: Cow<'_, str>) -> Result<Jitter, String> {
        match text.as_ref() {
            "auto" => Ok(Jitter::Auto),
            "0s" => Ok(Jitter::Over(Duration::ZERO)),
            other => match other.parse::<Interval>() {
                Ok(over) => Ok(Jitter::Over(over.0)),
                Err(error) => Err(format!("{error}; or use auto or 0s")),
            },
        }
    }
}

impl JsonSchema for Jitter {
    fn schema_name() -> Cow<'static, str> {
        "Jitter".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
           "description": "`auto`, `0s`, or a duration with its unit.",
            "type": "string",
            "examples": ["auto", "0s", "3s"],
        })
    }
}

impl Jitter {
    /// Returns this host's delay after the end of a period that is `interval` long. The delay is
    /// stable per host and uniformly distributed over hosts.
    pub fn delay(self, host: &str, interval: Duration) -> Duration {
        let over = match self {
            Jitter::Auto => (interval / AUTO_PARTS).min(AUTO_MAX),
            Jitter::Over(over) => over,
        };
        let part = xxh3_64(host.as_bytes()) as f64 / 2f64.powi(64);
        over.mul_f64(part)
    }

    /// Returns the hold of a batch; `None` if the batch contains no metrics with a period, or if
    /// this host does not delay them.
    ///
    /// A period that ends after the time of the read does not extend the delay.
    pub fn hold(self, batch: &Batch) -> Option<Hold> {
        let (interval, end_ns) = period(batch)?;
        let delay = self.delay(&batch.source.host, interval);
        let delay_ns = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
        let until_ns = end_ns.min(batch.read_ns).saturating_add(delay_ns);
        (delay_ns > 0).then_some(Hold { until_ns, at_most: delay })
    }
}

/// How long a payload is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// End of the hold by the wall clock, in nanoseconds since 1970.
    pub until_ns: i64,
    /// Upper bound of the hold, in case the wall clock is set back.
    pub at_most: Duration,
}

impl Hold {
    /// Returns the remaining time of the hold at a wall clock time, in nanoseconds since 1970.
    pub fn left(self, now_ns: i64) -> Duration {
        let left = u64::try_from(self.until_ns.saturating_sub(now_ns)).unwrap_or_default();
        Duration::from_nanos(left).min(self.at_most)
    }
}

/// Values of `type` that mark metrics. The check is needed because log events may have columns with
/// the same names.
const TYPES: [&[u8]; 3] = [b"counter", b"gauge", b"distribution"];

/// Returns the length and end of a metric batch's period, read from the first row.
fn period(batch: &Batch) -> Option<(Duration, i64)> {
    let (row, _) = batch.runs(0, batch.rows()).next()?;
    let (_, _) = (batch.fields.get("name")?, batch.fields.get("value")?);
    let kind = batch.value(batch.fields.get("type")?, row).text()?;
    TYPES.contains(&&*kind).then_some(())?;
    let seconds = batch.value(batch.fields.get("interval")?, row).number()?.as_f64();
    let interval =
        Duration::try_from_secs_f64(seconds).ok().filter(|interval| !interval.is_zero())?;
    Some((interval, batch.event_ns(row)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::CellKind;
    use serde_json::json;

    const TEN: Duration = Duration::from_secs(10);

    /// Counts hosts per 100 ms slot.
    fn slots(hosts: impl Iterator<Item = String>, jitter: Jitter) -> Vec<usize> {
        let mut slots = vec![0; 34];
        for host in hosts {
            slots[jitter.delay(&host, TEN).as_millis() as usize / 100] += 1;
        }
        slots
    }

    #[test]
    fn two_hundred_hosts_spread_their_sends_and_each_keeps_its_own_delay() {
        let names: [fn(usize) -> String; 4] = [
            |n| format!("web-{n:03}"),
            |n| format!("ip-10-0-{}-{}.eu-central-1.compute.internal", n / 16, n % 16),
            |n| format!("shop-{:08x}-{n:05x}", n * 2_654_435_761),
            |n| n.to_string(),
        ];
        for name in names {
            let slots = slots((0..200).map(name), Jitter::Auto);
            let mean = 200.0 / 33.3;
            let most = *slots.iter().max().unwrap();
            assert!(most as f64 <= 3.0 * mean, "{most} of 200 in one of {slots:?}");
            let again = Jitter::Auto.delay(&name(17), TEN);
            assert_eq!(Jitter::Auto.delay(&name(17), TEN), again);
        }
    }

    #[test]
    fn the_window_is_a_third_of_the_period_or_as_configured() {
        let parse = |text: &str| serde_json::from_value::<Jitter>(json!(text)).unwrap();
        let hosts = || (0..1000).map(|n| format!("host{n}"));
        let longest = |jitter: Jitter| hosts().map(|host| jitter.delay(&host, TEN)).max().unwrap();
        assert!(longest(parse("auto")) < TEN / 3 && longest(parse("auto")) > TEN * 3 / 10);
        assert_eq!(longest(parse("0s")), Duration::ZERO);
        let of_a_day = |host: String| Jitter::Auto.delay(&host, Duration::from_secs(86_400));
        assert!(hosts().map(of_a_day).max().unwrap() <= AUTO_MAX);
        assert!(longest(parse("60s")) > Duration::from_secs(59));
        for bad in ["", "1", "never", "-1s"] {
            assert!(serde_json::from_value::<Jitter>(json!(bad)).is_err(), "{bad}");
        }
    }

    /// Builds a batch of one row, read at 1000 s, whose period ends at `end` s.
    fn batch(end: i64, fields: &[(&str, &str)]) -> Batch {
        let (grant, ledger) =
            (millstream_model::Grant::new(1 << 20), millstream_model::Ledger::new());
        let rows = [millstream_testkit::Rows { name: "f", text: b"x\n" }];
        let mut batch = millstream_testkit::batch(&rows, 100, &grant, &ledger);
        for (name, text) in fields {
            let mut column = millstream_model::ColumnBuilder::new(1);
            let is_number = text.parse::<f64>().is_ok();
            let kind = if is_number { CellKind::Int } else { CellKind::Text };
            let cell = column.push(kind, text.as_bytes());
            column.set(0, cell);
            batch.fields.set(column.finish((*name).into()));
        }
        batch.read_ns = 1_000_000_000_000;
        batch.time = Some(vec![end * 1_000_000_000].into());
        batch
    }

    #[test]
    fn metrics_are_delayed_from_the_end_of_their_period_and_logs_are_not() {
        let metric = [("name", "1"), ("value", "1"), ("interval", "10"), ("type", "counter")];
        let at_most = Jitter::Auto.delay("here", TEN);
        let delay = at_most.as_nanos() as i64;
        let hold = |end, fields: &[(&str, &str)]| {
            let hold = Jitter::Auto.hold(&batch(end, fields));
            assert!(hold.is_none_or(|hold| hold.at_most == at_most));
            hold.map(|hold| hold.until_ns)
        };
        assert_eq!(hold(1000, &metric), Some(1_000_000_000_000 + delay));
        assert_eq!(hold(990, &metric), Some(990_000_000_000 + delay));
        assert_eq!(hold(5000, &metric), Some(1_000_000_000_000 + delay), "a clock that is ahead");
        assert_eq!(hold(1000, &[]), None);
        assert_eq!(hold(1000, &metric[..2]), None);
        assert_eq!(Jitter::Over(Duration::ZERO).hold(&batch(1000, &metric)), None);
    }

    #[test]
    fn a_log_with_the_column_names_of_a_metric_is_not_delayed() {
        let named = [("name", "1"), ("value", "1"), ("interval", "86400"), ("type", "job")];
        let hold = |fields: &[(&str, &str)]| Jitter::Auto.hold(&batch(1000, fields));
        assert_eq!((hold(&named), hold(&named[..3])), (None, None));
        for kind in ["counter", "gauge", "distribution"] {
            assert!(hold(&[named[0], named[1], named[2], ("type", kind)]).is_some(), "{kind}");
        }
    }

    #[test]
    fn a_clock_set_back_does_not_extend_a_hold() {
        let hold = Hold { until_ns: 5_000_000_000, at_most: Duration::from_secs(3) };
        assert_eq!(hold.left(4_000_000_000), Duration::from_secs(1));
        assert_eq!(hold.left(-3_600_000_000_000), Duration::from_secs(3));
        assert_eq!(
            (hold.left(i64::MIN), hold.left(i64::MAX)),
            (Duration::from_secs(3), Duration::ZERO)
        );
    }
}
