//! Tests of the checks between components.

use super::*;
use millstream_components::component::HeaderLines;
use millstream_config::Registry;
use std::io::Write;

/// Returns messages about sinks with these paths. `DIR` is replaced with a folder that contains
/// `data_dir`.
fn messages(paths: &[&str]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let mut text = "data_dir: DIR/data\nsources: { app: { type: generate } }\nsinks:\n".to_owned();
    for (index, path) in paths.iter().enumerate() {
        text += &format!("  s{index}: {{ type: file, inputs: [app], path: '{path}' }}\n");
    }
    let text = text.replace("DIR", &dir.path().display().to_string());
    faults(&load(&text)).iter().map(ToString::to_string).collect()
}

fn load(text: &str) -> Config {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let config = millstream_config::load(&[file.path().into()], &Registry, &|_| None);
    config.unwrap_or_else(|faults| panic!("{}", faults[0]))
}

#[test]
fn sinks_whose_templates_can_collide_are_rejected() {
    for (one, other) in [
        ("/o/{{ x }}.txt", "/o/app.txt"),
        ("/o/app.txt", "/o/{{ x }}.txt"),
        ("/o/{{ x }}/a.log", "/o/b/{{ y }}.log"),
        ("/o/{{ x }}-1.log", "/o/a-{{ y }}.log"),
        ("/o/%F/{{ x }}", "/o/%Y-%m-%d/a"),
    ] {
        let found = messages(&[one, other]);
        assert!(found.len() == 1 && found[0].contains("; use different folders"), "{found:?}");
    }
    assert!(messages(&["/o/{{ x }}.log", "/o/{{ y }}.log"])[0].contains("both use the same file"));
    for (one, other) in [
        ("/o/a/{{ x }}.log", "/o/b/{{ x }}.log"),
        ("/o/{{ x }}.log", "/o/{{ x }}.txt"),
        ("/o/{{ x }}", "/o/a/b"),
        ("/o/app{{ x }}.txt", "/o/app.txt"),
        ("/o/a{{ x }}", "/o/b{{ x }}"),
    ] {
        assert_eq!(messages(&[one, other]), [""; 0], "{one} {other}");
    }
}

#[test]
fn sinks_cannot_write_into_data_dir() {
    for path in ["DIR/data/token", "DIR/data/{{ x }}", "DIR/data/a-{{ x }}/b", "DIR/{{ x }}/token"]
    {
        let found = messages(&[path]);
        assert!(
            found.len() == 1 && found[0].contains("write to another folder"),
            "{path}: {found:?}"
        );
    }
    for path in ["DIR/data/out/{{ x }}", "DIR/out/{{ x }}", "DIR/{{ x }}", "DIR/database"] {
        assert_eq!(messages(&[path]), [""; 0], "{path}");
    }
}

/// Returns the errors for a sink with these options that reads a chain: a source, and `more`.
fn of_sink(source: &str, more: &str, sink: &str) -> Vec<String> {
    let text = format!(
        "sources: {{ in: {{ type: {source} }} }}\ntransforms: {{ {more} }}\nsinks: {{ out: {{ {sink} }} }}\n"
    );
    faults(&load(&text)).iter().map(|fault| fault.what.clone()).collect()
}

#[test]
fn a_metrics_sink_requires_an_input_with_metrics() {
    let exporter = "type: prometheus_exporter, inputs: [last]";
    let remote = "type: prometheus_remote_write, uri: 'http://h/', inputs: [last]";
    let blocks =
        "type: tcp, address: 'h:1', framing: length, encoding: { codec: msgpack }, inputs: [last]";
    let through = |transform: &str| format!("last: {{ inputs: [in], {transform} }}");
    let filter = through("type: filter, where: 'true'");
    for sink in [exporter, remote, blocks] {
        for source in ["stdin", "generate", "file, include: [/x]"] {
            let said = "`out` accepts only metrics, but `last` does not emit metrics";
            assert_eq!(of_sink(source, &filter, sink), [said], "{source} {sink}");
            assert_eq!(of_sink(source, &through("type: parse, format: json"), sink), [""; 0]);
        }
        assert_eq!(of_sink("internal_metrics", &filter, sink), [""; 0]);
    }
    assert_eq!(of_sink("stdin", &filter, "type: tcp, address: 'h:1', inputs: [last]"), [""; 0]);
    let both = "type: prometheus_exporter, inputs: [in, a.x, b]";
    let network = "a: { type: route, inputs: [in], routes: { x: 'true' } }, b: { type: fields, inputs: [a], steps: [{ drop: [c] }] }";
    let said = ["in", "a.x"]
        .map(|input| format!("`out` accepts only metrics, but `{input}` does not emit metrics"));
    assert_eq!(of_sink("stdin", network, both), said);
}

