//! Checks that a reader receives exactly the events that the threads of a process record.

use millstream_recorder::event::{Event, Tables};
use millstream_recorder::ids::TextId;
use millstream_recorder::record::{self, Subject};
use millstream_recorder::recorder::{self, AllSettings, Destination};
use millstream_recorder::schema::{EventKind, PerSecond, Settings, Value};
use millstream_recorder::snapshot::{NoRecording, Reader, SlotCounts, Snapshot};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

/// Environment variable for a process that a test starts. Its value is the file to which to record.
const FILE: &str = "RECORDING_TEST_FILE";

const BYTES: u64 = 4 << 20;

/// Returns the settings for the recording. Only one test at a time may change them.
fn settings() -> MutexGuard<'static, AllSettings> {
    static SETTINGS: OnceLock<Mutex<AllSettings>> = OnceLock::new();
    let start = || {
        recorder::start_run(&Destination::Memory, BYTES, &recorder::defaults()).unwrap();
        Mutex::new(recorder::defaults())
    };
    let all = SETTINGS.get_or_init(start).lock().unwrap_or_else(PoisonError::into_inner);
    recorder::set(&all);
    all
}

fn changed(all: &AllSettings, kind: EventKind, change: Settings) -> AllSettings {
    let mut all = *all;
    all[kind as usize] = change;
    all
}

fn copied(known: &SlotCounts) -> Snapshot {
    Snapshot::parse(&recorder::copy(known).unwrap()).unwrap()
}

/// Returns the events in a snapshot that are about a subject.
fn about(snapshot: &Snapshot, name: &str) -> Vec<(Event, String)> {
    let mut found = Vec::new();
    Reader::default().read(snapshot, |event, names| {
        if text(names, event.values[0]) == Some(name) {
            found.push((*event, names.thread(event.thread).unwrap().name.to_owned()));
        }
    });
    found
}

fn text(names: &Reader, bits: u64) -> Option<&str> {
    names.text(TextId(u32::try_from(bits).ok()?))
}

fn write(subject: &Subject, bytes: usize) {
    record::file_write(recorder::start(EventKind::FileWrite), subject, bytes);
}

#[test]
fn an_event_has_its_fields_its_time_and_its_thread() {
    let _settings = settings();
    let before = std::time::SystemTime::now();
    let record = || {
        let timer = recorder::start(EventKind::JvmCall);
        thread::sleep(Duration::from_millis(5));
        record::jvm_call(timer, &Subject::component("enrich"), 1000, 5 << 33, "done");
    };
    thread::Builder::new().name("offload-7".to_owned()).spawn(record).unwrap().join().unwrap();
    recorder::keep_time().unwrap();
    let snapshot = copied(&SlotCounts::new());
    let mut found = Vec::new();
    Reader::default().read(&snapshot, |event, names| {
        if event.kind == EventKind::JvmCall {
            assert_eq!(text(names, event.values[0]), Some("enrich"));
            assert_eq!(text(names, event.values[3]), Some("done"));
            assert_eq!(names.thread(event.thread).unwrap().name, "offload-7");
            found.push(*event);
        }
    });
    let [event] = found[..] else { panic!("{found:?}") };
    assert_eq!(event.values[1..3], [1000, 5 << 33]);
    let clock = snapshot.clock();
    assert!((4_000_000..60_000_000_000).contains(&clock.ns(event.duration_ticks)), "{event:?}");
    let before_ns = before.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let start_ns = clock.unix_ns(event.start_ticks);
    assert!(start_ns.abs_diff(before_ns) < 60_000_000_000, "{start_ns} {before_ns}");
}

