//! `millstream generate metrics`: numbered points, to sockets or into a file.

mod load;
mod protocol;
mod target;
#[cfg(test)]
mod tests;

use super::{Progress, TICK, due};
use crate::exit::{DONE, FAILED, USAGE};
use load::{Content, Load, Shape};
use millstream_model::Size;
use millstream_receiver::Address;
use protocol::{Protocol, Type};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use target::{Batch, Target};

/// The end of the help.
pub const HELP: &str = "Example:\n  \
    millstream generate metrics --to udp://127.0.0.1:8125 --rate 10000 --series 500\n  \
    millstream generate metrics --protocol metricserver --to unixgram:///run/metric.sock --count 1000000\n\n\
    Every packet ends with two numbering points: the counter `millstream.generated` counts the points,\n\
    and the gauge `millstream.generated.last` is the number of the last point. The last line is:\n\
    sent N points in N packets, sum of counters N, N series; N points with the numbering ones\n\
    The last N is the number of points that the agent counts. The sum includes only the type `counter`.\n\
    Types of dogstatsd: counter, gauge, timer, histogram, distribution, set; of metricserver: counter,\n\
    rate_counter, meter, delta_counter, store, ts_store, timer, histogram.\n\
    The command waits while a Unix socket is full. Over UDP, packets without a receiver are lost.";

/// Maximum number of packets per send call.
const BATCH_PACKETS: usize = 64;

/// Approximate maximum number of bytes per send call.
const BATCH_BYTES: usize = 256 * 1024;

/// Largest datagram over IPv4.
const PACKET_BYTES_MAX: u64 = 65_507;

/// Options for `generate metrics`.
#[derive(clap::Args)]
pub struct MetricsArgs {
    /// Destination: udp://HOST:PORT, unixgram:///PATH, unixpacket:///PATH, unix:///PATH or
    /// tcp://HOST:PORT
    #[arg(long, value_name = "ADDRESS", conflicts_with = "output")]
    to: Option<Address>,
    /// File to append to [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Wire format
    #[arg(long, value_enum, default_value_t = Protocol::Dogstatsd)]
    protocol: Protocol,
    /// Number of series
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    series: u32,
    /// Tags of each series
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=64))]
    tags: u8,
    /// Types with their shares of the series [default: counter:70,gauge:20,timer:10; of
    /// metricserver counter:70,store:20,timer:10]
    #[arg(long, value_name = "TYPE:SHARE,...")]
    types: Option<String>,
    /// Points per second [default: unlimited]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
    /// Number of points [default: endless]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Maximum packet size, with a unit; a longer point is sent alone
    #[arg(long, default_value = "1432B")]
    packet_size: Size,
    /// Maximum number of points per packet [default: as many as fit]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    points_per_packet: Option<u32>,
    /// Omit the numbering points
    #[arg(long)]
    unnumbered: bool,
    /// Random seed; the same seed generates the same points
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Sends points; returns the exit status.
pub fn metrics(args: &MetricsArgs) -> u8 {
    let shape = match shape(args) {
        Ok(shape) => shape,
        Err(message) => {
            eprintln!("{message}");
            return USAGE;
        }
    };
    let mut sent = Sent::default();
    let result = crate::interrupts::count()
        .and_then(|interrupts| open(args, interrupts))
        .and_then(|mut target| send_all(args, Load::new(shape), &mut target, &mut sent));
    if sent.packets > 0 {
        let report = sent.text(args.series);
        // Points on standard output are not mixed with other lines.
        if args.to.is_some() || args.output.is_some() {
            println!("{report}")
        } else {
            eprintln!("{report}")
        }
    }
    match result {
        Ok(()) => DONE,
        // The reader has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe && args.to.is_none() => DONE,
        Err(error) => {
            let advice =
                if args.to.is_some() { socket_advice(&error) } else { file_advice(&error) };
            eprintln!("{}: {error}{advice}", target_name(args));
            FAILED
        }
    }
}

/// Returns the requested load. The error says what is wrong with the options and what to use
/// instead.
fn shape(args: &MetricsArgs) -> Result<Shape, String> {
    if !(64..=PACKET_BYTES_MAX).contains(&args.packet_size.0) {
        return Err(format!(
            "--packet-size {} is out of range; use 64B to 65507B",
            args.packet_size
        ));
    }
    if args.protocol == Protocol::Metricserver && matches!(args.to, Some(Address::Tcp(_))) {
        return Err(
            "--to: metricserver has no TCP; use udp://, unixgram://, unixpacket:// or unix://"
                .into(),
        );
    }
    let types = args.types.as_deref().unwrap_or(match args.protocol {
        Protocol::Dogstatsd => "counter:70,gauge:20,timer:10",
        Protocol::Metricserver => "counter:70,store:20,timer:10",
    });
    Ok(Shape {
        protocol: args.protocol,
        series: args.series as usize,
        tags: args.tags.into(),
        mix: mix(args.protocol, types).map_err(|message| format!("--types {types}: {message}"))?,
        packet_bytes_max: args.packet_size.0 as usize,
        packet_points_max: args.points_per_packet.map_or(usize::MAX, |points| points as usize),
        numbered: !args.unnumbered,
        seed: args.seed,
    })
}

