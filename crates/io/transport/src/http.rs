//! One HTTP/1.1 connection to one endpoint, kept from request to request.

use crate::body::Chunks;
use crate::patient::Patient;
use crate::target::Target;
use crate::tcp::{self, ConnectError};
use crate::tls::Tls;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

/// Bytes of an answer that are read: enough for any message. A connection on which more comes is
/// closed.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// How long the body of an answer may take to come after its head. The status is what counts.
const BODY_TIME: Duration = Duration::from_secs(5);

/// How long a kept connection may take to be ready: an answer may come before the whole request was
/// read, and who has answered need not read the rest.
const READY_TIME: Duration = Duration::from_secs(1);

/// How a [`Client`] connects and how long it waits.
#[derive(Clone)]
pub struct ClientOptions {
    /// Longest time for a request, connecting and reading the answer included.
    pub timeout: Duration,
    /// Longest time to look up the name, connect and agree on TLS.
    pub connect_timeout: Duration,
    /// For `https`; asked at each connect, so that renewed certificates are taken up.
    pub tls: Arc<Tls>,
}

/// What is sent. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The method.
    pub method: Method,
    /// Headers beside `Host` and `Content-Length`.
    pub headers: HeaderMap,
    /// The body, in parts.
    pub body: Vec<Bytes>,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as far as it came, at most [`ANSWER_BYTES_MAX`].
    pub body: Bytes,
}

/// A request that got no answer. The endpoint may have taken it nevertheless.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SendError {
    /// Short name of the kind: one of [`ConnectError::kind`], `timeout`, `broken`.
    pub kind: &'static str,
    /// What happened, without the endpoint.
    pub message: String,
}

impl SendError {
    fn new(kind: &'static str, message: impl Into<String>) -> SendError {
        SendError { kind, message: message.into() }
    }
}

impl From<ConnectError> for SendError {
    fn from(error: ConnectError) -> SendError {
        SendError::new(error.kind(), error.to_string())
    }
}

/// Sends requests to one endpoint, one at a time.
pub struct Client {
    target: Arc<Target>,
    options: ClientOptions,
    connection: Option<Connection>,
}

