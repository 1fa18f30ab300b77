//! Valid configurations and the settings that they produce.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use millstream_engine::{Buffer, DiskMode, DiskOptions, Pace, Priority, WhenFull};
use millstream_model::{Interval, Kind, Size};
use serde_json::json;

use super::super::{Fault, Globals, LogLevel, LogTarget, schema};
use super::catalog::TestCatalog;
use super::{REST, good, load_files};

/// Without settings, the defaults of the manual apply.
#[test]
fn defaults() {
    let globals = good(REST).globals;
    assert_eq!(globals, Globals::default());
    assert_eq!(globals.data_dir.to_str(), Some("/var/lib/millstream"));
    assert_eq!((globals.log.level, globals.log.to), (LogLevel::Info, LogTarget::Stderr));
    assert_eq!((globals.limits.threads, globals.limits.memory), (2, Size(512 << 20)));
    assert_eq!(globals.limits.cpu, None);
    assert_eq!(globals.shutdown_timeout, Interval(Duration::from_secs(20)));
    assert_eq!(globals.api.listen.to_string(), "127.0.0.1:7878");
    assert!(!globals.watch);
}

/// Keys that begin with `x-` hold YAML for anchors; each file may have such keys.
#[test]
fn shared_yaml() {
    let shared = "x-limits: &limits {memory: 64MiB}\nx-: [1, {any: thing}]\nlimits: *limits\n";
    let globals = good(&format!("{shared}{REST}")).globals;
    assert_eq!(globals.limits.memory, Size(64 << 20));
    let other = "x-limits: 5\n";
    let both = [("a.yaml", format!("{shared}{REST}")), ("b.yaml", other.to_owned())];
    let both: Vec<(&str, &str)> = both.iter().map(|(name, text)| (*name, text.as_str())).collect();
    assert!(load_files(&both).is_ok());
    let schema = schema(&TestCatalog);
    assert!(schema["patternProperties"]["^x-"].is_object());
}

/// Every setting has an effect; a key that a map omits keeps its default.
#[test]
fn globals() {
    let text = "data_dir: /d\nlog: {level: trace, to: /var/log/m.log}\nlimits: {memory: 64MiB, cpu: 1.5}\n\
                shutdown_timeout: 1m30s\napi: {listen: '[::1]:80'}\n";
    let globals = good(&format!("{text}{REST}")).globals;
    assert_eq!(globals.data_dir.to_str(), Some("/d"));
    assert_eq!(
        (globals.log.level, globals.log.to),
        (LogLevel::Trace, LogTarget::File("/var/log/m.log".into()))
    );
    assert_eq!((globals.limits.threads, globals.limits.memory), (2, Size(64 << 20)));
    assert_eq!(globals.limits.cpu, Some(1.5));
    assert_eq!(good(&format!("limits: {{cpu: 2}}\n{REST}")).globals.limits.cpu, Some(2.0));
    assert_eq!(globals.shutdown_timeout, Interval(Duration::from_secs(90)));
    assert_eq!(globals.api.listen.to_string(), "[::1]:80");
}

/// Common keys are separated from the options; attributes keep numbers as written.
#[test]
fn components() {
    let config = good(
        "sources:\n  app: {type: file, host: h, attributes: {env: prod, version: 1.10, on: true}, include: [/a]}\n\
         transforms:\n  p: {type: parse, inputs: [app], format: regex, pattern: '^a$'}\n\
         sinks:\n  out: {type: console, inputs: [p, p.rejected], retries: 3, endpoint: [a, b], encoding: {codec: text}}\n  \
         dead: {type: blackhole, inputs: [out.rejected]}\n",
    );
    assert_eq!(config.warnings, []);
    let [app, p, out, _] = config.components.as_slice() else { panic!("{config:?}") };
    assert_eq!((app.kind, app.id.as_str(), app.type_name), (Kind::Source, "app", "file"));
    let attributes =
        [("env", "prod"), ("on", "true"), ("version", "1.10")].map(|(k, v)| (k.into(), v.into()));
    assert_eq!((app.host.as_deref(), &app.attributes), (Some("h"), &BTreeMap::from(attributes)));
    assert_eq!(app.options, json!({ "include": ["/a"] }));
    assert_eq!((app.place.line, app.place.column), (2, 3));
    assert_eq!(p.options, json!({ "format": "regex", "pattern": "^a$" }));
    assert_eq!(out.inputs, ["p", "p.rejected"]);
    assert_eq!(
        out.options,
        json!({ "retries": 3, "endpoint": ["a", "b"], "encoding": { "codec": "text" } })
    );
}

