//! Collects the information. Missing information is listed and does not stop the collection.

use super::bundle::Bundle;
use super::host;
use super::target::Target;
use crate::client::{Client, ClientError, read_token};
use crate::{checks, record};
use hyper::{Method, StatusCode};
use millstream_config::{self as config, LogTarget, Registry};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write as _};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Routes of the agent to request.
const ROUTES: &[(&str, &str)] = &[
    ("metrics.txt", "/metrics"),
    ("health.json", "/health"),
    ("ready.json", "/ready"),
    ("snapshot.json", "/api/snapshot"),
    ("files.json", "/api/files"),
    ("rules.json", "/api/rules"),
    ("diagnosis.json", "/api/diagnosis"),
    ("bottleneck.json", "/api/bottleneck"),
];

/// Maximum time for a response, and for a recording.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum run time of another program.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of bytes from the end of the log.
const LOG_BYTES_MAX: u64 = 1 << 20;

/// Message if no agent can be found.
const UNKNOWN: &str =
    "cannot find the agent because the configuration does not set data_dir; add --data-dir";

/// Fills the bundle.
pub fn collect(target: &Target, bundle: &mut Bundle) {
    bundle.add("version.txt", version());
    configuration(target, bundle);
    let client = target.client.as_ref();
    let data_dir = client.and_then(Client::data_dir);
    bundle.add("host.txt", host::facts(data_dir, target.pid));
    let of_file = data_dir.and_then(|folder| read_token(&folder.join("token")).ok());
    let given = client.and_then(Client::token).map(str::to_owned);
    let tokens = of_file.into_iter().chain(given).map(|token| token.trim().to_owned());
    bundle.hide(tokens.filter(|token| config::is_searched(token)));
    match client {
        Some(client) => answers(client, bundle),
        None => bundle.miss("api", UNKNOWN),
    }
    recording(client, target.pid.is_some() || data_dir.is_none(), bundle);
    log(target, bundle);
}

fn version() -> String {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let program = std::env::current_exe().unwrap_or_default();
    let bytes = fs::metadata(&program).map_or(0, |meta| meta.len());
    format!(
        "millstream {} ({profile}, {}, {})\n{}: {bytes} bytes\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH,
        std::env::consts::OS,
        program.display()
    )
}

fn configuration(target: &Target, bundle: &mut Bundle) {
    if let Some(why) = target.without_variables() {
        let text = "values of variables that are not set here are not hidden";
        bundle.miss("environment of the agent", format!("{why}; {text}"));
    }
    let paths = match &target.configuration {
        Ok(paths) => paths,
        Err(why) => {
            bundle.miss("config", why);
            return bundle.miss("validate.txt", "the same");
        }
    };
    let redacted = config::redacted(paths, &Registry, &|name| target.variable(name));
    bundle.hide(redacted.secrets);
    for (number, (path, content)) in redacted.files.into_iter().enumerate() {
        let base = Path::new(&path).file_stem().unwrap_or_default().to_string_lossy();
        let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let base: String = base.chars().map(safe).take(60).collect();
        let name = format!("config/{}-{base}.json", number + 1);
        let text = content.map(|json| {
            let json = serde_json::json!({ "file": path, "content": json });
            serde_json::to_vec_pretty(&json).unwrap_or_default()
        });
        bundle.add_if(&name, text);
    }
    match target.pid {
        Some(_) => bundle.add("validate.txt", checked(target, paths)),
        None => bundle.add_if("validate.txt", validated(paths)),
    }
}

/// Checks the configuration with the variables of the agent. Compiles no operator, so that no code
/// runs that the agent's user could choose.
fn checked(target: &Target, paths: &[PathBuf]) -> String {
    let loaded = config::load(paths, &Registry, &|name| target.variable(name));
    let faults = match &loaded {
        Ok(config) => checks::faults(config),
        Err(faults) => faults.clone(),
    };
    let warnings = loaded.as_ref().map_or(&[][..], |config| &config.warnings);
    let refused = loaded.as_ref().map_or(&[][..], |config| &config.refused);
    let mut text = String::new();
    for fault in faults.iter().chain(refused) {
        let _ = writeln!(text, "{fault}");
    }
    for warning in warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    if let Ok(config) = &loaded
        && faults.is_empty()
        && refused.is_empty()
    {
        let _ = writeln!(text, "configuration is valid: {} components", config.components.len());
    }
    let here = std::env::current_dir().unwrap_or_default();
    if target.folder.as_ref().is_some_and(|folder| *folder != here) {
        let _ = writeln!(text, "(relative paths start at {})", here.display());
    }
    text.push_str("(checked with the agent's variables; operators are not compiled)\n");
    text
}

