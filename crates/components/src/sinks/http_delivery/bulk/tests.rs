//! Runs a lane against a real server, in the role of the engine.

use super::*;
use crate::sinks::http_delivery::{
    Access, BatchOptions, EncodedPayload, EventSet, LaneLoop, RequestOptions,
};
use bytes::Bytes;
use millstream_model::{
    BackpressureReason, Counters, Delivery, Interval, Lane, Outcome, Payload, Refused, Settled,
    Size,
};
use millstream_testkit_servers::http::{HttpServer, ReceivedRequest, Reply};
use millstream_transport::Target;
use parking_lot::Mutex;

const MS: Duration = Duration::from_millis(1);

/// A packer whose events are letters. The endpoint responds to each letter with a digit: 0 for
/// delivered, 1 for later, 2 for rejected. A full stop ends the response.
struct Letters;

fn letters(text: Vec<u8>, events: EventSet) -> Request {
    assert_eq!(text.len() as u64, events.len());
    let body = vec![Bytes::from(text.clone())];
    Request { events, headers: Vec::new(), body, origin: Box::new(text) }
}

fn text_of(request: &Request) -> &Vec<u8> {
    request.origin.downcast_ref().unwrap()
}

impl Packer for Letters {
    fn pack(&mut self, payloads: Vec<EncodedPayload>) -> Vec<Request> {
        let text: Vec<u8> = payloads.iter().flat_map(|payload| payload.parts.concat()).collect();
        let events = EventSet::of(0..text.len() as u32);
        vec![letters(text, events)]
    }

    fn split(&mut self, request: Request) -> Option<Vec<Request>> {
        let half = request.events.len() / 2;
        let (first, second) = request.events.split_at(half);
        let (before, behind) = text_of(&request).split_at(half as usize);
        (half > 0).then(|| vec![letters(before.to_vec(), first), letters(behind.to_vec(), second)])
    }

    fn record(&mut self, request: &Request) -> Record {
        self.record_at(request, 0)
    }
}

impl BulkPacker for Letters {
    fn answer(request: &Request) -> Box<dyn Answer> {
        Box::new(Digits { events: request.events.len(), body: Vec::new() })
    }

    fn select(&mut self, request: &Request, positions: &[u32]) -> Request {
        let events: Vec<u32> = request.events.iter().collect();
        let mut selected = EventSet::default();
        positions.iter().for_each(|at| selected.push(events[*at as usize]));
        let text = positions.iter().map(|at| text_of(request)[*at as usize]).collect();
        letters(text, selected)
    }

    fn record_at(&mut self, request: &Request, position: u32) -> Record {
        Record { bytes: vec![text_of(request)[position as usize]].into(), is_json: false }
    }
}

struct Digits {
    events: u64,
    body: Vec<u8>,
}

impl BodyReader for Digits {
    fn read(&mut self, bytes: &[u8]) -> bool {
        self.body.extend_from_slice(bytes);
        !bytes.contains(&b'!')
    }
}

impl Answer for Digits {
    fn judge(self: Box<Self>, is_complete: bool) -> Result<Vec<Failure>, UnusableAnswer> {
        if self.body.contains(&b'!') {
            return Err(UnusableAnswer { is_too_long: true, text: "too long".to_owned() });
        }
        if !is_complete {
            return Err(UnusableAnswer::ended_early());
        }
        let digits =
            self.body.strip_suffix(b".").filter(|digits| digits.len() as u64 == self.events);
        let failure = |(position, digit): (u32, &u8)| {
            let judgement = match digit {
                b'1' => Judgement::Later,
                b'2' => Judgement::Refused,
                _ => return None,
            };
            Some(Failure { position, judgement, reason: "no".to_owned() })
        };
        let digits = digits.ok_or_else(|| "cut".to_owned())?;
        Ok((0..).zip(digits).filter_map(failure).collect())
    }
}

/// A lane, and the payloads that it has settled.
struct Rig {
    lane: LaneLoop<BulkLane<Letters>>,
    counters: Arc<Counters>,
    settled: Vec<Settled>,
    refused: Vec<Refused>,
}

impl Rig {
    fn new(uri: &str, concurrency: usize) -> Rig {
        let batch = BatchOptions { bytes: Size(4), events: 100, timeout: Interval(5 * MS) };
        Rig::with(uri, concurrency, batch, LaneCx::outside("out", 0, Arc::default()))
    }

    fn with(uri: &str, concurrency: usize, batch: BatchOptions, cx: LaneCx) -> Rig {
        let target = Arc::new(Target::parse(uri).unwrap());
        let request = RequestOptions { concurrency, ..RequestOptions::default() };
        let headers = Default::default();
        let access = Access { headers: &headers, auth: &None, tls: &None, proxy: &None };
        let settings = Settings::new(vec![target], access, batch, request);
        let counters = cx.counters.clone();
        cx.feed.attach(0, Arc::new(|| ()));
        let lane = LaneLoop::new(BulkLane::new(Arc::new(settings), Letters, cx));
        Rig { lane, counters, settled: Vec::new(), refused: Vec::new() }
    }

    /// Delivers these payloads, and waits until they are settled. Returns the errors.
    async fn deliver(&mut self, payloads: &[&str]) -> Vec<&'static str> {
        let mut errors = Vec::new();
        for text in payloads {
            let mut payload = Payload::new(text.len() as u64);
            payload.push(Bytes::from((*text).to_owned()));
            assert_eq!(self.lane.deliver(&payload).await.unwrap(), Delivery::Sent);
        }
        while self.settled.len() < payloads.len() {
            if let Err(error) = self.lane.progress().await {
                assert_eq!(error.retry_after, Some(Duration::ZERO), "the engine does not wait");
                errors.push(error.kind);
            }
            self.refused.extend(self.lane.refused());
            self.settled.extend(self.lane.settled());
        }
        errors
    }
}

