//! Conditions over time, on made-up snapshots. `tests/e2e/diagnose` injects each cause into an
//! agent.

use super::{Cause, Diagnoser, SourceDiagnosis, Status};
use millstream_model::snapshot::{
    ComponentSnapshot, FailureSnapshot, FileSnapshot, HeldBackSnapshot, SinkProgress, Snapshot,
    WAITS_FOR_MEMORY,
};
use millstream_model::{CountersSnapshot, OriginTotals};

/// Number of bytes that may be read but not yet delivered.
const IN_FLIGHT: u64 = 2 << 20;

/// The `web` source, the `parse` transform and the `out` sink.
#[derive(Clone, Default)]
struct Agent {
    seconds: f64,
    workers: u64,
    source: ComponentSnapshot,
    parse: ComponentSnapshot,
    sink: ComponentSnapshot,
}

impl Agent {
    fn new() -> Agent {
        let component = |id: &str, kind, type_name, readers: &[&str]| ComponentSnapshot {
            id: id.to_owned(),
            kind,
            type_name,
            readers: readers.iter().map(|id| (*id).to_owned()).collect(),
            ..ComponentSnapshot::default()
        };
        Agent {
            workers: 2,
            source: component("web", "source", "file", &["parse"]),
            parse: component("parse", "transform", "parse", &["out"]),
            sink: component("out", "sink", "blackhole", &[]),
            ..Agent::default()
        }
    }

    fn lag(&mut self, lag: u64, oldest_seconds: f64) {
        let (lag_seconds, unsettled) = (oldest_seconds, lag.min(IN_FLIGHT));
        let progress =
            SinkProgress { sink: "out".into(), lag, unsettled, oldest_seconds, lag_seconds };
        self.source.sinks = vec![progress];
    }

    /// Passes 100 events through the agent.
    fn work(&mut self) {
        let pass = |counters: &mut CountersSnapshot| {
            counters.received_events += 100;
            counters.sent_events += 100;
        };
        [&mut self.source, &mut self.parse, &mut self.sink]
            .into_iter()
            .for_each(|component| pass(&mut component.counters));
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            uptime_seconds: self.seconds,
            worker_threads: self.workers,
            components: vec![self.source.clone(), self.parse.clone(), self.sink.clone()],
            ..Snapshot::default()
        }
    }

    /// Runs for this many seconds; `each` changes the agent once a second.
    fn run(&mut self, diagnoser: &mut Diagnoser, seconds: u32, each: impl Fn(&mut Agent)) {
        for _ in 0..seconds {
            self.seconds += 1.0;
            each(self);
            diagnoser.observe(self.snapshot(), (self.seconds * 1e9) as i64);
        }
    }
}

/// Returns the failure of a sink that has not delivered for `seconds`, with `span_seconds` between
/// the first and the last attempt.
fn failure(kind: &'static str, code: i64, seconds: f64, span_seconds: f64) -> FailureSnapshot {
    FailureSnapshot { kind, code, message: "refused".into(), seconds, span_seconds, attempts: 9 }
}

fn causes(diagnoser: &Diagnoser) -> Vec<Cause> {
    diagnoser.diagnosis().sources.iter().flat_map(|source| source.causes()).collect()
}

#[test]
fn a_busy_source_is_healthy_and_a_quiet_one_idle() {
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    agent.run(&mut diagnoser, 40, Agent::work);
    assert!(causes(&diagnoser).is_empty() && !diagnoser.diagnosis().late);
    assert_eq!(diagnoser.diagnosis().sources[0].status, Status::Healthy);
    assert_eq!(diagnoser.diagnosis().sources[0].sinks, ["out"], "downstream of the transform");
    assert_eq!(
        (&*diagnoser.bottleneck().reason, &diagnoser.bottleneck().component),
        ("input", &None)
    );
    agent.run(&mut diagnoser, 30, |_| ());
    assert_eq!(causes(&diagnoser), [Cause::NothingWritten]);
    assert_eq!(diagnoser.diagnosis().sources[0].status, Status::Idle);
    assert!(!diagnoser.diagnosis().late, "a quiet source is not late");
    agent.run(&mut diagnoser, 5, Agent::work);
    assert!(causes(&diagnoser).is_empty(), "it is written again");
}

