//! Requests to the console over real sockets.

use crate::common::{FILES, Fixture, ask_socket, exchange};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn open_paths_need_no_token() {
    let fixture = Fixture::new();
    let metrics = fixture.ask("/metrics", &[]);
    assert_eq!(metrics.status, 200);
    assert!(metrics.head.contains("content-type: text/plain; version=0.0.4"), "{}", metrics.head);
    assert!(metrics.body.contains("\nmillstream_build_info{version=\"1.2.3\"} 1\n"));
    let health = fixture.ask("/health", &[]);
    assert_eq!((health.status, health.json()["status"].as_str()), (200, Some("running")));
    assert_eq!(fixture.ask("/metrics?format=text", &[]).status, 200);
}

#[test]
fn a_snapshot_over_tcp_needs_the_token() {
    let fixture = Fixture::new();
    let refused = fixture.ask("/api/snapshot", &[]);
    assert_eq!(refused.status, 401);
    assert!(refused.head.contains("www-authenticate: bearer"), "{}", refused.head);
    assert!(!refused.body.contains("unsettled"));
    assert!(!refused.body.contains(fixture.console().token()));
    let wrong = format!("Authorization: Bearer {}", "0".repeat(64));
    assert_eq!(fixture.ask("/api/snapshot", &[&wrong]).status, 401);
    assert_eq!(fixture.ask("/api/snapshot", &[&fixture.bearer(), &wrong]).status, 401);
    let answered = fixture.ask("/api/snapshot", &[&fixture.bearer()]);
    assert_eq!(answered.status, 200);
    let json = answered.json();
    assert_eq!(json["components"][0]["sinks"][0]["lag"], 4096);
    assert_eq!(json["memory"]["granted_bytes"], 1 << 20);
    assert_eq!(json["version"], "1.2.3");
    assert!(json["cpu_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0));
}

#[test]
fn files_are_sorted_by_lag_chosen_by_source_and_counted() {
    let fixture = Fixture::new();
    assert_eq!(fixture.ask("/api/files", &[]).status, 401);
    let ask = |query: &str| fixture.ask(&format!("/api/files{query}"), &[&fixture.bearer()]);
    let all = ask("").json();
    let lags: Vec<u64> = all["files"].as_array().unwrap().iter().map(lag_of).collect();
    assert!(lags.iter().copied().eq((0..FILES).rev()), "{lags:?}");
    let first = serde_json::json!({
        "source": "app", "file_id": "0000000000000077", "name": "/var/log/a \"b\".log",
        "path": "/var/log/a \"b\".log.1", "status": "active", "held_by": null, "position": 1000, "size": 1119,
        "checkpoints": { "copy": 1119, "out": 1000 }, "lag_bytes": 119,
        "newest_log_time": "2026-11-21T20:29:46.123Z", "log_delay_seconds": 2.5,
        "rate_bytes_per_second": 512.0, "disorder_events": 0, "slice_errors": 0, "rotations": 1,
        "truncations": 0, "long_lines": 0,
    });
    assert_eq!(all["files"][0], first);
    let held = serde_json::json!([{"source": "app", "files": 2, "bytes": 8192, "copied_bytes": 4096, "bytes_max": 1 << 20}]);
    assert_eq!(all["held"], held);
    let error = serde_json::json!([{"source": "app", "path": "/var/log/*.txt", "reason": "matches no file"}]);
    assert_eq!(all["unreadable"], error);
    let few = ask("?source=app&limit=2").json();
    assert_eq!((few["total"].as_u64(), few["files"].as_array().unwrap().len()), (Some(FILES), 2));
    assert_eq!((ask("?source=none").status, ask("?source=out").status), (404, 404));
    assert_eq!(
        (ask("?limit=some").status, ask("?limit=-1").status, ask("?limit=0").status),
        (400, 400, 200)
    );
    // There may be many files, so they are not part of the snapshot.
    let snapshot = fixture.ask("/api/snapshot", &[&fixture.bearer()]).json();
    let source = &snapshot["components"][0];
    assert_eq!((source.get("files"), source["rotations"].as_u64()), (None, Some(7)));
    assert_eq!(source["unreadable"], serde_json::json!({ "/var/log/*.txt": "matches no file" }));
}

fn lag_of(file: &serde_json::Value) -> u64 {
    file["lag_bytes"].as_u64().unwrap()
}

#[test]
fn the_control_socket_needs_neither_token_nor_host() {
    let fixture = Fixture::new();
    let socket = &fixture.console().socket_path;
    let answered = ask_socket(socket, "GET", "/api/snapshot", &["Host: anything.example"]);
    assert_eq!((answered.status, answered.json()["uptime_seconds"].as_f64()), (200, Some(60.0)));
    assert_eq!(ask_socket(socket, "GET", "/metrics", &[]).status, 200);
}

#[test]
fn cross_origin_requests_are_rejected() {
    let fixture = Fixture::new();
    for path in ["/metrics", "/health", "/api/snapshot"] {
        let bearer = fixture.bearer();
        let rebound =
            exchange(fixture.tcp(), "GET", path, &["Host: rebound.example:7878", &bearer]);
        assert_eq!(rebound.status, 403, "{path}");
        assert!(rebound.json()["error"].as_str().unwrap().contains("Host"));
        assert_eq!(
            fixture.ask(path, &["Origin: http://other.example", &bearer]).status,
            403,
            "{path}"
        );
        let own = format!("Origin: http://{}", fixture.console().tcp);
        assert_eq!(fixture.ask(path, &[&own, &bearer]).status, 200, "{path}");
    }
    assert_eq!(exchange(fixture.tcp(), "GET", "/metrics", &[]).status, 403);
}

#[test]
fn a_wildcard_listener_accepts_the_address_of_the_connection() {
    let fixture = Fixture::in_folder(tempfile::tempdir().unwrap(), Ipv4Addr::UNSPECIFIED.into());
    let port = fixture.console().tcp.port();
    let ask = |host: &str| {
        exchange(fixture.tcp(), "GET", "/health", &[&format!("Host: {host}:{port}")]).status
    };
    assert_eq!((ask("127.0.0.1"), ask("localhost"), ask("203.0.113.9")), (200, 200, 403));
}

#[test]
fn errors_for_unknown_paths_and_methods_list_the_valid_ones() {
    let fixture = Fixture::new();
    assert_eq!(fixture.ask("/nowhere", &[]).status, 401);
    let missing = fixture.ask("/nowhere", &[&fixture.bearer()]);
    assert_eq!(missing.status, 404);
    let routes = missing.json()["routes"].clone();
    assert_eq!(
        routes,
        serde_json::json!([
            "/metrics",
            "/health",
            "/ready",
            "/api/snapshot",
            "/api/files",
            "/api/diagnosis",
            "/api/bottleneck",
            "/api/rules",
            "/api/recorder",
            "/api/recorder/rings",
            "/api/profile",
            "/api/tap"
        ])
    );
    let host = format!("Host: {}", fixture.console().tcp);
    let posted = exchange(fixture.tcp(), "POST", "/metrics", &[&host, "Content-Length: 0"]);
    assert_eq!(posted.status, 405);
    assert!(posted.head.contains("\r\nallow: get, head"), "{}", posted.head);
    assert_eq!(
        ask_socket(&fixture.console().socket_path, "DELETE", "/api/snapshot", &[]).status,
        405
    );
    assert_eq!(ask_socket(&fixture.console().socket_path, "GET", "/nowhere", &[]).status, 404);
}

#[test]
fn head_is_answered_without_a_body() {
    let fixture = Fixture::new();
    let host = format!("Host: {}", fixture.console().tcp);
    let reply = exchange(fixture.tcp(), "HEAD", "/metrics", &[&host]);
    assert_eq!((reply.status, reply.body.as_str()), (200, ""));
}

#[test]
fn ready_follows_the_agent_and_names_failing_sinks() {
    let fixture = Fixture::new();
    let before = fixture.ask("/ready", &[]);
    assert_eq!((before.status, before.json()["ready"].as_bool()), (503, Some(false)));
    assert_eq!(fixture.ask("/health", &[]).status, 200);
    fixture.ready.store(true, Ordering::Release);
    let after = fixture.ask("/ready", &[]);
    assert_eq!((after.status, after.json()["ready"].as_bool()), (200, Some(true)));
    let mut sinks = after.json()["sinks"].clone();
    sinks[0].as_object_mut().unwrap().remove("disk_buffer");
    let error = "disk \"full\"\nthe second line";
    let expected =
        serde_json::json!([{"id": "out", "error": null}, {"id": "copy", "error": error}]);
    assert_eq!(sinks, expected);
}

#[test]
fn ready_reports_uncommitted_checkpoints_and_their_age() {
    let fixture = Fixture::new();
    fixture.ready.store(true, Ordering::Release);
    let reply = fixture.ask("/ready", &[]);
    let expected = serde_json::json!({
        "error": "checkpoints cannot be committed: disk full", "committed_seconds": 12.5, "age_seconds": 12.5
    });
    assert_eq!((reply.status, &reply.json()["checkpoints"]), (200, &expected));
}

#[test]
fn ready_reports_disk_buffers() {
    let fixture = Fixture::new();
    let reply = fixture.ask("/ready", &[]).json();
    let [out, copy] = [&reply["sinks"][0], &reply["sinks"][1]];
    assert_eq!(out["disk_buffer"]["error"], "the disk buffer cannot write: disk full");
    assert_eq!(out["disk_buffer"]["events"], 40);
    assert_eq!(copy["disk_buffer"], serde_json::Value::Null);
}

#[test]
fn files_have_their_modes_and_a_stale_socket_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("control.sock");
    drop(UnixListener::bind(&socket).unwrap());
    drop(UnixListener::bind(dir.path().join("control.new")).unwrap());
    assert!(UnixStream::connect(&socket).is_err());
    let fixture = Fixture::in_folder(dir, Ipv4Addr::LOCALHOST.into());
    assert_eq!(fixture.console().socket_path, socket);
    assert!(fs::metadata(&socket).unwrap().file_type().is_socket());
    assert_eq!((mode(&socket), mode(&fixture.console().token_path)), (0o660, 0o600));
    assert_eq!(ask_socket(&socket, "GET", "/health", &[]).status, 200);
    let token = fs::read_to_string(&fixture.console().token_path).unwrap();
    assert_eq!(token.trim_end(), fixture.console().token());
    assert_eq!(fs::read_dir(fixture.dir.path()).unwrap().count(), 2);
}

#[test]
fn an_address_in_use_is_named() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let fixture = Fixture::new();
    let dir = tempfile::tempdir().unwrap();
    let config = millstream_console::ConsoleConfig {
        listen: taken.local_addr().unwrap(),
        data_dir: dir.path().to_path_buf(),
        version: crate::common::VERSION,
        config: Arc::new(millstream_console::ConfigState::new(0)),
        recorder: crate::common::recorder_state(),
        open_tap: Arc::new(crate::common::open_tap),
    };
    let started = millstream_console::start(
        config,
        Arc::new(crate::common::snapshot),
        Arc::new(AtomicBool::new(false)),
    );
    let error = fixture.runtime.block_on(started).err().unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert!(
        error.to_string().contains(&format!("api.listen {}", taken.local_addr().unwrap())),
        "{error}"
    );
}

