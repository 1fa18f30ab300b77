//! The values of an agent: the latest responses, and rates since the previous responses.

use super::api::{
    Answer, Bottleneck, Component, Diagnosis, Files, Finding, Part, Snapshot, Transform,
};
use std::collections::BTreeMap;
use std::time::Instant;

/// Cause reported for a source when its sink's endpoint rejects events.
const REFUSES: &str = "endpoint_refuses";

/// Maximum difference between the uptime and the local time between two responses of the same run,
/// in seconds and as a share, because a response may arrive late.
const SLACK: (f64, f64) = (2.0, 0.1);

/// Responses of one interval; `None` for data that no view shows.
#[derive(Debug, Default)]
pub struct Polled {
    /// The snapshot, or the error from the connection to the agent.
    pub snapshot: Option<Result<Answer<Snapshot>, String>>,
    /// The diagnosis.
    pub diagnosis: Option<Part<Diagnosis>>,
    /// The bottleneck.
    pub bottleneck: Option<Part<Bottleneck>>,
    /// The files.
    pub files: Option<Answer<Files>>,
    /// The tasks.
    pub rules: Option<Answer<Vec<Transform>>>,
}

/// Rates of a component per second; `None` until two responses of the same run of the agent have
/// arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Events received.
    pub received: Option<f64>,
    /// Events sent.
    pub sent: Option<f64>,
    /// Bytes sent, or bytes received if none are sent.
    pub bytes: Option<f64>,
    /// Errors.
    pub errors: Option<f64>,
    /// Events dropped.
    pub dropped: Option<f64>,
}

/// The values of an agent.
#[derive(Debug, Default)]
pub struct Data {
    /// The latest snapshot; `None` before the first one.
    pub snapshot: Option<Answer<Snapshot>>,
    /// Time of the snapshot.
    taken: Option<Instant>,
    /// Reason why the last attempt failed.
    pub failure: Option<String>,
    /// Rates by kind and id.
    rates: BTreeMap<(String, String), Rates>,
    /// Share of a CPU that the agent uses.
    pub cpu: Option<f64>,
    /// The latest diagnosis.
    pub diagnosis: Part<Diagnosis>,
    /// The latest bottleneck.
    pub bottleneck: Part<Bottleneck>,
    /// The latest files.
    pub files: Option<Answer<Files>>,
    /// The latest tasks.
    pub rules: Option<Answer<Vec<Transform>>>,
}

impl Data {
    /// Processes responses. After a failure there are no rates until two responses have arrived,
    /// because the agent may have been restarted.
    pub fn take(&mut self, polled: Polled) {
        self.take_at(polled, Instant::now());
    }

    fn take_at(&mut self, polled: Polled, now: Instant) {
        match polled.snapshot {
            Some(Ok(next)) => self.advance(next, now),
            Some(Err(failure)) => self.failure = Some(failure),
            None => {}
        }
        self.diagnosis = polled.diagnosis.unwrap_or(std::mem::take(&mut self.diagnosis));
        self.bottleneck = polled.bottleneck.unwrap_or(std::mem::take(&mut self.bottleneck));
        self.files = polled.files.or(self.files.take());
        self.rules = polled.rules.or(self.rules.take());
    }

    fn advance(&mut self, next: Answer<Snapshot>, now: Instant) {
        let has_failed = self.failure.take().is_some();
        let before = self.snapshot.take().filter(|_| !has_failed);
        let elapsed = self.taken.replace(now).map(|then| (now - then).as_secs_f64());
        // A restarted agent may have a longer uptime than the previous agent.
        let is_same_run = |seconds: &f64| {
            let difference = (elapsed.unwrap_or_default() - seconds).abs();
            *seconds > 0.0 && difference <= SLACK.0 + SLACK.1 * seconds
        };
        let seconds = before
            .as_ref()
            .map(|before| next.value.uptime_seconds - before.value.uptime_seconds)
            .filter(is_same_run);
        self.rates.clear();
        self.cpu = None;
        if let (Some(before), Some(seconds)) = (before, seconds) {
            self.rates = rates(&before.value, &next.value, seconds);
            let cpu = |snapshot: &Snapshot| snapshot.cpu_seconds;
            let spent = cpu(&next.value).zip(cpu(&before.value)).map(|(now, then)| now - then);
            self.cpu = spent.filter(|spent| *spent >= 0.0).map(|spent| spent / seconds);
        }
        self.snapshot = Some(next);
    }

    /// Returns the rates of a component.
    pub fn rates(&self, component: &Component) -> Rates {
        let key = (component.kind.clone(), component.id.clone());
        self.rates.get(&key).copied().unwrap_or_default()
    }

    /// Returns the components.
    pub fn components(&self) -> &[Component] {
        self.snapshot.as_ref().map_or(&[], |snapshot| &snapshot.value.components)
    }

