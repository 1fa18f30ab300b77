//! Tests stops, reloads and restarts: the agent loses no point that it has accepted.

use super::{Events, ONE_PERIOD, PATIENCE, config, counted, send_all, start};
use crate::support::{Agent, folder, lines, millstream, wait_until};
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SOCKET: &str = "listen: ['unixgram://DIR/points.sock']";

#[test]
fn sigterm_flushes_the_current_period() {
    let dir = folder();
    for round in 1..=3 {
        let mut agent = start(dir.path(), &format!("type: dogstatsd, {SOCKET}, {ONE_PERIOD}"));
        let messages: Vec<String> =
            (0..1000).map(|n| format!("held:1|c|#round:{round}\nlast:{n}|g")).collect();
        send_all(&dir.path().join("points.sock"), &messages);
        // The shutdown follows immediately, while the last points are still in the socket.
        agent.terminate();
        assert_eq!(agent.wait(PATIENCE).code(), Some(0), "{}", agent.log());
        assert!(!dir.path().join("points.sock").exists(), "the socket is removed");
        let events = Events::read(dir.path());
        assert_eq!(events.one("held", &format!("round:{round}")), 1000.0);
        assert_eq!(events.of("last", "").len(), round);
    }
}

/// Gives the agent another configuration, and waits until it is active.
fn change(agent: &Agent, config: &str) {
    let hash = || agent.single("millstream_config_hash");
    let before = hash();
    agent.reload(config);
    wait_until("the new configuration runs", PATIENCE, || {
        hash().is_some_and(|now| Some(now) != before)
    });
    assert_eq!(agent.single("millstream_config_reload_success"), Some(1.0), "{}", agent.log());
}

#[test]
fn reloads_with_a_changed_source_lose_no_datagram() {
    let dir = folder();
    let source = |n: usize| match n % 3 {
        0 => format!("type: dogstatsd, {SOCKET}, period: 1s"),
        1 => format!("type: dogstatsd, {SOCKET}, period: 2s"),
        _ => format!("type: dogstatsd, {SOCKET}, period: 1s, max_series: 5000, receivers: 2"),
    };
    let mut agent = start(dir.path(), &source(0));
    let address = format!("unixgram://{}/points.sock", dir.path().display());
    let args = [
        "generate", "metrics", "--to", &address, "--count", "100000", "--rate", "20000", "--types",
        "counter",
    ];
    let generate = || Command::new(millstream()).args(args).stdout(Stdio::piped()).spawn().unwrap();
    let (mut generator, mut reports) = (generate(), Vec::new());
    for n in 1.. {
        std::thread::sleep(Duration::from_millis(100));
        change(&agent, &config(&source(n)));
        if generator.try_wait().unwrap().is_some() {
            let report = generator.wait_with_output().unwrap();
            assert!(report.status.success(), "{report:?}");
            reports.push(String::from_utf8(report.stdout).unwrap());
            // On a busy host, a generator may end before there were enough reloads.
            if n > 5 {
                break;
            }
            generator = generate();
        }
    }
    let sum_of = |report: &String| {
        let rest = report.split("sum of counters ").nth(1).unwrap();
        rest.split(',').next().unwrap().parse::<f64>().unwrap()
    };
    let sum: f64 = reports.iter().map(sum_of).sum();
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    let events = Events::read(dir.path());
    let all = 100_000.0 * reports.len() as f64;
    assert_eq!(events.sum("millstream.generated", ""), all, "{reports:?}");
    let counters =
        events.0.iter().filter(|event| event["name"].as_str().unwrap().starts_with("shop."));
    assert_eq!(counters.map(super::number).sum::<f64>(), sum);
}

