//! Tests the client commands with an agent that is starting, failing or hostile, and with an output
//! that is not read. A server of the test plays the agent.

use crate::support::{Agent, folder, millstream, wait_until, write_config};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// Starts a server and returns its URL. `answer` gets the path of each request. The server ends
/// with the process.
fn serve(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let first = lines.next().unwrap().unwrap();
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                answer(first.split(' ').nth(1).unwrap(), &mut stream);
            });
        }
    });
    url
}

fn reply(stream: &mut TcpStream, status: &str, body: &str) {
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
}

/// Begins an answer that stays open.
fn begin(stream: &mut TcpStream) {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
}

const NOTHING: &str = r#"{"observed_seconds":0.0,"sources":[]}"#;

/// Answers like an agent whose source has this status.
fn answer(status: &str, path: &str, stream: &mut TcpStream) {
    let body = match path {
        "/api/diagnosis" => format!(
            r#"{{"observed_seconds":30.0,"sources":[{{"source":"in","status":"{status}","cause":null,"sinks":["out"]}}]}}"#
        ),
        "/api/snapshot" => {
            r#"{"components":[{"id":"in","kind":"source","readers":["parsed"]}]}"#.to_owned()
        }
        _ => r#"{"component":null,"reason":"input","confidence":1.0,"numbers":{},"advice":""}"#
            .to_owned(),
    };
    reply(stream, "200 OK", &body);
}

/// Returns a client command for the server.
fn command(name: &str, url: &str, args: &[&str]) -> Command {
    let mut command = Command::new(millstream());
    command.arg(name).args(args).args(["--url", url, "--token", "x"]).stdin(Stdio::null());
    command
}

