//! Connections: packets, lines, length-prefixed messages.

use crate::support::{Recorder, at, listen, options, start, wait_for};
use millstream_receiver::{Address, Framing, Listen, Options};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketType, connect, send, socket};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

fn stream(path: &Path, framing: Framing) -> Listen {
    Listen { framing, ..listen(Address::UnixStream(path.to_path_buf())) }
}

fn packets(path: &Path) -> OwnedFd {
    let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

fn message(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

#[test]
fn packets_are_messages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.sock");
    let at = listen(Address::UnixPacket(path.clone()));
    let (receiving, recorder, _) = start(&at, &Options { credentials: true, ..options() });
    let client = packets(&path);
    for n in 0..300 {
        send(&client, format!("packet {n}").as_bytes(), SendFlags::empty()).unwrap();
    }
    send(&client, &[b'x'; 8193], SendFlags::empty()).unwrap();
    send(&client, b"", SendFlags::empty()).unwrap();
    send(&client, b"after an empty one", SendFlags::empty()).unwrap();
    let has_all = |texts: &[String]| texts.last().is_some_and(|text| text == "after an empty one");
    wait_for(&receiving, |_| has_all(&recorder.texts()));
    let texts: Vec<String> = recorder.texts().into_iter().filter(|text| !text.is_empty()).collect();
    assert_eq!(texts[..300], (0..300).map(|n| format!("packet {n}")).collect::<Vec<_>>());
    assert_eq!(texts.len(), 301);
    assert_eq!(recorder.recorded.lock()[0].1.as_ref().unwrap().pid, std::process::id());
    let stats = receiving.stats();
    assert_eq!((stats.truncated, stats.connections), (1, 1));
    drop(client);
    wait_for(&receiving, |stats| stats.connections == 0);
}

#[test]
fn lines_are_reassembled_from_any_chunks() {
    let listen = Listen { framing: Framing::Lines, ..listen("tcp://127.0.0.1:0".parse().unwrap()) };
    let (receiving, recorder, address) = start(&listen, &options());
    let mut client = TcpStream::connect(at(&address)).unwrap();
    client.set_nodelay(true).unwrap();
    for part in ["one\nt", "w", "o\n\nthree", "\n", "the last"] {
        client.write_all(part.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(client);
    wait_for(&receiving, |stats| stats.connections_accepted == 1 && stats.connections == 0);
    assert_eq!(recorder.texts(), ["one", "two", "three", "the last"]);
}

#[test]
fn oversized_lines_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.sock");
    let options = Options { message_bytes_max: 1000, ..options() };
    let (receiving, recorder, _) = start(&stream(&path, Framing::Lines), &options);
    let mut client = UnixStream::connect(&path).unwrap();
    let fits = "f".repeat(1000);
    let text = format!(
        "a\n{}\nb\n{fits}\n{}\nc\n{}",
        "x".repeat(1001),
        "y".repeat(300_000),
        "z".repeat(200_000)
    );
    client.write_all(text.as_bytes()).unwrap();
    drop(client);
    let stats =
        wait_for(&receiving, |stats| stats.connections_accepted == 1 && stats.connections == 0);
    assert_eq!(recorder.texts(), ["a", "b", &fits, "c"]);
    assert_eq!(stats.framing_errors, 3);
}

#[test]
fn length_prefixed_messages_are_parsed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.sock");
    let (receiving, recorder, _) =
        start(&stream(&path, Framing::Length), &Options { credentials: true, ..options() });
    let mut client = UnixStream::connect(&path).unwrap();
    let texts: Vec<String> =
        (0..5000).map(|n| format!("message {n}{}", "x".repeat(n % 90))).collect();
    let bytes: Vec<u8> = texts.iter().flat_map(|text| message(text)).collect();
    for part in bytes.chunks(1777) {
        client.write_all(part).unwrap();
    }
    for byte in message("byte by byte") {
        client.write_all(&[byte]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    wait_for(&receiving, |stats| stats.messages == 5001);
    assert_eq!(recorder.texts()[..5000], texts);
    assert_eq!(recorder.texts()[5000], "byte by byte");
    assert!(
        recorder
            .recorded
            .lock()
            .iter()
            .all(|(_, sender)| sender.as_ref().unwrap().pid == std::process::id())
    );
    client.write_all(&[9, 0, 0, 0, b'x']).unwrap();
    drop(client);
    let stats = wait_for(&receiving, |stats| stats.connections == 0);
    assert_eq!((stats.framing_errors, stats.messages), (1, 5001));
}

#[test]
fn an_oversized_length_closes_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.sock");
    let (receiving, recorder, _) = start(&stream(&path, Framing::Length), &options());
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(&[message("good"), vec![0xff; 4]].concat()).unwrap();
    assert_eq!(client.read(&mut [0; 8]).unwrap_or(0), 0, "the receiver closed it");
    let stats = wait_for(&receiving, |stats| stats.connections == 0);
    assert_eq!((recorder.texts(), stats.framing_errors), (vec!["good".to_string()], 1));
}

#[test]
fn connections_beyond_the_limit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.sock");
    let options = Options { connections_max: 3, shares: 2, ..options() };
    let (receiving, recorder, _) = start(&stream(&path, Framing::Lines), &options);
    let mut clients: Vec<UnixStream> =
        (0..3).map(|_| UnixStream::connect(&path).unwrap()).collect();
    wait_for(&receiving, |stats| stats.connections == 3);
    let mut refused = UnixStream::connect(&path).unwrap();
    assert_eq!(refused.read(&mut [0; 8]).unwrap_or(0), 0);
    clients[2].write_all(b"still there\n").unwrap();
    let stats = wait_for(&receiving, |stats| stats.messages == 1);
    assert_eq!((stats.connections_refused, stats.connections), (1, 3));
    clients.pop();
    wait_for(&receiving, |stats| stats.connections == 2);
    UnixStream::connect(&path).unwrap().write_all(b"accepted again\n").unwrap();
    wait_for(&receiving, |stats| stats.messages == 2);
    assert_eq!(recorder.texts(), ["still there", "accepted again"]);
}

/// A closed connection has nothing left to read except its end, so it must not count against the
/// limit.
#[test]
fn short_connections_are_not_refused() {
    const CLIENTS: usize = 60;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.sock");
    for (is_packets, shares) in [(false, 1), (true, 1), (false, 3), (true, 3)] {
        let options = Options { connections_max: 2, shares, ..options() };
        let at = if is_packets {
            listen(Address::UnixPacket(path.clone()))
        } else {
            stream(&path, Framing::Lines)
        };
        let (receiving, recorder, _) = start(&at, &options);
        let open = if is_packets {
            packets(&path)
        } else {
            OwnedFd::from(UnixStream::connect(&path).unwrap())
        };
        wait_for(&receiving, |stats| stats.connections == 1);
        receiving.pause();
        for n in 0..CLIENTS {
            let client = if is_packets {
                packets(&path)
            } else {
                OwnedFd::from(UnixStream::connect(&path).unwrap())
            };
            send(&client, format!("client {n}\n").as_bytes(), SendFlags::empty()).unwrap();
        }
        receiving.resume();
        let all = |recorder: &Recorder| {
            recorder.texts().iter().filter(|text| text.starts_with("client")).count()
        };
        let stats = wait_for(&receiving, |stats| {
            all(&recorder) == CLIENTS || stats.connections_refused > 0
        });
        assert_eq!((all(&recorder), stats.connections_refused), (CLIENTS, 0));
        let stats = wait_for(&receiving, |stats| stats.connections == 1);
        assert_eq!(stats.connections_accepted, CLIENTS as u64 + 1);
        drop(open);
    }
}

/// Returns whether the peer has closed the connection.
fn is_closed(mut client: &UnixStream) -> bool {
    client.set_nonblocking(true).unwrap();
    !client.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// Opens `each` connections per thread, one after another.
fn crowd(path: &Path, threads: usize, each: usize, stays: bool) -> Vec<UnixStream> {
    let open = || (0..each).map(|_| UnixStream::connect(path).unwrap()).filter(|_| stays).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(open)).collect();
        threads.into_iter().flat_map(|thread| -> Vec<_> { thread.join().unwrap() }).collect()
    })
}