#[test]
fn a_source_is_starting_until_every_cause_could_have_been_named() {
    let status = |diagnoser: &Diagnoser| {
        let sources = &diagnoser.diagnosis().sources;
        sources.iter().map(|source| source.status).collect::<Vec<_>>()
    };
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    agent.run(&mut diagnoser, 24, Agent::work);
    assert_eq!(status(&diagnoser), [Status::Starting]);
    assert!(!diagnoser.diagnosis().late, "nothing is known yet");
    agent.run(&mut diagnoser, 1, Agent::work);
    assert_eq!(status(&diagnoser), [Status::Healthy]);
    agent.source.id = "new".into();
    agent.run(&mut diagnoser, 1, Agent::work);
    assert_eq!(status(&diagnoser), [Status::Starting], "a reload has added it");
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    agent.source.unreadable = [("/a".to_owned(), "Permission denied".to_owned())].into();
    agent.run(&mut diagnoser, 6, Agent::work);
    assert_eq!(status(&diagnoser), [Status::Late], "a cause is known early");
}

#[test]
fn a_failing_sink_is_named_with_its_error_and_since_when() {
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    agent.sink.buffer_bytes = Some(1000);
    let fail = |seconds: f64, kind| Some(failure(kind, 0, seconds, seconds));
    agent.run(&mut diagnoser, 20, Agent::work);
    agent.run(&mut diagnoser, 8, |agent| {
        agent.work();
        agent.lag(1000, 1.0);
        agent.sink.failure = fail(agent.seconds - 20.0, "unreachable");
    });
    assert!(causes(&diagnoser).is_empty(), "a short outage is not named");
    agent.run(&mut diagnoser, 10, |agent| {
        agent.work();
        agent.lag(1000, 1.0);
        agent.sink.failure = fail(agent.seconds - 20.0, "unreachable");
    });
    let diagnosis = diagnoser.diagnosis();
    let named = &diagnosis.sources[0];
    assert_eq!((named.cause, named.status), (Some(Cause::EndpointUnreachable), Status::Late));
    assert_eq!(named.since.as_deref(), Some("1970-01-01T00:00:20.000Z"));
    assert_eq!(
        (named.component.as_deref(), &named.numbers["error"]),
        (Some("out"), &"refused".into())
    );
    let bottleneck = diagnoser.bottleneck();
    assert_eq!(
        (bottleneck.component.as_deref(), &*bottleneck.reason),
        (Some("out"), "endpoint_unreachable")
    );
    assert!(diagnosis.late && named.advice.as_ref().unwrap().contains("out"));
    agent.run(&mut diagnoser, 1, |agent| agent.sink.failure = fail(16.0, "authentication"));
    assert_eq!(causes(&diagnoser)[0], Cause::LoginOrCertificate, "the new error is named at once");
    agent.run(&mut diagnoser, 5, |agent| {
        agent.work();
        agent.sink.failure = None;
    });
    assert!(causes(&diagnoser).is_empty(), "it is over");
}

#[test]
fn the_pause_after_a_short_outage_is_no_failure() {
    let lasts = |attempts: fn(f64) -> f64| {
        let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
        agent.sink.buffer_bytes = Some(1000);
        agent.run(&mut diagnoser, 25, |agent| {
            agent.work();
            agent.lag(1000, 1.0);
            let seconds = agent.seconds;
            agent.sink.failure = Some(failure("status", 503, seconds, attempts(seconds)));
        });
        causes(&diagnoser)
    };
    assert!(lasts(|seconds| seconds.min(9.9)).is_empty(), "it waits for its next attempt");
    let pauses = |seconds| if seconds < 19.0 { 9.9 } else { 19.0 };
    assert_eq!(lasts(pauses), [Cause::EndpointRefuses], "the next attempt has failed, too");
}

