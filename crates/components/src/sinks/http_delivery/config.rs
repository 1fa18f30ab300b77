//! Options shared by the sinks that send requests.

use millstream_model::{Interval, OptionError, Size};
use millstream_transport::auth::{Auth, AuthOptions, is_reserved_header};
use millstream_transport::http::ClientOptions;
use millstream_transport::proxy::{ProxyChoice, ProxyOptions};
use millstream_transport::tls::{Tls, TlsFiles};
use millstream_transport::{HeaderMap, HeaderName, HeaderValue, Method, Target};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Largest configurable batch, in bytes. This is four times the largest default buffer. A batch
/// that exceeds the buffer never fills up.
const BATCH_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Longest pause between attempts against an endpoint that rejects every request until an operator
/// intervenes.
const SLOW_RETRY: Duration = Duration::from_secs(10);

/// Limits on the events in a request. The first limit that is reached ends the batch.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BatchOptions {
    /// Maximum size of a request in bytes, before compression; at most 16MiB. Reduce it for an
    /// endpoint with a smaller limit.
    pub bytes: Size,
    /// Maximum number of events in a request. Reduce it for an endpoint with a smaller limit.
    #[schemars(range(min = 1))]
    pub events: u64,
    /// Maximum time that the first event in a batch waits for more events. A shorter time reduces
    /// latency but results in more requests.
    pub timeout: Interval,
}

impl Default for BatchOptions {
    fn default() -> BatchOptions {
        let (bytes, timeout) = (Size(1024 * 1024), Interval(Duration::from_secs(1)));
        BatchOptions { bytes, events: 10_000, timeout }
    }
}

impl BatchOptions {
    /// Returns the errors in these options, under the component's `batch` option.
    pub fn check(&self) -> Vec<OptionError> {
        let mut errors = Vec::new();
        let mut error = |key: &str, message: &str| errors.push(OptionError::new(key, message));
        if self.bytes.0 > BATCH_BYTES_MAX {
            error("/batch/bytes", "exceeds the largest possible batch; use at most 16MiB");
        }
        if self.events == 0 {
            error("/batch/events", "must allow at least one event per request; use at least 1");
        }
        errors
    }
}

/// Timeouts and limits for requests.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RequestOptions {
    /// Maximum time for a request, from connecting to the end of the response. Raise it for an
    /// endpoint that responds slowly.
    pub timeout: Interval,
    /// Maximum time for connecting, including TLS.
    pub connect_timeout: Interval,
    /// Number of concurrent requests, 1 to 64, each over a separate connection. Each origin always
    /// uses the same connection, so its events stay in order. Raise it for an endpoint with a long
    /// round-trip time. The `prometheus_remote_write` sink supports only 1.
    #[schemars(range(min = 1, max = 64))]
    pub concurrency: usize,
    /// Maximum number of requests per second over each connection, including retries. The default
    /// is unlimited. Set it for an endpoint that limits the rate.
    #[schemars(range(min = 0.001))]
    pub rate_max: Option<f64>,
}

impl Default for RequestOptions {
    fn default() -> RequestOptions {
        RequestOptions {
            timeout: Interval(Duration::from_secs(30)),
            connect_timeout: Interval(Duration::from_secs(10)),
            concurrency: 1,
            rate_max: None,
        }
    }
}

impl RequestOptions {
    /// Returns the errors in these options, under the component's `request` option.
    pub fn check(&self) -> Vec<OptionError> {
        let mut errors = Vec::new();
        let mut error = |key: &str, message: &str| errors.push(OptionError::new(key, message));
        if !(1..=64).contains(&self.concurrency) {
            error("/request/concurrency", "is out of range; use 1 to 64");
        }
        if self.rate_max.is_some_and(|rate| !rate.is_finite() || rate < 0.001) {
            error("/request/rate_max", "is not a rate; use requests per second, such as 5");
        }
        errors
    }
}