#[test]
fn no_sink_listens_on_the_agents_address() {
    let config = |api: &str, listen: &str| {
        format!(
            "api: {{ listen: '{api}' }}\nsources: {{ in: {{ type: internal_metrics }} }}\n\
             sinks: {{ out: {{ type: prometheus_exporter, inputs: [in], listen: '{listen}' }} }}\n"
        )
    };
    let said = |text: &str| faults(&load(text)).iter().map(ToString::to_string).collect::<Vec<_>>();
    let found = said(&config("127.0.0.1:9598", "127.0.0.1:9598"));
    let wanted =
        "`out` and `api.listen` both use the TCP address 127.0.0.1:9598; change one of them";
    assert!(found.len() == 1 && found[0].ends_with(wanted), "{found:?}");
    assert_eq!(said(&config("127.0.0.1:0", "127.0.0.1:0")), [""; 0]);
    assert_eq!(said(&config("127.0.0.1:7878", "127.0.0.1:9598")), [""; 0]);
}

#[test]
fn an_address_has_one_listener() {
    let said = |api: &str, sources: [&str; 2], exporter: &str| {
        let [a, b] = sources.map(|address| format!("{{ type: dogstatsd, listen: ['{address}'] }}"));
        let text = format!(
            "api: {{ {api} }}\nsources: {{ a: {a}, b: {b} }}\n\
             sinks: {{ out: {{ type: prometheus_exporter, inputs: [a, b], listen: '{exporter}' }} }}\n"
        );
        faults(&load(&text)).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let (tcp, udp, free) = ("tcp://127.0.0.1:7878", "udp://127.0.0.1:7878", "127.0.0.1:9598");
    let own_api = "listen: '127.0.0.1:1'";
    for (api, sources, exporter, users, claim) in [
        ("", [tcp, udp], free, "`a` and `api.listen`", "the TCP address 127.0.0.1:7878; change"),
        (
            own_api,
            [udp, tcp],
            "127.0.0.1:7878",
            "`b` and `out`",
            "the TCP address 127.0.0.1:7878; keep",
        ),
        (own_api, [tcp, tcp], free, "`a` and `b`", "the TCP address 127.0.0.1:7878; keep"),
        (own_api, [udp, udp], free, "`a` and `b`", "the socket udp://127.0.0.1:7878; keep"),
        ("", ["unix:///s", "unix:///s"], free, "`a` and `b`", "the socket unix:///s; keep"),
    ] {
        let (found, wanted) = (said(api, sources, exporter), format!("{users} both use {claim}"));
        assert!(found.len() == 1 && found[0].contains(&wanted), "{wanted}: {found:?}");
    }
    for scheme in ["udp", "tcp"] {
        let any = format!("{scheme}://127.0.0.1:0");
        assert_eq!(said("", [&any, &any], "127.0.0.1:0"), [""; 0]);
    }
}

#[test]
fn missing_secret_and_certificate_files_are_reported() {
    let tls = "tls: { ca_file: /no/ca, cert_file: /no/cert, key_file: /no/key }";
    let auth = |keys: &str, file: &str| format!("auth: {{ {keys}, {file}_file: /no/secret }}");
    let of_tls = ["ca_file", "cert_file", "key_file"];
    let bearer = format!("type: http, uri: 'https://h/', {tls}, {}", auth("type: bearer", "token"));
    let header = auth("type: header, name: X-Key", "value");
    let remote = format!("type: prometheus_remote_write, uri: 'https://h/', {tls}, {header}");
    let exporter =
        format!("type: prometheus_exporter, {}", auth("type: basic, user: u", "password"));
    for (sink, keys) in [
        (bearer, [&of_tls[..], &["token_file"]].concat()),
        (remote, [&of_tls[..], &["value_file"]].concat()),
        (exporter, vec!["password_file"]),
        (format!("type: tcp, address: 'h:1', {tls}"), of_tls.to_vec()),
        (format!("type: kafka, brokers: ['h:1'], topic: t, {tls}"), of_tls.to_vec()),
    ] {
        let text = format!(
            "sources: {{ in: {{ type: internal_metrics }} }}\nsinks: {{ out: {{ inputs: [in], {sink} }} }}\n"
        );
        let key = |warning: &Fault| warning.what.split('`').nth(1).unwrap().to_owned();
        let config = load(&text);
        assert_eq!(config.warnings.iter().map(key).collect::<Vec<_>>(), keys, "{sink}");
        assert!(config.warnings.iter().all(|warning| !warning.to_string().contains("/no/")));
    }
}

#[test]
fn a_wildcard_address_conflicts_with_its_port_on_every_interface() {
    let conflicts = |api: &str, listen: &str| {
        let text = format!(
            "api: {{ listen: '{api}' }}\nsources: {{ app: {{ type: host_metrics }} }}\n\
             sinks: {{ page: {{ type: prometheus_exporter, inputs: [app], listen: '{listen}' }} }}\n"
        );
        faults(&load(&text)).len()
    };
    for (api, listen) in [
        ("127.0.0.1:7878", "127.0.0.1:7878"),
        ("127.0.0.1:7878", "0.0.0.0:7878"),
        ("0.0.0.0:7878", "127.0.0.1:7878"),
        ("127.0.0.1:7878", "[::]:7878"),
        ("[::1]:7878", "[::]:7878"),
    ] {
        assert_eq!(conflicts(api, listen), 1, "{api} and {listen}");
    }
    for (api, listen) in [
        ("127.0.0.1:7878", "0.0.0.0:9598"),
        ("127.0.0.1:7878", "127.0.0.2:7878"),
        ("[::1]:7878", "0.0.0.0:7878"),
        ("127.0.0.1:0", "0.0.0.0:9598"),
    ] {
        assert_eq!(conflicts(api, listen), 0, "{api} and {listen}");
    }
}

/// All errors are reported at once.
#[test]
fn time_formats_lookups_inputs_and_types_are_reported_together() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let text = "sources: { app: { type: generate }, other: { type: tail } }\n\
        transforms:\n  times: { type: parse, inputs: [app], time: { format: '%Q' } }\n\
        \x20 codes: { type: fields, inputs: [nope], steps: [{ lookup: { field: a, file: /no/such.csv } }] }\n\
        sinks: { out: { type: console, inputs: [times, codes, other] } }\n";
    file.write_all(text.as_bytes()).unwrap();
    let found = millstream_config::load(&[file.path().into()], &Registry, &|_| None).unwrap_err();
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    for part in [
        "source type \"tail\"",
        "`%Q` is not a time specifier",
        "`nope` does not exist",
        "cannot open /no/such.csv",
    ] {
        assert!(found.iter().any(|fault| fault.contains(part)), "{part} is not in {found:?}");
    }
}