#[test]
fn a_slow_sink_is_named_only_if_the_lag_lasts() {
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    let wait = |agent: &mut Agent| {
        *agent.source.capacity_wait_seconds.entry("out".into()).or_default() += 0.9;
        agent.work();
    };
    agent.run(&mut diagnoser, 20, |agent| {
        wait(agent);
        agent.lag(1 << 30, 3.0);
    });
    assert_eq!(causes(&diagnoser), [Cause::EndpointSlow]);
    let bottleneck = diagnoser.bottleneck();
    assert_eq!(bottleneck.component.as_deref(), Some("out"));
    assert!(bottleneck.confidence > 0.8 && bottleneck.line().contains("sink out"));
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    agent.run(&mut diagnoser, 20, |agent| {
        wait(agent);
        agent.lag((1 << 30) - (agent.seconds as u64) * (50 << 20), 3.0);
    });
    assert!(causes(&diagnoser).is_empty(), "a burst that is delivered within half a minute");
}

#[test]
fn the_most_expensive_transform_is_named_when_workers_are_busy() {
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    agent.run(&mut diagnoser, 20, |agent| {
        agent.work();
        agent.parse.counters.worker_seconds += 1.8;
        agent.source.counters.worker_seconds += 0.1;
        agent.lag(1 << 30, 1.0);
    });
    assert_eq!(causes(&diagnoser), [Cause::TransformSlow]);
    assert_eq!(diagnoser.bottleneck().component.as_deref(), Some("parse"));
}

#[test]
fn workers_that_read_and_encode_all_the_time_are_named() {
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    let encode = |agent: &mut Agent, lag| {
        agent.work();
        agent.sink.counters.worker_seconds += 1.6;
        agent.source.counters.worker_seconds += 0.2;
        agent.source.counters.received_bytes += 20 << 20;
        agent.lag(lag, 1.0);
    };
    agent.run(&mut diagnoser, 30, |agent| encode(agent, IN_FLIGHT));
    assert!(causes(&diagnoser).is_empty(), "all is delivered in time");
    agent.run(&mut diagnoser, 20, |agent| encode(agent, 1 << 30));
    assert_eq!(causes(&diagnoser), [Cause::WorkersBusy]);
    let source = &diagnoser.diagnosis().sources[0];
    assert_eq!((source.status, source.component.as_deref()), (Status::Late, Some("out")));
    assert_eq!(source.numbers["workers_busy_share"], 0.9);
    let bottleneck = diagnoser.bottleneck();
    assert_eq!((bottleneck.component.as_deref(), &*bottleneck.reason), (Some("out"), "encoding"));
    assert_eq!(bottleneck.confidence, 0.8);
}

#[test]
fn a_sink_that_waits_for_its_endpoint_is_not_busy() {
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    agent.run(&mut diagnoser, 40, |agent| {
        agent.work();
        agent.sink.counters.busy_seconds += 8.0;
        agent.sink.counters.worker_seconds += 0.1;
        agent.lag(1 << 30, 1.0);
    });
    assert!(causes(&diagnoser).is_empty());
    assert_eq!(&*diagnoser.bottleneck().reason, "input");
}

/// A source is read by one worker, however many workers there are.
#[test]
fn a_source_that_a_worker_reads_all_the_time_is_named() {
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    agent.workers = 16;
    agent.run(&mut diagnoser, 20, |agent| {
        agent.work();
        agent.source.counters.worker_seconds += 0.95;
        agent.parse.counters.worker_seconds += 0.5;
        agent.lag(1 << 30, 1.0);
    });
    assert_eq!(causes(&diagnoser), [Cause::WorkersBusy]);
    assert_eq!(diagnoser.diagnosis().sources[0].component.as_deref(), Some("web"));
    let bottleneck = diagnoser.bottleneck();
    assert_eq!((bottleneck.component.as_deref(), &*bottleneck.reason), (Some("web"), "source"));
    assert_eq!(bottleneck.confidence, 0.95);
    assert!(bottleneck.advice.contains("divide its files"), "{}", bottleneck.advice);
}

