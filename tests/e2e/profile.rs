//! Tests `millstream profile` with the real binary.

use crate::support::java::{built, homes};
use crate::support::{Agent, folder, lines, metric, millstream, wait_until};
use millstream_testkit_random::{Report, TestSize};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// A pipeline whose regular expression takes most of its time.
const CONFIG: &str = "
limits: { threads: 2 }
sources: { app: { type: file, include: ['DIR/app.log'] } }
transforms:
  parsed: { type: parse, inputs: [app], format: regex, pattern: '^(?P<a>\\S+) (?P<b>[a-z ]+) (?P<c>\\d+)$' }
sinks: { out: { type: blackhole, inputs: [parsed] } }
";

/// Pause between two writes of 2,000 lines. It allows for hundreds of samples a second without
/// keeping the cores of the host busy.
const PAUSE: Duration = Duration::from_millis(5);

/// Writes a log until it is dropped. Truncates the log when it is long and the agent has delivered
/// all of it.
struct Writer {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    fn start(dir: &Path) -> Writer {
        let (path, done) = (dir.join("app.log"), Arc::new(AtomicBool::new(false)));
        let ended = done.clone();
        let folder = dir.to_owned();
        let text: String = (0..2000).map(|n| format!("host some words here {n}\n")).collect();
        let thread = std::thread::spawn(move || {
            let mut file = File::options().create(true).append(true).open(&path).unwrap();
            let mut written = 0;
            while !ended.load(Ordering::Relaxed) {
                let is_long = file.metadata().unwrap().len() > 64 << 20;
                if is_long && has_delivered(&folder, written) {
                    file.set_len(0).unwrap();
                } else if !is_long {
                    file.write_all(text.as_bytes()).unwrap();
                    written += 2000;
                }
                std::thread::sleep(PAUSE);
            }
        });
        Writer { done, thread: Some(thread) }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Returns whether the agent has read and delivered this many lines.
fn has_delivered(folder: &Path, lines: u64) -> bool {
    let sent = metric(folder, "millstream_component_sent_events_total{component_id=\"out\"");
    let lag = metric(folder, "millstream_source_lag_bytes{component_id=\"app\"");
    sent.is_some_and(|sent| sent >= lines as f64) && lag == Some(0.0)
}

/// Returns a `profile` command for the agent in a folder.
fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(millstream());
    command.arg("profile").args(args).args(["-c", "millstream.yaml"]).current_dir(dir);
    command
}

fn profile(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Starts a writer and an agent that parses its log, and waits until the agent reads.
fn busy(dir: &Path) -> (Agent, Writer) {
    let writer = Writer::start(dir);
    let agent = Agent::start(dir, CONFIG, &[]);
    wait_until("the agent reads", LIMIT, || {
        let line = "millstream_component_received_events_total{component_id=\"parsed\"";
        agent.metric(line).is_some_and(|events| events > 0.0)
    });
    (agent, writer)
}

/// Returns the number of samples by the root of their stacks.
fn by_root(stacks: &[String]) -> BTreeMap<String, u64> {
    let mut samples = BTreeMap::new();
    for stack in stacks {
        let (frames, count) = stack.rsplit_once(' ').unwrap();
        let root = frames.split(';').next().unwrap().to_owned();
        *samples.entry(root).or_default() += count.parse::<u64>().unwrap();
    }
    samples
}

#[test]
fn stacks_have_components_as_roots_and_names_of_functions() {
    let dir = folder();
    let (_agent, _writer) = busy(dir.path());
    // On a busy host the agent may get little CPU time during a profile.
    let mut stacks = Vec::new();
    wait_until("many samples", LIMIT, || {
        let output = profile(dir.path(), &["-d", "3s", "-i", "1ms", "-o", "out.collapsed"]);
        assert!(output.status.success(), "{}", errors(&output));
        stacks.extend(lines(&dir.path().join("out.collapsed")));
        by_root(&stacks).values().sum::<u64>() >= 300
    });
    let roots = by_root(&stacks);
    let of = |root: &str| roots.get(root).copied().unwrap_or(0);
    let all: u64 = roots.values().sum();
    assert!(all >= 100, "{roots:?}");
    assert!(of("app") > 0 && of("parsed") > of("app"), "{roots:?}");
    let of_regex =
        |stack: &&String| stack.starts_with("parsed;") && stack.contains("regex_automata::");
    assert!(stacks.iter().any(|stack| of_regex(&stack)), "{stacks:#?}");
    let in_c = |stack: &String| stack.starts_with("app;") && stack.contains("millstream_tail::");
    assert!(stacks.iter().any(in_c), "{stacks:#?}");
    // The source reads the log by a system call, and root may see the kernel's stacks.
    let is_root = rustix::process::geteuid().is_root();
    let in_kernel = |stack: &String| stack.starts_with("app;") && stack.contains(";vfs_read");
    assert!(!is_root || stacks.iter().any(in_kernel), "{stacks:#?}");
}

#[test]
fn each_format_is_written_and_two_profiles_are_compared() {
    let dir = folder();
    let (_agent, _writer) = busy(dir.path());
    // On a busy host a profile of 300 ms may have no sample.
    let written = |name: &str| {
        let output = profile(dir.path(), &["-d", "300ms", "-i", "1ms", "-o", name]);
        assert!(output.status.success(), "{}", errors(&output));
        std::fs::read(dir.path().join(name)).unwrap()
    };
    let has = |file: &[u8], text: &[u8]| file.windows(text.len()).any(|part| part == text);
    for (name, start) in [("a.html", "<!doctype html>"), ("a.svg", "<?xml"), ("a.collapsed", "")] {
        wait_until(name, LIMIT, || {
            let text = String::from_utf8(written(name)).unwrap();
            assert!(text.to_lowercase().starts_with(start), "{name}: {:.80}", text);
            text.contains("parsed")
        });
    }
    wait_until("a.jfr", LIMIT, || {
        let file = written("a.jfr");
        assert!(file.starts_with(b"FLR\0"));
        has(&file, b"jdk.ExecutionSample") && has(&file, b"parsed")
    });
    let diff = ["profile", "--diff", "before.pb.gz", "after.pb.gz", "-o", "diff.svg"];
    wait_until("diff.svg", LIMIT, || {
        for name in ["before.pb.gz", "after.pb.gz"] {
            written(name);
        }
        let mut command = Command::new(millstream());
        let output = command.args(diff).current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{}", errors(&output));
        std::fs::read_to_string(dir.path().join("diff.svg")).unwrap().contains("parsed")
    });
}

#[test]
fn one_profile_runs_at_a_time_and_a_signal_ends_it_early() {
    let dir = folder();
    let (agent, _writer) = busy(dir.path());
    let mut first = command(dir.path(), &["-d", "10m", "-o", "first.collapsed"]).spawn().unwrap();
    wait_until("a profile runs", LIMIT, || {
        agent.get("/api/profile").is_some_and(|body| body.contains("\"running\":true"))
    });
    let second = profile(dir.path(), &["-d", "1s", "-o", "second.collapsed"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(errors(&second).contains("another profile is running for"), "{}", errors(&second));
    // On a busy host the agent may get no CPU time for a while, and the start of a profile also
    // takes some.
    let cpu_seconds = || agent.single("millstream_process_cpu_seconds_total");
    let before = cpu_seconds().unwrap();
    wait_until("the agent works", LIMIT, || cpu_seconds() > Some(before + 2.0));
    let pid = Pid::from_child(&first);
    kill_process(pid, Signal::INT).unwrap();
    assert!(first.wait().unwrap().success());
    assert!(!lines(&dir.path().join("first.collapsed")).is_empty());
    assert!(!dir.path().join("second.collapsed").exists());
}

/// Continuous profiling keeps samples from before the command, even after a 1 ms profile has
/// interrupted it.
#[test]
fn an_agent_that_profiles_itself_has_samples_of_the_last_minutes() {
    let dir = folder();
    let (mut agent, _writer) = busy(dir.path());
    let off = profile(dir.path(), &["--last", "1m", "-o", "off.collapsed"]);
    assert_eq!(off.status.code(), Some(1));
    assert!(errors(&off).contains("set profiler.continuous to true"), "{}", errors(&off));
    agent.reload(&format!("profiler: {{ continuous: true }}\n{CONFIG}"));
    let samples = |name: &str| {
        wait_until("samples", LIMIT, || {
            let output = profile(dir.path(), &["--last", "1m", "-o", name]);
            let stacks = lines(&dir.path().join(name));
            output.status.success() && by_root(&stacks).contains_key("parsed")
        });
        by_root(&lines(&dir.path().join(name))).values().sum::<u64>()
    };
    let before = samples("before.collapsed");
    let fine = profile(dir.path(), &["-d", "1s", "-i", "1ms", "-o", "fine.collapsed"]);
    assert!(fine.status.success(), "{}", errors(&fine));
    wait_until("sampling continues", LIMIT, || samples("after.collapsed") > before);
    let state = agent.get("/api/profile").unwrap();
    assert!(state.contains("\"keep_seconds\":900"), "{state}");
    let wrong = profile(dir.path(), &["--last", "5", "-o", "wrong.collapsed"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", errors(&wrong));
    agent.reload(CONFIG);
    wait_until("it is off", LIMIT, || {
        !profile(dir.path(), &["--last", "1m", "-o", "off.collapsed"]).status.success()
    });
    assert!(agent.stop().success(), "{}", agent.log());
}

#[test]
fn wrong_uses_say_what_to_write() {
    let dir = folder();
    let none = profile(dir.path(), &["--data-dir", "data", "-o", "a.svg"]);
    assert_eq!(none.status.code(), Some(2), "-c and --data-dir exclude each other");
    std::fs::write(dir.path().join("millstream.yaml"), CONFIG.replace("DIR", ".")).unwrap();
    let name = profile(dir.path(), &["-o", "a.gz"]);
    assert_eq!(name.status.code(), Some(2));
    assert!(errors(&name).contains("use the suffix .html"), "{}", errors(&name));
    let (_agent, _writer) = busy(dir.path());
    let fast = profile(dir.path(), &["-i", "1us", "-o", "a.svg"]);
    assert_eq!(fast.status.code(), Some(2));
    assert!(errors(&fast).contains("use 1 ms to 1 s"), "{}", errors(&fast));
    let alloc = profile(dir.path(), &["-e", "alloc", "-d", "1s", "-o", "a.svg"]);
    assert_eq!(alloc.status.code(), Some(1));
    assert!(errors(&alloc).contains("objects of the JVM"), "{}", errors(&alloc));
    let alloc = profile(dir.path(), &["-e", "alloc", "-i", "10ms", "-o", "a.svg"]);
    assert_eq!(alloc.status.code(), Some(2), "{}", errors(&alloc));
    let long = profile(dir.path(), &["-d", "2h", "-o", "a.svg"]);
    assert!(errors(&long).contains("is not from 1ms to 1h"), "{}", errors(&long));
    let diff = ["profile", "--diff", "millstream.yaml", "millstream.yaml", "-o", "a.svg"];
    let diff = Command::new(millstream()).args(diff).current_dir(dir.path()).output().unwrap();
    assert_eq!(diff.status.code(), Some(1));
    assert!(errors(&diff).contains("millstream.yaml: "), "{}", errors(&diff));
}

#[test]
fn an_agent_that_dies_fails_its_profile_and_leaves_no_file() {
    let dir = folder();
    let (mut agent, _writer) = busy(dir.path());
    let first = command(dir.path(), &["-d", "10m", "-o", "first.html"]).spawn().unwrap();
    wait_until("a profile runs", LIMIT, || {
        agent.get("/api/profile").is_some_and(|body| body.contains("\"running\":true"))
    });
    agent.kill();
    assert_eq!(first.wait_with_output().unwrap().status.code(), Some(1));
    let left = std::fs::read_dir(dir.path()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with("first")), "{left:?}");
}

/// A client whose terminal is closed writes the samples so far. A killed client leaves its profile
/// running; the next command prints the id with which the profile can be ended.
#[test]
fn a_profile_ends_with_its_terminal_and_can_be_ended_if_its_client_is_killed() {
    let dir = folder();
    let (agent, _writer) = busy(dir.path());
    let runs = |is_running: bool| {
        let expected = format!("\"running\":{is_running}");
        agent.get("/api/profile").is_some_and(|body| body.contains(&expected))
    };
    let mut first = command(dir.path(), &["-d", "10m", "-o", "first.collapsed"]).spawn().unwrap();
    wait_until("a profile runs", LIMIT, || runs(true));
    kill_process(Pid::from_child(&first), Signal::HUP).unwrap();
    assert!(first.wait().unwrap().success());
    assert!(dir.path().join("first.collapsed").exists());
    wait_until("the profile is ended", LIMIT, || runs(false));
    let mut second = command(dir.path(), &["-d", "10m", "-o", "second.svg"]).spawn().unwrap();
    wait_until("a profile runs", LIMIT, || runs(true));
    second.kill().unwrap();
    second.wait().unwrap();
    let third = profile(dir.path(), &["-d", "1s", "-o", "third.svg"]);
    assert!(errors(&third).contains("DELETE /api/profile?id=2 ends it"), "{}", errors(&third));
    assert!(agent.get("/api/profile").unwrap().contains("\"id\":2"));
}

#[test]
fn profiles_of_different_events_are_not_compared() {
    let dir = folder();
    let (_agent, _writer) = busy(dir.path());
    for (event, name) in [("cpu", "cpu.pb.gz"), ("wall", "wall.pb.gz")] {
        let output = profile(dir.path(), &["-d", "300ms", "-e", event, "-o", name]);
        assert!(output.status.success(), "{}", errors(&output));
    }
    let diff = ["profile", "--diff", "cpu.pb.gz", "wall.pb.gz", "-o", "diff.svg"];
    let diff = Command::new(millstream()).args(diff).current_dir(dir.path()).output().unwrap();
    assert_eq!(diff.status.code(), Some(1));
    assert!(
        errors(&diff).contains("a profile of cpu, but the second is a profile of wall"),
        "{}",
        errors(&diff)
    );
}

/// Returns a configuration with an operator that formats strings, on this JDK.
fn operator(home: &Path, script_number: usize) -> String {
    format!(
        "limits: {{ memory: 640MiB, threads: 2 }}\njvm: {{ home: {}, heap: 64MiB }}\n\
         sources: {{ app: {{ type: file, include: ['DIR/app.log'] }} }}\n\
         transforms:\n  grow: {{ type: jvm, inputs: [app], language: groovy, \
         script: \"row.message = String.format('%s %s', String.format('%s %s', row.message.reverse(), {script_number}), {script_number})\" }}\n\
         sinks: {{ out: {{ type: blackhole, inputs: [grow] }} }}\n",
        home.display()
    )
}

/// Profiles the agent at the minimum interval while its script changes, so that classes are loaded
/// and unloaded during the profile.
fn profile_reloaded(dir: &Path, agent: &mut Agent, home: &Path, event: &str) -> OperatorSamples {
    let args = ["-d", "2s", "-i", "1ms", "-e", event, "-o", "jvm.collapsed"];
    let running = command(dir, &args).stderr(Stdio::piped()).spawn().unwrap();
    for script_number in 0..4 {
        std::thread::sleep(Duration::from_millis(400));
        agent.reload(&operator(home, script_number));
    }
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "{}\n{}", errors(&output), agent.log());
    OperatorSamples::of(&lines(&dir.join("jvm.collapsed")))
}

/// Seconds for which each JDK is profiled.
const SECONDS: TestSize = TestSize { gate: 1, long: 300 };

/// In a stack, Java's frames follow the frame of the Rust function that called them, and precede
/// the frames of the runtime that they call.
#[test]
fn stacks_of_operators_have_java_frames_while_their_scripts_change() {
    built();
    let report = Report::of_test();
    for home in homes() {
        let dir = folder();
        let _writer = Writer::start(dir.path());
        let mut agent = Agent::start(dir.path(), &operator(&home, 7), &[]);
        wait_until("the operator's samples", LIMIT, || {
            assert!(!agent.poll_ended(), "{}", agent.log());
            let output = profile(dir.path(), &["-d", "1s", "-i", "1ms", "-o", "jvm.collapsed"]);
            let is_early = errors(&output).contains("no agent is running");
            assert!(output.status.success() || is_early, "{}", errors(&output));
            by_root(&lines(&dir.path().join("jvm.collapsed"))).contains_key("grow")
        });
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(SECONDS.get()) {
            report.count(1);
            for event in ["cpu", "wall"] {
                let samples = profile_reloaded(dir.path(), &mut agent, &home, event);
                let OperatorSamples { all, java, whole, format } = samples;
                // A deep stack may be truncated.
                assert!(whole * 100 >= java * 98, "{event}: {samples:?}");
                // With `wall`, a thread may also be waiting for a garbage collection, without Java
                // frames.
                let least = if event == "cpu" { all * 7 / 10 } else { 1 };
                assert!(java >= least && format * 4 > java, "{event}: {samples:?}");
            }
        }
        let output = profile(dir.path(), &["-d", "1s", "-e", "alloc", "-o", "alloc.collapsed"]);
        assert!(output.status.success(), "{}", errors(&output));
        assert!(errors(&output).contains("512 KiB of objects"), "{}", errors(&output));
        let samples = OperatorSamples::of(&lines(&dir.path().join("alloc.collapsed")));
        let OperatorSamples { all, whole, format, .. } = samples;
        // A thread that is being attached to the JVM allocates before its first call.
        assert!(whole > 0 && whole * 10 >= all * 8 && format > 0, "{samples:?}");
        assert!(agent.stop().success(), "{}", agent.log());
    }
}

/// Numbers of samples of an operator.
#[derive(Debug, Default)]
struct OperatorSamples {
    all: u64,
    /// Samples with Java frames.
    java: u64,
    /// Samples in which Java frames follow the frame of the Rust function that called them.
    whole: u64,
    /// Samples in `String.format`.
    format: u64,
}

impl OperatorSamples {
    fn of(stacks: &[String]) -> OperatorSamples {
        let mut samples = OperatorSamples::default();
        for stack in stacks.iter().filter(|stack| stack.starts_with("grow;")) {
            let (frames, count) = stack.rsplit_once(' ').unwrap();
            let count: u64 = count.parse().unwrap();
            let at = |name: &str| frames.split(';').position(|frame| frame.contains(name));
            let caller = at("millstream_jvm::operator::Operator::call");
            let called = at("dev.millstream.operator.runtime.Bridge.apply");
            let format = at("java.lang.String.format").filter(|at| Some(*at) > called);
            samples.all += count;
            samples.java += count * u64::from(called.is_some());
            samples.whole += count * u64::from(caller.is_some() && caller < called);
            samples.format += count * u64::from(format.is_some());
        }
        samples
    }
}

/// Number of profiles during reloads.
const PROFILES: TestSize = TestSize { gate: 4, long: 20 };

/// Profiles both events at the minimum interval during reloads, under full load.
#[test]
fn an_agent_survives_profiles_while_it_is_reloaded() {
    let dir = folder();
    let (mut agent, _writer) = busy(dir.path());
    Report::of_test().count(PROFILES.get());
    for turn in 0..PROFILES.get() {
        let event = if turn % 2 == 0 { "cpu" } else { "wall" };
        let name = format!("{turn}.collapsed");
        let args = ["-d", "1500ms", "-i", "1ms", "-e", event, "-o", &name];
        let running = command(dir.path(), &args).spawn().unwrap();
        for change in 0..3 {
            std::thread::sleep(Duration::from_millis(300));
            agent.reload(&CONFIG.replace("<a>", &format!("<a{turn}{change}>")));
        }
        let output = running.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", agent.log());
        assert!(!lines(&dir.path().join(name)).is_empty());
    }
    assert!(agent.stop().success(), "{}", agent.log());
}
