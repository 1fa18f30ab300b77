//! Tests unavailable addresses: the agent fails with cause and advice before it reads anything.

use super::{PATIENCE, config, start};
use crate::support::{Agent, folder, write_config};
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::Path;

/// Returns the error of a start that fails.
fn refused(dir: &Path, source: &str, listen: &str) -> String {
    let mut agent =
        Agent::start(dir, &config(&format!("type: {source}, listen: ['{listen}']")), &[]);
    let status = agent.wait(PATIENCE);
    assert_eq!(status.code(), Some(1), "a service manager may retry: {}", agent.log());
    agent.log()
}

fn assert_says(log: &str, parts: &[&str]) {
    for part in parts {
        assert!(log.contains(part), "{part:?} is not in:\n{log}");
    }
}

#[test]
fn a_port_in_use_is_rejected_with_advice() {
    let dir = folder();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = format!("udp://{}", udp.local_addr().unwrap());
    assert_says(
        &refused(dir.path(), "dogstatsd", &at),
        &[&at, "in use", "ss -lunpt", "another port"],
    );
    let dir = folder();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("tcp://{}", tcp.local_addr().unwrap());
    assert_says(&refused(dir.path(), "dogstatsd", &at), &[&at, "in use", "another port"]);
}

#[test]
fn a_socket_in_use_is_rejected_with_advice() {
    let dir = folder();
    let path = |name: &str| dir.path().join(name);
    let _gram = UnixDatagram::bind(path("gram")).unwrap();
    assert_says(
        &refused(dir.path(), "dogstatsd", "unixgram://DIR/gram"),
        &["/gram: another process listens on it", "ss -xlp"],
    );
    let _stream = UnixListener::bind(path("stream")).unwrap();
    assert_says(
        &refused(dir.path(), "metricserver", "unix://DIR/stream"),
        &["/stream: another process listens on it", "ss -xlp"],
    );
    assert!(path("gram").exists() && path("stream").exists(), "the sockets of others stay");
}

#[test]
fn a_file_that_is_not_a_socket_is_rejected_and_kept() {
    let dir = folder();
    fs::write(dir.path().join("file"), "precious").unwrap();
    assert_says(
        &refused(dir.path(), "dogstatsd", "unixgram://DIR/file"),
        &["/file: a file exists there that is not a socket", "remove the file"],
    );
    assert_eq!(fs::read_to_string(dir.path().join("file")).unwrap(), "precious");
}

#[test]
fn a_second_agent_does_not_take_the_socket_of_the_first() {
    let (first, second) = (folder(), folder());
    let at = format!("unixgram://{}/points.sock", first.path().display());
    let mut agent = start(first.path(), &format!("type: dogstatsd, listen: ['{at}']"));
    assert_says(
        &refused(second.path(), "dogstatsd", &at),
        &["points.sock: another process listens on it", "ss -xlp"],
    );
    super::send_all(&first.path().join("points.sock"), &["still:1|c"]);
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    assert_eq!(super::Events::read(first.path()).sum("still", ""), 1.0);
}

#[test]
fn a_folder_without_permission_is_rejected_with_advice() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can start an agent as somebody else");
    }
    let dir = folder();
    let mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    fs::create_dir(dir.path().join("private")).unwrap();
    mode(dir.path(), 0o777);
    mode(&dir.path().join("private"), 0o700);
    let config = config("type: dogstatsd, listen: ['unixgram://DIR/private/points.sock']");
    write_config(dir.path(), &config);
    let nobody = 65_534;
    let spawned = std::panic::catch_unwind(|| {
        Agent::spawn(dir.path(), &config, &[], |command| {
            command.uid(nobody).gid(nobody);
        })
    });
    let Ok(mut agent) = spawned else {
        return eprintln!("skipped: another user may not run the program where it is");
    };
    assert_eq!(agent.wait(PATIENCE).code(), Some(1), "{}", agent.log());
    assert_says(
        &agent.log(),
        &["private/points.sock", "ermission denied", "give the agent's user write access to"],
    );
}

#[test]
fn invalid_addresses_are_configuration_errors() {
    for (listen, advice) in [
        ("127.0.0.1:8125", "udp://"),
        ("http://127.0.0.1:8125", "unixgram://"),
        ("udp://127.0.0.1", "udp://127.0.0.1:8125"),
        ("unixgram://run/a.sock", "unixgram:///run/a.sock"),
    ] {
        let dir = folder();
        let config = config(&format!("type: dogstatsd, listen: ['{listen}']"));
        let mut agent = Agent::start(dir.path(), &config, &[]);
        assert_eq!(agent.wait(PATIENCE).code(), Some(2), "{}", agent.log());
        assert_says(&agent.log(), &["millstream.yaml:4:", advice]);
    }
}
