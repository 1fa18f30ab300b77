//! The child: starts the JVM, and serves the agent until the agent exits.

use super::frame::{Broken, Channel, Frame, Kind, Patience};
use super::memory::Attached;
use super::outbox::Outbox;
use super::settings::{Identity, Start};
use super::supervisor::END_TIME;
use crate::collector;
use crate::control::Control;
use crate::error::{CallError, ControlError};
use crate::jvm::{Jvm, end_now};
use crate::operator;
use crate::worker;
use rustix::fd::OwnedFd;
use rustix::process::{Gid, Resource, Rlimit, Signal, Uid};
use std::ffi::c_int;
use std::fs;
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread;

/// Score with which, when memory runs out, the kernel kills this process before the agent.
const OOM_SCORE_ADJ: &str = "500";

/// Name of this process.
static NAME: OnceLock<String> = OnceLock::new();

/// First descriptor after the standard streams.
const FIRST_DESCRIPTOR: i32 = 3;

/// Serves the agent that started this process. The standard input is the control socket. When the
/// agent exits, this process exits as well, so the function never returns.
pub fn serve_process() -> ! {
    ignore_signals();
    close_others();
    match take_control().and_then(|control| serve(&control)) {
        Ok(()) => end(),
        Err(error) => {
            eprintln!("millstream jvm-process: {error}");
            end_now(1)
        }
    }
}

/// Exits this process, and kills all processes that operators and collectors have started. The
/// agent also kills those processes, unless it has already exited.
fn end() -> ! {
    let process = rustix::process::getpid();
    if rustix::process::getpgrp() == process {
        _ = rustix::process::kill_process_group(process, Signal::KILL);
    }
    end_now(0)
}

/// Ignores signals that are sent to a whole service, for example by systemd. The agent also
/// receives these signals, and ends this process once it makes no more calls. The signals get an
/// empty handler, because processes that operators start would inherit an ignored signal, but do
/// not inherit a handler.
fn ignore_signals() {
    extern "C" fn nothing(_: c_int) {}
    // Remove the handlers of Rust's runtime, because the JVM would pass a crash on to them instead
    // of reporting it.
    for number in [Signal::SEGV, Signal::BUS] {
        // SAFETY: address 0 is `SIG_DFL`.
        unsafe { signal(number.as_raw(), None) };
    }
    for number in [Signal::TERM, Signal::INT, Signal::HUP] {
        // SAFETY: the handler does nothing.
        unsafe { signal(number.as_raw(), Some(nothing)) };
    }
}

unsafe extern "C" {
    fn close(descriptor: c_int) -> c_int;
    fn signal(number: c_int, handler: Option<extern "C" fn(c_int)>) -> usize;
}

/// Closes descriptors that the agent has accidentally left open for its children.
fn close_others() {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let others: Vec<i32> = numbers.filter(|number| *number >= FIRST_DESCRIPTOR).collect();
    for number in others {
        // SAFETY: this process has not opened any file yet except for the listing above, which is
        // closed; its number may be in the list, and closing it again is an error without effect.
        unsafe { close(number) };
    }
}

/// Moves the control socket away from the standard input. Redirects the standard output to the
/// standard error.
fn take_control() -> io::Result<Channel> {
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), FIRST_DESCRIPTOR)?;
    let null = fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(Channel::of(control))
}

fn serve(control: &Channel) -> io::Result<()> {
    let broken = |broken: Broken| io::Error::other(broken.to_string());
    let (first, _) = control.receive(Patience::ENDLESS).map_err(broken)?;
    let start: Start = serde_json::from_slice(&first.payload)?;
    log::set_max_level(log::LevelFilter::Info);
    _ = NAME.set(start.name.clone());
    _ = log::set_logger(&Logger);
    let started = prepare(&start).map_err(|error| error.to_string());
    let started = started.and_then(|()| Jvm::start(&start.jvm).map_err(|error| error.to_string()));
    let jvm = match started {
        Ok(jvm) => jvm,
        Err(reason) => {
            let failed = Frame::with(Kind::Failed, reason.into_bytes());
            return control.send(&failed, None, Patience::ENDLESS).map_err(broken);
        }
    };
    let done = Frame::with(Kind::Done, serde_json::to_vec(jvm.info())?);
    control.send(&done, None, Patience::ENDLESS).map_err(broken)?;
    obey(control, &jvm);
    Ok(())
}

