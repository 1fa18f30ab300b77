//! Tests logging libraries of other languages that rotate every 100 ms.

use super::{assert_every_line_once, config, finish};
use crate::support::java::log4j_writer;
use crate::support::{Agent, folder};
use millstream_testkit_random::Seed;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit of a program.
const WRITING_MAX: Duration = Duration::from_secs(120);

/// Program that renames `app.log` to `.1`, `.1` to `.2` and so on, about every 100 ms.
const PYTHON_BY_SIZE: &str = r#"
import logging.handlers, sys, time
path, count = sys.argv[1], int(sys.argv[2])
handler = logging.handlers.RotatingFileHandler(path, maxBytes=100_000, backupCount=1000)
log = logging.getLogger()
log.addHandler(handler)
log.setLevel(logging.INFO)
for number in range(count):
    log.info("line %07d and some words behind it", number)
"#;

/// Program that rotates every 100 ms and names each file after the time. The handler alone has a
/// resolution of one second.
const PYTHON_BY_TIME: &str = r#"
import logging.handlers, sys, time
path, count = sys.argv[1], int(sys.argv[2])
class Handler(logging.handlers.TimedRotatingFileHandler):
    due = time.time() + 0.1
    def shouldRollover(self, record):
        if time.time() < self.due:
            return False
        self.due = time.time() + 0.1
        return True
    def rotation_filename(self, name):
        return "%s.%.6f" % (name, time.time())
log = logging.getLogger()
log.addHandler(Handler(path, when="S"))
log.setLevel(logging.INFO)
for number in range(count):
    log.info("line %07d and some words behind it", number)
"#;

/// Configuration that starts a file with the time in its name every 100 ms. Files that reach the
/// maximum size before that are numbered.
const LOG4J: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="warn">
  <Appenders>
    <RollingFile name="file" fileName="DIR/in/app.log" filePattern="DIR/in/app.log.%d{yyyy-MM-dd-HH-mm-ss-SSS}.%i">
      <PatternLayout pattern="%m%n"/>
      <Policies>
        <TimeBasedTriggeringPolicy interval="100"/>
        <SizeBasedTriggeringPolicy size="200KB"/>
      </Policies>
      <DefaultRolloverStrategy fileIndex="nomax"/>
    </RollingFile>
  </Appenders>
  <Loggers><Root level="info"><AppenderRef ref="file"/></Root></Loggers>
</Configuration>
"#;

/// A program, killed when dropped.
struct Program(Child);

impl Program {
    fn start(mut command: Command) -> Program {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null());
        Program(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Returns whether the program is running; panics if it failed.
    fn poll_running(&mut self) -> bool {
        match self.0.try_wait().unwrap() {
            Some(status) => assert!(status.success(), "{status}"),
            None => return true,
        }
        false
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the program, kills the agent every second or two while it runs, and checks every line.
fn run(dir: &Path, command: Command, count: usize) {
    let config = config("['DIR/in/app.log*']");
    let mut random = Seed::of_test().random();
    let mut agent = Agent::start(dir, &config, &[]);
    let mut program = Program::start(command);
    let (begun, mut kill_at) = (Instant::now(), Instant::now() + Duration::from_secs(2));
    while program.poll_running() {
        assert!(begun.elapsed() < WRITING_MAX, "the program does not end");
        std::thread::sleep(Duration::from_millis(10));
        if kill_at < Instant::now() {
            agent.kill();
            agent = Agent::start(dir, &config, &[]);
            kill_at = Instant::now() + Duration::from_millis(1000 + random.u64(..1000));
        }
    }
    let rotated = fs::read_dir(dir.join("in")).unwrap().count();
    assert!(rotated > 20, "{rotated} files only after {:?}", begun.elapsed());
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    finish(dir, &config);
    assert_every_line_once(dir, count);
}

fn python(script: &str, count: usize) {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    let mut command = Command::new("python3");
    command.args(["-c", script]).arg(dir.path().join("in/app.log")).arg(count.to_string());
    run(dir.path(), command, count);
}

#[test]
fn python_rotating_by_size_at_full_speed() {
    python(PYTHON_BY_SIZE, 120_000);
}

#[test]
fn python_rotating_by_time_at_full_speed() {
    python(PYTHON_BY_TIME, 250_000);
}

#[test]
fn log4j_rotating_every_hundred_milliseconds() {
    let (dir, count) = (folder(), 200_000);
    fs::create_dir(dir.path().join("in")).unwrap();
    let settings = dir.path().join("log4j2.xml");
    fs::write(&settings, LOG4J.replace("DIR", &dir.path().display().to_string())).unwrap();
    let classes = log4j_writer(dir.path());
    let mut command = Command::new("java");
    command
        .arg("-cp")
        .arg(&classes)
        .arg(format!("-Dlog4j2.configurationFile={}", settings.display()));
    command.args(["-Xmx128m", "Writer", &count.to_string(), "6000"]);
    run(dir.path(), command, count);
}
