//! Measures topics as input: the agent reads spans from a real Kafka, compared with librdkafka
//! alone and a consumer in Java.

pub mod bare;
mod bulk;
mod spans;

use crate::Options;
use crate::header::Header;
use crate::measure::{Samples, progress};
use crate::plot::Bars;
use crate::process::{AGENT, Program, Subject};
use crate::report::{Report, Table};
use crate::scratch::{Input, Scratch};
use crate::variables::Variables;
use bulk::BulkServer;
use millstream_testkit_servers::kafka::{Kafka, KafkaOptions};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use spans::Spans;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of records in the topic.
const RECORDS: u64 = 2_000_000;
/// Number of records that the Java program reads in each state; its slow states take long.
const RECORDS_JAVA: [u64; STATES] = [300_000, 600_000, 1_000_000, 2_000_000, 2_000_000];
/// Number of Java program states.
const STATES: usize = 5;
const PARTITIONS: i32 = 4;
/// Name of the limit that only reads.
const READ: &str = "read";
/// Name of the limit that reads and writes.
const COPY: &str = "copy";
/// Folder in which `scripts/bench-peers` builds the Java program.
const CONSUMER: &str = "bench/consumer/target";
const COLUMNS: &[&str] = &[
    "program",
    "records",
    "CPU s",
    "min",
    "max",
    "without records",
    "records per CPU s",
    "of the limit",
    "target",
    "wall s",
    "peak RSS MB",
    "verdict",
];

/// A program with the results of its repetitions.
struct Side<'a> {
    subject: Subject<'a>,
    /// Scenario of the agent; `None` for other programs.
    scenario: Option<&'a Header>,
    topic: String,
    records: u64,
    full: Samples,
    empty: Samples,
    wall: Samples,
    rss_mb: Samples,
}

/// State that all runs share.
struct Bench<'a> {
    options: &'a Options,
    scratch: &'a Scratch,
    kafka: Kafka,
    server: BulkServer,
    runs: usize,
}

/// Measures the scenarios in `names`, or all scenarios and the Java program.
pub fn run(
    options: &Options,
    names: &[String],
    scratch: &Scratch,
    report: &mut Report,
) -> io::Result<()> {
    let scenarios = Header::read_folder(&options.folder.join("topics"), names)?;
    let kafka = Kafka::with(KafkaOptions::bench(&options.load_core.to_string()));
    let server = BulkServer::start(options.load_core)?;
    let mut bench = Bench { options, scratch, kafka, server, runs: 0 };
    bench.fill("empty", 0)?;
    bench.fill("spans", RECORDS)?;
    let mut sides = bench.sides(&scenarios)?;
    if names.is_empty() {
        sides.extend(bench.java_sides()?);
    }
    for repetition in 1..=options.repetitions {
        for side in &mut sides {
            progress(&format!("topics: {}, repetition {repetition}", side.subject.name));
            bench.repeat(side)?;
        }
    }
    report.add(table(options, &sides)?)?;
    plot(&sides, report)
}

impl<'a> Bench<'a> {
    /// Creates a topic with `records` records.
    fn fill(&self, topic: &str, records: u64) -> io::Result<()> {
        progress(&format!("topics: writing {records} records"));
        self.kafka.create_topic(topic, PARTITIONS);
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.kafka.bootstrap()).set("linger.ms", "50");
        config.set("queue.buffering.max.messages", "200000");
        let producer: BaseProducer = config.create().map_err(io::Error::other)?;
        let (mut spans, mut text) = (Spans::new(19), Vec::new());
        for number in 0..records {
            text.clear();
            spans.write(&mut text)?;
            let mut record = BaseRecord::<(), [u8]>::to(topic).payload(&text);
            // Writes batches to the partitions in turn, as a producer without keys does.
            record.partition = Some((number / 500) as i32 % PARTITIONS);
            while let Err((_, back)) = producer.send(record) {
                producer.poll(Duration::from_millis(10));
                record = back;
            }
        }
        producer.flush(Duration::from_secs(120)).map_err(io::Error::other)
    }

    /// Returns the limits and the agent's scenarios.
    fn sides(&self, scenarios: &'a [Header]) -> io::Result<Vec<Side<'a>>> {
        let own = std::env::current_exe()?;
        let bare = |name, arguments: &str| {
            let run =
                format!("{} consume ${{BENCH_BROKER}} ${{BENCH_TOPIC}} {arguments}", own.display());
            Side::new(Subject { name, run, until: "", env: "", config: "" }, RECORDS)
        };
        let mut sides = vec![bare(READ, ""), bare(COPY, "--to ${BENCH_TO}")];
        for scenario in scenarios {
            let mut subject = Subject::agent(&self.options.agent, "--until-eof", scenario);
            subject.name = &scenario.name;
            sides.push(Side { scenario: Some(scenario), ..Side::new(subject, RECORDS) });
        }
        Ok(sides)
    }

    /// Returns the states of the Java program, if it is built.
    fn java_sides(&self) -> io::Result<Vec<Side<'a>>> {
        const NAMES: [&str; STATES] = [
            "java_1_sync_log",
            "java_2_async_log",
            "java_3_no_method",
            "java_4_hex_table",
            "java_5_no_log",
        ];
        if !Path::new(CONSUMER).join("libs").is_dir() {
            progress("topics: without the program in Java: run scripts/bench-peers");
            return Ok(Vec::new());
        }
        let mut sides = Vec::new();
        for (index, (name, records)) in NAMES.into_iter().zip(RECORDS_JAVA).enumerate() {
            let topic = format!("spans-{records}");
            if records != RECORDS && sides.iter().all(|side: &Side<'_>| side.topic != topic) {
                self.fill(&topic, records)?;
            }
            let run = format!(
                "java -Xmx512m -cp {CONSUMER}/consumer-1.jar:{CONSUMER}/libs/* dev.millstream.bench.Consumer {} \
                 ${{BENCH_BROKER}} ${{BENCH_TOPIC}} ${{BENCH_LOG}}.documents",
                index + 1
            );
            let subject = Subject { name, run, until: "", env: "", config: "" };
            let topic = if records == RECORDS { "spans".to_owned() } else { topic };
            sides.push(Side { topic, ..Side::new(subject, records) });
        }
        Ok(sides)
    }

    fn repeat(&mut self, side: &mut Side<'_>) -> io::Result<()> {
        let idle = self.start(side, "empty", 0)?;
        side.empty.push(idle.cpu_seconds);
        let topic = side.topic.clone();
        let busy = self.start(side, &topic, side.records)?;
        side.full.push(busy.cpu_seconds);
        side.wall.push(busy.wall_seconds);
        side.rss_mb.push(busy.peak_rss_bytes as f64 / 1e6);
        Ok(())
    }

    /// Runs a program over a topic, and checks that it delivered all records of the topic.
    fn start(
        &mut self,
        side: &Side<'_>,
        topic: &str,
        records: u64,
    ) -> io::Result<crate::process::Outcome> {
        self.runs += 1;
        let (group, to) = (format!("group-{}", self.runs), format!("to-{}", self.runs));
        self.kafka.create_topic(&to, PARTITIONS);
        let no_input = Input::empty(self.scratch)?.path;
        let variables = Variables::fresh(self.scratch, &no_input)?
            .with_broker(&self.kafka.bootstrap(), topic)
            .with("GROUP", &group)
            .with("TO", &to)
            .with("SEARCH", &format!("http://{}", self.server.address));
        let outcome = Program::start(&side.subject, &variables, &[self.options.core])?.wait(0)?;
        let documents: PathBuf = format!("{}.documents", variables.path("LOG").display()).into();
        let _ = std::fs::remove_file(documents);
        let delivered = match (side.scenario, self.server.take(), self.kafka.count(&to)) {
            (Some(_), 0, 0) => outcome.lines,
            (Some(_), documents, copied) => documents.max(copied),
            (None, ..) => records,
        };
        self.kafka.delete_topic(&to);
        if delivered != records {
            let what = format!("{}: {delivered} of {records} records", side.subject.name);
            return Err(io::Error::other(what));
        }
        Ok(outcome)
    }
}