#[test]
fn header_lines_are_those_of_one_file_source() {
    let found = |source: &str, one: &str, other: &str| {
        let text = format!(
            "data_dir: /tmp/x\nsources: {{ app: {source} }}\n\
             transforms:\n  one: {{ type: parse, inputs: [app], {one} }}\n\
             \x20 other: {{ type: parse, inputs: [one], {other} }}\n\
             sinks: {{ out: {{ type: blackhole, inputs: [other] }} }}\n"
        );
        let config = load(&text);
        let source = config.components.iter().find(|component| component.id == "app").unwrap();
        let messages = faults(&config).iter().map(ToString::to_string).collect::<Vec<_>>();
        (headers::of(&config, source), messages)
    };
    let file = "{ type: file, include: [/x/a.log] }";
    let (json, auto) = ("format: json", "format: csv, fields: [a]");
    let (first, fields) = ("format: csv, header: first_line", "format: csv, header: fields_line");
    assert_eq!(found(file, json, json), (None, Vec::new()));
    assert_eq!(found(file, json, "format: csv, fields: [a], header: none"), (None, Vec::new()));
    let delimiter = || ",".to_owned();
    let if_present = HeaderLines::IfPresent { delimiter: delimiter() };
    assert_eq!(found(file, json, auto), (Some(if_present), Vec::new()));
    let first_line = HeaderLines::FirstLine { delimiter: delimiter() };
    assert_eq!(found(file, auto, first), (Some(first_line), Vec::new()));
    let (_, messages) = found(file, first, fields);
    assert!(messages.len() == 1 && messages[0].contains("different header lines"), "{messages:?}");
    let (_, messages) = found("{ type: stdin }", json, first);
    assert!(messages.len() == 1 && messages[0].contains("only the `file` source"), "{messages:?}");
}
