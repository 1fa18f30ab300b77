//! A persistent HTTP/1.1 connection to one endpoint, direct or through a proxy.

mod tunnel;

use crate::body::Chunks;
use crate::proxy::{Proxy, ProxyOptions};
use crate::read_after_close::ReadAfterClose;
use crate::recorded_stream::RecordedStream;
use crate::target::Target;
use crate::tcp::{self, ConnectError, Stream};
use crate::tls::Tls;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HOST, HeaderMap, HeaderValue, PROXY_AUTHORIZATION};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

/// Maximum number of bytes to keep from a response body, which is enough for any error message. If
/// there is no [`BodyReader`] and the body is longer, the connection is closed.
pub const RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// Maximum time for receiving the response body after the head if there is no [`BodyReader`]. The
/// time is short because only the status matters.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time for a kept connection to become ready. A server may respond before it has received
/// the whole request, and may then never read the remaining bytes.
const READY_TIMEOUT: Duration = Duration::from_secs(1);

/// Advice on how to connect without TLS, for errors.
const WITHOUT_TLS: &str = "use `http://`";

/// Connection options and timeouts of a [`Client`].
#[derive(Clone)]
pub struct ClientOptions {
    /// Timeout for a request, including connecting and the response.
    pub timeout: Duration,
    /// Timeout for the name lookup, the TCP connect and the TLS handshake together.
    pub connect_timeout: Duration,
    /// TLS for `https` targets. The configuration is queried for each connection, so that renewed
    /// certificates take effect.
    pub tls: Arc<Tls>,
    /// Proxy options.
    pub proxy: ProxyOptions,
}

/// A request to send. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Method of the request.
    pub method: Method,
    /// Headers in addition to `Host` and `Content-Length`.
    pub headers: HeaderMap,
    /// The body, as a list of buffers.
    pub body: Vec<Bytes>,
}

/// A received response.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Headers of the response.
    pub headers: HeaderMap,
    /// The received part of the body, at most [`RESPONSE_BYTES_MAX`] bytes.
    pub body: Bytes,
    /// Whether the whole body was received.
    pub is_complete: bool,
}

/// Receives a response body piece by piece, so that the body may have any length.
pub trait BodyReader: Send {
    /// Takes the next bytes. Returns whether the reader wants more.
    fn read(&mut self, bytes: &[u8]) -> bool;
}

/// The error of a request that got no response. The endpoint may have processed the request
/// nevertheless.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SendError {
    /// Short name of the error kind: one of [`ConnectError::kind`], `timeout`, `broken`,
    /// `proxy_authentication`, `authorization`.
    pub kind: &'static str,
    /// The cause of the error. The message does not name the endpoint.
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

/// Sends requests to one endpoint, one request at a time.
pub struct Client {
    target: Arc<Target>,
    options: ClientOptions,
    /// The proxy; [`None`] for a direct connection, or the reason why no connection is possible.
    proxy: Result<Option<Arc<Proxy>>, String>,
    connection: Option<Connection>,
}

