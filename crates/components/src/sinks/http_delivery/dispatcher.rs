//! The dispatcher: sends requests to the endpoints, and tracks their health.

use super::{Answer, Request, Settings};
use millstream_model::flights::Flights;
use millstream_model::secrets::{MASK, mask_answer};
use millstream_transport::auth::Auth;
use millstream_transport::http::{BodyReader, Client, Outgoing, Response, SendError};
use millstream_transport::{Endpoints, HeaderName, HeaderValue, Pause, Rate};
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::Instant;

/// Minimum length of a string that is masked as a secret, in bytes. Masking shorter strings would
/// garble the response.
const SECRET_LEN_MIN: usize = 4;

/// Header with the address of a redirect, which messages show.
const LOCATION: HeaderName = HeaderName::from_static("location");

/// Header that lets an endpoint recognize a retried request.
const ID_HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// Sends requests and tracks the health of each endpoint.
pub struct Dispatcher {
    settings: Arc<Settings>,
    /// Idle clients by endpoint.
    clients: Vec<Vec<Client>>,
    endpoints: Endpoints,
    /// Time when each endpoint last failed.
    failed_at: Vec<Option<Instant>>,
    rate: Rate,
    /// The requests in flight. Dropping them aborts them.
    in_flight: JoinSet<(Client, Attempt)>,
    /// Measures how long requests are in flight.
    flights: Arc<Flights>,
}

/// Generates request ids that are unique across restarts.
pub struct RequestIds {
    run: u64,
    last: u64,
}

impl RequestIds {
    /// Creates a generator.
    pub fn new() -> RequestIds {
        RequestIds { run: fastrand::u64(..), last: 0 }
    }

    /// Returns the next id.
    pub fn next(&mut self) -> String {
        self.last += 1;
        format!("{:016x}-{}", self.run, self.last)
    }
}

/// The outcome of one attempt to send a request.
pub struct Attempt {
    /// The number that the caller gave the request.
    pub number: u64,
    /// Index of the endpoint.
    pub endpoint: usize,
    /// Time when the request was sent.
    pub started: Instant,
    /// The response, or the reason why none arrived.
    pub result: Result<Response, SendError>,
    /// The reader of the response, after the part of the body that arrived.
    pub answer: Option<Box<dyn Answer>>,
}

impl Dispatcher {
    /// Creates the dispatcher of a lane. Different lanes begin with different endpoints.
    pub fn new(settings: Arc<Settings>, lane: usize, flights: &Arc<Flights>) -> Dispatcher {
        let count = settings.targets.len();
        flights.register();
        Dispatcher {
            clients: (0..count).map(|_| Vec::new()).collect(),
            endpoints: Endpoints::new(count, lane),
            failed_at: vec![None; count],
            rate: Rate::new(settings.request.rate_max),
            in_flight: JoinSet::new(),
            flights: flights.clone(),
            settings,
        }
    }

    /// Returns the number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Sends a request now. `number` distinguishes its [`Attempt`] from other attempts in flight.
    /// `answer` reads the whole body of the response.
    ///
    /// # Errors
    ///
    /// Returns the time at which to retry if the rate limit is reached or no endpoint is healthy.
    pub fn send(
        &mut self,
        request: &Request,
        id: &str,
        number: u64,
        answer: impl FnOnce() -> Option<Box<dyn Answer>>,
        now: Instant,
    ) -> Result<(), Instant> {
        if let Some(until) = self.rate.wait_until(now) {
            return Err(until);
        }
        let endpoint = self.endpoints.choose(now)?;
        self.rate.take(now);
        let client = self.clients[endpoint].pop().unwrap_or_else(|| {
            Client::new(self.settings.targets[endpoint].clone(), self.settings.client.clone())
        });
        let outgoing = self.outgoing(request, id);
        let auth = self.settings.auth.clone();
        let mut answer = answer();
        let flight = self.flights.begin();
        self.in_flight.spawn(async move {
            let reader = answer.as_deref_mut().map(|answer| answer as &mut dyn BodyReader);
            let (client, result) = attempt(client, outgoing, auth, reader).await;
            drop(flight);
            (client, Attempt { number, endpoint, started: now, result, answer })
        });
        Ok(())
    }

