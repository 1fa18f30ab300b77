//! Tests of the log with a writer in memory.

use super::*;
use std::time::UNIX_EPOCH;

/// A writer whose text can be read, and which blocks while `gate` is locked.
#[derive(Clone, Default)]
struct Memory {
    text: Arc<Mutex<Vec<u8>>>,
    gate: Arc<Mutex<()>>,
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        drop(self.gate.lock());
        self.text.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Memory {
    fn started(level: LevelFilter) -> (Memory, Handle, Logger) {
        let memory = Memory::default();
        let handle = start(level, Box::new(memory.clone())).unwrap();
        let logger = Logger { shared: handle.shared.clone() };
        (memory, handle, logger)
    }

    fn lines(&self) -> Vec<String> {
        String::from_utf8(self.text.lock().clone()).unwrap().lines().map(str::to_owned).collect()
    }
}

fn log_at(shared: &Shared, now: Instant, line: u32, message: &str) {
    let mut record = Record::builder();
    record.level(Level::Warn).target("a::b").file(Some("b.rs")).line(Some(line));
    shared.log(&record.args(format_args!("{message}")).build(), now);
}

#[test]
fn a_line_has_time_level_target_and_message() {
    let time = UNIX_EPOCH + Duration::from_millis(1_795_292_986_123);
    let line = format_line(time, Level::Warn, "millstream_engine::lane", "message");
    assert_eq!(line, "2026-11-21T20:29:46.123Z WARN  millstream_engine::lane  message\n");
}

#[test]
fn secrets_are_masked_before_a_message_is_cut() {
    millstream_model::secrets::remember(
        millstream_model::secrets::Origin::Configuration,
        ["of-the-log-1"],
    );
    let (memory, handle, logger) = Memory::started(LevelFilter::Warn);
    let long = "x".repeat(MESSAGE_BYTES_MAX - 20);
    log_at(&logger.shared, Instant::now(), 1, &format!("of-the-log-1 {long}of-the-log-1"));
    assert!(handle.flush());
    let lines = memory.lines();
    assert!(lines[0].contains("a::b  REDACTED xx") && !lines[0].contains("of-the"), "{lines:?}");
}

#[test]
fn a_call_site_is_limited_and_its_repeats_are_counted() {
    let (memory, handle, _) = Memory::started(LevelFilter::Info);
    let begun = Instant::now();
    (0..12).for_each(|number| log_at(&handle.shared, begun, 1, &format!("first {number}")));
    (0..2).for_each(|_| log_at(&handle.shared, begun, 2, "second"));
    assert!(handle.flush());
    assert_eq!(memory.lines().len(), 7);
    log_at(&handle.shared, begun + WINDOW, 1, "first again");
    assert!(handle.flush());
    let lines = memory.lines();
    assert!(lines[7].ends_with(" WARN  a::b  7 more like this: first 4"), "{}", lines[7]);
    assert!(lines[8].ends_with(" WARN  a::b  first again") && lines.len() == 9);
}

#[test]
fn a_list_is_written_whole_and_its_repeats_are_counted() {
    let (memory, handle, logger) = Memory::started(LevelFilter::Trace);
    for _ in 0..10 {
        (0..50).for_each(|n| log_as_itself(&logger, Level::Error, "list", &format!("fault {n}")));
    }
    drop(handle);
    let lines = memory.lines();
    for n in 0..50 {
        let count = lines.iter().filter(|line| line.ends_with(&format!("list  fault {n}"))).count();
        assert_eq!(count, WINDOW_LINES_MAX as usize, "{n}: {lines:?}");
    }
    assert_eq!(lines.iter().filter(|line| line.contains("5 more like this")).count(), 50);
}

#[test]
fn repeats_are_reported_without_another_message() {
    let (memory, handle, _) = Memory::started(LevelFilter::Info);
    // Long enough for the previous steps on a busy machine.
    let almost_over = Instant::now() - WINDOW + Duration::from_secs(3);
    (0..5).for_each(|_| log_at(&handle.shared, almost_over, 1, "again"));
    // The writer is asleep when a message arrives that is only counted.
    assert!(handle.flush());
    std::thread::sleep(Duration::from_millis(20));
    log_at(&handle.shared, almost_over, 1, "again");
    let deadline = Instant::now() + Duration::from_secs(60);
    while memory.lines().len() < 6 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(memory.lines()[5].ends_with("1 more like this: again"));
}

#[test]
fn repeats_can_be_reported_before_the_last_message() {
    let (memory, handle, _) = Memory::started(LevelFilter::Info);
    (0..9).for_each(|_| log_at(&handle.shared, Instant::now(), 1, "again"));
    handle.shared.lock().close_all_windows();
    log_at(&handle.shared, Instant::now(), 2, "stopped");
    drop(handle);
    let lines = memory.lines();
    assert!(lines[5].ends_with("4 more like this: again"), "{lines:?}");
    assert!(lines[6].ends_with("stopped") && lines.len() == 7, "{lines:?}");
}

#[test]
fn shutdown_reports_repeats_and_writes_everything() {
    let (memory, handle, _) = Memory::started(LevelFilter::Info);
    (0..9).for_each(|_| log_at(&handle.shared, Instant::now(), 1, "again"));
    drop(handle);
    assert_eq!(memory.lines().len(), 6);
    assert!(memory.lines()[5].ends_with("4 more like this: again"));
}

#[test]
fn a_full_queue_drops_lines_and_reports_them() {
    let (memory, handle, _) = Memory::started(LevelFilter::Info);
    let shut = memory.gate.lock();
    let sites = 3 * QUEUE_LINES_MAX as u32;
    let begun = Instant::now();
    (0..sites).for_each(|window| log_at(&handle.shared, begun + window * WINDOW, 1, "x"));
    let dropped = handle.dropped_lines();
    // The writer may have dequeued a full queue before it blocked at the gate.
    assert!(
        (u64::from(sites) - 2 * QUEUE_LINES_MAX as u64..u64::from(sites)).contains(&dropped),
        "{dropped}"
    );
    drop(shut);
    assert!(handle.flush() && handle.flush());
    let lines = memory.lines();
    assert_eq!(lines.len() as u64, u64::from(sites) - dropped + 1);
    assert!(lines.iter().any(|line| line.contains(&format!(" {dropped} log lines were dropped"))));
}

#[test]
fn a_stuck_writer_does_not_delay_the_exit() {
    let (memory, handle, _) = Memory::started(LevelFilter::Info);
    let _shut = memory.gate.lock();
    log_at(&handle.shared, Instant::now(), 1, "x");
    assert!(!handle.flush());
}

#[test]
fn call_sites_beyond_the_limit_share_a_window() {
    let (_, handle, _) = Memory::started(LevelFilter::Info);
    let sites = WINDOWS_MAX as u32 + 100;
    (0..sites).for_each(|line| log_at(&handle.shared, Instant::now(), line, "x"));
    let state = handle.shared.lock();
    assert_eq!((state.windows.len(), state.windows[&0].more), (WINDOWS_MAX + 1, 95));
}

#[test]
fn unwritten_lines_count_as_dropped() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let handle = start(LevelFilter::Info, Box::new(full)).unwrap();
    log_at(&handle.shared, Instant::now(), 1, "x");
    (0..3).for_each(|_| assert!(handle.flush()));
    // Reporting the error is not retried endlessly.
    assert_eq!(handle.dropped_lines(), 1);
}

