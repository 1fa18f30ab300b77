//! Tests of the source with real sockets and a clock that the test controls.

use super::SyslogConfig;
use crate::component::{Component, SourceComponent};
use millstream_model::{Batch, Polled, SinkSet, Source};
use millstream_testkit::{SourceRig, assert_valid};
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Timeout for actions of other threads.
const LIMIT: Duration = Duration::from_secs(60);

struct Bench {
    rig: SourceRig,
    source: Box<dyn Source>,
    /// The address of the UDP and the TCP socket.
    at: SocketAddr,
    folder: tempfile::TempDir,
}

/// Opens a source that listens on all kinds of sockets.
fn open(rig: &SourceRig, at: SocketAddr, folder: &Path, options: &str) -> Box<dyn Source> {
    let text = format!(
        r#"{{"listen":["udp://{at}","tcp://{at}","unixgram://{0}/gram","unix://{0}/stream"]{options}}}"#,
        folder.display()
    );
    let config: SyslogConfig = serde_json::from_str(&text).unwrap();
    assert_eq!(config.check(), []);
    config.open(rig.open()).unwrap()
}

impl Bench {
    /// Creates a source, and starts it.
    fn new(options: &str) -> Bench {
        let (folder, rig) = (tempfile::tempdir().unwrap(), SourceRig::new(&["out"]));
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let source = open(&rig, at, folder.path(), options);
        let mut bench = Bench { rig, source, at, folder };
        assert!(matches!(bench.rig.poll(&mut *bench.source), Polled::Wait(_)));
        bench
    }