/// Some connections come and go quickly, some stay, while several threads accept them.
#[test]
fn open_connections_never_exceed_the_limit() {
    const MAX: usize = 4;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.sock");
    let options = Options { connections_max: MAX, shares: 3, ..options() };
    for held in [MAX, 2] {
        let (receiving, _, _) = start(&stream(&path, Framing::Lines), &options);
        let holding: Vec<UnixStream> =
            (0..held).map(|_| UnixStream::connect(&path).unwrap()).collect();
        wait_for(&receiving, |stats| stats.connections == held as u64);
        let staying = std::thread::scope(|scope| {
            scope.spawn(|| crowd(&path, 4, 300, false));
            scope.spawn(|| crowd(&path, 4, 75, true)).join().unwrap()
        });
        let stats =
            wait_for(&receiving, |stats| stats.connections_accepted == (held + 1500) as u64);
        receiving.pause();
        assert!(!holding.iter().any(is_closed));
        let stayed = staying.iter().filter(|client| !is_closed(client)).count();
        assert!(held + stayed <= MAX, "{stayed} in addition to {held}: {stats:?}");
        let stats = receiving.stats();
        assert!(stats.connections <= MAX as u64, "{stats:?}");
        assert!(held < MAX || stats.connections_refused == 1500, "{stats:?}");
        receiving.resume();
        drop((holding, staying));
        wait_for(&receiving, |stats| stats.connections == 0);
    }
}

