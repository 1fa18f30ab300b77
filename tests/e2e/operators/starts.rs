//! Tests hosts without a suitable Java, operators that cannot start, signals, and agents without
//! operators.

use super::{Java, PATIENCE, each_jdk, faulty, settings};
use crate::support::java::{built, homes};
use crate::support::{Agent, folder, millstream, wait_until, write_config};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const GROOVY: &str = "{ type: jvm, inputs: [app], language: groovy, script: 'row.x = 1' }";

fn config(settings: &str, transform: &str) -> String {
    format!(
        "{settings}sources: {{ app: {{ type: file, include: ['DIR/app.log'] }} }}\ntransforms: {{ op: {transform} }}\n\
         sinks: {{ out: {{ type: file, inputs: [op], path: DIR/out.json }} }}\n"
    )
}

/// Returns the error that `validate` prints for an invalid configuration.
fn refusal(dir: &Path, config: &str) -> String {
    let path = write_config(dir, config);
    let output = Command::new(millstream()).args(["validate", "-c"]).arg(path).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_missing_or_old_java_is_named_with_what_was_searched() {
    let dir = folder();
    let old = dir.path().join("old");
    fs::create_dir_all(old.join("lib/server")).unwrap();
    fs::write(old.join("lib/server/libjvm.so"), "").unwrap();
    fs::write(old.join("release"), "JAVA_VERSION=\"11.0.2\"\n").unwrap();
    let missing = refusal(dir.path(), &config("jvm: { home: DIR/none }\n", GROOVY));
    assert!(missing.contains("/none"), "{missing}");
    let too_old = refusal(dir.path(), &config("jvm: { home: DIR/old }\n", GROOVY));
    assert!(too_old.contains("11") && too_old.contains("17"), "{too_old}");
}

#[test]
fn operators_that_cannot_be_loaded_are_named() {
    each_jdk(|home| {
        let dir = folder();
        fs::write(dir.path().join("bad.jar"), "no jar").unwrap();
        let of =
            |transform: &str| refusal(dir.path(), &home.adapt(config(&settings(&home), transform)));
        let class = |jar: &str, class: &str| {
            of(&format!(
                "{{ type: jvm, inputs: [app], language: class, jar: {jar}, class: {class} }}"
            ))
        };
        assert!(class("DIR/bad.jar", "A").contains("bad.jar"));
        assert!(class("DIR/none.jar", "A").contains("none.jar"));
        let missing =
            of(&faulty("none", "").replace("class: Faulty", "class: com.example.Missing"));
        assert!(missing.contains("com.example.Missing"), "{missing}");
        let refused = of(&GROOVY.replace("row.x = 1", "System.exit(1)"));
        assert!(refused.contains("System") && refused.contains("op"), "{refused}");
    });
}

/// The agent's signal handlers remain active while the JVM runs.
#[test]
fn signals_reload_and_stop_an_agent_with_a_jvm() {
    each_jdk(|home| {
        for signal in [Signal::TERM, Signal::INT] {
            let dir = folder();
            fs::write(dir.path().join("app.log"), "one\n").unwrap();
            let config = home.adapt(config(&settings(&home), GROOVY));
            let mut agent = Agent::start(dir.path(), &config, &[]);
            wait_until("it is ready", PATIENCE, || agent.get("/ready").is_some());
            agent.send(Signal::HUP);
            wait_until("the reload", PATIENCE, || agent.log().contains("nothing has changed"));
            agent.send(signal);
            assert!(agent.wait(PATIENCE).success(), "{}", agent.log());
        }
    });
}

#[test]
fn an_agent_without_operators_does_not_load_a_jvm() {
    let dir = folder();
    fs::write(dir.path().join("app.log"), "one\n").unwrap();
    let plain = "sources: { app: { type: file, include: ['DIR/app.log'] } }\nsinks: { out: { type: blackhole, inputs: [app] } }\n";
    let agent = Agent::start(dir.path(), plain, &[]);
    wait_until("it is ready", PATIENCE, || agent.get("/ready").is_some());
    let maps = fs::read_to_string(format!("/proc/{}/maps", agent.pid().as_raw_nonzero())).unwrap();
    assert!(!maps.contains("libjvm"), "{maps}");
}

#[test]
fn a_memory_limit_that_the_jvm_does_not_fit_into_is_refused() {
    let dir = folder();
    let config = config("limits: { memory: 128MiB }\n", GROOVY);
    for config in [config.replace("type: jvm,", "type: jvm, mode: process,"), config] {
        let refused = refusal(dir.path(), &config);
        assert!(refused.contains("limits.memory") && refused.contains("JVM"), "{refused}");
    }
}

/// Returns the ids of the child processes of a process.
fn children(of: Pid) -> BTreeSet<i32> {
    let tasks = fs::read_dir(format!("/proc/{}/task", of.as_raw_nonzero())).into_iter().flatten();
    let lists = tasks.flatten().map(|task| fs::read_to_string(task.path().join("children")));
    let ids = |list: String| list.split_whitespace().flat_map(str::parse).collect::<Vec<i32>>();
    lists.flatten().flat_map(ids).collect()
}

/// Kills the JVM processes that the agent starts, each after a delay from its start.
fn kill_processes(agent: &mut Agent, after: &[Duration]) {
    let mut killed = BTreeSet::new();
    for pause in after {
        let mut next = None;
        wait_until("a process is started", PATIENCE, || {
            assert!(!agent.poll_ended(), "{}", agent.log());
            next = children(agent.pid()).difference(&killed).next().copied();
            next.is_some()
        });
        std::thread::sleep(*pause);
        let next = next.unwrap();
        // The agent may already have ended the process.
        let _ = kill_process(Pid::from_raw(next).unwrap(), Signal::KILL);
        killed.insert(next);
    }
}

#[test]
fn processes_that_are_killed_while_the_agent_starts_are_started_again() {
    built();
    let home = homes().pop().unwrap();
    let home = Java { home: &home, runs_in_child: true };
    let dir = folder();
    let lines = "a line\n".repeat(1000);
    fs::write(dir.path().join("app.log"), &lines).unwrap();
    let ticks = "ticks: { type: jvm, mode: process, process: other, language: groovy, interval: 50ms, script: \"events.add('tick')\" }";
    let more = "beside: { type: file, inputs: [app], path: DIR/beside.txt }, ticked: { type: file, inputs: [ticks], path: DIR/ticked.txt }";
    let config = config(&settings(&home), GROOVY)
        .replace("640MiB", "1GiB")
        .replace("type: jvm,", "type: jvm, mode: process, process: team,")
        .replace("sources: { ", &format!("sources: {{ {ticks}, "))
        .replace("sinks: { ", &format!("sinks: {{ {more}, "));
    let mut agent = Agent::start(dir.path(), &config, &[]);
    // Some kills hit a process that is starting, others a process that is compiling a script.
    kill_processes(&mut agent, &[0, 100, 300, 500, 0, 700].map(Duration::from_millis));
    let count = |name: &str| {
        fs::read_to_string(dir.path().join(name)).map_or(0, |text| text.lines().count())
    };
    wait_until("all lines", PATIENCE, || {
        assert!(!agent.poll_ended(), "{}", agent.log());
        count("out.json") == 1000 && count("beside.txt") == 1000 && count("ticked.txt") > 0
    });
    assert!(agent.stop().success(), "{}", agent.log());
}
