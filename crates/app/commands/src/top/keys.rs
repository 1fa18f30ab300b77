//! The meaning of the keys.

use super::model::{Action, Model};
use super::views::View;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Help text, line by line.
pub const HELP: &[&str] = &[
    "Tab, Shift-Tab or 1 to 5   the view",
    "arrows, j k                the row",
    "PgUp PgDn, Home End, g G   page up or down, first or last row",
    "Enter                      details of the row: every counter, cause, advice",
    "< > or s                   the sort column; left of the first column, rows are in the",
    "                           order of the agent",
    "r                          reverse the sort order",
    "/                          show only rows that contain a string; Enter keeps it, Esc removes it",
    "p                          pause or continue",
    "Ctrl-Z                     back to the shell; fg continues",
    "? or h                     this help; Esc closes it",
    "q, Ctrl-C                  quit",
    "",
    "components  in/s and out/s: events; util: busy threads; lag: bytes (records of",
    "            Kafka) that the worst sink has not settled, lag_s in log time;",
    "            status: late, degraded, starting, idle or healthy, with the cause;",
    "            failing: the sink does not deliver, or its endpoint rejects events",
    "files       share: of its source's rate; delay: since its newest log time;",
    "            unreadable files come first",
    "series      of metric sources",
    "rules       time: share of the transform's total task time",
    "memory      memory, JVM heaps, held deleted files, disk buffers",
    "",
    "- is a value that the agent does not have yet or at all: a rate needs two responses.",
];

/// Returns the action of a key.
pub fn action(model: &Model, key: KeyEvent) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return with_control(key.code);
    }
    if model.is_typing {
        return typed(key.code);
    }
    match key.code {
        KeyCode::Char(c) => of_character(c),
        KeyCode::Tab => Some(Action::Turn(1)),
        KeyCode::BackTab => Some(Action::Turn(-1)),
        KeyCode::Up => Some(Action::Move(-1)),
        KeyCode::Down => Some(Action::Move(1)),
        KeyCode::Left => Some(Action::SortBy(-1)),
        KeyCode::Right => Some(Action::SortBy(1)),
        KeyCode::PageUp => Some(Action::Page(-1)),
        KeyCode::PageDown => Some(Action::Page(1)),
        KeyCode::Home => Some(Action::First),
        KeyCode::End => Some(Action::Last),
        KeyCode::Enter => Some(Action::Enter),
        KeyCode::Esc => Some(Action::Escape),
        _ => None,
    }
}

fn with_control(code: KeyCode) -> Option<Action> {
    match code {
        KeyCode::Char('c' | 'd') => Some(Action::Quit),
        KeyCode::Char('z') => Some(Action::Suspend),
        _ => None,
    }
}

fn typed(code: KeyCode) -> Option<Action> {
    match code {
        KeyCode::Char(c) => Some(Action::Type(c)),
        KeyCode::Backspace => Some(Action::Erase),
        KeyCode::Enter => Some(Action::Enter),
        KeyCode::Esc => Some(Action::Escape),
        _ => None,
    }
}

fn of_character(c: char) -> Option<Action> {
    let action = match c {
        'q' => Action::Quit,
        'k' => Action::Move(-1),
        'j' => Action::Move(1),
        'g' => Action::First,
        'G' => Action::Last,
        '<' => Action::SortBy(-1),
        '>' | 's' => Action::SortBy(1),
        'r' => Action::Reverse,
        '/' => Action::Filter,
        'p' => Action::Pause,
        '?' | 'h' => Action::Help,
        '1'..='5' => {
            let index = c as usize - '1' as usize;
            Action::Show(*View::ALL.get(index)?)
        }
        _ => return None,
    };
    Some(action)
}
