//! HTTP proxies, and the choice of the proxy for a target through options or environment variables.

mod exceptions;

use crate::auth::base64;
use crate::target::Target;
use crate::tls::{Tls, TlsFiles};
use exceptions::Exceptions;
use hyper::header::HeaderValue;
use millstream_model::secrets::{self, MASK, Origin};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

/// An HTTP proxy.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Address of the proxy.
    pub target: Target,
    /// Value of the `Proxy-Authorization` header, which is a secret; `None` if the proxy needs no
    /// login.
    pub login: Option<HeaderValue>,
    /// Name of the option or variable that contains the address.
    pub named_by: &'static str,
}

/// Shows the address without user and password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Target { tls, authority, .. } = &self.target;
        let scheme = if *tls { "https" } else { "http" };
        let login = if self.login.is_some() { format!("{MASK}@") } else { String::new() };
        write!(f, "{scheme}://{login}{authority}")
    }
}

/// Advice about the syntax of a proxy address, for errors.
const EXAMPLE: &str = "use, for example, http://proxy.example:3128";

impl Proxy {
    /// Parses a proxy address: an `http` or `https` URL, optionally with user and password. Without
    /// a scheme, `http` is assumed. The password becomes one of the process's secrets.
    ///
    /// # Errors
    /// Returns an error if the address is invalid. The message does not contain the address.
    pub fn parse(text: &str, named_by: &'static str) -> Result<Proxy, String> {
        let (scheme, rest) = text.trim().split_once("://").unwrap_or(("http", text.trim()));
        let scheme = scheme.to_ascii_lowercase();
        if scheme != "http" && scheme != "https" {
            return Err(format!("is not the address of an HTTP proxy; {EXAMPLE}"));
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (login, address) = match rest.rsplit_once('@') {
            Some((login, address)) => (Some(basic(login)), address),
            None => (None, rest),
        };
        if address.contains(['/', '?', '#']) {
            return Err(format!("has a path or unescaped characters in its password; {EXAMPLE}"));
        }
        let target = Target::parse(&format!("{scheme}://{address}"))
            .map_err(|_| format!("is not the address of a proxy; {EXAMPLE}"))?;
        Ok(Proxy { target, login, named_by })
    }
}

/// Returns the header value for a user and a password, which are percent-encoded as in a URL.
fn basic(login: &str) -> HeaderValue {
    let decoded = |text: &str| secrets::percent_decoded(text).unwrap_or(text.to_owned());
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let password = decoded(password);
    let pair = base64(format!("{}:{password}", decoded(user)).as_bytes());
    secrets::remember(Origin::Configuration, [login, &password, &pair]);
    let header = HeaderValue::from_str(&format!("Basic {pair}"));
    let mut header = header.unwrap_or(HeaderValue::from_static("Basic"));
    header.set_sensitive(true);
    header
}

/// How a connection's proxy is chosen.
#[derive(Clone, Debug, Default)]
pub enum ProxyChoice {
    /// Use the environment variables.
    #[default]
    Environment,
    /// Use no proxy.
    Direct,
    /// Always use this proxy.
    Always(Arc<Proxy>),
}

impl ProxyChoice {
    /// Parses the `proxy` option: an address, `none`, or no value.
    pub fn parse(option: Option<&str>) -> Result<ProxyChoice, String> {
        match option {
            None => Ok(ProxyChoice::Environment),
            Some("none") => Ok(ProxyChoice::Direct),
            Some(text) if !text.contains("://") => {
                Err(format!("is not an address; {EXAMPLE}, or none"))
            }
            Some(text) => Ok(ProxyChoice::Always(Arc::new(Proxy::parse(text, "`proxy`")?))),
        }
    }

    /// Returns the proxy for a target; [`None`] for a direct connection.
    ///
    /// # Errors
    /// Returns an error if the environment variable that determines the proxy is unusable.
    pub fn of(&self, target: &Target) -> Result<Option<Arc<Proxy>>, String> {
        static ENVIRONMENT: LazyLock<Environment> =
            LazyLock::new(|| Environment::read(&|name| std::env::var(name).ok()));
        match self {
            ProxyChoice::Environment => ENVIRONMENT.of(target),
            ProxyChoice::Direct => Ok(None),
            ProxyChoice::Always(proxy) => Ok(Some(proxy.clone())),
        }
    }
}

/// How proxies are chosen and trusted.
#[derive(Clone)]
pub struct ProxyOptions {
    /// How the proxy is chosen.
    pub choice: ProxyChoice,
    /// TLS for proxies with an `https` address.
    pub tls: Arc<Tls>,
}

impl ProxyOptions {
    /// Creates proxy options. A proxy is trusted if an authority in `ca_file` has signed its
    /// certificate. The default authorities are those of the system.
    pub fn new(choice: ProxyChoice, ca_file: Option<PathBuf>) -> ProxyOptions {
        let tls = Tls::new(TlsFiles { ca_file, ..TlsFiles::default() });
        ProxyOptions { choice, tls: Arc::new(tls) }
    }
}

/// The proxy settings in the environment variables.
struct Environment {
    http: Variable,
    https: Variable,
    exceptions: Result<Exceptions, String>,
}

/// The proxy in a variable; [`None`] if the variable is not set. The error is the reason why the
/// variable is unusable.
type Variable = Result<Option<Arc<Proxy>>, String>;

impl Environment {
    /// Reads the variables. Uppercase variables take precedence. An empty variable is treated as
    /// absent.
    fn read(lookup: &dyn Fn(&str) -> Option<String>) -> Environment {
        let text = |name: &str| lookup(name).filter(|text| !text.trim().is_empty());
        let either = |name: &str| text(name).or_else(|| text(&name.to_ascii_lowercase()));
        let proxy = |name: &'static str| {
            let text = either(name)?;
            let error = |error| format!("the variable {name} {error}; or set `proxy: none`");
            Some(Proxy::parse(&text, name).map_err(error).map(Arc::new))
        };
        let variable = |name| proxy(name).or_else(|| proxy("ALL_PROXY")).transpose();
        Environment {
            http: variable("HTTP_PROXY"),
            https: variable("HTTPS_PROXY"),
            exceptions: Exceptions::parse(&either("NO_PROXY").unwrap_or_default()),
        }
    }

    fn of(&self, target: &Target) -> Variable {
        if is_loopback(&target.host) {
            return Ok(None);
        }
        let variable = if target.tls { &self.https } else { &self.http };
        let Some(proxy) = variable.clone()? else { return Ok(None) };
        let exceptions = self.exceptions.as_ref().map_err(Clone::clone)?;
        Ok((!exceptions.has(target)).then_some(proxy))
    }
}

/// Returns whether a host is a loopback address or name, which a proxy cannot reach.
fn is_loopback(host: &str) -> bool {
    let is_address = |address: IpAddr| address.to_canonical().is_loopback();
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_address)
}

#[cfg(test)]
mod tests;
