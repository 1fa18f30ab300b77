//! The terminal: draws on it, reads from it, and restores it however the command ends.

use super::data::Polled;
use super::model::{Action, Model};
use super::poll::{Wanted, poll};
use super::{draw, keys};
use crate::client::Client;
use crate::exit::FAILED;
use crate::interrupts::Signals;
use ratatui::DefaultTerminal;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyEvent};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::Rect;
use rustix::process::{Signal, getpid, kill_process};
use std::io::{self, stdout};
use std::mem::ManuallyDrop;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Maximum number of messages that wait for the screen, because a stopped terminal accepts none.
const MESSAGES_MAX: usize = 64;

/// An event that changes the screen.
enum Message {
    Key(KeyEvent),
    /// The size of the window has changed.
    Resized,
    /// The agent has responded, or has failed to.
    Polled(Box<Polled>),
    /// The shell has continued the process.
    Continued,
    Quit,
    /// The terminal cannot be read.
    Failed(io::Error),
}

/// Shows the agent until the user quits.
pub fn show(client: Client, interval: Duration, has_color: bool) -> io::Result<()> {
    let (messages, received) = sync_channel(MESSAGES_MAX);
    let (wants, wanted) = watch::channel(Wanted::default());
    start(client, interval, wanted, messages.clone())?;
    // This restores the terminal before a panic is printed.
    let mut terminal = ratatui::try_init()?;
    let of_keys = messages;
    thread::Builder::new().name("keys".to_owned()).spawn(move || read_keys(&of_keys))?;
    let shown = run(&mut terminal, &received, &wants, has_color);
    let restored = restore();
    // Dropping the terminal would panic if the device is gone, because the destructor prints why it
    // cannot show the cursor.
    let _ = ManuallyDrop::new(terminal);
    shown.and(restored)
}

/// Starts the thread that queries the agent and receives signals.
fn start(
    client: Client,
    interval: Duration,
    wanted: watch::Receiver<Wanted>,
    messages: SyncSender<Message>,
) -> io::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let guard = runtime.enter();
    let mut signals = Signals::receive()?;
    let mut continued = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
    drop(guard);
    let of_signals = messages.clone();
    runtime.spawn(async move {
        signals.stop().await;
        let _ = of_signals.try_send(Message::Quit);
        // The first signal may be blocked as long as the terminal is stopped.
        signals.stop().await;
        let _ = disable_raw_mode();
        std::process::exit(i32::from(FAILED));
    });
    let of_shell = messages.clone();
    runtime.spawn(async move {
        while continued.recv().await.is_some() {
            let _ = of_shell.try_send(Message::Continued);
        }
    });
    let answers = move |polled| messages.send(Message::Polled(Box::new(polled))).is_ok();
    let asks = poll(client, interval, wanted, answers);
    thread::Builder::new().name("poll".to_owned()).spawn(move || runtime.block_on(asks))?;
    Ok(())
}

fn read_keys(messages: &SyncSender<Message>) {
    loop {
        let message = match event::read() {
            Ok(Event::Key(key)) => Message::Key(key),
            Ok(Event::Resize(..)) => Message::Resized,
            Ok(_) => continue,
            Err(error) => Message::Failed(error),
        };
        let is_last = matches!(message, Message::Failed(_));
        if messages.send(message).is_err() || is_last {
            return;
        }
    }
}

fn run(
    terminal: &mut DefaultTerminal,
    messages: &Receiver<Message>,
    wants: &watch::Sender<Wanted>,
    has_color: bool,
) -> io::Result<()> {
    let mut model = Model::default();
    while !model.is_over {
        terminal.draw(|frame| draw::draw(frame, &mut model, has_color))?;
        let Ok(first) = messages.recv() else { return Ok(()) };
        // Keys that arrived meanwhile are drawn together.
        let more = messages.try_iter().take(MESSAGES_MAX);
        for message in std::iter::once(first).chain(more) {
            take(terminal, &mut model, message)?;
        }
        let now = Wanted { view: model.view, is_paused: model.is_paused };
        wants.send_if_modified(|before| std::mem::replace(before, now) != now);
    }
    Ok(())
}

fn take(terminal: &mut DefaultTerminal, model: &mut Model, message: Message) -> io::Result<()> {
    match message {
        Message::Key(key) => match keys::action(model, key) {
            Some(Action::Suspend) => suspend(terminal),
            Some(action) => {
                model.act(action);
                Ok(())
            }
            None => Ok(()),
        },
        Message::Polled(polled) => {
            model.take(*polled);
            Ok(())
        }
        Message::Resized => Ok(()),
        Message::Continued => set_up(terminal),
        Message::Quit => {
            model.is_over = true;
            Ok(())
        }
        Message::Failed(error) => Err(error),
    }
}

/// Leaves the terminal to the shell until the shell continues the process.
fn suspend(terminal: &mut DefaultTerminal) -> io::Result<()> {
    restore()?;
    kill_process(getpid(), Signal::TSTP)?;
    set_up(terminal)
}

fn set_up(terminal: &mut DefaultTerminal) -> io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen)?;
    // Resizing redraws the whole screen. `clear` would query the terminal for its cursor, and the
    // thread of the keys would read the response.
    let size = terminal.size()?;
    terminal.resize(Rect::new(0, 0, size.width, size.height))
}

fn restore() -> io::Result<()> {
    let raw = disable_raw_mode();
    execute!(stdout(), LeaveAlternateScreen, Show)?;
    raw
}
