//! What the syslog source needs: its framing, addresses, limits in time, and accepted networks.

use crate::support::{Recorder, at, listen, options, sender, start, start_with, wait_for};
use millstream_receiver::{Address, Framing, Listen, MessageHandler, Messages, Options, Receiver};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

fn tcp() -> Listen {
    Listen { framing: Framing::Syslog, ..listen("tcp://127.0.0.1:0".parse().unwrap()) }
}

/// Sends the bytes on a new connection, in two pieces.
fn send(address: &Address, bytes: &[u8]) -> TcpStream {
    let mut client = TcpStream::connect(at(address)).unwrap();
    client.set_nodelay(true).unwrap();
    let (begin, end) = bytes.split_at(bytes.len() / 2);
    client.write_all(begin).unwrap();
    std::thread::sleep(Duration::from_millis(10));
    client.write_all(end).unwrap();
    client
}

#[test]
fn each_connection_has_its_own_framing() {
    let options = Options { truncates: true, message_bytes_max: 100, ..options() };
    let (receiving, recorder, address) = start(&tcp(), &options);
    drop(send(&address, b"6 <1>a\nb5 <1>cd"));
    wait_for(&receiving, |stats| stats.messages == 2);
    drop(send(&address, b"<2>one\n<2>two\0<2>the last"));
    wait_for(&receiving, |stats| stats.messages == 5);
    drop(send(&address, format!("<3>{}\n<3>short\n", "x".repeat(5000)).as_bytes()));
    wait_for(&receiving, |stats| stats.messages == 7);
    let texts = recorder.texts();
    assert_eq!(texts[..5], ["<1>a\nb", "<1>cd", "<2>one", "<2>two", "<2>the last"]);
    assert_eq!((texts[5].len(), &*texts[6]), (100, "<3>short"));
    assert_eq!(receiving.stats().framing_errors, 0);
}

#[test]
fn an_invalid_length_closes_the_connection() {
    let (receiving, recorder, address) = start(&tcp(), &options());
    let mut client = send(&address, b"5 <1>ab<1>ab 5 <1>cd");
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let closed = client.read(&mut [0]);
    assert!(matches!(closed, Ok(0) | Err(_)));
    let stats = wait_for(&receiving, |stats| stats.connections == 0);
    assert_eq!((recorder.texts(), stats.framing_errors), (vec!["<1>ab".to_owned()], 1));
    let error = stats.last_error.unwrap();
    let peer = client.local_addr().unwrap();
    assert!(
        error.ends_with(&format!(
            "closed a connection from {peer}, because the length of a message is invalid"
        )),
        "{error}"
    );
}

#[test]
fn without_truncation_long_messages_are_dropped() {
    let options = Options { message_bytes_max: 100, ..options() };
    let (receiving, recorder, address) = start(&tcp(), &options);
    drop(send(&address, format!("204 <1>{}\n4 <1>b", "x".repeat(200)).as_bytes()));
    let stats = wait_for(&receiving, |stats| stats.messages == 1);
    assert_eq!((recorder.texts(), stats.framing_errors), (vec!["<1>b".to_owned()], 1));
}

/// Records the text and address of each message, and accepts connections by port.
struct Addresses(std::sync::mpsc::Sender<(String, Option<SocketAddr>, bool)>, bool);

impl MessageHandler for Addresses {
    fn round(&mut self, messages: &Messages<'_>) {
        for message in messages {
            let text = String::from_utf8_lossy(message.bytes).into_owned();
            self.0.send((text, message.address, message.is_truncated)).unwrap();
        }
    }

    fn notified(&mut self) {}

    fn accepts(&mut self, address: SocketAddr) -> bool {
        self.1 && address.ip().is_loopback()
    }
}

