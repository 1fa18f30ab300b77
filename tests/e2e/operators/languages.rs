//! Tests Groovy, AviatorScript and Java on lines of a web log.

use super::{Java, PATIENCE, documents, each_jdk, faulty, settings};
use crate::support::{Agent, folder, wait_until};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

const LOG: &str = r#"203.0.113.7 - ada [25/Nov/2026:10:00:01 +0000] "GET /cart?id=1 HTTP/1.1" 200 512 "-" "curl/8" 0.010
203.0.113.8 - - [25/Nov/2026:10:00:02 +0000] "POST /pay HTTP/1.1" 502 90 "-" "curl/8" 2.500
203.0.113.9 - - [25/Nov/2026:10:00:03 +0000] "GET /health HTTP/1.1" 200 2 "-" "probe" 0.001
"#;

/// Sends the log through `parse` and a transform; returns the events.
fn events(home: Java<'_>, transform: &str) -> Vec<serde_json::Value> {
    let dir = folder();
    fs::write(dir.path().join("access.log"), LOG).unwrap();
    let format = r#"log_format: '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_time'"#;
    let config = settings(&home)
        + &format!(
            "sources: {{ log: {{ type: file, include: ['DIR/access.log'] }} }}\n\
             transforms:\n  app: {{ type: parse, inputs: [log], format: nginx, {format} }}\n  op: {transform}\n\
             sinks: {{ out: {{ type: file, inputs: [op], path: DIR/out.json, encoding: {{ codec: json, metadata: [id] }} }} }}\n"
        );
    let mut agent = Agent::start(dir.path(), &home.adapt(config), &["--until-eof"]);
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

/// A folder of scripts that process the lines of `app.log`.
struct Scripts<'a> {
    dir: &'a Path,
    config: String,
}

impl Scripts<'_> {
    fn new<'a>(home: Java<'_>, dir: &'a Path) -> Scripts<'a> {
        fs::create_dir(dir.join("rules")).unwrap();
        let config = settings(&home)
            + "sources: { app: { type: file, include: ['DIR/app.log'] } }\n\
               transforms: { op: { type: jvm, inputs: [app], language: groovy, script_dir: DIR/rules } }\n\
               sinks: { out: { type: file, inputs: [op], path: DIR/out.json, encoding: { codec: json, metadata: [] } } }\n";
        Scripts { dir, config: home.adapt(config) }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.dir.join("rules").join(name), text).unwrap();
    }

    /// Reloads, and waits until the log contains another `text`.
    fn reload(&self, agent: &Agent, text: &str) {
        let before = agent.log().matches(text).count();
        agent.reload(&self.config);
        wait_until(text, PATIENCE, || agent.log().matches(text).count() > before);
    }

    /// Returns the value of the field `steps` that the scripts give to a new line.
    fn steps(&self, line: &str) -> String {
        let path = self.dir.join("app.log");
        let mut file = File::options().create(true).append(true).open(path).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
        let found = || {
            let events = documents(&self.dir.join("out.json"));
            events.into_iter().find(|event| event["message"] == line)
        };
        wait_until(line, PATIENCE, || found().is_some());
        found().unwrap()["steps"].as_str().unwrap_or_default().to_owned()
    }
}

#[test]
fn scripts_of_a_folder_run_in_order_and_follow_its_files() {
    each_jdk(|home| {
        let dir = folder();
        let scripts = Scripts::new(home, dir.path());
        scripts.write("20-second.groovy", "row.steps += ' second'");
        scripts.write("10-first.groovy", "row.steps = 'first'");
        scripts.write("30-third.groovy", "row.steps = \"${row.steps} third\"");
        scripts.write("notes.txt", "no script");
        let mut agent = Agent::start(dir.path(), &scripts.config, &[]);
        assert_eq!(scripts.steps("one"), "first second third");
        scripts.write("15-added.groovy", "row.steps += ' added'");
        scripts.reload(&agent, "changed: op");
        assert_eq!(scripts.steps("two"), "first added second third");
        scripts.write("25-bad.groovy", "row.steps += ' bad'\nrow.steps = (");
        scripts.reload(&agent, "the previous configuration stays in use");
        agent.assert_logs("25-bad.groovy:2:");
        assert_eq!(scripts.steps("three"), "first added second third");
        fs::remove_file(dir.path().join("rules/25-bad.groovy")).unwrap();
        fs::remove_file(dir.path().join("rules/20-second.groovy")).unwrap();
        scripts.reload(&agent, "changed: op");
        assert_eq!(scripts.steps("four"), "first added third");
        assert!(agent.stop().success(), "{}", agent.log());
    });
}
