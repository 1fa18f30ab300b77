//! A client of the API of a running agent, over its control socket or TCP.

use crate::cli::USAGE;
use crate::logging::escaped;
use crate::output::{MESSAGE_BYTES_MAX, print_error};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use millstream_config::{self as config, Registry};
use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;
use std::fs;
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// How long a request may take: as long as the agent serves a connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a response that lasts ends early. The time is that after which an agent closes a connection
/// that takes no data.
pub const ENDED: &str =
    "the agent ended the connection: it stopped, or this command read nothing for 30 s";

/// Which agent is meant: that of a configuration, or one at a place.
#[derive(clap::Args)]
pub struct AgentArgs {
    /// Configuration file or folder; repeatable
    /// [default: ./millstream.yaml, then /etc/millstream/millstream.yaml]
    #[arg(
        short,
        long = "config",
        value_name = "FILE|DIR",
        conflicts_with_all = ["data_dir", "url"]
    )]
    config: Vec<PathBuf>,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Where an agent answers that is found without its configuration.
#[derive(clap::Args)]
pub struct PlaceArgs {
    /// The agent's data_dir, instead of that in the configuration
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Address of the agent's API, such as http://127.0.0.1:7878, instead of its control socket
    #[arg(long, value_name = "URL", conflicts_with = "data_dir")]
    url: Option<String>,
    /// Token for the API, which is in the file `token` of its data_dir
    #[arg(long, requires = "url", conflicts_with = "token_file")]
    token: Option<String>,
    /// File with the token
    #[arg(long, value_name = "FILE", requires = "url")]
    token_file: Option<PathBuf>,
}

/// Where an agent answers.
#[derive(Debug)]
enum Place {
    DataDir(PathBuf),
    Tcp { authority: String, token: String },
}

/// A client of one agent.
#[derive(Debug)]
pub struct Client {
    place: Place,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum ClientError {
    /// No agent runs in this data folder.
    NotRunning(PathBuf),
    /// The agent refuses the request.
    Refused(StatusCode, String),
    /// The request failed, as the message says.
    Failed(String),
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let message = match self {
            ClientError::NotRunning(data_dir) => {
                format!("no agent runs with data_dir {}", data_dir.display())
            }
            ClientError::Refused(status, message) => {
                format!("the agent answers {}: {message}", status.as_u16())
            }
            ClientError::Failed(message) => message.clone(),
        };
        // It may quote what a server has answered.
        f.write_str(&escaped(message, MESSAGE_BYTES_MAX))
    }
}

impl std::error::Error for ClientError {}

impl AgentArgs {
    /// Returns a client; or the exit status after an error, which is printed.
    pub fn client(&self) -> Result<Client, u8> {
        match self.place.client()? {
            Some(client) => Ok(client),
            None => Ok(Client::of_data_dir(self.data_dir()?)),
        }
    }

    /// Returns the data folder of the configuration. Its components are not built: operators would have
    /// to be compiled.
    fn data_dir(&self) -> Result<PathBuf, u8> {
        let env = |name: &str| std::env::var(name).ok();
        let loaded = config::load(&self.config, &Registry, &env);
        loaded.map(|config| config.globals.data_dir).map_err(|faults| {
            faults.iter().for_each(print_error);
            USAGE
        })
    }
}

impl PlaceArgs {
    /// Returns a client of the agent at the place, if one is given; or the exit status after an
    /// error, which is printed.
    pub fn client(&self) -> Result<Option<Client>, u8> {
        if let Some(data_dir) = &self.data_dir {
            return Ok(Some(Client::of_data_dir(data_dir.clone())));
        }
        let Some(url) = &self.url else { return Ok(None) };
        let place = self.tcp(url).map_err(|message| {
            print_error(message);
            USAGE
        })?;
        Ok(Some(Client { place }))
    }

    fn tcp(&self, url: &str) -> Result<Place, String> {
        let authority = authority(url)?;
        let token = match (&self.token, &self.token_file) {
            (Some(token), _) => token.clone(),
            (None, Some(path)) => fs::read_to_string(path)
                .map_err(|error| format!("--token-file {}: {error}", path.display()))?,
            (None, None) => {
                let text = "--url: the API needs a token; add --token-file DATA_DIR/token";
                return Err(text.to_owned());
            }
        };
        Ok(Place::Tcp { authority, token: token.trim().to_owned() })
    }
}

