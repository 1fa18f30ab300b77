//! Access control.
//!
//! Any web page can make a browser on this host send requests to the agent. The token stops almost
//! all of them. For routes without a token, the `Host` and `Origin` checks keep a page from reading
//! the responses through a host name that points at this host (DNS rebinding).

use crate::reply::{Reply, error};
use crate::routes;
use crate::token;
use hyper::StatusCode;
use hyper::header::{
    AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, WWW_AUTHENTICATE,
};
use std::net::IpAddr;

/// How a request arrived.
#[derive(Clone, Copy, Debug)]
pub enum Via {
    /// Over the control socket, whose file permissions have authorized the client.
    Control,
    /// Over the TCP listener.
    Network {
        /// Address of the listener.
        listen: IpAddr,
        /// Local address of the connection, which differs if the listener binds all addresses.
        local: IpAddr,
    },
}

/// Why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `Host` is missing or names another host.
    Host,
    /// The request comes from a foreign web page.
    Origin,
    /// The token is missing or wrong.
    Token,
}

impl Refusal {
    /// Returns the response to a rejected request.
    pub fn reply(self) -> Reply {
        match self {
            Refusal::Host => error(
                StatusCode::FORBIDDEN,
                "the Host header is not an address of the agent; use its IP address or localhost",
            ),
            Refusal::Origin => {
                error(StatusCode::FORBIDDEN, "the Origin header differs from the Host header")
            }
            Refusal::Token => {
                let text = "the header `Authorization: Bearer TOKEN` is missing or wrong; the \
                            token is in DATA_DIR/token";
                let mut reply = error(StatusCode::UNAUTHORIZED, text);
                reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                reply
            }
        }
    }
}

/// Checks whether a request for `path` may be served. Everything is allowed over the control
/// socket.
pub fn check(path: &str, headers: &HeaderMap, via: Via, token: &str) -> Result<(), Refusal> {
    let Via::Network { listen, local } = via else { return Ok(()) };
    let host = only(headers, &HOST).ok_or(Refusal::Host)?;
    if !is_ours(host_name(host), listen, local) {
        return Err(Refusal::Host);
    }
    if headers.contains_key(ORIGIN)
        && !only(headers, &ORIGIN).is_some_and(|origin| is_same(origin, host))
    {
        return Err(Refusal::Origin);
    }
    if routes::is_open(path)
        || only(headers, &AUTHORIZATION).is_some_and(|given| is_token(given, token))
    {
        return Ok(());
    }
    Err(Refusal::Token)
}

/// Returns the value of a header; `None` unless the header occurs exactly once and is text.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Returns the host of `host`, `host:port`, `[address]` or `[address]:port`, without brackets. The
/// port is ignored, because a tunnel changes it.
fn host_name(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    }
}

fn is_ours(host: &str, listen: IpAddr, local: IpAddr) -> bool {
    if host.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let Ok(address) = host.parse::<IpAddr>() else { return false };
    let address = address.to_canonical();
    address.is_loopback() || address == listen.to_canonical() || address == local.to_canonical()
}

/// Returns whether an origin is exactly this host and port.
fn is_same(origin: &str, host: &str) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

fn is_token(given: &str, token: &str) -> bool {
    let Some((scheme, value)) = given.split_once(' ') else { return false };
    scheme.eq_ignore_ascii_case("bearer") && token::same(value.trim().as_bytes(), token.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: &str = "127.0.0.1";

    fn checked(
        listen: &str,
        local: &str,
        path: &str,
        headers: &[(HeaderName, &str)],
    ) -> Result<(), Refusal> {
        let via = Via::Network { listen: listen.parse().unwrap(), local: local.parse().unwrap() };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        check(path, &map, via, "secret")
    }

    fn of_host(listen: &str, local: &str, host: &str) -> Result<(), Refusal> {
        checked(listen, local, "/metrics", &[(HOST, host)])
    }

    #[test]
    fn only_the_agents_addresses_are_valid_hosts() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:7878",
            "localhost",
            "LocalHost:9000",
            "[::1]:7878",
            "[::1]",
            "127.1.2.3",
        ] {
            assert_eq!(of_host(LOOPBACK, LOOPBACK, host), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example:7878",
            "10.0.0.7",
            "",
            "[",
            ":",
            "127.0.0.1.evil.example",
        ] {
            assert_eq!(of_host(LOOPBACK, LOOPBACK, host), Err(Refusal::Host), "{host}");
        }
        assert_eq!(of_host("0.0.0.0", "10.0.0.7", "10.0.0.7:7878"), Ok(()));
        assert_eq!(of_host("::", "::ffff:10.0.0.7", "10.0.0.7:7878"), Ok(()));
        assert_eq!(of_host("0.0.0.0", "10.0.0.7", "10.0.0.8:7878"), Err(Refusal::Host));
        assert_eq!(of_host("0.0.0.0", "10.0.0.7", "web-07.example:7878"), Err(Refusal::Host));
    }

    #[test]
    fn a_duplicate_host_header_is_rejected() {
        assert_eq!(checked(LOOPBACK, LOOPBACK, "/metrics", &[]), Err(Refusal::Host));
        let twice = [(HOST, "127.0.0.1"), (HOST, "127.0.0.1")];
        assert_eq!(checked(LOOPBACK, LOOPBACK, "/metrics", &twice), Err(Refusal::Host));
    }

    #[test]
    fn an_origin_header_must_match_the_host() {
        let from = |origin| {
            checked(LOOPBACK, LOOPBACK, "/metrics", &[(HOST, "localhost:7878"), (ORIGIN, origin)])
        };
        assert_eq!(from("http://localhost:7878"), Ok(()));
        for origin in [
            "http://evil.example",
            "http://localhost:9000",
            "http://localhost",
            "null",
            "",
            "localhost:7878",
        ] {
            assert_eq!(from(origin), Err(Refusal::Origin), "{origin}");
        }
    }

    #[test]
    fn every_path_except_the_open_ones_requires_the_token() {
        let ask = |path, given: &str| {
            checked(LOOPBACK, LOOPBACK, path, &[(HOST, LOOPBACK), (AUTHORIZATION, given)])
        };
        for path in ["/metrics", "/health", "/ready"] {
            assert_eq!(ask(path, ""), Ok(()), "{path}");
        }
        for path in ["/api/snapshot", "/", "/metrics/", "/nowhere", "//metrics"] {
            assert_eq!(ask(path, ""), Err(Refusal::Token), "{path}");
            assert_eq!(ask(path, "Bearer secret"), Ok(()), "{path}");
        }
        assert_eq!(ask("/api/snapshot", "bearer  secret"), Ok(()));
        for given in
            ["Bearer", "Bearer ", "Bearer wrong!", "Basic secret", "secret", "Bearer secret2"]
        {
            assert_eq!(ask("/api/snapshot", given), Err(Refusal::Token), "{given}");
        }
    }

    #[test]
    fn the_control_socket_requires_no_credentials() {
        assert_eq!(check("/api/snapshot", &HeaderMap::new(), Via::Control, "secret"), Ok(()));
    }
}
