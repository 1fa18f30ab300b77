//! Connections through an HTTP proxy.

use super::{ClientOptions, SendError, WITHOUT_TLS, causes};
use crate::body::Chunks;
use crate::proxy::Proxy;
use crate::read_after_close::ReadAfterClose;
use crate::target::Target;
use crate::tcp::{self, Stream};
use hyper::client::conn::http1;
use hyper::header::{HOST, PROXY_AUTHORIZATION, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;

/// Connects to a target with TLS through a proxy. Returns the tunnel, in which the TLS handshake
/// with the target has not started yet.
pub async fn connect(
    proxy: &Proxy,
    target: &Target,
    options: &ClientOptions,
) -> Result<Box<dyn Stream>, SendError> {
    let stream = connect_to_proxy(proxy, options).await.map_err(|error| {
        let message = format!("the proxy {proxy} of {}: {}", proxy.named_by, error.message);
        SendError { message, ..error }
    })?;
    if target.tls { tunnel(stream, proxy, target).await } else { Ok(stream) }
}

async fn connect_to_proxy(
    proxy: &Proxy,
    options: &ClientOptions,
) -> Result<Box<dyn Stream>, SendError> {
    let Target { tls, host, port, .. } = &proxy.target;
    let stream = tcp::dial((host, *port), options.connect_timeout, 2 * options.timeout).await?;
    let stream = ReadAfterClose::new(stream);
    Ok(match tls {
        true => Box::new(tcp::encrypt(stream, host, &options.proxy.tls, WITHOUT_TLS).await?),
        false => Box::new(stream),
    })
}

/// Asks the proxy for a connection to the target.
async fn tunnel(
    stream: Box<dyn Stream>,
    proxy: &Proxy,
    target: &Target,
) -> Result<Box<dyn Stream>, SendError> {
    let broken = |error: &dyn std::error::Error| {
        let message = format!("the proxy {proxy} did not respond to CONNECT: {error}");
        SendError::new("broken", message)
    };
    let handshake = http1::handshake::<_, Chunks>(TokioIo::new(stream)).await;
    let (mut requests, connection) = handshake.map_err(|error| broken(&error))?;
    // The task ends when the tunnel is established, or when the connection ends.
    tokio::spawn(async move { drop(connection.with_upgrades().await) });
    let request = request(proxy, target).map_err(|error| broken(&error))?;
    let response = requests.send_request(request).await.map_err(|error| {
        let cause = causes(&error).first().map(ToString::to_string);
        broken(&std::io::Error::other(cause.unwrap_or(error.to_string())))
    })?;
    if !response.status().is_success() {
        return Err(refused(proxy, target, response.status()));
    }
    let upgraded = hyper::upgrade::on(response).await.map_err(|error| broken(&error))?;
    Ok(Box::new(TokioIo::new(upgraded)))
}

fn request(proxy: &Proxy, target: &Target) -> Result<Request<Chunks>, hyper::http::Error> {
    let Target { host, port, .. } = target;
    let authority =
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let mut request = Request::builder()
        .method(Method::CONNECT)
        .uri(&authority)
        .header(HOST, &authority)
        .header(USER_AGENT, concat!("millstream/", env!("CARGO_PKG_VERSION")));
    if let Some(login) = &proxy.login {
        request = request.header(PROXY_AUTHORIZATION, login);
    }
    request.body(Chunks::new(&[]))
}

/// Explains a proxy's refusal to connect to the target.
fn refused(proxy: &Proxy, target: &Target, status: StatusCode) -> SendError {
    match status {
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => login_required(proxy),
        StatusCode::FORBIDDEN => SendError::new(
            "authorization",
            format!(
                "the proxy {proxy} does not allow connections to {}:{} (403); allow them in the \
                 proxy, or bypass the proxy",
                target.host, target.port
            ),
        ),
        status => SendError::new(
            "unreachable",
            format!(
                "the proxy {proxy} cannot connect to {}:{} ({status})",
                target.host, target.port
            ),
        ),
    }
}

/// Explains a proxy's 407 response.
pub fn login_required(proxy: &Proxy) -> SendError {
    let advice = match proxy.login {
        Some(_) => "check the user and the password",
        None => "set a user and a password",
    };
    let message =
        format!("the proxy {proxy} requires credentials (407); {advice} in {}", proxy.named_by);
    SendError::new("proxy_authentication", message)
}
