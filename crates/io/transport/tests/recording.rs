//! The events of a connection account for every byte on the wire, even with TLS.

use bytes::Bytes;
use millstream_recorder::schema::EventKind;
use millstream_testkit::{RecordedSum, recorded, start_recording};
use millstream_testkit_servers::certificates::{Authority, Validity};
use millstream_testkit_servers::http::{HttpServer, Reply};
use millstream_transport::http::{Client, ClientOptions, Outgoing};
use millstream_transport::proxy::{ProxyChoice, ProxyOptions};
use millstream_transport::recorded_stream::RecordedStream;
use millstream_transport::tcp::{Address, connect};
use millstream_transport::tls::{Tls, TlsFiles};
use millstream_transport::{HeaderMap, Method, Target};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot::{Receiver, channel};

const LONG: Duration = Duration::from_secs(20);

/// Number of bytes to send, more than the buffers of a socket can store.
const BYTES: usize = 8 << 20;

/// Number of bytes that a proxy has forwarded in each direction.
struct Carried {
    sent: u64,
    received: u64,
}

/// Starts a proxy that forwards one connection to this port. Returns the proxy's port, and a
/// receiver for the counts of forwarded bytes, which arrive once the connection is closed.
async fn proxy(to: u16) -> (u16, Receiver<Carried>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (done, carried) = channel();
    tokio::spawn(async move {
        let (mut near, _) = listener.accept().await.unwrap();
        let mut far = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
        let ((from_near, to_near), (from_far, to_far)) = (near.split(), far.split());
        let (sent, received) = tokio::join!(pass(from_near, to_far), pass(from_far, to_near));
        let _ = done.send(Carried { sent, received });
    });
    (port, carried)
}

/// Forwards bytes until there are no more; returns how many there were.
async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> u64 {
    let bytes = copy(&mut from, &mut to).await.unwrap();
    // The other end may have closed the connection.
    let _ = to.shutdown().await;
    bytes
}

/// Returns all bytes to the sender.
async fn echo(stream: impl AsyncRead + AsyncWrite + Unpin) {
    let (mut reader, mut writer) = split(stream);
    copy(&mut reader, &mut writer).await.unwrap();
    writer.shutdown().await.unwrap();
}

/// Sends bytes and reads them back, then closes the connection.
async fn talk(stream: impl AsyncRead + AsyncWrite + Unpin) {
    let sent: Vec<u8> = (0..BYTES).map(|n| (n * 7) as u8).collect();
    let mut back = Vec::new();
    let (mut reader, mut writer) = split(stream);
    let write = async {
        writer.write_all(&sent).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let (_, read) = tokio::join!(write, reader.read_to_end(&mut back));
    read.unwrap();
    assert!(back == sent);
}

fn of(kind: EventKind, peer: &str) -> RecordedSum {
    let all = recorded(kind);
    *all.get(peer).unwrap_or_else(|| panic!("no event of {peer}: {all:?}"))
}

fn assert_carried(peer: &str, carried: &Carried) {
    let (written, read) = (of(EventKind::SocketWrite, peer), of(EventKind::SocketRead, peer));
    assert_eq!((written.bytes, read.bytes), (carried.sent, carried.received), "{peer}");
}

#[tokio::test]
async fn a_plain_connection_is_recorded_at_both_ends() {
    let _test = start_recording();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, carried) = proxy(listener.local_addr().unwrap().port()).await;
    let server = tokio::spawn(async move {
        let (stream, from) = listener.accept().await.unwrap();
        echo(RecordedStream::new(stream, "", from)).await;
        from
    });
    let address = Address { host: "127.0.0.1".to_owned(), port };
    talk(connect(&address, None, LONG, LONG).await.unwrap().stream).await;
    let (carried, from) = (carried.await.unwrap(), server.await.unwrap());
    assert_eq!((carried.sent, carried.received), (BYTES as u64, BYTES as u64));
    assert_carried(&format!("127.0.0.1,127.0.0.1,{port}"), &carried);
    assert_carried(&format!(",127.0.0.1,{}", from.port()), &carried);
}

#[tokio::test]
async fn the_bytes_of_tls_are_those_on_the_wire() {
    let _test = start_recording();
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    authority.write(folder.path(), "ca");
    let acceptor = authority.issue(&["localhost"], Validity::Good).acceptor(None);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, carried) = proxy(listener.local_addr().unwrap().port()).await;
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        echo(acceptor.accept(stream).await.unwrap()).await;
    });
    let files = TlsFiles { ca_file: Some(folder.path().join("ca.crt")), ..TlsFiles::default() };
    let address = Address { host: "localhost".to_owned(), port };
    let tls = Arc::new(Tls::new(files));
    talk(connect(&address, Some(&tls), LONG, LONG).await.unwrap().stream).await;
    let carried = carried.await.unwrap();
    assert!(carried.sent > BYTES as u64 && carried.received > BYTES as u64, "the handshake");
    assert_carried(&format!("localhost,127.0.0.1,{port}"), &carried);
}

#[tokio::test]
async fn requests_and_responses_are_recorded_with_their_heads() {
    let _test = start_recording();
    let server = HttpServer::start(|_| Reply::Status(200, Vec::new(), "stored".to_owned()));
    let uri = server.uri("/in");
    let (port, carried) = proxy(Target::parse(&uri).unwrap().port).await;
    let target = Target::parse(&format!("http://127.0.0.1:{port}/in")).unwrap();
    let tls = Arc::new(Tls::new(TlsFiles::default()));
    let proxy = ProxyOptions::new(ProxyChoice::Direct, None);
    let options = ClientOptions { timeout: LONG, connect_timeout: LONG, tls, proxy };
    let mut client = Client::new(Arc::new(target), options);
    let body = vec![Bytes::from(vec![7; 1 << 20]); 3];
    let outgoing = Outgoing { method: Method::POST, headers: HeaderMap::new(), body };
    for _ in 0..2 {
        let response = client.send(&outgoing).await.unwrap();
        assert_eq!((response.status, &response.body[..]), (200, &b"stored"[..]));
    }
    drop(client);
    // The server keeps its connections open.
    drop(server);
    let carried = carried.await.unwrap();
    assert!(carried.sent > 6 << 20 && carried.received > 12);
    assert_carried(&format!("127.0.0.1,127.0.0.1,{port}"), &carried);
}
