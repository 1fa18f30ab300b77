//! Samples a running agent's memory use once a second.

use crate::delivered::last_number;
use crate::metrics::program::memory_bytes;
use crate::process::Program;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(1);
/// Timeout for a request to the agent.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Name of the agent's thread that measures its memory.
const GOVERNOR: &str = "memory";
const HEAP_USED: &str = "millstream_jvm_heap_used_bytes #";
const HEAP_COMMITTED: &str = "millstream_jvm_heap_committed_bytes #";
const PRESSURE_HIGH: &str = "millstream_memory_pressure{level=\"high\"} #";
const GROUPS: &str = "\"groups\":#";

/// State of the agent at one time.
#[derive(Clone, Copy, Default)]
pub struct Sample {
    /// Seconds since the start of the load.
    pub seconds: f64,
    /// Resident memory.
    pub resident_bytes: u64,
    /// Bytes of objects in the heap of the JVM; 0 without a JVM.
    pub heap_used_bytes: u64,
    /// Bytes of the heap that are backed by memory.
    pub heap_committed_bytes: u64,
    /// Whether the memory pressure was high.
    pub is_high: bool,
    /// Number of groups in the open window.
    pub groups: u64,
}

/// Results of watching one run.
pub struct Watched {
    /// Samples in the order of time.
    pub samples: Vec<Sample>,
    /// Peak resident memory.
    pub peak_bytes: u64,
    /// CPU time of the thread that measures the memory, as a percentage of a core.
    pub governor_percent: f64,
    /// The last page of metrics.
    pub metrics: String,
}

impl Watched {
    /// Returns the maximum of a value over all samples.
    pub fn most(&self, of: impl Fn(&Sample) -> u64) -> u64 {
        self.samples.iter().map(of).max().unwrap_or(0)
    }

    /// Returns a number in the last metrics that matches `pattern`.
    pub fn number(&self, pattern: &str) -> u64 {
        last_number(&self.metrics, pattern)
    }
}

/// Watches the agent with this `data_dir` for `time`.
///
/// # Errors
/// Returns an error if the agent ends, for example because the kernel kills it.
pub fn watch(program: &Program, data_dir: &Path, time: Duration) -> io::Result<Watched> {
    let begin = Instant::now();
    let governor_before = program.thread_cpu_seconds(GOVERNOR)?;
    let (mut samples, mut metrics) = (Vec::new(), String::new());
    while begin.elapsed() < time {
        program.stays_for(INTERVAL)?;
        // Without a response, the previous metrics are used again.
        metrics = page(data_dir, "/metrics").unwrap_or(metrics);
        let rules = page(data_dir, "/api/rules").unwrap_or_default();
        samples.push(Sample {
            seconds: begin.elapsed().as_secs_f64(),
            resident_bytes: memory_bytes(program.id())?[0],
            heap_used_bytes: last_number(&metrics, HEAP_USED),
            heap_committed_bytes: last_number(&metrics, HEAP_COMMITTED),
            is_high: last_number(&metrics, PRESSURE_HIGH) == 1,
            groups: last_number(&rules, GROUPS),
        });
    }
    let governor_seconds = program.thread_cpu_seconds(GOVERNOR)? - governor_before;
    Ok(Watched {
        samples,
        peak_bytes: memory_bytes(program.id())?[1],
        governor_percent: governor_seconds / begin.elapsed().as_secs_f64() * 100.0,
        metrics,
    })
}

/// Returns the response from the API over the control socket, which needs no token.
fn page(data_dir: &Path, path: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(data_dir.join("control.sock"))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}
