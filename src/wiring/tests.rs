//! Tests of configurations that are rejected before anything runs.

use super::*;
use millstream_config::Registry;
use std::io::Write;

fn load(text: &str) -> Config {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let config = millstream_config::load(&[file.path().into()], &Registry, &|_| None);
    config.unwrap_or_else(|faults| panic!("{}", faults[0]))
}

#[test]
fn compressors_that_exceed_the_memory_limit_are_rejected_with_the_amount_needed() {
    let refusal = |memory: &str| {
        let sink = "{ type: file, inputs: [app], path: /o/a.zst, compression: zstd, compression_level: 19 }";
        let text = format!(
            "limits: {{ memory: {memory}, threads: 1 }}\nsources: {{ app: {{ type: generate }} }}\n\
             sinks: {{ one: {sink}, two: {} }}\n",
            sink.replace("a.zst", "b.zst")
        );
        refused(&load(&text))
    };
    let told = refusal("64MiB").unwrap();
    assert!(told.contains("the compressors and groups of one, two need 24MiB"), "{told}");
    assert!(told.contains("raise limits.memory to 96MiB, or lower compression_level"), "{told}");
    assert_eq!(refusal("96MiB"), None);
}

/// Returns a configuration with an operator and a JVM that cannot start.
fn with_operator(memory: &str) -> String {
    format!(
        "limits: {{ memory: {memory} }}\njvm: {{ home: /no/java }}\nsources: {{ app: {{ type: generate }} }}\n\
         transforms: {{ clean: {{ type: jvm, inputs: [app], language: groovy, script: 'drop()' }} }}\n\
         sinks: {{ out: {{ type: console, inputs: [clean] }} }}\n"
    )
}

#[test]
fn a_jvm_without_enough_memory_is_refused_before_it_starts() {
    let refusal = |memory: &str| refused(&load(&with_operator(memory))).unwrap();
    assert!(refusal("2GiB").contains("/no/java"), "{}", refusal("2GiB"));
    let told = refusal("64MiB");
    assert!(told.contains("but limits.memory is 64MiB; raise limits.memory"), "{told}");
    let other = "transforms: { other: { type: jvm, inputs: [clean], language: groovy, mode: process, process: team, script: 'drop()' }, ";
    let config = with_operator("64MiB").replace("transforms: { ", other);
    let told = refused(&load(&config)).unwrap();
    assert!(
        told.contains("(the JVM inside the agent ") && told.contains(", the JVM of process team "),
        "{told}"
    );
}

#[test]
fn a_reload_that_needs_the_first_jvm_is_refused_before_it_starts() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(with_operator("2GiB").as_bytes()).unwrap();
    let check = |reserved_bytes| {
        let faults = LOADER.check(&[file.path().into()], &Default::default(), reserved_bytes);
        faults.map(drop).unwrap_err()[0].to_string()
    };
    assert!(check(0).contains("reserved no memory for a JVM when it started"), "{}", check(0));
    assert!(check(1).contains("the agent reserved 0MiB when it started"), "{}", check(1));
    assert!(check(1 << 40).contains("/no/java"), "{}", check(1 << 40));
}
