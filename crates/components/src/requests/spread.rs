//! No herd: periods of metrics end on all hosts at the same moment; each host sends a while later,
//! always the same while.

use millstream_model::{Batch, Interval};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::borrow::Cow;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// Part of a period over which `auto` spreads hosts: all of them have sent long before the next
/// one.
const AUTO_PARTS: u32 = 3;

/// The longest time over which `auto` spreads hosts: enough for any number of them, and metrics of
/// a long period are not old when they come.
const AUTO_MAX: Duration = Duration::from_secs(60);

/// Over what time after the end of a period hosts spread their metrics: `auto`, which is a third of
/// the period and a minute at most, `0s`, which is not at all, or a duration. Logs are never held
/// back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Cow<'_, str>")]
pub enum Spread {
    /// A third of the period, a minute at most.
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
    /// How long after the end of a period of `interval` this host sends: stable per host, and even
    /// over all of them.
    pub fn delay(self, host: &str, interval: Duration) -> Duration {
        let over = match self {
            Spread::Auto => (interval / AUTO_PARTS).min(AUTO_MAX),
            Spread::Over(over) => over,
        };
        let part = xxh3_64(host.as_bytes()) as f64 / 2f64.powi(64);
        over.mul_f64(part)
    }

    /// Until when a batch is held back; `None` if it brings no metrics of a period.
    ///
    /// A period that says it ends later than it was read does not hold anything back for longer
    /// than the spread.
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
    /// Until then on the wall clock, in nanoseconds since 1970.
    pub until_ns: i64,
    /// But no longer than this: the clock may be set back meanwhile.
    pub at_most: Duration,
}

impl Hold {
    /// How much of it is left at this time on the wall clock, in nanoseconds since 1970.
    pub fn left(self, now_ns: i64) -> Duration {
        let left = u64::try_from(self.until_ns.saturating_sub(now_ns)).unwrap_or_default();
        Duration::from_nanos(left).min(self.at_most)
    }
}

/// Values of `type` that metrics have: a log may well have columns named like the others.
const TYPES: [&[u8]; 3] = [b"counter", b"gauge", b"distribution"];

/// How long the period is that a batch of metrics is of, and when it ended: as its first row says.
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

    /// Hosts per 100 ms.
    fn slots(hosts: impl Iterator<Item = String>, spread: Spread) -> Vec<usize> {
        let mut slots = vec![0; 34];
        for host in hosts {
            slots[spread.delay(&host, TEN).as_millis() as usize / 100] += 1;
        }
        slots
    }

    #[test]
    fn two_hundred_hosts_do_not_send_at_once_and_each_sends_at_its_own_time() {
        let names: [fn(usize) -> String; 4] = [
            |n| format!("web-{n:03}"),
            |n| format!("ip-10-0-{}-{}.eu-central-1.compute.internal", n / 16, n % 16),
            |n| format!("shop-{:08x}-{n:05x}", n * 2_654_435_761),
            |n| n.to_string(),
        ];
        for name in names {
            let slots = slots((0..200).map(name), Spread::Auto);
            let mean = 200.0 / 33.3;
            let most = *slots.iter().max().unwrap();
            assert!(most as f64 <= 3.0 * mean, "{most} of 200 in one of {slots:?}");
            let again = Spread::Auto.delay(&name(17), TEN);
            assert_eq!(Spread::Auto.delay(&name(17), TEN), again);
        }
    }

    #[test]
    fn the_spread_is_a_third_of_the_period_or_what_the_user_says() {
        let of = |text: &str| serde_json::from_value::<Spread>(json!(text)).unwrap();
        let hosts = || (0..1000).map(|n| format!("host{n}"));
        let longest = |spread: Spread| hosts().map(|host| spread.delay(&host, TEN)).max().unwrap();
        assert!(longest(of("auto")) < TEN / 3 && longest(of("auto")) > TEN * 3 / 10);
        assert_eq!(longest(of("0s")), Duration::ZERO);
        let of_a_day = |host: String| Spread::Auto.delay(&host, Duration::from_secs(86_400));
        assert!(hosts().map(of_a_day).max().unwrap() <= AUTO_MAX);
        assert!(longest(of("60s")) > Duration::from_secs(59));
        for bad in ["", "1", "never", "-1s"] {
            assert!(serde_json::from_value::<Spread>(json!(bad)).is_err(), "{bad}");
        }
    }

    /// A batch of one row, read at 1000 s, that ends its period at `end` s.
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
    fn metrics_wait_from_the_end_of_their_period_and_logs_do_not_wait() {
        let metric = [("name", "1"), ("value", "1"), ("interval", "10"), ("type", "counter")];
        let at_most = Spread::Auto.delay("here", TEN);
        let delay = at_most.as_nanos() as i64;
        let of = |end, fields: &[(&str, &str)]| {
            let hold = Spread::Auto.hold(&batch(end, fields));
            assert!(hold.is_none_or(|hold| hold.at_most == at_most));
            hold.map(|hold| hold.until_ns)
        };
        assert_eq!(of(1000, &metric), Some(1_000_000_000_000 + delay));
        assert_eq!(of(990, &metric), Some(990_000_000_000 + delay));
        assert_eq!(of(5000, &metric), Some(1_000_000_000_000 + delay), "a clock that is ahead");
        assert_eq!(of(1000, &[]), None);
        assert_eq!(of(1000, &metric[..2]), None);
        assert_eq!(Spread::Over(Duration::ZERO).hold(&batch(1000, &metric)), None);
    }

    #[test]
    fn a_log_with_columns_named_like_those_of_a_metric_is_none() {
        let named = [("name", "1"), ("value", "1"), ("interval", "86400"), ("type", "job")];
        let of = |fields: &[(&str, &str)]| Spread::Auto.hold(&batch(1000, fields));
        assert_eq!((of(&named), of(&named[..3])), (None, None));
        for kind in ["counter", "gauge", "distribution"] {
            assert!(of(&[named[0], named[1], named[2], ("type", kind)]).is_some(), "{kind}");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_holds_nothing_for_longer_than_the_spread() {
        let hold = Hold { until_ns: 5_000_000_000, at_most: Duration::from_secs(3) };
        assert_eq!(hold.left(4_000_000_000), Duration::from_secs(1));
        assert_eq!(hold.left(-3_600_000_000_000), Duration::from_secs(3));
        assert_eq!(
            (hold.left(i64::MIN), hold.left(i64::MAX)),
            (Duration::from_secs(3), Duration::ZERO)
        );
    }
}
