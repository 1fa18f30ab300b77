//! Where data is read, written and synced: only in the places that record it.

use super::{fail_if_any, root, sources};

/// Calls that read, write or sync a file or a socket.
const RAW_CALLS: &[&str] = &[
    // Files. `FileExt` has `read_at`, `write_all_at` and the like.
    "FileExt",
    "pread(",
    "preadv(",
    "pwrite(",
    "pwritev(",
    ".sync_all(",
    ".sync_data(",
    "fsync(",
    "fdatasync(",
    "copy_file_range(",
    "sendfile(",
    "fs::read(",
    "fs::write(",
    "io::copy(",
    ".read_to_end(",
    ".read_exact(",
    // Both.
    ".write_all(",
    ".write_vectored(",
    "io::read(",
    "io::write(",
    // Sockets.
    "recvmmsg(",
    "recvmsg(",
    "recvfrom(",
    "sendmsg(",
    "sendmmsg(",
    "sendto(",
    "TcpStream::connect(",
    "UnixStream::connect(",
    "UdpSocket::",
];

/// Files that record the calls that they make. Such calls belong only here.
const RECORDING: &[&str] = &[
    "crates/observe/recorder/src/file.rs",
    "crates/core/spool/src/disk.rs",
    "crates/io/receiver/src/connection.rs",
    "crates/io/receiver/src/receive_buffers.rs",
    "crates/io/transport/src/recorded_stream.rs",
];

/// Other files with such calls, and why the calls are not recorded.
const OTHER: &[(&str, &str, &str)] = &[
    ("crates/components/src/sinks/file/compress.rs", ".write_all(", "to memory"),
    ("crates/components/src/sinks/prometheus_exporter/text.rs", ".write_all(", "to memory"),
    ("crates/components/src/sinks/tcp/connection.rs", ".write_all(", "to a recorded stream"),
    ("crates/components/src/sinks/tcp/connection.rs", ".write_vectored(", "to a recorded stream"),
    ("crates/components/src/sources/stdin/reader.rs", "io::write(", "to an event counter"),
    ("crates/components/src/transforms/windows/tasks.rs", ".write_all(", "to memory"),
    ("crates/components/src/transforms/fields/table.rs", ".read_to_end(", "a configured table"),
    ("crates/components/src/transforms/windows/snapshot.rs", ".write_all(", "to memory"),
    ("crates/core/store/src/copy.rs", ".write_all(", "to a recorded file"),
    ("crates/core/store/src/copy.rs", "io::copy(", "zeros to a recorded file"),
    ("crates/core/store/src/disk.rs", ".write_all(", "to a recorded file"),
    ("crates/core/store/src/identities.rs", ".read_to_end(", "from a recorded file"),
    ("crates/core/store/src/disk.rs", "FileExt", "of the database, whose commits are events"),
    ("crates/core/store/src/disk.rs", ".sync_data(", "of the database, whose commits are events"),
    ("crates/core/store/src/lib.rs", "FileExt", "who has locked the folder, once at the start"),
    ("crates/io/host/src/files.rs", ".read_to_end(", "from /proc"),
    ("crates/io/host/src/resident.rs", "pread(", "from /proc"),
    ("crates/io/jvm/src/create.rs", "io::write(", "why the process ends, to standard error"),
    ("crates/io/jvm/src/discover.rs", ".read_exact(", "the library of a JVM"),
    ("crates/io/jvm/src/process/child.rs", "fs::write(", "to /proc"),
    ("crates/io/jvm/src/process/frame.rs", "recvmsg(", "calls of a JVM are events"),
    ("crates/io/jvm/src/process/frame.rs", "sendmsg(", "calls of a JVM are events"),
    ("crates/io/receiver/src/wake.rs", "io::read(", "wakes a thread"),
    ("crates/io/receiver/src/wake.rs", "io::write(", "wakes a thread"),
    ("crates/io/transport/src/tcp.rs", "TcpStream::connect(", "makes recorded streams"),
    ("crates/io/transport/src/tls.rs", "fs::read(", "certificates"),
    (
        "crates/observe/profiles/src/jfr.rs",
        ".write_all(",
        "a profile, to where a command writes it",
    ),
    (
        "crates/observe/profiles/src/pprof.rs",
        ".write_all(",
        "a profile, to where a command writes it",
    ),
    ("crates/observe/profiles/src/pprof.rs", ".read_to_end(", "from memory, in a test"),
    ("crates/observe/recorder/src/jfr.rs", ".write_all(", "what was recorded"),
];

/// Returns the calls in a file, with their line numbers. Files that record are exempt.
fn calls(path: &str, text: &str) -> Vec<(usize, &'static str)> {
    if !path.contains("/src/") || RECORDING.contains(&path) {
        return Vec::new();
    }
    let in_line = |(index, line): (usize, &str)| {
        let found = RAW_CALLS.iter().filter(|call| line.contains(**call));
        found.map(move |call| (index + 1, *call)).collect::<Vec<_>>()
    };
    text.lines().enumerate().flat_map(in_line).collect()
}

/// Sums over events are true only if no call bypasses them.
#[test]
fn files_and_sockets_are_read_and_written_where_it_is_recorded() {
    let (mut faults, mut unused): (Vec<String>, Vec<_>) = (Vec::new(), OTHER.to_vec());
    for (path, text) in
        sources(&["crates/io", "crates/observe", "crates/core", "crates/components"])
    {
        for (line, call) in calls(&path, &text) {
            unused.retain(|(of, known, _)| (*of, *known) != (&path, call));
            if !OTHER.iter().any(|(of, known, _)| (*of, *known) == (&path, call)) {
                faults.push(format!(
                    "{path}:{line}: {call} is not recorded; use the RecordedFile or RecordedStream \
                     of the crate, or say in OTHER why it need not be"
                ));
            }
        }
    }
    faults.extend(unused.iter().map(|(path, call, _)| format!("{path}: no {call} left for OTHER")));
    faults.extend(
        RECORDING
            .iter()
            .filter(|path| !root().join(path).exists())
            .map(|path| format!("{path} does not exist")),
    );
    fail_if_any(faults);
}