/// Parses types with their shares, at least one of which must be positive.
fn mix(protocol: Protocol, text: &str) -> Result<Vec<(Type, u64)>, String> {
    let one = |part: &str| {
        let (name, share) = part.split_once(':').unwrap_or((part, "1"));
        let kind = protocol.types().iter().find(|known| known.name == name).ok_or_else(|| {
            let known: Vec<&str> = protocol.types().iter().map(|known| known.name).collect();
            format!("{name:?} is not a type; choose from {}", known.join(", "))
        })?;
        let share = share.parse::<u32>().map_err(|_| {
            format!("{share:?} is not a share; use a whole number, for example {name}:70")
        })?;
        Ok((*kind, u64::from(share)))
    };
    let mix = text.split(',').map(|part| one(part.trim())).collect::<Result<Vec<_>, String>>()?;
    match mix.iter().any(|(_, share)| *share > 0) {
        true => Ok(mix),
        false => Err("all shares are 0; at least one must be positive".into()),
    }
}

fn open(args: &MetricsArgs, interrupts: Arc<AtomicUsize>) -> io::Result<Target> {
    match &args.to {
        Some(address) => Target::connect(address, interrupts),
        None => {
            let has_lengths = args.protocol == Protocol::Metricserver;
            Target::write_to(args.output.as_deref(), has_lengths, interrupts)
        }
    }
}

/// Totals of the packets sent.
#[derive(Debug, Default)]
struct Sent {
    points: u64,
    /// Points that number packets.
    numbers: u64,
    packets: u64,
    counters: u64,
    refused: u64,
}

impl Sent {
    fn text(&self, series: u32) -> String {
        let (points, packets, counters) = (self.points, self.packets, self.counters);
        let series = points.min(series.into());
        let all = match self.numbers {
            0 => String::new(),
            numbers => format!("; {} points with the numbering ones", points + numbers),
        };
        let refused = match self.refused {
            0 => String::new(),
            times => format!("; at least {times} times, no receiver listened"),
        };
        format!(
            "sent {points} points in {packets} packets, sum of counters {counters}, {series} series{all}{refused}"
        )
    }
}

fn send_all(
    args: &MetricsArgs,
    mut load: Load,
    target: &mut Target,
    sent: &mut Sent,
) -> io::Result<()> {
    let is_seen = args.to.is_none() && args.output.is_none() && io::stdout().is_terminal();
    let (begun, mut progress) = (Instant::now(), Progress::new("points", args.count, is_seen));
    let count = args.count.unwrap_or(u64::MAX);
    let (mut batch, mut contents) = (Batch::default(), Vec::new());
    while load.made() < count && !target.is_interrupted() {
        let due = args.rate.map_or(u64::MAX, |rate| due(rate, begun.elapsed())).min(count);
        fill(&mut load, due, count, &mut batch, &mut contents);
        let mut gone = 0;
        let result = target.send(&batch, &mut gone);
        sent.add(&contents[..gone], target.refused);
        result?;
        progress.show(sent.points, begun.elapsed());
        if load.made() >= due && due < count {
            target.flush()?;
            std::thread::sleep(TICK);
        }
    }
    target.flush()
}

impl Sent {
    fn add(&mut self, contents: &[Content], refused: u64) {
        self.points += contents.iter().map(|content| content.points).sum::<u64>();
        self.numbers += contents.iter().map(|content| content.numbers).sum::<u64>();
        self.counters += contents.iter().map(|content| content.counters).sum::<u64>();
        self.packets += contents.len() as u64;
        self.refused = refused;
    }
}

/// Generates packets until as many points as are due are generated, or the batch is full. The last
/// packet may contain more points than are due, so that the content of packets does not depend on
/// timing.
fn fill(load: &mut Load, due: u64, count: u64, batch: &mut Batch, contents: &mut Vec<Content>) {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    batch.bytes.clear();
    batch.ends.clear();
    contents.clear();
    while load.made() < due && batch.ends.len() < BATCH_PACKETS && batch.bytes.len() < BATCH_BYTES {
        contents.push(load.packet(count - load.made(), seconds, &mut batch.bytes));
        batch.ends.push(batch.bytes.len());
    }
}

fn target_name(args: &MetricsArgs) -> String {
    match (&args.to, &args.output) {
        (Some(address), _) => address.to_string(),
        (None, Some(path)) => path.display().to_string(),
        (None, None) => "standard output".into(),
    }
}

/// Returns advice for a file error, if known.
fn file_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "; the command creates missing files, but not folders; create the folder first"
        }
        io::ErrorKind::PermissionDenied => "; this user may not write there",
        _ => "",
    }
}

/// Returns advice for a socket error, if known.
fn socket_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "; there is no such file; check that the agent is running with this path in `listen`"
        }
        io::ErrorKind::ConnectionRefused => {
            "; no receiver listens there; check that the agent is running"
        }
        io::ErrorKind::PermissionDenied => {
            "; this user may not write there; check the `mode` of the source"
        }
        _ if error.raw_os_error() == Some(rustix::io::Errno::PROTOTYPE.raw_os_error()) => {
            "; the socket is of another kind; use unixgram://, unixpacket:// or unix:// as in \
             `listen`"
        }
        _ => "",
    }
}
