//! Serves scrapes over HTTP, within limits.

use super::Series;
use super::text::{Text, TextBody};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue, WWW_AUTHENTICATE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use millstream_encodings::prometheus::TextFormat;
use millstream_transport::auth::Auth;
use millstream_transport::recorded_stream::RecordedStream;
use millstream_transport::tcp::watch_peer;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;

/// Maximum number of connections; more wait to be accepted. A few scrapers keep one connection
/// each.
const CONNECTIONS_MAX: usize = 32;
/// Maximum size of a request's head in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Maximum time from the start of a connection, or the end of a response, to the end of the next
/// request's head. It is longer than a scrape interval, so that a scraper keeps its connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(150);
/// Maximum time from one request to the next, in which the response must be read. Prometheus times
/// out after ten seconds.
const RESPONSE_TIMEOUT: Duration = HEAD_TIMEOUT;
/// Maximum time that a scraper may acknowledge no sent bytes, or keep its receive window closed.
const SILENCE: Duration = Duration::from_secs(30);
/// Pause after a failed accept. Without it, accept would fail again immediately when file
/// descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// A response body: text in chunks, or a single line.
type Body = http_body_util::combinators::BoxBody<Bytes, io::Error>;

/// Serves the series.
pub struct Server {
    series: Arc<Series>,
    auth: Option<Arc<Auth>>,
    /// Maximum lifetime of a connection after a request starts, in which the response must be read.
    response_timeout: Duration,
}

impl Server {
    /// Creates a server that requires these credentials.
    pub fn new(series: Arc<Series>, auth: Option<Arc<Auth>>) -> Server {
        Server { series, auth, response_timeout: RESPONSE_TIMEOUT }
    }