fn run(name: &str, url: &str, args: &[&str]) -> Output {
    command(name, url, args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn ends(child: &mut Child) -> ExitStatus {
    let mut status = None;
    wait_until("the command ends", LIMIT, || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

/// Returns a pipe whose reader is gone.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn full_device() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

#[test]
fn diagnose_waits_for_the_first_diagnosis() {
    let asked = AtomicUsize::new(0);
    let url = serve(move |path, stream| match path {
        "/api/diagnosis" if asked.fetch_add(1, Ordering::Relaxed) < 5 => {
            reply(stream, "200 OK", NOTHING);
        }
        _ => answer("healthy", path, stream),
    });
    let output = run("diagnose", &url, &["in"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    assert!(text(&output.stdout).starts_with("in: healthy\n"), "{}", text(&output.stdout));
    let output = run("diagnose", &url, &["parsed"]);
    assert!(text(&output.stdout).starts_with("in: healthy\n"), "{}", text(&output.stderr));
    let output = run("diagnose", &url, &["parse"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));

    let url = serve(|_, stream| reply(stream, "200 OK", NOTHING));
    let (begun, output) = (Instant::now(), run("diagnose", &url, &["in"]));
    assert!(begun.elapsed() >= Duration::from_secs(4));
    let expected = "the agent is starting and has no diagnosis yet\n";
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(1), expected));
}

#[test]
fn a_signal_ends_a_tap_whose_output_is_not_read() {
    let url = serve(|_, stream| {
        begin(stream);
        let line = format!("{{\"message\":\"{}\"}}\n", "x".repeat(1000));
        while write!(stream, "{:x}\r\n{line}\r\n", line.len()).is_ok() {}
    });
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        // `nohup` ignores SIGHUP, and the tests may run with it.
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP").arg(millstream());
        command.args(["tap", "in", "--url", &url, "--token", "x"]);
        let mut tap = command.stdout(Stdio::piped()).spawn().unwrap();
        let pipe = tap.stdout.as_ref().unwrap();
        let (mut bytes, mut since) = (0, Instant::now());
        wait_until("the pipe is full", LIMIT, || {
            let now = rustix::io::ioctl_fionread(pipe).unwrap();
            if now != bytes {
                (bytes, since) = (now, Instant::now());
            }
            bytes > 32 << 10 && since.elapsed() > Duration::from_millis(300)
        });
        kill_process(Pid::from_child(&tap), signal).unwrap();
        let ended = Instant::now();
        assert_eq!(ends(&mut tap).code(), Some(0), "{signal:?}");
        assert!(ended.elapsed() < Duration::from_secs(5), "{signal:?}: {:?}", ended.elapsed());
    }
}

#[test]
fn an_output_that_is_closed_or_full_is_no_panic() {
    for (status, code) in [("healthy", 0), ("late", 1)] {
        let url = serve(move |path, stream| answer(status, path, stream));
        for args in [&[][..], &["--json"]] {
            let output = command("diagnose", &url, args).stdout(closed_pipe()).output().unwrap();
            let said = text(&output.stderr);
            assert_eq!(
                (output.status.code(), said.as_str()),
                (Some(code), ""),
                "{status} {args:?}"
            );
        }
        let output = command("diagnose", &url, &[]).stdout(full_device()).output().unwrap();
        let said = text(&output.stderr);
        assert!(said.starts_with("standard output: No space left"), "{said}");
        assert_eq!(output.status.code(), Some(1));
        // Standard error may be on the full device as well.
        let mut command = command("diagnose", &url, &["nosuch"]);
        assert_eq!(command.stderr(full_device()).status().unwrap().code(), Some(2));
    }
    let dir = folder();
    let config =
        "sources: { a: { type: generate } }\nsinks: { b: { type: blackhole, inputs: [a] } }\n";
    write_config(dir.path(), config);
    for (stdout, code, says) in
        [(closed_pipe(), 0, ""), (full_device(), 1, "standard output: No space left")]
    {
        let mut command = Command::new(millstream());
        command.args(["support", "-c", "millstream.yaml"]).current_dir(dir.path());
        let output = command.stdout(stdout).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.starts_with(says)), (Some(code), true), "{said}");
        assert!(says.len() > 1 || said.is_empty(), "{said}");
        fs::remove_file(dir.path().join("support.tar.gz")).unwrap();
    }
}

#[test]
fn top_ends_quietly_if_its_terminal_is_closed() {
    let url = serve(|path, stream| answer("healthy", path, stream));
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = || Stdio::from(rustix::fs::open(&name, flags, Mode::empty()).unwrap());
    let mut command = command("top", &url, &["--interval", "100ms"]);
    command.env("TERM", "xterm").stdin(terminal()).stdout(terminal()).stderr(terminal());
    let mut top = command.spawn().unwrap();
    // The command holds descriptors of the terminal, which would keep the terminal open.
    drop(command);
    let mut screen = Vec::new();
    wait_until("the table", LIMIT, || {
        let mut part = [0; 4096];
        let length = rustix::io::read(&master, &mut part).unwrap();
        screen.extend_from_slice(&part[..length]);
        screen.windows(6).any(|part| part == b"parsed" || part == b"source")
    });
    drop(master);
    assert_eq!(ends(&mut top).code(), Some(1));
}

#[test]
fn messages_have_no_control_characters() {
    let is_harmless = |output: &Output, says: &str| {
        let said = text(&output.stderr);
        assert!(said.contains(says), "{said:?}");
        assert!(!said.trim_end_matches('\n').chars().any(char::is_control), "{said:?}");
    };
    let url = serve(|_, stream| {
        reply(stream, "400 Bad Request", r#"{"error":"a\u001b[2J\nb\u009b31m"}"#);
    });
    let says = r"a\u{1b}[2J\nb\u{9b}31m";
    is_harmless(&run("tap", &url, &["in"]), says);
    is_harmless(&run("diagnose", &url, &[]), says);
    is_harmless(&run("top", &url, &["--once"]), says);
    is_harmless(&run("profile", &url, &["-d", "1s", "-o", "none.pb.gz"]), says);
    let url = serve(|path, stream| match path.starts_with("/api/tap") {
        true => {
            begin(stream);
            let note = r#"{"tap":{"warning":"a\u001b[2J","ended":"b\u001b[2J"}}"#.to_owned() + "\n";
            write!(stream, "{:x}\r\n{note}\r\n0\r\n\r\n", note.len()).unwrap();
        }
        false => answer("healthy", path, stream),
    });
    let said = text(&run("tap", &url, &["in"]).stderr);
    assert_eq!(said, "warning: a\\u{1b}[2J\nthe tap ended: b\\u{1b}[2J\n");
    is_harmless(&run("diagnose", &url, &["in\u{1b}[2J"]), r"in\u{1b}[2J");
    is_harmless(&run("support", &url, &["-o", "none\u{1b}[2J/a"]), r"none\u{1b}[2J/a");
    let mut command = Command::new(millstream());
    command.args(["tap", "in", "--data-dir", "/none\u{1b}[2J"]);
    is_harmless(&command.output().unwrap(), r"/none\u{1b}[2J");
}

#[test]
fn a_long_condition_is_refused_before_a_request() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let url = serve(move |_, stream| {
        counted.fetch_add(1, Ordering::Relaxed);
        reply(stream, "400 Bad Request", "{}");
    });
    for (args, name) in [
        (["in".to_owned(), format!("--where=message != '{}'", "x".repeat(70_000))], "--where"),
        (["x".repeat(20_000), "--where=true".to_owned()], "ID"),
    ] {
        let output = run("tap", &url, &[&args[0], &args[1]]);
        let expected = format!("{name} is longer than 15 KiB, percent-encoded\n");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), expected));
    }
    assert_eq!(asked.load(Ordering::Relaxed), 0);

    // A running agent accepts the longest permitted condition.
    let dir = folder();
    let config = "sources: { in: { type: generate, rate: 100 } }\n\
                  sinks: { out: { type: blackhole, inputs: [in] } }\n";
    let agent = Agent::start(dir.path(), config, &[]);
    wait_until("the agent is ready", LIMIT, || {
        agent.get("/ready").is_some_and(|body| body.contains("\"ready\":true"))
    });
    let condition = format!("message != \"{}\"", "x".repeat((15 << 10) - 100));
    let mut command = Command::new(millstream());
    command.args(["tap", "in", "-n", "1", "--where", &condition, "-c", "millstream.yaml"]);
    let output = command.current_dir(dir.path()).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn a_connection_that_ends_is_explained() {
    let url = serve(|_, stream| {
        begin(stream);
        write!(stream, "3\r\n{{}}\n\r\n").unwrap();
    });
    let output = run("tap", &url, &["in"]);
    let expected = "the agent closed the connection because it stopped or this command read \
                    nothing for 30 s\n";
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(1), expected));
    assert_eq!(text(&output.stdout), "{}\n");
}
