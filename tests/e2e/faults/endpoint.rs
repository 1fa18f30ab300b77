//! An HTTP endpoint that stores requests and detects repeats.

use millstream_testkit_servers::http::{HttpOptions, HttpServer, ReceivedRequest, Reply};
use millstream_testkit_servers::unpack::unpack;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Reaction of the endpoint to a request.
pub enum Act {
    /// Stores the request and responds with success.
    Keep,
    /// Stores the request, but sends this response.
    KeepThen(Reply),
    /// Sends this response without storing the request.
    Instead(Reply),
}

/// A stored request.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The agent's idempotency key.
    pub id: String,
    /// The decompressed body.
    pub body: Vec<u8>,
    /// Number of times that the request was stored.
    pub times: usize,
    /// Whether the agent received a success, and whether it repeated the request nevertheless.
    told: bool,
    again: bool,
}

/// An endpoint with its stored requests.
pub struct Endpoint {
    /// The server.
    pub server: HttpServer,
    kept: Arc<Mutex<Vec<Kept>>>,
}

impl Endpoint {
    /// Starts an endpoint. `act` returns the reaction to a request, given the request and its index
    /// from 0.
    pub fn start(act: impl Fn(&ReceivedRequest, usize) -> Act + Send + Sync + 'static) -> Endpoint {
        Endpoint::with(HttpOptions::default(), act)
    }

    /// Starts an endpoint with options.
    pub fn with(
        options: HttpOptions,
        act: impl Fn(&ReceivedRequest, usize) -> Act + Send + Sync + 'static,
    ) -> Endpoint {
        Endpoint::before(options, act, |_| Reply::status(200))
    }

    /// Starts an endpoint in front of another endpoint. A request counts as stored only if the
    /// other endpoint accepts it.
    pub fn before(
        options: HttpOptions,
        act: impl Fn(&ReceivedRequest, usize) -> Act + Send + Sync + 'static,
        take: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
    ) -> Endpoint {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (all, requests) = (kept.clone(), AtomicUsize::new(0));
        let server = HttpServer::with(options, move |seen| {
            match act(seen, requests.fetch_add(1, Ordering::Relaxed)) {
                Act::Instead(reply) => reply,
                Act::Keep => {
                    let reply = take(seen);
                    if matches!(reply, Reply::Status(200..=299, ..)) {
                        keep(&mut all.lock().unwrap(), seen, true);
                    }
                    reply
                }
                Act::KeepThen(reply) => {
                    let answer = take(seen);
                    if !matches!(answer, Reply::Status(200..=299, ..)) {
                        return answer;
                    }
                    keep(
                        &mut all.lock().unwrap(),
                        seen,
                        matches!(reply, Reply::Status(200..=299, ..)),
                    );
                    reply
                }
            }
        });
        Endpoint { server, kept }
    }

    /// Returns the stored requests, ordered by their first arrival.
    pub fn kept(&self) -> Vec<Kept> {
        self.kept.lock().unwrap().clone()
    }

    /// Returns the bodies of all stored requests, concatenated without repeats.
    pub fn bytes(&self) -> Vec<u8> {
        self.kept().into_iter().flat_map(|kept| kept.body).collect()
    }

    /// Returns the concatenated bodies as a string.
    pub fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }

    /// Asserts that the agent repeated only requests for which it had received no success. This
    /// holds only for an endpoint behind a reliable network.
    pub fn assert_no_needless_repeats(&self) {
        for kept in self.kept() {
            assert!(!kept.again, "{} was acknowledged, and came again", kept.id);
        }
    }

    /// Returns the number of ids that were stored more than once.
    pub fn repeats(&self) -> usize {
        self.kept().iter().filter(|kept| kept.times > 1).count()
    }
}

/// Stores a request and asserts that a repeat has the same bytes.
fn keep(all: &mut Vec<Kept>, seen: &ReceivedRequest, told: bool) {
    let body =
        unpack(seen.header("content-encoding"), &seen.body).expect("a body that can be read");
    let id = seen.header("idempotency-key").to_owned();
    assert!(!id.is_empty(), "a request without an id");
    match all.iter_mut().find(|kept| kept.id == id) {
        None => all.push(Kept { id, body, times: 1, told, again: false }),
        Some(kept) => {
            assert_eq!(kept.body, body, "one id for two bodies");
            (kept.times, kept.again, kept.told) = (kept.times + 1, kept.told, told);
        }
    }
}
