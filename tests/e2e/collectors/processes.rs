//! Tests processes of collectors that end in different ways. Events that the agent has taken arrive
//! once, other pipelines continue, and the agent calls the collectors again.

use super::{PATIENCE, collector, faulty, settings, wait_for_lines, wait_for_reloads};
use crate::support::java::{process_id, restarts, test_operators};
use crate::support::{Agent, folder, lines, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Maximum delay of lines in a pipeline without a collector while a process restarts.
const SOON: Duration = Duration::from_secs(10);

/// Returns a configuration with a collector in process `team`, and a pipeline without a collector.
fn config(collector: &str) -> String {
    let collector = collector.replace("type: jvm,", "type: jvm, mode: process, process: team,");
    settings("768MiB")
        + &format!(
            "sources:\n  ticks: {collector}\n  app: {{ type: file, include: ['DIR/app.log'] }}\n\
             sinks:\n  \
               collected: {{ type: file, inputs: [ticks], path: DIR/collected.txt, sync: 100ms, encoding: {{ codec: text }} }}\n  \
               out: {{ type: file, inputs: [app], path: DIR/out.txt, sync: 100ms, encoding: {{ codec: text }} }}\n"
        )
}

/// Returns the numbers in a file in their order, grouped by the process that wrote them.
fn numbers(path: &Path) -> BTreeMap<String, Vec<u64>> {
    let mut numbers: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for line in lines(path) {
        let (process, number) = line.split_once(' ').unwrap_or((&line, ""));
        // The first line of each call starts with `notes`.
        if process != "notes" {
            numbers.entry(process.to_owned()).or_default().push(number.parse().unwrap());
        }
    }
    numbers
}

fn kill(agent: &Agent) {
    let before = restarts(agent, "team");
    kill_process(process_id(agent, "team"), Signal::KILL).unwrap();
    wait_until("the process runs again", PATIENCE, || restarts(agent, "team") > before);
}

/// Checks that `count` lines arrive in the pipeline without a collector.
fn check_beside(dir: &Path, count: usize) {
    fs::write(dir.join("app.log"), "one line\n".repeat(count)).unwrap();
    let out = dir.join("out.txt");
    wait_until("lines beside", SOON, || out.exists() && lines(&out).len() == count);
}

#[test]
fn what_the_agent_has_taken_arrives_once_whenever_the_process_is_killed() {
    let dir = folder();
    let (notes, out) = (dir.path().join("notes.txt"), dir.path().join("collected.txt"));
    let options = format!("options: {{ fault: notes, file: {} }}", notes.display());
    let collector_of_notes = faulty("notes", "").replace("options: { fault: notes }", &options);
    let mut agent = Agent::start(dir.path(), &config(&collector_of_notes), &[]);
    let processes = || numbers(&notes).len();
    for count in 1..=4 {
        wait_until("the collector runs", PATIENCE, || notes.exists() && processes() >= count);
        std::thread::sleep(Duration::from_millis(300));
        kill(&agent);
        check_beside(dir.path(), count);
    }
    wait_until("the collector runs", PATIENCE, || processes() == 5);
    assert!(agent.stop().success(), "{}", agent.log());
    let (taken, arrived) = (numbers(&notes), numbers(&out));
    assert_eq!(taken.len(), 5);
    for (process, taken) in taken {
        let arrived = &arrived[&process];
        let expected: Vec<u64> = (1..=arrived.len() as u64).collect();
        assert_eq!(*arrived, expected, "of process {process}");
        assert!(taken.last() <= arrived.last(), "{taken:?} of process {process}");
    }
}

#[test]
fn a_native_crash_of_a_collector_harms_its_process_alone() {
    let dir = folder();
    let other = "  other: { type: jvm, language: groovy, mode: process, process: other, interval: 50ms, script: \"events.add('other')\" }\n";
    let config = config(&faulty("crash", "interval: 20ms"))
        .replace("sources:\n", &format!("sources:\n{other}"))
        .replace("inputs: [ticks]", "inputs: [ticks, other]")
        .replace("options: [", "options: ['-XX:ErrorFile=DIR/hs_err_%p.log', ")
        // Leaves room for another JVM.
        .replace("memory: 768MiB", "memory: 1200MiB");
    let mut agent = Agent::start(dir.path(), &config, &[]);
    let out = dir.path().join("collected.txt");
    let count = |line: &str| lines(&out).iter().filter(|of| *of == line).count();
    wait_until("it crashes again and again", PATIENCE, || out.exists() && count("crash 2") >= 3);
    check_beside(dir.path(), 100);
    let before = count("other");
    wait_until("the other collector continues", SOON, || count("other") > before + 3);
    assert!(restarts(&agent, "team") >= 2.0);
    assert_eq!(restarts(&agent, "other"), 0.0);
    agent.assert_logs("jvm process team has exited: signal");
    assert!(agent.stop().success(), "{}", agent.log());
}

/// One of the collectors that share a process can no longer be compiled.
#[test]
fn a_collector_that_crashes_when_it_is_compiled_is_given_up_alone() {
    let dir = folder();
    let file = dir.path().join("broken");
    let other = "{ type: jvm, language: groovy, mode: process, process: team, interval: 50ms, script: \"events.add('other')\" }";
    let before = format!("sources:\n  a: {other}\n  z: {other}\n");
    let config = config(&faulty("none", "interval: 20ms"))
        .replace("sources:\n", &before)
        .replace("inputs: [ticks]", "inputs: [a, ticks, z]")
        .replace(
            "options: [",
            "options: ['-XX:ErrorFile=DIR/hs_err_%p.log', '-Dbroken=DIR/broken', ",
        );
    let mut agent = Agent::start(dir.path(), &config, &[]);
    let out = dir.path().join("collected.txt");
    let count = |line: &str| lines(&out).iter().filter(|of| of.starts_with(line)).count();
    wait_until("all run", PATIENCE, || out.exists() && count("none") > 1 && count("other") > 4);
    fs::write(&file, "").unwrap();
    kill(&agent);
    wait_until("it is given up", PATIENCE, || {
        agent.log().contains("the agent does not retry until")
    });
    for id in ["a", "z"] {
        let calls = || collector(&agent, id)["calls"].as_u64().unwrap_or(0);
        let before = calls();
        wait_until("the others are called", PATIENCE, || calls() > before + 20);
    }
    fs::remove_file(&file).unwrap();
    agent.reload(&config.replace("interval: 20ms", "interval: 30ms"));
    wait_for_reloads(&agent, 1);
    let before = count("none");
    wait_until("it runs again", PATIENCE, || count("none") > before + 1);
    assert!(agent.stop().success(), "{}", agent.log());
}

#[test]
fn a_process_that_hangs_is_ended_and_its_collectors_are_called_again() {
    let dir = folder();
    let script = "{ type: jvm, language: groovy, interval: 50ms, script: \"events.add('tick')\" }";
    let mut agent = Agent::start(dir.path(), &config(script), &[]);
    let out = dir.path().join("collected.txt");
    wait_for_lines(&out, 3);
    kill_process(process_id(&agent, "team"), Signal::STOP).unwrap();
    check_beside(dir.path(), 100);
    wait_until("it is ended", PATIENCE, || restarts(&agent, "team") > 0.0);
    wait_until("the log says why", PATIENCE, || agent.log().contains("it did not respond"));
    let before = lines(&out).len();
    wait_for_lines(&out, before + 3);
    assert!(agent.stop().success(), "{}", agent.log());
}

#[test]
fn a_process_ends_with_its_last_collector_and_with_the_agent() {
    let dir = folder();
    let script = "{ type: jvm, language: groovy, interval: 50ms, script: \"events.add('tick')\" }";
    let config = config(script);
    let mut agent = Agent::start(dir.path(), &config, &[]);
    let out = dir.path().join("collected.txt");
    wait_for_lines(&out, 3);
    let first = process_id(&agent, "team");
    let without = config
        .lines()
        .filter(|line| !line.starts_with("  ticks:") && !line.starts_with("  collected:"))
        .collect::<Vec<_>>()
        .join("\n");
    agent.reload(&without);
    wait_for_reloads(&agent, 1);
    wait_until("the process ends", PATIENCE, || !runs(first));
    agent.reload(&config);
    wait_for_reloads(&agent, 2);
    let before = lines(&out).len();
    wait_for_lines(&out, before + 3);
    let second = process_id(&agent, "team");
    agent.kill();
    wait_until("the process ends with the agent", PATIENCE, || !runs(second));
}

#[test]
fn programs_that_a_collector_starts_end_with_the_agent() {
    let dir = folder();
    let config = config(&faulty("program", "interval: 1h, timeout: 1h"));
    let out = dir.path().join("collected.txt");
    let mut agent = Agent::start(dir.path(), &config, &[]);
    let program = |agent: &Agent| {
        let before = lines(&out).len();
        wait_for_lines(&out, before + 2);
        assert!(restarts(agent, "team") == 0.0, "{}", agent.log());
        let id = lines(&out).last().unwrap().parse().unwrap();
        Pid::from_raw(id).unwrap()
    };
    let first = program(&agent);
    assert!(runs(first) && agent.stop().success(), "{}", agent.log());
    wait_until("the program ends with an agent that stops", PATIENCE, || !runs(first));
    let mut agent = Agent::start(dir.path(), &config, &[]);
    let second = program(&agent);
    agent.kill();
    wait_until("the program ends with an agent that is killed", PATIENCE, || !runs(second));
}

/// The first calls in a process take longer than the collector lets the process live, so that each
/// crash interrupts a call.
#[test]
fn a_collector_that_crashes_takes_no_event_from_an_operator() {
    let dir = folder();
    let operator = "transforms:
  op: { type: jvm, inputs: [app], language: groovy, mode: process, process: team, script: 'long n = 0; for (int i = 0; i < 5000000; i++) { n += i }; row.seen = n' }
";
    let config = config(&faulty("crash", "interval: 100ms"))
        .replace("sinks:\n", &format!("{operator}sinks:\n"))
        .replace("inputs: [app]", "inputs: [op]")
        .replace("type: jvm, inputs: [op]", "type: jvm, inputs: [app]")
        .replace("codec: text } }\n", "codec: json, metadata: [] } }\n")
        .replace("options: [", "options: ['-XX:ErrorFile=DIR/hs_err_%p.log', ");
    let mut agent = Agent::start(dir.path(), &config, &[]);
    let mut app = fs::File::create(dir.path().join("app.log")).unwrap();
    let out = dir.path().join("out.txt");
    let mut written = 0;
    wait_until("it crashes again and again", PATIENCE, || {
        // Keep the number of waiting lines small; otherwise a busy host would spend minutes on
        // repeated calls.
        if written < lines(&out).len() + 3 {
            app.write_all(b"a line\n").unwrap();
            written += 1;
        }
        restarts(&agent, "team") >= 4.0
    });
    wait_until("every line arrives", PATIENCE, || lines(&out).len() >= written);
    let lines = lines(&out);
    let seen = lines.iter().filter(|line| line.contains("\"seen\":12499997500000")).count();
    assert_eq!((lines.len(), seen), (written, written), "{}", agent.log());
    let crashed_alone = |line: &str| line.contains("exited in every attempt");
    assert!(!agent.log().lines().any(crashed_alone), "{}", agent.log());
    assert!(agent.stop().success(), "{}", agent.log());
}

#[test]
fn what_cannot_be_compiled_at_a_restart_is_tried_again() {
    let dir = folder();
    let (jar, away) = (dir.path().join("team.jar"), dir.path().join("away.jar"));
    fs::copy(test_operators(), &jar).unwrap();
    let collector = faulty("none", "interval: 50ms")
        .replace(&test_operators().display().to_string(), &jar.display().to_string());
    let mut agent = Agent::start(dir.path(), &config(&collector), &[]);
    let out = dir.path().join("collected.txt");
    wait_for_lines(&out, 3);
    fs::rename(&jar, &away).unwrap();
    kill(&agent);
    let says = |text: &str| agent.log().matches(text).count();
    wait_until("it does not run", PATIENCE, || says("ticks: the collector does not run") == 1);
    let before = lines(&out).len();
    fs::rename(&away, &jar).unwrap();
    wait_until("it runs again", PATIENCE, || says("ticks: the collector is running again") == 1);
    wait_for_lines(&out, before + 3);
    assert_eq!(restarts(&agent, "team"), 1.0);
    assert!(agent.stop().success(), "{}", agent.log());
}

/// Returns whether a process exists and has not ended.
fn runs(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}
