//! Queries the agent once per interval, one request at a time.

use super::api::{Answer, Diagnosis, Part, Snapshot};
use super::data::Polled;
use super::views::View;
use crate::client::{Client, ClientError};
use hyper::{Method, StatusCode};
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

/// Timeout for a response if the interval is shorter. It is long enough that only a hanging agent
/// is reported.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The data to request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The visible view. Files and tasks are requested only for their views, because there may be
    /// thousands.
    pub view: View,
    /// Whether no data is requested.
    pub is_paused: bool,
}

/// Sends requests until the receiver of `answers` is gone.
pub async fn poll(
    client: Client,
    interval: Duration,
    mut wanted: watch::Receiver<Wanted>,
    answers: impl Fn(Polled) -> bool,
) {
    let mut next = Instant::now();
    loop {
        tokio::select! {
            () = sleep_until(next) => {
                next = (next + interval).max(Instant::now());
                let now = *wanted.borrow_and_update();
                if !now.is_paused && !answers(all(&client, interval, now.view).await) {
                    return;
                }
                // After a slow response, wait at least half the interval before the next request.
                next = next.max(Instant::now() + interval / 2);
            }
            changed = wanted.changed() => {
                let now = *wanted.borrow_and_update();
                if changed.is_err() {
                    return;
                }
                let mut polled = Polled::default();
                let found = of_view(&client, interval, now.view, &mut polled).await;
                if found.is_ok() && !now.is_paused && !answers(polled) {
                    return;
                }
            }
        }
    }
}

/// Requests all data that a view shows.
async fn all(client: &Client, interval: Duration, view: View) -> Polled {
    let mut polled = Polled::default();
    if let Err(failure) = fill(client, interval, view, &mut polled).await {
        polled.snapshot = Some(Err(failure));
    }
    polled
}

async fn fill(
    client: &Client,
    interval: Duration,
    view: View,
    polled: &mut Polled,
) -> Result<(), String> {
    let snapshot: Answer<Snapshot> = answer(client, interval, "/api/snapshot").await?;
    polled.snapshot = Some(Ok(snapshot));
    polled.diagnosis = Some(part(client, interval, "/api/diagnosis").await?);
    polled.bottleneck = Some(part(client, interval, "/api/bottleneck").await?);
    of_view(client, interval, view, polled).await
}

async fn of_view(
    client: &Client,
    interval: Duration,
    view: View,
    polled: &mut Polled,
) -> Result<(), String> {
    match view {
        View::Files => polled.files = Some(answer(client, interval, "/api/files").await?),
        View::Rules => polled.rules = Some(answer(client, interval, "/api/rules").await?),
        View::Components | View::Series | View::Memory => {}
    }
    Ok(())
}

/// Takes one snapshot.
pub async fn snapshot(client: &Client) -> Result<Answer<Snapshot>, String> {
    answer(client, ANSWER_TIMEOUT, "/api/snapshot").await
}

/// Takes one diagnosis.
pub async fn diagnosis(client: &Client) -> Result<Part<Diagnosis>, String> {
    part(client, ANSWER_TIMEOUT, "/api/diagnosis").await
}

async fn answer<T: DeserializeOwned>(
    client: &Client,
    interval: Duration,
    path: &str,
) -> Result<Answer<T>, String> {
    let body = get(client, interval, path).await?.map_err(|error| error.to_string())?;
    Answer::parse(&body)
}

/// Requests data that older agents do not provide.
async fn part<T: DeserializeOwned>(
    client: &Client,
    interval: Duration,
    path: &str,
) -> Result<Part<T>, String> {
    match get(client, interval, path).await? {
        Ok(body) => Answer::parse(&body).map(|answer| Part::Known(answer.value)),
        Err(ClientError::Refused(StatusCode::NOT_FOUND, _)) => Ok(Part::Missing),
        Err(error) => Err(error.to_string()),
    }
}

/// Sends a request. The outer error is a timeout.
async fn get(
    client: &Client,
    interval: Duration,
    path: &str,
) -> Result<Result<hyper::body::Bytes, ClientError>, String> {
    let limit = interval.max(ANSWER_TIMEOUT);
    let asked = client.request(Method::GET, path, Vec::new());
    timeout(limit, asked).await.map_err(|_| format!("{path}: no response for {limit:?}"))
}
