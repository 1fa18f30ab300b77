//! The options for a JVM, and the JVM's command-line arguments.

use crate::error::StartError;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Default heap size in bytes.
const HEAP_BYTES_DEFAULT: u64 = 256 << 20;

/// Default number of threads for collectors.
pub const COLLECTORS_DEFAULT: usize = 16;

/// Initial heap size in bytes. The heap grows on demand.
const HEAP_INITIAL_BYTES: u64 = 16 << 20;

/// Stack size of a Java thread in bytes, for JVM threads and collector threads. Operators run on
/// the agent's threads.
pub const STACK_BYTES: u64 = 512 << 10;

/// Maximum bytes for classes. Groovy takes 40 MiB, and each script about 100 KiB.
pub const METASPACE_BYTES: u64 = 96 << 20;

/// Maximum bytes for compiled code.
pub const CODE_CACHE_BYTES: u64 = 48 << 20;

/// Maximum bytes for direct buffers, for operators that read files or sockets.
pub const DIRECT_BYTES: u64 = 16 << 20;

/// First Java versions that warn unless the options permit native access, and memory access by
/// address.
const NATIVE_ACCESS_VERSION: u32 = 22;
const MEMORY_ACCESS_VERSION: u32 = 23;

/// The options for a JVM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JvmOptions {
    /// Java home; `None` to search for it.
    pub home: Option<PathBuf>,
    /// Maximum heap size in bytes.
    pub heap_bytes: u64,
    /// Additional JVM options.
    pub options: Vec<String>,
    /// Number of threads that call operators.
    pub threads: usize,
    /// Number of threads that call collectors.
    pub collectors: usize,
    /// Path of the jar with the operators' runtime; `None` to search next to the program.
    pub jar: Option<PathBuf>,
    /// Whether the JVM may start in a process that runs as root.
    pub allow_root: bool,
    /// Whether the process has no other task, so that the JVM may end the process.
    pub owns_process: bool,
}

impl Default for JvmOptions {
    fn default() -> JvmOptions {
        JvmOptions {
            home: None,
            heap_bytes: HEAP_BYTES_DEFAULT,
            options: Vec::new(),
            threads: 1,
            collectors: COLLECTORS_DEFAULT,
            jar: None,
            allow_root: false,
            owns_process: false,
        }
    }
}

/// Prefixes of the JVM options that would break the agent, each with advice.
const REFUSED: &[(&str, &str)] = &[
    ("-Djava.class.path=", CLASS_PATH),
    ("-cp", CLASS_PATH),
    ("-classpath", CLASS_PATH),
    ("--class-path", CLASS_PATH),
    ("-Xbootclasspath:", "the JVM needs its own classes; use -Xbootclasspath/a: to add classes"),
    ("-Xmx", HEAP),
    ("-XX:MaxHeapSize=", HEAP),
    ("-XX:MaxRAM", HEAP),
    ("-Xms", HEAP_INITIAL),
    ("-XX:InitialHeapSize=", HEAP_INITIAL),
    ("-XX:InitialRAMPercentage=", HEAP_INITIAL),
    ("-XX:-ReduceSignalUsage", "the agent handles the signals of the process"),
    ("-XX:+ExitOnOutOfMemoryError", ENDS_AGENT),
    ("-XX:+CrashOnOutOfMemoryError", ENDS_AGENT),
    ("-javaagent:", AGENT),
    ("-agentpath:", AGENT),
    ("-agentlib:", AGENT),
    ("-XX:Flags=", ONE_BY_ONE),
    ("-XX:VMOptionsFile=", ONE_BY_ONE),
    ("@", ONE_BY_ONE),
    ("-jar", "only JVM options are possible here, not a program"),
    ("-version", "the version is in the agent's log"),
    ("--version", "the version is in the agent's log"),
    ("-Xinternalversion", "the version is in the agent's log"),
    ("-Xlog:help", "this prints text to the agent's output"),
    ("-help", "this prints text and exits the process"),
    ("--help", "this prints text and exits the process"),
];

