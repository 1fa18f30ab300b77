//! Measures calls into Java in a separate process of the benchmark, because a process can have only
//! one JVM.

use super::batch::Batch;
use crate::measure::thread_cpu_seconds;
use clap::{Args, ValueEnum};
use millstream_jvm::{
    Jvm, JvmOptions, JvmProcess, JvmStats, Operator, OperatorSpec, ProcessOptions, RuleSource,
};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Path of the jar with the benchmarks' operators.
const JAR: &str = "java/benchmarks/target/benchmarks.jar";

/// Names of figures in nanoseconds.
pub const NOOP: &str = "noop";
pub const SOCKET: &str = "socket";
/// Numbers of rows in a batch.
pub const BATCHES: [u32; 5] = [1, 10, 100, 1_000, 10_000];
/// Number of registered rules.
const RULE_COUNT: usize = 1_000;

const STARTED: &str = "start of the JVM, ms";
const GROOVY_MS: &str = "the first Groovy script, ms";
const AVIATOR_MS: &str = "the first AviatorScript expression, ms";
const IDLE: &str = "JVM without operators, MB";
const LANGUAGES: &str = "with Groovy and AviatorScript, MB";
const REGISTERED: &str = "1,000 Groovy rules: registration, ms";
const RULES_MB: &str = "1,000 Groovy rules: memory, MB";
const RULES_CLASSES: &str = "1,000 Groovy rules: classes and compiled code, MB";
const RULES_NS: &str = "1,000 Groovy rules: ns per rule and event";

/// Figures of [`Part::Memory`] with their targets.
pub const MEMORY: &[(&str, &str)] =
    &[(STARTED, ""), (GROOVY_MS, ""), (AVIATOR_MS, ""), (IDLE, "<= 60"), (LANGUAGES, "<= 200")];
/// Figures of [`Part::Rules`].
pub const RULES: &[(&str, &str)] =
    &[(REGISTERED, ""), (RULES_MB, ""), (RULES_CLASSES, ""), (RULES_NS, "")];

const GROOVY: (&str, &str) =
    ("groovy", "row.is_get = row.message.contains('\"GET ')\nrow.length = row.message.length()");
const AVIATOR: (&str, &str) = (
    "aviator",
    "seq.map(\"is_get\", string.contains(message, \"\\\"GET \"), \"length\", string.length(message))",
);

/// Operators of the scenarios, each with a language and a source.
pub const OPERATORS: [(&str, (&str, &str)); 5] = [
    ("nothing", ("class", "dev.millstream.benchmarks.Nothing")),
    ("class", ("class", "dev.millstream.benchmarks.TwoFields")),
    ("groovy", GROOVY),
    (
        "groovy_dynamic",
        (
            "groovy",
            "def message = row.get('message')\nrow.is_get = message.contains('\"GET ')\n\
             row.length = message.length()",
        ),
    ),
    ("aviator", AVIATOR),
];

/// Time for compilation before a measurement, and duration of a measurement.
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(1);

/// Part to measure in a process.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Part {
    Calls,
    Memory,
    Rules,
}

impl Part {
    /// Returns the name of the part on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Part::Calls => "calls",
            Part::Memory => "memory",
            Part::Rules => "rules",
        }
    }
}

/// Measures a part of `operators` on one JDK, and prints lines of a name and a figure.
#[derive(Args)]
pub struct Inside {
    /// Home of the JDK
    home: PathBuf,
    /// Part to measure
    part: Part,
    /// Run the JVM in a separate process; only for `calls`
    #[arg(long)]
    process: bool,
}

/// A JVM inside this process or in a separate process.
enum Java {
    Inside(Jvm),
    Process(JvmProcess),
}

impl Java {
    fn noop(&self, count: u64) -> io::Result<()> {
        match self {
            Java::Inside(jvm) => jvm.noop(count),
            Java::Process(process) => process.noop(count),
        }
        .map_err(io::Error::other)
    }

