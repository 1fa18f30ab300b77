//! Tests how late files show: each fault that a test injects into a file must be visible in the
//! agent's reports about the file.

use crate::support::{Agent, folder, wait_until};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const LIMIT: Duration = Duration::from_secs(60);

/// Newest log time in the files, 2024-11-22T10:00:10Z, in seconds since 1970.
const NEWEST_S: f64 = 1_732_269_610.0;

/// Configuration in which one sink settles nothing, because its port 1 is closed.
const CONFIG: &str = "
sources:
  slow: { type: file, include: ['DIR/in/slow.log'] }
  paced: { type: file, include: ['DIR/in/paced.log'], rate_limit: 200KiB }
  app:
    type: file
    include: ['DIR/in/app.log*']
    multiline: { start: timestamp, format: rfc3339, timeout: 200ms }
  links: { type: file, include: ['DIR/links/*.log', 'DIR/nowhere/*.log'], symlinks: never }
sinks:
  stuck: { type: kafka, inputs: [slow], brokers: ['127.0.0.1:1'], topic: late }
  out: { type: blackhole, inputs: [slow, app, links, paced] }
";

/// An agent that reads a folder of faulty files.
struct Story {
    agent: Agent,
    dir: tempfile::TempDir,
}

impl Story {
    fn begin() -> Story {
        let dir = folder();
        ["in", "links"].iter().for_each(|name| fs::create_dir(dir.path().join(name)).unwrap());
        Story { agent: Agent::start(dir.path(), CONFIG, &[]), dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn append(&self, name: &str, text: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(self.path(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn answer(&self, query: &str) -> Value {
        let body = self.agent.get(&format!("/api/files{query}")).unwrap_or_default();
        serde_json::from_str(&body).unwrap_or_default()
    }

    /// Returns the API's report about the file that is now at `name`.
    fn file(&self, source: &str, name: &str) -> Option<Value> {
        let (answer, path) = (self.answer(&format!("?source={source}")), self.path(name));
        let is_it = |file: &&Value| file["path"].as_str().map(Path::new) == Some(&path);
        answer["files"].as_array()?.iter().find(is_it).cloned()
    }

    /// Waits until `/api/files` reports a file for which `is` returns true.
    fn wait_for(
        &self,
        (source, name): (&str, &str),
        what: &str,
        is: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut last = None;
        let shown = || {
            last = self.file(source, name);
            last.as_ref().is_some_and(&is)
        };
        let shown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_until(what, LIMIT, shown)
        }));
        let last = last.unwrap_or_else(|| self.answer(""));
        assert!(shown.is_ok(), "{what} is not shown, but {last}\n{}", self.agent.log());
        last
    }

    fn wait_until_read(&self, source: &str, name: &str) -> Value {
        let bytes = fs::metadata(self.path(name)).unwrap().len();
        self.wait_for((source, name), "a file that is read", |file| {
            file["checkpoints"]["out"] == bytes
        })
    }

    /// Returns a metric of a source with an additional label.
    fn metric(&self, name: &str, source: &str, label: &str) -> Option<f64> {
        let metrics = self.agent.get("/metrics")?;
        let (begin, label) =
            (format!("millstream_{name}{{component_id=\"{source}\""), label.to_owned());
        let line =
            metrics.lines().find(|line| line.starts_with(&begin) && line.contains(&label))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    fn wait_for_metric(&self, (name, source, label): (&str, &str, &str), is: impl Fn(f64) -> bool) {
        wait_until(&format!("{name} {label}"), LIMIT, || {
            self.metric(name, source, label).is_some_and(&is)
        });
    }
}

fn seconds_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// Returns whether `seconds` is the time since the newest log time, within a minute.
fn is_delay(seconds: f64) -> bool {
    (seconds - (seconds_now() - NEWEST_S)).abs() < 60.0
}

#[test]
fn a_stuck_sink_shows_as_lag() {
    let story = Story::begin();
    story.append("in/slow.log", &"a line\n".repeat(1000));
    let file = story.wait_until_read("slow", "in/slow.log");
    assert_eq!((&file["checkpoints"]["stuck"], &file["lag_bytes"]), (&0.into(), &7000.into()));
    assert_eq!((&file["position"], &file["size"]), (&7000.into(), &7000.into()));
    assert_eq!(file["status"], "active");
    let sink = "sink=\"stuck\"";
    story.wait_for_metric(("source_lag_bytes", "slow", sink), |bytes| bytes == 7000.0);
    story.wait_for_metric(("source_lag_bytes", "slow", "sink=\"out\""), |bytes| bytes == 0.0);
    story.wait_for_metric(("source_lag_seconds", "slow", sink), |seconds| seconds >= 1.0);
    story.wait_for_metric(("file_lag_bytes", "slow", "slow.log"), |bytes| bytes == 7000.0);
}

/// At the rate limit, reading the input takes more than a minute, so unread data counts as lag as
/// well.
#[test]
fn a_rate_limited_source_shows_as_lag() {
    let story = Story::begin();
    story.append("in/paced.log", &"a line\n".repeat(2_000_000));
    let file = story.wait_for(("paced", "in/paced.log"), "lag", |file| {
        file["size"] == 14_000_000 && file["lag_bytes"].as_u64() > Some(100_000)
    });
    assert!(file["position"].as_u64() < Some(14_000_000), "{file}");
    story.wait_for_metric(("source_lag_bytes", "paced", ""), |bytes| bytes > 100_000.0);
    story.wait_for_metric(("component_wait_seconds_total", "paced", "rate_limit"), |seconds| {
        seconds > 0.0
    });
}

#[test]
fn a_file_reports_disorder_parse_errors_log_times_and_a_rename() {
    let story = Story::begin();
    // The second event is one second before the first, which is tolerated; the third is five
    // seconds before it.
    story.append(
        "in/app.log",
        "2024-11-22T10:00:10Z a\n2024-11-22T10:00:09Z b\n2024-11-22T10:00:05Z c\n",
    );
    let file = story.wait_until_read("app", "in/app.log");
    assert_eq!((&file["disorder_events"], &file["slice_errors"]), (&1.into(), &0.into()));
    assert_eq!(file["newest_log_time"], "2024-11-22T10:00:10.000Z");
    assert!(is_delay(file["log_delay_seconds"].as_f64().unwrap()), "{file}");
    // The timeout has ended the last event, so this line would have to start a new event. It
    // cannot, because it has no timestamp.
    story.append("in/app.log", "\tat Late.line(Late.java:1)\n");
    story.wait_until_read("app", "in/app.log");
    story.wait_for(("app", "in/app.log"), "a slice error", |file| file["slice_errors"] == 1);
    fs::rename(story.path("in/app.log"), story.path("in/app.log.1")).unwrap();
    let file =
        story.wait_for(("app", "in/app.log.1"), "the new name", |file| file["rotations"] == 1);
    assert_eq!(file["name"].as_str().map(Path::new), Some(&*story.path("in/app.log")));
    assert_eq!((&file["disorder_events"], &file["slice_errors"]), (&1.into(), &1.into()));
    for name in
        ["source_disorder_events_total", "source_slice_errors_total", "source_rotations_total"]
    {
        story.wait_for_metric((name, "app", ""), |count| count == 1.0);
    }
    story.wait_for_metric(("component_noted_events_total", "app", "slice_errors"), |count| {
        count == 1.0
    });
    story.wait_for_metric(("source_log_delay_seconds", "app", ""), is_delay);
    story.wait_for_metric(("file_log_delay_seconds", "app", "app.log.1"), is_delay);
}

#[test]
fn a_truncation_is_reported() {
    let story = Story::begin();
    story.append("in/app.log", "2024-11-22T10:00:10Z a\n2024-11-22T10:00:11Z b\n");
    let before = story.wait_until_read("app", "in/app.log");
    File::options().write(true).open(story.path("in/app.log")).unwrap().set_len(0).unwrap();
    story.append("in/app.log", "2024-11-22T10:00:12Z c\n");
    let after = story
        .wait_for(("app", "in/app.log"), "the cut", |file| file["file_id"] != before["file_id"]);
    assert_eq!(after["truncations"], 1);
    story.wait_until_read("app", "in/app.log");
    story.wait_for_metric(("source_truncations_total", "app", ""), |count| count == 1.0);
    story.wait_for_metric(("component_noted_events_total", "app", "truncations"), |count| {
        count == 1.0
    });
    assert_eq!(
        story.metric("component_dropped_events_total", "app", ""),
        None,
        "nothing was unread"
    );
}

#[test]
fn unreadable_files_are_reported_with_the_reason_until_readable() {
    let story = Story::begin();
    story.append("target", "behind a link\n");
    std::os::unix::fs::symlink(story.path("target"), story.path("links/refused.log")).unwrap();
    // Not even root can open a link that points to itself.
    std::os::unix::fs::symlink(story.path("links/loop.log"), story.path("links/loop.log")).unwrap();
    let reason = |path: &str| {
        let (answer, path) = (story.answer("?source=links"), story.path(path));
        let unreadable = answer["unreadable"].as_array().cloned().unwrap_or_default();
        let error =
            unreadable.into_iter().find(|t| t["path"].as_str().map(Path::new) == Some(&path));
        error.map(|error| error["reason"].as_str().unwrap_or_default().to_owned())
    };
    let says = |path: &str, text: &str| {
        wait_until(path, LIMIT, || reason(path).is_some_and(|reason| reason.contains(text)));
    };
    says("links/refused.log", "symlinks");
    says("links/loop.log", "symbolic links");
    says("nowhere/*.log", "no file matches");
    story.wait_for_metric(("source_unreadable", "links", ""), |count| count == 3.0);
    story.wait_for_metric(("component_errors_total", "links", "unreadable"), |count| count == 2.0);
    fs::create_dir(story.path("nowhere")).unwrap();
    story.append("nowhere/a.log", "here now\n");
    fs::remove_file(story.path("links/refused.log")).unwrap();
    fs::remove_file(story.path("links/loop.log")).unwrap();
    story.append("links/a.log", "a file\n");
    story.wait_until_read("links", "nowhere/a.log");
    story.wait_for_metric(("source_unreadable", "links", ""), |count| count == 0.0);
    wait_until("no file is unreadable", LIMIT, || {
        let paths = ["links/refused.log", "links/loop.log", "nowhere/*.log"];
        paths.iter().all(|path| reason(path).is_none())
    });
}
