mod server;

use super::*;
use crate::component::Component;
use bytes::Bytes;
use millstream_model::BackpressureReason;
use millstream_testkit_servers::certificates::{Authority, Validity};
use serde_json::json;
use server::TestServer;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::time::timeout;

/// A generous timeout for each test.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Creates a lane with these options, and its counters.
fn lane(options: serde_json::Value) -> (TcpLane, Arc<Counters>) {
    let cx = LaneCx::outside("out", 0, Arc::default());
    let counters = cx.counters.clone();
    (lane_in(options, cx), counters)
}

fn lane_in(options: serde_json::Value, cx: LaneCx) -> TcpLane {
    let config: TcpConfig = serde_json::from_value(options).unwrap();
    assert_eq!(config.check(), []);
    let tls = config.tls.clone().map(|files| Arc::new(Tls::new(files)));
    TcpLane::new(Arc::new(config), tls, cx)
}

fn line(number: usize) -> String {
    format!("line {number:06} {}\n", "x".repeat(1 + number % 50))
}

/// Returns a payload with the lines from `begin` to `end`, in several parts.
fn payload(begin: usize, end: usize) -> Payload {
    let mut payload = Payload::new((end - begin) as u64);
    let lines: Vec<String> = (begin..end).map(line).collect();
    lines.chunks(7).for_each(|lines| payload.push(Bytes::from(lines.concat())));
    payload
}

/// Drives a lane like the engine does: delivers payloads in order, and records errors.
struct Engine {
    lane: TcpLane,
    errors: Vec<String>,
    settled: Vec<Settled>,
    sent: usize,
}

impl Engine {
    fn new(lane: TcpLane) -> Engine {
        Engine { lane, errors: Vec::new(), settled: Vec::new(), sent: 0 }
    }

    async fn fail(&mut self, error: DeliverError) {
        self.errors.push(format!("{}: {}", error.kind, error.message));
        tokio::time::sleep(error.retry_after.unwrap()).await;
    }

    async fn deliver(&mut self, lines: usize) {
        let payload = payload(self.sent, self.sent + lines);
        self.sent += lines;
        while let Err(error) = self.lane.deliver(&payload).await {
            self.fail(error).await;
        }
        self.settled.extend(self.lane.settled());
    }

    /// Waits until this many payloads are settled.
    async fn settle(&mut self, payloads: usize) {
        while self.settled.len() < payloads {
            if let Err(error) = self.lane.progress().await {
                self.fail(error).await;
            }
            self.settled.extend(self.lane.settled());
        }
    }

    async fn run(&mut self, payloads: usize) {
        let all = async {
            for _ in 0..payloads {
                self.deliver(10).await;
            }
            self.lane.flush();
            self.settle(payloads).await;
        };
        timeout(TIMEOUT, all).await.expect("everything is settled in time");
    }
}

fn all(count: usize) -> Vec<String> {
    (0..count).map(|number| line(number).trim_end().to_owned()).collect()
}

/// Options for a lane with acknowledgements. The timeout does not elapse on a busy machine.
fn acks(server: &TestServer, more: serde_json::Value) -> serde_json::Value {
    let mut options = json!({
        "address": server.address, "framing": "length", "acknowledgements": true, "timeout": "30s",
        "batch": {"bytes": "1KiB", "events": 20, "timeout": "20ms"},
    });
    options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    options
}

#[tokio::test]
async fn lines_arrive_in_order_and_are_settled() {
    let server = TestServer::start().await;
    let (lane, _) = lane(json!({"address": server.address}));
    let mut engine = Engine::new(lane);
    assert!(engine.lane.start().await.is_ok());
    let ours = async {
        engine.run(300).await;
        engine.lane.close();
    };
    let (lines, ()) = tokio::join!(async { server.accept().await.lines().await }, ours);
    assert!(lines == all(3000));
    assert_eq!(engine.settled, [Settled { outcome: Outcome::Delivered, refused: 0 }; 300]);
    assert_eq!(engine.errors, [""; 0]);
}

#[tokio::test]
async fn under_backpressure_a_batch_that_is_not_full_is_sent() {
    let server = TestServer::start().await;
    let cx = LaneCx::outside("out", 0, Arc::default());
    let backpressure = cx.backpressure.clone();
    let batch = json!({"bytes": "1MiB", "events": 1000, "timeout": "1h"});
    let mut engine = Engine::new(lane_in(acks(&server, json!({"batch": batch})), cx));
    let ours = async {
        engine.deliver(10).await;
        backpressure.set(BackpressureReason::DiskBuffer, true);
        engine.settle(1).await;
    };
    let theirs = async {
        let mut frames = server.accept_frames(0).await;
        let (number, text) = frames.next().await.unwrap();
        frames.acknowledge(number).await;
        (text.lines().count(), frames)
    };
    let both = async { tokio::join!(ours, theirs) };
    let ((), (lines, _frames)) = timeout(TIMEOUT, both).await.expect("the batch is sent");
    assert_eq!(lines, 10);
}

