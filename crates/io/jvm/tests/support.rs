//! Builds the jars, reruns this binary with a JVM, and creates batches.

use millstream_columns::{Cell, Kind};
use millstream_jvm::{
    Answer, CallError, Collector, CollectorSpec, CollectorsStats, ColumnPlace, Deliver, HeapSize,
    Input, InputColumn, InputSegment, Jvm, JvmOptions, JvmProcess, JvmStats, Operator,
    OperatorSpec, ProcessOptions, RegisterError,
};
use std::ffi::{c_int, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::ptr;
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

/// Environment variable with the Java home, for a process that runs ignored tests.
const HOME: &str = "MILLSTREAM_TEST_JAVA_HOME";
/// Environment variable with additional JVM options of such a process, one per line.
const OPTIONS: &str = "MILLSTREAM_TEST_JVM_OPTIONS";
/// Environment variable that is set if the JVM of such a process runs in another process.
const IN_PROCESS: &str = "MILLSTREAM_TEST_IN_PROCESS";
/// Environment variable with the jar that contains the operator `Commands`.
const OPERATORS: &str = "MILLSTREAM_TEST_OPERATORS";

const HEAP_BYTES: u64 = 96 << 20;

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the homes of all suitable Java versions, without duplicates.
pub fn homes() -> Vec<PathBuf> {
    let entries = fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    let mut homes: Vec<PathBuf> = entries
        .filter_map(|entry| fs::canonicalize(entry.path()).ok())
        .filter(|home| is_suitable(home))
        .collect();
    homes.sort();
    homes.dedup();
    assert!(!homes.is_empty(), "no Java 17 or later in /usr/lib/jvm");
    homes
}

fn is_suitable(home: &Path) -> bool {
    let release = fs::read_to_string(home.join("release")).unwrap_or_default();
    let version = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""));
    let feature = version.and_then(|version| version.split(['.', '"']).next()?.parse::<u32>().ok());
    home.join("lib/server/libjvm.so").is_file() && feature.is_some_and(|feature| feature >= 17)
}

/// Returns the folder `java`; builds it if a source has changed.
fn java() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let script = folder().join("../../../scripts/java");
        let output = Command::new(script).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
    })
}

/// Returns the jar with the operator runtime.
pub fn runtime() -> PathBuf {
    java().join("operators/target/millstream-operators.jar")
}

/// Returns the jar with the operator `Commands`.
fn operators() -> PathBuf {
    java().join("test-operators/target/millstream-test-operators.jar")
}

/// The location of the JVM in ignored tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the test process.
    Inside,
    /// In a separate process.
    Process,
}

pub const MODES: [Mode; 2] = [Mode::Inside, Mode::Process];

/// Runs the ignored tests whose name contains `filter` in a process with a JVM.
pub fn child(home: &Path, filter: &str, threads: usize, options: &[&str]) -> Output {
    child_in(Mode::Inside, home, filter, threads, options)
}

/// Runs the ignored tests whose name contains `filter` in a process with the JVM at this location.
pub fn child_in(mode: Mode, home: &Path, filter: &str, threads: usize, options: &[&str]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([filter, "--ignored", "--nocapture", "--test-threads"]).arg(threads.to_string());
    command.env(HOME, home).env(OPTIONS, options.join("\n")).env(OPERATORS, operators());
    if mode == Mode::Process {
        command.env(IN_PROCESS, "1");
    }
    command.env_remove("JAVA_TOOL_OPTIONS").output().unwrap()
}

/// Panics if a child failed or ran no test. Returns its output.
pub fn check(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let has_run = text.contains("test result: ok") && !text.contains(" 0 passed");
    assert!(output.status.success() && has_run, "{}\n{text}", output.status);
    text.into_owned()
}

/// Returns the JVM options of a child.
pub fn options() -> JvmOptions {
    let options = std::env::var(OPTIONS).unwrap_or_default();
    JvmOptions {
        home: Some(PathBuf::from(std::env::var_os(HOME).expect("started by `every_java`"))),
        heap_bytes: HEAP_BYTES,
        options: options.lines().map(str::to_owned).collect(),
        threads: 4,
        collectors: 4,
        jar: Some(runtime()),
        allow_root: true,
        owns_process: false,
    }
}

