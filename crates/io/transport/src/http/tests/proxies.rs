//! Requests through a real proxy.

use super::*;
use crate::proxy::ProxyChoice;
use millstream_testkit_servers::certificates::{Authority, Validity};
use millstream_testkit_servers::http::{HttpOptions, HttpServer, Reply};
use millstream_testkit_servers::proxy::{ProxyOptions as Behavior, ProxyServer};
use std::path::PathBuf;
use tempfile::TempDir;

/// The user and password `agent:s3cret-word`, as written in a URL and as sent in a header.
const LOGIN: &str = "agent:s3cret-word@";
const HEADER: &str = "Basic YWdlbnQ6czNjcmV0LXdvcmQ=";

/// An endpoint with a certificate for `logs.example` and 127.0.0.1, and the authority that signed
/// the certificate.
struct Fixture {
    _dir: TempDir,
    ca_file: PathBuf,
    authority: Authority,
    plain: HttpServer,
    secure: HttpServer,
}

fn fixture() -> Fixture {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let ca_file = authority.write(dir.path(), "ca");
    let tls = Some(certificate(&authority).server(None));
    let reply = |_: &_| Reply::status(204);
    let secure = HttpServer::with(HttpOptions { tls, ..HttpOptions::default() }, reply);
    Fixture { _dir: dir, ca_file, authority, plain: HttpServer::start(reply), secure }
}

fn certificate(authority: &Authority) -> millstream_testkit_servers::certificates::Certificate {
    authority.issue(&["logs.example", "127.0.0.1"], Validity::Good)
}

impl Fixture {
    fn client(&self, uri: &str, proxy: &str) -> Client {
        let ca_file = Some(self.ca_file.clone());
        let options = ClientOptions {
            timeout: LONG,
            connect_timeout: LONG,
            tls: Arc::new(Tls::new(TlsFiles { ca_file: ca_file.clone(), ..TlsFiles::default() })),
            proxy: ProxyOptions::new(ProxyChoice::parse(Some(proxy)).unwrap(), ca_file),
        };
        Client::new(Arc::new(Target::parse(uri).unwrap()), options)
    }

    fn proxy(&self, behavior: Behavior) -> ProxyServer {
        ProxyServer::start(behavior)
    }
}

async fn sent(client: &mut Client, parts: &[&'static [u8]]) -> Result<u16, SendError> {
    client.send(&outgoing(parts)).await.map(|response| response.status)
}

#[tokio::test]
async fn requests_without_tls_go_to_the_proxy_in_absolute_form() {
    let fix = fixture();
    let login = Some(HEADER.to_owned());
    let proxy = fix.proxy(Behavior { login, to: Some(fix.plain.port), ..Behavior::default() });
    let mut client = fix.client("http://logs.example:81/in?k=v", &proxy.uri(LOGIN));
    for body in [b"one" as &[u8], b"two"] {
        assert_eq!(sent(&mut client, &[body]).await, Ok(204));
    }
    assert_eq!(proxy.lines(), ["POST http://logs.example:81/in?k=v HTTP/1.1"; 2]);
    let requests = fix.plain.requests();
    let bodies: Vec<String> = requests.iter().map(|request| request.text()).collect();
    assert_eq!(bodies, ["one", "two"]);
    assert_eq!(requests[0].header("host"), "logs.example:81");
    assert_eq!(requests[0].path, "/in?k=v");
}

#[tokio::test]
async fn requests_with_tls_go_through_a_tunnel() {
    let fix = fixture();
    let login = Some(HEADER.to_owned());
    let proxy = fix.proxy(Behavior { login, to: Some(fix.secure.port), ..Behavior::default() });
    let mut client = fix.client("https://logs.example/in", &proxy.uri(LOGIN));
    for body in [b"one" as &[u8], b"two"] {
        assert_eq!(sent(&mut client, &[body]).await, Ok(204));
    }
    assert_eq!(proxy.lines(), ["CONNECT logs.example:443 HTTP/1.1"], "one tunnel for both");
    let requests = fix.secure.requests();
    assert_eq!((requests.len(), requests[0].header("host")), (2, "logs.example"));
    assert_eq!(requests[0].header("proxy-authorization"), "", "it is for the proxy only");
    let mut client = fix.client("https://other.example/in", &proxy.uri(LOGIN));
    let error = sent(&mut client, &[]).await.unwrap_err();
    assert!(error.kind == "tls" && error.message.contains("other.example"), "{error:?}");
}

#[tokio::test]
async fn the_connection_to_the_proxy_may_be_encrypted() {
    let fix = fixture();
    let tls = Some(certificate(&fix.authority).server(None));
    for (uri, to) in
        [("http://logs.example/", fix.plain.port), ("https://logs.example/", fix.secure.port)]
    {
        let proxy = fix.proxy(Behavior { tls: tls.clone(), to: Some(to), ..Behavior::default() });
        assert_eq!(sent(&mut fix.client(uri, &proxy.uri("")), &[b"body"]).await, Ok(204), "{uri}");
    }
}

#[tokio::test]
async fn a_proxy_that_does_not_help_is_named() {
    let fix = fixture();
    let with = |refuses, login: Option<&str>| {
        let login = login.map(str::to_owned);
        fix.proxy(Behavior { refuses, login, ..Behavior::default() })
    };
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = format!("http://{LOGIN}{closed}");
    let (wants_login, forbids, fails) =
        (with(None, Some(HEADER)), with(Some(403), None), with(Some(503), None));
    let cases = [
        (gone, "https", "unreachable", "refused"),
        (
            wants_login.uri(""),
            "https",
            "proxy_authentication",
            "set a user and a password in `proxy`",
        ),
        (
            wants_login.uri(""),
            "http",
            "proxy_authentication",
            "set a user and a password in `proxy`",
        ),
        (wants_login.uri("a:wrong-word@"), "https", "proxy_authentication", "check the user"),
        (forbids.uri(""), "https", "authorization", "does not allow connections to logs.example:9"),
        (fails.uri(LOGIN), "https", "unreachable", "cannot connect to logs.example:9 (503"),
    ];
    for (proxy, scheme, kind, says) in cases {
        let mut client = fix.client(&format!("{scheme}://logs.example:9/"), &proxy);
        let error = sent(&mut client, &[]).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(
            error.message.contains(says) && error.message.contains("the proxy http://"),
            "{error}"
        );
        let is_shown = ["s3cret", "wrong-word"].iter().any(|word| error.message.contains(word));
        assert!(!is_shown, "{error}");
    }
    assert!(fix.plain.requests().is_empty() && fix.secure.requests().is_empty());
}

#[tokio::test]
async fn without_a_proxy_the_endpoint_is_asked_directly() {
    let fix = fixture();
    let mut client = fix.client(&fix.plain.uri("/in"), "none");
    assert_eq!(sent(&mut client, &[b"body"]).await, Ok(204));
    assert_eq!(fix.plain.requests()[0].path, "/in");
}
