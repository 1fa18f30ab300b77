//! Tests links whose targets rotate. Kubernetes creates such links for the logs of containers.

use super::{PATIENCE, assert_every_line_once, config, finish, line};
use crate::support::{Agent, folder, lines, wait_until};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Number of lines of each generation.
const LINES: usize = 100;

const GENERATIONS: usize = 8;

/// Appends the lines of a generation to the target.
fn write(target: &Path, generation: usize) {
    let mut file = File::options().create(true).append(true).open(target).unwrap();
    let numbers = generation * LINES..(generation + 1) * LINES;
    let text: String = numbers.map(|number| line(number) + "\n").collect();
    file.write_all(text.as_bytes()).unwrap();
}

/// Some generations are rotated before the agent has noticed them, some after it has read them, and
/// some while it is down after a kill.
#[test]
fn a_link_whose_target_rotates_is_read_to_the_end_of_each_generation() {
    let dir = folder();
    let (pods, containers) = (dir.path().join("pods/p"), dir.path().join("containers"));
    fs::create_dir_all(&pods).unwrap();
    fs::create_dir_all(&containers).unwrap();
    let target = pods.join("0.log");
    symlink(&target, containers.join("x.log")).unwrap();
    let config = config("['DIR/containers/*.log']");
    let out = dir.path().join("out.json");
    let mut agent = Agent::start(dir.path(), &config, &[]);
    for generation in 0..GENERATIONS {
        write(&target, generation);
        let count = (generation + 1) * LINES;
        if generation % 3 == 0 {
            wait_until("it is read", PATIENCE, || lines(&out).len() >= count);
        }
        if generation % 4 == 3 {
            agent.kill();
        }
        fs::rename(&target, pods.join(format!("0.log.2026112810000{generation}"))).unwrap();
        if generation % 4 == 3 {
            agent = Agent::start(dir.path(), &config, &[]);
        }
    }
    write(&target, GENERATIONS);
    let written = (GENERATIONS + 1) * LINES;
    wait_until("all is read", PATIENCE, || lines(&out).len() >= written);
    agent.kill();
    finish(dir.path(), &config);
    assert_every_line_once(dir.path(), written);
}
