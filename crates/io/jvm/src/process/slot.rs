//! An operator in a separate process, across the lives of all its children.

use super::ending::Killed;
use super::frame::{Broken, Kind, Patience};
use super::life::{LOOK, Life};
use super::spec::Spec;
use super::supervisor::{Component, Inner, REGISTER_AGAIN, State};
use crate::answer::Answer;
use crate::error::{CallError, ControlError, RegisterError};
use crate::input::Input;
use crate::operator::{OperatorSpec, Registered, registered};
use parking_lot::{Mutex, RwLockReadGuard, RwLockWriteGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Number of children that may exit while a call runs alone in them. After that, the call fails.
const ENDS_ALONE_MAX: u32 = 2;

/// Number of children that may exit while they compile an operator or a collector. After that, the
/// agent abandons it.
pub const ENDS_REGISTERING_MAX: u32 = 4;

/// An operator in a separate process.
pub struct Slot {
    process: Arc<Inner>,
    component: String,
    spec: Spec,
    place: Mutex<Place>,
    /// Counts the calls to `let_go`, so that waiting calls notice the next one.
    let_go: AtomicU64,
}

/// The current registration of an operator.
struct Place {
    /// Number of the child in which the operator was last registered; see [`Life`].
    life: u64,
    id: Result<i32, RegisterError>,
    /// Time of the last attempt to register the operator.
    tried: Instant,
    /// Number of children that exited while they compiled the operator.
    ends: u32,
}

/// A permit for a call: the call either shares the process with other calls, or has the process to
/// itself, with no collector running.
enum Turn<'a> {
    Shared(#[expect(dead_code, reason = "held")] RwLockReadGuard<'a, ()>),
    Alone(#[expect(dead_code, reason = "held")] RwLockWriteGuard<'a, ()>),
}

/// The result of an attempt to call the operator.
enum Tried {
    Done(Result<Answer, CallError>),
    /// The child has exited, but not because of the call.
    Again,
    /// The child has exited during the call, possibly because of it.
    Ended,
    /// The child does not accept the operator at present.
    Refused(RegisterError),
}

/// The reason why an operator has no id in a child.
enum NoId {
    /// The child has exited.
    Over,
    /// The child does not accept the operator at present.
    Refused(RegisterError),
    /// The operator was abandoned after too many children exited while they compiled it.
    GivenUp(RegisterError),
}

impl Slot {
    /// Compiles an operator for the first time.
    ///
    /// # Errors
    /// Returns an error if the source contains an error, or the process is not running.
    pub fn register(
        process: &Arc<Inner>,
        spec: &OperatorSpec,
    ) -> Result<(Arc<Slot>, Registered), RegisterError> {
        let component = spec.component.clone();
        let spec = Spec::new(spec)?;
        let (life, answer) = register_first(process.state(), &spec)?;
        let registered = registered(&answer)?;
        spec.keep(&answer);
        let (id, tried) = (Ok(registered.id), Instant::now());
        let place = Place { life: life.number, id, tried, ends: 0 };
        let (process, place) = (Arc::clone(process), Mutex::new(place));
        let slot = Slot { process, component, spec, place, let_go: AtomicU64::new(0) };
        Ok((Arc::new(slot), registered))
    }

    fn state(&self) -> &State {
        self.process.state()
    }

    /// Returns the operator's id in a child, after registering the operator there if necessary.
    fn id(&self, life: &Life) -> Result<i32, NoId> {
        let mut place = self.place.lock();
        if place.is_due_in(life) {
            place.tried = Instant::now();
            match life.register(Kind::Register, self.spec.payload()) {
                Ok(answer) => {
                    let keep = |answer: Vec<u8>| {
                        self.spec.keep(&answer);
                        registered(&answer)
                    };
                    let id = answer
                        .map_err(RegisterError::from)
                        .and_then(keep)
                        .map(|operator| operator.id);
                    self.say(&place.id, &id);
                    (place.life, place.id, place.ends) = (life.number, id, 0);
                }
                Err(Broken::System(error)) => {
                    let error = ControlError::Process(error.to_string());
                    return Err(NoId::Refused(error.into()));
                }
                // Another operator has caused the child to exit.
                Err(Broken::Unreachable) => return Err(NoId::Over),
                Err(_) => {
                    place.ends += 1;
                    let reason = "its process exits whenever it compiles the operator".to_owned();
                    place.id = Err(ControlError::Process(reason).into());
                    return Err(NoId::Over);
                }
            }
        }
        place.id.clone().map_err(|error| match place.ends {
            ENDS_REGISTERING_MAX => NoId::GivenUp(error),
            _ => NoId::Refused(error),
        })
    }

    /// Logs when a child rejects the operator, and when a child accepts it again.
    fn say(&self, before: &Result<i32, RegisterError>, now: &Result<i32, RegisterError>) {
        let component = &self.component;
        match (before, now) {
            (Err(before), Err(now)) if before.to_string() == now.to_string() => {}
            (_, Err(error)) => log::error!(
                "transform {component}: cannot recompile the operator, so its events wait: {error}"
            ),
            (Err(_), Ok(_)) => log::info!("transform {component}: the operator is running again"),
            _ => {}
        }
    }

    /// Makes calls fail that are waiting for a child.
    pub fn let_go(&self) {
        self.let_go.fetch_add(1, Ordering::Relaxed);
        self.state().wake();
    }

    /// Returns statistics about the operator in the running child.
    ///
    /// # Errors
    /// Returns an error if no child is running, or if the child does not respond.
    pub fn stats(&self) -> Result<Vec<u8>, CallError> {
        let life = self.state().current().ok_or_else(|| self.state().ended())?;
        let place = self.place.lock();
        let id = place.id.as_ref().ok().filter(|_| place.life == life.number).copied();
        drop(place);
        life.figures(Kind::Stats, id.ok_or_else(|| self.state().ended())?)
    }

    /// Calls the operator. Repeats the call in new children as often as necessary.
    ///
    /// # Errors
    /// Returns an error if the call failed as a whole.
    pub fn call(&self, rules: usize, input: &Input<'_>) -> Result<Answer, CallError> {
        input.check()?;
        let begin = Instant::now();
        let let_go = self.let_go.load(Ordering::Relaxed);
        let has_enough = || self.let_go.load(Ordering::Relaxed) != let_go;
        let (mut ends_alone, mut hold) = (0, None);
        loop {
            let life = self.state().life(has_enough).ok_or_else(|| self.state().ended())?;
            let Some(_turn) = self.turn(&life, hold.is_some()) else { continue };
            match self.attempt(&life, rules, input) {
                Tried::Done(answer) => {
                    return answer.map(|answer| Answer { duration: begin.elapsed(), ..answer });
                }
                Tried::Again => {}
                Tried::Refused(error) if has_enough() => {
                    return Err(CallError::Failed(error.to_string()));
                }
                Tried::Refused(_) => {
                    // Release the hold, because the call may take a long time and collectors must
                    // not wait for it.
                    hold = None;
                    std::thread::sleep(LOOK);
                }
                Tried::Ended => {
                    let was_alone = hold.is_some() && !life.has_collected();
                    ends_alone += u32::from(was_alone);
                    hold.get_or_insert_with(|| self.state().hold_collectors());
                }
            }
            if ends_alone >= ENDS_ALONE_MAX {
                let name = &self.state().name;
                return Err(CallError::ProcessEnded(format!(
                    "process {name} exited in every attempt, {ends_alone} times with only this call"
                )));
            }
        }
    }

    /// Waits until the call may run; returns `None` if the child has exited in the meantime.
    fn turn(&self, life: &Life, is_alone: bool) -> Option<Turn<'_>> {
        let gate = &self.state().gate;
        loop {
            let turn = match is_alone {
                true => gate.try_write_for(LOOK).map(Turn::Alone),
                false => gate.try_read_for(LOOK).map(Turn::Shared),
            };
            if life.is_over() {
                return None;
            }
            if turn.is_some() {
                return turn;
            }
        }
    }

    fn attempt(&self, life: &Life, rules: usize, input: &Input<'_>) -> Tried {
        let id = match self.id(life) {
            Ok(id) => id,
            Err(NoId::Over) => return self.over(life),
            Err(NoId::Refused(error)) => return Tried::Refused(error),
            Err(NoId::GivenUp(error)) => {
                return Tried::Done(Err(CallError::Failed(error.to_string())));
            }
        };
        let mut connection = match life.connection() {
            Ok(connection) => connection,
            Err(Broken::System(error)) => {
                return Tried::Done(Err(CallError::Attach(error.to_string())));
            }
            Err(_) => return self.over(life),
        };
        let until = input.deadline.map(|time| Instant::now() + time);
        let patience = Patience { until, is_over: Some(&|| life.is_over()) };
        match connection.call(id, rules, input, patience) {
            Ok(answer) => {
                life.give_back(connection);
                Tried::Done(answer)
            }
            Err(Broken::Late) => {
                life.kill(Killed::Deadline);
                Tried::Done(Err(CallError::Deadline))
            }
            Err(Broken::Unreachable) => self.over(life),
            Err(Broken::Ended) => self.ended(life),
            Err(Broken::Garbage(what)) => {
                life.kill(Killed::Garbage(what));
                self.ended(life)
            }
            Err(Broken::System(error)) => Tried::Done(Err(CallError::Attach(error.to_string()))),
        }
    }

    /// Waits until the supervisor has noticed that a child has exited.
    fn over(&self, life: &Life) -> Tried {
        let begin = Instant::now();
        while !life.is_over() {
            // The child's sockets are closed, but it is still alive.
            if begin.elapsed() > LOOK {
                life.kill(Killed::Garbage("the end of a connection"));
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Tried::Again
    }

    /// Determines whether a call may be to blame for the exit of the child in which it ran.
    fn ended(&self, life: &Life) -> Tried {
        self.over(life);
        match life.killed() {
            Some(Killed::Deadline | Killed::Silent) => Tried::Again,
            _ => Tried::Ended,
        }
    }
}

impl Component for Slot {
    fn settle(&self, life: &Arc<Life>) {
        _ = self.id(life);
    }
}

/// Registers an operator in the first child that lives long enough; returns the child and its
/// response.
fn register_first(state: &State, spec: &Spec) -> Result<(Arc<Life>, Vec<u8>), RegisterError> {
    for _ in 0..ENDS_REGISTERING_MAX {
        let life = state.first_life()?;
        match life.register(Kind::Register, spec.payload()) {
            Ok(answer) => return Ok((life, answer?)),
            Err(Broken::System(error)) => {
                return Err(ControlError::Process(error.to_string()).into());
            }
            Err(_) if life.is_over_soon() => {}
            Err(_) => break,
        }
    }
    let reason = format!("process {} exited while it compiled the operator", state.name);
    Err(ControlError::Process(reason).into())
}

impl Drop for Slot {
    fn drop(&mut self) {
        let place = self.place.lock();
        let life = self.state().current().filter(|life| life.number == place.life);
        if let (Some(life), Ok(id)) = (life, &place.id) {
            life.remove(*id);
        }
    }
}

impl Place {
    /// Returns whether to register the operator in a child: immediately in a new child, and
    /// repeatedly after a failure, because a file may have been missing.
    fn is_due_in(&self, life: &Life) -> bool {
        let is_new = self.life != life.number;
        let is_again = self.id.is_err() && self.tried.elapsed() >= REGISTER_AGAIN;
        self.ends < ENDS_REGISTERING_MAX && (is_new || is_again)
    }
}
