//! The line of a property in the summary of `make soak`.

use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The environment variable with the path of the file that collects the lines.
const VARIABLE: &str = "SOAK_REPORT";

/// The report of a long test. When the value is dropped, its line is added to the summary of
/// `make soak`, so the value must live as long as the test. A test without random numbers uses it
/// directly.
#[must_use = "the line is written when it is dropped"]
#[derive(Debug)]
pub struct Report {
    property: String,
    begun: Instant,
    cases: AtomicU64,
    /// The seed of a random test.
    pub(crate) seed: Option<u64>,
}

impl Report {
    /// Begins the report of the calling test.
    #[track_caller]
    pub fn of_test() -> Report {
        Report::at(Location::caller())
    }

    /// Begins the report of the test at a source location.
    pub(crate) fn at(at: &Location<'_>) -> Report {
        let thread = std::thread::current();
        Report {
            property: name(at, thread.name()),
            begun: Instant::now(),
            cases: AtomicU64::new(0),
            seed: None,
        }
    }

    /// Counts cases, such as calls, reloads or seconds.
    pub fn count(&self, cases: u64) {
        self.cases.fetch_add(cases, Ordering::Relaxed);
    }

    /// Returns the property, cases, seed, seconds and result, separated by tabs.
    fn line(&self, has_failed: bool) -> String {
        // A test without counts is one case.
        let cases = self.cases.load(Ordering::Relaxed).max(1);
        let seed = self.seed.map_or("-".to_owned(), |seed| seed.to_string());
        let seconds = self.begun.elapsed().as_secs_f64();
        let result = if has_failed { "failed" } else { "ok" };
        format!("{}\t{cases}\t{seed}\t{seconds:.1}\t{result}\n", self.property)
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let Some(path) = std::env::var_os(VARIABLE) else { return };
        if let Err(error) = append(path.as_ref(), &self.line(std::thread::panicking())) {
            // This must not panic, because the stack may be unwinding.
            eprintln!("{VARIABLE}={}: {error}", path.display());
        }
    }
}

/// Returns the name of a property: its file and its function, which the test harness uses as the
/// name of the thread. Without a thread name, returns the file and the line.
fn name(at: &Location<'_>, thread: Option<&str>) -> String {
    let test = thread.filter(|name| *name != "main").and_then(|name| name.rsplit("::").next());
    test.map_or_else(
        || format!("{}:{}", at.file(), at.line()),
        |test| format!("{} {test}", at.file()),
    )
}

/// Appends the line with a single write, so that the lines of tests that end at the same time do
/// not mix.
fn append(path: &Path, line: &str) -> std::io::Result<()> {
    OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{Report, append, name};
    use std::panic::Location;

    #[test]
    fn a_property_is_named_by_file_and_function() {
        let at = Location::caller();
        assert_eq!(name(at, Some("a::tests::holds")), format!("{} holds", at.file()));
        assert_eq!(name(at, Some("holds")), format!("{} holds", at.file()));
        let line = format!("{}:{}", at.file(), at.line());
        assert_eq!([name(at, Some("main")), name(at, None)], [line.clone(), line]);
    }

    #[test]
    fn a_line_has_five_columns() {
        let mut report = Report::of_test();
        let columns = |line: &str| -> Vec<String> {
            line.trim_end().split('\t').map(str::to_owned).collect()
        };
        let plain = columns(&report.line(false));
        assert_eq!(plain.len(), 5);
        assert_eq!([&plain[1], &plain[2], &plain[4]], ["1", "-", "ok"]);
        report.count(3);
        report.seed = Some(17);
        let failed = columns(&report.line(true));
        assert_eq!([&failed[1], &failed[2], &failed[4]], ["3", "17", "failed"]);
    }

    #[test]
    fn lines_are_appended() {
        let path = std::env::temp_dir().join(format!("millstream-report-{}", std::process::id()));
        append(&path, "a\n").unwrap();
        append(&path, "b\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\nb\n");
        std::fs::remove_file(path).unwrap();
    }
}
