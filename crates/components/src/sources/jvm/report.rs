//! Log messages about the state of all collectors: one line for any number of collectors.

use parking_lot::Mutex;
use std::collections::BTreeSet;

/// Maximum number of source ids in a log message.
const NAMES_MAX: usize = 20;

/// JVMs for which a shortage of threads was logged; a separate process is identified by its name.
static CROWDED: Mutex<BTreeSet<Option<String>>> = Mutex::new(BTreeSet::new());

/// Source ids by the state of their collectors in one JVM.
#[derive(Debug, Default)]
pub struct Report {
    /// Sources whose call started to hang since the last report.
    pub hanging: Vec<String>,
    /// Sources whose hanging call has returned.
    pub returned: Vec<String>,
    /// Sources whose next call waits for a thread.
    pub queued: Vec<String>,
    /// Whether a call has waited for a thread for too long.
    pub is_crowded: bool,
    /// Sources whose collectors occupy a thread.
    pub busy: Vec<String>,
}

impl Report {
    /// Logs the changes in a JVM with this maximum number of threads.
    pub fn log(&self, process: Option<&str>, threads_max: u64) {
        if !self.hanging.is_empty() {
            log::warn!(
                "collectors are hanging and still occupy their threads because their calls ignore \
                 interruption: {}",
                names(&self.hanging)
            );
        }
        if !self.returned.is_empty() {
            log::info!("collectors that hung have returned: {}", names(&self.returned));
        }
        let (mut crowded, process) = (CROWDED.lock(), process.map(str::to_owned));
        match (crowded.contains(&process), self.is_crowded) {
            (false, true) => {
                log::warn!("{}", self.crowd(threads_max));
                crowded.insert(process);
            }
            (true, false) => {
                log::info!("no collector is waiting for a thread anymore");
                crowded.remove(&process);
            }
            _ => {}
        }
    }

    fn crowd(&self, threads_max: u64) -> String {
        format!(
            "collectors are waiting for a thread: {}; all {threads_max} threads are occupied: {}; \
             raise jvm.collectors, or set an `interval` and a `timeout` for collectors that wait",
            names(&self.queued),
            names(&self.busy)
        )
    }
}

/// Returns the first ids, and how many more there are.
fn names(ids: &[String]) -> String {
    let (shown, rest) = ids.split_at(ids.len().min(NAMES_MAX));
    let shown = shown.join(", ");
    match rest.len() {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_few_names_and_the_number_of_the_others() {
        let ids: Vec<String> = (0..1000).map(|n| format!("id{n}")).collect();
        let (busy, queued) = ids.split_at(2);
        let report = Report { busy: busy.to_vec(), queued: queued.to_vec(), ..Report::default() };
        let text = report.crowd(2);
        assert!(text.contains("id2, id3, ") && text.contains(" id21 and 978 more;"), "{text}");
        assert!(text.contains("all 2 threads are occupied: id0, id1;"), "{text}");
        assert!(!text.contains("id22,"), "{text}");
    }
}
