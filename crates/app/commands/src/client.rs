//! A client for a running agent's API, over its control socket or TCP.

use crate::exit::USAGE;
use crate::output::{MESSAGE_BYTES_MAX, print_error};
use crate::text::escaped;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use millstream_config::{self as config, Registry};
use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// Maximum time for a request: how long the agent serves a connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum response size in bytes. A response may contain the state of thousands of files and
/// rules.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// Maximum size in bytes of an agent's recording or profile: the largest `recorder.size`, and the
/// data in addition to the events.
const DOWNLOAD_BYTES_MAX: usize = (1 << 30) + (64 << 20);

/// Maximum size, in bytes, of a response that contains an error.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// Maximum size, in bytes, of a file with a token.
const TOKEN_BYTES_MAX: u64 = 4 << 10;

/// Reason for the early end of a lasting response. The time is the time after which an agent closes
/// a connection whose client reads nothing.
pub const ENDED: &str =
    "the agent closed the connection because it stopped or this command read nothing for 30 s";

/// The agent to use: the agent of a configuration, or one at a place.
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

/// The location of an agent that is found without its configuration.
#[derive(clap::Args)]
pub struct PlaceArgs {
    /// The agent's data_dir, instead of the data_dir in the configuration
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Address of the agent's API, such as http://127.0.0.1:7878, instead of its control socket
    #[arg(long, value_name = "URL", conflicts_with = "data_dir")]
    url: Option<String>,
    /// Token for the API; the agent stores it in the file `token` of its data_dir
    #[arg(long, requires = "url", conflicts_with = "token_file")]
    token: Option<String>,
    /// File with the token
    #[arg(long, value_name = "FILE", requires = "url")]
    token_file: Option<PathBuf>,
}

/// The location of an agent's API.
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

/// The reason why there is no response.
#[derive(Debug)]
pub enum ClientError {
    /// No agent is running in this data folder.
    NotRunning(PathBuf),
    /// The agent rejected the request.
    Refused(StatusCode, String),
    /// The request failed with this message.
    Failed(String),
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let message = match self {
            ClientError::NotRunning(data_dir) => {
                format!("no agent is running with data_dir {}", data_dir.display())
            }
            ClientError::Refused(status, message) => {
                format!("the agent responds {}: {message}", status.as_u16())
            }
            ClientError::Failed(message) => message.clone(),
        };
        // The message may quote the response from a server.
        f.write_str(&escaped(message, MESSAGE_BYTES_MAX))
    }
}

impl std::error::Error for ClientError {}

impl AgentArgs {
    /// Returns a client. If this fails, prints the error and returns the exit status.
    pub fn client(&self) -> Result<Client, u8> {
        match self.place.client()? {
            Some(client) => Ok(client),
            None => Ok(Client::of_data_dir(self.data_dir()?)),
        }
    }

    /// Returns the data folder of the configuration. Does not build the components, because
    /// operators would have to be compiled.
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
    /// Returns a client for the agent at the given place, or `None` without a place. If this fails,
    /// prints the error and returns the exit status.
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
            (None, Some(path)) => read_token(path)
                .map_err(|error| format!("--token-file {}: {error}", path.display()))?,
            (None, None) => {
                let text = "--url: the API needs a token; add --token-file DATA_DIR/token";
                return Err(text.to_owned());
            }
        };
        Ok(Place::Tcp { authority, token: token.trim().to_owned() })
    }
}

/// Reads a file with a token.
///
/// # Errors
///
/// Returns an error if the file cannot be read or is longer than a token.
pub fn read_token(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(TOKEN_BYTES_MAX + 1).read_to_string(&mut text)?;
    match text.len() as u64 > TOKEN_BYTES_MAX {
        true => {
            Err(io::Error::other(format!("a token can be at most {TOKEN_BYTES_MAX} bytes long")))
        }
        false => Ok(text),
    }
}

