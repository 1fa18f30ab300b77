//! `kill -9` of the agent while journals are written, rotated, deleted, and moved from memory to
//! disk.

use super::*;
use millstream_testkit_random::Seed;
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Entries that the test writes.
const ENTRIES: u64 = 6000;

/// Files among which the entries are divided by rotations.
const FILES: u64 = 6;

const KILLS: usize = 5;

const CONFIG: &str = "
sources: { host: { type: journald, path: DIR/journal } }
sinks:
  json: { type: file, inputs: [host], path: DIR/json.out, sync: 100ms }
  pipe: { type: console, inputs: [host] }
";

/// Writes the entries from `first` on to a file, over about `time`.
fn write(path: &Path, numbers: std::ops::Range<u64>, time: Duration) {
    let mut writer = Writer::start(path);
    let steps = 20;
    let part = (numbers.end - numbers.start).div_ceil(steps).max(1);
    for number in numbers {
        let message = format!("entry {number}");
        writer.send(&entry(number, &[("MESSAGE", message.as_bytes()), ("PRIORITY", b"6")]));
        if number % part == 0 {
            thread::sleep(time / steps as u32);
        }
    }
    writer.finish();
}

/// Writes all entries with rotations. Deletes the files that are older than the last three, once
/// the agent has had time to read them.
fn write_all(journal: &Path, done: &AtomicBool) {
    let per_file = ENTRIES / FILES;
    for file in 0..FILES {
        let path = journal.join("system.journal");
        let numbers = file * per_file..(file + 1) * per_file;
        write(&path, numbers, Duration::from_millis(700));
        fs::rename(&path, journal.join(format!("system@{file}.journal"))).unwrap();
    }
    done.store(true, Ordering::SeqCst);
}

#[test]
fn entries_survive_rotation_and_kills() {
    let dir = folder();
    let journal = dir.path().join("journal");
    fs::create_dir(&journal).unwrap();
    let done = AtomicBool::new(false);
    let mut random = Seed::of_test().random();
    thread::scope(|scope| {
        scope.spawn(|| write_all(&journal, &done));
        let mut kills = 0;
        while !done.load(Ordering::SeqCst) || kills < KILLS {
            let mut agent = start(dir.path(), &[]);
            thread::sleep(Duration::from_millis(200 + random.u64(..800)));
            agent.kill();
            kills += 1;
        }
    });
    let mut agent = start(dir.path(), &["--until-eof"]);
    assert!(agent.wait(LIMIT).success(), "{}", agent.log());
    let all = events(&dir.path().join("json.out"));
    check_order(&numbers(&all));
    check_pipe(dir.path(), &all);
}

/// Checks that each entry arrived once, and the entries of each file in order. Each file is a
/// sequence, and the lanes of a sink deliver sequences side by side.
fn check_order(numbers: &[u64]) {
    let mut files = vec![Vec::new(); FILES as usize];
    numbers.iter().for_each(|number| files[(number / (ENTRIES / FILES)) as usize].push(*number));
    let all = files.concat();
    let is_jump = |pair: &&[u64]| pair[1] != pair[0] + 1;
    let jumps: Vec<&[u64]> = all.windows(2).filter(is_jump).collect();
    assert_eq!((all.len() as u64, jumps), (ENTRIES, Vec::new()));
}

/// Starts the agent with a pipe that appends to a file.
fn start(dir: &Path, args: &[&str]) -> Agent {
    let out = fs::File::options().create(true).append(true).open(dir.join("pipe.out")).unwrap();
    Agent::spawn(dir, CONFIG, args, |command| {
        command.stdout(out);
    })
}

/// Checks the sink that may repeat events: each entry arrived, under the same id as in the file.
fn check_pipe(dir: &Path, all: &[Value]) {
    let ids = ids(all);
    let distinct: HashSet<&String> = ids.values().collect();
    assert_eq!(distinct.len() as u64, ENTRIES);
    let lines = lines(&dir.join("pipe.out"));
    // A kill may tear a line, which then ends where the next one begins.
    let whole = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut seen = BTreeSet::new();
    for event in whole {
        let message = event["message"].as_str().unwrap().to_owned();
        assert_eq!(event["meta"]["id"], ids[&message].as_str());
        seen.insert(message);
    }
    let torn = lines.iter().filter(|line| serde_json::from_str::<Value>(line).is_err()).count();
    assert!(seen.len() + torn >= ENTRIES as usize, "{} of {ENTRIES}, {torn} torn", seen.len());
}

#[test]
fn a_move_from_memory_to_disk_repeats_nothing_after_a_kill() {
    let dir = folder();
    let [memory, disk] = ["run/log/journal", "var/log/journal"].map(|path| dir.path().join(path));
    [&memory, &disk].iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
    let config = "
sources: { host: { type: journald, path: [DIR/var/log/journal, DIR/run/log/journal] } }
sinks: { out: { type: file, inputs: [host], path: DIR/out.json, sync: 50ms } }
";
    let out = dir.path().join("out.json");
    write(&memory.join("system.journal"), 1..101, Duration::ZERO);
    let mut agent = Agent::start(dir.path(), config, &[]);
    let has = |count: usize| events(&out).len() == count;
    crate::support::wait_until("the entries in memory arrive", LIMIT, || has(100));
    // The checkpoint is committed within a second.
    thread::sleep(Duration::from_millis(1500));
    agent.kill();
    // journald writes the entries to disk, under other numbers, and removes the file in memory.
    let mut writer = Writer::start(&disk.join("system.journal"));
    writer.send(&entry(0, &[("MESSAGE", b"entry 0")]));
    writer.finish();
    write(&disk.join("system.journal"), 1..121, Duration::ZERO);
    fs::remove_file(memory.join("system.journal")).unwrap();
    let mut agent = Agent::start(dir.path(), config, &["--until-eof"]);
    assert!(agent.wait(LIMIT).success(), "{}", agent.log());
    let mut all = numbers(&events(&out));
    all.sort_unstable();
    assert_eq!(all, (0..121).collect::<Vec<u64>>());
}

#[test]
fn a_deleted_file_is_delivered_and_damage_is_passed_over() {
    let dir = folder();
    let journal = dir.path().join("journal");
    fs::create_dir(&journal).unwrap();
    write(&journal.join("system.journal"), 0..3000, Duration::ZERO);
    // Damage in the middle: a page of zeros, as after a power failure.
    let whole = dir.path().join("whole.journal");
    write(&whole, 0..3000, Duration::ZERO);
    let mut bytes = fs::read(&whole).unwrap();
    let message = b"MESSAGE=entry 1500";
    let middle = bytes.windows(message.len()).position(|window| window == message).unwrap();
    bytes[middle..middle + 4096].fill(0);
    fs::write(journal.join("damaged@1.journal~"), bytes).unwrap();
    let mut agent = Agent::start(dir.path(), CONFIG, &[]);
    let out = dir.path().join("json.out");
    let is_read = || events(&out).len() > 5900;
    crate::support::wait_until("both files are read", LIMIT, is_read);
    fs::remove_file(journal.join("system.journal")).unwrap();
    assert!(agent.stop().success(), "{}", agent.log());
    let all = events(&out);
    let damaged = all.len() - 3000;
    assert!((2900..3000).contains(&damaged), "{damaged} entries of the damaged file");
    agent.assert_logs("damaged@1.journal~: the journal is damaged");
}