/// An open connection, which is closed when it is dropped.
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
    /// Creates a client that connects on first use.
    pub fn new(target: Arc<Target>, options: ClientOptions) -> Client {
        let proxy = options.proxy.choice.of(&target);
        Client { target, options, proxy, connection: None }
    }

    /// Returns the URI to which requests are sent.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Sends a request and waits for the response, regardless of its status. Dropping the future
    /// closes the connection.
    ///
    /// The endpoint may close a kept connection just as it is reused. The request is then resent
    /// over a new connection.
    ///
    /// # Errors
    ///
    /// Returns an error if the connect fails or the response times out.
    pub async fn send(&mut self, outgoing: &Outgoing) -> Result<Response, SendError> {
        self.send_and_read(outgoing, None).await
    }

    /// Sends a request like [`Client::send`], and passes the response body to the `reader` until
    /// the body ends or the request times out.
    ///
    /// # Errors
    ///
    /// Returns an error if the connect fails or the response times out. A response whose body ends
    /// early is not an error, but is marked as incomplete.
    pub async fn send_and_read(
        &mut self,
        outgoing: &Outgoing,
        reader: Option<&mut dyn BodyReader>,
    ) -> Result<Response, SendError> {
        let deadline = Instant::now() + self.options.timeout;
        let (connection, response) = self.exchange(outgoing, deadline).await?;
        let response = read(response, reader, deadline).await;
        if response.is_complete && !connection.requests.is_closed() {
            self.connection = Some(connection);
        }
        Ok(response)
    }

    /// Sends a request, over a new connection if the kept one fails. Returns the connection and the
    /// head of the response.
    async fn exchange(
        &mut self,
        outgoing: &Outgoing,
        deadline: Instant,
    ) -> Result<(Connection, hyper::Response<Incoming>), SendError> {
        if let Some(mut connection) = self.connection.take()
            && let Ok(Ok(())) = timeout(READY_TIMEOUT, connection.requests.ready()).await
        {
            match self.exchange_over(connection, outgoing, deadline).await {
                Err(error) if error.kind == "broken" => {}
                result => return result,
            }
        }
        let limit = deadline.min(Instant::now() + self.options.connect_timeout);
        let connection = timeout_at(limit, self.connect()).await;
        let connect_timeout = |_| SendError::new("unreachable", self.timed_out());
        let connection = connection.map_err(connect_timeout)??;
        self.exchange_over(connection, outgoing, deadline).await
    }

    async fn exchange_over(
        &self,
        mut connection: Connection,
        outgoing: &Outgoing,
        deadline: Instant,
    ) -> Result<(Connection, hyper::Response<Incoming>), SendError> {
        let request = self.request(outgoing)?;
        let response = timeout_at(deadline, connection.requests.send_request(request)).await;
        let response = response
            .map_err(|_| SendError::new("timeout", "response timed out"))?
            .map_err(|error| self.broken(&error))?;
        match self.forwarder() {
            Some(proxy) if response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                Err(tunnel::login_required(proxy))
            }
            _ => Ok((connection, response)),
        }
    }

    /// Returns the proxy to which requests for a target without TLS are sent; `None` if there is no
    /// proxy, or the target uses TLS.
    fn forwarder(&self) -> Option<&Proxy> {
        self.proxy.as_ref().ok()?.as_deref().filter(|_| !self.target.tls)
    }

    fn timed_out(&self) -> String {
        match &self.proxy {
            Ok(Some(proxy)) => format!("connection timed out at the proxy {proxy}"),
            _ => "connection timed out".to_owned(),
        }
    }

    /// Explains a connection error. With TLS 1.3, the rejection of a client certificate is noticed
    /// only when the response is read.
    fn broken(&self, error: &hyper::Error) -> SendError {
        let mut io_errors =
            causes(error).into_iter().filter_map(|cause| cause.downcast_ref::<io::Error>());
        match io_errors
            .find_map(|error| self.options.tls.explain(error, &self.target.host, WITHOUT_TLS))
        {
            Some(message) => SendError::new("tls", message),
            None => broken(error),
        }
    }

    fn request(&self, outgoing: &Outgoing) -> Result<Request<Chunks>, SendError> {
        let Target { authority, path, .. } = &*self.target;
        let uri = match self.forwarder() {
            Some(_) => format!("http://{authority}{path}"),
            None => path.clone(),
        };
        let builder = Request::builder().method(outgoing.method.clone()).uri(uri);
        let mut request = builder.body(Chunks::new(&outgoing.body)).map_err(|error| {
            SendError::new("broken", format!("cannot build the request: {error}"))
        })?;
        *request.headers_mut() = outgoing.headers.clone();
        let host = HeaderValue::from_str(&self.target.authority);
        let host = host.map_err(|error| SendError::new("broken", format!("host name: {error}")))?;
        request.headers_mut().insert(HOST, host);
        if let Some(login) = self.forwarder().and_then(|proxy| proxy.login.as_ref()) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, login.clone());
        }
        Ok(request)
    }

    async fn connect(&self) -> Result<Connection, SendError> {
        let proxy = self.proxy.as_ref().map_err(|error| SendError::new("address", error))?;
        let stream: Box<dyn Stream> = match proxy {
            Some(proxy) => tunnel::connect(proxy, &self.target, &self.options).await?,
            None => Box::new(ReadAfterClose::new(self.dial().await?)),
        };
        if !self.target.tls {
            return handshake(TokioIo::new(stream)).await;
        }
        let stream =
            tcp::encrypt(stream, &self.target.host, &self.options.tls, WITHOUT_TLS).await?;
        handshake(TokioIo::new(stream)).await
    }

    async fn dial(&self) -> Result<RecordedStream, ConnectError> {
        let Target { host, port, .. } = &*self.target;
        // Each request detects a dead endpoint through its own, shorter timeout. The timeout that
        // is passed to the kernel here is for idle connections.
        tcp::dial((host, *port), self.options.connect_timeout, 2 * self.options.timeout).await
    }
}

async fn handshake<S>(stream: TokioIo<S>) -> Result<Connection, SendError>
where
    TokioIo<S>: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (requests, connection) = http1::handshake(stream).await.map_err(|error| broken(&error))?;
    // A connection error is reported by the request that encounters it.
    let driver = tokio::spawn(async move { drop(connection.await) });
    Ok(Connection { requests, driver })
}

/// Reads a response body. Passes it to the `reader` if there is one, and otherwise keeps its
/// beginning.
async fn read(
    response: hyper::Response<Incoming>,
    mut reader: Option<&mut dyn BodyReader>,
    deadline: Instant,
) -> Response {
    let (head, mut incoming) = response.into_parts();
    let (mut body, mut is_complete) = (BytesMut::new(), false);
    let limit = match reader {
        Some(_) => deadline,
        None => deadline.min(Instant::now() + BODY_TIMEOUT),
    };
    let reading = async {
        while let Some(frame) = incoming.frame().await {
            let Ok(frame) = frame else { return };
            let Some(data) = frame.data_ref() else { continue };
            let capacity = RESPONSE_BYTES_MAX - body.len();
            body.extend_from_slice(&data[..data.len().min(capacity)]);
            let wants_more = match &mut reader {
                Some(reader) => reader.read(data),
                None => data.len() <= capacity,
            };
            if !wants_more {
                return;
            }
        }
        is_complete = true;
    };
    // Ignore timeouts, because a response with an incomplete body still has a status.
    let _ = timeout_at(limit, reading).await;
    let (status, headers) = (head.status.as_u16(), head.headers);
    Response { status, headers, body: body.freeze(), is_complete }
}

/// Joins an error with its causes, because hyper reports them separately.
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

/// Returns the causes of an error, starting with the direct cause.
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
