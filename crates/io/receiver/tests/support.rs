//! Helpers of the tests: a handler that records all messages, and sockets to send from.

use millstream_receiver::{
    Address, Framing, Listen, MessageHandler, Messages, Options, Receiver, Receiving, Sender, Stats,
};
use parking_lot::Mutex;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A message with its sender.
pub type Recorded = (Vec<u8>, Option<Sender>);

/// A panic payload that panics again when it is dropped.
pub struct Bomb;

impl Bomb {
    /// The message at which a recorder panics with a bomb.
    pub const MESSAGE: &[u8] = b"bomb";
}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the payload's drop panics");
    }
}

/// Records all messages.
#[derive(Clone, Default)]
pub struct Recorder {
    pub recorded: Arc<Mutex<Vec<Recorded>>>,
    pub notified: Arc<AtomicUsize>,
    /// Duration of each round.
    pub delay: Duration,
    /// Bytes of a message at which the recorder panics.
    pub panics_at: Option<&'static [u8]>,
}

impl MessageHandler for Recorder {
    fn round(&mut self, messages: &Messages<'_>) {
        assert_eq!(messages.len(), messages.iter().count());
        assert_eq!(
            messages.bytes(),
            messages.iter().map(|message| message.bytes.len()).sum::<usize>()
        );
        assert!(messages.received_ns() > 1_600_000_000_000_000_000 && !messages.is_empty());
        if let Some(bytes) = self.panics_at {
            assert!(messages.iter().all(|message| message.bytes != bytes), "test panic");
        }
        if messages.iter().any(|message| message.bytes == Bomb::MESSAGE) {
            std::panic::panic_any(Bomb);
        }
        let copies =
            messages.iter().map(|message| (message.bytes.to_vec(), message.sender.cloned()));
        self.recorded.lock().extend(copies);
        std::thread::sleep(self.delay);
    }

    fn notified(&mut self) {
        self.notified.fetch_add(1, SeqCst);
    }
}

impl Recorder {
    pub fn texts(&self) -> Vec<String> {
        let recorded = self.recorded.lock();
        recorded.iter().map(|(bytes, _)| String::from_utf8_lossy(bytes).into_owned()).collect()
    }

    /// Waits until all but a few of the sent messages have arrived. These few fit into the smallest
    /// buffer, so that the kernel drops none of them on a busy host.
    pub fn keep_up(&self, sent: usize) {
        while sent.is_multiple_of(32) && sent > self.len() + 200 {
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    pub fn len(&self) -> usize {
        self.recorded.lock().len()
    }
}

pub fn options() -> Options {
    Options {
        shares: 1,
        receive_buffer: 4 << 20,
        message_bytes_max: 8192,
        connections_max: 64,
        truncates: false,
        credentials: false,
        addresses: false,
        idle_timeout: None,
        message_timeout: None,
        merge: true,
    }
}

pub fn listen(address: Address) -> Listen {
    Listen { address, mode: None, framing: Framing::Lines, tls: None }
}

pub fn udp() -> Listen {
    listen("udp://127.0.0.1:0".parse().unwrap())
}

pub fn unixgram(path: &Path) -> Listen {
    listen(Address::UnixDatagram(path.to_path_buf()))
}

/// Starts a receiver on one address, with one recorder for all its threads.
pub fn start(listen: &Listen, options: &Options) -> (Receiving, Recorder, Address) {
    start_with(listen, options, Recorder::default())
}

pub fn start_with(
    listen: &Listen,
    options: &Options,
    recorder: Recorder,
) -> (Receiving, Recorder, Address) {
    let receiver = Receiver::open(std::slice::from_ref(listen), options).unwrap();
    let address = receiver.sockets()[0].address.clone();
    let handlers = (0..options.shares)
        .map(|_| Box::new(recorder.clone()) as Box<dyn MessageHandler>)
        .collect();
    let receiving = receiver.start("test", handlers).unwrap();
    receiving.resume();
    (receiving, recorder, address)
}

pub fn at(address: &Address) -> SocketAddr {
    match address {
        Address::Udp(at) | Address::Tcp(at) => *at,
        other => panic!("{other} has no port"),
    }
}

/// Creates a UDP socket connected to the address.
pub fn sender(address: &Address) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(at(address)).unwrap();
    socket
}

/// Waits until the statistics meet the condition. On timeout, panics and shows the statistics.
pub fn wait_for(receiving: &Receiving, condition: impl Fn(&Stats) -> bool) -> Stats {
    let start = Instant::now();
    loop {
        let stats = receiving.stats();
        if condition(&stats) {
            return stats;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "timed out: {stats:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the bytes that the peer of a Unix stream has not read, or that the peer of a TCP stream
/// has not acknowledged.
pub fn unread(client: &impl AsRawFd) -> usize {
    let mut waiting: libc::c_int = 0;
    // SAFETY: the kernel writes an int to the address.
    let result = unsafe { libc::ioctl(client.as_raw_fd(), libc::TIOCOUTQ, &raw mut waiting) };
    assert_eq!(result, 0);
    waiting as usize
}