#[test]
fn less_severe_messages_are_filtered() {
    let (memory, handle, logger) = Memory::started(LevelFilter::Warn);
    for level in [Level::Error, Level::Warn, Level::Info] {
        logger.log(&Record::builder().level(level).args(format_args!("x")).build());
    }
    assert!(handle.flush());
    assert_eq!(memory.lines().len(), 2);
}

#[test]
fn a_panic_is_one_line_with_its_location() {
    let (memory, handle, logger) = Memory::started(LevelFilter::Info);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| log_panic(&logger, panic)));
    let place = (file!(), line!() + 1);
    let caught = std::panic::catch_unwind(|| panic!("two\nlines"));
    std::panic::set_hook(before);
    assert!(caught.is_err() && handle.flush());
    let expected = format!("panicked at {}:{}: two\\nlines", place.0, place.1);
    assert!(
        memory
            .lines()
            .iter()
            .any(|line| line.contains(" ERROR panic  thread ") && line.ends_with(&expected))
    );
}

#[test]
fn a_file_is_appended_to() {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("millstream-log-{}", std::process::id()));
    std::fs::write(&path, "before\n").unwrap();
    open(Target::File(path.clone())).unwrap().write_all(b"after\n").unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "before\nafter\n");
    std::fs::remove_file(&path).unwrap();
    drop(open(Target::File(path.clone())).unwrap());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777 & !0o640, 0);
    std::fs::remove_file(&path).unwrap();
    let missing = path.join("below");
    let error = open(Target::File(missing.clone())).err().unwrap().to_string();
    assert!(error.starts_with(&format!("log {}: ", missing.display())), "{error}");
}

#[test]
fn log_macros_write_to_it() {
    let path = std::env::temp_dir().join(format!("millstream-facade-{}", std::process::id()));
    let handle = init(LevelFilter::Info, Target::File(path.clone())).unwrap();
    log::info!("seen");
    log::debug!("unseen");
    assert!(handle.flush());
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains(&format!("Z INFO  {}  seen\n", module_path!())) && !text.contains("unseen"),
        "{text}"
    );
    assert!(init(LevelFilter::Info, Target::Stderr(Box::new(io::stderr()))).is_err());
    std::fs::remove_file(&path).unwrap();
}
