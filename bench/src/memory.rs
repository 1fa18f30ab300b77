//! Measures the memory under `limits.memory` with loads that need more: without a JVM, and
//! alternately inside and outside of a JVM. Each load also runs in a kernel control group whose
//! limit is a tenth higher.

mod group;
mod load;
mod watch;

use crate::Options;
use crate::header::Header;
use crate::java;
use crate::measure::progress;
use crate::plot::{Axes, Series};
use crate::process::{Program, Subject};
use crate::report::{Report, Table};
use crate::scratch::Scratch;
use crate::variables::Variables;
use group::Group;
use load::Places;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use watch::{Sample, Watched, watch};

const MIB: f64 = (1 << 20) as f64;
/// Maximum length of a turn, for the load that alternates between the JVM and the rest.
const TURN_MAX: Duration = Duration::from_secs(60);
/// Minimum number of turns in a short run.
const TURNS_MIN: u32 = 4;
/// Maximum resident memory, relative to the limit.
const RATIO_MAX: f64 = 1.05;
/// Maximum CPU time of the thread that measures the memory, in percent of a core.
const GOVERNOR_PERCENT_MAX: f64 = 0.1;
/// Limit of the control group, in percent of `limits.memory`.
const GROUP_PERCENT: u64 = 110;

/// One run of the agent.
struct Run {
    name: String,
    limit_bytes: u64,
    /// Peak memory of the control group; `None` without a control group.
    group_peak_bytes: Option<u64>,
    /// Number of lines that were written for the other pipeline.
    written: u64,
    watched: Watched,
}

/// Measures the loads in `names`, or all loads, each for `seconds`.
pub fn run(
    options: &Options,
    (names, seconds): (&[String], u64),
    scratch: &Scratch,
    report: &mut Report,
) -> io::Result<()> {
    let scenarios = Header::read_folder(&options.folder.join("memory"), names)?;
    if scenarios.iter().any(has_jvm) {
        java::build()?;
    }
    let time = Duration::from_secs(seconds);
    let (mut runs, mut notes) = (Vec::new(), Vec::new());
    for scenario in &scenarios {
        notes.push(format!("{}: {}.", scenario.name, scenario.text("title")));
        runs.push(measure(options, scenario, None, time, scratch)?);
        match Group::new(limit_bytes(scenario)? / 100 * GROUP_PERCENT) {
            Ok(group) => runs.push(measure(options, scenario, Some(group), time, scratch)?),
            Err(error) => notes.push(format!("{}: no control group: {error}.", scenario.name)),
        }
    }
    report.add(table(&runs, notes, time))?;
    runs.iter().try_for_each(|run| plot(run, report))
}

fn has_jvm(scenario: &Header) -> bool {
    scenario.config.contains("type: jvm")
}

fn limit_bytes(scenario: &Header) -> io::Result<u64> {
    Ok(scenario.required("memory_mib")? as u64 * (1 << 20))
}

fn measure(
    options: &Options,
    scenario: &Header,
    group: Option<Group>,
    time: Duration,
    scratch: &Scratch,
) -> io::Result<Run> {
    let suffix = if group.is_some() { "_group" } else { "" };
    let name = format!("{}{suffix}", scenario.name);
    progress(&format!("memory: {name}, {} s", time.as_secs()));
    let places = Places::new(scratch, scenario.config.contains("BENCH_STUCK"))?;
    let variables = variables(&places, scratch)?;
    let cores = options.cores();
    let program =
        Program::start(&Subject::agent(&options.agent, "", scenario), &variables, &cores)?;
    group.iter().try_for_each(|group| group.add(program.id()))?;
    let turn = has_jvm(scenario).then(|| (time / TURNS_MIN).min(TURN_MAX));
    let stop = AtomicBool::new(false);
    let (watched, written) = thread::scope(|scope| {
        let sent = scope.spawn(|| load::send(&places, turn, &stop));
        let watched = watch(&program, &variables.path("DATA"), time);
        stop.store(true, Ordering::Relaxed);
        let sent = sent.join().unwrap_or_else(|_| Err(io::Error::other("the load has panicked")));
        Ok::<_, io::Error>((watched?, sent?))
    })?;
    let group_peak_bytes = group.as_ref().map(Group::peak_bytes).transpose()?;
    // Kills the agent, because the stuck sink would prevent it from exiting.
    drop(program);
    Ok(Run { name, limit_bytes: limit_bytes(scenario)?, group_peak_bytes, written, watched })
}

fn variables(places: &Places, scratch: &Scratch) -> io::Result<Variables> {
    let variables = Variables::fresh(scratch, &places.other)?
        .with("FILES", &places.files.to_string_lossy())
        .with("GROUPS", &places.groups.to_string_lossy())
        .with("OTHER", &places.other.to_string_lossy())
        .with("ORDERS", &places.orders.to_string_lossy())
        .with("SOCKET", &places.socket.to_string_lossy())
        .with("STUCK", &load::stuck_server()?.to_string());
    Ok(variables)
}

