//! Measures the cost of the Java agent for a service: requests per CPU second with and without the
//! agent, and heap.

use super::CLASSES;
use crate::Options;
use crate::measure::{Samples, pinned, progress};
use crate::operators::Jdk;
use crate::plot::Bars;
use crate::process::{Program, Subject};
use crate::report::{Report, Table};
use crate::scratch::Scratch;
use crate::variables::Variables;
use std::io;
use std::path::Path;
use std::process::Command;

/// Seconds before the measurement, in which the JVM compiles, and seconds of the measurement.
const SECONDS: [&str; 2] = ["4", "6"];

/// Maximum loss of throughput by the agent, in percent.
const COST_MAX: f64 = 1.0;

/// Maximum heap use of the agent, in bytes.
const HEAP_MAX: f64 = 20e6;

/// Ways to run the service: a name, and an option of the JVM in which `SOCKET` is the receiver's
/// socket.
const WAYS: [(&str, &str); 3] = [
    ("alone", ""),
    ("with a recording, settings `default`", "-XX:StartFlightRecording:settings=default"),
    (
        "with the Java agent",
        "-javaagent:java/javaagent/target/millstream-javaagent.jar=socket=SOCKET",
    ),
];

/// Configuration of the receiver of the Java agent's metrics.
const CONFIG: &str = "data_dir: ${BENCH_DATA}
api: { listen: '127.0.0.1:0' }
sources: { jvms: { type: metricserver, listen: ['unix://${BENCH_SOCKET}'], period: 10s } }
sinks: { out: { type: blackhole, inputs: [jvms] } }
";

/// Results that the service prints, by repetition.
#[derive(Default)]
struct Service {
    per_cpu_second: Samples,
    /// Loss of throughput in percent, relative to the run of the service alone in the same round.
    loss: Samples,
    heap: Samples,
}

/// Measures the service on each JDK.
pub fn run(
    options: &Options,
    jdks: &[Jdk],
    scratch: &Scratch,
    report: &mut Report,
) -> io::Result<()> {
    let columns = [
        "service",
        "Java",
        "requests per CPU second",
        "range",
        "loss",
        "middle half",
        "heap MB",
        "target",
        "verdict",
    ];
    let mut table = Table::new("java_agent", "What the Java agent costs a service", &columns);
    let variables = Variables::fresh(scratch, Path::new(""))?.with_sockets(scratch)?;
    let run = format!("{} run -c ${{BENCH_CONFIG}}", options.agent.display());
    let subject = Subject { name: "millstream", run, until: "", env: "", config: CONFIG };
    let receiver = Program::start(&subject, &variables, &[options.load_core])?;
    let socket = variables.path("SOCKET");
    let mut bars = Vec::new();
    for jdk in jdks {
        let services = measure(options, jdk, (scratch, &socket))?;
        rows(&mut table, jdk, &services);
        bars.push(Bars {
            label: format!("Java {}", jdk.version).leak(),
            values: services.iter().map(|service| service.per_cpu_second.median()).collect(),
        });
    }
    receiver.terminate()?;
    receiver.wait(0)?;
    table.note(format!(
        "The JDK's HTTP server and a client in one process on two cores, {} s after {} s of warm-up; CPU of the whole \
         process, the agent's and the recorder's threads included. The ways alternate; loss is the median of the \
         rounds, each beside the run alone of its round.",
        SECONDS[1], SECONDS[0]
    ));
    report.add(table)?;
    let labels = WAYS.map(|(name, _)| name.replace(", settings `default`", ""));
    report.bars("java_agent", "Requests per CPU second of the service", &labels, &bars)
}

fn measure(
    options: &Options,
    jdk: &Jdk,
    (scratch, socket): (&Scratch, &Path),
) -> io::Result<[Service; WAYS.len()]> {
    let mut services: [Service; WAYS.len()] = Default::default();
    let temporary = scratch.empty_folder("tmp")?;
    for round in 1..=options.repetitions.max(1) {
        progress(&format!("the Java agent: Java {}, round {round}", jdk.version));
        let mut alone = f64::NAN;
        for (index, (_, option)) in WAYS.iter().enumerate() {
            let [per_cpu_second, _, heap] =
                serve(jdk, option, socket, &temporary, options.cores())?;
            if index == 0 {
                alone = per_cpu_second;
            }
            let service = &mut services[index];
            service.per_cpu_second.push(per_cpu_second);
            service.loss.push((1.0 - per_cpu_second / alone) * 100.0);
            service.heap.push(heap);
        }
    }
    Ok(services)
}

/// Runs the service and returns the three numbers that it prints.
fn serve(
    jdk: &Jdk,
    option: &str,
    socket: &Path,
    temporary: &Path,
    cores: [usize; 2],
) -> io::Result<[f64; 3]> {
    let mut command = Command::new(jdk.home.join("bin/java"));
    if !option.is_empty() {
        command.arg(option.replace("SOCKET", &socket.to_string_lossy()));
    }
    command.arg(format!("-Djava.io.tmpdir={}", temporary.display()));
    // Without this option, the server of Java 17 waits for an acknowledgement in each request.
    command.arg("-Dsun.net.httpserver.nodelay=true");
    command.args(["-Xmx256m", "-cp", CLASSES, "dev.millstream.benchmarks.RequestLoad"]);
    let output = pinned(&cores, || command.args(SECONDS).output())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    let numbers: Vec<f64> = last.split(' ').filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().map_err(|_| {
        io::Error::other(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
    })
}

fn rows(table: &mut Table, jdk: &Jdk, services: &[Service; WAYS.len()]) {
    let heap_alone = services[0].heap.median();
    for (index, ((name, _), service)) in WAYS.iter().zip(services).enumerate() {
        let (loss, heap) = (service.loss.median(), service.heap.median() - heap_alone);
        let is_agent = index == WAYS.len() - 1;
        let holds = if loss <= COST_MAX && heap <= HEAP_MAX { "holds" } else { "missed" };
        let of_agent = |text: String| if is_agent { text } else { String::new() };
        let of_others = |text: String| if index == 0 { String::new() } else { text };
        let middle = [0.25, 0.75].map(|part| service.loss.quantile(part));
        table.row(vec![
            (*name).to_owned(),
            jdk.version.to_string(),
            format!("{:.0}", service.per_cpu_second.median()),
            format!("{:.0} to {:.0}", service.per_cpu_second.min(), service.per_cpu_second.max()),
            of_others(format!("{loss:.1}%")),
            of_others(format!("{:.1} to {:.1}%", middle[0], middle[1])),
            of_others(format!("{:+.1}", heap / 1e6)),
            of_agent(format!("{COST_MAX}%, {:.0} MB", HEAP_MAX / 1e6)),
            of_agent(holds.to_owned()),
        ]);
    }
}
