//! `millstream-bench`: measures the agent under loads, from outside as a process, and compares it
//! with the limits of the host. README.md explains each figure.

mod agent;
mod allocations;
mod beside;
mod broker;
mod compression;
mod delivered;
mod diagnose;
mod encoders;
mod encodings;
mod endpoint;
mod expressions;
mod fleet;
mod framing;
mod header;
mod java;
mod jfr_events;
mod journal;
mod jvms;
mod limits;
mod measure;
mod memory;
mod metrics;
mod metrics_out;
mod operators;
mod parse;
mod parse_text;
mod peers;
mod plot;
mod points;
mod points_parse;
mod process;
mod profiler;
mod recorder;
mod redact;
mod report;
mod rows;
mod rules;
mod scan;
mod scratch;
mod sinkhole;
mod spool;
mod syslog;
mod tags;
mod taps;
mod texts;
mod topics;
mod variables;
mod weblog;

use clap::{Parser, Subcommand};
use report::Report;
use scratch::{Input, Scratch};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Default size of the input, in megabytes.
const INPUT_MB: usize = 1000;

/// Measures the agent and the host it runs on.
///
/// Example: millstream-bench --repetitions 3 agent file_to_blackhole
#[derive(Parser)]
struct Options {
    /// The agent to measure
    #[arg(long, default_value = "target/release/millstream")]
    agent: PathBuf,
    /// Repetitions of each measurement; the tables show medians
    #[arg(long, default_value_t = 5)]
    repetitions: usize,
    /// Size of the generated web log in megabytes; by default 1000, or the size that a scenario
    /// sets
    #[arg(long)]
    input_mb: Option<usize>,
    /// Core of the agent, its peers and the limits
    #[arg(long, default_value_t = 1)]
    core: usize,
    /// Core of the load in `fleet` and of brokers; also the second core of programs with two cores
    #[arg(long, default_value_t = 0)]
    load_core: usize,
    /// Folder with scenarios/ and fleet/; results are written to results/ in it
    #[arg(long, default_value = "bench")]
    folder: PathBuf,
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Measure all parts except diagnose, framing, jfr_events, journal, jvms, memory, profiler,
    /// recorder, rows, rules, syslog, taps, operators and peers, within twenty minutes
    Short,
    /// Limits of the host: plain loops over the input
    Limits,
    /// Scanners by block size
    Scan,
    /// Scan of metric tags by number and length
    Tags,
    /// Path of a point into the metric store
    Points,
    /// Parsing of metric clients' messages into points
    PointsParse,
    /// Encoders of values as text: hexadecimal digits, timestamps, JSON strings
    Encoders,
    /// Encoders of metrics: JSON, msgpack
    Encodings,
    /// Detection of secrets, by detector
    Redact,
    /// Reader of journal files and the `journald` source, compared with `journalctl`
    Journal,
    /// Framing of bytes as events: multi-line, encodings, container formats
    Framing,
    /// Parsers of lines, each compared with its limit
    Parse,
    /// Parsers of JSON and regular expressions
    ParseText,
    /// Compression by library and level, over typical user data
    Compression,
    /// Segments of disk buffers: written and synced, read back
    Spool {
        /// Folder on the disk to measure
        #[arg(default_value = "target")]
        disk: PathBuf,
    },
    /// Flight recorder: an event in four cases, and the agent with and without the recorder
    Recorder,
    /// Profiles: their cost for the agent, continuous and at 10 ms, with and without a JVM
    Profiler,
    /// Taps: their cost for the agent, plain, with a condition, and with followed events
    Taps,
    /// Messages of syslog over a TCP connection, parsed and discarded
    Syslog,
    /// Tables of groups: memory and updates of ten million groups
    Rows,
    /// Thousands of tasks over the same lines, the agent compared with mtail, and result latency
    Rules {
        /// Only these: a, b, c, d, e, g, h, i, beside, deadlines
        names: Vec<String>,
    },
    /// Conditions over columns: a search compared with memmem, comparisons by row
    Expressions,
    /// Agent over one big file, by scenario
    Agent {
        /// Only these scenarios
        names: Vec<String>,
    },
    /// Agent compared with its peers, and scenarios with a broker
    Peers {
        /// Only these scenarios
        names: Vec<String>,
    },
    /// Metrics over sockets: the agent compared with limits and peers, merging, flushes
    Metrics {
        /// Only these scenarios
        names: Vec<String>,
    },
    /// Java client compared with the DogStatsD client
    Java,
    /// User's JVMs: recordings compared with `jfr print`, and the cost of the Java agent for a
    /// service
    Jvms {
        /// Only these: source, agent
        names: Vec<String>,
    },
    /// Accuracy of `diagnose` for agents with a planted cause and for healthy agents
    Diagnose(diagnose::DiagnoseOptions),
    /// JFR events around writes to a socket: a published experiment, repeated on two JDKs
    #[command(name = "jfr_events", alias = "jfr-events")]
    JfrEvents {
        /// One JVM and three iterations per case, five starts: shows that it works
        #[arg(long)]
        quick: bool,
    },
    /// Output: compression, a million series to the network, points to Prometheus, logs over HTTP
    MetricsOut {
        /// Only these scenarios
        names: Vec<String>,
    },
    /// Kafka topics: the agent compared with librdkafka alone and a consumer in Java
    Topics {
        /// Only these scenarios
        names: Vec<String>,
    },
    /// Operators on the JVM: calls, memory, the agent in each language, on every JDK of the host
    Operators {
        /// Only the agent in these scenarios
        names: Vec<String>,
    },
    /// Memory under `limits.memory`, with loads that need more
    Memory {
        /// Only these loads: jvm, native
        names: Vec<String>,
        /// Duration of each of the two runs of a load in seconds
        #[arg(long, default_value_t = 600)]
        seconds: u64,
    },
    /// Measure a part of `operators` on one JDK and print its figures
    #[command(name = "operator-part", hide = true)]
    Inside(operators::inside::Inside),
    /// Run operators for `operator-part`
    #[command(name = millstream_jvm::SUBCOMMAND, hide = true)]
    Serve,
    /// Read a topic with librdkafka alone and print the number of records; a limit of `topics`
    Consume(topics::bare::Consume),
    /// Send datagrams of DogStatsD lines and print what was sent; the load generator for `metrics`
    Send(metrics::send::Load),
    /// Costs of fleets: many files, slow writers, idle agents
    Fleet {
        /// Only these loads
        names: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            measure::progress_end();
            eprintln!("millstream-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> io::Result<()> {
    if let Part::Send(load) = &options.part {
        println!("{}", load.send()?.line());
        return Ok(());
    }
    if let Part::Consume(consume) = &options.part {
        return consume.run();
    }
    if let Part::Inside(inside) = &options.part {
        return inside.run();
    }
    if let Part::Serve = &options.part {
        millstream_jvm::serve_process();
    }
    let scratch = Scratch::new()?;
    let mut report = Report::new(&options.folder.join("results"), options.part.results_name())?;
    measure::pin(options.core)?;
    match &options.part {
        Part::Short => short(options, &scratch, &mut report)?,
        Part::Limits => {
            limits::run(&options.weblog(&scratch)?, &scratch, options.repetitions, &mut report)?
        }
        Part::Scan => scan::run(&mut report)?,
        Part::Tags => drop(tags::run(&mut report)?),
        Part::Points => drop(points::run(&mut report)?),
        Part::PointsParse => points_parse::run(&mut report)?,
        Part::Encoders => encoders::run(&mut report)?,
        Part::Encodings => encodings::run(&mut report)?,
        Part::Redact => redact::run(&mut report)?,
        Part::Journal => journal::run(options, &scratch, &mut report)?,
        Part::Framing => framing::run(options.repetitions, &mut report)?,
        Part::Parse => parse::run(options.repetitions, &mut report)?,
        Part::ParseText => parse_text::run(options.repetitions, &mut report)?,
        Part::Compression => compression::run_alone(&mut report)?,
        Part::Expressions => expressions::run(options.repetitions, &mut report)?,
        Part::Spool { disk } => spool::run(options.repetitions, disk, &scratch, &mut report)?,
        Part::Recorder => recorder::run(options, &scratch, &mut report)?,
        Part::Profiler => profiler::run(options, &scratch, &mut report)?,
        Part::Syslog => syslog::run(options, &scratch, &mut report)?,
        Part::Taps => taps::run(options, &scratch, &mut report)?,
        Part::Rows => rows::run(&mut report)?,
        Part::Rules { names } => rules::run(options, names, &scratch, &mut report)?,
        Part::Agent { names } => {
            agent::run(options, names, &options.weblog(&scratch)?, &scratch, &mut report)?
        }
        Part::Peers { names } => peers::run(options, names, &scratch, &mut report)?,
        Part::Metrics { names } => metrics::run(options, names, &scratch, &mut report)?,
        Part::Java => java::run(options.cores(), &scratch, &mut report)?,
        Part::Jvms { names } => jvms::run(options, names, &scratch, &mut report)?,
        Part::Diagnose(play) => diagnose::run(options, *play, &mut report)?,
        Part::JfrEvents { quick } => {
            jfr_events::run(*quick, options.cores(), &scratch, &mut report)?
        }
        Part::MetricsOut { names } => metrics_out::run(options, names, &scratch, &mut report)?,
        Part::Topics { names } => topics::run(options, names, &scratch, &mut report)?,
        Part::Operators { names } => operators::run(options, names, &scratch, &mut report)?,
        Part::Memory { names, seconds } => {
            memory::run(options, (names, *seconds), &scratch, &mut report)?
        }
        Part::Send(_) | Part::Consume(_) | Part::Inside(_) | Part::Serve => {}
        Part::Fleet { names } => fleet::run(options, names, &scratch, &mut report)?,
    }
    println!("results: {}", report.folder().display());
    Ok(())
}

fn short(options: &Options, scratch: &Scratch, report: &mut Report) -> io::Result<()> {
    scan::run(report)?;
    in_memory(options.repetitions, report)?;
    let input = options.weblog(scratch)?;
    limits::run(&input, scratch, options.repetitions, report)?;
    agent::run(options, &[], &input, scratch, report)?;
    Input::remove(scratch)?;
    metrics::run(options, &[], scratch, report)?;
    metrics_out::run(options, &[], scratch, report)?;
    fleet::run(options, &[], scratch, report)
}

/// Measures the parts that work in memory, without files.
fn in_memory(repetitions: usize, report: &mut Report) -> io::Result<()> {
    parse::run(repetitions, report)?;
    parse_text::run(repetitions, report)?;
    expressions::run(repetitions, report)?;
    encoders::run(report)?;
    redact::run(report)
}

impl Part {
    /// Returns the name of the results file. A part that runs alone does not overwrite the results
    /// of all parts.
    fn results_name(&self) -> &'static str {
        match self {
            Part::Short => "results",
            Part::Limits => "limits",
            Part::Scan => "scan",
            Part::Tags => "tags",
            Part::Points => "points",
            Part::PointsParse => "points_parse",
            Part::Encoders => "encoders",
            Part::Encodings => "encodings",
            Part::Redact => "redact",
            Part::Journal => "journal",
            Part::Framing => "framing",
            Part::Parse => "parse",
            Part::ParseText => "parse_text",
            Part::Compression => "compression",
            Part::Expressions => "expressions",
            Part::Spool { .. } => "spool",
            Part::Recorder => "recorder",
            Part::Profiler => "profiler",
            Part::Syslog => "syslog",
            Part::Taps => "taps",
            Part::Rows => "rows",
            Part::Rules { .. } => "rules",
            Part::Agent { .. } => "agent",
            Part::Peers { .. } => "peers",
            Part::Metrics { .. } => "metrics",
            Part::Java => "java_client",
            Part::JfrEvents { .. } => "jfr_events",
            Part::Jvms { .. } => "jvms",
            Part::Diagnose(_) => "diagnose",
            Part::MetricsOut { .. } => "metrics_out",
            Part::Topics { .. } => "topics",
            Part::Operators { .. } => "operators",
            Part::Memory { .. } => "memory",
            Part::Inside(_) => "operator_part",
            Part::Serve => "serve",
            Part::Send(_) => "send",
            Part::Consume(_) => "consume",
            Part::Fleet { .. } => "fleet",
        }
    }
}

impl Options {
    fn weblog(&self, scratch: &Scratch) -> io::Result<Input> {
        Input::weblog(scratch, self.input_mb.unwrap_or(INPUT_MB) * 1_000_000, 1)
    }

    /// Returns the cores of a program. A program with a single core uses the first.
    fn cores(&self) -> [usize; 2] {
        [self.core, self.load_core]
    }
}
