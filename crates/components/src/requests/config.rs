//! Options that sinks which send requests share.

use millstream_model::{Interval, Size};
use millstream_transport::auth::{Auth, AuthOptions, is_own_header};
use millstream_transport::http::ClientOptions;
use millstream_transport::tls::{Tls, TlsFiles};
use millstream_transport::{HeaderMap, HeaderName, HeaderValue, Method, Target};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of a batch: four times what the engine lets wait for a sink, see `STILL` in the lane.
const BATCH_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How often an endpoint is asked at most that takes nothing until a person changes something.
const SLOW: Duration = Duration::from_secs(10);

/// How events are collected to requests: the first limit that is reached ends a batch.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BatchOptions {
    /// Bytes of a request before compression, at most.
    pub bytes: Size,
    /// Events of a request, at most.
    #[schemars(range(min = 1))]
    pub events: u64,
    /// How long the first event of a batch waits for others.
    pub timeout: Interval,
}

impl Default for BatchOptions {
    fn default() -> BatchOptions {
        let (bytes, timeout) = (Size(1024 * 1024), Interval(Duration::from_secs(1)));
        BatchOptions { bytes, events: 10_000, timeout }
    }
}

impl BatchOptions {
    /// Faults of the options, for a component that calls them `batch`.
    pub fn check(&self) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        if self.bytes.0 > BATCH_BYTES_MAX {
            faults.push((
                "/batch/bytes".into(),
                "is more than a batch may have; write at most 16MiB".into(),
            ));
        }
        if self.events == 0 {
            faults.push((
                "/batch/events".into(),
                "leaves no event in a request; write at least 1".into(),
            ));
        }
        faults
    }
}

/// How requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RequestOptions {
    /// How long a request may take, from the connection to the end of the answer.
    pub timeout: Interval,
    /// How long it may take to connect, TLS included.
    pub connect_timeout: Interval,
    /// Requests at once, each over a connection of its own. An origin always uses the same one, so
    /// its events stay in order.
    #[schemars(range(min = 1, max = 64))]
    pub concurrency: usize,
    /// Requests per second at most, over each of the connections, repeated ones included; no limit
    /// by default.
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
    /// Faults of the options, for a component that calls them `request`.
    pub fn check(&self) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        if !(1..=64).contains(&self.concurrency) {
            faults.push(("/request/concurrency".into(), "is out of range; write 1 to 64".into()));
        }
        if self.rate_max.is_some_and(|rate| !rate.is_finite() || rate < 0.001) {
            faults.push((
                "/request/rate_max".into(),
                "is no rate; write requests per second, such as 5".into(),
            ));
        }
        faults
    }
}

/// Where a sink with these options sends: `uri`, or several `endpoints`; and the faults of both.
pub fn targets(
    uri: Option<&str>,
    endpoints: &[String],
) -> (Vec<Arc<Target>>, Vec<(String, String)>) {
    let (mut targets, mut faults) = (Vec::new(), Vec::new());
    match (uri, endpoints) {
        (Some(_), [_, ..]) => {
            faults.push((
                "/endpoints".into(),
                "stands beside `uri`; write all addresses here".into(),
            ));
        }
        (None, []) => faults
            .push((String::new(), "needs `uri`; write for example http://host:8080/path".into())),
        _ => {}
    }
    let one = uri.map(|uri| ("/uri".to_owned(), uri));
    let several =
        endpoints.iter().enumerate().map(|(at, uri)| (format!("/endpoints/{at}"), uri.as_str()));
    for (pointer, uri) in one.into_iter().chain(several) {
        match Target::parse(uri) {
            Ok(target) => targets.push(Arc::new(target)),
            Err(error) => faults.push((pointer, error.to_string())),
        }
    }
    (targets, faults)
}

/// Everything a lane needs to know to send requests.
pub struct Settings {
    /// The endpoints, at least one.
    pub targets: Vec<Arc<Target>>,
    /// How to connect.
    pub client: ClientOptions,
    /// The method of each request.
    pub method: Method,
    /// Headers of each request.
    pub headers: HeaderMap,
    /// Logs in.
    pub auth: Option<Arc<Auth>>,
    /// How payloads are collected.
    pub batch: BatchOptions,
    /// How requests are sent.
    pub request: RequestOptions,
    /// How often an endpoint is asked at most that takes nothing until a person changes something.
    pub slow: Duration,
}

