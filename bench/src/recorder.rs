//! Measures the cost of an event of the flight recorder: alone, around the write of one byte to a
//! socket in each case of the recorder, by the size of the write, and in the agent.

mod agent;

use crate::Options;
use crate::allocations;
use crate::measure::{Samples, pinned, progress};
use crate::plot::{Axes, Series};
use crate::report::{Report, Table};
use crate::scratch::Scratch;
use millstream_recorder::record::{self, Subject};
use millstream_recorder::recorder::{self, AllSettings, Destination};
use millstream_recorder::schema::{EventKind, Settings};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::time::{ClockId, clock_gettime};
use std::fs::{self, File};
use std::hint::black_box;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Number of events or writes in one measurement.
const EVENTS: u32 = 1_000_000;
const WRITES: u32 = 4_000;

/// Number of measurements per case. Events alone have as many measurements as in the article;
/// writes vary more.
const ROUNDS: usize = 50;
const WRITE_ROUNDS: usize = 400;

/// Sizes of the writes in bytes.
const SIZES: [usize; 7] = [1, 16, 256, 1024, 4096, 16_384, 65_536];

/// Approximate number of bytes that one measurement of a size writes.
const SIZE_BYTES: usize = 8 << 20;

/// Interval at which the reader empties its socket, so that a write does not wake the reader.
const READ_PAUSE: Duration = Duration::from_micros(200);

/// Name of the peer, as in a configuration.
const HOST: &str = "search.example";

/// Maximum nanoseconds of an event: off, below its threshold, on.
const OFF_NS_MAX: f64 = 1.0;
const BELOW_NS_MAX: f64 = 22.0;
const ON_NS_MAX: f64 = 25.0;
/// Maximum share of an event in a write of one byte.
const ON_SHARE_MAX: f64 = 0.02;

/// A setting of the recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// The loop contains no code for events.
    Without,
    /// The recorder is off.
    RecorderOff,
    /// The type is off.
    EventOff,
    /// The type has a threshold that no event reaches.
    Below,
    /// Events are recorded.
    On,
    /// The name and the address of the host are determined for each event.
    OnUncached,
}

use Case::{Below, EventOff, On, OnUncached, RecorderOff, Without};

impl Case {
    fn name(self) -> &'static str {
        match self {
            Without => "without code for events",
            RecorderOff => "recorder off",
            EventOff => "on, event off",
            Below => "on, event on, below its threshold",
            On => "on, event on",
            OnUncached => "+ host and address determined each time",
        }
    }

    /// The article's result for this case, in microseconds and bytes.
    fn article(self) -> (&'static str, &'static str) {
        match self {
            Without => ("", ""),
            RecorderOff => ("2.23", "0"),
            EventOff => ("2.22", "0.02"),
            Below => ("not measured", ""),
            On => ("2.63 (+ 0.41)", "0.12"),
            OnUncached => ("3.06 (+ 0.84)", "333"),
        }
    }

    /// Applies this setting to the recorder of the process.
    fn set(self) {
        let mut all: AllSettings = recorder::defaults();
        let write = &mut all[EventKind::SocketWrite as usize];
        match self {
            EventOff => write.enabled = false,
            Below => *write = Settings { threshold: Duration::from_secs(3600), ..*write },
            _ => {}
        }
        recorder::set(&all);
    }
}

/// A connection over the loopback device, whose other end is read at intervals.
struct Connection {
    stream: TcpStream,
    subject: Subject,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Connection {
    fn open(reader_core: usize) -> io::Result<Connection> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let stream = TcpStream::connect(listener.local_addr()?)?;
        stream.set_nodelay(true)?;
        let (other, _) = listener.accept()?;
        other.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let reader = pinned(&[reader_core], || {
            thread::Builder::new().spawn(move || read_until(&other, &stopped))
        })?;
        let subject = Subject::peer(HOST, stream.peer_addr()?);
        Ok(Connection { stream, subject, stop, reader: Some(reader) })
    }

    fn write(&self, bytes: &[u8]) -> usize {
        send(&self.stream, bytes, SendFlags::empty()).unwrap_or(0)
    }

    /// Determines the peer as a program does that caches nothing.
    fn peer(&self) -> Subject {
        let address = self.stream.peer_addr().unwrap_or(SocketAddr::from(([0; 4], 0)));
        Subject::peer(HOST, address)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The only effect of a panic in the reader is that the socket is no longer read.
        _ = self.reader.take().map(JoinHandle::join);
    }
}

fn read_until(stream: &TcpStream, stop: &AtomicBool) {
    let mut buffer = vec![0; 1 << 20];
    while !stop.load(Ordering::Relaxed) {
        while recv(stream, &mut buffer, RecvFlags::empty()).is_ok_and(|(read, _)| read > 0) {}
        thread::sleep(READ_PAUSE);
    }
}

