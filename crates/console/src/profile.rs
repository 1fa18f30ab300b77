//! Profiles of the agent: `/api/profile`.
//!
//! POST starts a profile; DELETE ends it and returns the samples as addresses. The client looks up
//! the symbols, because the lookup takes hundreds of megabytes of memory, which the agent cannot
//! spare. GET with `?last=` returns the samples of continuous profiling.

mod continuous;

pub use continuous::keep_profiles;

use crate::reply::{Reply, as_json, error};
use continuous::StoredSamples;
use hyper::StatusCode;
use millstream_model::Interval;
use millstream_profiler::{Event, RawProfile, Session, Settings, StartError};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use tokio::task::JoinError;

/// Maximum size of a request's body in bytes.
pub const REQUEST_BYTES_MAX: usize = 4 << 10;

/// Maximum duration of a profile.
const DURATION_MAX: Duration = Duration::from_secs(3600);

/// How long a finished profile is kept for its client.
const KEPT: Duration = Duration::from_secs(60);

/// Size of the buffer for samples that are not aggregated yet, in bytes: a tenth of a second.
const BUFFER_BYTES: usize = 2 << 20;

/// The body of a request for a profile.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileRequest {
    /// Event that is sampled.
    pub event: Event,
    /// Time between two samples of a thread.
    pub interval: Interval,
    /// Duration of the profile.
    pub duration: Interval,
}

/// The response to a request for a profile.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ProfileStarted {
    /// Profile number, which the client needs to end the profile.
    pub id: u64,
}

/// The profile of the process, if there is one.
struct Job {
    id: u64,
    until: Instant,
    state: State,
}

enum State {
    Starting,
    Running(Session),
    /// Another thread is ending the session.
    Ending,
    Finished(RawProfile),
}

static JOB: Mutex<Option<Job>> = Mutex::new(None);

/// Id of the profile that was started last.
static LAST_ID: Mutex<u64> = Mutex::new(0);

/// The response of a GET without `last`.
#[derive(Serialize)]
struct Shown {
    running: bool,
    /// Id of the running profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    /// Time until the running profile ends, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_seconds: Option<f64>,
    /// State of continuous profiling.
    #[serde(skip_serializing_if = "Option::is_none")]
    continuous: Option<StoredSamples>,
}

/// Returns the state of the profiler, or the samples that the query requests.
pub async fn show(query: &str) -> Reply {
    match query.strip_prefix("last=") {
        Some(last) => continuous::last(last).await,
        None => state(),
    }
}

fn state() -> Reply {
    let job = JOB.lock();
    let found = job.as_ref().filter(|job| job.is_running());
    let (id, remaining) = (found.map(|job| job.id), found.map(Job::remaining_seconds));
    let running = remaining.is_some();
    drop(job);
    let continuous = continuous::kept();
    as_json(StatusCode::OK, &Shown { running, id, remaining_seconds: remaining, continuous })
}

/// Returns whether a client's profile is running.
fn is_running() -> bool {
    JOB.lock().as_ref().is_some_and(Job::is_running)
}

impl Job {
    fn is_running(&self) -> bool {
        !matches!(self.state, State::Finished(_))
    }

    fn remaining_seconds(&self) -> f64 {
        self.until.saturating_duration_since(Instant::now()).as_secs_f64()
    }
}

/// Starts a profile.
pub async fn start(body: &[u8]) -> Reply {
    let request = match request(body) {
        Ok(request) => request,
        Err(message) => return error(StatusCode::BAD_REQUEST, &message),
    };
    let id = match reserve(request.duration.0) {
        Ok(id) => id,
        Err(message) => return error(StatusCode::CONFLICT, &message),
    };
    // The start runs as a task, because the profile must also end if the client disconnects
    // meanwhile.
    tokio::spawn(start_as(id, request)).await.unwrap_or_else(|failed| internal_error(&failed))
}

async fn start_as(id: u64, request: ProfileRequest) -> Reply {
    let settings =
        Settings { event: request.event, interval: request.interval.0, buffer_bytes: BUFFER_BYTES };
    // Reading the tables for unwinding takes milliseconds, and this thread also delivers payloads.
    let started = tokio::task::spawn_blocking(move || {
        continuous::pause();
        millstream_profiler::start(settings)
    });
    match started.await {
        Ok(Ok(session)) => {
            set(id, State::Running(session));
            tokio::spawn(end_after(id, request.duration.0));
            as_json(StatusCode::OK, &ProfileStarted { id })
        }
        Ok(Err(failed)) => {
            remove(id);
            let status = match failed {
                StartError::Interval(_) => StatusCode::BAD_REQUEST,
                _ => StatusCode::CONFLICT,
            };
            error(status, &failed.to_string())
        }
        Err(failed) => {
            remove(id);
            internal_error(&failed)
        }
    }
}