/// Returns the output of `millstream validate`.
fn validated(paths: &[PathBuf]) -> Result<Vec<u8>, String> {
    let mut arguments = vec![OsString::from("validate")];
    paths.iter().for_each(|path| arguments.extend(["-c".into(), path.clone().into()]));
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    output_of(&program, &arguments)
}

/// Runs a program; returns its output, errors and status.
fn output_of(program: &Path, arguments: &[OsString]) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", program.display());
    let (mut reader, writer) = std::io::pipe().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command.stdout(writer.try_clone().map_err(failed)?).stderr(writer);
    let mut child = command.spawn().map_err(failed)?;
    // Close the write ends of the pipe that the command owns, so that reading ends.
    drop(command);
    let read = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = reader.by_ref().take(LOG_BYTES_MAX).read_to_end(&mut bytes);
        if std::io::copy(&mut reader, &mut std::io::sink()).is_ok_and(|rest| rest > 0) {
            keep_whole_lines(&mut bytes);
        }
        bytes
    });
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) => break status.to_string(),
            None if begun.elapsed() > PROGRAM_TIMEOUT => {
                let _ = child.kill();
                let _ = child.wait();
                break format!("killed after {PROGRAM_TIMEOUT:?}");
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let mut bytes = read.join().unwrap_or_default();
    bytes.extend(format!("({status})\n").bytes());
    Ok(bytes)
}

fn answers(client: &Client, bundle: &mut Bundle) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return bundle.miss("api", "no async runtime") };
    for (name, path) in ROUTES {
        let asked = async {
            let answer = client.request(Method::GET, path, Vec::new());
            timeout(ANSWER_TIMEOUT, answer).await.map_err(|_| "no response in time".to_owned())
        };
        let answer = runtime.block_on(asked);
        let answer = answer.and_then(|answer| match answer {
            Ok(body) => Ok(body.to_vec()),
            // An agent that is not ready includes the reason.
            Err(ClientError::Refused(StatusCode::SERVICE_UNAVAILABLE, body)) => Ok(body.into()),
            Err(error) => Err(error.to_string()),
        });
        bundle.add_if(&format!("api/{name}"), answer);
    }
}

/// Adds the recording of the agent, or the recording of its last run if no agent is running.
fn recording(client: Option<&Client>, is_live: bool, bundle: &mut Bundle) {
    let Some(client) = client else {
        return bundle.miss("recording.jfr", "cannot find the agent");
    };
    let written = written_to(|path| match client.data_dir() {
        Some(data_dir) if !is_live => record::dump_crash(data_dir, path),
        _ => dump(client, path),
    });
    bundle.add_if("recording.jfr", written);
}

/// Returns the bytes that `write` writes to a path. The path is a pipe, so that no file is left if
/// a signal kills the command.
fn written_to(write: impl FnOnce(&Path) -> Result<(), String>) -> Result<Vec<u8>, String> {
    let (mut reader, writer) = std::io::pipe().map_err(|error| error.to_string())?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", writer.as_raw_fd()));
    let read = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map(|_| bytes)
    });
    let written = write(&path);
    // The thread reads until both write ends are closed.
    drop(writer);
    let bytes = read.join().map_err(|_| "cannot read the recording".to_owned())?;
    written?;
    bytes.map_err(|error| error.to_string())
}

fn dump(client: &Client, path: &Path) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let dumped = timeout(ANSWER_TIMEOUT, record::dump(client, path)).await;
        dumped.map_err(|_| "no response in time".to_owned())?
    })
}

