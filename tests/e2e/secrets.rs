//! Tests that nothing that leaves the agent contains secrets that endpoints echo in their
//! responses.

use crate::support::{Agent, folder, millstream, wait_until};
use flate2::read::GzDecoder;
use millstream_testkit_servers::http::{HttpServer, ReceivedRequest, Reply};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// A configuration with a sink for each kind of secret. Each secret contains `S3CRET`, except for
/// the password `wombat`.
const CONFIG: &str = r#"
shutdown_timeout: 1s
sources: { web: { type: generate, rate: 50 } }
sinks:
  query: { type: http, inputs: [web], compression: none, uri: "URI/deny?token=query-S3CRET%2Fx&x=1" }
  basic: { type: http, inputs: [web], compression: none, uri: "URI/refuse", auth: { type: basic, user: me, password: basic-S3CRET } }
  word: { type: http, inputs: [web], compression: none, uri: "URI/deny", auth: { type: basic, user: me, password: wombat } }
  bearer: { type: http, inputs: [web], compression: none, uri: "URI/refuse", auth: { type: bearer, token_file: DIR/token } }
  header: { type: http, inputs: [web], compression: none, uri: "URI/refuse", headers: { X-Api-Key: 'header-S3CRET "a\b"' } }
  moved: { type: http, inputs: [web], compression: none, uri: "URI/move/${HOOK_PATH}" }
  file: { type: http, inputs: [web], compression: none, uri: "URI/refuse", auth: { type: header, name: X-A, value: "${file:DIR/value}" } }
  index: { type: elasticsearch, inputs: [web], compression: none, endpoints: ["URI/deny"], index: a, auth: { type: api_key, key: key-S3CRET } }
  bulk: { type: elasticsearch, inputs: [web], compression: none, endpoints: ["URI/items"], index: a, auth: { type: api_key, key: bulk-S3CRET } }
"#;

/// Base64 of `me:basic-S3CRET`, `me:other-S3CRET` and `me:wombat`.
const ENCODED: [&str; 3] = ["bWU6YmFzaWMtUzNDUkVU", "bWU6b3RoZXItUzNDUkVU", "bWU6d29tYmF0"];

/// Responds with the address, the headers and the beginning of the body.
fn echo(seen: &ReceivedRequest) -> Reply {
    let sent = ["authorization", "x-api-key", "x-a"].map(|name| seen.header(name)).join(" ");
    let text = format!("{} {sent} {}", seen.path, seen.text().chars().take(50).collect::<String>());
    let path = seen.path.split('/').nth(1).unwrap_or_default();
    match path.split('?').next() {
        Some("refuse") => Reply::Status(400, Vec::new(), text),
        Some("move") => {
            Reply::Status(301, vec![("location", format!("http://h{}", seen.path))], text)
        }
        Some("items") => {
            let error = serde_json::json!({ "type": "t", "reason": text });
            let item = serde_json::json!({ "create": { "status": 403, "error": error } });
            let events = seen.text().lines().count() / 2;
            let answer = serde_json::json!({ "errors": true, "items": vec![item; events] });
            Reply::Status(200, Vec::new(), answer.to_string())
        }
        _ => Reply::Status(401, Vec::new(), text),
    }
}