/// Parses the targets of a sink with the `uri` and `endpoints` options. Returns the targets and the
/// errors in both options.
pub fn targets(uri: Option<&str>, endpoints: &[String]) -> (Vec<Arc<Target>>, Vec<OptionError>) {
    let (mut targets, mut errors) = (Vec::new(), Vec::new());
    match (uri, endpoints) {
        (Some(_), [_, ..]) => {
            errors.push(OptionError::new(
                "/endpoints",
                "conflicts with `uri`; list all addresses here",
            ));
        }
        (None, []) => errors.push(OptionError::new(
            String::new(),
            "`uri` is missing; use, for example, http://host:8080/path",
        )),
        _ => {}
    }
    let one = uri.map(|uri| ("/uri".to_owned(), uri));
    let several =
        endpoints.iter().enumerate().map(|(at, uri)| (format!("/endpoints/{at}"), uri.as_str()));
    for (pointer, uri) in one.into_iter().chain(several) {
        match Target::parse(uri) {
            Ok(target) => targets.push(Arc::new(target)),
            Err(error) => errors.push(OptionError::new(pointer, error.to_string())),
        }
    }
    (targets, errors)
}

/// The settings that a lane needs to send requests.
pub struct Settings {
    /// The endpoints, at least one.
    pub targets: Vec<Arc<Target>>,
    /// The connection settings.
    pub client: ClientOptions,
    /// The method of each request.
    pub method: Method,
    /// Headers for each request.
    pub headers: HeaderMap,
    /// Authentication.
    pub auth: Option<Arc<Auth>>,
    /// The limits on a batch.
    pub batch: BatchOptions,
    /// The timeouts and limits for requests.
    pub request: RequestOptions,
    /// Longest pause between attempts against an endpoint that rejects every request until an
    /// operator intervenes.
    pub slow_retry: Duration,
}

impl Settings {
    /// Builds settings from checked options. The method is `POST`; the caller can change it.
    pub fn new(
        targets: Vec<Arc<Target>>,
        access: Access<'_>,
        batch: BatchOptions,
        request: RequestOptions,
    ) -> Settings {
        let tls = access.tls.clone().unwrap_or_default();
        let proxy = ProxyOptions::new(access.proxy_choice(), tls.ca_file.clone());
        let client = ClientOptions {
            timeout: request.timeout.0,
            connect_timeout: request.connect_timeout.0,
            tls: Arc::new(Tls::new(tls)),
            proxy,
        };
        let header = |(name, value): (&String, &String)| {
            let mut value = HeaderValue::from_str(value).ok()?;
            // The value may be a secret, so keep it out of logs.
            value.set_sensitive(true);
            Some((HeaderName::try_from(name).ok()?, value))
        };
        let mut all = HeaderMap::new();
        all.insert(
            "user-agent",
            HeaderValue::from_static(concat!("millstream/", env!("CARGO_PKG_VERSION"))),
        );
        // Configured headers replace the headers that the agent sets.
        for (name, value) in access.headers.iter().filter_map(header) {
            all.insert(name, value);
        }
        let auth = access.auth.clone().map(|auth| Arc::new(auth.build()));
        Settings {
            targets,
            client,
            method: Method::POST,
            headers: all,
            auth,
            batch,
            request,
            slow_retry: SLOW_RETRY,
        }
    }
}

/// Options with which a sink accesses its endpoints.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    /// Additional headers for each request.
    pub headers: &'a BTreeMap<String, String>,
    /// The agent's credentials.
    pub auth: &'a Option<AuthOptions>,
    /// TLS settings for `https` addresses.
    pub tls: &'a Option<TlsFiles>,
    /// The HTTP proxy, or `none`; by default, environment variables name the proxy.
    pub proxy: &'a Option<String>,
}