/// Adds the end of the agent's log: from the file in the configuration, from the file of its
/// standard error, or from the journal.
fn log(target: &Target, bundle: &mut Bundle) {
    let pid = target.pid;
    let paths = target.configuration.as_ref().ok();
    let loaded = paths.map(|paths| config::load(paths, &Registry, &|name| target.variable(name)));
    let file = match loaded {
        Some(Ok(config::Config { globals, .. })) => match globals.log.to {
            LogTarget::File(path) => Some(target.path(path)),
            LogTarget::Stderr => None,
        },
        _ => None,
    };
    let of_process = pid.and_then(|pid| fs::read_link(format!("/proc/{pid}/fd/2")).ok());
    let file = file.or(of_process.filter(|path| path.is_file()));
    let text = match (&file, pid) {
        (Some(path), _) => end_of(path).map_err(|error| format!("{}: {error}", path.display())),
        (None, Some(pid)) => journal(pid),
        (None, None) => {
            Err("log.to is stderr and no agent is running; add the log yourself".to_owned())
        }
    };
    bundle.add_if("log.txt", text);
}

/// Returns the end of a file, starting at the beginning of a line, because the remainder of a
/// truncated secret would not be found.
fn end_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let skipped = file.metadata()?.len().saturating_sub(LOG_BYTES_MAX);
    // The previous byte shows whether a line begins here.
    file.seek(SeekFrom::Start(skipped.saturating_sub(1)))?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if skipped == 0 {
        return Ok(bytes);
    }
    let start = memchr::memchr(b'\n', &bytes).map_or(bytes.len(), |end| end + 1);
    let mut text = b"(earlier lines are omitted)\n".to_vec();
    text.write_all(&bytes[start..])?;
    Ok(text)
}

/// Removes the last line if it is incomplete, because the beginning of a secret would not be found.
fn keep_whole_lines(bytes: &mut Vec<u8>) {
    let end = memchr::memrchr(b'\n', bytes).map_or(0, |last| last + 1);
    bytes.truncate(end);
}

fn journal(pid: i32) -> Result<Vec<u8>, String> {
    let unit = format!("_PID={pid}");
    let arguments = [unit.as_str(), "-n", "5000", "--no-pager", "-o", "cat"].map(OsString::from);
    let text = output_of(Path::new("journalctl"), &arguments).map_err(|error| {
        format!("the agent's standard error is not a file, and reading the journal failed: {error}")
    })?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_has_whole_lines_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let tail = "x".repeat(LOG_BYTES_MAX as usize - 5);
        let rest = format!("{tail}\n");
        for (log, expected) in [
            ("one\ntwo".to_owned(), "one\ntwo".to_owned()),
            (format!("key=hunter2\n{rest}"), format!("(earlier lines are omitted)\n{rest}")),
            (format!("a\nbcd\n{rest}"), format!("(earlier lines are omitted)\nbcd\n{rest}")),
            (format!("hunter2{rest}"), "(earlier lines are omitted)\n".to_owned()),
            (format!("{rest}{tail}"), format!("(earlier lines are omitted)\n{tail}")),
        ] {
            fs::write(&path, &log).unwrap();
            let end = String::from_utf8(end_of(&path).unwrap()).unwrap();
            assert!(end == expected, "{} of {} bytes", end.len(), log.len());
        }
    }

    #[test]
    fn the_output_of_a_program_is_cut_between_lines() {
        let script = "printf 'a\\n'; head -c 2000000 /dev/zero | tr '\\0' x";
        let output = output_of(Path::new("sh"), &["-c".into(), script.into()]).unwrap();
        assert_eq!(String::from_utf8_lossy(&output), "a\n(exit status: 0)\n");
    }

    #[test]
    fn what_is_written_to_a_path_needs_no_file() {
        let bytes = vec![7; 1 << 20];
        let write = |path: &Path| {
            let mut output = crate::output::Output::create(path, false).unwrap();
            output.write_all(&bytes).unwrap();
            output.finish().map(drop).map_err(|error| error.to_string())
        };
        assert!(written_to(write).unwrap() == bytes);
        assert_eq!(written_to(|_| Err("why".to_owned())).unwrap_err(), "why");
    }
}
