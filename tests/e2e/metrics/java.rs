//! The project's own client for Java: every point it sent is counted, whatever becomes of the agent.

use super::{Events, ONE_PERIOD, PATIENCE, counted, number, start, udp};
use crate::support::{Agent, folder, wait_until};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Oldest version of Java that the client runs on.
const JAVA_MIN: u32 = 17;

/// Far more than a call takes on the busiest host, and far less than an agent that is away would have it wait.
const CALL_NS_MAX: f64 = 10e9;

/// Counters, timers and stores of one round: their points fit the memory of the client.
const ROUND: u64 = 400;

/// The folder `java`, built if it was not.
fn built() -> PathBuf {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scripts/java");
    let output = Command::new(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}

/// The programs `java` of this host, one of each version that the client runs on.
fn javas() -> Vec<PathBuf> {
    let homes = fs::read_dir("/usr/lib/jvm").into_iter().flatten().map(|entry| entry.unwrap().path());
    let versions: BTreeMap<u32, PathBuf> =
        homes.filter_map(|home| Some((version(&home)?, home.join("bin/java")))).collect();
    match versions.is_empty() {
        true => vec![PathBuf::from("java")],
        false => versions.into_values().collect(),
    }
}

/// The version of Java that is installed in a folder.
fn version(home: &Path) -> Option<u32> {
    let release = fs::read_to_string(home.join("release")).ok()?;
    let line = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    let version = line.split(['.', '"', '-', '+']).next()?.parse().ok()?;
    (version >= JAVA_MIN && home.join("bin/java").exists()).then_some(version)
}

/// A Java program that records what it is told to: see `EndToEnd.java`. Killed when dropped.
struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(java: &Path, address: &str) -> Program {
        let client = built().join("client/target");
        let path = format!("{0}/millstream-client.jar:{0}/test-classes", client.display());
        let mut command = Command::new(java);
        command.args(["-Xmx64m", "-cp", &path, "dev.millstream.client.EndToEnd", address]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Program { child, input, output }
    }

    fn ask(&mut self, command: &str) -> String {
        writeln!(self.input.as_mut().unwrap(), "{command}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        answer.trim().to_owned()
    }

    fn record(&mut self, count: u64) {
        let longest_ns: f64 = self.ask(&format!("record {count}")).parse().unwrap();
        assert!(longest_ns < CALL_NS_MAX, "a call took {longest_ns} ns");
    }

    /// A count of `Stats[sent=5, …]`.
    fn stat(&mut self, name: &str) -> u64 {
        let stats = self.ask("stats");
        let found =
            stats.split(['[', ',', ']']).find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
        found.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {stats}"))
    }

    /// Ends it, as a program does that closes its client.
    fn end(&mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until an agent has as many points as the client has sent beyond `before`.
fn wait_for_sent(program: &mut Program, agent: &Agent, before: u64) {
    let sent = (program.stat("sent") - before) as f64;
    wait_until("the agent has every point", PATIENCE, || counted(agent, "received_events", "") >= sent);
    assert_eq!(counted(agent, "received_events", ""), sent);
    assert_eq!(
        counted(agent, "dropped_events", "kernel"),
        0.0,
        "the kernel had no room: use a larger buffer"
    );
}

/// What the events of one life of the agent come to.
#[derive(Debug, Default, PartialEq)]
struct Told {
    sum: f64,
    timers: f64,
    level: Option<f64>,
}

/// Reads what the agents have written since the last call.
fn told(dir: &Path) -> Told {
    let events = Events::read(dir);
    fs::remove_file(dir.join("out.json")).unwrap();
    let numbers = |name, tags| events.of(name, tags).into_iter().map(number);
    Told {
        // The sum since the agent began.
        sum: numbers("java.sum", "code:200,route:/a").last().unwrap_or(0.0),
        timers: numbers("java.time.counter", "equation:a=b").sum(),
        level: numbers("java.level", "city:Zürich").last(),
    }
}

/// Two lives of the agent, between which it is away; `is_killed` says that the first one ends by SIGKILL.
fn live_twice(java: &Path, scheme: &str, is_killed: bool) {
    let dir = folder();
    let address =
        if scheme == "udp" { udp() } else { format!("unix://{}/points.sock", dir.path().display()) };
    // What was not delivered when an agent is killed is lost by design: so it has delivered all.
    let period = if is_killed { "period: 1s" } else { ONE_PERIOD };
    let source = format!("type: metricserver, listen: ['{address}'], {period}");
    let mut agent = start(dir.path(), &source);
    let mut program = Program::start(java, &address);
    for _ in 0..10 {
        program.record(ROUND);
        assert_eq!(program.ask("flush"), "true");
        wait_for_sent(&mut program, &agent, 0);
    }
    let sent = program.stat("sent");
    if is_killed {
        let all = || {
            Events::read(dir.path())
                .of("java.time.counter", "equation:a=b")
                .into_iter()
                .map(number)
                .sum::<f64>()
        };
        wait_until("the agent has delivered", PATIENCE, || all() == 10.0 * ROUND as f64);
        agent.kill();
    } else {
        assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    }
    let rounds = 10.0 * ROUND as f64;
    assert_eq!(told(dir.path()), Told { sum: rounds, timers: rounds, level: Some(ROUND as f64) });
    assert_eq!(program.stat("droppedFull"), 0);

    // Nobody is there: memory becomes full, and the program goes on all the same.
    let away = 50_000;
    program.record(away);
    assert!(program.stat("droppedFull") > 0);
    let mut agent = start(dir.path(), &source);
    assert_eq!(program.ask("flush"), "true");
    program.record(ROUND);
    assert_eq!(program.ask("flush"), "true");
    // A datagram that went to nobody was first taken for sent.
    let lost = program.stat("droppedLost");
    wait_for_sent(&mut program, &agent, sent);
    let dropped = program.stat("droppedFull") + lost;
    assert_eq!(program.stat("connects"), 2);
    program.end();
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    let found = told(dir.path());
    if scheme == "unix" {
        assert_eq!((found.sum, lost), ((away + ROUND) as f64, 0));
        assert_eq!(found.timers, (away + ROUND - dropped) as f64);
    }
    assert_eq!(found.level, Some(ROUND as f64));
}

#[test]
fn points_of_the_own_client_are_counted_over_a_restart() {
    for java in javas() {
        for scheme in ["unix", "udp"] {
            live_twice(&java, scheme, false);
        }
    }
}

#[test]
fn the_own_client_goes_on_after_the_agent_was_killed() {
    for java in javas() {
        for scheme in ["unix", "udp"] {
            live_twice(&java, scheme, true);
        }
    }
}