/// Recorded work: nothing, or a write of some bytes.
trait Work {
    fn run(&self, connection: &Connection) -> usize;
}

struct Nothing;

impl Work for Nothing {
    #[inline(always)]
    fn run(&self, _: &Connection) -> usize {
        black_box(1)
    }
}

struct Write<'w>(&'w [u8]);

impl Work for Write<'_> {
    #[inline(always)]
    fn run(&self, connection: &Connection) -> usize {
        connection.write(self.0)
    }
}

#[inline(never)]
fn repeat_without(connection: &Connection, work: &impl Work, times: u32) {
    for _ in 0..times {
        black_box(work.run(connection));
    }
}

#[inline(never)]
fn repeat_with(connection: &Connection, work: &impl Work, times: u32) {
    for _ in 0..times {
        let timer = recorder::start(EventKind::SocketWrite);
        let bytes = work.run(connection);
        record::socket_write(timer, &connection.subject, black_box(bytes));
    }
}

#[inline(never)]
fn repeat_uncached(connection: &Connection, work: &impl Work, times: u32) {
    for _ in 0..times {
        let timer = recorder::start(EventKind::SocketWrite);
        let bytes = work.run(connection);
        record::socket_write(timer, &connection.peer(), black_box(bytes));
    }
}

/// Returns the nanoseconds of one repetition.
fn measure(case: Case, connection: &Connection, work: &impl Work, times: u32) -> f64 {
    case.set();
    let run = |times| match case {
        Without => repeat_without(connection, work, times),
        OnUncached => repeat_uncached(connection, work, times),
        _ => repeat_with(connection, work, times),
    };
    run(times / 50);
    let begun = Instant::now();
    run(times);
    begun.elapsed().as_nanos() as f64 / f64::from(times)
}

/// Times of a case in nanoseconds, and the difference from the first case of the same round.
#[derive(Default)]
struct Measured {
    times: Samples,
    added: Samples,
}

/// Measures the cases alternately, in a number of rounds with a number of events each. The other
/// cases are compared with the first case.
fn rounds(
    cases: &[Case],
    connection: &Connection,
    work: &impl Work,
    (rounds, times): (usize, u32),
) -> Vec<Measured> {
    let mut all: Vec<Measured> = cases.iter().map(|_| Measured::default()).collect();
    for round in 0..rounds {
        progress(&format!("recorder: {} cases, round {} of {rounds}", cases.len(), round + 1));
        let mut round_times = vec![0.0; cases.len()];
        // The starting case rotates by round, because more unread data is left for the first
        // measurement of a round.
        for index in (0..cases.len()).map(|index| (index + round) % cases.len()) {
            round_times[index] = measure(cases[index], connection, work, times);
        }
        for (measured, time) in all.iter_mut().zip(&round_times) {
            measured.times.push(*time);
            measured.added.push(time - round_times[0]);
        }
    }
    all
}

/// Returns the bytes that an event of a case allocates.
fn allocated(case: Case, connection: &Connection) -> f64 {
    const TIMES: u32 = 10_000;
    measure(case, connection, &Nothing, TIMES);
    let bytes = allocations::bytes_of(|| {
        measure(case, connection, &Nothing, TIMES);
    });
    bytes as f64 / f64::from(TIMES)
}

/// Figures of a case.
struct Row {
    case: Case,
    alone: f64,
    write: f64,
    added: f64,
    allocated: f64,
}

/// Measures cases: events alone, compared with a loop without events, and writes, compared with the
/// writes of the first case.
fn measure_rows(cases: &[Case], connection: &Connection) -> Vec<Row> {
    let with_none = [&[Without], cases].concat();
    let alone = rounds(&with_none, connection, &Nothing, (ROUNDS, EVENTS)).into_iter().skip(1);
    let write = rounds(cases, connection, &Write(b"x"), (WRITE_ROUNDS, WRITES));
    let row = |((case, alone), write): ((&Case, Measured), Measured)| Row {
        case: *case,
        alone: alone.added.median(),
        write: write.times.median(),
        added: write.added.median(),
        allocated: allocated(*case, connection),
    };
    cases.iter().zip(alone).zip(write).map(row).collect()
}

/// Measures events, and then the agent with and without the recorder.
pub fn run(options: &Options, scratch: &Scratch, report: &mut Report) -> io::Result<()> {
    let connection = Connection::open(options.load_core)?;
    let mut rows = measure_rows(&[RecorderOff], &connection);
    // The file is in memory, like the agent's file.
    let path = scratch.path("run.rings");
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    let begun = Instant::now();
    let started = recorder::start_run(&Destination::File(&file), 16 << 20, &recorder::defaults());
    let start = begun.elapsed();
    fs::remove_file(&path)?;
    started?;
    recorder::keep_time()?;
    rows.extend(measure_rows(&[EventOff, Below, On], &connection));
    // This case runs separately, because the many subjects that it creates fill the table of names.
    rows.extend(measure_rows(&[EventOff, OnUncached], &connection).into_iter().skip(1));
    report.add(cases_table(&rows, start))?;
    sizes(&connection, report)?;
    drop(connection);
    agent::run(options, scratch, report)
}

