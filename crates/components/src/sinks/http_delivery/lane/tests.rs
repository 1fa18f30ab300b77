//! Runs a lane against a real server, in the role of the engine.

use super::*;
use crate::sinks::http_delivery::{Access, BatchOptions, Capacity, Hold, LaneLoop, RequestOptions};
use crate::sinks::http_delivery::{EncodedPayload, PayloadMetadata};
use bytes::Bytes;
use millstream_model::{
    Backpressure, BackpressureReason, Counters, Delivery, EngineTime, Feed, Interval, Lane, Now,
    Outcome, Payload, Refused, Routing, Settled, Size,
};
use millstream_testkit_servers::http::{HttpServer, ReceivedRequest, Reply};
use millstream_transport::Target;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// A packer that joins the payloads' strings into a body and splits a body between its letters.
#[derive(Default)]
struct Letters {
    packed: Arc<AtomicUsize>,
    unsupported_format: bool,
    /// Whether to reject the events of a request instead of splitting it.
    no_memory: bool,
    /// Maximum number of letters in a request that is split. Larger requests are rejected as a
    /// whole.
    split_max: Option<u64>,
    /// Requests that the endpoint rejected.
    refusals: Arc<Mutex<Vec<(String, Refusal)>>>,
    /// Whether the packer returns rejected events.
    reads_refused: bool,
    refused: Vec<RefusedEvent>,
    headers_seen: Arc<Mutex<Vec<String>>>,
}

/// Marks a payload that the packer can cut.
struct Cuttable;

impl Routing for Cuttable {
    fn write(&self, _: &mut Vec<u8>) {}
}

fn letters(text: Vec<u8>, events: EventSet) -> Request {
    assert_eq!(text.len() as u64, events.len());
    Request {
        events,
        headers: Vec::new(),
        body: vec![Bytes::from(text.clone())],
        origin: Box::new(text),
    }
}

impl Letters {
    fn refuse(&mut self, event: u32, letter: u8) {
        let record = Record { bytes: vec![letter].into(), is_json: false };
        self.refused.push(RefusedEvent { event, reason: "unpacked".into(), record });
    }
}

impl Packer for Letters {
    fn pack(&mut self, payloads: Vec<EncodedPayload>) -> Vec<Request> {
        self.packed.fetch_add(1, Ordering::Relaxed);
        let text: Vec<u8> = payloads.iter().flat_map(|payload| payload.parts.concat()).collect();
        assert!(!text.contains(&b'!'), "the packer panics");
        // Reject all characters except letters.
        let (mut kept, mut events) = (Vec::new(), EventSet::default());
        for (event, letter) in (0..).zip(text) {
            if letter.is_ascii_alphabetic() {
                kept.push(letter);
                events.push(event);
            } else if self.reads_refused {
                self.refuse(event, letter);
            }
        }
        vec![letters(kept, events)]
    }

    fn cut(
        payload: &EncodedPayload,
        capacity: Capacity,
    ) -> Option<(EncodedPayload, EncodedPayload)> {
        let letters = capacity.events.min(payload.events - 1);
        if payload.routing.is_none() || letters == 0 {
            return None;
        }
        let text = payload.parts.concat();
        let (first, rest) = text.split_at(letters as usize);
        let piece = |text: &[u8], continues| EncodedPayload {
            parts: vec![Bytes::from(text.to_vec())],
            events: text.len() as u64,
            bytes: text.len() as u64,
            continues,
            ..payload.clone()
        };
        Some((piece(first, true), piece(rest, payload.continues)))
    }

    fn on_refusal(&mut self, request: &Request, refusal: &Refusal) -> bool {
        let text = request.origin.downcast_ref::<Vec<u8>>().unwrap().clone();
        let letters = String::from_utf8(text.clone()).unwrap();
        self.refusals.lock().push((letters, refusal.clone()));
        let may_split = self.split_max.is_none_or(|max| request.events.len() <= max);
        if !may_split && self.reads_refused {
            let all = request.events.iter().zip(text);
            all.for_each(|(event, letter)| self.refuse(event, letter));
        }
        may_split
    }

