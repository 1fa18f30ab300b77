//! Errors of a handshake in words: whose certificate, what is wrong with it, what to do.

use super::TlsFiles;
use millstream_timestamps::civil;
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error};

const DAY_SECONDS: u64 = 86_400;

/// What `error` of a connection to `host` means.
pub fn explain(error: &Error, host: &str, files: &TlsFiles) -> String {
    match error {
        Error::InvalidCertificate(fault) => certificate(fault, host, files),
        Error::AlertReceived(alert) => refusal(*alert, host, files),
        Error::InvalidMessage(_) => {
            format!("{host} does not speak TLS; check the port, or remove `tls`")
        }
        error => format!("TLS with {host}: {error}"),
    }
}

/// What is wrong with the endpoint's certificate.
fn certificate(fault: &CertificateError, host: &str, files: &TlsFiles) -> String {
    use CertificateError as Fault;
    match fault {
        Fault::Expired => {
            format!("the certificate of {host} has expired; renew it there")
        }
        Fault::ExpiredContext { not_after, .. } => {
            format!("the certificate of {host} has expired on {}; renew it there", date(*not_after))
        }
        Fault::NotValidYet => {
            format!("the certificate of {host} is not valid yet; check both clocks")
        }
        Fault::NotValidYetContext { not_before, .. } => {
            format!(
                "the certificate of {host} is valid only from {} on; check both clocks",
                date(*not_before)
            )
        }
        Fault::UnknownIssuer | Fault::BadSignature => unknown_issuer(host, files),
        Fault::NotValidForName => {
            format!("the certificate of {host} is for other names; {NAME_ADVICE}")
        }
        Fault::NotValidForNameContext { presented, .. } => {
            format!(
                "the certificate of {host} is for other names: {}; {NAME_ADVICE}",
                names(presented)
            )
        }
        Fault::Revoked => format!("the certificate of {host} has been revoked"),
        Fault::InvalidPurpose | Fault::InvalidPurposeContext { .. } => {
            format!("the certificate of {host} is not a server certificate")
        }
        Fault::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            format!(
                "the certificate of {host} is a CA certificate; the server needs one signed by it"
            )
        }
        fault => format!("the certificate of {host} cannot be verified: {fault}"),
    }
}

fn unknown_issuer(host: &str, files: &TlsFiles) -> String {
    let (of, advice) = match &files.ca_file {
        Some(path) => {
            (format!("in `ca_file` {}", path.display()), "add the certificate that signed it")
        }
        None => ("of the system".to_owned(), "set its CA as `ca_file`"),
    };
    format!("the certificate of {host} is not signed by a CA {of}; {advice}")
}

const NAME_ADVICE: &str = "write one of them in the address or set `server_name`";

/// Names as rustls shows them, `DnsName("a.example")` or `IpAddress(10.0.0.1)`, without what is
/// around them.
fn names(presented: &[String]) -> String {
    if presented.is_empty() {
        return "none at all".to_owned();
    }
    let bare =
        |name: &String| match name.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')) {
            Some((name, _)) => name.trim_matches('"').to_owned(),
            None => name.clone(),
        };
    presented.iter().map(bare).collect::<Vec<_>>().join(", ")
}

/// Why the endpoint ends the handshake.
fn refusal(alert: AlertDescription, host: &str, files: &TlsFiles) -> String {
    use AlertDescription as Alert;
    let own = match &files.cert_file {
        Some(path) => format!("the agent's certificate `cert_file` {}", path.display()),
        None => {
            "a connection without a client certificate; set `cert_file` and `key_file`".to_owned()
        }
    };
    match alert {
        Alert::CertificateRequired | Alert::AccessDenied => format!("{host} refuses {own}"),
        Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateExpired
        | Alert::CertificateUnknown
        | Alert::DecryptError
        | Alert::UnknownCA => format!("{host} refuses {own} ({alert:?})"),
        Alert::HandshakeFailure if files.cert_file.is_none() => {
            format!(
                "{host} refuses the handshake; it may require a client certificate: set `cert_file` and `key_file`"
            )
        }
        Alert::UnrecognisedName => {
            format!("{host} does not know this server name; set `server_name`")
        }
        alert => format!("{host} refuses TLS ({alert:?})"),
    }
}

fn date(time: UnixTime) -> String {
    let (year, month, day) = civil((time.as_secs() / DAY_SECONDS) as i64);
    format!("{year}-{month:02}-{day:02}")
}