/// An open connection; closed when it is dropped.
struct Connection {
    requests: SendRequest<Chunks>,
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Client {
    /// A client that connects when it is first used.
    pub fn new(target: Arc<Target>, options: ClientOptions) -> Client {
        Client { target, options, connection: None }
    }

    /// Where it sends to.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Sends a request and waits for the answer; any status is an answer. Dropped before its end,
    /// the connection is closed.
    ///
    /// A connection that was kept may have been closed by the endpoint in the same moment: then the
    /// request is sent once more over a new one.
    ///
    /// # Errors
    ///
    /// No connection, or response timed out.
    pub async fn send(&mut self, outgoing: &Outgoing) -> Result<Answer, SendError> {
        let deadline = Instant::now() + self.options.timeout;
        if let Some(mut connection) = self.connection.take()
            && let Ok(Ok(())) = timeout(READY_TIME, connection.requests.ready()).await
        {
            match self.exchange(connection, outgoing, deadline).await {
                Err(error) if error.kind == "broken" => {}
                result => return result,
            }
        }
        let limit = deadline.min(Instant::now() + self.options.connect_timeout);
        let connection = timeout_at(limit, self.connect()).await;
        let late = |_| SendError::new("unreachable", "connection timed out");
        let connection = connection.map_err(late)??;
        self.exchange(connection, outgoing, deadline).await
    }

    /// Sends a request over this connection, and keeps it if it can be used again.
    async fn exchange(
        &mut self,
        mut connection: Connection,
        outgoing: &Outgoing,
        deadline: Instant,
    ) -> Result<Answer, SendError> {
        let request = self.request(outgoing)?;
        let response = timeout_at(deadline, connection.requests.send_request(request)).await;
        let response = response
            .map_err(|_| SendError::new("timeout", "response timed out"))?
            .map_err(|error| self.broken(&error))?;
        let (answer, whole) = read(response, deadline).await;
        if whole && !connection.requests.is_closed() {
            self.connection = Some(connection);
        }
        Ok(answer)
    }

    /// What happened to a connection. With TLS 1.3 the endpoint's judgement of our certificate
    /// comes only with the answer.
    fn broken(&self, error: &hyper::Error) -> SendError {
        let mut of_tls =
            causes(error).into_iter().filter_map(|cause| cause.downcast_ref::<io::Error>());
        match of_tls.find_map(|error| self.options.tls.explain(error, &self.target.host)) {
            Some(message) => SendError::new("tls", message),
            None => broken(error),
        }
    }

    fn request(&self, outgoing: &Outgoing) -> Result<Request<Chunks>, SendError> {
        let builder =
            Request::builder().method(outgoing.method.clone()).uri(self.target.path.as_str());
        let mut request = builder.body(Chunks::new(&outgoing.body)).map_err(|error| {
            SendError::new("broken", format!("cannot build the request: {error}"))
        })?;
        *request.headers_mut() = outgoing.headers.clone();
        let host = HeaderValue::from_str(&self.target.authority);
        let host = host.map_err(|error| SendError::new("broken", format!("host name: {error}")))?;
        request.headers_mut().insert(HOST, host);
        Ok(request)
    }

    async fn connect(&self) -> Result<Connection, SendError> {
        let stream = Patient::new(self.dial().await?);
        if !self.target.tls {
            return handshake(TokioIo::new(stream)).await;
        }
        let stream = tcp::encrypt(stream, &self.target.host, &self.options.tls).await?;
        handshake(TokioIo::new(stream)).await
    }

    async fn dial(&self) -> Result<TcpStream, ConnectError> {
        let Target { host, port, .. } = &*self.target;
        // Each request notices an endpoint that is gone by its own limit, which comes first; the
        // kernel sees to connections that rest.
        tcp::dial((host, *port), self.options.connect_timeout, 2 * self.options.timeout).await
    }
}

async fn handshake<S>(stream: TokioIo<S>) -> Result<Connection, SendError>
where
    TokioIo<S>: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (requests, connection) = http1::handshake(stream).await.map_err(|error| broken(&error))?;
    // Errors of the connection come out of the request that meets them.
    let driver = tokio::spawn(async move { drop(connection.await) });
    Ok(Connection { requests, driver })
}

/// Reads the answer; whether it was whole, so that the connection can be used again.
async fn read(response: Response<Incoming>, deadline: Instant) -> (Answer, bool) {
    let (head, mut incoming) = response.into_parts();
    let (mut body, mut whole) = (BytesMut::new(), false);
    let reading = async {
        while let Some(frame) = incoming.frame().await {
            let Ok(frame) = frame else { return };
            let Some(data) = frame.data_ref() else { continue };
            let room = ANSWER_BYTES_MAX - body.len();
            body.extend_from_slice(&data[..data.len().min(room)]);
            if data.len() > room {
                return;
            }
        }
        whole = true;
    };
    // Without its end an answer still has its status.
    let _ = timeout_at(deadline.min(Instant::now() + BODY_TIME), reading).await;
    let answer =
        Answer { status: head.status.as_u16(), headers: head.headers, body: body.freeze() };
    (answer, whole)
}

/// An error with its causes, which the library keeps apart.
fn broken(error: &hyper::Error) -> SendError {
    let mut message = error.to_string();
    for cause in causes(error) {
        let text = cause.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
    }
    SendError::new("broken", message)
}

/// What is behind an error, the nearest first.
fn causes(error: &hyper::Error) -> Vec<&(dyn Error + 'static)> {
    let (mut found, mut next) = (Vec::new(), error.source());
    while let Some(cause) = next {
        found.push(cause);
        next = cause.source();
    }
    found
}

#[cfg(test)]
mod tests;