const CLASS_PATH: &str = "name the jar of an operator in its transform";
const HEAP: &str = "use `heap` instead";
const HEAP_INITIAL: &str = "the heap grows when necessary; `heap` is its maximum size";
const ENDS_AGENT: &str = "the agent would exit if an operator ran out of memory";
const AGENT: &str = "the process would exit if the Java agent could not be loaded";
const ONE_BY_ONE: &str = "use the options themselves";

impl JvmOptions {
    /// Checks the options without starting a JVM.
    ///
    /// # Errors
    /// Returns an error if a JVM option would break the agent, or is malformed.
    pub fn check(&self) -> Result<(), StartError> {
        let advice = |option: &String| {
            let advice =
                advice(option).filter(|advice| !self.owns_process || *advice != ENDS_AGENT)?;
            Some(StartError::Option { option: option.clone(), advice: advice.to_owned() })
        };
        self.options.iter().find_map(advice).map_or(Ok(()), Err)
    }

    /// Returns the arguments for a JVM with this version.
    pub(crate) fn arguments(&self, jar: &Path, version: u32) -> Vec<String> {
        let initial = HEAP_INITIAL_BYTES.min(self.heap_bytes);
        let mut arguments = vec![
            format!("-Djava.class.path={}", jar.display()),
            // The agent, not the JVM, handles the process's signals.
            "-Xrs".to_owned(),
            format!("-Xmx{}", self.heap_bytes),
            format!("-Xms{initial}"),
            format!("-Xss{STACK_BYTES}"),
            format!("-XX:MaxMetaspaceSize={METASPACE_BYTES}"),
            format!("-XX:ReservedCodeCacheSize={CODE_CACHE_BYTES}"),
            format!("-XX:MaxDirectMemorySize={DIRECT_BYTES}"),
            // This disables a file with counters in /tmp, to which the JVM writes during each
            // collection.
            "-XX:-UsePerfData".to_owned(),
            // By default, only the fourth collection in a row returns all memory to the system.
            "-XX:-ShrinkHeapInSteps".to_owned(),
            "-Dfile.encoding=UTF-8".to_owned(),
            "-Djava.awt.headless=true".to_owned(),
        ];
        if !self.options.iter().any(|option| is_collector(option)) {
            arguments.push("-XX:+UseSerialGC".to_owned());
        }
        if self.options.iter().any(|option| option == "-XX:+UseZGC") {
            // ZGC returns memory that has been unused for this time; the default is five minutes.
            arguments.push("-XX:ZUncommitDelay=1".to_owned());
        }
        if version >= NATIVE_ACCESS_VERSION {
            arguments.push("--enable-native-access=ALL-UNNAMED".to_owned());
        }
        if version >= MEMORY_ACCESS_VERSION {
            arguments.push("--sun-misc-unsafe-memory-access=allow".to_owned());
        }
        arguments.extend(self.options.iter().cloned());
        arguments
    }

    /// Returns the size that the options set last for this option, such as `-XX:MaxMetaspaceSize=`;
    /// `None` if they do not set it.
    pub(crate) fn size(&self, name: &str) -> Option<u64> {
        self.options.iter().rev().find_map(|option| size(option.strip_prefix(name)?))
    }

    /// Returns whether the options select a garbage collector other than the serial one.
    pub(crate) fn has_concurrent_collector(&self) -> bool {
        let is_other = |option: &String| is_collector(option) && option != "-XX:+UseSerialGC";
        self.options.iter().any(is_other)
    }
}

/// Returns the advice on what to do instead of using an option; `None` if the option can be used.
fn advice(option: &str) -> Option<&'static str> {
    let refused = REFUSED.iter().find(|(start, _)| option.starts_with(start));
    refused.map(|(_, advice)| *advice).or_else(|| malformed(option))
}

