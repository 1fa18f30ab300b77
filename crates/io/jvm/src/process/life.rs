//! The life of one child, from its start to its exit.

use super::body::Body;
use super::connection::{Connection, failure};
use super::ending::{Ended, Killed};
use super::frame::{Broken, Channel, Frame, Kind, Patience};
use super::inbox::Inbox;
use super::settings::{Identity, ProcessOptions, Start};
use crate::buffer::Pool;
use crate::collector::Deliver;
use crate::error::{CallError, ControlError};
use crate::jvm::JvmInfo;
use parking_lot::Mutex;
use rustix::fd::AsFd;
use rustix::process::Pid;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which a thread that waits for a child checks whether to keep waiting.
pub const LOOK: Duration = Duration::from_millis(100);

/// Maximum time for a child to start.
const START_TIME: Duration = Duration::from_secs(60);

/// Maximum time for a registration, which is longer than the child waits for the JVM's response.
const REGISTER_TIME: Duration = Duration::from_secs(75);

/// Maximum time for a statistics request, and for a frame on the control socket.
const FIGURES_TIME: Duration = Duration::from_secs(10);

/// Number of consecutive statistics requests without a response after which a child is treated as
/// hung.
const SILENT_MAX: u32 = 3;

/// Maximum time for a collection of the whole heap.
const HEAP_TIME: Duration = Duration::from_secs(60);

/// A child that is running, or that has exited.
pub struct Life {
    /// Which child of its process this is, counted from 1.
    pub number: u64,
    /// Information about the child's JVM.
    pub info: JvmInfo,
    body: Arc<Body>,
    control: Mutex<Channel>,
    pool: Arc<Pool>,
    /// Unused connections for calls.
    idle: Mutex<Vec<Connection>>,
    idle_max: usize,
    /// Connection for registrations.
    register: Mutex<Option<Connection>>,
    /// Connection for statistics.
    figures: Mutex<Option<Connection>>,
    /// Number of consecutive statistics requests without a response.
    silent: AtomicU32,
    /// Connection for requests that concern the heap.
    heap: Mutex<Option<Connection>>,
    /// Receiver for chunks; `None` until a collector is called.
    inbox: Mutex<Option<Arc<Inbox>>>,
    /// Whether a collector has been called in the child.
    has_collected: AtomicBool,
}

fn within(time: Duration) -> Option<Instant> {
    Some(Instant::now() + time)
}

impl Life {
    /// Starts a child and its JVM.
    ///
    /// # Errors
    /// Returns the reason if the child fails to start.
    pub fn start(
        name: &str,
        number: u64,
        options: &ProcessOptions,
        pool: &Arc<Pool>,
    ) -> Result<Life, Ended> {
        let identity = options.user.as_deref().map(identity).transpose();
        let start = Start {
            name: name.to_owned(),
            jvm: options.jvm.clone(),
            identity: identity.map_err(Ended::for_reason)?,
            open_files: options.open_files,
        };
        let mut control = None;
        let body = Body::spawn(options, &mut control).map_err(Ended::for_reason)?;
        let started = control.ok_or_else(String::new).and_then(|control| {
            if let Some(folder) = &options.cgroup {
                join(folder, body.pid())?;
            }
            Ok((begin(&control, &start)?, control))
        });
        let (info, control) = started.map_err(|reason| body.not_started(reason))?;
        Ok(Life {
            number,
            info,
            body: Arc::new(body),
            control: Mutex::new(control),
            pool: Arc::clone(pool),
            idle: Mutex::default(),
            idle_max: options.jvm.threads,
            register: Mutex::default(),
            figures: Mutex::default(),
            silent: AtomicU32::new(0),
            heap: Mutex::default(),
            inbox: Mutex::default(),
            has_collected: AtomicBool::new(false),
        })
    }