/// The endpoint is killed before it has read everything.
#[tokio::test]
async fn a_reset_loses_only_data_that_the_peers_kernel_had_acknowledged() {
    let server = TestServer::start().await;
    let (lane, _) = lane(json!({"address": server.address, "window": {"frames": 100_000}}));
    let mut engine = Engine::new(lane);
    let conversation = async {
        assert!(engine.lane.start().await.is_ok());
        let first = server.accept().await;
        // Fill the buffers of the endpoint.
        while timeout(Duration::from_secs(1), engine.deliver(1000)).await.is_ok() {}
        engine.settled.extend(engine.lane.settled());
        let settled = engine.settled.len() * 1000;
        assert!(settled > 0 && settled < engine.sent - 1000, "{settled} of {}", engine.sent);
        drop(first);
        let payloads = engine.sent / 1000 - 1;
        let ((), (lines, _peer)) = tokio::join!(engine.settle(payloads), async {
            let mut peer = server.accept().await;
            (peer.lines_up_to(last_line(payloads)).await, peer)
        });
        (settled, lines)
    };
    let (settled, lines) = timeout(TIMEOUT, conversation).await.unwrap();
    assert_eq!(lines[0], line(settled).trim_end(), "the first unsettled line");
    assert!(
        engine.errors.iter().all(|error| error.starts_with("closed: 127.0.0.1:")),
        "{:?}",
        engine.errors
    );
}

/// Returns the last line in this many payloads with a thousand lines each.
fn last_line(payloads: usize) -> String {
    line(payloads * 1000 - 1).trim_end().to_owned()
}

#[tokio::test]
async fn an_endpoint_that_never_reads_is_abandoned() {
    let server = TestServer::start().await;
    let options =
        json!({"address": server.address, "timeout": "2s", "window": {"frames": 100_000}});
    let (lane, _) = lane(options);
    let mut engine = Engine::new(lane);
    let conversation = async {
        assert!(engine.lane.start().await.is_ok());
        let deaf = server.accept().await;
        while timeout(Duration::from_millis(200), engine.deliver(1000)).await.is_ok()
            && engine.errors.is_empty()
        {}
        let payloads = engine.sent / 1000 - 1;
        let ((), (lines, _peer)) = tokio::join!(engine.settle(payloads), async {
            let mut peer = server.accept().await;
            (peer.lines_up_to(last_line(payloads)).await, peer)
        });
        drop(deaf);
        lines.len()
    };
    assert!(timeout(TIMEOUT, conversation).await.unwrap() > 0);
    assert!(
        engine.errors[0].starts_with("timeout: ")
            && engine.errors[0].contains("accepted no data for 2s")
    );
}

#[tokio::test]
async fn nothing_is_settled_before_it_is_acknowledged() {
    let server = TestServer::start().await;
    let (lane, _) = lane(acks(&server, json!({})));
    let mut engine = Engine::new(lane);
    let ours = async {
        engine.deliver(20).await;
        assert!(timeout(Duration::from_millis(300), engine.settle(1)).await.is_err());
    };
    let (mut frames, ()) = tokio::join!(async { server.accept_frames(0).await }, ours);
    let (number, text) = frames.next().await.unwrap();
    assert_eq!((number, text.lines().count()), (1, 20));
    frames.acknowledge(1).await;
    timeout(TIMEOUT, engine.settle(1)).await.unwrap();
    assert!(engine.errors.is_empty(), "{:?}", engine.errors);
}