    fn split(&mut self, request: Request) -> Option<Vec<Request>> {
        let mut first = *request.origin.downcast::<Vec<u8>>().unwrap();
        if self.no_memory {
            let refused = if self.reads_refused { first } else { Vec::new() };
            let all = request.events.iter().zip(refused);
            all.for_each(|(event, letter)| self.refuse(event, letter));
            return Some(Vec::new());
        }
        let second = first.split_off(first.len() / 2);
        let (of_first, of_second) = request.events.split_at(first.len() as u64);
        (!first.is_empty()).then(|| vec![letters(first, of_first), letters(second, of_second)])
    }

    fn record(&mut self, request: &Request) -> Record {
        assert!(self.reads_refused, "nobody reads it");
        let letter = request.origin.downcast_ref::<Vec<u8>>().unwrap().clone();
        Record { bytes: letter.into(), is_json: false }
    }

    fn take_refused(&mut self) -> Vec<RefusedEvent> {
        std::mem::take(&mut self.refused)
    }

    fn is_duplicate(body: &[u8]) -> bool {
        body == b"known"
    }

    fn convert(&mut self, request: &Request) -> Option<Request> {
        let body = vec![Bytes::from(request.body.concat().to_ascii_uppercase())];
        let events = request.events.clone();
        let converted = Request { body, headers: Vec::new(), events, origin: Box::new(()) };
        self.unsupported_format.then_some(converted)
    }

    fn on_success(&mut self, header: &dyn Fn(&str) -> Option<String>) {
        self.headers_seen.lock().extend(header("x-written"));
    }
}

/// A lane, and the state that the engine would keep for the lane.
struct Rig {
    lane: LaneLoop<RequestLane<Letters>>,
    counters: Arc<Counters>,
    feed: Arc<Feed>,
    backpressure: Arc<Backpressure>,
    settled: Vec<Settled>,
    /// Rejected events, each with the number of payloads that were settled before it.
    refusals: Vec<(usize, Refused)>,
    errors: Vec<DeliverError>,
}

struct Options {
    batch: BatchOptions,
    request: RequestOptions,
    packer: Letters,
}

impl Default for Options {
    fn default() -> Options {
        // On a busy machine, the timeout does not elapse between the payloads of a batch.
        let timeout = Interval(200 * MS);
        let batch = BatchOptions { bytes: Size(8), events: 8, timeout };
        Options { batch, request: RequestOptions::default(), packer: Letters::default() }
    }
}

impl Rig {
    fn with(uris: &[String], options: Options) -> Rig {
        let targets = uris.iter().map(|uri| Arc::new(Target::parse(uri).unwrap())).collect();
        let Options { batch, request, .. } = options;
        let headers = BTreeMap::new();
        let access = Access { headers: &headers, auth: &None, tls: &None, proxy: &None };
        let mut settings = Settings::new(targets, access, batch, request);
        settings.slow_retry = 40 * MS;
        let counters = Arc::new(Counters::default());
        let (keep, feed) = (Arc::new(|_| Ok(())), Feed::of_refused());
        if options.packer.reads_refused {
            feed.attach(0, Arc::new(|| ()));
        }
        let cx = LaneCx { keep, feed: feed.clone(), ..LaneCx::outside("out", 0, counters.clone()) };
        let backpressure = cx.backpressure.clone();
        let lane = LaneLoop::new(RequestLane::new(Arc::new(settings), options.packer, cx));
        let (settled, refusals, errors) = (Vec::new(), Vec::new(), Vec::new());
        Rig { lane, counters, feed, backpressure, settled, refusals, errors }
    }

    /// Creates a lane whose rejected events a component reads.
    fn with_reader(server: &HttpServer, packer: Letters) -> Rig {
        let packer = Letters { reads_refused: true, ..packer };
        Rig::with(&[server.uri("/in")], Options { packer, ..Options::default() })
    }

    fn to(server: &HttpServer) -> Rig {
        Rig::with(&[server.uri("/in")], Options::default())
    }

    async fn deliver(&mut self, text: &str) {
        self.deliver_at(text, None).await;
    }

    async fn deliver_at(&mut self, text: &str, hold: Option<Hold>) {
        self.deliver_with(text, PayloadMetadata { hold, routing: None }).await;
    }

    /// Delivers a payload that the packer can cut.
    async fn deliver_cuttable(&mut self, text: &str) {
        self.deliver_with(text, PayloadMetadata { hold: None, routing: Some(Arc::new(Cuttable)) })
            .await;
    }

