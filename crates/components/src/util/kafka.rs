//! Code that the `kafka` source and sink share: brokers, security, librdkafka settings.

pub mod error_type;
mod options;

pub use options::{check_options, is_of_connection};

use millstream_model::OptionError;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt;
use std::path::PathBuf;

/// TLS settings for connections to brokers.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// PEM file with trusted CA certificates. The default is the system CAs.
    pub ca_file: Option<PathBuf>,
    /// PEM file with the agent's client certificate.
    pub cert_file: Option<PathBuf>,
    /// PEM file with the client certificate's private key.
    pub key_file: Option<PathBuf>,
    /// Password of `key_file`.
    pub key_password: Option<String>,
    /// `false` accepts any broker certificate. Use it only for tests.
    #[serde(default = "yes")]
    pub verify: bool,
    /// `false` accepts a certificate for another host name. Use it if the certificates do not
    /// contain the brokers' host names.
    #[serde(default = "yes")]
    pub verify_hostname: bool,
}

fn yes() -> bool {
    true
}

/// The agent's SASL authentication.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sasl {
    /// SASL mechanism.
    pub mechanism: Mechanism,
    /// User name, for all mechanisms except `OAUTHBEARER`.
    #[serde(default)]
    pub username: Option<String>,
    /// Password, for all mechanisms except `OAUTHBEARER`.
    #[serde(default)]
    pub password: Option<String>,
    /// File with the token, for `OAUTHBEARER`. The file is reread before the token expires.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
}

/// A SASL mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Mechanism {
    /// Password in plain text. Use it only over TLS.
    #[serde(rename = "PLAIN")]
    Plain,
    /// Salted challenge-response with SHA-256.
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    /// Salted challenge-response with SHA-512.
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
    /// Bearer token. Use it only over TLS.
    #[serde(rename = "OAUTHBEARER")]
    OAuthBearer,
}

/// Value of a librdkafka setting.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OptionValue {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// Any text.
    Text(String),
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Bool(value) => value.fmt(f),
            OptionValue::Int(value) => value.fmt(f),
            OptionValue::Float(value) => value.fmt(f),
            OptionValue::Text(value) => value.fmt(f),
        }
    }
}

/// Adds the settings of a connection.
pub fn connection(
    brokers: &[String],
    tls: Option<&Tls>,
    sasl: Option<&Sasl>,
    set: &mut impl FnMut(&str, String),
) {
    set("bootstrap.servers", brokers.join(","));
    set("client.id", "millstream".into());
    set("reconnect.backoff.max.ms", "2000".into());
    set("socket.keepalive.enable", "true".into());
    let protocol = match (tls, sasl) {
        (None, None) => "plaintext",
        (Some(_), None) => "ssl",
        (None, Some(_)) => "sasl_plaintext",
        (Some(_), Some(_)) => "sasl_ssl",
    };
    set("security.protocol", protocol.into());
    tls.iter().for_each(|options| set_tls(options, set));
    sasl.iter().for_each(|options| set_sasl(options, set));
}

fn set_tls(options: &Tls, set: &mut impl FnMut(&str, String)) {
    let files = [
        ("ssl.ca.location", &options.ca_file),
        ("ssl.certificate.location", &options.cert_file),
        ("ssl.key.location", &options.key_file),
    ];
    for (key, path) in files.iter().filter_map(|(key, path)| Some((key, path.as_ref()?))) {
        set(key, path.to_string_lossy().into_owned());
    }
    if options.ca_file.is_none() && !has_configured_roots() {
        // The default folder of a statically linked OpenSSL does not exist.
        set("ssl.ca.location", "probe".into());
    }
    if let Some(password) = &options.key_password {
        set("ssl.key.password", password.clone());
    }
    if !options.verify {
        set("enable.ssl.certificate.verification", "false".into());
    }
    if !options.verify || !options.verify_hostname {
        set("ssl.endpoint.identification.algorithm", "none".into());
    }
}

/// Returns whether the environment names the certificates that OpenSSL trusts.
fn has_configured_roots() -> bool {
    ["SSL_CERT_FILE", "SSL_CERT_DIR"].iter().any(|name| std::env::var_os(name).is_some())
}