#[test]
fn subjects_of_each_type_have_their_values() {
    let _settings = settings();
    let address = "[2001:db8::1]:9200".parse().unwrap();
    let peer = Subject::peer("search.example", address);
    record::socket_write(recorder::start(EventKind::SocketWrite), &peer, 17);
    let local = Subject::local_peer("/run/app.sock");
    record::socket_read(recorder::start(EventKind::SocketRead), &local, 18);
    let group = Subject::component_with("topic", "indexers");
    record::rebalance(recorder::start(EventKind::Rebalance), &group, 3, 4);
    let mut found = Vec::new();
    Reader::default().read(&copied(&SlotCounts::new()), |event, names| {
        let fields = event.kind.spec().fields.iter().zip(event.values);
        let shown = fields.map(|(field, bits)| match Value::from_bits(field.kind, bits) {
            Value::Text(id) => names.text(id).unwrap_or("?").to_owned(),
            Value::Unsigned(number) | Value::Bytes(number) => number.to_string(),
            Value::Count(number) => number.to_string(),
            other => panic!("{other:?}"),
        });
        if matches!(
            event.kind,
            EventKind::SocketRead | EventKind::SocketWrite | EventKind::Rebalance
        ) {
            found.push(format!("{:?} {}", event.kind, shown.collect::<Vec<_>>().join(" ")));
        }
    });
    found.sort();
    assert_eq!(
        found,
        [
            "Rebalance topic indexers 3 4",
            "SocketRead  /run/app.sock 0 18",
            "SocketWrite search.example 2001:db8::1 9200 17"
        ]
    );
}

#[test]
fn an_event_that_is_off_or_too_short_is_not_recorded() {
    let settings = settings();
    let defaults = settings[EventKind::FileWrite as usize];
    let subject = Subject::file(Path::new("/off"));
    recorder::set(&changed(
        &settings,
        EventKind::FileWrite,
        Settings { enabled: false, ..defaults },
    ));
    write(&subject, 1);
    let threshold = Duration::from_secs(3600);
    recorder::set(&changed(&settings, EventKind::FileWrite, Settings { threshold, ..defaults }));
    assert_eq!(recorder::settings().unwrap()[EventKind::FileWrite as usize].threshold, threshold);
    write(&subject, 2);
    recorder::set(&settings);
    write(&subject, 3);
    let snapshot = copied(&SlotCounts::new());
    let values: Vec<u64> =
        about(&snapshot, "/off").iter().map(|(event, _)| event.values[1]).collect();
    assert_eq!(values, [3]);
    assert_eq!(snapshot.settings()[EventKind::FileWrite as usize].1, defaults);
}

#[test]
fn events_over_the_rate_are_counted() {
    let settings = settings();
    let rate = Some(PerSecond(10));
    let limited = Settings { rate, ..settings[EventKind::FileSync as usize] };
    recorder::set(&changed(&settings, EventKind::FileSync, limited));
    let before = recorder::omitted().over_rate[EventKind::FileSync as usize];
    let subject = Subject::file(Path::new("/rate"));
    for _ in 0..1000 {
        record::file_sync(recorder::start(EventKind::FileSync), &subject);
    }
    recorder::set(&settings);
    let snapshot = copied(&SlotCounts::new());
    let recorded = about(&snapshot, "/rate").len() as u64;
    let over_rate = snapshot.over_rate(EventKind::FileSync) - before;
    assert_eq!(recorded + over_rate, 1000);
    // A second can end while the events are recorded, which allows up to 10 more.
    assert!((10..1000).contains(&recorded), "{recorded}");
}

/// Each thread numbers its events, and a reader follows the recording.
#[test]
fn a_reader_gets_each_event_of_many_threads_once_or_counts_what_is_lost() {
    const THREADS: usize = 6;
    const EVENTS: u64 = 40_000;
    let _settings = settings();
    let mut reader = Reader::default();
    reader.skip(&copied(&SlotCounts::new()));
    let is_done = AtomicBool::new(false);
    let mut found: HashMap<String, BTreeSet<u64>> = HashMap::new();
    let mut follow = |reader: &mut Reader| {
        let snapshot = copied(reader.known());
        reader.read(&snapshot, |event, names| {
            // The name is missing if other threads held the table's lock for too long.
            let name = text(names, event.values[0]).unwrap_or_default();
            if let Some(thread) = name.strip_prefix("/stress/") {
                assert_eq!(names.thread(event.thread).unwrap().name, thread);
                let is_new = found.entry(thread.to_owned()).or_default().insert(event.values[1]);
                assert!(is_new, "{} twice", event.values[1]);
            }
        });
    };
    thread::scope(|scope| {
        let writing: Vec<_> = (0..THREADS)
            .map(|number| {
                let name = format!("stress-{number}");
                let subject = Subject::file(&PathBuf::from(format!("/stress/{name}")));
                let count = move || (1..=EVENTS).for_each(|event| write(&subject, event as usize));
                thread::Builder::new().name(name).spawn_scoped(scope, count).unwrap()
            })
            .collect();
        scope.spawn(|| {
            writing.into_iter().for_each(|thread| thread.join().unwrap());
            is_done.store(true, Ordering::Release);
        });
        while !is_done.load(Ordering::Acquire) {
            follow(&mut reader);
        }
    });
    // The second reader can tell which chunks the first reader missed.
    follow(&mut reader);
    follow(&mut reader);
    let read: u64 = found.values().map(|events| events.len() as u64).sum();
    let lost = THREADS as u64 * EVENTS - read;
    assert!(read > 0, "no event of {} chunks", reader.lost_chunks());
    let unnamed = recorder::omitted().names;
    assert!(lost <= unnamed || reader.lost_chunks() > 0, "{lost} events lost, none noticed");
}

