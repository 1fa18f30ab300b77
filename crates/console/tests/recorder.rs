//! The flight recorder over real sockets. Of all processes, only the one that runs these tests
//! records.

use crate::common::{Fixture, recorder_state};
use millstream_recorder::record::{self, Subject};
use millstream_recorder::recorder::{self, Destination};
use millstream_recorder::schema::EventKind;
use millstream_recorder::snapshot::{Reader, SlotCounts, Snapshot};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Once;

/// Lock that serializes the tests, because the settings belong to the process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Starts recording in memory, with the default settings.
fn recording() -> MutexGuard<'static, ()> {
    static START: Once = Once::new();
    let guard = ONE_AT_A_TIME.lock();
    let defaults = recorder::defaults();
    START.call_once(|| recorder::start_run(&Destination::Memory, 1 << 20, &defaults).unwrap());
    recorder_state().set(defaults);
    guard
}

/// Sends a request with a body over the control socket. Returns the status and the body of the
/// response.
fn exchange(socket: &Path, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = UnixStream::connect(socket).unwrap();
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n").unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head");
    let status = String::from_utf8_lossy(&answer[9..12]).parse().unwrap();
    (status, answer[end + 4..].to_vec())
}

fn json_of(fixture: &Fixture, method: &str, body: &str) -> (u16, Value) {
    let socket = &fixture.console().socket_path;
    let (status, body) = exchange(socket, method, "/api/recorder", body.as_bytes());
    (status, serde_json::from_slice(&body).unwrap())
}

fn event<'r>(answer: &'r Value, name: &str) -> &'r Value {
    let events = answer["events"].as_array().unwrap();
    events.iter().find(|event| event["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn settings_are_shown_and_changed() {
    let (_guard, fixture) = (recording(), Fixture::new());
    let (status, shown) = json_of(&fixture, "GET", "");
    assert_eq!((status, &shown["enabled"]), (200, &json!(true)));
    assert_eq!((&shown["file"], &shown["size_bytes"]), (&json!("/run/a.rings"), &json!(1 << 20)));
    let wait = event(&shown, "WaitForCapacity");
    let expected = json!({ "name": "WaitForCapacity", "enabled": true, "threshold": "1ms", "rate": null, "over_rate": 0 });
    assert_eq!(wait, &expected);
    let change =
        r#"{"events": {"WaitForCapacity": {"enabled": false}, "FileRead": {"rate": "7/s"}}}"#;
    let (status, changed) = json_of(&fixture, "PUT", change);
    assert_eq!((status, &event(&changed, "WaitForCapacity")["enabled"]), (200, &json!(false)));
    assert_eq!(event(&changed, "FileRead")["rate"], "7/s");
    let of_process = || recorder::settings().unwrap()[EventKind::WaitForCapacity as usize];
    assert!(!of_process().enabled);
    let (_, changed) =
        json_of(&fixture, "PUT", r#"{"events": {"WaitForCapacity": {"enabled": true}}}"#);
    assert_eq!(event(&changed, "WaitForCapacity")["threshold"], "1ms", "it is as before");
    assert_eq!(of_process().threshold.as_millis(), 1);
}

#[test]
fn a_wrong_change_changes_nothing() {
    let (_guard, fixture) = (recording(), Fixture::new());
    let change = r#"{"events": {"FileRead": {"enabled": false}, "FileWrite": {"rate": "7"}}}"#;
    let (status, answer) = json_of(&fixture, "PUT", change);
    assert_eq!(status, 400);
    let expected =
        "FileWrite: rate: \"7\" is not a number of events per second; use, for example, 100/s";
    assert_eq!(answer["error"], expected);
    assert_eq!(event(&json_of(&fixture, "GET", "").1, "FileRead")["enabled"], true);
    let (status, answer) = json_of(&fixture, "PUT", &" ".repeat((64 << 10) + 1));
    assert_eq!((status, &answer["error"]), (413, &json!("the body is longer than 65536 bytes")));
    let (status, answer) = json_of(&fixture, "DELETE", "");
    assert_eq!((status, &answer["error"]), (405, &json!("only GET, HEAD, PUT are allowed")));
}

/// Returns the sizes of the writes to a file that a copy contains.
fn written(reader: &mut Reader, copy: &[u8], path: &str) -> Vec<u64> {
    use millstream_recorder::event::Tables;
    use millstream_recorder::ids::TextId;
    let mut found = Vec::new();
    reader.read(&Snapshot::parse(copy).unwrap(), |event, reader| {
        let text = reader.text(TextId(event.values[0] as u32));
        if event.kind == EventKind::FileWrite && text == Some(path) {
            found.push(event.values[1]);
        }
    });
    found
}

fn body_of(known: &SlotCounts) -> Vec<u8> {
    known
        .iter()
        .flat_map(|(sequence, slots)| [*sequence, *slots].map(u32::to_le_bytes))
        .flatten()
        .collect()
}

#[test]
fn a_copy_has_what_the_client_does_not_know() {
    let (_guard, fixture) = (recording(), Fixture::new());
    let (socket, path) = (&fixture.console().socket_path, "/api/recorder/rings");
    let subject = Subject::file(Path::new("/var/log/copy.log"));
    let write = |bytes| record::file_write(recorder::start(EventKind::FileWrite), &subject, bytes);
    (1..=3).for_each(write);
    let mut reader = Reader::default();
    let (status, copy) = exchange(socket, "GET", path, b"");
    assert_eq!((status, written(&mut reader, &copy, "/var/log/copy.log")), (200, vec![1, 2, 3]));
    write(4);
    let (status, rest) = exchange(socket, "POST", path, &body_of(reader.known()));
    assert_eq!((status, written(&mut reader, &rest, "/var/log/copy.log")), (200, vec![4]));
    assert_eq!(exchange(socket, "POST", path, &[1, 2, 3]).0, 400);
    assert_eq!(fixture.ask(path, &[]).status, 401);
}