/// A sink may have any id, even the id of a limit.
#[test]
fn a_slow_sink_called_memory_is_not_the_memory_limit() {
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    agent.sink.id = "memory".into();
    agent.parse.readers = vec!["memory".into()];
    let waits = |agent: &mut Agent, what: &str| {
        agent.work();
        *agent.source.capacity_wait_seconds.entry(what.into()).or_default() += 0.9;
        agent.lag(1 << 30, 3.0);
    };
    agent.run(&mut diagnoser, 20, |agent| waits(agent, "memory"));
    assert_eq!(causes(&diagnoser), [Cause::EndpointSlow]);
    assert_eq!(&*diagnoser.bottleneck().reason, "endpoint");
    agent.run(&mut diagnoser, 30, |agent| waits(agent, WAITS_FOR_MEMORY));
    assert_eq!(causes(&diagnoser), [Cause::MemoryLimit]);
    assert_eq!(&*diagnoser.bottleneck().reason, "memory_limit");
}

#[test]
fn a_small_share_of_odd_lines_is_not_named() {
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    let odd = |agent: &mut Agent, events: u64| {
        agent.work();
        *agent.parse.counters.noted_events.entry("bad_time").or_default() += events;
        let totals = agent.source.totals.get_or_insert_with(OriginTotals::default);
        totals.misfits += events;
    };
    agent.run(&mut diagnoser, 20, |agent| odd(agent, 1));
    assert!(causes(&diagnoser).is_empty());
    agent.run(&mut diagnoser, 20, |agent| odd(agent, 10));
    assert_eq!(causes(&diagnoser), [Cause::ParseFailures, Cause::MultilineMismatch]);
    assert_eq!(diagnoser.diagnosis().sources[0].status, Status::Degraded);
}

#[test]
fn bytes_at_rest_behind_the_last_line_end_are_an_unfinished_line() {
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    let file = |position, size| FileSnapshot {
        file_id: "1".into(),
        name: "/var/log/a.log".into(),
        path: "/var/log/a.log".into(),
        status: "active",
        position,
        size,
        ..FileSnapshot::default()
    };
    agent.run(&mut diagnoser, 20, |agent| {
        agent.work();
        agent.source.files = vec![file(100, 100 + agent.seconds as u64)];
    });
    assert!(causes(&diagnoser).is_empty(), "the file still grows");
    agent.run(&mut diagnoser, 12, |agent| {
        agent.source.files = vec![file(100, 130)];
        agent.lag(30, 0.0);
    });
    assert_eq!(causes(&diagnoser), [Cause::UnfinishedLine]);
    assert_eq!(diagnoser.diagnosis().sources[0].numbers["unfinished_bytes"], 30);
}

#[test]
fn old_times_are_late_writes_only_while_the_file_is_read_as_it_grows() {
    let grow = |delay: f64, unread: u64| {
        let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
        agent.run(&mut diagnoser, 25, |agent| {
            agent.work();
            let size = 1_000_000 + 100 * agent.seconds as u64;
            agent.source.files = vec![FileSnapshot {
                file_id: "1".into(),
                status: "active",
                position: size - unread,
                size,
                log_delay_seconds: Some(delay),
                ..FileSnapshot::default()
            }];
        });
        causes(&diagnoser)
    };
    assert_eq!(grow(200.0, 0), [Cause::ApplicationWritesLate]);
    assert_eq!(grow(7203.0, 0), [Cause::ClockOff], "two hours are a time zone");
    assert_eq!(grow(-40.0, 0), [Cause::ClockOff]);
    assert_eq!(grow(2.0, 0), []);
    assert_eq!(grow(200.0, 500_000), [], "it is read late");
}