/// The connection that panics is read so that its slot becomes free for the next one.
#[test]
fn a_panic_on_a_closed_connection_costs_no_slot() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.sock");
    let options = Options { connections_max: 1, ..options() };
    let (receiving, recorder, _) = start(&stream(&path, Framing::Lines), &options);
    receiving.pause();
    UnixStream::connect(&path).unwrap().write_all(b"bomb\n").unwrap();
    let mut next = UnixStream::connect(&path).unwrap();
    next.write_all(b"next\n").unwrap();
    receiving.resume();
    let stats = wait_for(&receiving, |_| recorder.texts() == ["next"]);
    assert_eq!((stats.connections, stats.connections_refused, stats.panics), (1, 0, 2));
    drop(next);
    wait_for(&receiving, |stats| stats.connections == 0);
    UnixStream::connect(&path).unwrap().write_all(b"last\n").unwrap();
    wait_for(&receiving, |_| recorder.texts() == ["next", "last"]);
}

/// Some clients send endlessly, some send a byte at a time, some send nothing. A well-behaved
/// client is still read.
#[test]
fn no_connection_starves_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.sock");
    let (receiving, recorder, _) = start(&stream(&path, Framing::Lines), &options());
    let idle: Vec<UnixStream> = (0..20).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let end = std::sync::atomic::AtomicBool::new(false);
    let is_running = || !end.load(std::sync::atomic::Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = UnixStream::connect(&path).unwrap();
            let endless = vec![b'x'; 1 << 20];
            while is_running() && client.write_all(&endless).is_ok() {}
        });
        scope.spawn(|| {
            let mut client = UnixStream::connect(&path).unwrap();
            while is_running() && client.write_all(b"y").is_ok() {}
        });
        for n in 0..20 {
            let mut client = UnixStream::connect(&path).unwrap();
            client.write_all(format!("honest {n}\n").as_bytes()).unwrap();
            wait_for(&receiving, |_| recorder.texts().contains(&format!("honest {n}")));
        }
        receiving.pause();
        receiving.resume();
        end.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    assert!(receiving.stats().connections >= 20, "idle connections stay open");
    drop(idle);
    wait_for(&receiving, |stats| stats.connections == 0);
}

