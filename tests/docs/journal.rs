//! The journal of the pages that read one.

use crate::support::journal::Writer;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An entry: its age in seconds, the name of its service and program, its priority and message.
type Entry = (u64, &'static str, &'static str, u8, &'static str);

/// An entry of last week, entries of the last minute, a debug message, and an entry of a service
/// that writes much.
const ENTRIES: [Entry; 6] = [
    (7 * 86_400, "ssh", "sshd", 3, "fatal: no host keys"),
    (50, "ssh", "sshd", 6, "Accepted publickey for ada"),
    (40, "packagekit", "packagekitd", 4, "daemon quit"),
    (30, "nginx", "nginx", 7, "epoll: 2 events"),
    (20, "ssh", "sshd", 3, "maximum authentication attempts exceeded for root"),
    (10, "postgresql", "postgres", 4, "checkpoints are occurring too frequently"),
];

/// Writes the journal of a host to a new folder.
pub fn write(folder: &Path) {
    fs::create_dir(folder).unwrap();
    let mut writer = Writer::start(&folder.join("system.journal"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    // The host has run for longer than the age of the entries.
    let uptime = Duration::from_secs(30 * 86_400);
    for (age, unit, program, priority, message) in ENTRIES {
        let age = Duration::from_secs(age);
        let entry = format!(
            "__REALTIME_TIMESTAMP={}\n__MONOTONIC_TIMESTAMP={}\n\
             _BOOT_ID=0123456789abcdef0123456789abcdef\n_HOSTNAME=web-1\n_PID=801\n\
             _SYSTEMD_UNIT={unit}.service\nSYSLOG_IDENTIFIER={program}\nPRIORITY={priority}\n\
             MESSAGE={message}\n\n",
            (now - age).as_micros(),
            (uptime - age).as_micros(),
        );
        writer.send(entry.as_bytes());
    }
    writer.finish();
}