/// Returns the causes for an agent whose transform has this type, processes 100 events per second,
/// and counts this many of them under each note.
fn noting(type_name: &'static str, notes: &[(&'static str, u64)]) -> (Vec<Cause>, Diagnoser) {
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    agent.parse.type_name = type_name;
    agent.run(&mut diagnoser, 30, |agent| {
        agent.work();
        for (note, events) in notes {
            *agent.parse.counters.noted_events.entry(note).or_default() += events;
        }
    });
    (causes(&diagnoser), diagnoser)
}

#[test]
fn an_operator_that_fails_for_a_fifth_of_the_events_is_named_with_the_reason() {
    let (named, diagnoser) = noting("jvm", &[("exception", 20), ("output_full", 70)]);
    assert_eq!(named, [Cause::OperatorFails]);
    let source = &diagnoser.diagnosis().sources[0];
    assert_eq!((source.status, source.component.as_deref()), (Status::Degraded, Some("parse")));
    assert_eq!(source.numbers["reason"], "output_full");
    assert_eq!(source.numbers["failed_share"], 0.9);
    assert_eq!(noting("jvm", &[("exception", 19)]).0, [], "a few may fail");
    assert_eq!(noting("fields", &[("exception", 100)]).0, [], "it is no operator");
}

#[test]
fn a_condition_without_a_result_for_any_event_is_named() {
    for type_name in ["filter", "jvm"] {
        let (named, diagnoser) = noting(type_name, &[("missing_field", 60), ("type_error", 40)]);
        assert_eq!(named, [Cause::ConditionHasNoResult], "{type_name}");
        assert_eq!(diagnoser.diagnosis().sources[0].numbers["reason"], "missing_field");
        assert_eq!(noting(type_name, &[("missing_field", 99)]).0, [], "one event has a result");
    }
    assert_eq!(noting("route", &[("missing_field", 200)]).0, [], "another route may have one");
    let named = noting("route", &[("missing_field", 200), ("no_result", 100)]).0;
    assert_eq!(named, [Cause::ConditionHasNoResult]);
}

#[test]
fn few_events_without_a_result_say_nothing_of_a_condition() {
    let each = |events: u64| {
        move |agent: &mut Agent| {
            agent.parse.counters.received_events += events;
            agent.source.counters.received_events += events;
            *agent.parse.counters.noted_events.entry("missing_field").or_default() += events;
        }
    };
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    agent.parse.type_name = "filter";
    agent.run(&mut diagnoser, 40, each(2));
    assert_eq!(causes(&diagnoser), [], "80 events may be the other ones of a mixed log");
    agent.run(&mut diagnoser, 30, each(2));
    assert_eq!(causes(&diagnoser), [Cause::ConditionHasNoResult], "it never had a result");
    agent.run(&mut diagnoser, 5, |agent| {
        agent.parse.counters.received_events += 1;
        agent.source.counters.received_events += 1;
    });
    assert_eq!(causes(&diagnoser), [], "it has had one");
}

#[test]
fn long_pauses_for_a_low_rate_limit_are_late_although_no_lag_is_seen() {
    let pausing = |every: u32| -> (Vec<Cause>, Option<f64>) {
        let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
        agent.run(&mut diagnoser, 40, |agent| {
            if (agent.seconds as u32).is_multiple_of(every) {
                agent.work();
                *agent.source.counters.wait_seconds.entry("rate_limit").or_default() +=
                    f64::from(every) * 0.9;
            }
        });
        let numbers = &diagnoser.diagnosis().sources[0].numbers;
        let pause = numbers.get("longest_pause_seconds").and_then(|pause| pause.as_f64());
        (causes(&diagnoser), pause)
    };
    assert_eq!(pausing(6), (vec![Cause::RateLimit], Some(5.4)));
    assert_eq!(pausing(2), (vec![], None), "short pauses delay nothing for long");
}

