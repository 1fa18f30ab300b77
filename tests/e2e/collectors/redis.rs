//! Tests the example for Redis with a real server.

use super::{PATIENCE, collector, settings, wait_for_lines};
use crate::support::java::built;
use crate::support::{Agent, folder, lines, millstream, wait_until};
use millstream_testkit_servers::redis::Redis;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names of the jars that the example uses, without their extension.
const JARS: [&str; 5] = ["jedis", "commons-pool2", "slf4j-api", "gson", "json"];

/// Returns an agent's configuration with the class, the script, and another pipeline.
fn config(redis: &Redis) -> String {
    let java = built();
    let examples = java.join("examples");
    let target = examples.join("target");
    let script = examples.join("src/main/java/dev/millstream/examples/redis.groovy");
    let jars = JARS.map(|name| target.join(format!("jars/{name}.jar")).display().to_string());
    let common = format!(
        "interval: 200ms, jars: [{}], options: {{ address: '{}', slow_log: 5000 }}",
        jars.join(", "),
        redis.address()
    );
    settings("640MiB")
        + &format!(
            "sources:\n  \
               class: {{ type: jvm, language: class, jar: {}, class: dev.millstream.examples.RedisCollector, {common} }}\n  \
               script: {{ type: jvm, language: groovy, script_file: {}, allow: [redis.clients.jedis.*, redis.clients.jedis.resps.*], {common} }}\n  \
               app: {{ type: file, include: ['DIR/app.log'] }}\n\
             sinks:\n  \
               class_out: {{ type: file, inputs: [class], path: DIR/class.json, sync: 100ms, encoding: {{ metadata: [] }} }}\n  \
               script_out: {{ type: file, inputs: [script], path: DIR/script.json, sync: 100ms, encoding: {{ metadata: [] }} }}\n  \
               out: {{ type: file, inputs: [app], path: DIR/out.txt, sync: 100ms, encoding: {{ codec: text }} }}\n",
            target.join("millstream-operator-examples.jar").display(),
            script.display()
        )
}

/// Returns the events in a file, without a line that is being written.
fn events(path: &Path) -> Vec<Value> {
    lines(path).iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns whether the file has an event with this message.
fn has(path: &Path, message: &str) -> bool {
    events(path).iter().any(|event| event["message"] == message)
}

/// Asserts that the events contain each entry of the slow log since the start of the server exactly
/// once.
fn assert_each_once(path: &Path) {
    let mut times: BTreeMap<u64, usize> = BTreeMap::new();
    for id in events(path).iter().filter_map(|event| event["slow_id"].as_u64()) {
        *times.entry(id).or_default() += 1;
    }
    assert!(times.values().all(|times| *times == 1), "{}: {times:?}", path.display());
    let last = times.last_key_value().map(|(id, _)| *id);
    assert_eq!(last, Some(times.len() as u64 - 1), "none is missing: {times:?}");
}

#[test]
fn the_state_and_each_slow_command_of_redis_are_events_once() {
    let (dir, redis) = (folder(), Redis::start());
    let files: [PathBuf; 2] = ["class.json", "script.json"].map(|name| dir.path().join(name));
    // On a busy host, one collector may wait for seconds while the commands of the other collector
    // fill the log.
    assert_eq!(redis.command("CONFIG SET slowlog-max-len 5000"), "+OK");
    let mut agent = Agent::start(dir.path(), &config(&redis), &[]);
    for number in 0..10 {
        let command = format!("SET key{number} value");
        assert_eq!(redis.command(&command), "+OK");
        for file in &files {
            wait_until("the command is an event", PATIENCE, || has(file, &command));
        }
    }
    assert!(agent.stop().success(), "{}", agent.log());
    for file in &files {
        assert_each_once(file);
        let of = |name: &str| events(file).into_iter().find(|event| event["message"] == name);
        let (server, memory) = (of("server").unwrap(), of("memory").unwrap());
        assert!(server["redis_version"].is_string() && server["tcp_port"].is_u64(), "{server}");
        assert!(memory["used_memory"].as_u64() > Some(0), "{memory}");
        let slow = of("SET key0 value").unwrap();
        assert!(slow["duration_us"].is_u64() && slow["client"].is_string(), "{slow}");
    }
}

#[test]
fn a_redis_that_is_away_is_a_failure_until_it_returns() {
    let (dir, mut redis) = (folder(), Redis::start());
    let ids = ["class", "script"];
    let files = ids.map(|name| dir.path().join(format!("{name}.json")));
    let mut agent = Agent::start(dir.path(), &config(&redis), &[]);
    files.iter().for_each(|file| wait_for_lines(file, 1));
    redis.stop();
    for id in ids {
        let failed = || collector(&agent, id)["failures"].as_u64() >= Some(3);
        wait_until("its failures are counted", PATIENCE, failed);
        let failure = collector(&agent, id)["last_failure"].to_string();
        assert!(failure.contains("JedisConnectionException"), "{failure}");
        let told =
            format!("source {id}: the collector failed: redis.clients.jedis.exceptions.Jedis");
        // The agent counts failures before it logs them.
        wait_until(&told, PATIENCE, || agent.log().contains(&told));
    }
    fs::write(dir.path().join("app.log"), "one line\n").unwrap();
    wait_for_lines(&dir.path().join("out.txt"), 1);
    redis.restart();
    assert_eq!(redis.command("SET back again"), "+OK");
    for file in &files {
        wait_until("it collects again", PATIENCE, || has(file, "SET back again"));
    }
    assert!(agent.stop().success(), "{}", agent.log());
}

/// Runs the command on the page, but not the compilation of the program.
#[test]
fn the_command_of_the_page_prints_the_state_of_redis() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/operators.md")).unwrap();
    assert!(page.contains("\nmake redis\n") && page.contains("`make redis REDIS=HOST:PORT`"));
    built();
    let (dir, redis) = (folder(), Redis::shared());
    let mut make = Command::new("make");
    make.current_dir(root).args(["--silent", "--assume-old=build", "redis", "OPTIONS=--until-eof"]);
    make.arg(format!("PROGRAM={}", millstream().display()));
    make.arg(format!("REDIS={}", redis.address()));
    let output = make.env("DATA_DIR", dir.path()).output().unwrap();
    let (printed, told) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}");
    let server = printed.lines().find(|line| line.contains("\"message\":\"server\""));
    assert!(server.is_some_and(|line| line.contains("redis_version")), "{printed}\n{told}");
}