#[test]
fn messages_have_the_address_of_their_sender() {
    let udp = |at: &str| Listen { framing: Framing::Syslog, ..listen(at.parse().unwrap()) };
    let options = Options { addresses: true, truncates: true, message_bytes_max: 4, ..options() };
    for at_any in [udp("udp://127.0.0.1:0"), udp("udp://[::1]:0"), udp("udp://0.0.0.0:0"), tcp()] {
        let receiver = Receiver::open(&[at_any], &options).unwrap();
        let address = receiver.sockets()[0].address.clone();
        let (sent, got) = std::sync::mpsc::channel();
        let receiving = receiver.start("test", vec![Box::new(Addresses(sent, true))]).unwrap();
        receiving.resume();
        let port = at(&address).port();
        let expected = match &address {
            Address::Tcp(to) => {
                let mut client = TcpStream::connect(to).unwrap();
                client.write_all(b"text\nlonger\n").unwrap();
                client.local_addr().unwrap()
            }
            to => {
                let from = if at(to).is_ipv6() { "[::1]:0" } else { "127.0.0.1:0" };
                let client = std::net::UdpSocket::bind(from).unwrap();
                let to = SocketAddr::new(client.local_addr().unwrap().ip(), port);
                client.send_to(b"text", to).unwrap();
                client.send_to(b"longer", to).unwrap();
                client.local_addr().unwrap()
            }
        };
        let next = || got.recv_timeout(Duration::from_secs(30)).unwrap();
        assert_eq!(next(), ("text".to_owned(), Some(expected), false));
        assert_eq!(next(), ("long".to_owned(), Some(expected), true));
    }
}

#[test]
fn a_denied_connection_is_closed() {
    let receiver = Receiver::open(&[tcp()], &options()).unwrap();
    let address = receiver.sockets()[0].address.clone();
    let (sent, _got) = std::sync::mpsc::channel();
    let receiving = receiver.start("test", vec![Box::new(Addresses(sent, false))]).unwrap();
    receiving.resume();
    let mut client = TcpStream::connect(at(&address)).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
    let stats = wait_for(&receiving, |stats| stats.connections_denied == 1);
    assert_eq!((stats.connections, stats.connections_accepted), (0, 1));
}

#[test]
fn connections_without_progress_time_out() {
    let (short, never) = (Some(Duration::from_millis(200)), None);
    for (idle_timeout, message_timeout, survives) in
        [(short, never, b"<1>half"), (never, short, b"<1>all\n")]
    {
        let options = Options { idle_timeout, message_timeout, ..options() };
        let (receiving, recorder, address) = start_with(&tcp(), &options, Recorder::default());
        let _stays = send(&address, survives);
        let mut closed = send(&address, if idle_timeout.is_some() { b"" } else { b"<1>half" });
        wait_for(&receiving, |stats| stats.connections_timed_out == 1);
        closed.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        assert_eq!(closed.read(&mut [0]).unwrap(), 0);
        assert_eq!(receiving.stats().connections, 1);
        // A sender that ends no message may have sent a whole one.
        let expected: &[&str] = if idle_timeout.is_some() { &[] } else { &["<1>all", "<1>half"] };
        assert_eq!(recorder.texts(), expected);
    }
}

#[test]
fn a_message_without_end_times_out_beyond_the_limit() {
    let message_timeout = Some(Duration::from_millis(500));
    let options = Options { message_timeout, message_bytes_max: 10, truncates: true, ..options() };
    for begin in [&b"<1>long message"[..], b"999999999 <1>long message"] {
        let (receiving, recorder, address) = start_with(&tcp(), &options, Recorder::default());
        let mut client = send(&address, begin);
        let begun = std::time::Instant::now();
        while receiving.stats().connections_timed_out == 0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "it stays open");
            let _ = client.write_all(b"x");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(recorder.texts(), ["<1>long me"]);
    }
}

#[test]
fn datagrams_are_truncated_on_request() {
    let options = Options { truncates: true, message_bytes_max: 5, ..options() };
    let (receiving, recorder, address) =
        start(&listen("udp://127.0.0.1:0".parse().unwrap()), &options);
    let client = sender(&address);
    client.send(b"short").unwrap();
    client.send(b"longer").unwrap();
    let stats = wait_for(&receiving, |stats| stats.messages == 2);
    assert_eq!((recorder.texts(), stats.truncated), (vec!["short".into(), "longe".into()], 0));
}