#[test]
fn a_stale_socket_of_a_killed_agent_is_replaced() {
    for (scheme, source) in
        [("unixgram", "dogstatsd"), ("unix", "dogstatsd"), ("unixpacket", "metricserver")]
    {
        let dir = folder();
        let options =
            format!("type: {source}, listen: ['{scheme}://DIR/points.sock'], {ONE_PERIOD}");
        let mut agent = start(dir.path(), &options);
        agent.kill();
        assert!(dir.path().join("points.sock").exists());
        let mut agent = start(dir.path(), &options);
        let address = format!("{scheme}://{}/points.sock", dir.path().display());
        let args =
            ["generate", "metrics", "--to", &address, "--count", "100", "--protocol", source];
        assert!(Command::new(millstream()).args(args).status().unwrap().success());
        assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
        assert_eq!(
            super::number(Events::read(dir.path()).of("millstream.generated", "")[0]),
            100.0,
            "{scheme}"
        );
    }
}

#[test]
fn points_reach_several_sockets_of_one_source() {
    let dir = folder();
    let listen = "listen: ['unixgram://DIR/one.sock', 'unixgram://DIR/two.sock'], mode: '0700'";
    let mut agent = start(dir.path(), &format!("type: dogstatsd, {listen}, period: 1s"));
    for name in ["one.sock", "two.sock"] {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{name}");
        send_all(&dir.path().join(name), &["both:1|c"]);
    }
    wait_until("both are counted", PATIENCE, || counted(&agent, "received_events", "") == 2.0);
    wait_until("the period ends", PATIENCE, || !lines(&dir.path().join("out.json")).is_empty());
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    assert_eq!(Events::read(dir.path()).sum("both", ""), 2.0);
}

/// A datagram that the kernel accepted is counted, even at the moment of shutdown.
#[test]
fn a_stop_under_load_loses_no_accepted_datagram() {
    for _ in 0..5 {
        let dir = folder();
        let mut agent = start(dir.path(), &format!("type: dogstatsd, {SOCKET}, {ONE_PERIOD}"));
        let path = dir.path().join("points.sock");
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = accepted.clone();
        let sender = std::thread::spawn(move || {
            let socket = UnixDatagram::unbound().unwrap();
            socket.connect(&path).unwrap();
            // Sends until the socket accepts no more.
            while socket.send(b"held:1|c").is_ok() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        wait_until("many are sent", PATIENCE, || accepted.load(Ordering::Relaxed) > 100);
        std::thread::sleep(Duration::from_millis(100));
        agent.terminate();
        assert_eq!(agent.wait(PATIENCE).code(), Some(0), "{}", agent.log());
        sender.join().unwrap();
        let sent = accepted.load(Ordering::Relaxed);
        assert_eq!(Events::read(dir.path()).one("held", ""), sent as f64);
    }
}

const SENDER_BYTES: usize = 64 << 10;

/// The data is more than a connection reads in one round, and more than one buffer holds.
#[test]
fn a_stop_reads_data_waiting_in_a_stream() {
    let dir = folder();
    let mut agent =
        start(dir.path(), &format!("type: dogstatsd, listen: ['tcp://127.0.0.1:0'], {ONE_PERIOD}"));
    let address = || {
        let log = agent.log();
        Some(log.split_once("listening on tcp://")?.1.split_once(char::is_whitespace)?.0.to_owned())
    };
    // The log line may appear only after the agent is ready.
    wait_until("the address is known", PATIENCE, || address().is_some());
    let address = address().unwrap();
    agent.send(rustix::process::Signal::STOP);
    let mut stream = std::net::TcpStream::connect(&address).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    // Data in the sender's buffer may arrive after the agent has checked its receive buffer, so
    // keep the sender's buffer small.
    rustix::net::sockopt::set_socket_send_buffer_size(&stream, SENDER_BYTES).unwrap();
    let lines = b"held:1|c\n".repeat(10_000);
    let mut sent = 0;
    // Sends as much as the kernel accepts.
    while let Ok(taken) = stream.write(&lines[sent % 9..]) {
        sent += taken;
    }
    agent.terminate();
    agent.send(rustix::process::Signal::CONT);
    assert_eq!(agent.wait(PATIENCE).code(), Some(0), "{}", agent.log());
    assert!(sent > 1_000_000, "{sent}");
    let taken = Events::read(dir.path()).one("held", "") as usize * 9;
    assert!(taken <= sent && taken + 4 * SENDER_BYTES >= sent, "{taken} of {sent} bytes");
}
