//! An operator over all children of its process.

use super::ending::Killed;
use super::frame::{Broken, Kind, Patience};
use super::life::Life;
use super::supervisor::{Inner, LOOK, State};
use crate::answer::Answer;
use crate::error::{CallError, ControlError, RegisterError};
use crate::input::Input;
use crate::operator::{OperatorSpec, Registered, registered, text_of};
use parking_lot::{Mutex, RwLockReadGuard, RwLockWriteGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A call fails after so many children have ended in it, or so many in which it was alone.
const ENDS_MAX: u32 = 3;
const ENDS_ALONE_MAX: u32 = 2;

/// An operator or a collector is given up after so many children have ended while they compiled it.
pub const ENDS_REGISTERING_MAX: u32 = 4;

/// An operator in a separate process.
pub struct Slot {
    process: Arc<Inner>,
    spec: Vec<u8>,
    place: Mutex<Place>,
    /// How many times waiting calls were told to end.
    let_go: AtomicU64,
}

/// Where an operator is.
struct Place {
    /// The child in which it was registered last.
    life: u64,
    id: Result<i32, RegisterError>,
    /// Children that have ended while they compiled it.
    ends: u32,
}

/// The children that have ended in a call.
#[derive(Default)]
struct Ends {
    all: u32,
    alone: u32,
}

/// Calls share the process, or one has it alone.
enum Turn<'a> {
    Shared(#[expect(dead_code, reason = "held")] RwLockReadGuard<'a, ()>),
    Alone(#[expect(dead_code, reason = "held")] RwLockWriteGuard<'a, ()>),
}

/// What came of an attempt.
enum Tried {
    Done(Result<Answer, CallError>),
    /// The child has ended, and the call is not to blame.
    Again,
    /// The child has ended in the call.
    Ended,
}

impl Slot {
    /// Compiles an operator for the first time.
    ///
    /// # Errors
    /// Its source has a fault, or the process does not run.
    pub fn register(
        process: &Arc<Inner>,
        spec: &OperatorSpec,
    ) -> Result<(Arc<Slot>, Registered), RegisterError> {
        let (state, spec) = (process.state(), text_of(spec)?);
        let life = state.first_life()?;
        let answer = life.register(Kind::Register, &spec).map_err(|_| {
            let name = &state.name;
            ControlError::Process(format!(
                "process {name} has ended while it compiled the operator"
            ))
        })??;
        let registered = registered(&answer)?;
        let place = Place { life: life.number, id: Ok(registered.id), ends: 0 };
        let (process, place) = (Arc::clone(process), Mutex::new(place));
        let slot = Slot { process, spec, place, let_go: AtomicU64::new(0) };
        Ok((Arc::new(slot), registered))
    }

    fn state(&self) -> &State {
        self.process.state()
    }

    /// Registers the operator in a new child.
    pub fn register_again(&self, life: &Life) {
        _ = self.id(life);
    }

    /// Returns the operator's id in a child; registers it there if necessary.
    ///
    /// # Errors
    /// `None`: the child has ended.
    fn id(&self, life: &Life) -> Result<i32, Option<RegisterError>> {
        let mut place = self.place.lock();
        let has_failed_for_good = place.ends >= ENDS_REGISTERING_MAX;
        if place.life != life.number && !has_failed_for_good {
            match life.register(Kind::Register, &self.spec) {
                Ok(answer) => {
                    let of = |answer: Vec<u8>| registered(&answer);
                    place.id = answer.map_err(RegisterError::from).and_then(of).map(|of| of.id);
                    (place.life, place.ends) = (life.number, 0);
                }
                Err(Broken::System(error)) => {
                    return Err(Some(ControlError::Process(error.to_string()).into()));
                }
                // Another one has ended it.
                Err(Broken::Unreachable) => return Err(None),
                Err(_) => {
                    place.ends += 1;
                    let reason = "its process ends whenever it compiles the operator".to_owned();
                    place.id = Err(ControlError::Process(reason).into());
                    return Err(None);
                }
            }
        }
        place.id.clone().map_err(Some)
    }

    /// Ends the calls that wait for a child.
    pub fn let_go(&self) {
        self.let_go.fetch_add(1, Ordering::Relaxed);
        self.state().wake();
    }

    /// Returns what the operator did in the child that runs.
    ///
    /// # Errors
    /// There is none, or it does not answer.
    pub fn stats(&self) -> Result<Vec<u8>, CallError> {
        let life = self.state().current().ok_or_else(|| self.state().ended())?;
        let place = self.place.lock();
        let id = place.id.as_ref().ok().filter(|_| place.life == life.number).copied();
        drop(place);
        life.figures(Kind::Stats, id.ok_or_else(|| self.state().ended())?)
    }

    /// Calls the operator, in as many children as it takes.
    ///
    /// # Errors
    /// The call failed as a whole.
    pub fn call(&self, rules: usize, input: &Input<'_>) -> Result<Answer, CallError> {
        input.check()?;
        let begin = Instant::now();
        let let_go = self.let_go.load(Ordering::Relaxed);
        let has_enough = |_| self.let_go.load(Ordering::Relaxed) != let_go;
        let mut ends = Ends::default();
        loop {
            let life = self.state().life(has_enough).ok_or_else(|| self.state().ended())?;
            let Some(turn) = self.turn(&life, ends.all > 0) else { continue };
            match self.attempt(&life, rules, input) {
                Tried::Done(answer) => {
                    return answer.map(|answer| Answer { duration: begin.elapsed(), ..answer });
                }
                Tried::Again => {}
                Tried::Ended => ends.add(matches!(turn, Turn::Alone(_))),
            }
            if ends.are_enough() {
                return Err(ends.error(&self.state().name));
            }
        }
    }

    /// Waits until the call may run; `None` if the child has ended meanwhile.
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
            Err(Some(error)) => return Tried::Done(Err(CallError::Failed(error.to_string()))),
            Err(None) => return self.over(life),
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

    /// Waits until the supervisor knows that a child has ended.
    fn over(&self, life: &Life) -> Tried {
        let begin = Instant::now();
        while !life.is_over() {
            // Its sockets have ended, and it lives.
            if begin.elapsed() > LOOK {
                life.kill(Killed::Garbage("the end of a connection"));
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Tried::Again
    }

    /// The child has ended in a call: decides whether that is to blame.
    fn ended(&self, life: &Life) -> Tried {
        self.over(life);
        match life.killed() {
            Some(Killed::Deadline | Killed::Silent) => Tried::Again,
            _ => Tried::Ended,
        }
    }
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

impl Ends {
    fn add(&mut self, is_alone: bool) {
        self.all += 1;
        self.alone += u32::from(is_alone);
    }

    fn are_enough(&self) -> bool {
        self.all >= ENDS_MAX || self.alone >= ENDS_ALONE_MAX
    }

    fn error(&self, name: &str) -> CallError {
        let (all, alone) = (self.all, self.alone);
        CallError::ProcessEnded(format!(
            "process {name} has ended in each of {all} attempts, {alone} of them with this call alone"
        ))
    }
}
