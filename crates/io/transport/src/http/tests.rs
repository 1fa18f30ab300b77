//! Tests against a server on plain sockets that follows a script.

mod proxies;

use super::*;
use crate::proxy::ProxyChoice;
use crate::tls::TlsFiles;
use rustix::net::sockopt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The server's reaction to the next request on a connection.
#[derive(Clone)]
enum Do {
    /// Responds with these bytes.
    Say(&'static [u8]),
    /// Responds, then sends data endlessly.
    Endless(&'static [u8]),
    /// Closes the connection.
    Close,
    /// Reads nothing and sends nothing.
    Nothing,
    /// Responds after the head has arrived, and closes.
    Refuse(&'static [u8]),
    /// Responds without reading, and leaves the connection open.
    Early(&'static [u8]),
}

const OK: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

/// Reads the head and the body of one request from the stream.
async fn read_request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        stream.read_buf(&mut bytes).await.ok().filter(|read| *read > 0)?;
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    while bytes.len() < head_end + length.unwrap_or(0) {
        stream.read_buf(&mut bytes).await.ok().filter(|read| *read > 0)?;
    }
    Some((head, bytes.split_off(head_end)))
}

/// Starts a server. Each connection follows its script, then closes. Returns the address and the
/// requests that were read.
async fn server(
    script: Vec<Vec<Do>>,
) -> (String, tokio::sync::mpsc::UnboundedReceiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/in", listener.local_addr().unwrap());
    let (seen, receiver) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        for actions in script {
            let (mut stream, _) = listener.accept().await.unwrap();
            for action in actions {
                if let Do::Nothing = action {
                    std::future::pending::<()>().await;
                }
                if let Do::Early(bytes) = action {
                    stream.readable().await.unwrap();
                    stream.write_all(bytes).await.unwrap();
                    tokio::spawn(async move {
                        std::future::pending::<()>().await;
                        drop(stream);
                    });
                    break;
                }
                if let Do::Refuse(bytes) = action {
                    // The kernel resets a connection that is closed with unread bytes.
                    stream.read_exact(&mut [0; 100]).await.unwrap();
                    stream.write_all(bytes).await.unwrap();
                    break;
                }
                let Some(request) = read_request(&mut stream).await else { break };
                seen.send(request).unwrap();
                match action {
                    Do::Say(bytes) => stream.write_all(bytes).await.unwrap(),
                    Do::Endless(head) => {
                        stream.write_all(head).await.unwrap();
                        while stream.write_all(&[b'x'; 65536]).await.is_ok() {}
                    }
                    _ => break,
                }
            }
        }
    });
    (address, receiver)
}

fn client(address: &str, timeout: Duration) -> Client {
    let options = ClientOptions {
        timeout,
        connect_timeout: timeout,
        tls: Arc::new(Tls::new(TlsFiles::default())),
        proxy: ProxyOptions::new(ProxyChoice::Direct, None),
    };
    Client::new(Arc::new(Target::parse(address).unwrap()), options)
}

fn outgoing(parts: &[&'static [u8]]) -> Outgoing {
    let body = parts.iter().map(|part| Bytes::from_static(part)).collect();
    Outgoing { method: Method::POST, headers: HeaderMap::new(), body }
}

const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn requests_share_one_connection() {
    let (address, mut seen) = server(vec![vec![Do::Say(OK), Do::Say(OK)]]).await;
    let mut client = client(&address, LONG);
    for parts in [[b"one " as &[u8], b"body"], [b"", b""]] {
        assert_eq!(client.send(&outgoing(&parts)).await.unwrap().status, 204);
        let (head, body) = seen.recv().await.unwrap();
        assert!(
            head.starts_with("POST /in HTTP/1.1\r\n") && head.contains("host: 127.0.0.1:"),
            "{head}"
        );
        assert_eq!(body, parts.concat());
    }
}

/// The address's scheme selects TLS; there is no `tls` option for that.
#[tokio::test]
async fn an_endpoint_without_tls_is_recognized() {
    let bad_request = b"HTTP/1.1 400 Bad Request\r\n\r\n";
    let (address, _seen) = server(vec![vec![Do::Early(bad_request)]]).await;
    let mut client = client(&address.replace("http://", "https://"), LONG);
    let lax = TlsFiles { verify: false, ..TlsFiles::default() };
    client.options.tls = Arc::new(Tls::new(lax));
    let error = client.send(&outgoing(&[b"a"])).await.unwrap_err();
    let message = "127.0.0.1 does not speak TLS; check the port, or use `http://`";
    assert_eq!(error.message, message);
}

#[tokio::test]
async fn a_closed_connection_is_replaced_without_an_error() {
    let (address, mut seen) =
        server(vec![vec![Do::Say(OK), Do::Close], vec![Do::Say(OK)], vec![Do::Say(OK)]]).await;
    let mut client = client(&address, LONG);
    assert_eq!(client.send(&outgoing(&[b"a"])).await.unwrap().status, 204);
    // The server reads this request and closes without a response.
    assert_eq!(client.send(&outgoing(&[b"b"])).await.unwrap().status, 204);
    let bodies =
        [seen.recv().await.unwrap().1, seen.recv().await.unwrap().1, seen.recv().await.unwrap().1];
    assert_eq!(bodies, [b"a", b"b", b"b"]);
}

#[tokio::test]
async fn a_truncated_or_endless_response_keeps_its_status_and_drops_the_connection() {
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort";
    let endless = b"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 99999999999\r\n\r\n";
    let script = vec![vec![Do::Say(cut)], vec![Do::Endless(endless)], vec![Do::Say(OK)]];
    let (address, _seen) = server(script).await;
    let mut client = client(&address, LONG);
    let answer = client.send(&outgoing(&[b"a"])).await.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (200, &b"short"[..]));
    let answer = client.send(&outgoing(&[b"b"])).await.unwrap();
    assert_eq!((answer.status, answer.body.len()), (429, RESPONSE_BYTES_MAX));
    assert_eq!(answer.headers["retry-after"], "7");
    assert_eq!(client.send(&outgoing(&[b"c"])).await.unwrap().status, 204);
}

#[tokio::test]
async fn an_endless_head_or_compressed_body_is_not_kept() {
    // A body that is not decompressed cannot be a decompression bomb.
    let bomb =
        b"HTTP/1.1 500 No\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00";
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(100_000));
    let script = vec![
        vec![Do::Endless(b"HTTP/1.1 200 OK\r\nx: ")],
        vec![Do::Endless(b"HTTP/1.1 200 ")],
        vec![Do::Say(many.leak().as_bytes())],
        vec![Do::Say(bomb)],
    ];
    let (address, _seen) = server(script).await;
    for _ in 0..3 {
        let error = client(&address, LONG).send(&outgoing(&[b"a"])).await.unwrap_err();
        assert_eq!(error.kind, "broken", "{error}");
    }
    let answer = client(&address, LONG).send(&outgoing(&[b"a"])).await.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (500, &b"\x1f\x8b\x08\x00"[..]));
}