/// The pace of a source is separated from the options; missing keys use the default.
#[test]
fn paces() {
    let config = good(
        "sources: {a: {type: stdin, priority: low, rate_limit: 1.5MiB}, b: {type: stdin, priority: high}, c: {type: stdin}}\n\
         sinks: {o: {type: blackhole, inputs: [a, b, c]}}\n",
    );
    let paces: Vec<Pace> = config.components.iter().map(|component| component.pace).collect();
    let pace = |priority, rate_limit| Pace { priority, rate_limit };
    let default = Pace::default();
    assert_eq!(
        paces,
        [pace(Priority::Low, Some(3 << 19)), pace(Priority::High, None), default, default]
    );
    assert_eq!(config.components[0].options, json!({}));
}

/// The buffer of a sink is separated from the options; missing keys use the default.
#[test]
fn buffers() {
    let config = good(
        "sources: {a: {type: stdin}}\n\
         sinks:\n  o: {type: blackhole, inputs: [a], buffer: {type: memory, max: 1.5MiB, when_full: drop_oldest}}\n  \
         p: {type: blackhole, inputs: [a], buffer: {when_full: drop_newest}}\n  q: {type: blackhole, inputs: [a]}\n",
    );
    let buffers: Vec<Buffer> = config.components.iter().map(|component| component.buffer).collect();
    let buffer = |bytes_max, when_full| Buffer { bytes_max, when_full, disk: None };
    let default = Buffer::default();
    let (oldest, newest) = (WhenFull::DropOldest, WhenFull::DropNewest);
    assert_eq!(buffers, [default, buffer(Some(3 << 19), oldest), buffer(None, newest), default]);
    assert_eq!(config.components[1].options, json!({}));
}

/// `max` is the size on disk; the part in memory has the default size.
#[test]
fn disk_buffers() {
    let config = good(
        "sources: {a: {type: stdin}}\n\
         sinks:\n  o: {type: blackhole, inputs: [a], buffer: {type: disk, max: 16MiB}}\n  \
         p: {type: blackhole, inputs: [a], buffer: {type: disk, max: 10GiB, when_full: drop_oldest, mode: always, \
         replay_rate: 1.5MiB}}\n  \
         q: {type: blackhole, inputs: [a], buffer: {type: disk, max: 1GiB, mode: overflow}}\n",
    );
    let buffers = config.components[1..].iter().map(|component| component.buffer);
    let buffer = |bytes_max, when_full, mode, replay_rate| Buffer {
        bytes_max: None,
        when_full,
        disk: Some(DiskOptions { bytes_max, mode, replay_rate }),
    };
    let expected = [
        buffer(16 << 20, WhenFull::Block, DiskMode::Overflow, None),
        buffer(10 << 30, WhenFull::DropOldest, DiskMode::Always, Some(3 << 19)),
        buffer(1 << 30, WhenFull::Block, DiskMode::Overflow, None),
    ];
    assert_eq!(buffers.collect::<Vec<_>>(), expected);
}

