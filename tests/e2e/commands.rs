//! Tests the command line: exit statuses, errors, the control socket.

use crate::support::{Agent, folder, millstream, wait_until};
use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

const IDLE: &str = "
sources: { app: { type: file, include: ['DIR/a.log'] } }
sinks: { out: { type: blackhole, inputs: [app] } }
";

fn run(args: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(millstream());
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

#[test]
fn standard_input_reaches_standard_output() {
    let dir = folder();
    let path = dir.path().join("c.yaml");
    let config = format!(
        "data_dir: {}/data\napi: {{ listen: '127.0.0.1:0' }}\nsources: {{ in: {{ type: stdin, max_line: 1KiB }} }}\n\
         sinks: {{ out: {{ type: console, inputs: [in], encoding: {{ codec: text }} }} }}\n",
        dir.path().display()
    );
    fs::write(&path, config).unwrap();
    let many: String = (0..200_000).map(|n| format!("line {n}\n")).collect();
    for (input, expected) in
        [("a\nb\n", "a\nb\n"), ("", ""), ("a\r\n\nb", "a\n\nb\n"), (&many, &many)]
    {
        let output = run(&["run", "--until-eof", "-c", path.to_str().unwrap()], input.as_bytes());
        assert!(output.stdout == expected.as_bytes(), "{} bytes", output.stdout.len());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let long = format!("a\n{}\nb\n", "x".repeat(1_000_000));
    let output = run(&["run", "--until-eof", "-c", path.to_str().unwrap()], long.as_bytes());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("a\n{}\nb\n", "x".repeat(1024)));
}

#[test]
fn configuration_errors_have_positions_and_exit_status_two() {
    let dir = folder();
    let path = dir.path().join("bad.yaml");
    let config = "sources:\n  app: { type: file, inclde: ['/x/*.log'] }\nsinks:\n  out: { type: blackhole, inputs: [ap], report: 1 }\n";
    fs::write(&path, config).unwrap();
    for command in ["validate", "run"] {
        let output = run(&[command, "-c", path.to_str().unwrap()], b"");
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        for part in ["bad.yaml:2:", "inclde", "include", "bad.yaml:4:", "report", "10s", "app"] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
    }
    assert_eq!(run(&["run", "--no-such-flag"], b"").status.code(), Some(2));
    assert_eq!(run(&["validate", "-c", "/no/such/file.yaml"], b"").status.code(), Some(2));
}

/// Rejected lines are counted even if no component reads them.
#[test]
fn rejected_events_without_a_reader_are_dropped_and_counted() {
    let dir = folder();
    let path = dir.path().join("c.yaml");
    let config = format!(
        "data_dir: {}/data\napi: {{ listen: '127.0.0.1:0' }}\nsources: {{ in: {{ type: stdin }} }}\n\
         transforms: {{ parsed: {{ type: parse, inputs: [in], format: logfmt, on_error: reject }} }}\n\
         sinks: {{ out: {{ type: console, inputs: [parsed], encoding: {{ codec: text }} }} }}\n",
        dir.path().display()
    );
    let run = |config: &str, input: &[u8]| {
        fs::write(&path, config).unwrap();
        let output = run(&["run", "--until-eof", "-c", path.to_str().unwrap()], input);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (status, stdout, log) = run(&config, b"a=1\nrubbish\na=2\nmore rubbish\n");
    assert_eq!((status, &*stdout), (Some(3), "a=1\na=2\n"), "{log}");
    assert!(log.contains("lost: 2 events (2 rejected (transform parsed))"), "{log}");
    let read = config.replace("[parsed]", "[parsed, parsed.rejected]");
    let (status, stdout, log) = run(&read, b"rubbish\n");
    assert_eq!((status, &*stdout), (Some(0), "rubbish\n"), "{log}");
}

#[test]
fn too_small_a_memory_limit_is_rejected_with_the_amount_needed() {
    let dir = folder();
    let config = format!("limits: {{ memory: 32MiB, threads: 64 }}\n{IDLE}")
        .replace("blackhole", "file, path: DIR/out");
    let mut agent = Agent::start(dir.path(), &config, &["--until-eof"]);
    let status = agent.wait(LIMIT).code();
    // Hosts with few cores do not produce the error.
    let cores = std::thread::available_parallelism().unwrap().get();
    assert!(cores < 4 || status == Some(2), "{status:?} {}", agent.log());
}

#[test]
fn a_second_agent_with_the_same_data_dir_is_rejected() {
    let dir = folder();
    let mut first = Agent::start(dir.path(), IDLE, &[]);
    wait_until("the first agent", LIMIT, || first.get("/ready").is_some());
    let mut second = Agent::start(dir.path(), IDLE, &[]);
    assert_eq!(second.wait(LIMIT).code(), Some(1));
    first.assert_logs("in use by another agent");
    assert!(first.get("/health").is_some(), "the first agent lives on");
    assert_eq!(first.stop().code(), Some(0));
}

#[test]
fn snapshot_and_metrics_report_the_processed_events() {
    let dir = folder();
    fs::write(dir.path().join("a.log"), "1\n22\n333\n").unwrap();
    let mut agent = Agent::start(dir.path(), IDLE, &[]);
    let sent = "millstream_component_sent_events_total{component_id=\"out\"";
    wait_until("three events", LIMIT, || agent.metric(sent) == Some(3.0));
    // The agent counts events and bytes separately.
    let sent_bytes = "millstream_component_sent_bytes_total{component_id=\"out\"";
    wait_until("their bytes", LIMIT, || agent.metric(sent_bytes) == Some(6.0));
    let received_bytes = "millstream_component_received_bytes_total{component_id=\"app\"";
    wait_until("the bytes of the file", LIMIT, || agent.metric(received_bytes) == Some(9.0));
    wait_until("all is settled", LIMIT, || {
        let snapshot: serde_json::Value =
            serde_json::from_str(&agent.get("/api/snapshot").unwrap()).unwrap();
        assert_eq!(snapshot["components"][0]["id"], "app");
        snapshot["components"][0]["sinks"][0]["unsettled"] == 0
    });
    assert_eq!(agent.stop().code(), Some(0));
}

#[test]
fn damaged_checkpoints_are_set_aside_and_the_agent_starts() {
    let dir = folder();
    fs::write(dir.path().join("a.log"), "1\n2\n").unwrap();
    let mut agent = Agent::start(dir.path(), IDLE, &["--until-eof"]);
    assert_eq!(agent.wait(LIMIT).code(), Some(0));
    let store = dir.path().join("data/checkpoints.redb");
    let whole = fs::read(&store).unwrap();
    for (name, damaged) in
        [("cut", whole[..whole.len() / 3].to_vec()), ("overwritten", vec![0x5A; whole.len()])]
    {
        fs::write(&store, damaged).unwrap();
        let mut agent = Agent::start(dir.path(), IDLE, &["--until-eof"]);
        assert_eq!(agent.wait(LIMIT).code(), Some(0), "{name}: {}", agent.log());
        agent.assert_logs("creating a new one");
        fs::remove_file(dir.path().join("agent.log")).unwrap();
    }
}

#[test]
fn validate_finds_what_would_make_a_run_fail() {
    let dir = folder();
    let path = dir.path().join("c.yaml");
    let input = "sources: { app: { type: file, include: ['/x/*.log'] } }\n";
    let cases = [
        (
            "sinks: { a: { type: file, inputs: [app], path: /x/a.log } }",
            "`app` reads the output of `a`",
        ),
        (
            "sinks: { a: { type: file, inputs: [app], path: /o }, b: { type: file, inputs: [app], path: /o } }",
            "both use the same file",
        ),
        (
            "limits: { memory: 32MiB }\nsinks: { a: { type: console, inputs: [app] }, b: { type: file, inputs: [app], path: /o } }",
            "limits.memory",
        ),
        (
            "sinks: { a: { type: console, inputs: [app], encoding: { metadata_key: message } } }",
            "every event contains this key",
        ),
    ];
    for (sinks, expected) in cases {
        fs::write(&path, format!("{input}{sinks}\n")).unwrap();
        let output = run(&["validate", "-c", path.to_str().unwrap()], b"");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(2) && text.contains(expected),
            "{expected} is not in:\n{text}"
        );
        assert!(!text.contains("see above"), "{text}");
    }
}

#[test]
fn a_one_off_run_does_not_need_the_port_of_a_running_agent() {
    let dir = folder();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let path = dir.path().join("c.yaml");
    let config = format!(
        "data_dir: {}/data\napi: {{ listen: '{}' }}\nsources: {{ in: {{ type: stdin }} }}\n\
         sinks: {{ out: {{ type: console, inputs: [in], encoding: {{ codec: text }} }} }}\n",
        dir.path().display(),
        taken.local_addr().unwrap()
    );
    fs::write(&path, config).unwrap();
    let output = run(&["run", "--until-eof", "-c", path.to_str().unwrap()], b"a\n");
    assert_eq!((output.stdout, output.status.code()), (b"a\n".to_vec(), Some(0)));
    // Without `--until-eof` the API must be reachable, so the agent fails before it reads anything.
    let output = run(&["run", "-c", path.to_str().unwrap()], b"a\n");
    assert_eq!((output.stdout, output.status.code()), (b"".to_vec(), Some(1)));
}

#[test]
fn generated_lines_are_numbered_and_counted() {
    let output = run(&["generate", "logs", "--count", "1000", "--size", "200B"], b"");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!((text.lines().count(), output.status.code()), (1000, Some(0)));
    assert!(text.lines().enumerate().all(|(n, line)| line.contains(&format!("seq={n} "))));
    assert_eq!(run(&["generate", "logs", "--size", "1B"], b"").status.code(), Some(2));
}

#[test]
fn the_schema_describes_every_component() {
    let output = run(&["schema"], b"");
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = schema.to_string();
    for row in millstream_components::registry::rows() {
        assert!(text.contains(&format!("\"{}\"", row.name)), "{}", row.name);
    }
}

/// A pipe returns its content only once, but the configuration is read for its secrets first.
#[test]
fn a_configuration_is_read_from_a_pipe() {
    let config = IDLE.replace("DIR", "/tmp");
    let output = run(&["validate", "-c", "/dev/stdin"], config.as_bytes());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let output = run(&["validate", "-c", "/dev/stdin"], config.replace("file", "fil").as_bytes());
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("/dev/stdin:2:") && text.contains("`file`"), "{text}");
    let dir = folder();
    let pipe = dir.path().join("c.yaml");
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| fs::write(&pipe, &config).unwrap());
        let output = run(&["validate", "-c", pipe.to_str().unwrap()], b"");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    });
}