/// Applies this process's limits, and drops the agent's privileges.
fn prepare(start: &Start) -> io::Result<()> {
    let failed = |what: &str, error: io::Error| io::Error::other(format!("{what}: {error}"));
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    if let Some(files) = start.open_files {
        let limit = Rlimit { current: Some(files), maximum: Some(files) };
        rustix::process::setrlimit(Resource::Nofile, limit)
            .map_err(|error| failed("`open_files`", error.into()))?;
    }
    // The write may be forbidden in a container. The kernel then chooses a process itself.
    _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJ);
    if let Some(identity) = &start.identity {
        become_user(identity).map_err(|error| failed("`user`", error))?;
    }
    // A stopped process does not notice that its socket was closed. The signal does not kill the
    // process, because it must first end the processes it has started.
    _ = rustix::process::set_parent_process_death_signal(Some(Signal::CONT));
    Ok(())
}

/// Changes the user of this thread, and therefore of all threads that it starts. No other thread
/// exists yet.
fn become_user(identity: &Identity) -> io::Result<()> {
    let groups: Vec<Gid> = identity.groups.iter().map(|group| Gid::from_raw(*group)).collect();
    let (user, group) = (Uid::from_raw(identity.user), Gid::from_raw(identity.group));
    rustix::thread::set_thread_groups(&groups)?;
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)?;
    Ok(())
}

/// Handles the frames on the control socket until the agent exits.
fn obey(control: &Channel, jvm: &Jvm) {
    let mut outbox = None;
    while let Ok((frame, descriptor)) = control.receive(Patience::ENDLESS) {
        let id = frame.subject as i32;
        match (frame.kind, descriptor) {
            (Kind::Connect, Some(socket)) => connect(jvm, &frame.text(), socket),
            (Kind::Remove, _) => operator::remove_later(jvm.control(), id),
            (Kind::Chunks, Some(socket)) => outbox = open(socket),
            (Kind::StartCollector, _) => {
                let receiver = outbox.as_ref().map(|outbox| outbox.receiver(id));
                receiver
                    .into_iter()
                    .for_each(|receiver| collector::start_later(jvm.control(), id, receiver));
            }
            (Kind::StopCollector, _) => collector::stop_later(jvm.control(), id),
            (Kind::End, _) => {
                end_later();
                // This waits until the control thread has removed the operators that were queued
                // before.
                _ = jvm.control().ask(|_, _| Ok(()), |_, _, ()| {});
                return;
            }
            _ => log::warn!("an unexpected frame: {:?}", frame.kind),
        }
    }
}

/// Exits this process after some time, whatever operators do. The agent may have exited by then.
fn end_later() {
    let thread = thread::Builder::new().name("jvm-end".to_owned());
    let ended = thread.spawn(|| {
        thread::sleep(END_TIME);
        end()
    });
    if ended.is_err() {
        end();
    }
}

/// Opens the connection for chunks. If that fails, the agent notices that the connection was
/// closed.
fn open(socket: OwnedFd) -> Option<Arc<Outbox>> {
    Outbox::open(socket).inspect_err(|error| log::error!("collectors cannot run: {error}")).ok()
}

fn connect(jvm: &Jvm, name: &str, socket: OwnedFd) {
    let (jvm, channel) = (jvm.clone(), Channel::of(socket));
    let thread = thread::Builder::new().name(name.to_owned());
    if let Err(error) = thread.spawn(move || Server { jvm, channel, memory: None }.run()) {
        // The agent notices that the connection was closed.
        log::error!("cannot start a thread: {error}");
    }
}