    async fn deliver_with(&mut self, text: &str, metadata: PayloadMetadata) {
        let mut payload = Payload::new(text.len() as u64);
        payload.push(Bytes::from(text.to_owned()));
        payload.routing = Some(Arc::new(metadata));
        assert_eq!(self.lane.deliver(&payload).await.unwrap(), Delivery::Sent);
    }

    /// Drives the lane until this many payloads are settled.
    async fn settle(&mut self, count: usize) {
        let end = Instant::now() + Duration::from_secs(60);
        while self.settled.len() < count {
            assert!(Instant::now() < end, "settled {:?}, errors {:?}", self.settled, self.errors);
            self.progress().await;
        }
    }

    /// Drives the lane for a few milliseconds.
    async fn progress(&mut self) {
        // The engine drops the future on any other event, and restarts it.
        let progress = tokio::time::timeout(3 * MS, self.lane.progress()).await;
        let settled = self.settled.len();
        self.refusals.extend(self.lane.refused().into_iter().map(|refused| (settled, refused)));
        self.settled.extend(self.lane.settled());
        if let Ok(Err(error)) = progress {
            tokio::time::sleep(error.retry_after.unwrap()).await;
            self.errors.push(error);
        }
    }

    /// Delivers the strings and waits until they are settled.
    async fn bring(&mut self, texts: &[&str]) {
        for text in texts {
            self.deliver(text).await;
        }
        self.settle(texts.len()).await;
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.errors.iter().map(|error| error.kind).collect()
    }

    fn refused(&self) -> u64 {
        self.settled.iter().map(|settled| settled.refused).sum()
    }

    /// Returns the payload, index, record and reason of the rejected events. All of them were
    /// reported before their payloads were settled.
    fn refusals(&self) -> Vec<(u64, u32, String, &str)> {
        let describe = |(settled, refused): &'_ (usize, Refused)| {
            assert!(refused.payload >= *settled as u64, "{refused:?} after {settled} payloads");
            let record = String::from_utf8(refused.record.to_vec()).unwrap();
            (refused.payload, refused.event, record)
        };
        let reasons = self.refusals.iter().map(|(_, refused)| &*refused.reason);
        let all = self.refusals.iter().map(describe).zip(reasons);
        all.map(|((payload, event, record), reason)| (payload, event, record, reason)).collect()
    }

    fn dropped(&self) -> BTreeMap<String, u64> {
        let dropped = self.counters.snapshot().dropped_events;
        dropped.into_iter().map(|(reason, events)| (reason.to_owned(), events)).collect()
    }
}

fn bodies(seen: &[ReceivedRequest]) -> Vec<String> {
    seen.iter().map(ReceivedRequest::text).collect()
}

/// Serves these responses in order, then 204.
fn script(replies: Vec<Reply>) -> HttpServer {
    let replies = Mutex::new(replies.into_iter());
    HttpServer::start(move |_| replies.lock().next().unwrap_or_else(|| Reply::status(204)))
}

#[tokio::test]
async fn batches_end_by_size_by_timeout_and_by_flush() {
    let server = script(Vec::new());
    let long =
        BatchOptions { timeout: Interval(Duration::from_secs(3600)), ..Options::default().batch };
    let mut rig = Rig::with(&[server.uri("/in")], Options { batch: long, ..Options::default() });
    for text in ["abc", "def", "ghi", "j"] {
        rig.deliver(text).await;
    }
    rig.settle(2).await;
    assert_eq!(bodies(&server.requests()), ["abcdef"]);
    rig.lane.flush();
    rig.settle(4).await;
    assert_eq!(bodies(&server.requests()), ["abcdef", "ghij"]);
    assert!(rig.settled.iter().all(|s| *s == Settled { outcome: Outcome::Delivered, refused: 0 }));
    let mut by_time = Rig::to(&server);
    by_time.bring(&["k", "l"]).await;
    assert_eq!(bodies(&server.requests())[2..], ["kl"]);
}