fn internal_error(failed: &JoinError) -> Reply {
    error(StatusCode::INTERNAL_SERVER_ERROR, &failed.to_string())
}

fn request(body: &[u8]) -> Result<ProfileRequest, String> {
    let request: ProfileRequest = serde_json::from_slice(body).map_err(|error| {
        format!(
            "the body is not {{\"event\": \"cpu\", \"interval\": \"10ms\", \"duration\": \"15s\"}}: {error}"
        )
    })?;
    if request.duration.0.is_zero() || request.duration.0 > DURATION_MAX {
        return Err(format!("duration: {} is not from 1ms to 1h", request.duration));
    }
    Ok(request)
}

/// Reserves the only profile of the process, and returns the id of the new profile.
fn reserve(duration: Duration) -> Result<u64, String> {
    let mut job = JOB.lock();
    if let Some(running) = job.as_ref().filter(|job| job.is_running()) {
        let seconds = running.remaining_seconds().ceil();
        return Err(format!(
            "another profile is running for {seconds} more seconds, and only one can run at a \
             time; DELETE /api/profile?id={} ends it",
            running.id
        ));
    }
    let mut last = LAST_ID.lock();
    *last += 1;
    *job = Some(Job { id: *last, until: Instant::now() + duration, state: State::Starting });
    Ok(*last)
}

fn set(id: u64, state: State) {
    let has_ended = matches!(state, State::Finished(_));
    if let Some(job) = JOB.lock().as_mut().filter(|job| job.id == id) {
        job.state = state;
    }
    if has_ended {
        continuous::resume();
    }
}

fn remove(id: u64) {
    let removed = JOB.lock().take_if(|job| job.id == id);
    if removed.is_some_and(|job| job.is_running()) {
        continuous::resume();
    }
}

/// Ends a profile after its duration, and later discards the samples if the client has not fetched
/// them.
async fn end_after(id: u64, duration: Duration) {
    tokio::time::sleep(duration).await;
    finish(id).await;
    tokio::time::sleep(KEPT).await;
    remove(id);
}

/// Ends the session of a running profile, and keeps the samples for the client.
async fn finish(id: u64) {
    let Some(session) = take_session(id) else { return };
    match tokio::task::spawn_blocking(move || session.stop()).await {
        Ok(profile) => set(id, State::Finished(profile)),
        Err(_) => remove(id),
    }
}

/// Takes the session of a running profile.
fn take_session(id: u64) -> Option<Session> {
    let mut job = JOB.lock();
    let job = job.as_mut().filter(|job| job.id == id)?;
    match std::mem::replace(&mut job.state, State::Ending) {
        State::Running(session) => Some(session),
        other => {
            job.state = other;
            None
        }
    }
}

/// Ends a profile, and returns the samples.
pub async fn end(query: &str) -> Reply {
    let id = query.strip_prefix("id=").and_then(|id| id.parse().ok());
    let Some(id) = id else {
        return error(
            StatusCode::BAD_REQUEST,
            "add ?id= with the id that POST /api/profile returned",
        );
    };
    // The end runs as a task, because the profile must also end if the client disconnects
    // meanwhile.
    let _ = tokio::spawn(finish(id)).await;
    match finished(id).await {
        Some(profile) => {
            let reply = tokio::task::spawn_blocking(move || as_json(StatusCode::OK, &profile));
            reply.await.unwrap_or_else(|failed| internal_error(&failed))
        }
        None => error(StatusCode::NOT_FOUND, &format!("there is no profile {id}")),
    }
}

/// Waits until a profile that is ending has ended, and returns its samples; `None` if there is no
/// such profile.
async fn finished(id: u64) -> Option<RawProfile> {
    loop {
        {
            let mut slot = JOB.lock();
            let job = slot.take_if(|job| job.id == id)?;
            match job.state {
                State::Finished(profile) => return Some(profile),
                state => *slot = Some(Job { state, ..job }),
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_what_is_wrong() {
        let with = |event: &str, interval: &str, duration: &str| {
            let body = format!(
                r#"{{"event": "{event}", "interval": "{interval}", "duration": "{duration}"}}"#
            );
            request(body.as_bytes()).map(|request| request.interval.0)
        };
        assert_eq!(with("cpu", "10ms", "15s"), Ok(Duration::from_millis(10)));
        assert!(with("disk", "10ms", "15s").unwrap_err().contains("disk"));
        assert!(with("cpu", "10", "15s").unwrap_err().contains("has no unit"));
        assert_eq!(with("cpu", "10ms", "2h").unwrap_err(), "duration: 2h is not from 1ms to 1h");
        assert!(request(b"").unwrap_err().starts_with("the body is not {\"event\": \"cpu\""));
    }
}