/// A JVM at either location.
pub enum Java {
    Inside(Jvm),
    Process(JvmProcess),
}

impl Java {
    pub fn register(&self, spec: &OperatorSpec) -> Result<Operator, RegisterError> {
        match self {
            Java::Inside(jvm) => jvm.register(spec),
            Java::Process(process) => process.register(spec),
        }
    }

    pub fn stats(&self) -> Result<JvmStats, CallError> {
        match self {
            Java::Inside(jvm) => jvm.stats(),
            Java::Process(process) => process.stats(),
        }
    }

    pub fn tighten_heap(&self) -> Result<HeapSize, CallError> {
        match self {
            Java::Inside(jvm) => jvm.tighten_heap(),
            Java::Process(process) => process.tighten_heap(),
        }
    }

    pub fn relax_heap(&self) -> Result<HeapSize, CallError> {
        match self {
            Java::Inside(jvm) => jvm.relax_heap(),
            Java::Process(process) => process.relax_heap(),
        }
    }

    pub fn collector(
        &self,
        spec: &CollectorSpec,
        deliver: Arc<dyn Deliver>,
    ) -> Result<Collector, RegisterError> {
        match self {
            Java::Inside(jvm) => jvm.collector(spec, deliver),
            Java::Process(process) => process.collector(spec, deliver),
        }
    }

    pub fn collector_stats(&self) -> Result<CollectorsStats, CallError> {
        match self {
            Java::Inside(jvm) => jvm.collector_stats(),
            Java::Process(process) => process.collector_stats(),
        }
    }

    pub fn noop(&self, count: u64) -> Result<(), CallError> {
        match self {
            Java::Inside(jvm) => jvm.noop(count),
            Java::Process(process) => process.noop(count),
        }
    }
}

/// Returns the location of the JVM in this process.
pub fn mode() -> Mode {
    if std::env::var_os(IN_PROCESS).is_some() { Mode::Process } else { Mode::Inside }
}

/// Returns the options of a JVM in a separate process, which runs this binary again.
pub fn process_options(jvm: JvmOptions) -> ProcessOptions {
    let arguments = ["process::serves", "--exact", "--ignored", "--nocapture"];
    let command = (std::env::current_exe().unwrap(), arguments.map(str::to_owned).to_vec());
    ProcessOptions { command, ..ProcessOptions::new(jvm) }
}

/// Returns the JVM of a child.
pub fn jvm() -> Java {
    static KEPT: OnceLock<JvmProcess> = OnceLock::new();
    match mode() {
        Mode::Inside => {
            let jvm = Jvm::start(&options()).unwrap();
            end_before_destructors();
            Java::Inside(jvm)
        }
        Mode::Process => {
            let open = || JvmProcess::open("test", &process_options(options())).unwrap();
            Java::Process(KEPT.get_or_init(open).clone())
        }
    }
}

/// Makes this process exit like the agent, without running the destructors of the JVM's library:
/// threads of the JVM still run during these destructors, and may crash. The function that is
/// registered last runs first.
fn end_before_destructors() {
    extern "C" fn end(code: c_int, _: *mut c_void) {
        millstream_jvm::end_process(code as u8);
    }
    unsafe extern "C" {
        fn on_exit(end: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    }
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the function is valid for the lifetime of the process, and ignores its argument.
        assert_eq!(unsafe { on_exit(end, ptr::null_mut()) }, 0);
    });
}

/// Returns the specification of the test operator.
pub fn spec() -> OperatorSpec {
    OperatorSpec {
        component: "test".to_owned(),
        language: "class".to_owned(),
        jar: Some(PathBuf::from(std::env::var_os(OPERATORS).expect("started by `every_java`"))),
        class_name: Some("test.Commands".to_owned()),
        ..OperatorSpec::default()
    }
}

/// Returns a new test operator.
pub fn operator() -> Operator {
    jvm().register(&spec()).unwrap()
}

/// Events that are the input of a call.
pub struct Batch {
    pub block: Vec<u8>,
    pub columns: Vec<(String, Vec<Cell>, Vec<u8>)>,
    pub selected: Vec<u32>,
    pub times: Option<Vec<i64>>,
    pub deadline: Option<Duration>,
    pub output_bytes_max: usize,
    rows: usize,
}