#[tokio::test]
async fn errors_distinguish_no_response_no_connection_and_no_http() {
    let (address, _seen) =
        server(vec![vec![Do::Close], vec![Do::Say(b"SSH-2.0-OpenSSH_9.2\r\n")]]).await;
    let mut one = client(&address, LONG);
    assert_eq!(one.send(&outgoing(&[b"a"])).await.unwrap_err().kind, "broken");
    assert_eq!(one.send(&outgoing(&[b"a"])).await.unwrap_err().kind, "broken");
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", gone.local_addr().unwrap());
    drop(gone);
    assert_eq!(client(&address, LONG).send(&outgoing(&[])).await.unwrap_err().kind, "unreachable");
    let nowhere =
        client("http://no-such-host.invalid/", LONG).send(&outgoing(&[])).await.unwrap_err();
    assert!(nowhere.kind == "resolve" && nowhere.message.contains("the name cannot be resolved"));
}

#[tokio::test]
async fn an_endpoint_that_never_reads_times_out() {
    let (address, _seen) = server(vec![vec![Do::Nothing]]).await;
    let mut client = client(&address, Duration::from_millis(300));
    let large = Outgoing { body: vec![Bytes::from(vec![0; 32 << 20])], ..outgoing(&[]) };
    let error = client.send(&large).await.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), ("timeout", "response timed out"));
}