fn set_sasl(options: &Sasl, set: &mut impl FnMut(&str, String)) {
    let mechanism = match options.mechanism {
        Mechanism::Plain => "PLAIN",
        Mechanism::ScramSha256 => "SCRAM-SHA-256",
        Mechanism::ScramSha512 => "SCRAM-SHA-512",
        Mechanism::OAuthBearer => "OAUTHBEARER",
    };
    set("sasl.mechanisms", mechanism.into());
    let own = [("sasl.username", &options.username), ("sasl.password", &options.password)];
    for (key, value) in own.iter().filter_map(|(key, value)| Some((key, value.as_ref()?))) {
        set(key, value.clone());
    }
}

/// Returns the file with the client's token.
pub fn token_file(sasl: Option<&Sasl>) -> Option<PathBuf> {
    sasl.and_then(|sasl| sasl.token_file.clone())
}

/// Returns the errors in broker addresses.
pub fn check_brokers(brokers: &[String]) -> Vec<OptionError> {
    let is_address = |text: &str| {
        let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        port.is_some_and(|(_, port)| port.parse::<u16>().is_ok()) && !text.contains([',', '/', ' '])
    };
    let bad = brokers.iter().enumerate().filter(|(_, broker)| !is_address(broker));
    bad.map(|(index, _)| {
        let message = "is not an address; use host:port, one per entry";
        OptionError::new(format!("/brokers/{index}"), message)
    })
    .collect()
}

/// Returns the errors in the security options of a connection.
pub fn check_security(tls: Option<&Tls>, sasl: Option<&Sasl>) -> Vec<OptionError> {
    let mut errors = Vec::new();
    if tls.is_some_and(|tls| tls.cert_file.is_some() != tls.key_file.is_some()) {
        errors.push(OptionError::new(
            "/tls",
            "`cert_file` and `key_file` must be set together; set both",
        ));
    }
    let Some(sasl) = sasl else { return errors };
    let has_user = sasl.username.is_some() && sasl.password.is_some();
    let message = match sasl.mechanism {
        Mechanism::OAuthBearer if sasl.token_file.is_none() => {
            "OAUTHBEARER needs a `token_file`; set the path of a file that contains the token"
        }
        Mechanism::OAuthBearer if sasl.username.is_some() || sasl.password.is_some() => {
            "OAUTHBEARER logs in with the token; remove `username` and `password`"
        }
        Mechanism::OAuthBearer => return errors,
        _ if !has_user => "needs `username` and `password`; set both",
        _ if sasl.token_file.is_some() => {
            "`token_file` is for OAUTHBEARER; use `mechanism: OAUTHBEARER`, or remove it"
        }
        _ => return errors,
    };
    errors.push(OptionError::new("/sasl", message));
    errors
}

/// Returns the files that the client reads to connect, each with the JSON pointer of its option.
pub fn files(tls: Option<&Tls>, sasl: Option<&Sasl>) -> Vec<(String, PathBuf)> {
    let of_tls = |tls: &Tls| {
        [
            ("/tls/ca_file", tls.ca_file.clone()),
            ("/tls/cert_file", tls.cert_file.clone()),
            ("/tls/key_file", tls.key_file.clone()),
        ]
    };
    let of_sasl = sasl.map(|sasl| ("/sasl/token_file", sasl.token_file.clone()));
    let all = tls.into_iter().flat_map(of_tls).chain(of_sasl);
    all.filter_map(|(key, path)| Some((key.to_owned(), path?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mechanism_needs_its_credentials_and_no_others() {
        let error = |text: serde_json::Value| {
            let sasl: Sasl = serde_json::from_value(text).unwrap();
            check_security(None, Some(&sasl)).pop().map(|error| error.message())
        };
        use serde_json::json;
        let user = |mechanism: &str| {
            error(json!({ "mechanism": mechanism, "username": "a", "password": "b" }))
        };
        assert_eq!((user("PLAIN"), user("SCRAM-SHA-512")), (None, None));
        let token = json!({ "mechanism": "OAUTHBEARER", "token_file": "/token" });
        assert_eq!(error(token), None);
        assert!(user("OAUTHBEARER").unwrap().contains("token_file"));
        assert!(error(json!({ "mechanism": "PLAIN", "username": "a" })).is_some());
    }
}