/// The endpoint repeatedly loses its responses; it detects duplicates by session and number.
#[tokio::test]
async fn lost_acknowledgements_repeat_the_same_numbers() {
    let server = TestServer::start().await;
    let (lane, _) = lane(acks(&server, json!({"window": {"frames": 5}})));
    let mut engine = Engine::new(lane);
    let serve = async {
        let (mut kept, mut sessions, mut highest) = (String::new(), Vec::new(), 0);
        while highest < 99 {
            let mut frames = server.accept_frames(0).await;
            sessions.push(frames.session);
            // Each connection carries three new frames; the last two are not acknowledged.
            let (goal, had) = (highest + 3, highest);
            while let Some((number, text)) = frames.next().await {
                if number > highest {
                    assert_eq!(number, highest + 1, "no gap");
                    highest = number;
                    kept.push_str(&text);
                }
                if number <= had + 1 {
                    frames.acknowledge(number).await;
                }
                if number >= goal {
                    break;
                }
            }
        }
        let mut frames = server.accept_frames(highest).await;
        assert_eq!(frames.next().await, None);
        (kept, sessions)
    };
    let ours = async {
        for _ in 0..99 {
            engine.deliver(20).await;
        }
        engine.settle(99).await;
        engine.lane.close();
    };
    let ((kept, sessions), ()) =
        timeout(TIMEOUT, async { tokio::join!(serve, ours) }).await.unwrap();
    assert!(kept.lines().eq(all(1980)));
    assert!(sessions.len() > 20 && sessions.windows(2).all(|pair| pair[0] == pair[1]));
}

#[tokio::test]
async fn frames_that_the_endpoint_already_has_are_not_resent() {
    let server = TestServer::start().await;
    let (lane, _) = lane(acks(&server, json!({})));
    let mut engine = Engine::new(lane);
    let serve = async {
        let mut frames = server.accept_frames(0).await;
        for _ in 0..3 {
            frames.next().await;
        }
        drop(frames);
        let mut frames = server.accept_frames(2).await;
        let (number, _) = frames.next().await.unwrap();
        // A late acknowledgement, then the correct one, then one for a frame that is not sent yet.
        for acknowledged in [1, 2, number] {
            frames.acknowledge(acknowledged).await;
        }
        (number, frames)
    };
    let ours = async {
        for _ in 0..3 {
            engine.deliver(20).await;
        }
        engine.settle(3).await;
    };
    let ((number, _frames), ()) =
        timeout(TIMEOUT, async { tokio::join!(serve, ours) }).await.unwrap();
    assert_eq!((number, engine.errors.len()), (3, 1), "{:?}", engine.errors);
}

#[tokio::test]
async fn a_refused_frame_is_counted_and_the_others_arrive() {
    let server = TestServer::start().await;
    let (lane, counters) = lane(acks(&server, json!({"timeout": "4s"})));
    let mut engine = Engine::new(lane);
    let serve = async {
        let mut frames = server.accept_frames(0).await;
        for _ in 0..4 {
            frames.next().await;
        }
        for number in [2, 4, 4] {
            frames.refuse(number, "bad\nnews").await;
        }
        frames.acknowledge(3).await;
        frames
    };
    let ours = async {
        for _ in 0..4 {
            engine.deliver(20).await;
        }
        engine.settle(4).await;
        // No frame is in flight, so silence is not an error.
        assert!(timeout(Duration::from_millis(4500), engine.lane.progress()).await.is_err());
    };
    let (_frames, ()) = timeout(TIMEOUT, async { tokio::join!(serve, ours) }).await.unwrap();
    let delivered = Settled { outcome: Outcome::Delivered, refused: 0 };
    let rejected = Settled { outcome: Outcome::Rejected, refused: 20 };
    assert_eq!(engine.settled, [delivered, rejected, delivered, rejected]);
    assert!(counters.snapshot().last_error.is_some());
    let dropped = counters.snapshot().dropped_events;
    assert_eq!(dropped.into_iter().collect::<Vec<_>>(), [("refused", 40)]);
}