/// Returns the host and port of a URL.
fn authority(url: &str) -> Result<String, String> {
    let wrong = || format!("--url: {url:?} is not a URL; use, for example, http://127.0.0.1:7878");
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let has_path = !matches!(uri.path(), "" | "/") || uri.query().is_some();
    let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http") && !has_path);
    let authority = authority.ok_or_else(wrong)?;
    let port = authority.port_u16().ok_or_else(wrong)?;
    Ok(format!("{}:{port}", authority.host()))
}

impl Client {
    /// Returns a client for the agent that uses this data folder.
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

    /// Returns the token, if requests go over TCP.
    pub fn token(&self) -> Option<&str> {
        match &self.place {
            Place::DataDir(_) => None,
            Place::Tcp { token, .. } => Some(token),
        }
    }

    /// Returns the process of the agent, if it accepts connections on its control socket.
    pub fn pid(&self) -> Option<Pid> {
        let data_dir = self.data_dir()?;
        let folder = reach(data_dir).ok()?;
        let path = format!("/proc/self/fd/{}/control.sock", folder.as_raw_fd());
        let stream = std::os::unix::net::UnixStream::connect(path).ok()?;
        rustix::net::sockopt::socket_peercred(&stream).ok().map(|peer| peer.pid)
    }

    /// Sends a request, and returns the body of the response, at most 32 MiB.
    ///
    /// # Errors
    ///
    /// Returns an error if no agent is running at the place, it rejects the request, the response
    /// is too long, or the request fails.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Bytes, ClientError> {
        self.exchange(method, path, body, ANSWER_BYTES_MAX).await
    }

    /// Sends a request like [`Client::request`]. The response may be a recording or a profile, of
    /// at most 1088 MiB.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Client::request`].
    pub async fn download(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Bytes, ClientError> {
        self.exchange(method, path, body, DOWNLOAD_BYTES_MAX).await
    }

    /// Requests a lasting response, and passes each piece of its body to `take` until `take`
    /// breaks. A running agent sends a piece every ten seconds.
    ///
    /// # Errors
    ///
    /// Returns an error if no agent is running at the place, it rejects the request, or the
    /// connection fails.
    pub async fn stream(
        &self,
        path: &str,
        mut take: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ClientError> {
        let slow = |_| failure(path, format_args!("no response for {REQUEST_TIMEOUT:?}"));
        let silent =
            |_| failure(path, format_args!("no data from the agent for {REQUEST_TIMEOUT:?}"));
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
                let body = collect(body, ERROR_BYTES_MAX, path);
                return Err(refusal(status, &timeout(REQUEST_TIMEOUT, body).await.map_err(slow)??));
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
        bytes_max: usize,
    ) -> Result<Bytes, ClientError> {
        let slow = |_| failure(path, format_args!("no response for {REQUEST_TIMEOUT:?}"));
        let exchange = async {
            let (stream, request) = self.open(Request::builder().method(method).uri(path)).await?;
            send(stream, whole(request, path, body)?, path, bytes_max).await
        };
        timeout(REQUEST_TIMEOUT, exchange).await.map_err(slow)?
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
                // The agent accepts only its addresses as host.
                let host = stream.peer_addr().map_err(failed)?.to_string();
                let mut bearer =
                    HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
                        ClientError::Failed("the token contains invalid characters".into())
                    })?;
                bearer.set_sensitive(true);
                Ok((Box::new(stream), builder.header(HOST, host).header(AUTHORIZATION, bearer)))
            }
        }
    }
}

/// Opens a folder to reach its files by name. The folder need not be listable.
fn reach(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::empty())?)
}

/// Connects to the control socket through the open folder, because the path of a socket address
/// must be short.
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

