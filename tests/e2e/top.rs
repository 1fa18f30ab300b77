//! Tests `millstream top` in a terminal of tmux.

use crate::support::{Agent, folder, millstream, wait_until};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// A configuration with two sources, one of which has a pattern without a file.
const CONFIG: &str = "sources:\n  \
    generated: { type: generate, rate: 2000 }\n  \
    app: { type: file, include: [\"DIR/logs/*.log\", \"DIR/none/\\ec*.log\"], read_from: beginning }\n\
    sinks:\n  \
    out: { type: blackhole, inputs: [generated, app] }\n";

/// Installs tmux if it is missing.
fn tmux_is_installed() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let has_tmux = || Command::new("tmux").arg("-V").output().is_ok();
        if !has_tmux() {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/packages");
            let _ = Command::new(script).args(["for the tests of top", "tmux"]).status();
        }
        assert!(has_tmux(), "install tmux");
    });
}

/// A terminal with a shell, which ends with the test.
struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    fn open(folder: &Path, columns: u16, rows: u16) -> Terminal {
        tmux_is_installed();
        let terminal = Terminal { socket: folder.join(format!("tmux{columns}.sock")) };
        let (x, y) = (columns.to_string(), rows.to_string());
        // The tmux server takes its environment, including the language, from its first client.
        let shell = "PS1='ready> ' exec bash --norc --noprofile";
        terminal.tmux(&["new-session", "-d", "-s", "t", "-x", &x, "-y", &y, shell]);
        terminal.wait("the prompt", |screen| screen.contains("ready>"));
        terminal
    }

    fn tmux(&self, args: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.arg("-u").args(["-f", "/dev/null"]).arg("-S").arg(&self.socket).args(args);
        command.env("LC_ALL", "C.UTF-8").env_remove("TMUX").env_remove("NO_COLOR");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }

    /// Presses keys, which are named as in tmux.
    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys", "-t", "t"], keys].concat());
    }

    /// Types a text.
    fn type_text(&self, text: &str) {
        self.tmux(&["send-keys", "-t", "t", "-l", text]);
    }

    /// Types a command and presses Enter.
    fn run(&self, command: &str) {
        self.type_text(command);
        self.press(&["Enter"]);
    }

    fn screen(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p", "-t", "t"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the screen with the escape codes of its styles.
    fn styled(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p", "-e", "-t", "t"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Waits until a condition on the screen holds; returns the screen.
    fn wait(&self, what: &str, is_shown: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if is_shown(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < LIMIT, "waited {LIMIT:?} for: {what}\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn resize(&self, columns: u16, rows: u16) {
        let (x, y) = (columns.to_string(), rows.to_string());
        self.tmux(&["resize-window", "-t", "t", "-x", &x, "-y", &y]);
    }

    /// Starts the command; the shell prints its exit status after `ended`.
    fn top(&self, environment: &str, folder: &Path, args: &str) {
        let program = millstream();
        let (program, config) = (program.display(), folder.join("millstream.yaml"));
        let config = config.display();
        self.run(&format!("{environment} {program} top -c {config} {args}; echo ended $?"));
    }

    /// Checks that the shell has the terminal back in its previous state: the main screen, and the
    /// modes for editing lines.
    fn is_restored(&self) {
        self.run(
            "stty -a | tr ' ' '\\n' | grep -E '^-?(icanon|echo|isig|opost);?$' | xargs echo tty",
        );
        let screen = self.wait("the modes of the terminal", |screen| screen.contains("\ntty "));
        let modes = screen.lines().find(|line| line.starts_with("tty ")).unwrap();
        for mode in ["icanon", "echo", "isig", "opost"] {
            let has_mode = modes.split_whitespace().any(|of| of.trim_end_matches(';') == mode);
            assert!(has_mode, "{mode} is off: {modes}");
        }
        let flags =
            self.tmux(&["display-message", "-p", "-t", "t", "#{alternate_on} #{cursor_flag}"]);
        assert_eq!(String::from_utf8_lossy(&flags.stdout).trim(), "0 1", "screen and cursor");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}

/// Writes the input files of the agent. Their names would clear the screen and set the title.
fn write_files(folder: &Path) {
    fs::create_dir(folder.join("logs")).unwrap();
    for name in [&b"\x1b[2J\x1b]0;owned\x07\x9b31m.log"[..], "日志文件.log".as_bytes(), b"a\nb.log"]
    {
        let path = folder.join("logs").join(std::ffi::OsStr::from_bytes(name));
        fs::write(path, "\x1b[2Jone\ntwo\n").unwrap();
    }
}

fn start(folder: &Path) -> Agent {
    let mut agent = Agent::start(folder, CONFIG, &[]);
    wait_until("the agent is ready", LIMIT, || {
        assert!(!agent.poll_ended(), "{}", agent.log());
        agent.get("/ready").is_some()
    });
    agent
}

/// Returns the first row that starts with an id.
fn row<'s>(screen: &'s str, id: &str) -> Option<&'s str> {
    screen.lines().find(|line| line.split_whitespace().next() == Some(id))
}

/// Returns whether a component has a rate above zero.
fn has_rate(screen: &str, id: &str) -> bool {
    let cells = row(screen, id).map(|row| row.split_whitespace().skip(1).collect::<Vec<_>>());
    let is_rate =
        |cell: &&str| cell.starts_with(|c: char| c.is_ascii_digit() && c != '0') && cell.len() > 1;
    cells.is_some_and(|cells| cells.iter().any(is_rate))
}

#[test]
fn every_view_sorts_filters_and_explains_itself() {
    let dir = folder();
    write_files(dir.path());
    let _agent = start(dir.path());
    for (columns, rows) in [(80, 24), (200, 60)] {
        let terminal = Terminal::open(dir.path(), columns, rows);
        terminal.top("", dir.path(), "--interval 200ms");
        terminal.wait("rates", |screen| has_rate(screen, "generated") && has_rate(screen, "out"));
        views(&terminal, columns);
        order_and_filter(&terminal);
        terminal.press(&["q"]);
        terminal.wait("the end", |screen| screen.contains("ended 0"));
        terminal.is_restored();
    }
}

fn views(terminal: &Terminal, columns: u16) {
    let heading = |first: &'static str, other: &'static str| {
        move |screen: &str| {
            let mut lines = screen.lines().skip(3);
            lines.next().is_some_and(|line| line.starts_with(first) && line.contains(other))
        }
    };
    terminal.press(&["2"]);
    terminal.wait("the files", |screen| {
        heading("path", "MB/s")(screen) && screen.contains("日志文件.log")
    });
    let screen = terminal.screen();
    assert!(screen.contains("\\u{1b}") || columns < 100, "{screen}");
    assert!(screen.contains("a\\nb.log"), "{screen}");
    assert!(screen.contains("unreadable: "), "{screen}");
    terminal.press(&["Tab"]);
    terminal.wait("the series", heading("source", "series"));
    terminal.press(&["Tab"]);
    terminal.wait("the rules", heading("task", "time"));
    terminal.press(&["5"]);
    terminal.wait("the memory", |screen| {
        heading("what", "limit")(screen) && screen.contains("resident memory")
    });
    terminal.press(&["Tab"]);
    terminal.wait("the components", |screen| has_rate(screen, "generated"));
    terminal.press(&["?"]);
    terminal.wait("the help", |screen| screen.contains("keys and columns"));
    terminal.press(&["Escape"]);
    terminal.wait("the components", |screen| has_rate(screen, "generated"));
    let title = terminal.tmux(&["display-message", "-p", "-t", "t", "#{pane_title}"]);
    assert!(!String::from_utf8_lossy(&title.stdout).contains("owned"));
}

fn order_and_filter(terminal: &Terminal) {
    let place = |screen: &str, id: &str| {
        screen.lines().position(|line| line.split_whitespace().next() == Some(id))
    };
    terminal.press(&[">"]);
    terminal.wait("the order by id", |screen| {
        screen.contains("idv") && place(screen, "app") < place(screen, "generated")
    });
    terminal.press(&["r"]);
    terminal.wait("the reverse order", |screen| {
        screen.contains("id^") && place(screen, "app") > place(screen, "out")
    });
    terminal.press(&["r", "<"]);
    terminal.wait("the order of the agent", |screen| {
        !screen.contains("idv") && place(screen, "app") > place(screen, "generated")
    });
    terminal.type_text("/APP");
    terminal.wait("the filter", |screen| {
        place(screen, "out").is_none() && place(screen, "app").is_some()
    });
    terminal.press(&["Enter", "Enter"]);
    let screen = terminal.wait("the details", |screen| screen.contains("received_events: "));
    // The error contains a path that would reset the terminal.
    assert!(screen.contains("cannot read ") && screen.contains("\\u{1b}c*.log"), "{screen}");
    terminal.press(&["Escape"]);
    // Wait for the table, because two escape characters in a row would be one key.
    terminal.wait("the table", |screen| {
        screen.contains("in/s") && !screen.contains("received_events: ")
    });
    terminal.press(&["Escape"]);
    terminal.wait("all components", |screen| place(screen, "out").is_some());
    terminal.press(&["p"]);
    terminal.wait("the pause", |screen| screen.contains("PAUSED"));
    terminal.press(&["p"]);
    terminal.wait("the end of the pause", |screen| !screen.contains("PAUSED"));
}

/// A configuration with two sources, one of which waits for an unreachable endpoint.
const LATE: &str = "sources:\n  \
    good: { type: generate, rate: 100 }\n  \
    slow: { type: generate, rate: 2000 }\n\
    sinks:\n  \
    out: { type: blackhole, inputs: [good] }\n  \
    web: { type: http, inputs: [slow], uri: \"http://127.0.0.1:9\" }\n";

#[test]
fn a_late_source_is_marked_with_its_cause() {
    let dir = folder();
    let mut agent = Agent::start(dir.path(), LATE, &[]);
    wait_until("the source is late", Duration::from_secs(180), || {
        assert!(!agent.poll_ended(), "{}", agent.log());
        agent.get("/api/diagnosis").is_some_and(|text| text.contains("endpoint_unreachable"))
    });
    for (columns, rows, environment) in [(80, 24, ""), (200, 60, ""), (100, 30, "NO_COLOR=1")] {
        let terminal = Terminal::open(dir.path(), columns, rows);
        terminal.top(environment, dir.path(), "--interval 200ms");
        let is_marked = |screen: &str| {
            row(screen, "slow")
                .is_some_and(|row| row.contains(" late ") && row.contains("endpoint_unreachable"))
                && row(screen, "web").is_some_and(|row| row.contains(" failing "))
        };
        // The screen may be read while a frame is being drawn. The last row of a frame is the row
        // of the sink.
        let screen = terminal.wait("the cause", is_marked);
        assert!(!row(&screen, "good").unwrap().contains("late"), "{screen}");
        assert!(screen.contains("late sources 1"), "{screen}");
        let styled = terminal.styled();
        let line = styled.lines().find(|line| line.contains("slow ")).unwrap();
        let is_mark = |code: &str| match environment {
            "" => code.contains("38;5;1"),
            _ => code.split(';').any(|code| code == "1"),
        };
        let mut codes = line.split("\x1b[").filter_map(|code| code.split_once('m'));
        let has_mark = codes.any(|(code, _)| is_mark(code));
        assert!(has_mark, "{line:?}");
        by_status(&terminal);
        off_screen(&terminal, columns);
        terminal.press(&["q"]);
        terminal.wait("the end", |screen| screen.contains("ended 0"));
        terminal.is_restored();
    }
}

fn by_status(terminal: &Terminal) {
    terminal.press(&["<", "<"]);
    terminal.wait("the order by status", |screen| {
        screen.contains("statusv")
            && screen.lines().nth(4).is_some_and(|row| row.starts_with("slow "))
    });
    terminal.press(&["g", "Enter"]);
    let screen = terminal.wait("the details", |screen| screen.contains("received_events: "));
    assert!(screen.contains("late, cause endpoint_unreachable at web"), "{screen}");
    assert!(screen.contains("sink web fails: ") && screen.contains(" attempts in"), "{screen}");
    terminal.press(&["Escape"]);
    terminal.wait("the table", |screen| screen.contains("statusv"));
}

fn off_screen(terminal: &Terminal, columns: u16) {
    terminal.resize(columns, 7 + 1);
    terminal.wait("what is below", |screen| screen.contains("  1 more below"));
    terminal.press(&["G"]);
    terminal.wait("what is above", |screen| screen.contains("  1 more above"));
    // A combining mark without a letter would shift the rest of its line.
    terminal.type_text("/\u{301}");
    terminal.wait("the filter", |screen| screen.contains("/\\u{301}_  Enter"));
    terminal.press(&["Escape"]);
    terminal.wait("all rows", |screen| screen.contains("  1 more above"));
}

#[test]
fn it_connects_again_to_a_restarted_agent() {
    let dir = folder();
    write_files(dir.path());
    let mut agent = start(dir.path());
    let terminal = Terminal::open(dir.path(), 120, 24);
    terminal.top("", dir.path(), "--interval 100ms");
    terminal.wait("rates", |screen| has_rate(screen, "out"));
    agent.kill();
    let screen = terminal.wait("the failure", |screen| screen.contains("not connected: "));
    assert!(screen.contains("retrying") && row(&screen, "out").is_some(), "{screen}");
    let _agent = start(dir.path());
    let screen = terminal.wait("rates of the new agent", |screen| {
        !screen.contains("not connected") && has_rate(screen, "out")
    });
    let is_negative = |cell: &str| cell.len() > 1 && cell.starts_with('-');
    assert!(!row(&screen, "out").unwrap().split_whitespace().any(is_negative), "{screen}");
    terminal.press(&["C-c"]);
    terminal.wait("the end", |screen| screen.contains("ended 0"));
    terminal.is_restored();
}

#[test]
fn the_window_may_be_small_and_changes_its_size() {
    let dir = folder();
    write_files(dir.path());
    let _agent = start(dir.path());
    let terminal = Terminal::open(dir.path(), 80, 24);
    terminal.run("echo before");
    terminal.top("NO_COLOR=1", dir.path(), "--interval 100ms");
    terminal.wait("rates", |screen| has_rate(screen, "out"));
    let styled = terminal.styled();
    let has_color = |styled: &str| {
        let codes = styled.split("\x1b[").skip(1).filter_map(|code| code.split_once('m'));
        codes.into_iter().any(|(code, _)| {
            code.split(';').any(|n| n.parse().is_ok_and(|n: u8| (30..=38).contains(&n)))
        })
    };
    assert!(!has_color(&styled), "{styled:?}");
    terminal.resize(10, 3);
    terminal.wait("the message", |screen| screen == "window too\nsmall\n\n");
    terminal.resize(200, 60);
    terminal.wait("all columns", |screen| screen.contains("type") && has_rate(screen, "out"));
    // Suspend the command, so that the shell takes over.
    terminal.press(&["C-z"]);
    terminal.wait("the shell", |screen| screen.contains("before") && screen.contains("ended 148"));
    terminal.is_restored();
    terminal.run("fg");
    terminal.wait("the table", |screen| screen.contains("? help") && has_rate(screen, "out"));
    terminal.press(&["2"]);
    terminal.wait("a key after that", |screen| screen.contains("held_by"));
    terminal.press(&["q"]);
    terminal.wait("the end", |screen| screen.contains("before") && !screen.contains("held_by"));
}

#[test]
fn sigterm_restores_the_terminal() {
    let dir = folder();
    write_files(dir.path());
    let _agent = start(dir.path());
    let terminal = Terminal::open(dir.path(), 80, 24);
    let (program, config) = (millstream(), dir.path().join("millstream.yaml"));
    let (program, config) = (program.display(), config.display());
    let pid = dir.path().join("pid");
    terminal.run(&format!(
        "bash -c 'echo $$ > {}; exec {program} top -c {config}'; echo ended $?",
        pid.display()
    ));
    terminal.wait("the table", |screen| row(screen, "out").is_some());
    let pid: i32 = fs::read_to_string(pid).unwrap().trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    terminal.wait("the end", |screen| screen.contains("ended 0"));
    terminal.is_restored();
}

#[test]
fn without_a_screen_the_table_is_plain_text() {
    let dir = folder();
    write_files(dir.path());
    let agent = start(dir.path());
    let config = dir.path().join("millstream.yaml");
    let top = |args: &[&str]| {
        Command::new(millstream()).arg("top").arg("-c").arg(&config).args(args).output().unwrap()
    };
    // On a busy host there may be no event within the interval.
    let mut text = String::new();
    wait_until("a rate", LIMIT, || {
        let output = top(&["--once", "--interval", "200ms"]);
        text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{text}");
        has_rate(&text, "out")
    });
    assert!(text.starts_with("id "), "{text}");
    let cells: Vec<&str> = row(&text, "out").unwrap().split_whitespace().collect();
    assert_eq!((cells[1], cells[2], cells.len()), ("blackhole", "sink", 14), "{text}");
    assert!(cells[3].parse::<u64>().unwrap() > 0, "{text}");

    let output = top(&[]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("--once"), "{message}");
    assert_eq!(top(&["--interval", "1ms"]).status.code(), Some(2));

    let terminal = Terminal::open(dir.path(), 120, 24);
    terminal.top("TERM=dumb", dir.path(), "--interval 100ms");
    let screen = terminal.wait("the end", |screen| screen.contains("ended 0"));
    assert!(screen.contains("as with --once") && row(&screen, "out").is_some(), "{screen}");

    drop(agent);
    let output = top(&["--once"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("no agent is running"), "{message}");
}