    /// Serves until it is dropped.
    pub async fn run(self, listener: TcpListener) {
        let (server, mut connections) = (Arc::new(self), JoinSet::new());
        loop {
            tokio::select! {
                accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                    Ok((stream, address)) => drop(connections.spawn(server.clone().serve(stream, address))),
                    Err(error) => {
                       log::warn!("prometheus_exporter: cannot accept a connection: {error}");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    async fn serve(self: Arc<Self>, stream: TcpStream, address: SocketAddr) {
        watch_peer(&stream, SILENCE);
        let stream = RecordedStream::new(stream, "", address);
        let (server, request_started) = (&self, &Notify::new());
        let service = service_fn(|request: Request<Incoming>| async move {
            request_started.notify_one();
            Ok::<_, Infallible>(server.respond(&request).await)
        });
        let mut connection = pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .max_buf_size(HEAD_BYTES_MAX)
                .serve_connection(TokioIo::new(stream), service)
        );
        loop {
            tokio::select! {
                ended = &mut connection => {
                    let error = ended.err().map(|error| error.to_string()).unwrap_or_default();
                   return log::debug!("prometheus_exporter: a scraper's connection ended {error}");
                }
                () = request_started.notified() => {}
                () = sleep(self.response_timeout) => {
                   return log::debug!("prometheus_exporter: closing the connection of an idle or slow scraper");
                }
            }
        }
    }

    async fn respond(&self, request: &Request<Incoming>) -> Response<Body> {
        if let Some(refusal) = self.check(request.headers()).await {
            return refusal;
        }
        match (request.uri().path(), request.method()) {
            ("/metrics", &Method::GET | &Method::HEAD) => self.metrics(request),
            ("/metrics", _) => {
                with(line(StatusCode::METHOD_NOT_ALLOWED, "use GET"), ALLOW, "GET, HEAD")
            }
            _ => line(StatusCode::NOT_FOUND, "not found; metrics are at /metrics"),
        }
    }

    /// Returns the response to a request without valid credentials; `None` if they are valid.
    async fn check(&self, headers: &HeaderMap) -> Option<Response<Body>> {
        let auth = self.auth.clone()?;
        let challenge = challenge(&auth);
        // Reading the secret may require reading a file.
        let expected = spawn_blocking(move || {
            let header = auth.header().map(|(name, value)| (name.to_owned(), value));
            header.map_err(|error| error.to_string())
        });
        match expected.await.unwrap_or_else(|error| Err(error.to_string())) {
            Ok((name, value)) => {
                let given = headers.get(name).map_or(&b""[..], |value| value.as_bytes());
                let refusal = line(StatusCode::UNAUTHORIZED, "authentication required");
                let refusal = with(refusal, WWW_AUTHENTICATE, challenge);
                (!is_same(given, value.as_bytes())).then_some(refusal)
            }
            Err(text) => {
                log::warn!("prometheus_exporter: {text}");
                Some(line(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "cannot read the secret; see the agent's log",
                ))
            }
        }
    }

    fn metrics(&self, request: &Request<Incoming>) -> Response<Body> {
        let header = |name: HeaderName| {
            let values =
                request.headers().get_all(name).into_iter().filter_map(|value| value.to_str().ok());
            values.collect::<Vec<_>>().join(",")
        };
        let format = TextFormat::from_accept(&header(ACCEPT));
        let gzip = takes_gzip(&header(ACCEPT_ENCODING));
        let body = match *request.method() {
            Method::HEAD => full(""),
            _ => TextBody::new(Text::new(self.series.clone(), format, gzip)).boxed(),
        };
        let response = with(Response::new(body), CONTENT_TYPE, format.content_type());
        if gzip { with(response, CONTENT_ENCODING, "gzip") } else { response }
    }
}

/// Returns the authentication challenge for scrapers.
fn challenge(auth: &Auth) -> &'static str {
    match auth {
        Auth::Basic { .. } => "Basic realm=\"metrics\"",
        Auth::Bearer { .. } => "Bearer realm=\"metrics\"",
        Auth::ApiKey { .. } => "ApiKey realm=\"metrics\"",
        // No standard scheme exists for a custom header.
        Auth::Header { .. } => "Header realm=\"metrics\"",
    }
}

/// Compares two byte strings in constant time.
fn is_same(given: &[u8], expected: &[u8]) -> bool {
    let differ = given.iter().zip(expected).fold(0, |differ, (a, b)| differ | (a ^ b));
    given.len() == expected.len() && differ == 0
}

fn takes_gzip(accept: &str) -> bool {
    accept.split(',').any(|part| {
        let mut words = part.split(';').map(str::trim);
        words.next() == Some("gzip") && words.all(|word| !matches!(word, "q=0" | "q=0.0"))
    })
}

fn full(text: &'static str) -> Body {
    Full::new(Bytes::from_static(text.as_bytes())).map_err(|never| match never {}).boxed()
}

fn line(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = with(Response::new(full(text)), CONTENT_TYPE, "text/plain");
    *response.status_mut() = status;
    response
}

fn with(mut response: Response<Body>, name: HeaderName, value: &'static str) -> Response<Body> {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sinks::prometheus::now_ms;
    use crate::sinks::prometheus::{encoded, rows_of};
    use millstream_encodings::metric::{Kind, Metric, Temporality, Value};
    use millstream_encodings::prometheus::{
        Distributions, LabelRules, NameEscaping, Options, RowPlace,
    };
    use millstream_transport::auth::Secret;
    use std::sync::atomic::Ordering;
    use tokio::io::AsyncWriteExt;
    use tokio::time::timeout;

    #[test]
    fn gzip_is_used_if_accepted() {
        assert!(takes_gzip("gzip") && takes_gzip("deflate, gzip;q=0.8"));
        assert!(!takes_gzip("") && !takes_gzip("deflate") && !takes_gzip("gzip;q=0"));
    }

    #[test]
    fn the_challenge_names_the_scheme() {
        let secret = || Secret::literal("word");
        assert!(challenge(&Auth::Bearer { token: secret() }).starts_with("Bearer "));
        assert!(
            challenge(&Auth::Basic { user: "a".into(), password: secret() }).starts_with("Basic ")
        );
    }

    /// Creates series whose text exceeds the socket buffers.
    fn much() -> Arc<Series> {
        let distributions = Distributions::Native;
        let rules = LabelRules {
            constant: vec![],
            host_label: None,
            counter_suffix: true,
            escaping: NameEscaping::Underscores,
            value_bytes_max: 1 << 20,
        };
        let options = Options {
            rules,
            distributions: distributions.clone(),
            expire_seconds: 600,
            series_max: 1000,
            starts_at_zero: false,
            seed: 1,
        };
        let tags = format!(r#"{{"a":"{}"}}"#, "x".repeat(100_000));
        let names: Vec<String> = (0..300).map(|number| format!("g{number}")).collect();
        let metric = |name: &String| Metric {
            name: name.clone().leak().as_bytes(),
            tags: tags.clone().leak().as_bytes(),
            kind: Kind::Gauge,
            temporality: Temporality::None,
            value: Value::Number(1.0),
            time_ns: 0,
            interval: 0.0,
        };
        let metrics: Vec<_> = names.iter().map(metric).collect();
        let (routing, text) = encoded(&metrics, &distributions);
        let (series, routing) = (Arc::new(Series::new(options)), Some(routing));
        let rows = rows_of(&routing).unwrap();
        rows.rows().iter().for_each(|row| {
            series.exposition.lock().add(RowPlace { rows, row, text: &text }, now_ms()).unwrap();
        });
        series
    }

    #[tokio::test]
    async fn a_scraper_that_does_not_read_is_disconnected() {
        let series = much();
        let server = Server {
            response_timeout: Duration::from_millis(300),
            ..Server::new(series.clone(), None)
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut scraper = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        scraper.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let (stream, address) = listener.accept().await.unwrap();
        let served = Arc::new(server).serve(stream, address);
        timeout(Duration::from_secs(20), served).await.expect("the connection closes");
        let waited = timeout(Duration::from_secs(20), async {
            while series.scrapes.load(Ordering::SeqCst) > 0 {
                sleep(Duration::from_millis(10)).await;
            }
        });
        waited.await.expect("series can be evicted again");
    }

    #[test]
    fn texts_are_compared_in_full() {
        assert!(is_same(b"abc", b"abc"));
        assert!(!is_same(b"abc", b"abd") && !is_same(b"", b"a") && !is_same(b"abcd", b"abc"));
    }
}