fn malformed(option: &str) -> Option<&'static str> {
    let is_property = option.starts_with("-D");
    if !option.starts_with('-') {
        return Some("an option begins with -");
    }
    if option.contains(['\0', '\n']) {
        return Some("it contains a control character");
    }
    let is_double = option.starts_with("--") && option.contains(' ');
    match (is_double, !is_property && option.contains(char::is_whitespace)) {
        (true, _) => {
            Some("use = instead of the space, as in --add-opens=MODULE/PACKAGE=ALL-UNNAMED")
        }
        (_, true) => Some("make each option a separate list entry"),
        _ => None,
    }
}

fn is_collector(option: &str) -> bool {
    option.starts_with("-XX:+Use") && option.ends_with("GC")
}

/// Parses a size as the JVM does, such as `96m`.
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(list: &[&str]) -> JvmOptions {
        let options = list.iter().map(|option| (*option).to_owned()).collect();
        JvmOptions { options, ..JvmOptions::default() }
    }

    #[test]
    fn options_that_would_break_the_agent_are_refused_with_advice() {
        for (option, advice) in [
            ("-Djava.class.path=/x.jar", "name the jar"),
            ("-cp", "name the jar"),
            ("-Xmx1g", "`heap`"),
            ("-Xms1g", "`heap`"),
            ("-XX:MaxRAMPercentage=50", "`heap`"),
            ("-XX:+ExitOnOutOfMemoryError", "agent would exit"),
            ("-jar", "not a program"),
            ("-javaagent:/a.jar", "process would exit"),
            ("-XX:Flags=x", "the options themselves"),
            ("@file", "the options themselves"),
            ("Xint", "begins with -"),
            ("vfprintf", "begins with -"),
            ("-Xint -Xcheck:jni", "a separate list entry"),
            ("--add-opens java.base/java.lang=ALL-UNNAMED", "= instead of the space"),
            ("-Xlog:help", "prints text"),
            ("-Da=b\0", "control character"),
        ] {
            let error = options(&["-Xint", option]).check().unwrap_err().to_string();
            assert!(error.contains(advice) && error.contains(option), "{error}");
        }
    }

    #[test]
    fn other_options_are_passed_behind_ours() {
        let options = options(&[
            "-Xint",
            "-Dname=two words",
            "-XX:+UseG1GC",
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            "-verbose:gc",
        ]);
        options.check().unwrap();
        let arguments = options.arguments(Path::new("/o.jar"), 17);
        assert!(arguments.ends_with(&options.options));
        assert!(arguments.contains(&"-Djava.class.path=/o.jar".to_owned()));
        assert!(!arguments.contains(&"-XX:+UseSerialGC".to_owned()), "the user chose a collector");
        assert!(options.has_concurrent_collector());
    }

    #[test]
    fn warnings_of_later_versions_are_turned_off() {
        let has = |version, part: &str| {
            let arguments = JvmOptions::default().arguments(Path::new("/o.jar"), version);
            arguments.iter().any(|argument| argument.contains(part))
        };
        assert!(!has(17, "native-access") && !has(21, "native-access") && has(22, "native-access"));
        assert!(!has(22, "unsafe-memory") && has(25, "unsafe-memory"));
        assert!(has(17, "UseSerialGC"));
    }

    #[test]
    fn sizes_are_parsed_as_the_jvm_does() {
        let sizes = ["96m", "1G", "4096", "1k", "x", "", "1mb", "99999999999t"].map(size);
        assert_eq!(
            sizes,
            [Some(96 << 20), Some(1 << 30), Some(4096), Some(1024), None, None, None, None]
        );
        let options = options(&["-XX:MaxMetaspaceSize=1m", "-XX:MaxMetaspaceSize=2m"]);
        assert_eq!(options.size("-XX:MaxMetaspaceSize="), Some(2 << 20), "the last one counts");
    }
}