/// Values that are the same in every row of a batch.
const CONSTANTS: &[(&str, &str)] = &[("env", "production"), ("meta.host", "h1")];
/// 2026-01-02T03:04:05Z.
const READ_NS: i64 = 1_767_323_045_000_000_000;

/// Maximum total size, in bytes, of the values in an answer, more than any test needs.
const OUTPUT_BYTES_MAX: usize = 1 << 30;

impl Batch {
    /// Creates events with these messages. All rows are selected.
    pub fn new(messages: &[&str]) -> Batch {
        let rows = messages.len();
        let mut batch = Batch {
            block: b"|".to_vec(),
            columns: Vec::new(),
            selected: (0..rows as u32).collect(),
            times: None,
            deadline: None,
            output_bytes_max: OUTPUT_BYTES_MAX,
            rows,
        };
        let values: Vec<(Kind, &[u8])> =
            messages.iter().map(|message| (Kind::Text, message.as_bytes())).collect();
        batch.block_column("message", &values);
        batch
    }

    /// Adds a column whose values are in the block.
    pub fn block_column(&mut self, name: &str, values: &[(Kind, &[u8])]) {
        let mut cells = Vec::new();
        for (kind, bytes) in values {
            cells.push(
                match matches!(kind, Kind::Null | Kind::False | Kind::True | Kind::Absent) {
                    true => Cell::constant(*kind),
                    false => Cell::new(*kind, self.block.len(), bytes.len()),
                },
            );
            self.block.extend_from_slice(bytes);
        }
        self.columns.push((name.to_owned(), cells, Vec::new()));
    }

    /// Adds a text column whose values are in a separate buffer.
    pub fn own_column(&mut self, name: &str, values: &[&[u8]]) {
        let (mut cells, mut own) = (Vec::new(), b"|".to_vec());
        for bytes in values {
            cells.push(Cell::own(Kind::Text, own.len(), bytes.len()));
            own.extend_from_slice(bytes);
        }
        self.columns.push((name.to_owned(), cells, own));
    }

    /// Calls an operator with the batch.
    pub fn call(&self, operator: &Operator) -> Answer {
        self.try_call(operator).unwrap()
    }

    /// Calls an operator with the batch, and returns any error.
    pub fn try_call(&self, operator: &Operator) -> Result<Answer, CallError> {
        let columns: Vec<InputColumn<'_>> = self
            .columns
            .iter()
            .map(|(name, cells, own)| InputColumn { name, cells, own })
            .collect();
        let segments = [InputSegment { first_row: 0, rows: self.rows, constants: CONSTANTS }];
        operator.call(&Input {
            block: &self.block,
            rows: self.rows,
            selected: &self.selected,
            columns: &columns,
            times: self.times.as_deref(),
            read_ns: READ_NS,
            segments: &segments,
            output_bytes_max: self.output_bytes_max,
            deadline: self.deadline,
        })
    }

    /// Returns the value of a row in an answer, or its value in the batch if the column was not
    /// changed.
    pub fn value(&self, answer: &Answer, name: &str, row: usize) -> (Kind, Vec<u8>) {
        let is_column = |place: &ColumnPlace| match place {
            ColumnPlace::Existing(index) => self.columns[*index].0 == name,
            ColumnPlace::New(new) => &**new == name,
        };
        let changed = answer.columns.iter().find(|column| is_column(&column.place));
        let (cell, own) = match changed {
            Some(column) => (column.cells[row], &answer.buffer[..]),
            None => {
                let (_, cells, own) =
                    self.columns.iter().find(|(known, ..)| known == name).expect(name);
                (cells[row], &own[..])
            }
        };
        let buffer = if cell.is_own() { own } else { &self.block };
        (cell.kind(), buffer[cell.start()..cell.start() + cell.len()].to_vec())
    }

    /// Returns the text of a row like [`Batch::value`].
    pub fn text(&self, answer: &Answer, name: &str, row: usize) -> String {
        let (kind, bytes) = self.value(answer, name, row);
        assert_eq!(kind, Kind::Text, "{name} of row {row}");
        String::from_utf8(bytes).unwrap()
    }
}