#[tokio::test]
async fn a_response_before_the_end_of_the_request_counts() {
    let refused = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n";
    let (address, mut seen) = server(vec![vec![Do::Early(refused)], vec![Do::Say(OK)]]).await;
    let mut client = client(&address, LONG);
    let large = Outgoing { body: vec![Bytes::from(vec![0; 32 << 20])], ..outgoing(&[]) };
    assert_eq!(client.send(&large).await.unwrap().status, 413);
    assert_eq!(client.send(&outgoing(&[b"small"])).await.unwrap().status, 204);
    assert_eq!(seen.recv().await.unwrap().1, b"small");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_followed_by_a_reset_counts() {
    let refused = b"HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlarge";
    let (address, _seen) = server(vec![vec![Do::Refuse(refused)]; 200]).await;
    for turn in 0..200 {
        let large =
            Outgoing { body: vec![Bytes::from(vec![0; 1 << 20]); 1 + turn % 4], ..outgoing(&[]) };
        let answer = client(&address, LONG).send(&large).await;
        assert_eq!(answer.map(|answer| answer.status), Ok(413), "{turn}");
    }
}

#[tokio::test]
async fn the_kernel_detects_a_dead_endpoint() {
    let (address, _seen) = server(vec![vec![Do::Nothing]]).await;
    let stream = client(&address, LONG).dial().await.unwrap();
    assert!(sockopt::tcp_nodelay(&stream).unwrap() && sockopt::socket_keepalive(&stream).unwrap());
    assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 40_000);
}

#[tokio::test]
async fn a_request_may_take_longer_than_the_kernel_waits() {
    let (address, _seen) = server(vec![vec![Do::Nothing]]).await;
    let stream = client(&address, Duration::from_secs(13 * 24 * 3600)).dial().await.unwrap();
    assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), i32::MAX as u32);
}

/// Collects a body, up to a maximum number of bytes.
struct Collected(Vec<u8>, usize);

impl BodyReader for Collected {
    fn read(&mut self, bytes: &[u8]) -> bool {
        self.0.extend_from_slice(bytes);
        self.0.len() < self.1
    }
}

#[tokio::test]
async fn a_reader_gets_the_whole_body_and_learns_whether_it_was_cut() {
    let long = format!("HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n{}", "x".repeat(300_000));
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\ncut";
    let endless = b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n";
    let script = vec![
        vec![Do::Say(long.leak().as_bytes()), Do::Say(OK), Do::Say(cut)],
        vec![Do::Endless(endless)],
    ];
    let (address, _seen) = server(script).await;
    let mut client = client(&address, LONG);
    let mut results = Vec::new();
    for _ in 0..4 {
        let mut body = Collected(Vec::new(), 1_000_000);
        let response = client.send_and_read(&outgoing(&[b"a"]), Some(&mut body)).await.unwrap();
        results.push((response.is_complete, response.body.len(), body.0.len()));
    }
    let (last, first) = (results.pop().unwrap(), results);
    assert_eq!(first, [(true, RESPONSE_BYTES_MAX, 300_000), (true, 0, 0), (false, 3, 3)]);
    assert!(!last.0 && last.2 >= 1_000_000, "a reader may stop: {last:?}");
}