    /// Returns the diagnosis of a source.
    pub fn finding(&self, source: &str) -> Option<&Finding> {
        let diagnosis = self.diagnosis.known()?;
        diagnosis.sources.iter().find(|finding| finding.source == source)
    }

    /// Returns the diagnosis of a sink whose endpoint rejects events. The endpoint responds, so the
    /// sink has no failure.
    pub fn refusal(&self, sink: &str) -> Option<&Finding> {
        let sources = self.diagnosis.known()?.sources.iter();
        let mut causes = sources.flat_map(|found| std::iter::once(found).chain(&found.also));
        let is_meant = |found: &&Finding| {
            found.cause.as_deref() == Some(REFUSES) && found.component.as_deref() == Some(sink)
        };
        causes.find(is_meant)
    }

    /// Returns the number of late sources, if the agent reports it.
    pub fn late_sources(&self) -> Option<usize> {
        let diagnosis = self.diagnosis.known()?;
        Some(diagnosis.sources.iter().filter(|finding| finding.status == "late").count())
    }
}

fn rates(before: &Snapshot, next: &Snapshot, seconds: f64) -> BTreeMap<(String, String), Rates> {
    let key = |component: &Component| (component.kind.clone(), component.id.clone());
    let known: BTreeMap<_, _> =
        before.components.iter().map(|component| (key(component), component)).collect();
    let pairs = next
        .components
        .iter()
        .filter_map(|component| Some((known.get(&key(component))?, component)));
    pairs.map(|(before, next)| (key(next), rates_of(before, next, seconds))).collect()
}

/// Computes rates. A lower counter was reset, for example because a reload replaced the component.
fn rates_of(before: &Component, next: &Component, seconds: f64) -> Rates {
    let rate = |total: fn(&Component) -> u64| {
        let more = total(next).checked_sub(total(before))?;
        Some(more as f64 / seconds)
    };
    let sent_bytes = rate(|component| component.sent_bytes);
    let received_bytes = rate(|component| component.received_bytes);
    Rates {
        received: rate(|component| component.received_events),
        sent: rate(|component| component.sent_events),
        bytes: if next.sent_bytes > 0 { sent_bytes } else { received_bytes },
        errors: rate(|component| component.errors.values().sum()),
        dropped: rate(|component| component.dropped_events.values().sum()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    fn polled(uptime: f64, sent: u64) -> Polled {
        let json = json!({
            "uptime_seconds": uptime, "cpu_seconds": uptime / 2.0,
            "components": [{"id": "out", "kind": "sink", "type": "file", "sent_events": sent}],
        });
        let answer = Answer::parse(json.to_string().as_bytes());
        Polled { snapshot: Some(answer), ..Polled::default() }
    }

    fn sent(data: &Data) -> Option<f64> {
        data.rates(&data.components()[0]).sent
    }

    #[test]
    fn rates_need_two_answers_of_one_run() {
        let (mut data, start) = (Data::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs_f64(seconds);
        data.take_at(polled(10.0, 1000), start);
        assert_eq!((sent(&data), data.cpu), (None, None));
        data.take_at(polled(12.0, 1500), after(2.1));
        assert_eq!((sent(&data), data.cpu), (Some(250.0), Some(0.5)));
        // A restart that no request has noticed, followed by one with a long downtime.
        data.take_at(polled(0.5, 9000), after(3.0));
        assert_eq!((sent(&data), data.cpu), (None, None));
        data.take_at(polled(1.5, 9001), after(4.0));
        assert_eq!(sent(&data), Some(1.0));
        data.take_at(
            Polled { snapshot: Some(Err("refused".into())), ..Polled::default() },
            after(5.0),
        );
        assert_eq!((data.failure.as_deref(), sent(&data)), (Some("refused"), Some(1.0)));
        data.take_at(polled(500.0, 100_000), after(6.0));
        assert_eq!((data.failure.as_deref(), sent(&data)), (None, None));
        // A restart while no request was sent: the new run has a longer uptime than the previous
        // one.
        data.take_at(polled(900.0, 200_000), after(1006.0));
        assert_eq!((sent(&data), data.cpu), (None, None));
    }

    #[test]
    fn a_counter_that_was_reset_has_no_rate() {
        let (mut data, start) = (Data::default(), Instant::now());
        data.take_at(polled(10.0, 1000), start);
        data.take_at(polled(11.0, 3), start + Duration::from_secs(1));
        assert_eq!(sent(&data), None);
        assert_eq!(data.cpu, Some(0.5));
    }

    #[test]
    fn what_was_not_asked_for_stays() {
        let mut data = Data::default();
        let files = Answer { value: Files { total: 3, ..Files::default() }, json: json!({}) };
        data.take(Polled { files: Some(files), ..Polled::default() });
        data.take(Polled { diagnosis: Some(Part::Missing), ..polled(1.0, 1) });
        data.take(polled(2.0, 1));
        assert_eq!(data.files.map(|files| files.value.total), Some(3));
        assert!(matches!(data.diagnosis, Part::Missing));
    }
}
