//! The attach mechanism of HotSpot: a command to a JVM over the socket that it listens on.
//!
//! A JVM starts to listen after it receives SIGQUIT while a file `.attach_pidPID` is in its working
//! directory or in `/tmp`. Its socket is `/tmp/.java_pidPID`, in the mount namespace of the JVM and
//! with its process id in its process namespace. A command consists of the protocol version, the
//! name, and three arguments, each terminated by a zero byte. The response is a number on a line,
//! followed by text. The protocol is defined by `attachListener_posix.cpp` in OpenJDK.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Maximum time for a JVM to listen, and to load the agent.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between checks for the socket.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum size of an argument that a JVM accepts, in bytes.
const ARGUMENT_BYTES_MAX: usize = 1024;

/// Maximum number of bytes to read from a response.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// The property that the agent sets.
const STARTED: &str = "millstream.javaagent.started=true";

/// Version of the protocol.
const PROTOCOL: &str = "1";

/// The reason why an agent was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The process does not exist, or is not a JVM.
    #[error("{0}")]
    NotAJvm(&'static str),
    /// A file of the process may not be read or written.
    #[error(
        "permission denied: {}; run the command as the same user as the JVM, or as root with \
         CAP_SYS_PTRACE",
        .0.display()
    )]
    Permission(PathBuf),
    /// The JVM has already loaded the agent.
    #[error("it already has the Java agent, whose options stay until the JVM exits")]
    Loaded,
    /// The process does not see the jar.
    #[error(
        "the JVM cannot see {}; copy the jar into its container, and pass the path in the container \
         with --jar",
        .0.display()
    )]
    NoJar(PathBuf),
    /// The command line is wrong.
    #[error("{0}")]
    Usage(String),
    /// The JVM did not start listening in time.
    #[error(
        "the JVM was not listening after {} s; it is either stopped or running with \
         -XX:+DisableAttachMechanism; start it with -javaagent instead",
        TIMEOUT.as_secs()
    )]
    Refused,
    /// The JVM listens, but did not respond in time.
    #[error(
        "the JVM did not respond within {} s; it is either stopped or hanging",
        TIMEOUT.as_secs()
    )]
    Silent,
    /// The process exited meanwhile.
    #[error("the process has exited")]
    Ended,
    /// The JVM did not load the agent and returned this response.
    #[error("the JVM responded: {0}")]
    Answer(String),
    /// The system returned this error.
    #[error("{0}")]
    Io(io::Error),
}

impl From<io::Error> for AttachError {
    fn from(error: io::Error) -> AttachError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => AttachError::Silent,
            _ => AttachError::Io(error),
        }
    }
}

/// Returns the error for one of the process's files.
fn of_file(path: &Path, error: io::Error) -> AttachError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => AttachError::Permission(path.to_owned()),
        _ => AttachError::Io(error),
    }
}

/// A running JVM.
pub struct Target {
    pid: Pid,
    /// Folder of the process in `/proc`.
    proc: PathBuf,
    /// Process id in the namespace of the process.
    own_pid: String,
}

impl Target {
    /// Finds a JVM.
    ///
    /// # Errors
    /// Returns an error if the process does not exist, is not a JVM, or belongs to another user.
    /// The signal would kill a process that is not a JVM.
    pub fn open(pid: i32) -> Result<Target, AttachError> {
        let no_process = AttachError::NotAJvm("there is no such process");
        let Some(pid) = Pid::from_raw(pid) else { return Err(no_process) };
        let proc = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
        let Ok(status) = fs::read_to_string(proc.join("status")) else { return Err(no_process) };
        let maps = proc.join("maps");
        let maps = fs::read(&maps).map_err(|error| of_file(&maps, error))?;
        if !String::from_utf8_lossy(&maps).contains("/libjvm.so") {
            return Err(AttachError::NotAJvm(
                "it is not a JVM, because it has not loaded libjvm.so",
            ));
        }
        if !catches_quit(&status) {
            return Err(AttachError::NotAJvm(
                "the JVM does not handle SIGQUIT; try again if it is starting; attaching is \
                 impossible with -Xrs",
            ));
        }
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let own_pid = line.and_then(|ids| ids.split_ascii_whitespace().last());
        let own_pid = own_pid.map_or_else(|| pid.as_raw_nonzero().to_string(), str::to_owned);
        Ok(Target { pid, proc, own_pid })
    }

    /// Loads an agent.
    ///
    /// # Errors
    /// Returns an error if the agent cannot be loaded (see [`AttachError`]).
    pub fn load(&self, jar: &Path, options: &str) -> Result<(), AttachError> {
        let path = jar
            .to_str()
            .ok_or_else(|| AttachError::Usage(format!("{} is not UTF-8", jar.display())))?;
        let agent = if options.is_empty() { path.to_owned() } else { format!("{path}={options}") };
        if agent.len() >= ARGUMENT_BYTES_MAX || agent.contains('\0') || path.contains('=') {
            let message = format!(
                "the path of the jar and the options must be shorter than {ARGUMENT_BYTES_MAX} \
                 bytes together, and the path must not contain `=`"
            );
            return Err(AttachError::Usage(message));
        }
        if !self.below_root(jar).is_file() {
            return Err(AttachError::NoJar(jar.to_owned()));
        }
        let properties = self.command(&["properties", "", "", ""])?;
        if properties.lines().any(|line| line.trim_end() == STARTED) {
            return Err(AttachError::Loaded);
        }
        let answer = self.command(&["load", "instrument", "false", &agent])?;
        judge(&answer)
    }