#[test]
fn a_pause_for_a_rate_limit_counts_while_it_lasts() {
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    agent.run(&mut diagnoser, 30, Agent::work);
    agent.run(&mut diagnoser, 100, |agent| {
        let seconds = agent.seconds - 30.0;
        agent.source.held_back = Some(HeldBackSnapshot { limit: "rate_limit", seconds });
    });
    let diagnosis = diagnoser.diagnosis();
    assert_eq!(causes(&diagnoser), [Cause::RateLimit], "it is not idle");
    assert_eq!(diagnosis.sources[0].numbers["longest_pause_seconds"], 100.0);
    assert_eq!(diagnosis.sources[0].numbers["held_back_share"], 1.0);
    assert_eq!(diagnoser.bottleneck().reason, "rate_limit");
    agent.source.held_back = None;
    agent.source.counters.wait_seconds.insert("rate_limit", 100.0);
    agent.run(&mut diagnoser, 2, Agent::work);
    let numbers = &diagnoser.diagnosis().sources[0].numbers;
    assert_eq!(numbers["held_back_share"].as_f64().map(|share| share < 1.0), Some(true));
}

#[test]
fn events_that_were_refused_or_failed_are_named_with_the_last_error() {
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    agent.parse.counters.last_error = Some("no date".to_owned());
    agent.sink.counters.last_error = Some("responded 400".to_owned());
    agent.run(&mut diagnoser, 30, |agent| {
        agent.work();
        *agent.parse.counters.noted_events.entry("no_match").or_default() += 100;
        *agent.sink.counters.errors.entry("refused").or_default() += 1;
    });
    let source = &diagnoser.diagnosis().sources[0];
    assert_eq!(causes(&diagnoser), [Cause::EndpointRefuses, Cause::ParseFailures]);
    assert_eq!(source.numbers["error"], "responded 400");
    assert_eq!(source.also[0].numbers["error"], "no date");
}

/// A sink whose oldest event is 20 s old.
struct Overdue {
    sink: &'static str,
    sent: u64,
    refused: u64,
    accepted: u64,
    in_flight: f64,
    waiting_batches: u64,
}

const OVERDUE: Overdue =
    Overdue { sink: "out", sent: 0, refused: 0, accepted: 0, in_flight: 1.0, waiting_batches: 0 };

impl Overdue {
    fn diagnoser(&self) -> Diagnoser {
        let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
        agent.sink.buffer_bytes = Some(1000);
        agent.parse.waiting_batches = Some(self.waiting_batches);
        agent.run(&mut diagnoser, 30, |agent| {
            agent.source.counters.received_events += 100;
            agent.lag(1000, 20.0);
            agent.source.sinks[0].sink = self.sink.into();
            let counters = &mut agent.sink.counters;
            counters.sent_events += self.sent;
            counters.accepted_events += self.accepted;
            *counters.errors.entry("refused").or_default() += self.refused;
            *counters.wait_seconds.entry("endpoint").or_default() += self.in_flight;
        });
        diagnoser
    }

    fn causes(&self) -> Vec<Cause> {
        causes(&self.diagnoser())
    }
}

#[test]
fn a_sink_is_slow_for_its_own_events_that_wait_at_its_endpoint_only() {
    assert_eq!(OVERDUE.causes(), [Cause::EndpointSlow]);
    let refusing = Overdue { refused: 1, ..OVERDUE };
    assert_eq!(refusing.causes()[0], Cause::EndpointRefuses, "a refusal is an answer");
    assert_eq!(
        Overdue { sink: "other", ..OVERDUE }.causes(),
        [],
        "another sink has the old events"
    );
    assert_eq!(Overdue { in_flight: 0.1, ..OVERDUE }.causes(), [], "it fills a batch");
    let slow = Overdue { sent: 1, ..OVERDUE };
    assert_eq!(slow.causes(), [Cause::EndpointSlow], "it answers late");
    let behind = Overdue { sent: 1, waiting_batches: 1, ..OVERDUE };
    assert_eq!(behind.causes(), [], "they may wait at the transform");
}

