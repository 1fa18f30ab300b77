//! Tests datagrams that cross a network device in large segments and that the kernel merges (GRO):
//! the agent counts them individually.

use super::{Events, ONE_PERIOD, PATIENCE, config, counted};
use crate::support::{Agent, folder, wait_until};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

const BURSTS: usize = 300;
/// Number of datagrams in a burst; the last datagram is shorter.
const DATAGRAMS: usize = 41;

/// Program that sends each burst in one call; the kernel splits the burst into datagrams of 60
/// bytes (GSO).
const SENDER: &str = "
import socket, sys, time
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
to.connect(('10.213.7.1', 8125))
to.setsockopt(17, 103, 60)
bursts, datagrams = int(sys.argv[1]), int(sys.argv[2])
for burst in range(bursts):
    whole = [b'crossed:%06d|c|#part:%d\\n' % (burst * datagrams + at, at % 3) for at in range(datagrams - 1)]
    to.send(b''.join(line.ljust(60, b'\\n') for line in whole) + b'crossed:7|c|#part:x')
    time.sleep(0.002)
";

/// Two network namespaces connected by a veth pair.
struct Cable {
    ends: [String; 2],
}

impl Cable {
    fn new() -> Result<Cable, String> {
        let name = |end| format!("millstream-{}-{end}", std::process::id());
        let cable = Cable { ends: [name("a"), name("b")] };
        let [a, b] = &cable.ends;
        ip(&["netns", "add", a])?;
        ip(&["netns", "add", b])?;
        ip(&[
            "link", "add", "cable", "netns", a, "type", "veth", "peer", "name", "cable", "netns", b,
        ])?;
        for (end, address) in cable.ends.iter().zip(["10.213.7.1/24", "10.213.7.2/24"]) {
            ip(&["-n", end, "addr", "add", address, "dev", "cable"])?;
            ip(&["-n", end, "link", "set", "cable", "up"])?;
            ip(&["-n", end, "link", "set", "lo", "up"])?;
        }
        Ok(cable)
    }

    /// Returns a command that runs a program at one end.
    fn command(&self, end: usize, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.ends[end]]).arg(program);
        command
    }

    /// Returns the number of datagrams that the kernel received at this end; merged datagrams count
    /// as one.
    fn arrived(&self, end: usize) -> Option<usize> {
        let output = self.command(end, "cat").arg("/proc/net/snmp").output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        text.lines().filter(|line| line.starts_with("Udp:")).nth(1)?.split(' ').nth(1)?.parse().ok()
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.ends.iter().for_each(|end| drop(ip(&["netns", "del", end])));
    }
}

fn ip(args: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(args).output().map_err(|error| format!("ip: {error}"))?;
    let error =
        || format!("ip {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    output.status.success().then_some(()).ok_or_else(error)
}

/// Makes the command of an agent run at the first end.
fn at_the_cable(command: &mut Command, cable: &Cable, dir: &Path) {
    let log =
        File::options().create(true).append(true).open(dir.join("agent.log")).expect("a log file");
    let mut there = cable.command(0, command.get_program());
    there.args(command.get_args()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    *command = there;
}

#[test]
fn merged_datagrams_are_counted_individually() {
    let cable = match Cable::new() {
        Ok(cable) => cable,
        Err(why) => {
            return eprintln!(
                "skipped: no network device can be made, which takes root and iproute2: {why}"
            );
        }
    };
    let dir = folder();
    let options = format!("type: dogstatsd, listen: ['udp://10.213.7.1:8125'], {ONE_PERIOD}");
    let mut agent = Agent::spawn(dir.path(), &config(&options), &[], |command| {
        at_the_cable(command, &cable, dir.path())
    });
    wait_until("the agent listens", PATIENCE, || {
        assert!(!agent.poll_ended(), "{}", agent.log());
        agent.get("/ready").is_some_and(|body| body.contains("\"ready\":true"))
    });
    let args = [SENDER.to_owned(), BURSTS.to_string(), DATAGRAMS.to_string()];
    assert!(cable.command(1, "python3").arg("-c").args(args).status().unwrap().success());
    let all = BURSTS * DATAGRAMS;
    let dropped = || counted(&agent, "dropped_events", "reason=\"kernel\"");
    wait_until("all is taken", PATIENCE, || {
        counted(&agent, "received_events", "") == all as f64 || dropped() > 0.0
    });
    assert_eq!(dropped(), 0.0, "the bursts fit into the buffer");
    match cable.arrived(0) {
        Some(merged) if merged < all => println!("the kernel gave {all} datagrams as {merged}"),
        merged => println!("this kernel merges nothing: {all} datagrams came as {merged:?}"),
    }
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    let events = Events::read(dir.path());
    assert_eq!(events.sum("crossed", "part:x"), 7.0 * BURSTS as f64);
    let is_part =
        |at: &usize, part: usize| at % DATAGRAMS != DATAGRAMS - 1 && (at % DATAGRAMS) % 3 == part;
    for part in 0..3 {
        let expected: usize = (0..all).filter(|at| is_part(at, part)).sum();
        assert_eq!(events.sum("crossed", &format!("part:{part}")), expected as f64, "{part}");
    }
}