/// Returns a table with one column per run.
fn table(runs: &[Run], notes: Vec<String>, time: Duration) -> Table {
    let mut columns = vec!["figure"];
    columns.extend(runs.iter().map(|run| run.name.as_str()));
    let mut table = Table::new("memory", "Memory under a limit", &columns);
    let all: Vec<Vec<(&str, String)>> = runs.iter().map(Run::figures).collect();
    let names = all.first().into_iter().flatten().map(|(name, _)| *name);
    for (at, name) in names.enumerate() {
        let mut cells = vec![name.to_owned()];
        cells.extend(all.iter().map(|figures| figures[at].1.clone()));
        table.row(cells);
    }
    notes.into_iter().for_each(|note| table.note(note));
    table.note(format!(
        "{} s each, both cores for the agent and the load; looks once a second, peaks by the kernel. `_group`: in a \
         control group with a limit of {GROUP_PERCENT}% of `limits.memory`; its peak includes the page cache.",
        time.as_secs()
    ));
    table
}

impl Run {
    fn ratio(&self) -> f64 {
        self.watched.peak_bytes as f64 / self.limit_bytes as f64
    }

    /// Returns the name and the value of each figure in the table.
    fn figures(&self) -> Vec<(&'static str, String)> {
        let mib = |bytes: u64| format!("{:.0}", bytes as f64 / MIB);
        let watched = &self.watched;
        let number = |pattern: &str| watched.number(pattern).to_string();
        let is_within = self.ratio() <= RATIO_MAX;
        let is_cheap = watched.governor_percent < GOVERNOR_PERCENT_MAX;
        let verdict = |is_met: bool| if is_met { "holds" } else { "MISSED" };
        let copied = watched.number("sent_events_total{component_id=\"other\"*} #");
        vec![
            ("limit MiB", mib(self.limit_bytes)),
            ("peak RSS MiB", mib(watched.peak_bytes)),
            ("peak / limit", format!("{:.3}", self.ratio())),
            ("target <= 1.05", verdict(is_within).to_owned()),
            ("control group's peak MiB", self.group_peak_bytes.map_or(String::new(), mib)),
            ("s with high pressure", number("millstream_memory_high_seconds_total #")),
            ("times that it became high", number("millstream_memory_high_total #")),
            ("governor, % of a core", format!("{:.3}", watched.governor_percent)),
            ("target < 0.1", verdict(is_cheap).to_owned()),
            ("series", number("millstream_source_series{*} #")),
            ("points counted together", number("noted_events_total{*note=\"series\"} #")),
            ("most groups", watched.most(|sample| sample.groups).to_string()),
            ("windows ended early", number("noted_events_total{*note=\"early_window\"} #")),
            (
                "events counted in group overflow",
                number("noted_events_total{*note=\"overflow\"} #"),
            ),
            ("files", number("millstream_source_files{component_id=\"files\"*} #")),
            ("lines of the pipeline beside", self.written.to_string()),
            ("of them delivered", copied.to_string()),
            (
                "peak of the Java heap in use MiB",
                mib(watched.most(|sample| sample.heap_used_bytes)),
            ),
            ("committed MiB", mib(watched.most(|sample| sample.heap_committed_bytes))),
            ("most memory beside it MiB", mib(watched.most(Sample::rest_bytes))),
            ("collections asked for", number("millstream_jvm_requested_collections_total #")),
            ("of them ignored", number("millstream_jvm_ignored_collections_total #")),
        ]
    }
}

impl Sample {
    /// Returns an estimate of the resident memory outside the JVM's heap. The estimate is too low
    /// if pages of the heap are committed but not resident, because they were never written.
    fn rest_bytes(&self) -> u64 {
        self.resident_bytes.saturating_sub(self.heap_committed_bytes)
    }
}

fn plot(run: &Run, report: &mut Report) -> io::Result<()> {
    let samples = &run.watched.samples;
    let series = |label: &str, of: &dyn Fn(&Sample) -> u64| Series {
        label: label.to_owned(),
        points: samples.iter().map(|at| (at.seconds, of(at) as f64 / MIB)).collect(),
    };
    let mut all = vec![
        series("limit", &|_| run.limit_bytes),
        series("resident", &|at| at.resident_bytes),
        series("high pressure", &|at| if at.is_high { run.limit_bytes / 20 } else { 0 }),
    ];
    if run.watched.most(|sample| sample.heap_committed_bytes) > 0 {
        all.push(series("Java heap in use", &|at| at.heap_used_bytes));
        all.push(series("Java heap committed", &|at| at.heap_committed_bytes));
        all.push(series("beside the Java heap", &Sample::rest_bytes));
    }
    let label = |x: &f64| format!("{x:.0}");
    let title = format!("Memory, {}", run.name);
    let axes = Axes { title: &title, x: "seconds", y: "MiB", x_label: &label };
    report.plot(&format!("memory_{}", run.name), &axes, &all)
}