fn cases_table(rows: &[Row], start: Duration) -> Table {
    let columns = [
        "case",
        "event alone ns",
        "write of 1 byte µs",
        "added by the event ns",
        "share of the write",
        "allocated bytes",
        "the article: µs",
        "the article: bytes",
    ];
    let title = "What an event costs: alone, and around the write of one byte to a socket";
    let mut table = Table::new("recorder_cases", title, &columns);
    for row in rows {
        let (us, bytes) = row.case.article();
        table.row(vec![
            row.case.name().to_owned(),
            format!("{:.2}", row.alone),
            format!("{:.3}", row.write / 1000.0),
            format!("{:.1}", row.added),
            format!("{:.2}%", row.added / row.write * 100.0),
            format!("{:.2}", row.allocated),
            us.to_owned(),
            bytes.to_owned(),
        ]);
    }
    table.note(format!(
        "Medians of {ROUNDS} rounds, with writes {WRITE_ROUNDS}. An event alone is the difference to a loop \
         without code for events in the same round; what it adds to a write, that to the case with the \
         event off. Two readings of the clock, the time stamp counter, \
         take {:.1} ns, which is nearly all of an event below its threshold; where there is no such \
         counter, two calls of clock_gettime take {:.1} ns. The start of the recorder takes {:.2} ms.",
        twice(recorder::now_ticks),
        twice(|| clock_gettime(ClockId::Monotonic)),
        start.as_secs_f64() * 1e3,
    ));
    table.note(verdicts(rows));
    table
}

/// Returns the nanoseconds that two readings of a clock take.
fn twice<T>(read: impl Fn() -> T) -> f64 {
    let begun = Instant::now();
    for _ in 0..EVENTS {
        black_box(read());
        black_box(read());
    }
    begun.elapsed().as_nanos() as f64 / f64::from(EVENTS)
}

fn verdicts(rows: &[Row]) -> String {
    let of = |case: Case| rows.iter().find(|row| row.case == case);
    let alone = |case: Case| of(case).map_or(f64::NAN, |row| row.alone);
    let share = of(On).map_or(f64::NAN, |row| row.added / row.write);
    let cached = rows.iter().filter(|row| row.case != OnUncached);
    let holds = |is_met: bool| if is_met { "holds" } else { "MISSED" };
    format!(
        "Targets: recorder off and event off at most {OFF_NS_MAX} ns: {}, {}; below the threshold at most \
         {BELOW_NS_MAX} ns: {}; on at most {ON_NS_MAX} ns: {}; on at most {:.0}% of the write: {}; nothing \
         allocated: {}.",
        holds(alone(RecorderOff) <= OFF_NS_MAX),
        holds(alone(EventOff) <= OFF_NS_MAX),
        holds(alone(Below) <= BELOW_NS_MAX),
        holds(alone(On) <= ON_NS_MAX),
        ON_SHARE_MAX * 100.0,
        holds(share <= ON_SHARE_MAX),
        holds(cached.map(|row| row.allocated).sum::<f64>() == 0.0),
    )
}

/// Measures writes of several sizes, with the event off and on.
fn sizes(connection: &Connection, report: &mut Report) -> io::Result<()> {
    let columns = ["bytes", "event off µs", "event on µs", "added ns", "share"];
    let title = "An event around writes of several sizes";
    let mut table = Table::new("recorder_sizes", title, &columns);
    let mut shares = Vec::new();
    for size in SIZES {
        let bytes = vec![b'x'; size];
        let times = (SIZE_BYTES / size).clamp(100, WRITES as usize) as u32;
        let counts = (WRITE_ROUNDS, times);
        let measured = rounds(&[EventOff, On], connection, &Write(&bytes), counts);
        let [off, on] = [0, 1].map(|index| measured[index].times.median());
        let added = measured[1].added.median();
        table.row(vec![
            size.to_string(),
            format!("{:.3}", off / 1000.0),
            format!("{:.3}", on / 1000.0),
            format!("{added:.1}"),
            format!("{:.2}%", added / off * 100.0),
        ]);
        shares.push(((size as f64).log2(), added / off * 100.0));
    }
    table.note(format!("Medians of {WRITE_ROUNDS} rounds."));
    report.add(table)?;
    let axes = Axes {
        title: "An event around a write to a socket",
        x: "bytes of the write",
        y: "% of its time",
        x_label: &|x| format!("{:.0}", x.exp2()),
    };
    let series = Series { label: "event on".to_owned(), points: shares };
    report.plot("recorder_sizes", &axes, &[series])
}