/// Responds to each letter with this digit.
fn answer(seen: &ReceivedRequest, digit: impl Fn(u8) -> char) -> Reply {
    let digits: String = seen.body.iter().map(|letter| digit(*letter)).collect();
    Reply::Status(200, Vec::new(), digits + ".")
}

#[tokio::test]
async fn several_requests_are_in_flight_and_payloads_are_settled_oldest_first() {
    let (in_flight, most) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
    let seen_most = most.clone();
    let server = HttpServer::start(move |seen| {
        *in_flight.lock() += 1;
        let mut most = most.lock();
        *most = (*most).max(*in_flight.lock());
        drop(most);
        std::thread::sleep(30 * MS);
        *in_flight.lock() -= 1;
        answer(seen, |_| '0')
    });
    let mut rig = Rig::new(&server.uri("/"), 3);
    let errors = rig.deliver(&["abcd"; 40]).await;
    assert_eq!(errors, [""; 0]);
    assert_eq!(*seen_most.lock(), 3);
    assert!(rig.settled.iter().all(|settled| settled.outcome == Outcome::Delivered));
}

#[tokio::test]
async fn under_backpressure_a_batch_that_is_not_full_is_sent() {
    let server = HttpServer::start(|seen| answer(seen, |_| '0'));
    let timeout = Interval(Duration::from_secs(3600));
    let batch = BatchOptions { bytes: Size(1 << 20), events: 1000, timeout };
    let cx = LaneCx::outside("out", 0, Arc::default());
    cx.backpressure.set(BackpressureReason::Drops, true);
    let mut rig = Rig::with(&server.uri("/in"), 2, batch, cx);
    let delivered = tokio::time::timeout(Duration::from_secs(60), rig.deliver(&["ab", "c"]));
    assert_eq!(delivered.await.expect("the batch is sent"), [""; 0]);
}

#[tokio::test]
async fn each_event_is_sent_again_refused_or_delivered_alone() {
    let once = Mutex::new(true);
    let server = HttpServer::start(move |seen| {
        let is_first = std::mem::take(&mut *once.lock());
        answer(seen, |letter| match letter {
            b'l' if is_first => '1',
            b'r' => '2',
            _ => '0',
        })
    });
    let mut rig = Rig::new(&server.uri("/"), 2);
    assert_eq!(rig.deliver(&["al", "rb", "cd"]).await, ["throttled"]);
    let bodies: Vec<String> = server.requests().iter().map(ReceivedRequest::text).collect();
    assert!(bodies.contains(&"l".to_owned()), "{bodies:?}");
    let refused: Vec<_> = rig.settled.iter().map(|settled| settled.refused).collect();
    assert_eq!(refused, [0, 1, 0]);
    let refused = &rig.refused[..];
    assert_eq!(
        (refused.len(), refused[0].payload, refused[0].event, &refused[0].record[..]),
        (1, 1, 0, &b"r"[..])
    );
    let counted = rig.counters.snapshot();
    assert_eq!(counted.dropped_events, [].into());
    assert!(counted.last_error.is_some_and(|why| why.starts_with(&server.uri("/"))));
}

#[tokio::test]
async fn a_request_is_sent_again_unless_the_whole_answer_arrives() {
    let count = Mutex::new(0);
    let server = HttpServer::start(move |seen| {
        *count.lock() += 1;
        match *count.lock() {
            1 => Reply::Status(200, Vec::new(), "00".to_owned()),
            2 => Reply::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n0000.".to_vec()),
            3 => Reply::status(503),
            4 => Reply::Close,
            _ => answer(seen, |_| '0'),
        }
    });
    let mut rig = Rig::new(&server.uri("/"), 2);
    let errors = rig.deliver(&["abcd"]).await;
    // The client reopens a connection that was closed while it was being reused.
    assert_eq!(errors, ["incomplete_answer", "incomplete_answer", "server"]);
    let ids: std::collections::BTreeSet<_> =
        server.requests().iter().map(|seen| seen.header("idempotency-key").to_owned()).collect();
    assert_eq!(ids.len(), 1, "one request");
    assert!(rig.counters.snapshot().wait_seconds["retry"] > 0.05, "two pauses at least");
}

#[tokio::test]
async fn a_request_whose_answer_is_too_long_is_sent_again_after_the_long_pause() {
    let count = Mutex::new(0);
    let server = HttpServer::start(move |seen| {
        *count.lock() += 1;
        match *count.lock() {
            1 => Reply::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n00!".to_vec()),
            _ => answer(seen, |_| '0'),
        }
    });
    let mut rig = Rig::new(&server.uri("/"), 1);
    let errors = rig.deliver(&["abcd"]).await;
    assert_eq!(errors, ["answer_too_long"]);
    assert_eq!(server.requests().len(), 2);
    assert_eq!(rig.counters.snapshot().accepted_events, 4);
}

#[tokio::test]
async fn a_refused_request_is_split_down_to_the_refused_event() {
    let server = HttpServer::start(|seen| match seen.body.contains(&b'x') {
        true => Reply::Status(400, Vec::new(), "bad x".to_owned()),
        false => answer(seen, |_| '0'),
    });
    let mut rig = Rig::new(&server.uri("/"), 2);
    rig.deliver(&["abcx", "efgh"]).await;
    let refused: Vec<_> = rig.settled.iter().map(|settled| settled.refused).collect();
    assert_eq!(refused, [1, 0]);
    assert_eq!((rig.refused.len(), rig.refused[0].reason.as_str()), (1, "400: bad x"));
}