#[tokio::test]
async fn under_backpressure_a_lane_sends_what_it_has_once_nothing_is_in_flight() {
    let is_open = Arc::new(AtomicBool::new(true));
    let begun = Arc::new(AtomicUsize::new(0));
    let (gate, count) = (is_open.clone(), begun.clone());
    let server = HttpServer::start(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        while !gate.load(Ordering::Relaxed) {
            std::thread::sleep(MS);
        }
        Reply::status(204)
    });
    let timeout = Interval(Duration::from_secs(3600));
    let batch = BatchOptions { bytes: Size(1 << 20), events: 1000, timeout };
    let mut rig = Rig::with(&[server.uri("/in")], Options { batch, ..Options::default() });
    rig.deliver("a").await;
    rig.backpressure.set(BackpressureReason::Source, true);
    rig.settle(1).await;
    is_open.store(false, Ordering::Relaxed);
    rig.deliver("b").await;
    let end = Instant::now() + Duration::from_secs(60);
    while begun.load(Ordering::Relaxed) < 2 {
        assert!(Instant::now() < end, "the second request does not begin");
        rig.progress().await;
    }
    rig.deliver("c").await;
    for _ in 0..30 {
        rig.progress().await;
    }
    rig.deliver("d").await;
    is_open.store(true, Ordering::Relaxed);
    rig.settle(4).await;
    assert_eq!(bodies(&server.requests()), ["a", "b", "cd"]);
}

#[tokio::test]
async fn requests_fill_up_to_the_limit_and_a_split_payload_is_settled_once() {
    let server =
        HttpServer::start(|seen| Reply::status(if seen.text().contains('X') { 400 } else { 204 }));
    let mut rig = Rig::to(&server);
    for text in ["abcde", "fghijklmnopqrstXuv", "Xwxyz"] {
        rig.deliver_cuttable(text).await;
    }
    rig.settle(3).await;
    let whole: Vec<String> =
        bodies(&server.requests()).into_iter().filter(|body| body.len() > 4).collect();
    assert_eq!(
        whole,
        ["abcdefgh", "ijklmnop", "qrstXuvX"],
        "halves of the third have four letters or less"
    );
    let delivered = |refused| Settled { outcome: Outcome::Delivered, refused };
    let refused = |refused| Settled { outcome: Outcome::Rejected, refused };
    assert_eq!(rig.settled[0], delivered(0));
    assert_eq!(rig.settled[1..], [refused(1), refused(1)]);
    assert!(rig.refusals.is_empty(), "nobody reads them");
    let counted = rig.counters.snapshot().dropped_events;
    assert_eq!(counted.get("refused"), Some(&2));
}

#[tokio::test]
async fn a_lane_with_a_full_batch_is_full_until_the_packer_takes_it() {
    let server = script(vec![Reply::Hang]);
    let mut rig = Rig::to(&server);
    rig.deliver("abcdefgh").await;
    rig.deliver("ABCDEFGH").await;
    assert!(rig.lane.is_full());
    rig.lane.progress().await.unwrap();
    assert!(!rig.lane.is_full() && rig.lane.settled().is_empty());
    rig.deliver("next").await;
    assert!(!rig.lane.is_full());
}

#[tokio::test]
async fn transient_failures_are_retried_with_the_same_id_and_in_order() {
    let after = |seconds: &str| {
        Reply::Status(429, vec![("Retry-After", seconds.to_owned())], String::new())
    };
    let server = script(vec![
        Reply::Close,
        Reply::status(503),
        Reply::Close,
        after("0"),
        Reply::Raw(b"HTTP/1.1 50".to_vec()),
        Reply::Hang,
        Reply::status(204),
        Reply::status(500),
    ]);
    // The timeout is short, but on a busy machine it only affects the response that never arrives.
    let request = RequestOptions { timeout: Interval(3000 * MS), ..Options::default().request };
    let mut rig = Rig::with(&[server.uri("/in")], Options { request, ..Options::default() });
    rig.bring(&["abcdefgh", "ijklmnop"]).await;
    let seen = server.requests();
    let mut distinct = bodies(&seen);
    distinct.dedup();
    assert_eq!(distinct, ["abcdefgh", "ijklmnop"]);
    let mut ids: Vec<&str> = seen.iter().map(|seen| seen.header("idempotency-key")).collect();
    ids.dedup();
    assert_eq!(ids.len(), 2, "{ids:?}");
    // A kept-alive connection that breaks is replaced immediately, without an error.
    assert_eq!(rig.kinds(), ["broken", "server", "throttled", "timeout", "server"]);
    assert_eq!(rig.refused(), 0);
}