#[test]
fn threads_that_end_give_their_chunks_back() {
    let _settings = settings();
    let before = recorder::omitted().without_space;
    // A chunk takes 32 KiB.
    for thread in 0..2 * BYTES / (32 << 10) {
        let subject = Subject::file(&PathBuf::from(format!("/short-lived/{thread}")));
        thread::spawn(move || write(&subject, 1)).join().unwrap();
    }
    assert_eq!(recorder::omitted().without_space, before);
}

/// Records events until the process is killed. Another test starts this process.
#[test]
fn process_that_is_killed() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path);
    let defaults = recorder::defaults();
    recorder::start_run(&Destination::File(&file.unwrap()), BYTES, &defaults).unwrap();
    recorder::keep_time().unwrap();
    thread::scope(|scope| {
        for number in 0..3 {
            scope.spawn(move || {
                let subject = Subject::file(&PathBuf::from(format!("/killed/{number}")));
                for event in 1.. {
                    write(&subject, event);
                    record::dropped(&subject, "too long", event);
                    if event == 2000 {
                        println!("recorded");
                    }
                }
            });
        }
    });
}

#[test]
fn the_file_of_a_process_that_was_killed_has_its_last_events() {
    use std::io::{BufRead, BufReader};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.rings");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "recording::process_that_is_killed", "--nocapture"]).env(FILE, &path);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.filter(|line| line.contains("recorded")).take(3).count(), 3);
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    let bytes = std::fs::read(&path).unwrap();
    let snapshot = Snapshot::parse(&bytes).unwrap();
    assert_eq!((snapshot.pid(), snapshot.has_ended()), (child.id(), false));
    let (mut drops, mut writes) = (0, 0);
    for number in 0..3 {
        let events = about(&snapshot, &format!("/killed/{number}"));
        let written = events.iter().filter(|(event, _)| event.kind == EventKind::FileWrite);
        let written: Vec<u64> = written.map(|(event, _)| event.values[1]).collect();
        assert!(written.is_sorted_by(|one, next| one + 1 == *next), "{number}: a gap");
        // If a thread did not run for a while, other threads might have overwritten its chunks.
        assert!(written.last().is_none_or(|last| *last >= 2000));
        writes += written.len();
        drops += events.len() - written.len();
    }
    assert!(drops > 0 && writes >= 6000, "{writes}");
    assert!(snapshot.over_rate(EventKind::Drop) > 0);
}

#[test]
fn files_that_are_no_recordings_are_refused() {
    assert_eq!(Snapshot::parse(b"").unwrap_err(), NoRecording::Cut);
    assert_eq!(Snapshot::parse(&[0; 8192]).unwrap_err(), NoRecording::Empty);
    assert_eq!(Snapshot::parse(&[7; 8192]).unwrap_err(), NoRecording::Foreign);
    let _settings = settings();
    let mut bytes = recorder::copy(&SlotCounts::new()).unwrap();
    bytes[8] = 99;
    assert_eq!(Snapshot::parse(&bytes).unwrap_err(), NoRecording::OtherVersion);
}
