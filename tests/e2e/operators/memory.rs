//! Tests too little memory for the JVM, for Groovy, and for data that an operator keeps.

use super::{Java, PATIENCE, documents, each_jdk, faulty, noted};
use crate::support::{Agent, folder, millstream, wait_until, write_config};
use rustix::process::Signal;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

const GROOVY: &str = "{ type: jvm, inputs: [app], language: groovy, script: 'row.seen = true' }";

/// Returns a configuration with a pipeline through the operator and a pipeline without it.
fn config(home: Java<'_>, options: &str, transform: &str) -> String {
    home.adapt(format!(
        "limits: {{ memory: 640MiB, threads: 2 }}\n\
         jvm: {{ home: {}, heap: 32MiB, options: [{options}] }}\n\
         sources:\n  \
           app: {{ type: file, include: ['DIR/app.log'] }}\n  \
           other: {{ type: file, include: ['DIR/other.log'] }}\n\
         transforms:\n  op: {transform}\n\
         sinks:\n  \
           out: {{ type: file, inputs: [op], path: DIR/out.json, encoding: {{ codec: json, metadata: [] }} }}\n  \
           beside: {{ type: file, inputs: [other], path: DIR/beside.json, encoding: {{ codec: json, metadata: [] }} }}\n",
        home.display()
    ))
}

/// Runs an agent to the end of its input, with JVM options in the environment.
fn run(dir: &Path, config: &str, options: &str) -> Output {
    let path = write_config(dir, config);
    let mut command = Command::new(millstream());
    command.args(["run", "--until-eof", "-c"]).arg(path).env("_JAVA_OPTIONS", options);
    command.output().unwrap()
}

/// Checks that an agent fails to start, with this exit status and these words in its messages.
fn assert_is_refused(output: &Output, code: i32, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    words.iter().for_each(|word| assert!(text.contains(word), "{word}: {text}"));
}

/// Appends a line to both inputs, and waits until the sinks have it. Returns the event that the
/// operator made of the line.
fn pass(dir: &Path, message: &str) -> serde_json::Value {
    for input in ["app.log", "other.log"] {
        let mut file = File::options().create(true).append(true).open(dir.join(input)).unwrap();
        file.write_all(format!("{message}\n").as_bytes()).unwrap();
    }
    let found = |name: &str| {
        documents(&dir.join(name)).into_iter().rev().find(|event| event["message"] == message)
    };
    let mut made = None;
    wait_until(&format!("{message} arrives"), PATIENCE, || {
        made = found("out.json");
        made.is_some() && found("beside.json").is_some()
    });
    made.unwrap()
}

/// Checks that an agent can still reload and stop.
fn assert_obeys(mut agent: Agent) {
    agent.send(Signal::HUP);
    wait_until("the reload", PATIENCE, || agent.log().contains("nothing has changed"));
    assert!(agent.stop().success(), "{}", agent.log());
    assert!(!agent.log().contains("panicked"), "{}", agent.log());
}

#[test]
fn the_smallest_heap_is_enough_for_groovy() {
    each_jdk(|home| {
        let dir = folder();
        let agent = Agent::start(dir.path(), &config(home, "", GROOVY), &[]);
        assert_eq!(pass(dir.path(), "one")["seen"], true);
        assert_obeys(agent);
    });
}

#[test]
fn a_heap_that_is_too_small_is_an_error_with_its_reason() {
    each_jdk(|home| {
        let dir = folder();
        let config = config(home, "", GROOVY);
        let run = |options: &str| run(dir.path(), &config, options);
        // A JVM with too little memory ends its process: a separate process, or the agent.
        let code = if home.runs_in_child { 2 } else { 1 };
        assert_is_refused(&run("-Xms1m -Xmx1m"), code, &["Too small maximum heap"]);
        assert_is_refused(
            &run("-Xms1m -Xmx2m"),
            2,
            &["op: ", "OutOfMemoryError", "raise jvm.heap"],
        );
        assert_is_refused(
            &run("-Xms1m -Xmx6m"),
            2,
            &["op: ", "OutOfMemoryError", "raise jvm.heap"],
        );
    });
}