    /// Returns whether the path exists for the process.
    pub fn sees(&self, path: &Path) -> bool {
        self.below_root(path).exists()
    }

    /// Converts a path of the process to a path for this process.
    fn below_root(&self, path: &Path) -> PathBuf {
        self.proc.join("root").join(path.strip_prefix("/").unwrap_or(path))
    }

    fn socket(&self) -> PathBuf {
        self.below_root(Path::new(&format!("/tmp/.java_pid{}", self.own_pid)))
    }

    /// Sends a command and returns the response.
    fn command(&self, words: &[&str]) -> Result<String, AttachError> {
        let mut stream = self.connect()?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let mut command = Vec::new();
        for word in [PROTOCOL].iter().chain(words) {
            command.extend_from_slice(word.as_bytes());
            command.push(0);
        }
        stream.write_all(&command)?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Connects to the JVM. Makes the JVM listen first, unless it already does. An existing socket
    /// may belong to an earlier process with the same id.
    fn connect(&self) -> Result<UnixStream, AttachError> {
        let socket = self.socket();
        if let Some(stream) = try_connect(&socket)? {
            return Ok(stream);
        }
        let request = self.request()?;
        let signaled = kill_process(self.pid, Signal::QUIT).map_err(io::Error::from);
        let begun = Instant::now();
        let mut stream = None;
        while signaled.is_ok() && stream.is_none() && begun.elapsed() < TIMEOUT {
            sleep(LOOK_INTERVAL);
            stream = try_connect(&socket)?;
        }
        // The JVM may have removed the file already, or the process may have exited.
        let _ = fs::remove_file(request);
        signaled?;
        let is_there = self.proc.join("maps").exists();
        stream.ok_or(if is_there { AttachError::Refused } else { AttachError::Ended })
    }

    /// Creates the file that tells the JVM to listen, in its working directory, or in `/tmp` if
    /// that fails.
    fn request(&self) -> Result<PathBuf, AttachError> {
        let name = format!(".attach_pid{}", self.own_pid);
        let in_cwd = self.proc.join("cwd").join(&name);
        let in_tmp = self.below_root(Path::new("/tmp")).join(&name);
        let create = |path: &Path| {
            // An attempt that was killed may have left this file.
            let _ = fs::remove_file(path);
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
        };
        match create(&in_cwd) {
            // The JVM ignores a file that belongs to another user, except root.
            Ok(file) if file.metadata()?.uid() == rustix::process::geteuid().as_raw() => Ok(in_cwd),
            _ => match create(&in_tmp) {
                Ok(_) => Ok(in_tmp),
                Err(error) => Err(of_file(&in_tmp, error)),
            },
        }
    }
}

/// Returns whether a process handles SIGQUIT, according to its status. A starting JVM does not
/// handle it yet, and would be killed by it.
fn catches_quit(status: &str) -> bool {
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (Signal::QUIT.as_raw() - 1) & 1 == 1)
}

/// Connects to a socket; returns `None` if it does not exist or no process listens on it.
fn try_connect(socket: &Path) -> Result<Option<UnixStream>, AttachError> {
    match UnixStream::connect(socket) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(AttachError::Permission(socket.to_owned()))
        }
        Err(_) => Ok(None),
    }
}

/// Checks the response to `load`.
fn judge(answer: &str) -> Result<(), AttachError> {
    let mut lines = answer.lines();
    let status = lines.next().unwrap_or_default().trim();
    let rest = lines.collect::<Vec<_>>().join("; ");
    let code = rest.strip_prefix("return code: ").map(str::trim);
    match (status, code) {
        ("0", None | Some("0")) => Ok(()),
        ("0", Some(code)) => Err(AttachError::Answer(meaning(code))),
        ("", _) => Err(AttachError::Answer("nothing because it exited".to_owned())),
        (status, _) if rest.is_empty() => {
            Err(AttachError::Answer(format!("error {status} without a reason")))
        }
        _ => Err(AttachError::Answer(rest)),
    }
}

/// Returns the meaning of an `instrument` library error code.
fn meaning(code: &str) -> String {
    match code {
        "100" => "the jar cannot be read, or is not an agent jar".to_owned(),
        "101" => "the jar cannot be added to the class path".to_owned(),
        "102" => {
            "the Java agent did not start; the reason is in the JVM's standard error".to_owned()
        }
        code => format!("error {code} from the library `instrument`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_jvms_are_judged() {
        assert!(judge("0\n").is_ok());
        assert!(judge("0\nreturn code: 0\n").is_ok());
        let reason = |answer: &str| judge(answer).unwrap_err().to_string();
        assert!(reason("0\nreturn code: 102\n").contains("did not start"));
        assert!(reason("1\nDynamic agent loading is not enabled.\n").contains("not enabled"));
        assert!(reason("100\n").contains("error 100"));
        assert!(reason("").contains("exited"));
    }

    #[test]
    fn only_a_jvm_gets_the_signal() {
        let own = i32::try_from(std::process::id()).unwrap();
        let error = Target::open(own).err().unwrap();
        assert!(matches!(error, AttachError::NotAJvm(_)), "{error}");
        let error = Target::open(i32::MAX).err().unwrap();
        assert!(error.to_string().contains("no such process"), "{error}");
    }
}