#[test]
fn a_sink_whose_endpoint_refuses_all_is_the_bottleneck_and_one_that_accepts_some_is_degraded() {
    let advice = |source: &SourceDiagnosis| source.advice.clone().unwrap_or_default();
    let all = Overdue { refused: 1, in_flight: 0.01, ..OVERDUE }.diagnoser();
    let source = &all.diagnosis().sources[0];
    assert_eq!(
        (source.status, source.numbers["delivered_events"].as_u64()),
        (Status::Late, Some(0))
    );
    assert!(advice(source).contains("rejects everything that out sends"), "{source:?}");
    let bottleneck = all.bottleneck();
    assert_eq!(
        (bottleneck.component.as_deref(), &*bottleneck.reason),
        (Some("out"), "endpoint_refuses")
    );
    // Other events in the same batches are accepted, so that no batch is settled.
    let some = Overdue { refused: 1, accepted: 5, in_flight: 0.1, ..OVERDUE }.diagnoser();
    let source = &some.diagnosis().sources[0];
    assert_eq!((source.status, source.cause), (Status::Degraded, Some(Cause::EndpointRefuses)));
    assert_eq!(source.numbers["delivered_events"].as_f64().map(|events| events > 0.0), Some(true));
    assert!(!advice(source).contains("rejects everything"), "{source:?}");
}

#[test]
fn a_sink_that_fails_is_named_before_a_limit_and_by_its_cause() {
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    agent.sink.buffer_bytes = Some(1000);
    agent.run(&mut diagnoser, 60, |agent| {
        agent.work();
        agent.lag(100_000, agent.seconds);
        let seconds = agent.seconds;
        let kind = "authentication";
        agent.sink.failure = Some(failure(kind, 401, seconds, seconds));
        let waits = &mut agent.source.counters.wait_seconds;
        *waits.entry("throttle").or_default() += 0.4;
        *agent.source.capacity_wait_seconds.entry("out".to_owned()).or_default() += 0.3;
    });
    assert_eq!(causes(&diagnoser), [Cause::LoginOrCertificate], "it catches up to its limit");
    let bottleneck = diagnoser.bottleneck();
    assert_eq!(bottleneck.component.as_deref(), Some("out"));
    assert_eq!(bottleneck.reason, "login_or_certificate");
}

#[test]
fn requests_that_succeed_at_another_attempt_are_named_only_if_events_are_late() {
    let failing = |lag: u64, oldest_seconds: f64| {
        let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
        agent.sink.buffer_bytes = Some(1000);
        agent.run(&mut diagnoser, 40, |agent| {
            agent.work();
            agent.lag(lag, oldest_seconds);
            *agent.sink.counters.errors.entry("throttled").or_default() += 1;
        });
        causes(&diagnoser)
    };
    assert_eq!(failing(1000, 1.0), [], "all is delivered in time");
    assert_eq!(failing(1 << 20, 20.0), [Cause::BrokerThrottles]);
}

#[test]
fn a_rate_limit_is_over_once_the_source_has_caught_up() {
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    agent.run(&mut diagnoser, 40, |agent| {
        agent.work();
        agent.lag(1 << 20, 20.0);
        *agent.source.counters.wait_seconds.entry("rate_limit").or_default() += 0.9;
    });
    assert_eq!(causes(&diagnoser), [Cause::RateLimit]);
    agent.run(&mut diagnoser, 5, |agent| agent.lag(0, 0.0));
    for second in 0..30 {
        agent.run(&mut diagnoser, 1, |agent| agent.lag(0, 0.0));
        let named = causes(&diagnoser);
        assert!(!named.contains(&Cause::RateLimit), "{second} s later: {named:?}");
    }
}