impl<'a> Side<'a> {
    fn new(subject: Subject<'a>, records: u64) -> Side<'a> {
        let samples = Samples::default;
        Side {
            subject,
            scenario: None,
            topic: "spans".to_owned(),
            records,
            full: samples(),
            empty: samples(),
            wall: samples(),
            rss_mb: samples(),
        }
    }

    fn busy_seconds(&self) -> f64 {
        self.full.median() - self.empty.median()
    }

    fn records_per_s(&self) -> f64 {
        self.records as f64 / self.busy_seconds()
    }
}

/// Returns the target of a scenario in records per CPU second: a share of the limit or a fixed
/// number, whichever is lower. Returns `None` if the scenario has no target.
fn target(scenario: &Header, limit: f64) -> io::Result<Option<f64>> {
    if scenario.text("target_ratio").is_empty() {
        return Ok(None);
    }
    let share = scenario.required("target_ratio")? * limit;
    let number = match scenario.text("target_records") {
        "" => f64::INFINITY,
        _ => scenario.required("target_records")?,
    };
    Ok(Some(share.min(number)))
}

fn table(options: &Options, sides: &[Side<'_>]) -> io::Result<Table> {
    let mut table = Table::new("topics", "A topic of spans, one core", COLUMNS);
    for side in sides {
        let limit_name = side.scenario.map_or(READ, |scenario| scenario.text("limit"));
        let limit = sides.iter().find(|of| of.subject.name == limit_name);
        let limit = limit.map_or(f64::NAN, Side::records_per_s);
        let target = side.scenario.map_or(Ok(None), |scenario| target(scenario, limit))?;
        let rate = side.records_per_s();
        let verdict = target.map_or("", |target| if rate >= target { "holds" } else { "missed" });
        table.row(vec![
            side.subject.name.to_owned(),
            side.records.to_string(),
            format!("{:.3}", side.busy_seconds()),
            format!("{:.3}", side.full.min() - side.empty.median()),
            format!("{:.3}", side.full.max() - side.empty.median()),
            format!("{:.3}", side.empty.median()),
            format!("{rate:.0}"),
            format!("{:.3}", rate / limit),
            target.map_or(String::new(), |target| format!("{target:.0}")),
            format!("{:.2}", side.wall.median()),
            format!("{:.1}", side.rss_mb.max()),
            verdict.to_owned(),
        ]);
        if let Some(scenario) = side.scenario {
            table.note(format!("{}: {}.", scenario.name, scenario.text("title")));
        }
    }
    table.note(format!(
        "Medians of {}; CPU s of all threads of the program less the run over an empty topic. `{READ}` is \
         librdkafka alone, which reads every byte; `{COPY}` also writes each record to another topic. A target is \
         the lower one of its share of the limit and a number of records.",
        options.repetitions
    ));
    Ok(table)
}

fn plot(sides: &[Side<'_>], report: &mut Report) -> io::Result<()> {
    let labels: Vec<String> = sides
        .iter()
        .map(|side| match side.scenario {
            Some(_) => format!("{AGENT}: {}", side.subject.name),
            None => side.subject.name.to_owned(),
        })
        .collect();
    let values = sides.iter().map(Side::records_per_s).collect();
    let series = [Bars { label: "records per CPU second", values }];
    report.bars("topics", "Records per CPU second", &labels, &series)
}