#[tokio::test]
async fn retry_after_is_honored() {
    let busy = Reply::Status(503, vec![("Retry-After", "1".to_owned())], String::new());
    let server = script(vec![busy]);
    let mut rig = Rig::to(&server);
    rig.bring(&["a"]).await;
    let wait = rig.errors[0].retry_after.unwrap();
    assert!(wait > 900 * MS && wait <= 1334 * MS, "{wait:?}");
    let seen = server.requests();
    assert!(seen[1].at - seen[0].at >= 900 * MS);
}

#[tokio::test]
async fn misconfiguration_is_retried_slowly_and_nothing_is_dropped() {
    let redirect =
        Reply::Status(307, vec![("Location", "http://x:y@new/in?k=1".to_owned())], String::new());
    let refusals = [401, 403, 404, 407, 405, 415].map(Reply::status);
    let server = script(refusals.into_iter().chain([redirect]).collect());
    let mut rig = Rig::to(&server);
    rig.bring(&["abc"]).await;
    let kinds = [
        "authentication",
        "authorization",
        "not_found",
        "authentication",
        "status",
        "refused",
        "redirect",
    ];
    assert_eq!(rig.kinds(), kinds);
    assert!(rig.errors.iter().all(|error| error.retry_after.unwrap() > 15 * MS));
    let text = rig.errors[6].to_string();
    assert!(text.starts_with(&server.uri("/in")) && text.contains("http://new/in,"), "{text}");
    assert_eq!((rig.refused(), bodies(&server.requests()).len()), (0, 8));
}

#[tokio::test]
async fn a_refused_request_is_split_and_only_invalid_events_are_dropped() {
    let server = HttpServer::start(|seen| {
        let bad = seen.body.iter().filter(|byte| byte.is_ascii_uppercase()).count();
        Reply::status(if bad > 0 { 400 } else { 204 })
    });
    let mut rig = Rig::to(&server);
    rig.bring(&["aBc", "dEfg", "h"]).await;
    let accepted: String = server
        .requests()
        .iter()
        .map(ReceivedRequest::text)
        .filter(|t| !t.contains(['B', 'E']))
        .collect();
    assert_eq!(accepted, "acdfgh");
    assert_eq!(rig.refused(), 2);
    let snapshot = rig.counters.snapshot();
    assert_eq!(snapshot.dropped_events.get("refused"), Some(&2));
    let why = snapshot.last_error.unwrap();
    assert!(why.starts_with(&server.uri("/")) && why.contains("responded 400"), "{why}");
    assert_eq!(rig.settled.iter().map(|s| s.refused).collect::<Vec<_>>(), [1, 1, 0]);
    let ids = server
        .requests()
        .iter()
        .map(|seen| seen.header("idempotency-key").to_owned())
        .collect::<Vec<_>>();
    let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "parts are separate requests");
}

#[tokio::test]
async fn events_of_an_attempt_with_a_lost_response_are_not_dropped_if_the_endpoint_has_them() {
    let count = AtomicUsize::new(0);
    let server = HttpServer::start(move |seen| match seen.text() {
        _ if count.fetch_add(1, Ordering::Relaxed) == 0 => Reply::Close,
        text if text.contains('k') => Reply::Status(400, Vec::new(), "known".into()),
        text if text.contains('x') => Reply::Status(400, Vec::new(), "bad".into()),
        _ => Reply::status(204),
    });
    let mut rig = Rig::to(&server);
    rig.bring(&["akxb"]).await;
    assert_eq!(rig.refused(), 1, "x alone");
    // A request sent only once cannot be a duplicate.
    rig.deliver("kc").await;
    rig.settle(2).await;
    assert_eq!(rig.refused(), 2);
}

#[tokio::test]
async fn events_that_the_packer_drops_are_not_settled_as_delivered() {
    let server = script(Vec::new());
    let mut rig = Rig::to(&server);
    rig.bring(&["a1b2", "c"]).await;
    assert_eq!((bodies(&server.requests()), rig.refused()), (vec!["abc".to_owned()], 2));
}

#[tokio::test]
async fn events_that_the_packer_drops_in_a_split_are_counted_once() {
    let server = script(vec![Reply::status(400)]);
    let packer = Letters { no_memory: true, ..Letters::default() };
    let mut rig = Rig::with(&[server.uri("/in")], Options { packer, ..Options::default() });
    rig.bring(&["abc"]).await;
    assert_eq!((rig.refused(), rig.settled[0].outcome), (3, Outcome::Rejected));
    assert_eq!(rig.counters.snapshot().dropped_events.get("refused"), None);
}

