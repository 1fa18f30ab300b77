//! Checks of settings that components pass through to librdkafka.

use super::OptionValue;
use millstream_model::OptionError;
use std::collections::BTreeMap;

/// Settings that components set for every client from other options, by name.
const OF_CONNECTION: &[(&str, &str)] = &[
    ("bootstrap.servers", "brokers"),
    ("metadata.broker.list", "brokers"),
    ("security.protocol", "tls and sasl"),
    ("sasl.mechanism", "sasl.mechanism"),
    ("sasl.mechanisms", "sasl.mechanism"),
    ("sasl.username", "sasl.username"),
    ("sasl.password", "sasl.password"),
    ("ssl.ca.location", "tls.ca_file"),
    ("ssl.certificate.location", "tls.cert_file"),
    ("ssl.key.location", "tls.key_file"),
    ("ssl.key.password", "tls.key_password"),
    ("enable.ssl.certificate.verification", "tls.verify"),
    ("ssl.endpoint.identification.algorithm", "tls.verify_hostname"),
];

/// Prefixes of settings that exist only for librdkafka tests.
const REFUSED_PREFIXES: &[&str] = &["test.", "internal."];

/// Returns whether a setting makes a client connect to brokers or read a file.
pub fn is_of_connection(key: &str) -> bool {
    key == "bootstrap.servers" || key.ends_with(".location")
}

/// Returns the errors in `options`. `own` lists the settings that another option sets. Settings for
/// which `is_refused` is true would break a guarantee.
pub fn check_options(
    options: &BTreeMap<String, OptionValue>,
    own: &[(&str, &str)],
    is_refused: impl Fn(&str, &OptionValue) -> bool,
) -> Vec<OptionError> {
    let error = |key: &str, value: &OptionValue| {
        if let Some((_, own)) = OF_CONNECTION.iter().chain(own).find(|(name, _)| *name == key) {
            return Some(format!("is set by an option of this component; use `{own}`"));
        }
        if is_refused(key, value) || REFUSED_PREFIXES.iter().any(|prefix| key.starts_with(prefix)) {
            return Some("would break a guarantee of this component; remove it".into());
        }
        // The message omits the value, which may be a secret.
        let refused = millstream_kafka::check(key, &value.to_string()).err()?;
        Some(format!("is rejected by librdkafka ({refused}); see the list of librdkafka settings"))
    };
    options
        .iter()
        .filter_map(|(key, value)| Some(OptionError::new(pointer(key), error(key, value)?)))
        .collect()
}

/// Returns the JSON pointer of an option.
fn pointer(key: &str) -> String {
    format!("/options/{}", key.replace('~', "~0").replace('/', "~1"))
}