    /// Polls until a batch is emitted, which is settled, or the source has ended.
    fn batch(&mut self) -> Option<Batch> {
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < LIMIT, "nothing arrives");
            match self.rig.poll(&mut *self.source) {
                Polled::Batch(batch, _) => {
                    assert_valid(&batch);
                    batch.segments.iter().for_each(|segment| segment.ack.finish());
                    return Some(*batch);
                }
                Polled::Ended => return None,
                _ => self.rig.wait_for_wake(Duration::from_millis(1)),
            }
        }
    }

    /// Returns a description of each of the next `count` events.
    fn events(&mut self, count: usize) -> Vec<String> {
        let mut events = Vec::new();
        while events.len() < count {
            let batch = self.batch().expect("more events");
            events.extend((0..batch.rows()).map(|row| show(&batch, row)));
        }
        events
    }

    fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.at).unwrap()
    }

    fn udp(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(self.at).unwrap();
        socket
    }

    /// Polls until a counter has this value.
    fn wait_for(&mut self, counter: impl Fn(&SourceRig) -> u64, value: u64) {
        let begun = Instant::now();
        while counter(&self.rig) != value {
            assert!(begun.elapsed() < LIMIT, "{} instead of {value}", counter(&self.rig));
            self.rig.advance(Duration::from_secs(1));
            let _ = self.rig.poll(&mut *self.source);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn text(batch: &Batch, name: &str, row: usize) -> Option<String> {
    let value = batch.value(batch.fields.get(name)?, row).plain()?;
    Some(String::from_utf8_lossy(&value).into_owned())
}

/// Describes an event: the fields, the time, and the line if it is shown.
fn show(batch: &Batch, row: usize) -> String {
    let names = ["facility", "level", "severity_number", "hostname", "app_name", "proc_id"];
    let names = names.into_iter().chain(["structured_data", "message"]);
    let mut shown: Vec<String> =
        names.filter_map(|name| Some(format!("{name}={}", text(batch, name, row)?))).collect();
    if batch.is_shown(row) {
        shown.push(format!("line={}", String::from_utf8_lossy(batch.text(row))));
    }
    if batch.event_ns(row).abs_diff(batch.read_ns) > LIMIT.as_nanos() as u64 {
        shown.push(format!("at={}", batch.event_ns(row)));
    }
    shown.extend(batch.is_truncated(row).then(|| "truncated".to_owned()));
    shown.join(" ")
}

fn dropped(rig: &SourceRig, reason: &str) -> u64 {
    rig.counters.snapshot().dropped_events.get(reason).copied().unwrap_or_default()
}

#[test]
fn every_kind_of_socket_delivers_messages() {
    let mut bench = Bench::new("");
    let five = "<13>1 2026-02-05T17:32:18.000001Z h app 7 - [e@1 k=\"v\"] \u{feff}text";
    let fields = "facility=user level=info severity_number=10 hostname=h app_name=app proc_id=7 \
                  structured_data={\"e@1\":{\"k\":\"v\"}} message=text at=1770312738000001000";
    bench.udp().send(five.as_bytes()).unwrap();
    assert_eq!(bench.events(1), [fields]);
    let gram = UnixDatagram::unbound().unwrap();
    gram.send_to(b"<11>app[7]: two\nlines\n\0", bench.folder.path().join("gram")).unwrap();
    let fields = "facility=user level=error severity_number=17 app_name=app proc_id=7";
    assert_eq!(bench.events(1), [format!("{fields} message=two\nlines")]);
    let counted = format!("{} {five}5 <0>ab", five.len());
    bench.tcp().write_all(counted.as_bytes()).unwrap();
    let last = "facility=kern level=fatal severity_number=21 message=ab";
    let at_tcp = bench.events(2);
    assert!(at_tcp[0].ends_with("message=text at=1770312738000001000") && at_tcp[1] == last);
    let mut stream = UnixStream::connect(bench.folder.path().join("stream")).unwrap();
    stream.write_all(b"<0>ab\n\n<0>ab\0no syslog\n").unwrap();
    assert_eq!(bench.events(3), [last, last, "line=no syslog"]);
    let snapshot = bench.rig.counters.snapshot();
    assert_eq!((snapshot.received_events, snapshot.sent_events), (7, 7));
    assert_eq!(snapshot.noted_events.get("not_syslog"), Some(&1));
}

#[test]
fn the_address_of_the_sender_is_a_field() {
    let mut bench = Bench::new(r#","peer_fields":["address","port"]"#);
    let (udp, mut tcp) = (bench.udp(), bench.tcp());
    udp.send(b"<1>a").unwrap();
    tcp.write_all(b"<1>b\n").unwrap();
    UnixDatagram::unbound().unwrap().send_to(b"<1>c", bench.folder.path().join("gram")).unwrap();
    let ports = [udp.local_addr().unwrap().port(), tcp.local_addr().unwrap().port()];
    let mut found = Vec::new();
    while found.len() < 3 {
        let batch = bench.batch().unwrap();
        found.extend((0..batch.rows()).map(|row| {
            let names = ["message", "network.peer.address", "network.peer.port"];
            names.map(|name| text(&batch, name, row).unwrap_or_default()).join(" ")
        }));
    }
    found.sort();
    let [a, b] = ports;
    assert_eq!(found, [format!("a 127.0.0.1 {a}"), format!("b 127.0.0.1 {b}"), "c  ".to_owned()]);
}

#[test]
fn long_messages_are_truncated_or_dropped() {
    let long = format!("<13>{}", "x".repeat(1100));
    let mut bench = Bench::new(r#","max_message":"1KiB""#);
    bench.udp().send(long.as_bytes()).unwrap();
    let found = bench.events(1);
    assert!(found[0].ends_with("x truncated") && found[0].len() < 1100, "{found:?}");
    bench.tcp().write_all(format!("{long}\n").as_bytes()).unwrap();
    assert_eq!(bench.events(1), found);
    let mut bench = Bench::new(r#","max_message":"1KiB","on_long_message":"drop""#);
    bench.udp().send(long.as_bytes()).unwrap();
    bench.wait_for(|rig| dropped(rig, "long_message"), 1);
    bench.tcp().write_all(format!("{long}\n").as_bytes()).unwrap();
    bench.wait_for(|rig| dropped(rig, "framing"), 1);
}

#[test]
fn messages_from_other_networks_are_dropped() {
    let mut bench = Bench::new(r#","allowed_networks":["192.0.2.0/24"]"#);
    bench.udp().send(b"<1>a").unwrap();
    bench.wait_for(|rig| dropped(rig, "not_allowed"), 1);
    let mut tcp = bench.tcp();
    let _ = tcp.write_all(b"<1>a\n");
    let denied = |rig: &SourceRig| {
        rig.counters.snapshot().errors.get("not_allowed").copied().unwrap_or_default()
    };
    bench.wait_for(denied, 1);
    UnixDatagram::unbound().unwrap().send_to(b"<1>c", bench.folder.path().join("gram")).unwrap();
    assert_eq!(bench.events(1).len(), 1);
}

/// Writes numbered messages until the receiver has not read for a while. Returns the number of
/// complete messages, and the rest of the last one.
fn fill(stream: &mut TcpStream) -> (usize, String) {
    stream.set_nonblocking(true).unwrap();
    let (mut count, mut stuck) = (0, Instant::now());
    let mut rest = String::new();
    while stuck.elapsed() < Duration::from_millis(300) {
        if rest.is_empty() {
            rest = format!("<13>app: message {count} {}\n", "x".repeat(200));
            count += 1;
        }
        match stream.write(rest.as_bytes()) {
            Ok(written) => {
                rest.drain(..written);
                stuck = Instant::now();
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    stream.set_nonblocking(false).unwrap();
    (count, rest)
}

/// Returns the numbers of the events of [`fill`].
fn numbers(events: &[String]) -> Vec<usize> {
    let number =
        |event: &String| event.split("message=message ").nth(1)?.split(' ').next()?.parse().ok();
    events.iter().filter_map(number).collect()
}

#[test]
fn a_slow_sink_stops_senders_over_tcp_and_a_stop_delivers_all_of_it() {
    let mut bench = Bench::new("");
    bench.rig.ready = SinkSet::EMPTY;
    let mut tcp = bench.tcp();
    let (count, rest) = fill(&mut tcp);
    assert!(count > 1000, "{count}");
    let udp = bench.udp();
    udp.send(b"<13>app: in the kernel's buffer").unwrap();
    assert!(matches!(bench.rig.poll(&mut *bench.source), Polled::Backpressure));
    bench.rig.ready = bench.rig.all();
    let sender = std::thread::spawn(move || {
        tcp.write_all(rest.as_bytes()).unwrap();
        tcp
    });
    let mut found = bench.events(count / 2);
    let tcp = sender.join().unwrap();
    assert!(bench.source.close(true));
    while let Some(batch) = bench.batch() {
        found.extend((0..batch.rows()).map(|row| show(&batch, row)));
    }
    assert_eq!(numbers(&found), (0..count).collect::<Vec<_>>());
    assert_eq!(found.len(), count + 1, "with the datagram");
    drop(tcp);
}

#[test]
fn a_source_that_replaces_a_stuck_one_gets_all_messages() {
    let mut bench = Bench::new("");
    bench.rig.ready = SinkSet::EMPTY;
    let mut tcp = bench.tcp();
    let (count, rest) = fill(&mut tcp);
    assert!(bench.source.close(false));
    assert!(matches!(bench.rig.poll(&mut *bench.source), Polled::Backpressure));
    let next = open(&bench.rig, bench.at, bench.folder.path(), r#","receivers":2"#);
    assert!(bench.source.leave().is_none());
    bench.source = next;
    bench.rig.ready = bench.rig.all();
    let sender = std::thread::spawn(move || {
        tcp.write_all(rest.as_bytes()).unwrap();
        tcp
    });
    let found = bench.events(count);
    assert_eq!(numbers(&found), (0..count).collect::<Vec<_>>());
    assert_eq!(dropped(&bench.rig, "abandoned"), 0);
    drop(sender.join().unwrap());
}

#[test]
fn messages_that_wait_keep_the_time_of_their_arrival() {
    let mut bench = Bench::new("");
    bench.rig.ready = SinkSet::EMPTY;
    let pause = Duration::from_millis(50);
    for text in ["<1>a", "<1>b"] {
        bench.udp().send(text.as_bytes()).unwrap();
        bench
            .wait_for(|rig| rig.counters.snapshot().received_events, u64::from(text == "<1>b") + 1);
        std::thread::sleep(pause);
    }
    bench.rig.ready = bench.rig.all();
    let batch = bench.batch().unwrap();
    assert_eq!(batch.rows(), 2);
    assert!(batch.event_ns(1) - batch.event_ns(0) >= pause.as_nanos() as i64);
}

#[test]
fn datagrams_that_the_kernel_drops_are_counted() {
    let mut bench = Bench::new(r#","receive_buffer":"64KiB""#);
    bench.rig.ready = SinkSet::EMPTY;
    let udp = bench.udp();
    let text = format!("<13>app: {}", "x".repeat(1000));
    let sent = 10_000;
    for _ in 0..sent {
        udp.send(text.as_bytes()).unwrap();
    }
    bench.wait_for(|rig| u64::from(dropped(rig, "kernel") > 0), 1);
    bench.rig.ready = bench.rig.all();
    let mut events = 0;
    let begun = Instant::now();
    while events + dropped(&bench.rig, "kernel") < sent {
        assert!(begun.elapsed() < LIMIT, "{events} and {}", dropped(&bench.rig, "kernel"));
        if let Polled::Batch(batch, _) = bench.rig.poll(&mut *bench.source) {
            batch.segments.iter().for_each(|segment| segment.ack.finish());
            events += batch.rows() as u64;
        } else {
            bench.rig.advance(Duration::from_secs(1));
            bench.rig.wait_for_wake(Duration::from_millis(1));
        }
    }
    assert_eq!(events + dropped(&bench.rig, "kernel"), sent);
}

#[test]
fn what_is_left_at_a_forced_stop_is_counted() {
    let mut bench = Bench::new("");
    bench.rig.ready = SinkSet::EMPTY;
    let mut tcp = bench.tcp();
    fill(&mut tcp);
    let received = bench.rig.counters.snapshot().received_events;
    let Bench { rig, mut source, .. } = bench;
    assert!(source.leave().is_none());
    drop(source);
    let snapshot = rig.counters.snapshot();
    assert!(received < snapshot.received_events, "the round that waited was counted");
    assert_eq!(dropped(&rig, "abandoned"), snapshot.received_events);
}
