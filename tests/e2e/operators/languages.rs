//! Groovy, AviatorScript and Java on lines of a web log.

use super::{PATIENCE, documents, each_jdk, faulty, settings};
use crate::support::{Agent, folder};
use std::fs;
use std::path::Path;

const LOG: &str = r#"203.0.113.7 - ada [25/Nov/2026:10:00:01 +0000] "GET /cart?id=1 HTTP/1.1" 200 512 "-" "curl/8" 0.010
203.0.113.8 - - [25/Nov/2026:10:00:02 +0000] "POST /pay HTTP/1.1" 502 90 "-" "curl/8" 2.500
203.0.113.9 - - [25/Nov/2026:10:00:03 +0000] "GET /health HTTP/1.1" 200 2 "-" "probe" 0.001
"#;

/// Runs the log through `parse` and a transform; returns the events.
fn events(home: &Path, transform: &str) -> Vec<serde_json::Value> {
    let dir = folder();
    fs::write(dir.path().join("access.log"), LOG).unwrap();
    let format = r#"log_format: '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_time'"#;
    let config = settings(home)
        + &format!(
            "sources: {{ log: {{ type: file, include: ['DIR/access.log'] }} }}\n\
             transforms:\n  app: {{ type: parse, inputs: [log], format: nginx, {format} }}\n  op: {transform}\n\
             sinks: {{ out: {{ type: file, inputs: [op], path: DIR/out.json, encoding: {{ codec: json, metadata: [id] }} }} }}\n"
        );
    let mut agent = Agent::start(dir.path(), &config, &["--until-eof"]);
    let status = agent.wait(PATIENCE);
    assert!(status.success() || status.code() == Some(3), "{}", agent.log());
    documents(&dir.path().join("out.json"))
}

#[test]
fn a_groovy_script_reads_sets_drops_and_emits() {
    each_jdk(|home| {
        let script = "if (row.http_user_agent == 'probe') { drop(); return }\n\
            row.slow = row.request_time > 1.0\n\
            row.user = row.remote_user ?: 'nobody'\n\
            row.remove('http_referer')\n\
            if (row.status >= 500) emit([alert: \"$row.method $row.path\", status: row.status])";
        let indented = script.replace('\n', "\n      ");
        let events = events(
            home,
            &format!(
                "\n    type: jvm\n    inputs: [app]\n    language: groovy\n    fields: {{ status: int }}\n    script: |\n      {indented}"
            ),
        );
        assert_eq!(events.len(), 3, "{events:#?}");
        let [first, second, alert] = &events[..] else { unreachable!() };
        assert_eq!((&first["slow"], &first["user"]), (&false.into(), &"ada".into()));
        assert_eq!((&second["slow"], &second["user"]), (&true.into(), &"nobody".into()));
        assert_eq!((&alert["alert"], &alert["status"]), (&"POST /pay".into(), &502.into()));
        assert!(alert.get("path").is_none() && alert.get("method").is_none(), "{alert}");
        assert_eq!(alert["timestamp"], second["timestamp"]);
        let id = |event: &serde_json::Value| event["meta"]["id"].as_str().unwrap().to_owned();
        assert_eq!(id(alert), id(second) + "-1");
    });
}

#[test]
fn an_aviator_expression_is_a_filter_or_a_field() {
    each_jdk(|home| {
        let filter = events(
            home,
            "{ type: jvm, inputs: [app], language: aviator, script: 'status >= 500 || request_time < 0.005' }",
        );
        let statuses: Vec<_> =
            filter.iter().map(|event| event["status"].as_u64().unwrap()).collect();
        assert_eq!(statuses, [502, 200]);
        let field = events(
            home,
            "{ type: jvm, inputs: [app], language: aviator, script: 'string.length(path) + status', output: sum }",
        );
        let sums: Vec<_> = field.iter().map(|event| event["sum"].as_u64().unwrap()).collect();
        assert_eq!(sums, [200 + 10, 502 + 4, 200 + 7]);
    });
}

#[test]
fn a_class_in_a_jar_runs_and_others_pass_where() {
    each_jdk(|home| {
        let events = events(home, &faulty("none", "where: 'status == 200'"));
        let seen: Vec<_> = events.iter().map(|event| event.get("seen").is_some()).collect();
        assert_eq!(seen, [true, false, true]);
    });
}
