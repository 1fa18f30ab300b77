//! The destination of requests: a validated URI.

use hyper::Uri;
use hyper::http::uri::Authority;
use std::fmt;

/// The parts of an `http` or `https` URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// Host name or address, without the brackets around an IPv6 address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Path and query, as sent.
    pub path: String,
    /// Value of the `Host` header.
    pub authority: String,
}

/// The reason why a string is not a [`Target`], and what to use instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TargetError(pub String);

impl Target {
    /// Parses a URI.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not an absolute URI, has another scheme, or contains a user
    /// and a password, which would be visible in messages.
    pub fn parse(text: &str) -> Result<Target, TargetError> {
        let error = |text: &str| Err(TargetError(text.to_owned()));
        // The error must not show the text, because the text may contain a password.
        let Ok(uri) = text.parse::<Uri>() else {
            return error("is not a URI; use, for example, http://host:8080/path");
        };
        let Some(authority) = uri.authority() else {
            return error("has no host; use, for example, http://host:8080/path");
        };
        let (tls, default_port) = match uri.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            _ => return error("has an unknown scheme; use http:// or https://"),
        };
        if authority.as_str().contains('@') {
            return error("contains a user name; move the user and the password to `auth`");
        }
        if text.contains('#') {
            return error(
                "contains a fragment, which is never sent; remove the # and the text after it",
            );
        }
        let (host, port) = host_and_port(authority, default_port).map_err(TargetError)?;
        Ok(Target { tls, host, port, path: path(&uri), authority: authority.as_str().to_owned() })
    }
}

/// Returns the path and the query. The result has a path even if the URI has none, because a
/// request line needs one.
fn path(uri: &Uri) -> String {
    let slash = if uri.path_and_query().is_some_and(|all| all.as_str().starts_with('?')) {
        "/"
    } else {
        ""
    };
    format!("{slash}{}", uri.path_and_query().map_or("/", |path| path.as_str()))
}

/// Returns the host without the brackets around an IPv6 address, and the port.
fn host_and_port(authority: &Authority, default_port: u16) -> Result<(String, u16), String> {
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    if host.is_empty() {
        return Err("has no host; use, for example, http://host:8080/path".to_owned());
    }
    let port = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
    match port.strip_prefix(':').map(str::parse::<u16>) {
        None => Ok((host, default_port)),
        Some(Ok(port)) if port > 0 => Ok((host, port)),
        Some(_) => {
            Err("has no port from 1 to 65535; use, for example, http://host:8080/path".to_owned())
        }
    }
}

/// Shows the target without the query, which may contain a key.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.split('?').next().unwrap_or_default();
        write!(f, "{}://{}{path}", if self.tls { "https" } else { "http" }, self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_uris_and_displays_them_without_the_query() {
        let target = Target::parse("https://logs.example/in/put?key=secret").unwrap();
        assert_eq!((target.tls, target.port, target.host.as_str()), (true, 443, "logs.example"));
        assert_eq!(target.path, "/in/put?key=secret");
        assert_eq!(target.to_string(), "https://logs.example/in/put");
        let target = Target::parse("http://[::1]:8080").unwrap();
        assert_eq!((target.host.as_str(), target.port, target.path.as_str()), ("::1", 8080, "/"));
        assert_eq!(target.authority, "[::1]:8080");
        let target = Target::parse("http://host?key=1").unwrap();
        assert_eq!(
            (target.path.as_str(), target.to_string().as_str()),
            ("/?key=1", "http://host/")
        );
    }

    #[test]
    fn invalid_targets_are_rejected_without_leaking_secrets() {
        for (text, advice) in [
            ("", "is not a URI"),
            ("/only/a/path", "has no host"),
            ("host:80", "has an unknown scheme"),
            ("ftp://host/x", "has an unknown scheme"),
            ("http://user:secret@host/", "to `auth`"),
            ("http://host/#part", "remove the #"),
            ("http://host:99999/", "no port"),
            ("http://[::1]:0/", "no port"),
            ("http:///x", "is not a URI"),
        ] {
            let error = Target::parse(text).unwrap_err().to_string();
            assert!(error.contains(advice) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
