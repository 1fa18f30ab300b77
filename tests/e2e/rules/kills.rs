//! Tests `kill -9` at random times.

use super::{FIELDS, Line, PATIENCE, Stop, Totals, assert_totals, results, totals, write};
use crate::support::{Agent, folder, wait_until};
use millstream_testkit_random::Seed;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Number of kills of the agent.
const KILLS: usize = 10;

/// Number of tasks. Every fourth task has the same kind of condition.
const TASKS: usize = 40;

const CONFIG: &str = "
limits: { memory: 64MiB }
sources:
  app: { type: file, include: ['DIR/in/*.log'] }
transforms:
  timed: { type: parse, inputs: [app], format: none, time: { format: iso8601 } }
  counts:
    type: rules
    inputs: [timed]
    tasks:
TASKS
sinks:
  out: { type: file, inputs: [counts], path: DIR/out.json, sync: 100ms }
";

/// Function that returns whether a task takes a line.
type Takes = Box<dyn Fn(&Line) -> bool>;

/// A task with its model.
struct Model {
    name: String,
    /// Condition of the task; `takes` evaluates the same condition.
    condition: String,
    takes: Takes,
    group_by: &'static [&'static str],
    /// Options for the windows and for the time of events.
    times: String,
}

impl Model {
    fn new(task: usize) -> Model {
        let (kind, n) = (task % 4, (task / 4) as u64);
        let (condition, takes) = condition(kind, n);
        let group_by: &[&[&str]] = &[&[], &["service"], &["level"], &["service", "level"]];
        let time = ["time: log, lateness: 1s", "time: arrival"][task / 4 % 2];
        Model {
            name: format!("t{task}"),
            condition,
            takes,
            // One task has more groups than the agent turns into results at a time.
            group_by: if task == 3 { &["user"] } else { group_by[task / 8 % 4] },
            times: format!("{time}, window: {}s", 1 + task % 3 % 2),
        }
    }

    fn yaml(&self) -> String {
        let Model { name, condition, group_by, times, .. } = self;
        let group_by = group_by.join(", ");
        format!(
            "    - {{ name: {name}, fields: {FIELDS}, where: '{condition}', group_by: [{group_by}], \
             emit: {{ n: count(), sum: sum(size) }}, {times} }}\n"
        )
    }

    /// Adds the expected results of a line.
    fn add(&self, line: &Line, totals: &mut Totals) {
        if (self.takes)(line) {
            let tag = |field: &&str| format!("\"{field}\":\"{}\"", line.tag(field));
            let tags = self.group_by.iter().map(tag).collect::<Vec<_>>().join(",");
            let tags = format!("{{{tags}}}");
            let name = |emit: &str| format!("{}.{emit}", self.name);
            *totals.entry((name("n"), tags.clone())).or_default() += 1;
            *totals.entry((name("sum"), tags)).or_default() += line.size;
        }
    }
}

/// Returns a condition and a function that evaluates it.
fn condition(kind: usize, n: u64) -> (String, Takes) {
    match kind {
        0 => (format!("service == \"s{}\"", n % 5), Box::new(move |line| line.service == n % 5)),
        1 => (format!("message.contains(\"path=/p{n}/\")"), Box::new(move |line| line.path == n)),
        2 => (
            format!("message.matches(\"code=5[01]{}\")", n % 4),
            Box::new(move |line| line.code / 100 == 5 && line.code % 10 == n % 4),
        ),
        _ => (
            format!("size >= {} && code in [200, 503]", n * 100),
            Box::new(move |line| line.size >= n * 100 && [200, 503].contains(&line.code)),
        ),
    }
}

#[test]
fn counts_of_forty_tasks_are_exact_over_kills() {
    let folder = folder();
    let models: Vec<Model> = (0..TASKS).map(Model::new).collect();
    let config = CONFIG.replace("TASKS", &models.iter().map(Model::yaml).collect::<String>());
    fs::create_dir_all(folder.path().join("in")).unwrap();
    let out = folder.path().join("out.json");
    let (mut random, stop) = (Seed::of_test().random(), AtomicBool::new(false));
    let logs = ["a.log", "b.log"].map(|name| folder.path().join("in").join(name));
    let written = std::thread::scope(|scope| {
        let writers = logs.each_ref().map(|log| scope.spawn(|| write(log, &stop)));
        let _stop = Stop(&stop);
        for kill in 0..KILLS {
            let mut agent = Agent::start(folder.path(), &config, &[]);
            // Some kills come before the first commit, some within a window, some after a window.
            std::thread::sleep(Duration::from_millis(random.u64(100..1300)));
            // On a busy host the earlier kills may come before the agent reads.
            if kill + 1 == KILLS {
                wait_until("a window ends", PATIENCE, || !results(&out).is_empty());
            }
            agent.kill();
        }
        stop.store(true, Ordering::SeqCst);
        writers.map(|writer| writer.join().unwrap())
    });
    assert!(!results(&out).is_empty(), "no window ended before the last kill");
    let mut agent = Agent::start(folder.path(), &config, &["--until-eof"]);
    assert!(agent.wait(PATIENCE).success(), "{}", agent.log());
    let mut expected = Totals::new();
    for line in written.iter().flat_map(|lines| (0..*lines).map(Line::new)) {
        models.iter().for_each(|model| model.add(&line, &mut expected));
    }
    let log = agent.log();
    assert_totals(&totals(&results(&out)), &expected, &log);
}