    /// Returns the process id of the child.
    pub fn pid(&self) -> u32 {
        self.body.pid().as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns whether the child has exited.
    pub fn is_over(&self) -> bool {
        self.body.is_over()
    }

    /// Returns whether the child has exited or exits within [`LOOK`]. A child's sockets close
    /// shortly before it exits.
    pub fn is_over_soon(&self) -> bool {
        let begin = Instant::now();
        while !self.is_over() && begin.elapsed() < LOOK {
            thread::sleep(Duration::from_millis(1));
        }
        self.is_over()
    }

    /// Returns the reason why the agent killed the child; `None` if the agent did not kill it.
    pub fn killed(&self) -> Option<Killed> {
        self.body.killed()
    }

    /// Kills the child.
    pub fn kill(&self, why: Killed) {
        self.body.kill(why);
    }

    /// Waits up to `time` for the child to exit; returns `false` if it is still running. Before
    /// Linux 5.3, returns `true` immediately.
    pub fn ends_within(&self, time: Duration) -> bool {
        self.body.ends_within(time)
    }

    /// Waits for the child to exit, and returns how it exited. Called once, by the supervisor.
    pub fn wait(&self) -> Ended {
        let ended = self.body.wait();
        self.idle.lock().clear();
        let inbox = self.inbox.lock().take();
        inbox.inspect(|inbox| inbox.close());
        ended
    }

    /// Asks the child to exit, and kills it if it is still running after `time`.
    pub fn end(&self, time: Duration) {
        _ = self.command(&Frame::new(Kind::End, 0), None);
        let begin = Instant::now();
        while !self.is_over() && begin.elapsed() < time {
            thread::sleep(Duration::from_millis(5));
        }
        self.body.kill_for(None);
    }

    /// Asks the child to remove an operator. Never waits.
    pub fn remove(&self, operator: i32) {
        if self.command(&Frame::new(Kind::Remove, operator.into()), None).is_err() {
            log::debug!("an operator ends with its process");
        }
    }

    /// Starts calling a collector, whose chunks go to `deliver`.
    ///
    /// # Errors
    /// Returns an error if the child has exited, or no connection can be created.
    pub fn start_collector(&self, id: i32, deliver: &Arc<dyn Deliver>) -> Result<(), Broken> {
        self.has_collected.store(true, Ordering::Relaxed);
        self.inbox()?.add(id, Arc::clone(deliver));
        self.command(&Frame::new(Kind::StartCollector, id.into()), None)
    }

    /// Returns whether a collector has been called in the child. Such a collector may be the reason
    /// why the child exited.
    pub fn has_collected(&self) -> bool {
        self.has_collected.load(Ordering::Relaxed)
    }

    /// Asks the child to remove a collector. Never waits.
    pub fn stop_collector(&self, id: i32) {
        if self.command(&Frame::new(Kind::StopCollector, id.into()), None).is_err() {
            log::debug!("a collector ends with its process");
        }
    }

    /// Returns the receiver for chunks. Opens the connection for chunks if necessary.
    fn inbox(&self) -> Result<Arc<Inbox>, Broken> {
        let mut inbox = self.inbox.lock();
        if let Some(inbox) = &*inbox {
            return Ok(Arc::clone(inbox));
        }
        let (channel, other) = Channel::pair().map_err(Broken::System)?;
        self.command(&Frame::new(Kind::Chunks, 0), Some(other.as_fd()))?;
        let opened = Inbox::open(channel, Arc::clone(&self.body)).map_err(Broken::System)?;
        Ok(Arc::clone(inbox.insert(opened)))
    }

    fn command(
        &self,
        frame: &Frame,
        passed: Option<rustix::fd::BorrowedFd<'_>>,
    ) -> Result<(), Broken> {
        let patience = Patience { until: within(FIGURES_TIME), is_over: Some(&|| self.is_over()) };
        self.control.lock().send(frame, passed, patience)
    }

    /// Opens a connection to a new thread in the child. The thread gets this name.
    fn connect(&self, name: &str) -> Result<Connection, Broken> {
        let (channel, other) = Channel::pair().map_err(Broken::System)?;
        let frame = Frame::with(Kind::Connect, name.as_bytes().to_vec());
        self.command(&frame, Some(other.as_fd()))?;
        Ok(Connection::new(channel, &self.pool))
    }

    /// Returns a connection for a call.
    ///
    /// # Errors
    /// Returns an error if the child has exited, or no connection can be created.
    pub fn connection(&self) -> Result<Connection, Broken> {
        if let Some(idle) = self.idle.lock().pop() {
            return Ok(idle);
        }
        self.connect(thread::current().name().unwrap_or("worker"))
    }

    /// Takes back a connection after a call.
    pub fn give_back(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        if !self.is_over() && idle.len() < self.idle_max {
            idle.push(connection);
        }
    }

    /// Registers an operator or a collector, depending on `kind`, and returns Java's response.
    ///
    /// # Errors
    /// The outer error means that the connection failed, for example because the child has exited.
    /// The inner error is the child's response.
    pub fn register(
        &self,
        kind: Kind,
        spec: Vec<u8>,
    ) -> Result<Result<Vec<u8>, ControlError>, Broken> {
        let request = Frame::with(kind, spec);
        let answer = self.ask(&self.register, "jvm-register", request, REGISTER_TIME);
        // The child would not respond to another registration either.
        if let Err(Broken::Late) = answer {
            self.kill(Killed::Silent);
        }
        let answer = answer?;
        Ok(match answer.kind {
            Kind::Done => Ok(answer.payload),
            _ => Err(ControlError::Process(answer.text())),
        })
    }

    /// Requests statistics.
    ///
    /// # Errors
    /// Returns an error if the child has exited or does not respond in time, or if Java threw an
    /// exception.
    pub fn figures(&self, kind: Kind, operator: i32) -> Result<Vec<u8>, CallError> {
        let request = Frame::new(kind, operator.into());
        let answer = self.ask(&self.figures, "jvm-figures", request, FIGURES_TIME);
        match &answer {
            Err(Broken::Late) if self.silent.fetch_add(1, Ordering::Relaxed) + 1 >= SILENT_MAX => {
                self.kill(Killed::Silent);
            }
            Err(_) => {}
            Ok(_) => self.silent.store(0, Ordering::Relaxed),
        }
        answered(answer)
    }

    /// Makes the JVM collect garbage and return memory to the system, or keep as much memory as its
    /// options allow.
    ///
    /// # Errors
    /// See [`Life::figures`].
    pub fn heap(&self, is_tight: bool) -> Result<Vec<u8>, CallError> {
        let request = Frame::new(Kind::Heap, is_tight.into());
        answered(self.ask(&self.heap, "jvm-heap", request, HEAP_TIME))
    }

    fn ask(
        &self,
        used: &Mutex<Option<Connection>>,
        name: &str,
        request: Frame,
        time: Duration,
    ) -> Result<Frame, Broken> {
        let mut used = used.lock();
        let mut connection = match used.take() {
            Some(connection) => connection,
            None => self.connect(name).map_err(|broken| match broken {
                Broken::System(error) => Broken::System(error),
                _ => Broken::Unreachable,
            })?,
        };
        let patience = Patience { until: within(time), is_over: Some(&|| self.is_over()) };
        let answer = connection.ask(request, patience)?;
        *used = Some(connection);
        Ok(answer)
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.body.kill_for(None);
    }
}

fn answered(answer: Result<Frame, Broken>) -> Result<Vec<u8>, CallError> {
    let answer = answer.map_err(|broken| CallError::ProcessEnded(broken.to_string()))?;
    failure(&answer).map_or(Ok(answer.payload), Err)
}

fn identity(user: &str) -> Result<Identity, String> {
    if !rustix::process::geteuid().is_root() {
        return Err(
            "`user` requires that the agent runs as root; remove `user`, or run the agent as root"
                .to_owned(),
        );
    }
    Identity::find(user)
}

/// Moves a process into a control group.
fn join(folder: &Path, pid: Pid) -> Result<(), String> {
    let file = folder.join("cgroup.procs");
    let written = fs::OpenOptions::new().write(true).open(&file).and_then(|mut file| {
        io::Write::write_all(&mut file, pid.as_raw_nonzero().to_string().as_bytes())
    });
    written.map_err(|error| {
        format!(
            "`cgroup`: cannot write {}: {error}; create the control group, and give the agent's \
             user write access to it",
            file.display()
        )
    })
}

/// Sends the settings to a new child, and waits until its JVM has started. An empty error text
/// means that the child has exited.
fn begin(control: &Channel, start: &Start) -> Result<JvmInfo, String> {
    let patience = Patience { until: within(START_TIME), is_over: None };
    let payload = serde_json::to_vec(start).map_err(|error| error.to_string())?;
    let sent = control.send(&Frame::with(Kind::Start, payload), None, patience);
    let answer = sent.and_then(|()| control.receive(patience));
    match answer {
        Ok((answer, _)) if answer.kind == Kind::Done => {
            serde_json::from_slice(&answer.payload).map_err(|error| error.to_string())
        }
        Ok((answer, _)) => Err(answer.text()),
        Err(Broken::Ended | Broken::Unreachable) => Err(String::new()),
        Err(Broken::Late) => Err(format!("it did not respond within {START_TIME:?}")),
        Err(Broken::Garbage(what)) => Err(format!("it sent {what}")),
        Err(Broken::System(error)) => Err(error.to_string()),
    }
}
