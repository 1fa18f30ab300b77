//! An HTTP endpoint that stores requests and detects repeats.

use millstream_testkit_servers::http::{HttpOptions, HttpServer, ReceivedRequest, Reply};
use millstream_testkit_servers::unpack::unpack;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The reaction to a request.
pub enum Act {
    /// Store it and respond with success.
    Keep,
    /// Store it, but give this response.
    KeepThen(Reply),
    /// Give this response.
    Instead(Reply),
}

/// A stored request.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The agent's idempotency key.
    pub id: String,
    /// The decompressed body.
    pub body: Vec<u8>,
    /// How often it was stored.
    pub times: usize,
    /// Whether the agent received a success, and whether it repeated the request nevertheless.
    told: bool,
    again: bool,
}

/// The endpoint.
pub struct Endpoint {
    /// The server.
    pub server: HttpServer,
    kept: Arc<Mutex<Vec<Kept>>>,
}

impl Endpoint {
    /// Starts an endpoint that reacts to each request as `act` says, given the request and its
    /// number from 0.
    pub fn start(act: impl Fn(&ReceivedRequest, usize) -> Act + Send + Sync + 'static) -> Endpoint {
        Endpoint::with(HttpOptions::default(), act)
    }

    /// Starts it with options.
    pub fn with(
        options: HttpOptions,
        act: impl Fn(&ReceivedRequest, usize) -> Act + Send + Sync + 'static,
    ) -> Endpoint {
        Endpoint::before(options, act, |_| Reply::status(200))
    }

    /// Starts it in front of another endpoint, which decides what is stored.
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

    /// The stored requests, ordered by their first arrival.
    pub fn kept(&self) -> Vec<Kept> {
        self.kept.lock().unwrap().clone()
    }

    /// The bodies of all stored requests, concatenated without repeats.
    pub fn bytes(&self) -> Vec<u8> {
        self.kept().into_iter().flat_map(|kept| kept.body).collect()
    }

    /// The same as a string.
    pub fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }

    /// Asserts that the agent repeated requests only if it could not know that they were accepted.
    /// Holds for an endpoint behind a reliable network.
    pub fn assert_no_needless_repeats(&self) {
        for kept in self.kept() {
            assert!(!kept.again, "{} was acknowledged, and came again", kept.id);
        }
    }

    /// Number of ids that were stored more than once.
    pub fn repeats(&self) -> usize {
        self.kept().iter().filter(|kept| kept.times > 1).count()
    }
}

/// Stores a request; a repeat must have the same bytes.
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