/// Rejects requests with capital letters.
fn refusing() -> HttpServer {
    HttpServer::start(|seen| match seen.body.iter().any(u8::is_ascii_uppercase) {
        true => Reply::Status(400, Vec::new(), format!("no {}", seen.text())),
        false => Reply::status(204),
    })
}

#[tokio::test]
async fn a_refused_event_is_attributed_to_its_payload_over_split_batches_and_pieces() {
    let server = refusing();
    let mut rig = Rig::with_reader(&server, Letters::default());
    // The batches are abcdeFgh, ijKlmnop, qrstuvwX, yZAbC. The second payload has three pieces.
    for text in ["abcde", "FghijKlmnopqrst", "uv", "wXyZ", "AbC"] {
        rig.deliver_cuttable(text).await;
    }
    rig.settle(5).await;
    let refusal =
        |payload, event, record: &str, reason| (payload, event, record.to_owned(), reason);
    let expected = [
        refusal(1, 0, "F", "400: no F"),
        refusal(1, 5, "K", "400: no K"),
        refusal(3, 1, "X", "400: no X"),
        refusal(3, 3, "Z", "400: no Z"),
        refusal(4, 0, "A", "400: no A"),
        refusal(4, 2, "C", "400: no C"),
    ];
    assert_eq!(rig.refusals(), expected);
    assert_eq!(rig.settled.iter().map(|s| s.refused).collect::<Vec<_>>(), [0, 2, 0, 2, 2]);
    assert_eq!(rig.dropped(), BTreeMap::new(), "nothing is lost");
    assert!(rig.counters.snapshot().errors["refused"] >= 6);
}

#[tokio::test]
async fn a_payload_that_is_refused_as_a_whole_and_one_between_two_are_told_apart() {
    let server = refusing();
    let mut rig = Rig::with_reader(&server, Letters::default());
    rig.bring(&["ab", "CD", "ef", "G", "h"]).await;
    let found = rig.refusals();
    let places: Vec<(u64, u32)> =
        found.iter().map(|(payload, event, ..)| (*payload, *event)).collect();
    assert_eq!(places, [(1, 0), (1, 1), (3, 0)]);
    assert_eq!(rig.settled.iter().map(|s| s.refused).collect::<Vec<_>>(), [0, 2, 0, 1, 0]);
}

#[tokio::test]
async fn events_that_the_packer_refuses_are_attributed_too() {
    let server = refusing();
    let mut rig = Rig::with_reader(&server, Letters::default());
    rig.bring(&["a1b2", "Xc", "3"]).await;
    let refusal =
        |payload, event, record: &str, reason| (payload, event, record.to_owned(), reason);
    let mut found = rig.refusals();
    found.sort();
    let expected = [
        refusal(0, 1, "1", "unpacked"),
        refusal(0, 3, "2", "unpacked"),
        refusal(1, 0, "X", "400: no X"),
        refusal(2, 0, "3", "unpacked"),
    ];
    assert_eq!((found, rig.refused()), (expected.into(), 4));
    let packer = Letters { no_memory: true, ..Letters::default() };
    let mut rig = Rig::with_reader(&server, packer);
    rig.bring(&["aB", "c"]).await;
    let found = rig.refusals();
    let expected = [
        refusal(0, 0, "a", "unpacked"),
        refusal(0, 1, "B", "unpacked"),
        refusal(1, 0, "c", "unpacked"),
    ];
    assert_eq!((found, rig.refused()), (expected.into(), 3));
}

#[tokio::test]
async fn the_packer_hears_of_each_refusal_before_the_split() {
    let server = refusing();
    let refusals = Arc::<Mutex<Vec<(String, Refusal)>>>::default();
    let packer = Letters { refusals: refusals.clone(), ..Letters::default() };
    let mut rig = Rig::with(&[server.uri("/in")], Options { packer, ..Options::default() });
    rig.bring(&["abCd"]).await;
    let refusal = |text: &str| {
        let reason = format!("400: no {text}");
        (text.to_owned(), Refusal { reason, is_duplicate: false })
    };
    assert_eq!(*refusals.lock(), [refusal("abCd"), refusal("Cd"), refusal("C")]);
    assert_eq!((rig.refused(), rig.dropped()), (1, [("refused".to_owned(), 1)].into()));
}

