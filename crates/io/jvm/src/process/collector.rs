//! A collector in a separate process, across the lives of all its children.

use super::frame::{Broken, Kind};
use super::life::Life;
use super::slot::ENDS_REGISTERING_MAX;
use super::spec::Spec;
use super::supervisor::{Component, Inner};
use crate::collector::{CollectorId, CollectorNumber, CollectorSpec, Deliver, registered};
use crate::error::{ControlError, RegisterError};
use parking_lot::Mutex;
use std::sync::Arc;

/// A collector in a separate process. Each new child recompiles the collector, and calls it if the
/// previous child called it. The values that the collector kept in variables are lost.
pub struct CollectorSlot {
    process: Arc<Inner>,
    component: String,
    spec: Spec,
    deliver: Arc<dyn Deliver>,
    number: CollectorNumber,
    /// Number of children that exited while they compiled the collector. Locked during a
    /// registration.
    ends: Mutex<u32>,
    place: Mutex<Place>,
}

/// The current registration of a collector.
struct Place {
    /// Child of the last registration, or of the last attempt.
    life: Option<Arc<Life>>,
    id: Result<i32, RegisterError>,
    is_started: bool,
    /// Number of the child in which the collector is called; see [`Life`].
    called_in: Option<u64>,
}

impl Place {
    /// Returns whether the collector is registered in a child.
    fn is_in(&self, life: &Life) -> bool {
        self.id.is_ok() && self.life.as_ref().is_some_and(|known| known.number == life.number)
    }
}

impl CollectorSlot {
    /// Compiles a collector for the first time.
    ///
    /// # Errors
    /// Returns an error if the source contains an error, or the process is not running.
    pub fn register(
        process: &Arc<Inner>,
        spec: &CollectorSpec,
        deliver: Arc<dyn Deliver>,
    ) -> Result<Arc<CollectorSlot>, RegisterError> {
        let nowhere = format!("process {} has exited", process.state().name);
        let nowhere = ControlError::Process(nowhere);
        let id = Err(nowhere.into());
        let place = Place { life: None, id, is_started: false, called_in: None };
        let slot = Arc::new(CollectorSlot {
            process: Arc::clone(process),
            component: spec.component.clone(),
            spec: Spec::new(spec)?,
            deliver,
            number: CollectorNumber::default(),
            ends: Mutex::new(0),
            place: Mutex::new(place),
        });
        // Add the collector before its registration, so that a child that starts in the meantime
        // also registers it.
        let component: Arc<dyn Component> = Arc::<CollectorSlot>::clone(&slot);
        process.state().add_collector(&component);
        let mut ends = 1;
        loop {
            let life = process.state().first_life()?;
            match slot.register_once(&life) {
                Err(_) if ends < ENDS_REGISTERING_MAX && life.is_over_soon() => ends += 1,
                settled => return settled.map(|()| slot),
            }
        }
    }

    /// Returns the collector's id in the child's statistics.
    pub fn number(&self) -> &CollectorNumber {
        &self.number
    }

    /// Starts calling the collector. Does nothing if the calls have already started.
    pub fn start(&self) {
        let mut place = self.place.lock();
        place.is_started = true;
        self.call_in(&mut place);
    }

    /// Registers the collector in a child unless it is already registered there. If the collector
    /// was called before, starts calling it. A collector that failed in this child is retried.
    ///
    /// # Errors
    /// Returns the reason why the collector is not registered.
    fn register_once(&self, life: &Arc<Life>) -> Result<(), RegisterError> {
        let mut ends = self.ends.lock();
        let is_known = self.place.lock().is_in(life);
        if !is_known && *ends < ENDS_REGISTERING_MAX {
            // If `id` is `None`, another collector has made the child exit, and the next child is
            // tried.
            let id = self.register_in(life, &mut ends);
            id.into_iter().for_each(|id| self.move_to(life, id));
        }
        let mut place = self.place.lock();
        self.call_in(&mut place);
        place.id.clone().map(drop)
    }

    /// Compiles the collector in a child; returns its id there, or `None` if the child had already
    /// exited.
    fn register_in(&self, life: &Life, ends: &mut u32) -> Option<Result<i32, RegisterError>> {
        let process = |reason: String| RegisterError::from(ControlError::Process(reason));
        Some(match life.register(Kind::RegisterCollector, self.spec.payload()) {
            Ok(answer) => {
                *ends = 0;
                answer.iter().for_each(|answer| self.spec.keep(answer));
                answer.map_err(RegisterError::from).and_then(|answer| registered(&answer))
            }
            Err(Broken::Unreachable) => return None,
            Err(Broken::System(error)) => Err(process(error.to_string())),
            Err(_) => {
                *ends += 1;
                let name = &self.process.state().name;
                Err(process(match *ends {
                    ENDS_REGISTERING_MAX => format!(
                        "process {name} exits whenever it compiles the collector; the agent does \
                         not retry until a reload changes the collector"
                    ),
                    _ => format!("process {name} exited while it compiled the collector"),
                }))
            }
        })
    }

    /// Records the result of a registration: the collector's id, or the reason why it failed.
    fn move_to(&self, life: &Arc<Life>, id: Result<i32, RegisterError>) {
        let mut place = self.place.lock();
        self.say(&place, &id);
        let start = life.number as u32;
        self.number.set(id.as_ref().ok().map(|id| CollectorId { start, id: *id }));
        (place.life, place.id) = (Some(Arc::clone(life)), id);
    }

    /// Logs the first of several equal failures of later registrations, and logs when a
    /// registration succeeds again.
    fn say(&self, place: &Place, id: &Result<i32, RegisterError>) {
        let component = &self.component;
        let before = place.life.is_some().then_some(&place.id);
        match (before, id) {
            (Some(Err(before)), Err(error)) if before.to_string() == error.to_string() => {}
            (Some(_), Err(error)) => {
                log::error!("source {component}: the collector does not run: {error}");
            }
            (Some(Err(_)), Ok(_)) => {
                log::info!("source {component}: the collector is running again")
            }
            _ => {}
        }
    }

    /// Starts calling the collector in the child where it is registered, unless it is already
    /// called there or calls are on hold.
    fn call_in(&self, place: &mut Place) {
        let (Some(life), Ok(id)) = (&place.life, &place.id) else { return };
        if !place.is_started || place.called_in == Some(life.number) {
            return;
        }
        let Some(_no_hold) = self.process.state().holds.none() else { return };
        match life.start_collector(*id, &self.deliver) {
            Ok(()) => place.called_in = Some(life.number),
            // The next child will call the collector.
            Err(Broken::Ended) => {}
            Err(_) if life.is_over() => {}
            Err(broken) => {
                log::error!("source {}: cannot start the collector: {broken}", self.component);
            }
        }
    }
}

impl Component for CollectorSlot {
    fn settle(&self, life: &Arc<Life>) {
        // If the collector does not run, the reason has already been logged.
        _ = self.register_once(life);
    }

    fn resume(&self) {
        self.call_in(&mut self.place.lock());
    }
}

impl Drop for CollectorSlot {
    fn drop(&mut self) {
        let place = self.place.lock();
        if let (Some(life), Ok(id)) = (&place.life, &place.id) {
            life.stop_collector(*id);
        }
    }
}