#[test]
fn shutdown_closes_both_and_finishes_in_bounded_time() {
    let mut fixture = Fixture::new();
    let (tcp, socket) = (fixture.console().tcp, fixture.console().socket_path.clone());
    let _silent = fixture.tcp();
    fixture.ask("/health", &[]);
    let begun = Instant::now();
    let console = fixture.console.take().unwrap();
    fixture.runtime.block_on(console.shutdown());
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert!(!socket.exists());
    assert!(std::net::TcpStream::connect(tcp).is_err());
}

#[test]
fn silent_clients_do_not_block_the_control_socket() {
    let fixture = Fixture::new();
    let silent: Vec<_> = (0..80).map(|_| fixture.tcp()).collect();
    assert_eq!(ask_socket(&fixture.console().socket_path, "GET", "/health", &[]).status, 200);
    // Requests beyond the limit wait until others have finished.
    let mut waiting = fixture.tcp();
    waiting
        .write_all(
            format!("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", fixture.console().tcp).as_bytes(),
        )
        .unwrap();
    waiting.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(waiting.read(&mut [0; 16]).is_err());
    drop(silent);
    waiting.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut start = [0; 12];
    waiting.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 200");
}

#[test]
fn an_oversized_head_is_rejected() {
    let fixture = Fixture::new();
    let long = format!("X-Long: {}", "x".repeat(20_000));
    let mut stream = fixture.tcp();
    let request =
        format!("GET /health HTTP/1.1\r\nHost: {}\r\n{long}\r\n\r\n", fixture.console().tcp);
    // The server may close the connection while the rest is still being sent.
    let _ = stream.write_all(request.as_bytes());
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    assert!(!text.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&text));
    assert_eq!(fixture.ask("/health", &[]).status, 200);
}

#[test]
fn a_recorder_that_is_off_says_how_to_turn_it_on() {
    let fixture = Fixture::new();
    let shown = fixture.ask("/api/recorder", &[&fixture.bearer()]);
    assert_eq!((shown.status, shown.json()["enabled"].as_bool()), (200, Some(false)));
    assert_eq!(fixture.ask("/api/recorder", &[]).status, 401);
    let socket = &fixture.console().socket_path;
    for (method, path) in [("PUT", "/api/recorder"), ("GET", "/api/recorder/rings")] {
        let refused = ask_socket(socket, method, path, &["Content-Length: 0"]);
        assert_eq!(refused.status, 409, "{path}");
        let error = refused.json()["error"].as_str().unwrap().to_owned();
        assert!(error.contains("set recorder.enabled to true and restart"), "{error}");
    }
}
