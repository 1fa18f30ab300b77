//! Tests `millstream support` with a running agent and without one.

use crate::support::{Agent, folder, java, millstream, wait_until, write_config};
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// A configuration with every kind of option that may hold a secret. Each secret contains `S3CRET`,
/// in uppercase or lowercase.
const CONFIG: &str = r#"
# comment-S3CRET
sources:
  web: { type: generate, rate: 100 }
  topic:
    type: kafka
    brokers: ["127.0.0.1:9"]
    topics: [a]
    group: g
    sasl: { mechanism: PLAIN, username: me, password: kafka-source-S3CRET }
    options: { client.rack: options-source-S3CRET }
transforms:
  hide:
    type: redact
    inputs: [web]
    detect: [email]
    replace: hash
    key: redact-S3CRET
  hashed:
    type: fields
    inputs: [hide]
    steps: [{ hash: { field: message, to: h, key: hmac-S3CRET } }]
sinks:
  basic:
    type: http
    inputs: [hashed]
    uri: "http://127.0.0.1:9/${HOOK_VARIABLE}/path?key=query-S3CRET"
    auth: { type: basic, user: me, password: basic-S3CRET }
    headers: { X-Key: header-S3CRET, Y: "${HEADER_VARIABLE}" }
  key:
    type: http
    inputs: [hashed]
    uri: http://127.0.0.1:9
    auth: { type: header, name: X, value: value-S3CRET }
  index:
    type: elasticsearch
    inputs: [hashed]
    endpoints: [http://127.0.0.1:9]
    index: a
    auth: { type: api_key, key: elastic-S3CRET }
  bearer:
    type: prometheus_remote_write
    inputs: [mine]
    uri: http://127.0.0.1:9
    auth: { type: bearer, token: "${TOKEN_VARIABLE:-default-S3CRET}" }
  records:
    type: kafka
    inputs: [hashed]
    brokers: ["127.0.0.1:9"]
    topic: a
    sasl: { mechanism: PLAIN, username: me, password: "${file:DIR/password}" }
    options: { client.rack: options-sink-S3CRET }
"#;

/// Runs the command in `folder`.
fn support(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(millstream());
    command.arg("support").args(args).current_dir(folder);
    with_variables(&mut command);
    command.output().unwrap()
}

fn with_variables(command: &mut Command) {
    command.env("HEADER_VARIABLE", "variable-S3CRET").env("TOKEN_VARIABLE", "token-S3CRET");
    command.env("HOOK_VARIABLE", "services/T0/hook-S3CRET");
}

/// Returns the files of an archive, and asserts that the archive contains no secret.
fn contents(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut bytes = Vec::new();
    GzDecoder::new(File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    let lower = bytes.to_ascii_lowercase();
    let found = lower.windows(6).position(|part| part == b"s3cret");
    let shown = found.map(|at| String::from_utf8_lossy(&bytes[at.saturating_sub(80)..at + 20]));
    assert_eq!(shown, None, "a secret is in the archive");
    let mut archive = tar::Archive::new(bytes.as_slice());
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (name.strip_prefix("millstream-support/").unwrap().to_owned(), content)
    });
    entries.collect()
}

fn text(contents: &BTreeMap<String, Vec<u8>>, name: &str) -> String {
    let content = contents.get(name).unwrap_or_else(|| panic!("{name} is missing"));
    String::from_utf8_lossy(content).into_owned()
}

