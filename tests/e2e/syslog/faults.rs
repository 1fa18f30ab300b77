//! Senders that misbehave, reloads, stops and kills.

use super::{PATIENCE, config, counted, numbers, start, wait_for_events, wait_ready};
use crate::support::{Agent, folder, lines, wait_until};
use millstream_testkit_servers::ports::free_port;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

fn connect(port: u16) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port)).unwrap()
}

fn message(n: usize) -> String {
    format!("<13>Feb  5 17:32:18 h app[7]: number {n}\n")
}

#[test]
fn a_flood_of_connections_is_bounded() {
    let (dir, port) = (folder(), free_port());
    let mut agent = start(dir.path(), &config(port, "max_connections: 20"));
    // Each connection stops within a message.
    let mut flood: Vec<TcpStream> = Vec::new();
    for _ in 0..300 {
        let mut stream = connect(port);
        let _ = stream.write_all(b"<13>half a mess");
        flood.push(stream);
    }
    wait_until("refusals", PATIENCE, || {
        counted(&agent, "errors", "error_type=\"refused\"") == 280.0
    });
    UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .send_to(message(1).as_bytes(), ("127.0.0.1", port))
        .unwrap();
    assert_eq!(numbers(&wait_for_events(dir.path(), 1)), [1]);
    drop(flood);
    // Connections that have ended make room. Their incomplete messages are kept.
    wait_until("the incomplete messages", PATIENCE, || {
        lines(&dir.path().join("out.json")).len() > 20
    });
    connect(port).write_all(message(2).as_bytes()).unwrap();
    let events = wait_for_events(dir.path(), 22);
    assert_eq!(events.iter().filter(|event| event["message"] == "half a mess").count(), 20);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
}

#[test]
fn reloads_lose_nothing_of_open_connections() {
    let (dir, port) = (folder(), free_port());
    let mut agent = start(dir.path(), &config(port, "receivers: 1"));
    let is_done = Arc::new(AtomicBool::new(false));
    let senders: Vec<_> = (0..4)
        .map(|_| {
            let (is_done, mut stream) = (is_done.clone(), connect(port));
            std::thread::spawn(move || {
                let mut sent = 0;
                while !is_done.load(SeqCst) {
                    // Most reloads find the connection within a message.
                    let text = message(sent);
                    let (begin, end) = text.split_at(sent % text.len());
                    stream.write_all(begin.as_bytes()).unwrap();
                    std::thread::sleep(Duration::from_millis(2));
                    stream.write_all(end.as_bytes()).unwrap();
                    sent += 1;
                }
                sent
            })
        })
        .collect();
    for receivers in [2, 3, 1, 2] {
        let hash = || agent.single("millstream_config_hash");
        let before = hash();
        agent.reload(&config(port, &format!("receivers: {receivers}")));
        wait_until("the reload", PATIENCE, || hash().is_some_and(|now| Some(now) != before));
        std::thread::sleep(Duration::from_millis(200));
    }
    is_done.store(true, SeqCst);
    let sent: Vec<usize> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
    let mut found = numbers(&wait_for_events(dir.path(), sent.iter().sum()));
    let mut expected: Vec<usize> = sent.iter().flat_map(|sent| 0..*sent).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
}

#[test]
fn a_reload_while_a_sink_is_down_loses_nothing_of_open_connections() {
    let (dir, [port, to]) = (folder(), [free_port(), free_port()]);
    let config = |receivers: usize| {
        format!(
            "sources:\n  net: {{ type: syslog, listen: ['tcp://127.0.0.1:{port}'], receivers: \
             {receivers} }}\nsinks:\n  out: {{ type: tcp, inputs: [net], address: \
             '127.0.0.1:{to}' }}\n"
        )
    };
    let mut agent = start(dir.path(), &config(1));
    let count = 200_000;
    let senders: Vec<_> = (0..3)
        .map(|_| {
            let mut stream = connect(port);
            std::thread::spawn(move || {
                let text: String = (0..count).map(message).collect();
                stream.write_all(text.as_bytes()).unwrap();
            })
        })
        .collect();
    let received =
        || agent.metric("millstream_component_received_events_total{component_id=\"net\"");
    let mut before = None;
    wait_until("the senders wait", PATIENCE, || {
        std::thread::sleep(Duration::from_millis(500));
        let now = received();
        now.is_some_and(|now| now > 0.0) && std::mem::replace(&mut before, now) == now
    });
    let hash = || agent.single("millstream_config_hash");
    let old = hash();
    agent.reload(&config(2));
    wait_until("the reload", PATIENCE, || hash().is_some_and(|now| Some(now) != old));
    let listener = TcpListener::bind(("127.0.0.1", to)).unwrap();
    let lines = BufReader::new(listener.accept().unwrap().0).lines();
    let events = lines.take(3 * count).map(|line| serde_json::from_str(&line.unwrap()).unwrap());
    let mut found = numbers(&events.collect::<Vec<_>>());
    found.sort_unstable();
    assert!(found == (0..count).flat_map(|n| [n; 3]).collect::<Vec<_>>(), "a message is missing");
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
}

#[test]
fn a_stop_delivers_everything_that_was_sent_over_tcp() {
    let (dir, port) = (folder(), free_port());
    let mut agent = start(dir.path(), &config(port, ""));
    let mut streams: Vec<TcpStream> = (0..3).map(|_| connect(port)).collect();
    let count = 30_000;
    let text: String = (0..count).map(message).collect();
    for stream in &mut streams {
        stream.write_all(text.as_bytes()).unwrap();
    }
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    let mut found = numbers(&super::events(&dir.path().join("out.json")));
    found.sort_unstable();
    let expected: Vec<usize> = (0..count).flat_map(|n| [n; 3]).collect();
    assert_eq!(found.len(), expected.len());
    assert!(found == expected, "a message is missing");
    for stream in &mut streams {
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "the connection is closed");
    }
}

#[test]
fn a_kill_loses_nothing_that_is_in_a_disk_buffer() {
    let (dir, [port, to]) = (folder(), [free_port(), free_port()]);
    let config = format!(
        "sources:\n  net: {{ type: syslog, listen: ['udp://127.0.0.1:{port}', \
         'tcp://127.0.0.1:{port}'] }}\nsinks:\n  out: {{ type: tcp, inputs: [net], address: \
         '127.0.0.1:{to}', buffer: {{ type: disk, mode: always, max: 256MiB }} }}\n"
    );
    let mut agent = start(dir.path(), &config);
    let count = 5000;
    let text: String = (0..count).map(message).collect();
    connect(port).write_all(text.as_bytes()).unwrap();
    let buffered =
        || agent.metric("millstream_disk_buffer_events{component_id=\"out\"").unwrap_or_default();
    wait_until("the disk buffer has all", PATIENCE, || buffered() == count as f64);
    // The buffer is synced every 100 ms.
    std::thread::sleep(Duration::from_millis(500));
    agent.kill();
    let listener = TcpListener::bind(("127.0.0.1", to)).unwrap();
    let mut agent = Agent::start(dir.path(), &config, &[]);
    wait_ready(&mut agent);
    let reader = BufReader::new(listener.accept().unwrap().0);
    let mut found = BTreeSet::new();
    for line in reader.lines() {
        let event = serde_json::from_str(&line.unwrap()).unwrap();
        found.extend(numbers(&[event]));
        if found.len() == count {
            break;
        }
    }
    assert_eq!(found.len(), count);
}