#[test]
fn a_metaspace_that_is_too_small_is_an_error_with_its_reason() {
    each_jdk(|home| {
        let words = ["op: ", "raise -XX:MaxMetaspaceSize", "OutOfMemoryError: Metaspace"];
        // The first size is too small for the JVM. With the second size, Java may instead report an
        // error about a class that it cannot link.
        for (size, words) in [("1m", &words[..1]), ("4m", &words[..2]), ("12m", &words)] {
            let dir = folder();
            let config = config(home, &format!("'-XX:MaxMetaspaceSize={size}'"), GROOVY);
            assert_is_refused(&run(dir.path(), &config, ""), 2, words);
        }
    });
}

#[test]
fn a_reload_without_room_for_its_classes_is_refused_and_the_agent_continues() {
    each_jdk(|home| {
        let dir = folder();
        let with = |transform: &str| config(home, "'-XX:MaxMetaspaceSize=12m'", transform);
        let agent = Agent::start(dir.path(), &with(&faulty("none", "")), &[]);
        assert_eq!(pass(dir.path(), "one")["seen"], true);
        agent.reload(&with(GROOVY));
        wait_until("the reload is refused", PATIENCE, || {
            agent.single("millstream_config_reload_success") == Some(0.0)
        });
        wait_until("the log says why", PATIENCE, || {
            agent.log().contains("raise -XX:MaxMetaspaceSize")
        });
        assert_eq!(pass(dir.path(), "two")["seen"], true);
        write_config(dir.path(), &with(&faulty("none", "")));
        assert_obeys(agent);
    });
}

#[test]
fn an_operator_that_uses_up_the_metaspace_fails_its_events_alone() {
    each_jdk(|home| {
        let dir = folder();
        let transform = faulty("classes", "timeouts: { event: 60s, batch: 60s }");
        let config = config(home, "'-XX:MaxMetaspaceSize=24m'", &transform);
        let agent = Agent::start(dir.path(), &config, &[]);
        assert_eq!(pass(dir.path(), "one")["seen"], true);
        assert_eq!(pass(dir.path(), "bad")["seen"], serde_json::Value::Null);
        assert_eq!(pass(dir.path(), "two")["seen"], true);
        let counted = || agent.metric(&noted("out_of_memory"));
        wait_until("it is counted", PATIENCE, || counted() == Some(1.0));
        let told = || agent.log().contains("OutOfMemoryError: Metaspace");
        wait_until("the log says why", PATIENCE, told);
        let has_failed =
            || agent.get("/api/rules").is_some_and(|rules| rules.contains("\"failed\":1"));
        wait_until("the API shows the failure", PATIENCE, has_failed);
        assert_obeys(agent);
    });
}

#[test]
fn an_operator_that_has_filled_the_heap_harms_its_own_events_and_can_be_removed() {
    each_jdk(|home| {
        let dir = folder();
        let with = |transform: &str| config(home, "", transform);
        let agent = Agent::start(dir.path(), &with(&faulty("leak", "")), &[]);
        assert_eq!(pass(dir.path(), "one")["seen"], true);
        assert_eq!(pass(dir.path(), "bad")["seen"], serde_json::Value::Null);
        pass(dir.path(), "two");
        let counted = || agent.metric(&noted("out_of_memory"));
        wait_until("it is counted", PATIENCE, || counted().is_some_and(|count| count >= 1.0));
        let told = || agent.log().contains("OutOfMemoryError: Java heap space");
        wait_until("the log says why", PATIENCE, told);
        agent.reload(&with("{ type: filter, inputs: [app], where: 'true' }"));
        wait_until("it is removed", PATIENCE, || agent.log().contains("changed: op"));
        pass(dir.path(), "three");
        assert_obeys(agent);
    });
}