/// Returns host and port of a URL.
fn authority(url: &str) -> Result<String, String> {
    let wrong = || format!("--url: {url:?} is not a URL; write for example http://127.0.0.1:7878");
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let has_path = !matches!(uri.path(), "" | "/") || uri.query().is_some();
    let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http") && !has_path);
    let authority = authority.ok_or_else(wrong)?;
    let port = authority.port_u16().ok_or_else(wrong)?;
    Ok(format!("{}:{port}", authority.host()))
}

impl Client {
    /// Returns a client of the agent with a data folder.
    pub fn of_data_dir(data_dir: PathBuf) -> Client {
        Client { place: Place::DataDir(data_dir) }
    }

    /// Returns the agent's data folder, if it is known.
    pub fn data_dir(&self) -> Option<&Path> {
        match &self.place {
            Place::DataDir(data_dir) => Some(data_dir),
            Place::Tcp { .. } => None,
        }
    }

    /// Returns the token, if the agent is asked over TCP.
    pub fn token(&self) -> Option<&str> {
        match &self.place {
            Place::DataDir(_) => None,
            Place::Tcp { token, .. } => Some(token),
        }
    }

    /// Returns the process of the agent, if it answers at its control socket.
    pub fn pid(&self) -> Option<Pid> {
        let data_dir = self.data_dir()?;
        let folder = reach(data_dir).ok()?;
        let path = format!("/proc/self/fd/{}/control.sock", folder.as_raw_fd());
        let stream = std::os::unix::net::UnixStream::connect(path).ok()?;
        rustix::net::sockopt::socket_peercred(&stream).ok().map(|peer| peer.pid)
    }

    /// Sends a request; returns the body of the response.
    ///
    /// # Errors
    ///
    /// No agent runs there, it refuses the request, or the request fails.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Bytes, ClientError> {
        let slow = |_| failure(path, format_args!("no answer for {REQUEST_TIMEOUT:?}"));
        timeout(REQUEST_TIMEOUT, self.exchange(method, path, body)).await.map_err(slow)?
    }

    /// Gets a response that lasts; passes each piece of its body to `take` until that breaks. An agent
    /// that runs sends one every ten seconds.
    ///
    /// # Errors
    ///
    /// No agent runs there, it refuses the request, or the connection fails.
    pub async fn stream(
        &self,
        path: &str,
        mut take: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ClientError> {
        let slow = |_| failure(path, format_args!("no answer for {REQUEST_TIMEOUT:?}"));
        let silent =
            |_| failure(path, format_args!("nothing from the agent for {REQUEST_TIMEOUT:?}"));
        let opened = self.open(Request::builder().method(Method::GET).uri(path));
        let (stream, request) = timeout(REQUEST_TIMEOUT, opened).await.map_err(slow)??;
        let failed = |error: hyper::Error| failure(path, error);
        let (mut sender, connection) = start(stream, path).await?;
        let exchange = async {
            let request = whole(request, path, Vec::new())?;
            let sent = sender.send_request(request);
            let response = timeout(REQUEST_TIMEOUT, sent).await.map_err(slow)?.map_err(failed)?;
            let (status, mut body) = (response.status(), response.into_body());
            if !status.is_success() {
                let body = timeout(REQUEST_TIMEOUT, body.collect()).await.map_err(slow)?;
                return Err(refusal(status, &body.map_err(failed)?.to_bytes()));
            }
            while let Some(frame) = timeout(REQUEST_TIMEOUT, body.frame()).await.map_err(silent)? {
                let frame = frame.map_err(|_| ClientError::Failed(ENDED.to_owned()))?;
                if frame.data_ref().is_some_and(|data| take(data).is_break()) {
                    break;
                }
            }
            Ok(())
        };
        // The connection makes progress only while it is polled, and ends with the exchange.
        let connected = async {
            let _ = connection.await;
            std::future::pending().await
        };
        tokio::select! { result = exchange => result, never = connected => never }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Bytes, ClientError> {
        let (stream, request) = self.open(Request::builder().method(method).uri(path)).await?;
        send(stream, request, path, body).await
    }

    /// Connects to the agent, and adds the headers that it needs to a request.
    async fn open(
        &self,
        builder: hyper::http::request::Builder,
    ) -> Result<(Box<dyn Io>, hyper::http::request::Builder), ClientError> {
        match &self.place {
            Place::DataDir(data_dir) => {
                let stream = connect(data_dir).await?;
                Ok((Box::new(stream), builder.header(HOST, "localhost")))
            }
            Place::Tcp { authority, token } => {
                let failed =
                    |error: io::Error| ClientError::Failed(format!("{authority}: {error}"));
                let stream = TcpStream::connect(authority).await.map_err(failed)?;
                // The agent knows itself by its addresses only.
                let host = stream.peer_addr().map_err(failed)?.to_string();
                let mut bearer = HeaderValue::try_from(format!("Bearer {token}"))
                    .map_err(|_| ClientError::Failed("the token is no text of a header".into()))?;
                bearer.set_sensitive(true);
                Ok((Box::new(stream), builder.header(HOST, host).header(AUTHORIZATION, bearer)))
            }
        }
    }
}

/// Opens a folder of which the files are to be reached by name: one that may not be listed, too.
fn reach(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::empty())?)
}

