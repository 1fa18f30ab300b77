//! Tests `millstream run --progress` on a pseudoterminal.

use crate::support::{Agent, folder, wait_until};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Number of columns, which is enough for the log lines of this test.
const COLUMNS: usize = 250;

/// Opens a pseudoterminal; returns its master, and the terminal for the agent.
fn open_terminal() -> (File, OwnedFd) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let size = Winsize { ws_row: 40, ws_col: COLUMNS as u16, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = rustix::fs::open(&name, flags, Mode::empty()).unwrap();
    (File::from(master), terminal)
}

/// Returns the rows of the screen after `output`. The output contains text, line endings, and the
/// escape codes that move the cursor or erase text.
fn screen(output: &str) -> Vec<String> {
    let mut rows: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0_usize, 0_usize);
    let mut characters = output.chars();
    while let Some(character) = characters.next() {
        match character {
            '\r' => column = 0,
            '\n' => row += 1,
            '\u{1b}' => {
                assert_eq!(characters.next(), Some('['), "{output:?}");
                let mut parameter = String::new();
                // The output may end in the middle of a code.
                let Some(code) = characters.by_ref().find(|c| {
                    let is_code = c.is_ascii_alphabetic();
                    parameter.extend((!is_code).then_some(*c));
                    is_code
                }) else {
                    break;
                };
                let count = parameter.parse().unwrap_or(1);
                match code {
                    'A' => row = row.saturating_sub(count),
                    'B' => row += count,
                    'C' => column += count,
                    'D' => column = column.saturating_sub(count),
                    'K' if parameter == "2" => rows[row].clear(),
                    'K' => rows[row].truncate(column),
                    'J' => {
                        rows.truncate(row + 1);
                        rows[row].truncate(column);
                    }
                    'm' | 'h' | 'l' => {}
                    _ => panic!("escape code {code} in {output:?}"),
                }
            }
            _ => {
                // A full row wraps at the next character.
                if column == COLUMNS {
                    (row, column) = (row + 1, 0);
                    rows.resize(rows.len().max(row + 1), Vec::new());
                }
                let width = rows[row].len().max(column + 1);
                rows[row].resize(width, ' ');
                rows[row][column] = character;
                column += 1;
            }
        }
        rows.resize(rows.len().max(row + 1), Vec::new());
    }
    let texts = rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned());
    texts.filter(|text| !text.is_empty()).collect()
}

#[test]
fn progress_on_a_terminal_is_one_block_below_the_log() {
    let dir = folder();
    let id = "a".repeat(COLUMNS);
    let config = format!(
        "sources: {{ {id}: {{ type: generate, rate: 1000 }} }}\n\
         sinks: {{ out: {{ type: blackhole, inputs: [{id}] }} }}\n"
    );
    let (mut master, terminal) = open_terminal();
    let output = Arc::new(Mutex::new(String::new()));
    let mut agent = Agent::spawn(dir.path(), &config, &["--progress"], |command| {
        command.stderr(terminal).env("TERM", "xterm");
    });
    let mut typed = master.try_clone().unwrap();
    let received = output.clone();
    let reader = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        // Reading fails after the agent has closed the terminal.
        while let Ok(length @ 1..) = master.read(&mut buffer) {
            received.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
    });
    let text = || output.lock().unwrap().clone();
    let draws = || text().matches("sink out: ").count();
    wait_until("a second draw", LIMIT, || draws() > 2);
    agent.send(rustix::process::Signal::HUP);
    wait_until("the reload", LIMIT, || text().contains("nothing has changed"));
    let before = draws();
    wait_until("a draw below the log", LIMIT, || draws() > before + 2);
    let running = text();
    // The terminal echoes typed keys such as Ctrl-C.
    typed.write_all(b"\x03").unwrap();
    wait_until("the echo", LIMIT, || text().contains("^C"));
    assert_eq!(agent.stop().code(), Some(0), "{}", text());
    drop(agent);
    reader.join().unwrap();

    let end = running.rfind("sink out: ").unwrap() + "sink out: ".len();
    let during = screen(&running[..end]);
    let is_block = |row: &&String| row.starts_with("source ") || row.starts_with("sink ");
    assert_eq!(during.iter().filter(is_block).count(), 2, "{during:#?}");
    // A line wider than the terminal would take a second row.
    assert!(during[during.len() - 2].starts_with("source aaa"), "{during:#?}");
    assert!(during[during.len() - 1].starts_with("sink out:"), "{during:#?}");

    let after = screen(&text());
    assert_eq!(after.iter().filter(is_block).count(), 0, "the block is removed: {after:#?}");
    let is_log_line = |row: &String| row.starts_with("20") && row.contains("Z INFO ");
    assert!(after.iter().all(is_log_line), "{after:#?}");
    for message in ["SIGHUP: reloading the configuration", "nothing has changed", "stopped; "] {
        let count = after.iter().filter(|row| row.contains(message)).count();
        assert_eq!(count, 1, "{message}: {after:#?}");
    }
}
