//! Tests that the agent notifies the service manager, as a unit of `Type=notify` requires.

use crate::support::{Agent, folder, wait_until};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

const CONFIG: &str = "sources: { load: { type: generate, rate: 1 } }\n\
                      sinks: { out: { type: blackhole, inputs: [load] } }\n";

/// Timeout for a notification, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// The service manager's end of the socket.
struct ServiceManager(UnixDatagram);

impl ServiceManager {
    fn bind(path: &Path) -> ServiceManager {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        ServiceManager(socket)
    }

    /// Returns the next notification.
    fn receive(&self) -> String {
        let mut bytes = [0; 4096];
        let len = self.0.recv(&mut bytes).expect("a notification");
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    }

    /// Returns the next notification that is not for the watchdog.
    fn receive_state(&self) -> String {
        loop {
            let text = self.receive();
            if text != "WATCHDOG=1\n" {
                return text;
            }
        }
    }
}

#[test]
fn the_service_manager_is_notified_of_start_reload_and_stop() {
    let folder = folder();
    let socket = folder.path().join("notify");
    let manager = ServiceManager::bind(&socket);
    let config = format!("{CONFIG}shutdown_timeout: 100s\n");
    let mut agent = Agent::spawn(folder.path(), &config, &[], |command| {
        command.env("NOTIFY_SOCKET", &socket);
    });
    assert_eq!(manager.receive(), "READY=1\nSTATUS=running\n");
    assert!(agent.get("/ready").is_some(), "{}", agent.log());

    agent.reload(&format!("{config}limits: {{ memory: 1GiB }}\n"));
    let reloading = manager.receive();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(manager.receive(), "READY=1\nSTATUS=running\n");

    agent.reload("sinks: {}\n");
    assert!(manager.receive().starts_with("RELOADING=1\n"));
    let rejected = manager.receive();
    assert!(rejected.starts_with("READY=1\nSTATUS=running with the previous"), "{rejected}");

    agent.terminate();
    let stopping = manager.receive();
    assert!(stopping.starts_with("STOPPING=1\nEXTEND_TIMEOUT_USEC=120000000\n"), "{stopping}");
    assert!(agent.wait(PATIENCE).success(), "{}", agent.log());
}

#[test]
fn the_watchdog_is_notified_several_times_per_period() {
    let folder = folder();
    let socket = folder.path().join("notify");
    let manager = ServiceManager::bind(&socket);
    let agent = Agent::spawn(folder.path(), CONFIG, &[], |command| {
        command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "300000");
    });
    assert_eq!(manager.receive_state(), "READY=1\nSTATUS=running\n");
    for _ in 0..3 {
        assert_eq!(manager.receive(), "WATCHDOG=1\n");
    }
    agent.terminate();
    assert!(manager.receive_state().starts_with("STOPPING=1\n"));
}

/// The socket's queue holds a few notifications. The agent must continue although it cannot send
/// more, and an invalid watchdog period must not end it.
#[test]
fn a_service_manager_that_reads_nothing_delays_nothing() {
    let folder = folder();
    let socket = folder.path().join("notify");
    let _manager = ServiceManager::bind(&socket);
    for period in ["3000", "0"] {
        let mut agent = Agent::spawn(folder.path(), CONFIG, &[], |command| {
            command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", period);
        });
        wait_until("the agent runs", PATIENCE, || agent.get("/ready").is_some());
        // Many times the period: the queue of the socket is full.
        std::thread::sleep(Duration::from_secs(1));
        assert!(agent.get("/ready").is_some(), "{}", agent.log());
        assert!(agent.stop().success(), "{}", agent.log());
    }
}

/// The start must not depend on a service manager that has gone away.
#[test]
fn an_agent_runs_without_its_service_manager() {
    let folder = folder();
    let mut agent = Agent::spawn(folder.path(), CONFIG, &[], |command| {
        command.env("NOTIFY_SOCKET", folder.path().join("missing"));
    });
    wait_until("the agent runs", PATIENCE, || agent.get("/ready").is_some());
    agent.assert_logs("cannot notify the service manager: ");
    assert!(agent.stop().success(), "{}", agent.log());
}
