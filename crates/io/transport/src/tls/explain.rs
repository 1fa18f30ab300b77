//! Explains handshake errors: whose certificate is rejected, why, and what to do.

use super::TlsFiles;
use super::pin::PinMismatch;
use super::verify::Untrusted;
use millstream_timestamps::civil;
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, OtherError};

const DAY_SECONDS: u64 = 86_400;

/// Explains an error in a TLS connection with `host`. `without_tls` says how to connect without
/// TLS.
pub fn explain(error: &Error, host: &str, files: &TlsFiles, without_tls: &str) -> String {
    match error {
        Error::InvalidCertificate(error) => certificate(error, host, files),
        Error::AlertReceived(alert) => rejection(*alert, host, files),
        Error::InvalidMessage(_) => {
            format!("{host} does not speak TLS; check the port, or {without_tls}")
        }
        error => format!("the TLS handshake with {host} failed: {error}"),
    }
}

/// Explains why the endpoint's certificate is rejected.
fn certificate(error: &CertificateError, host: &str, files: &TlsFiles) -> String {
    use CertificateError as Invalid;
    match error {
        Invalid::Expired => {
            format!("the certificate of {host} has expired; renew it on the server")
        }
        Invalid::ExpiredContext { not_after, .. } => {
            format!(
                "the certificate of {host} expired on {}; renew it on the server",
                date(*not_after)
            )
        }
        Invalid::NotValidYet => {
            format!("the certificate of {host} is not valid yet; check the clocks of both hosts")
        }
        Invalid::NotValidYetContext { not_before, .. } => {
            format!(
                "the certificate of {host} is not valid before {}; check the clocks of both hosts",
                date(*not_before)
            )
        }
        Invalid::UnknownIssuer | Invalid::BadSignature => {
            format!("the certificate of {host} is not signed by the CA that it presents")
        }
        Invalid::NotValidForName => {
            format!("the certificate of {host} is valid only for other names; {NAME_ADVICE}")
        }
        Invalid::NotValidForNameContext { presented, .. } => {
            format!(
                "the certificate of {host} is valid only for other names: {}; {NAME_ADVICE}",
                names(presented)
            )
        }
        Invalid::Revoked => format!("the certificate of {host} has been revoked"),
        Invalid::InvalidPurpose | Invalid::InvalidPurposeContext { .. } => {
            format!("the certificate of {host} is not a server certificate")
        }
        Invalid::Other(error) => of_verifier(error, host, files),
        error => format!("the certificate of {host} cannot be verified: {error}"),
    }
}

/// Explains an error from this crate's verifier.
fn of_verifier(error: &OtherError, host: &str, files: &TlsFiles) -> String {
    if let Some(mismatch) = error.0.downcast_ref::<PinMismatch>() {
        return format!(
            "the certificate of {host} does not match `pin`: {mismatch}; if the certificate was \
             renewed, add the new fingerprint"
        );
    }
    match error.0.downcast_ref::<Untrusted>() {
        Some(untrusted) => not_trusted(untrusted, host, files),
        None => format!("the certificate of {host} cannot be verified: {error}"),
    }
}

fn not_trusted(untrusted: &Untrusted, host: &str, files: &TlsFiles) -> String {
    let Untrusted { certificate, is_authority } = untrusted;
    let store = match &files.ca_file {
        Some(path) => format!("in `ca_file` {}", path.display()),
        None => "in the system's CA store".to_owned(),
    };
    let (what, missing) = match is_authority {
        true => ("is self-signed and not", "that certificate"),
        false => ("is not signed by a CA", "the certificate that signed it"),
    };
    let remedy = match &files.ca_file {
        Some(_) => format!("add {missing} to it"),
        None => format!("set `ca_file` to {missing}"),
    };
    format!(
        "the certificate of {host}, {certificate}, {what} {store}; {remedy}, or set `pin` to \
         the fingerprint of {host}'s certificate"
    )
}

const NAME_ADVICE: &str = "use one of them in the address or set `server_name`";

/// Extracts the bare names from rustls's `DnsName("a.example")` and `IpAddress(10.0.0.1)`.
fn names(presented: &[String]) -> String {
    if presented.is_empty() {
        return "none".to_owned();
    }
    let bare =
        |name: &String| match name.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')) {
            Some((name, _)) => name.trim_matches('"').to_owned(),
            None => name.clone(),
        };
    presented.iter().map(bare).collect::<Vec<_>>().join(", ")
}

/// Explains why the endpoint rejects the handshake.
fn rejection(alert: AlertDescription, host: &str, files: &TlsFiles) -> String {
    use AlertDescription as Alert;
    let own = match &files.cert_file {
        Some(path) => format!("the agent's certificate `cert_file` {}", path.display()),
        None => {
            "a connection without a client certificate; set `cert_file` and `key_file`".to_owned()
        }
    };
    match alert {
        Alert::CertificateRequired | Alert::AccessDenied => format!("{host} rejects {own}"),
        Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateExpired
        | Alert::CertificateUnknown
        | Alert::DecryptError
        | Alert::UnknownCA => format!("{host} rejects {own} ({alert:?})"),
        Alert::HandshakeFailure if files.cert_file.is_none() => {
            format!(
                "{host} rejects the handshake; if it requires a client certificate, set \
                 `cert_file` and `key_file`"
            )
        }
        Alert::UnrecognisedName => {
            format!("{host} does not recognize the server name; set `server_name`")
        }
        alert => format!("{host} rejects TLS ({alert:?})"),
    }
}

fn date(time: UnixTime) -> String {
    let (year, month, day) = civil((time.as_secs() / DAY_SECONDS) as i64);
    format!("{year}-{month:02}-{day:02}")
}