/// Compiles an operator or a collector, and returns Java's response.
type Register = fn(&Control, Vec<u8>) -> Result<Vec<u8>, ControlError>;

/// Serves one connection.
struct Server {
    jvm: Jvm,
    channel: Channel,
    memory: Option<Attached>,
}

impl Server {
    fn run(mut self) {
        while let Ok((request, descriptor)) = self.channel.receive(Patience::ENDLESS) {
            let mut answer = self.answer(&request, descriptor);
            answer.request = request.request;
            if self.channel.send(&answer, None, Patience::ENDLESS).is_err() {
                return;
            }
        }
    }

    fn answer(&mut self, request: &Frame, descriptor: Option<OwnedFd>) -> Frame {
        let shared = self.jvm.shared();
        let operator = request.subject as i32;
        match (request.kind, descriptor) {
            (Kind::Call, _) => self.call(operator, request.offset),
            (Kind::Noop, _) => of_call(worker::noop(shared, 1).map(|()| Vec::new())),
            (Kind::Stats, _) => of_call(worker::stats(shared, operator)),
            (Kind::CollectorStats, _) => of_call(worker::collector_stats(shared)),
            (Kind::Process, _) => of_call(worker::process(shared)),
            (Kind::Heap, _) => of_call(worker::heap(shared, request.subject != 0)),
            (Kind::Register, _) => self.register(operator::ask_register, request),
            (Kind::RegisterCollector, _) => self.register(collector::ask_register, request),
            (Kind::Attach, Some(file)) => self.attach(&file, request.subject),
            _ => Frame::with(Kind::Failed, b"an unknown request".to_vec()),
        }
    }

    fn attach(&mut self, file: &OwnedFd, len: i64) -> Frame {
        // The old memory is unmapped first, because both mappings would need address space.
        self.memory = None;
        let attached = Attached::new(file, usize::try_from(len).unwrap_or_default());
        match attached {
            Ok(memory) => {
                let address = memory.address();
                self.memory = Some(memory);
                Frame::new(Kind::Done, address)
            }
            Err(error) => Frame::with(Kind::Failed, error.to_string().into_bytes()),
        }
    }

    fn call(&self, operator: i32, offset: i64) -> Frame {
        let memory = self.memory.as_ref().filter(|memory| memory.has_request(offset));
        let Some(memory) = memory else {
            return Frame::with(Kind::Failed, b"there is no such request".to_vec());
        };
        let request = memory.address() + offset;
        // SAFETY: the agent has written a request with addresses in this memory, which stays mapped
        // and which the agent does not change until it has the response.
        match unsafe { worker::call_at(self.jvm.shared(), operator, request) } {
            Ok(offset) => Frame { offset, ..Frame::new(Kind::Done, 0) },
            Err(error) => of_error(error),
        }
    }

    fn register(&self, ask: Register, request: &Frame) -> Frame {
        match ask(self.jvm.control(), request.payload.clone()) {
            Ok(answer) => Frame::with(Kind::Done, answer),
            Err(error) => Frame::with(Kind::Failed, error.to_string().into_bytes()),
        }
    }
}

fn of_call(result: Result<Vec<u8>, CallError>) -> Frame {
    match result {
        Ok(payload) => Frame::with(Kind::Done, payload),
        Err(error) => of_error(error),
    }
}

fn of_error(error: CallError) -> Frame {
    let (kind, text) = match error {
        CallError::UnknownOperator => (Kind::UnknownOperator, String::new()),
        CallError::Exception(text) => (Kind::Exception, text),
        CallError::Attach(text) => (Kind::NotAttached, text),
        CallError::Failed(text) => (Kind::Failed, text),
        other => (Kind::Failed, other.to_string()),
    };
    Frame::with(kind, text.into_bytes())
}

/// Writes the child's log records to the standard error, which it shares with the agent.
struct Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let name = NAME.get().map_or("", String::as_str);
        eprintln!("jvm process {name}: {}: {}", record.level(), record.args());
    }

    fn flush(&self) {}
}