/// Connects to the control socket: through the open folder, because the path of a socket address is
/// short.
async fn connect(data_dir: &Path) -> Result<UnixStream, ClientError> {
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            ClientError::NotRunning(data_dir.to_owned())
        }
        _ => ClientError::Failed(format!("{}: {error}", data_dir.join("control.sock").display())),
    };
    let folder = reach(data_dir).map_err(failed)?;
    let path = format!("/proc/self/fd/{}/control.sock", folder.as_raw_fd());
    UnixStream::connect(path).await.map_err(failed)
}

/// A connection of either kind.
trait Io: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// A connection that sends requests, and what makes it progress.
type Started =
    (http1::SendRequest<Full<Bytes>>, http1::Connection<TokioIo<Box<dyn Io>>, Full<Bytes>>);

async fn start(stream: Box<dyn Io>, path: &str) -> Result<Started, ClientError> {
    http1::handshake(TokioIo::new(stream)).await.map_err(|error| failure(path, error))
}

/// Returns a request with its body.
fn whole(
    request: hyper::http::request::Builder,
    path: &str,
    body: Vec<u8>,
) -> Result<Request<Full<Bytes>>, ClientError> {
    let request = request.body(Full::new(Bytes::from(body)));
    request.map_err(|error| failure(path, error))
}

async fn send(
    stream: Box<dyn Io>,
    request: hyper::http::request::Builder,
    path: &str,
    body: Vec<u8>,
) -> Result<Bytes, ClientError> {
    let failed = |error: hyper::Error| failure(path, error);
    let request = whole(request, path, body)?;
    let (mut sender, connection) = start(stream, path).await?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(failed)?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(failed)?.to_bytes();
        if status.is_success() { Ok(body) } else { Err(refusal(status, &body)) }
    };
    // The connection makes progress only while it is polled; its errors are those of the exchange.
    let (result, _) = tokio::join!(exchange, connection);
    result
}

/// Describes why a request failed, without its parameters, which may be long.
fn failure(path: &str, error: impl std::fmt::Display) -> ClientError {
    let route = path.split_once('?').map_or(path, |(route, _)| route);
    ClientError::Failed(format!("{route}: {error}"))
}

/// Returns the error in the body of a response.
fn refusal(status: StatusCode, body: &[u8]) -> ClientError {
    let parsed: Result<serde_json::Value, _> = serde_json::from_slice(body);
    let message = parsed.ok().and_then(|json| Some(json["error"].as_str()?.to_owned()));
    let message = message.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    ClientError::Refused(status, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_and_a_port() {
        for (url, expected) in [
            ("http://127.0.0.1:7878", "127.0.0.1:7878"),
            ("http://[::1]:7878/", "[::1]:7878"),
            ("http://host.example:1", "host.example:1"),
        ] {
            assert_eq!(authority(url).unwrap(), expected);
        }
        for url in
            ["", "127.0.0.1:7878", "http://h", "https://h:1", "http://h:1/api", "http://h:1?a"]
        {
            let error = authority(url).unwrap_err();
            assert!(error.ends_with("write for example http://127.0.0.1:7878"), "{error}");
        }
    }

    #[test]
    fn the_message_of_a_refusal_is_that_of_the_agent() {
        let text = |body: &str| refusal(StatusCode::CONFLICT, body.as_bytes()).to_string();
        assert_eq!(text(r#"{"error": "it is off"}"#), "the agent answers 409: it is off");
        assert_eq!(text("<html>"), "the agent answers 409: <html>");
        assert_eq!(text("a\u{1b}[2J\nb"), "the agent answers 409: a\\u{1b}[2J\\nb");
    }
}
