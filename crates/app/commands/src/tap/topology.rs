//! The topology that taps observe, and the plan of a tap in it.

use super::place::{self, Point};
use super::view::View;
use millstream_components::util::condition::Condition;
use millstream_config::Config;
use millstream_console::{TapRefusal, TapRequest};
use std::sync::Arc;

/// The topology as taps see it.
#[derive(Clone)]
pub enum Topology {
    /// No events flow yet.
    Starting,
    /// The topology of this configuration.
    Running(Arc<Config>),
    /// The topology is being replaced. Samples that arrive meanwhile are not shown, because they
    /// may belong to either topology.
    Changing,
    /// No more events flow.
    Ended,
}

impl Topology {
    /// Returns the running configuration, or the reason why there is none.
    pub fn config(&self) -> Result<Arc<Config>, TapRefusal> {
        let why = match self {
            Topology::Running(config) => return Ok(config.clone()),
            Topology::Starting => "the agent is starting; try again",
            Topology::Changing => "the configuration is being reloaded; try again",
            Topology::Ended => "the agent is stopping",
        };
        Err(TapRefusal::Unavailable(why.to_owned()))
    }
}

/// Returns the point where a tap listens, and the view that it shows.
///
/// # Errors
///
/// Returns an error if the id or the condition is invalid, or if a redaction cannot be built.
pub fn plan(config: &Config, request: &TapRequest) -> Result<(Point, View), TapRefusal> {
    let point = place::point(config, &request.id)?;
    let condition = request.condition.as_deref().map(Condition::new).transpose();
    let condition = condition.map_err(|error| TapRefusal::Invalid(format!("where: {error}")))?;
    let redactions = match request.raw {
        true => Vec::new(),
        false => place::redactions(config, &request.id).map_err(TapRefusal::Unavailable)?,
    };
    Ok((point, View::new(redactions, condition, request.format)))
}
