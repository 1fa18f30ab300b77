//! Tests the project's Java client: every point that it reports as sent is counted, whatever
//! happens to the agent.

use super::{Events, ONE_PERIOD, PATIENCE, counted, number, start, udp};
use crate::support::java::{built, homes};
use crate::support::{Agent, folder, wait_until};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// Maximum duration of a call in nanoseconds. It is far more than a call takes on the busiest host,
/// and far less than a wait for an agent that is down.
const CALL_NS_MAX: f64 = 10e9;

/// Number of counters, timers and stores in a round. Their points fit into the client's buffer.
const ROUND: u64 = 400;

/// Number of rounds before the agent stops.
const ROUNDS: u64 = 10;

/// Number of points that are recorded while the agent is down, far more than the buffer holds.
const AWAY: u64 = 50_000;

/// A Java program that records on command (see `EndToEnd.java`). Killed when dropped.
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

    /// Returns a counter of the statistics `Stats[sent=5, …]`.
    fn stat(&mut self, name: &str) -> u64 {
        let stats = self.ask("stats");
        let found = stats
            .split(['[', ',', ']'])
            .find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
        found.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {stats}"))
    }

    /// Closes the client and ends the program.
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

/// Waits until an agent has all points that the client has sent after the first `before`.
fn wait_for_sent(program: &mut Program, agent: &Agent, before: u64) {
    let sent = (program.stat("sent") - before) as f64;
    wait_until("the agent has every point", PATIENCE, || {
        counted(agent, "received_events", "") >= sent
    });
    assert_eq!(counted(agent, "received_events", ""), sent);
    assert_eq!(
        counted(agent, "dropped_events", "kernel"),
        0.0,
        "the kernel had no room: use a larger buffer"
    );
}

/// Totals of the events of one run of the agent.
#[derive(Debug, Default, PartialEq)]
struct Told {
    sum: f64,
    timers: f64,
    level: Option<f64>,
}

/// Reads the events written since the last call.
fn told(dir: &Path) -> Told {
    let events = Events::read(dir);
    fs::remove_file(dir.join("out.json")).unwrap();
    let numbers = |name, tags| events.of(name, tags).into_iter().map(number);
    Told {
        // The sum since the agent started.
        sum: numbers("java.sum", "code:200,route:/a").next_back().unwrap_or(0.0),
        timers: numbers("java.time.counter", "equation:a=b").sum(),
        level: numbers("java.level", "city:Zürich").next_back(),
    }
}

/// An agent that is started twice with the same address, and the program that sends to it.
struct Lives {
    dir: TempDir,
    source: String,
    program: Program,
}

impl Lives {
    fn new(java: &Path, scheme: &str, period: &str) -> Lives {
        let dir = folder();
        let address = if scheme == "udp" {
            udp()
        } else {
            format!("unix://{}/points.sock", dir.path().display())
        };
        let source = format!("type: metricserver, listen: ['{address}'], {period}");
        let program = Program::start(java, &address);
        Lives { dir, source, program }
    }

    fn start(&self) -> Agent {
        start(self.dir.path(), &self.source)
    }

    fn flush(&mut self) {
        assert_eq!(self.program.ask("flush"), "true");
    }

    /// Runs rounds that all arrive; returns the number of points sent.
    fn first(&mut self, agent: &Agent) -> u64 {
        for _ in 0..ROUNDS {
            self.program.record(ROUND);
            self.flush();
            wait_for_sent(&mut self.program, agent, 0);
        }
        assert_eq!(self.program.stat("droppedFull"), 0);
        self.program.stat("sent")
    }

    /// Without an agent, the buffer fills up and the program continues. Then the second agent
    /// starts.
    fn second(&mut self, scheme: &str, sent: u64) {
        self.program.record(AWAY);
        assert!(self.program.stat("droppedFull") > 0);
        let mut agent = self.start();
        self.flush();
        self.program.record(ROUND);
        self.flush();
        // A datagram without a receiver is first counted as sent.
        let lost = self.program.stat("droppedLost");
        wait_for_sent(&mut self.program, &agent, sent);
        let dropped = self.program.stat("droppedFull") + lost;
        assert_eq!(self.program.stat("connects"), 2);
        self.program.end();
        assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
        let found = told(self.dir.path());
        assert_eq!(found.level, Some(ROUND as f64));
        if scheme == "unix" {
            assert_eq!((found.sum, lost), ((AWAY + ROUND) as f64, 0));
            assert_eq!(found.timers, (AWAY + ROUND - dropped) as f64);
        }
    }
}

/// Returns the totals of the first run.
fn all_rounds() -> Told {
    let sum = (ROUNDS * ROUND) as f64;
    Told { sum, timers: sum, level: Some(ROUND as f64) }
}

fn over_a_stop(java: &Path, scheme: &str) {
    let mut lives = Lives::new(java, scheme, ONE_PERIOD);
    let mut agent = lives.start();
    let sent = lives.first(&agent);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    assert_eq!(told(lives.dir.path()), all_rounds());
    lives.second(scheme, sent);
}

fn over_a_kill(java: &Path, scheme: &str) {
    let mut lives = Lives::new(java, scheme, "period: 1s");
    let mut agent = lives.start();
    let sent = lives.first(&agent);
    // Undelivered points are lost when an agent is killed, by design.
    wait_until("the agent has delivered", PATIENCE, || {
        let events = Events::read(lives.dir.path());
        let timers =
            events.of("java.time.counter", "equation:a=b").into_iter().map(number).sum::<f64>();
        timers == all_rounds().timers
    });
    agent.kill();
    assert_eq!(told(lives.dir.path()), all_rounds());
    lives.second(scheme, sent);
}

fn on_each_java(check: impl Fn(&Path, &str)) {
    for java in homes().into_iter().map(|home| home.join("bin/java")) {
        ["unix", "udp"].into_iter().for_each(|scheme| check(&java, scheme));
    }
}

#[test]
fn points_of_the_java_client_are_counted_across_a_restart() {
    on_each_java(over_a_stop);
}

#[test]
fn the_java_client_continues_after_the_agent_is_killed() {
    on_each_java(over_a_kill);
}