impl Access<'_> {
    /// Returns the errors in the options of a sink that sends to `targets`.
    pub fn check(&self, targets: &[Arc<Target>]) -> Vec<OptionError> {
        let mut errors = check_headers(self.headers);
        errors.extend(self.auth.iter().flat_map(|auth| under("auth", auth.check())));
        errors.extend(self.tls.iter().flat_map(|tls| under("tls", tls.check())));
        if self.tls.is_some() && !targets.is_empty() && targets.iter().all(|target| !target.tls) {
            errors.push(OptionError::new(
                "/tls",
                "has no effect with http://; use https:// or remove it",
            ));
        }
        errors.extend(self.check_proxy(targets));
        errors
    }

    /// Returns the error in the `proxy` option, or in the environment variables that name a proxy.
    fn check_proxy(&self, targets: &[Arc<Target>]) -> Option<OptionError> {
        let choice = match ProxyChoice::parse(self.proxy.as_deref()) {
            Ok(choice) => choice,
            Err(text) => return Some(OptionError::new("/proxy", text)),
        };
        let unusable = targets.iter().find_map(|target| choice.of(target).err());
        unusable.map(|text| OptionError::new("", text))
    }

    /// Returns the files that contain secrets and certificates, each with the JSON pointer of its
    /// option.
    pub fn files(&self) -> Vec<(String, PathBuf)> {
        access_files(self.auth.as_ref(), self.tls.as_ref())
    }

    /// Describes the proxies that the sink uses for its targets, for operators.
    pub fn proxies(&self, targets: &[Arc<Target>]) -> Vec<String> {
        let choice = self.proxy_choice();
        let describe = |target: &Arc<Target>| {
            let proxy = choice.of(target).ok()??;
            Some(format!("{target} through the proxy {proxy} ({})", proxy.named_by))
        };
        targets.iter().filter_map(describe).collect()
    }

    /// Parses the `proxy` option. An invalid option, which `check` reports, has no effect.
    fn proxy_choice(&self) -> ProxyChoice {
        ProxyChoice::parse(self.proxy.as_deref()).unwrap_or_default()
    }
}

/// Adds `key` to the JSON pointers of errors, for a component whose options are under `key`.
pub fn under(key: &str, errors: Vec<OptionError>) -> impl Iterator<Item = OptionError> {
    errors.into_iter().map(move |error| error.below(&format!("/{key}")))
}

/// Returns the files named by the `auth` and `tls` options.
pub fn access_files(auth: Option<&AuthOptions>, tls: Option<&TlsFiles>) -> Vec<(String, PathBuf)> {
    let of_auth = auth.map(AuthOptions::files).unwrap_or_default();
    let of_tls = tls.map(TlsFiles::files).unwrap_or_default();
    let of_auth = of_auth.into_iter().map(|(at, path)| (format!("/auth{at}"), path));
    let of_tls = of_tls.into_iter().map(|(at, path)| (format!("/tls{at}"), path));
    of_auth.chain(of_tls).collect()
}

/// Returns the errors in configured headers, under the component's `headers` option.
fn check_headers(headers: &BTreeMap<String, String>) -> Vec<OptionError> {
    let error = |(name, value): (&String, &String)| {
        let pointer = format!("/headers/{}", name.replace('~', "~0").replace('/', "~1"));
        let lower = name.to_ascii_lowercase();
        let text = match lower.as_str() {
            _ if HeaderName::try_from(name).is_err() => {
                "is not a valid header name; use, for example, X-Tenant"
            }
            own if is_reserved_header(own) => "is set by the agent; remove it",
            "authorization" => "would expose the credentials; use `auth`",
            // The message omits the value, which may be a secret.
            _ if HeaderValue::from_str(value).is_err() => "has an invalid value; use a single line",
            _ => return None,
        };
        Some(OptionError::new(pointer, text))
    };
    headers.iter().filter_map(error).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_checked_and_described_without_their_login() {
        let target = Arc::new(Target::parse("https://logs.example/in?key=1").unwrap());
        let targets = [target];
        let check = |proxy: &str| {
            let proxy = Some(proxy.to_owned());
            let access =
                Access { headers: &BTreeMap::new(), auth: &None, tls: &None, proxy: &proxy };
            (access.check(&targets), access.proxies(&targets))
        };
        let (errors, proxies) = check("http://me:pass-word-1@proxy:3128");
        assert_eq!(errors, []);
        let expected =
            "https://logs.example/in through the proxy http://REDACTED@proxy:3128 (`proxy`)";
        assert_eq!(proxies, [expected]);
        assert!(check("none").1.is_empty());
        let (errors, _) = check("proxy:3128");
        assert_eq!(errors[0].pointer, "/proxy");
    }

    #[test]
    fn a_configured_header_replaces_the_agents_own() {
        let agents = |headers: &[(&str, &str)]| {
            let headers =
                headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let access =
                Access { headers: &headers.collect(), auth: &None, tls: &None, proxy: &None };
            let settings = Settings::new(
                Vec::new(),
                access,
                BatchOptions::default(),
                RequestOptions::default(),
            );
            let agents = settings.headers.get_all("user-agent").iter();
            agents.map(|agent| agent.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert!(agents(&[])[0].starts_with("millstream/"));
        assert_eq!(agents(&[("User-Agent", "mine"), ("X-Tenant", "a")]), ["mine"]);
    }
}