#[test]
fn a_sink_of_several_sources_has_their_invalid_bytes_together() {
    let with_invalid = |share: f64, others: bool| {
        let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
        let mut other = agent.source.clone();
        other.id = "other".into();
        for second in 0..30 {
            agent.seconds = f64::from(second);
            agent.source.counters.received_events += 3;
            agent.sink.counters.received_events += 1000;
            let invalid = agent.sink.counters.noted_events.entry("invalid_utf8").or_default();
            *invalid += (1000.0 * share) as u64;
            let mut snapshot = agent.snapshot();
            snapshot.components.extend(others.then(|| other.clone()));
            diagnoser.observe(snapshot, 0);
        }
        let source = &diagnoser.diagnosis().sources[0];
        (source.cause, source.component.clone(), source.advice.clone())
    };
    assert_eq!(with_invalid(0.01, true).0, None, "few of the events of the sink");
    let (cause, component, advice) = with_invalid(0.05, true);
    assert_eq!((cause, component.as_deref()), (Some(Cause::WrongEncoding), Some("out")));
    assert!(advice.unwrap().contains("the source before out"));
    assert_eq!(with_invalid(0.05, false).1.as_deref(), Some("web"), "it is the only one");
}

#[test]
fn a_source_of_a_server_is_late_by_its_present_error() {
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    agent.source.type_name = "kafka";
    agent.source.counters.errors.insert("authorization", 3);
    agent.source.unreadable.insert("group".into(), "cannot reach Kafka".into());
    let diagnosis = |diagnoser: &mut Diagnoser, agent: &mut Agent, error| {
        agent.source.unreadable_error = Some(error);
        agent.run(diagnoser, 20, |_| ());
        causes(diagnoser)
    };
    assert_eq!(diagnosis(&mut diagnoser, &mut agent, "unreachable"), [Cause::EndpointUnreachable]);
    assert_eq!(diagnoser.diagnosis().sources[0].numbers["error"], "cannot reach Kafka");
    assert_eq!(
        diagnosis(&mut diagnoser, &mut agent, "unknown_topic"),
        [Cause::TopicOrIndexMissing]
    );
    let advice = diagnoser.diagnosis().sources[0].advice.as_deref();
    assert_eq!(advice, Some("create the topic that web reads, or correct its `topics`"));
    assert_eq!(diagnosis(&mut diagnoser, &mut agent, "broker"), [Cause::EndpointRefuses]);
    agent.source.unreadable.clear();
    agent.source.unreadable_error = None;
    agent.run(&mut diagnoser, 20, |_| ());
    assert_eq!(causes(&diagnoser), [Cause::NothingWritten]);
}

#[test]
fn one_refused_event_of_a_quiet_sink_is_no_bottleneck() {
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    agent.run(&mut diagnoser, 30, |agent| agent.source.counters.received_events += 100);
    *agent.sink.counters.errors.entry("refused").or_default() += 1;
    agent.run(&mut diagnoser, 1, |_| ());
    assert_eq!(diagnoser.bottleneck().reason, "input");
    *agent.sink.counters.errors.entry("refused").or_default() += 100;
    agent.run(&mut diagnoser, 1, |_| ());
    assert_eq!(diagnoser.bottleneck().reason, "endpoint_refuses");
}

#[test]
fn a_sink_whose_requests_time_out_is_slow_before_the_second_one_does() {
    let (mut agent, mut diagnoser) = (Agent::new(), Diagnoser::default());
    agent.sink.buffer_bytes = Some(1000);
    agent.run(&mut diagnoser, 100, |agent| {
        agent.source.counters.received_events += 1;
        agent.lag(1000, agent.seconds);
        *agent.sink.counters.wait_seconds.entry("endpoint").or_default() += 1.0;
        let since = agent.seconds - 60.0;
        agent.sink.failure = (since > 0.0).then(|| failure("timeout", 0, since, 0.0));
    });
    assert_eq!(causes(&diagnoser), [Cause::EndpointSlow]);
}