/// Files add up: components from both, settings from either.
#[test]
fn merging() {
    let config = load_files(&[
        ("b.yaml", "sinks: {out: {type: blackhole, inputs: [one, two]}}\nlog: {level: warn}\n"),
        ("a.yaml", "sources: {one: {type: stdin}}\n"),
        ("c.yaml", "sources: {two: {type: stdin}}\ndata_dir: /d\n"),
        ("d.yaml", "# nothing yet\n"),
    ]);
    let config = config.unwrap();
    let ids: Vec<&str> = config.components.iter().map(|component| component.id.as_str()).collect();
    assert_eq!(ids, ["out", "one", "two"]);
    assert_eq!(
        (config.globals.log.level, config.globals.data_dir.to_str()),
        (LogLevel::Warn, Some("/d"))
    );
}

/// A variable becomes a number where the option is a number, and text inside quotes.
#[test]
fn variables_are_typed() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    fs::write(&key, "s3cret\n").unwrap();
    let config = good(&format!(
        "sources: {{in: {{type: stdin}}}}\napi: {{listen: \"127.0.0.1:${{PORT}}\"}}\n\
         sinks:\n  out:\n    type: console\n    inputs: [in]\n    retries: ${{PORT}}\n    endpoint: '${{PORT}}'\n    \
         password: '${{file:{}}}'\n",
        key.display()
    ));
    assert_eq!(config.globals.api.listen.port(), 7878);
    assert_eq!(
        config.components[1].options,
        json!({ "retries": 7878, "password": "s3cret", "endpoint": "7878" })
    );
}

/// A quoted variable is a number where the option accepts no text, because inside `{ }` it cannot
/// be unquoted.
#[test]
fn quoted_variables_are_numbers_where_no_text_fits() {
    let config = good(
        "sources: {in: {type: stdin}}\nlimits: {threads: '${THREADS:-2}', cpu: '${CPU:-1.5}'}\n\
         sinks: {out: {type: console, inputs: [in], retries: '${PORT}', ratio: '${RATIO:-2}', color: '${COLOR:-true}', \
         labels: {a: '${PORT}'}, endpoint: '${PORT}', password: '${PORT}'}}\n",
    );
    assert_eq!(config.globals.limits.threads, 2);
    assert_eq!(config.globals.limits.cpu, Some(1.5));
    assert_eq!(
        config.components[1].options,
        json!({
            "retries": 7878, "ratio": 2, "color": true, "labels": {"a": 7878},
            "endpoint": "7878", "password": "7878",
        })
    );
}

/// Unused outputs are allowed and reported as warnings, including side outputs.
#[test]
fn warnings() {
    let config = good(
        "sources: {a: {type: stdin}, b: {type: stdin}}\n\
         transforms: {p: {type: parse, format: json, inputs: [a]}, f: {type: filter, inputs: [a]}}\n\
         sinks: {o: {type: blackhole, inputs: [p]}}\n",
    );
    let warnings: Vec<String> = config
        .warnings
        .iter()
        .map(|warning| Fault { place: None, ..warning.clone() }.to_string())
        .collect();
    assert_eq!(
        warnings,
        [
            "no component reads the source `b`; add it to the `inputs` of a transform or sink, or \
             remove it",
            "no component reads `p.rejected`, so its events are dropped and counted; add it to \
             `inputs` to keep them",
            "no component reads the transform `f`; add it to the `inputs` of a transform or sink, \
             or remove it",
        ]
    );
}

/// Settings for a process without a component are reported, because its name is probably
/// misspelled.
#[test]
fn unused_processes() {
    let config = good(
        "jvm: {processes: {taem: {heap: 64MiB}}}\n\
         sources: {a: {type: stdin}}\nsinks: {o: {type: blackhole, inputs: [a]}}\n",
    );
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("no component runs in process `taem`"), "{warnings:?}");
}