    fn register(&self, spec: &OperatorSpec) -> io::Result<Operator> {
        match self {
            Java::Inside(jvm) => jvm.register(spec),
            Java::Process(process) => process.register(spec),
        }
        .map_err(io::Error::other)
    }

    fn stats(&self) -> io::Result<JvmStats> {
        match self {
            Java::Inside(jvm) => jvm.stats(),
            Java::Process(process) => process.stats(),
        }
        .map_err(io::Error::other)
    }
}

/// Figures by name.
#[derive(Default)]
pub struct Figures(BTreeMap<String, f64>);

impl Figures {
    /// Reads the figures that [`Inside::run`] prints.
    pub fn read(text: &str) -> Figures {
        let figure = |line: &str| {
            let (name, value) = line.split_once('\t')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Figures(text.lines().filter_map(figure).collect())
    }

    /// Returns the figure with this name, or NaN.
    pub fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(f64::NAN)
    }
}

/// Returns the name of the figure for batches of `rows` rows.
pub fn batch(operator: &str, rows: u32) -> String {
    format!("{operator} {rows}")
}

fn print(name: &str, value: f64) {
    println!("{name}\t{value}");
}

impl Inside {
    /// Measures the part and prints its figures.
    pub fn run(&self) -> io::Result<()> {
        match self.part {
            Part::Calls => calls(&self.start()?),
            Part::Memory => self.memory(),
            Part::Rules => rules(&self.start()?),
        }
    }

    fn start(&self) -> io::Result<Java> {
        let options = JvmOptions {
            home: Some(self.home.clone()),
            heap_bytes: 128 << 20,
            allow_root: true,
            ..JvmOptions::default()
        };
        if !self.process {
            return Jvm::start(&options).map(Java::Inside).map_err(io::Error::other);
        }
        let options = ProcessOptions::new(options);
        JvmProcess::open("bench", &options).map(Java::Process).map_err(io::Error::other)
    }

    fn memory(&self) -> io::Result<()> {
        let before = resident_mb()?;
        let begin = Instant::now();
        let jvm = self.start()?;
        print(STARTED, begin.elapsed().as_secs_f64() * 1e3);
        thread::sleep(Duration::from_secs(1));
        print(IDLE, resident_mb()? - before);
        let mut operators = Vec::new();
        for (name, source) in [(GROOVY_MS, GROOVY), (AVIATOR_MS, AVIATOR)] {
            let begin = Instant::now();
            operators.push(register(&jvm, source)?);
            print(name, begin.elapsed().as_secs_f64() * 1e3);
        }
        let batch = Batch::new(1_000)?;
        operators.iter().try_for_each(|operator| batch.call(operator))?;
        print(LANGUAGES, resident_mb()? - before);
        Ok(())
    }
}

fn calls(jvm: &Java) -> io::Result<()> {
    // A round trip takes longer with another process and needs fewer repetitions.
    let (noops, is_inside) = match jvm {
        Java::Inside(_) => (2_000_000, true),
        Java::Process(_) => (100_000, false),
    };
    jvm.noop(noops)?;
    let (begin, wall) = (thread_cpu_seconds(), Instant::now());
    jvm.noop(noops)?;
    let seconds = match is_inside {
        true => thread_cpu_seconds() - begin,
        false => wall.elapsed().as_secs_f64(),
    };
    print(NOOP, seconds * 1e9 / noops as f64);
    print(SOCKET, socket_ns()?);
    for (name, source) in OPERATORS {
        let operator = register(jvm, source)?;
        for rows in BATCHES {
            let made = Batch::new(rows as usize)?;
            repeat(WARM_UP, || made.call(&operator))?;
            let (begin, wall) = (process_cpu_seconds(), Instant::now());
            let calls = repeat(MEASURED, || made.call(&operator))?;
            // With another process, wall time is measured, because the CPU time of this process
            // does not include that of the JVM's process. A single thread calls and waits.
            let seconds = match is_inside {
                true => process_cpu_seconds() - begin,
                false => wall.elapsed().as_secs_f64(),
            };
            print(&batch(name, rows), seconds * 1e9 / (calls * u64::from(rows)) as f64);
        }
    }
    Ok(())
}

