//! Sends the load from a separate process: prepared datagrams, many per call, at a given rate.

use super::load::{Content, Datagrams};
use super::pace::Pace;
use super::probe::Probe;
use crate::measure::{pinned, sorted_quantile, thread_cpu_seconds};
use std::fmt::Write;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::ptr;
use std::time::{Duration, Instant};

/// Maximum number of datagrams per call.
const BATCH: usize = 64;
/// Maximum bytes and datagrams that the kernel splits from one buffer.
const SEGMENTS_BYTES: usize = 65_000;
const SEGMENTS: usize = 64;
/// Remaining time in seconds below which the sender polls the clock instead of sleeping.
const SPIN_S: f64 = 0.000_1;

/// A load.
#[derive(Clone, Debug, clap::Args)]
pub struct Load {
    /// Destination: udp://ADDRESS:PORT or unixgram://PATH
    #[arg(long)]
    pub to: String,
    /// Datagrams per second; 0 sends as fast as possible
    #[arg(long, default_value_t = 0.0)]
    pub per_s: f64,
    /// Duration
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// Minimum number of datagrams per call
    #[arg(long, default_value_t = 1)]
    pub burst: usize,
    /// Let the kernel split datagrams from large buffers (UDP_SEGMENT)
    #[arg(long)]
    pub segment: bool,
    /// Unix datagram socket that gets a point every millisecond; the wait of these points is
    /// reported
    #[arg(long)]
    pub probe: Option<PathBuf>,
    /// Seconds before the first such point
    #[arg(long, default_value_t = 0.0)]
    pub probe_after: f64,
    #[command(flatten)]
    pub content: Content,
}

/// The result of sending.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sent {
    pub datagrams: u64,
    /// Number of lines.
    pub points: u64,
    /// Sum of all counters.
    pub counters: u64,
    pub bytes: u64,
    /// Seconds from the first datagram to the last.
    pub seconds: f64,
    /// CPU seconds of the sender.
    pub cpu_seconds: f64,
    /// Number of calls that the kernel refused temporarily.
    pub refused: u64,
    /// Median, 99th percentile and maximum of the seconds that probes waited.
    pub probes_s: [f64; 3],
    /// Number of probes.
    pub probes: u64,
}

impl Load {
    /// Starts a process on `core` that sends the load.
    pub fn start(&self, core: usize) -> io::Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["send", "--to", &self.to, "--per-s", &self.per_s.to_string()]);
        command.args(["--seconds", &self.seconds.to_string(), "--burst", &self.burst.to_string()]);
        command.args(["--series", &self.content.series.to_string()]);
        command.args(["--lines", &self.content.lines.to_string()]);
        command.args(["--fill-bytes", &self.content.fill_bytes.to_string()]);
        command.args(self.segment.then_some("--segment"));
        command.args(self.content.gauges.then_some("--gauges"));
        command.args(self.content.sorted.then_some("--sorted"));
        if let Some(path) = &self.probe {
            command.arg("--probe").arg(path).args(["--probe-after", &self.probe_after.to_string()]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        pinned(&[core], || command.spawn())
    }

    /// Sends the load from a process on `core` and waits for the end of the process.
    pub fn run(&self, core: usize) -> io::Result<Sent> {
        let output = self.start(core)?.wait_with_output()?;
        match output.status.success() {
            true => Sent::parse(&String::from_utf8_lossy(&output.stdout)),
            false => Err(io::Error::other("the load could not be sent")),
        }
    }

    /// Sends the load from this thread.
    pub fn send(&self) -> io::Result<Sent> {
        // The default slack of 50 us would make up half of a wait.
        // SAFETY: the call only sets a number of the calling thread.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
        let mut sender = Sender::new(self)?;
        let start = Instant::now();
        let cpu = thread_cpu_seconds();
        sender.all(self, start)?;
        sender.sent.cpu_seconds = thread_cpu_seconds() - cpu;
        Ok(sender.sent)
    }
}

impl Sent {
    /// Formats the result as one line.
    pub fn line(&self) -> String {
        let mut line = String::new();
        for (key, value) in self.pairs() {
            let _ = write!(line, "{key}={value} ");
        }
        line
    }