#[test]
fn the_version_names_the_libraries() {
    let output = run(&["version"], b"");
    let text = String::from_utf8(output.stdout).unwrap();
    let first = format!("millstream {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(text.lines().next(), Some(first.as_str()));
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::to_owned);
    assert_eq!(value("target: ").unwrap(), "x86_64-linux");
    assert!(value("librdkafka: ").unwrap().starts_with("2."), "{text}");
    assert!(value("commit: ").is_some(), "{text}");
}

#[test]
fn each_command_has_a_manual_page() {
    let dir = folder();
    let pages = dir.path().join("man1");
    let output = run(&["man", "--output", pages.to_str().unwrap()], b"");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let help = String::from_utf8(run(&["--help"], b"").stdout).unwrap();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let names: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"run") && names.contains(&"completions"), "{names:?}");
    for name in names.iter().filter(|name| **name != "help") {
        let page = fs::read_to_string(pages.join(format!("millstream-{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH millstream-{name} 1")), "{page}");
    }
    let whole = run(&["man"], b"");
    assert_eq!(whole.stdout, fs::read(pages.join("millstream.1")).unwrap());
    let unwritable = run(&["man", "-o", "/dev/null/man1"], b"");
    assert_eq!(unwritable.status.code(), Some(1));
    let error = String::from_utf8(unwritable.stderr).unwrap();
    assert!(error.contains("cannot write to /dev/null/man1: "), "{error}");
}

#[test]
fn shells_complete_commands_and_options() {
    for (shell, expected) in [
        ("bash", "complete -F _millstream"),
        ("zsh", "#compdef millstream"),
        ("fish", "complete -c millstream"),
    ] {
        let text = String::from_utf8(run(&["completions", shell], b"").stdout).unwrap();
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("until-eof") && text.contains("validate"), "{text}");
        assert!(text.contains("version") && text.contains("help"), "{text}");
        // The agent starts the hidden command itself.
        assert!(!text.contains("jvm-process") && !text.contains("jvm__process"), "{text}");
    }
    let output = run(&["completions", "tcsh"], b"");
    assert_eq!(output.status.code(), Some(2));
}
