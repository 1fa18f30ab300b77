//! An endpoint over HTTP that keeps what it takes, and knows what comes again.

use millstream_testkit_servers::http::{HttpOptions, HttpServer, Reply, Seen};
use millstream_testkit_servers::unpack::unpack;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What to do with a request.
pub enum Act {
    /// Keep it and say so.
    Keep,
    /// Keep it, and answer this.
    KeepThen(Reply),
    /// Answer this.
    Instead(Reply),
}

/// A request that was kept.
#[derive(Clone, Debug)]
pub struct Kept {
    /// What the agent calls it.
    pub id: String,
    /// The body, unpacked.
    pub body: Vec<u8>,
    /// How often it was kept.
    pub times: usize,
    /// Whether the agent was told, and whether it came again all the same.
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
    /// Does with each request what `act` says of it and of its number, which begins with 0.
    pub fn start(act: impl Fn(&Seen, usize) -> Act + Send + Sync + 'static) -> Endpoint {
        Endpoint::with(HttpOptions::default(), act)
    }

    /// The same with options.
    pub fn with(
        options: HttpOptions,
        act: impl Fn(&Seen, usize) -> Act + Send + Sync + 'static,
    ) -> Endpoint {
        Endpoint::before(options, act, |_| Reply::status(200))
    }

    /// The same in front of another one, which has the last word on what is kept.
    pub fn before(
        options: HttpOptions,
        act: impl Fn(&Seen, usize) -> Act + Send + Sync + 'static,
        take: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
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

    /// What was kept, in the order in which it was kept first.
    pub fn kept(&self) -> Vec<Kept> {
        self.kept.lock().unwrap().clone()
    }

    /// The bodies of all that was kept, one behind the other, repeats left out.
    pub fn bytes(&self) -> Vec<u8> {
        self.kept().into_iter().flat_map(|kept| kept.body).collect()
    }

    /// The same as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }

    /// Repeats came only where the agent could not know that a request was taken: for an endpoint
    /// that it reaches over a good network.
    pub fn assert_no_needless_repeats(&self) {
        for kept in self.kept() {
            assert!(!kept.again, "{} was acknowledged, and came again", kept.id);
        }
    }

    /// Ids that were kept more than once.
    pub fn repeats(&self) -> usize {
        self.kept().iter().filter(|kept| kept.times > 1).count()
    }
}

/// Keeps a request; a repeat brings the same bytes.
fn keep(all: &mut Vec<Kept>, seen: &Seen, told: bool) {
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
