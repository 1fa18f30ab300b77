//! A running console with made-up values, and raw requests to it.

#![allow(dead_code, missing_docs)]

use hyper::body::Bytes;
use millstream_console::{
    AgentSnapshot, Console, ConsoleConfig, RecorderState, Sections, TapRefusal, TapRequest, start,
};
use millstream_jvm::{CollectorSnapshot, CollectorsSnapshot, JvmProcessSnapshot, JvmSnapshot};
use millstream_model::snapshot::{
    CheckpointSnapshot, ComponentSnapshot, DiskBufferSnapshot, FileSnapshot, MemorySnapshot,
    SinkProgress, Snapshot,
};
use millstream_model::{CountersSnapshot, HeldFiles, Histogram, HistogramSnapshot, OriginTotals};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

/// Number of files of the only source.
pub const FILES: u64 = 120;

pub const VERSION: &str = "1.2.3";

pub struct Fixture {
    pub console: Option<Console>,
    pub ready: Arc<AtomicBool>,
    pub dir: TempDir,
    pub runtime: Runtime,
}

impl Fixture {
    pub fn new() -> Fixture {
        Fixture::in_folder(tempfile::tempdir().unwrap(), IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    pub fn in_folder(dir: TempDir, listen: IpAddr) -> Fixture {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let ready = Arc::new(AtomicBool::new(false));
        let config = ConsoleConfig {
            listen: SocketAddr::new(listen, 0),
            data_dir: dir.path().to_path_buf(),
            version: VERSION,
            config: Arc::new(millstream_console::ConfigState::new(0x1234_5678_9abc_def0)),
            recorder: recorder_state(),
            open_tap: Arc::new(open_tap),
        };
        let console = runtime.block_on(start(config, Arc::new(snapshot), ready.clone())).unwrap();
        Fixture { console: Some(console), ready, dir, runtime }
    }

    pub fn console(&self) -> &Console {
        self.console.as_ref().unwrap()
    }

    pub fn tcp(&self) -> TcpStream {
        let port = self.console().tcp.port();
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends a request over TCP with a valid `Host` and the given header lines.
    pub fn ask(&self, path: &str, headers: &[&str]) -> Response {
        let host = format!("Host: {}", self.console().tcp);
        let headers: Vec<&str> =
            [host.as_str()].into_iter().chain(headers.iter().copied()).collect();
        exchange(self.tcp(), "GET", path, &headers)
    }

    pub fn bearer(&self) -> String {
        format!("Authorization: Bearer {}", self.console().token())
    }
}

pub fn ask_socket(socket: &Path, method: &str, path: &str, headers: &[&str]) -> Response {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    exchange(stream, method, path, headers)
}

pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Response {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Sends a request and reads to the end of the connection.
pub fn exchange(
    mut stream: impl Read + Write,
    method: &str,
    path: &str,
    headers: &[&str],
) -> Response {
    let lines: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    stream.write_all(format!("{method} {path} HTTP/1.1\r\n{lines}\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Response { status, head: head.to_lowercase(), body: body.to_owned() }
}

/// Opens a tap of `app`; each event consists of the condition and a number.
pub fn open_tap(request: TapRequest) -> Result<mpsc::Receiver<Bytes>, TapRefusal> {
    let condition = request.condition.unwrap_or_default();
    match (request.id.as_str(), condition.as_str()) {
        ("app", "bad") => Err(TapRefusal::Invalid("bad condition".to_owned())),
        ("app", _) => {
            let (lines, chunks) = mpsc::channel(2);
            tokio::spawn(async move {
                for number in 0u64.. {
                    let line = Bytes::from(format!("{condition} {number}\n"));
                    if lines.send(line).await.is_err() {
                        return;
                    }
                }
            });
            Ok(chunks)
        }
        (id, _) => Err(TapRefusal::Unknown(format!("there is no `{id}`"))),
    }
}

/// Returns the state of a recorder. The recorder need not run.
pub fn recorder_state() -> Arc<RecorderState> {
    let settings = millstream_recorder::recorder::defaults();
    Arc::new(RecorderState::new(Some("/run/a.rings".into()), 1 << 20, settings))
}

/// Returns a histogram of three windows.
fn emit_delay() -> HistogramSnapshot {
    let histogram = Histogram::default();
    [20, 300, 90_000].into_iter().for_each(|ms| histogram.add(Duration::from_millis(ms)));
    histogram.snapshot()
}

/// Returns a snapshot with every field set. The texts must be escaped wherever they appear.
pub fn snapshot() -> AgentSnapshot {
    AgentSnapshot { engine: engine(), sections: sections() }
}

fn sections() -> Sections {
    Sections {
        jvm: Some(jvm()),
        collectors: Some(collectors()),
        jvm_processes: vec![process("team", Some(7)), process("other", None)],
    }
}

fn engine() -> Snapshot {
    let counters = CountersSnapshot {
        dropped_bytes: BTreeMap::from([("held_max", 4096)]),
        held: Some(HeldFiles { files: 2, bytes: 8192, copied_bytes: 4096, bytes_max: 1 << 20 }),
        received_events: 1_000,
        received_bytes: 178_000,
        sent_events: 990,
        sent_bytes: 170_000,
        busy_seconds: 12.5,
        worker_seconds: 3.5,
        rebalances: 4,
        series: None,
        finished_files: 12,
        utilization_ratio: 1.25,
        wait_seconds: [("room", 0.5), ("retry", 3.0)].into(),
        dropped_events: [("filtered", 9), ("panic", 1)].into(),
        dropped_on_error: [].into(),
        errors: [("io", 3)].into(),
        noted_events: [("truncated", 2)].into(),
        accepted_events: 880,
        last_error: Some("no \"date\"\\".to_owned()),
        emit_delay: Some(emit_delay()),
    };
    let part = |id: &str, type_name, kind| ComponentSnapshot {
        id: id.to_owned(),
        type_name,
        kind,
        counters: counters.clone(),
        ..ComponentSnapshot::default()
    };
    let lag = |sink: &str, lag| SinkProgress {
        sink: sink.to_owned(),
        lag,
        unsettled: lag / 2,
        oldest_seconds: 0.75,
        lag_seconds: lag as f64 / 1024.0,
    };
    let totals =
        OriginTotals { disorder: 5, misfits: 6, rotations: 7, truncations: 8, long_lines: 9 };
    let source = ComponentSnapshot {
        sinks: vec![lag("out", 4096), lag("copy", 0)],
        unreadable: [("/var/log/*.txt".to_owned(), "matches no file".to_owned())].into(),
        totals: Some(totals),
        log_delay_seconds: Some(2.5),
        files: files(),
        ..part("app", "file", "source")
    };
    let disk_buffer = Some(DiskBufferSnapshot {
        bytes: 2048,
        bytes_max: 1 << 30,
        entries: 3,
        events: 40,
        oldest_seconds: 1.5,
        full_in_seconds: Some(600.0),
        damaged_entries: 1,
        error: Some("the disk buffer cannot write: disk full".to_owned()),
    });
    let out =
        ComponentSnapshot { buffer_bytes: Some(512), disk_buffer, ..part("out", "file", "sink") };
    let error = Some("disk \"full\"\nthe second line".to_owned());
    let copy =
        ComponentSnapshot { buffer_bytes: Some(0), error, ..part("copy", "blackhole", "sink") };
    let checkpoints = CheckpointSnapshot {
        error: Some("checkpoints cannot be committed: disk full".to_owned()),
        committed_seconds: 12.5,
        age_seconds: 12.5,
        errors: [("commit", 12), ("keep", 0)].into(),
    };
    Snapshot {
        checkpoints,
        uptime_seconds: 60.0,
        worker_threads: 2,
        cpu_limit: None,
        memory: MemorySnapshot {
            limit_bytes: 1 << 29,
            resident_bytes: 1 << 27,
            pressure: "low",
            times_high: 3,
            high_seconds: 1.5,
            granted_bytes: 1 << 20,
            grant_limit_bytes: 1 << 27,
            grant_bytes_max: 1 << 28,
        },
        components: vec![
            source,
            part("back\\slash\"quote\nline", "filter", "transform"),
            out,
            copy,
        ],
    }
}

fn process(name: &str, pid: Option<u32>) -> JvmProcessSnapshot {
    JvmProcessSnapshot {
        name: name.to_owned(),
        pid,
        restarts: 3,
        error: pid.is_none().then(|| "signal 9".to_owned()),
        jvm: pid.map(|_| JvmSnapshot { classes: 9, ..jvm() }),
    }
}

fn collectors() -> CollectorsSnapshot {
    let keys = CollectorSnapshot {
        component: "keys".to_owned(),
        state: "waiting",
        calls: 3,
        failures: 1,
        missed: 2,
        events: 9,
        running_seconds: None,
        last_failure: Some("connection refused".to_owned()),
    };
    CollectorsSnapshot { threads: 2, threads_max: 16, collectors: vec![keys] }
}

fn jvm() -> JvmSnapshot {
    JvmSnapshot {
        heap_used_bytes: 10,
        heap_committed_bytes: 20,
        heap_bytes_max: 30,
        non_heap_used_bytes: 40,
        metaspace_used_bytes: 30,
        collections: 5,
        requested_collections: 2,
        ignored_collections: 1,
        collection_seconds: 0.5,
        threads: 6,
        classes: 7,
    }
}

/// Returns more files than get separate metrics, all with the same path, in random order. The lag
/// of the nth file is n bytes.
fn files() -> Vec<FileSnapshot> {
    let file = |n: u64| FileSnapshot {
        held_by: None,
        file_id: format!("{n:016x}"),
        name: "/var/log/a \"b\".log".to_owned(),
        path: "/var/log/a \"b\".log.1".to_owned(),
        status: "active",
        position: 1000,
        size: 1000 + n,
        checkpoints: [("out".to_owned(), 1000), ("copy".to_owned(), 1000 + n)].into(),
        lag_bytes: n,
        lag_records: None,
        newest_log_time: Some("2026-11-21T20:29:46.123Z".to_owned()),
        log_delay_seconds: Some(2.5),
        rate_bytes_per_second: 512.0,
        totals: OriginTotals { rotations: 1, ..OriginTotals::default() },
    };
    (0..FILES).map(|n| file(n * 7 % FILES)).collect()
}