/// Returns the CPU time in ns that a byte takes to a thread and back.
fn socket_ns() -> io::Result<f64> {
    const BYTES: u32 = 200_000;
    let (mut own, mut other) = UnixStream::pair()?;
    let echo = thread::spawn(move || {
        let mut byte = [0];
        while other.read(&mut byte)? > 0 {
            other.write_all(&byte)?;
        }
        io::Result::Ok(())
    });
    let begin = process_cpu_seconds();
    for _ in 0..BYTES {
        let mut byte = [1];
        own.write_all(&byte)?;
        own.read_exact(&mut byte)?;
    }
    let seconds = process_cpu_seconds() - begin;
    drop(own);
    echo.join().map_err(|_| io::Error::other("the thread has panicked"))??;
    Ok(seconds * 1e9 / f64::from(BYTES))
}

fn rules(jvm: &Java) -> io::Result<()> {
    let batch = Batch::new(1_000)?;
    // The first rule loads the language, whose cost is not counted.
    let first = register(jvm, GROOVY)?;
    batch.call(&first)?;
    let (resident, before) = (resident_mb()?, jvm.stats()?);
    let begin = Instant::now();
    let rule = |number: usize| RuleSource {
        name: format!("rule{number}.groovy"),
        text: format!("if (row.message.contains('word{number}x')) row.rule = {number}"),
    };
    let spec = OperatorSpec {
        component: "bench".to_owned(),
        language: "groovy".to_owned(),
        rules: (0..RULE_COUNT).map(rule).collect(),
        ..OperatorSpec::default()
    };
    let operator = jvm.register(&spec)?;
    print(REGISTERED, begin.elapsed().as_secs_f64() * 1e3);
    repeat(3 * WARM_UP, || batch.call(&operator))?;
    let begin = process_cpu_seconds();
    let calls = repeat(3 * MEASURED, || batch.call(&operator))?;
    let evaluations = calls * batch.rows() * RULE_COUNT as u64;
    print(RULES_NS, (process_cpu_seconds() - begin) * 1e9 / evaluations as f64);
    let grown = jvm.stats()?.non_heap_used as f64 - before.non_heap_used as f64;
    print(RULES_CLASSES, grown / 1e6);
    print(RULES_MB, resident_mb()? - resident);
    Ok(())
}

fn register(jvm: &Java, (language, source): (&str, &str)) -> io::Result<Operator> {
    let mut spec = OperatorSpec {
        component: "bench".to_owned(),
        language: language.to_owned(),
        ..OperatorSpec::default()
    };
    if language == "class" {
        spec.jar = Some(Path::new(JAR).to_owned());
        spec.class_name = Some(source.to_owned());
    } else {
        spec.rules = vec![RuleSource { name: "script".to_owned(), text: source.to_owned() }];
    }
    jvm.register(&spec)
}

/// Repeats calls for `time` and returns their number.
fn repeat(time: Duration, mut call: impl FnMut() -> io::Result<()>) -> io::Result<u64> {
    let begin = Instant::now();
    let mut calls = 0;
    while begin.elapsed() < time {
        call()?;
        calls += 1;
    }
    Ok(calls)
}

fn process_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn resident_mb() -> io::Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kb.map(|kb| kb * 1024.0 / 1e6).ok_or_else(|| io::Error::other("no VmRSS in /proc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_figures_are_read() {
        let figures = Figures::read("noop\t12.5\nclass 10\t3\nno figure\n");
        assert_eq!((figures.get(NOOP), figures.get(&batch("class", 10))), (12.5, 3.0));
        assert!(figures.get("other").is_nan());
    }
}
