//! Tests a wall clock that is set forward by an hour and back while points arrive.

use super::{Events, PATIENCE, config, counted, number};
use crate::support::{Agent, folder, wait_until};
use serde_json::Value;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PERIOD: f64 = 2.0;
const HOUR: i64 = 3600;

/// How long points are sent before each step and after the last step: several periods, but not a
/// multiple of the period.
const BETWEEN: Duration = Duration::from_millis(4_700);

/// Returns the library that fakes a process's wall clock, if it is installed, with or without
/// Debian's folder per architecture.
fn faketime() -> Option<PathBuf> {
    let per_architecture =
        fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders = per_architecture.chain(["/usr/lib64".into(), "/usr/lib".into()]);
    folders.find_map(|folder| {
        let library = folder.join("faketime/libfaketimeMT.so.1");
        library.is_file().then_some(library)
    })
}

/// Sets the agent's wall clock to the host's clock plus `seconds`.
fn step(dir: &Path, seconds: i64) {
    fs::write(dir.join("draft-clock"), format!("{seconds:+}")).unwrap();
    fs::rename(dir.join("draft-clock"), dir.join("clock")).unwrap();
}

fn with_clock(command: &mut Command, library: &Path, dir: &Path) {
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", dir.join("clock"))
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .env("NO_FAKE_STAT", "1");
}

/// Sends a count, the number of counts so far as a gauge, and a timing for a while; returns the
/// number so far.
fn send_for(path: &Path, time: Duration, before: usize) -> usize {
    let socket = UnixDatagram::unbound().unwrap();
    socket.connect(path).unwrap();
    let (begun, mut sent) = (Instant::now(), before);
    while begun.elapsed() < time {
        sent += 1;
        socket.send(format!("steps:1|c\nlevel:{sent}|g\ntook:5|ms").as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    sent
}

/// Waits until a period has begun, but has not reached its middle.
fn wait_for_mid_period() {
    let since_1970 = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    wait_until("a period has begun", PATIENCE, || {
        (0.1..0.5).contains(&(since_1970() % PERIOD / PERIOD))
    });
}

/// Sends one gauge to a receiver.
fn send_level(path: &Path, level: u32) {
    let socket = UnixDatagram::unbound().unwrap();
    socket.send_to(format!("crossed:{level}|g").as_bytes(), path).unwrap();
}

/// A period: the time of its end in milliseconds since midnight, and its length in seconds.
#[derive(Clone, Copy, Debug)]
struct Period {
    end_ms: i64,
    seconds: f64,
}

impl Period {
    fn of(event: &Value) -> Period {
        let text = event["timestamp"].as_str().unwrap();
        let number = |range: std::ops::Range<usize>| text[range].parse::<i64>().unwrap();
        let [hours, minutes, seconds, ms] =
            [number(11..13), number(14..16), number(17..19), number(20..23)];
        let end_ms = ((hours * 60 + minutes) * 60 + seconds) * 1000 + ms;
        Period { end_ms, seconds: event["interval"].as_f64().unwrap() }
    }

    fn is_aligned(&self) -> bool {
        self.end_ms % (PERIOD as i64 * 1000) == 0
    }

    /// Returns the seconds from `other` to this period, negative if this period is earlier; handles
    /// midnight.
    fn after(&self, other: &Period) -> f64 {
        let day = 24 * HOUR * 1000;
        ((self.end_ms - other.end_ms + day / 2).rem_euclid(day) - day / 2) as f64 / 1000.0
    }
}

/// Checks the periods: their order (before the step forward, an hour later, back on the original
/// time), their boundaries, their number and their total length.
fn check(periods: &[Period], lasted: f64) {
    let is_later = |period: &Period| period.after(&periods[0]) > HOUR as f64 / 2.0;
    let phases: Vec<&[Period]> = periods.chunk_by(|a, b| is_later(a) == is_later(b)).collect();
    let [before, later, after] = phases[..] else { panic!("{periods:?} do not go forth and back") };
    assert!(before.iter().chain(later).all(Period::is_aligned), "{periods:?}");
    assert!(later[0].after(&before[before.len() - 1]) < HOUR as f64 + 3.0 * PERIOD, "{periods:?}");
    // Two periods do not end at a boundary: the period that was open when the clock was set back,
    // and the last period.
    let [_, aligned @ .., _] = after else { panic!("no periods after the steps: {periods:?}") };
    assert!(!aligned.is_empty() && aligned.iter().all(Period::is_aligned), "{periods:?}");
    assert!(periods.len() as f64 <= lasted / PERIOD + 4.0, "a flood of periods: {periods:?}");
    let seconds: f64 = periods.iter().map(|period| period.seconds).sum();
    assert!((seconds - lasted).abs() < 0.5, "{seconds} s in {lasted} s: {periods:?}");
}

#[test]
fn setting_the_clock_forward_and_back_loses_nothing() {
    let Some(library) = faketime() else {
        return eprintln!(
            "skipped: the clock of a process cannot be set here; install the package libfaketime"
        );
    };
    let dir = folder();
    step(dir.path(), 0);
    let options = format!(
        "type: dogstatsd, listen: ['unixgram://DIR/points.sock', 'unixgram://DIR/other.sock'], receivers: 2, \
         period: {PERIOD}s"
    );
    let mut agent = Agent::spawn(dir.path(), &config(&options), &[], |command| {
        with_clock(command, &library, dir.path())
    });
    wait_until("the agent listens", PATIENCE, || {
        agent.get("/ready").is_some_and(|body| body.contains("\"ready\":true"))
    });
    let (begun, path) = (Instant::now(), dir.path().join("points.sock"));
    let mut sent = send_for(&path, BETWEEN / 2, 0);
    for seconds in [HOUR, 0] {
        step(dir.path(), seconds);
        if seconds == 0 {
            send_level(&dir.path().join("other.sock"), 2);
        }
        sent = send_for(&path, BETWEEN, sent);
        if seconds == HOUR {
            wait_for_mid_period();
            send_level(&path, 1);
            // Wait for this point, because two receivers have separate threads, which may read
            // points in a different order from the order of sending.
            let taken = 3.0 * sent as f64 + 1.0;
            wait_until("the first level is taken", PATIENCE, || {
                counted(&agent, "received_events", "") == taken
            });
        }
    }
    let all = 3.0 * sent as f64 + 2.0;
    wait_until("all is taken", PATIENCE, || counted(&agent, "received_events", "") == all);
    let lasted = begun.elapsed().as_secs_f64();
    assert_eq!(counted(&agent, "errors", "flush_late"), 0.0, "a step makes no period late");
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    let events = Events::read(dir.path());
    assert_eq!(events.sum("steps", ""), sent as f64);
    assert_eq!(events.sum("took.count", ""), sent as f64);
    // Each period contains the points that arrived in it, and its last value is the value that
    // arrived last, regardless of the clock.
    let mut steps = 0.0;
    for (level, of_period) in events.of("level", "").into_iter().zip(events.of("steps", "")) {
        steps += number(of_period);
        assert_eq!(number(level), steps, "{level} {of_period}");
    }
    // The later value arrived at the other receiver, after the clock had been set back by an hour.
    assert_eq!(events.of("crossed", "").last().map(|level| number(level)), Some(2.0));
    let periods: Vec<Period> = events.of("level", "").into_iter().map(Period::of).collect();
    println!("{periods:?}");
    check(&periods, lasted);
    assert!(!agent.log().contains("ERROR"), "{}", agent.log());
}