fn run(folder: &Path, args: &[&str]) -> String {
    let mut command = Command::new(millstream());
    command.args(args).current_dir(folder).env("HOOK_PATH", "hook-S3CRET");
    let output = command.output().unwrap();
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Returns the texts that the agent shows, each with its place.
fn shown(agent: &Agent) -> Vec<(&'static str, String)> {
    let get = |path| (path, agent.get(path).unwrap());
    let paths = ["/ready", "/metrics", "/api/snapshot", "/api/diagnosis"];
    paths.map(get).into_iter().chain([("log", agent.log())]).collect()
}

/// Returns the texts that commands show of the agent, each with the name of the command.
fn shown_by_commands(folder: &Path) -> Vec<(&'static str, String)> {
    run(folder, &["support", "-c", "millstream.yaml", "-o", "a.tar.gz"]);
    let mut archive = Vec::new();
    GzDecoder::new(File::open(folder.join("a.tar.gz")).unwrap()).read_to_end(&mut archive).unwrap();
    vec![
        ("diagnose", run(folder, &["diagnose", "-c", "millstream.yaml"])),
        ("top", run(folder, &["top", "--once", "-c", "millstream.yaml"])),
        ("support", String::from_utf8_lossy(&archive).into_owned()),
    ]
}

fn assert_masked(shown: Vec<(&str, String)>) {
    for (place, text) in shown {
        for secret in ["S3CRE", "wombat"].into_iter().chain(ENCODED) {
            let found =
                text.find(secret).map(|at| text.floor_char_boundary(at.saturating_sub(200)));
            let around = found.map(|at| text[at..].chars().take(300).collect::<String>());
            assert_eq!(around, None, "{secret} is in {place}");
        }
    }
}

/// Returns whether each sink shows an error.
fn all_fail(agent: &Agent, sinks: usize) -> bool {
    let snapshot = agent.get("/api/snapshot").unwrap_or_default();
    let Ok(snapshot) = serde_json::from_str::<serde_json::Value>(&snapshot) else { return false };
    let components = snapshot["components"].as_array().unwrap();
    let has_error =
        |of: &serde_json::Value| of["error"].is_string() || of["last_error"].is_string();
    components.iter().filter(|of| of["kind"] == "sink" && has_error(of)).count() == sinks
}

#[test]
fn what_endpoints_echo_has_no_secret_in_whatever_leaves_the_agent() {
    let server = HttpServer::start(echo);
    let dir = folder();
    fs::write(dir.path().join("token"), "token-file-S3CRET-1\n").unwrap();
    fs::write(dir.path().join("value"), "value-S3CRET\n").unwrap();
    let config = CONFIG.replace("URI", server.uri("").trim_end_matches('/'));
    let mut agent = Agent::spawn(dir.path(), &config, &[], |command| {
        command.env("HOOK_PATH", "hook-S3CRET");
    });
    wait_until("every sink has an error", LIMIT, || {
        assert!(!agent.poll_ended(), "{}", agent.log());
        all_fail(&agent, 9)
    });
    let ready = agent.get("/ready").unwrap();
    assert!(ready.contains("REDACTED"), "{ready}");
    assert!(agent.get("/api/snapshot").unwrap().contains("400: /refuse Basic REDACTED"));
    agent.assert_logs("REDACTED");
    assert_masked(shown(&agent));

    // After a change, the new secrets are masked, and the previous secrets remain masked.
    fs::write(dir.path().join("token"), "token-file-S3CRET-2\n").unwrap();
    let changed =
        config.replace("basic-S3CRET", "other-S3CRET").replace("query-S3CRET", "new-S3CRET");
    agent.reload(&changed);
    for sent in ["token-file-S3CRET-2", "new-S3CRET", ENCODED[1]] {
        server.wait(|seen| {
            seen.iter()
                .any(|seen| seen.path.contains(sent) || seen.header("authorization").contains(sent))
        });
    }
    wait_until("every sink has an error", LIMIT, || all_fail(&agent, 9));
    assert_masked(shown(&agent));
    assert_masked(shown_by_commands(dir.path()));

    // The log quotes parts of an invalid configuration.
    agent.reload(&changed.replace("uri: \"http://", "uri: \"http://me:url-S3CRET@"));
    wait_until("the refusal", LIMIT, || {
        agent.log().contains("the previous configuration stays in use")
    });
    assert_masked(shown(&agent));
    agent.kill();
}

#[test]
fn control_characters_of_file_names_are_escaped() {
    let dir = folder();
    fs::create_dir(dir.path().join("in")).unwrap();
    let name = "a\u{1b}]0;title\u{7}\u{9b}31m.log";
    fs::write(dir.path().join("in").join(name), "one\ntwo\n").unwrap();
    let config = "sources: { app: { type: file, include: ['DIR/in/*.log'] } }\n\
                  sinks: { out: { type: file, inputs: [app], path: DIR/out.log, encoding: { codec: text } } }\n";
    let agent = Agent::start(dir.path(), config, &[]);
    wait_until("both lines", LIMIT, || {
        fs::read_to_string(dir.path().join("out.log")).is_ok_and(|text| text == "one\ntwo\n")
    });
    fs::set_permissions(
        dir.path().join("in").join(name),
        std::os::unix::fs::PermissionsExt::from_mode(0o000),
    )
    .unwrap();
    let config = ["-c", "millstream.yaml"];
    let shown = [
        agent.get("/metrics").unwrap(),
        agent.get("/ready").unwrap(),
        agent.get("/api/files").unwrap(),
        agent.log(),
        run(dir.path(), &[&["diagnose"], &config[..]].concat()),
        run(dir.path(), &[&["top", "--once"], &config[..]].concat()),
    ];
    for text in shown {
        let control = text.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(control, None, "{text:?}");
    }
}
