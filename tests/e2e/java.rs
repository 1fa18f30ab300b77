//! Tests the `jfr` source and `millstream java attach` for the user's JVMs, on every JDK of this
//! host.

use crate::support::java::{built, homes};
use crate::support::{Agent, folder, lines, millstream, wait_until};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Time limit of each step, generous for a busy host.
const LIMIT: Duration = Duration::from_secs(60);

/// Class of the example, which writes to a remote that reads after 300 ms.
const SERVICE: &str = "dev.millstream.examples.SlowRemote";

/// A JVM that runs the example; killed when dropped.
struct Service(Child);

impl Service {
    fn start(home: &Path, dir: &Path, options: &[&str], seconds: &str) -> Service {
        let classes = built().join("examples/target/classes");
        let log = File::create(dir.join("service.log")).unwrap();
        let mut command = Command::new(home.join("bin/java"));
        command.args(options).arg("-cp").arg(classes).args([SERVICE, seconds]);
        command.stdin(Stdio::null()).stderr(log.try_clone().unwrap()).stdout(log);
        Service(command.current_dir(dir).spawn().unwrap())
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    fn attach(&self, dir: &Path, options: &str) -> Output {
        let jar = built().join("javaagent/target/millstream-javaagent.jar");
        let mut command = Command::new(millstream());
        command.args(["java", "attach", &self.0.id().to_string(), "--options", options, "--jar"]);
        command.arg(jar).current_dir(dir).output().unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the events in a file, without a last line that is being written.
fn events(path: &Path) -> Vec<Value> {
    lines(path).iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn is_slow_write(event: &Value) -> bool {
    event["name"] == "jdk.SocketWrite" && event["message"].is_string()
}

fn slow_writes(path: &Path) -> Vec<Value> {
    events(path).into_iter().filter(is_slow_write).collect()
}

/// Returns the slow writes that wait for almost the whole 300 ms. The remote starts to count the
/// 300 ms at the head of the request, so a write that begins late waits for less.
fn whole_waits(path: &Path) -> Vec<Value> {
    let is_whole = |event: &Value| event["duration_ms"].as_f64().is_some_and(|ms| ms >= 250.0);
    slow_writes(path).into_iter().filter(is_whole).collect()
}

/// Returns the sum of a metric.
fn sum(events: &[Value], name: &str) -> f64 {
    let of = events.iter().filter(|event| event["name"] == name);
    of.filter_map(|event| event["value"].as_f64()).sum()
}

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{err}")
}

/// Returns what the JDK's tool reports about the writes in a recording: the number of writes that
/// took 100 ms and of those that did not, and the bytes.
fn told_by_jdk(home: &Path, recording: &Path) -> (BTreeMap<bool, usize>, f64) {
    let mut jfr = Command::new(home.join("bin/jfr"));
    jfr.args(["print", "--json", "--events", "jdk.SocketWrite"]).arg(recording);
    let printed: Value = serde_json::from_slice(&jfr.output().unwrap().stdout).unwrap();
    let (mut counts, mut bytes) = (BTreeMap::new(), 0.0);
    for event in printed["recording"]["events"].as_array().unwrap() {
        let values = &event["values"];
        let duration = values["duration"].as_str().unwrap();
        let seconds = duration.strip_prefix("PT").and_then(|text| text.strip_suffix('S'));
        let is_long = seconds.unwrap().parse::<f64>().unwrap() >= 0.1;
        *counts.entry(is_long).or_default() += 1;
        bytes += values["bytesWritten"].as_f64().unwrap();
    }
    (counts, bytes)
}

#[test]
fn a_recording_has_the_events_that_the_jdks_tool_prints() {
    for home in homes() {
        let dir = folder();
        let recording = dir.path().join("out.jfr");
        let option = format!("-XX:StartFlightRecording:filename={}", recording.display());
        let mut service = Service::start(&home, dir.path(), &[&option], "3");
        assert!(service.0.wait().unwrap().success());
        let config = "
sources: { jvms: { type: jfr, include: ['DIR/*.jfr'], stack: true } }
sinks: { out: { type: file, inputs: [jvms], path: 'DIR/out.json' } }
";
        let mut agent = Agent::start(dir.path(), config, &["--until-eof"]);
        assert!(agent.wait(LIMIT).success(), "{}", agent.log());
        let (counts, bytes) = told_by_jdk(&home, &recording);
        let all = events(&dir.path().join("out.json"));
        let slow: Vec<&Value> = all.iter().filter(|event| is_slow_write(event)).collect();
        assert_eq!(Some(&slow.len()), counts.get(&true), "{}: {counts:?}", home.display());
        assert_eq!(sum(&all, "jvm.socket.write.bytes"), bytes);
        // On a busy host a write to another remote may also take 100 ms.
        let is_remote = |event: &&Value| event["tags"]["network.peer.address"] == "127.0.0.3";
        assert!(slow.iter().any(is_remote), "{slow:?}");
        for event in slow {
            assert_eq!(event["tags"]["service.name"], "SlowRemote", "{event}");
            let stack = event["stack"].as_str().unwrap();
            assert!(stack.contains("SlowRemote.sendDocument(SlowRemote.java:"), "{event}");
        }
    }
}

#[test]
fn a_running_jvm_is_read_across_kills_of_the_agent_and_of_the_jvm() {
    for home in homes() {
        let dir = folder();
        let repository =
            format!("-XX:FlightRecorderOptions:repository={}/jfr", dir.path().display());
        let options = ["-XX:StartFlightRecording", &repository];
        let mut service = Service::start(&home, dir.path(), &options, "600");
        let config = "
sources: { jvms: { type: jfr, include: ['DIR/jfr/*/*.jfr'], period: 2s } }
sinks: { out: { type: file, inputs: [jvms], path: 'DIR/out.json' } }
";
        let out = dir.path().join("out.json");
        let mut agent = Agent::start(dir.path(), config, &[]);
        for count in [2, 4] {
            wait_until("slow writes are read", LIMIT, || slow_writes(&out).len() >= count);
            agent.kill();
            agent = Agent::start(dir.path(), config, &[]);
        }
        wait_until("the agent reads on", LIMIT, || slow_writes(&out).len() >= 6);
        service.kill();
        let chunk = chunk_of(&dir.path().join("jfr"));
        agent.stop();
        let mut agent = Agent::start(dir.path(), config, &["--until-eof"]);
        assert!(agent.wait(LIMIT).success(), "{}", agent.log());
        let slow = slow_writes(&out);
        let id = |event: &Value| event["meta"]["id"].as_str().unwrap().to_owned();
        let ids: BTreeSet<String> = slow.iter().map(id).collect();
        assert_eq!(ids.len(), slow.len(), "an event was repeated: {slow:?}");
        assert_eq!(slow.len(), told_by_copy(dir.path(), &chunk), "in {}", home.display());
        assert_eq!(agent.metric("millstream_component_errors_total"), None);
    }
}

/// Returns the only chunk in a repository.
fn chunk_of(repository: &Path) -> PathBuf {
    let folders = fs::read_dir(repository).unwrap().map(|entry| entry.unwrap().path());
    let chunks = folders.flat_map(|folder| fs::read_dir(folder).unwrap());
    let chunks: Vec<PathBuf> = chunks.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(chunks.len(), 1, "{chunks:?}");
    chunks[0].clone()
}

/// Returns the number of slow writes that an agent without a history finds in a copy of a chunk.
fn told_by_copy(dir: &Path, chunk: &Path) -> usize {
    let other = dir.join("other");
    fs::create_dir(&other).unwrap();
    fs::copy(chunk, other.join("copy.jfr")).unwrap();
    let config = "
sources: { jvms: { type: jfr, include: ['DIR/*.jfr'] } }
sinks: { out: { type: file, inputs: [jvms], path: 'DIR/out.json' } }
";
    let mut agent = Agent::start(&other, config, &["--until-eof"]);
    assert!(agent.wait(LIMIT).success(), "{}", agent.log());
    slow_writes(&other.join("out.json")).len()
}

#[test]
fn the_agent_is_attached_once_and_sends_metrics_and_slow_writes() {
    for home in homes() {
        let dir = folder();
        let config = "
sources: { jvms: { type: metricserver, listen: ['unix://DIR/m.sock'], period: 1s } }
sinks: { out: { type: file, inputs: [jvms], path: 'DIR/out.json' } }
";
        let _agent = Agent::start(dir.path(), config, &[]);
        let service = Service::start(&home, dir.path(), &[], "600");
        let log = dir.path().join("service.log");
        wait_until("the service runs", LIMIT, || !lines(&log).is_empty());
        let options = format!("socket={}/m.sock,service=shop,stack=true", dir.path().display());
        let attached = service.attach(dir.path(), &options);
        assert!(attached.status.success(), "{}: {}", home.display(), text(&attached));
        let out = dir.path().join("out.json");
        wait_until("slow writes arrive", LIMIT, || whole_waits(&out).len() >= 2);
        let slow = whole_waits(&out).remove(0);
        assert_eq!(slow["tags"]["service.name"], "shop", "{slow}");
        assert_eq!(slow["tags"]["process.pid"], service.0.id().to_string(), "{slow}");
        assert!(slow["stack"].as_str().unwrap().contains("SlowRemote.sendDocument"), "{slow}");
        wait_until("metrics arrive", LIMIT, || {
            let name = "jvm.socket.write.duration_ms.counter";
            events(&out).iter().any(|event| event["name"] == name)
        });
        let again = service.attach(dir.path(), &options);
        assert_eq!(again.status.code(), Some(1), "{}", text(&again));
        assert!(text(&again).contains("it already has the Java agent"), "{}", text(&again));
        let typo = service.attach(dir.path(), "treshold=10ms");
        assert_eq!(typo.status.code(), Some(2), "{}", text(&typo));
        assert!(text(&typo).contains("threshold, log_threshold"), "{}", text(&typo));
    }
}

#[test]
fn an_attach_that_is_refused_says_why_and_harms_no_process() {
    let dir = folder();
    let home = homes().remove(0);
    let option = ["-XX:+DisableAttachMechanism"];
    let mut service = Service::start(&home, dir.path(), &option, "600");
    let log = dir.path().join("service.log");
    wait_until("the service runs", LIMIT, || !lines(&log).is_empty());
    // The socket of a killed JVM with the same process id may be left over.
    let stale = std::env::temp_dir().join(format!(".java_pid{}", service.0.id()));
    drop(UnixListener::bind(&stale));
    let refused = service.attach(dir.path(), "");
    fs::remove_file(&stale).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused).contains("-XX:+DisableAttachMechanism"), "{}", text(&refused));
    assert!(service.0.try_wait().unwrap().is_none(), "the JVM runs on");
    let left = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<String> = left.map(|name| name.to_string_lossy().into_owned()).collect();
    assert!(left.iter().all(|name| !name.starts_with(".attach_pid")), "{left:?}");
    let mut sleep = Command::new("sleep").arg("120").spawn().unwrap();
    let attach = |args: &[&str]| {
        Command::new(millstream()).args(["java", "attach"]).args(args).output().unwrap()
    };
    let no_jvm = attach(&[&sleep.id().to_string(), "--jar", "/a.jar"]);
    assert!(text(&no_jvm).contains("it is not a JVM"), "{}", text(&no_jvm));
    assert!(sleep.try_wait().unwrap().is_none(), "the process got no signal");
    sleep.kill().unwrap();
    sleep.wait().unwrap();
    let no_jar = attach(&[&service.0.id().to_string(), "--jar", "/missing/agent.jar"]);
    assert!(text(&no_jar).contains("cannot see /missing/agent.jar"), "{}", text(&no_jar));
    let gone = attach(&["2147483647", "--jar", "/a.jar"]);
    assert!(text(&gone).contains("no such process"), "{}", text(&gone));
}
