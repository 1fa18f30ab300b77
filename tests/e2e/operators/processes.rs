//! Tests processes of operators that end in different ways: nothing is lost or repeated, and a
//! pipeline without operators keeps its rate.

use super::{PATIENCE, SetOnDrop, documents, faulty, noted};
use crate::support::java::{self, built, homes, test_operators};
use crate::support::{Agent, folder, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Lines per second in each of the two files.
const LINES_PER_S: usize = 20_000;

/// Interval between two writes.
const INTERVAL: Duration = Duration::from_millis(10);

/// Minimum share of the lines written at least [`DELAY`] ago that the other pipeline must have
/// delivered.
const LEAST: f64 = 0.95;
const DELAY: Duration = Duration::from_secs(1);

/// An agent under load with two pipelines: one through an operator in a process, one without
/// operators.
struct Load {
    dir: tempfile::TempDir,
    config: String,
}

impl Load {
    /// Creates a load whose operator has a fault; `settings` are settings of the operator's
    /// process.
    fn new(fault: &str, more: &str, settings: &str) -> Load {
        built();
        let (dir, home) = (folder(), homes().pop().unwrap());
        let op =
            faulty(fault, more).replace("type: jvm,", "type: jvm, mode: process, process: team,");
        let config = format!(
            "limits: {{ memory: 768MiB, threads: 2 }}\n\
             shutdown_timeout: 3s\n\
             jvm:\n  home: {}\n  heap: 64MiB\n  processes: {{ team: {{ options: ['-XX:ErrorFile=DIR/hs_err_%p.log'], {settings} }} }}\n\
             sources:\n  \
               app: {{ type: file, include: ['DIR/in/app.log'] }}\n  \
               plain: {{ type: file, include: ['DIR/in/plain.log'] }}\n\
             transforms:\n  op: {op}\n\
             sinks:\n  \
               out: {{ type: file, inputs: [op], path: DIR/out.json, sync: 100ms, encoding: {{ codec: json, metadata: [] }} }}\n  \
               beside: {{ type: file, inputs: [plain], path: DIR/beside.txt, encoding: {{ codec: text }} }}\n",
            home.display()
        );
        fs::create_dir(dir.path().join("in")).unwrap();
        Load { dir, config }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn start(&self) -> Agent {
        let agent = Agent::start(self.dir.path(), &self.config, &[]);
        wait_until("it is ready", PATIENCE, || agent.get("/ready").is_some());
        agent
    }

    /// Writes numbered lines into both files until `stops` is set; returns their number. In the
    /// operator's file, the line with the number `bad` starts with `bad`.
    fn write(&self, stops: &AtomicBool, bad: Option<usize>) -> usize {
        let create = |name: &str| File::create(self.path(name)).unwrap();
        let (mut app, mut plain) = (create("in/app.log"), create("in/plain.log"));
        let (begin, mut count) = (Instant::now(), 0);
        while !stops.load(Ordering::Relaxed) {
            let due = (begin.elapsed().as_secs_f64() * LINES_PER_S as f64) as usize;
            let word = |n: usize| match bad {
                Some(at) if n == at => "bad",
                _ => "line",
            };
            let lines: String = (count..due).map(|n| format!("{} {n}\n", word(n))).collect();
            app.write_all(lines.as_bytes()).unwrap();
            let lines: String = (count..due).map(|n| format!("line {n}\n")).collect();
            plain.write_all(lines.as_bytes()).unwrap();
            count = due;
            std::thread::sleep(INTERVAL);
        }
        count
    }

    /// Runs an agent under load and calls `act`. Checks that every line arrives once and in order,
    /// and that the other pipeline keeps its rate. Returns the agent and the number of lines that
    /// the operator has not seen.
    fn run(&self, bad: Option<usize>, act: impl FnOnce(&Agent)) -> (Agent, usize) {
        let stops = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let stop = SetOnDrop(&stops);
            let agent = self.start();
            let writer = scope.spawn(|| self.write(&stops, bad));
            wait_until("lines arrive", PATIENCE, || count(&self.path("out.json")) > 0);
            let watch = scope.spawn(|| self.watch(&stops));
            act(&agent);
            drop(stop);
            let written = writer.join().unwrap();
            let least = watch.join().unwrap();
            assert!(least >= LEAST, "the pipeline beside had {least} of its lines");
            let all = |name: &str| count(&self.path(name)) >= written;
            wait_until("all lines arrive", PATIENCE, || all("out.json") && all("beside.txt"));
            let events = documents(&self.path("out.json"));
            assert_eq!(events.len(), written);
            for (number, event) in events.iter().enumerate() {
                let message = event["message"].as_str().unwrap();
                assert!(message.ends_with(&format!(" {number}")), "{message} as line {number}");
            }
            let unseen = events.iter().filter(|event| event.get("seen").is_none()).count();
            (agent, unseen)
        })
    }

    /// Returns the median share that the other pipeline has delivered of the lines written a second
    /// before.
    fn watch(&self, stops: &AtomicBool) -> f64 {
        let mut written = Vec::new();
        let mut parts = vec![1.0];
        while !stops.load(Ordering::Relaxed) {
            written.push((Instant::now(), count(&self.path("in/plain.log"))));
            let old = written.iter().rev().find(|(at, _)| at.elapsed() >= DELAY);
            if let Some((_, due)) = old.filter(|(_, due)| *due > 0) {
                parts.push(count(&self.path("beside.txt")) as f64 / *due as f64);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        parts.sort_by(f64::total_cmp);
        parts[parts.len() / 2]
    }
}

/// Returns the number of lines in a file.
fn count(path: &Path) -> usize {
    fs::read(path).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count()
}

fn restarts(agent: &Agent) -> f64 {
    java::restarts(agent, "team")
}

fn child(agent: &Agent) -> Pid {
    java::process_id(agent, "team")
}

fn wait_for_restart(agent: &Agent, before: f64) {
    wait_until("the process runs again", PATIENCE, || restarts(agent) > before);
}

#[test]
fn a_native_crash_fails_the_batch_that_causes_it_and_nothing_else() {
    let load = Load::new("crash", "", "");
    let (mut agent, unseen) = load.run(Some(LINES_PER_S), |agent| {
        wait_until("the batch fails", PATIENCE, || agent.metric(&noted("process_ended")).is_some());
    });
    let failed = agent.metric(&noted("process_ended")).unwrap();
    assert_eq!(failed, unseen as f64, "the batch with the bad line, and no other");
    assert!(unseen > 0 && unseen < LINES_PER_S, "{unseen}");
    let log = agent.log();
    assert!(restarts(&agent) >= 3.0 && log.contains("has exited: signal"), "{log}");
    assert!(agent.stop().success(), "{}", agent.log());
}

#[test]
fn a_process_that_is_killed_many_times_loses_and_repeats_nothing() {
    let load = Load::new("none", "", "");
    let out = load.path("out.json");
    let (mut agent, unseen) = load.run(None, |agent| {
        for number in 0..4 {
            // A call during which several processes die is considered the cause, so complete a call
            // in each process.
            let before = count(&out);
            wait_until("a call returns", PATIENCE, || count(&out) > before);
            kill_process(child(agent), Signal::KILL).unwrap();
            wait_for_restart(agent, f64::from(number));
        }
    });
    assert_eq!(unseen, 0, "{}", agent.log());
    assert_eq!(restarts(&agent), 4.0);
    assert!(agent.log().contains("signal 9 (SIGKILL)"), "{}", agent.log());
    assert!(agent.stop().success(), "{}", agent.log());
}

#[test]
fn an_operator_whose_jar_is_away_at_a_restart_keeps_its_lines() {
    let mut load = Load::new("none", "", "");
    let (jar, away) = (load.path("op.jar"), load.path("away.jar"));
    fs::copy(test_operators(), &jar).unwrap();
    let name = |path: &Path| path.display().to_string();
    load.config = load.config.replace(&name(test_operators()), &name(&jar));
    let (mut agent, unseen) = load.run(None, |agent| {
        fs::rename(&jar, &away).unwrap();
        kill_process(child(agent), Signal::KILL).unwrap();
        let says = |text: &str| agent.log().contains(text);
        wait_until("it is refused", PATIENCE, || says("op: cannot recompile the operator"));
        fs::rename(&away, &jar).unwrap();
        wait_until("it runs again", PATIENCE, || says("op: the operator is running again"));
    });
    assert_eq!((unseen, restarts(&agent)), (0, 1.0), "{}", agent.log());
    assert!(agent.stop().success(), "{}", agent.log());
}

#[test]
fn a_process_that_hangs_is_ended_at_the_deadline() {
    let load = Load::new("loop", "timeouts: { event: 500ms, batch: 1s }", "");
    let (mut agent, unseen) = load.run(Some(LINES_PER_S), |agent| {
        wait_until("the call is ended", PATIENCE, || agent.metric(&noted("deadline")).is_some());
        wait_for_restart(agent, 0.0);
        kill_process(child(agent), Signal::STOP).unwrap();
        wait_for_restart(agent, 1.0);
    });
    let failed = agent.metric(&noted("deadline")).unwrap();
    assert_eq!(failed, unseen as f64, "{}", agent.log());
    assert!(agent.log().contains("exceeded its deadline"), "{}", agent.log());
    assert!(agent.stop().success(), "{}", agent.log());
}

/// A control group of this test.
struct Group {
    folder: std::path::PathBuf,
}

impl Group {
    fn new(limit: u64) -> Option<Group> {
        let name = format!("millstream-test-{}", std::process::id());
        let make = |parent: &str, file: &str| {
            let folder = Path::new(parent).join(&name);
            fs::create_dir(&folder).ok()?;
            let group = Group { folder };
            fs::write(group.folder.join(file), limit.to_string()).ok()?;
            Some(group)
        };
        make("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            .or_else(|| make("/sys/fs/cgroup", "memory.max"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let begin = Instant::now();
        while fs::remove_dir(&self.folder).is_err() && begin.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// In a control group, which needs root, the kernel kills the process. Without one, the JVM ends
/// its process itself.
#[test]
fn a_process_without_memory_is_ended_and_named() {
    let group = Group::new(400 << 20);
    let (fault, settings, reason) = match &group {
        Some(group) => {
            let cgroup = format!("cgroup: {}", group.folder.display());
            ("fill", cgroup, "killed by the kernel for lack of memory")
        }
        None => {
            eprintln!("no control group can be made here");
            ("leak", "options: ['-XX:+ExitOnOutOfMemoryError']".to_owned(), "exit code 3")
        }
    };
    let mut load = Load::new(fault, "timeouts: { event: 20s, batch: 60s }", &settings);
    if group.is_none() {
        load.config = load.config.replace("options: ['-XX:ErrorFile=DIR/hs_err_%p.log'], ", "");
    }
    let (mut agent, unseen) = load.run(Some(LINES_PER_S), |agent| {
        wait_until("the batch fails", PATIENCE, || agent.metric(&noted("process_ended")).is_some());
    });
    assert!(unseen > 0 && agent.log().contains(reason), "{}", agent.log());
    assert_eq!(agent.metric(&noted("process_ended")), Some(unseen as f64));
    assert!(agent.stop().success(), "{}", agent.log());
}

#[test]
fn a_killed_agent_leaves_no_process_behind() {
    for signal in [None, Some(Signal::STOP)] {
        let load = Load::new("none", "", "");
        let mut agent = load.start();
        let child = child(&agent);
        signal.iter().for_each(|signal| kill_process(child, *signal).unwrap());
        agent.kill();
        let place = format!("/proc/{}", child.as_raw_nonzero());
        let is_gone = || match fs::read_to_string(format!("{place}/stat")) {
            Ok(stat) => stat.contains(") Z "),
            Err(_) => true,
        };
        wait_until("the process ends", PATIENCE, is_gone);
    }
}

/// The operator cannot run because its control group is gone. Its calls wait, but a reload can
/// remove the operator, and a shutdown ends in time.
#[test]
fn a_process_that_cannot_start_keeps_its_lines_and_neither_reload_nor_stop() {
    let Some(group) = Group::new(400 << 20) else {
        return eprintln!("skipped: no control group can be made here");
    };
    let load = Load::new("none", "", &format!("cgroup: {}", group.folder.display()));
    let input = load.path("in/app.log");
    fs::write(&input, "line 0\n").unwrap();
    let mut agent = load.start();
    wait_until("the first line", PATIENCE, || count(&load.path("out.json")) == 1);
    let break_it = |agent: &Agent| {
        let child = child(agent);
        let procs = group.folder.parent().unwrap().join("cgroup.procs");
        fs::write(procs, child.as_raw_nonzero().to_string()).unwrap();
        fs::remove_dir(&group.folder).unwrap();
        kill_process(child, Signal::KILL).unwrap();
        let append = File::options().append(true).open(&input);
        append.unwrap().write_all(b"line 1\nline 2\n").unwrap();
        wait_until("the API says so", PATIENCE, || {
            let ready = agent.get("/ready").unwrap_or_default();
            ready.contains("\"up\":false") && ready.contains("cgroup.procs")
        });
        let up = || agent.metric("millstream_jvm_process_up{process=\"team\"}");
        wait_until("the metric says so", PATIENCE, || up() == Some(0.0));
    };
    break_it(&agent);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(count(&load.path("out.json")), 1, "the lines wait");
    // Shutdown ends in time, and the agent rereads the lines after a restart.
    let begin = Instant::now();
    assert!(!agent.stop().success(), "{}", agent.log());
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert_eq!(count(&load.path("out.json")), 1, "nothing was delivered without the operator");
    fs::create_dir(&group.folder).unwrap();
    let mut agent = load.start();
    wait_until("the lines arrive", PATIENCE, || count(&load.path("out.json")) == 3);
    assert!(documents(&load.path("out.json")).iter().all(|event| event["seen"] == true));
    // A reload can remove the operator.
    break_it(&agent);
    let at = load.config.find("  op: ").unwrap();
    let end = at + load.config[at..].find('\n').unwrap();
    let mut removed = load.config.clone();
    removed.replace_range(at..end, "  op: { type: filter, inputs: [app], where: 'true' }");
    agent.reload(&removed);
    wait_until("the reload", PATIENCE, || agent.log().contains("changed: op"));
    wait_until("the lines arrive", PATIENCE, || count(&load.path("out.json")) == 5);
    assert_eq!(agent.metric(&noted("process_ended")), None, "the operator is gone");
    assert!(agent.stop().success(), "{}", agent.log());
    fs::create_dir(&group.folder).unwrap();
}
