//! Tests task files that change while lines are read.

use super::{FIELDS, PATIENCE, Stop, Totals, assert_totals, results, totals, write};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_random::Seed;
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CONFIG: &str = "
watch: true
limits: { memory: 64MiB }
sources:
  app: { type: file, include: ['DIR/app.log'] }
transforms:
  timed: { type: parse, inputs: [app], format: none, time: { format: iso8601 } }
  counts:
    type: rules
    inputs: [timed]
    tasks:
      - INLINE
      - DIR/tasks/*.yaml
sinks:
  out: { type: file, inputs: [counts], path: DIR/out.json, sync: 100ms }
";

/// Returns a task that counts all lines and sums their numbers. Its results show which lines it has
/// processed.
fn task(name: &str, suffix: &str, more: &str) -> String {
    format!(
        "{{ name: {name}, fields: {FIELDS}, emit: {{ n{suffix}: count(), sum{suffix}: sum(number) }}, {more} }}"
    )
}

const ARRIVAL: &str = "window: 1s";

const LOG: &str = "window: 1s, time: log, lateness: 1s";

/// A running agent with its folder and its task files.
struct Setting<'a> {
    folder: &'a Path,
    agent: &'a Agent,
}

impl Setting<'_> {
    /// Writes a file with tasks atomically.
    fn put(&self, name: &str, tasks: &[String]) {
        put(self.folder, name, &text(tasks));
    }

    /// Makes changes, and waits until the agent uses them.
    fn change(&self, what: &str, by: By, make: impl FnOnce()) {
        let before = self.reloads();
        make();
        if by == By::Signal {
            self.agent.send(Signal::HUP);
        }
        wait_until(what, PATIENCE, || self.reloads() > before);
    }

    fn reloads(&self) -> usize {
        self.agent.log().matches("configuration reloaded; changed: counts; unchanged: 3").count()
    }

    /// Waits until a task has a result.
    fn wait_result(&self, name: &str) {
        let out = self.folder.join("out.json");
        let name = format!("\"name\":\"{name}\"");
        wait_until(&name, PATIENCE, || {
            fs::read_to_string(&out).unwrap_or_default().contains(&name)
        });
    }
}

/// Trigger that makes the agent read its task files.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Watch,
    Signal,
}

fn text(tasks: &[String]) -> String {
    let items: String = tasks.iter().map(|task| format!("  - {task}\n")).collect();
    format!("tasks:\n{items}")
}

fn put(folder: &Path, name: &str, text: &str) {
    let draft = folder.join("task-draft");
    fs::write(&draft, text).unwrap();
    fs::rename(&draft, folder.join("tasks").join(name)).unwrap();
}

/// Makes all changes. Each task has a result before the change that ends it.
fn change_all(setting: &Setting<'_>) {
    for name in ["inline.n", "changed.n", "removed.n", "faulty.n"] {
        setting.wait_result(name);
    }
    setting.change("the added files are used", By::Watch, || {
        setting.put("added.yaml", &[task("added", "", ARRIVAL), task("added_log", "", LOG)]);
        put(
            setting.folder,
            "faulty.yaml",
            &text(&[task("faulty", "", "window: 1s, where: number + 1")]),
        );
        put(setting.folder, "fresh.yaml", "tasks:\n  - { name: fresh, emit: { n: counts() } }\n");
    });
    setting.change("the changed file is used", By::Signal, || {
        setting.put(
            "changed.yaml",
            &[task("changed", "_new", ARRIVAL), task("changed_log", "_new", LOG)],
        );
    });
    setting.change("the removed file is not used", By::Watch, || {
        fs::remove_file(setting.folder.join("tasks/removed.yaml")).unwrap();
    });
    // Now two files have a task with the same name. The task in the first file is used; the other
    // tasks of the second file stay in use in their previous version.
    setting.change("the first file with the name is used", By::Signal, || {
        setting.put("again.yaml", &[task("steady", "", ARRIVAL), task("added_too", "", ARRIVAL)]);
    });
    for name in ["added.n", "added_log.n", "added_too.n", "changed.n_new", "changed_log.n_new"] {
        setting.wait_result(name);
    }
}

/// Asserts that the log reports faults with their position and advice.
fn assert_refused(folder: &Path, log: &str) {
    let tasks = folder.join("tasks").display().to_string();
    let faulty = fs::read_to_string(folder.join("tasks/faulty.yaml")).unwrap();
    let column = faulty.lines().nth(1).unwrap().find("number + 1").unwrap() + 1;
    let faults = [
        format!(
            "{tasks}/faulty.yaml:2:{column}: `where`: line 1, column 1: the result is an int or a \
             double, not true or false; compare it with something"
        ),
        format!("{tasks}/fresh.yaml:2:31: `n`: `counts` is not an aggregate; use count(), "),
        format!(
            "{tasks}/steady.yaml:2:13: `name`: another task is already named `steady`, at \
             {tasks}/again.yaml:2:13; rename one of them"
        ),
    ];
    for fault in faults {
        assert!(log.contains(&fault), "{fault} is not in:\n{log}");
    }
}

/// Returns the results of tasks that processed the lines from `from` to `until`.
fn counted(names: &[&str], suffix: &str, (from, until): (u64, u64)) -> Totals {
    let total = |name: &str, value| ((format!("{name}{suffix}"), "{}".to_owned()), value);
    let sum = (from..until).sum();
    let of = |name: &&str| {
        [total(&format!("{name}.n"), until - from), total(&format!("{name}.sum"), sum)]
    };
    names.iter().flat_map(of).collect()
}

/// Returns the expected results over `lines` lines. For tasks that were added or removed, the first
/// or last line is derived from `found`.
fn expected(lines: u64, found: &Totals) -> Totals {
    let count = |name: &str| {
        let count = found.get(&(name.to_owned(), "{}".to_owned())).copied().unwrap_or_default();
        assert!(0 < count && count < lines, "{name} is {count} of {lines}");
        count
    };
    let mut all =
        counted(&["inline", "steady", "steady_log", "faulty", "faulty_log"], "", (0, lines));
    for name in ["added", "added_log", "added_too"] {
        all.extend(counted(&[name], "", (lines - count(&format!("{name}.n")), lines)));
    }
    for name in ["removed", "removed_log"] {
        all.extend(counted(&[name], "", (0, count(&format!("{name}.n")))));
    }
    for name in ["changed", "changed_log"] {
        let old = count(&format!("{name}.n"));
        all.extend(counted(&[name], "", (0, old)));
        all.extend(counted(&[name], "_new", (old, lines)));
    }
    all
}

#[test]
fn changed_task_files_affect_their_tasks_alone() {
    let folder = folder();
    let folder = folder.path();
    fs::create_dir(folder.join("tasks")).unwrap();
    for name in ["steady", "changed", "removed", "faulty"] {
        let tasks = [task(name, "", ARRIVAL), task(&format!("{name}_log"), "", LOG)];
        put(folder, &format!("{name}.yaml"), &text(&tasks));
    }
    let config = CONFIG.replace("INLINE", &task("inline", "", ARRIVAL));
    let mut agent = Agent::start(folder, &config, &[]);
    let stop = AtomicBool::new(false);
    let lines = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&folder.join("app.log"), &stop));
        let _stop = Stop(&stop);
        change_all(&Setting { folder, agent: &agent });
        stop.store(true, Ordering::SeqCst);
        writer.join().unwrap()
    });
    assert_refused(folder, &agent.log());
    let received = "millstream_component_received_events_total{component_id=\"counts\"";
    wait_until("all lines are counted", PATIENCE, || agent.metric(received) == Some(lines as f64));
    assert!(agent.stop().success(), "{}", agent.log());
    // After the restart, a refused file has no previous version, but its open windows continue.
    let mut agent = Agent::start(folder, &config, &["--until-eof"]);
    assert!(agent.wait(PATIENCE).success(), "{}", agent.log());
    let found = totals(&results(&folder.join("out.json")));
    assert_totals(&found, &expected(lines, &found), &agent.log());
}

/// Number of changes of a task, each followed by a kill.
const CHANGES: u64 = 6;

/// Asserts that each version of a task counted exactly the lines after those of the previous
/// version.
fn assert_consecutive(name: &str, lines: u64, found: &Totals, log: &str) {
    let get = |emit: &str, version: u64| {
        let key = (format!("{name}.{emit}_{version}"), "{}".to_owned());
        found.get(&key).copied().unwrap_or_default()
    };
    let mut from = 0;
    for version in 0..=CHANGES {
        let until = from + get("n", version);
        let sum: u64 = (from..until).sum();
        assert_eq!(get("sum", version), sum, "{name} {version}: {from} to {until}\n{log}");
        from = until;
    }
    assert_eq!(from, lines, "lines of {name}\n{log}");
}

#[test]
fn versions_of_a_task_count_consecutive_lines_over_kills() {
    let folder = folder();
    let folder = folder.path();
    fs::create_dir(folder.join("tasks")).unwrap();
    let version = |version: u64| {
        let suffix = format!("_{version}");
        let tasks = [task("changed", &suffix, ARRIVAL), task("changed_log", &suffix, LOG)];
        put(folder, "changed.yaml", &text(&tasks));
    };
    version(0);
    let config = CONFIG.replace("INLINE", &task("inline", "", ARRIVAL)).replace("true", "false");
    let (mut random, stop) = (Seed::of_test().random(), AtomicBool::new(false));
    let mut agent = Agent::start(folder, &config, &[]);
    let lines = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&folder.join("app.log"), &stop));
        let _stop = Stop(&stop);
        for change in 1..=CHANGES {
            wait_until("the agent runs", PATIENCE, || agent.get("/ready").is_some());
            std::thread::sleep(Duration::from_millis(random.u64(100..900)));
            version(change);
            agent.send(Signal::HUP);
            // The kill comes before, while or after the agent switches to the new version.
            std::thread::sleep(Duration::from_millis(random.u64(0..100)));
            agent.kill();
            agent = Agent::start(folder, &config, &[]);
        }
        stop.store(true, Ordering::SeqCst);
        writer.join().unwrap()
    });
    agent.kill();
    let mut agent = Agent::start(folder, &config, &["--until-eof"]);
    assert!(agent.wait(PATIENCE).success(), "{}", agent.log());
    let mut found = totals(&results(&folder.join("out.json")));
    let log = agent.log();
    for name in ["changed", "changed_log"] {
        assert_consecutive(name, lines, &found, &log);
    }
    found.retain(|(name, _), _| name.starts_with("inline."));
    assert_totals(&found, &counted(&["inline"], "", (0, lines)), &log);
}
