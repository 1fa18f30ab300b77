//! Answers scrapes over HTTP, within bounds.

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
use millstream_transport::tcp::watch_peer;
use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;

/// Connections at a time; more wait to be accepted. A few scrapers keep one each.
const CONNECTIONS_MAX: usize = 32;
/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Time between the beginning of a connection, or the end of an answer, and the end of the next
/// request's head. Longer than between two scrapes, so that a scraper keeps its connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(150);
/// Time from a request to the next one, in which the answer is read. Prometheus gives up after ten
/// seconds.
const ANSWER_TIMEOUT: Duration = HEAD_TIMEOUT;
/// How long a scraper may acknowledge nothing, or take nothing, of what it was sent.
const SILENCE: Duration = Duration::from_secs(30);
/// Pause after a failed accept, which would fail again at once when file descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// A body: text in pieces, or a line.
type Body = http_body_util::combinators::BoxBody<Bytes, io::Error>;

/// Serves the series.
pub struct Server {
    series: Arc<Series>,
    auth: Option<Arc<Auth>>,
    /// How long a connection lasts after a request began: the answer has to be read until then.
    answer_timeout: Duration,
}

impl Server {
    /// A server that lets in who shows this.
    pub fn new(series: Arc<Series>, auth: Option<Arc<Auth>>) -> Server {
        Server { series, auth, answer_timeout: ANSWER_TIMEOUT }
    }

    /// Serves until this is dropped.
    pub async fn run(self, listener: TcpListener) {
        let (server, mut connections) = (Arc::new(self), JoinSet::new());
        loop {
            tokio::select! {
                accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                    Ok((stream, _)) => drop(connections.spawn(server.clone().serve(stream))),
                    Err(error) => {
                        log::warn!("prometheus_exporter: connection not accepted: {error}");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) {
        watch_peer(&stream, SILENCE);
        let (server, asked) = (&self, &Notify::new());
        let service = service_fn(|request: Request<Incoming>| async move {
            asked.notify_one();
            Ok::<_, Infallible>(server.answer(&request).await)
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
                    return log::debug!("prometheus_exporter: connection of a scraper ended {error}");
                }
                () = asked.notified() => {}
                () = sleep(self.answer_timeout) => {
                    return log::debug!("prometheus_exporter: a scraper is idle or reads slowly: cut off");
                }
            }
        }
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<Body> {
        if let Some(refusal) = self.check(request.headers()).await {
            return refusal;
        }
        match (request.uri().path(), request.method()) {
            ("/metrics", &Method::GET | &Method::HEAD) => self.metrics(request),
            ("/metrics", _) => with(
                line(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered"),
                ALLOW,
                "GET, HEAD",
            ),
            _ => line(StatusCode::NOT_FOUND, "nothing here; metrics are at /metrics"),
        }
    }

    /// An answer to who does not show what is asked for.
    async fn check(&self, headers: &HeaderMap) -> Option<Response<Body>> {
        let auth = self.auth.clone()?;
        let challenge = challenge(&auth);
        // It may be in a file.
        let wanted = spawn_blocking(move || {
            let header = auth.header().map(|(name, value)| (name.to_owned(), value));
            header.map_err(|error| error.to_string())
        });
        match wanted.await.unwrap_or_else(|error| Err(error.to_string())) {
            Ok((name, value)) => {
                let shown = headers.get(name).map_or(&b""[..], |value| value.as_bytes());
                let refusal = line(StatusCode::UNAUTHORIZED, "who are you?");
                let refusal = with(refusal, WWW_AUTHENTICATE, challenge);
                (!is_same(shown, value.as_bytes())).then_some(refusal)
            }
            Err(text) => {
                log::warn!("prometheus_exporter: {text}");
                Some(line(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the secret cannot be read; see the agent's log",
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
        let format = TextFormat::of_accept(&header(ACCEPT));
        let zipped = takes_gzip(&header(ACCEPT_ENCODING));
        let body = match *request.method() {
            Method::HEAD => full(""),
            _ => TextBody::new(Text::new(self.series.clone(), format, zipped)).boxed(),
        };
        let response = with(Response::new(body), CONTENT_TYPE, format.content_type());
        if zipped { with(response, CONTENT_ENCODING, "gzip") } else { response }
    }
}

/// What a scraper is told to log in with.
fn challenge(auth: &Auth) -> &'static str {
    match auth {
        Auth::Basic { .. } => "Basic realm=\"metrics\"",
        Auth::Bearer { .. } => "Bearer realm=\"metrics\"",
        // There is no standard name for it.
        Auth::Header { .. } => "Header realm=\"metrics\"",
    }
}

/// Whether two texts are the same; how long it takes does not say where they differ.
fn is_same(shown: &[u8], wanted: &[u8]) -> bool {
    let differ = shown.iter().zip(wanted).fold(0, |differ, (a, b)| differ | (a ^ b));
    shown.len() == wanted.len() && differ == 0
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
    use crate::prometheus::now_ms;
    use crate::prometheus::{encoded, rows_of};
    use millstream_encodings::metric::{Kind, Metric, Temporality, Value};
    use millstream_encodings::prometheus::{Distributions, LabelRules, Options};
    use millstream_transport::auth::Secret;
    use std::sync::atomic::Ordering;
    use tokio::io::AsyncWriteExt;
    use tokio::time::timeout;

    #[test]
    fn gzip_is_taken_if_it_is_asked_for() {
        assert!(takes_gzip("gzip") && takes_gzip("deflate, gzip;q=0.8"));
        assert!(!takes_gzip("") && !takes_gzip("deflate") && !takes_gzip("gzip;q=0"));
    }

    #[test]
    fn a_scraper_is_told_what_to_log_in_with() {
        let secret = || Secret::given("word");
        assert!(challenge(&Auth::Bearer { token: secret() }).starts_with("Bearer "));
        assert!(
            challenge(&Auth::Basic { user: "a".into(), password: secret() }).starts_with("Basic ")
        );
    }

    /// Series whose text is larger than what sockets hold.
    fn much() -> Arc<Series> {
        let distributions = Distributions::Native;
        let rules = LabelRules {
            constant: vec![],
            host_label: None,
            counter_suffix: true,
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
        rows.rows().iter().for_each(|row| series.lock().add((rows, row, &text), now_ms()).unwrap());
        series
    }

    #[tokio::test]
    async fn a_scraper_that_does_not_read_is_cut_off() {
        let series = much();
        let server = Server {
            answer_timeout: Duration::from_millis(300),
            ..Server::new(series.clone(), None)
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut scraper = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        scraper.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let served = Arc::new(server).serve(listener.accept().await.unwrap().0);
        timeout(Duration::from_secs(20), served).await.expect("the connection ends");
        let waited = timeout(Duration::from_secs(20), async {
            while series.scrapes.load(Ordering::SeqCst) > 0 {
                sleep(Duration::from_millis(10)).await;
            }
        });
        waited.await.expect("series may be forgotten again");
    }

    #[test]
    fn texts_are_the_same_or_not() {
        assert!(is_same(b"abc", b"abc"));
        assert!(!is_same(b"abc", b"abd") && !is_same(b"", b"a") && !is_same(b"abcd", b"abc"));
    }
}