#[test]
fn no_secret_of_the_configuration_is_in_the_archive() {
    let dir = folder();
    fs::write(dir.path().join("password"), "file-S3CRET\n").unwrap();
    let mine = "  mine: { type: internal_metrics }\n";
    let config = CONFIG.replacen("sources:\n", &format!("sources:\n{mine}"), 1);
    let mut agent = Agent::spawn(dir.path(), &config, &[], with_variables);
    wait_until("the agent fails to send", LIMIT, || {
        assert!(!agent.poll_ended(), "{}", agent.log());
        agent.get("/api/snapshot").is_some_and(|text| text.contains("\"error\""))
    });
    let output = support(dir.path(), &["-c", "millstream.yaml", "-o", "a.tar.gz"]);
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let path = dir.path().join("a.tar.gz");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let contents = contents(&path);
    for name in contents.keys() {
        assert!(listing.contains(name.as_str()), "{name}: {listing}");
    }
    assert!(text(&contents, "validate.txt").contains("configuration is valid"));
    let config = text(&contents, "config/1-millstream.json");
    let uri = "http://127.0.0.1:9/${HOOK_VARIABLE}/path?REDACTED";
    for shown in ["\"inputs\": [", uri, "${HEADER_VARIABLE}", "email"] {
        assert!(config.contains(shown), "{shown}: {config}");
    }
    assert!(text(&contents, "api/snapshot.json").contains("\"components\""));
    assert!(text(&contents, "api/metrics.txt").contains("millstream_build_info"));
    assert!(text(&contents, "api/files.json").contains("\"total\""));
    assert!(text(&contents, "api/ready.json").contains("\"checkpoints\""));
    assert!(text(&contents, "host.txt").contains("kernel: "));
    assert!(text(&contents, "host.txt").contains("disk of data_dir"));
    // The test starts the agent with a file as its standard error.
    assert!(!text(&contents, "log.txt").is_empty());
    assert_eq!(&contents["recording.jfr"][..4], b"FLR\0");
    let token = fs::read_to_string(dir.path().join("data/token")).unwrap();
    let has_token = |content: &Vec<u8>| String::from_utf8_lossy(content).contains(token.trim());
    assert!(!contents.values().any(has_token));
    let left = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> =
        left.filter(|name| name.to_string_lossy().starts_with("a.tar.gz.")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Passwords that are ordinary words or numbers are hidden only in the configuration.
#[test]
fn an_ordinary_word_as_a_secret_destroys_nothing() {
    let dir = folder();
    let config = r#"
sources:
  web: { type: generate, rate: 100 }
sinks:
  out:
    type: http
    inputs: [web]
    uri: http://127.0.0.1:9
    auth: { type: basic, user: info, password: millstream }
    headers: { X-Number: "0", X-Large: "1000000", X-Level: info, X-Name: components }
"#;
    let mut agent = Agent::spawn(dir.path(), config, &[], |_| {});
    wait_until("the agent fails to send", LIMIT, || {
        assert!(!agent.poll_ended(), "{}", agent.log());
        agent.get("/api/snapshot").is_some_and(|text| text.contains("\"error\""))
    });
    let output = support(dir.path(), &["-c", "millstream.yaml", "-o", "a.tar.gz"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let contents = contents(&dir.path().join("a.tar.gz"));
    let config = text(&contents, "config/1-millstream.json");
    assert!(!config.contains("1000000") && !config.contains("\"millstream\""), "{config}");
    for (name, content) in contents.iter().filter(|(name, _)| name.ends_with(".json")) {
        let parsed: Result<serde_json::Value, _> = serde_json::from_slice(content);
        assert!(parsed.is_ok_and(|json| !json.to_string().contains("**")), "{name}");
    }
    assert!(text(&contents, "api/metrics.txt").contains("millstream_build_info"));
    assert!(text(&contents, "log.txt").to_lowercase().contains("info"));
    fs::write(dir.path().join("a.jfr"), &contents["recording.jfr"]).unwrap();
    let mut summary = Command::new(java::homes().pop().unwrap().join("bin/jfr"));
    summary.args(["summary", "a.jfr"]).current_dir(dir.path()).env_remove("JAVA_TOOL_OPTIONS");
    let summary = summary.output().unwrap();
    assert!(String::from_utf8_lossy(&summary.stdout).contains("millstream."), "{summary:?}");
}

#[test]
fn without_an_agent_the_archive_says_what_is_missing() {
    let dir = folder();
    write_config(dir.path(), "sources: { a: { type: generate, rrate: 1 } }\n");
    let output = support(dir.path(), &["-c", "millstream.yaml"]);
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let of_broken = contents(&dir.path().join("support.tar.gz"));
    assert!(text(&of_broken, "validate.txt").contains("rrate"));
    assert!(listing.contains("missing  recording.jfr"), "{listing}");
    assert!(text(&of_broken, "README.txt").contains("missing  api"));

    let config = "sources: { a: { type: kafka, brokers: ['me:pw-S3CRET@host:9'], topics: [t], group: g } }\n\
                  sinks: { b: { type: blackhole, inputs: [a], tokn: { level: { S3CRET: 4711 } } } }\n";
    write_config(dir.path(), config);
    let output = support(dir.path(), &["-c", "millstream.yaml", "-o", "u.tar.gz"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let unknown = text(&contents(&dir.path().join("u.tar.gz")), "config/1-millstream.json");
    assert!(unknown.contains("REDACTED@host:9") && !unknown.contains("4711"), "{unknown}");

    let config =
        "sources: { a: { type: generate } }\nsinks: { b: { type: blackhole, inputs: [a] } }\n";
    write_config(dir.path(), config);
    let output = support(dir.path(), &["-c", "millstream.yaml", "-o", "b.tar.gz"]);
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(listing.contains("api/snapshot.json: no agent is running with data_dir"), "{listing}");
    assert!(contents(&dir.path().join("b.tar.gz")).contains_key("host.txt"));
}

/// The shell of a user has neither the variables nor the working folder of the agent.
#[test]
fn configuration_and_variables_are_those_of_the_running_agent() {
    let dir = folder();
    let config = "sources: { web: { type: generate, rate: 100 } }\nsinks: { out: { type: http, \
                  inputs: [web], uri: \"http://127.0.0.1:9/${HOOK_VARIABLE}/x\" } }\n";
    let mut agent = Agent::spawn(dir.path(), config, &[], with_variables);
    wait_until("the agent fails to send", LIMIT, || {
        assert!(!agent.poll_ended(), "{}", agent.log());
        agent.get("/api/snapshot").is_some_and(|text| text.contains("\"error\""))
    });
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("other.yaml"), config).unwrap();
    let in_shell = |args: &[&str]| {
        let mut command = Command::new(millstream());
        command.arg("support").args(args).current_dir(&elsewhere).output().unwrap()
    };
    let all = [
        (&["-c", "../millstream.yaml"][..], "config/1-millstream.json"),
        (&["--data-dir", "../data"], "config/1-millstream.json"),
        (&["--data-dir", "../data", "-c", "other.yaml"], "config/1-other.json"),
    ];
    for (number, (args, name)) in all.into_iter().enumerate() {
        let archive = format!("{number}.tar.gz");
        let output = in_shell(&[args, &["-o", archive.as_str()]].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
        let contents = contents(&elsewhere.join(archive));
        assert!(text(&contents, name).contains("${HOOK_VARIABLE}"), "{args:?}");
        let checked = text(&contents, "validate.txt");
        assert!(checked.contains("configuration is valid: 2 components"), "{args:?}: {checked}");
        assert!(text(&contents, "api/snapshot.json").contains("\"components\""), "{args:?}");
        assert!(contents.contains_key("recording.jfr"), "{args:?}");
        assert!(!text(&contents, "log.txt").is_empty(), "{args:?}");
    }
    let before = fs::read_dir(&elsewhere).unwrap().count();
    for args in [&["-c", "missing.yaml"][..], &["-c", "missing.yaml", "--data-dir", "../data"], &[]]
    {
        let output = in_shell(args);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        let says = match args {
            [] => "no configuration: neither",
            _ => "cannot read missing.yaml: No such file",
        };
        assert!(message.contains(says), "{args:?}: {message}");
    }
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), before);
    let output = in_shell(&["--data-dir", "nothing", "-o", "n.tar.gz"]);
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        listing.contains(
            "missing  config: found no running agent that reports its configuration files"
        ),
        "{listing}"
    );
}

#[test]
fn a_failed_write_leaves_no_file() {
    let dir = folder();
    let config =
        "sources: { a: { type: generate } }\nsinks: { b: { type: blackhole, inputs: [a] } }\n";
    write_config(dir.path(), config);
    let before = fs::read_dir(dir.path()).unwrap().count();
    // A file size limit causes the same kind of failure as a full disk.
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" support -c millstream.yaml -o c.tar.gz";
    let mut command = Command::new("bash");
    command.arg("-c").arg(script).arg(millstream()).current_dir(dir.path());
    let output = command.output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), message.contains("c.tar.gz")), (Some(1), true), "{message}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), before);
    assert_eq!(support(dir.path(), &["-o", "-"]).status.code(), Some(2));
}
