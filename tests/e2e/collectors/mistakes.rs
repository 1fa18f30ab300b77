//! Tests that errors in the configuration of a collector name their place and a remedy.

use super::{PATIENCE, settings, wait_for_lines};
use crate::support::java::built;
use crate::support::{Agent, folder, lines, millstream, wait_until, write_config};
use std::path::Path;
use std::process::Command;

/// Returns a configuration with a correct source and a source with these options.
fn config(options: &str) -> String {
    settings("640MiB")
        + &format!(
            "sources:\n  \
               good: {{ type: jvm, language: groovy, interval: 50ms, script: \"events.add('good')\" }}\n  \
               other: {{ type: jvm, {options} }}\n\
             sinks: {{ out: {{ type: file, inputs: [good, other], path: DIR/out.txt, sync: 100ms, encoding: {{ codec: text }} }} }}\n"
        )
}

/// Returns options for a class in the examples, without additional jars.
fn class(name: &str) -> String {
    let jar = built().join("examples/target/millstream-operator-examples.jar");
    format!("language: class, class: dev.millstream.examples.{name}, jar: {}", jar.display())
}

/// Returns options for a script.
fn groovy(script: &str) -> String {
    format!("language: groovy, script: \"{script}\"")
}

/// Runs `millstream validate`; returns its messages about an invalid configuration.
fn refused(dir: &Path, config: &str) -> String {
    let path = write_config(dir, config);
    let output = Command::new(millstream()).arg("validate").arg("-c").arg(path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    text
}

#[test]
fn validate_tells_the_place_of_a_mistake_in_a_script() {
    let dir = folder();
    let text = refused(dir.path(), &config(&groovy("events.add('x')\\ndef y = (2")));
    assert!(text.contains("source other: script:2:"), "{text}");
}

#[test]
fn a_reload_tells_mistakes_and_changes_nothing() {
    let dir = folder();
    let out = dir.path().join("out.txt");
    let mut agent = Agent::start(dir.path(), &config(&groovy("events.add('x')")), &[]);
    wait_for_lines(&out, 1);
    for (options, told) in [
        (groovy("events.add('x')") + ", jars: [DIR/no.jar]", "/no.jar; relative paths start at"),
        (class("LevelNormalizer"), "does not implement dev.millstream.collector.Collector"),
        (class("RedisCollector"), "; add the jar that contains this class to `jars`"),
        (groovy("'id'.execute()"), "method java.lang.String.execute is not allowed"),
    ] {
        agent.reload(&config(&options));
        wait_until(told, PATIENCE, || agent.log().contains(told));
        agent.assert_logs("source other: ");
    }
    wait_until("it is refused", PATIENCE, || {
        agent.log().matches("the previous configuration stays in use").count() == 4
    });
    let before = lines(&out).len();
    wait_for_lines(&out, before + 2);
    assert!(agent.stop().success(), "{}", agent.log());
}

#[test]
fn unknown_and_contradicting_options_are_told_with_what_to_write() {
    let dir = folder();
    for (options, told) in [
        ("language: groovy, script: x, intervall: 1s", "did you mean `interval`?"),
        ("language: aviator, script: x", "use `groovy` or `class`"),
        ("language: groovy", "set one of `script` and `script_file`"),
        ("language: class, jar: a.jar", "set both `jar` and `class`"),
        ("language: groovy, script: x, interval: 0s", "use, for example, 10s or 500ms"),
    ] {
        let text = refused(dir.path(), &config(options));
        assert!(text.contains(told), "{told} is not in {text}");
    }
}