    fn outgoing(&self, request: &Request, id: &str) -> Outgoing {
        let mut headers = self.settings.headers.clone();
        for (name, value) in &request.headers {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        if let Ok(id) = HeaderValue::from_str(id) {
            headers.insert(ID_HEADER, id);
        }
        Outgoing { method: self.settings.method.clone(), headers, body: request.body.clone() }
    }

    /// Waits until a request in flight has received its response or has failed. Waits forever if no
    /// request is in flight. Cancel safe.
    pub async fn response(&mut self) -> Attempt {
        match self.in_flight.join_next().await {
            Some(Ok((client, attempt))) => {
                self.clients[attempt.endpoint].push(client);
                attempt
            }
            Some(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
            // Nothing is in flight, or the runtime shuts down.
            _ => pending().await,
        }
    }

    /// Returns whether an endpoint has failed since this time. The outcome of a request that was
    /// sent earlier says nothing new about the endpoint.
    pub fn has_failed_since(&self, endpoint: usize, time: Instant) -> bool {
        self.failed_at[endpoint].is_some_and(|failed_at| failed_at > time)
    }

    /// Marks an endpoint as healthy, because it responded, even if it rejected the request.
    pub fn mark_healthy(&mut self, endpoint: usize) {
        self.endpoints.mark_healthy(endpoint);
    }

    /// Allows failed endpoints to be retried immediately, except endpoints that requested a pause.
    pub fn end_pauses(&mut self) {
        self.endpoints.end_pauses();
    }

    /// Marks an endpoint as failed for the length of `pause`. Returns the time until any endpoint
    /// may be tried: zero if another endpoint is healthy.
    pub fn mark_failed(&mut self, endpoint: usize, pause: Pause, now: Instant) -> Duration {
        self.failed_at[endpoint] = Some(now);
        self.endpoints.mark_failed(endpoint, pause, fastrand::u32(..), now);
        self.endpoints.next_at(now).saturating_duration_since(now)
    }
}

/// Makes one attempt. Reads the secret each time, because it may have been rotated.
async fn attempt(
    mut client: Client,
    mut outgoing: Outgoing,
    auth: Option<Arc<Auth>>,
    reader: Option<&mut dyn BodyReader>,
) -> (Client, Result<Response, SendError>) {
    let mut secrets = Vec::new();
    if let Some(auth) = auth {
        let header = spawn_blocking(move || Ok((auth_header(&auth)?, secret(&auth)))).await;
        match header.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(((name, value), secret)) => {
                outgoing.headers.insert(name, value);
                secrets.extend(secret);
            }
            Err(message) => return (client, Err(SendError { kind: "authentication", message })),
        }
    }
    let mut result = client.send_and_read(&outgoing, reader).await;
    if let Ok(response) = &mut result
        && response.status >= 300
    {
        let sensitive = outgoing.headers.values().filter(|value| value.is_sensitive());
        let texts =
            sensitive.filter_map(|value| value.to_str().ok()).flat_map(str::split_whitespace);
        let is_scheme = |text: &&str| matches!(*text, "Basic" | "Bearer" | "ApiKey");
        secrets.extend(texts.filter(|text| !is_scheme(text)).map(str::to_owned));
        response.body = masked(&response.body, &secrets).into();
        if let Some(location) = response.headers.get_mut(LOCATION) {
            let text = masked(location.as_bytes(), &secrets);
            *location = HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(MASK));
        }
    }
    (client, result)
}

/// Masks the secrets of the request, and the known secrets of the process, in a part of a response
/// that is shown in the log and in `/ready`.
fn masked(part: &[u8], secrets: &[String]) -> String {
    let mut text = mask_answer(&String::from_utf8_lossy(part)).into_owned();
    for secret in secrets.iter().filter(|secret| secret.len() >= SECRET_LEN_MIN) {
        text = text.replace(secret.as_str(), MASK);
    }
    text
}

fn secret(auth: &Auth) -> Option<String> {
    auth.secret().ok().map(|text| text.to_string())
}

fn auth_header(auth: &Auth) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = auth.header().map_err(|error| error.to_string())?;
    let name = HeaderName::try_from(name).map_err(|error| error.to_string())?;
    let mut value = HeaderValue::from_str(&value).map_err(|error| error.to_string())?;
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_that_quote_a_secret_are_masked() {
        let secrets = ["hunter22".to_owned(), "aHVudGVyMjI=".to_owned(), "e".to_owned()];
        let body = masked(b"no such user: Basic aHVudGVyMjI= (hunter22)", &secrets);
        assert_eq!(body, "no such user: Basic REDACTED (REDACTED)");
    }
}
