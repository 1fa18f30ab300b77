//! Metrics of the collectors of `jvm` sources.

use crate::prometheus::text::Text;
use millstream_jvm::{CollectorSnapshot, CollectorsSnapshot};

/// Name, help and accessor of a collector counter.
type Of = (&'static str, &'static str, fn(&CollectorSnapshot) -> u64);

const COUNTERS: [Of; 4] = [
    ("millstream_collector_calls_total", "Calls of the collector.", |collector| collector.calls),
    (
        "millstream_collector_failures_total",
        "Calls of the collector that threw an exception or exceeded their timeout.",
        |collector| collector.failures,
    ),
    (
        "millstream_collector_missed_total",
        "Intervals without a call because the previous call took too long.",
        |collector| collector.missed,
    ),
    ("millstream_collector_events_total", "Events of the collector.", |collector| collector.events),
];

/// Writes each collector's counters, and the total number of collector threads.
pub fn metrics(text: &mut Text<'_>, snapshot: &CollectorsSnapshot) {
    for (name, help, figure) in COUNTERS {
        text.family(name, "counter", help);
        for collector in &snapshot.collectors {
            text.sample(name, &labels(collector), figure(collector));
        }
    }
    let help = "Threads that run collectors.";
    text.single("millstream_collector_threads", "gauge", help, snapshot.threads);
}

fn labels(collector: &CollectorSnapshot) -> [(&'static str, &str); 3] {
    let id = ("component_id", collector.component.as_str());
    [id, ("component_type", "jvm"), ("component_kind", "source")]
}

#[cfg(test)]
mod tests {
    use crate::config::ConfigState;
    use crate::diagnosis::Diagnosis;
    use crate::process::ProcessStats;
    use crate::prometheus::prometheus;
    use crate::snapshot::{AgentSnapshot, Sections};
    use millstream_jvm::{CollectorSnapshot, CollectorsSnapshot};

    #[test]
    fn each_collector_has_its_counters() {
        let collector = |component: &str, calls: u64| CollectorSnapshot {
            component: component.to_owned(),
            calls,
            failures: 2,
            missed: 3,
            events: 4,
            ..CollectorSnapshot::default()
        };
        let collectors = vec![collector("a", 1), collector("b", 9)];
        let collectors = CollectorsSnapshot { threads: 5, threads_max: 16, collectors };
        let sections = Sections { collectors: Some(collectors), ..Sections::default() };
        let snapshot = AgentSnapshot { sections, ..AgentSnapshot::default() };
        let config = ConfigState::new(1);
        let text = prometheus(
            &snapshot,
            &Diagnosis::default(),
            &ProcessStats::default(),
            "1.2.3",
            &config,
        );
        for line in [
            r#"calls_total{component_id="a",component_type="jvm",component_kind="source"} 1"#,
            r#"calls_total{component_id="b",component_type="jvm",component_kind="source"} 9"#,
            r#"failures_total{component_id="a",component_type="jvm",component_kind="source"} 2"#,
            r#"missed_total{component_id="a",component_type="jvm",component_kind="source"} 3"#,
            r#"events_total{component_id="a",component_type="jvm",component_kind="source"} 4"#,
            "threads 5",
        ] {
            let line = format!("\nmillstream_collector_{line}\n");
            assert!(text.contains(&line), "{line} in {text}");
        }
        assert_eq!(text.matches("# TYPE millstream_collector_calls_total counter\n").count(), 1);
    }
}
