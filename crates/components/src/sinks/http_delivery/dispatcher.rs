//! The dispatcher: sends one request at a time to one of the endpoints.

use super::{Request, Settings};
use bytes::Bytes;
use millstream_transport::auth::Auth;
use millstream_transport::http::{Client, Outgoing, Response, SendError};
use millstream_transport::{Endpoints, HeaderName, HeaderValue, Pause, Rate};
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;

/// Shortest text that is masked as a secret. Bytes. Masking shorter ones would garble the response.
const SECRET_LEN_MIN: usize = 4;

/// Header by which an endpoint recognizes a retried request.
const ID_HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// Sends requests and tracks the health of each endpoint.
pub struct Dispatcher {
    settings: Arc<Settings>,
    /// Clients by endpoint; `None` while its request is in flight.
    clients: Vec<Option<Client>>,
    endpoints: Endpoints,
    rate: Rate,
    in_flight: Option<InFlight>,
}

/// A request in flight; dropping it aborts the request.
struct InFlight {
    endpoint: usize,
    task: JoinHandle<(Client, Result<Response, SendError>)>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The outcome of one attempt to send a request.
pub struct Attempt {
    /// Index of the endpoint.
    pub endpoint: usize,
    /// The response, or why none arrived.
    pub result: Result<Response, SendError>,
}

impl Dispatcher {
    /// Creates the dispatcher of a lane; lanes start with different endpoints.
    pub fn new(settings: Arc<Settings>, lane: usize) -> Dispatcher {
        let count = settings.targets.len();
        Dispatcher {
            clients: (0..count).map(|_| None).collect(),
            endpoints: Endpoints::new(count, lane),
            rate: Rate::new(settings.request.rate_max),
            in_flight: None,
            settings,
        }
    }

    /// Returns whether a request is in flight.
    pub fn has_request_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Sends a request now.
    ///
    /// # Errors
    ///
    /// When to retry, if the rate limit is reached or no endpoint is healthy.
    pub fn send(&mut self, request: &Request, id: &str, now: Instant) -> Result<(), Instant> {
        if let Some(until) = self.rate.wait_until(now) {
            return Err(until);
        }
        let endpoint = self.endpoints.choose(now)?;
        self.rate.take(now);
        let client = self.clients[endpoint].take().unwrap_or_else(|| {
            Client::new(self.settings.targets[endpoint].clone(), self.settings.client.clone())
        });
        let outgoing = self.outgoing(request, id);
        let auth = self.settings.auth.clone();
        let task = tokio::spawn(attempt(client, outgoing, auth));
        self.in_flight = Some(InFlight { endpoint, task });
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

    /// Waits for the response to the request in flight, or its failure; waits forever if none is in
    /// flight. Cancel safe.
    pub async fn response(&mut self) -> Attempt {
        let Some(in_flight) = &mut self.in_flight else { return pending().await };
        let done = (&mut in_flight.task).await;
        let endpoint = in_flight.endpoint;
        self.in_flight = None;
        match done {
            Ok((client, result)) => {
                self.clients[endpoint] = Some(client);
                Attempt { endpoint, result }
            }
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // The runtime shuts down.
            Err(_) => pending().await,
        }
    }

    /// Marks an endpoint as healthy: it responded, even if it refused the request.
    pub fn mark_healthy(&mut self, endpoint: usize) {
        self.endpoints.mark_healthy(endpoint);
    }

    /// Marks an endpoint as failed for the length of `pause`. Returns the time until any endpoint
    /// may be tried: zero if another one is healthy.
    pub fn mark_failed(&mut self, endpoint: usize, pause: Pause, now: Instant) -> Duration {
        self.endpoints.mark_failed(endpoint, pause, fastrand::u32(..), now);
        self.endpoints.next_at(now).saturating_duration_since(now)
    }
}

/// Makes one attempt. Reads the secret each time, since it may have been rotated.
async fn attempt(
    mut client: Client,
    mut outgoing: Outgoing,
    auth: Option<Arc<Auth>>,
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
    let mut result = client.send(&outgoing).await;
    if let Ok(response) = &mut result
        && response.status >= 300
    {
        let sensitive = outgoing.headers.values().filter(|value| value.is_sensitive());
        let texts =
            sensitive.filter_map(|value| value.to_str().ok()).flat_map(str::split_whitespace);
        secrets
            .extend(texts.filter(|text| *text != "Basic" && *text != "Bearer").map(str::to_owned));
        response.body = masked(&response.body, &secrets);
    }
    (client, result)
}

/// Masks the secrets of the request in a response body, which is shown in the log and in `/ready`.
fn masked(body: &[u8], secrets: &[String]) -> Bytes {
    let mut text = String::from_utf8_lossy(body).into_owned();
    for secret in secrets.iter().filter(|secret| secret.len() >= SECRET_LEN_MIN) {
        text = text.replace(secret.as_str(), "…");
    }
    text.into()
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
        assert_eq!(body, "no such user: Basic … (…)");
    }
}
