//! Loads of the agent: points of many series, lines of many groups, orders to an operator.

use crate::scratch::Scratch;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two steps of a load.
const TICK: Duration = Duration::from_millis(50);
const TICKS_PER_S: u64 = 20;

/// Numbers of series and groups in the load without a JVM.
const SERIES: u64 = 1_000_000;
const GROUPS: u64 = 1_500_000;
/// Number of files for the stuck sink, and of lines per file.
const FILES: usize = 10_000;
const FILE_LINES: usize = 100;
/// Points, lines of groups, and lines of the other pipeline, per second.
const POINTS: u64 = 100_000;
const GROUP_LINES: u64 = 50_000;
const OTHER_LINES: u64 = 20_000;
/// Points per message.
const POINTS_PER_MESSAGE: u64 = 100;
/// KiB that the operator keeps for each event, number of such events per second, and number of
/// events kept.
const KEPT_KIB: u64 = 1024;
const KEEP_EVENTS: u64 = 40;
const KEPT_EVENTS: u64 = 280;

/// The files and the socket of a load.
pub struct Places {
    /// Folder of the files for the stuck sink.
    pub files: PathBuf,
    /// File with the lines of the groups.
    pub groups: PathBuf,
    /// File with the lines of the other pipeline.
    pub other: PathBuf,
    /// File with the orders to the operator.
    pub orders: PathBuf,
    /// Socket for the points.
    pub socket: PathBuf,
}

impl Places {
    /// Creates empty files, and the files of the stuck sink if `has_stuck_sink` is set.
    pub fn new(scratch: &Scratch, has_stuck_sink: bool) -> io::Result<Places> {
        let folder = scratch.empty_folder("load")?;
        let files = folder.join("files");
        fs::create_dir(&files)?;
        let count = if has_stuck_sink { FILES } else { 0 };
        for index in 0..count {
            let line = format!("file {index:05} {}\n", "x".repeat(120));
            fs::write(files.join(format!("{index}.log")), line.repeat(FILE_LINES))?;
        }
        let empty = |name: &str| {
            let path = folder.join(name);
            fs::write(&path, "").map(|()| path)
        };
        let (groups, other) = (empty("groups.log")?, empty("other.log")?);
        Ok(Places {
            files,
            groups,
            other,
            orders: empty("orders.log")?,
            socket: folder.join("points.sock"),
        })
    }
}

/// Accepts connections at a loopback port for the lifetime of the process, and never reads from
/// them. Returns the address.
pub fn stuck_server() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || -> io::Result<()> {
        let mut connections = Vec::new();
        loop {
            connections.push(listener.accept()?);
        }
    });
    Ok(address)
}

/// Sends until `stop` and returns the number of lines of the other pipeline. With `turn`, the
/// operator and the rest of the agent get their loads alternately, each for this long. The other
/// pipeline always gets its lines.
pub fn send(places: &Places, turn: Option<Duration>, stop: &AtomicBool) -> io::Result<u64> {
    let open = |path: &Path| File::options().append(true).open(path);
    let mut other = open(&places.other)?;
    let mut native = Native {
        points: connect(&places.socket, stop)?,
        groups: open(&places.groups)?,
        series: 0,
        series_max: if turn.is_some() { u64::MAX } else { SERIES },
        group: 0,
        groups_max: if turn.is_some() { u64::MAX } else { GROUPS },
    };
    let mut java = Java { orders: open(&places.orders)?, kept: 0 };
    let (begin, mut ticks) = (Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        let is_java = turn
            .is_some_and(|turn| (begin.elapsed().div_duration_f64(turn) as u64).is_multiple_of(2));
        if is_java {
            java.tick()?
        } else {
            native.tick()?
        }
        if turn.is_some() && !is_java {
            java.release()?;
        }
        write_lines(&mut other, OTHER_LINES / TICKS_PER_S, |line| format!("line {line}"))?;
        ticks += 1;
        let next = begin + TICK * ticks;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(u64::from(ticks) * (OTHER_LINES / TICKS_PER_S))
}

/// Connects to the socket, as soon as the agent listens.
fn connect(socket: &Path, stop: &AtomicBool) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(socket) {
            Err(_) if !stop.load(Ordering::Relaxed) => thread::sleep(TICK),
            connected => return connected,
        }
    }
}

fn write_lines(file: &mut File, count: u64, line: impl Fn(u64) -> String) -> io::Result<()> {
    let text: String = (0..count).map(|index| line(index) + "\n").collect();
    file.write_all(text.as_bytes())
}

/// Load of points and groups.
struct Native {
    points: UnixStream,
    groups: File,
    /// Number of the next series.
    series: u64,
    /// Number at which the series start over.
    series_max: u64,
    /// Number of the next group.
    group: u64,
    /// Maximum number of groups.
    groups_max: u64,
}

impl Native {
    fn tick(&mut self) -> io::Result<()> {
        for _ in 0..POINTS / TICKS_PER_S / POINTS_PER_MESSAGE {
            let first = self.series;
            let line = |at: u64| {
                let (customer, host) = (first + at, at % 50);
                format!("requests.by.customer:1|c|#customer:{customer},host:web-{host}\n")
            };
            let message: String = (0..POINTS_PER_MESSAGE).map(line).collect();
            self.points.write_all(&(message.len() as u32).to_le_bytes())?;
            self.points.write_all(message.as_bytes())?;
            self.series = (self.series + POINTS_PER_MESSAGE) % self.series_max;
        }
        let count = (GROUP_LINES / TICKS_PER_S).min(self.groups_max - self.group);
        let first = self.group;
        write_lines(&mut self.groups, count, |at| format!("{{\"id\":\"group-{}\"}}", first + at))?;
        self.group += count;
        Ok(())
    }
}

/// Load of orders to the operator.
struct Java {
    orders: File,
    /// Number of events whose memory the operator keeps.
    kept: u64,
}

impl Java {
    fn tick(&mut self) -> io::Result<()> {
        let count = KEEP_EVENTS / TICKS_PER_S;
        let order = if self.kept < KEPT_EVENTS { "keep" } else { "swap" };
        self.kept = (self.kept + count).min(KEPT_EVENTS);
        write_lines(&mut self.orders, count, |_| format!("{order} {KEPT_KIB}"))
    }

    /// Orders the operator to release its memory, if it keeps any.
    fn release(&mut self) -> io::Result<()> {
        let is_due = std::mem::take(&mut self.kept) > 0;
        if is_due { writeln!(self.orders, "release") } else { Ok(()) }
    }
}