    fn pairs(&self) -> [(&'static str, f64); 11] {
        [
            ("datagrams", self.datagrams as f64),
            ("points", self.points as f64),
            ("counters", self.counters as f64),
            ("bytes", self.bytes as f64),
            ("seconds", self.seconds),
            ("cpu_seconds", self.cpu_seconds),
            ("refused", self.refused as f64),
            ("probe_p50_s", self.probes_s[0]),
            ("probe_p99_s", self.probes_s[1]),
            ("probe_max_s", self.probes_s[2]),
            ("probes", self.probes as f64),
        ]
    }

    fn parse(line: &str) -> io::Result<Self> {
        let value = |key: &str| {
            let mut pairs = line.split_whitespace().filter_map(|pair| pair.split_once('='));
            let value = pairs
                .find(|(name, _)| *name == key)
                .and_then(|(_, value)| value.parse::<f64>().ok());
            value.ok_or_else(|| io::Error::other(format!("the sender omits {key}: {line}")))
        };
        let count = |key: &str| value(key).map(|value| value as u64);
        Ok(Sent {
            datagrams: count("datagrams")?,
            points: count("points")?,
            counters: count("counters")?,
            bytes: count("bytes")?,
            seconds: value("seconds")?,
            cpu_seconds: value("cpu_seconds")?,
            refused: count("refused")?,
            probes_s: [value("probe_p50_s")?, value("probe_p99_s")?, value("probe_max_s")?],
            probes: count("probes")?,
        })
    }

    /// Returns the achieved datagrams per second.
    pub fn per_s(&self) -> f64 {
        self.datagrams as f64 / self.seconds
    }
}

/// A socket with its load and the result so far.
struct Sender {
    socket: OwnedFd,
    datagrams: Datagrams,
    /// Index of the next datagram.
    at: usize,
    /// Maximum number of datagrams per call.
    batch: usize,
    segment: bool,
    probe: Option<Probe>,
    sent: Sent,
}

impl Sender {
    fn new(load: &Load) -> io::Result<Self> {
        let datagrams = load.content.datagrams();
        let socket = connect(&load.to)?;
        let mut batch = BATCH;
        if load.segment {
            batch = (SEGMENTS_BYTES / datagrams.len).clamp(1, SEGMENTS);
            let len = i32::try_from(datagrams.len).map_err(io::Error::other)?;
            set_segment(&socket, len)?;
        }
        let probe =
            load.probe.as_ref().map(|path| Probe::new(path, load.probe_after)).transpose()?;
        Ok(Sender {
            socket,
            datagrams,
            at: 0,
            batch,
            segment: load.segment,
            probe,
            sent: Sent::default(),
        })
    }

    fn all(&mut self, load: &Load, start: Instant) -> io::Result<()> {
        let mut pace = Pace::new(load.per_s, load.burst);
        let mut now_s = 0.0;
        while now_s < load.seconds {
            let due = pace.due(now_s);
            if due > 0 {
                pace.sent(self.some(due)?);
            }
            self.wait(start, pace.next_s().min(load.seconds), due > 0)?;
            now_s = start.elapsed().as_secs_f64();
        }
        self.sent.seconds = now_s;
        let Some(probe) = &mut self.probe else { return Ok(()) };
        probe.delays_s.sort_by(f64::total_cmp);
        let delay = |quantile| sorted_quantile(&probe.delays_s, quantile).unwrap_or(f64::NAN);
        self.sent.probes_s = [0.5, 0.99, 1.0].map(delay);
        self.sent.probes = probe.delays_s.len() as u64;
        Ok(())
    }

    /// Runs the probe; sleeps until `next_s` if nothing is due.
    fn wait(&mut self, start: Instant, next_s: f64, is_busy: bool) -> io::Result<()> {
        let now = || start.elapsed().as_secs_f64();
        let mut until_s = next_s;
        if let Some(probe) = &mut self.probe {
            probe.step(now)?;
            until_s = if probe.is_waiting() { 0.0 } else { until_s.min(probe.next_s()) };
        }
        let left_s = until_s - now();
        if left_s > SPIN_S && !is_busy {
            std::thread::sleep(Duration::from_secs_f64(left_s - SPIN_S / 2.0));
        }
        Ok(())
    }