/// A file that a component needs may be created after the agent starts. A warning reports that it
/// is missing, without the path.
#[test]
fn files_that_cannot_be_read_yet() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there");
    std::fs::write(&there, "x").unwrap();
    let warnings = |path: &std::path::Path| {
        let sink = format!("type: console, inputs: [in], password_file: '{}'", path.display());
        let config =
            good(&format!("sources: {{in: {{type: stdin}}}}\nsinks: {{out: {{{sink}}}}}\n"));
        let texts = config.warnings.iter().map(ToString::to_string);
        let texts = texts.filter(|text| text.contains("password"));
        texts.map(|text| text[text.find("m.yaml").unwrap()..].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(warnings(&there), [""; 0]);
    let said = |what: &str| {
        let advice = "create the file, make it readable for the agent, or set another path";
        vec![format!("m.yaml:2:59: `password_file`: {what}; `out` waits for the file; {advice}")]
    };
    let missing = "the file cannot be read (No such file or directory (os error 2))";
    assert_eq!(warnings(&folder.path().join("missing")), said(missing));
    assert_eq!(warnings(folder.path()), said("this is not a regular file"));
}

/// A value that expires may be a duration, or `never`.
#[test]
fn expiry() {
    for expire in ["10m", "never"] {
        good(&format!(
            "sources: {{in: {{type: file, include: [a], expire: {expire}}}}}\n\
             sinks: {{out: {{type: blackhole, inputs: [in]}}}}\n"
        ));
    }
}

/// The editors' schema contains every type with its common keys, and every reference in it
/// resolves.
#[test]
fn editor_schema() {
    let schema = schema(&TestCatalog);
    let sources = &schema["properties"]["sources"]["additionalProperties"]["oneOf"];
    assert_eq!(sources[0]["properties"]["type"]["const"], "file");
    assert_eq!(sources[0]["properties"]["include"]["description"], "Globs of the files to read.");
    assert!(
        sources[0]["properties"]["max_line"]["pattern"].as_str().unwrap().contains("[KMGT]i?B")
    );
    let expire = sources[0]["properties"]["expire"]["pattern"].as_str().unwrap();
    assert!(expire.contains("us|ns") && expire.contains("|^never$"), "{expire}");
    let parse = &schema["properties"]["transforms"]["additionalProperties"]["oneOf"][1];
    assert_eq!(parse["required"], json!(["type", "inputs"]));
    assert_eq!(parse["unevaluatedProperties"], false);
    assert_eq!(schema["properties"]["limits"]["default"]["memory"], "512MiB");
    let text = schema.to_string();
    let targets: Vec<&str> =
        text.split("\"$ref\":\"#").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(targets.len() > 8);
    for target in targets {
        assert!(schema.pointer(target).is_some(), "{target}");
    }
}

/// Settings of events replace the defaults of these types only.
#[test]
fn recorder() {
    use millstream_recorder::recorder::defaults;
    use millstream_recorder::schema::{EventKind, PerSecond};
    let rest = "sources: {a: {type: stdin}}\nsinks: {o: {type: blackhole, inputs: [a]}}\n";
    let recorder =
        |settings: &str| good(&format!("recorder: {{{settings}}}\n{rest}")).globals.recorder;
    let usual = good(rest).globals.recorder;
    assert_eq!((usual.enabled, usual.size, usual.all_events()), (true, None, defaults()));
    let off = recorder("enabled: false, size: 1MiB");
    assert_eq!((off.enabled, off.size), (false, Some(Size(1 << 20))));
    let of_memory = |mib: u64| usual.size(Size(mib << 20)).0;
    assert_eq!([16, 64, 256, 4096].map(of_memory), [1 << 20, 2 << 20, 8 << 20, 8 << 20]);
    assert_eq!(off.size(Size(4 << 30)), Size(1 << 20));
    let events = recorder(
        "events: { SocketWrite: { threshold: 1ms, rate: 100/s }, Retry: { rate: none }, \
                     WaitForCapacity: { threshold: none }, FileRead: { enabled: false } }",
    );
    let mut expected = defaults();
    expected[EventKind::SocketWrite as usize].threshold = std::time::Duration::from_millis(1);
    expected[EventKind::SocketWrite as usize].rate = Some(PerSecond(100));
    expected[EventKind::Retry as usize].rate = None;
    expected[EventKind::WaitForCapacity as usize].threshold = std::time::Duration::ZERO;
    expected[EventKind::FileRead as usize].enabled = false;
    assert_eq!(events.all_events(), expected);
}
