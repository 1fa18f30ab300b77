//! The far side of the file sink: a full disk, a crash, a reader that goes away.

use crate::support::{Agent, folder, lines, millstream, wait_until};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

/// Runs inside a mount namespace of its own, where a small disk fills up and is then enlarged.
const FULL_DISK: &str = r#"
set -eu
mount -t tmpfs -o size=64k none "$DIR/disk"
"$AGENT" run -c "$DIR/millstream.yaml" 2>>"$DIR/agent.log" &
pid=$!
for i in $(seq 200); do grep -q 'No space left' "$DIR/agent.log" && break; sleep 0.05; done
grep -q 'No space left' "$DIR/agent.log"
sleep 0.5
mount -o remount,size=16m "$DIR/disk"
for i in $(seq 400); do [ "$(wc -l < "$DIR/disk/out")" -ge 20000 ] && break; sleep 0.05; done
kill -TERM $pid
wait $pid
cp "$DIR/disk/out" "$DIR/result"
"#;

#[test]
fn a_full_disk_is_waited_out_and_nothing_is_lost() {
    let dir = folder();
    fs::create_dir(dir.path().join("disk")).unwrap();
    let input: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
    fs::write(dir.path().join("a.log"), &input).unwrap();
    let place = dir.path().display();
    let config = format!(
        "
data_dir: {place}/data
api: {{ listen: '127.0.0.1:0' }}
sources: {{ app: {{ type: file, include: ['{place}/a.log'] }} }}
sinks: {{ out: {{ type: file, inputs: [app], path: {place}/disk/out, encoding: {{ codec: text }} }} }}
"
    );
    fs::write(dir.path().join("millstream.yaml"), config).unwrap();
    fs::write(dir.path().join("agent.log"), "").unwrap();
    // Without root a user namespace gives the right to mount.
    let flags: &[&str] = if rustix::process::geteuid().is_root() { &["-m"] } else { &["-rm"] };
    let mut command = Command::new("unshare");
    command.args(flags).args(["bash", "-c", FULL_DISK]).env("DIR", dir.path()).env("AGENT", millstream());
    let status = command.status().unwrap();
    let log = fs::read_to_string(dir.path().join("agent.log")).unwrap();
    assert!(status.success(), "{log}");
    assert!(fs::read_to_string(dir.path().join("result")).unwrap() == input, "{log}");
}

#[test]
fn after_a_kill_the_output_is_cut_back_and_read_again_without_repeats() {
    let dir = folder();
    let config = "
sources: { app: { type: file, include: ['DIR/a.log'] } }
sinks: { out: { type: file, inputs: [app], path: DIR/out, sync: 1h, encoding: { codec: text } } }
";
    let input: String = (0..50_000).map(|n| format!("line {n}\n")).collect();
    fs::write(dir.path().join("a.log"), &input).unwrap();
    let mut agent = Agent::start(dir.path(), config, &[]);
    wait_until("output that is not synced", LIMIT, || lines(&dir.path().join("out")).len() == 50_000);
    agent.kill();
    let mut agent = Agent::start(dir.path(), config, &["--until-eof"]);
    assert_eq!(agent.wait(LIMIT).code(), Some(0), "{}", agent.log());
    assert!(fs::read_to_string(dir.path().join("out")).unwrap() == input);
}

#[test]
fn a_sink_whose_path_cannot_be_written_says_so_and_waits() {
    let dir = folder();
    fs::write(dir.path().join("a.log"), "1\n").unwrap();
    fs::write(dir.path().join("folder"), "a file where a folder should be").unwrap();
    let config = "
sources: { app: { type: file, include: ['DIR/a.log'] } }
sinks: { out: { type: file, inputs: [app], path: DIR/folder/out, encoding: { codec: text } } }
";
    let mut agent = Agent::start(dir.path(), config, &[]);
    wait_until("the trouble in /ready", LIMIT, || {
        agent.get("/ready").is_some_and(|body| body.contains("out"))
    });
    wait_until("an error count", LIMIT, || {
        agent.metric("millstream_component_errors_total{component_id=\"out\"").is_some_and(|n| n >= 1.0)
    });
    fs::remove_file(dir.path().join("folder")).unwrap();
    wait_until("the line", LIMIT, || lines(&dir.path().join("folder/out")) == ["1"]);
    assert_eq!(agent.stop().code(), Some(0));
}

#[test]
fn a_reader_that_goes_away_is_an_error_that_is_counted() {
    let dir = folder();
    let config = format!(
        "data_dir: {}/data\napi: {{ listen: '127.0.0.1:0' }}\nsources: {{ in: {{ type: stdin }} }}\n\
         sinks: {{ out: {{ type: console, inputs: [in], encoding: {{ codec: text }} }} }}\n",
        dir.path().display()
    );
    fs::write(dir.path().join("millstream.yaml"), config).unwrap();
    let mut child = Command::new(millstream())
        .args(["run", "--until-eof", "-c"])
        .arg(dir.path().join("millstream.yaml"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&b"some line\n".repeat(100_000)).unwrap();
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(3));
}