#[tokio::test]
async fn a_request_that_the_packer_does_not_split_is_refused_as_a_whole_and_settled() {
    let server = refusing();
    let packer = Letters { split_max: Some(2), ..Letters::default() };
    let mut rig = Rig::with_reader(&server, packer);
    // The batches are abCdef and gHi.
    rig.bring(&["ab", "Cdef", "gHi"]).await;
    assert_eq!(bodies(&server.requests()), ["abCdef", "gHi"]);
    let refusal = |payload, event, record: &str| (payload, event, record.to_owned(), "unpacked");
    let mut found = rig.refusals();
    found.sort();
    let first = [
        refusal(0, 0, "a"),
        refusal(0, 1, "b"),
        refusal(1, 0, "C"),
        refusal(1, 1, "d"),
        refusal(1, 2, "e"),
    ];
    let rest = [refusal(1, 3, "f"), refusal(2, 0, "g"), refusal(2, 1, "H"), refusal(2, 2, "i")];
    assert_eq!(found, [&first[..], &rest].concat());
    assert_eq!((rig.refused(), rig.dropped()), (9, BTreeMap::new()));
    rig.deliver("jK").await;
    rig.settle(4).await;
    assert_eq!(rig.refused(), 10, "the next request is split");
}

#[tokio::test]
async fn a_duplicate_is_not_passed_on_as_refused() {
    let server = script(vec![
        Reply::Close,
        Reply::Status(400, Vec::new(), "known".into()),
        Reply::Status(400, Vec::new(), "known".into()),
        Reply::Status(400, Vec::new(), "bad".into()),
    ]);
    let mut rig = Rig::with_reader(&server, Letters::default());
    rig.bring(&["kx"]).await;
    assert_eq!(rig.refusals(), [(0, 1, "x".to_owned(), "400: bad")]);
    assert_eq!(rig.settled, [Settled { outcome: Outcome::Rejected, refused: 1 }]);
    assert_eq!(rig.counters.snapshot().noted_events, [("refused_as_duplicate", 1)].into());
}

#[tokio::test]
async fn whether_an_event_is_dropped_is_decided_when_it_is_refused() {
    let server = refusing();
    let mut rig = Rig::with_reader(&server, Letters::default());
    rig.bring(&["aB"]).await;
    rig.feed.detach();
    rig.deliver("C").await;
    rig.settle(2).await;
    assert_eq!(rig.refusals().len(), 1);
    assert_eq!((rig.refused(), rig.dropped()), (2, [("refused".to_owned(), 1)].into()));
    rig.feed.attach(0, Arc::new(|| ()));
    rig.deliver("D").await;
    rig.settle(3).await;
    assert_eq!(rig.refusals()[1], (2, 0, "D".to_owned(), "400: no D"));
    assert_eq!((rig.refused(), rig.dropped()), (3, [("refused".to_owned(), 1)].into()));
}

#[tokio::test]
async fn a_rejected_probe_does_not_block_the_lane() {
    for status in [400, 406, 413, 415, 500, 501] {
        let server = script(vec![Reply::status(status)]);
        let mut rig = Rig::to(&server);
        // A payload without letters has no events.
        rig.bring(&["12345678", "abc"]).await;
        assert_eq!(
            (bodies(&server.requests()), rig.errors.len()),
            (vec![String::new(), "abc".into()], 0)
        );
    }
    let server = script(vec![Reply::status(503)]);
    let mut rig = Rig::to(&server);
    rig.bring(&["12345678"]).await;
    assert_eq!((server.requests().len(), rig.kinds()), (2, vec!["server"]), "it may succeed later");
}

#[tokio::test]
async fn another_format_is_tried_at_once_and_each_payload_is_packed_once() {
    let server = HttpServer::start(|seen| match seen.body.iter().all(u8::is_ascii_uppercase) {
        true => Reply::Status(200, vec![("X-Written", seen.text())], String::new()),
        false => Reply::status(415),
    });
    let packer = Letters { unsupported_format: true, ..Letters::default() };
    let (packed, headers_seen) = (packer.packed.clone(), packer.headers_seen.clone());
    let mut rig = Rig::with(&[server.uri("/in")], Options { packer, ..Options::default() });
    rig.bring(&["abcdefgh", "ijkl"]).await;
    assert_eq!(bodies(&server.requests()), ["abcdefgh", "ABCDEFGH", "ijkl", "IJKL"]);
    assert_eq!((packed.load(Ordering::Relaxed), rig.errors.len()), (2, 0));
    assert_eq!(headers_seen.lock()[..1], ["ABCDEFGH"]);
}

