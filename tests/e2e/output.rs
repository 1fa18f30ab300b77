//! Tests the file sink with a full disk, a crash, and a reader that closes its end.

use crate::support::{Agent, folder, lines, millstream, wait_until};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Script that runs in a separate mount namespace, in which a small disk fills up and is then
/// enlarged.
const FULL_DISK: &str = r#"
set -eu
mount -t tmpfs -o size=64k none "$DIR/disk"
"$AGENT" run -c "$DIR/millstream.yaml" 2>>"$DIR/agent.log" &
pid=$!
for i in $(seq 1200); do grep -q 'No space left' "$DIR/agent.log" && break; sleep 0.05; done
grep -q 'No space left' "$DIR/agent.log"
sleep 0.5
mount -o remount,size=16m "$DIR/disk"
for i in $(seq 1200); do [ "$(wc -l < "$DIR/disk/out")" -ge 20000 ] && break; sleep 0.05; done
kill -TERM $pid
wait $pid
cp "$DIR/disk/out" "$DIR/result"
"#;

/// Script that fills up the disk of `data_dir`, and frees space later.
const FULL_DATA_DIR: &str = r#"
set -eu
mkdir -p "$DIR/data" "$DIR/in"
mount -t tmpfs -o size=4m none "$DIR/data"
echo 'line 1' > "$DIR/in/a.log"
"$AGENT" run -c "$DIR/millstream.yaml" 2>>"$DIR/agent.log" &
pid=$!
for i in $(seq 1200); do [ -s "$DIR/out" ] && break; sleep 0.05; done
cat /dev/zero > "$DIR/data/filler" 2>/dev/null || true
for i in $(seq 2 40); do echo "line $i" >> "$DIR/in/a.log"; echo "new $i" > "$DIR/in/n$i.log"; sleep 0.05; done
for i in $(seq 1200); do [ "$(wc -l < "$DIR/out")" -ge 79 ] && break; sleep 0.05; done
# Until here there was no room for a byte more.
if echo more >> "$DIR/data/filler"; then exit 3; fi
rm "$DIR/data/filler"
sleep 2.5
# What was delivered stays, although what it came from is gone.
rm "$DIR"/in/*.log
kill -TERM $pid
wait $pid
"$AGENT" run -c "$DIR/millstream.yaml" --until-eof 2>>"$DIR/agent.log"
"#;

#[test]
fn a_full_data_dir_loses_nothing() {
    let dir = folder();
    let config = "
sources: { app: { type: file, include: ['DIR/in/*.log'] } }
sinks: { out: { type: file, inputs: [app], path: DIR/out, sync: 100ms, encoding: { codec: text } } }
";
    let (status, log) = in_a_mount_namespace(dir.path(), config, FULL_DATA_DIR);
    assert!(status, "{log}");
    let mut got = lines(&dir.path().join("out"));
    got.sort();
    got.dedup();
    assert_eq!(got.len(), 79, "{log}");
}

/// Runs a script in a separate mount namespace; returns whether it succeeded, and the agent's log.
fn in_a_mount_namespace(dir: &std::path::Path, config: &str, script: &str) -> (bool, String) {
    let head = format!("data_dir: {}/data\napi: {{ listen: '127.0.0.1:0' }}\n", dir.display());
    fs::write(
        dir.join("millstream.yaml"),
        head + &config.replace("DIR", &dir.display().to_string()),
    )
    .unwrap();
    fs::write(dir.join("agent.log"), "").unwrap();
    // Without root, a user namespace grants the permission to mount.
    let flags: &[&str] = if rustix::process::geteuid().is_root() { &["-m"] } else { &["-rm"] };
    let mut command = Command::new("unshare");
    command.args(flags).args(["bash", "-c", script]).env("DIR", dir).env("AGENT", millstream());
    let status = command.status().unwrap();
    (status.success(), fs::read_to_string(dir.join("agent.log")).unwrap())
}

#[test]
fn settled_data_survives_a_kill_after_its_source_is_gone() {
    let dir = folder();
    let config = "
sources: { app: { type: file, include: ['DIR/a.log'] } }
sinks: { out: { type: file, inputs: [app], path: DIR/out, sync: 50ms, encoding: { codec: text } } }
";
    let (input, output) = (dir.path().join("a.log"), dir.path().join("out"));
    for round in 1..=5 {
        fs::write(&input, format!("line {round}\n")).unwrap();
        let mut agent = Agent::start(dir.path(), config, &[]);
        wait_until("the line", LIMIT, || lines(&output).len() == round);
        let lag = "millstream_source_lag_bytes{component_id=\"app\"";
        wait_until("its settlement", LIMIT, || agent.metric(lag) == Some(0.0));
        std::thread::sleep(Duration::from_millis(200));
        wait_until("its checkpoint", LIMIT, || {
            agent.single("millstream_checkpoint_age_seconds") == Some(0.0)
        });
        agent.kill();
        fs::remove_file(&input).unwrap();
    }
    let mut agent = Agent::start(dir.path(), config, &["--until-eof"]);
    assert_eq!(agent.wait(LIMIT).code(), Some(0));
    assert_eq!(lines(&output), ["line 1", "line 2", "line 3", "line 4", "line 5"]);
}

#[test]
fn a_full_disk_loses_nothing() {
    let dir = folder();
    fs::create_dir(dir.path().join("disk")).unwrap();
    let input: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
    fs::write(dir.path().join("a.log"), &input).unwrap();
    let config = "
sources: { app: { type: file, include: ['DIR/a.log'] } }
sinks: { out: { type: file, inputs: [app], path: DIR/disk/out, encoding: { codec: text } } }
";
    let (status, log) = in_a_mount_namespace(dir.path(), config, FULL_DISK);
    assert!(status, "{log}");
    assert!(fs::read_to_string(dir.path().join("result")).unwrap() == input, "{log}");
}

/// Script that fills up a disk with several compressed files. `zcat -f` also reads unfinished
/// files.
const FULL_DISK_OF_FILES: &str = r#"
set -eu
mount -t tmpfs -o size=96k none "$DIR/disk"
"$AGENT" run -c "$DIR/millstream.yaml" 2>>"$DIR/agent.log" &
pid=$!
for i in $(seq 1200); do grep -q 'No space left' "$DIR/agent.log" && break; sleep 0.05; done
grep -q 'No space left' "$DIR/agent.log"
sleep 0.5
mount -o remount,size=16m "$DIR/disk"
for i in $(seq 1200); do [ "$(cat "$DIR"/disk/* | zcat -f 2>/dev/null | wc -l)" -ge 40000 ] && break; sleep 0.05; done
kill -TERM $pid
wait $pid
for file in "$DIR"/disk/*; do zcat "$file" > "$DIR/result-${file##*%2F}"; done
"#;

#[test]
fn a_full_disk_under_several_files_neither_loses_nor_repeats() {
    let dir = folder();
    fs::create_dir(dir.path().join("disk")).unwrap();
    let mut inputs = Vec::new();
    for name in ["a.log", "b.log"] {
        let mut random = fastrand::Rng::with_seed(7);
        let input: String =
            (0..20_000).map(|n| format!("{n} {:x}\n", random.u64(..u64::MAX))).collect();
        fs::write(dir.path().join(name), &input).unwrap();
        inputs.push((name, input));
    }
    let config = "
sources: { app: { type: file, include: ['DIR/*.log'], exclude: [agent.log] } }
sinks:
  out: { type: file, inputs: [app], path: 'DIR/disk/{{ file }}', compression: gzip, encoding: { codec: text } }
";
    let (status, log) = in_a_mount_namespace(dir.path(), config, FULL_DISK_OF_FILES);
    assert!(status, "{log}");
    for (name, input) in inputs {
        let result = fs::read_to_string(dir.path().join(format!("result-{name}"))).unwrap();
        assert!(result == input, "{name}: {} of {} bytes\n{log}", result.len(), input.len());
    }
}

#[test]
fn after_a_kill_the_output_is_truncated_and_reread_without_repeats() {
    let dir = folder();
    let config = "
sources: { app: { type: file, include: ['DIR/a.log'] } }
sinks: { out: { type: file, inputs: [app], path: DIR/out, sync: 1h, encoding: { codec: text } } }
";
    let input: String = (0..50_000).map(|n| format!("line {n}\n")).collect();
    fs::write(dir.path().join("a.log"), &input).unwrap();
    let mut agent = Agent::start(dir.path(), config, &[]);
    wait_until("output that is not synced", LIMIT, || {
        lines(&dir.path().join("out")).len() == 50_000
    });
    agent.kill();
    let mut agent = Agent::start(dir.path(), config, &["--until-eof"]);
    assert_eq!(agent.wait(LIMIT).code(), Some(0), "{}", agent.log());
    assert!(fs::read_to_string(dir.path().join("out")).unwrap() == input);
}

#[test]
fn an_unwritable_path_is_reported_and_waited_for() {
    let dir = folder();
    fs::write(dir.path().join("a.log"), "1\n").unwrap();
    fs::write(dir.path().join("folder"), "a file where a folder should be").unwrap();
    let config = "
sources: { app: { type: file, include: ['DIR/a.log'] } }
sinks: { out: { type: file, inputs: [app], path: DIR/folder/out, encoding: { codec: text } } }
";
    let mut agent = Agent::start(dir.path(), config, &[]);
    wait_until("the error in /ready", LIMIT, || {
        agent.get("/ready").is_some_and(|body| body.contains("out"))
    });
    wait_until("an error count", LIMIT, || {
        agent
            .metric("millstream_component_errors_total{component_id=\"out\"")
            .is_some_and(|n| n >= 1.0)
    });
    fs::remove_file(dir.path().join("folder")).unwrap();
    wait_until("the line", LIMIT, || lines(&dir.path().join("folder/out")) == ["1"]);
    assert_eq!(agent.stop().code(), Some(0));
}

#[test]
fn a_reader_that_closes_the_pipe_is_a_counted_error() {
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