impl Settings {
    /// Settings from checked options; requests are `POST`ed until the caller says otherwise.
    pub fn new(
        targets: Vec<Arc<Target>>,
        headers: &BTreeMap<String, String>,
        auth: Option<AuthOptions>,
        tls: TlsFiles,
        (batch, request): (BatchOptions, RequestOptions),
    ) -> Settings {
        let client = ClientOptions {
            timeout: request.timeout.0,
            connect_timeout: request.connect_timeout.0,
            tls: Arc::new(Tls::new(tls)),
        };
        let header = |(name, value): (&String, &String)| {
            let mut value = HeaderValue::from_str(value).ok()?;
            // It may be a key: what an endpoint says of it is not shown.
            value.set_sensitive(true);
            Some((HeaderName::try_from(name).ok()?, value))
        };
        let mut all = HeaderMap::new();
        all.insert(
            "user-agent",
            HeaderValue::from_static(concat!("millstream/", env!("CARGO_PKG_VERSION"))),
        );
        // What the user says takes the place of the agent's own.
        for (name, value) in headers.iter().filter_map(header) {
            all.insert(name, value);
        }
        let auth = auth.map(|auth| Arc::new(auth.build()));
        Settings {
            targets,
            client,
            method: Method::POST,
            headers: all,
            auth,
            batch,
            request,
            slow: SLOW,
        }
    }
}

/// What was found in options, by JSON pointer, of a component that has these options under a key.
pub fn under<T>(key: &str, found: Vec<(String, T)>) -> impl Iterator<Item = (String, T)> {
    found.into_iter().map(move |(at, what)| (format!("/{key}{at}"), what))
}

/// The files that such options name, of a component that calls them `auth` and `tls`.
pub fn access_files(auth: Option<&AuthOptions>, tls: Option<&TlsFiles>) -> Vec<(String, PathBuf)> {
    let of_auth = auth.into_iter().flat_map(|auth| under("auth", auth.files()));
    of_auth.chain(tls.into_iter().flat_map(|tls| under("tls", tls.files()))).collect()
}

/// Faults of how a component that sends to `targets` shows who it is and encrypts; it calls these
/// options `auth` and `tls`.
pub fn check_access(
    auth: Option<&AuthOptions>,
    tls: Option<&TlsFiles>,
    targets: &[Arc<Target>],
) -> Vec<(String, String)> {
    let mut faults: Vec<_> =
        auth.into_iter().flat_map(|auth| under("auth", auth.check())).collect();
    faults.extend(tls.into_iter().flat_map(|tls| under("tls", tls.check())));
    if tls.is_some() && !targets.is_empty() && targets.iter().all(|target| !target.tls) {
        faults.push((
            "/tls".into(),
            "has no effect on http://; write https:// or leave it out".into(),
        ));
    }
    faults
}

/// Faults of the headers that a user chose, for a component that calls them `headers`.
pub fn check_headers(headers: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let fault = |(name, value): (&String, &String)| {
        let pointer = format!("/headers/{}", name.replace('~', "~0").replace('/', "~1"));
        let lower = name.to_ascii_lowercase();
        let text = match lower.as_str() {
            _ if HeaderName::try_from(name).is_err() => {
                "is no name of a header; write for example X-Tenant"
            }
            own if is_own_header(own) => "is set by the agent; leave it out",
            "authorization" => "would stand in the open; write it into `auth`",
            // The value is not shown: it may be a secret.
            _ if HeaderValue::from_str(value).is_err() => {
                "has a value that no header can have; write one line"
            }
            _ => return None,
        };
        Some((pointer, text.to_owned()))
    };
    headers.iter().filter_map(fault).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_the_user_takes_the_place_of_the_agents_own() {
        let of = |headers: &[(&str, &str)]| {
            let headers =
                headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let settings = Settings::new(
                Vec::new(),
                &headers.collect(),
                None,
                TlsFiles::default(),
                Default::default(),
            );
            let agents = settings.headers.get_all("user-agent").iter();
            agents.map(|agent| agent.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert!(of(&[])[0].starts_with("millstream/"));
        assert_eq!(of(&[("User-Agent", "mine"), ("X-Tenant", "a")]), ["mine"]);
    }
}