/// A reset is an error of one connection only.
#[test]
fn a_reset_connection_is_counted() {
    let (receiving, recorder, address) =
        start(&listen("tcp://127.0.0.1:0".parse().unwrap()), &options());
    let client = TcpStream::connect(at(&address)).unwrap();
    wait_for(&receiving, |stats| stats.connections == 1);
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
    let stats = wait_for(&receiving, |stats| stats.connections == 0);
    assert_eq!((stats.connection_errors, stats.errors_recorded), (1, 1));
    assert!(stats.last_error.unwrap().contains("a connection failed"));
    TcpStream::connect(at(&address)).unwrap().write_all(b"next\n").unwrap();
    wait_for(&receiving, |_| recorder.texts() == ["next"]);
    let client = TcpStream::connect(at(&address)).unwrap();
    wait_for(&receiving, |stats| stats.connections_accepted == 3);
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
    wait_for(&receiving, |stats| stats.connection_errors == 2 && stats.errors_recorded == 2);
}

#[test]
fn a_handler_panic_closes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.sock");
    let recorder = Recorder { panics_at: Some(b"boom"), ..Recorder::default() };
    let (receiving, recorder, _) =
        crate::support::start_with(&stream(&path, Framing::Lines), &options(), recorder);
    for text in ["before\n", "boom\n", "after\n"] {
        let rounds = receiving.stats().rounds;
        UnixStream::connect(&path).unwrap().write_all(text.as_bytes()).unwrap();
        wait_for(&receiving, |stats| stats.rounds > rounds);
    }
    wait_for(&receiving, |stats| stats.panics == 1 && recorder.texts() == ["before", "after"]);
}

/// A panic that is not caught around the handler call closes only that connection.
#[test]
fn a_panic_while_reading_closes_that_connection() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.sock");
    let (receiving, recorder, _) = start(&stream(&path, Framing::Lines), &options());
    let mut good = UnixStream::connect(&path).unwrap();
    let mut bad = UnixStream::connect(&path).unwrap();
    wait_for(&receiving, |stats| stats.connections == 2);
    bad.write_all(b"bomb\n").unwrap();
    assert_eq!(bad.read(&mut [0; 8]).unwrap_or(0), 0, "the connection is closed");
    good.write_all(b"good\n").unwrap();
    let stats = wait_for(&receiving, |_| recorder.texts() == ["good"]);
    assert_eq!((stats.connections, stats.panics, stats.threads_ended), (1, 2, 0));
    assert!(stats.last_error.unwrap().contains("panic"));
    let mut last = UnixStream::connect(&path).unwrap();
    receiving.pause();
    receiving.resume();
    last.write_all(b"last\n").unwrap();
    wait_for(&receiving, |_| recorder.texts() == ["good", "last"]);
}

/// Repeats the panic test with a datagram socket, including the final read before a pause.
#[test]
fn a_panic_while_reading_datagrams_ends_no_thread() {
    let (receiving, recorder, address) = start(&crate::support::udp(), &options());
    let client = crate::support::sender(&address);
    for n in 0..6 {
        client.send(b"bomb").unwrap();
        if n % 2 == 0 {
            receiving.pause();
            receiving.resume();
        }
        wait_for(&receiving, |stats| stats.panics == 2 * (n + 1));
    }
    client.send(b"good").unwrap();
    let stats = wait_for(&receiving, |_| recorder.texts() == ["good"]);
    assert_eq!(stats.threads_ended, 0);
}

/// A truncated line would be a different message from the one intended.
#[test]
fn a_message_truncated_by_a_reset_is_dropped() {
    let (receiving, recorder, address) =
        start(&listen("tcp://127.0.0.1:0".parse().unwrap()), &options());
    let mut client = TcpStream::connect(at(&address)).unwrap();
    client.write_all(b"whole\nhal").unwrap();
    wait_for(&receiving, |stats| stats.messages == 1);
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
    let stats = wait_for(&receiving, |stats| stats.connections == 0);
    assert_eq!((stats.connection_errors, stats.framing_errors), (1, 1));
    assert_eq!(recorder.texts(), ["whole"]);
}