/// A connection that sends requests, and the future that drives it.
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
    request: Request<Full<Bytes>>,
    path: &str,
    bytes_max: usize,
) -> Result<Bytes, ClientError> {
    let failed = |error: hyper::Error| failure(path, error);
    let (mut sender, connection) = start(stream, path).await?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(failed)?;
        let status = response.status();
        // The response of an agent that is not ready can be as long as a normal one, so the same
        // limit applies.
        let body = collect(response.into_body(), bytes_max, path).await?;
        if status.is_success() { Ok(body) } else { Err(refusal(status, &body)) }
    };
    // The connection makes progress only while it is polled. The exchange reports its errors, and
    // ends early if the response is too long.
    let connected = async {
        let _ = connection.await;
        std::future::pending().await
    };
    tokio::select! { result = exchange => result, never = connected => never }
}

/// Reads the body of a response.
async fn collect<B>(body: B, bytes_max: usize, path: &str) -> Result<Bytes, ClientError>
where
    B: Body<Data = Bytes, Error = hyper::Error>,
{
    match Limited::new(body, bytes_max).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let bound = bytes_max >> 10;
            Err(failure(path, format_args!("the response is larger than {bound} KiB")))
        }
        Err(error) => Err(failure(path, error)),
    }
}

/// Describes the failure of a request, without its parameters, which may be long.
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
            assert!(error.ends_with("use, for example, http://127.0.0.1:7878"), "{error}");
        }
    }

    /// Serves one request with this head and an endless body. Returns the address, and the number
    /// of bytes of the body that the client read.
    fn endless(head: &'static str) -> (String, std::thread::JoinHandle<usize>) {
        use std::io::Write;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // The client drops a response that precedes its request.
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.extend(byte);
            }
            stream.write_all(head.as_bytes()).unwrap();
            let mut taken = 0;
            while stream.write_all(&[b'x'; 1 << 16]).is_ok() {
                taken += 1 << 16;
            }
            taken
        });
        (address, server)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn an_answer_without_an_end_is_read_up_to_its_bound() {
        /// Number of bytes that both sockets may buffer.
        const BUFFERS: usize = 16 << 20;
        let client =
            |authority: String| Client { place: Place::Tcp { authority, token: "t".to_owned() } };
        for (head, bound) in [
            ("HTTP/1.1 200 OK\r\n\r\n", ANSWER_BYTES_MAX),
            ("HTTP/1.1 409 Conflict\r\ncontent-length: 999999999999\r\n\r\n", ANSWER_BYTES_MAX),
            // A head without an end.
            ("HTTP/1.1 200 OK\r\na: ", 1 << 20),
        ] {
            let (address, server) = endless(head);
            let error = client(address).request(Method::GET, "/a?b", Vec::new()).await.unwrap_err();
            assert!(error.to_string().starts_with("/a: "), "{error}");
            let taken = server.join().unwrap();
            assert!(taken <= bound + BUFFERS, "{head}: {taken} bytes");
        }
        for (head, part) in [
            ("HTTP/1.1 409 Conflict\r\n\r\n", "larger than 64 KiB"),
            // The samples are passed on as they arrive.
            ("HTTP/1.1 200 OK\r\n\r\n", ""),
        ] {
            let (address, server) = endless(head);
            let mut pieces = 0;
            let take = |_: &[u8]| {
                pieces += 1;
                if pieces < 8 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            let streamed = client(address).stream("/a", take).await;
            let text = streamed.map_or_else(|error| error.to_string(), |()| String::new());
            assert!(text.contains(part), "{text}");
            assert!(server.join().unwrap() <= BUFFERS, "{head}");
        }
    }

    #[test]
    fn a_file_that_is_longer_than_a_token_is_not_read() {
        let error = read_token(Path::new("/dev/zero")).unwrap_err();
        assert!(error.to_string().contains("at most 4096 bytes"), "{error}");
    }

    #[test]
    fn the_message_of_a_refusal_is_that_of_the_agent() {
        let text = |body: &str| refusal(StatusCode::CONFLICT, body.as_bytes()).to_string();
        assert_eq!(text(r#"{"error": "it is off"}"#), "the agent responds 409: it is off");
        assert_eq!(text("<html>"), "the agent responds 409: <html>");
        assert_eq!(text("a\u{1b}[2J\nb"), "the agent responds 409: a\\u{1b}[2J\\nb");
    }
}