    /// Sends up to `due` datagrams with one call; returns how many were sent.
    fn some(&mut self, due: usize) -> io::Result<usize> {
        let count = due.min(self.batch).min(self.datagrams.number() - self.at);
        let gone = match if self.segment { self.cut(count) } else { self.many(count) } {
            Ok(gone) => gone,
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN)) => {
                self.sent.refused += 1;
                0
            }
            Err(error) => return Err(error),
        };
        self.sent.datagrams += gone as u64;
        self.sent.points += (gone * self.datagrams.lines) as u64;
        self.sent.bytes += (gone * self.datagrams.len) as u64;
        self.sent.counters +=
            (self.at..self.at + gone).map(|at| self.datagrams.counters(at)).sum::<u64>();
        self.at = (self.at + gone) % self.datagrams.number();
        Ok(gone)
    }

    fn many(&self, count: usize) -> io::Result<usize> {
        // SAFETY: zeros are a message header without address, data and control data.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        let mut parts = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; BATCH];
        for (index, (header, part)) in headers.iter_mut().zip(&mut parts).take(count).enumerate() {
            let bytes = self.datagrams.bytes(self.at + index, 1);
            *part =
                libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the first `count` headers point to one part each, which points to bytes that are
        // only read.
        let gone = unsafe {
            libc::sendmmsg(self.socket.as_raw_fd(), headers.as_mut_ptr(), count as libc::c_uint, 0)
        };
        usize::try_from(gone).map_err(|_| io::Error::last_os_error())
    }

    fn cut(&self, count: usize) -> io::Result<usize> {
        let bytes = self.datagrams.bytes(self.at, count);
        // SAFETY: the pointer and the length come from a slice.
        let gone =
            unsafe { libc::send(self.socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
        if gone < 0 { Err(io::Error::last_os_error()) } else { Ok(count) }
    }
}

fn connect(to: &str) -> io::Result<OwnedFd> {
    if let Some(address) = to.strip_prefix("udp://") {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(address)?;
        return Ok(socket.into());
    }
    let path = to.strip_prefix("unixgram://").ok_or_else(|| {
        io::Error::other(format!("--to {to}: write udp://ADDRESS:PORT or unixgram://PATH"))
    })?;
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    Ok(socket.into())
}

/// Makes the kernel split the buffers of later calls into datagrams of `len` bytes.
fn set_segment(socket: &OwnedFd, len: libc::c_int) -> io::Result<()> {
    // SAFETY: the kernel reads the option from the variable, whose size is given.
    let set = unsafe {
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const len).cast(),
            size,
        )
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent_to_a_socket(segment: bool) -> (Sent, u64, u64) {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let content = Content { series: 100, lines: 10, fill_bytes: 0, gauges: true, sorted: true };
        let load = Load {
            to: format!("udp://{}", receiver.local_addr().unwrap()),
            per_s: 1000.0,
            seconds: 0.1,
            burst: 5,
            segment,
            probe: None,
            probe_after: 0.0,
            content,
        };
        let sending = std::thread::spawn(move || load.send().unwrap());
        let (mut datagrams, mut counters, mut block) = (0, 0, [0; 9000]);
        loop {
            // On a busy host, the sender might pause for longer than the timeout.
            let has_sent = sending.is_finished();
            match receiver.recv(&mut block) {
                Ok(len) => {
                    datagrams += 1;
                    let parts = block[..len].windows(4);
                    counters += parts.filter(|part| *part == b"1|c|").count() as u64;
                }
                Err(_) if has_sent => break,
                Err(_) => {}
            }
        }
        (sending.join().unwrap(), datagrams, counters)
    }

    #[test]
    fn what_is_counted_is_what_arrives() {
        for segment in [false, true] {
            let (sent, datagrams, counters) = sent_to_a_socket(segment);
            assert_eq!((sent.datagrams, sent.counters), (datagrams, counters));
            assert_eq!(sent.points, datagrams * 10);
            assert!((50..=101).contains(&datagrams), "{datagrams}");
        }
    }

    #[test]
    fn what_was_sent_is_read_again() {
        let sent = Sent { datagrams: 1 << 40, probes_s: [0.1, 1e-6, 2.5], ..Sent::default() };
        assert_eq!(Sent::parse(&sent.line()).unwrap(), sent);
    }
}