#[tokio::test]
async fn a_protocol_violation_ends_the_connection() {
    let server = TestServer::start().await;
    let (lane, _) = lane(acks(&server, json!({"connect_timeout": "2s", "timeout": "3s"})));
    let mut engine = Engine::new(lane);
    let serve = async {
        let mut early = server.accept_frames(0).await;
        early.next().await;
        early.acknowledge(2).await;
        assert_eq!(early.next().await, None);
        let mut foreign = server.accept().await;
        foreign.write(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _silent = server.accept().await;
        let mut forgetful = server.accept_frames(0).await;
        forgetful.next().await;
        let mut good = server.accept_frames(0).await;
        good.next().await;
        good.acknowledge(1).await;
        good
    };
    let ours = async {
        engine.deliver(20).await;
        engine.settle(1).await;
    };
    let (_good, ()) = timeout(TIMEOUT, async { tokio::join!(serve, ours) }).await.unwrap();
    let says = [
        "response to frame 2, but the last frame sent is 1",
        "a response of 1213486160 bytes",
        "no response to the handshake",
        "acknowledged nothing for 3s",
    ];
    assert_eq!(engine.errors.len(), says.len(), "{:?}", engine.errors);
    for (error, says) in engine.errors.iter().zip(says) {
        assert!(error.contains(says), "{error}");
    }
}

#[tokio::test]
async fn the_window_bounds_unacknowledged_frames() {
    let server = TestServer::start().await;
    let (lane, _) = lane(acks(&server, json!({"window": {"frames": 3}})));
    let (mut engine, delivered) = (Engine::new(lane), AtomicUsize::new(0));
    let serve = async {
        let mut frames = server.accept_frames(0).await;
        for number in 1..=20 {
            assert_eq!(frames.next().await.unwrap().0, number);
            tokio::time::sleep(Duration::from_millis(5)).await;
            assert!(delivered.load(Ordering::Relaxed) <= number as usize - 1 + 3);
            frames.acknowledge(number).await;
        }
        frames
    };
    let ours = async {
        for _ in 0..20 {
            engine.deliver(20).await;
            delivered.fetch_add(1, Ordering::Relaxed);
        }
        engine.settle(20).await;
    };
    timeout(TIMEOUT, async { tokio::join!(serve, ours) }).await.unwrap();
}

#[tokio::test]
async fn batches_end_by_events_by_bytes_by_timeout_and_by_flush() {
    let server = TestServer::start().await;
    let batch =
        json!({"batch": {"bytes": "2KiB", "events": 40, "timeout": "4s"}, "compression": "gzip"});
    let (lane, _) = lane(acks(&server, batch));
    let mut engine = Engine::new(lane);
    let serve = async {
        let (mut frames, mut sizes) = (server.accept_frames(0).await, Vec::new());
        while let Some((number, text)) = frames.next().await {
            sizes.push(text.lines().count());
            frames.acknowledge(number).await;
        }
        sizes
    };
    let ours = async {
        let begun = Instant::now();
        for lines in [30, 10, 3, 3] {
            engine.deliver(lines).await;
        }
        engine.settle(4).await;
        assert!(begun.elapsed() >= Duration::from_millis(3900), "by time");
        engine.deliver(100).await;
        engine.deliver(5).await;
        engine.lane.flush();
        let begun = Instant::now();
        engine.settle(6).await;
        assert!(begun.elapsed() < Duration::from_millis(3900), "at once");
        engine.lane.close();
    };
    let (sizes, ()) = timeout(TIMEOUT, async { tokio::join!(serve, ours) }).await.unwrap();
    assert_eq!(sizes, [40, 6, 100, 5]);
}

/// An open batch that fills the window is sent, because no other event can free space.
#[tokio::test]
async fn a_batch_that_fills_the_window_is_sent_at_once() {
    let server = TestServer::start().await;
    let batch = json!({"bytes": "1MiB", "events": 10_000, "timeout": "1h"});
    let options = acks(&server, json!({"batch": batch, "window": {"bytes": "1KiB"}}));
    let cx = LaneCx::outside("out", 0, Arc::default());
    let lane = TcpLane::new(Arc::new(serde_json::from_value(options).unwrap()), None, cx);
    let mut engine = Engine::new(lane);
    let serve = async {
        let mut frames = server.accept_frames(0).await;
        for number in 1..=9 {
            assert_eq!(frames.next().await.unwrap().0, number);
            frames.acknowledge(number).await;
        }
        frames
    };
    let ours = async {
        for _ in 0..10 {
            engine.deliver(50).await;
        }
    };
    timeout(TIMEOUT, async { tokio::join!(serve, ours) }).await.expect("nothing stalls");
    assert_eq!((engine.settled.len(), engine.errors.len()), (9, 0));
}

#[tokio::test]
async fn each_compressed_batch_is_one_frame() {
    for (algorithm, begins) in
        [("gzip", &[0x1f, 0x8b][..]), ("zlib", &[0x78]), ("zstd", &[0x28, 0xb5, 0x2f, 0xfd])]
    {
        let server = TestServer::start().await;
        let options =
            json!({"address": server.address, "framing": "length", "compression": algorithm});
        let (lane, _) = lane(options);
        let mut engine = Engine::new(lane);
        engine.run(5).await;
        engine.lane.close();
        let bytes = server.accept().await.rest().await;
        assert_eq!(bytes[..4], ((bytes.len() - 4) as u32).to_be_bytes(), "one frame");
        assert!(bytes[4..].starts_with(begins), "{algorithm}");
    }
}

#[tokio::test]
async fn the_next_address_is_used_when_one_is_down() {
    let (down, up) = (TestServer::start().await, TestServer::start().await);
    let (lane, _) = lane(json!({"addresses": [down.address.clone(), up.address]}));
    drop(down);
    let mut engine = Engine::new(lane);
    engine.run(3).await;
    engine.lane.close();
    assert_eq!(up.accept().await.lines().await, all(30));
    assert!(
        engine.errors.len() == 1 && engine.errors[0].starts_with("unreachable: "),
        "{:?}",
        engine.errors
    );
}

#[tokio::test]
async fn a_connection_closed_while_idle_is_not_an_error() {
    let server = TestServer::start().await;
    let (lane, _) = lane(json!({"address": server.address}));
    let mut engine = Engine::new(lane);
    assert!(engine.lane.start().await.is_ok());
    drop(server.accept().await);
    tokio::time::sleep(Duration::from_millis(50)).await;
    engine.run(2).await;
    engine.lane.close();
    assert_eq!(server.accept().await.lines().await, all(20));
    assert_eq!(engine.errors, [""; 0]);
}

/// A proxy whose backend is down accepts the first bytes and closes the connection.
#[tokio::test]
async fn data_accepted_by_a_short_lived_connection_is_resent() {
    let server = TestServer::start().await;
    let (lane, _) = lane(json!({"address": server.address}));
    let mut engine = Engine::new(lane);
    let serve = async {
        for _ in 0..3 {
            let mut proxy = server.accept().await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(proxy.read(line(0).len()).await, line(0).as_bytes());
        }
        server.accept().await.lines().await
    };
    let ours = async {
        engine.run(2).await;
        engine.lane.close();
    };
    let (lines, ()) = timeout(TIMEOUT, async { tokio::join!(serve, ours) }).await.unwrap();
    assert_eq!((lines, engine.errors.len()), (all(20), 3), "{:?}", engine.errors);
    let says = "within 500ms of connecting, so the data sent over it is not treated as delivered";
    assert!(engine.errors.iter().all(|error| error.ends_with(says)), "{:?}", engine.errors);
}

#[tokio::test]
async fn tls_with_certificates_on_both_sides() {
    let (dir, authority, server) =
        (tempfile::tempdir().unwrap(), Authority::new(), TestServer::start().await);
    let ca = authority.write(dir.path(), "ca");
    let (cert, key) = authority.issue(&["agent"], Validity::Good).write(dir.path(), "agent");
    let tls = json!({"ca_file": ca, "cert_file": cert, "key_file": key});
    let (lane, _) = lane(json!({"address": server.address, "tls": tls}));
    let mut engine = Engine::new(lane);
    let serve = async {
        // Expired, unknown authority, wrong name, then valid.
        let other = Authority::new();
        for bad in [
            authority.issue(&["127.0.0.1"], Validity::Expired),
            other.issue(&["127.0.0.1"], Validity::Good),
            authority.issue(&["logs.example"], Validity::Good),
        ] {
            assert!(server.encrypted(bad.acceptor(Some(&authority))).await.is_err());
        }
        let good = authority.issue(&["127.0.0.1"], Validity::Good);
        server.encrypted(good.acceptor(Some(&authority))).await.unwrap().lines().await
    };
    let ours = async {
        engine.run(100).await;
        engine.lane.close();
    };
    let (lines, ()) = timeout(TIMEOUT, async { tokio::join!(serve, ours) }).await.unwrap();
    assert!(lines == all(1000));
    let says = [
        "expired on 2020-02-01",
        "is not signed by a CA in `ca_file`",
        "is valid only for other names: logs.example",
    ];
    for (error, says) in engine.errors.iter().zip(says) {
        assert!(error.starts_with("tls: ") && error.contains(says), "{error}");
    }
    assert_eq!(engine.errors.len(), 3);
}

#[tokio::test]
async fn an_error_reports_that_the_server_requires_a_certificate() {
    let (dir, authority, server) =
        (tempfile::tempdir().unwrap(), Authority::new(), TestServer::start().await);
    let ca = authority.write(dir.path(), "ca");
    let (lane, _) = lane(json!({"address": server.address, "tls": {"ca_file": ca}}));
    let mut engine = Engine::new(lane);
    let good = authority.issue(&["127.0.0.1"], Validity::Good);
    let serve = async {
        assert!(server.encrypted(good.acceptor(Some(&authority))).await.is_err());
        server.encrypted(good.acceptor(None)).await.unwrap().lines().await
    };
    let ours = async {
        engine.run(1).await;
        engine.lane.close();
    };
    let (lines, ()) = timeout(TIMEOUT, async { tokio::join!(serve, ours) }).await.unwrap();
    assert_eq!(lines, all(10));
    assert!(
        engine.errors[0].contains("rejects a connection without a client certificate"),
        "{:?}",
        engine.errors
    );
}