#[tokio::test]
async fn endpoints_take_turns_and_a_failed_one_is_skipped_for_a_while() {
    let (one, two) = (script(Vec::new()), script(vec![Reply::status(503); 2]));
    // A bound socket that does not listen keeps its port from the servers of other tests.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let gone = format!("http://{}/in", closed.local_addr().unwrap());
    let mut rig = Rig::with(&[one.uri("/in"), two.uri("/in"), gone], Options::default());
    let is_over = |rig: &Rig| two.requests().len() > 4 && rig.kinds().contains(&"unreachable");
    // The pause of a failed endpoint is random.
    while !is_over(&rig) {
        let before = rig.settled.len();
        assert!(
            before < 1000,
            "{} and {}: {:?}",
            one.requests().len(),
            two.requests().len(),
            rig.kinds()
        );
        rig.deliver("abcdefgh").await;
        rig.settle(before + 1).await;
        tokio::time::sleep(40 * MS).await;
    }
    assert_eq!(rig.kinds().iter().filter(|kind| **kind == "server").count(), 2);
    assert_eq!(one.requests().len() + two.requests().len() - 2, rig.settled.len());
    assert!(
        rig.errors.iter().all(|error| error.retry_after == Some(Duration::ZERO)),
        "one is well"
    );
}

#[tokio::test]
async fn a_rate_spaces_requests_evenly() {
    let server = script(Vec::new());
    let request = RequestOptions { rate_max: Some(20.0), ..Options::default().request };
    let mut rig = Rig::with(&[server.uri("/in")], Options { request, ..Options::default() });
    rig.bring(&["abcdefgh"; 5]).await;
    let seen = server.requests();
    let gaps = seen.windows(2).map(|pair| pair[1].at - pair[0].at);
    assert!(seen[4].at - seen[0].at >= 190 * MS, "{:?}", gaps.collect::<Vec<_>>());
}

#[tokio::test]
async fn a_held_payload_is_sent_on_time_or_at_a_flush() {
    let server = script(Vec::new());
    let mut rig = Rig::to(&server);
    let from_now = |wait: Duration, at_most: Duration| {
        let until_ns = Now::read(EngineTime::ZERO).unix_ns + wait.as_nanos() as i64;
        Some(Hold { until_ns, at_most })
    };
    let (hour, begun) = (3_600_000 * MS, std::time::Instant::now());
    rig.deliver_at("abcdefgh", from_now(200 * MS, hour)).await;
    rig.settle(1).await;
    assert!(server.requests()[0].at - begun >= 190 * MS);
    // The clock was set back by an hour after the encoding.
    rig.deliver_at("ABCDEFGH", from_now(hour, 200 * MS)).await;
    rig.settle(2).await;
    assert!(server.requests()[1].at - server.requests()[0].at >= 190 * MS);
    rig.deliver_at("late", from_now(hour, hour)).await;
    rig.lane.flush();
    rig.settle(3).await;
}

#[tokio::test]
async fn dropping_a_lane_aborts_its_request() {
    let server = script(vec![Reply::Hang]);
    let mut rig = Rig::to(&server);
    rig.deliver("abcdefgh").await;
    let end = Instant::now() + Duration::from_secs(60);
    while server.requests().is_empty() {
        assert!(Instant::now() < end, "the request does not arrive");
        rig.progress().await;
    }
    assert_eq!(server.requests().len(), 1);
    drop(rig);
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    while tasks() > 0 {
        assert!(Instant::now() < end, "{} tasks are left", tasks());
        tokio::time::sleep(MS).await;
    }
}

#[tokio::test]
async fn a_panic_of_the_packer_reaches_the_lane() {
    let server = script(Vec::new());
    let mut rig = Rig::to(&server);
    rig.deliver("abc!").await;
    let driven = tokio::spawn(async move { rig.lane.progress().await });
    assert!(driven.await.unwrap_err().is_panic());
}
