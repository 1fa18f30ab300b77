//! The thread that created the JVM. This thread compiles and removes operators, so that threads
//! that process data never wait for these tasks.

use crate::answered::Answered;
use crate::bridge::{Bridge, Natives};
use crate::discover::Java;
use crate::error::{ControlError, StartError};
use crate::jni::{Env, Thrown, Vm};
use crate::{create, layout};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SendError, Sender, SyncSender, channel, sync_channel,
};
use std::thread;
use std::time::Duration;

/// Maximum time to wait for a response. Compiling a large script takes seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Stack size of the control thread in bytes. Compilers are recursive.
const STACK_BYTES: usize = 8 << 20;

/// A task for the control thread.
type Task = Box<dyn FnOnce(&Bridge, Env) + Send>;

/// Passes tasks to the control thread.
#[derive(Clone)]
pub struct Control {
    tasks: Sender<Task>,
}

/// A running JVM.
pub struct Started {
    pub vm: Vm,
    pub bridge: Arc<Bridge>,
    pub control: Control,
    pub java: JavaVersion,
}

/// The response from `Bridge.start`.
#[derive(Clone, Debug, Deserialize)]
pub struct JavaVersion {
    /// Version, such as `25.0.1`.
    pub java_version: String,
    /// Name of the virtual machine.
    pub vm: String,
    layout_version: i64,
}

/// The inputs for creating a JVM.
pub struct Blueprint {
    pub java: Java,
    pub jar: PathBuf,
    pub arguments: Vec<String>,
    pub natives: Natives,
}

/// Creates the JVM on a new thread, which becomes its control thread.
///
/// # Errors
/// Returns an error if the JVM does not start, or cannot use the jar.
pub fn start(blueprint: Blueprint) -> Result<Started, StartError> {
    let (answer, started) = sync_channel(1);
    let failed = |reason: String| StartError::Create { code: reason, output: String::new() };
    thread::Builder::new()
        .name("jvm-control".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || run(&blueprint, &answer))
        .map_err(|error| failed(error.to_string()))?;
    started.recv().unwrap_or_else(|_| Err(failed("the thread has exited".to_owned())))
}

/// Runs the control thread. Once the JVM has been created, the function never returns, because the
/// thread must stay attached.
fn run(blueprint: &Blueprint, answer: &SyncSender<Result<Started, StartError>>) {
    let (tasks, received): (_, Receiver<Task>) = channel();
    let created = create::create(&blueprint.java, &blueprint.arguments);
    let (vm, env) = match created {
        Ok(created) => created,
        Err(error) => {
            _ = answer.send(Err(error));
            return;
        }
    };
    match begin(blueprint, env) {
        Ok((bridge, java)) => {
            let bridge = Arc::new(bridge);
            let control = Control { tasks };
            _ = answer.send(Ok(Started { vm, bridge: Arc::clone(&bridge), control, java }));
            received.into_iter().for_each(|task| task(&bridge, env));
        }
        Err(error) => _ = answer.send(Err(error)),
    }
    loop {
        thread::park();
    }
}

/// Loads the runtime for operators, and starts it.
fn begin(blueprint: &Blueprint, env: Env) -> Result<(Bridge, JavaVersion), StartError> {
    let failed = |reason| broken(&blueprint.jar, reason);
    let bridge = Bridge::load(env, &blueprint.natives).map_err(|Thrown(reason)| failed(reason))?;
    let settings = serde_json::json!({
        "layout_version": layout::VERSION,
        "keeps_streams": true,
    });
    let answer = bridge.start(env, settings.to_string().as_bytes());
    let answer = answer.map_err(|Thrown(reason)| failed(reason))?;
    let java = started(&answer).map_err(failed)?;
    match java.layout_version {
        layout::VERSION => Ok((bridge, java)),
        other => Err(failed(format!(
            "its call interface has version {other}, but the program has version {}; use the jar \
             and the program from the same build",
            layout::VERSION
        ))),
    }
}

fn started(answer: &[u8]) -> Result<JavaVersion, String> {
    match serde_json::from_slice(answer) {
        Ok(Answered::Done(java)) => Ok(java),
        Ok(Answered::Fault { error }) => Err(error.message),
        Err(error) => Err(error.to_string()),
    }
}

fn broken(jar: &Path, reason: String) -> StartError {
    StartError::Runtime { jar: jar.to_owned(), reason }
}

impl Control {
    /// Runs a function on the control thread, and returns its result. A result that arrives too
    /// late is passed to `undo`.
    ///
    /// # Errors
    /// Returns an error if Java threw an exception, or if the function did not return in time.
    pub fn ask<T: Send + 'static>(
        &self,
        task: impl FnOnce(&Bridge, Env) -> Result<T, Thrown> + Send + 'static,
        undo: impl FnOnce(&Bridge, Env, T) + Send + 'static,
    ) -> Result<T, ControlError> {
        let (answer, received) = sync_channel(1);
        self.send(move |bridge, env| {
            if let Err(SendError(Ok(late))) = answer.send(task(bridge, env)) {
                undo(bridge, env, late);
            }
        });
        match received.recv_timeout(ANSWER_TIMEOUT) {
            Ok(result) => result.map_err(|Thrown(reason)| ControlError::Exception(reason)),
            Err(RecvTimeoutError::Timeout) => Err(ControlError::Timeout(ANSWER_TIMEOUT.as_secs())),
            Err(RecvTimeoutError::Disconnected) => {
                Err(ControlError::Exception("the control thread has exited".to_owned()))
            }
        }
    }

    /// Queues a function for the control thread. Does not wait.
    pub fn send(&self, task: impl FnOnce(&Bridge, Env) + Send + 'static) {
        // The send cannot fail, because the thread does not exit while a sender exists.
        _ = self.tasks.send(Box::new(task));
    }
}
