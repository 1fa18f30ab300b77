//! The `syslog` source over one TCP connection: messages per CPU second, parsed and discarded.

use crate::Options;
use crate::measure::{Samples, pinned, progress};
use crate::process::{AGENT, Program, Subject};
use crate::report::{Report, Table};
use crate::scratch::Scratch;
use crate::variables::Variables;
use std::io::{self, Write};
use std::net::TcpStream;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// Number of messages per run.
const MESSAGES: usize = 3_000_000;

/// Number of distinct messages.
const DISTINCT: usize = 1000;

/// Minimum messages per CPU second of each form.
const PER_SECOND_MIN: f64 = 1e6;

/// Timeout for the start and the end of the agent's work.
const LIMIT: Duration = Duration::from_secs(60);

/// Time in which an agent that has processed everything uses almost no CPU time.
const IDLE_LOOK: Duration = Duration::from_millis(200);
const IDLE_SHARE: f64 = 0.03;

const CONFIG: &str = "data_dir: ${BENCH_DATA}
api: { listen: \"127.0.0.1:0\" }
sources:
  net: { type: syslog, listen: [\"tcp://127.0.0.1:${BENCH_PORT}\"] }
sinks:
  out: { type: blackhole, inputs: [net], report: 1h }
";

const COLUMNS: &[&str] = &["messages", "bytes", "per CPU second", "min", "max", "lost", "target"];

/// Returns the message with this number.
type Form = fn(usize) -> String;

/// The forms of messages, by name.
const FORMS: [(&str, Form); 3] = [
    ("RFC 3164, line feeds", rfc3164),
    ("RFC 5424, octet counts", |n| {
        let text = rfc5424(n);
        format!("{} {text}", text.len())
    }),
    ("RFC 5424 with structured data, octet counts", |n| {
        let text =
            rfc5424(n).replacen(" - ", &format!(" [order@32473 id=\"{n}\" shop=\"eu\"] "), 1);
        format!("{} {text}", text.len())
    }),
];

fn rfc3164(n: usize) -> String {
    format!(
        "<38>Feb  5 17:32:{:02} web-{} sshd[{}]: Accepted publickey for ada from 192.0.2.7 port {} ssh2\n",
        n % 60,
        n % 7,
        1000 + n,
        50_000 + n
    )
}

fn rfc5424(n: usize) -> String {
    format!(
        "<165>1 2026-02-05T17:32:{:02}.{:03}Z web-{} orders {} ID47 - order {n} of 7 items was charged to the card of the client",
        n % 60,
        n % 1000,
        n % 7,
        1000 + n
    )
}

/// Measures each form.
pub fn run(options: &Options, scratch: &Scratch, report: &mut Report) -> io::Result<()> {
    let mut table =
        Table::new("syslog", "Messages of syslog over one TCP connection, one core", COLUMNS);
    for (name, form) in FORMS {
        let messages: Vec<String> = (0..DISTINCT).map(form).collect();
        let text = messages.concat();
        let (mut speed, mut lost) = (Samples::default(), 0);
        for repetition in 1..=options.repetitions {
            progress(&format!("syslog: {name}, {repetition}"));
            let (per_second, missing) = measure(options, text.as_bytes(), scratch)?;
            speed.push(per_second);
            lost += missing;
        }
        let is_met = speed.median() >= PER_SECOND_MIN;
        table.row(vec![
            name.to_owned(),
            (text.len() / DISTINCT).to_string(),
            format!("{:.0}", speed.median()),
            format!("{:.0}", speed.min()),
            format!("{:.0}", speed.max()),
            lost.to_string(),
            format!(">= 1000000: {}", if is_met { "holds" } else { "MISSED" }),
        ]);
    }
    table.note(format!(
        "{MESSAGES} messages per run, sent from another core as fast as the agent reads. CPU time of all threads of the \
         agent, in user mode and in the kernel, from before the first message until the last one is counted. Each message \
         is parsed into fields with its time and level."
    ));
    report.add(table)
}

/// Returns the messages per CPU second, and the number of messages that did not arrive.
fn measure(options: &Options, text: &[u8], scratch: &Scratch) -> io::Result<(f64, u64)> {
    let variables = Variables::fresh(scratch, &scratch.path("none"))?;
    let run = format!("{} run -c ${{BENCH_CONFIG}}", options.agent.display());
    let subject = Subject { name: AGENT, run, until: "", env: "", config: CONFIG };
    let program = Program::start(&subject, &variables, &[options.core])?;
    let port: u16 = variables.fill("${BENCH_PORT}")?.parse().map_err(io::Error::other)?;
    let mut stream = connect(&program, port)?;
    program.stays_for(Duration::from_millis(500))?;
    let before = program.cpu_seconds()?;
    let text = text.to_vec();
    let sender = pinned(&[options.load_core], || {
        Ok(spawn(move || (0..MESSAGES / DISTINCT).try_for_each(|_| stream.write_all(&text))))
    })?;
    sender.join().map_err(|_| io::Error::other("the sender has panicked"))??;
    let seconds = await_idle(&program)? - before;
    program.terminate()?;
    let lines = program.wait(0)?.lines;
    Ok((lines as f64 / seconds, (MESSAGES as u64).saturating_sub(lines)))
}

/// Connects once the agent listens.
fn connect(program: &Program, port: u16) -> io::Result<TcpStream> {
    let begun = Instant::now();
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Err(_) if begun.elapsed() < LIMIT => program.stays_for(Duration::from_millis(20))?,
            connected => return connected,
        }
    }
}

/// Waits until the agent has processed everything, and returns its CPU seconds.
fn await_idle(program: &Program) -> io::Result<f64> {
    let begun = Instant::now();
    let mut before = program.cpu_seconds()?;
    loop {
        sleep(IDLE_LOOK);
        let now = program.cpu_seconds()?;
        if now - before < IDLE_LOOK.as_secs_f64() * IDLE_SHARE || begun.elapsed() > LIMIT {
            return Ok(now);
        }
        before = now;
    }
}
