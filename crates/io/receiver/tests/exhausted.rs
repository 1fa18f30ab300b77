//! Without free file descriptors, a connection stays in the backlog; the thread neither exits nor
//! spins.

use millstream_receiver::{Framing, Listen, MessageHandler, Messages, Options, Receiver};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

struct NoopHandler;

impl MessageHandler for NoopHandler {
    fn round(&mut self, _: &Messages<'_>) {}
    fn notified(&mut self) {}
}

#[test]
fn a_connection_waits_for_a_free_descriptor() {
    let few = Rlimit { current: Some(256), maximum: getrlimit(Resource::Nofile).maximum };
    setrlimit(Resource::Nofile, few).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let address = format!("unix://{}", path.display()).parse().unwrap();
    let options = Options {
        shares: 1,
        receive_buffer: 1 << 20,
        message_bytes_max: 8192,
        connections_max: 10,
        truncates: false,
        credentials: false,
        addresses: false,
        idle_timeout: None,
        message_timeout: None,
        merge: true,
    };
    let listen = Listen { address, mode: None, framing: Framing::Lines, tls: None };
    let receiving = Receiver::open(&[listen], &options)
        .unwrap()
        .start("full", vec![Box::new(NoopHandler)])
        .unwrap();
    receiving.resume();
    let wait_for = |condition: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !condition() {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "timed out: {:?}",
                receiving.stats()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let mut client = rustix::net::socket(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        None,
    )
    .map(UnixStream::from)
    .unwrap();
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    rustix::net::connect(&client, &rustix::net::SocketAddrUnix::new(&path).unwrap()).unwrap();
    client.write_all(b"patient\n").unwrap();
    wait_for(&|| receiving.stats().socket_errors > 0);
    let (begun, before) = (Instant::now(), receiving.stats().socket_errors);
    std::thread::sleep(Duration::from_millis(500));
    let stats = receiving.stats();
    // The sleep takes longer on a busy machine.
    let most = 5.0 + 10.0 * begun.elapsed().as_secs_f64();
    let retries = (stats.socket_errors - before) as f64;
    assert!(retries <= most, "it retries ten times a second: {stats:?}");
    assert!(stats.last_error.as_ref().is_some_and(|text| text.contains("open files")), "{stats:?}");
    drop(taken);
    wait_for(&|| receiving.stats().messages == 1);
}
